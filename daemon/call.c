/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.c - GET, and what all calls share: asks, the deadline, their end.
 *
 * A GET is answered request by request: choice, then cache, else an ask that
 * joins a flight. The call is made when the first ask needs it.
 */
#include "daemon/call.h"

#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "daemon/answer.h"
#include "daemon/audit.h"
#include "daemon/clock.h"
#include "daemon/limits.h"
#include "proto/codec.h"

#define CALL_MAX_LEAD_MS 50u

static struct hm_ask *
call_ask_of(struct hm_waiter *waiter)
{
	return (struct hm_ask *)(void *)waiter;
}

static void
call_free(struct hm_call *call)
{
	for (uint32_t i = 0; i < call->n_asks; i++) {
		hm_choice_unref(call->asks[i].choice);
		hm_recipe_unref(call->asks[i].recipe);
	}
	if (call->parked != NULL) {
		LIST_REMOVE(call, parked_link);
		call->core->parked_bytes -= call->n_parked_bytes;
	}
	free(call->parked);
	if (call->deadline != NULL)
		event_free(call->deadline);
	LIST_REMOVE(call, link);
	free(call);
}

struct hm_call *
hm_call_new(struct hm_core *core, struct hm_session *session,
    uint32_t request_id, uint32_t n_asks)
{
	struct hm_call *call;

	call = calloc(1, sizeof(*call) + n_asks * sizeof(call->asks[0]));
	if (call == NULL)
		return NULL;
	call->core = core;
	call->session = session;
	call->request_id = request_id;
	LIST_INSERT_HEAD(&session->calls, call, link);
	return call;
}

void
hm_ask_open(struct hm_ask *ask)
{
	ask->is_open = true;
	ask->call->n_open++;
	ask->call->session->n_in_flight++;
	ask->call->core->n_waiting++;
	ask->is_counted =
	    hm_limits_take(ask->call->core->limits,
		ask->call->session->peer.uid, HM_LIMITS_WAITS) == HM_OK;
}

bool
hm_ask_refuse(struct hm_ask *ask)
{
	static const char why[] = "this user waits for too many kernels "
				  "(limits.uid_in_flight)";
	const struct hm_call *call = ask->call;
	struct hm_answer to;

	if (ask->is_counted)
		return false;
	hm_audit_limit(call->core, &call->session->peer, "wait", why);
	hm_ask_describe(ask, &to);
	hm_answer_error(&to, HM_E_BUSY, why);
	hm_ask_close(ask);
	return true;
}

/* The ask has had its reply, or wants none; the call may end here. */
void
hm_ask_close(struct hm_ask *ask)
{
	struct hm_call *call = ask->call;

	ask->is_open = false;
	call->session->n_in_flight--;
	call->core->n_waiting--;
	if (ask->is_counted)
		hm_limits_give(call->core->limits, call->session->peer.uid,
		    HM_LIMITS_WAITS);
	hm_session_update_interest(call->session);
	if (--call->n_open == 0)
		call_free(call);
}

void
hm_ask_describe(const struct hm_ask *ask, struct hm_answer *to_out)
{
	const struct hm_call *call = ask->call;

	to_out->core = call->core;
	to_out->session = call->session;
	to_out->request_id = call->request_id;
	to_out->index = ask->index;
	to_out->received_us = call->received_us;
	to_out->choice = ask->choice;
	to_out->recipe = ask->recipe;
	to_out->packed = NULL;
}

/* A flight has landed: the reply, and the end of the ask. */
static void
call_on_landed(struct hm_waiter *waiter, const struct hm_outcome *outcome)
{
	struct hm_ask *ask = call_ask_of(waiter);
	struct hm_answer to;
	const char *log = NULL;

	hm_ask_describe(ask, &to);
	/* Warnings are of interest only to who wrote the source. */
	if (outcome->log != NULL && !ask->recipe->is_own)
		log = outcome->log;
	if (outcome->error != HM_OK)
		hm_answer_failure(&to, outcome);
	else if (hm_answer_entry(&to, outcome->entry, HM_TIER_BUILT, log) !=
		 HM_OK)
		hm_answer_error(&to, HM_E_INTERNAL, "");
	hm_ask_close(ask);
}

static void
call_on_progress(struct hm_waiter *waiter, uint32_t position)
{
	const struct hm_ask *ask = call_ask_of(waiter);
	const struct hm_call *call = ask->call;
	uint64_t now_us = hm_clock_us();
	struct hm_progress progress = {.index = ask->index,
	    .queue_position = position,
	    .elapsed_ms = (uint32_t)((now_us - call->received_us) / 1000)};
	uint8_t body[64];
	struct hm_frame frame = {.type = HM_FRAME_PROGRESS,
	    .request_id = call->request_id,
	    .body = body,
	    .fd = -1};

	/* One who does not read has no use for more; one who has just come has
	 * not waited yet. */
	if (!STAILQ_EMPTY(&call->session->queue) ||
	    now_us - waiter->joined_us < 900000)
		return;
	if (hm_codec_pack_progress(&progress, body, sizeof(body),
		&frame.n_body) == HM_OK)
		hm_session_send(call->session, &frame, NULL);
}

static void
call_explain_timeout(const struct hm_ask *ask, struct hm_errbuf *text_out)
{
	const struct hm_call *call = ask->call;
	uint32_t place = hm_flights_place(call->core->flights, &ask->waiter);

	if (place == 0)
		hm_errbuf_set(text_out,
		    "no kernel within %u ms; its build goes on",
		    call->deadline_ms);
	else
		hm_errbuf_set(text_out,
		    "no kernel within %u ms: the compilers are busy, it waits "
		    "at place %u",
		    call->deadline_ms, place);
}

static void
call_on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct hm_call *call = arg;
	struct hm_errbuf text = {""};
	struct hm_answer to;
	uint32_t n_open = call->n_open;

	(void)fd;
	(void)what;
	/* The call is freed with its last open ask. */
	for (uint32_t i = 0; n_open > 0; i++) {
		struct hm_ask *ask = &call->asks[i];

		if (!ask->is_open)
			continue;
		n_open--;
		call_explain_timeout(ask, &text);
		hm_flights_leave(call->core->flights, &ask->waiter,
		    HM_LEAVE_TIMED_OUT);
		hm_ask_describe(ask, &to);
		hm_answer_error(&to, HM_E_TIMEOUT, text.text);
		hm_ask_close(ask);
	}
}

/* Arm the deadline of a call that has something open. */
void
hm_call_arm(struct hm_call *call, uint32_t deadline_ms)
{
	/* A little early, so that the reason is there before the client's own
	 * clock, which began to run earlier, says that there is none. */
	uint32_t lead_ms = deadline_ms / 20 < CALL_MAX_LEAD_MS
			       ? deadline_ms / 20
			       : CALL_MAX_LEAD_MS;
	uint32_t wait_ms = deadline_ms - lead_ms;
	struct timeval wait = {(time_t)(wait_ms / 1000),
	    (suseconds_t)(wait_ms % 1000 * 1000)};

	call->deadline_ms = deadline_ms;
	if (deadline_ms == 0)
		return;
	call->deadline =
	    event_new(call->core->base, -1, 0, call_on_deadline, call);
	if (call->deadline == NULL || event_add(call->deadline, &wait) != 0)
		hm_session_kill(call->session, HM_E_NOMEM, "no timer");
}

/* What is left until its deadline; 0 = it has none. */
static uint64_t
call_patience_us(const struct hm_call *call)
{
	uint64_t all_us = call->deadline_ms * UINT64_C(1000);
	uint64_t past_us = hm_clock_us() - call->received_us;

	if (all_us == 0)
		return 0;
	return past_us < all_us ? all_us - past_us : 1;
}

/* Wait for a build. The ask is closed at once if there is nothing to wait for;
 * it holds its recipe already. */
void
hm_ask_join(struct hm_ask *ask)
{
	struct hm_call *call = ask->call;
	struct hm_outcome outcome;
	struct hm_answer to;

	if (hm_ask_refuse(ask))
		return;
	ask->waiter.on_landed = call_on_landed;
	ask->waiter.on_progress = call_on_progress;
	ask->waiter.uid = call->session->peer.uid;
	ask->waiter.patience_us = call_patience_us(call);
	if (hm_flights_join(call->core->flights, ask->recipe, call->lane,
		&ask->waiter, &outcome) == HM_OK)
		return;
	if (outcome.is_of_user)
		hm_audit_limit(call->core, &call->session->peer, "build",
		    outcome.message);
	hm_ask_describe(ask, &to);
	hm_answer_failure(&to, &outcome);
	hm_ask_close(ask);
}

/* The next ask of a GET's call, which is made when the first one needs it. */
static struct hm_ask *
call_add_ask(struct hm_call **call_io, const struct hm_answer *to,
    const struct hm_get *get)
{
	struct hm_call *call = *call_io;
	struct hm_ask *ask;

	if (call == NULL) {
		call = hm_call_new(to->core, to->session, to->request_id,
		    get->n_requests);
		if (call == NULL)
			return NULL;
		call->received_us = to->received_us;
		call->lane = get->lane;
		call->deadline_ms = get->deadline_ms;
		/* Held open until all asks are made. */
		call->n_open = 1;
		*call_io = call;
	}
	ask = &call->asks[call->n_asks++];
	ask->call = call;
	ask->index = to->index;
	return ask;
}

/* One request of a GET. */
static void
call_get_one(struct hm_answer *to, const struct hm_get *get,
    struct hm_call **call_io)
{
	struct hm_choice *choice = NULL;
	struct hm_errbuf text = {""};
	struct hm_ask *ask = NULL;
	int error;

	to->recipe = NULL;
	error = hm_choices_get(to->core->choices, &get->requests[to->index],
	    &choice, &text);
	if (error == HM_OK) {
		to->choice = choice;
		to->recipe = choice->recipe;
		to->packed = &choice->packed;
		error = hm_answer_from_cache(to);
	} else if (error == HM_E_UNAVAILABLE) {
		error = HM_E_INTERNAL;
	}
	if (error == HM_E_UNAVAILABLE) {
		ask = call_add_ask(call_io, to, get);
		error = ask == NULL ? HM_E_NOMEM : HM_OK;
	}
	if (ask != NULL) {
		ask->choice = hm_choice_ref(choice);
		ask->recipe = hm_recipe_ref(choice->recipe);
		hm_ask_open(ask);
		hm_ask_join(ask);
	} else if (error != HM_OK) {
		hm_answer_error(to, error, text.text);
	}
	to->choice = NULL;
	to->packed = NULL;
	hm_choice_unref(choice);
}

int
hm_call_get(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame)
{
	struct hm_answer to = {.core = core,
	    .session = session,
	    .request_id = frame->request_id,
	    .received_us = hm_clock_us()};
	struct hm_call *call = NULL;
	struct hm_get get;
	int error;

	error = hm_codec_unpack_get(frame->body, frame->n_body, &get);
	if (error != HM_OK)
		return error;
	for (uint32_t i = 0; i < get.n_requests; i++) {
		if (session->state != HM_SESSION_OPEN)
			break;
		to.index = i;
		call_get_one(&to, &get, &call);
	}
	if (call != NULL && --call->n_open == 0)
		call_free(call);
	else if (call != NULL)
		hm_call_arm(call, get.deadline_ms);
	hm_get_done(&get);
	return HM_OK;
}

/* Take back everything that is open; no replies. Frees the call. */
static void
call_abandon(struct hm_call *call)
{
	uint32_t n_open = call->n_open;

	for (uint32_t i = 0; n_open > 0; i++) {
		struct hm_ask *ask = &call->asks[i];

		if (!ask->is_open)
			continue;
		n_open--;
		hm_flights_leave(call->core->flights, &ask->waiter,
		    HM_LEAVE_GONE);
		hm_ask_close(ask);
	}
}

void
hm_call_cancel(struct hm_session *session, uint32_t request_id)
{
	struct hm_call *call;
	struct hm_call *next;

	for (call = LIST_FIRST(&session->calls); call != NULL; call = next) {
		next = LIST_NEXT(call, link);
		if (call->request_id == request_id)
			call_abandon(call);
	}
}

void
hm_call_drop_all(struct hm_session *session)
{
	struct hm_call *call;

	while ((call = LIST_FIRST(&session->calls)) != NULL)
		call_abandon(call);
}
