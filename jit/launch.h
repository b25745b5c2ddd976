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
	uint64_t workspace_bytes;
};

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
 * row    from hm_plan_find for this m; the operation pack serves any m
 * sms    SMs of the device, > 0
 *
 * Returns HM_OK; HM_E_INVALID when n or k is not a positive multiple of 8,
 * m is 0 (nothing to launch), sms is 0 or the row does not serve so many
 * tokens; HM_E_UNSUPPORTED when only the shared memory would not fit the
 * target, which no row of hm_plan_compute meets at its own m, n and k.
 * launch_out is untouched then.
 */
int hm_launch_compute(const struct hm_plan_row *row, uint32_t m, uint32_t n,
    uint32_t k, uint32_t sms, struct hm_launch *launch_out);

#endif
