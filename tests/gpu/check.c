/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c - run, compare, judge.
 *
 * Bounds on the relative error (KERNELS.md 9, problem_bound): b over the whole
 * output, 2b over each token and each weight row, 10b for every single output.
 * Token, row and element are measured against the larger of |ref| and the root
 * of the sum of squared products, so that a sum that cancels is not held
 * against the kernel; the last one catches one wrong element in an output of
 * millions.
 *
 * The norm of few errors scatters, and the worst of thousands of such norms is
 * far from the mean: d errors of standard deviation s have the norm
 * s * sqrt(chi2(d) / d). With s = 0.85b, the mean, one in 10^6 passes 2b at
 * d = 8 and none in 10^17 passes 3b; but the rounding of a float zero point is
 * one error for all weights of a group, so that some rows have s = 1.3b, and
 * 2.2b was seen at d = 8 and 16 on kernels that are right (exact integers give
 * exact results). Hence 3b for tokens and rows of fewer than 64 outputs, rows
 * of fewer than 8 not judged (device_ops), 2b for a whole output of fewer than
 * 256.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "client/gemm_error.h"

#define CHECK_FEW_OUTPUTS   256u
#define CHECK_SHORT_OUTPUTS 64u

void
check_init(struct check *check, struct session *session,
    const struct problem_spec *spec)
{
	memset(check, 0, sizeof *check);
	check->session = session;
	problem_init(&check->problem, spec, session->stream);
}

void
check_done(struct check *check, const char *name)
{
	char text[256], unfit[64] = "";

	if (check->n_unfit > 0)
		snprintf(unfit, sizeof unfit,
		    ", %u not run: too large for shared memory",
		    check->n_unfit);
	if (check->worst > 0)
		snprintf(text, sizeof text,
		    "%s: %u runs, worst %.2e of %.1e allowed%s", name,
		    check->n_runs, check->worst, check->bound, unfit);
	else
		snprintf(text, sizeof text, "%s: %u runs%s", name,
		    check->n_runs, unfit);
	session_result(check->session,
	    check->n_failed == 0 && check->n_runs > 0, text);
	problem_done(&check->problem);
}

void
check_fail(struct check *check, const struct check_kernel *kernel, uint32_t m,
    const char *text)
{
	char name[128];

	if (check->n_failed++ >= CHECK_MAX_NOTES)
		return;
	kernels_describe(&kernel->kernel->config, name, sizeof name);
	printf("# M=%u %s %s cluster=%u band=%u prefetch=%u: %s\n", m, name,
	    kernel->kernel->target, kernel->row->cluster, kernel->row->band,
	    kernel->row->prefetch, text);
}

/* Launch; false and a note when there is no kernel or no launch. */
static bool
check_start(struct check *check, const struct check_kernel *kernel,
    const struct run *run, struct ops_output *output)
{
	check->n_runs++;
	if (kernel->kernel->function == NULL) {
		check_fail(check, kernel, run->m, kernel->kernel->why);
		return false;
	}
	if (problem_run(&check->problem, run, output) == HM_OK)
		return true;
	check_fail(check, kernel, run->m, hm_gemm_errbuf()->text);
	return false;
}

static struct run
check_make_run(const struct check *check, const struct check_kernel *kernel,
    uint32_t m)
{
	struct run run = {0};

	run.driver = check->session->driver;
	run.kernel = kernel->kernel;
	run.row = kernel->row;
	run.sms = check->session->info.sms;
	run.m = m;
	/* Kernels for targets before sm_90 have no grid dependency. */
	run.pdl = strncmp(kernel->kernel->target, "compute_", 8) != 0;
	run.stream = check->session->stream;
	return run;
}

static bool
check_is_good(const struct ops_measure *measure, double bound,
    const struct ops_output *output)
{
	bool few = (uint64_t)output->m * output->n < CHECK_FEW_OUTPUTS;
	bool short_token = output->n < CHECK_SHORT_OUTPUTS;
	bool short_row = measure->n_compared < CHECK_SHORT_OUTPUTS;

	return measure->n_unwritten == 0 && measure->n_outside == 0 &&
	       measure->whole <= bound * (few ? 2 : 1) &&
	       measure->worst_token <= bound * (short_token ? 3 : 2) &&
	       measure->worst_row <= bound * (short_row ? 3 : 2) &&
	       measure->worst_element <= bound * 10;
}

void
check_run(struct check *check, const struct check_kernel *kernel, uint32_t m,
    bool bias, bool padded)
{
	struct run run = check_make_run(check, kernel, m);
	struct ops_measure measure;
	struct ops_output output;
	char text[256];
	double bound =
	    problem_bound(&check->problem.spec, &kernel->kernel->config);

	run.bias = bias;
	run.padded = padded;
	if (!check_start(check, kernel, &run, &output))
		return;
	ops_compare(&output, &check->problem.reference, &measure, run.stream);
	if (check->bound <= 0 ||
	    measure.whole / bound > check->worst / check->bound) {
		check->worst = measure.whole;
		check->bound = bound;
	}
	if (check_is_good(&measure, bound, &output))
		return;
	snprintf(text, sizeof text,
	    "%s%serror %.2e, token %.2e, row %.2e, element %.2e (bound %.1e), "
	    "%u not written, %u written outside",
	    bias ? "bias, " : "", padded ? "padded, " : "", measure.whole,
	    measure.worst_token, measure.worst_row, measure.worst_element,
	    bound, measure.n_unwritten, measure.n_outside);
	check_fail(check, kernel, m, text);
}

void
check_exact(struct check *check, const struct check_kernel *kernel, uint32_t m,
    bool bias)
{
	struct run run = check_make_run(check, kernel, m);
	struct ops_output output;
	char text[64];
	uint32_t n = 0;

	run.bias = bias;
	if (!check_start(check, kernel, &run, &output))
		return;
	n = ops_count_inexact(&output, &check->problem.reference, run.stream);
	snprintf(text, sizeof text, "%u of %zu outputs are not exact", n,
	    (size_t)m * output.n);
	if (n != 0)
		check_fail(check, kernel, m, text);
}

void
check_repeat(struct check *check, const struct check_kernel *kernel, uint32_t m,
    uint32_t times)
{
	struct run run = check_make_run(check, kernel, m);
	struct ops_output output;
	char text[64];

	for (uint32_t i = 0; i < times; i++) {
		uint32_t n = 0;

		if (!check_start(check, kernel, &run, &output))
			return;
		if (i == 0) {
			problem_keep(&check->problem, &output, run.stream);
			continue;
		}
		n = problem_count_changed(&check->problem, &output, run.stream);
		if (n == 0)
			continue;
		snprintf(text, sizeof text, "%u outputs changed in run %u", n,
		    i + 1);
		check_fail(check, kernel, m, text);
		return;
	}
}

void
check_same_rows(struct check *check, const struct check_kernel *most,
    uint32_t m_most, const struct check_kernel *few, uint32_t m)
{
	struct run run = check_make_run(check, most, m_most);
	struct problem *problem = &check->problem;
	size_t before = (size_t)PROBLEM_GUARD_ROWS * problem->spec.n;
	struct ops_output output;
	char text[96];
	uint32_t n = 0;

	if (!check_start(check, most, &run, &output))
		return;
	problem_keep(problem, &output, run.stream);
	run = check_make_run(check, few, m);
	if (!check_start(check, few, &run, &output))
		return;
	n = ops_count_different(problem->d_kept + before, problem->d_c + before,
	    (size_t)m * problem->spec.n, run.stream);
	snprintf(text, sizeof text, "%u outputs differ from those at M=%u", n,
	    m_most);
	if (n != 0)
		check_fail(check, few, m, text);
}

struct problem_spec
check_format(size_t index)
{
	return (struct problem_spec){.format = format_at(index)};
}
