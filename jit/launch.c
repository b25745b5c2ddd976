/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.c - the formulas of the kernels' file heads, on the host.
 *
 * Invariant: what is returned is what the kernel of that row assumes; kernels
 * check nothing. n and k are the true sizes; the packed weights are padded to
 * 64 rows and 128 k.
 */
#include "jit/launch.h"

#include <stdbool.h>

#include "jit/config.h"
#include "jit/emit.h"
#include "proto/error.h"

/* Row groups and chunks of the pack. */
#define ROW_GROUP 64u
#define CHUNK_K   128u
#define PACK_CTAS 8u
/* Up to this the sizes of C and A stay countable in 32 bits. */
#define MAX_SIZE (1u << 28)
/* Groups of one CTA of quant.cu: 8 warps, 4 each. */
#define QUANT_PAIRS 32u

/* Partial sums of kernel S: 64 rows and one float to spread the banks. */
#define STREAM_PARTIAL_BYTES 260u
/* Of one tile. */
#define MOST_PIECES 8u
/* More than half of an SM: a second CTA beside the first would take turns with
 * it, and with programmatic launches the grids become uneven (measured: 19.0
 * us for 13.9). 116 KB. */
#define STREAM_LEAST_BYTES UINT64_C(118784)

static uint32_t
launch_ceil_div(uint32_t a, uint32_t b)
{
	return (a + b - 1) / b;
}

uint32_t
hm_launch_active_clusters(uint32_t sms, uint32_t cluster)
{
	uint32_t clusters = cluster > 0 ? sms / cluster : sms;

	if (cluster > 2)
		clusters -= launch_ceil_div(clusters, 11);
	return clusters > 0 ? clusters : 1;
}

static uint32_t
launch_act_bytes(const struct hm_config *config)
{
	return config->act >= HM_CONFIG_ACT_E4M3 ? 1 : 2;
}

static int
launch_finish(struct hm_launch *launch, uint64_t smem_bytes, uint64_t most,
    struct hm_launch *launch_out)
{
	if (smem_bytes > most)
		return HM_E_UNSUPPORTED;
	launch->smem_bytes = (uint32_t)smem_bytes;
	*launch_out = *launch;
	return HM_OK;
}

/* gemm_stream.cu: resident activations, rings, partial sums, row factors. */
static int
launch_stream(const struct hm_plan_row *row, uint32_t m, uint32_t n, uint32_t k,
    uint32_t sms, struct hm_launch *launch_out)
{
	const struct hm_config *config = &row->config;
	uint32_t cluster = row->cluster;
	uint32_t groups = launch_ceil_div(n, ROW_GROUP);
	uint32_t clusters = hm_launch_active_clusters(sms, cluster);
	uint32_t chunks = launch_ceil_div(launch_ceil_div(k, CHUNK_K),
	    cluster * config->warps_k);
	uint64_t per_warp, smem;
	struct hm_launch launch = {0};

	if (m > 8 * config->token_tiles)
		return HM_E_INVALID;
	if (clusters > groups && groups > 0)
		clusters = groups;
	launch.grid_x = clusters * cluster;
	launch.grid_y = 1;
	launch.threads = config->threads;
	launch.cluster = cluster;
	launch.tile_rows = ROW_GROUP;
	launch.row_groups = launch_ceil_div(groups, clusters);
	launch.weight_policy = row->weight_policy;

	per_warp =
	    (uint64_t)config->ring * hm_emit_chunk_bytes(config) +
	    (uint64_t)m *
		((uint64_t)chunks * CHUNK_K * launch_act_bytes(config) + 16) +
	    (uint64_t)(m < 8 ? m : 8) * STREAM_PARTIAL_BYTES;
	if (config->act_scale == HM_CONFIG_ACT_SCALE_GROUP)
		per_warp += ((uint64_t)m * chunks * 4 + 15) / 16 * 16;
	smem = config->warps * per_warp + (uint64_t)launch.row_groups * 512;
	if (cluster > 1)
		smem += (uint64_t)launch.row_groups * m * ROW_GROUP * 4;
	if (smem < STREAM_LEAST_BYTES)
		smem = STREAM_LEAST_BYTES;
	return launch_finish(&launch, smem, HM_LAUNCH_SM90_SMEM_BYTES,
	    launch_out);
}

/* Pairs of consumer warpgroups; one more warpgroup fetches. */
static uint32_t
launch_sets(const struct hm_config *config)
{
	return (config->threads / 128 - 1) / 2;
}

uint32_t
hm_launch_wgmma_most(const struct hm_config *config)
{
	/* Row factors and bias of a tile are static. */
	return HM_LAUNCH_SM90_SMEM_BYTES -
	       (config->split_k != 0 ? 1024 * config->slices : 0);
}

uint64_t
hm_launch_wgmma_bytes(const struct hm_config *config)
{
	uint64_t tokens = config->tile_tokens;
	uint64_t sets = launch_sets(config);
	uint64_t tile = 128 * (uint64_t)config->slices * tokens;
	uint64_t bytes =
	    1024 + (uint64_t)config->stages * hm_emit_stage_bytes(config);
	/* Sums in fp32, and the output that they become. */
	uint64_t sum = 1024 + sets * tile * 4 + tile * 2;

	if (config->split_k == 0)
		bytes += 2 * tokens * 128;
	else if (bytes < sum)
		bytes = sum;
	if (config->act_scale == HM_CONFIG_ACT_SCALE_TOKEN)
		bytes += 2 * tokens * 4;
	return bytes;
}

uint32_t
hm_launch_split_tiles(uint64_t tiles, uint32_t sms)
{
	uint32_t tail = (uint32_t)(tiles % sms);

	/* Two flags for each CTA. */
	if (sms > HM_LAUNCH_FLAG_BYTES / 8)
		return 0;
	/* The owner of a tile adds its pieces one after the other. */
	if (tail > 0 && tail * MOST_PIECES < sms && tiles > sms)
		tail += sms;
	return tail;
}

/* gemm_wgmma.cu: a cluster per tile, or CTAs that walk over tiles. */
static int
launch_wgmma(const struct hm_plan_row *row, uint32_t m, uint32_t n,
    uint32_t sms, struct hm_launch *launch_out)
{
	const struct hm_config *config = &row->config;
	uint32_t tile_rows = 128 * config->slices;
	uint32_t n_tiles = launch_ceil_div(n, tile_rows);
	uint64_t tiles =
	    (uint64_t)n_tiles * launch_ceil_div(m, config->tile_tokens);
	struct hm_launch launch = {0};

	if (tiles * row->cluster > INT32_MAX ||
	    (config->split_k == 0 && row->cluster != 1) ||
	    (config->split_k != 0 && row->split_tail != 0))
		return HM_E_INVALID;
	launch.grid_x = (uint32_t)tiles * row->cluster;
	if (row->split_tail != 0)
		launch.split_tiles = hm_launch_split_tiles(tiles, sms);
	if (config->split_k == 0 &&
	    (launch.grid_x > sms || launch.split_tiles > 0))
		launch.grid_x = sms;
	launch.grid_y = 1;
	launch.threads = config->threads;
	launch.cluster = row->cluster;
	launch.tile_tokens = config->tile_tokens;
	launch.tile_rows = tile_rows;
	launch.band =
	    row->band == 0 || row->band > n_tiles ? n_tiles : row->band;
	launch.prefetch = row->prefetch;
	launch.weight_policy = row->weight_policy;
	if (launch.split_tiles > 0)
		launch.workspace_bytes =
		    HM_LAUNCH_FLAG_BYTES + (uint64_t)launch.grid_x * tile_rows *
					       config->tile_tokens * 4;
	return launch_finish(&launch, hm_launch_wgmma_bytes(config),
	    hm_launch_wgmma_most(config), launch_out);
}

/* gemm_mma.cu: one tile a CTA. */
static int
launch_mma(const struct hm_plan_row *row, uint32_t m, uint32_t n,
    struct hm_launch *launch_out)
{
	const struct hm_config *config = &row->config;
	struct hm_launch launch = {0};

	launch.grid_x = launch_ceil_div(n, config->tile_rows);
	launch.grid_y = launch_ceil_div(m, config->tile_tokens);
	if (launch.grid_y > UINT16_MAX)
		return HM_E_INVALID;
	launch.threads = config->threads;
	launch.cluster = 1;
	launch.tile_rows = config->tile_rows;
	launch.weight_policy = row->weight_policy;
	return launch_finish(&launch,
	    (uint64_t)config->stages * hm_emit_stage_bytes(config),
	    HM_LAUNCH_MMA_SMEM_BYTES, launch_out);
}

/* pack.cu: a row block has eight CTAs, so that small matrices fill a GPU, too;
 * each finds the powers of the rows again. */
static int
launch_pack(const struct hm_plan_row *row, uint32_t n, uint32_t k,
    struct hm_launch *launch_out)
{
	struct hm_launch launch = {0};

	launch.grid_x = launch_ceil_div(n, ROW_GROUP);
	launch.grid_y = launch_ceil_div(k, CHUNK_K);
	if (launch.grid_y > PACK_CTAS)
		launch.grid_y = PACK_CTAS;
	launch.threads = row->config.threads;
	launch.cluster = 1;
	launch.tile_rows = ROW_GROUP;
	*launch_out = launch;
	return HM_OK;
}

/* quant.cu: a CTA per token, or 32 pairs of a token and a group of 128 k. */
static int
launch_quant(const struct hm_plan_row *row, uint32_t m, uint32_t k,
    struct hm_launch *launch_out)
{
	uint64_t pairs = (uint64_t)m * launch_ceil_div(k, CHUNK_K);
	struct hm_launch launch = {0};

	launch.grid_x = m;
	if (row->config.act_scale == HM_CONFIG_ACT_SCALE_GROUP) {
		if (pairs > INT32_MAX)
			return HM_E_INVALID;
		launch.grid_x = launch_ceil_div((uint32_t)pairs, QUANT_PAIRS);
	}
	launch.grid_y = 1;
	launch.threads = row->config.threads;
	launch.cluster = 1;
	*launch_out = launch;
	return HM_OK;
}

/* The kernels copy 16 bytes at a time along K, and 8 outputs along N. */
static bool
launch_sizes_are_valid(const struct hm_config *config, uint32_t n, uint32_t k)
{
	uint32_t k_unit = 16 / launch_act_bytes(config);

	if (config->family == HM_FAMILY_QUANT)
		return k > 0 && k <= MAX_SIZE && k % 8 == 0;
	return n > 0 && n <= MAX_SIZE && n % 8 == 0 && k > 0 && k <= MAX_SIZE &&
	       k % k_unit == 0;
}

int
hm_launch_compute(const struct hm_plan_row *row, uint32_t m, uint32_t n,
    uint32_t k, uint32_t sms, struct hm_launch *launch_out)
{
	if (m == 0 || m > MAX_SIZE || sms == 0 || row->cluster == 0 ||
	    !launch_sizes_are_valid(&row->config, n, k) ||
	    hm_emit_stage_bytes(&row->config) == 0)
		return HM_E_INVALID;
	switch ((enum hm_family)row->config.family) {
	case HM_FAMILY_STREAM:
		return launch_stream(row, m, n, k, sms, launch_out);
	case HM_FAMILY_WGMMA:
		return launch_wgmma(row, m, n, sms, launch_out);
	case HM_FAMILY_MMA:
		return launch_mma(row, m, n, launch_out);
	case HM_FAMILY_PACK:
		return launch_pack(row, n, k, launch_out);
	case HM_FAMILY_QUANT:
		return launch_quant(row, m, k, launch_out);
	}
	return HM_E_INVALID;
}
