/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_demo_data.c - see gemm_demo_data.h. Everything follows from one seed, so
 * that two runs compute the same.
 */
#include "client/gemm_demo_data.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/number.h"

#define DEMO_GROUP 128u /* of activations */
#define DEMO_BAD   1e9
/* Of a scale of any type. */
#define DEMO_MAX_BYTES 4u

static uint32_t
data_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* -1 to 1. */
static double
data_uniform(uint64_t *state)
{
	return data_random(state) % 65536 / 32768.0 - 1;
}

static void
data_put(uint32_t type, uint8_t *array, size_t index, double value)
{
	uint16_t half = 0;
	float single = (float)value;

	switch (hm_number_bytes(type)) {
	case 4:
		memcpy(array + 4 * index, &single, sizeof single);
		break;
	case 2:
		half = hm_number_encode16(type, value);
		memcpy(array + 2 * index, &half, sizeof half);
		break;
	default: /* 1 */
		array[index] = hm_number_encode8(type, value);
	}
}

static uint32_t
data_groups(const struct humming_weight_source *source)
{
	uint32_t group = source->scale_kind == HUMMING_SCALE_BLOCK
			     ? source->block
			     : source->group;

	return group != 0 ? (source->k + group - 1) / group : 1;
}

/* Scales of the matrix. */
static size_t
data_n_scales(const struct humming_weight_source *source)
{
	uint32_t rows = source->n;

	if (source->scale_kind == HUMMING_SCALE_TENSOR)
		rows = 1;
	else if (source->scale_kind == HUMMING_SCALE_BLOCK)
		rows = (source->n + source->block - 1) / source->block;
	return (size_t)rows * data_groups(source);
}

static void
data_describe(struct hm_demo_data *data, const struct hm_request *request)
{
	struct humming_weight_source *source = &data->source;

	humming_weight_source_init(source, sizeof *source);
	source->n = request->n;
	source->k = request->k;
	source->w_type = request->w_type;
	source->a_type = request->a_type;
	source->scale_kind = request->scale_kind;
	source->group = request->group;
	source->block = request->block_rows;
	source->scale_type = request->scale_type;
	source->zero = request->zero;
	source->zero_type = request->c_type;
	source->mx_exact = request->mx_exact;
	data->m = request->m;
	data->c_type = request->c_type;
}

static int
data_alloc(struct hm_demo_data *data, const struct hm_request *request)
{
	const struct humming_weight_source *source = &data->source;
	size_t n_scales = data_n_scales(source);
	size_t n_outputs = (size_t)data->m * source->n;
	uint32_t n_groups = (source->k + DEMO_GROUP - 1) / DEMO_GROUP;

	data->a_bytes =
	    (size_t)data->m * source->k * hm_number_bytes(source->a_type);
	if (request->act_scale != HM_ACT_SCALE_NONE)
		data->a_scale_bytes =
		    (size_t)data->m * n_groups * sizeof(float);
	data->codes = malloc((size_t)source->n * source->k);
	data->scales = malloc(n_scales * DEMO_MAX_BYTES);
	data->zeros = malloc(n_scales * DEMO_MAX_BYTES);
	data->bias = calloc(source->n, sizeof(float));
	data->packed = malloc(data->sizes.packed_bytes);
	data->rowmul = malloc(data->sizes.rowmul_bytes);
	data->packed_bias = malloc(data->sizes.bias_bytes);
	data->a = malloc(data->a_bytes);
	data->a_scale = calloc((size_t)data->m * n_groups, sizeof(float));
	data->c = malloc(n_outputs * sizeof *data->c);
	data->expected = malloc(n_outputs * sizeof *data->expected);
	if (data->codes == NULL || data->scales == NULL ||
	    data->zeros == NULL || data->bias == NULL || data->packed == NULL ||
	    data->rowmul == NULL || data->packed_bias == NULL ||
	    data->a == NULL || data->a_scale == NULL || data->c == NULL ||
	    data->expected == NULL)
		return HUMMING_E_NOMEM;
	/* A NaN, so that an output nobody wrote shows. */
	memset(data->c, 0xff, n_outputs * sizeof *data->c);
	return HUMMING_OK;
}

static void
data_fill_weights(struct hm_demo_data *data, const struct hm_request *request,
    uint64_t *state)
{
	struct humming_weight_source *source = &data->source;
	size_t n_codes = (size_t)source->n * source->k;
	size_t n_scales = data_n_scales(source);

	for (size_t i = 0; i < n_codes; i++) {
		uint8_t code = (uint8_t)(data_random(state) & 255);

		if (source->w_type == HUMMING_TYPE_E4M3)
			code = hm_number_encode8(source->w_type,
			    8 * data_uniform(state));
		else if (source->w_type != HUMMING_TYPE_UINT(8))
			code &= 15;
		data->codes[i] = code;
	}
	for (size_t i = 0; i < n_scales; i++) {
		uint32_t random = data_random(state);

		if (source->scale_type == HUMMING_TYPE_E8M0)
			data->scales[i] = (uint8_t)(117 + random % 6);
		else
			data_put(source->scale_type, data->scales, i,
			    (1 + random % 256) / 16384.0);
		if (source->zero == HUMMING_ZERO_FLOAT)
			data_put(source->zero_type, data->zeros, i,
			    8 + data_uniform(state));
		else
			data->zeros[i] = (uint8_t)(data_random(state) & 15);
	}
	for (uint32_t i = 0; request->bias != 0 && i < source->n; i++)
		data->bias[i] = (float)data_uniform(state);
	source->codes = data->codes;
	source->scales = data->scales;
	if (source->zero != HUMMING_ZERO_NONE)
		source->zeros = data->zeros;
	if (request->bias != 0)
		source->bias = data->bias;
}

/* A factor for every step of `size`, the largest of which is that of `type`. */
static double
data_scale(uint32_t type, double size)
{
	double most = type == HUMMING_TYPE_SINT(8) ? 127
		      : type == HUMMING_TYPE_E4M3  ? 448
						   : 57344;

	return size > 0 ? (double)(float)(size / most) : 1;
}

/* Values k_first and on of a token, quantized with one scale. */
static void
data_quantize(struct hm_demo_data *data, size_t first, uint32_t n,
    const float *values, double scale)
{
	for (uint32_t i = 0; i < n; i++)
		data->a[first + i] = hm_number_encode8(data->source.a_type,
		    (double)values[i] / scale);
}

static double
data_largest(const float *values, uint32_t n)
{
	float most = 0;

	for (uint32_t i = 0; i < n; i++) {
		float size = values[i] < 0 ? -values[i] : values[i];

		most = size > most ? size : most;
	}
	return (double)most;
}

/* A token of 8-bit activations; that of a tensor has the scale of -1..1. */
static void
data_fill_token(struct hm_demo_data *data, const struct hm_request *request,
    uint32_t m, const float *values)
{
	uint32_t k = data->source.k;
	uint32_t step =
	    request->act_scale == HM_ACT_SCALE_GROUP ? DEMO_GROUP : k;

	for (uint32_t first = 0; first < k; first += step) {
		uint32_t n = k - first < step ? k - first : step;
		double scale = data_scale(data->source.a_type,
		    request->act_scale == HM_ACT_SCALE_TENSOR
			? 1
			: data_largest(values + first, n));

		data->a_scale[(size_t)m * data->a_scale_step +
			      (size_t)(first / DEMO_GROUP) *
				  data->a_scale_group_step] = (float)scale;
		data_quantize(data, (size_t)m * k + first, n, values + first,
		    scale);
	}
}

static int
data_fill_activations(struct hm_demo_data *data,
    const struct hm_request *request, uint64_t *state)
{
	uint32_t k = data->source.k;
	bool m_major = request->act_layout != 0;
	float *values = malloc((size_t)k * sizeof *values);

	if (values == NULL)
		return HUMMING_E_NOMEM;
	if (request->act_scale == HM_ACT_SCALE_TOKEN)
		data->a_scale_step = 1;
	if (request->act_scale == HM_ACT_SCALE_GROUP) {
		data->a_scale_step =
		    m_major ? 1 : (k + DEMO_GROUP - 1) / DEMO_GROUP;
		data->a_scale_group_step = m_major ? data->m : 1;
	}
	for (uint32_t m = 0; m < data->m; m++) {
		for (uint32_t i = 0; i < k; i++)
			values[i] = (float)data_uniform(state);
		if (request->act_scale != HM_ACT_SCALE_NONE)
			data_fill_token(data, request, m, values);
		for (uint32_t i = 0;
		     request->act_scale == HM_ACT_SCALE_NONE && i < k; i++)
			data_put(data->source.a_type, data->a,
			    (size_t)m * k + i, (double)values[i]);
	}
	free(values);
	return HUMMING_OK;
}

int
hm_demo_data_init(struct hm_demo_data *data, const struct hm_request *request)
{
	uint64_t state = 1;
	int error = HUMMING_OK;

	memset(data, 0, sizeof *data);
	data_describe(data, request);
	data->sizes.struct_size = sizeof data->sizes;
	error = humming_weight_size(&data->source, &data->sizes);
	if (error == HUMMING_OK)
		error = data_alloc(data, request);
	if (error != HUMMING_OK)
		return error;
	data_fill_weights(data, request, &state);
	error = data_fill_activations(data, request, &state);
	if (error != HUMMING_OK)
		return error;
	return humming_weight_pack(&data->source, data->packed, data->rowmul,
	    data->packed_bias);
}

void
hm_demo_data_done(struct hm_demo_data *data)
{
	free(data->codes);
	free(data->scales);
	free(data->zeros);
	free(data->bias);
	free(data->packed);
	free(data->rowmul);
	free(data->packed_bias);
	free(data->a);
	free(data->a_scale);
	free(data->c);
	free(data->expected);
}

/* Square root of a small number, by Newton: the library needs no libm. */
static double
data_root(double square)
{
	double root = square > 1 ? square : 1;

	for (int i = 0; i < 60; i++)
		root = (root + square / root) / 2;
	return root;
}

int
hm_demo_data_judge(struct hm_demo_data *data, double *error_out)
{
	struct humming_gemm_reference_args args = {0};
	double error = 0, size = 0;
	int result = HUMMING_OK;

	args.m = data->m;
	args.lda = data->source.k;
	args.ldc = data->source.n;
	args.a = data->a;
	args.c_out = data->expected;
	args.a_scale = data->a_scale;
	args.a_scale_step = data->a_scale_step;
	args.a_scale_group_step = data->a_scale_group_step;
	result = humming_gemm_reference(&data->source, &args);
	if (result != HUMMING_OK)
		return result;
	for (size_t i = 0; i < (size_t)data->m * data->source.n; i++) {
		double value = hm_number_decode16(data->c_type, data->c[i]);
		double off = value - data->expected[i];

		if (!hm_number_is_finite(value)) {
			*error_out = DEMO_BAD;
			return HUMMING_OK;
		}
		error += off * off;
		size += data->expected[i] * data->expected[i];
	}
	*error_out = size > 0 ? data_root(error / size) : DEMO_BAD;
	return HUMMING_OK;
}
