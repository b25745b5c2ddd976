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
void section_quant(struct session *session);
void section_plan(struct session *session);
void section_generic(struct session *session);
void section_ptx(struct session *session);
void section_large(struct session *session);
void section_tiles(struct session *session);
void section_exact(struct session *session);
void section_repeat(struct session *session);
void section_split(struct session *session);
void section_batch(struct session *session);
void section_sanitize(struct session *session);
void section_chain(struct session *session);

#endif
