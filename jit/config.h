/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - what is fixed when a kernel is compiled, and nothing else.
 *
 * A struct hm_config is the whole compile-time identity of one of our own
 * kernels on one target: jit/plan chooses it, jit/emit prints it as the
 * generated config.h, jit/key digests that text, jit/launch turns it into a
 * grid. N, K, M, the number of SMs, the cluster size, the prefetch depth and
 * the band are launch arguments and have no place here: that is what keeps a
 * model to a handful of kernels.
 */
#ifndef HM_JIT_CONFIG_H
#define HM_JIT_CONFIG_H

#include <stdint.h>

/* Parameter block of an entry (kernels/prelude.cuh, client/gemm_params.h). */
#define HM_KERNEL_ABI 1u
/* Format of packed weights (KERNELS.md section 3). */
#define HM_PACK_LAYOUT 1u

enum hm_family {
	HM_FAMILY_STREAM = 1, /* kernel S: gemm_stream.cu, small M, sm_90a */
	HM_FAMILY_WGMMA = 2,  /* kernel H: gemm_wgmma.cu, sm_90a */
	HM_FAMILY_MMA = 3,    /* kernel G: gemm_mma.cu, sm_80 and later */
	HM_FAMILY_PACK = 4    /* pack.cu: plain weights to packed ones */
};

enum hm_config_act { HM_CONFIG_ACT_BF16 = 0, HM_CONFIG_ACT_F16 = 1 };

enum hm_config_zero {
	HM_CONFIG_ZERO_NONE = 0,
	HM_CONFIG_ZERO_INT = 1,  /* u8 codes beside the scales */
	HM_CONFIG_ZERO_FLOAT = 2 /* zero point in the type of the activations */
};

struct hm_config {
	uint32_t family;  /* enum hm_family */
	uint32_t act;     /* enum hm_config_act; the output has this type */
	uint32_t group;   /* weights per scale along K; 0 = channel scales */
	uint32_t zero;    /* enum hm_config_zero */
	uint32_t threads; /* of a CTA */
	/* Kernel S */
	uint32_t token_tiles; /* tiles of 8 tokens: M <= 8 * token_tiles */
	uint32_t ring;        /* chunks in flight per warp */
	uint32_t warps;       /* of a CTA */
	uint32_t warps_k;     /* warps that share rows and split K (S and G) */
	uint32_t ctas_per_sm; /* launch bound */
	/* Kernels H and G */
	uint32_t tile_tokens; /* tokens (columns of C^T) of a tile */
	uint32_t stages;      /* depth of the shared-memory ring */
	/* Kernel H */
	uint32_t slices;  /* m64 slices of a warpgroup; 128 rows each tile */
	uint32_t halves;  /* 64-k halves in a stage: 1 or 2 */
	uint32_t steps;   /* k16 steps in one wgmma group: 1, 2 or 4 */
	uint32_t split_k; /* 1: one tile per cluster, K split inside it */
	/* Kernel G */
	uint32_t tile_rows; /* weight rows of a tile */
	uint32_t warps_n;   /* warps along the weight rows */
	uint32_t warps_m;   /* warps along the tokens */
};

#endif
