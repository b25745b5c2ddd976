/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_config.c - keys, ranges, and the order of file, environment and flags.
 */
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/config.h"
#include "daemon/log.h"
#include "daemon/options.h"

static char path[64];

static int
setup(void **state)
{
	(void)state;
	(void)snprintf(path, sizeof(path), "/tmp/hm-config-XXXXXX");
	return close(mkstemp(path));
}

static int
teardown(void **state)
{
	(void)state;
	(void)unsetenv("HUMMING_LIMITS_QUEUE");
	(void)unsetenv("HUMMING_STORE_CAP");
	(void)unsetenv("HUMMING_SOCKET");
	return unlink(path);
}

static int
load(const char *text, struct hm_settings *settings, struct hm_errbuf *why)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	hm_config_init(settings);
	return hm_config_load(settings, path, why);
}

static void
test_config__every_kind_of_key__is_read(void **state)
{
	struct hm_settings settings;
	struct hm_errbuf why = {""};

	(void)state;
	assert_int_equal(load("socket = /run/x.sock\n"
			      "store.cap = 2G ; a comment\n"
			      "[hot]\nbytes = 64k\n"
			      "[limits]\nqueue = 17\n"
			      "[log]\nlevel = debug\n",
			     &settings, &why),
	    HM_OK);
	assert_string_equal(settings.socket, "/run/x.sock");
	assert_int_equal(settings.store_cap_bytes, UINT64_C(2) << 30);
	assert_int_equal(settings.hot_bytes, 64u << 10);
	assert_int_equal(settings.queue, 17);
	assert_int_equal(settings.log_level, HM_LOG_DEBUG);
}

/* What one user may take, of the store and of us; each with its default. */
static void
test_config__limits_of_a_user__have_defaults_and_are_read(void **state)
{
	struct hm_settings settings;
	struct hm_errbuf why = {""};

	(void)state;
	hm_config_init(&settings);
	assert_int_equal(hm_config_quota_bytes(&settings),
	    settings.store_cap_bytes / 2);
	assert_int_equal(settings.store_ttl_s, 0);
	assert_true(settings.uid_queue < settings.queue);
	assert_true(settings.uid_in_flight < settings.waiters);
	assert_int_equal(load("group = makers\n"
			      "[group]\nadmin = wheel\nread = users\n"
			      "[store]\nquota = 300M\nttl_s = 86400\n"
			      "[limits]\nuid_queue = 5\nuid_in_flight = 6\n"
			      "[worker]\nmemory = 256M\n",
			     &settings, &why),
	    HM_OK);
	assert_string_equal(settings.group, "makers");
	assert_string_equal(settings.group_admin, "wheel");
	assert_string_equal(settings.group_read, "users");
	assert_int_equal(hm_config_quota_bytes(&settings), 300u << 20);
	assert_int_equal(settings.store_ttl_s, 86400);
	assert_int_equal(settings.uid_queue, 5);
	assert_int_equal(settings.uid_in_flight, 6);
	assert_int_equal(settings.worker_memory_bytes, 256u << 20);
}

static void
test_config__bad_line__is_named_with_its_number(void **state)
{
	static const struct {
		const char *text;
		const char *line;
		const char *reason;
	} bad[] = {
	    {"\n\nqueue = 3\n", ":3: ", "unknown key 'queue'"},
	    {"[limits]\nqueue = -1\n", ":2: ", "'-1'"},
	    {"[limits]\nqueue = 0\n", ":2: ", "from 1 to"},
	    {"[limits]\nqueue = 1K\n", ":2: ", "'1K'"},
	    {"[limits]\nqueue = 99999999999999999999\n",
		":2: ", "limits.queue"},
	    {"store.cap = 5T\n", ":1: ", "'5T'"},
	    {"store.cap = 20000000000G\n", ":1: ", "store.cap"},
	    {"sandbox = off\n", ":1: ", "required, best-effort"},
	    {"[limits\n", ":1: ", "key = value"},
	};
	struct hm_settings settings;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct hm_errbuf why = {""};

		assert_int_equal(load(bad[i].text, &settings, &why),
		    HM_E_INVALID);
		assert_non_null(strstr(why.text, path));
		if (strstr(why.text, bad[i].line) == NULL ||
		    strstr(why.text, bad[i].reason) == NULL)
			fail_msg("%s", why.text);
	}
}

static void
test_config__file_not_there__is_a_system_error(void **state)
{
	struct hm_settings settings;
	struct hm_errbuf why = {""};

	(void)state;
	hm_config_init(&settings);
	assert_int_equal(hm_config_load(&settings, "/nowhere/x", &why),
	    HM_E_SYSTEM);
	assert_non_null(strstr(why.text, "/nowhere/x"));
}

/* Not opened at all, or not read to an end that may never come. */
static void
test_config__no_regular_file__is_refused(void **state)
{
	static const char *const places[] = {"/", "/dev/zero", "/dev/null",
	    NULL};
	struct hm_settings settings;

	(void)state;
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *place = places[i] == NULL ? path : places[i];
		struct hm_errbuf why = {""};

		hm_config_init(&settings);
		assert_int_equal(hm_config_load(&settings, place, &why),
		    HM_E_INVALID);
		assert_non_null(strstr(why.text, place));
		assert_non_null(strstr(why.text, "no regular file"));
	}
}

static void
test_config__over_a_mebibyte__is_refused(void **state)
{
	struct hm_settings settings;
	struct hm_errbuf why = {""};

	(void)state;
	assert_int_equal(load("workers = 2\n", &settings, &why), HM_OK);
	assert_int_equal(truncate(path, (1 << 20) + 1), 0);
	hm_config_init(&settings);
	assert_int_equal(hm_config_load(&settings, path, &why), HM_E_INVALID);
	assert_non_null(strstr(why.text, "1 MiB"));
}

/* Its own number and reason; one that just fits is read. */
static void
test_config__line_too_long__is_named_with_its_number(void **state)
{
	static char text[8192];
	struct hm_settings settings;
	struct hm_errbuf why = {""};

	(void)state;
	(void)snprintf(text, sizeof(text), "workers = 2\nstore = /%3000d\n", 1);
	assert_int_equal(load(text, &settings, &why), HM_OK);
	assert_int_equal(strlen(settings.store), 3001);
	(void)snprintf(text, sizeof(text),
	    "workers = 2\n\nstore = /%5000d\nworkers = 3\n", 1);
	assert_int_equal(load(text, &settings, &why), HM_E_INVALID);
	assert_non_null(strstr(why.text, ":3: "));
	assert_non_null(strstr(why.text, "characters"));
}

static void
test_config__text_too_long__is_refused(void **state)
{
	struct hm_settings settings;
	struct hm_errbuf why = {""};
	char name[80];

	(void)state;
	hm_config_init(&settings);
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(hm_config_set(&settings, "group", name, &why),
	    HM_E_INVALID);
	assert_string_equal(settings.group, "humming");
	name[63] = '\0';
	assert_int_equal(hm_config_set(&settings, "group", name, &why), HM_OK);
}

static void
test_config__environment__names_the_bad_variable(void **state)
{
	struct hm_settings settings;
	struct hm_errbuf why = {""};

	(void)state;
	hm_config_init(&settings);
	assert_int_equal(setenv("HUMMING_STORE_CAP", "1G", 1), 0);
	assert_int_equal(hm_config_load_environment(&settings, &why), HM_OK);
	assert_int_equal(settings.store_cap_bytes, UINT64_C(1) << 30);
	assert_int_equal(setenv("HUMMING_LIMITS_QUEUE", "x", 1), 0);
	assert_int_equal(hm_config_load_environment(&settings, &why),
	    HM_E_INVALID);
	assert_non_null(strstr(why.text, "HUMMING_LIMITS_QUEUE"));
}

static void
test_config__flags_win_over_environment_over_file(void **state)
{
	char *arguments[] = {(char[]){"hummingd"}, (char[]){"-c"}, path,
	    (char[]){"--socket"}, (char[]){"/flag"}, (char[]){"-v"}, NULL};
	struct hm_settings settings;
	struct hm_options options;
	struct hm_errbuf why = {""};

	(void)state;
	assert_int_equal(load("socket = /file\n[limits]\nqueue = 3\n"
			      "uid_connections = 9\n",
			     &settings, &why),
	    HM_OK);
	assert_int_equal(setenv("HUMMING_SOCKET", "/environment", 1), 0);
	assert_int_equal(setenv("HUMMING_LIMITS_QUEUE", "4", 1), 0);
	assert_int_equal(hm_options_parse(6, arguments, &options, &why), HM_OK);
	assert_int_equal(hm_options_apply(&options, &settings, &why), HM_OK);
	assert_string_equal(settings.socket, "/flag");
	assert_int_equal(settings.queue, 4);
	assert_int_equal(settings.uid_connections, 9);
	assert_int_equal(settings.log_level, HM_LOG_INFO);
}

/* What may change is taken over, what may not is named and stays. */
static void
test_config__adopt__changes_what_may_change(void **state)
{
	static struct hm_settings settings, next;
	struct hm_errbuf changed = {""};
	struct hm_errbuf kept = {""};

	(void)state;
	hm_config_init(&settings);
	hm_config_init(&next);
	hm_config_adopt(&settings, &next, &changed, &kept);
	assert_string_equal(changed.text, "");
	assert_string_equal(kept.text, "");
	next.queue = 7;
	next.log_level = HM_LOG_DEBUG;
	next.sandbox = HM_SANDBOX_BEST_EFFORT;
	(void)snprintf(next.nvrtc, sizeof(next.nvrtc), "/there");
	(void)snprintf(next.store, sizeof(next.store), "/elsewhere");
	next.hot_bytes = 1;
	hm_config_adopt(&settings, &next, &changed, &kept);
	assert_string_equal(changed.text,
	    "compiler.nvrtc,sandbox,limits.queue,log.level");
	assert_string_equal(kept.text, "store,hot.bytes");
	assert_int_equal(settings.queue, 7);
	assert_int_equal(settings.log_level, HM_LOG_DEBUG);
	assert_int_equal(settings.sandbox, HM_SANDBOX_BEST_EFFORT);
	assert_string_equal(settings.nvrtc, "/there");
	assert_string_equal(settings.store, "");
	assert_int_equal(settings.hot_bytes, 128u << 20);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_config__every_kind_of_key__is_read),
	    TEST(test_config__limits_of_a_user__have_defaults_and_are_read),
	    TEST(test_config__bad_line__is_named_with_its_number),
	    TEST(test_config__file_not_there__is_a_system_error),
	    TEST(test_config__no_regular_file__is_refused),
	    TEST(test_config__over_a_mebibyte__is_refused),
	    TEST(test_config__line_too_long__is_named_with_its_number),
	    TEST(test_config__text_too_long__is_refused),
	    TEST(test_config__environment__names_the_bad_variable),
	    TEST(test_config__adopt__changes_what_may_change),
	    TEST(test_config__flags_win_over_environment_over_file),
	};

	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
