/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_plan_time.c - the model of times against what was measured, and the
 * tables that it and the measured rows are made of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jit/emit.h"
#include "jit/plan_time.h"
#include "jit/spec.h"

static struct hm_plan_problem
problem_of(const char *spec)
{
	struct hm_request request;
	struct hm_plan_problem problem = {.sms = 132};
	struct hm_errbuf errbuf = {""};

	if (hm_spec_parse(spec, &request, &errbuf) != HM_OK ||
	    hm_plan_format(&request, &problem.format, &errbuf) != HM_OK)
		fail_msg("%s", errbuf.text);
	problem.n = request.n;
	problem.k = request.k;
	return problem;
}

static const struct hm_tune_wgmma *
member_of(const struct hm_plan_problem *problem, uint32_t tokens,
    uint32_t slices, uint32_t split)
{
	const struct hm_tune_table *table =
	    &hm_tune_sm90a[hm_plan_class(&problem->format)];

	for (size_t i = 0; i < table->n_rows; i++) {
		if (table->rows[i].tile_tokens == tokens &&
		    table->rows[i].slices == slices &&
		    table->rows[i].split_k == split)
			return &table->rows[i];
	}
	fail_msg("no member %ux%u", slices, tokens);
	return NULL;
}

static uint64_t
wgmma_ns(const char *spec, uint32_t tokens, uint32_t slices, uint32_t cluster,
    uint32_t m)
{
	struct hm_plan_problem problem = problem_of(spec);
	struct hm_plan_pace pace;
	struct hm_plan_wgmma member = {
	    .tune = member_of(&problem, tokens, slices, cluster > 0),
	    .cluster = cluster > 0 ? cluster : 1,
	};

	pace = hm_plan_pace(&problem);
	return hm_plan_wgmma_ns(&pace, &member, m);
}

static uint64_t
stream_ns(const char *spec, uint32_t member, uint32_t cluster, uint32_t m)
{
	struct hm_plan_problem problem = problem_of(spec);
	struct hm_plan_pace pace;
	struct hm_plan_row row = {
	    .config =
		hm_plan_stream_config(&problem.format, &hm_tune_stream[member]),
	    .cluster = cluster,
	};

	pace = hm_plan_pace(&problem);
	return hm_plan_stream_ns(&pace, &row, m);
}

#define SQUARE "n=8192,k=8192"

/* KERNELS_MEASURED.md 3 and 4, and these kernels since, paused; cluster 0 =
 * persistent. */
static void
test_plan_time__the_model_is_near_what_was_measured(void **state)
{
	static const struct {
		const char *spec;
		uint32_t tokens, slices, cluster, m, measured_ns;
	} rows[] = {
	    {"w4a16," SQUARE, 16, 1, 2, 16, 13400},
	    {"w4a16," SQUARE, 64, 1, 2, 64, 17400},
	    {"w4a16," SQUARE, 128, 1, 2, 128, 25000},
	    {"w4a16," SQUARE, 256, 1, 2, 256, 46600},
	    {"w4a16," SQUARE, 256, 1, 0, 1024, 167000},
	    {"w4a16," SQUARE, 256, 1, 0, 4096, 669000},
	    {"w4a8i," SQUARE, 16, 1, 2, 16, 10800},
	    {"w4a8i," SQUARE, 64, 1, 2, 64, 12600},
	    {"w4a8i," SQUARE, 128, 1, 2, 128, 15200},
	    {"w4a8i," SQUARE, 256, 1, 0, 1024, 83600},
	    {"w4a8i," SQUARE, 256, 1, 0, 4096, 322000},
	    {"w4a8," SQUARE, 16, 1, 2, 16, 11300},
	    {"w4a8," SQUARE, 64, 1, 2, 64, 15600},
	    {"w4a8," SQUARE, 128, 1, 2, 128, 20000},
	    {"w4a8," SQUARE, 128, 1, 0, 256, 34350},
	    {"w4a8," SQUARE, 176, 1, 0, 1024, 128000},
	    {"w4a8," SQUARE, 192, 1, 0, 8192, 878000},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t ns = wgmma_ns(rows[i].spec, rows[i].tokens,
		    rows[i].slices, rows[i].cluster, rows[i].m);
		uint64_t tenth = rows[i].measured_ns / 10;

		if (ns < rows[i].measured_ns - tenth ||
		    ns > rows[i].measured_ns + tenth)
			fail_msg("%s, M=%u: %u ns, measured %u", rows[i].spec,
			    rows[i].m, (uint32_t)ns, rows[i].measured_ns);
	}
}

static void
test_plan_time__kernel_s_is_near_what_was_measured(void **state)
{
	static const struct {
		const char *spec;
		uint32_t member, cluster, m, measured_ns;
	} rows[] = {
	    {"w4a16," SQUARE, HM_TUNE_STREAM_DEEP, 1, 1, 9400},
	    {"w4a16," SQUARE, HM_TUNE_STREAM_DEEP, 1, 4, 10900},
	    {"w4a16," SQUARE, HM_TUNE_STREAM_PLAIN, 1, 8, 11940},
	    {"w4a16,n=4096,k=8192", HM_TUNE_STREAM_WIDE, 1, 1, 6700},
	    {"w4a16,n=1024,k=4096", HM_TUNE_STREAM_PLAIN, 4, 8, 3800},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t ns = stream_ns(rows[i].spec, rows[i].member,
		    rows[i].cluster, rows[i].m);
		uint64_t sixth = rows[i].measured_ns / 6;

		if (ns < rows[i].measured_ns - sixth ||
		    ns > rows[i].measured_ns + sixth)
			fail_msg("%s, M=%u: %u ns, measured %u", rows[i].spec,
			    rows[i].m, (uint32_t)ns, rows[i].measured_ns);
	}
}

static void
test_plan_time__what_cannot_be_launched_takes_forever(void **state)
{
	(void)state;
	/* 128 clusters of 2, of which 66 run. */
	assert_true(
	    wgmma_ns("w4a16,n=16384,k=8192", 16, 1, 2, 16) == HM_PLAN_NEVER);
	assert_true(
	    wgmma_ns("w4a16,n=16384,k=8192", 16, 1, 1, 16) != HM_PLAN_NEVER);
	/* One chunk is nothing to split. */
	assert_true(
	    wgmma_ns("w4a16,n=128,k=128", 16, 1, 2, 16) == HM_PLAN_NEVER);
	/* 8 tokens of 16 bits and 28672 k, in 8 warps. */
	assert_true(stream_ns("w4a16,n=8192,k=28672", HM_TUNE_STREAM_PLAIN, 1,
			8) == HM_PLAN_NEVER);
	assert_true(stream_ns("w4a8i,n=8192,k=16384", HM_TUNE_STREAM_PLAIN, 1,
			8) != HM_PLAN_NEVER);
}

/* Bytes set the pace of few tokens, whoever waits for them. */
static void
test_plan_time__twice_the_bytes_take_longer(void **state)
{
	(void)state;
	assert_true(wgmma_ns("w8a16," SQUARE, 16, 1, 2, 16) > 67000000 / 4300);
	assert_true(
	    stream_ns("w8a16," SQUARE, HM_TUNE_STREAM_PLAIN, 1, 1) >
	    stream_ns("w4a16," SQUARE, HM_TUNE_STREAM_PLAIN, 1, 1) + 6000);
	assert_true(stream_ns("w4a16," SQUARE, HM_TUNE_STREAM_PLAIN, 1, 8) >
		    stream_ns("w4a8i," SQUARE, HM_TUNE_STREAM_PLAIN, 1, 8));
}

static bool
is_member(const struct hm_tune_row *row)
{
	const struct hm_tune_table *table = &hm_tune_sm90a[row->class];

	if (HM_TUNE_IS_S(row->member))
		return (row->member & 0xffff) < HM_TUNE_N_STREAM;
	for (size_t i = 0; i < table->n_rows; i++) {
		const struct hm_tune_wgmma *tune = &table->rows[i];

		if (row->member ==
		    HM_TUNE_H(tune->tile_tokens, tune->slices, tune->split_k))
			return tune->split_k != 0 ? row->share == 0
						  : row->cluster == 1;
	}
	return false;
}

static int
compare_rows(const struct hm_tune_row *a, const struct hm_tune_row *b)
{
	const uint32_t ours[] = {a->class, a->weight_bits, a->n, a->k};
	const uint32_t others[] = {b->class, b->weight_bits, b->n, b->k};

	for (size_t i = 0; i < 4; i++) {
		if (ours[i] != others[i])
			return ours[i] < others[i] ? -1 : 1;
	}
	return a->m_hi < b->m_lo ? -1 : 1;
}

static void
test_plan_time__measured_rows_are_of_members_and_in_order(void **state)
{
	(void)state;
	assert_true(hm_tune_n_rows > 0);
	for (size_t i = 0; i < hm_tune_n_rows; i++) {
		const struct hm_tune_row *row = &hm_tune_rows[i];

		assert_true(row->class < HM_TUNE_N_CLASSES);
		assert_true(row->weight_bits == 4 || row->weight_bits == 8);
		assert_true(row->n % 8 == 0 && row->k % 8 == 0);
		assert_true(row->m_lo >= 1 && row->m_lo <= row->m_hi &&
			    row->m_hi <= HM_PLAN_MAX_M);
		assert_true(row->cluster == 1 || row->cluster == 2 ||
			    row->cluster == 4);
		assert_true(is_member(row));
		/* Kernel S ends at 8 tokens. */
		assert_true(!HM_TUNE_IS_S(row->member) || row->m_hi <= 8);
		if (i > 0)
			assert_int_equal(
			    compare_rows(&hm_tune_rows[i - 1], row), -1);
	}
}

static const char *const class_specs[] = {
    [HM_TUNE_WIDE] = "w4a16,n=8,k=128",
    [HM_TUNE_ONE_LEVEL] = "w4a8i,n=8,k=128",
    [HM_TUNE_TWO_LEVEL] = "w4a8,n=8,k=128",
};

/* The row of a plan is the measured one from end to end of its M. */
static void
test_plan_time__measured_rows_win_over_the_model(void **state)
{
	(void)state;
	for (size_t i = 0; i < hm_tune_n_rows; i++) {
		const struct hm_tune_row *row = &hm_tune_rows[i];
		struct hm_plan_problem problem =
		    problem_of(class_specs[row->class]);
		const uint32_t ms[] = {row->m_lo, row->m_hi};
		struct hm_plan plan = {0};

		if (row->weight_bits == 8)
			problem.format.weight =
			    problem.format.act == HM_CONFIG_ACT_E4M3
				? HM_CONFIG_WEIGHT_E4M3
				: HM_CONFIG_WEIGHT_U8;
		problem.n = row->n;
		problem.k = row->k;
		hm_plan_sm90a(&problem, &plan);
		for (size_t j = 0; j < 2; j++) {
			const struct hm_plan_row *found =
			    hm_plan_find(&plan, ms[j]);
			const struct hm_config *config = &found->config;

			assert_int_equal(found->cluster, row->cluster);
			assert_int_equal(found->split_tail, row->share);
			if (HM_TUNE_IS_S(row->member)) {
				const struct hm_tune_stream *stream =
				    &hm_tune_stream[row->member & 0xffff];

				assert_int_equal(config->family,
				    HM_FAMILY_STREAM);
				assert_int_equal(config->warps_k,
				    stream->warps_k);
				assert_int_equal(config->ring, stream->ring);
			} else {
				assert_int_equal(HM_TUNE_H(config->tile_tokens,
						     config->slices,
						     config->split_k),
				    row->member);
			}
		}
	}
}

/* A model's kernels are 4 of S, one that quantizes, and these. */
static void
test_plan_time__a_class_has_at_most_11_members(void **state)
{
	(void)state;
	for (uint32_t class = 0; class < HM_TUNE_N_CLASSES; class ++) {
		const struct hm_tune_table *table = &hm_tune_sm90a[class];
		struct hm_plan_problem problem = problem_of(class_specs[class]);
		char text[HM_EMIT_CONFIG_BYTES];

		assert_in_range(table->n_rows, 1, 11);
		for (size_t i = 0; i < table->n_rows; i++) {
			struct hm_config config = hm_plan_wgmma_config(
			    &problem.format, &table->rows[i]);

			assert_int_equal(
			    hm_emit_config(&config, text, sizeof(text)), HM_OK);
			assert_true(table->rows[i].step_ns > 0);
			assert_true(
			    i == 0 || table->rows[i].tile_tokens >=
					  table->rows[i - 1].tile_tokens);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_plan_time__the_model_is_near_what_was_measured),
	    cmocka_unit_test(
		test_plan_time__kernel_s_is_near_what_was_measured),
	    cmocka_unit_test(
		test_plan_time__what_cannot_be_launched_takes_forever),
	    cmocka_unit_test(test_plan_time__twice_the_bytes_take_longer),
	    cmocka_unit_test(
		test_plan_time__measured_rows_are_of_members_and_in_order),
	    cmocka_unit_test(test_plan_time__measured_rows_win_over_the_model),
	    cmocka_unit_test(test_plan_time__a_class_has_at_most_11_members),
	};

	return cmocka_run_group_tests_name("plan_time", tests, NULL, NULL);
}
