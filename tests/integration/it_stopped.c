/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_stopped.c - processes that do not die but stand still (SIGSTOP, a frozen
 * container, a debugger): others notice by their own clocks.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/include/humming/client.h"
#include "tests/integration/wire.h"

#define CLIENT_MS 500

static struct harness harness;

static int
setup(void **state)
{
	(void)state;
	harness_init(&harness);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	if (harness.pid != 0)
		harness_signal(&harness, SIGCONT);
	harness_done(&harness);
	return 0;
}

/* Every worker stands still; gives how many. */
static size_t
stop_workers(void)
{
	pid_t pids[8];
	size_t n = harness_workers(&harness, pids, 8);

	for (size_t i = 0; i < n; i++)
		(void)kill(pids[i], SIGSTOP);
	return n;
}

/* The job is given to one that stands still: it is killed at the build's
 * deadline, and a fresh one does the job. */
static void
test_stopped__idle_worker__costs_one_deadline(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;
	uint64_t start_ms;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness.environment[1] = "HUMMING_LIMITS_BUILD_MS=3000";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	assert_int_equal(stop_workers(), 1);
	start_ms = harness_now_ms();
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	assert_true(harness_now_ms() - start_ms >= 2900);
	wire_kernel_done(&kernel);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATUS, "workers.crashed"),
	    1);
	wire_close(&wire);
}

/* Others are served while one worker stands still with a job. */
static void
test_stopped__busy_worker__does_not_hold_up_hits(void **state)
{
	char *text = wire_slow_source(20000, 1);
	const struct wire_source source = {.text = text, .arch = "sm_80"};
	struct wire_kernel kernel;
	struct wire slow;
	struct wire wire;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness.environment[1] = "HUMMING_LIMITS_DRAIN_MS=0";
	harness_start(&harness);
	wire_open(&wire, &harness);
	wire_open(&slow, &harness);
	wire_expect_compiler(&wire);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	wire_kernel_done(&kernel);
	(void)wire_send_compile(&slow, &source);
	free(text);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.busy", 1);
	assert_true(stop_workers() >= 1);
	for (int i = 0; i < 100; i++) {
		wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
		assert_int_equal(kernel.reply.tier, HM_TIER_HOT);
		wire_kernel_done(&kernel);
	}
	wire_close(&slow);
	wire_close(&wire);
}

static struct humming_client *
open_client(int *error_out)
{
	struct humming_client_options options;
	struct humming_client *client = NULL;

	humming_client_options_init(&options, sizeof(options));
	options.socket_path = harness.socket;
	options.timeout_ms = CLIENT_MS;
	*error_out = humming_client_open(&options, &client);
	return client;
}

/* The library keeps its deadline against a daemon that stands still, and works
 * on when it moves again: late answers are nobody's. */
static void
test_stopped__daemon__clients_keep_their_deadlines(void **state)
{
	struct humming_client *client;
	uint64_t start_ms;
	int error;

	(void)state;
	harness_start(&harness);
	client = open_client(&error);
	assert_int_equal(error, HUMMING_OK);
	assert_int_equal(humming_client_ping(client), HUMMING_OK);
	harness_signal(&harness, SIGSTOP);
	for (int i = 0; i < 3; i++) {
		start_ms = harness_now_ms();
		assert_int_equal(humming_client_ping(client),
		    HUMMING_E_TIMEOUT);
		assert_in_range(harness_now_ms() - start_ms, CLIENT_MS - 50,
		    CLIENT_MS + 10000);
	}
	/* One that comes now waits in the backlog, and no longer than it
	 * said. */
	start_ms = harness_now_ms();
	assert_null(open_client(&error));
	assert_int_equal(error, HUMMING_E_TIMEOUT);
	assert_in_range(harness_now_ms() - start_ms, CLIENT_MS - 50,
	    CLIENT_MS + 10000);
	harness_signal(&harness, SIGCONT);
	/* A loaded machine may need more than one deadline to go on. */
	for (int i = 0; i < 20; i++) {
		error = humming_client_ping(client);
		if (error == HUMMING_OK)
			break;
		assert_int_equal(error, HUMMING_E_TIMEOUT);
	}
	assert_int_equal(error, HUMMING_OK);
	humming_client_close(client);
}

/* Those who were there, and those who came meanwhile. */
static void
test_stopped__daemon_goes_on__all_that_waited_is_answered(void **state)
{
	static struct wire wires[16];
	struct hm_frame frame;

	(void)state;
	harness_start(&harness);
	for (size_t i = 0; i < 8; i++)
		wire_open(&wires[i], &harness);
	harness_signal(&harness, SIGSTOP);
	for (size_t i = 8; i < 16; i++) {
		wire_connect(&wires[i], &harness);
		wire_say_hello(&wires[i], 0);
	}
	for (size_t i = 0; i < 16; i++)
		assert_true(wire_send(&wires[i], HM_FRAME_PING, NULL, 0));
	harness_signal(&harness, SIGCONT);
	for (size_t i = 0; i < 16; i++) {
		assert_true(wire_recv(&wires[i], &frame, HARNESS_WAIT_MS));
		if (frame.type == HM_FRAME_WELCOME)
			assert_true(
			    wire_recv(&wires[i], &frame, HARNESS_WAIT_MS));
		assert_int_equal(frame.type, HM_FRAME_TEXT);
		wire_close(&wires[i]);
	}
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_stopped__idle_worker__costs_one_deadline),
	    TEST(test_stopped__busy_worker__does_not_hold_up_hits),
	    TEST(test_stopped__daemon__clients_keep_their_deadlines),
	    TEST(test_stopped__daemon_goes_on__all_that_waited_is_answered),
	};

	return cmocka_run_group_tests_name("stopped", tests, NULL, NULL);
}
