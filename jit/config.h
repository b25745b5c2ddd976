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
#define HM_KERNEL_ABI 2u
/* Format of packed weights (KERNELS.md section 3). */
#define HM_PACK_LAYOUT 1u

enum hm_family {
	HM_FAMILY_STREAM = 1, /* kernel S: gemm_stream.cu, small M, sm_90a */
	HM_FAMILY_WGMMA = 2,  /* kernel H: gemm_wgmma.cu, sm_90a */
	HM_FAMILY_MMA = 3,    /* kernel G: gemm_mma.cu, sm_80 and later */
	HM_FAMILY_PACK = 4,   /* pack.cu: plain weights to packed ones */
	HM_FAMILY_QUANT = 5   /* quant.cu: 16-bit activations to 8-bit ones */
};

/* Types of activations and of the output. From E4M3 on they have 8 bits: the
 * output does not. */
enum hm_config_act {
	HM_CONFIG_ACT_BF16 = 0,
	HM_CONFIG_ACT_F16 = 1,
	HM_CONFIG_ACT_E4M3 = 2,
	HM_CONFIG_ACT_E5M2 = 3,
	HM_CONFIG_ACT_S8 = 4
};

enum hm_config_weight {
	HM_CONFIG_WEIGHT_U4 = 0,
	HM_CONFIG_WEIGHT_U8 = 1,
	HM_CONFIG_WEIGHT_E2M1 = 2,
	HM_CONFIG_WEIGHT_E4M3 = 3
};

/* Scales of groups as they lie in the pack; channel scales are in rowmul. */
enum hm_config_scale {
	HM_CONFIG_SCALE_NONE = 0,
	HM_CONFIG_SCALE_BF16 = 1,
	HM_CONFIG_SCALE_F16 = 2,
	HM_CONFIG_SCALE_F32 = 3,
	HM_CONFIG_SCALE_E8M0 = 4, /* biased exponents */
	HM_CONFIG_SCALE_MX = 5    /* exponents folded into e4m3 operands */
};

enum hm_config_zero {
	HM_CONFIG_ZERO_NONE = 0,
	HM_CONFIG_ZERO_INT = 1,  /* u8 codes beside the scales */
	HM_CONFIG_ZERO_FLOAT = 2 /* zero point in the type of the activations */
};

enum hm_config_act_scale {
	HM_CONFIG_ACT_SCALE_NONE = 0,  /* 16-bit activations */
	HM_CONFIG_ACT_SCALE_TOKEN = 1, /* or one for all */
	HM_CONFIG_ACT_SCALE_GROUP = 2  /* per token and 128 k */
};

enum hm_config_epi { HM_CONFIG_EPI_NONE = 0, HM_CONFIG_EPI_SILU_MUL = 1 };

struct hm_config {
	uint32_t family;    /* enum hm_family */
	uint32_t act;       /* enum hm_config_act; QUANT: what is made */
	uint32_t out;       /* its first two; act where that has 16 bits;
	                     * QUANT: what is read; PACK: not looked at */
	uint32_t weight;    /* enum hm_config_weight */
	uint32_t scale;     /* enum hm_config_scale */
	uint32_t group;     /* weights per scale along K; 0 iff scale NONE */
	uint32_t zero;      /* enum hm_config_zero */
	uint32_t act_scale; /* enum hm_config_act_scale; PACK: not looked at */
	uint32_t threads;   /* of a CTA */
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
	uint32_t steps;   /* 32-byte k steps in one wgmma group: 1, 2 or 4 */
	uint32_t split_k; /* 1: one tile per cluster, K split inside it */
	uint32_t promote; /* k between additions of the tensor cores' sums to
	                   * fp32 ones: 0 none, 32, 64, 128 or 512 */
	/* Kernel G */
	uint32_t tile_rows; /* weight rows of a tile */
	uint32_t warps_n;   /* warps along the weight rows */
	uint32_t warps_m;   /* warps along the tokens */
	/* Quantization */
	uint32_t epi; /* enum hm_config_epi */
};

#endif
