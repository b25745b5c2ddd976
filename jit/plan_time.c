/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_time.c - the model of times that plan_sm90a.c chooses by.
 *
 * GB/s are bytes per ns. Only differences between members count: what all have
 * in common (launch, the wait for the kernel before) is in the constants of
 * tune_sm90a.c as it fell out of the fit.
 */
#include "jit/plan_time.h"

#include "jit/emit.h"
#include "jit/launch.h"
#include "proto/error.h"

#define CHUNK_K 128u
/* Tiles from which on the making of operands sets the pace, not latency. */
#define PACED_TOKENS 64u

static uint64_t
time_ceil_div(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

static uint64_t
time_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct hm_plan_pace
hm_plan_pace(const struct hm_plan_problem *problem)
{
	const struct hm_config *format = &problem->format;
	const struct hm_tune_table *table =
	    &hm_tune_sm90a[hm_plan_class(format)];
	struct hm_plan_pace pace = {
	    .problem = problem,
	    .costs = table->costs,
	    .tensor_tops = table->tensor_tops,
	    .act_bytes = format->act >= HM_CONFIG_ACT_E4M3 ? 1 : 2,
	    .chunks = (uint32_t)time_ceil_div(problem->k, CHUNK_K),
	    .groups = (uint32_t)time_ceil_div(problem->n, 64),
	    .percent =
		table->percent[format->act == HM_CONFIG_ACT_S8][format->weight],
	    .chunk_bytes = hm_emit_chunk_bytes(format),
	};

	pace.memory_ns = pace.groups * (pace.chunks * pace.chunk_bytes) /
			 pace.costs->hbm_gbs;
	return pace;
}

/* At which kernel S goes through weights. */
static uint64_t
time_stream_gbs(const struct hm_plan_pace *pace)
{
	const struct hm_config *format = &pace->problem->format;
	bool fp8 = format->act == HM_CONFIG_ACT_E4M3 ||
		   format->act == HM_CONFIG_ACT_E5M2;
	bool narrow = format->weight == HM_CONFIG_WEIGHT_U4 ||
		      format->weight == HM_CONFIG_WEIGHT_E2M1;

	if (!fp8 || !narrow)
		return pace->costs->stream_gbs;
	/* Looked up in tables first: half as many instructions again. */
	if (format->scale == HM_CONFIG_SCALE_MX)
		return pace->costs->stream_widen_gbs * UINT64_C(3) / 4;
	return pace->costs->stream_widen_gbs;
}

uint64_t
hm_plan_stream_ns(const struct hm_plan_pace *pace,
    const struct hm_plan_row *row, uint32_t m)
{
	const struct hm_plan_problem *problem = pace->problem;
	const struct hm_tune_costs *costs = pace->costs;
	uint64_t group = (uint64_t)pace->chunks * pace->chunk_bytes;
	uint64_t slice =
	    (uint64_t)(problem->k / row->cluster) * pace->act_bytes;
	uint64_t stream_ns;
	struct hm_launch launch;

	if (hm_launch_compute(row, m, problem->n, problem->k, problem->sms,
		&launch) != HM_OK)
		return HM_PLAN_NEVER;
	stream_ns = time_max(pace->groups * group / time_stream_gbs(pace),
	    launch.row_groups * group / row->cluster / costs->stream_sm_gbs);
	return costs->stream_ns + stream_ns +
	       (uint64_t)launch.grid_x * m * slice / costs->stream_act_gbs +
	       (uint64_t)(row->cluster / 2) * costs->stream_cluster_ns;
}

/* What no CTA can change: all bytes and all products, padding included. */
static uint64_t
time_floor_ns(const struct hm_plan_pace *pace, const struct hm_tune_wgmma *tune,
    uint64_t tiles, uint32_t m)
{
	const struct hm_tune_costs *costs = pace->costs;
	uint64_t tokens = tune->tile_tokens;
	uint64_t k = (uint64_t)pace->chunks * CHUNK_K;
	uint64_t n = pace->problem->n;
	uint64_t row_groups = 2 * (uint64_t)tune->slices;
	uint64_t both = m * (pace->act_bytes * k + 2 * n);
	uint64_t step_bytes =
	    row_groups * pace->chunk_bytes + tokens * CHUNK_K * pace->act_bytes;
	uint64_t l2_ns = tiles * pace->chunks * step_bytes / costs->l2_gbs;
	uint64_t products = tiles * 64 * row_groups * tokens * k;

	return time_max(
	    time_max(pace->memory_ns + both / costs->hbm_gbs, l2_ns),
	    2 * products / (pace->tensor_tops * UINT64_C(1000)));
}

/* Of 128 k of a tile: the member's own pace, or that of its SM's weights. */
static uint64_t
time_step_ns(const struct hm_plan_pace *pace, const struct hm_tune_wgmma *tune)
{
	uint64_t step_ns = tune->step_ns;

	if (tune->tile_tokens >= PACED_TOKENS)
		step_ns = step_ns * pace->percent / 100;
	return time_max(step_ns, 2 * (uint64_t)tune->slices *
				     pace->chunk_bytes /
				     pace->costs->tile_sm_gbs);
}

/* A tile for each CTA or cluster. */
static uint64_t
time_split_ns(const struct hm_plan_pace *pace,
    const struct hm_plan_wgmma *member, uint64_t tiles, uint64_t floor_ns)
{
	const struct hm_tune_costs *costs = pace->costs;
	uint32_t cluster = member->cluster;
	uint64_t waves = time_ceil_div(tiles,
	    hm_launch_active_clusters(pace->problem->sms, cluster));
	uint64_t steps = time_ceil_div(pace->chunks, cluster);

	if (cluster > 1 && (waves > 1 || cluster > pace->chunks))
		return HM_PLAN_NEVER;
	return waves * costs->split_ns +
	       (uint64_t)(cluster / 2) * costs->cluster_ns +
	       time_max(waves * steps * time_step_ns(pace, member->tune),
		   floor_ns);
}

/* CTAs that walk over tiles; the last ones in pieces, if shared. */
static uint64_t
time_persistent_ns(const struct hm_plan_pace *pace,
    const struct hm_plan_wgmma *member, uint64_t tiles, uint64_t floor_ns)
{
	const struct hm_tune_costs *costs = pace->costs;
	const struct hm_tune_wgmma *tune = member->tune;
	uint64_t step_ns = time_step_ns(pace, tune);
	uint64_t tile_ns = pace->chunks * step_ns + costs->tile_ns;
	uint64_t tile_bytes = 512 * (uint64_t)tune->slices * tune->tile_tokens;
	uint64_t sms = pace->problem->sms;
	uint64_t shared, share_ns;

	if (!member->share)
		return costs->persistent_ns +
		       time_max(time_ceil_div(tiles, sms) * tile_ns,
			   floor_ns + costs->tile_ns);
	shared = hm_launch_split_tiles(tiles, (uint32_t)sms);
	if (shared == 0 || costs->share_gbs == 0)
		return HM_PLAN_NEVER;
	/* A CTA writes its piece; the owner of the tile reads the others. */
	share_ns = costs->share_ns + time_ceil_div(sms, shared) * 2 *
					 tile_bytes / costs->share_gbs;
	return costs->persistent_ns + costs->tile_ns + share_ns +
	       time_max((tiles - shared) / sms * tile_ns +
			    time_ceil_div(shared * pace->chunks, sms) * step_ns,
		   floor_ns);
}

uint64_t
hm_plan_wgmma_ns(const struct hm_plan_pace *pace,
    const struct hm_plan_wgmma *member, uint32_t m)
{
	const struct hm_tune_wgmma *tune = member->tune;
	uint64_t tiles =
	    time_ceil_div(m, tune->tile_tokens) *
	    time_ceil_div(pace->problem->n, 128 * (uint64_t)tune->slices);
	uint64_t floor_ns = time_floor_ns(pace, tune, tiles, m);

	if (tune->split_k != 0)
		return time_split_ns(pace, member, tiles, floor_ns);
	return time_persistent_ns(pace, member, tiles, floor_ns);
}
