/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client_socket_path.c - the search order of DESIGN.md section 6.
 */
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/socket_path.h"

static char folder[64]; /* of the running test */

static void
expect_folder(char *path_out, const char *name)
{
	(void)snprintf(path_out, HM_SOCKET_PATH_CHARS, "%s/%s", folder, name);
}

/* An environment that says nothing, and temporary folders of our own. */
static int
set_up(void **state)
{
	char path[HM_SOCKET_PATH_CHARS];

	(void)state;
	(void)unsetenv("HUMMING_SOCKET");
	(void)snprintf(folder, sizeof folder, "/tmp/hm-path-XXXXXX");
	if (mkdtemp(folder) == NULL)
		return -1;
	expect_folder(path, "run");
	if (mkdir(path, 0700) != 0 || setenv("XDG_RUNTIME_DIR", path, 1) != 0)
		return -1;
	expect_folder(path, "tmp");
	return mkdir(path, 0700) != 0 || setenv("TMPDIR", path, 1) != 0 ? -1
									: 0;
}

static int
tear_down(void **state)
{
	static const char *const names[] = {"run/humming", "run", "tmp"};
	char path[HM_SOCKET_PATH_CHARS];

	(void)state;
	(void)snprintf(path, sizeof path, "%s/tmp/humming-%u", folder,
	    (unsigned)geteuid());
	(void)unlink(path);
	(void)rmdir(path);
	for (size_t i = 0; i < 3; i++) {
		expect_folder(path, names[i]);
		(void)rmdir(path);
	}
	return rmdir(folder);
}

static void
find(const char *named, struct hm_socket_path *paths)
{
	struct hm_errbuf why = {.text = ""};

	assert_int_equal(hm_socket_path_find(named, paths, &why), HM_OK);
}

static void
test_client_socket_path__named_beats_environment(void **state)
{
	struct hm_socket_path paths;

	(void)state;
	assert_int_equal(setenv("HUMMING_SOCKET", "/env/s", 1), 0);
	find("/named/s", &paths);
	assert_true(paths.named);
	assert_int_equal(paths.n_paths, 1);
	assert_string_equal(paths.paths[0], "/named/s");
	find(NULL, &paths);
	assert_true(paths.named);
	assert_int_equal(paths.n_paths, 1);
	assert_string_equal(paths.paths[0], "/env/s");
	assert_int_equal(setenv("HUMMING_SOCKET", "", 1), 0);
	find("", &paths);
	assert_false(paths.named);
}

static void
test_client_socket_path__private_folders_count_once_they_exist(void **state)
{
	char path[HM_SOCKET_PATH_CHARS], expected[HM_SOCKET_PATH_CHARS];
	struct hm_errbuf why = {.text = ""};
	struct hm_socket_path paths;

	(void)state;
	find(NULL, &paths);
	assert_int_equal(paths.n_paths, 1);
	assert_string_equal(paths.paths[0], HM_SOCKET_PATH_SYSTEM);

	assert_int_equal(hm_socket_path_private(path, &why), HM_OK);
	expect_folder(expected, "run/humming/hummingd.sock");
	assert_string_equal(path, expected);
	find(NULL, &paths);
	assert_int_equal(paths.n_paths, 2);
	assert_string_equal(paths.paths[1], expected);

	/* Without a runtime folder: the temporary one, and it comes last. */
	assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
	assert_int_equal(hm_socket_path_private(path, &why), HM_OK);
	(void)snprintf(expected, sizeof expected,
	    "%s/tmp/humming-%u/hummingd.sock", folder, (unsigned)geteuid());
	assert_string_equal(path, expected);
	expect_folder(path, "run");
	assert_int_equal(setenv("XDG_RUNTIME_DIR", path, 1), 0);
	find(NULL, &paths);
	assert_int_equal(paths.n_paths, 3);
	assert_string_equal(paths.paths[2], expected);
}

/* What others may write, or a link to elsewhere, is not believed. */
static void
test_client_socket_path__folder_of_others_is_refused(void **state)
{
	char path[HM_SOCKET_PATH_CHARS];
	struct hm_errbuf why = {.text = ""};
	struct hm_socket_path paths;

	(void)state;
	assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
	(void)snprintf(path, sizeof path, "%s/tmp/humming-%u", folder,
	    (unsigned)geteuid());
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0777), 0);
	find(NULL, &paths);
	assert_int_equal(paths.n_paths, 1);
	assert_int_equal(hm_socket_path_private(path, &why), HM_E_DENIED);
	assert_non_null(strstr(why.text, "humming-"));

	(void)snprintf(path, sizeof path, "%s/tmp/humming-%u", folder,
	    (unsigned)geteuid());
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink("/tmp", path), 0);
	find(NULL, &paths);
	assert_int_equal(paths.n_paths, 1);
	assert_int_equal(hm_socket_path_private(path, &why), HM_E_DENIED);
}

static void
test_client_socket_path__too_long_is_said(void **state)
{
	struct hm_errbuf why = {.text = ""};
	struct hm_socket_path paths;
	char path[300];

	(void)state;
	memset(path, 'x', sizeof path - 1);
	path[sizeof path - 1] = '\0';
	assert_int_equal(hm_socket_path_find(path, &paths, &why), HM_E_INVALID);
	assert_true(why.text[0] != '\0');
	path[HM_SOCKET_PATH_CHARS - 1] = '\0';
	find(path, &paths);
	assert_string_equal(paths.paths[0], path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		test_client_socket_path__named_beats_environment, set_up,
		tear_down),
	    cmocka_unit_test_setup_teardown(
		test_client_socket_path__private_folders_count_once_they_exist,
		set_up, tear_down),
	    cmocka_unit_test_setup_teardown(
		test_client_socket_path__folder_of_others_is_refused, set_up,
		tear_down),
	    cmocka_unit_test_setup_teardown(
		test_client_socket_path__too_long_is_said, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
