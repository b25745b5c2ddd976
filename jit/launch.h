/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.h - from a plan row and the sizes at hand to grid and shared memory.
 *
 * The formulas stand in the file heads of the kernels; this is their only copy
 * on the host. Pure.
 */
#ifndef HM_JIT_LAUNCH_H
#define HM_JIT_LAUNCH_H

#include <stdint.h>

#include "jit/plan.h"

struct hm_launch {
	uint32_t grid_x, grid_y;
	uint32_t threads;
	uint32_t cluster;
	uint32_t smem_bytes;  /* dynamic shared memory */
	uint32_t tile_tokens; /* box of the tensor maps (kernel H), else 0 */
	uint32_t tile_rows;   /* weight rows of a tile (S: a row group) */
	uint32_t band;        /* kernel H: 1 to the number of n tiles */
	uint32_t prefetch;    /* kernel H */
	uint32_t row_groups;  /* kernel S: most that one CTA owns */
	uint32_t weight_policy;
	uint32_t split_tiles; /* kernel H: that many last tiles are shared by
	                       * all CTAs along K */
	uint64_t workspace_bytes; /* its first HM_LAUNCH_FLAG_BYTES are zero
	                           * before the first launch */
};

/* Flags at the start of a workspace. */
#define HM_LAUNCH_FLAG_BYTES 4096u

/* Dynamic shared memory that a CTA may ask for; the rest of the 227 KB (99 KB)
 * is left to the kernel's own barriers. */
#define HM_LAUNCH_SM90_SMEM_BYTES (232448u - 512u)
#define HM_LAUNCH_MMA_SMEM_BYTES  101376u

/**
 * Clusters of so many CTAs that run at once with one CTA on an SM. SMs are
 * spread unevenly over the GPCs, so fewer fit than division says: of 132 SMs
 * 66 clusters of 2, but 30 of 4 (measured).
 *
 * Never 0. Any thread.
 */
uint32_t hm_launch_active_clusters(uint32_t sms, uint32_t cluster);

/**
 * How many of the last tiles all CTAs of a persistent kernel H share along K:
 * those of the last wave, because CTAs that are at different k lose what they
 * find of each other's activations in L2 (5120 x 25600, M = 1024: 407 us with
 * the last wave shared, 445 to 490 with two). One wave more where they are so
 * few that a tile would be cut into more than 8 pieces, which its owner adds
 * one after the other (51200 x 5120, M = 256: 247 us with 4 tiles in 33 pieces
 * each, 198 with 136 tiles shared). 0 where waves are whole.
 *
 * sms  > 0. Any thread.
 */
uint32_t hm_launch_split_tiles(uint64_t tiles, uint32_t sms);

/**
 * Dynamic shared memory of kernel H: stages, then the output's staging or the
 * fp32 tile that a cluster adds up, then scales of the activations.
 *
 * config  valid by hm_emit_config, family WGMMA. Any thread.
 */
uint64_t hm_launch_wgmma_bytes(const struct hm_config *config);

/* The most of it that a CTA may ask for beside its static shared memory. */
uint32_t hm_launch_wgmma_most(const struct hm_config *config);

/**
 * row    from hm_plan_find for this m; the operations pack and quant serve any
 * sms    SMs of the device, > 0
 *
 * n is not read for the operation quant. Returns HM_OK; HM_E_INVALID when n or
 * k is not a positive multiple of 8 (k: of 16 beside 8-bit activations), m is 0
 * (nothing to launch), sms is 0 or the row does not serve so many tokens;
 * HM_E_UNSUPPORTED when only the shared memory would not fit the target, which
 * no row of hm_plan_compute meets at its own m, n and k. launch_out is
 * untouched then.
 */
int hm_launch_compute(const struct hm_plan_row *row, uint32_t m, uint32_t n,
    uint32_t k, uint32_t sms, struct hm_launch *launch_out);

#endif
