/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_drain.c - every way out: signals under load, stop, idleness; and a start
 * over what a killed daemon left behind.
 */
#include <sys/syscall.h>

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/integration/wire.h"

static struct harness harness;

static int
setup(void **state)
{
	harness_init(&harness);
	*state = &harness;
	return 0;
}

static int
teardown(void **state)
{
	harness_done(*state);
	return 0;
}

static void
test_drain__sigterm_at_rest__exits_0(void **state)
{
	(void)state;
	harness_start(&harness);
	assert_int_equal(access(harness.socket, F_OK), 0);
	assert_int_equal(harness_stop(&harness), 0);
	assert_int_not_equal(access(harness.socket, F_OK), 0);
}

/* The running build is answered and kept; the queued one is told to go. */
static void
test_drain__sigterm_under_load__running_builds_finish(void **state)
{
	struct wire_kernel kernel;
	struct wire watcher;
	struct wire wire;
	struct wire late;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=1";
	/* However busy the machine is: the build ends before that. */
	harness.environment[1] = "HUMMING_LIMITS_DRAIN_MS=20000";
	harness_start(&harness);
	wire_open_ready(&watcher, &harness);
	wire_open(&wire, &harness);
	wire_open(&late, &harness);
	(void)wire_send_get(&wire, "w4a16,m=1,n=8192,k=8192", "sm_90a",
	    HM_LANE_INTERACTIVE, 0);
	wire_wait_number(&watcher, HM_FRAME_STATUS, "workers.building", 1);
	(void)wire_send_get(&late, "w4a16,m=1", "sm_80", HM_LANE_INTERACTIVE,
	    0);
	wire_wait_number(&watcher, HM_FRAME_STATUS, "workers.queued", 1);
	harness_signal(&harness, SIGTERM);
	assert_true(wire_recv_kernel(&late, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_BUSY);
	assert_int_equal(kernel.reply.error, HM_E_UNAVAILABLE);
	wire_kernel_done(&kernel);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	assert_int_equal(harness_wait(&harness), 0);
	wire_close(&wire);
	wire_close(&late);
	wire_close(&watcher);
	harness_start(&harness);
	wire_open(&wire, &harness);
	wire_get(&wire, "w4a16,m=1,n=8192,k=8192", "sm_90a", &kernel);
	assert_int_equal(kernel.reply.tier, HM_TIER_STORE);
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

/* A build that does not end does not hold the end up for ever. */
static void
test_drain__endless_build__is_given_up_in_time(void **state)
{
	char *text = wire_slow_source(20000, 1);
	const struct wire_source source = {.text = text, .arch = "sm_80"};
	struct wire_kernel kernel;
	struct wire watcher;
	struct wire wire;
	uint64_t start_ms;

	(void)state;
	harness.environment[0] = "HUMMING_LIMITS_DRAIN_MS=300";
	harness_start(&harness);
	wire_open_ready(&watcher, &harness);
	wire_open(&wire, &harness);
	(void)wire_send_compile(&wire, &source);
	free(text);
	wire_wait_number(&watcher, HM_FRAME_STATUS, "workers.building", 1);
	start_ms = harness_now_ms();
	assert_int_equal(harness_stop(&harness), 0);
	assert_in_range(harness_now_ms() - start_ms, 250, 5000);
	/* Who waited for it hears why, not only the end. */
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_BUSY);
	assert_int_equal(kernel.reply.error, HM_E_UNAVAILABLE);
	assert_non_null(strstr(kernel.reply.message, "stopping"));
	wire_kernel_done(&kernel);
	wire_close(&wire);
	wire_close(&watcher);
}

static void
test_drain__stop__ends_a_private_daemon(void **state)
{
	struct hm_frame frame;
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_open(&wire, &harness);
	assert_true(wire_send(&wire, HM_FRAME_STOP, NULL, 0));
	assert_true(wire_recv(&wire, &frame, 5000));
	assert_int_equal(frame.type, HM_FRAME_TEXT);
	assert_int_equal(harness_wait(&harness), 0);
	wire_close(&wire);
}

/* Idle is: no connection for so long. One that is open keeps it. */
static void
test_drain__private_and_idle__leaves_by_itself(void **state)
{
	struct wire wire;
	struct pollfd nothing = {.fd = -1};

	(void)state;
	harness.environment[0] = "HUMMING_LIMITS_IDLE_MS=300";
	harness_start(&harness);
	wire_open(&wire, &harness);
	(void)poll(&nothing, 1, 700);
	(void)wire_number(&wire, HM_FRAME_STATS, "builds");
	wire_close(&wire);
	assert_int_equal(harness_wait(&harness), 0);
}

static void
test_drain__killed_daemon__next_replaces_its_socket(void **state)
{
	struct wire wire;

	(void)state;
	for (int i = 0; i < 3; i++) {
		harness_start(&harness);
		wire_open(&wire, &harness);
		wire_close(&wire);
		harness_kill(&harness);
		assert_int_equal(access(harness.socket, F_OK), 0);
	}
	harness_start(&harness);
	wire_open(&wire, &harness);
	(void)wire_number(&wire, HM_FRAME_STATS, "builds");
	wire_close(&wire);
	assert_int_equal(harness_stop(&harness), 0);
}

/* Compilers do not outlive a daemon that was killed. */
static void
test_drain__killed_daemon__takes_its_workers_along(void **state)
{
	struct pollfd ends[4];
	struct wire wire;
	pid_t pids[4];
	size_t n;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=2";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.idle", 2);
	n = harness_workers(&harness, pids, 4);
	assert_int_equal(n, 2);
	for (size_t i = 0; i < n; i++) {
		ends[i].fd = (int)syscall(SYS_pidfd_open, pids[i], 0);
		ends[i].events = POLLIN;
		assert_true(ends[i].fd >= 0);
	}
	wire_close(&wire);
	harness_kill(&harness);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(poll(&ends[i], 1, 5000), 1);
		(void)close(ends[i].fd);
	}
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_drain__sigterm_at_rest__exits_0),
	    TEST(test_drain__sigterm_under_load__running_builds_finish),
	    TEST(test_drain__endless_build__is_given_up_in_time),
	    TEST(test_drain__killed_daemon__takes_its_workers_along),
	    TEST(test_drain__stop__ends_a_private_daemon),
	    TEST(test_drain__private_and_idle__leaves_by_itself),
	    TEST(test_drain__killed_daemon__next_replaces_its_socket),
	};

	return cmocka_run_group_tests_name("drain", tests, NULL, NULL);
}
