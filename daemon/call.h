/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - one GET or COMPILE of one client, until every kernel it asked for
 * has had its reply.
 *
 * What the cache has is answered on the spot and leaves no trace here. What
 * must be built makes a call. An ask is one wanted kernel of it; it is open
 * until its reply is sent or nobody wants one any more, and a call without an
 * open ask is freed. The call owns the deadline, and is what CANCEL and a
 * disconnect take away.
 */
#ifndef HM_DAEMON_CALL_H
#define HM_DAEMON_CALL_H

#include <sys/queue.h>

#include <stdbool.h>
#include <stdint.h>

#include "daemon/answer.h"
#include "daemon/choice.h"
#include "daemon/core.h"
#include "daemon/flight.h"
#include "daemon/recipe.h"
#include "daemon/session.h"
#include "proto/frame.h"

struct event;
struct hm_parked;

struct hm_ask {
	struct hm_waiter waiter; /* first: call_ask_of */
	struct hm_call *call;
	uint32_t index;
	bool is_open;
	bool is_counted;          /* among what its user waits for */
	struct hm_choice *choice; /* one reference, or NULL */
	struct hm_recipe *recipe; /* one reference, or NULL */
};

struct hm_call {
	LIST_ENTRY(hm_call) link;        /* in the session's list */
	LIST_ENTRY(hm_call) parked_link; /* in the core's, while parked */
	struct hm_parked *parked; /* owned; compile.c's, NULL = not parked */
	size_t n_parked_bytes;
	struct hm_core *core;       /* borrowed */
	struct hm_session *session; /* borrowed; drops us before it goes */
	uint32_t request_id;
	uint32_t lane;
	uint32_t deadline_ms;
	uint64_t received_us;
	struct event *deadline; /* owned; NULL = none */
	uint32_t n_open;
	uint32_t n_asks;
	struct hm_ask asks[];
};

/* Handler of a frame: HM_OK, or an error that costs the connection. */
int hm_call_get(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame);

/* No reply of this request is wanted any more. Unknown ids are ignored: the
 * last reply and the cancel may have crossed. */
void hm_call_cancel(struct hm_session *session, uint32_t request_id);

/* The client is gone. */
void hm_call_drop_all(struct hm_session *session);

/* A call with room for n_asks; NULL without memory. */
struct hm_call *hm_call_new(struct hm_core *core, struct hm_session *session,
    uint32_t request_id, uint32_t n_asks);

/* Start the clock of a call that has something open. 0 = no deadline. */
void hm_call_arm(struct hm_call *call, uint32_t deadline_ms);

/* Counts it; one that is one too many is refused by join. */
void hm_ask_open(struct hm_ask *ask);

/* Answer and close an ask that its user may not have; true: it was. */
bool hm_ask_refuse(struct hm_ask *ask);

/* The ask has had its reply, or wants none. The call may be gone afterwards. */
void hm_ask_close(struct hm_ask *ask);

/* Where the replies of an ask go. */
void hm_ask_describe(const struct hm_ask *ask, struct hm_answer *to_out);

/* Wait for the build of the ask's recipe; if there is nothing to wait for, it
 * is answered and closed at once. */
void hm_ask_join(struct hm_ask *ask);

#endif
