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

/* Scales stay below 2^120, and so far below that rowmul, which is 2^factor
 * times the power of two above them, stays a float. */
#define WEIGHT_MAX_SCALE  120
#define WEIGHT_MAX_ROWMUL 126
#define WEIGHT_BLOCK      128u
#define WEIGHT_MX_GROUP   32u

/* Our number of a type, or -1. */
static int
weight_config_act(uint32_t a_type)
{
	switch (a_type) {
	case HUMMING_TYPE_BF16:
		return HM_CONFIG_ACT_BF16;
	case HUMMING_TYPE_F16:
		return HM_CONFIG_ACT_F16;
	case HUMMING_TYPE_E4M3:
		return HM_CONFIG_ACT_E4M3;
	case HUMMING_TYPE_E5M2:
		return HM_CONFIG_ACT_E5M2;
	case HUMMING_TYPE_SINT(8):
		return HM_CONFIG_ACT_S8;
	default: /* any other number of a caller */
		return -1;
	}
}

static int
weight_config_weight(uint32_t w_type)
{
	switch (w_type) {
	case HUMMING_TYPE_UINT(4):
		return HM_CONFIG_WEIGHT_U4;
	case HUMMING_TYPE_UINT(8):
		return HM_CONFIG_WEIGHT_U8;
	case HUMMING_TYPE_E2M1:
		return HM_CONFIG_WEIGHT_E2M1;
	case HUMMING_TYPE_E4M3:
		return HM_CONFIG_WEIGHT_E4M3;
	default: /* any other number of a caller */
		return -1;
	}
}

static bool
weight_is_wide(uint32_t a_type)
{
	return hm_number_bytes(a_type) == 2;
}

static bool
weight_is_fp8(uint32_t a_type)
{
	return a_type == HUMMING_TYPE_E4M3 || a_type == HUMMING_TYPE_E5M2;
}

static void
weight_complete(struct humming_weight_source *source)
{
	if (source->w_type == 0)
		source->w_type = HUMMING_TYPE_UINT(4);
	if (source->a_type == 0)
		source->a_type = HUMMING_TYPE_BF16;
	if (source->scale_type == 0)
		source->scale_type = weight_is_wide(source->a_type)
					 ? source->a_type
					 : HUMMING_TYPE_BF16;
	if (source->zero_type == 0)
		source->zero_type = source->a_type;
	if (source->scale_kind == 0 && source->group != 0)
		source->scale_kind = HUMMING_SCALE_GROUP;
	else if (source->scale_kind == 0)
		source->scale_kind = source->block != 0 ? HUMMING_SCALE_BLOCK
							: HUMMING_SCALE_CHANNEL;
	if (source->scale_kind == HUMMING_SCALE_BLOCK && source->block == 0)
		source->block = WEIGHT_BLOCK;
}

static bool
weight_is_float_type(uint32_t type)
{
	return type == HUMMING_TYPE_BF16 || type == HUMMING_TYPE_F16 ||
	       type == HUMMING_TYPE_F32;
}

/* What contradicts itself. */
static int
weight_check_form(const struct humming_weight_source *source)
{
	struct hm_errbuf *errbuf = hm_gemm_errbuf();
	uint32_t step = weight_is_wide(source->a_type) ? 8 : 16;

	if (source->n == 0 || source->k == 0 || source->n % 8 != 0 ||
	    source->k % step != 0 || source->n > INT32_MAX ||
	    source->k > INT32_MAX) {
		hm_errbuf_set(errbuf,
		    "weights: n = %u must be a multiple of 8 and k = %u one of "
		    "%u, both > 0",
		    source->n, source->k, step);
		return HM_E_INVALID;
	}
	if (source->zero > HUMMING_ZERO_FLOAT ||
	    source->code_layout > HUMMING_CODES_NIBBLES ||
	    source->scale_kind > HUMMING_SCALE_BLOCK || source->mx_exact > 1 ||
	    source->reserved != 0) {
		hm_errbuf_set(errbuf,
		    "weights: no such zero, code_layout, scale_kind, mx_exact "
		    "or reserved");
		return HM_E_INVALID;
	}
	if ((source->scale_kind == HUMMING_SCALE_GROUP) !=
		(source->group != 0) ||
	    (source->scale_kind == HUMMING_SCALE_BLOCK) !=
		(source->block != 0)) {
		hm_errbuf_set(errbuf,
		    "weights: scale_kind, group = %u and block = %u contradict "
		    "each other",
		    source->group, source->block);
		return HM_E_INVALID;
	}
	if ((!weight_is_float_type(source->scale_type) &&
		source->scale_type != HUMMING_TYPE_E8M0) ||
	    (source->zero == HUMMING_ZERO_FLOAT &&
		!weight_is_float_type(source->zero_type))) {
		hm_errbuf_set(errbuf,
		    "weights: scale_type is bf16, f16, f32 or e8m0, zero_type "
		    "one of the first three");
		return HM_E_INVALID;
	}
	return HM_OK;
}

/* Types and the layout of the codes. */
static int
weight_check_types(const struct humming_weight_source *source)
{
	struct hm_errbuf *errbuf = hm_gemm_errbuf();
	int weight = weight_config_weight(source->w_type);
	int act = weight_config_act(source->a_type);

	if (weight < 0) {
		hm_errbuf_set(errbuf,
		    "weights: w_type must be u4, u8, e2m1 or e4m3");
		return HM_E_UNSUPPORTED;
	}
	if (act < 0) {
		hm_errbuf_set(errbuf,
		    "weights: a_type must be bf16, f16, e4m3, e5m2 or s8");
		return HM_E_UNSUPPORTED;
	}
	if (hm_field_find((uint32_t)weight, (uint32_t)act, false) == NULL) {
		hm_errbuf_set(errbuf,
		    "weights: fp8 activations take u4, e2m1 and e4m3 weights, "
		    "s8 activations u4 and u8");
		return HM_E_UNSUPPORTED;
	}
	if (source->code_layout == HUMMING_CODES_NIBBLES &&
	    source->w_type != HUMMING_TYPE_UINT(4) &&
	    source->w_type != HUMMING_TYPE_E2M1) {
		hm_errbuf_set(errbuf,
		    "weights: HUMMING_CODES_NIBBLES takes u4 or e2m1");
		return HM_E_INVALID;
	}
	if (source->zero != HUMMING_ZERO_NONE &&
	    (source->w_type != HUMMING_TYPE_UINT(4) ||
		!weight_is_wide(source->a_type) || source->group == 0)) {
		hm_errbuf_set(errbuf,
		    "weights: zero points need u4, groups and bf16 or f16 "
		    "activations");
		return HM_E_UNSUPPORTED;
	}
	return HM_OK;
}

static int
weight_check_scaling(const struct humming_weight_source *source)
{
	struct hm_errbuf *errbuf = hm_gemm_errbuf();
	bool e8m0 = source->scale_type == HUMMING_TYPE_E8M0;

	if (source->group != 0 && source->group != 32 && source->group != 64 &&
	    source->group != 128) {
		hm_errbuf_set(errbuf,
		    "weights: group must be 32, 64, 128 or 0 (row), not %u",
		    source->group);
		return HM_E_UNSUPPORTED;
	}
	if (source->block != 0 && source->block != WEIGHT_BLOCK) {
		hm_errbuf_set(errbuf,
		    "weights: block must be 128 (128x128), not %u",
		    source->block);
		return HM_E_UNSUPPORTED;
	}
	if (e8m0 && (source->group != WEIGHT_MX_GROUP ||
			source->zero != HUMMING_ZERO_NONE ||
			source->a_type == HUMMING_TYPE_SINT(8))) {
		hm_errbuf_set(errbuf,
		    "weights: e8m0 scales need groups of 32, no zero points "
		    "and bf16, f16 or fp8 activations");
		return HM_E_UNSUPPORTED;
	}
	if (source->mx_exact != 0 &&
	    (!e8m0 || !weight_is_fp8(source->a_type))) {
		hm_errbuf_set(errbuf,
		    "weights: mx_exact takes e8m0 scales with fp8 activations");
		return HM_E_INVALID;
	}
	return HM_OK;
}

/* What the scale lines hold. */
static enum hm_config_scale
weight_line_scale(const struct humming_weight_source *source)
{
	uint32_t type = source->scale_type;

	if (source->scale_kind == HUMMING_SCALE_CHANNEL ||
	    source->scale_kind == HUMMING_SCALE_TENSOR)
		return HM_CONFIG_SCALE_NONE;
	if (type == HUMMING_TYPE_E8M0)
		return weight_is_fp8(source->a_type) &&
			       source->w_type == HUMMING_TYPE_E2M1 &&
			       source->mx_exact == 0
			   ? HM_CONFIG_SCALE_MX
			   : HM_CONFIG_SCALE_E8M0;
	if (weight_is_wide(source->a_type))
		type = source->a_type;
	else if (source->scale_kind == HUMMING_SCALE_BLOCK)
		type = HUMMING_TYPE_F32;
	if (type == HUMMING_TYPE_F32)
		return HM_CONFIG_SCALE_F32;
	return type == HUMMING_TYPE_F16 ? HM_CONFIG_SCALE_F16
					: HM_CONFIG_SCALE_BF16;
}

static uint32_t
weight_scale_bytes(enum hm_config_scale scale)
{
	switch (scale) {
	case HM_CONFIG_SCALE_NONE:
		return 0;
	case HM_CONFIG_SCALE_BF16:
	case HM_CONFIG_SCALE_F16:
		return 2;
	case HM_CONFIG_SCALE_F32:
		return 4;
	case HM_CONFIG_SCALE_E8M0:
	case HM_CONFIG_SCALE_MX:
		return 1;
	}
	return 0;
}

/* Shape of the chunks; scale_kind, group and the types are right. */
static void
weight_lay_out(struct hm_weight *weight)
{
	const struct humming_weight_source *source = &weight->source;
	uint32_t lines = 0;

	weight->scale = weight_line_scale(source);
	weight->field =
	    hm_field_find((uint32_t)weight_config_weight(source->w_type),
		(uint32_t)weight_config_act(source->a_type),
		weight->scale == HM_CONFIG_SCALE_MX);
	weight->group = source->group;
	weight->scale_rows = 1;
	if (source->scale_kind == HUMMING_SCALE_BLOCK)
		weight->group = weight->scale_rows = WEIGHT_BLOCK;
	else if (source->scale_kind == HUMMING_SCALE_TENSOR)
		weight->scale_rows = source->n;
	if (weight->scale != HM_CONFIG_SCALE_NONE)
		weight->line_groups = HM_WEIGHT_COLUMNS / weight->group;
	else
		weight->group = source->k;
	weight->n_groups = (source->k + weight->group - 1) / weight->group;
	weight->n_blocks = (source->n + HM_WEIGHT_ROWS - 1) / HM_WEIGHT_ROWS;
	weight->k_blocks =
	    (source->k + HM_WEIGHT_COLUMNS - 1) / HM_WEIGHT_COLUMNS;
	weight->scale_bytes = weight_scale_bytes(weight->scale);
	if (source->zero == HUMMING_ZERO_INT)
		weight->zero_bytes = 1;
	else if (source->zero == HUMMING_ZERO_FLOAT)
		weight->zero_bytes = 2;
	weight->code_bytes =
	    HM_WEIGHT_ROWS * HM_WEIGHT_COLUMNS * weight->field->bits / 8;
	lines = weight->line_groups * HM_WEIGHT_ROWS;
	weight->chunk_bytes =
	    weight->code_bytes +
	    lines * (weight->scale_bytes + weight->zero_bytes);
	weight->chunk_bytes = (weight->chunk_bytes + 127) / 128 * 128;
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
	weight_complete(&weight.source);
	error = weight_check_form(source);
	if (error == HM_OK)
		error = weight_check_types(source);
	if (error == HM_OK)
		error = weight_check_scaling(source);
	if (error != HM_OK)
		return error;
	weight_lay_out(&weight);
	*weight_out = weight;
	return HM_OK;
}

/* Codes that mean no number of the type. */
static int
weight_check_codes(const struct hm_weight *weight)
{
	const struct humming_weight_source *source = &weight->source;
	bool is_e4m3 = source->w_type == HUMMING_TYPE_E4M3;
	uint32_t most = weight->field->bits == 4 ? 15 : 255;

	if (source->code_layout != HUMMING_CODES_BYTES && !is_e4m3)
		return HM_OK;
	for (uint32_t n = 0; n < source->n; n++) {
		for (uint32_t k = 0; k < source->k; k++) {
			uint32_t code = hm_weight_code(weight, n, k);

			if (code <= most && (!is_e4m3 || (code & 0x7f) != 0x7f))
				continue;
			hm_errbuf_set(hm_gemm_errbuf(),
			    "weights: code %u of row %u, column %u is %s", code,
			    n, k, is_e4m3 ? "an e4m3 NaN" : "above 15");
			return HM_E_INVALID;
		}
	}
	return HM_OK;
}

static int
weight_check_scales(const struct hm_weight *weight)
{
	int exponent = WEIGHT_MAX_ROWMUL - weight->field->factor;
	double most = hm_number_power(
	    exponent < WEIGHT_MAX_SCALE ? exponent : WEIGHT_MAX_SCALE);

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
	error = weight_check_codes(&weight);
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
	if (weight->source.code_layout == HUMMING_CODES_NIBBLES)
		return bytes[index / 2] >> 4 * (index & 1) & 15;
	if (weight->field->bits == 4) {
		memcpy(&word, bytes + index / 8 * sizeof word, sizeof word);
		return word >> 4 * (index % 8) & 15;
	}
	memcpy(&word, bytes + index / 4 * sizeof word, sizeof word);
	return word >> 8 * (index % 4) & 255;
}

double
hm_weight_scale(const struct hm_weight *weight, uint32_t n, uint32_t group)
{
	return hm_number_at(weight->source.scale_type, weight->source.scales,
	    (size_t)(n / weight->scale_rows) * weight->n_groups + group);
}

double
hm_weight_zero(const struct hm_weight *weight, uint32_t n, uint32_t group)
{
	const uint8_t *bytes = weight->source.zeros;
	size_t index = (size_t)n * weight->n_groups + group;

	if (weight->source.zero == HUMMING_ZERO_NONE)
		return weight->field->zero;
	if (weight->source.zero == HUMMING_ZERO_INT)
		return bytes[index];
	return hm_number_at(weight->source.zero_type, bytes, index);
}

double
hm_weight_value(const struct hm_weight *weight, uint32_t n, uint32_t k)
{
	uint32_t code = hm_weight_code(weight, n, k);
	uint32_t type = weight->source.w_type;

	if (type == HUMMING_TYPE_E2M1 || type == HUMMING_TYPE_E4M3)
		return hm_number_decode8(type, (uint8_t)code);
	return code - hm_weight_zero(weight, n, k / weight->group);
}
