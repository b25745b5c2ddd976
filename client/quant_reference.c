/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_reference.c - what kernels/quant.cu computes, in plain C.
 *
 * The same fp32 operations in the same order, so that without an epilogue the
 * bits are the same: the largest |y| by its bits, a division, a reciprocal, a
 * multiplication, one rounding to a code. With silu-mul the exponential here is
 * exact to the last places of a double, that of the kernel an approximation.
 */
#include <string.h>

#include "client/number.h"
#include "client/quant.h"

#define QUANT_INFINITY 0x7f800000u
#define QUANT_NAN      0x7fffffffu
/* Keeps 1 / scale finite. */
#define QUANT_LEAST_SCALE 0x1p-126f

#define QUANT_LOG2_E 1.4426950408889634
#define QUANT_LN_2   0.6931471805599453

static uint32_t
quant_bits(float value)
{
	uint32_t bits = 0;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static float
quant_float(uint32_t bits)
{
	float value = 0;

	memcpy(&value, &bits, sizeof value);
	return value;
}

/* e^x = 2^n * e^r with n an integer and |r| <= ln 2 / 2; Taylor's series of
 * e^r ends below 2^-60 with the 14th term. */
static double
quant_exp(double x)
{
	double term = 1, sum = 1, rest = 0;
	int n = 0;

	if (x < -700)
		return 0;
	if (x > 700)
		return (double)quant_float(QUANT_INFINITY);
	if (x != x)
		return x;
	n = (int)(x * QUANT_LOG2_E + (x < 0 ? -0.5 : 0.5));
	rest = x - n * QUANT_LN_2;
	for (int i = 1; i < 15; i++) {
		term *= rest / i;
		sum += term;
	}
	return sum * hm_number_power(n);
}

static float
quant_silu(float gate)
{
	return (float)((double)gate / (1 + quant_exp(-(double)gate)));
}

/* y of one column; x is the token's row. */
static float
quant_value(const struct hm_quant_format *format,
    const struct humming_quant_args *args, const uint16_t *x, uint32_t k)
{
	float value = (float)hm_number_decode16(format->c_type, x[k]);

	if (!format->silu_mul)
		return value;
	return quant_silu(value) *
	       (float)hm_number_decode16(format->c_type, x[args->k + k]);
}

static float
quant_scale(const struct hm_quant_format *format, uint32_t amax)
{
	float most = 127, scale = 0;

	if (format->a_type == HUMMING_TYPE_E4M3)
		most = 448;
	else if (format->a_type == HUMMING_TYPE_E5M2)
		most = 57344;
	if (amax == 0)
		return 1;
	if (amax > QUANT_INFINITY)
		return quant_float(QUANT_NAN);
	scale = quant_float(amax) / most;
	return scale < QUANT_LEAST_SCALE ? QUANT_LEAST_SCALE : scale;
}

/* Columns first to end of a token have one scale, which is returned. */
static float
quant_part(const struct hm_quant_format *format,
    const struct humming_quant_args *args, uint32_t token, uint32_t first,
    uint32_t end)
{
	const uint16_t *x =
	    (const uint16_t *)args->x + (size_t)token * args->ldx;
	uint8_t *q = (uint8_t *)args->q + (size_t)token * args->ldq;
	uint32_t amax = 0;
	float scale = 0, inverse = 0;

	for (uint32_t k = first; k < end; k++) {
		uint32_t size =
		    quant_bits(quant_value(format, args, x, k)) & 0x7fffffffu;

		amax = size > amax ? size : amax;
	}
	scale = quant_scale(format, amax);
	inverse = 1 / scale;
	for (uint32_t k = first; k < end; k++) {
		float value = quant_value(format, args, x, k) * inverse;

		q[k] = amax < QUANT_INFINITY
			   ? hm_number_encode8(format->a_type, (double)value)
			   : 0;
	}
	return scale;
}

static void
quant_token(const struct hm_quant_format *format,
    const struct humming_quant_args *args, uint32_t token)
{
	uint32_t part =
	    format->act_scale == HUMMING_ACT_GROUP ? HM_QUANT_GROUP : args->k;
	const size_t first_scale = (size_t)token * args->scale_step;

	for (uint32_t first = 0; first < args->k; first += part) {
		uint32_t end = args->k - first < part ? args->k : first + part;

		args->scale[first_scale +
			    (size_t)(first / part) * args->scale_group_step] =
		    quant_part(format, args, token, first, end);
	}
}

int
humming_quant_reference(const struct humming_kernel_request *request,
    const struct humming_quant_args *args)
{
	struct humming_quant_args checked;
	struct hm_quant_format format;
	int error = hm_quant_describe(request, &format);

	if (error == HM_OK)
		error = hm_quant_check(&format, args, &checked);
	for (uint32_t token = 0; error == HM_OK && token < checked.m; token++)
		quant_token(&format, &checked, token);
	return error;
}
