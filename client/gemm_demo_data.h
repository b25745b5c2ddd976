/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_demo_data.h - random operands of a GEMM that a SPEC describes, and the
 * judgement of its result; no GPU.
 */
#ifndef HM_CLIENT_GEMM_DEMO_DATA_H
#define HM_CLIENT_GEMM_DEMO_DATA_H

#include <stddef.h>
#include <stdint.h>

#include <humming/gemm.h>

#include "proto/request.h"

/* Buffers are owned and always there. Where the SPEC asks for no zero points,
 * bias or scales of activations, source.zeros and source.bias are NULL and
 * a_scale_bytes is 0. */
struct hm_demo_data {
	struct humming_weight_source source;
	struct humming_weight_sizes sizes;
	uint32_t m, c_type;
	uint8_t *codes, *scales, *zeros;
	float *bias;
	void *packed;
	float *rowmul, *packed_bias;
	uint8_t *a;
	size_t a_bytes;
	float *a_scale;
	size_t a_scale_bytes;
	uint32_t a_scale_step, a_scale_group_step;
	uint16_t *c; /* m * n, NaN until a result is copied here */
	double *expected;
};

/**
 * Random codes, scales around 2^-6, activations in -1..1 (8-bit ones quantized
 * as a worker would: the largest of a token, tensor or group is the largest of
 * the type); packed.
 *
 * request  of hm_spec_parse, with m, n and k
 *
 * Returns HUMMING_OK, NOMEM (without a text), or what humming_weight_pack
 * returns, reason in humming_gemm_last_error. Also after a failure data is to
 * be given to hm_demo_data_done.
 */
int hm_demo_data_init(struct hm_demo_data *data,
    const struct hm_request *request);
void hm_demo_data_done(struct hm_demo_data *data);

/**
 * The relative error of data->c: the norm of its difference from the
 * double-precision reference over the norm of that. 1e9 when an element is no
 * number.
 *
 * Returns HUMMING_OK or what humming_gemm_reference returns.
 */
int hm_demo_data_judge(struct hm_demo_data *data, double *error_out);

#endif
