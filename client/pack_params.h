/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack_params.h - the one parameter of the packing kernel, as the host writes
 * it.
 *
 * Twin of struct pack_params in kernels/pack.cu; tests/kernels/host_pack
 * compares the two. Device addresses are plain numbers.
 */
#ifndef HM_CLIENT_PACK_PARAMS_H
#define HM_CLIENT_PACK_PARAMS_H

#include <stdint.h>

/* Types of scales and zero points as they come; E8M0 scales only. */
#define HM_PACK_F32  0u
#define HM_PACK_BF16 1u
#define HM_PACK_F16  2u
#define HM_PACK_E8M0 3u

struct hm_pack_params {
	uint64_t codes;       /* bytes [N][K], or [N][K / 2] of two codes */
	uint64_t scales;      /* [N / scale_rows][groups] of scale_type */
	uint64_t zeros;       /* [N][groups], u8 or of zero_type; or 0 */
	uint64_t source_bias; /* float [N], or 0 */
	uint64_t packed;      /* chunks */
	uint64_t rowmul;      /* float [N rounded up to 64] */
	uint64_t bias;        /* the same, or 0 */
	uint64_t problems;    /* uint32_t, HUMMING_PACKER_BAD_ bits; or 0 */
	uint32_t n, k;
	uint32_t code_pairs; /* 1: two codes a byte, low bits first */
	uint32_t scale_type, zero_type;
	uint32_t scale_rows; /* rows that share their scales: 1, 128 or N */
	uint32_t reserved[2];
};

#endif
