/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_impl.h - what plan.c and the choosers per family share, nobody else.
 */
#ifndef HM_JIT_PLAN_IMPL_H
#define HM_JIT_PLAN_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "jit/plan.h"
#include "jit/tune.h"

/* A request, reduced to what the choice depends on. */
struct hm_plan_problem {
	uint32_t act;   /* enum hm_config_act */
	uint32_t group; /* 0 = channel */
	uint32_t zero;  /* enum hm_config_zero */
	uint32_t n, k;  /* > 0 */
	uint32_t sms;   /* > 0 */
	bool one_order; /* deterministic: no split of K */
};

/**
 * Add a row for m_lo..m_hi behind the last one, or make the last one longer
 * when nothing but M differs. Rows come in order, without gaps.
 */
void hm_plan_add(struct hm_plan *plan, const struct hm_plan_row *row);

/* Members of the tables for a weight format; problem: act, group, zero. */
struct hm_config hm_plan_stream_config(const struct hm_plan_problem *problem,
    const struct hm_tune_stream *tune);
struct hm_config hm_plan_wgmma_config(const struct hm_plan_problem *problem,
    const struct hm_tune_wgmma *tune);
struct hm_config hm_plan_mma_config(const struct hm_plan_problem *problem,
    const struct hm_tune_mma *tune);

/* All rows of a table, from an empty plan. */
void hm_plan_sm90a(const struct hm_plan_problem *problem, struct hm_plan *plan);
void hm_plan_generic(const struct hm_plan_problem *problem,
    struct hm_plan *plan);

#endif
