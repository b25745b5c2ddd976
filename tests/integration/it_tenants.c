/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_tenants.c - several users of one daemon: who may what, the line that a
 * refusal leaves in the log, how much one user may take, and whose turn it is.
 *
 * The other user is nobody: this program again, started as "it_tenants --nobody
 * SOCKET DEED", whose exit status tells (0 = as it should be). Without root
 * there is only one user, and those stories are skipped.
 */
#include <sys/stat.h>
#include <sys/wait.h>

#include <poll.h>
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

#define NOBODY 65534

static struct harness harness;

static int
setup(void **state)
{
	harness_init(&harness);
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness.is_system = true;
	assert_int_equal(chmod(harness.folder, 0755), 0);
	*state = &harness;
	return 0;
}

static int
teardown(void **state)
{
	harness_done(*state);
	return 0;
}

static const struct wire_source small = {
    .text = "extern \"C\" __global__ void f(int *p) { *p = 1; }\n",
    .arch = "sm_80"};

/* ---- what nobody does ---- */

/* Nothing but reading: every refusal by name. */
static int
deed_refused(struct wire *wire)
{
	struct wire_kernel kernel;
	char line[512];
	int error;

	(void)wire_send_compile(wire, &small);
	if (!wire_recv_kernel(wire, &kernel) ||
	    kernel.reply.status != HM_REPLY_DENIED)
		return 11;
	wire_kernel_done(&kernel);
	for (uint32_t command = HM_ADMIN_VERIFY; command <= HM_ADMIN_RELOAD;
	     command++) {
		if (wire_admin(wire, command, NULL, &error, line,
			sizeof(line)) != NULL ||
		    error != HM_E_DENIED || strstr(line, "group") == NULL)
			return 12;
	}
	wire_get(wire, "w4a16,m=1", "sm_80", &kernel);
	if (kernel.reply.error != HM_OK)
		return 13;
	wire_kernel_done(&kernel);
	return 0;
}

/* Not even that: PING is all there is. */
static int
deed_shut_out(struct wire *wire)
{
	static const uint32_t types[] = {HM_FRAME_GET, HM_FRAME_STATUS,
	    HM_FRAME_STATS, HM_FRAME_EXPLAIN};
	struct hm_refusal refusal;
	struct hm_frame frame;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (!wire_send(wire, types[i], NULL, 0) ||
		    !wire_recv(wire, &frame, 5000) ||
		    frame.type != HM_FRAME_ERROR ||
		    hm_codec_unpack_refusal(frame.body, frame.n_body,
			&refusal) != HM_OK ||
		    refusal.error != HM_E_DENIED)
			return 11;
	}
	if (!wire_send(wire, HM_FRAME_PING, NULL, 0) ||
	    !wire_recv(wire, &frame, 5000) || frame.type != HM_FRAME_TEXT)
		return 12;
	return 0;
}

/* One source, which is built. */
static int
deed_compile(struct wire *wire)
{
	struct wire_kernel kernel;

	(void)wire_send_compile(wire, &small);
	if (!wire_recv_kernel(wire, &kernel))
		return 11;
	if (kernel.reply.status != HM_REPLY_BUILT)
		return 12;
	wire_kernel_done(&kernel);
	return 0;
}

/* One that nobody else has sent. */
static int
deed_compile_other(struct wire *wire)
{
	const struct wire_source source = {
	    .text = "extern \"C\" __global__ void g(int *p) { *p = 2; }\n",
	    .arch = "sm_80"};
	struct wire_kernel kernel;

	(void)wire_send_compile(wire, &source);
	if (!wire_recv_kernel(wire, &kernel))
		return 11;
	if (kernel.reply.status != HM_REPLY_BUILT)
		return 12;
	wire_kernel_done(&kernel);
	return 0;
}

static const struct {
	const char *name;
	int (*act)(struct wire *wire);
} deeds[] = {{"refused", deed_refused}, {"shut-out", deed_shut_out},
    {"compile", deed_compile}, {"compile-other", deed_compile_other}};

static int
as_nobody(const char *socket, const char *name)
{
	static struct wire wire;

	if (setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
	    setresuid(NOBODY, NOBODY, NOBODY) != 0)
		return 10;
	(void)snprintf(harness.socket, sizeof(harness.socket), "%s", socket);
	wire_open(&wire, &harness);
	for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
		if (strcmp(deeds[i].name, name) == 0)
			return deeds[i].act(&wire);
	}
	return 9;
}

static pid_t
start_nobody(const char *name)
{
	char program[] = "/proc/self/exe";
	char option[] = "--nobody";
	char deed[32];
	char *const arguments[] = {program, option, harness.socket, deed, NULL};
	pid_t pid;

	(void)snprintf(deed, sizeof(deed), "%s", name);
	assert_int_equal(
	    posix_spawn(&pid, program, NULL, NULL, arguments, environ), 0);
	return pid;
}

static void
expect_nobody(pid_t pid)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* How many lines of the log have a word. */
static size_t
count_lines(const char *word)
{
	static char text[1 << 20];
	size_t n = 0;

	harness_read(harness.log, text, sizeof(text));
	for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
		n++;
	return n;
}

/* ---- rights ---- */

static void
test_tenants__no_right__is_refused_and_written_down(void **state)
{
	struct wire wire;

	(void)state;
	if (geteuid() != 0)
		skip();
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	expect_nobody(start_nobody("refused"));
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "denied"), 8);
	assert_int_equal(count_lines("denied what=compile uid=65534 "), 1);
	assert_int_equal(count_lines("denied what=admin uid=65534 "), 7);
	wire_close(&wire);
}

static void
test_tenants__group_for_reading__shuts_others_out(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	if (geteuid() != 0)
		skip();
	harness.environment[1] = "HUMMING_GROUP_READ=daemon";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	expect_nobody(start_nobody("shut-out"));
	assert_int_equal(count_lines("denied what=get uid=65534 "), 1);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "denied"), 4);
	/* Root and the daemon's own user are no strangers. */
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

/* ---- what one user may take ---- */

static void
send_slow(struct wire *wire, uint32_t n_statements, uint32_t salt)
{
	char *text = wire_slow_source(n_statements, salt);
	const struct wire_source source = {.text = text, .arch = "sm_80"};

	(void)wire_send_compile(wire, &source);
	free(text);
}

/* Over all his connections together, and given back when they are gone. */
static void
test_tenants__too_much_in_flight__next_is_busy(void **state)
{
	struct wire_kernel kernel;
	struct wire first;
	struct wire wire;

	(void)state;
	harness.environment[1] = "HUMMING_LIMITS_UID_IN_FLIGHT=3";
	harness.environment[2] = "HUMMING_LIMITS_SOURCE_MS=600000";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&first, &harness);
	for (uint32_t i = 0; i < 3; i++)
		send_slow(&first, 20000, i);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.queued", 2);
	(void)wire_send_compile(&wire, &small);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_BUSY);
	assert_non_null(strstr(kernel.reply.message, "limits.uid_in_flight"));
	wire_kernel_done(&kernel);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "limited"), 1);
	assert_int_equal(count_lines("limited what=wait uid="), 1);
	wire_close(&first);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.building", 0);
	(void)wire_send_compile(&wire, &small);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

static void
test_tenants__too_many_builds__next_is_busy_hits_are_not(void **state)
{
	struct wire_kernel kernel;
	struct wire first;
	struct wire wire;

	(void)state;
	harness.environment[1] = "HUMMING_LIMITS_UID_QUEUE=3";
	harness.environment[2] = "HUMMING_LIMITS_SOURCE_MS=600000";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_compile(&wire, &small, &kernel);
	wire_kernel_done(&kernel);
	wire_open(&first, &harness);
	for (uint32_t i = 0; i < 3; i++)
		send_slow(&first, 20000, i);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.queued", 2);
	send_slow(&wire, 20000, 77);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_BUSY);
	assert_non_null(strstr(kernel.reply.message, "limits.uid_queue"));
	wire_kernel_done(&kernel);
	assert_int_equal(count_lines("limited what=build uid="), 1);
	wire_compile(&wire, &small, &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_HIT);
	wire_kernel_done(&kernel);
	/* To wait for a build that is under way is not one more. */
	send_slow(&wire, 20000, 0);
	wire_wait_number(&wire, HM_FRAME_STATS, "joined", 1);
	wire_close(&first);
	wire_close(&wire);
}

/* ---- whose turn it is ---- */

/* One user has queued a lot; another's build comes after those that run, not
 * after all of them. */
static void
test_tenants__queue_of_one_user__does_not_hold_up_another(void **state)
{
	enum { N_BUILDS = 8 };
	struct wire_kernel kernel;
	struct wire watcher;
	struct wire wire;
	uint64_t n_before;

	(void)state;
	if (geteuid() != 0)
		skip();
	harness.environment[1] = "HUMMING_GROUP=nogroup";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&watcher, &harness);
	for (uint32_t i = 0; i < N_BUILDS; i++)
		send_slow(&wire, 150, i);
	wire_wait_number(&watcher, HM_FRAME_STATUS, "workers.queued",
	    N_BUILDS - 1);
	expect_nobody(start_nobody("compile"));
	n_before = wire_number(&watcher, HM_FRAME_STATS, "builds");
	/* His own, and as many of ours as were under way till then. */
	assert_in_range(n_before, 1, N_BUILDS / 2);
	for (int i = 0; i < N_BUILDS; i++) {
		assert_true(wire_recv_kernel(&wire, &kernel));
		assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
		wire_kernel_done(&kernel);
	}
	wire_close(&watcher);
	wire_close(&wire);
}

/* A worker that has seen a source of one user sees none of another. */
static void
test_tenants__sources_of_two_users__never_share_a_worker(void **state)
{
	struct wire_kernel kernel;
	pid_t before[4], after[4];
	struct wire wire;

	(void)state;
	if (geteuid() != 0)
		skip();
	harness.environment[1] = "HUMMING_GROUP=nogroup";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_compile(&wire, &small, &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	assert_int_equal(harness_workers(&harness, before, 4), 1);
	/* Ours again: the same worker will do. */
	send_slow(&wire, 5, 1);
	assert_true(wire_recv_kernel(&wire, &kernel));
	wire_kernel_done(&kernel);
	assert_int_equal(harness_workers(&harness, after, 4), 1);
	assert_int_equal(before[0], after[0]);
	expect_nobody(start_nobody("compile-other"));
	assert_int_equal(harness_workers(&harness, after, 4), 1);
	assert_int_not_equal(before[0], after[0]);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATUS, "workers.crashed"),
	    0);
	wire_close(&wire);
}

/* ---- overload ---- */

/* One who has no time to wait for his turn is told at once to do it himself;
 * one who has waits. */
static void
test_tenants__no_time_for_the_queue__is_told_to_try_local(void **state)
{
	struct wire_kernel kernel;
	char *text = wire_slow_source(10, 99);
	const struct wire_source hasty = {.text = text,
	    .arch = "sm_80",
	    .deadline_ms = 50};
	const struct wire_source patient = {.text = text,
	    .arch = "sm_80",
	    .deadline_ms = 0};
	struct wire watcher;
	struct wire wire;
	uint64_t start_ms;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&watcher, &harness);
	send_slow(&wire, 200, 1000); /* so that it knows what a build takes */
	assert_true(wire_recv_kernel(&wire, &kernel));
	wire_kernel_done(&kernel);
	for (uint32_t i = 0; i < 6; i++)
		send_slow(&wire, 200, i);
	wire_wait_number(&watcher, HM_FRAME_STATUS, "workers.queued", 5);
	start_ms = harness_now_ms();
	(void)wire_send_compile(&wire, &hasty);
	do {
		assert_true(wire_recv_kernel(&wire, &kernel));
		if (kernel.reply.status == HM_REPLY_TRY_LOCAL)
			break;
		assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
		wire_kernel_done(&kernel);
	} while (harness_now_ms() - start_ms < HARNESS_WAIT_MS);
	assert_int_equal(kernel.reply.status, HM_REPLY_TRY_LOCAL);
	assert_int_equal(kernel.reply.error, HM_E_UNAVAILABLE);
	assert_non_null(strstr(kernel.reply.message, "locally"));
	wire_kernel_done(&kernel);
	assert_int_equal(wire_number(&watcher, HM_FRAME_STATS, "try_local"), 1);
	(void)wire_send_compile(&wire, &patient);
	free(text);
	wire_wait_number(&watcher, HM_FRAME_STATUS, "workers.queued", 0);
	wire_close(&watcher);
	wire_close(&wire);
}

int
main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_tenants__no_right__is_refused_and_written_down),
	    TEST(test_tenants__group_for_reading__shuts_others_out),
	    TEST(test_tenants__too_much_in_flight__next_is_busy),
	    TEST(test_tenants__too_many_builds__next_is_busy_hits_are_not),
	    TEST(test_tenants__queue_of_one_user__does_not_hold_up_another),
	    TEST(test_tenants__sources_of_two_users__never_share_a_worker),
	    TEST(test_tenants__no_time_for_the_queue__is_told_to_try_local),
	};

	if (argc == 4 && strcmp(argv[1], "--nobody") == 0)
		return as_nobody(argv[2], argv[3]);
	return cmocka_run_group_tests_name("tenants", tests, NULL, NULL);
}
