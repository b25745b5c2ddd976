/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - one line of gemm_check: many runs of one problem, one verdict.
 */
#ifndef HM_TESTS_GPU_CHECK_H
#define HM_TESTS_GPU_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "problem.h"
#include "session.h"

/* Failures printed for one line of output; the rest is only counted. */
#define CHECK_MAX_NOTES 4u

/* A problem, its runs so far and the worst of them. */
struct check {
	struct session *session;
	struct problem problem;
	uint32_t n_runs, n_failed;
	uint32_t n_unfit; /* not run: too large for shared memory */
	double worst;     /* largest |C - ref| / |ref| */
	double bound;     /* that goes with it */
};

void check_init(struct check *check, struct session *session,
    const struct problem_spec *spec);
/* Print the TAP line. */
void check_done(struct check *check, const char *name);

/* One kernel and the launch arguments that go with it. */
struct check_kernel {
	const struct kernel *kernel;
	const struct hm_plan_row *row;
};

/* Run and compare: nothing unwritten, nothing outside, errors in bounds. */
void check_run(struct check *check, const struct check_kernel *kernel,
    uint32_t m, bool bias, bool padded);

/* Run and compare bit for bit with the rounded reference. */
void check_exact(struct check *check, const struct check_kernel *kernel,
    uint32_t m, bool bias);

/* Run `times` times: the same bits each time. */
void check_repeat(struct check *check, const struct check_kernel *kernel,
    uint32_t m, uint32_t times);

/* Note a failure, printf-like text without newline. */
void check_fail(struct check *check, const struct check_kernel *kernel,
    uint32_t m, const char *text);

/* Run at m_most and at m tokens, each with its kernel: the first m tokens have
 * the same bits. */
void check_same_rows(struct check *check, const struct check_kernel *most,
    uint32_t m_most, const struct check_kernel *few, uint32_t m);

/* format_at(index) as a spec without sizes. */
struct problem_spec check_format(size_t index);

#endif
