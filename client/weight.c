/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weight.c - what a caller says his quantized matrix is: checked once, here.
 *
 * What no kernel of this release reads is refused as unsupported, what can
 * never be right as invalid. Nothing below looks at a pointer before
 * hm_weight_describe_full has seen that it is there.
 */
#include "client/weight.h"

#include <stdbool.h>
#include <string.h>

#include "client/gemm_error.h"
#include "client/number.h"
#include "client/sized.h"

#define WEIGHT_MAX_CODE 15u
/* rowmul is 2^6 * P with P <= 2^121: far inside a float. */
#define WEIGHT_MAX_SCALE 120

static int
weight_check_types(const struct humming_weight_source *source)
{
	struct hm_errbuf *errbuf = hm_gemm_errbuf();

	if (source->w_type != HUMMING_TYPE_UINT(4)) {
		hm_errbuf_set(errbuf, "weights: w_type must be u4");
		return HM_E_UNSUPPORTED;
	}
	if (source->a_type != HUMMING_TYPE_BF16 &&
	    source->a_type != HUMMING_TYPE_F16) {
		hm_errbuf_set(errbuf, "weights: a_type must be bf16 or f16");
		return HM_E_UNSUPPORTED;
	}
	if (source->group != 0 && source->group != 32 && source->group != 64 &&
	    source->group != 128) {
		hm_errbuf_set(errbuf,
		    "weights: group must be 32, 64, 128 or 0 (row), not %u",
		    source->group);
		return HM_E_UNSUPPORTED;
	}
	if (source->zero != HUMMING_ZERO_NONE && source->group == 0) {
		hm_errbuf_set(errbuf, "weights: zero points need a group");
		return HM_E_UNSUPPORTED;
	}
	return HM_OK;
}

static bool
weight_is_float_type(uint32_t type)
{
	return type == HUMMING_TYPE_BF16 || type == HUMMING_TYPE_F16 ||
	       type == HUMMING_TYPE_F32;
}

static int
weight_check_form(const struct humming_weight_source *source)
{
	struct hm_errbuf *errbuf = hm_gemm_errbuf();

	if (source->n == 0 || source->k == 0 || source->n % 8 != 0 ||
	    source->k % 8 != 0 || source->n > INT32_MAX ||
	    source->k > INT32_MAX) {
		hm_errbuf_set(errbuf,
		    "weights: n = %u and k = %u must be multiples of 8, > 0",
		    source->n, source->k);
		return HM_E_INVALID;
	}
	if (source->zero > HUMMING_ZERO_FLOAT ||
	    source->code_layout > HUMMING_CODES_INT32) {
		hm_errbuf_set(errbuf, "weights: no such zero or code_layout");
		return HM_E_INVALID;
	}
	if (!weight_is_float_type(source->scale_type) ||
	    !weight_is_float_type(source->zero_type)) {
		hm_errbuf_set(errbuf,
		    "weights: scale_type and zero_type are bf16, f16 or f32");
		return HM_E_INVALID;
	}
	return HM_OK;
}

int
hm_weight_describe(const struct humming_weight_source *source,
    struct hm_weight *weight_out)
{
	struct hm_weight weight;
	int error = HM_OK;

	memset(&weight, 0, sizeof weight);
	error = hm_sized_read(&weight.source, sizeof weight.source, source);
	if (error != HM_OK) {
		hm_errbuf_set(hm_gemm_errbuf(), "weights: bad struct_size");
		return error;
	}
	source = &weight.source;
	if (source->w_type == 0)
		weight.source.w_type = HUMMING_TYPE_UINT(4);
	if (source->a_type == 0)
		weight.source.a_type = HUMMING_TYPE_BF16;
	if (source->scale_type == 0)
		weight.source.scale_type = source->a_type;
	if (source->zero_type == 0)
		weight.source.zero_type = source->a_type;
	error = weight_check_form(source);
	if (error == HM_OK)
		error = weight_check_types(source);
	if (error != HM_OK)
		return error;

	weight.group = source->group != 0 ? source->group : source->k;
	weight.n_groups = (source->k + weight.group - 1) / weight.group;
	weight.n_blocks = (source->n + HM_WEIGHT_ROWS - 1) / HM_WEIGHT_ROWS;
	weight.k_blocks =
	    (source->k + HM_WEIGHT_COLUMNS - 1) / HM_WEIGHT_COLUMNS;
	if (source->group != 0)
		weight.line_groups = HM_WEIGHT_COLUMNS / source->group;
	if (source->zero == HUMMING_ZERO_INT)
		weight.zero_line_bytes = HM_WEIGHT_ROWS;
	else if (source->zero == HUMMING_ZERO_FLOAT)
		weight.zero_line_bytes = 2 * HM_WEIGHT_ROWS;
	weight.chunk_bytes =
	    HM_WEIGHT_CODE_BYTES +
	    weight.line_groups * (2 * HM_WEIGHT_ROWS + weight.zero_line_bytes);
	weight.chunk_bytes = (weight.chunk_bytes + 127) / 128 * 128;
	*weight_out = weight;
	return HM_OK;
}

static int
weight_check_codes(const struct humming_weight_source *source)
{
	const uint8_t *codes = source->codes;
	size_t n_codes = (size_t)source->n * source->k;

	if (source->code_layout != HUMMING_CODES_BYTES)
		return HM_OK;
	for (size_t i = 0; i < n_codes; i++) {
		if (codes[i] <= WEIGHT_MAX_CODE)
			continue;
		hm_errbuf_set(hm_gemm_errbuf(),
		    "weights: code %u of row %zu, column %zu is above 15",
		    codes[i], i / source->k, i % source->k);
		return HM_E_INVALID;
	}
	return HM_OK;
}

static int
weight_check_scales(const struct hm_weight *weight)
{
	double most = hm_number_power(WEIGHT_MAX_SCALE);

	for (uint32_t n = 0; n < weight->source.n; n++) {
		for (uint32_t g = 0; g < weight->n_groups; g++) {
			double scale = hm_weight_scale(weight, n, g);

			if (scale < most && scale > -most &&
			    hm_number_is_finite(hm_weight_zero(weight, n, g)))
				continue;
			hm_errbuf_set(hm_gemm_errbuf(),
			    "weights: scale or zero point of row %u, group %u "
			    "is not finite or too large",
			    n, g);
			return HM_E_INVALID;
		}
	}
	for (uint32_t n = 0;
	     weight->source.bias != NULL && n < weight->source.n; n++) {
		if (hm_number_is_finite((double)weight->source.bias[n]))
			continue;
		hm_errbuf_set(hm_gemm_errbuf(),
		    "weights: bias of row %u is not finite", n);
		return HM_E_INVALID;
	}
	return HM_OK;
}

int
hm_weight_describe_full(const struct humming_weight_source *source,
    struct hm_weight *weight_out)
{
	struct hm_weight weight;
	int error = hm_weight_describe(source, &weight);

	if (error != HM_OK)
		return error;
	if (weight.source.codes == NULL || weight.source.scales == NULL ||
	    (weight.source.zero != HUMMING_ZERO_NONE &&
		weight.source.zeros == NULL)) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "weights: codes, scales or zeros are missing");
		return HM_E_INVALID;
	}
	error = weight_check_codes(&weight.source);
	if (error == HM_OK)
		error = weight_check_scales(&weight);
	if (error != HM_OK)
		return error;
	*weight_out = weight;
	return HM_OK;
}

uint32_t
hm_weight_code(const struct hm_weight *weight, uint32_t n, uint32_t k)
{
	const unsigned char *bytes = weight->source.codes;
	size_t index = (size_t)n * weight->source.k + k;
	uint32_t word = 0;

	if (weight->source.code_layout == HUMMING_CODES_BYTES)
		return bytes[index];
	memcpy(&word, bytes + index / 8 * sizeof word, sizeof word);
	return word >> 4 * (index % 8) & WEIGHT_MAX_CODE;
}

double
hm_weight_scale(const struct hm_weight *weight, uint32_t n, uint32_t group)
{
	return hm_number_at(weight->source.scale_type, weight->source.scales,
	    (size_t)n * weight->n_groups + group);
}

double
hm_weight_zero(const struct hm_weight *weight, uint32_t n, uint32_t group)
{
	const uint8_t *bytes = weight->source.zeros;
	size_t index = (size_t)n * weight->n_groups + group;

	if (weight->source.zero == HUMMING_ZERO_NONE)
		return 8.0;
	if (weight->source.zero == HUMMING_ZERO_INT)
		return bytes[index];
	return hm_number_at(weight->source.zero_type, bytes, index);
}
