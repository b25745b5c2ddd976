/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_flat.c - after some thousand requests of every kind the daemon holds no
 * more descriptors and no more memory than before.
 *
 * HM_TEST_ROUNDS sets how many rounds are run (300; each is 20 requests).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/wire.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* DESIGN.md section 9: anonymous memory beside the hot bytes. */
#define MAX_RSS_BYTES (24u << 20)
/* What an allocator may keep between two measurements. */
#define SLACK_BYTES (1u << 20)
#endif

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
	harness_done(&harness);
	return 0;
}

static const char big_source[] =
    "__device__ int table[50000] = {1, 2, 3};\n"
    "extern \"C\" __global__ void big(int *p) { *p = table[*p]; }\n";
static const char bad_source[] = "this is no CUDA\n";

static void
ask(struct wire *wire, const char *spec, const char *arch, uint32_t status)
{
	struct wire_kernel kernel;

	wire_get(wire, spec, arch, &kernel);
	assert_int_equal(kernel.reply.status, status);
	wire_kernel_done(&kernel);
}

static void
send_source(struct wire *wire, const char *text, uint32_t status)
{
	const struct wire_source source = {.text = text, .arch = "sm_80"};
	struct wire_kernel kernel;

	wire_compile(wire, &source, &kernel);
	assert_int_equal(kernel.reply.status, status);
	wire_kernel_done(&kernel);
}

/* Twenty requests: hits small and large, refusals, failures, connections. */
static void
one_round(uint32_t round)
{
	static struct wire wire;
	char spec[64];

	wire_open_as(&wire, &harness, round % 2);
	for (uint32_t i = 0; i < 12; i++) {
		/* Other sizes, same kernel: another choice each time. */
		(void)snprintf(spec, sizeof(spec), "w4a16,m=1,n=%u,k=8192",
		    8192 + 8 * (round * 12 + i));
		ask(&wire, spec, "sm_80", HM_REPLY_HIT);
	}
	send_source(&wire, big_source, HM_REPLY_HIT);
	send_source(&wire, big_source, HM_REPLY_HIT);
	send_source(&wire, bad_source, HM_REPLY_FAILED);
	ask(&wire, "w8a8,m=1", "sm_80", HM_REPLY_UNSUPPORTED);
	(void)wire_number(&wire, HM_FRAME_STATS, "builds");
	(void)wire_number(&wire, HM_FRAME_STATUS, "pid");
	assert_true(wire_send(&wire, HM_FRAME_PING, NULL, 0));
	(void)wire_send_get(&wire, "w4a16,m=1", "sm_80", HM_LANE_INTERACTIVE,
	    0);
	wire_close(&wire); /* without reading the last two */
}

static void
test_flat__thousands_of_requests__cost_nothing(void **state)
{
	uint64_t n_rounds = harness_number("HM_TEST_ROUNDS", 300);
	struct wire wire;
	uint64_t rss_before;
	uint64_t rss_after;
	size_t fds_before;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	ask(&wire, "w4a16,m=1", "sm_80", HM_REPLY_BUILT);
	send_source(&wire, big_source, HM_REPLY_BUILT);
	send_source(&wire, bad_source, HM_REPLY_FAILED);
	/* Fill what is bounded: the memory of choices has 1024 places. */
	for (uint32_t i = 0; i < 150; i++)
		one_round(i);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.idle", 1);
	rss_before = wire_number(&wire, HM_FRAME_STATS, "rss_bytes");
	fds_before = harness_count_fds(&harness);
	for (uint32_t i = 0; i < n_rounds; i++)
		one_round(1000 + i);
	rss_after = wire_number(&wire, HM_FRAME_STATS, "rss_bytes");
	print_message("rss %llu KiB before, %llu KiB after %llu requests\n",
	    (unsigned long long)rss_before / 1024,
	    (unsigned long long)rss_after / 1024,
	    (unsigned long long)n_rounds * 20);
#if !defined(__SANITIZE_ADDRESS__) &&                                          \
    !defined(__SANITIZE_THREAD__) /* which keeps what is freed for a while */
	assert_true(rss_after < rss_before + SLACK_BYTES);
	assert_true(rss_after < MAX_RSS_BYTES);
#endif
	/* The end of the last connection may not have been seen yet; each
	 * question is a turn of the loop. */
	for (int i = 0; i < 1000; i++) {
		if (harness_count_fds(&harness) <= fds_before)
			break;
		(void)wire_number(&wire, HM_FRAME_STATS, "builds");
	}
	assert_true(harness_count_fds(&harness) <= fds_before);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "builds"), 2);
	wire_close(&wire);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		test_flat__thousands_of_requests__cost_nothing, setup,
		teardown),
	};

	return cmocka_run_group_tests_name("flat", tests, NULL, NULL);
}
