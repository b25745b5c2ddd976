/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_place.c - which folder of a user's own is believed.
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

#include "proto/place.h"

static char folder[32];                 /* of the running test */
static char runtime[64];                /* in it, and in XDG_RUNTIME_DIR */
static char by_runtime[HM_PLACE_CHARS]; /* the sockets expected */
static char by_tmpdir[HM_PLACE_CHARS];

static int
set_up(void **state)
{
	(void)state;
	(void)snprintf(folder, sizeof(folder), "/tmp/hm-place-XXXXXX");
	if (mkdtemp(folder) == NULL)
		return -1;
	(void)snprintf(runtime, sizeof(runtime), "%s/run", folder);
	(void)snprintf(by_runtime, sizeof(by_runtime),
	    "%s/humming/hummingd.sock", runtime);
	(void)snprintf(by_tmpdir, sizeof(by_tmpdir),
	    "%s/humming-%lu/hummingd.sock", folder, (unsigned long)geteuid());
	if (setenv("XDG_RUNTIME_DIR", runtime, 1) != 0 ||
	    setenv("TMPDIR", folder, 1) != 0)
		return -1;
	return mkdir(runtime, 0700);
}

static int
tear_down(void **state)
{
	(void)state;
	if (unlink(runtime) != 0)
		(void)rmdir(runtime);
	return rmdir(folder);
}

static void
expect_socket(const char *socket)
{
	struct hm_place place;
	char *slash;

	assert_true(hm_place_find(&place));
	assert_string_equal(place.socket, socket);
	slash = strrchr(place.socket, '/');
	assert_non_null(slash);
	*slash = '\0';
	assert_string_equal(place.folder, place.socket);
}

static void
test_place__own_runtime_folder__is_taken(void **state)
{
	(void)state;
	expect_socket(by_runtime);
	/* Others may look, as long as they cannot write. */
	assert_int_equal(chmod(runtime, 0755), 0);
	expect_socket(by_runtime);
}

static void
test_place__others_may_write__is_passed_over(void **state)
{
	struct hm_place place;

	(void)state;
	assert_int_equal(chmod(runtime, 0770), 0);
	assert_false(hm_place_is_private(runtime));
	assert_false(hm_place_runtime(&place));
	expect_socket(by_tmpdir);
	assert_int_equal(chmod(runtime, 0702), 0);
	expect_socket(by_tmpdir);
}

static void
test_place__link_to_own_folder__is_passed_over(void **state)
{
	char real[80];

	(void)state;
	(void)snprintf(real, sizeof(real), "%s-real", runtime);
	assert_int_equal(rename(runtime, real), 0);
	assert_int_equal(symlink(real, runtime), 0);
	expect_socket(by_tmpdir);
	assert_true(hm_place_is_private(real));
	assert_int_equal(rmdir(real), 0);
}

static void
test_place__no_folder__is_passed_over(void **state)
{
	int fd = -1;
	char file[] = "/tmp/hm-place-file-XXXXXX";

	(void)state;
	assert_int_equal(rmdir(runtime), 0);
	expect_socket(by_tmpdir);
	fd = mkstemp(file);
	assert_int_not_equal(fd, -1);
	assert_int_equal(close(fd), 0);
	assert_false(hm_place_is_private(file));
	assert_int_equal(unlink(file), 0);
}

static void
test_place__relative_path__is_no_place(void **state)
{
	char socket[HM_PLACE_CHARS];

	(void)state;
	assert_int_equal(chdir(folder), 0);
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "run", 1), 0);
	assert_null(hm_place_environment("XDG_RUNTIME_DIR"));
	expect_socket(by_tmpdir);
	assert_int_equal(setenv("TMPDIR", "", 1), 0);
	(void)snprintf(socket, sizeof(socket), "/tmp/humming-%lu/hummingd.sock",
	    (unsigned long)geteuid());
	expect_socket(socket);
	assert_int_equal(chdir("/"), 0);
}

static void
test_place__name_too_long__is_no_place(void **state)
{
	char path[HM_PLACE_CHARS] = "/";
	struct hm_place place = {.socket = "untouched"};

	(void)state;
	memset(path + 1, 'x', sizeof(path) - 2);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(setenv("TMPDIR", path, 1), 0);
	expect_socket(by_runtime);
	assert_false(hm_place_temporary(&place));
	assert_string_equal(place.socket, "untouched");
	assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
	assert_false(hm_place_find(&place));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_place__own_runtime_folder__is_taken),
	    TEST(test_place__others_may_write__is_passed_over),
	    TEST(test_place__link_to_own_folder__is_passed_over),
	    TEST(test_place__no_folder__is_passed_over),
	    TEST(test_place__relative_path__is_no_place),
	    TEST(test_place__name_too_long__is_no_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
