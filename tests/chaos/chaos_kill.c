/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chaos_kill.c - the daemon is killed at random moments while it builds,
 * stores and evicts; every key afterwards is the right bytes or built again,
 * never an error and never other bytes.
 *
 * HM_CHAOS_KILLS sets how many times (20). The store holds 16 MiB, which the
 * images of one run fill many times over, so that kills come in all of: start,
 * check of the store, build, commit, eviction, drain of a queue.
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

#include "tests/chaos/chaos.h"

#define N_CLIENTS   4u
#define MAX_KEYS    262144u
#define N_LOOKBACK  24u /* earlier keys asked for again after each kill */
#define MAX_LIFE_MS 400u
#define MAX_WORKERS 8u
#define STORE_BYTES (16u << 20)

struct client {
	struct wire wire;
	uint32_t asked; /* the number on its way */
};

static struct harness harness;
static struct client clients[N_CLIENTS];
/* What each key's image was when it was seen first. */
static struct hm_checksum first[MAX_KEYS];
static uint32_t n_known; /* keys below it have been answered */
static bool is_known[MAX_KEYS];
static uint64_t n_answers, n_store_hits, n_rebuilt, max_start_ms;

static int
setup(void **state)
{
	(void)state;
	harness_init(&harness);
	harness.environment[0] = "HUMMING_STORE_CAP=16M";
	harness.environment[1] = "HUMMING_HOT_BYTES=1M";
	harness.environment[2] = "HUMMING_WORKERS=2";
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	harness_done(&harness);
	return 0;
}

/* Read the answer to a key, and hold it against what it was before. */
static void
take_answer(struct client *client)
{
	uint32_t i = client->asked;
	struct wire_kernel kernel;

	assert_true(wire_recv_kernel(&client->wire, &kernel));
	if (kernel.reply.error != HM_OK)
		fail_msg("key %u: %s", i, kernel.reply.message);
	n_answers++;
	if (is_known[i]) {
		assert_true(
		    hm_checksum_equal(&first[i], &kernel.reply.checksum));
		n_store_hits += kernel.reply.tier == HM_TIER_STORE;
		n_rebuilt += kernel.reply.tier == HM_TIER_BUILT;
	}
	first[i] = kernel.reply.checksum;
	is_known[i] = true;
	wire_kernel_done(&kernel);
}

static void
ask(struct client *client, uint32_t i)
{
	client->asked = i;
	chaos_send(&client->wire, i);
}

/* New keys from all clients until the time is over; many are on their way
 * then. */
static void
write_load(uint64_t until_ms)
{
	struct pollfd waits[N_CLIENTS];
	uint64_t now_ms;

	for (size_t c = 0; c < N_CLIENTS; c++)
		ask(&clients[c], n_known++);
	while ((now_ms = harness_now_ms()) < until_ms) {
		for (size_t c = 0; c < N_CLIENTS; c++) {
			waits[c].fd = clients[c].wire.fd;
			waits[c].events = POLLIN;
		}
		if (poll(waits, N_CLIENTS, (int)(until_ms - now_ms)) <= 0)
			continue;
		for (size_t c = 0; c < N_CLIENTS; c++) {
			if (waits[c].revents == 0)
				continue;
			take_answer(&clients[c]);
			assert_true(n_known < MAX_KEYS);
			ask(&clients[c], n_known++);
		}
	}
}

/* A few of the latest keys, and a few of all. */
static void
look_back(void)
{
	for (uint32_t n = 0; n < N_LOOKBACK && n_known > 0; n++) {
		uint32_t range = n % 2 == 0 && n_known > 40 ? 40 : n_known;

		ask(&clients[0], n_known - 1 - (uint32_t)chaos_random(range));
		take_answer(&clients[0]);
	}
}

static void
check_status(struct wire *wire)
{
	json_t *status = wire_json(wire, HM_FRAME_STATUS);

	/* Never set aside, never degraded. */
	assert_string_equal(
	    json_string_value(json_object_get(status, "notice")), "");
	assert_string_equal(
	    json_string_value(json_object_get(status, "degraded")), "");
	json_decref(status);
	assert_int_equal(wire_number(wire, HM_FRAME_STATS, "corrupt"), 0);
	assert_true(wire_number(wire, HM_FRAME_STATUS, "tiers.store.bytes") <=
		    STORE_BYTES);
}

static void
start(void)
{
	uint64_t begun_ms = harness_now_ms();

	harness_start(&harness);
	if (harness_now_ms() - begun_ms > max_start_ms)
		max_start_ms = harness_now_ms() - begun_ms;
	for (size_t c = 0; c < N_CLIENTS; c++)
		wire_open(&clients[c].wire, &harness);
}

/* Kill it; its workers must not outlive it. */
static void
kill_daemon(void)
{
	struct pollfd waits[MAX_WORKERS];
	pid_t pids[MAX_WORKERS];
	size_t n = harness_workers(&harness, pids, MAX_WORKERS);

	for (size_t i = 0; i < n; i++) {
		waits[i].fd = (int)syscall(SYS_pidfd_open, pids[i], 0);
		waits[i].events = POLLIN;
	}
	harness_kill(&harness);
	for (size_t i = 0; i < n; i++) {
		if (waits[i].fd == -1)
			continue; /* gone before */
		assert_int_equal(poll(&waits[i], 1, HARNESS_WAIT_MS), 1);
		(void)close(waits[i].fd);
	}
	for (size_t c = 0; c < N_CLIENTS; c++)
		wire_close(&clients[c].wire);
}

static void
test_chaos__daemon_killed_under_write_load__answers_stay_right(void **state)
{
	uint64_t n_kills = harness_number("HM_CHAOS_KILLS", 20);

	(void)state;
	for (uint64_t i = 0; i < n_kills; i++) {
		start();
		if (i == 0)
			wire_expect_compiler(&clients[0].wire);
		/* Every fourth dies young: in its start, or soon after. */
		if (i % 4 != 3) {
			look_back();
			check_status(&clients[0].wire);
		}
		write_load(harness_now_ms() + chaos_random(MAX_LIFE_MS));
		kill_daemon();
	}
	start();
	look_back();
	check_status(&clients[0].wire);
	print_message("%llu kills, %u keys, %llu answers: of earlier keys %llu "
		      "from the store, %llu built again; %llu entries in the "
		      "store; slowest start %llu ms\n",
	    (unsigned long long)n_kills, n_known, (unsigned long long)n_answers,
	    (unsigned long long)n_store_hits, (unsigned long long)n_rebuilt,
	    (unsigned long long)wire_number(&clients[0].wire, HM_FRAME_STATS,
		"entries"),
	    (unsigned long long)max_start_ms);
	assert_true(n_store_hits > 0);
	for (size_t c = 0; c < N_CLIENTS; c++)
		wire_close(&clients[c].wire);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		test_chaos__daemon_killed_under_write_load__answers_stay_right,
		setup, teardown),
	};

	return cmocka_run_group_tests_name("chaos_kill", tests, NULL, NULL);
}
