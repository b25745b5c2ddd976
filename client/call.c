/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.c - see call.h.
 */
#include "client/call.h"

#include <stdlib.h>
#include <string.h>

#include "client/deadline.h"
#include "proto/fd.h"

int
hm_call_text(struct hm_link *link, uint32_t frame_type, int64_t deadline,
    char **text_out, struct hm_errbuf *errbuf)
{
	struct hm_frame request = {.type = frame_type, .fd = -1};
	struct hm_frame reply;
	char *text = NULL;
	int error;

	error = hm_link_exchange(link, &request, deadline, &reply, errbuf);
	if (error != HM_OK)
		return error;
	error = reply.type == HM_FRAME_TEXT
		    ? hm_codec_unpack_text(reply.body, reply.n_body, &text)
		    : HM_E_PROTOCOL;
	if (error != HM_OK) {
		hm_link_fail(link, error, errbuf);
		return error;
	}
	if (text_out != NULL)
		*text_out = text;
	else
		free(text);
	return HM_OK;
}

/* Everything that still comes, up to the end of the connection. */
static int
call_wait_end(struct hm_link *link, int64_t deadline)
{
	struct hm_frame frame;
	int error;

	do {
		error = hm_transport_recv(&link->transport, deadline, &frame);
		if (error != HM_OK)
			break;
		hm_fd_close(&frame.fd);
		/* A peer that never stops talking must not outrun it. */
		if (hm_deadline_left_ms(deadline) == 0)
			error = HM_E_TIMEOUT;
	} while (error == HM_OK);
	return error == HM_E_UNAVAILABLE ? HM_OK : error;
}

int
hm_call_stop(struct hm_link *link, int64_t deadline, struct hm_errbuf *errbuf)
{
	struct hm_frame request = {.type = HM_FRAME_STOP, .fd = -1};
	struct hm_frame reply;
	int error;

	/* Not hm_link_exchange: a daemon that is gone must not be looked for
	 * again, only to be stopped a second time. */
	hm_errbuf_clear(errbuf);
	error = hm_link_ready(link, deadline, errbuf);
	if (error != HM_OK)
		return error;
	request.request_id = hm_link_next_id(link);
	error = hm_transport_send(&link->transport, &request, deadline);
	if (error == HM_OK)
		error =
		    hm_link_recv(link, request.request_id, deadline, &reply);
	if (error == HM_OK) {
		hm_fd_close(&reply.fd);
		if (reply.type == HM_FRAME_ERROR) {
			hm_errbuf_clear(errbuf);
			return hm_transport_refusal(&reply, errbuf);
		}
		error = call_wait_end(link, deadline);
	} else if (error == HM_E_UNAVAILABLE) {
		error = HM_OK; /* left without a word */
	}
	if (error == HM_E_TIMEOUT)
		hm_errbuf_set(errbuf, "%s: still finishing its work",
		    link->path);
	else if (error != HM_OK)
		hm_link_fail(link, error, errbuf);
	hm_transport_close(&link->transport);
	return error;
}

/* The reply's record in memory of its own; NULL when none was found. */
static int
call_take_record(const struct hm_frame *frame,
    struct hm_record_reply *reply_out, void **stored_out)
{
	struct hm_record_reply reply;
	void *stored = NULL;
	int error;

	if (frame->type != HM_FRAME_RECORD)
		return HM_E_PROTOCOL;
	error =
	    hm_codec_unpack_record_reply(frame->body, frame->n_body, &reply);
	if (error != HM_OK)
		return error;
	if (reply.found != 0) {
		if (frame->n_raw == 0 || frame->n_raw != reply.record_bytes)
			return HM_E_PROTOCOL;
		stored = malloc(frame->n_raw);
		if (stored == NULL)
			return HM_E_NOMEM;
		memcpy(stored, frame->raw, frame->n_raw);
	}
	*reply_out = reply;
	*stored_out = stored;
	return HM_OK;
}

int
hm_call_explain(struct hm_link *link, const struct hm_record *record,
    int64_t deadline, struct hm_record_reply *reply_out, void **stored_out,
    struct hm_errbuf *errbuf)
{
	struct hm_frame request = {.type = HM_FRAME_EXPLAIN, .fd = -1};
	struct hm_digest key;
	struct hm_frame reply;
	uint8_t body[64];
	int error;

	hm_digest_compute(record->bytes, record->n_bytes, &key);
	error = hm_codec_pack_explain(&key, body, sizeof body, &request.n_body);
	if (error != HM_OK)
		return error;
	request.body = body;
	if (record->n_bytes <= HM_FRAME_INLINE_BYTES) {
		request.raw = record->bytes;
		request.n_raw = record->n_bytes;
	}
	error = hm_link_exchange(link, &request, deadline, &reply, errbuf);
	if (error != HM_OK)
		return error;
	error = call_take_record(&reply, reply_out, stored_out);
	if (error != HM_OK)
		hm_link_fail(link, error, errbuf);
	return error;
}
