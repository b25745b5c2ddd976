/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - from a request to the configuration of a kernel: a pure function.
 *
 * For one (target, types, scales, N, K, number of SMs) the plan is a table over
 * M: consecutive ranges, each with one compile-time configuration and the
 * launch arguments that go with it. The candidates per family are the const
 * tables of tune_*.c. Nothing here reads a file, a clock or a device.
 */
#ifndef HM_JIT_PLAN_H
#define HM_JIT_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "jit/config.h"
#include "proto/error.h"
#include "proto/request.h"

#define HM_PLAN_MAX_M    8192u
#define HM_PLAN_MAX_ROWS 32u

struct hm_plan_row {
	uint32_t m_lo, m_hi; /* inclusive; the last row has no upper end:
	                      * m_hi = UINT32_MAX */
	struct hm_config config;
	uint32_t cluster;       /* CTAs that split K (1 = none) */
	uint32_t band;          /* kernel H: N tiles per band, >= 1; else 0 */
	uint32_t prefetch;      /* kernel H: stages requested before the wait */
	uint32_t weight_policy; /* 0 normal, 1 evict first */
	uint32_t split_tail;    /* kernel H, persistent: 1 = the tiles of the
	                         * last wave are shared by all CTAs along K */
};

struct hm_plan {
	uint32_t n_rows;
	struct hm_plan_row rows[HM_PLAN_MAX_ROWS];
};

/**
 * The whole table for a request's types, target, n, k and sms (m is not read).
 * n = 0 or k = 0 stand for 8192. bias is a launch argument and changes
 * nothing. The operations pack and quant have one row. det takes only members
 * that sum every output in one order, whatever M is: one pass over K, never
 * split between warps or CTAs.
 *
 * Returns HM_OK, HM_E_INVALID (hm_spec_check's rules, no target) or
 * HM_E_UNSUPPORTED (no kernel of this build does that on this target, or there
 * is no such target), reason in errbuf; plan_out is then untouched.
 */
int hm_plan_compute(const struct hm_request *request, struct hm_plan *plan_out,
    struct hm_errbuf *errbuf);

/**
 * Whether this build has kernels for a target at all. A compiler may know more
 * targets: those serve sources of a client's own.
 *
 * Returns HM_OK, HM_E_INVALID (none is given) or HM_E_UNSUPPORTED, the reason
 * in errbuf with the targets that there are.
 */
int hm_plan_check_target(const struct hm_target *target,
    struct hm_errbuf *errbuf);

/* The row that serves m (0 counts as 1). Never NULL for a computed plan. */
const struct hm_plan_row *hm_plan_find(const struct hm_plan *plan, uint32_t m);

/* The target's usual number of SMs (sm_90a: 132); 0 if unknown. */
uint32_t hm_plan_usual_sms(const struct hm_target *target);

/* All SM counts that are usual for a target (sm_90a: 132, 114, 78), for
 * prewarm, the most usual first. Returns how many, at most max. */
size_t hm_plan_sms_list(const struct hm_target *target, uint32_t *sms,
    size_t max);

/**
 * What the compile tests build for a target, each once: every configuration
 * that a request of a main format (plan_list.c) can lead to; of the other
 * formats a small and a large member each, whose device code differs from the
 * main ones' in the format alone. Returns how many there are; writes at most
 * max.
 */
size_t hm_plan_all_configs(const struct hm_target *target,
    struct hm_config *configs, size_t max);

#endif
