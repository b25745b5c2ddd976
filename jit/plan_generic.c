/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_generic.c - the choice among the tiles of kernel G, by M alone but for
 * the widest tile, which must fill the SMs once.
 */
#include "jit/plan_impl.h"

struct hm_config
hm_plan_mma_config(const struct hm_config *format,
    const struct hm_tune_mma *tune)
{
	struct hm_config config = *format;

	config.family = HM_FAMILY_MMA;
	config.threads = 32 * tune->warps_n * tune->warps_m * tune->warps_k;
	config.tile_tokens = tune->tile_tokens;
	config.tile_rows = tune->tile_rows;
	config.stages = tune->stages;
	config.warps_n = tune->warps_n;
	config.warps_m = tune->warps_m;
	config.warps_k = tune->warps_k;
	return config;
}

/* First M, above 64, from which the widest tiles number at least the SMs. */
static uint32_t
generic_wide_from(const struct hm_plan_problem *problem)
{
	const struct hm_tune_mma *wide = &hm_tune_mma[HM_TUNE_MMA_128];
	uint32_t n_tiles = (problem->n + wide->tile_rows - 1) / wide->tile_rows;
	uint32_t m_tiles = (problem->sms + n_tiles - 1) / n_tiles;
	uint32_t from = (m_tiles - 1) * wide->tile_tokens + 1;

	return from > 65 ? from : 65;
}

void
hm_plan_generic(const struct hm_plan_problem *problem, struct hm_plan *plan)
{
	uint32_t wide_from = generic_wide_from(problem);
	const uint32_t ends[HM_TUNE_N_MMA] = {
	    [HM_TUNE_MMA_16] = 16,
	    [HM_TUNE_MMA_32] = 32,
	    [HM_TUNE_MMA_64] = wide_from - 1,
	    [HM_TUNE_MMA_128] = HM_PLAN_MAX_M,
	};
	uint32_t m = 1;

	for (uint32_t i = 0; i < HM_TUNE_N_MMA && m <= HM_PLAN_MAX_M; i++) {
		struct hm_plan_row row = {.m_lo = m, .m_hi = ends[i]};

		if (problem->one_order && hm_tune_mma[i].warps_k > 1)
			continue;
		if (row.m_hi > HM_PLAN_MAX_M)
			row.m_hi = HM_PLAN_MAX_M;
		row.config =
		    hm_plan_mma_config(&problem->format, &hm_tune_mma[i]);
		row.cluster = 1;
		hm_plan_add(plan, &row);
		m = row.m_hi + 1;
	}
}
