/* SPDX-License-Identifier: Apache-2.0 */
/*
 * section_chain.c - dependent GEMMs with programmatic dependent launch in a
 * captured graph give the bits that they give one by one.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "client/gemm_error.h"
#include "jit/spec.h"
#include "sections.h"

#define CHAIN_LENGTH 12u
#define CHAIN_SIZE   2048u

/* Buffers 0..2 in turn: link i reads i % 3, writes (i + 1) % 3. */
struct chain {
	struct problem problem;
	void *d_x[3];
	void *d_wanted;
	uint32_t m;
	size_t n_kernels;
	struct check_kernel kernels[8];
	struct run run;
};

static bool
chain_enqueue(struct chain *chain, bool pdl, bool wait)
{
	for (uint32_t i = 0; i < CHAIN_LENGTH; i++) {
		const struct check_kernel *kernel =
		    &chain->kernels[i % chain->n_kernels];
		struct problem_pointers pointers = {0};

		pointers.d_a = chain->d_x[i % 3];
		pointers.d_w = chain->problem.d_packed;
		pointers.d_c = chain->d_x[(i + 1) % 3];
		pointers.lda = CHAIN_SIZE;
		pointers.ldc = CHAIN_SIZE;
		chain->run.kernel = kernel->kernel;
		chain->run.row = kernel->row;
		chain->run.pdl = pdl;
		if (kernel->kernel->function == NULL ||
		    problem_launch(&chain->problem, &chain->run, &pointers) !=
			HM_OK)
			return false;
		if (wait)
			ops_wait(chain->run.stream, "chain");
	}
	return true;
}

/* CHAIN_LENGTH % 3 == 0: the result is where the input was. */
static void
chain_restart(struct chain *chain)
{
	size_t n = (size_t)chain->m * CHAIN_SIZE;

	ops_wait(chain->run.stream, "chain");
	ops_copy(chain->d_x[0], chain->problem.a.d_a, n * 2);
	ops_poison(chain->d_x[1], n, chain->run.stream);
	ops_poison(chain->d_x[2], n, chain->run.stream);
}

/* One by one, then 20 times as a graph: how many replays differed? */
static uint32_t
chain_compare(struct chain *chain)
{
	size_t n = (size_t)chain->m * CHAIN_SIZE;
	uint32_t n_bad = 0;
	void *graph = NULL;

	chain_restart(chain);
	if (!chain_enqueue(chain, false, true))
		return 99;
	ops_copy(chain->d_wanted, chain->d_x[0], n * 2);
	ops_capture_begin(chain->run.stream);
	if (!chain_enqueue(chain, true, false))
		n_bad = 99;
	graph = ops_capture_end(chain->run.stream);
	for (uint32_t i = 0; i < 20 && n_bad < 99; i++) {
		chain_restart(chain);
		ops_graph_launch(graph, chain->run.stream);
		if (ops_count_different(chain->d_wanted, chain->d_x[0], n,
			chain->run.stream) != 0)
			n_bad++;
	}
	ops_graph_free(graph);
	return n_bad;
}

/* The plan's kernel for m, alone or (mixed) in turn with every other member
 * that can serve it. */
static void
chain_choose(const struct session *session, struct chain *chain,
    const struct hm_plan *plan, bool mixed)
{
	static struct hm_plan_row rows[8];
	struct hm_config configs[64];
	char target[16];
	size_t n = 0;

	hm_target_print(&session->target, target);
	rows[0] = *hm_plan_find(plan, chain->m);
	chain->n_kernels = 1;
	n = mixed ? format_configs(&session->target, &chain->problem.spec,
			configs, 64)
		  : 0;
	for (size_t i = 0; i < n && chain->n_kernels < COUNT(rows); i++)
		if ((configs[i].family != HM_FAMILY_STREAM ||
			chain->m <= 8 * configs[i].token_tiles) &&
		    row_variant(&configs[i], i % 2, &rows[chain->n_kernels]))
			chain->n_kernels++;
	for (size_t i = 0; i < chain->n_kernels; i++) {
		chain->kernels[i].row = &rows[i];
		if (session->wanting)
			kernels_want(&rows[i].config, target);
		else
			chain->kernels[i].kernel =
			    kernels_find(&rows[i].config, target);
	}
}

static void
run_chain(struct session *session, struct chain *chain, bool mixed)
{
	struct hm_plan plan;
	char name[128];
	uint32_t n_bad = 0;

	snprintf(name, sizeof name,
	    "chain of %u GEMMs in a graph, M=%u%s: 20 replays", CHAIN_LENGTH,
	    chain->m, mixed ? ", mixed kernels" : "");
	if (!session_plan(session, &chain->problem.spec, &session->target,
		&plan)) {
		if (!session->wanting)
			session_result(session, false, name);
		return;
	}
	chain_choose(session, chain, &plan, mixed);
	if (session->wanting)
		return;
	chain->run.m = chain->m;
	n_bad = chain_compare(chain);
	if (n_bad == 99)
		printf("# %s\n", hm_gemm_errbuf()->text);
	else if (n_bad != 0)
		printf("# %u replays differ\n", n_bad);
	session_result(session, n_bad == 0, name);
}

void
section_chain(struct session *session)
{
	static const uint32_t chain_m[] = {1, 4, 8, 16, 64, 128, 300, 1024};
	struct chain chain = {0};
	struct problem_spec spec = {.n = CHAIN_SIZE,
	    .k = CHAIN_SIZE,
	    .group = 128,
	    .m_max = 1024};
	size_t n_bytes = (size_t)spec.m_max * CHAIN_SIZE * 2;

	chain.problem.spec = spec;
	if (!session->wanting) {
		problem_init(&chain.problem, &spec, session->stream);
		for (size_t i = 0; i < 3; i++)
			chain.d_x[i] = ops_alloc(n_bytes);
		chain.d_wanted = ops_alloc(n_bytes);
	}
	chain.run.driver = session->driver;
	chain.run.sms = session->info.sms;
	chain.run.stream = session->stream;
	for (size_t i = 0; i < 2 * COUNT(chain_m); i++) {
		chain.m = chain_m[i / 2];
		run_chain(session, &chain, i % 2 != 0);
	}
	if (session->wanting)
		return;
	for (size_t i = 0; i < 3; i++)
		ops_free(chain.d_x[i]);
	ops_free(chain.d_wanted);
	problem_done(&chain.problem);
}
