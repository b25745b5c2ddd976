/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fetch.c - see fetch.h.
 *
 * Requests are cut into calls: one packet each, of one request when a window
 * is asked for, else of as many as fit. A call is unsent, in flight, or done;
 * a connection that breaks makes those in flight unsent again, and what they
 * ask for the second time is only what is still missing.
 */
#include "client/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "client/deadline.h"
#include "client/kernel.h"
#include "client/label.h"
#include "proto/fd.h"

/* Room for a body's fixed fields; a request or an option each takes less than
 * HM_MAX_OPTION_CHARS more. */
#define BODY_BYTES 1024u
/* ... and for one of them. */
#define ONE_BODY_BYTES (BODY_BYTES + HM_MAX_OPTION_CHARS)

/* One packet and what is still missing of it. */
struct fetch_call {
	size_t first, n; /* requests [first, first + n) */
	size_t n_left;   /* of those asked for in the last packet */
	uint32_t id;     /* 0 = not in flight */
	uint32_t *map;   /* owned; index in the packet -> request */
	size_t n_map;
	uint8_t *part; /* owned; bytes of PART packets so far */
	size_t n_part;
};

struct fetch_run {
	struct hm_link *link;
	const struct hm_fetch *fetch;
	int64_t deadline;
	int64_t start_us;
	struct fetch_call *calls; /* owned */
	size_t n_calls;
	size_t window; /* calls in flight at most */
	size_t n_flying;
	size_t n_missing; /* requests without a result */
	bool *answered;   /* owned, per request */
	uint8_t *body;    /* owned; of what is sent */
	size_t n_body;
	/* For the usual run, which asks for one kernel: nothing of the above
	 * is allocated then. */
	struct fetch_call one_call;
	uint32_t one_map;
	bool one_answered;
	uint8_t *one_body; /* borrowed; ONE_BODY_BYTES, of the stack */
};

/* --- results ------------------------------------------------------------- */

static void
fetch_deliver(struct fetch_run *run, struct hm_fetch_result *result)
{
	if (run->answered[result->index])
		return;
	run->answered[result->index] = true;
	run->n_missing--;
	run->fetch->on_result(run->fetch->payload, result);
}

static void
fetch_land(struct fetch_run *run, struct fetch_call *call)
{
	call->id = 0;
	free(call->part);
	call->part = NULL;
	call->n_part = 0;
	run->n_flying--;
}

/* The same failure for whatever of a call has no result yet. */
static void
fetch_fail_call(struct fetch_run *run, const struct fetch_call *call, int error,
    const char *message)
{
	struct hm_fetch_result result = {.error = error, .message = message};

	for (size_t i = 0; i < call->n; i++) {
		result.index = call->first + i;
		fetch_deliver(run, &result);
	}
}

/* --- sending ------------------------------------------------------------- */

static int
fetch_send_compile(struct fetch_run *run, struct hm_frame *frame)
{
	struct hm_compile compile = *run->fetch->compile;
	int error;

	compile.deadline_ms = hm_deadline_wire_ms(run->deadline);
	error = hm_codec_pack_compile(&compile, run->body, run->n_body,
	    &frame->n_body);
	if (error != HM_OK)
		return error;
	frame->type = HM_FRAME_COMPILE;
	if (compile.source_bytes <= HM_FRAME_INLINE_BYTES) {
		frame->raw = run->fetch->source;
		frame->n_raw = compile.source_bytes;
	} else {
		error = hm_fd_seal("humming-source", run->fetch->source,
		    compile.source_bytes, &frame->fd);
		if (error != HM_OK)
			return error;
	}
	error = hm_transport_send(&run->link->transport, frame, run->deadline);
	hm_fd_close(&frame->fd);
	/* The system has too many descriptors under way: it passes. */
	return error == HM_E_UNSUPPORTED ? HM_E_BUSY : error;
}

/* Those of a call that are still wanted; all of them stand in a row already.
 * *copy_out is the caller's to free. */
static const struct hm_request *
fetch_gather(const struct fetch_run *run, const struct fetch_call *call,
    struct hm_request **copy_out)
{
	const struct hm_request *requests = run->fetch->requests;
	struct hm_request *copy;

	*copy_out = NULL;
	if (call->n_map == call->n)
		return &requests[call->first];
	copy = calloc(call->n_map, sizeof *copy);
	for (size_t i = 0; copy != NULL && i < call->n_map; i++)
		copy[i] = requests[call->map[i]];
	*copy_out = copy;
	return copy;
}

static int
fetch_send_get(struct fetch_run *run, struct fetch_call *call,
    struct hm_frame *frame)
{
	struct hm_get get = {
	    .deadline_ms = hm_deadline_wire_ms(run->deadline),
	    .lane = run->fetch->lane,
	    .n_requests = (uint32_t)call->n_map,
	};
	const struct hm_request *requests;
	struct hm_request *copy;
	int error;

	requests = fetch_gather(run, call, &copy);
	if (requests == NULL)
		return HM_E_NOMEM;
	/* Only read there, but the member of a received one is owned. */
	memcpy(&get.requests, &requests, sizeof get.requests);
	error = hm_codec_pack_get(&get, run->body, run->n_body, &frame->n_body);
	free(copy);
	if (error != HM_OK)
		return error;
	frame->type = HM_FRAME_GET;
	return hm_transport_send(&run->link->transport, frame, run->deadline);
}

static int
fetch_send(struct fetch_run *run, struct fetch_call *call)
{
	struct hm_frame frame = {.body = run->body, .fd = -1};
	int error;

	call->n_map = 0;
	for (size_t i = call->first; i < call->first + call->n; i++) {
		if (!run->answered[i])
			call->map[call->n_map++] = (uint32_t)i;
	}
	if (call->n_map == 0)
		return HM_OK;
	frame.request_id = hm_link_next_id(run->link);
	error = run->fetch->compile != NULL ? fetch_send_compile(run, &frame)
					    : fetch_send_get(run, call, &frame);
	if (error != HM_OK)
		return error;
	call->id = frame.request_id;
	call->n_left = call->n_map;
	run->n_flying++;
	return HM_OK;
}

/* Put calls on their way while the window has room. */
static int
fetch_send_some(struct fetch_run *run)
{
	struct fetch_call *call;
	bool all;
	int error;

	for (size_t i = 0; i < run->n_calls && run->n_flying < run->window;
	     i++) {
		call = &run->calls[i];
		all = true;
		for (size_t j = 0; j < call->n && all; j++)
			all = run->answered[call->first + j];
		if (call->id != 0 || all)
			continue;
		error = fetch_send(run, call);
		if (error != HM_OK)
			return error;
	}
	return HM_OK;
}

/* --- receiving ----------------------------------------------------------- */

static struct fetch_call *
fetch_find_call(struct fetch_run *run, uint32_t id)
{
	for (size_t i = 0; i < run->n_calls; i++) {
		if (run->calls[i].id == id)
			return &run->calls[i];
	}
	return NULL;
}

static int
fetch_on_part(struct fetch_call *call, const struct hm_frame *frame)
{
	uint8_t *larger;

	if (frame->n_raw == 0 || frame->fd != -1 ||
	    frame->n_raw > HM_MAX_IMAGE_BYTES - call->n_part)
		return HM_E_PROTOCOL;
	larger = realloc(call->part, call->n_part + frame->n_raw);
	if (larger == NULL)
		return HM_E_NOMEM;
	memcpy(larger + call->n_part, frame->raw, frame->n_raw);
	call->part = larger;
	call->n_part += frame->n_raw;
	return HM_OK;
}

/* The image of a reply, from wherever it came: its packet, the parts before
 * it, or a sealed file. Exactly one of them. */
static int
fetch_take_image(struct fetch_call *call, const struct hm_frame *frame,
    uint32_t image_bytes, struct hm_image *image_out)
{
	struct hm_image image = {.n_bytes = image_bytes};
	void *copy;
	int error;

	if (image_bytes == 0 || image_bytes > HM_MAX_IMAGE_BYTES ||
	    (frame->n_raw != 0) + (frame->fd != -1) + (call->n_part != 0) != 1)
		return HM_E_PROTOCOL;
	if (frame->fd != -1) {
		error = hm_fd_map_sealed(frame->fd, HM_MAX_IMAGE_BYTES,
		    &image.bytes, &image.n_bytes);
		if (error != HM_OK)
			return error;
		image.mapped = true;
	} else if (call->n_part != 0) {
		image.n_bytes = call->n_part;
		image.bytes = call->part;
		call->part = NULL;
		call->n_part = 0;
	} else {
		copy = malloc(frame->n_raw);
		if (copy == NULL)
			return HM_E_NOMEM;
		memcpy(copy, frame->raw, frame->n_raw);
		image.n_bytes = frame->n_raw;
		image.bytes = copy;
	}
	if (image.n_bytes != image_bytes) {
		hm_image_done(&image);
		return HM_E_PROTOCOL;
	}
	*image_out = image;
	return HM_OK;
}

/* The code of a reply that is not a kernel. */
static int
fetch_reply_error(const struct hm_kernel_reply *reply)
{
	if (reply->error < HM_OK && reply->error >= HM_E_INTERNAL)
		return reply->error;
	switch (reply->status) {
	case HM_REPLY_BUSY:
		return HM_E_BUSY;
	case HM_REPLY_DENIED:
		return HM_E_DENIED;
	case HM_REPLY_UNSUPPORTED:
		return HM_E_UNSUPPORTED;
	case HM_REPLY_TRY_LOCAL:
		return HM_E_UNAVAILABLE;
	case HM_REPLY_FAILED:
		return HM_E_COMPILE;
	default:
		return HM_E_PROTOCOL;
	}
}

static uint32_t
fetch_wait_us(const struct fetch_run *run)
{
	int64_t wait = hm_deadline_now_us() - run->start_us;

	return wait > UINT32_MAX ? UINT32_MAX : (uint32_t)wait;
}

/* A kernel, or its own failure; an error here is the connection's. */
static int
fetch_make_result(struct fetch_run *run, struct fetch_call *call,
    const struct hm_frame *frame, struct hm_kernel_reply *reply,
    struct hm_fetch_result *result)
{
	const struct hm_request *request = NULL;
	struct hm_image image = {.bytes = NULL};
	struct hm_errbuf why = {.text = ""};
	int error;

	if (reply->status != HM_REPLY_HIT && reply->status != HM_REPLY_BUILT) {
		result->error = fetch_reply_error(reply);
		result->message = reply->message[0] != '\0'
				      ? reply->message
				      : hm_strerror(result->error);
		result->log = reply->log;
		fetch_deliver(run, result);
		return HM_OK;
	}
	error = fetch_take_image(call, frame, reply->image_bytes, &image);
	if (error != HM_OK)
		return error;
	if (run->fetch->compile == NULL)
		request = &run->fetch->requests[result->index];
	error = hm_kernel_new(reply, request, &image, fetch_wait_us(run),
	    &result->kernel, &why);
	hm_image_done(&image);
	if (error == HM_E_PROTOCOL || error == HM_E_NOMEM)
		return error;
	result->error = error;
	result->message = why.text;
	fetch_deliver(run, result);
	return HM_OK;
}

/* What the compiler says of a source, under the name that its caller gave. */
static int
fetch_label(const char *name, struct hm_kernel_reply *reply)
{
	char message[sizeof reply->message];
	char *log;

	hm_label_line(reply->message, name, message, sizeof message);
	memcpy(reply->message, message, sizeof message);
	if (reply->log == NULL)
		return HM_OK;
	log = hm_label_lines(reply->log, name);
	if (log == NULL)
		return HM_E_NOMEM;
	free(reply->log);
	reply->log = log;
	return HM_OK;
}

static int
fetch_on_kernel(struct fetch_run *run, struct fetch_call *call,
    const struct hm_frame *frame)
{
	struct hm_fetch_result result = {.error = HM_OK};
	struct hm_kernel_reply reply;
	int error;

	error = hm_codec_unpack_kernel(frame->body, frame->n_body, &reply);
	if (error != HM_OK)
		return error;
	if (reply.index >= call->n_map ||
	    run->answered[call->map[reply.index]]) {
		error = HM_E_PROTOCOL;
		goto out;
	}
	result.index = call->map[reply.index];
	if (run->fetch->compile != NULL)
		error = fetch_label(run->fetch->compile->name, &reply);
	if (error == HM_OK)
		error = fetch_make_result(run, call, frame, &reply, &result);
	if (error == HM_OK && --call->n_left == 0)
		fetch_land(run, call);
out:
	hm_kernel_reply_done(&reply);
	return error;
}

static int
fetch_on_progress(struct fetch_run *run, const struct fetch_call *call,
    const struct hm_frame *frame)
{
	struct hm_progress progress;
	int error;

	error = hm_codec_unpack_progress(frame->body, frame->n_body, &progress);
	if (error != HM_OK)
		return error;
	if (progress.index >= call->n_map)
		return HM_E_PROTOCOL;
	if (run->fetch->on_progress != NULL)
		run->fetch->on_progress(run->fetch->payload,
		    call->map[progress.index], &progress);
	return HM_OK;
}

/* A whole call is refused: an answer to all that it asked. One without an id
 * is about the connection, which then ends with this code. */
static int
fetch_on_refusal(struct fetch_run *run, struct fetch_call *call,
    const struct hm_frame *frame, struct hm_errbuf *errbuf)
{
	struct hm_errbuf why = {.text = ""};
	int error;

	error = hm_transport_refusal(frame, &why);
	if (call == NULL || why.text[0] == '\0') {
		hm_errbuf_set(errbuf, "%s", why.text);
		return error;
	}
	fetch_fail_call(run, call, error, why.text);
	fetch_land(run, call);
	return HM_OK;
}

static int
fetch_on_frame(struct fetch_run *run, const struct hm_frame *frame,
    struct hm_errbuf *errbuf)
{
	struct fetch_call *call = NULL;

	if (frame->request_id != 0)
		call = fetch_find_call(run, frame->request_id);
	if (frame->type == HM_FRAME_ERROR &&
	    (call != NULL || frame->request_id == 0))
		return fetch_on_refusal(run, call, frame, errbuf);
	/* An id of ours that is not in flight: all its replies have come. */
	if (call == NULL)
		return HM_E_PROTOCOL;
	switch (frame->type) {
	case HM_FRAME_KERNEL:
		return fetch_on_kernel(run, call, frame);
	case HM_FRAME_PART:
		return fetch_on_part(call, frame);
	case HM_FRAME_PROGRESS:
		return fetch_on_progress(run, call, frame);
	default:
		return HM_E_PROTOCOL;
	}
}

/* --- the run ------------------------------------------------------------- */

/* One turn: connected, sent what may be sent, received one frame. */
static int
fetch_step(struct fetch_run *run, uint32_t first_id, struct hm_errbuf *errbuf)
{
	struct hm_frame frame;
	int error;

	error = fetch_send_some(run);
	if (error != HM_OK)
		return error;
	error = hm_link_recv(run->link, first_id, run->deadline, &frame);
	if (error != HM_OK)
		return error;
	error = fetch_on_frame(run, &frame, errbuf);
	hm_fd_close(&frame.fd);
	/* A peer that never stops talking must not outrun the deadline. */
	if (error == HM_OK && run->n_missing != 0 &&
	    hm_deadline_left_ms(run->deadline) == 0)
		error = HM_E_TIMEOUT;
	return error;
}

/* Until all is answered; asks again over a new connection when one breaks. */
static int
fetch_loop(struct fetch_run *run, struct hm_errbuf *errbuf)
{
	uint32_t first_id = run->link->last_id + 1;
	int error;

	while (run->n_missing != 0) {
		hm_errbuf_clear(errbuf);
		if (run->link->transport.fd == -1) {
			error = hm_link_ready(run->link, run->deadline, errbuf);
			if (error != HM_OK)
				return error;
			hm_errbuf_clear(errbuf);
			first_id = run->link->last_id + 1;
		}
		error = fetch_step(run, first_id, errbuf);
		if (error == HM_OK)
			continue;
		if (error != HM_E_UNAVAILABLE || errbuf->text[0] != '\0' ||
		    hm_link_lost(run->link, run->deadline) != HM_OK)
			return error;
		for (size_t i = 0; i < run->n_calls; i++) {
			if (run->calls[i].id != 0)
				fetch_land(run, &run->calls[i]);
		}
	}
	return HM_OK;
}

static int
fetch_init_one(struct fetch_run *run)
{
	run->n_calls = 1;
	run->calls = &run->one_call;
	run->one_call.n = 1;
	run->one_call.map = &run->one_map;
	run->answered = &run->one_answered;
	run->body = run->one_body;
	run->n_body = ONE_BODY_BYTES;
	return HM_OK;
}

static int
fetch_init_calls(struct fetch_run *run, size_t size)
{
	const struct hm_fetch *fetch = run->fetch;
	struct fetch_call *call;

	run->n_calls = (fetch->n_requests + size - 1) / size;
	run->calls = calloc(run->n_calls, sizeof *run->calls);
	run->answered = calloc(fetch->n_requests, sizeof *run->answered);
	run->n_body =
	    BODY_BYTES +
	    (fetch->compile != NULL ? fetch->compile->n_options : size) *
		HM_MAX_OPTION_CHARS;
	if (run->n_body > HM_FRAME_MAX_BYTES)
		run->n_body = HM_FRAME_MAX_BYTES;
	run->body = malloc(run->n_body);
	if (run->calls == NULL || run->answered == NULL || run->body == NULL)
		return HM_E_NOMEM;
	for (size_t i = 0; i < run->n_calls; i++) {
		call = &run->calls[i];
		call->first = i * size;
		call->n = fetch->n_requests - call->first < size
			      ? fetch->n_requests - call->first
			      : size;
		call->map = calloc(call->n, sizeof *call->map);
		if (call->map == NULL)
			return HM_E_NOMEM;
	}
	return HM_OK;
}

static int
fetch_init(struct fetch_run *run)
{
	const struct hm_fetch *fetch = run->fetch;
	size_t n_options =
	    fetch->compile != NULL ? fetch->compile->n_options : 0;
	int error;

	run->n_missing = fetch->n_requests;
	if (fetch->n_requests == 1 && n_options <= 1)
		error = fetch_init_one(run);
	else
		error = fetch_init_calls(run,
		    fetch->window != 0 || fetch->n_requests == 1
			? 1
			: HM_MAX_GET_REQUESTS);
	run->window = fetch->window != 0 ? fetch->window : run->n_calls;
	return error;
}

static void
fetch_done(struct fetch_run *run)
{
	for (size_t i = 0; run->calls != NULL && i < run->n_calls; i++)
		free(run->calls[i].part);
	if (run->body == run->one_body)
		return;
	for (size_t i = 0; run->calls != NULL && i < run->n_calls; i++)
		free(run->calls[i].map);
	free(run->calls);
	free(run->answered);
	free(run->body);
}

/* Nobody waits any more for what is in flight. */
static void
fetch_cancel(struct fetch_run *run)
{
	for (size_t i = 0; run->calls != NULL && i < run->n_calls; i++) {
		if (run->calls[i].id != 0)
			hm_link_cancel(run->link, run->calls[i].id);
	}
}

/* What was not answered gets the run's own end as its result. */
static void
fetch_abandon(struct fetch_run *run, int error, const char *message)
{
	struct hm_fetch_result result = {.error = error, .message = message};

	for (size_t i = 0; i < run->fetch->n_requests; i++) {
		result.index = i;
		if (run->answered != NULL)
			fetch_deliver(run, &result);
		else
			run->fetch->on_result(run->fetch->payload, &result);
	}
}

int
hm_fetch_run(struct hm_link *link, const struct hm_fetch *fetch,
    int64_t deadline, struct hm_errbuf *errbuf)
{
	struct hm_errbuf why = {.text = ""};
	uint8_t one_body[ONE_BODY_BYTES];
	struct fetch_run run = {
	    .link = link,
	    .fetch = fetch,
	    .deadline = deadline,
	    .start_us = hm_deadline_now_us(),
	    .one_body = one_body,
	};
	int error;

	if (fetch->n_requests == 0)
		return HM_OK;
	error = fetch_init(&run);
	if (error == HM_OK)
		error = fetch_loop(&run, &why);
	if (error != HM_OK) {
		fetch_cancel(&run);
		hm_link_fail(link, error, &why);
		fetch_abandon(&run, error, why.text);
		hm_errbuf_set(errbuf, "%s", why.text);
	}
	fetch_done(&run);
	return error;
}
