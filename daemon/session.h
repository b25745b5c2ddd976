/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - one client's connection: a small state machine over a socket.
 *
 *   HELLO --hello--> OPEN --end, bad bytes, stall--> DEAD
 *     \--refused--> FLUSH --queue empty----------------^
 *
 * A session receives frames and hands them down; it sends frames, at once if
 * the socket takes them, else from a bounded queue. While anything waits in
 * that queue nothing is read, so a client that does not take its replies gets
 * no further work done; one that takes nothing for limits.stall_ms is dropped,
 * and so is one that has not said HELLO by then.
 *
 * No function here frees a session: it becomes DEAD, and the loop frees it in
 * a turn of its own, so that a caller may go on using the pointer until it
 * returns to the loop.
 */
#ifndef HM_DAEMON_SESSION_H
#define HM_DAEMON_SESSION_H

#include <sys/queue.h>

#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"
#include "daemon/limits.h"
#include "proto/frame.h"

struct event;
struct event_base;
struct hm_call;
struct hm_packet;
struct hm_session;

enum hm_session_state {
	HM_SESSION_HELLO = 0,
	HM_SESSION_OPEN = 1,
	HM_SESSION_FLUSH = 2, /* says its last words, reads nothing */
	HM_SESSION_DEAD = 3
};

#define HM_SESSION_ALIGN 64u

/* What all sessions share; owned by the server. Stays where it is: buffer
 * points into it. */
struct hm_session_host {
	struct event_base *base;
	const struct hm_settings *settings;
	struct hm_limits *limits; /* borrowed */
	/* Takes one frame; its descriptor stays the session's to close. An
	 * error means that the peer lies: the connection is closed. */
	int (*on_frame)(struct hm_session *session,
	    const struct hm_frame *frame, void *arg);
	/* The last call about a session, just before it is freed. */
	void (*on_closed)(struct hm_session *session, void *arg);
	void *arg;
	uint64_t queued_bytes; /* memory of all packets that wait */
	/* The frame at hand. At a border of the processor's cache, as a copy
	 * to one in the middle takes three times as long (measured). */
	uint8_t *buffer;
	uint8_t room[HM_FRAME_MAX_BYTES + HM_SESSION_ALIGN];
};

struct hm_session {
	TAILQ_ENTRY(hm_session) link; /* the server's list */
	struct hm_session_host *host; /* borrowed */
	enum hm_session_state state;
	struct hm_peer peer;
	uint32_t capabilities;  /* HM_CAPABILITY_ bits of the client */
	uint64_t number;        /* for the log */
	int fd;                 /* owned */
	short interest;         /* EV_ flags now waited for */
	struct event *readable; /* owned, as the next three */
	struct event *writable;
	struct event *stalled;
	struct event *reaper; /* frees the session from the loop */
	STAILQ_HEAD(, hm_packet) queue;
	uint64_t queued_bytes;
	bool fd_outstanding; /* a descriptor may not have been read yet */
	LIST_HEAD(, hm_call) calls; /* call.c's: under way */
	uint32_t n_in_flight;       /* call.c's: kernels still owed */
};

/* A part of an entry's image that goes out as a frame's raw bytes. */
struct hm_payload {
	struct hm_entry *entry; /* borrowed; a queued packet takes its own
	                         * reference */
	size_t offset;
	size_t n_bytes;
};

/* Put buffer into its place; the rest is the caller's to fill in. */
void hm_session_host_init(struct hm_session_host *host);

/**
 * Take over an accepted socket, non-blocking and close-on-exec.
 *
 * Returns HM_OK (fd is the session's) or HM_E_NOMEM (fd is still the
 * caller's).
 */
int hm_session_new(struct hm_session_host *host, int fd,
    const struct hm_peer *peer, struct hm_session **session_out);

/* The client has said who it is: HELLO becomes OPEN. */
void hm_session_welcome(struct hm_session *session, uint32_t capabilities);

/* For the server's own end: frees at once. Not from a session's callback. */
void hm_session_free(struct hm_session *session);

/**
 * Send a frame, or queue it. Body and raw bytes are copied if they must wait.
 *
 * frame    fd must be -1
 * payload  raw bytes that are not copied but counted; NULL = none
 *
 * A failure kills the session, so there is nothing to check. To a session that
 * is not HELLO or OPEN it is a no-op.
 */
void hm_session_send(struct hm_session *session, const struct hm_frame *frame,
    const struct hm_payload *payload);

/**
 * Send a frame with a descriptor, at once or not at all.
 *
 * A descriptor that nobody reads counts against all sockets of our user, so a
 * connection has at most one outstanding and none ever waits in a queue.
 * Returns whether it went; if not, send the bytes inline.
 */
bool hm_session_pass_fd(struct hm_session *session,
    const struct hm_frame *frame);

/* Refuse: HM_FRAME_ERROR with a line for a person. */
void hm_session_send_error(struct hm_session *session, uint32_t request_id,
    int error, const char *message);

/* HM_FRAME_TEXT. A text that does not fit a packet is an error frame. */
void hm_session_send_text(struct hm_session *session, uint32_t request_id,
    const char *text);

/* Send what is queued, then close. */
void hm_session_finish(struct hm_session *session);

/* Close now; why is one line for the log, error an enum hm_error. */
void hm_session_kill(struct hm_session *session, int error, const char *why);

/* Something that decides about reading has changed (n_in_flight). */
void hm_session_update_interest(struct hm_session *session);

#endif
