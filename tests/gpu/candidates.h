/* SPDX-License-Identifier: Apache-2.0 */
/*
 * candidates.h - all ways in which the plan could serve one M of a layer, timed.
 */
#ifndef HM_TESTS_GPU_CANDIDATES_H
#define HM_TESTS_GPU_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jit/plan_impl.h"
#include "layer.h"
#include "session.h"

#define CANDIDATES_MAX 48u

struct candidate {
	struct hm_tune_row name; /* member, cluster and share */
	struct hm_plan_row row;
	float us; /* with PDL; 0 = no launch */
};

struct candidates {
	struct candidate items[CANDIDATES_MAX];
	size_t n;
	size_t chosen; /* the plan's own */
};

/* A format and sizes as the plan sees them; false and a note if refused. */
bool candidates_problem(const struct session *session,
    const struct problem_spec *spec, struct hm_plan_problem *problem_out);

/**
 * Every member with every cluster or sharing of its last tiles, but those whose
 * tile is mostly padding and those of kernel H whose modelled time is more than
 * so many percent of the best's: they would only take time.
 *
 * plan  of the problem; its choice for m is always among them
 */
void candidates_list(const struct hm_plan_problem *problem,
    const struct hm_plan *plan, uint32_t m, uint32_t percent,
    struct candidates *candidates_out);

/* Time those of one M, in turn, quickly. */
void candidates_time(struct session *session, struct layer *layer, uint32_t m,
    struct candidates *candidates);

/* Time only the best and the chosen one again, in turn, carefully. */
void candidates_confirm(struct session *session, struct layer *layer,
    uint32_t m, struct candidates *candidates);

/* Index of the fastest; n when none was launched. */
size_t candidates_best(const struct candidates *candidates);

#endif
