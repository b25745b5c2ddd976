/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client_transport.c - connecting and moving frames, each within its
 * deadline.
 */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/deadline.h"
#include "client/transport.h"
#include "proto/fd.h"

#define SHORT_MS 200u
#define LONG_MS  8000u

/* A connected transport and the other end. */
struct pair {
	struct hm_transport *transport;
	int peer;
};

static void
pair_init(struct pair *pair)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX,
			     SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			     fds),
	    0);
	pair->transport = malloc(sizeof *pair->transport);
	assert_non_null(pair->transport);
	hm_transport_init(pair->transport);
	pair->transport->fd = fds[0];
	pair->peer = fds[1];
}

static void
pair_done(struct pair *pair)
{
	hm_transport_close(pair->transport);
	free(pair->transport);
	hm_fd_close(&pair->peer);
}

static void
test_client_transport__recv_of_silence_times_out(void **state)
{
	int64_t start = hm_deadline_now_ms();
	struct hm_frame frame;
	struct pair pair;

	(void)state;
	pair_init(&pair);
	assert_int_equal(
	    hm_transport_recv(pair.transport, hm_deadline_in(SHORT_MS), &frame),
	    HM_E_TIMEOUT);
	assert_true(hm_deadline_now_ms() - start >= SHORT_MS);
	assert_true(hm_deadline_now_ms() - start < SHORT_MS + 2000);
	pair_done(&pair);
}

/* A stopped daemon reads nothing: the socket fills up. */
static void
test_client_transport__send_to_a_full_socket_times_out(void **state)
{
	static uint8_t raw[HM_FRAME_INLINE_BYTES];
	struct hm_frame frame = {.type = HM_FRAME_PING,
	    .raw = raw,
	    .n_raw = sizeof raw,
	    .fd = -1};
	int64_t start;
	struct pair pair;
	int error = HM_OK;

	(void)state;
	pair_init(&pair);
	start = hm_deadline_now_ms();
	for (unsigned i = 0; i < 1000 && error == HM_OK; i++) {
		start = hm_deadline_now_ms();
		error = hm_transport_send(pair.transport, &frame,
		    hm_deadline_in(SHORT_MS));
	}
	assert_int_equal(error, HM_E_TIMEOUT);
	assert_true(hm_deadline_now_ms() - start < SHORT_MS + 2000);
	pair_done(&pair);
}

static void
test_client_transport__closed_peer_is_unavailable(void **state)
{
	struct hm_frame frame = {.type = HM_FRAME_PING, .fd = -1};
	struct pair pair;

	(void)state;
	pair_init(&pair);
	hm_fd_close(&pair.peer);
	assert_int_equal(
	    hm_transport_send(pair.transport, &frame, hm_deadline_in(LONG_MS)),
	    HM_E_UNAVAILABLE);
	assert_int_equal(
	    hm_transport_recv(pair.transport, hm_deadline_in(LONG_MS), &frame),
	    HM_E_UNAVAILABLE);
	hm_transport_close(pair.transport);
	assert_int_equal(
	    hm_transport_send(pair.transport, &frame, hm_deadline_in(LONG_MS)),
	    HM_E_UNAVAILABLE);
	pair_done(&pair);
}

static void
test_client_transport__refusal_of_no_code_of_ours_is_protocol(void **state)
{
	struct hm_refusal refusal = {.error = HM_E_DENIED, .message = "no"};
	struct hm_frame frame = {.type = HM_FRAME_ERROR, .fd = -1};
	struct hm_errbuf why = {.text = ""};
	uint8_t body[64];

	(void)state;
	frame.body = body;
	assert_int_equal(
	    hm_codec_pack_refusal(&refusal, body, sizeof body, &frame.n_body),
	    HM_OK);
	assert_int_equal(hm_transport_refusal(&frame, &why), HM_E_DENIED);
	assert_string_equal(why.text, "no");
	/* Field 1 as 1: no failure, so no answer that could be meant. */
	body[0] = 0x08;
	body[1] = 0x01;
	frame.n_body = 2;
	assert_int_equal(hm_transport_refusal(&frame, &why), HM_E_PROTOCOL);
}

/* --- connect ------------------------------------------------------------- */

struct listener {
	char folder[32];
	char path[64];
	int fd;
};

static void
listener_init(struct listener *listener, int type, int backlog)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	(void)snprintf(listener->folder, sizeof listener->folder,
	    "/tmp/hm-test-XXXXXX");
	assert_non_null(mkdtemp(listener->folder));
	(void)snprintf(listener->path, sizeof listener->path, "%s/s",
	    listener->folder);
	memcpy(address.sun_path, listener->path, strlen(listener->path) + 1);
	listener->fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	assert_true(listener->fd >= 0);
	assert_int_equal(
	    bind(listener->fd, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(listener->fd, backlog), 0);
}

static void
listener_done(struct listener *listener)
{
	hm_fd_close(&listener->fd);
	(void)unlink(listener->path);
	(void)rmdir(listener->folder);
}

static int
connect_to(struct hm_transport *transport, const char *path,
    uint32_t timeout_ms)
{
	struct hm_errbuf why = {.text = ""};
	int error;

	error = hm_transport_connect(transport, path,
	    hm_deadline_in(timeout_ms), &why);
	assert_true((error == HM_OK) == (why.text[0] == '\0'));
	return error;
}

static void
test_client_transport__connect_says_why_not(void **state)
{
	struct hm_transport *transport = malloc(sizeof *transport);
	struct listener listener;
	char path[200];

	(void)state;
	assert_non_null(transport);
	hm_transport_init(transport);
	assert_int_equal(connect_to(transport, "/nonexistent/s", LONG_MS),
	    HM_E_UNAVAILABLE);
	memset(path, 'x', sizeof path - 1);
	path[sizeof path - 1] = '\0';
	assert_int_equal(connect_to(transport, path, LONG_MS), HM_E_INVALID);
	/* A plain file, a socket of another type, one that nobody holds. */
	assert_int_equal(connect_to(transport, "/etc/passwd", LONG_MS),
	    HM_E_UNAVAILABLE);
	listener_init(&listener, SOCK_STREAM, 1);
	assert_int_equal(connect_to(transport, listener.path, LONG_MS),
	    HM_E_UNAVAILABLE);
	hm_fd_close(&listener.fd);
	assert_int_equal(connect_to(transport, listener.path, LONG_MS),
	    HM_E_UNAVAILABLE);
	listener_done(&listener);
	free(transport);
}

static void *
accept_later(void *argument)
{
	const struct listener *listener = argument;
	int fd;

	(void)poll(NULL, 0, 100);
	for (unsigned i = 0; i < 2; i++) {
		fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			(void)close(fd);
	}
	return NULL;
}

static void
test_client_transport__full_backlog_is_waited_for(void **state)
{
	struct hm_transport *transports = calloc(8, sizeof *transports);
	int64_t start = hm_deadline_now_ms();
	struct listener listener;
	pthread_t thread;
	size_t n;
	int error = HM_OK;

	(void)state;
	assert_non_null(transports);
	listener_init(&listener, SOCK_SEQPACKET, 0);
	for (n = 0; n < 8 && error == HM_OK; n++) {
		hm_transport_init(&transports[n]);
		error = connect_to(&transports[n], listener.path, SHORT_MS);
	}
	assert_int_equal(error, HM_E_TIMEOUT);
	assert_true(hm_deadline_now_ms() - start >= SHORT_MS);
	assert_int_equal(pthread_create(&thread, NULL, accept_later, &listener),
	    0);
	assert_int_equal(connect_to(&transports[n - 1], listener.path, LONG_MS),
	    HM_OK);
	(void)pthread_join(thread, NULL);
	for (size_t i = 0; i < n; i++)
		hm_transport_close(&transports[i]);
	listener_done(&listener);
	free(transports);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_client_transport__recv_of_silence_times_out),
	    cmocka_unit_test(
		test_client_transport__send_to_a_full_socket_times_out),
	    cmocka_unit_test(test_client_transport__closed_peer_is_unavailable),
	    cmocka_unit_test(
		test_client_transport__refusal_of_no_code_of_ours_is_protocol),
	    cmocka_unit_test(test_client_transport__connect_says_why_not),
	    cmocka_unit_test(test_client_transport__full_backlog_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
