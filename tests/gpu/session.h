/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - what the GPU programs share at their start and end: the GPU, its
 * plans, TAP lines, the time limit.
 */
#ifndef HM_TESTS_GPU_SESSION_H
#define HM_TESTS_GPU_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <humming/gemm.h>

#include "client/driver.h"
#include "jit/plan.h"
#include "problem.h"

struct session {
	const struct hm_driver *driver; /* NULL: compile only */
	struct humming_device *device;
	struct humming_device_info info;
	struct hm_target target; /* of the GPU */
	void *stream;
	double end_s; /* on kernels_seconds' clock */
	bool wanting; /* first pass: only say which kernels are needed */
	bool thin;    /* of the formats beyond W4A16 less: when time is short */
	uint32_t n_tests, n_failed, n_skipped;
};

/**
 * Find the GPU and NVRTC.
 *
 * compile_only  do without a GPU, as if it were an sm_90a with 132 SMs
 *
 * Returns true to go on; false after printing the TAP line that says why not.
 */
bool session_open(struct session *session, bool compile_only, double seconds);

/* Print the plan and the totals; ends the process, with 0 or 1. */
_Noreturn void session_end(struct session *session);

/* One TAP line. */
void session_result(struct session *session, bool ok, const char *name);
void session_skip(struct session *session, const char *name, const char *why);

/* Is the time used up? */
bool session_is_late(const struct session *session);

/* The plan for a request's text, or for a format and shape, on a target; prints
 * why and returns false when there is none. */
bool session_plan_text(const struct session *session, const char *text,
    const struct hm_target *target, struct hm_plan *plan_out);
bool session_plan(const struct session *session,
    const struct problem_spec *spec, const struct hm_target *target,
    struct hm_plan *plan_out);

/* "bf16 u4 g128 1000x992" */
void session_describe(const struct problem_spec *spec, char *text, size_t size);

#endif
