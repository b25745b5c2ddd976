/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_impl.h - what plan.c, plan_format.c and the choosers per family share,
 * nobody else.
 */
#ifndef HM_JIT_PLAN_IMPL_H
#define HM_JIT_PLAN_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "jit/plan.h"
#include "jit/tune.h"

/* A request, reduced to what the choice depends on. */
struct hm_plan_problem {
	/* What is multiplied: act, out, weight, scale, group, zero, act_scale
	 * and promote; all else is 0. */
	struct hm_config format;
	uint32_t n, k;  /* > 0 */
	uint32_t sms;   /* > 0 */
	bool one_order; /* deterministic: no split of K */
};

/**
 * The format of a gemm or of its pack.
 *
 * full        completed, legal by hm_spec_check
 * format_out  untouched on failure
 *
 * Returns HM_OK or HM_E_UNSUPPORTED (no kernel of this build on any target),
 * reason in errbuf.
 */
int hm_plan_format(const struct hm_request *full, struct hm_config *format_out,
    struct hm_errbuf *errbuf);

/* The configuration of an operation quant; returns as hm_plan_format. */
int hm_plan_quant(const struct hm_request *full, struct hm_config *config_out,
    struct hm_errbuf *errbuf);

/* Whether a known target has kernels for a format, or for a configuration of
 * the family quant. HM_OK or HM_E_UNSUPPORTED, reason in errbuf. */
int hm_plan_check_format(const struct hm_config *format,
    const struct hm_target *target, struct hm_errbuf *errbuf);

/* "WHAT: this build has kernels for TAKES only". Returns HM_E_UNSUPPORTED. */
int hm_plan_refuse(struct hm_errbuf *errbuf, const char *what,
    const char *takes);

/* sm_90a: kernels S and H, all formats. */
bool hm_plan_is_hopper(const struct hm_target *target);

/* Which of the tables of tune_sm90a.c a format is chosen from. */
enum hm_tune_class hm_plan_class(const struct hm_config *format);

/**
 * Add a row for m_lo..m_hi behind the last one, or make the last one longer
 * when nothing but M differs. Rows come in order, without gaps.
 */
void hm_plan_add(struct hm_plan *plan, const struct hm_plan_row *row);

/* Whether kernel H has a member for a format: with sums on two levels, two
 * slices leave no registers for operands of 8-bit weights. */
bool hm_plan_wgmma_serves(const struct hm_config *format,
    const struct hm_tune_wgmma *tune);

/* Whether its CTAs can hand over pieces of tiles: persistent ones of at most
 * 256 by 128, and of 256 rows where zero points leave the registers. */
bool hm_plan_shares(const struct hm_config *format,
    const struct hm_tune_wgmma *tune);

/* The member with one set of warpgroups, which sums every output in the order
 * in which all such members do: two sets have two sums. */
struct hm_tune_wgmma hm_plan_one_order(const struct hm_tune_wgmma *tune);

/* Members of the tables for a weight format. */
struct hm_config hm_plan_stream_config(const struct hm_config *format,
    const struct hm_tune_stream *tune);
struct hm_config hm_plan_wgmma_config(const struct hm_config *format,
    const struct hm_tune_wgmma *tune);
struct hm_config hm_plan_mma_config(const struct hm_config *format,
    const struct hm_tune_mma *tune);
struct hm_config hm_plan_pack_config(const struct hm_config *format);

/**
 * The row of a member for a range of M, as tune_sm90a_rows.c or tests/gpu/tune
 * names it: class, weight_bits, n, k and M of `measured` are not looked at.
 *
 * Returns false when the class has no such member, or not with these sizes.
 */
bool hm_plan_measured_row(const struct hm_plan_problem *problem,
    const struct hm_tune_row *measured, uint32_t m_lo, uint32_t m_hi,
    struct hm_plan_row *row_out);

/* All rows of a table, from an empty plan. */
void hm_plan_sm90a(const struct hm_plan_problem *problem, struct hm_plan *plan);
void hm_plan_generic(const struct hm_plan_problem *problem,
    struct hm_plan *plan);

#endif
