/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_time.h - how long a GEMM takes on Hopper, as far as choosing needs it.
 * Used by plan_sm90a.c alone.
 */
#ifndef HM_JIT_PLAN_TIME_H
#define HM_JIT_PLAN_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "jit/plan_impl.h"

/* A launch that cannot be, or whose clusters would wait for each other. */
#define HM_PLAN_NEVER UINT64_MAX

/* What the times of all members for one problem have in common. */
struct hm_plan_pace {
	const struct hm_plan_problem *problem; /* borrowed */
	const struct hm_tune_costs *costs;
	uint32_t tensor_tops;
	uint32_t act_bytes; /* of one activation */
	uint32_t chunks;    /* of 128 k */
	uint32_t groups;    /* of 64 rows */
	uint32_t percent;   /* of the class's steps, for these types */
	uint64_t chunk_bytes;
	uint64_t memory_ns; /* reading the weights once */
};

struct hm_plan_pace hm_plan_pace(const struct hm_plan_problem *problem);

/**
 * ns of kernel S: start, then the stream of weights at the pace of the chip or
 * of its busiest SM, then what the fetch of the activations adds.
 *
 * row  of S, with its cluster; m tokens. HM_PLAN_NEVER when shared memory does
 *      not hold them.
 */
uint64_t hm_plan_stream_ns(const struct hm_plan_pace *pace,
    const struct hm_plan_row *row, uint32_t m);

/* How a member of H is launched. */
struct hm_plan_wgmma {
	const struct hm_tune_wgmma *tune;
	uint32_t cluster;
	bool share; /* the last tiles, along K */
};

/**
 * ns of kernel H (KERNELS.md section 8):
 *
 *     start + max(steps of the busiest CTA, memory, L2, tensor cores) + ends
 *
 * The steps are the member's own measured ones, the other terms those of the
 * whole chip. HM_PLAN_NEVER: clusters that do not all run at once, nothing to
 * share.
 */
uint64_t hm_plan_wgmma_ns(const struct hm_plan_pace *pace,
    const struct hm_plan_wgmma *member, uint32_t m);

#endif
