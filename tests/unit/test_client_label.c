/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/label.h"

static void
check_lines(const char *text, const char *name, const char *expected)
{
	char *result = hm_label_lines(text, name);

	assert_non_null(result);
	assert_string_equal(result, expected);
	free(result);
}

static void
test_client_label__line_starts_are_renamed(void **state)
{
	(void)state;
	check_lines("kernel.cu(1): error: a\n  int x\nkernel.cu(2): error: b\n",
	    "a-longer-name.cu",
	    "a-longer-name.cu(1): error: a\n  int x\n"
	    "a-longer-name.cu(2): error: b\n");
	check_lines("kernel.cu(1): x", "k", "k(1): x");
}

static void
test_client_label__other_places_stay(void **state)
{
	(void)state;
	check_lines("", "x", "");
	check_lines("\n\n", "x", "\n\n");
	check_lines("see kernel.cu(1)\nkernel.cuh(1): y\nkernel.cu", "x",
	    "see kernel.cu(1)\nkernel.cuh(1): y\nkernel.cu");
}

static void
test_client_label__one_line_is_cut_to_its_buffer(void **state)
{
	char line[12];

	(void)state;
	hm_label_line("kernel.cu(7): error", "ab.cu", line, sizeof line);
	assert_string_equal(line, "ab.cu(7): e");
	hm_label_line("no compiler", "ab.cu", line, sizeof line);
	assert_string_equal(line, "no compiler");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_client_label__line_starts_are_renamed),
	    cmocka_unit_test(test_client_label__other_places_stay),
	    cmocka_unit_test(test_client_label__one_line_is_cut_to_its_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
