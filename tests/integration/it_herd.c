/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_herd.c - many who want the same at once: one build, the same bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/wire.h"

#define N_CLIENTS 64

static struct wire clients[N_CLIENTS];

static int
setup(void **state)
{
	static struct harness harness;

	harness_init(&harness);
	harness_start(&harness);
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
test_herd__64_clients_one_cold_key__one_build_equal_bytes(void **state)
{
	struct harness *harness = *state;
	struct wire_kernel first;
	struct wire_kernel kernel;

	for (size_t i = 0; i < N_CLIENTS; i++)
		wire_open(&clients[i], harness);
	wire_expect_compiler(&clients[0]);
	assert_int_equal(wire_number(&clients[0], HM_FRAME_STATS, "builds"), 0);
	for (size_t i = 0; i < N_CLIENTS; i++)
		(void)wire_send_get(&clients[i], "w4a16,m=1,n=8192,k=8192",
		    "sm_90a", HM_LANE_INTERACTIVE, 0);
	assert_true(wire_recv_kernel(&clients[0], &first));
	assert_int_equal(first.reply.status, HM_REPLY_BUILT);
	for (size_t i = 1; i < N_CLIENTS; i++) {
		assert_true(wire_recv_kernel(&clients[i], &kernel));
		assert_true(kernel.reply.status == HM_REPLY_BUILT ||
			    kernel.reply.status == HM_REPLY_HIT);
		assert_int_equal(kernel.n_image, first.n_image);
		assert_memory_equal(kernel.image, first.image, first.n_image);
		wire_kernel_done(&kernel);
	}
	assert_int_equal(wire_number(&clients[0], HM_FRAME_STATS, "builds"), 1);
	assert_true(wire_number(&clients[0], HM_FRAME_STATS, "joined") > 0);
	wire_kernel_done(&first);
	for (size_t i = 0; i < N_CLIENTS; i++)
		wire_close(&clients[i]);
}

/* All but one go away while the build runs; the one still gets its kernel. */
static void
test_herd__most_clients_die__the_rest_are_served(void **state)
{
	struct harness *harness = *state;
	struct wire_kernel kernel;

	for (size_t i = 0; i < N_CLIENTS; i++)
		wire_open(&clients[i], harness);
	wire_expect_compiler(&clients[0]);
	for (size_t i = 0; i < N_CLIENTS; i++)
		(void)wire_send_get(&clients[i], "w4a16,m=1,group=64", "sm_90a",
		    HM_LANE_INTERACTIVE, 0);
	wire_wait_number(&clients[1], HM_FRAME_STATS, "joined", N_CLIENTS - 1);
	for (size_t i = 1; i < N_CLIENTS; i++)
		wire_close(&clients[i]);
	assert_true(wire_recv_kernel(&clients[0], &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	assert_int_equal(wire_number(&clients[0], HM_FRAME_STATS, "builds"), 1);
	wire_close(&clients[0]);
}

/* The only client dies in mid-build: the build is kept for the next one. */
static void
test_herd__only_client_dies__its_build_is_kept(void **state)
{
	struct harness *harness = *state;
	struct wire_kernel kernel;

	wire_open(&clients[0], harness);
	wire_open(&clients[1], harness);
	wire_expect_compiler(&clients[0]);
	(void)wire_send_get(&clients[0], "w4a16,m=1,group=32", "sm_90a",
	    HM_LANE_INTERACTIVE, 0);
	wire_wait_number(&clients[1], HM_FRAME_STATUS, "workers.building", 1);
	wire_close(&clients[0]);
	wire_wait_number(&clients[1], HM_FRAME_STATS, "builds", 1);
	wire_get(&clients[1], "w4a16,m=1,group=32", "sm_90a", &kernel);
	assert_int_equal(kernel.reply.tier, HM_TIER_HOT);
	wire_kernel_done(&kernel);
	wire_close(&clients[1]);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_herd__64_clients_one_cold_key__one_build_equal_bytes),
	    TEST(test_herd__most_clients_die__the_rest_are_served),
	    TEST(test_herd__only_client_dies__its_build_is_kept),
	};

	return cmocka_run_group_tests_name("herd", tests, NULL, NULL);
}
