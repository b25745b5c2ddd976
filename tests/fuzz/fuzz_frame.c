/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_frame.c - one packet: parsed in memory, received from a socket, sent on.
 *
 * Promises: parsing and receiving agree; what they give lies inside the packet
 * and is all of it behind the header; a received frame can be sent, and arrives
 * as the same packet.
 */
#include <sys/socket.h>

#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "proto/frame.h"

static int fuzz_pair[2] = {-1, -1};

static void
frame_open(void)
{
	if (fuzz_pair[0] != -1)
		return;
	fuzz_require(
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		0, fuzz_pair) == 0);
}

static void
frame_check_inside(const struct hm_frame *frame, const uint8_t *packet,
    size_t n_packet)
{
	fuzz_require(frame->fd == -1);
	fuzz_require(frame->body == packet + HM_FRAME_HEADER_BYTES);
	fuzz_require(frame->raw == frame->body + frame->n_body);
	fuzz_require(
	    HM_FRAME_HEADER_BYTES + frame->n_body + frame->n_raw == n_packet);
}

/* Send the packet as it is, and see that receiving says what parsing said. */
static void
frame_check_received(const uint8_t *packet, size_t n_packet, int expected)
{
	static uint8_t buffer[HM_FRAME_MAX_BYTES];
	struct hm_frame frame;
	int error;

	fuzz_require(send(fuzz_pair[0], packet, n_packet, MSG_NOSIGNAL) ==
		     (ssize_t)n_packet);
	error = hm_frame_recv(fuzz_pair[1], buffer, &frame);
	fuzz_require(error == expected);
	if (error != HM_OK)
		return;
	frame_check_inside(&frame, buffer, n_packet);

	fuzz_require(hm_frame_send(fuzz_pair[1], &frame) == HM_OK);
	fuzz_require(
	    recv(fuzz_pair[0], buffer, sizeof buffer, 0) == (ssize_t)n_packet);
	fuzz_require(memcmp(buffer, packet, n_packet) == 0);
}

void
fuzz_one(const uint8_t *data, size_t size)
{
	struct hm_frame frame;
	int error = hm_frame_parse(data, size, &frame);

	if (error == HM_OK)
		frame_check_inside(&frame, data, size);
	/* An empty packet is what the end of a stream looks like. */
	if (size == 0 || size > HM_FRAME_MAX_BYTES)
		return;
	frame_open();
	frame_check_received(data, size, error);
}
