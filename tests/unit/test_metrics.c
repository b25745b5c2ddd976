/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_metrics.c - quantiles of a histogram, against the values themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/metrics.h"

static void
test_metrics__empty__quantiles_are_zero(void **state)
{
	static struct hm_histogram histogram;

	(void)state;
	assert_int_equal(hm_histogram_quantile(&histogram, 500), 0);
	assert_int_equal(hm_histogram_quantile(&histogram, 990), 0);
}

static void
test_metrics__any_value__is_found_within_an_eighth(void **state)
{
	(void)state;
	for (uint64_t value = 0; value < UINT64_C(1) << 36;
	     value += value / 7 + 1) {
		struct hm_histogram histogram;
		uint64_t found;

		memset(&histogram, 0, sizeof(histogram));
		hm_histogram_add(&histogram, value);
		found = hm_histogram_quantile(&histogram, 500);
		assert_true(found <= value);
		assert_true(value - found <= value / 8);
		assert_int_equal(hm_histogram_quantile(&histogram, 1), found);
		assert_int_equal(hm_histogram_quantile(&histogram, 1000),
		    found);
	}
}

static void
test_metrics__beyond_the_last_bucket__is_still_counted(void **state)
{
	static struct hm_histogram histogram;

	(void)state;
	hm_histogram_add(&histogram, UINT64_MAX);
	assert_int_equal(histogram.n_values, 1);
	assert_true(hm_histogram_quantile(&histogram, 990) > 1u << 30);
}

static void
test_metrics__many_values__p50_and_p99_are_where_they_should(void **state)
{
	static struct hm_histogram histogram;

	(void)state;
	for (uint64_t value = 1; value <= 1000; value++)
		hm_histogram_add(&histogram, value);
	assert_in_range(hm_histogram_quantile(&histogram, 500), 440, 500);
	assert_in_range(hm_histogram_quantile(&histogram, 990), 870, 990);
}

static void
test_metrics__rss__grows_with_what_is_touched(void **state)
{
	const size_t n_bytes = 16u << 20;
	uint64_t before = hm_metrics_rss_bytes();
	char *memory = malloc(n_bytes);

	(void)state;
	assert_true(before > 0);
	assert_non_null(memory);
	memset(memory, 1, n_bytes);
	assert_true(hm_metrics_rss_bytes() >= before + n_bytes / 2);
	free(memory);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_metrics__empty__quantiles_are_zero),
	    cmocka_unit_test(
		test_metrics__any_value__is_found_within_an_eighth),
	    cmocka_unit_test(
		test_metrics__beyond_the_last_bucket__is_still_counted),
	    cmocka_unit_test(
		test_metrics__many_values__p50_and_p99_are_where_they_should),
	    cmocka_unit_test(test_metrics__rss__grows_with_what_is_touched),
	};

	return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
