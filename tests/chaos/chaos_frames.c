/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chaos_frames.c - a client sends malformed frames as fast as it can, each of
 * them over a connection that the daemon then closes; the hits of other clients
 * stay right, and take what they took before.
 *
 * HM_CHAOS_FRAMES sets how many frames (1000); HM_CHAOS_FACTOR by how much the
 * others' p99 may rise (0 = only printed: speed is no test, on a machine that
 * others use too).
 */
#include <sys/socket.h>
#include <sys/un.h>

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/fd.h"
#include "tests/chaos/chaos.h"

#define N_HONEST 4u
/* Undisturbed ones: more of them at full scale, as other users of the machine
 * come and go. */
#define N_SAMPLES(n_frames) (1000u + (n_frames) / 100u)

static struct harness harness;
static struct wire honest[N_HONEST];
static uint64_t samples[1u << 20];
static size_t n_samples;

/* The one that attacks, on a thread of its own. */
struct attacker {
	pthread_t thread;
	uint64_t seed;
	uint64_t n_frames; /* to send */
	atomic_uint_fast64_t n_sent;
	atomic_bool is_done;
	bool is_refused; /* a fresh connection was not served */
};

static struct attacker attacker;

static int
setup(void **state)
{
	(void)state;
	harness_init(&harness);
	harness.environment[0] = "HUMMING_WORKERS=1";
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	harness_done(&harness);
	return 0;
}

static uint64_t
now_us(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static uint64_t
attacker_random(uint64_t n)
{
	attacker.seed ^= attacker.seed >> 12;
	attacker.seed ^= attacker.seed << 25;
	attacker.seed ^= attacker.seed >> 27;
	return (attacker.seed * 0x2545f4914f6cdd1du >> 16) % n;
}

/* Bytes that look like a frame up to a point. */
static size_t
make_bad_frame(uint8_t *bytes, size_t size)
{
	static const uint8_t header[] = {'H', 'U', 'M', 'M', 1, 0};
	size_t n = 1 + attacker_random(attacker_random(16) == 0 ? size : 200);

	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)attacker_random(256);
	if (n < HM_FRAME_HEADER_BYTES || attacker_random(4) == 0)
		return n;
	memcpy(bytes, header, sizeof header);
	bytes[6] = (uint8_t)attacker_random(12);
	if (bytes[6] == HM_FRAME_STOP) /* which a private daemon obeys */
		bytes[6] = HM_FRAME_GET;
	bytes[7] = 0;
	/* Half with a body of the size that they say, full of noise. */
	memset(bytes + 12, 0, 4);
	bytes[12] = (uint8_t)(attacker_random(2) == 0
				  ? 255
				  : (n - HM_FRAME_HEADER_BYTES) & 0xff);
	return n;
}

/* A connection that has said HELLO and was welcomed; -1 = it was not. No assert
 * on this thread. */
static int
attack_open(void)
{
	static uint8_t buffer[HM_FRAME_MAX_BYTES];
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct hm_hello hello = {.schema = HM_SCHEMA, .program = "attacker"};
	uint8_t body[128];
	struct hm_frame frame = {.type = HM_FRAME_HELLO,
	    .request_id = 1,
	    .body = body,
	    .fd = -1};
	struct pollfd wait = {.events = POLLIN};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof address.sun_path, "%s",
	    harness.socket);
	wait.fd = fd;
	if (fd != -1 &&
	    connect(fd, (const struct sockaddr *)&address, sizeof address) ==
		0 &&
	    hm_codec_pack_hello(&hello, body, sizeof body, &frame.n_body) ==
		HM_OK &&
	    hm_frame_send(fd, &frame) == HM_OK &&
	    poll(&wait, 1, HARNESS_WAIT_MS) == 1 &&
	    hm_frame_recv(fd, buffer, &frame) == HM_OK &&
	    frame.type == HM_FRAME_WELCOME)
		return fd;
	hm_fd_close(&fd);
	return -1;
}

/* Until the daemon has hung up; what it takes for harmless may be answered. */
static void
attack_once(void)
{
	static uint8_t bytes[HM_FRAME_MAX_BYTES];
	struct pollfd wait = {.fd = attack_open(), .events = POLLIN};

	attacker.is_refused |= wait.fd == -1;
	for (int i = 0; i < 8 && wait.fd != -1; i++) {
		size_t n = make_bad_frame(bytes, sizeof bytes);

		if (send(wait.fd, bytes, n, MSG_NOSIGNAL) == -1)
			break;
		(void)atomic_fetch_add(&attacker.n_sent, 1);
		if (poll(&wait, 1, 1) == 1 &&
		    recv(wait.fd, bytes, sizeof bytes, MSG_DONTWAIT) <= 0)
			break;
	}
	hm_fd_close(&wait.fd);
}

static void *
attacker_main(void *argument)
{
	const struct sched_param none = {.sched_priority = 0};

	(void)argument;
	/* What it takes from the machine is not what is measured: it runs when
	 * nobody else wants to, and whoever wakes up does not wait for it. */
	(void)sched_setscheduler(0, SCHED_IDLE, &none);
	while (atomic_load(&attacker.n_sent) < attacker.n_frames &&
	       !attacker.is_refused)
		attack_once();
	atomic_store(&attacker.is_done, true);
	return NULL;
}

/* One hit of an honest client. */
static void
ask(size_t which)
{
	struct wire_kernel kernel;
	uint64_t begun_us = now_us();

	wire_get(&honest[which], "w4a16,m=1,n=8192,k=8192", "sm_80", &kernel);
	if (n_samples < sizeof samples / sizeof samples[0])
		samples[n_samples++] = now_us() - begun_us;
	assert_int_equal(kernel.reply.tier, HM_TIER_HOT);
	wire_kernel_done(&kernel);
}

/* A thousand a second: a machine that is never idle would measure itself. */
static void
ask_paced(size_t i)
{
	ask(i % N_HONEST);
	(void)poll(NULL, 0, 1);
}

static int
compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* The p99 of the samples so far, which begin anew. */
static uint64_t
take_p99(const char *what)
{
	uint64_t p99;

	assert_true(n_samples >= 100);
	qsort(samples, n_samples, sizeof samples[0], compare);
	p99 = samples[n_samples - 1 - n_samples / 100];
	print_message("%s: %zu hits, p50 %llu us, p99 %llu us\n", what,
	    n_samples, (unsigned long long)samples[n_samples / 2],
	    (unsigned long long)p99);
	n_samples = 0;
	return p99;
}

static void
test_chaos__malformed_frames__cost_their_sender_only(void **state)
{
	const struct sched_param first = {.sched_priority = 1};
	uint64_t factor = harness_number("HM_CHAOS_FACTOR", 0);
	uint64_t before_us, during_us;
	struct wire_kernel kernel;
	size_t n_fds;

	(void)state;
	attacker.n_frames = harness_number("HM_CHAOS_FRAMES", 1000);
	harness_start(&harness);
	for (size_t i = 0; i < N_HONEST; i++)
		wire_open(&honest[i], &harness);
	wire_expect_compiler(&honest[0]);
	wire_get(&honest[0], "w4a16,m=1,n=8192,k=8192", "sm_80", &kernel);
	wire_kernel_done(&kernel);
	n_fds = harness_count_fds(&harness);
	/* The daemon's answer is measured, not the wait for a core that some
	 * other program has. Only root may; others measure that too. */
	(void)sched_setscheduler(0, SCHED_FIFO, &first);
	(void)sched_setscheduler(harness.pid, SCHED_FIFO, &first);
	for (size_t i = 0; i < N_SAMPLES(attacker.n_frames); i++)
		ask_paced(i);
	before_us = take_p99("undisturbed");
	attacker.seed = chaos_random(1u << 30) | 1u;
	assert_int_equal(
	    pthread_create(&attacker.thread, NULL, attacker_main, NULL), 0);
	for (size_t i = 0; !atomic_load(&attacker.is_done) || n_samples < 200;
	     i++)
		ask_paced(i);
	assert_int_equal(pthread_join(attacker.thread, NULL), 0);
	assert_false(attacker.is_refused);
	print_message("%llu malformed frames\n",
	    (unsigned long long)atomic_load(&attacker.n_sent));
	during_us = take_p99("under attack");
	for (size_t i = 0; i < 100; i++)
		ask_paced(i);
	assert_true(harness_count_fds(&harness) <= n_fds);
	assert_true(factor == 0 || during_us <= factor * before_us);
	for (size_t i = 0; i < N_HONEST; i++)
		wire_close(&honest[i]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		test_chaos__malformed_frames__cost_their_sender_only, setup,
		teardown),
	};

	return cmocka_run_group_tests_name("chaos_frames", tests, NULL, NULL);
}
