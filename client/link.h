/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - one client's connection, which comes back by itself.
 *
 * The first open fails at once where nobody listens. A link that was open once
 * reconnects until the deadline of the call at hand, because a daemon that
 * restarts is back in a moment; what was asked is then asked again. States:
 *
 *   new --open--> greeted --failure--> broken --ready--> greeted
 */
#ifndef HM_CLIENT_LINK_H
#define HM_CLIENT_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/socket_path.h"
#include "client/transport.h"
#include "proto/error.h"
#include "proto/frame.h"

struct hm_link {
	struct hm_transport transport;
	char named[HM_SOCKET_PATH_CHARS]; /* by the caller; "" = nothing */
	char path[HM_SOCKET_PATH_CHARS];  /* where it is, or was, connected */
	bool autostart;
	uint32_t last_id;
	uint32_t n_lost; /* greeted connections that broke without an answer */
};

/* socket_path as hm_socket_path_find takes it. HM_OK or HM_E_INVALID. */
int hm_link_init(struct hm_link *link, const char *socket_path, bool autostart,
    struct hm_errbuf *errbuf);
void hm_link_done(struct hm_link *link);

/* Connect and greet. As humming_client_open. */
int hm_link_open(struct hm_link *link, int64_t deadline,
    struct hm_errbuf *errbuf);

/* Greeted already, or reconnect until the deadline (30 s without one). */
int hm_link_ready(struct hm_link *link, int64_t deadline,
    struct hm_errbuf *errbuf);

uint32_t hm_link_next_id(struct hm_link *link);

/**
 * A connection broke in the middle of a call: close it, so that what was asked
 * can be asked again.
 *
 * The first time at once. A daemon that greets and breaks again and again,
 * perhaps because of what it is asked, is left alone for longer each time, and
 * after HM_LINK_MAX_LOST times for good. Any answer begins the count anew.
 *
 * Returns HM_OK (ask again), HM_E_UNAVAILABLE (given up, the deadline is over).
 */
#define HM_LINK_MAX_LOST 12u
int hm_link_lost(struct hm_link *link, int64_t deadline);

/* Turn what ended a call into one line that names the socket, unless errbuf
 * already says something; closes the connection where it cannot go on. */
void hm_link_fail(struct hm_link *link, int error, struct hm_errbuf *errbuf);

/**
 * Receive the next frame that answers one of our requests.
 *
 * Late answers of earlier requests, with ids below first_id, are dropped. An id
 * that was never given out is HM_E_PROTOCOL. Returns as hm_transport_recv.
 */
int hm_link_recv(struct hm_link *link, uint32_t first_id, int64_t deadline,
    struct hm_frame *frame_out);

/**
 * One request, one reply, again after a reconnect.
 *
 * request    its id is filled in here
 * reply_out  borrowed from the link until its next use; never has a descriptor
 *
 * Returns HM_OK, HM_E_TIMEOUT, HM_E_UNAVAILABLE, HM_E_PROTOCOL, or the code
 * with which the daemon refuses; errbuf says why.
 */
int hm_link_exchange(struct hm_link *link, struct hm_frame *request,
    int64_t deadline, struct hm_frame *reply_out, struct hm_errbuf *errbuf);

/* Tell the daemon that nobody waits for this any more. Best effort. */
void hm_link_cancel(struct hm_link *link, uint32_t request_id);

#endif
