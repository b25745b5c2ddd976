/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_protocol.c - peers that lie, stall or vanish cost themselves only.
 */
#include <sys/socket.h>

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "jit/config.h"
#include "proto/fd.h"
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

/* The daemon hung up on us, without a word of its own. */
static void
expect_closed(struct wire *wire)
{
	struct hm_frame frame;
	struct pollfd wait = {.fd = wire->fd, .events = POLLIN};

	assert_false(wire_recv(wire, &frame, 5000));
	assert_int_equal(poll(&wait, 1, 0), 1); /* end of file, not silence */
	wire_close(wire);
}

static void
send_bytes(struct wire *wire, const void *bytes, size_t n_bytes)
{
	assert_int_equal(send(wire->fd, bytes, n_bytes, MSG_NOSIGNAL),
	    (ssize_t)n_bytes);
}

static void
test_protocol__malformed_bytes__close_one_connection(void **state)
{
	static const uint8_t huge_body[16] = {'H', 'U', 'M', 'M', 1, 0, 1, 0, 1,
	    0, 0, 0, 0xff, 0xff, 0xff, 0xff};
	static const uint8_t other_version[16] = {'H', 'U', 'M', 'M', 9, 0, 2,
	    0, 1, 0, 0, 0, 0, 0, 0, 0};
	uint8_t noise[300];
	struct wire good;
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_open(&good, &harness);
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)(i * 7 + 1);
	for (size_t n = 1; n < sizeof(noise); n += 13) {
		wire_open(&wire, &harness);
		send_bytes(&wire, noise, n);
		expect_closed(&wire);
	}
	wire_connect(&wire, &harness);
	send_bytes(&wire, huge_body, sizeof(huge_body));
	expect_closed(&wire);
	/* Only the first frame of a connection deserves an explanation. */
	wire_open(&wire, &harness);
	send_bytes(&wire, other_version, sizeof(other_version));
	expect_closed(&wire);
	(void)wire_number(&good, HM_FRAME_STATS, "builds");
	wire_close(&good);
}

static void
test_protocol__frames_out_of_turn__close_the_connection(void **state)
{
	static const uint8_t body[] = {0xff, 0xff, 0xff};
	static const uint32_t types[] = {HM_FRAME_GET, HM_FRAME_COMPILE,
	    HM_FRAME_CANCEL, HM_FRAME_EXPLAIN};
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_connect(&wire, &harness); /* no HELLO */
	assert_true(wire_send(&wire, HM_FRAME_PING, NULL, 0));
	expect_closed(&wire);
	wire_open(&wire, &harness); /* two HELLOs */
	assert_true(wire_send(&wire, HM_FRAME_HELLO, NULL, 0));
	expect_closed(&wire);
	wire_open(&wire, &harness); /* a type of the daemon's own */
	assert_true(wire_send(&wire, HM_FRAME_KERNEL, NULL, 0));
	expect_closed(&wire);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		wire_open(&wire, &harness);
		assert_true(wire_send(&wire, types[i], body, sizeof(body)));
		expect_closed(&wire);
	}
}

static void
test_protocol__other_abi__is_refused_by_name(void **state)
{
	struct hm_hello hello = {.schema = HM_SCHEMA,
	    .kernel_abi = HM_KERNEL_ABI + 7,
	    .pack_layout = HM_PACK_LAYOUT};
	struct hm_refusal refusal;
	struct hm_frame frame;
	uint8_t body[128];
	size_t n_body = 0;
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_connect(&wire, &harness);
	assert_int_equal(
	    hm_codec_pack_hello(&hello, body, sizeof(body), &n_body), HM_OK);
	assert_true(wire_send(&wire, HM_FRAME_HELLO, body, n_body));
	assert_true(wire_recv(&wire, &frame, 5000));
	assert_int_equal(frame.type, HM_FRAME_ERROR);
	assert_int_equal(
	    hm_codec_unpack_refusal(frame.body, frame.n_body, &refusal), HM_OK);
	assert_int_equal(refusal.error, HM_E_VERSION);
	assert_non_null(strstr(refusal.message, "kernel ABI"));
	expect_closed(&wire);
}

/* A source that its sender could still change is not accepted. */
static void
test_protocol__unsealed_source__closes_the_connection(void **state)
{
	struct hm_compile compile = {.target = {.cc = 80},
	    .source_bytes = 4096};
	uint8_t body[256];
	struct hm_frame frame = {.type = HM_FRAME_COMPILE,
	    .request_id = 7,
	    .body = body};
	struct wire wire;
	size_t n_before;

	(void)state;
	harness_start(&harness);
	wire_open(&wire, &harness);
	n_before = harness_count_fds(&harness);
	assert_int_equal(hm_fd_memory("source", 4096, &frame.fd), HM_OK);
	assert_int_equal(
	    hm_codec_pack_compile(&compile, body, sizeof(body), &frame.n_body),
	    HM_OK);
	assert_int_equal(hm_frame_send(wire.fd, &frame), HM_OK);
	hm_fd_close(&frame.fd);
	expect_closed(&wire);
	wire_open(&wire, &harness);
	(void)wire_number(&wire, HM_FRAME_STATS, "builds");
	assert_true(harness_count_fds(&harness) <= n_before + 6);
	wire_close(&wire);
}

/* Descriptors nobody asked for are closed, not kept. */
static void
test_protocol__unexpected_descriptors__do_not_leak(void **state)
{
	struct hm_frame frame = {.type = HM_FRAME_PING, .request_id = 1};
	struct hm_frame answer;
	struct wire wire;
	size_t n_before;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness_start(&harness);
	wire_open(&wire, &harness);
	wire_expect_compiler(&wire);
	n_before = harness_count_fds(&harness);
	frame.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(hm_frame_send(wire.fd, &frame), HM_OK);
		assert_true(wire_recv(&wire, &answer, 5000));
		assert_int_equal(answer.type, HM_FRAME_TEXT);
	}
	hm_fd_close(&frame.fd);
	/* One more turn of the loop: an answer may go out before a close. */
	(void)wire_number(&wire, HM_FRAME_STATS, "builds");
	assert_int_equal(harness_count_fds(&harness), n_before);
	wire_close(&wire);
}

/* One who asks and never reads is dropped; nobody else notices. */
static void
test_protocol__slow_reader__is_dropped_alone(void **state)
{
	struct wire_kernel kernel;
	struct wire slow;
	struct wire wire;
	uint64_t start_ms;

	(void)state;
	harness.environment[0] = "HUMMING_LIMITS_STALL_MS=500";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_get(&wire, "w4a16,m=1,n=8192,k=8192", "sm_90a", &kernel);
	wire_kernel_done(&kernel);
	wire_open(&slow, &harness);
	for (int i = 0; i < 60; i++)
		(void)wire_send_get(&slow, "w4a16,m=1,n=8192,k=8192", "sm_90a",
		    HM_LANE_INTERACTIVE, 0);
	start_ms = harness_now_ms();
	while (harness_now_ms() - start_ms < 1500) {
		wire_get(&wire, "w4a16,m=1,n=8192,k=8192", "sm_90a", &kernel);
		assert_int_equal(kernel.reply.tier, HM_TIER_HOT);
		assert_true(kernel.reply.wait_us < 250000);
		wire_kernel_done(&kernel);
	}
	/* What was sent before the end is still whole, then the end comes. */
	for (int i = 0; i < 60; i++) {
		if (!wire_recv_kernel(&slow, &kernel))
			break;
		assert_int_equal(kernel.reply.status, HM_REPLY_HIT);
		wire_kernel_done(&kernel);
		assert_true(i < 59);
	}
	wire_close(&slow);
	wire_close(&wire);
}

/* The same burst, read late but within the time: every reply arrives. */
static void
test_protocol__late_reader__gets_everything(void **state)
{
	struct wire_kernel kernel;
	struct wire slow;
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_get(&wire, "w4a16,m=1,n=8192,k=8192", "sm_90a", &kernel);
	wire_kernel_done(&kernel);
	wire_open(&slow, &harness);
	for (int i = 0; i < 60; i++)
		(void)wire_send_get(&slow, "w4a16,m=1,n=8192,k=8192", "sm_90a",
		    HM_LANE_INTERACTIVE, 0);
	(void)wire_number(&wire, HM_FRAME_STATS, "builds");
	for (uint32_t i = 0; i < 60; i++) {
		assert_true(wire_recv_kernel(&slow, &kernel));
		assert_int_equal(kernel.reply.status, HM_REPLY_HIT);
		wire_kernel_done(&kernel);
	}
	wire_close(&slow);
	wire_close(&wire);
}

/* Who connects and never says who it is holds a place for a while only. */
static void
test_protocol__no_hello__is_dropped_in_time(void **state)
{
	struct wire good;
	struct wire wire;

	(void)state;
	harness.environment[0] = "HUMMING_LIMITS_STALL_MS=300";
	harness_start(&harness);
	wire_open(&good, &harness);
	wire_connect(&wire, &harness);
	expect_closed(&wire);
	/* One who has said it may be silent for as long as it likes. */
	(void)wire_number(&good, HM_FRAME_STATS, "builds");
	wire_close(&good);
}

/* Clients that die at every step of a request. */
static void
test_protocol__clients_vanish__nothing_leaks(void **state)
{
	struct wire_kernel kernel;
	struct wire good;
	struct wire wire;
	size_t n_before;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness_start(&harness);
	wire_open_ready(&good, &harness);
	wire_get(&good, "w4a16,m=1", "sm_80", &kernel);
	wire_kernel_done(&kernel);
	n_before = harness_count_fds(&harness);
	for (int i = 0; i < 100; i++) {
		wire_connect(&wire, &harness);
		wire_close(&wire);
		wire_open(&wire, &harness);
		wire_close(&wire);
		wire_open(&wire, &harness);
		(void)wire_send_get(&wire, "w4a16,m=1", "sm_80",
		    HM_LANE_INTERACTIVE, 0);
		wire_close(&wire);
	}
	wire_open(&wire, &harness);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.tier, HM_TIER_HOT);
	wire_kernel_done(&kernel);
	wire_close(&wire);
	/* The ends of the last ones may not have been seen yet; each question
	 * is a turn of the loop. */
	for (int i = 0; i < 1000; i++) {
		if (harness_count_fds(&harness) <= n_before)
			break;
		(void)wire_number(&good, HM_FRAME_STATS, "builds");
	}
	assert_true(harness_count_fds(&harness) <= n_before);
	wire_close(&good);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_protocol__malformed_bytes__close_one_connection),
	    TEST(test_protocol__frames_out_of_turn__close_the_connection),
	    TEST(test_protocol__other_abi__is_refused_by_name),
	    TEST(test_protocol__unsealed_source__closes_the_connection),
	    TEST(test_protocol__unexpected_descriptors__do_not_leak),
	    TEST(test_protocol__slow_reader__is_dropped_alone),
	    TEST(test_protocol__late_reader__gets_everything),
	    TEST(test_protocol__no_hello__is_dropped_in_time),
	    TEST(test_protocol__clients_vanish__nothing_leaks),
	};

	return cmocka_run_group_tests_name("protocol", tests, NULL, NULL);
}
