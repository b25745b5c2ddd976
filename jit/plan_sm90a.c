/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_sm90a.c - the choice on Hopper between the members of kernels S and H.
 *
 * For each range of M of a fixed division, which bounds the rows of a table,
 * the member of least time: plan_time.c's model, unless a measured row of
 * tune_sm90a_rows.c says better. Which of S's four members comes into question
 * is a matter of rules, because they differ by latency hiding that no simple
 * model gives. K is split over a cluster only when all clusters run at once: of
 * those of 4 so few fit (launch.h) that they win only where tiles are few.
 */
#include "jit/plan_impl.h"

#include "jit/emit.h"
#include "jit/launch.h"
#include "jit/plan_time.h"
#include "proto/error.h"

/* Tokens that kernel S serves, and that it is planned for one by one. */
#define MAX_STREAM_M 8u
#define MOST_CLUSTER 4u

/* Ends of the ranges of M above kernel S that are planned as one. */
static const uint32_t sm90a_ends[] = {16, 32, 64, 96, 128, 168, 192, 256, 384,
    512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 7680, HM_PLAN_MAX_M};

static uint32_t
sm90a_ceil_div(uint32_t a, uint32_t b)
{
	return (a + b - 1) / b;
}

/* Largest cluster: a sliver of a device (MIG) may have no room for one. */
static uint32_t
sm90a_most_ctas(const struct hm_plan_problem *problem)
{
	return problem->sms >= 8 ? MOST_CLUSTER : 1;
}

static const struct hm_tune_table *
sm90a_table(const struct hm_plan_problem *problem)
{
	return &hm_tune_sm90a[hm_plan_class(&problem->format)];
}

struct hm_config
hm_plan_stream_config(const struct hm_config *format,
    const struct hm_tune_stream *tune)
{
	struct hm_config config = *format;

	config.family = HM_FAMILY_STREAM;
	config.threads = tune->warps * 32;
	config.token_tiles = 1;
	config.ring = tune->ring;
	config.warps = tune->warps;
	config.warps_k = tune->warps_k;
	config.ctas_per_sm = 1;
	/* Its sums are fp32 ones at any rate. */
	config.promote = 0;
	return config;
}

static bool
sm90a_is_narrow(const struct hm_config *format)
{
	return format->weight == HM_CONFIG_WEIGHT_U4 ||
	       format->weight == HM_CONFIG_WEIGHT_E2M1;
}

bool
hm_plan_wgmma_serves(const struct hm_config *format,
    const struct hm_tune_wgmma *tune)
{
	return format->promote == 0 || tune->slices == 1 ||
	       sm90a_is_narrow(format);
}

bool
hm_plan_shares(const struct hm_config *format, const struct hm_tune_wgmma *tune)
{
	return tune->split_k == 0 && tune->tile_tokens * tune->slices <= 256 &&
	       (format->zero == HM_CONFIG_ZERO_NONE || tune->slices == 1);
}

struct hm_tune_wgmma
hm_plan_one_order(const struct hm_tune_wgmma *tune)
{
	struct hm_tune_wgmma single = *tune;

	single.sets = 1;
	return single;
}

struct hm_config
hm_plan_wgmma_config(const struct hm_config *format,
    const struct hm_tune_wgmma *tune)
{
	struct hm_config config = *format;

	config.family = HM_FAMILY_WGMMA;
	/* And a warpgroup that fetches. */
	config.threads = 128 * (2 * tune->sets + 1);
	config.tile_tokens = tune->tile_tokens;
	config.stages = tune->stages;
	config.slices = tune->slices;
	config.halves = tune->halves;
	config.steps = tune->steps;
	config.split_k = tune->split_k;
	/* A wgmma group ends where its sums are promoted: 32 k a step. */
	while (config.promote != 0 && config.steps * 32 > config.promote)
		config.steps /= 2;
	/* Small groups, zero points and 8-bit weights make stages larger. */
	while (config.stages > 2 * tune->sets &&
	       hm_launch_wgmma_bytes(&config) > hm_launch_wgmma_most(&config))
		config.stages -= tune->sets;
	return config;
}

/* Tokens up to which the deeper ring of S is the faster, where it fits. */
static uint32_t
sm90a_deep_until(const struct hm_config *format)
{
	if (format->act == HM_CONFIG_ACT_S8)
		return 8;
	return format->act >= HM_CONFIG_ACT_E4M3 && sm90a_is_narrow(format) ? 3
									    : 4;
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
	return m <= sm90a_deep_until(&problem->format) ? HM_TUNE_STREAM_DEEP
						       : HM_TUNE_STREAM_PLAIN;
}

static struct hm_plan_row
sm90a_stream_row(const struct hm_plan_problem *problem, uint32_t member,
    uint32_t cluster, uint32_t m_lo, uint32_t m_hi)
{
	return (struct hm_plan_row){
	    .m_lo = m_lo,
	    .m_hi = m_hi,
	    .config = hm_plan_stream_config(&problem->format,
		&hm_tune_stream[member]),
	    .cluster = cluster,
	    .weight_policy = 1,
	};
}

static struct hm_plan_row
sm90a_wgmma_row(const struct hm_plan_problem *problem,
    const struct hm_plan_wgmma *member, uint32_t m_lo, uint32_t m_hi)
{
	const struct hm_tune_wgmma *tune = member->tune;
	const struct hm_tune_wgmma single = hm_plan_one_order(tune);
	uint32_t n_tiles = sm90a_ceil_div(problem->n, 128 * tune->slices);
	struct hm_plan_row row = {
	    .m_lo = m_lo,
	    .m_hi = m_hi,
	    .config = hm_plan_wgmma_config(&problem->format,
		problem->one_order ? &single : tune),
	    .cluster = member->cluster,
	    .band = problem->format.promote != 0 ? 32 : 16 * tune->slices,
	    .prefetch = tune->prefetch,
	    .weight_policy = tune->evict_first && m_hi <= tune->tile_tokens,
	    .split_tail = member->share,
	};

	if (row.prefetch == 0)
		row.prefetch = row.config.stages;
	if (m_hi <= 1024 || row.band > n_tiles)
		row.band = n_tiles;
	return row;
}

/* ---- measured rows ---- */

static const struct hm_tune_wgmma *
sm90a_member(const struct hm_tune_table *table, uint32_t member)
{
	for (size_t i = 0; i < table->n_rows; i++) {
		const struct hm_tune_wgmma *tune = &table->rows[i];

		if (HM_TUNE_H(tune->tile_tokens, tune->slices, tune->split_k) ==
		    member)
			return tune;
	}
	return NULL;
}

static bool
sm90a_row_is_of(const struct hm_tune_row *measured,
    const struct hm_plan_problem *problem)
{
	return problem->sms == HM_TUNE_ROWS_SMS && !problem->one_order &&
	       measured->n == problem->n && measured->k == problem->k &&
	       measured->weight_bits ==
		   (sm90a_is_narrow(&problem->format) ? 4 : 8) &&
	       measured->class == hm_plan_class(&problem->format);
}

/* The measured row for m, or NULL; *end_io is cut to where it, or the next one,
 * ends or begins. */
static const struct hm_tune_row *
sm90a_measured(const struct hm_plan_problem *problem, uint32_t m,
    uint32_t *end_io)
{
	const struct hm_tune_row *found = NULL;

	for (size_t i = 0; i < hm_tune_n_rows; i++) {
		const struct hm_tune_row *row = &hm_tune_rows[i];

		if (!sm90a_row_is_of(row, problem) || row->m_hi < m)
			continue;
		if (row->m_lo <= m)
			found = row;
		if (row->m_lo <= m && row->m_hi < *end_io)
			*end_io = row->m_hi;
		if (row->m_lo > m && row->m_lo <= *end_io)
			*end_io = row->m_lo - 1;
	}
	return found;
}

bool
hm_plan_measured_row(const struct hm_plan_problem *problem,
    const struct hm_tune_row *measured, uint32_t m_lo, uint32_t m_hi,
    struct hm_plan_row *row_out)
{
	struct hm_plan_wgmma member = {
	    .tune = sm90a_member(sm90a_table(problem), measured->member),
	    .cluster = measured->cluster,
	};
	struct hm_launch launch;
	struct hm_plan_row row;

	member.share = member.tune != NULL && measured->share != 0 &&
		       hm_plan_shares(&problem->format, member.tune);

	if (HM_TUNE_IS_S(measured->member))
		row =
		    sm90a_stream_row(problem, measured->member & ~HM_TUNE_S(0),
			measured->cluster, m_lo, m_hi);
	else if (member.tune != NULL &&
		 hm_plan_wgmma_serves(&problem->format, member.tune))
		row = sm90a_wgmma_row(problem, &member, m_lo, m_hi);
	else
		return false;
	if (hm_launch_compute(&row, m_hi, problem->n, problem->k, problem->sms,
		&launch) != HM_OK)
		return false;
	*row_out = row;
	return true;
}

/* ---- the model ---- */

struct sm90a_choice {
	struct hm_plan_wgmma member;
	uint64_t time_ns; /* summed over the sample points of a range */
};

static void
sm90a_try(const struct hm_plan_pace *pace, const struct hm_plan_wgmma *member,
    const uint32_t samples[2], struct sm90a_choice *best)
{
	uint32_t tokens = member->tune->tile_tokens;
	uint64_t at_end = hm_plan_wgmma_ns(pace, member, samples[1]);
	uint64_t time_ns = at_end;

	/* As many tiles are the same work. */
	if (at_end != HM_PLAN_NEVER && sm90a_ceil_div(samples[0], tokens) !=
					   sm90a_ceil_div(samples[1], tokens))
		time_ns = hm_plan_wgmma_ns(pace, member, samples[0]);
	if (at_end == HM_PLAN_NEVER || time_ns == HM_PLAN_NEVER ||
	    at_end + time_ns >= best->time_ns)
		return;
	*best = (struct sm90a_choice){*member, at_end + time_ns};
}

/* All ways to launch one member. */
static void
sm90a_try_member(const struct hm_plan_pace *pace,
    const struct hm_tune_wgmma *tune, const uint32_t samples[2],
    struct sm90a_choice *best)
{
	const struct hm_plan_problem *problem = pace->problem;
	struct hm_plan_wgmma member = {.tune = tune, .cluster = 1};
	uint32_t most = problem->one_order ? 1 : sm90a_most_ctas(problem);

	sm90a_try(pace, &member, samples, best);
	if (!problem->one_order && hm_plan_shares(&problem->format, tune)) {
		member.share = true;
		sm90a_try(pace, &member, samples, best);
	}
	while (tune->split_k != 0 && member.cluster * 2 <= most) {
		member.cluster *= 2;
		sm90a_try(pace, &member, samples, best);
	}
}

/* The fastest of H for a range of M, by its middle and its end. */
static struct sm90a_choice
sm90a_best_wgmma(const struct hm_plan_pace *pace, uint32_t m_lo, uint32_t m_hi)
{
	const struct hm_plan_problem *problem = pace->problem;
	const struct hm_tune_table *table = sm90a_table(problem);
	uint32_t samples[2] = {(m_lo + m_hi) / 2, m_hi};
	struct sm90a_choice best = {{&table->rows[0], 1, false}, UINT64_MAX};

	for (size_t i = 0; i < table->n_rows; i++) {
		const struct hm_tune_wgmma *tune = &table->rows[i];

		/* Mostly padding, unless there is nothing smaller. */
		if ((best.time_ns != UINT64_MAX &&
			tune->tile_tokens >= 2 * m_hi) ||
		    !hm_plan_wgmma_serves(&problem->format, tune))
			continue;
		sm90a_try_member(pace, tune, samples, &best);
	}
	return best;
}

/* The best of S for exactly m tokens; false: their activations fit no member.
 * Long K: a cluster divides the activations as well. */
static bool
sm90a_best_stream(const struct hm_plan_pace *pace, uint32_t m,
    struct hm_plan_row *row_out, uint64_t *time_ns_out)
{
	const struct hm_plan_problem *problem = pace->problem;
	uint32_t cluster;
	uint32_t member = sm90a_stream_member(problem, m, &cluster);

	for (; cluster <= sm90a_most_ctas(problem); cluster *= 2) {
		for (int i = 0; i < 2; i++) {
			*row_out =
			    sm90a_stream_row(problem, member, cluster, m, m);
			*time_ns_out = hm_plan_stream_ns(pace, row_out, m);
			if (*time_ns_out != HM_PLAN_NEVER)
				return true;
			member = HM_TUNE_STREAM_PLAIN;
		}
	}
	return false;
}

static struct hm_plan_row
sm90a_row(const struct hm_plan_pace *pace, uint32_t m_lo, uint32_t m_hi)
{
	const struct hm_plan_problem *problem = pace->problem;
	struct sm90a_choice best = sm90a_best_wgmma(pace, m_lo, m_hi);
	struct hm_plan_row row;
	uint64_t time_ns;

	/* One M, so both samples are it. */
	if (m_hi <= MAX_STREAM_M && !problem->one_order &&
	    sm90a_best_stream(pace, m_lo, &row, &time_ns) &&
	    time_ns <= best.time_ns / 2)
		return row;
	return sm90a_wgmma_row(problem, &best.member, m_lo, m_hi);
}

void
hm_plan_sm90a(const struct hm_plan_problem *problem, struct hm_plan *plan)
{
	const struct hm_plan_pace pace = hm_plan_pace(problem);
	uint32_t m = 1;

	for (size_t i = 0; m <= HM_PLAN_MAX_M;) {
		uint32_t end = m <= MAX_STREAM_M ? m : sm90a_ends[i];
		const struct hm_tune_row *measured =
		    sm90a_measured(problem, m, &end);
		struct hm_plan_row row;

		if (measured == NULL ||
		    !hm_plan_measured_row(problem, measured, m, end, &row))
			row = sm90a_row(&pace, m, end);
		hm_plan_add(plan, &row);
		if (end == sm90a_ends[i])
			i++;
		m = end + 1;
	}
}
