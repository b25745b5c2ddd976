/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_params.h - the one parameter of every GEMM entry, as the host writes it.
 *
 * Twin of struct gemm_params in kernels/prelude.cuh: both sides assert every
 * offset, and tests/unit/test_gemm_params compares the two. Passed by value, so
 * a launch (and a captured graph) keeps its own copy. Device addresses are
 * plain numbers here. A field that a kernel family does not use is zero.
 */
#ifndef HM_CLIENT_GEMM_PARAMS_H
#define HM_CLIENT_GEMM_PARAMS_H

#include <stddef.h>
#include <stdint.h>

/* Number of this layout: HM_KERNEL_ABI of jit/config.h. */
#define HM_GEMM_PARAMS_ABI 2u

/* CUtensorMap: opaque, 64-byte aligned. */
struct hm_tensor_map {
	_Alignas(64) uint64_t words[16];
};

struct hm_gemm_params {
	struct hm_tensor_map a_map; /* H: {K, M}, box {64, tile tokens}; of 8
	                             * bits {128, tile tokens} */
	struct hm_tensor_map c_map; /* H: {N, M}, box {64, tile tokens} */
	uint64_t w;                 /* packed chunks [N/64][K/128] */
	uint64_t a;                 /* [M][lda], 16 or 8 bits */
	uint64_t c;                 /* [M][ldc], 16-bit floats */
	uint64_t rowmul;            /* float [N rounded up to 64] */
	uint64_t bias;              /* the same, or 0 = none */
	uint64_t workspace;         /* H with split_tiles, else 0 */
	uint32_t m, n, k;           /* true sizes */
	uint32_t lda, ldc;          /* elements from one token to the next */
	uint32_t band;              /* H: N tiles per band */
	uint32_t prefetch;      /* H: stages requested before the grid wait */
	uint32_t row_groups;    /* S: most 64-row groups of one CTA */
	uint32_t weight_policy; /* H: 0 normal, 1 evict first */
	uint32_t a_scale_step;  /* 8-bit a: from one token to the next */
	uint64_t a_scale;       /* 8-bit a: float, else 0 */
	uint32_t a_scale_group_step; /* from one 128 k to the next */
	uint32_t split_tiles;        /* H: last tiles shared along K */
	uint32_t reserved[6];
};

#define HM_GEMM_PARAMS_AT(field, offset)                                       \
	_Static_assert(offsetof(struct hm_gemm_params, field) == (offset),     \
	    "kernel ABI 2: " #field)
_Static_assert(sizeof(struct hm_tensor_map) == 128, "CUtensorMap");
_Static_assert(sizeof(struct hm_gemm_params) == 384, "kernel ABI 2: size");
_Static_assert(_Alignof(struct hm_gemm_params) == 64, "kernel ABI 2: align");
HM_GEMM_PARAMS_AT(a_map, 0);
HM_GEMM_PARAMS_AT(c_map, 128);
HM_GEMM_PARAMS_AT(w, 256);
HM_GEMM_PARAMS_AT(a, 264);
HM_GEMM_PARAMS_AT(c, 272);
HM_GEMM_PARAMS_AT(rowmul, 280);
HM_GEMM_PARAMS_AT(bias, 288);
HM_GEMM_PARAMS_AT(workspace, 296);
HM_GEMM_PARAMS_AT(m, 304);
HM_GEMM_PARAMS_AT(n, 308);
HM_GEMM_PARAMS_AT(k, 312);
HM_GEMM_PARAMS_AT(lda, 316);
HM_GEMM_PARAMS_AT(ldc, 320);
HM_GEMM_PARAMS_AT(band, 324);
HM_GEMM_PARAMS_AT(prefetch, 328);
HM_GEMM_PARAMS_AT(row_groups, 332);
HM_GEMM_PARAMS_AT(weight_policy, 336);
HM_GEMM_PARAMS_AT(a_scale_step, 340);
HM_GEMM_PARAMS_AT(a_scale, 344);
HM_GEMM_PARAMS_AT(a_scale_group_step, 352);
HM_GEMM_PARAMS_AT(split_tiles, 356);
HM_GEMM_PARAMS_AT(reserved, 360);
#undef HM_GEMM_PARAMS_AT

#endif
