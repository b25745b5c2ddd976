/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_error.c - codes equal the public ones; buffers are safe to print.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/include/humming/client.h"
#include "proto/error.h"

static void
test_error__codes_equal_the_public_header(void **state)
{
	(void)state;
	assert_int_equal(HM_OK, HUMMING_OK);
	assert_int_equal(HM_E_INVALID, HUMMING_E_INVALID);
	assert_int_equal(HM_E_NOMEM, HUMMING_E_NOMEM);
	assert_int_equal(HM_E_SYSTEM, HUMMING_E_SYSTEM);
	assert_int_equal(HM_E_UNAVAILABLE, HUMMING_E_UNAVAILABLE);
	assert_int_equal(HM_E_TIMEOUT, HUMMING_E_TIMEOUT);
	assert_int_equal(HM_E_BUSY, HUMMING_E_BUSY);
	assert_int_equal(HM_E_DENIED, HUMMING_E_DENIED);
	assert_int_equal(HM_E_PROTOCOL, HUMMING_E_PROTOCOL);
	assert_int_equal(HM_E_VERSION, HUMMING_E_VERSION);
	assert_int_equal(HM_E_UNSUPPORTED, HUMMING_E_UNSUPPORTED);
	assert_int_equal(HM_E_COMPILE, HUMMING_E_COMPILE);
	assert_int_equal(HM_E_CORRUPT, HUMMING_E_CORRUPT);
	assert_int_equal(HM_E_INTERNAL, HUMMING_E_INTERNAL);
}

static void
test_error__every_code_has_a_text_of_its_own(void **state)
{
	const char *unknown = hm_strerror(1);

	(void)state;
	for (int a = HM_OK; a >= HM_E_INTERNAL; a--) {
		assert_string_not_equal(hm_strerror(a), "");
		assert_string_not_equal(hm_strerror(a), unknown);
		for (int b = HM_OK; b > a; b--)
			assert_string_not_equal(hm_strerror(a), hm_strerror(b));
	}
}

static void
test_error__unknown_codes_share_a_generic_text(void **state)
{
	const int codes[] = {1, 255, HM_E_INTERNAL - 1, -1000, -2147483647 - 1,
	    2147483647};

	(void)state;
	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
		assert_string_equal(hm_strerror(codes[i]), "unknown error");
}

static void
test_error__set_replaces_and_keeps_errno(void **state)
{
	struct hm_errbuf errbuf = {"old"};

	(void)state;
	errno = ENOTDIR;
	hm_errbuf_set(&errbuf, "%s: %d of %d", "a.json", 3, 4);
	assert_string_equal(errbuf.text, "a.json: 3 of 4");
	assert_int_equal(errno, ENOTDIR);
	hm_errbuf_set(NULL, "%d", 1);
	hm_errbuf_prefix(NULL, "%d", 1);
	assert_int_equal(errno, ENOTDIR);
}

static void
test_error__control_characters_become_question_marks(void **state)
{
	struct hm_errbuf errbuf;

	(void)state;
	hm_errbuf_set(&errbuf, "%s", "a\nb\x1b[31m\tc\x7f\rd\xc3\xa9");
	assert_string_equal(errbuf.text, "a?b?[31m?c??d\xc3\xa9");
	hm_errbuf_prefix(&errbuf, "x\ny");
	assert_string_equal(errbuf.text, "x?y: a?b?[31m?c??d\xc3\xa9");
}

static void
test_error__long_text_is_cut(void **state)
{
	struct hm_errbuf errbuf;

	(void)state;
	hm_errbuf_set(&errbuf, "%0*d", 2000, 7);
	assert_int_equal(strlen(errbuf.text), sizeof errbuf.text - 1);
	hm_errbuf_prefix(&errbuf, "head");
	assert_int_equal(strlen(errbuf.text), sizeof errbuf.text - 1);
	assert_memory_equal(errbuf.text, "head: 000", 9);
	hm_errbuf_prefix(&errbuf, "%0*d", 2000, 7);
	assert_int_equal(strlen(errbuf.text), sizeof errbuf.text - 1);
	assert_memory_equal(errbuf.text, "000000000", 9);
}

static void
test_error__prefix_goes_in_front(void **state)
{
	struct hm_errbuf errbuf = {""};

	(void)state;
	hm_errbuf_prefix(&errbuf, "outer %d", 1);
	assert_string_equal(errbuf.text, "outer 1");
	hm_errbuf_prefix(&errbuf, "more");
	assert_string_equal(errbuf.text, "more: outer 1");
}

static void
test_error__argument_may_point_into_the_buffer(void **state)
{
	struct hm_errbuf errbuf = {"inner"};

	(void)state;
	hm_errbuf_set(&errbuf, "[%s] [%s]", errbuf.text, errbuf.text);
	assert_string_equal(errbuf.text, "[inner] [inner]");
	hm_errbuf_prefix(&errbuf, "%s", errbuf.text);
	assert_string_equal(errbuf.text, "[inner] [inner]: [inner] [inner]");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_error__codes_equal_the_public_header),
	    cmocka_unit_test(test_error__every_code_has_a_text_of_its_own),
	    cmocka_unit_test(test_error__unknown_codes_share_a_generic_text),
	    cmocka_unit_test(test_error__set_replaces_and_keeps_errno),
	    cmocka_unit_test(
		test_error__control_characters_become_question_marks),
	    cmocka_unit_test(test_error__long_text_is_cut),
	    cmocka_unit_test(test_error__prefix_goes_in_front),
	    cmocka_unit_test(test_error__argument_may_point_into_the_buffer),
	};

	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
