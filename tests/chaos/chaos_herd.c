/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chaos_herd.c - again and again 64 clients want one cold key at once: one
 * build, equal bytes; in every third herd some go away while it is built.
 *
 * HM_CHAOS_HERDS sets how many herds (10).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/chaos/chaos.h"

#define N_CLIENTS 64u

static struct harness harness;
static struct wire clients[N_CLIENTS];

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
	harness_done(&harness);
	return 0;
}

/* All that are still there get the same. */
static void
take_answers(const bool *is_gone)
{
	struct hm_checksum checksum;
	struct wire_kernel kernel;
	bool is_first = true;

	for (size_t c = 0; c < N_CLIENTS; c++) {
		if (is_gone[c])
			continue;
		assert_true(wire_recv_kernel(&clients[c], &kernel));
		assert_int_equal(kernel.reply.error, HM_OK);
		if (is_first)
			checksum = kernel.reply.checksum;
		is_first = false;
		assert_true(
		    hm_checksum_equal(&checksum, &kernel.reply.checksum));
		wire_kernel_done(&kernel);
		wire_close(&clients[c]);
	}
}

static void
one_herd(uint32_t herd, struct wire *watcher)
{
	bool is_gone[N_CLIENTS] = {false};
	uint64_t builds = wire_number(watcher, HM_FRAME_STATS, "builds");

	for (size_t c = 0; c < N_CLIENTS; c++)
		wire_open(&clients[c], &harness);
	for (size_t c = 0; c < N_CLIENTS; c++)
		chaos_send(&clients[c], herd);
	for (size_t c = 1; herd % 3 == 2 && c < N_CLIENTS; c++) {
		is_gone[c] = chaos_random(2) == 0;
		if (is_gone[c])
			wire_close(&clients[c]);
	}
	take_answers(is_gone);
	assert_int_equal(wire_number(watcher, HM_FRAME_STATS, "builds"),
	    builds + 1);
}

static void
test_chaos__herds__one_build_each(void **state)
{
	uint64_t n_herds = harness_number("HM_CHAOS_HERDS", 10);
	uint64_t begun_ms;
	struct wire watcher;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&watcher, &harness);
	begun_ms = harness_now_ms();
	for (uint32_t i = 0; i < n_herds; i++)
		one_herd(i, &watcher);
	print_message("%llu herds of %u in %llu ms: %llu builds, %llu joined\n",
	    (unsigned long long)n_herds, N_CLIENTS,
	    (unsigned long long)(harness_now_ms() - begun_ms),
	    (unsigned long long)wire_number(&watcher, HM_FRAME_STATS, "builds"),
	    (unsigned long long)wire_number(&watcher, HM_FRAME_STATS,
		"joined"));
	wire_close(&watcher);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_chaos__herds__one_build_each,
		setup, teardown),
	};

	return cmocka_run_group_tests_name("chaos_herd", tests, NULL, NULL);
}
