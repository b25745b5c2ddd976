/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members.c - from the tables of jit/tune to configurations, by the plan's own
 * functions (jit/plan_impl.h): what is tried here is what could be chosen.
 */
#include "members.h"

#include <string.h>

#include "jit/plan_impl.h"

/* What is multiplied, of a configuration of the format. */
static struct hm_config
members_format(const struct hm_config *config)
{
	return (struct hm_config){
	    .act = config->act,
	    .out = config->out,
	    .weight = config->weight,
	    .scale = config->scale,
	    .group = config->group,
	    .zero = config->zero,
	    .act_scale = config->act_scale,
	    .promote = config->promote,
	};
}

size_t
members_find(const struct session *session, const struct hm_target *target,
    const struct problem_spec *spec, struct hm_config *configs, size_t max)
{
	const struct hm_tune_table *table = NULL;
	struct hm_config format;
	struct hm_plan plan;
	size_t n = 0;

	if (!session_plan(session, spec, target, &plan))
		return 0;
	/* The last row is of the family that promotes. */
	format = members_format(&plan.rows[plan.n_rows - 1].config);
	if (!hm_plan_is_hopper(target)) {
		for (size_t i = 0; i < HM_TUNE_N_MMA && n < max; i++)
			configs[n++] =
			    hm_plan_mma_config(&format, &hm_tune_mma[i]);
		return n;
	}
	table = &hm_tune_sm90a[hm_plan_class(&format)];
	for (size_t i = 0; i < HM_TUNE_N_STREAM && n < max; i++)
		configs[n++] =
		    hm_plan_stream_config(&format, &hm_tune_stream[i]);
	for (size_t i = 0; i < table->n_rows && n < max; i++)
		if (hm_plan_wgmma_serves(&format, &table->rows[i]))
			configs[n++] =
			    hm_plan_wgmma_config(&format, &table->rows[i]);
	return n;
}

static bool
members_share(const struct hm_config *config)
{
	const struct hm_tune_wgmma tune = {
	    .tile_tokens = config->tile_tokens,
	    .slices = config->slices,
	    .split_k = config->split_k,
	};

	return hm_plan_shares(config, &tune);
}

bool
members_variant(const struct hm_config *config, uint32_t i,
    struct hm_plan_row *row)
{
	static const uint32_t clusters[] = {1, 2, 4, 3};
	static const uint32_t prefetches[] = {1, 2, 0, 64};
	static const uint32_t bands[] = {1, 3, 0, 16};

	memset(row, 0, sizeof *row);
	row->config = *config;
	row->cluster = 1;
	row->weight_policy = i % 2;
	row->band = 1;
	if (i >= MEMBERS_N_VARIANTS)
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
		else if (members_share(config))
			row->split_tail = i % 2;
		return true;
	case HM_FAMILY_MMA:
		return i == 0;
	case HM_FAMILY_PACK:  /* section_pack.c */
	case HM_FAMILY_QUANT: /* section_quant.c */
		return false;
	}
	return false;
}
