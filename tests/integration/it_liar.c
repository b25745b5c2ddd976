/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_liar.c - workers that lie. The daemon runs from a folder of its own, with
 * fake_worker beside it: whatever that one does, a client gets one line and
 * nothing is stored.
 */
#include <sys/stat.h>

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/fd.h"
#include "tests/integration/wire.h"

static struct harness harness;

static void
copy_program(const char *from, const char *name)
{
	char path[256];
	char bytes[65536];
	ssize_t n;
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out;

	(void)snprintf(path, sizeof(path), "%s/%s", harness.folder, name);
	out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, bytes, sizeof(bytes))) > 0)
		assert_int_equal(hm_fd_write_all(out, bytes, (size_t)n), HM_OK);
	assert_int_equal(n, 0);
	hm_fd_close(&in);
	hm_fd_close(&out);
}

static void
set_mode(const char *mode)
{
	char path[256];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/mode", harness.folder);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fputs(mode, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int
setup(void **state)
{
	char path[512];
	const char *folder = getenv("HM_BIN_DIR");

	(void)state;
	harness_init(&harness);
	(void)snprintf(path, sizeof(path), "%s/hummingd",
	    folder == NULL ? HM_BIN_DIR : folder);
	copy_program(path, "hummingd");
	copy_program(HM_FAKE_WORKER, "humming-worker");
	harness.program_folder = harness.folder;
	harness.environment[0] = "HUMMING_WORKERS=1";
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	harness_done(&harness);
	return 0;
}

static void
expect_failure(const char *mode, int error, const char *word)
{
	struct wire_kernel kernel;
	struct wire wire;

	set_mode(mode);
	harness_start(&harness);
	wire_open(&wire, &harness);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	if (kernel.reply.status != HM_REPLY_FAILED ||
	    kernel.reply.error != error ||
	    strstr(kernel.reply.message, word) == NULL)
		fail_msg("%s: status %u error %d: %s", mode,
		    kernel.reply.status, kernel.reply.error,
		    kernel.reply.message);
	wire_kernel_done(&kernel);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "builds"), 0);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "entries"), 0);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "build_failures"),
	    1);
	wire_close(&wire);
	assert_int_equal(harness_stop(&harness), 0);
}

static void
test_liar__every_lie__is_one_line_and_nothing_is_stored(void **state)
{
	(void)state;
	expect_failure("exit", HM_E_INTERNAL, "status 1");
	expect_failure("noise", HM_E_INTERNAL, "broke the rules");
	expect_failure("bad-body", HM_E_INTERNAL, "broke the rules");
	expect_failure("nothing", HM_E_INTERNAL, "broke the rules");
	expect_failure("huge", HM_E_INTERNAL, "broke the rules");
	expect_failure("other-job", HM_E_INTERNAL, "broke the rules");
	expect_failure("keeps-map", HM_E_INTERNAL, "broke the rules");
	expect_failure("zeros", HM_E_INTERNAL, "2 times");
	expect_failure("half", HM_E_INTERNAL, "2 times");
}

/* A kernel of ours does not hang by itself: it is given a second worker. */
static void
test_liar__no_answer__is_a_timeout_after_two(void **state)
{
	(void)state;
	harness.environment[1] = "HUMMING_LIMITS_BUILD_MS=200";
	expect_failure("hang", HM_E_TIMEOUT, "limits.build_ms");
	expect_failure("hang", HM_E_TIMEOUT, "2 times");
}

/* Not in the compiler's list: refused before a job is made of it. */
static void
test_liar__target_not_in_its_list__is_unsupported(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	set_mode("exit");
	harness_start(&harness);
	wire_open(&wire, &harness);
	wire_get(&wire, "w4a16,m=1", "sm_89", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_UNSUPPORTED);
	assert_non_null(strstr(kernel.reply.message, "sm_89"));
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

static void
test_liar__dies_at_start__is_no_compiler_and_no_spawn_storm(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	set_mode("dies-at-start");
	harness_start(&harness);
	wire_open(&wire, &harness);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_UNSUPPORTED);
	assert_non_null(strstr(kernel.reply.message, "no compiler"));
	assert_non_null(strstr(kernel.reply.message, "status 3"));
	wire_kernel_done(&kernel);
	assert_in_range(wire_number(&wire, HM_FRAME_STATUS, "workers.started"),
	    3, 4);
	wire_close(&wire);
}

static void
test_liar__unready__says_why_in_status_and_reply(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	set_mode("unready");
	harness_start(&harness);
	wire_open(&wire, &harness);
	wire_expect_no_compiler(&wire);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_UNSUPPORTED);
	assert_string_equal(kernel.reply.message,
	    "no compiler: libnvrtc.so.99 is not here");
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

/* No Landlock: our own kernels are still given to it, sources are not. */
static void
test_liar__no_sandbox__refuses_client_sources(void **state)
{
	const struct wire_source source = {.text = "source", .arch = "sm_80"};
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	set_mode("no-sandbox");
	harness_start(&harness);
	wire_open(&wire, &harness);
	wire_compile(&wire, &source, &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_DENIED);
	assert_non_null(strstr(kernel.reply.message, "best-effort"));
	wire_kernel_done(&kernel);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_FAILED);
	wire_kernel_done(&kernel);
	wire_close(&wire);
	assert_int_equal(harness_stop(&harness), 0);
	harness.environment[1] = "HUMMING_SANDBOX=best-effort";
	harness_start(&harness);
	wire_open(&wire, &harness);
	wire_compile(&wire, &source, &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_FAILED);
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

static void
test_liar__no_worker_program__says_so(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;
	char path[256];

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/humming-worker", harness.folder);
	assert_int_equal(unlink(path), 0);
	harness_start(&harness);
	wire_open(&wire, &harness);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_UNSUPPORTED);
	assert_non_null(strstr(kernel.reply.message, "humming-worker"));
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_liar__every_lie__is_one_line_and_nothing_is_stored),
	    TEST(test_liar__no_answer__is_a_timeout_after_two),
	    TEST(test_liar__target_not_in_its_list__is_unsupported),
	    TEST(test_liar__dies_at_start__is_no_compiler_and_no_spawn_storm),
	    TEST(test_liar__unready__says_why_in_status_and_reply),
	    TEST(test_liar__no_sandbox__refuses_client_sources),
	    TEST(test_liar__no_worker_program__says_so),
	};

	return cmocka_run_group_tests_name("liar", tests, NULL, NULL);
}
