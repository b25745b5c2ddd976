/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.h - one message on a SOCK_SEQPACKET socket.
 *
 *   0       4         6      7       8            12           16
 *   +-------+---------+------+-------+------------+------------+------+-----
 *   | magic | version | type | flags | request id | body bytes | body | raw
 *   +-------+---------+------+-------+------------+------------+------+-----
 *   little-endian; the body is protobuf (codec.h), raw bytes follow up to the
 *   end of the packet; at most 64 KiB and at most one descriptor a packet.
 *
 * The socket keeps message borders, so a reader never sees half a frame: what
 * does not parse is a peer that lies, and costs that connection only.
 */
#ifndef HM_PROTO_FRAME_H
#define HM_PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

#define HM_FRAME_MAGIC        0x4d4d5548u /* "HUMM" */
#define HM_FRAME_VERSION      1u
#define HM_FRAME_HEADER_BYTES 16u
#define HM_FRAME_MAX_BYTES    65536u
/* Raw bytes that always fit beside a body of ours. */
#define HM_FRAME_INLINE_BYTES 32768u

/* Numbers are never reused. 1-63 client to daemon, 64-127 daemon to client,
 * 128-191 daemon to worker, 192-255 worker to daemon. */
enum hm_frame_type {
	HM_FRAME_HELLO = 1,
	HM_FRAME_GET = 2,     /* n kernel requests, n HM_FRAME_KERNEL replies */
	HM_FRAME_COMPILE = 3, /* source in the packet's descriptor */
	HM_FRAME_CANCEL = 4,  /* the request id whose replies are not wanted */
	HM_FRAME_PING = 5,
	HM_FRAME_STATUS = 6,
	HM_FRAME_STATS = 7,
	HM_FRAME_STOP = 8,
	HM_FRAME_EXPLAIN = 9, /* a key: is it stored, and its record */
	HM_FRAME_ADMIN = 10,  /* a command of struct hm_admin */

	HM_FRAME_WELCOME = 64, /* reply to HELLO */
	HM_FRAME_KERNEL = 65,  /* one result of GET or COMPILE */
	HM_FRAME_PROGRESS = 66,
	HM_FRAME_TEXT =
	    67, /* JSON of STATUS, STATS, ADMIN; answer to PING, STOP */
	HM_FRAME_ERROR = 68,  /* the request as a whole is refused */
	HM_FRAME_RECORD = 69, /* reply to EXPLAIN; record in raw */
	HM_FRAME_PART = 70,   /* raw bytes of a result too large for one packet;
	                        * precede its HM_FRAME_KERNEL */

	HM_FRAME_JOB = 128,
	HM_FRAME_JOB_RESULT = 192,
	HM_FRAME_WORKER_READY = 193
};

struct hm_frame {
	uint32_t type; /* enum hm_frame_type */
	uint32_t flags;
	uint32_t request_id;
	const uint8_t *body; /* borrowed: from the caller's buffer */
	size_t n_body;
	const uint8_t *raw; /* borrowed */
	size_t n_raw;
	int fd; /* -1 or owned by whoever holds the frame */
};

/**
 * Send one frame without blocking.
 *
 * frame    n_body + n_raw + 16 <= 64 KiB, else HM_E_INVALID; its fd, if any,
 *          stays the caller's
 *
 * MSG_NOSIGNAL. Returns HM_OK; HM_E_BUSY when the socket is full (EAGAIN);
 * HM_E_UNSUPPORTED when the kernel refuses another descriptor in flight
 * (ETOOMANYREFS): send the bytes inline instead; HM_E_UNAVAILABLE when the peer
 * is gone; HM_E_SYSTEM.
 */
int hm_frame_send(int socket_fd, const struct hm_frame *frame);

/**
 * Receive one frame without blocking.
 *
 * buffer     at least HM_FRAME_MAX_BYTES; frame_out points into it
 * frame_out  frame_out->fd is the caller's to close, also when the caller has
 *            no use for one
 *
 * Returns HM_OK, HM_E_BUSY (nothing there), HM_E_UNAVAILABLE (end of file or
 * reset), HM_E_PROTOCOL (bad magic or lengths, truncated data or control,
 * more than one descriptor: every descriptor received is closed), HM_E_VERSION
 * (another frame version), HM_E_SYSTEM (errno EMFILE: a descriptor came, but
 * this process has no room for it; the packet is lost).
 */
int hm_frame_recv(int socket_fd, uint8_t *buffer, struct hm_frame *frame_out);

/**
 * The same on a blocking socket, whose SO_RCVTIMEO says how long to wait: one
 * call instead of poll and two receives. HM_E_BUSY when that is over, or when a
 * signal came: the caller looks at its deadline.
 */
int hm_frame_recv_wait(int socket_fd, uint8_t *buffer,
    struct hm_frame *frame_out);

/**
 * Parse a packet that is already in memory; what hm_frame_recv and the fuzzer
 * call. fd is set to -1.
 */
int hm_frame_parse(const uint8_t *packet, size_t n_packet,
    struct hm_frame *frame_out);

#endif
