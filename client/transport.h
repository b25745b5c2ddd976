/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.h - frames to and from one daemon, each within a deadline.
 *
 * No send blocks; a receive waits in the system for a moment that the deadline
 * has room for; every longer wait is a poll with what is left of the deadline,
 * so that a stopped, a dead and a lying peer all end the same way: with an
 * error code, in time. Knows frames, nothing of requests.
 */
#ifndef HM_CLIENT_TRANSPORT_H
#define HM_CLIENT_TRANSPORT_H

#include <stdint.h>

#include "proto/codec.h"
#include "proto/error.h"
#include "proto/frame.h"

/* Where packets are received: the system copies 28 KB to the border of a cache
 * line in 2.2 us, to the middle of one in up to 6.6 (measured, Zen 4). */
#define HM_TRANSPORT_ALIGN 64u

/* Stays where it is: buffer points into it. */
struct hm_transport {
	int fd;                    /* owned; -1 = not connected */
	struct hm_welcome welcome; /* of the peer, once greeted */
	uint8_t *buffer; /* in room, at a border of HM_TRANSPORT_ALIGN */
	uint8_t room[HM_FRAME_MAX_BYTES + HM_TRANSPORT_ALIGN];
};

void hm_transport_init(struct hm_transport *transport);

/* Drop the connection, if there is one. */
void hm_transport_close(struct hm_transport *transport);

/**
 * Connect to a socket, without greeting.
 *
 * A full backlog (EAGAIN) is retried until the deadline. Returns HM_OK,
 * HM_E_UNAVAILABLE (no socket, or nobody listens: at once), HM_E_DENIED,
 * HM_E_TIMEOUT, HM_E_INVALID (path too long), HM_E_SYSTEM.
 */
int hm_transport_connect(struct hm_transport *transport, const char *path,
    int64_t deadline, struct hm_errbuf *errbuf);

/**
 * Exchange HELLO and WELCOME; closes the connection on failure.
 *
 * Returns HM_OK, HM_E_TIMEOUT, HM_E_UNAVAILABLE (the peer went away),
 * HM_E_VERSION (naming both numbers), HM_E_PROTOCOL, or the code with which
 * the peer refuses.
 */
int hm_transport_hello(struct hm_transport *transport, int64_t deadline,
    struct hm_errbuf *errbuf);

/* HM_OK, HM_E_TIMEOUT, HM_E_UNAVAILABLE, HM_E_UNSUPPORTED (see frame.h),
 * HM_E_INVALID, HM_E_SYSTEM. The frame's descriptor stays the caller's. */
int hm_transport_send(struct hm_transport *transport,
    const struct hm_frame *frame, int64_t deadline);

/* The frame points into the transport's buffer until the next call; its
 * descriptor is the caller's. HM_OK, HM_E_TIMEOUT, or as hm_frame_recv. */
int hm_transport_recv(struct hm_transport *transport, int64_t deadline,
    struct hm_frame *frame_out);

/* What an ERROR frame says: its code (HM_E_PROTOCOL if it is not one of ours)
 * and its text. */
int hm_transport_refusal(const struct hm_frame *frame,
    struct hm_errbuf *errbuf);

#endif
