/* SPDX-License-Identifier: Apache-2.0 */
/*
 * section_reference.c - the checkers checked: the GPU's reference against the
 * CPU's, and the comparison on outputs that are known to be wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "sections.h"

/* The GPU's plain weights back on the CPU, as a source without rounding. */
struct host_copy {
	uint8_t *codes;
	float *scales, *zeros, *a_scales;
	void *a;
	double *sums, *expected;
};

static void *
host_read(const void *d_from, size_t n_bytes)
{
	void *to = malloc(n_bytes);

	if (to == NULL) {
		printf("Bail out! no memory\n");
		_exit(3);
	}
	if (d_from != NULL)
		ops_copy_out(to, d_from, n_bytes);
	return to;
}

static double
host_compare(const struct problem *problem, struct host_copy *copy)
{
	const struct problem_spec *spec = &problem->spec;
	struct humming_weight_source source;
	struct humming_gemm_reference_args args = {0};
	double worst = 0;

	humming_weight_source_init(&source, sizeof source);
	source.n = spec->n;
	source.k = spec->k;
	source.a_type = format_a_type(&spec->format);
	source.w_type = format_w_type(&spec->format);
	source.scale_kind = spec->format.group != 0 ? HUMMING_SCALE_GROUP
						    : HUMMING_SCALE_CHANNEL;
	source.group = spec->format.group;
	source.scale_type = HUMMING_TYPE_F32;
	source.codes = copy->codes;
	source.scales = copy->scales;
	if (spec->format.zero != 0) {
		source.zero = HUMMING_ZERO_FLOAT;
		source.zero_type = HUMMING_TYPE_F32;
		source.zeros = copy->zeros;
	}
	args.m = spec->m_max;
	args.lda = spec->k;
	args.ldc = spec->n;
	args.a = copy->a;
	args.a_scale = copy->a_scales;
	args.a_scale_step = problem->a.scale_step;
	args.a_scale_group_step = problem->a.scale_group_step;
	args.c_out = copy->expected;
	if (humming_gemm_reference(&source, &args) != HUMMING_OK)
		return 1;
	for (size_t i = 0; i < (size_t)spec->m_max * spec->n; i++) {
		double error = copy->sums[i] - copy->expected[i];

		if (error < 0)
			error = -error;
		/* sums are of order 1 to 10 */
		worst = error > worst || error != error ? error : worst;
	}
	return worst;
}

static void
check_reference(struct session *session, const struct problem_spec *spec)
{
	struct problem problem;
	struct host_copy copy = {0};
	char shape[128], name[224];
	size_t n_scales = 0;
	size_t n_outputs = (size_t)spec->m_max * spec->n;
	double worst = 0;

	problem_init(&problem, spec, session->stream);
	n_scales = (size_t)spec->n *
		   ((spec->k + problem.plain.group - 1) / problem.plain.group);
	copy.codes =
	    host_read(problem.plain.d_codes, (size_t)spec->n * spec->k);
	copy.scales = host_read(problem.plain.d_scales, n_scales * 4);
	copy.zeros = host_read(problem.plain.d_zeros, n_scales * 4);
	copy.a = host_read(problem.a.d_a,
	    (size_t)spec->m_max * spec->k * format_act_bytes(&spec->format));
	if (problem.a.d_scales != NULL)
		copy.a_scales = host_read(problem.a.d_scales,
		    (size_t)spec->m_max * ((spec->k + 127) / 128) * 4);
	copy.sums = host_read(problem.reference.d_sums, n_outputs * 8);
	copy.expected = host_read(NULL, n_outputs * 8);
	worst = host_compare(&problem, &copy);
	session_describe(spec, shape, sizeof shape);
	snprintf(name, sizeof name, "reference %s: GPU and CPU differ by %.1e",
	    shape, worst);
	session_result(session, worst <= 1e-11, name);
	free(copy.codes);
	free(copy.scales);
	free(copy.zeros);
	free(copy.a);
	free(copy.a_scales);
	free(copy.sums);
	free(copy.expected);
	problem_done(&problem);
}

/* Does the comparison see what it must? On an output that no kernel wrote. */
static bool
control_is_good(struct session *session, struct problem *problem)
{
	const uint16_t wrong = 0x5640; /* 100 in f16, 5e13 in bf16 */
	uint32_t ld = problem->spec.n + PROBLEM_PAD;
	size_t n_all =
	    ((size_t)problem->spec.m_max + 2 * PROBLEM_GUARD_ROWS) * ld;
	uint16_t *d_c = problem->d_c + (size_t)PROBLEM_GUARD_ROWS * ld;
	struct ops_output output = {0};
	struct ops_measure nothing, perfect, one_wrong;

	output.d_c = d_c;
	output.d_bias = problem->d_bias;
	output.m = problem->spec.m_max;
	output.n = problem->spec.n;
	output.ld = ld;
	output.guard_rows = PROBLEM_GUARD_ROWS;
	output.is_f16 = format_out_is_f16(&problem->spec.format);
	ops_poison(problem->d_c, n_all, session->stream);
	ops_compare(&output, &problem->reference, &nothing, session->stream);
	ops_write_reference(&output, &problem->reference, session->stream);
	ops_compare(&output, &problem->reference, &perfect, session->stream);
	if (ops_count_inexact(&output, &problem->reference, session->stream))
		return false;
	/* one element in the last row, one behind it, one in the last guard */
	ops_copy_in(d_c + (size_t)(output.m - 1) * ld + 3, &wrong, 2);
	ops_copy_in(d_c + (size_t)(output.m - 1) * ld + output.n, &wrong, 2);
	ops_copy_in(problem->d_c + n_all - 1, &wrong, 2);
	ops_compare(&output, &problem->reference, &one_wrong, session->stream);
	return nothing.n_unwritten == output.m * output.n &&
	       perfect.n_unwritten == 0 && perfect.n_outside == 0 &&
	       perfect.n_compared == output.m && perfect.whole > 1e-5 &&
	       perfect.whole < 2e-3 && one_wrong.n_outside == 2 &&
	       one_wrong.worst_element > 0.05 && one_wrong.worst_token > 0.01 &&
	       ops_count_inexact(&output, &problem->reference,
		   session->stream) == 1;
}

static void
check_control(struct session *session, size_t format)
{
	struct problem_spec spec = check_format(format);
	struct problem problem;
	char shape[128], name[224];

	spec.n = 264;
	spec.k = 208;
	spec.m_max = 70;
	problem_init(&problem, &spec, session->stream);
	session_describe(&spec, shape, sizeof shape);
	snprintf(name, sizeof name,
	    "reference %s: the comparison sees one wrong output", shape);
	session_result(session, control_is_good(session, &problem), name);
	problem_done(&problem);
}

void
section_reference(struct session *session)
{
	if (session->wanting)
		return;
	for (size_t i = 0; i < format_count(); i++) {
		struct problem_spec spec = check_format(i);

		spec.n = 72;
		spec.k = 208;
		spec.m_max = 5;
		check_reference(session, &spec);
	}
	check_control(session, 2);
	check_control(session, 5);
	check_control(session, format_count() - 1);
}
