/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_frame.c - frames over a real socket pair, and packets that lie.
 *
 * No test may leak a descriptor: each compares the lowest free number before
 * and after.
 */
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/fd.h"
#include "proto/frame.h"

struct pair {
	int ends[2];
	int lowest_free; /* before the pair was made */
	uint8_t *buffer; /* exactly HM_FRAME_MAX_BYTES, so that asan sees */
};

static int
lowest_free_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int number = fd;

	assert_int_not_equal(fd, -1);
	hm_fd_close(&fd);
	return number;
}

static int
pair_open(void **state)
{
	static struct pair pair;

	pair.lowest_free = lowest_free_fd();
	pair.buffer = malloc(HM_FRAME_MAX_BYTES);
	if (pair.buffer == NULL)
		return -1;
	*state = &pair;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.ends);
}

static int
pair_close(void **state)
{
	struct pair *pair = *state;

	hm_fd_close(&pair->ends[0]);
	hm_fd_close(&pair->ends[1]);
	free(pair->buffer);
	return lowest_free_fd() == pair->lowest_free ? 0 : -1;
}

static int
memory_with(const char *text)
{
	int fd = -1;

	assert_int_equal(hm_fd_seal("hm-test", text, strlen(text), &fd), HM_OK);
	return fd;
}

/* Any bytes with any descriptors, as a peer that is not ours would send. */
static void
send_packet(int socket_fd, const uint8_t *bytes, size_t n_bytes, const int *fds,
    size_t n_fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {
	    0};
	struct iovec iov = {.iov_len = n_bytes};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *header;

	memcpy(&iov.iov_base, &bytes, sizeof iov.iov_base);
	if (n_fds > 0) {
		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(header), fds, n_fds * sizeof(int));
	}
	assert_int_equal(sendmsg(socket_fd, &message, MSG_NOSIGNAL), n_bytes);
}

/* A good header, to be spoilt. Type PING, id 7. */
static void
good_header(uint8_t header[HM_FRAME_HEADER_BYTES], uint8_t n_body)
{
	const uint8_t good[HM_FRAME_HEADER_BYTES] = {'H', 'U', 'M', 'M', 1, 0,
	    HM_FRAME_PING, 0, 7, 0, 0, 0, n_body};

	memcpy(header, good, sizeof good);
}

static void
test_frame__header_has_golden_bytes(void **state)
{
	const uint8_t golden[] = {'H', 'U', 'M', 'M', 1, 0, 193, 0x5a, 0x04,
	    0x03, 0x02, 0x01, 3, 0, 0, 0, 'b', 'o', 'd', 'r', 'a'};
	const struct pair *pair = *state;
	const struct hm_frame frame = {.type = HM_FRAME_WORKER_READY,
	    .flags = 0x5a,
	    .request_id = 0x01020304u,
	    .body = (const uint8_t *)"bod",
	    .n_body = 3,
	    .raw = (const uint8_t *)"ra",
	    .n_raw = 2,
	    .fd = -1};

	assert_int_equal(hm_frame_send(pair->ends[0], &frame), HM_OK);
	assert_int_equal(
	    recv(pair->ends[1], pair->buffer, HM_FRAME_MAX_BYTES, 0),
	    sizeof golden);
	assert_memory_equal(pair->buffer, golden, sizeof golden);
}

static void
test_frame__frame_without_descriptor_arrives(void **state)
{
	const struct pair *pair = *state;
	const struct hm_frame sent = {.type = HM_FRAME_KERNEL,
	    .flags = 255,
	    .request_id = UINT32_MAX,
	    .body = (const uint8_t *)"body",
	    .n_body = 4,
	    .raw = (const uint8_t *)"raw bytes",
	    .n_raw = 9,
	    .fd = -1};
	struct hm_frame got;

	assert_int_equal(hm_frame_send(pair->ends[0], &sent), HM_OK);
	assert_int_equal(hm_frame_recv(pair->ends[1], pair->buffer, &got),
	    HM_OK);
	assert_int_equal(got.type, HM_FRAME_KERNEL);
	assert_int_equal(got.flags, 255);
	assert_int_equal(got.request_id, UINT32_MAX);
	assert_int_equal(got.n_body, 4);
	assert_memory_equal(got.body, "body", 4);
	assert_int_equal(got.n_raw, 9);
	assert_memory_equal(got.raw, "raw bytes", 9);
	assert_int_equal(got.fd, -1);
}

static void
test_frame__descriptor_arrives_close_on_exec(void **state)
{
	const struct pair *pair = *state;
	struct hm_frame sent = {.type = HM_FRAME_JOB};
	struct hm_frame got;
	const void *bytes;
	size_t n_bytes;

	sent.fd = memory_with("through the socket");
	assert_int_equal(hm_frame_send(pair->ends[0], &sent), HM_OK);
	hm_fd_close(&sent.fd);
	assert_int_equal(hm_frame_recv(pair->ends[1], pair->buffer, &got),
	    HM_OK);
	assert_int_equal(got.n_body, 0);
	assert_int_equal(got.n_raw, 0);
	assert_int_not_equal(got.fd, -1);
	assert_int_equal(fcntl(got.fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(hm_fd_map_sealed(got.fd, 100, &bytes, &n_bytes),
	    HM_OK);
	assert_memory_equal(bytes, "through the socket", n_bytes);
	hm_fd_unmap(bytes, n_bytes);
	hm_fd_close(&got.fd);
}

static void
test_frame__largest_packet_fits_and_one_more_is_refused(void **state)
{
	const size_t room = HM_FRAME_MAX_BYTES - HM_FRAME_HEADER_BYTES;
	const struct pair *pair = *state;
	uint8_t *bytes = calloc(1, room + 1);
	struct hm_frame frame = {.type = HM_FRAME_PART, .fd = -1};
	struct hm_frame got;

	assert_non_null(bytes);
	memset(bytes, 0x77, room + 1);
	frame.body = bytes;
	frame.n_body = 1000;
	frame.raw = bytes;
	frame.n_raw = room - 1000;
	assert_int_equal(hm_frame_send(pair->ends[0], &frame), HM_OK);
	assert_int_equal(hm_frame_recv(pair->ends[1], pair->buffer, &got),
	    HM_OK);
	assert_int_equal(got.n_body, 1000);
	assert_int_equal(got.n_raw, room - 1000);
	assert_memory_equal(got.raw, bytes, got.n_raw);

	frame.n_raw++;
	assert_int_equal(hm_frame_send(pair->ends[0], &frame), HM_E_INVALID);
	frame.n_raw = SIZE_MAX;
	assert_int_equal(hm_frame_send(pair->ends[0], &frame), HM_E_INVALID);
	frame.n_raw = 0;
	frame.n_body = room + 1;
	assert_int_equal(hm_frame_send(pair->ends[0], &frame), HM_E_INVALID);
	assert_int_equal(hm_frame_recv(pair->ends[1], pair->buffer, &got),
	    HM_E_BUSY);
	free(bytes);
}

static void
test_frame__bad_frame_is_not_sent(void **state)
{
	const struct pair *pair = *state;
	struct hm_frame frame = {.type = 256, .fd = -1};
	struct hm_frame got;

	assert_int_equal(hm_frame_send(pair->ends[0], &frame), HM_E_INVALID);
	frame.type = HM_FRAME_PING;
	frame.flags = 256;
	assert_int_equal(hm_frame_send(pair->ends[0], &frame), HM_E_INVALID);
	frame.flags = 0;
	frame.n_body = 1;
	assert_int_equal(hm_frame_send(pair->ends[0], &frame), HM_E_INVALID);
	frame.n_body = 0;
	frame.n_raw = 1;
	assert_int_equal(hm_frame_send(pair->ends[0], &frame), HM_E_INVALID);
	frame.n_raw = 0;
	frame.fd = 1 << 20; /* no such descriptor */
	assert_int_equal(hm_frame_send(pair->ends[0], &frame), HM_E_SYSTEM);
	assert_int_equal(errno, EBADF);
	assert_int_equal(hm_frame_recv(pair->ends[1], pair->buffer, &got),
	    HM_E_BUSY);
}

static void
expect_refused(const struct pair *pair, const uint8_t *bytes, size_t n_bytes,
    int expected)
{
	int free_before = lowest_free_fd();
	int fd = memory_with("x");
	struct hm_frame got, before;

	memset(&got, 0xa5, sizeof got);
	before = got;
	send_packet(pair->ends[0], bytes, n_bytes, &fd, 1);
	hm_fd_close(&fd);
	assert_int_equal(hm_frame_recv(pair->ends[1], pair->buffer, &got),
	    expected);
	assert_memory_equal(&got, &before, sizeof got);
	/* The descriptor of the packet was closed. */
	assert_int_equal(lowest_free_fd(), free_before);
}

static void
test_frame__header_that_lies_is_refused(void **state)
{
	const struct pair *pair = *state;
	uint8_t bytes[HM_FRAME_HEADER_BYTES + 4] = {0};

	for (size_t i = 0; i < 4; i++) {
		good_header(bytes, 4);
		bytes[i] ^= 0x20;
		expect_refused(pair, bytes, sizeof bytes, HM_E_PROTOCOL);
	}
	good_header(bytes, 4);
	bytes[4] = 2;
	expect_refused(pair, bytes, sizeof bytes, HM_E_VERSION);
	good_header(bytes, 4);
	bytes[5] = 1;
	expect_refused(pair, bytes, sizeof bytes, HM_E_VERSION);
	good_header(bytes, 5);
	expect_refused(pair, bytes, sizeof bytes, HM_E_PROTOCOL);
	good_header(bytes, 4);
	bytes[15] = 0xff;
	expect_refused(pair, bytes, sizeof bytes, HM_E_PROTOCOL);
}

static void
test_frame__short_packet_is_refused(void **state)
{
	const struct pair *pair = *state;
	uint8_t bytes[HM_FRAME_HEADER_BYTES];

	good_header(bytes, 0);
	for (size_t n = 1; n < sizeof bytes; n++)
		expect_refused(pair, bytes, n, HM_E_PROTOCOL);
	/* An empty packet looks like end of file, with or without one. */
	expect_refused(pair, bytes, 0, HM_E_UNAVAILABLE);
}

static void
test_frame__too_long_packet_is_refused(void **state)
{
	const struct pair *pair = *state;
	uint8_t *bytes = calloc(1, HM_FRAME_MAX_BYTES + 1);

	assert_non_null(bytes);
	good_header(bytes, 0);
	expect_refused(pair, bytes, HM_FRAME_MAX_BYTES + 1, HM_E_PROTOCOL);
	free(bytes);
}

static void
test_frame__more_than_one_descriptor_is_refused(void **state)
{
	const struct pair *pair = *state;
	uint8_t bytes[HM_FRAME_HEADER_BYTES];
	struct hm_frame got;
	int fds[8];

	good_header(bytes, 0);
	for (size_t n = 2; n <= 8; n++) {
		int free_before = lowest_free_fd();

		for (size_t i = 0; i < n; i++)
			fds[i] = memory_with("x");
		send_packet(pair->ends[0], bytes, sizeof bytes, fds, n);
		for (size_t i = 0; i < n; i++)
			hm_fd_close(&fds[i]);
		assert_int_equal(
		    hm_frame_recv(pair->ends[1], pair->buffer, &got),
		    HM_E_PROTOCOL);
		assert_int_equal(lowest_free_fd(), free_before);
	}
	/* And the connection itself is still usable. */
	send_packet(pair->ends[0], bytes, sizeof bytes, NULL, 0);
	assert_int_equal(hm_frame_recv(pair->ends[1], pair->buffer, &got),
	    HM_OK);
	assert_int_equal(got.type, HM_FRAME_PING);
}

static void
test_frame__nothing_there_is_busy(void **state)
{
	const struct pair *pair = *state;
	struct hm_frame got;

	assert_int_equal(hm_frame_recv(pair->ends[1], pair->buffer, &got),
	    HM_E_BUSY);
}

/* A blocking socket with a time to wait: what comes within it, or busy. */
static void
test_frame__wait_ends_with_a_frame_or_the_socket_s_timeout(void **state)
{
	const struct timeval wait = {.tv_usec = 20000};
	const struct hm_frame frame = {.type = HM_FRAME_PING,
	    .request_id = 7,
	    .fd = -1};
	struct pair *pair = *state;
	struct hm_frame got;

	assert_int_equal(setsockopt(pair->ends[1], SOL_SOCKET, SO_RCVTIMEO,
			     &wait, sizeof wait),
	    0);
	assert_int_equal(hm_frame_recv_wait(pair->ends[1], pair->buffer, &got),
	    HM_E_BUSY);
	assert_int_equal(hm_frame_send(pair->ends[0], &frame), HM_OK);
	assert_int_equal(hm_frame_recv_wait(pair->ends[1], pair->buffer, &got),
	    HM_OK);
	assert_int_equal(got.request_id, 7);
	assert_int_equal(hm_frame_recv(pair->ends[1], pair->buffer, &got),
	    HM_E_BUSY);
	hm_fd_close(&pair->ends[0]);
	assert_int_equal(hm_frame_recv_wait(pair->ends[1], pair->buffer, &got),
	    HM_E_UNAVAILABLE);
}

static void
test_frame__full_socket_is_busy(void **state)
{
	const struct pair *pair = *state;
	const struct hm_frame frame = {.type = HM_FRAME_PART,
	    .raw = pair->buffer,
	    .n_raw = 60000,
	    .fd = -1};
	struct hm_frame got;
	int error = HM_OK;
	int n_sent = 0;

	memset(pair->buffer, 1, HM_FRAME_MAX_BYTES);
	while (error == HM_OK && n_sent < 10000) {
		error = hm_frame_send(pair->ends[0], &frame);
		n_sent++;
	}
	assert_int_equal(error, HM_E_BUSY);
	/* None was cut, none was lost. */
	for (int i = 0; i < n_sent - 1; i++) {
		assert_int_equal(
		    hm_frame_recv(pair->ends[1], pair->buffer, &got), HM_OK);
		assert_int_equal(got.n_raw, 60000);
	}
	assert_int_equal(hm_frame_recv(pair->ends[1], pair->buffer, &got),
	    HM_E_BUSY);
}

static void
test_frame__peer_that_left_is_unavailable(void **state)
{
	struct pair *pair = *state;
	const struct hm_frame frame = {.type = HM_FRAME_PING, .fd = -1};
	struct hm_frame got;

	assert_int_equal(hm_frame_send(pair->ends[0], &frame), HM_OK);
	hm_fd_close(&pair->ends[0]);
	/* What was sent before is still read. */
	assert_int_equal(hm_frame_recv(pair->ends[1], pair->buffer, &got),
	    HM_OK);
	assert_int_equal(hm_frame_recv(pair->ends[1], pair->buffer, &got),
	    HM_E_UNAVAILABLE);
	assert_int_equal(hm_frame_send(pair->ends[1], &frame),
	    HM_E_UNAVAILABLE);
}

/* SEQPACKET raises no SIGPIPE, but a stream (a wrong descriptor passed to a
 * worker, say) would, and end this program, without MSG_NOSIGNAL. */
static void
test_frame__stream_whose_peer_left_raises_no_signal(void **state)
{
	const struct hm_frame frame = {.type = HM_FRAME_PING, .fd = -1};
	int ends[2];

	(void)state;
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	hm_fd_close(&ends[0]);
	assert_int_equal(hm_frame_send(ends[1], &frame), HM_E_UNAVAILABLE);
	hm_fd_close(&ends[1]);
}

static void
test_frame__peer_that_left_unread_is_unavailable(void **state)
{
	struct pair *pair = *state;
	const struct hm_frame frame = {.type = HM_FRAME_PING, .fd = -1};
	struct hm_frame got;

	assert_int_equal(hm_frame_send(pair->ends[1], &frame), HM_OK);
	hm_fd_close(&pair->ends[0]); /* with data unread: ECONNRESET */
	assert_int_equal(hm_frame_recv(pair->ends[1], pair->buffer, &got),
	    HM_E_UNAVAILABLE);
}

static void
test_frame__not_a_socket_is_a_system_error(void **state)
{
	const struct pair *pair = *state;
	const struct hm_frame frame = {.type = HM_FRAME_PING, .fd = -1};
	struct hm_frame got;

	assert_int_equal(hm_frame_send(-1, &frame), HM_E_SYSTEM);
	assert_int_equal(errno, EBADF);
	assert_int_equal(hm_frame_recv(-1, pair->buffer, &got), HM_E_SYSTEM);
	assert_int_equal(errno, EBADF);
}

/* A full descriptor table here is not the peer's fault. */
static void
test_frame__own_full_table_is_a_system_error(void **state)
{
	const struct pair *pair = *state;
	uint8_t bytes[HM_FRAME_HEADER_BYTES];
	struct rlimit limit, low;
	struct hm_frame got;
	int fd = memory_with("x");
	int error, error_number;

	good_header(bytes, 0);
	send_packet(pair->ends[0], bytes, sizeof bytes, &fd, 1);
	hm_fd_close(&fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = (rlim_t)lowest_free_fd();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	error = hm_frame_recv(pair->ends[1], pair->buffer, &got);
	error_number = errno;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(error, HM_E_SYSTEM);
	assert_int_equal(error_number, EMFILE);
}

/* Capabilities belong to a thread, so only this one gives them up. */
static int
drop_capabilities(void)
{
	struct __user_cap_header_struct header = {
	    .version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	if (syscall(SYS_capget, &header, data) == -1)
		return -1;
	data[0].effective &= ~(1u << CAP_SYS_ADMIN | 1u << CAP_SYS_RESOURCE);
	return (int)syscall(SYS_capset, &header, data);
}

struct flood {
	const struct pair *pair;
	int fd;
	int error; /* of the first send that did not go well */
};

static void *
flood_thread(void *arg)
{
	struct flood *flood = arg;
	const struct hm_frame frame = {.type = HM_FRAME_JOB, .fd = flood->fd};

	flood->error = drop_capabilities() == 0 ? HM_OK : HM_E_INTERNAL;
	for (int i = 0; i < 1000 && flood->error == HM_OK; i++)
		flood->error = hm_frame_send(flood->pair->ends[0], &frame);
	return NULL;
}

/* More descriptors in flight than a process may have open: ETOOMANYREFS. */
static void
test_frame__too_many_descriptors_in_flight_is_unsupported(void **state)
{
	struct flood flood = {.pair = *state, .fd = memory_with("x")};
	struct rlimit limit, low;
	pthread_t thread;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = 32;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(pthread_create(&thread, NULL, flood_thread, &flood),
	    0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	hm_fd_close(&flood.fd);
	assert_int_equal(flood.error, HM_E_UNSUPPORTED);
}

/* Whatever parses lies inside the packet, whole. */
static void
test_frame__random_packets_parse_within_bounds(void **state)
{
	const struct pair *pair = *state;
	uint64_t random = 0x9e3779b97f4a7c15u;
	struct hm_frame frame;
	size_t n_parsed = 0;

	for (int round = 0; round < 100000; round++) {
		uint8_t *packet = pair->buffer;
		size_t n = 0;

		for (; n < 40; n++) {
			random = random * 6364136223846793005u + 1;
			packet[n] = (uint8_t)(random >> 56);
		}
		n = random >> 32 & 31;
		if (round % 2 == 0)
			good_header(packet, (uint8_t)(random >> 40 & 15));
		if (hm_frame_parse(packet, n, &frame) != HM_OK)
			continue;
		n_parsed++;
		assert_ptr_equal(frame.body, packet + HM_FRAME_HEADER_BYTES);
		assert_ptr_equal(frame.raw, frame.body + frame.n_body);
		assert_ptr_equal(frame.raw + frame.n_raw, packet + n);
		assert_int_equal(frame.fd, -1);
	}
	assert_true(n_parsed > 1000);
}

#define PAIR_TEST(test)                                                        \
	cmocka_unit_test_setup_teardown(test, pair_open, pair_close)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    PAIR_TEST(test_frame__header_has_golden_bytes),
	    PAIR_TEST(test_frame__frame_without_descriptor_arrives),
	    PAIR_TEST(test_frame__descriptor_arrives_close_on_exec),
	    PAIR_TEST(test_frame__largest_packet_fits_and_one_more_is_refused),
	    PAIR_TEST(test_frame__bad_frame_is_not_sent),
	    PAIR_TEST(test_frame__header_that_lies_is_refused),
	    PAIR_TEST(test_frame__short_packet_is_refused),
	    PAIR_TEST(test_frame__too_long_packet_is_refused),
	    PAIR_TEST(test_frame__more_than_one_descriptor_is_refused),
	    PAIR_TEST(test_frame__nothing_there_is_busy),
	    PAIR_TEST(
		test_frame__wait_ends_with_a_frame_or_the_socket_s_timeout),
	    PAIR_TEST(test_frame__full_socket_is_busy),
	    PAIR_TEST(test_frame__peer_that_left_is_unavailable),
	    PAIR_TEST(test_frame__stream_whose_peer_left_raises_no_signal),
	    PAIR_TEST(test_frame__peer_that_left_unread_is_unavailable),
	    PAIR_TEST(test_frame__not_a_socket_is_a_system_error),
	    PAIR_TEST(test_frame__own_full_table_is_a_system_error),
	    PAIR_TEST(
		test_frame__too_many_descriptors_in_flight_is_unsupported),
	    PAIR_TEST(test_frame__random_packets_parse_within_bounds),
	};

	return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
