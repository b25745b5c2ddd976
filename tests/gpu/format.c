/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format.c - types and scales: what the request calls them and what their codes
 * are worth.
 *
 * Values come from the definitions (OCP 8-bit and MX formats), by powers of
 * two, and share no line with the library's packer or the kernels.
 */
#include "format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jit/type.h"
#include "proto/request.h"

#define E4M3_MOST 448.0

bool
format_is_narrow(const struct format *format)
{
	return format->act >= HM_CONFIG_ACT_E4M3;
}

bool
format_out_is_f16(const struct format *format)
{
	return format_is_narrow(format) ? format->out == HM_CONFIG_ACT_F16
					: format->act == HM_CONFIG_ACT_F16;
}

uint32_t
format_act_bytes(const struct format *format)
{
	return format_is_narrow(format) ? 1 : 2;
}

uint32_t
format_k_step(const struct format *format)
{
	return format_is_narrow(format) ? 16 : 8;
}

uint32_t
format_a_type(const struct format *format)
{
	switch ((enum hm_config_act)format->act) {
	case HM_CONFIG_ACT_BF16:
		return HM_TYPE_BF16;
	case HM_CONFIG_ACT_F16:
		return HM_TYPE_F16;
	case HM_CONFIG_ACT_E4M3:
		return HM_TYPE_E4M3;
	case HM_CONFIG_ACT_E5M2:
		return HM_TYPE_E5M2;
	case HM_CONFIG_ACT_S8:
		return HM_TYPE_SINT(8);
	}
	return 0;
}

uint32_t
format_c_type(const struct format *format)
{
	return format_out_is_f16(format) ? HM_TYPE_F16 : HM_TYPE_BF16;
}

uint32_t
format_w_type(const struct format *format)
{
	switch ((enum hm_config_weight)format->weight) {
	case HM_CONFIG_WEIGHT_U4:
		return HM_TYPE_UINT(4);
	case HM_CONFIG_WEIGHT_U8:
		return HM_TYPE_UINT(8);
	case HM_CONFIG_WEIGHT_E2M1:
		return HM_TYPE_E2M1;
	case HM_CONFIG_WEIGHT_E4M3:
		return HM_TYPE_E4M3;
	}
	return 0;
}

uint32_t
format_scale_type(const struct format *format)
{
	if (format->group == 0 || format->scales == FORMAT_BLOCKS)
		return HM_TYPE_F32;
	return format->scale_type != 0 ? format->scale_type
				       : format_c_type(format);
}

/* ---- codes ---- */

uint32_t
format_n_codes(uint32_t weight)
{
	return weight == HM_CONFIG_WEIGHT_U4 || weight == HM_CONFIG_WEIGHT_E2M1
		   ? 16
		   : 256;
}

/* Sign, exponent, mantissa: 2^(e - bias) * 1.m, or 2^(1 - bias) * 0.m. */
static double
format_float_value(uint32_t code, uint32_t exponent_bits,
    uint32_t mantissa_bits)
{
	uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
	uint32_t exponent = code >> mantissa_bits & ((1u << exponent_bits) - 1);
	int bias = (1 << (exponent_bits - 1)) - 1;
	double value =
	    exponent != 0 ? (1u << mantissa_bits) + mantissa : mantissa;

	value = ldexp(value,
	    (exponent != 0 ? (int)exponent : 1) - bias - (int)mantissa_bits);
	return code >> (exponent_bits + mantissa_bits) != 0 ? -value : value;
}

double
format_code_value(uint32_t weight, uint32_t code)
{
	if (weight == HM_CONFIG_WEIGHT_E2M1)
		return format_float_value(code, 2, 1);
	if (weight == HM_CONFIG_WEIGHT_E4M3)
		return (code & 0x7f) == 0x7f ? (double)NAN
					     : format_float_value(code, 4, 3);
	return code;
}

double
format_code_zero(uint32_t weight)
{
	return weight == HM_CONFIG_WEIGHT_U4   ? 8
	       : weight == HM_CONFIG_WEIGHT_U8 ? 128
					       : 0;
}

uint32_t
format_encode_e4m3(double value)
{
	double size = fabs(value);
	int exponent = 0;
	uint32_t code = 0;

	if (size >= E4M3_MOST)
		return value < 0 ? 0xfe : 0x7e;
	(void)frexp(size, &exponent); /* size = [0.5, 1) * 2^exponent */
	if (size < ldexp(1, -6))
		exponent = -5; /* subnormal: steps of 2^-9 */
	/* Steps of 2^(exponent - 4); a carry moves on to the next exponent. */
	code = (uint32_t)(exponent + 5) * 8 +
	       (uint32_t)nearbyint(ldexp(size, 4 - exponent));
	return value < 0 ? code | 0x80 : code;
}

/* ---- texts ---- */

static void
format_append(char *text, size_t size, const char *more)
{
	size_t n = strlen(text);

	snprintf(text + n, size - n, "%s", more);
}

static const char *
format_type_name(uint32_t type, char name[HM_TYPE_CHARS])
{
	hm_type_print(type, name);
	return name;
}

static const char *const zero_texts[] = {"", "zp=int", "zp=float"};

void
format_spec_text(const struct format *format, uint32_t n, uint32_t k,
    char *text, size_t size)
{
	static const char *const act_texts[] = {",act=token", ",act=tensor",
	    ",act=128"};
	char a[HM_TYPE_CHARS], w[HM_TYPE_CHARS], c[HM_TYPE_CHARS];
	char item[64];

	snprintf(text, size, "gemm,a=%s,w=%s,c=%s,",
	    format_type_name(format_a_type(format), a),
	    format_type_name(format_w_type(format), w),
	    format_type_name(format_c_type(format), c));
	if (format->scales == FORMAT_TENSOR)
		snprintf(item, sizeof item, "scale=tensor");
	else if (format->scales == FORMAT_BLOCKS)
		snprintf(item, sizeof item, "block=128x128,stype=f32");
	else if (format->group == 0)
		snprintf(item, sizeof item, "scale=channel");
	else
		snprintf(item, sizeof item, "group=%u,stype=%s", format->group,
		    format_type_name(format_scale_type(format), a));
	format_append(text, size, item);
	if (format->zero != 0) {
		format_append(text, size, ",");
		format_append(text, size, zero_texts[format->zero % 3]);
	}
	if (format_is_narrow(format))
		format_append(text, size, act_texts[format->act_scales % 3]);
	if (format->mx_exact)
		format_append(text, size, ",mx=exact");
	if (format->precise)
		format_append(text, size, ",acc=precise");
	if (format->det)
		format_append(text, size, ",det=1");
	snprintf(item, sizeof item, ",n=%u,k=%u", n, k);
	format_append(text, size, item);
}

void
format_describe(const struct format *format, char *text, size_t size)
{
	static const char *const act_texts[] = {"", " act=tensor", " act=128"};
	char a[HM_TYPE_CHARS], w[HM_TYPE_CHARS], item[64] = " channel";

	snprintf(text, size, "%s %s",
	    format_type_name(format_a_type(format), a),
	    format_type_name(format_w_type(format), w));
	if (format->scales == FORMAT_TENSOR)
		snprintf(item, sizeof item, " tensor");
	else if (format->scales == FORMAT_BLOCKS)
		snprintf(item, sizeof item, " block");
	else if (format->group != 0 && format->scale_type != 0)
		snprintf(item, sizeof item, " g%u %s", format->group,
		    format_type_name(format->scale_type, a));
	else if (format->group != 0)
		snprintf(item, sizeof item, " g%u", format->group);
	format_append(text, size, item);
	if (format->zero != 0) {
		format_append(text, size, " ");
		format_append(text, size, zero_texts[format->zero % 3]);
	}
	if (format_is_narrow(format)) {
		format_append(text, size, act_texts[format->act_scales % 3]);
		format_append(text, size,
		    format_out_is_f16(format) ? " c=f16" : "");
	}
	format_append(text, size, format->mx_exact ? " mx=exact" : "");
	format_append(text, size, format->precise ? " precise" : "");
	format_append(text, size, format->det ? " det" : "");
}

/* ---- the list ---- */

/* Names short enough for a table. */
enum {
	E4 = HM_CONFIG_ACT_E4M3,
	E5 = HM_CONFIG_ACT_E5M2,
	S8 = HM_CONFIG_ACT_S8,
	U4 = HM_CONFIG_WEIGHT_U4,
	U8 = HM_CONFIG_WEIGHT_U8,
	F4 = HM_CONFIG_WEIGHT_E2M1,
	F8 = HM_CONFIG_WEIGHT_E4M3,
};

/* 16-bit activations beyond u4; each with bf16 and with f16. */
static const struct format wide_formats[] = {
    {.weight = U8},
    {.weight = U8, .group = 128},
    {.weight = U8, .group = 64},
    {.weight = U8, .group = 32},
    {.weight = F4},
    {.weight = F4, .group = 128},
    {.weight = F4, .group = 64},
    {.weight = F4, .group = 32},
    {.weight = F8},
    {.weight = F8, .group = 128},
    {.weight = F8, .group = 64},
    {.weight = F8, .group = 32},
    {.weight = U4, .group = 32, .scale_type = HM_TYPE_E8M0},
    {.weight = U8, .group = 32, .scale_type = HM_TYPE_E8M0},
    {.weight = F4, .group = 32, .scale_type = HM_TYPE_E8M0},
    {.weight = F8, .group = 32, .scale_type = HM_TYPE_E8M0},
    {.weight = F8, .group = 128, .scales = FORMAT_BLOCKS},
    {.weight = U4, .group = 128, .scales = FORMAT_BLOCKS},
    {.weight = F8, .scales = FORMAT_TENSOR},
    {.weight = U4, .group = 128, .scale_type = HM_TYPE_F32},
};

static const struct format narrow_formats[] = {
    {.act = E4, .weight = U4},
    {.act = E4, .weight = F4},
    {.act = E4, .weight = F8},
    {.act = E5, .weight = U4},
    {.act = E5, .weight = F4},
    {.act = E5, .weight = F8},
    {.act = E4, .weight = U4, .precise = true},
    {.act = E4, .weight = F4, .precise = true},
    {.act = E4, .weight = F8, .precise = true},
    {.act = E5, .weight = F8, .precise = true},
    {.act = E4, .weight = U4, .out = 1},
    {.act = E4, .weight = F8, .out = 1, .precise = true},
    {.act = E4, .weight = U4, .group = 128},
    {.act = E4, .weight = U4, .group = 64},
    {.act = E4, .weight = U4, .group = 32},
    {.act = E4, .weight = U4, .group = 128, .out = 1},
    {.act = E4, .weight = U4, .group = 128, .scale_type = HM_TYPE_F32},
    {.act = E5, .weight = U4, .group = 128},
    {.act = E4, .weight = F4, .group = 128},
    {.act = E4, .weight = F4, .group = 32},
    {.act = E4, .weight = F8, .group = 128},
    {.act = E4, .weight = F8, .group = 64, .scale_type = HM_TYPE_F32},
    {.act = E4, .weight = F4, .group = 32, .scale_type = HM_TYPE_E8M0},
    {.act = E5, .weight = F4, .group = 32, .scale_type = HM_TYPE_E8M0},
    {.act = E4,
	.weight = F4,
	.group = 32,
	.scale_type = HM_TYPE_E8M0,
	.precise = true},
    {.act = E4,
	.weight = F4,
	.group = 32,
	.scale_type = HM_TYPE_E8M0,
	.mx_exact = true},
    {.act = E4, .weight = F8, .group = 32, .scale_type = HM_TYPE_E8M0},
    {.act = E4, .weight = F8, .group = 128, .scales = FORMAT_BLOCKS},
    {.act = E4,
	.weight = F8,
	.group = 128,
	.scales = FORMAT_BLOCKS,
	.act_scales = FORMAT_ACT_GROUP},
    {.act = E5,
	.weight = F8,
	.group = 128,
	.scales = FORMAT_BLOCKS,
	.act_scales = FORMAT_ACT_GROUP},
    {.act = E4, .weight = F8, .act_scales = FORMAT_ACT_GROUP},
    {.act = E4, .weight = U4, .group = 128, .act_scales = FORMAT_ACT_GROUP},
    {.act = E4,
	.weight = F8,
	.scales = FORMAT_TENSOR,
	.act_scales = FORMAT_ACT_TENSOR},
    {.act = S8, .weight = U4},
    {.act = S8, .weight = U8},
    {.act = S8, .weight = U4, .out = 1},
    {.act = S8, .weight = U8, .out = 1},
    {.act = S8,
	.weight = U8,
	.scales = FORMAT_TENSOR,
	.act_scales = FORMAT_ACT_TENSOR},
    {.act = S8, .weight = U4, .group = 128},
    {.act = S8, .weight = U4, .group = 64},
    {.act = S8, .weight = U4, .group = 32, .scale_type = HM_TYPE_F32},
    {.act = S8, .weight = U8, .group = 128},
    {.act = S8, .weight = U4, .group = 128, .act_scales = FORMAT_ACT_GROUP},
    {.act = S8,
	.weight = U8,
	.group = 128,
	.scales = FORMAT_BLOCKS,
	.act_scales = FORMAT_ACT_GROUP},
};

#define N_WIDE   (sizeof wide_formats / sizeof wide_formats[0])
#define N_NARROW (sizeof narrow_formats / sizeof narrow_formats[0])

size_t
format_count(void)
{
	return FORMAT_N_FIRST + 2 * N_WIDE + N_NARROW;
}

struct format
format_at(size_t index)
{
	static const uint32_t groups[] = {128, 64, 32};
	struct format format = {0};
	size_t group = index / 2; /* 0: channel; 1..9: group x zero point */

	if (index >= FORMAT_N_FIRST + 2 * N_WIDE)
		return narrow_formats[index - FORMAT_N_FIRST - 2 * N_WIDE];
	if (index >= FORMAT_N_FIRST) {
		format = wide_formats[(index - FORMAT_N_FIRST) / 2];
	} else if (group > 0) {
		format.group = groups[(group - 1) % 3];
		format.zero = (uint32_t)(group - 1) / 3;
	}
	format.act = index % 2 == 0 ? HM_CONFIG_ACT_BF16 : HM_CONFIG_ACT_F16;
	return format;
}
