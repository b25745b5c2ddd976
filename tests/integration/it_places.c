/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_places.c - stores in places where they break in the field: on a network
 * file system, under two daemons that cannot see each other's pids.
 */
#include <sys/wait.h>

#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/integration/wire.h"

static struct harness harness;
static char preload[512], options_asan[512];

static int
setup(void **state)
{
	const char *asan = getenv("ASAN_OPTIONS");

	(void)state;
	harness_init(&harness);
	(void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s",
	    HM_FAKE_STATFS);
	/* A sanitizer wants to be the first library. */
	(void)snprintf(options_asan, sizeof(options_asan),
	    "ASAN_OPTIONS=%s%sverify_asan_link_order=0",
	    asan != NULL ? asan : "", asan != NULL ? ":" : "");
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	harness_done(&harness);
	return 0;
}

/* Refused with one line that names the folder, the kind and the way out. */
static void
test_places__network_file_system__is_refused_by_name(void **state)
{
	static const char *const kinds[][2] = {{"6969", "NFS"},
	    {"ff534d42", "CIFS"}, {"fe534d42", "SMB"}, {"65735546", "FUSE"},
	    {"0bd00bd0", "Lustre"}, {"47504653", "GPFS"}, {"c36400", "Ceph"},
	    {"19830326", "BeeGFS"}, {"5346414f", "AFS"}};
	char variable[64], text[2048];

	(void)state;
	harness.environment[0] = preload;
	harness.environment[1] = variable;
	harness.environment[2] = options_asan;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		(void)snprintf(variable, sizeof(variable),
		    "FAKE_STATFS_MAGIC=%s", kinds[i][0]);
		assert_int_equal(
		    harness_fail(&harness, NULL, text, sizeof(text)), 1);
		if (strstr(text, kinds[i][1]) == NULL ||
		    strstr(text, harness.store) == NULL ||
		    strstr(text, "store") == NULL ||
		    strchr(text, '\n') != text + strlen(text) - 1)
			fail_msg("%s: %s", kinds[i][1], text);
	}
	/* A disk of one's own. */
	(void)snprintf(variable, sizeof(variable), "FAKE_STATFS_MAGIC=ef53");
	harness_start(&harness);
	assert_int_equal(harness_stop(&harness), 0);
}

/* Run hummingd on our store as the first process of a pid namespace; its exit
 * status, what it said in text_out. */
static int
start_in_pid_namespace(char *text_out, size_t size)
{
	const char *folder = getenv("HM_BIN_DIR");
	char program[512], socket[128], log[128];
	const char *arguments[] = {"unshare", "--pid", "--fork", program, "-f",
	    "--private", "--socket", socket, "--store", harness.store, NULL};
	posix_spawn_file_actions_t files;
	pid_t pid = 0;
	int status = 0;

	(void)snprintf(program, sizeof(program), "%s/hummingd",
	    folder == NULL ? HM_BIN_DIR : folder);
	(void)snprintf(socket, sizeof(socket), "%s/other", harness.folder);
	(void)snprintf(log, sizeof(log), "%s/other.log", harness.folder);
	assert_int_equal(posix_spawn_file_actions_init(&files), 0);
	assert_int_equal(posix_spawn_file_actions_addopen(&files, STDERR_FILENO,
			     log, O_WRONLY | O_CREAT | O_TRUNC, 0600),
	    0);
	assert_int_equal(posix_spawnp(&pid, "unshare", &files, NULL,
			     (char *const *)(uintptr_t)arguments, environ),
	    0);
	(void)posix_spawn_file_actions_destroy(&files);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	harness_read(log, text_out, size);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* Both are pid 1 to themselves, which LMDB's table of readers would mistake for
 * one process: our own lock stands in front of it. */
static void
test_places__two_pid_namespaces__second_is_refused(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;
	char text[2048];
	int status;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.error, HM_OK);
	wire_kernel_done(&kernel);
	status = start_in_pid_namespace(text, sizeof(text));
	/* Not root, and no namespaces for others here. */
	if (strstr(text, "unshare") != NULL) {
		wire_close(&wire);
		skip();
	}
	assert_int_equal(status, 1);
	if (strstr(text, harness.store) == NULL)
		fail_msg("%s", text);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.tier, HM_TIER_HOT);
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_places__network_file_system__is_refused_by_name),
	    TEST(test_places__two_pid_namespaces__second_is_refused),
	};

	return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
