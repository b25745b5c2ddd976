/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_params.h - the one parameter of the quantization kernel, as the host
 * writes it.
 *
 * Twin of struct quant_params in kernels/quant.cu; tests/kernels/host_quant
 * compares the two. Device addresses are plain numbers.
 */
#ifndef HM_CLIENT_QUANT_PARAMS_H
#define HM_CLIENT_QUANT_PARAMS_H

#include <stdint.h>

struct hm_quant_params {
	uint64_t x;                /* [M][ldx] of bf16 or f16 */
	uint64_t q;                /* [M][ldq] of 8 bits */
	uint64_t scale;            /* float */
	uint32_t m, k;             /* k: of q; silu-mul reads twice as much */
	uint32_t ldx, ldq;         /* elements from one token to the next */
	uint32_t scale_step;       /* floats, the same */
	uint32_t scale_group_step; /* floats from one group to the next */
	uint32_t reserved[4];
};

#endif
