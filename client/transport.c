/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.c - see transport.h.
 */
#include "client/transport.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "client/deadline.h"
#include "jit/config.h"
#include "proto/fd.h"

#define HELLO_ID 1u
/* A full backlog is gone within a turn of the daemon's loop. */
#define CONNECT_PAUSE_MAX_MS 16u
/* How long a receive waits by itself before poll does, with what is left of the
 * deadline: long enough for a hit, and never more than is left. */
#define RECV_WAIT_MS 20

void
hm_transport_init(struct hm_transport *transport)
{
	uintptr_t past;

	memset(transport, 0, sizeof *transport);
	transport->fd = -1;
	past = (uintptr_t)transport->room % HM_TRANSPORT_ALIGN;
	transport->buffer = transport->room + (HM_TRANSPORT_ALIGN - past);
}

void
hm_transport_close(struct hm_transport *transport)
{
	hm_fd_close(&transport->fd);
}

/* Why connect() failed, in our terms. */
static int
transport_connect_error(int number)
{
	switch (number) {
	case ENOENT:
	case ENOTDIR:
	case ECONNREFUSED:
	case ECONNRESET:
	case EPROTOTYPE: /* a socket of another kind: not a hummingd's */
		return HM_E_UNAVAILABLE;
	case EACCES:
	case EPERM:
		return HM_E_DENIED;
	default:
		return HM_E_SYSTEM;
	}
}

/* Only connect had to be non-blocking: a send says so each time, and a receive
 * waits for RECV_WAIT_MS. */
static int
transport_make_blocking(int fd)
{
	const struct timeval wait = {.tv_usec = RECV_WAIT_MS * 1000L};

	if (fcntl(fd, F_SETFL, 0) == -1 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == -1)
		return HM_E_SYSTEM;
	return HM_OK;
}

int
hm_transport_connect(struct hm_transport *transport, const char *path,
    int64_t deadline, struct hm_errbuf *errbuf)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint32_t pause_ms = 1;
	int error = HM_OK;
	int fd;

	hm_transport_close(transport);
	if (strlen(path) >= sizeof address.sun_path) {
		hm_errbuf_set(errbuf, "%s: longer than a socket's path may be",
		    path);
		return HM_E_INVALID;
	}
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1) {
		hm_errbuf_set(errbuf, "socket: %s", strerror(errno));
		return HM_E_SYSTEM;
	}
	while (connect(fd, (const struct sockaddr *)&address, sizeof address) ==
	       -1) {
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN) {
			error = transport_connect_error(errno);
			hm_errbuf_set(errbuf, "%s: %s", path, strerror(errno));
			break;
		}
		if (hm_deadline_left_ms(deadline) == 0) {
			error = HM_E_TIMEOUT;
			hm_errbuf_set(errbuf,
			    "%s: hummingd accepts no connection", path);
			break;
		}
		hm_deadline_pause(deadline, pause_ms);
		if (pause_ms < CONNECT_PAUSE_MAX_MS)
			pause_ms *= 2;
	}
	if (error == HM_OK && transport_make_blocking(fd) != HM_OK) {
		error = HM_E_SYSTEM;
		hm_errbuf_set(errbuf, "%s: %s", path, strerror(errno));
	}
	if (error != HM_OK)
		hm_fd_close(&fd);
	else
		transport->fd = fd;
	return error;
}

/* Wait until the socket is ready for `events` (or broken, which the next call
 * on it then reports). */
static int
transport_wait(const struct hm_transport *transport, short events,
    int64_t deadline)
{
	struct pollfd wait = {.fd = transport->fd, .events = events};
	int left, n;

	do {
		left = hm_deadline_left_ms(deadline);
		if (left == 0)
			return HM_E_TIMEOUT;
		n = poll(&wait, 1, left);
	} while (n == 0 || (n == -1 && errno == EINTR));
	return n == -1 ? HM_E_SYSTEM : HM_OK;
}

int
hm_transport_send(struct hm_transport *transport, const struct hm_frame *frame,
    int64_t deadline)
{
	int error;

	if (transport->fd == -1)
		return HM_E_UNAVAILABLE;
	while ((error = hm_frame_send(transport->fd, frame)) == HM_E_BUSY) {
		error = transport_wait(transport, POLLOUT, deadline);
		if (error != HM_OK)
			break;
	}
	return error;
}

int
hm_transport_recv(struct hm_transport *transport, int64_t deadline,
    struct hm_frame *frame_out)
{
	int left = hm_deadline_left_ms(deadline);
	int error;

	if (transport->fd == -1)
		return HM_E_UNAVAILABLE;
	/* The usual way: one call that waits and receives. */
	if (left == -1 || left >= RECV_WAIT_MS)
		error = hm_frame_recv_wait(transport->fd, transport->buffer,
		    frame_out);
	else
		error =
		    hm_frame_recv(transport->fd, transport->buffer, frame_out);
	while (error == HM_E_BUSY) {
		error = transport_wait(transport, POLLIN, deadline);
		if (error == HM_OK)
			error = hm_frame_recv(transport->fd, transport->buffer,
			    frame_out);
	}
	return error;
}

int
hm_transport_refusal(const struct hm_frame *frame, struct hm_errbuf *errbuf)
{
	struct hm_refusal refusal;
	int error;

	error = hm_codec_unpack_refusal(frame->body, frame->n_body, &refusal);
	if (error != HM_OK)
		return error;
	if (refusal.error >= HM_OK || refusal.error < HM_E_INTERNAL)
		return HM_E_PROTOCOL;
	hm_errbuf_set(errbuf, "%s",
	    refusal.message[0] != '\0' ? refusal.message
				       : hm_strerror(refusal.error));
	return refusal.error;
}

static int
transport_check_welcome(const struct hm_welcome *welcome,
    struct hm_errbuf *errbuf)
{
	const char *what;
	uint32_t theirs, ours;

	if (welcome->schema != HM_SCHEMA) {
		what = "protocol schema";
		theirs = welcome->schema;
		ours = HM_SCHEMA;
	} else if (welcome->kernel_abi != HM_KERNEL_ABI) {
		what = "kernel ABI";
		theirs = welcome->kernel_abi;
		ours = HM_KERNEL_ABI;
	} else if (welcome->pack_layout != HM_PACK_LAYOUT) {
		what = "pack layout";
		theirs = welcome->pack_layout;
		ours = HM_PACK_LAYOUT;
	} else {
		return HM_OK;
	}
	hm_errbuf_set(errbuf,
	    "hummingd %s has %s %u, this client %s has %u: install the same "
	    "release of both",
	    welcome->version, what, theirs, HM_VERSION, ours);
	return HM_E_VERSION;
}

/* The answer to HELLO. */
static int
transport_recv_welcome(struct hm_transport *transport, int64_t deadline,
    struct hm_errbuf *errbuf)
{
	struct hm_frame frame;
	int error;

	error = hm_transport_recv(transport, deadline, &frame);
	if (error != HM_OK)
		return error;
	if (frame.fd != -1) {
		hm_fd_close(&frame.fd);
		return HM_E_PROTOCOL;
	}
	if (frame.type == HM_FRAME_ERROR)
		return hm_transport_refusal(&frame, errbuf);
	if (frame.type != HM_FRAME_WELCOME || frame.request_id != HELLO_ID)
		return HM_E_PROTOCOL;
	error = hm_codec_unpack_welcome(frame.body, frame.n_body,
	    &transport->welcome);
	if (error != HM_OK)
		return error;
	return transport_check_welcome(&transport->welcome, errbuf);
}

int
hm_transport_hello(struct hm_transport *transport, int64_t deadline,
    struct hm_errbuf *errbuf)
{
	struct hm_hello hello = {
	    .schema = HM_SCHEMA,
	    .capabilities = HM_CAPABILITY_FD,
	    .kernel_abi = HM_KERNEL_ABI,
	    .pack_layout = HM_PACK_LAYOUT,
	};
	struct hm_frame frame = {.type = HM_FRAME_HELLO,
	    .request_id = HELLO_ID,
	    .fd = -1};
	uint8_t body[256];
	int error;

	(void)snprintf(hello.program, sizeof hello.program, "%.63s",
	    program_invocation_short_name);
	hm_errbuf_clear(errbuf);
	error = hm_codec_pack_hello(&hello, body, sizeof body, &frame.n_body);
	if (error != HM_OK)
		goto out;
	frame.body = body;
	error = hm_transport_send(transport, &frame, deadline);
	/* A daemon that refuses everybody may have closed already: what it
	 * said is still there to be read. */
	if (error == HM_OK || error == HM_E_UNAVAILABLE)
		error = transport_recv_welcome(transport, deadline, errbuf);
out:
	if (error != HM_OK)
		hm_transport_close(transport);
	return error;
}
