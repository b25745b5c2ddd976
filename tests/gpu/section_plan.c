/* SPDX-License-Identifier: Apache-2.0 */
/*
 * section_plan.c - what the plan chooses, for the shapes and sizes of CASES.md,
 * for odd ones, for other targets and for large ones.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "jit/spec.h"
#include "sections.h"

static const uint32_t all_m[] = {1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 31, 33, 64,
    65, 100, 127, 129, 256, 257, 300, 1000, 1024, 4096};
static const uint32_t case_m[] = {1, 17, 64, 257, 1024, 4096};
static const uint32_t few_m[] = {1, 7, 8, 16, 17, 33, 64, 100, 129, 257, 1000};

/* A list of M, the last of which is the largest. */
struct m_list {
	const uint32_t *m;
	size_t n;
};

/* What to do with the plan of one problem. */
struct plan_job {
	struct problem_spec spec;
	struct hm_target target;
	const char *build_target; /* NULL: the target's own name */
	struct m_list m_list;
	bool always_bias;
	const char *name; /* in front of the description */
};

static void
target_name(const struct plan_job *job, char text[16])
{
	if (job->build_target != NULL)
		snprintf(text, 16, "%s", job->build_target);
	else
		hm_target_print(&job->target, text);
}

/* Every M of a list through the row that the plan has for it. */
static void
run_plan(struct session *session, struct plan_job *job)
{
	struct hm_plan plan;
	struct check check;
	char target[16], shape[64], name[128];

	job->spec.m_max = job->m_list.m[job->m_list.n - 1];
	session_describe(&job->spec, shape, sizeof shape);
	snprintf(name, sizeof name, "%s %s", job->name, shape);
	target_name(job, target);
	if (!session->wanting && session_is_late(session)) {
		session_skip(session, name, "time limit");
		return;
	}
	if (!session_plan(session, &job->spec, &job->target, &plan)) {
		if (!session->wanting)
			session_result(session, false, name);
		return;
	}
	if (!session->wanting)
		check_init(&check, session, &job->spec);
	for (size_t i = 0; i < job->m_list.n; i++) {
		uint32_t m = job->m_list.m[i];
		const struct hm_plan_row *row = hm_plan_find(&plan, m);
		struct check_kernel kernel = {NULL, row};

		if (session->wanting) {
			kernels_want(&row->config, target);
			continue;
		}
		kernel.kernel = kernels_find(&row->config, target);
		check_run(&check, &kernel, m, job->always_bias || i % 2 != 0,
		    i / 2 % 2 != 0);
	}
	if (!session->wanting)
		check_done(&check, name);
}

void
section_cases(struct session *session)
{
	static const struct {
		const char *name;
		struct problem_spec spec;
		bool bias;
	} cases[] = {
	    {"case 1", {.n = 1024, .k = 1024}, false},
	    {"case 3", {.n = 1024, .k = 1024, .act = 1, .group = 64, .zero = 1},
		false},
	    {"case 4",
		{.n = 1024, .k = 1024, .act = 1, .group = 128, .zero = 2},
		false},
	    {"case 23", {.n = 1000, .k = 992, .group = 128}, true},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct plan_job job = {.spec = cases[i].spec,
		    .target = session->target,
		    .m_list = {case_m, COUNT(case_m)},
		    .always_bias = cases[i].bias,
		    .name = cases[i].name};

		run_plan(session, &job);
	}
}

void
section_plan(struct session *session)
{
	static const uint32_t shapes[][2] = {{1024, 1024}, {1000, 992},
	    {1000, 1000}, {8, 8}, {8, 1024}, {1032, 72}, {264, 4096}};

	for (uint32_t i = 0; i < CHECK_N_FORMATS * COUNT(shapes); i++) {
		struct plan_job job = {.spec = check_format(i / COUNT(shapes)),
		    .target = session->target,
		    .m_list = {all_m, COUNT(all_m)},
		    .name = "plan"};

		job.spec.n = shapes[i % COUNT(shapes)][0];
		job.spec.k = shapes[i % COUNT(shapes)][1];
		run_plan(session, &job);
	}
}

void
section_generic(struct session *session)
{
	static const uint32_t shapes[][2] = {{1024, 1024}, {1000, 1000},
	    {72, 8}};

	for (uint32_t i = 0; i < CHECK_N_FORMATS * COUNT(shapes); i++) {
		struct plan_job job = {.spec = check_format(i / COUNT(shapes)),
		    .target = {session->target.cc, 0},
		    .m_list = {few_m, COUNT(few_m)},
		    .name = "generic"};

		job.spec.n = shapes[i % COUNT(shapes)][0];
		job.spec.k = shapes[i % COUNT(shapes)][1];
		run_plan(session, &job);
	}
}

void
section_ptx(struct session *session)
{
	/* channel, g128, g64 with integer, g32 with float zero points; both
	 * activation types */
	static const uint32_t formats[] = {0, 3, 10, 19};

	for (size_t i = 0; i < COUNT(formats); i++) {
		struct plan_job job = {.spec = check_format(formats[i]),
		    .target = {80, 0},
		    .build_target = "compute_80",
		    .m_list = {few_m, COUNT(few_m)},
		    .name = "ptx"};

		job.spec.n = 1000;
		job.spec.k = 1000;
		run_plan(session, &job);
	}
}

void
section_large(struct session *session)
{
	static const uint32_t square_m[] = {1, 2, 4, 8, 16, 17, 32, 64, 128,
	    257, 512, 1024, 4096, 8192};
	static const uint32_t layer_m[] = {1, 5, 16, 100, 256, 2048};
	struct plan_job square = {.spec = {.n = 8192, .k = 8192, .group = 128},
	    .target = session->target,
	    .m_list = {square_m, COUNT(square_m)},
	    .name = "case 2"};
	struct plan_job layer = {.spec = {.n = 5120, .k = 25600, .group = 128},
	    .target = session->target,
	    .m_list = {layer_m, COUNT(layer_m)},
	    .name = "Qwen3-32B down_proj"};

	run_plan(session, &square);
	run_plan(session, &layer);
	layer.spec.act = HM_CONFIG_ACT_F16;
	layer.spec.group = 0;
	run_plan(session, &layer);
}
