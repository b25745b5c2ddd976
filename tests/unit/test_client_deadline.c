/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client_deadline.c - which texts are seconds, and how many ms they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/deadline.h"

static void
test_client_deadline__plain_decimals_are_read(void **state)
{
	static const struct {
		const char *text;
		uint32_t ms;
	} cases[] = {
	    {"1", 1000},
	    {"30", 30000},
	    {"0.5", 500},
	    {".25", 250},
	    {"5.", 5000},
	    {"007", 7000},
	    {"1.0005", 1001}, /* up */
	    {"0.00001", 1},   /* never to nothing */
	    {"1.000000", 1000},
	    {"1.999", 1999},
	    {"3999999.9999", 4000000000u},
	    {"4000000", 4000000000u},
	    {"4000000.000", 4000000000u},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t ms = 77;

		if (!hm_deadline_read(cases[i].text, &ms) || ms != cases[i].ms)
			fail_msg("'%s' is %u", cases[i].text, ms);
	}
}

static void
test_client_deadline__anything_else_is_refused(void **state)
{
	static const char *const texts[] = {"", ".", "0", "0.0", "0.", "-1",
	    "+1", " 1", "1 ", "1e3", "1E3", "0x10", "nan", "inf", "1.2.3",
	    "1,5", "4000000.001", "4000000.0001", "4000001", "soon", "1s",
	    "18446744073709551616", "18446744073709551617.5", "..", "1..",
	    "99999999999999999999999999999999999999999999"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		uint32_t ms = 77;

		if (hm_deadline_read(texts[i], &ms) || ms != 77)
			fail_msg("'%s' is %u", texts[i], ms);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_client_deadline__plain_decimals_are_read),
	    cmocka_unit_test(test_client_deadline__anything_else_is_refused),
	};

	return cmocka_run_group_tests_name("client_deadline", tests, NULL,
	    NULL);
}
