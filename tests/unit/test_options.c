/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_options.c - hummingd's command line and the paths that follow from it.
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

#include "daemon/options.h"
#include "daemon/paths.h"

/* Parse a command line given as one text. */
static int
parse(const char *text, struct hm_options *options, struct hm_errbuf *why)
{
	static char words[16][64];
	char *arguments[17];
	int n = 0;

	while (*text != '\0') {
		size_t length = strcspn(text, " ");

		(void)snprintf(words[n], sizeof(words[n]), "%.*s", (int)length,
		    text);
		arguments[n] = words[n];
		n++;
		text += length + (text[length] == ' ');
	}
	arguments[n] = NULL;
	return hm_options_parse(n, arguments, options, why);
}

static void
test_options__all_of_them__are_taken(void **state)
{
	struct hm_options options;
	struct hm_errbuf why = {""};

	(void)state;
	assert_int_equal(parse("hummingd -f -vv -n -c /c --socket /s "
			       "--store=/d --private",
			     &options, &why),
	    HM_OK);
	assert_true(options.is_foreground && options.is_private);
	assert_int_equal(options.verbose, 2);
	assert_int_equal(options.action, HM_OPTIONS_CHECK);
	assert_string_equal(options.config, "/c");
	assert_string_equal(options.socket, "/s");
	assert_string_equal(options.store, "/d");
	assert_int_equal(parse("hummingd --version", &options, &why), HM_OK);
	assert_int_equal(options.action, HM_OPTIONS_VERSION);
	assert_int_equal(parse("hummingd --help", &options, &why), HM_OK);
	assert_int_equal(options.action, HM_OPTIONS_HELP);
	assert_int_equal(parse("hummingd -h", &options, &why), HM_OK);
	assert_int_equal(options.action, HM_OPTIONS_HELP);
}

static void
test_options__wrong_usage__names_the_word_and_help(void **state)
{
	static const char *const bad[][2] = {
	    {"hummingd --bogus", "--bogus"},
	    {"hummingd -f --bogus=7 -v", "--bogus=7"},
	    {"hummingd -q", "-q"},
	    {"hummingd -f word", "word"},
	    {"hummingd -v --socket", "--socket"},
	    {"hummingd -c", "-c"},
	    {"hummingd --private=yes", "--private=yes"},
	};
	struct hm_options options;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct hm_errbuf why = {""};

		assert_int_equal(parse(bad[i][0], &options, &why),
		    HM_E_INVALID);
		if (strstr(why.text, bad[i][1]) == NULL ||
		    strstr(why.text, "--help") == NULL)
			fail_msg("%s: %s", bad[i][0], why.text);
	}
}

static void
test_options__pack__is_unsupported(void **state)
{
	struct hm_options options;
	struct hm_errbuf why = {""};

	(void)state;
	assert_int_equal(parse("hummingd --pack /p", &options, &why),
	    HM_E_UNSUPPORTED);
	assert_non_null(strstr(why.text, "/p"));
}

static void
resolve(bool is_private, struct hm_settings *settings)
{
	struct hm_errbuf why = {""};

	hm_config_init(settings);
	settings->is_private = is_private;
	assert_int_equal(hm_paths_resolve(settings, &why), HM_OK);
}

static void
test_paths__system__are_fixed(void **state)
{
	struct hm_settings settings;

	(void)state;
	resolve(false, &settings);
	assert_string_equal(settings.socket, "/run/hummingd/hummingd.sock");
	assert_string_equal(settings.store, "/var/cache/hummingd");
}

static void
test_paths__private__follow_the_environment(void **state)
{
	struct hm_settings settings;
	char expected[64];

	(void)state;
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "/tmp/not-there", 1), 0);
	assert_int_equal(setenv("TMPDIR", "/tmp/there", 1), 0);
	assert_int_equal(setenv("XDG_CACHE_HOME", "/x/cache", 1), 0);
	resolve(true, &settings);
	(void)snprintf(expected, sizeof(expected),
	    "/tmp/there/humming-%lu/hummingd.sock", (unsigned long)geteuid());
	assert_string_equal(settings.socket, expected);
	assert_string_equal(settings.store, "/x/cache/humming");
	assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
	assert_int_equal(setenv("HOME", "/nowhere", 1), 0);
	resolve(true, &settings);
	(void)snprintf(expected, sizeof(expected),
	    "/tmp/there/humming-%lu/store", (unsigned long)geteuid());
	assert_string_equal(settings.store, expected);
}

/* As clients, which would not look there (test_place.c has every case). */
static void
test_paths__runtime_folder_not_private__is_passed_over(void **state)
{
	char folder[] = "/tmp/hm-options-XXXXXX";
	struct hm_settings settings;
	char expected[64];

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
	assert_int_equal(setenv("TMPDIR", "/tmp/there", 1), 0);
	resolve(true, &settings);
	(void)snprintf(expected, sizeof(expected), "%s/humming/hummingd.sock",
	    folder);
	assert_string_equal(settings.socket, expected);
	assert_int_equal(chmod(folder, 0770), 0);
	resolve(true, &settings);
	(void)snprintf(expected, sizeof(expected),
	    "/tmp/there/humming-%lu/hummingd.sock", (unsigned long)geteuid());
	assert_string_equal(settings.socket, expected);
	assert_int_equal(rmdir(folder), 0);
}

static void
test_paths__socket_name_too_long__is_refused(void **state)
{
	struct hm_settings settings;
	struct hm_errbuf why = {""};

	(void)state;
	hm_config_init(&settings);
	memset(settings.socket, 'a', 108);
	settings.socket[0] = '/';
	assert_int_equal(hm_paths_resolve(&settings, &why), HM_E_INVALID);
	assert_non_null(strstr(why.text, "107"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_options__all_of_them__are_taken),
	    cmocka_unit_test(
		test_options__wrong_usage__names_the_word_and_help),
	    cmocka_unit_test(test_options__pack__is_unsupported),
	    cmocka_unit_test(test_paths__system__are_fixed),
	    cmocka_unit_test(test_paths__private__follow_the_environment),
	    cmocka_unit_test(
		test_paths__runtime_folder_not_private__is_passed_over),
	    cmocka_unit_test(test_paths__socket_name_too_long__is_refused),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
