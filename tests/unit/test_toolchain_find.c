/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_toolchain_find.c - which files are offered as NVRTC, in which order.
 */
#include <sys/stat.h>

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "jit/toolchain_find.h"

#define MAX_OFFERS 64

/* What was offered; all are refused but the one that is wanted. */
struct offers {
	const char *wanted;
	size_t n;
	char files[MAX_OFFERS][PATH_MAX];
};

static struct offers offers;
static char folder[] = "/tmp/test_toolchain_find.XXXXXX";

static int
take(void *arg, const char *file, struct hm_errbuf *errbuf)
{
	struct offers *taken = arg;

	assert_true(taken->n < MAX_OFFERS);
	(void)snprintf(taken->files[taken->n], PATH_MAX, "%s", file);
	taken->n++;
	if (taken->wanted != NULL && strcmp(file, taken->wanted) == 0)
		return HM_OK;
	hm_errbuf_set(errbuf, "%s does not do", file);
	return HM_E_UNAVAILABLE;
}

static int
find(const char *where, const char *wanted, struct hm_errbuf *errbuf)
{
	memset(&offers, 0, sizeof offers);
	offers.wanted = wanted;
	return hm_toolchain_find(where, take, &offers, errbuf);
}

/* The place of a file among the offers, or -1. */
static int
place_of(const char *file)
{
	for (size_t i = 0; i < offers.n; i++) {
		if (strcmp(offers.files[i], file) == 0)
			return (int)i;
	}
	return -1;
}

/* An empty file folder/name; the path is static. */
static const char *
touch(const char *name)
{
	static char path[PATH_MAX];
	int fd;

	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_not_equal(fd, -1);
	(void)close(fd);
	return path;
}

static int
make_folder(void **state)
{
	char path[PATH_MAX];

	(void)state;
	if (mkdtemp(folder) == NULL)
		return -1;
	for (size_t i = 0; i < 3; i++) {
		static const char *const names[] = {"cuda", "prefix", "wheel"};

		(void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		if (mkdir(path, 0700) == -1)
			return -1;
	}
	return unsetenv("HUMMING_NVRTC");
}

static int
remove_folder(void **state)
{
	static const char *const names[] = {"/cuda/libnvrtc.so.12",
	    "/prefix/libnvrtc.so.13", "/wheel/libnvrtc.so",
	    "/wheel/libnvrtc.so.9", "/wheel/libnvrtc.so.12",
	    "/wheel/libnvrtc.so.13.0.88", "/wheel/libnvrtc-builtins.so.13.0",
	    "/cuda", "/prefix", "/wheel", ""};
	char path[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		(void)snprintf(path, sizeof path, "%s%s", folder, names[i]);
		(void)remove(path);
	}
	return 0;
}

static void
test_toolchain_find__a_folder_offers_its_highest_major(void **state)
{
	char wheel[PATH_MAX];
	char best[PATH_MAX];

	(void)state;
	(void)touch("wheel/libnvrtc.so");
	(void)touch("wheel/libnvrtc.so.9");
	(void)touch("wheel/libnvrtc.so.13.0.88");
	(void)touch("wheel/libnvrtc-builtins.so.13.0");
	(void)snprintf(best, sizeof best, "%s", touch("wheel/libnvrtc.so.12"));
	(void)snprintf(wheel, sizeof wheel, "%s/wheel", folder);
	assert_int_equal(find(wheel, best, NULL), HM_OK);
	assert_int_equal(offers.n, 1);
}

static void
test_toolchain_find__a_named_file_is_the_only_offer(void **state)
{
	struct hm_errbuf errbuf = {.text = ""};
	char file[PATH_MAX];

	(void)state;
	(void)snprintf(file, sizeof file, "%s", touch("cuda/libnvrtc.so.12"));
	assert_int_equal(find(file, NULL, &errbuf), HM_E_UNAVAILABLE);
	assert_int_equal(offers.n, 1);
	assert_string_equal(offers.files[0], file);
	assert_non_null(strstr(errbuf.text, "does not do"));
}

static void
test_toolchain_find__a_place_empty_or_gone_is_told(void **state)
{
	struct hm_errbuf errbuf = {.text = ""};
	char path[PATH_MAX];

	(void)state;
	(void)snprintf(path, sizeof path, "%s/prefix", folder);
	assert_int_equal(find(path, NULL, &errbuf), HM_E_UNAVAILABLE);
	assert_non_null(strstr(errbuf.text, "holds no libnvrtc"));
	(void)snprintf(path, sizeof path, "%s/nowhere", folder);
	assert_int_equal(find(path, NULL, &errbuf), HM_E_UNAVAILABLE);
	assert_non_null(strstr(errbuf.text, "is not there"));
	assert_int_equal(offers.n, 0);
}

static void
test_toolchain_find__cuda_home_then_the_loader_then_our_prefix(void **state)
{
	char cuda[PATH_MAX];
	char ours[PATH_MAX];
	char path[PATH_MAX];

	(void)state;
	(void)snprintf(cuda, sizeof cuda, "%s", touch("cuda/libnvrtc.so.12"));
	(void)snprintf(ours, sizeof ours, "%s", touch("prefix/libnvrtc.so.13"));
	(void)snprintf(path, sizeof path, "%s/cuda", folder);
	assert_int_equal(setenv("CUDA_HOME", path, 1), 0);
	(void)snprintf(path, sizeof path, "%s/prefix", folder);
	assert_int_equal(setenv("HUMMING_PREFIX", path, 1), 0);

	assert_int_equal(find(NULL, NULL, NULL), HM_E_UNAVAILABLE);
	assert_int_equal(place_of(cuda), 0);
	assert_true(place_of("libnvrtc.so.13") > 0);
	assert_true(place_of("libnvrtc.so.12") > place_of("libnvrtc.so.13"));
	assert_true(place_of("libnvrtc.so") > place_of("libnvrtc.so.12"));
	assert_true(place_of(ours) > place_of("libnvrtc.so"));
}

static void
test_toolchain_find__the_environment_names_a_place(void **state)
{
	char ours[PATH_MAX];
	char path[PATH_MAX];

	(void)state;
	(void)snprintf(ours, sizeof ours, "%s", touch("prefix/libnvrtc.so.13"));
	(void)snprintf(path, sizeof path, "%s/prefix", folder);
	assert_int_equal(setenv("HUMMING_NVRTC", path, 1), 0);
	assert_int_equal(find(NULL, ours, NULL), HM_OK);
	assert_int_equal(offers.n, 1);
	(void)unsetenv("HUMMING_NVRTC");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_toolchain_find__a_folder_offers_its_highest_major),
	    cmocka_unit_test(
		test_toolchain_find__a_place_empty_or_gone_is_told),
	    cmocka_unit_test(
		test_toolchain_find__a_named_file_is_the_only_offer),
	    cmocka_unit_test(
		test_toolchain_find__cuda_home_then_the_loader_then_our_prefix),
	    cmocka_unit_test(
		test_toolchain_find__the_environment_names_a_place),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
