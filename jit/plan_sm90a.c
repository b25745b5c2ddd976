/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_sm90a.c - the choice on Hopper: kernel S for M <= 8 where its
 * activations fit shared memory, kernel H for all else.
 *
 * S is chosen by rules, because its members differ by latency hiding that no
 * simple model gives; H by a model of waves over a fixed division of M, which
 * bounds the rows of a table:
 *
 *     time = start + waves * (ceil(chunks / ck) * step + tile)
 *
 * step is measured (tune_sm90a.c); start and tile below are what the measured
 * times leave over. K is split over a cluster only when all clusters run at
 * once: of those of 4 so few fit (launch.h) that they win only where tiles are
 * few. Up to 128 tokens the weights are read in one pass.
 */
#include "jit/plan_impl.h"

#include "jit/emit.h"
#include "jit/launch.h"
#include "proto/error.h"

#define WGMMA_THREADS 384u
#define MAX_STREAM_M  8u

/* Start of a CTA with the output of its tile, and the sum of a cluster. */
#define SPLIT_TILE_NS   3000u
#define CLUSTER_TILE_NS 3500u
/* A persistent CTA starts once and hides most of an output. */
#define PERSISTENT_START_NS 2500u
#define PERSISTENT_TILE_NS  1000u

#define ONE_PASS_M 128u

/* Ends of the ranges of M above kernel S that are planned as one. */
static const uint32_t sm90a_ends[] = {16, 32, 64, 96, 128, 168, 256, 384, 512,
    768, 1024, 1536, 2048, 3072, 4096, 6144, 7680, HM_PLAN_MAX_M};

#define N_ENDS (sizeof(sm90a_ends) / sizeof(sm90a_ends[0]))

static uint32_t
sm90a_ceil_div(uint32_t a, uint32_t b)
{
	return (a + b - 1) / b;
}

/* Largest cluster: a sliver of a device (MIG) may have no room for one. */
static uint32_t
sm90a_most_ctas(const struct hm_plan_problem *problem)
{
	return problem->sms >= 8 ? 4 : 1;
}

struct hm_config
hm_plan_stream_config(const struct hm_plan_problem *problem,
    const struct hm_tune_stream *tune)
{
	return (struct hm_config){
	    .family = HM_FAMILY_STREAM,
	    .act = problem->act,
	    .group = problem->group,
	    .zero = problem->zero,
	    .threads = tune->warps * 32,
	    .token_tiles = 1,
	    .ring = tune->ring,
	    .warps = tune->warps,
	    .warps_k = tune->warps_k,
	    .ctas_per_sm = 1,
	};
}

struct hm_config
hm_plan_wgmma_config(const struct hm_plan_problem *problem,
    const struct hm_tune_wgmma *tune)
{
	struct hm_config config = {
	    .family = HM_FAMILY_WGMMA,
	    .act = problem->act,
	    .group = problem->group,
	    .zero = problem->zero,
	    .threads = WGMMA_THREADS,
	    .tile_tokens = tune->tile_tokens,
	    .stages = tune->stages,
	    .slices = tune->slices,
	    .halves = tune->halves,
	    .steps = tune->steps,
	    .split_k = tune->split_k,
	};
	uint32_t other = 1024 + (tune->split_k ? 0 : 256 * tune->tile_tokens);

	/* Small groups and zero points make stages larger. */
	while (config.stages > 2 &&
	       other + config.stages * hm_emit_stage_bytes(&config) >
		   HM_LAUNCH_SM90_SMEM_BYTES)
		config.stages--;
	return config;
}

/* Which member of S, and over how large a cluster, if it fits. */
static uint32_t
sm90a_stream_member(const struct hm_plan_problem *problem, uint32_t m,
    uint32_t *cluster_out)
{
	uint32_t groups = sm90a_ceil_div(problem->n, 64);
	uint32_t chunks = sm90a_ceil_div(problem->k, 128);

	*cluster_out = 1;
	/* Even clusters of 4 leave SMs idle: only latency counts. */
	if (sm90a_most_ctas(problem) == 4 &&
	    groups <= hm_launch_active_clusters(problem->sms, 4)) {
		*cluster_out = 4;
		return HM_TUNE_STREAM_PLAIN;
	}
	if (sm90a_most_ctas(problem) > 1 && groups * 2 <= problem->sms) {
		if (m <= 4)
			return HM_TUNE_STREAM_WIDE;
		*cluster_out = 2;
		return HM_TUNE_STREAM_PLAIN;
	}
	if (chunks <= 16 && m > 2)
		return HM_TUNE_STREAM_SETS;
	if (chunks <= 16)
		return HM_TUNE_STREAM_PLAIN;
	if (m <= 2)
		return HM_TUNE_STREAM_DEEP;
	return m <= 4 ? HM_TUNE_STREAM_WIDE : HM_TUNE_STREAM_PLAIN;
}

static bool
sm90a_stream_fits(const struct hm_plan_problem *problem,
    const struct hm_plan_row *row)
{
	struct hm_launch launch;

	return hm_launch_compute(row, row->m_hi, problem->n, problem->k,
		   problem->sms, &launch) == HM_OK;
}

/* The row of S for exactly m tokens; false: their activations fit no member. */
static bool
sm90a_stream_row(const struct hm_plan_problem *problem, uint32_t m,
    struct hm_plan_row *row_out)
{
	uint32_t cluster;
	uint32_t member = sm90a_stream_member(problem, m, &cluster);
	struct hm_plan_row row = {
	    .m_lo = m,
	    .m_hi = m,
	    .config = hm_plan_stream_config(problem, &hm_tune_stream[member]),
	    .cluster = cluster,
	    .weight_policy = 1,
	};
	bool fits = sm90a_stream_fits(problem, &row);

	/* Long K: a cluster divides the activations as well. */
	for (; !fits && row.cluster <= sm90a_most_ctas(problem);
	     row.cluster *= 2) {
		row.config = hm_plan_stream_config(problem,
		    &hm_tune_stream[HM_TUNE_STREAM_PLAIN]);
		fits = sm90a_stream_fits(problem, &row);
		if (fits)
			break;
	}
	if (fits)
		*row_out = row;
	return fits;
}

/* Time of one member of H at m tokens, in ns. UINT64_MAX: clusters that would
 * have to wait for each other. */
static uint64_t
sm90a_time_ns(const struct hm_plan_problem *problem,
    const struct hm_tune_wgmma *tune, uint32_t cluster, uint32_t m)
{
	uint64_t tiles = (uint64_t)sm90a_ceil_div(m, tune->tile_tokens) *
			 sm90a_ceil_div(problem->n, 128 * tune->slices);
	uint32_t at_once = hm_launch_active_clusters(problem->sms, cluster);
	uint32_t chunks = sm90a_ceil_div(problem->k, 128);
	uint64_t steps = sm90a_ceil_div(chunks, cluster);
	uint64_t waves = (tiles + at_once - 1) / at_once;
	uint64_t step_ns = steps * tune->step_ns;

	if (cluster > 1)
		return waves > 1 ? UINT64_MAX : step_ns + CLUSTER_TILE_NS;
	if (tune->split_k)
		return waves * (step_ns + SPLIT_TILE_NS);
	return PERSISTENT_START_NS + waves * (step_ns + PERSISTENT_TILE_NS);
}

struct sm90a_choice {
	const struct hm_tune_wgmma *tune;
	uint32_t cluster;
	uint64_t time_ns; /* summed over the sample points of a range */
};

static void
sm90a_try(const struct hm_plan_problem *problem,
    const struct hm_tune_wgmma *tune, const uint32_t samples[2],
    struct sm90a_choice *best)
{
	uint32_t chunks = sm90a_ceil_div(problem->k, 128);
	bool split = tune->split_k && !problem->one_order;
	uint32_t most = split ? sm90a_most_ctas(problem) : 1;

	for (uint32_t cluster = 1; cluster <= most && cluster <= chunks;
	     cluster *= 2) {
		uint64_t at_end =
		    sm90a_time_ns(problem, tune, cluster, samples[1]);
		uint64_t time_ns;

		if (at_end == UINT64_MAX)
			break;
		time_ns =
		    at_end + sm90a_time_ns(problem, tune, cluster, samples[0]);
		if (time_ns < best->time_ns)
			*best = (struct sm90a_choice){tune, cluster, time_ns};
	}
}

/* The row of H for a range of M that ends at or below the sizes planned for. */
static struct hm_plan_row
sm90a_wgmma_row(const struct hm_plan_problem *problem, uint32_t m_lo,
    uint32_t m_hi)
{
	uint32_t samples[2] = {(m_lo + m_hi) / 2, m_hi};
	struct sm90a_choice best = {&hm_tune_wgmma[0], 1, UINT64_MAX};
	struct hm_plan_row row = {.m_lo = m_lo, .m_hi = m_hi};
	uint32_t n_tiles;

	for (size_t i = 0; i < hm_tune_n_wgmma; i++) {
		uint32_t tokens = hm_tune_wgmma[i].tile_tokens;

		if (m_hi <= ONE_PASS_M && tokens < m_hi)
			continue;
		/* Mostly padding, or long chains of tiny tiles. */
		if (i > 0 && tokens >= 2 * m_hi)
			continue;
		if (m_hi > 1024 && tokens < 128)
			continue;
		sm90a_try(problem, &hm_tune_wgmma[i], samples, &best);
	}
	n_tiles = sm90a_ceil_div(problem->n, 128 * best.tune->slices);
	row.config = hm_plan_wgmma_config(problem, best.tune);
	row.cluster = best.cluster;
	row.prefetch = best.tune->prefetch;
	if (row.prefetch == 0)
		row.prefetch = row.config.stages;
	row.weight_policy =
	    best.tune->evict_first && m_hi <= best.tune->tile_tokens;
	row.band = 16 * best.tune->slices;
	if (m_hi <= 1024 || row.band > n_tiles)
		row.band = n_tiles;
	return row;
}

void
hm_plan_sm90a(const struct hm_plan_problem *problem, struct hm_plan *plan)
{
	struct hm_plan_row row;
	uint32_t m = 1;

	while (m <= MAX_STREAM_M && !problem->one_order &&
	       sm90a_stream_row(problem, m, &row)) {
		hm_plan_add(plan, &row);
		m++;
	}
	for (size_t i = 0; i < N_ENDS; i++) {
		row = sm90a_wgmma_row(problem, m, sm90a_ends[i]);
		hm_plan_add(plan, &row);
		m = sm90a_ends[i] + 1;
	}
}
