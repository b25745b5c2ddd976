/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members.h - every member of the family for a format: all that the plan can
 * choose from, whether it would or not, and the launch arguments to try.
 */
#ifndef HM_TESTS_GPU_MEMBERS_H
#define HM_TESTS_GPU_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jit/plan.h"
#include "problem.h"
#include "session.h"

#define MEMBERS_MAX 64u

/* The members for a format on a target, at most max; 0 and a note when the plan
 * refuses it. */
size_t members_find(const struct session *session,
    const struct hm_target *target, const struct problem_spec *spec,
    struct hm_config *configs, size_t max);

/* Launch arguments: the i-th variation for a config; false when there is no
 * such one. The first is the plainest. Persistent members share their last
 * tiles along K in every second one. */
#define MEMBERS_N_VARIANTS 4u
bool members_variant(const struct hm_config *config, uint32_t i,
    struct hm_plan_row *row);

#endif
