/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weight.h - a checked description of a quantized matrix, and the index maps of
 * its two forms: plain rows, and packed chunks (pack layout 1).
 *
 *   plain    code[n][k], scale[n][g], zero[n][g], g = k / group
 *   packed   [N/64][K/128] chunks, N padded to 64, K to 128 (KERNELS.md 3.3):
 *
 *     0      codes, [half 0..1][row tile 0..3][lane 0..31][16 bytes]
 *     4096   a line of 128 bytes per group of the chunk: [row tile][g 0..7][2]
 *            16-bit scales r of rows g and g + 8 of the row tile
 *     then   a line per group of zero points in the same order: 64 bytes of
 *            uint8_t, or 128 bytes of 16-bit floats
 *     then   zeros up to a multiple of 128 bytes
 *
 * A lane's 16 bytes are four words, one per k16 step. Bits 16h + 4i .. + 3 of
 * word `step` hold the code of fragment register i, half h, which is
 *
 *     row  16 * row tile + lane / 4 + 8 * (i & 1)
 *     k    64 * half + 16 * step + 8 * (i >> 1) + 2 * (lane % 4) + h
 *
 * (KERNELS.md 3.1, 3.6). For f16 the finished word is rotated left by 3.
 */
#ifndef HM_CLIENT_WEIGHT_H
#define HM_CLIENT_WEIGHT_H

#include <stddef.h>
#include <stdint.h>

#include <humming/gemm.h>

#include "proto/error.h"

#define HM_WEIGHT_LAYOUT     1u /* HM_PACK_LAYOUT of jit/config.h */
#define HM_WEIGHT_CODE_BYTES 4096u
#define HM_WEIGHT_ROWS       64u
#define HM_WEIGHT_COLUMNS    128u
/* rowmul carries back the 2^-6 that dequantization leaves in the operand
 * (KERNELS.md 4.1). */
#define HM_WEIGHT_FACTOR 64.0

/* A source after its checks, and what follows from it. */
struct hm_weight {
	struct humming_weight_source source; /* defaults filled in */
	uint32_t n_groups; /* scales of a row; 1 for channel scales */
	uint32_t group;    /* weights per scale; k for channel scales */
	uint32_t n_blocks, k_blocks; /* chunks along N and K */
	uint32_t line_groups;        /* scale lines of a chunk */
	uint32_t zero_line_bytes;
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

/* Plain elements, as double. z is 8 without zero points. */
uint32_t hm_weight_code(const struct hm_weight *weight, uint32_t n, uint32_t k);
double hm_weight_scale(const struct hm_weight *weight, uint32_t n,
    uint32_t group);
double hm_weight_zero(const struct hm_weight *weight, uint32_t n,
    uint32_t group);

#endif
