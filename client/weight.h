/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weight.h - a checked description of a quantized matrix, and the shape of its
 * two forms: plain rows, and packed chunks (pack layout 1).
 *
 *   plain    code[n][k]; scale[n][g], zero[n][g], g = k / group
 *   packed   [N/64][K/128] chunks, N padded to 64, K to 128:
 *
 *     0      codes, 4096 bytes, or 8192 for codes of 8 bits: weight_field.h
 *     then   a line per group of the chunk: [row tile][g 0..7][2] scales r of
 *            rows g and g + 8 of the row tile. An element is 2 bytes for bf16
 *            and f16, 4 for f32, 1 for exponents
 *     then   a line per group of zero points in the same order: 64 bytes of
 *            uint8_t, or 128 bytes of 16-bit floats
 *     then   zeros up to a multiple of 128 bytes
 */
#ifndef HM_CLIENT_WEIGHT_H
#define HM_CLIENT_WEIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <humming/gemm.h>

#include "client/weight_field.h"
#include "jit/config.h"
#include "proto/error.h"

#define HM_WEIGHT_ROWS    64u
#define HM_WEIGHT_COLUMNS 128u

/* A source after its checks, and what follows from it. */
struct hm_weight {
	struct humming_weight_source source; /* defaults filled in */
	const struct hm_field *field;        /* static */
	enum hm_config_scale scale;          /* of the lines; NONE: no lines */
	uint32_t n_groups;   /* scales of a row; 1 for channel scales */
	uint32_t group;      /* weights per scale; k for channel scales */
	uint32_t scale_rows; /* rows that share their scales: 1, 128 (blocks)
	                      * or n (one for the tensor) */
	uint32_t n_blocks, k_blocks; /* chunks along N and K */
	uint32_t line_groups;        /* scale lines of a chunk */
	uint32_t code_bytes;         /* of a chunk */
	uint32_t scale_bytes;        /* of an element of a line; 0 = no lines */
	uint32_t zero_bytes;         /* the same of zero points */
	uint32_t chunk_bytes;
};

/**
 * Check everything but the pointers.
 *
 * Returns HM_OK, HM_E_INVALID or HM_E_UNSUPPORTED with the reason in
 * hm_gemm_errbuf.
 */
int hm_weight_describe(const struct humming_weight_source *source,
    struct hm_weight *weight_out);

/* The same, and that codes, scales and zeros are there and make sense. */
int hm_weight_describe_full(const struct humming_weight_source *source,
    struct hm_weight *weight_out);

/* A plain code as its bits. */
uint32_t hm_weight_code(const struct hm_weight *weight, uint32_t n, uint32_t k);

/* Scale and zero point of a row and group. The latter is what the offset of
 * the type is without zero points: 8, 128, or 0 for floats. */
double hm_weight_scale(const struct hm_weight *weight, uint32_t n,
    uint32_t group);
double hm_weight_zero(const struct hm_weight *weight, uint32_t n,
    uint32_t group);

/* A weight without its scale: code - zero point, or the float. */
double hm_weight_value(const struct hm_weight *weight, uint32_t n, uint32_t k);

#endif
