/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_log.c - what a line looks like, and which lines there are.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/log.h"

static int pipe_ends[2];

static int
setup(void **state)
{
	(void)state;
	(void)unsetenv("JOURNAL_STREAM");
	(void)unsetenv("INVOCATION_ID");
	return pipe2(pipe_ends, O_NONBLOCK | O_CLOEXEC);
}

static int
teardown(void **state)
{
	(void)state;
	(void)close(pipe_ends[0]);
	return close(pipe_ends[1]);
}

static void
open_log(uint32_t level, const char *groups, bool plain)
{
	const struct hm_log_options options = {.level = level,
	    .groups = groups,
	    .plain = plain,
	    .fd = pipe_ends[1]};
	struct hm_errbuf why = {""};

	assert_int_equal(hm_log_open(&options, &why), HM_OK);
}

/* What has been written since the last look. */
static const char *
written(void)
{
	static char text[8192];
	ssize_t n = read(pipe_ends[0], text, sizeof(text) - 1);

	text[n < 0 ? 0 : n] = '\0';
	return text;
}

static void
test_log__line__has_level_group_and_one_newline(void **state)
{
	const char *text;

	(void)state;
	open_log(HM_LOG_NOTICE, "all", false);
	errno = EXDEV;
	hm_log(HM_LOG_POOL, HM_LOG_WARNING, "worker lost pid=%d", 7);
	assert_int_equal(errno, EXDEV);
	text = written();
	assert_non_null(strstr(text, "] warning pool: worker lost pid=7\n"));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void
test_log__text_of_a_client__makes_no_line_of_its_own(void **state)
{
	const char *text;

	(void)state;
	open_log(HM_LOG_NOTICE, "all", false);
	hm_log(HM_LOG_CONN, HM_LOG_NOTICE, "name=\"%s\"",
	    "a\n2026 hummingd err\x1b[31m\x7f");
	text = written();
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	assert_non_null(strstr(text, "a\\x0a2026"));
	assert_non_null(strstr(text, "\\x1b[31m\\x7f"));
}

static void
test_log__long_text__is_cut(void **state)
{
	static char name[10000];
	const char *text;

	(void)state;
	open_log(HM_LOG_NOTICE, "all", false);
	memset(name, '\n', sizeof(name) - 1);
	hm_log(HM_LOG_CONN, HM_LOG_NOTICE, "%s", name);
	text = written();
	assert_true(strlen(text) > 1000 && strlen(text) < 2100);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void
test_log__levels_and_groups__leave_lines_out(void **state)
{
	(void)state;
	open_log(HM_LOG_INFO, "pool,build", false);
	hm_log(HM_LOG_CONN, HM_LOG_INFO, "x");
	hm_log(HM_LOG_POOL, HM_LOG_DEBUG, "x");
	assert_string_equal(written(), "");
	hm_log(HM_LOG_BUILD, HM_LOG_INFO, "x");
	assert_string_not_equal(written(), "");
	/* Groups choose among details; trouble is always said. */
	hm_log(HM_LOG_CONN, HM_LOG_WARNING, "x");
	assert_string_not_equal(written(), "");
}

static void
test_log__toggle__switches_debug_on_and_off(void **state)
{
	(void)state;
	open_log(HM_LOG_WARNING, "all", false);
	assert_false(hm_log_enabled(HM_LOG_CONN, HM_LOG_DEBUG));
	hm_log_toggle_debug();
	assert_true(hm_log_enabled(HM_LOG_CONN, HM_LOG_DEBUG));
	hm_log_toggle_debug();
	assert_false(hm_log_enabled(HM_LOG_CONN, HM_LOG_NOTICE));
}

static void
test_log__service_manager__gets_priorities_unless_plain(void **state)
{
	(void)state;
	assert_int_equal(setenv("JOURNAL_STREAM", "8:1", 1), 0);
	open_log(HM_LOG_NOTICE, "all", false);
	hm_log(HM_LOG_SERVER, HM_LOG_WARNING, "x");
	assert_string_equal(written(), "<4>server: x\n");
	open_log(HM_LOG_NOTICE, "all", true);
	hm_log(HM_LOG_SERVER, HM_LOG_WARNING, "x");
	assert_int_not_equal(written()[0], '<');
}

static void
test_log__unknown_group__is_refused_by_name(void **state)
{
	const struct hm_log_options options = {.groups = "pool,poool"};
	struct hm_errbuf why = {""};

	(void)state;
	assert_int_equal(hm_log_open(&options, &why), HM_E_INVALID);
	assert_non_null(strstr(why.text, "'poool'"));
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_log__line__has_level_group_and_one_newline),
	    TEST(test_log__text_of_a_client__makes_no_line_of_its_own),
	    TEST(test_log__long_text__is_cut),
	    TEST(test_log__levels_and_groups__leave_lines_out),
	    TEST(test_log__toggle__switches_debug_on_and_off),
	    TEST(test_log__service_manager__gets_priorities_unless_plain),
	    TEST(test_log__unknown_group__is_refused_by_name),
	};

	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
