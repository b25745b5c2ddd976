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
#include "members.h"
#include "proto/request.h"
#include "sections.h"

enum tile_check {
	TILE_BOUNDS,
	TILE_EXACT,
	TILE_REPEAT,
	TILE_SPLIT,
	TILE_ONCE, /* for sanitizers */
	TILE_DEEP
};

/* M at the edges of a config's tile; to share tiles, more of them than SMs. */
static void
edge_m(const struct hm_config *config, enum tile_check kind, uint32_t m[6])
{
	uint32_t tile = config->tile_tokens;
	uint32_t most = 8 * config->token_tiles;
	const uint32_t few[] = {1, 2, 3, most / 2 + 1, most - 1, most};
	const uint32_t many[] = {1, tile - 1, tile, tile + 1, 3 * tile + 5,
	    300};
	const uint32_t split[] = {0, 0, 0, 4 * tile + 3, 5 * tile,
	    8 * tile - 1};

	memcpy(m,
	    config->family == HM_FAMILY_STREAM ? few
	    : kind == TILE_SPLIT               ? split
					       : many,
	    6 * sizeof *m);
}

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
	case TILE_SPLIT:
		check_run(check, kernel, m, true, m % 3 == 0);
		check_repeat(check, kernel, m, 20);
		return;
	}
}

/* The edges times the variations that a kind of check leaves out. */
static bool
tile_is_left_out(enum tile_check kind, const struct hm_plan_row *row,
    uint32_t variant, uint32_t edge)
{
	switch (kind) {
	case TILE_BOUNDS:
	case TILE_EXACT:
		return false;
	case TILE_REPEAT: /* twenty runs each: not every edge */
		return edge < 3;
	case TILE_SPLIT:
		return row->split_tail == 0 || edge < 3;
	/* Without a cluster or shared tiles, and with one of two or with; a full
	 * and a second, nearly empty tile. */
	case TILE_ONCE:
		return variant > 1 || edge != 3;
	case TILE_DEEP:
		return variant > 1 || edge != 0;
	}
	return false;
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
	uint32_t every; /* every n-th member only, from `first` on; 0: all */
	uint32_t first;
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
	for (size_t i = 0; i < n * MEMBERS_N_VARIANTS * 6; i++) {
		const struct hm_config *config = &configs[i / 24];
		uint32_t variant = i / 6 % MEMBERS_N_VARIANTS;

		edge_m(config, job->kind, edges);
		if (!members_variant(config, variant, &row) ||
		    tile_is_left_out(job->kind, &row, variant, i % 6))
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

static size_t
keep_some(struct hm_config *configs, size_t n, const struct tile_job *job)
{
	size_t n_kept = 0;

	for (size_t i = job->first % job->every; i < n; i += job->every)
		configs[n_kept++] = configs[i];
	return n_kept;
}

static void
run_tiles(struct session *session, struct tile_job *job)
{
	struct hm_config configs[MEMBERS_MAX];
	struct check check;
	char target[16], shape[128], name[224];
	size_t n = members_find(session, job->target, &job->spec, configs,
	    COUNT(configs));

	if (job->every != 0)
		n = keep_some(configs, n, job);
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
	job->spec.m_max = (job->kind == TILE_SPLIT ? 8 : 3) * 256 + 5;
	check_init(&check, session, &job->spec);
	check_tiles(&check, job, configs, n);
	check_done(&check, name);
}

/* On the GPU's own target, then, where it has kernels, G on the plain one. */
static void
run_both(struct session *session, struct tile_job *job)
{
	const struct hm_target plain = {session->target.cc, 0};
	const struct format *format = &job->spec.format;

	/* 8-bit activations copy 16 values at a time. */
	job->spec.k = (job->spec.k + format_k_step(format) - 1) /
		      format_k_step(format) * format_k_step(format);
	job->target = &session->target;
	run_tiles(session, job);
	if (format_is_narrow(format) || format->weight != HM_CONFIG_WEIGHT_U4 ||
	    format->scale_type == HM_TYPE_E8M0)
		return;
	job->target = &plain;
	run_tiles(session, job);
	job->target = &session->target;
}

/* Of the first formats those that together have every code path (both types, no
 * group, every group, every zero point); of the others those with bf16, and
 * every fourth with f16. */
static bool
is_telling(size_t index)
{
	static const uint32_t first[] = {0, 1, 2, 5, 8, 11, 13, 14, 18, 19};

	if (index >= FORMAT_N_FIRST)
		return format_at(index).act != HM_CONFIG_ACT_F16 ||
		       index / 2 % 4 == 0;
	for (size_t i = 0; i < COUNT(first); i++)
		if (first[i] == index)
			return true;
	return false;
}

/* A third of the members, another one for each format. */
static void
thin_out(struct tile_job *job, size_t index)
{
	job->every = 3;
	job->first = (uint32_t)index;
	job->spec.n = job->spec.n < 520 ? job->spec.n : 520;
}

void
section_tiles(struct session *session)
{
	static const uint32_t shapes[][2] = {{1000, 1000}, {200, 72},
	    {1024, 1024}};

	for (size_t i = 0; i < format_count() * COUNT(shapes); i++) {
		struct tile_job job = {.kind = TILE_BOUNDS, .label = "tiles"};
		size_t index = i / COUNT(shapes);

		/* Whole tiles: of the first formats only. */
		if (!is_telling(index) ||
		    (index >= FORMAT_N_FIRST && i % COUNT(shapes) == 2))
			continue;
		job.spec = check_format(index);
		job.spec.n = shapes[i % COUNT(shapes)][0];
		job.spec.k = shapes[i % COUNT(shapes)][1];
		if (session->thin && index >= FORMAT_N_FIRST)
			thin_out(&job, index);
		run_both(session, &job);
	}
}

void
section_exact(struct session *session)
{
	for (size_t i = 0; i < format_count() * 2; i++) {
		struct tile_job job = {.kind = TILE_EXACT};

		if (!is_telling(i / 2))
			continue;
		job.label = i % 2 == 0 ? "exact, integers" : "exact, one-hot";
		if (session->thin && i / 2 >= FORMAT_N_FIRST)
			thin_out(&job, i / 2);
		job.spec = check_format(i / 2);
		job.spec.n = 1000;
		job.spec.k = 2008;
		job.spec.inputs = i % 2 == 0 ? OPS_INTEGERS : OPS_ONE_HOT;
		run_both(session, &job);
	}
}

/* One of each kind of device code: how weights become operands, how sums are
 * kept, how activations are scaled. */
static const struct format kinds[] = {
    {.group = 128},
    {.act = HM_CONFIG_ACT_F16, .group = 64, .zero = HM_CONFIG_ZERO_INT},
    {.act = HM_CONFIG_ACT_F16, .group = 32, .zero = HM_CONFIG_ZERO_FLOAT},
    {.weight = HM_CONFIG_WEIGHT_U8},
    {.weight = HM_CONFIG_WEIGHT_E2M1, .group = 32, .scale_type = HM_TYPE_E8M0},
    {.weight = HM_CONFIG_WEIGHT_E4M3, .group = 128, .scales = FORMAT_BLOCKS},
    {.act = HM_CONFIG_ACT_E4M3, .weight = HM_CONFIG_WEIGHT_U4},
    {.act = HM_CONFIG_ACT_E4M3, .weight = HM_CONFIG_WEIGHT_U4, .group = 128},
    {.act = HM_CONFIG_ACT_E4M3,
	.weight = HM_CONFIG_WEIGHT_E2M1,
	.group = 32,
	.scale_type = HM_TYPE_E8M0},
    {.act = HM_CONFIG_ACT_E4M3, .weight = HM_CONFIG_WEIGHT_E4M3},
    {.act = HM_CONFIG_ACT_E5M2,
	.weight = HM_CONFIG_WEIGHT_E4M3,
	.precise = true},
    {.act = HM_CONFIG_ACT_E4M3,
	.weight = HM_CONFIG_WEIGHT_E4M3,
	.group = 128,
	.scales = FORMAT_BLOCKS,
	.act_scales = FORMAT_ACT_GROUP},
    {.act = HM_CONFIG_ACT_S8, .weight = HM_CONFIG_WEIGHT_U4},
    {.act = HM_CONFIG_ACT_S8, .weight = HM_CONFIG_WEIGHT_U8},
    {.act = HM_CONFIG_ACT_S8, .weight = HM_CONFIG_WEIGHT_U4, .group = 64},
};

void
section_repeat(struct session *session)
{
	for (size_t i = 0; i < COUNT(kinds); i++) {
		struct tile_job job = {.kind = TILE_REPEAT, .label = "repeat"};

		job.spec.format = kinds[i];
		job.spec.n = 2048;
		job.spec.k = 2048;
		run_both(session, &job);
	}
}

/* More tiles than SMs, the last of them shared by all CTAs along K. */
void
section_split(struct session *session)
{
	for (size_t i = 0; i < COUNT(kinds); i++) {
		struct tile_job job = {.kind = TILE_SPLIT, .label = "split"};

		job.spec.format = kinds[i];
		job.spec.n = 4104;
		job.spec.k = 1040;
		job.target = &session->target;
		run_tiles(session, &job);
	}
}

/* Small enough for compute-sanitizer, which slows kernels down a hundredfold. */
void
section_sanitize(struct session *session)
{
	static const size_t deep[] = {0, 7, 8, 11, 12};

	for (size_t i = 0; i < COUNT(kinds); i++) {
		struct tile_job job = {.kind = TILE_ONCE, .label = "sanitize"};

		/* Members differ in their tiles, formats in their operands. */
		job.every = i != 0 ? 4 : 1;
		job.first = (uint32_t)i;
		job.spec.format = kinds[i];
		job.spec.n = 200;
		job.spec.k = 328;
		run_both(session, &job);
	}
	/* 49 chunks: every ring is used more than once */
	for (size_t i = 0; i < COUNT(deep); i++) {
		struct tile_job job = {.kind = TILE_DEEP,
		    .label = "sanitize, long K",
		    .every = 4,
		    .first = (uint32_t)i};

		job.spec.format = kinds[deep[i]];
		job.spec.n = 72;
		job.spec.k = 6272;
		run_both(session, &job);
	}
	section_pack_small(session);
}
