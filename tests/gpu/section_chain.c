/* SPDX-License-Identifier: Apache-2.0 */
/*
 * section_chain.c - dependent GEMMs with programmatic dependent launch in a
 * captured graph give the bits that they give one by one; with 8-bit activations
 * each behind the quantization of what the one before it gave.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "client/gemm_error.h"
#include "jit/launch.h"
#include "jit/spec.h"
#include "members.h"
#include "proto/request.h"
#include "quant_run.h"
#include "sections.h"

#define CHAIN_LENGTH 12u
#define CHAIN_SIZE   2048u

/* Buffers 0..2 in turn: link i reads i % 3, writes (i + 1) % 3. What is read is
 * quantized into the problem's activations first where those have 8 bits. */
struct chain {
	struct problem problem;
	struct ops_activations start; /* 16-bit */
	struct hm_config quant_config;
	struct quant_run quant; /* no kernel: 16-bit activations */
	void *d_x[3];
	void *d_wanted;
	uint32_t m;
	size_t n_kernels;
	struct check_kernel kernels[8];
	struct run run;
};

/* One GEMM of `a`, or of its quantization. */
static bool
chain_link(struct chain *chain, const struct check_kernel *kernel,
    const void *d_from, void *d_to)
{
	struct problem_pointers pointers = {0};
	struct ops_activations a = chain->problem.a;

	if (chain->quant.kernel == NULL) {
		a = chain->start;
		memcpy(&a.d_a, &d_from, sizeof a.d_a);
	} else {
		chain->quant.d_x = d_from;
		chain->quant.q = &chain->problem.a;
		chain->quant.pdl = chain->run.pdl;
		if (chain->quant.kernel->function == NULL ||
		    quant_launch(&chain->quant) != HM_OK)
			return false;
	}
	pointers.a = &a;
	pointers.d_w = chain->problem.d_packed;
	pointers.d_c = d_to;
	pointers.ldc = CHAIN_SIZE;
	chain->run.kernel = kernel->kernel;
	chain->run.row = kernel->row;
	return kernel->kernel->function != NULL &&
	       problem_launch(&chain->problem, &chain->run, &pointers) == HM_OK;
}

static bool
chain_enqueue(struct chain *chain, bool pdl, bool wait)
{
	chain->run.pdl = pdl;
	for (uint32_t i = 0; i < CHAIN_LENGTH; i++) {
		if (!chain_link(chain, &chain->kernels[i % chain->n_kernels],
			chain->d_x[i % 3], chain->d_x[(i + 1) % 3]))
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
	ops_copy(chain->d_x[0], chain->start.d_a, n * 2);
	ops_poison(chain->d_x[1], n, chain->run.stream);
	ops_poison(chain->d_x[2], n, chain->run.stream);
	if (chain->quant.kernel == NULL)
		return;
	ops_poison(chain->problem.a.d_a, n / 2, chain->run.stream);
	/* two halves of a float each */
	ops_poison(chain->problem.a.d_scales, (size_t)chain->m * 2,
	    chain->run.stream);
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

/* Does this member serve m tokens, and fit shared memory with them? */
static bool
chain_fits(const struct session *session, const struct hm_plan_row *row,
    uint32_t m)
{
	struct hm_launch launch;

	return hm_launch_compute(row, m, CHAIN_SIZE, CHAIN_SIZE,
		   session->info.sms, &launch) == HM_OK;
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
	n = mixed ? members_find(session, &session->target,
			&chain->problem.spec, configs, 64)
		  : 0;
	for (size_t i = 0; i < n && chain->n_kernels < COUNT(rows); i++)
		if (members_variant(&configs[i], i % 2,
			&rows[chain->n_kernels]) &&
		    chain_fits(session, &rows[chain->n_kernels], chain->m))
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

/* The quantization in front of each link, if the format wants one. */
static bool
chain_choose_quant(const struct session *session, struct chain *chain)
{
	const struct format *format = &chain->problem.spec.format;
	char target[16];

	chain->quant.kernel = NULL;
	if (!format_is_narrow(format))
		return true;
	if (!quant_config(session, format, &chain->quant_config))
		return false;
	hm_target_print(&session->target, target);
	if (session->wanting)
		kernels_want(&chain->quant_config, target);
	else
		chain->quant.kernel =
		    kernels_find(&chain->quant_config, target);
	chain->quant.driver = session->driver;
	chain->quant.sms = session->info.sms;
	chain->quant.m = chain->m;
	chain->quant.stream = session->stream;
	return true;
}

static void
run_chain(struct session *session, struct chain *chain, bool mixed)
{
	struct hm_plan plan;
	char shape[128], name[224];
	uint32_t n_bad = 0;

	session_describe(&chain->problem.spec, shape, sizeof shape);
	snprintf(name, sizeof name,
	    "chain of %u GEMMs in a graph, %s, M=%u%s: 20 replays",
	    CHAIN_LENGTH, shape, chain->m, mixed ? ", mixed kernels" : "");
	if (!chain_choose_quant(session, chain) ||
	    !session_plan(session, &chain->problem.spec, &session->target,
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

static void
chain_init(struct session *session, struct chain *chain)
{
	const struct problem_spec *spec = &chain->problem.spec;
	size_t n_bytes = (size_t)spec->m_max * CHAIN_SIZE * 2;
	struct problem_spec copy = *spec;

	problem_init(&chain->problem, &copy, session->stream);
	for (size_t i = 0; i < 3; i++)
		chain->d_x[i] = ops_alloc(n_bytes);
	chain->d_wanted = ops_alloc(n_bytes);
	chain->start.m = spec->m_max;
	chain->start.k = CHAIN_SIZE;
	chain->start.ld = CHAIN_SIZE;
	chain->start.type =
	    format_out_is_f16(&copy.format) ? OPS_F16 : OPS_BF16;
	chain->start.seed = 78;
	chain->start.d_a = ops_alloc(n_bytes);
	ops_fill(&chain->start, session->stream);
}

static void
chain_done(struct chain *chain)
{
	for (size_t i = 0; i < 3; i++)
		ops_free(chain->d_x[i]);
	ops_free(chain->d_wanted);
	ops_free(chain->start.d_a);
	problem_done(&chain->problem);
}

void
section_chain(struct session *session)
{
	static const uint32_t chain_m[] = {1, 4, 8, 16, 64, 128, 300, 1024};
	static const struct format formats[] = {
	    {.group = 128},
	    {.act = HM_CONFIG_ACT_E4M3, .weight = HM_CONFIG_WEIGHT_E4M3},
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

	for (size_t f = 0; f < COUNT(formats); f++) {
		struct chain chain = {0};

		chain.problem.spec = (struct problem_spec){.n = CHAIN_SIZE,
		    .k = CHAIN_SIZE,
		    .format = formats[f],
		    .m_max = 1024};
		if (!session->wanting)
			chain_init(session, &chain);
		chain.run.driver = session->driver;
		chain.run.sms = session->info.sms;
		chain.run.stream = session->stream;
		for (size_t i = 0; i < 2 * COUNT(chain_m); i++) {
			chain.m = chain_m[i / 2];
			run_chain(session, &chain, i % 2 != 0);
		}
		if (!session->wanting)
			chain_done(&chain);
	}
}
