/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chaos_flat.c - a great many requests of 64 clients at once, with clients
 * that cancel, vanish and misspell among them: memory and descriptors of the
 * daemon stay what they were.
 *
 * HM_CHAOS_REQUESTS sets how many (20000).
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
#define N_SAMPLES 10u
#define N_LARGE   24u /* kernels with images that go by descriptor */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* DESIGN.md section 9: anonymous memory beside the hot bytes. */
#define MAX_BYTES (24u << 20)
/* What an allocator may keep between the first sample and the last. */
#define SLACK_BYTES (2u << 20)
#endif

static struct harness harness;
static struct wire clients[N_CLIENTS];

static int
setup(void **state)
{
	(void)state;
	harness_init(&harness);
	harness.environment[0] = "HUMMING_WORKERS=2";
	harness.environment[1] = "HUMMING_HOT_BYTES=8M";
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
take_answer(struct wire *wire, int error)
{
	struct wire_kernel kernel;

	assert_true(wire_recv_kernel(wire, &kernel));
	assert_int_equal(kernel.reply.error, error);
	wire_kernel_done(&kernel);
}

/* Send one request; what its answer will be, or HM_E_INTERNAL for none. */
static int
send_one(struct wire *wire, uint32_t number)
{
	char spec[64];

	switch (chaos_random(16)) {
	case 0:
		(void)wire_send_get(wire, "w8a8,m=1", "sm_80",
		    HM_LANE_INTERACTIVE, 0);
		return HM_E_UNSUPPORTED;
	case 1:
	case 2:
		chaos_send(wire, (uint32_t)chaos_random(N_LARGE) * 4 + 3);
		return HM_OK;
	case 3:
		wire_close(wire);
		wire_open_as(wire, &harness, number % 2);
		return HM_E_INTERNAL;
	case 4:
		/* Gone before the answer. */
		(void)wire_send_get(wire, "w4a16,m=1", "sm_80", HM_LANE_PREWARM,
		    1000);
		wire_close(wire);
		wire_open_as(wire, &harness, number % 2);
		return HM_E_INTERNAL;
	default:
		/* Other sizes, same kernel: another choice each time. */
		(void)snprintf(spec, sizeof(spec), "w4a16,m=1,n=%u,k=8192",
		    8192 + 8 * (number % 4096));
		(void)wire_send_get(wire, spec, "sm_80", HM_LANE_INTERACTIVE,
		    0);
		return HM_OK;
	}
}

static void
send_many(uint32_t n_requests)
{
	int wanted[N_CLIENTS];

	for (uint32_t done = 0; done < n_requests; done += N_CLIENTS) {
		for (uint32_t c = 0; c < N_CLIENTS; c++)
			wanted[c] = send_one(&clients[c], done + c);
		for (uint32_t c = 0; c < N_CLIENTS; c++) {
			if (wanted[c] != HM_E_INTERNAL)
				take_answer(&clients[c], wanted[c]);
		}
	}
}

/* After as many turns of the loop as it takes to see all ends. */
static size_t
count_files(struct wire *watcher, size_t wanted)
{
	for (int i = 0; i < 1000; i++) {
		if (harness_count_fds(&harness) <= wanted)
			break;
		(void)wire_number(watcher, HM_FRAME_STATS, "builds");
	}
	return harness_count_fds(&harness);
}

static void
test_chaos__many_requests__flat_memory_and_descriptors(void **state)
{
	uint32_t n_requests =
	    (uint32_t)harness_number("HM_CHAOS_REQUESTS", 20000);
	uint64_t first_bytes = 0;
	uint64_t bytes = 0;
	size_t n_files = 0;
	struct wire watcher;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&watcher, &harness);
	for (uint32_t c = 0; c < N_CLIENTS; c++)
		wire_open_as(&clients[c], &harness, c % 2);
	/* All that is bounded is full after these. */
	send_many(8192);
	n_files = count_files(&watcher, 0);
	for (uint32_t i = 0; i < N_SAMPLES; i++) {
		bytes = chaos_anonymous_bytes(harness.pid);
		if (i == 0)
			first_bytes = bytes;
		send_many(n_requests / N_SAMPLES);
	}
	bytes = chaos_anonymous_bytes(harness.pid);
	print_message("%u requests: anonymous memory %llu KiB before, %llu KiB "
		      "after; descriptors %zu before, %zu after\n",
	    n_requests, (unsigned long long)first_bytes / 1024,
	    (unsigned long long)bytes / 1024, n_files,
	    count_files(&watcher, n_files));
#if !defined(__SANITIZE_ADDRESS__) &&                                          \
    !defined(__SANITIZE_THREAD__) /* which keeps what is freed for a while */
	assert_true(bytes < first_bytes + SLACK_BYTES);
	assert_true(bytes < MAX_BYTES);
#endif
	assert_true(count_files(&watcher, n_files) <= n_files);
	for (uint32_t c = 0; c < N_CLIENTS; c++)
		wire_close(&clients[c]);
	wire_close(&watcher);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		test_chaos__many_requests__flat_memory_and_descriptors, setup,
		teardown),
	};

	return cmocka_run_group_tests_name("chaos_flat", tests, NULL, NULL);
}
