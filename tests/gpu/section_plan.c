/* SPDX-License-Identifier: Apache-2.0 */
/*
 * section_plan.c - what the plan chooses, for the shapes and sizes of CASES.md,
 * for odd ones, for other targets and for large ones.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "jit/spec.h"
#include "proto/request.h"
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
	char target[16], shape[128], name[224];

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
		uint32_t n, k;
		struct format format;
		bool bias;
	} cases[] = {
	    {"case 1", 1024, 1024, {0}, false},
	    {"case 3", 1024, 1024,
		{.act = HM_CONFIG_ACT_F16,
		    .group = 64,
		    .zero = HM_CONFIG_ZERO_INT},
		false},
	    {"case 4", 1024, 1024,
		{.act = HM_CONFIG_ACT_F16,
		    .group = 128,
		    .zero = HM_CONFIG_ZERO_FLOAT},
		false},
	    {"case 8", 1024, 1024, {.weight = HM_CONFIG_WEIGHT_E4M3}, false},
	    {"W8A16 u8", 1024, 1024, {.weight = HM_CONFIG_WEIGHT_U8}, false},
	    {"case 9", 1024, 1024,
		{.weight = HM_CONFIG_WEIGHT_E4M3,
		    .group = 128,
		    .scales = FORMAT_BLOCKS},
		false},
	    {"case 11", 1024, 1024,
		{.weight = HM_CONFIG_WEIGHT_E2M1,
		    .group = 32,
		    .scale_type = HM_TYPE_E8M0},
		false},
	    {"case 13", 1024, 1024,
		{.act = HM_CONFIG_ACT_E4M3, .weight = HM_CONFIG_WEIGHT_E4M3},
		false},
	    {"case 13, precise", 1024, 1024,
		{.act = HM_CONFIG_ACT_E4M3,
		    .weight = HM_CONFIG_WEIGHT_E4M3,
		    .precise = true},
		false},
	    {"case 14", 7168, 2048,
		{.act = HM_CONFIG_ACT_E4M3,
		    .weight = HM_CONFIG_WEIGHT_E4M3,
		    .group = 128,
		    .scales = FORMAT_BLOCKS,
		    .act_scales = FORMAT_ACT_GROUP},
		false},
	    {"case 15", 1024, 1024, {.act = HM_CONFIG_ACT_E4M3, .group = 128},
		false},
	    {"case 17", 1024, 1024,
		{.act = HM_CONFIG_ACT_E4M3,
		    .weight = HM_CONFIG_WEIGHT_E2M1,
		    .group = 32,
		    .scale_type = HM_TYPE_E8M0},
		false},
	    {"case 18", 1024, 1024,
		{.act = HM_CONFIG_ACT_S8, .weight = HM_CONFIG_WEIGHT_U8},
		false},
	    {"case 22", 1024, 1024, {.act = HM_CONFIG_ACT_E5M2}, false},
	    {"case 23", 1000, 992, {.group = 128}, true},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct plan_job job = {.spec = {.n = cases[i].n,
					   .k = cases[i].k,
					   .format = cases[i].format},
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
	static const uint32_t shapes[][2] = {{1000, 1000}, {8, 8}, {264, 4096},
	    {1024, 1024}, {1000, 992}, {8, 1024}, {1032, 72}};

	for (size_t i = 0; i < format_count() * COUNT(shapes); i++) {
		size_t index = i / COUNT(shapes), shape = i % COUNT(shapes);
		struct plan_job job = {.spec = check_format(index),
		    .target = session->target,
		    .m_list = {all_m, COUNT(all_m)},
		    .name = "plan"};
		uint32_t step = format_k_step(&job.spec.format);

		/* The others differ from the first in how weights and
		 * activations are read, not in how rows are chosen. */
		if ((index >= FORMAT_N_FIRST && shape >= 3) ||
		    (session->thin && (shape >= 2 || index % 2 != 0)))
			continue;
		job.spec.n = shapes[shape][0];
		job.spec.k = (shapes[shape][1] + step - 1) / step * step;
		run_plan(session, &job);
	}
}

/* det=1: at every M the bits that the same tokens have at the largest. */
static void
run_batch(struct session *session, struct plan_job *job)
{
	struct hm_plan plan;
	struct check check;
	char target[16], shape[128], name[224];
	size_t n = job->m_list.n - 1;
	uint32_t most = job->m_list.m[n];
	struct check_kernel kernels[2] = {{NULL, NULL}, {NULL, NULL}};

	job->spec.m_max = most;
	session_describe(&job->spec, shape, sizeof shape);
	snprintf(name, sizeof name, "%s %s", job->name, shape);
	target_name(job, target);
	if (!session_plan(session, &job->spec, &job->target, &plan)) {
		if (!session->wanting)
			session_result(session, false, name);
		return;
	}
	for (size_t i = 0; session->wanting && i <= n; i++)
		kernels_want(&hm_plan_find(&plan, job->m_list.m[i])->config,
		    target);
	if (session->wanting)
		return;
	check_init(&check, session, &job->spec);
	kernels[0].row = hm_plan_find(&plan, most);
	kernels[0].kernel = kernels_find(&kernels[0].row->config, target);
	for (size_t i = 0; i < n; i++) {
		kernels[1].row = hm_plan_find(&plan, job->m_list.m[i]);
		kernels[1].kernel =
		    kernels_find(&kernels[1].row->config, target);
		check_same_rows(&check, &kernels[0], most, &kernels[1],
		    job->m_list.m[i]);
	}
	check_done(&check, name);
}

void
section_batch(struct session *session)
{
	static const struct format formats[] = {
	    {.group = 128},
	    {.act = HM_CONFIG_ACT_F16, .group = 64, .zero = HM_CONFIG_ZERO_INT},
	    {.weight = HM_CONFIG_WEIGHT_E4M3},
	    {.act = HM_CONFIG_ACT_E4M3, .weight = HM_CONFIG_WEIGHT_E4M3},
	    {.act = HM_CONFIG_ACT_E4M3, .group = 128},
	    {.act = HM_CONFIG_ACT_E4M3,
		.weight = HM_CONFIG_WEIGHT_E2M1,
		.group = 32,
		.scale_type = HM_TYPE_E8M0},
	    {.act = HM_CONFIG_ACT_E4M3,
		.weight = HM_CONFIG_WEIGHT_E4M3,
		.group = 128,
		.scales = FORMAT_BLOCKS,
		.act_scales = FORMAT_ACT_GROUP},
	    {.act = HM_CONFIG_ACT_S8},
	};
	static const uint32_t shapes[][2] = {{1000, 1008}, {4096, 4096}};

	for (size_t i = 0; i < COUNT(formats) * COUNT(shapes); i++) {
		struct plan_job job = {
		    .spec = {.format = formats[i / COUNT(shapes)]},
		    .target = session->target,
		    .m_list = {all_m, COUNT(all_m)},
		    .name = "batch"};

		job.spec.format.det = true;
		job.spec.slab = 512;
		job.spec.unchecked = true;
		job.spec.n = shapes[i % COUNT(shapes)][0];
		job.spec.k = shapes[i % COUNT(shapes)][1];
		run_batch(session, &job);
	}
}

void
section_generic(struct session *session)
{
	static const uint32_t shapes[][2] = {{1024, 1024}, {1000, 1000},
	    {72, 8}};

	for (uint32_t i = 0; i < FORMAT_N_FIRST * COUNT(shapes); i++) {
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
	static const struct format squares[] = {
	    {.group = 128},
	    {.weight = HM_CONFIG_WEIGHT_U8},
	    {.act = HM_CONFIG_ACT_E4M3, .weight = HM_CONFIG_WEIGHT_E2M1},
	    {.act = HM_CONFIG_ACT_E4M3, .group = 128},
	    {.act = HM_CONFIG_ACT_E4M3, .weight = HM_CONFIG_WEIGHT_E4M3},
	    {.act = HM_CONFIG_ACT_S8, .weight = HM_CONFIG_WEIGHT_U8},
	};
	static const struct format layers[] = {
	    {.group = 128},
	    {.act = HM_CONFIG_ACT_F16},
	    {.act = HM_CONFIG_ACT_S8},
	};

	for (size_t i = 0; i < COUNT(squares) + COUNT(layers); i++) {
		bool square = i < COUNT(squares);
		struct plan_job job = {.spec = {.n = square ? 8192 : 5120,
					   .k = square ? 8192 : 25600,
					   .slab = 512},
		    .target = session->target,
		    .m_list = {square ? square_m : layer_m,
			square ? COUNT(square_m) : COUNT(layer_m)},
		    .name = square ? "large" : "Qwen3-32B down_proj"};

		job.spec.format =
		    square ? squares[i] : layers[i - COUNT(squares)];
		if (i == 0) {
			job.spec.slab = 0; /* all 8192 rows differ */
			job.name = "case 2";
		}
		run_plan(session, &job);
	}
}
