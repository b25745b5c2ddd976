/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sections.h - the sections of gemm_check. Each is called twice: first to say
 * which kernels it needs (session->wanting), then, when all are built, to run.
 */
#ifndef HM_TESTS_GPU_SECTIONS_H
#define HM_TESTS_GPU_SECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "session.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

void section_reference(struct session *session);
void section_cases(struct session *session);
void section_pack(struct session *session);
/* Part of section sanitize. */
void section_pack_small(struct session *session);
void section_plan(struct session *session);
void section_generic(struct session *session);
void section_ptx(struct session *session);
void section_large(struct session *session);
void section_tiles(struct session *session);
void section_exact(struct session *session);
void section_repeat(struct session *session);
void section_sanitize(struct session *session);
void section_chain(struct session *session);

/* The members of the family for one format, at most max; returns how many. */
size_t format_configs(const struct hm_target *target,
    const struct problem_spec *spec, struct hm_config *configs, size_t max);

/* Launch arguments: the i-th variation for a config; false when there is no
 * such one. The first is the plainest. */
bool row_variant(const struct hm_config *config, uint32_t i,
    struct hm_plan_row *row);

#endif
