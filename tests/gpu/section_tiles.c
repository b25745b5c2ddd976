/* SPDX-License-Identifier: Apache-2.0 */
/*
 * section_tiles.c - every member of the family, whether the plan would choose it
 * or not, at the edges of its tile and with every kind of launch argument.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "jit/launch.h"
#include "jit/spec.h"
#include "sections.h"

#define MAX_CONFIGS 1024

size_t
format_configs(const struct hm_target *target, const struct problem_spec *spec,
    struct hm_config *configs, size_t max)
{
	static struct hm_config all[MAX_CONFIGS];
	size_t n_all = hm_plan_all_configs(target, all, MAX_CONFIGS);
	size_t n = 0;

	for (size_t i = 0; i < n_all && i < MAX_CONFIGS && n < max; i++)
		if (all[i].family != HM_FAMILY_PACK &&
		    all[i].act == spec->act && all[i].group == spec->group &&
		    all[i].zero == spec->zero)
			configs[n++] = all[i];
	return n;
}

bool
row_variant(const struct hm_config *config, uint32_t i, struct hm_plan_row *row)
{
	static const uint32_t clusters[] = {1, 2, 4, 3};
	static const uint32_t prefetches[] = {1, 2, 0, 64};
	static const uint32_t bands[] = {1, 3, 0, 16};

	memset(row, 0, sizeof *row);
	row->config = *config;
	row->cluster = 1;
	row->weight_policy = i % 2;
	row->band = 1;
	if (i >= 4)
		return false;
	switch ((enum hm_family)config->family) {
	case HM_FAMILY_STREAM:
		row->cluster = clusters[i];
		return true;
	case HM_FAMILY_WGMMA:
		row->prefetch = prefetches[i] < config->stages ? prefetches[i]
							       : config->stages;
		row->band = bands[i];
		if (config->split_k != 0)
			row->cluster = clusters[i];
		return true;
	case HM_FAMILY_MMA:
		return i == 0;
	case HM_FAMILY_PACK: /* section_pack.c */
		return false;
	}
	return false;
}

/* M at the edges of a config's tile. */
static void
edge_m(const struct hm_config *config, uint32_t m[6])
{
	uint32_t tile = config->tile_tokens;
	uint32_t most = 8 * config->token_tiles;
	const uint32_t few[] = {1, 2, 3, most / 2 + 1, most - 1, most};
	const uint32_t many[] = {1, tile - 1, tile, tile + 1, 3 * tile + 5,
	    300};

	memcpy(m, config->family == HM_FAMILY_STREAM ? few : many,
	    6 * sizeof *m);
}

enum tile_check { TILE_BOUNDS, TILE_EXACT, TILE_REPEAT, TILE_ONCE, TILE_DEEP };

static void
check_tile(struct check *check, const struct check_kernel *kernel, uint32_t m,
    enum tile_check kind)
{
	switch (kind) {
	case TILE_BOUNDS:
	case TILE_ONCE:
	case TILE_DEEP:
		check_run(check, kernel, m, m % 2 != 0, m % 3 == 0);
		return;
	case TILE_EXACT:
		check_exact(check, kernel, m, m % 2 != 0);
		return;
	case TILE_REPEAT:
		check_repeat(check, kernel, m, 20);
		return;
	}
}

/*
 * Do the activations of m tokens fit shared memory beside this member's rings?
 * Members of S with 16 warps and the largest chunks (groups of 32 with float
 * zero points) are too large at 8 tokens. The plan never chooses what does not
 * fit: test_plan sweeps that, and section plan fails if a launch is refused.
 */
static bool
tile_fits(const struct check *check, const struct hm_plan_row *row, uint32_t m)
{
	const struct problem_spec *spec = &check->problem.spec;
	struct hm_launch launch;

	return hm_launch_compute(row, m, spec->n, spec->k,
		   check->session->info.sms, &launch) != HM_E_UNSUPPORTED;
}

/* One line of output. */
struct tile_job {
	const struct hm_target *target;
	struct problem_spec spec;
	enum tile_check kind;
	const char *label;
};

/* Every config, every variation, every edge. */
static void
check_tiles(struct check *check, const struct tile_job *job,
    const struct hm_config *configs, size_t n)
{
	struct check_kernel kernel;
	struct hm_plan_row row;
	uint32_t edges[6];
	char target[16];

	hm_target_print(job->target, target);
	for (size_t i = 0; i < n * 4 * 6; i++) {
		const struct hm_config *config = &configs[i / 24];

		edge_m(config, edges);
		if (!row_variant(config, i / 6 % 4, &row))
			continue;
		/* Twenty runs each: the edges, not every variation of them. */
		if (job->kind == TILE_REPEAT && i % 6 < 3)
			continue;
		/* Without a cluster and with one of two; a full and a second,
		 * nearly empty tile. */
		if (job->kind == TILE_ONCE && (i / 6 % 4 > 1 || i % 6 != 3))
			continue;
		if (job->kind == TILE_DEEP && (i / 6 % 4 > 1 || i % 6 != 0))
			continue;
		if (!tile_fits(check, &row, edges[i % 6])) {
			check->n_unfit++;
			continue;
		}
		kernel.kernel = kernels_find(config, target);
		kernel.row = &row;
		check_tile(check, &kernel, edges[i % 6], job->kind);
	}
}

static void
run_tiles(struct session *session, struct tile_job *job)
{
	struct hm_config configs[64];
	struct check check;
	char target[16], shape[64], name[128];
	size_t n =
	    format_configs(job->target, &job->spec, configs, COUNT(configs));

	hm_target_print(job->target, target);
	session_describe(&job->spec, shape, sizeof shape);
	snprintf(name, sizeof name, "%s %s %s, %zu kernels", job->label, target,
	    shape, n);
	for (size_t i = 0; session->wanting && i < n; i++)
		kernels_want(&configs[i], target);
	if (session->wanting)
		return;
	if (session_is_late(session)) {
		session_skip(session, name, "time limit");
		return;
	}
	job->spec.m_max = 3 * 256 + 5;
	check_init(&check, session, &job->spec);
	check_tiles(&check, job, configs, n);
	check_done(&check, name);
}

/* Formats that together have every code path: both types, no group, every
 * group, every zero point. */
static const uint32_t telling_formats[] = {0, 1, 2, 5, 8, 11, 13, 14, 18, 19};

/* On the GPU's own target, then kernel G on the plain one. */
static void
run_both(struct session *session, struct tile_job *job)
{
	const struct hm_target plain = {session->target.cc, 0};

	job->target = &session->target;
	run_tiles(session, job);
	job->target = &plain;
	run_tiles(session, job);
}

void
section_tiles(struct session *session)
{
	static const uint32_t shapes[][2] = {{1024, 1024}, {1000, 1000},
	    {200, 72}};

	for (size_t i = 0; i < COUNT(telling_formats) * COUNT(shapes); i++) {
		struct tile_job job = {.kind = TILE_BOUNDS, .label = "tiles"};

		job.spec = check_format(telling_formats[i / COUNT(shapes)]);
		job.spec.n = shapes[i % COUNT(shapes)][0];
		job.spec.k = shapes[i % COUNT(shapes)][1];
		run_both(session, &job);
	}
}

void
section_exact(struct session *session)
{
	for (size_t i = 0; i < COUNT(telling_formats) * 2; i++) {
		struct tile_job job = {.kind = TILE_EXACT};

		job.label = i % 2 == 0 ? "exact, integers" : "exact, one-hot";
		job.spec = check_format(telling_formats[i / 2]);
		job.spec.n = 1000;
		job.spec.k = 2008;
		job.spec.inputs = i % 2 == 0 ? OPS_INTEGERS : OPS_ONE_HOT;
		run_both(session, &job);
	}
}

void
section_repeat(struct session *session)
{
	static const uint32_t formats[] = {2, 5, 0, 19};

	for (size_t i = 0; i < COUNT(formats); i++) {
		struct tile_job job = {.kind = TILE_REPEAT, .label = "repeat"};

		job.spec = check_format(formats[i]);
		job.spec.n = 2048;
		job.spec.k = 2048;
		run_both(session, &job);
	}
}

/* Small enough for compute-sanitizer, which slows kernels down a hundredfold;
 * both activation types, no group and every group, every zero point. */
void
section_sanitize(struct session *session)
{
	static const uint32_t formats[] = {0, 3, 10, 13, 18};
	struct tile_job deep = {.kind = TILE_DEEP, .label = "sanitize, long K"};

	for (size_t i = 0; i < COUNT(formats); i++) {
		struct tile_job job = {.kind = TILE_ONCE, .label = "sanitize"};

		job.spec = check_format(formats[i]);
		job.spec.n = 200;
		job.spec.k = 328;
		run_both(session, &job);
	}
	/* 49 chunks: every ring is used more than once */
	deep.spec = check_format(2);
	deep.spec.n = 72;
	deep.spec.k = 6272;
	run_both(session, &deep);
	section_pack_small(session);
}
