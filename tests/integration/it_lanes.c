/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_lanes.c - who waits for whom: lanes, progress, deadlines, cancelling, a
 * full queue, and the hang of a compiler. One worker, so that order shows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/wire.h"

/* Statements that keep a compiler busy for about a second, and for ever. */
#define SOME_WORK 450
#define NO_END    20000

static struct harness harness;

static int
setup(void **state)
{
	harness_init(&harness);
	harness.environment[0] = "HUMMING_WORKERS=1";
	*state = &harness;
	return 0;
}

static int
teardown(void **state)
{
	harness_done(*state);
	return 0;
}

/* Occupy the only worker with a build of our own making. */
static uint32_t
occupy(struct wire *wire, uint32_t n_statements, uint32_t salt,
    uint32_t deadline_ms)
{
	char *text = wire_slow_source(n_statements, salt);
	const struct wire_source source = {.text = text,
	    .arch = "sm_80",
	    .deadline_ms = deadline_ms};
	uint32_t id = wire_send_compile(wire, &source);

	free(text);
	return id;
}

static void
test_lanes__interactive_request__overtakes_queued_prewarm(void **state)
{
	static const char prewarm[] = "w4a16,m=1 w4a16,m=1,group=64 "
				      "w4a16,m=1,group=32 w4a16,m=4096 "
				      "w4a16,m=4096,group=64 "
				      "w4a16,m=4096,group=32";
	struct wire_kernel kernel;
	struct wire behind;
	struct wire wire;
	uint64_t built_before;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&behind, &harness);
	(void)wire_send_get(&behind, prewarm, "sm_90a", HM_LANE_PREWARM, 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.queued", 5);
	built_before = wire_number(&wire, HM_FRAME_STATS, "builds");
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	/* Ours, and at most the two that were under way meanwhile. */
	assert_in_range(wire_number(&wire, HM_FRAME_STATS, "builds"), 1,
	    built_before + 3);
	assert_in_range(wire_number(&wire, HM_FRAME_STATUS, "workers.queued"),
	    2, 5);
	for (int i = 0; i < 6; i++) {
		assert_true(wire_recv_kernel(&behind, &kernel));
		assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
		wire_kernel_done(&kernel);
	}
	wire_close(&behind);
	wire_close(&wire);
}

static void
test_lanes__long_wait__is_told_its_place(void **state)
{
	struct hm_progress progress;
	struct hm_frame frame;
	struct wire first;
	struct wire wire;
	uint32_t id;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&first, &harness);
	(void)occupy(&first, NO_END, 1, 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.building", 1);
	id = occupy(&wire, 10, 2, 0);
	assert_true(wire_recv(&wire, &frame, 5000));
	assert_int_equal(frame.type, HM_FRAME_PROGRESS);
	assert_int_equal(frame.request_id, id);
	assert_int_equal(
	    hm_codec_unpack_progress(frame.body, frame.n_body, &progress),
	    HM_OK);
	assert_int_equal(progress.queue_position, 1);
	assert_true(progress.elapsed_ms >= 900);
	assert_true(wire_recv(&first, &frame, 5000));
	assert_int_equal(frame.type, HM_FRAME_PROGRESS);
	assert_int_equal(
	    hm_codec_unpack_progress(frame.body, frame.n_body, &progress),
	    HM_OK);
	assert_int_equal(progress.queue_position, 0);
	wire_close(&first);
	wire_close(&wire);
}

static void
test_lanes__deadline_passes__timeout_and_build_goes_on(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;
	uint64_t start_ms;
	uint64_t took_ms;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	start_ms = harness_now_ms();
	(void)occupy(&wire, SOME_WORK, 1, 150);
	assert_true(wire_recv_kernel(&wire, &kernel));
	took_ms = harness_now_ms() - start_ms;
	assert_int_equal(kernel.reply.status, HM_REPLY_FAILED);
	assert_int_equal(kernel.reply.error, HM_E_TIMEOUT);
	assert_non_null(strstr(kernel.reply.message, "150 ms"));
	assert_in_range(took_ms, 140, 1000);
	wire_kernel_done(&kernel);
	wire_wait_number(&wire, HM_FRAME_STATS, "builds", 1);
	(void)occupy(&wire, SOME_WORK, 1, 150);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.tier, HM_TIER_HOT);
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

static void
test_lanes__cancelled_in_the_queue__is_never_built(void **state)
{
	struct wire_kernel kernel;
	struct wire first;
	struct wire wire;
	uint32_t id;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&first, &harness);
	(void)occupy(&first, SOME_WORK, 1, 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.building", 1);
	id = occupy(&wire, 10, 2, 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.queued", 1);
	(void)wire_send_cancel(&wire, id);
	(void)wire_send_cancel(&wire, 12345); /* of nobody: ignored */
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.queued", 0);
	assert_true(wire_recv_kernel(&first, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "builds"), 1);
	wire_close(&first);
	wire_close(&wire);
}

static void
test_lanes__full_queue__answers_busy(void **state)
{
	struct wire_kernel kernel;
	struct wire first;
	struct wire wire;

	(void)state;
	harness.environment[1] = "HUMMING_LIMITS_QUEUE=1";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&first, &harness);
	(void)occupy(&first, SOME_WORK, 1, 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.building", 1);
	(void)occupy(&first, 10, 2, 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.queued", 1);
	(void)occupy(&wire, 10, 3, 0);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_BUSY);
	assert_int_equal(kernel.reply.error, HM_E_BUSY);
	wire_kernel_done(&kernel);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "busy"), 1);
	for (int i = 0; i < 2; i++) {
		assert_true(wire_recv_kernel(&first, &kernel));
		assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
		wire_kernel_done(&kernel);
	}
	wire_close(&first);
	wire_close(&wire);
}

/* Killed at the deadline, then remembered: a source that hangs would hang
 * again. Others are served. */
static void
test_lanes__compiler_hangs__costs_that_request_only(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	harness.environment[1] = "HUMMING_LIMITS_SOURCE_MS=700";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	(void)occupy(&wire, NO_END, 1, 0);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_FAILED);
	assert_int_equal(kernel.reply.error, HM_E_TIMEOUT);
	assert_non_null(strstr(kernel.reply.message, "limits.source_ms"));
	assert_null(strstr(kernel.reply.message, "times"));
	wire_kernel_done(&kernel);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATUS, "workers.crashed"),
	    1);
	(void)occupy(&wire, NO_END, 1, 0);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.error, HM_E_TIMEOUT);
	assert_true(kernel.reply.wait_us < 500000);
	wire_kernel_done(&kernel);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

/* One who waited in the queue is told so, and by the daemon. */
static void
test_lanes__deadline_in_the_queue__names_the_place(void **state)
{
	struct wire_kernel kernel;
	struct wire first;
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&first, &harness);
	(void)occupy(&first, NO_END, 1, 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.building", 1);
	(void)occupy(&first, 10, 2, 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.queued", 1);
	(void)occupy(&wire, 10, 3, 200);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.error, HM_E_TIMEOUT);
	assert_non_null(strstr(kernel.reply.message, "200 ms"));
	assert_non_null(strstr(kernel.reply.message, "busy"));
	assert_non_null(strstr(kernel.reply.message, "place 2"));
	wire_kernel_done(&kernel);
	wire_close(&first);
	wire_close(&wire);
}

/* However many sources of clients do not end: a kernel of ours gets a worker,
 * and there are no more workers than before when they are gone. */
static void
test_lanes__sources_everywhere__kernels_of_ours_are_built(void **state)
{
	struct wire_kernel kernel;
	struct wire sources;
	struct wire wire;
	pid_t pids[8];

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=2";
	harness.environment[1] = "HUMMING_LIMITS_SOURCE_MS=600000";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&sources, &harness);
	for (uint32_t i = 0; i < 6; i++)
		(void)occupy(&sources, i < 2 ? NO_END : 10, i, 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.building", 2);
	for (uint32_t i = 0; i < 3; i++) {
		static const char *const archs[] = {"sm_80", "sm_89", "sm_120"};

		wire_get(&wire, "w4a16,m=1", archs[i], &kernel);
		assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
		wire_kernel_done(&kernel);
	}
	/* The other sources waited all the while. */
	assert_int_equal(wire_number(&wire, HM_FRAME_STATUS, "workers.queued"),
	    4);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "builds"), 3);
	wire_close(&sources);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.idle", 2);
	assert_int_equal(harness_workers(&harness, pids, 8), 2);
	wire_close(&wire);
}

/* Who sends a source and goes away gives the compiler back at once. */
static void
test_lanes__source_nobody_waits_for__is_cut(void **state)
{
	struct wire_kernel kernel;
	struct wire first;
	struct wire wire;
	uint32_t id;

	(void)state;
	harness.environment[1] = "HUMMING_LIMITS_SOURCE_MS=600000";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&first, &harness);
	(void)occupy(&first, NO_END, 1, 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.building", 1);
	wire_close(&first);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.building", 0);
	id = occupy(&wire, NO_END, 1, 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.building", 1);
	(void)wire_send_cancel(&wire, id);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.building", 0);
	(void)occupy(&wire, 10, 2, 0);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	/* Neither was a failure: not of a worker, nor of the source. */
	assert_int_equal(wire_number(&wire, HM_FRAME_STATUS, "workers.crashed"),
	    0);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "build_failures"),
	    0);
	wire_close(&wire);
}

/* One of two who wait goes: the other's build is not touched. */
static void
test_lanes__source_one_still_waits_for__is_built(void **state)
{
	struct wire_kernel kernel;
	struct wire first;
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&first, &harness);
	(void)occupy(&first, SOME_WORK, 1, 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.building", 1);
	(void)occupy(&wire, SOME_WORK, 1, 0);
	wire_wait_number(&wire, HM_FRAME_STATS, "joined", 1);
	wire_close(&first);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_lanes__interactive_request__overtakes_queued_prewarm),
	    TEST(test_lanes__long_wait__is_told_its_place),
	    TEST(test_lanes__deadline_passes__timeout_and_build_goes_on),
	    TEST(test_lanes__cancelled_in_the_queue__is_never_built),
	    TEST(test_lanes__full_queue__answers_busy),
	    TEST(test_lanes__deadline_in_the_queue__names_the_place),
	    TEST(test_lanes__sources_everywhere__kernels_of_ours_are_built),
	    TEST(test_lanes__source_nobody_waits_for__is_cut),
	    TEST(test_lanes__source_one_still_waits_for__is_built),
	    TEST(test_lanes__compiler_hangs__costs_that_request_only),
	};

	return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
