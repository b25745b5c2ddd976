/* SPDX-License-Identifier: Apache-2.0 */
/*
 * candidates.c - members as rows, and their times.
 */
#include "candidates.h"

#include <stdio.h>
#include <string.h>

#include "jit/plan_time.h"
#include "jit/spec.h"

/* Tokens that kernel S serves. */
#define STREAM_MOST_M 8u
/* Ways to launch a member of kernel H. */
#define N_WAYS 3u

bool
candidates_problem(const struct session *session,
    const struct problem_spec *spec, struct hm_plan_problem *problem_out)
{
	struct hm_errbuf errbuf = {""};
	struct hm_plan_problem problem = {.n = spec->n, .k = spec->k};
	struct hm_request request;
	char text[256];
	int error = HM_OK;

	format_spec_text(&spec->format, spec->n, spec->k, text, sizeof text);
	error = hm_spec_parse(text, &request, &errbuf);
	if (error == HM_OK)
		error = hm_plan_format(&request, &problem.format, &errbuf);
	if (error != HM_OK) {
		printf("# no plan for %s: %s\n", text, errbuf.text);
		return false;
	}
	problem.sms = session->info.sms;
	problem.one_order = spec->format.det;
	*problem_out = problem;
	return true;
}

static bool
is_same_row(const struct hm_plan_row *a, const struct hm_plan_row *b)
{
	struct hm_plan_row with = *b;

	with.m_lo = a->m_lo;
	with.m_hi = a->m_hi;
	return memcmp(a, &with, sizeof with) == 0;
}

static void
add(struct candidates *candidates, const struct hm_plan_problem *problem,
    const struct hm_tune_row *name, uint32_t m)
{
	struct candidate *item = &candidates->items[candidates->n];

	memset(item, 0, sizeof *item);
	item->name = *name;
	if (candidates->n < CANDIDATES_MAX &&
	    hm_plan_measured_row(problem, name, m, m, &item->row))
		candidates->n++;
}

static void
add_stream(struct candidates *candidates, const struct hm_plan_problem *problem,
    uint32_t m)
{
	for (uint32_t i = 0; i < HM_TUNE_N_STREAM; i++)
		for (uint32_t cluster = 1; cluster <= 4; cluster *= 2)
			add(candidates, problem,
			    &(struct hm_tune_row){.member = HM_TUNE_S(i),
				.cluster = cluster},
			    m);
}

/* The i-th way to launch a member: alone, then over a cluster of 2 or 4, or with
 * its last tiles shared. False when there is no such one. */
static bool
way(const struct hm_tune_wgmma *tune, uint32_t i, struct hm_plan_wgmma *way_out)
{
	*way_out = (struct hm_plan_wgmma){tune, 1, false};
	if (i > 0 && tune->split_k == 0)
		way_out->share = true;
	else
		way_out->cluster = 1u << i;
	return i < (tune->split_k == 0 ? 2 : N_WAYS);
}

/* A member that can serve m tokens without being mostly padding. */
static bool
is_member(const struct hm_plan_problem *problem, size_t index, uint32_t m)
{
	const struct hm_tune_table *table =
	    &hm_tune_sm90a[hm_plan_class(&problem->format)];
	const struct hm_tune_wgmma *tune = &table->rows[index];

	return (index == 0 || tune->tile_tokens < 2 * m) &&
	       hm_plan_wgmma_serves(&problem->format, tune);
}

/* All ways whose modelled time is within `percent` of the least; with 0 none is
 * added. Returns the least in ns. */
static uint64_t
add_wgmma(struct candidates *candidates, const struct hm_plan_problem *problem,
    uint32_t m, uint32_t percent, uint64_t least)
{
	const struct hm_tune_table *table =
	    &hm_tune_sm90a[hm_plan_class(&problem->format)];
	const struct hm_plan_pace pace = hm_plan_pace(problem);

	for (size_t i = 0; i < table->n_rows * N_WAYS; i++) {
		const struct hm_tune_wgmma *tune = &table->rows[i / N_WAYS];
		struct hm_tune_row name = {
		    .member = HM_TUNE_H(tune->tile_tokens, tune->slices,
			tune->split_k)};
		struct hm_plan_wgmma member;
		uint64_t ns = 0;

		if (!is_member(problem, i / N_WAYS, m) ||
		    !way(tune, i % N_WAYS, &member))
			continue;
		ns = hm_plan_wgmma_ns(&pace, &member, m);
		if (percent == 0)
			least = ns < least ? ns : least;
		if (percent == 0 || ns == HM_PLAN_NEVER ||
		    ns / percent > least / 100)
			continue;
		name.cluster = member.cluster;
		name.share = member.share;
		add(candidates, problem, &name, m);
	}
	return least;
}

/* The name of the candidate that is the same member; cluster 0 if none is. */
static struct hm_tune_row
name_of(const struct candidates *candidates, const struct hm_plan_row *row)
{
	for (size_t i = 0; i < candidates->n; i++) {
		const struct hm_plan_row *other = &candidates->items[i].row;

		if (memcmp(&other->config, &row->config, sizeof row->config) ==
			0 &&
		    other->cluster == row->cluster &&
		    other->split_tail == row->split_tail)
			return candidates->items[i].name;
	}
	return (struct hm_tune_row){0};
}

void
candidates_list(const struct hm_plan_problem *problem,
    const struct hm_plan *plan, uint32_t m, uint32_t percent,
    struct candidates *candidates_out)
{
	const struct hm_plan_row *chosen = hm_plan_find(plan, m);
	uint64_t least = 0;
	size_t i = 0;

	memset(candidates_out, 0, sizeof *candidates_out);
	if (m <= STREAM_MOST_M)
		add_stream(candidates_out, problem, m);
	least = add_wgmma(candidates_out, problem, m, 0, UINT64_MAX);
	(void)add_wgmma(candidates_out, problem, m, percent, least);
	while (i < candidates_out->n &&
	       !is_same_row(chosen, &candidates_out->items[i].row))
		i++;
	candidates_out->chosen = i;
	if (i < candidates_out->n)
		return;
	/* Its launch arguments are those of a range, not of one M: a candidate
	 * of its own where they differ. */
	if (i == CANDIDATES_MAX)
		candidates_out->chosen = --i;
	candidates_out->items[i].name = name_of(candidates_out, chosen);
	candidates_out->items[i].row = *chosen;
	candidates_out->n = i + 1;
}

static struct run
make_run(struct session *session, const struct candidate *item, uint32_t m)
{
	struct run run = {0};
	char target[16];

	hm_target_print(&session->target, target);
	run.driver = session->driver;
	run.kernel = kernels_find(&item->row.config, target);
	run.row = &item->row;
	run.sms = session->info.sms;
	run.m = m;
	run.pdl = true;
	run.stream = session->stream;
	return run;
}

/* Run once outside a graph, so that a workspace is there, and capture. */
static struct timed_graph
capture(struct session *session, struct layer *layer,
    const struct candidate *item, uint32_t m, enum timing_effort effort)
{
	struct timed_graph none = {.n_launches = 1};
	struct run run = make_run(session, item, m);
	struct ops_output output;

	if (run.kernel == NULL || run.kernel->function == NULL ||
	    problem_run(&layer->problem, &run, &output) != HM_OK)
		return none;
	ops_wait(run.stream, "a candidate");
	return layer_capture(layer, &run, LAYER_PDL,
	    timing_launches(layer_floor_us(layer, m), effort));
}

void
candidates_time(struct session *session, struct layer *layer, uint32_t m,
    struct candidates *candidates)
{
	struct timed_graph graphs[CANDIDATES_MAX];

	for (size_t i = 0; i < candidates->n; i++)
		graphs[i] = capture(session, layer, &candidates->items[i], m,
		    TIMING_QUICK);
	timing_replay(graphs, candidates->n, TIMING_QUICK, session->stream);
	for (size_t i = 0; i < candidates->n; i++)
		candidates->items[i].us = timing_median(&graphs[i]);
	timing_free(graphs, candidates->n);
}

void
candidates_confirm(struct session *session, struct layer *layer, uint32_t m,
    struct candidates *candidates)
{
	size_t two[2] = {candidates_best(candidates), candidates->chosen};
	struct timed_graph graphs[2];

	if (two[0] == candidates->n || two[0] == two[1])
		return;
	for (size_t i = 0; i < 2; i++)
		graphs[i] = capture(session, layer, &candidates->items[two[i]],
		    m, TIMING_FULL);
	timing_replay(graphs, 2, TIMING_FULL, session->stream);
	for (size_t i = 0; i < 2; i++)
		candidates->items[two[i]].us = timing_median(&graphs[i]);
	timing_free(graphs, 2);
}

size_t
candidates_best(const struct candidates *candidates)
{
	size_t best = candidates->n;

	for (size_t i = 0; i < candidates->n; i++)
		if (candidates->items[i].us > 0 &&
		    (best == candidates->n ||
			candidates->items[i].us < candidates->items[best].us))
			best = i;
	return best;
}
