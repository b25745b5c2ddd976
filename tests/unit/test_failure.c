/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_failure.c - failures are believed for a while, and their number is
 * bounded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/failure.h"

#define SECOND UINT64_C(1000000)

static struct hm_failures failures;

static int
teardown(void **state)
{
	(void)state;
	hm_failures_done(&failures);
	return 0;
}

static struct hm_digest
key_of(uint8_t number)
{
	struct hm_digest key;

	memset(&key, number, sizeof(key));
	return key;
}

static void
put(uint8_t number, int error, char *log, uint64_t now_us)
{
	struct hm_failure failure = {.key = key_of(number),
	    .error = error,
	    .message = "why"};

	failure.log = log;
	hm_failures_put(&failures, &failure, now_us);
}

static void
test_failure__each_class__has_its_time(void **state)
{
	struct hm_digest compile = key_of(1);
	struct hm_digest crash = key_of(2);

	(void)state;
	put(1, HM_E_COMPILE, NULL, SECOND);
	put(2, HM_E_INTERNAL, NULL, SECOND);
	assert_non_null(hm_failures_find(&failures, &crash, 60 * SECOND));
	assert_null(hm_failures_find(&failures, &crash, 62 * SECOND));
	assert_non_null(hm_failures_find(&failures, &compile, 600 * SECOND));
	assert_null(hm_failures_find(&failures, &compile, 602 * SECOND));
	assert_int_equal(hm_failure_lifetime_us(HM_E_TIMEOUT), 60 * SECOND);
	assert_int_equal(hm_failure_lifetime_us(HM_E_NOMEM), 60 * SECOND);
}

static void
test_failure__log__is_copied(void **state)
{
	char log[] = "error: no";
	struct hm_digest key = key_of(1);
	const struct hm_failure *found;

	(void)state;
	put(1, HM_E_COMPILE, log, SECOND);
	memset(log, 'x', sizeof(log) - 1);
	found = hm_failures_find(&failures, &key, 2 * SECOND);
	assert_non_null(found);
	assert_string_equal(found->log, "error: no");
	assert_string_equal(found->message, "why");
	assert_int_equal(found->error, HM_E_COMPILE);
}

static void
test_failure__more_than_fit__push_out_the_oldest(void **state)
{
	char log[] = "log";

	(void)state;
	for (uint32_t i = 0; i < HM_FAILURE_SLOTS + 10; i++)
		put((uint8_t)i, HM_E_COMPILE, log, SECOND);
	for (uint32_t i = 0; i < HM_FAILURE_SLOTS + 10; i++) {
		struct hm_digest key = key_of((uint8_t)i);

		if (i < 10)
			assert_null(
			    hm_failures_find(&failures, &key, 2 * SECOND));
		else
			assert_non_null(
			    hm_failures_find(&failures, &key, 2 * SECOND));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(test_failure__each_class__has_its_time,
		teardown),
	    cmocka_unit_test_teardown(test_failure__log__is_copied, teardown),
	    cmocka_unit_test_teardown(
		test_failure__more_than_fit__push_out_the_oldest, teardown),
	};

	return cmocka_run_group_tests_name("failure", tests, NULL, NULL);
}
