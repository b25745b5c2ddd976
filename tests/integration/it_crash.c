/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_crash.c - kill -9 of workers and of the daemon, at any moment: clients get
 * their kernels, and nothing that is served is ever wrong.
 *
 * HM_TEST_KILLS sets how often the daemon is killed (50).
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/wire.h"

#define N_LOAD 4

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

static pid_t
only_worker(void)
{
	pid_t pids[4];

	assert_int_equal(harness_workers(&harness, pids, 4), 1);
	return pids[0];
}

static void
test_crash__worker_killed_in_mid_compile__kernel_comes(void **state)
{
	struct wire_kernel kernel;
	struct wire other;
	struct wire wire;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&other, &harness);
	(void)wire_send_get(&wire, "w4a16,m=1,n=8192,k=8192", "sm_90a",
	    HM_LANE_INTERACTIVE, 0);
	wire_wait_number(&other, HM_FRAME_STATUS, "workers.building", 1);
	assert_int_equal(kill(only_worker(), SIGKILL), 0);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	assert_int_equal(wire_number(&other, HM_FRAME_STATS, "builds"), 1);
	assert_int_equal(
	    wire_number(&other, HM_FRAME_STATUS, "workers.crashed"), 1);
	wire_close(&other);
	wire_close(&wire);
}

static void
test_crash__worker_killed_twice__costs_one_request(void **state)
{
	char *text = wire_slow_source(3000, 1);
	const struct wire_source source = {.text = text, .arch = "sm_80"};
	struct wire_kernel kernel;
	struct wire other;
	struct wire wire;
	pid_t first;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&other, &harness);
	(void)wire_send_compile(&wire, &source);
	free(text);
	wire_wait_number(&other, HM_FRAME_STATUS, "workers.building", 1);
	first = only_worker();
	assert_int_equal(kill(first, SIGKILL), 0);
	wire_wait_number(&other, HM_FRAME_STATUS, "workers.crashed", 1);
	wire_wait_number(&other, HM_FRAME_STATUS, "workers.building", 1);
	assert_true(only_worker() != first);
	assert_int_equal(kill(only_worker(), SIGKILL), 0);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_FAILED);
	assert_int_equal(kernel.reply.error, HM_E_INTERNAL);
	assert_non_null(strstr(kernel.reply.message, "signal 9"));
	wire_kernel_done(&kernel);
	wire_get(&other, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	wire_close(&other);
	wire_close(&wire);
}

static void
test_crash__idle_workers_killed__are_replaced(void **state)
{
	struct wire_kernel kernel;
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
	for (size_t i = 0; i < n; i++)
		assert_int_equal(kill(pids[i], SIGKILL), 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.crashed", 2);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.idle", 2);
	wire_close(&wire);
}

/* After a client's source a worker is no longer good for our own kernels. */
static void
test_crash__worker_after_foreign_source__builds_no_ours(void **state)
{
	const struct wire_source source = {
	    .text = "extern \"C\" __global__ void f(int *p) { *p = 1; }\n",
	    .arch = "sm_80",
	};
	struct wire_kernel kernel;
	struct wire wire;
	pid_t before;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	before = only_worker();
	wire_compile(&wire, &source, &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	assert_int_equal(only_worker(), before);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	assert_true(only_worker() != before);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATUS, "workers.crashed"),
	    0);
	wire_close(&wire);
}

static void
test_crash__worker_has_done_its_jobs__is_replaced(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;
	pid_t before;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness.environment[1] = "HUMMING_WORKER_JOBS=2";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	before = only_worker();
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	wire_kernel_done(&kernel);
	assert_int_equal(only_worker(), before);
	wire_get(&wire, "w4a16,m=1,group=64", "sm_80", &kernel);
	wire_kernel_done(&kernel);
	wire_get(&wire, "w4a16,m=1,group=32", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	assert_true(only_worker() != before);
	wire_close(&wire);
}

/* What a cold build gives, to compare with all that is served later. */
static const char *const load_specs[] = {"w4a16,m=1", "w4a16,m=1,group=64",
    "w4a16,m=1,group=32", "w4a16,m=1,a=f16", "w4a16,m=64",
    "w4a16,m=64,group=64"};
#define N_LOAD_SPECS (sizeof(load_specs) / sizeof(load_specs[0]))

static struct {
	struct hm_digest key;
	struct hm_checksum checksum;
} load_truth[N_LOAD_SPECS];

/* A kernel that was served is the one of a cold build. */
static void
expect_right(const struct wire_kernel *kernel)
{
	assert_true(kernel->reply.status == HM_REPLY_HIT ||
		    kernel->reply.status == HM_REPLY_BUILT);
	for (size_t i = 0; i < N_LOAD_SPECS; i++) {
		if (!hm_digest_equal(&kernel->reply.key, &load_truth[i].key))
			continue;
		assert_true(hm_checksum_equal(&kernel->reply.checksum,
		    &load_truth[i].checksum));
		return;
	}
	fail_msg("a kernel that nobody asked for");
}

static void
learn_truth(void)
{
	struct wire_kernel kernel;
	struct harness apart;
	struct wire wire;

	harness_init(&apart);
	harness_start(&apart);
	wire_open_ready(&wire, &apart);
	for (size_t i = 0; i < N_LOAD_SPECS; i++) {
		wire_get(&wire, load_specs[i], "sm_80", &kernel);
		assert_int_equal(kernel.reply.tier, HM_TIER_BUILT);
		load_truth[i].key = kernel.reply.key;
		load_truth[i].checksum = kernel.reply.checksum;
		wire_kernel_done(&kernel);
	}
	wire_close(&wire);
	harness_done(&apart);
}

/* Everything, right, whether it was stored or is built anew. Returns how many
 * came from the store. */
static uint32_t
expect_all_right(void)
{
	struct wire_kernel kernel;
	uint32_t n_stored = 0;
	struct wire wire;

	wire_open(&wire, &harness);
	for (size_t i = 0; i < N_LOAD_SPECS; i++) {
		wire_get(&wire, load_specs[i], "sm_80", &kernel);
		expect_right(&kernel);
		assert_true(
		    hm_digest_equal(&kernel.reply.key, &load_truth[i].key));
		n_stored += kernel.reply.tier == HM_TIER_STORE;
		wire_kernel_done(&kernel);
	}
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "corrupt"), 0);
	wire_close(&wire);
	return n_stored;
}

/* Look at what arrives until then. */
static void
watch_replies(struct wire *wire, uint64_t until_ms)
{
	struct pollfd wait = {.fd = wire->fd, .events = POLLIN};
	struct wire_kernel kernel;
	uint64_t now_ms;

	while ((now_ms = harness_now_ms()) < until_ms) {
		if (poll(&wait, 1, (int)(until_ms - now_ms)) < 1)
			return;
		assert_true(wire_recv_kernel(wire, &kernel));
		expect_right(&kernel);
		wire_kernel_done(&kernel);
	}
}

/*
 * Ask for everything at once on several connections, kill at a random moment:
 * in every other round counted from the first reply, so that on a slow machine
 * too some kills fall among replies and commits. Whatever came must be right.
 */
static void
kill_under_load(uint32_t round)
{
	static struct wire load[N_LOAD];
	struct wire_kernel kernel;

	for (size_t i = 0; i < N_LOAD; i++) {
		wire_open(&load[i], &harness);
		for (size_t k = 0; k < N_LOAD_SPECS; k++)
			(void)wire_send_get(&load[i],
			    load_specs[(i + k + round) % N_LOAD_SPECS], "sm_80",
			    HM_LANE_INTERACTIVE, 0);
	}
	if (round % 2 == 1) {
		assert_true(wire_recv_kernel(&load[0], &kernel));
		expect_right(&kernel);
		wire_kernel_done(&kernel);
	}
	watch_replies(&load[0], harness_now_ms() + (uint64_t)(rand() % 300));
	harness_kill(&harness);
	/* What it sent before it died. */
	for (size_t i = 0; i < N_LOAD; i++) {
		while (wire_recv_kernel(&load[i], &kernel)) {
			expect_right(&kernel);
			wire_kernel_done(&kernel);
		}
		wire_close(&load[i]);
	}
}

static void
test_crash__daemon_killed_at_random__nothing_is_wrong(void **state)
{
	uint64_t n_kills = harness_number("HM_TEST_KILLS", 50);
	uint32_t n_stored = 0;

	(void)state;
	srand(20260301);
	learn_truth();
	for (uint64_t i = 0; i < n_kills; i++) {
		harness_start(&harness);
		kill_under_load((uint32_t)i);
		/* Every tenth round a new store, so that puts are cut too. */
		if (i % 10 != 9)
			continue;
		harness_start(&harness);
		n_stored += expect_all_right();
		harness_kill(&harness);
		harness_done(&harness);
		harness_init(&harness);
	}
	harness_start(&harness);
	(void)expect_all_right();
	/* A store that keeps nothing would pass everything above. */
	if (n_kills >= 10)
		assert_true(n_stored > 0);
	assert_int_equal(harness_stop(&harness), 0);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_crash__worker_killed_in_mid_compile__kernel_comes),
	    TEST(test_crash__worker_killed_twice__costs_one_request),
	    TEST(test_crash__idle_workers_killed__are_replaced),
	    TEST(test_crash__worker_after_foreign_source__builds_no_ours),
	    TEST(test_crash__worker_has_done_its_jobs__is_replaced),
	    TEST(test_crash__daemon_killed_at_random__nothing_is_wrong),
	};

	return cmocka_run_group_tests_name("crash", tests, NULL, NULL);
}
