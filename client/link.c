/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.c - see link.h.
 */
#include "client/link.h"

#include <stdio.h>
#include <string.h>

#include "client/autostart.h"
#include "client/deadline.h"
#include "proto/fd.h"

/* Between attempts to reach a daemon that was there before. */
#define RECONNECT_PAUSE_MAX_MS 200u
/* How long without a deadline. */
#define RECONNECT_MS 30000u

int
hm_link_init(struct hm_link *link, const char *socket_path, bool autostart,
    struct hm_errbuf *errbuf)
{
	struct hm_socket_path paths;
	int error;

	memset(link, 0, sizeof *link);
	hm_transport_init(&link->transport);
	error = hm_socket_path_find(socket_path, &paths, errbuf);
	if (error != HM_OK)
		return error;
	/* Taken once: the environment is not read again at a reconnect. */
	if (paths.named)
		memcpy(link->named, paths.paths[0], sizeof link->named);
	link->autostart = autostart && !paths.named;
	return HM_OK;
}

void
hm_link_done(struct hm_link *link)
{
	hm_transport_close(&link->transport);
}

/* The first candidate that answers. */
static int
link_connect(struct hm_link *link, int64_t deadline, struct hm_errbuf *errbuf)
{
	struct hm_socket_path paths;
	struct hm_errbuf why = {.text = ""};
	int error, worst = HM_E_UNAVAILABLE;

	error = hm_socket_path_find(link->named, &paths, errbuf);
	if (error != HM_OK)
		return error;
	for (size_t i = 0; i < paths.n_paths; i++) {
		error = hm_transport_connect(&link->transport, paths.paths[i],
		    deadline, &why);
		if (error == HM_OK) {
			memcpy(link->path, paths.paths[i], sizeof link->path);
			return HM_OK;
		}
		if (paths.named || error != HM_E_UNAVAILABLE) {
			worst = error;
			hm_errbuf_set(errbuf, "%s%s", why.text,
			    error == HM_E_UNAVAILABLE
				? " (is hummingd running there?)"
				: "");
		}
	}
	if (link->autostart &&
	    (worst == HM_E_UNAVAILABLE || worst == HM_E_DENIED))
		return hm_autostart_connect(&link->transport, deadline,
		    link->path, errbuf);
	if (!paths.named && worst == HM_E_UNAVAILABLE)
		hm_errbuf_set(errbuf,
		    "no hummingd answers at %s or a private socket: start one, "
		    "or name its socket by --socket or HUMMING_SOCKET",
		    HM_SOCKET_PATH_SYSTEM);
	return worst;
}

int
hm_link_open(struct hm_link *link, int64_t deadline, struct hm_errbuf *errbuf)
{
	int error;

	error = link_connect(link, deadline, errbuf);
	if (error != HM_OK)
		return error;
	link->last_id = 1; /* HELLO's */
	error = hm_transport_hello(&link->transport, deadline, errbuf);
	if (error != HM_OK)
		hm_link_fail(link, error, errbuf);
	return error;
}

int
hm_link_ready(struct hm_link *link, int64_t deadline, struct hm_errbuf *errbuf)
{
	uint32_t pause_ms = 2;
	int error;

	if (link->transport.fd != -1)
		return HM_OK;
	deadline = hm_deadline_within(deadline, RECONNECT_MS) < deadline &&
			   deadline == HM_DEADLINE_NONE
		       ? hm_deadline_in(RECONNECT_MS)
		       : deadline;
	while ((error = hm_link_open(link, deadline, errbuf)) ==
	       HM_E_UNAVAILABLE) {
		if (hm_deadline_left_ms(deadline) == 0)
			break;
		hm_deadline_pause(deadline, pause_ms);
		if (pause_ms < RECONNECT_PAUSE_MAX_MS)
			pause_ms *= 2;
	}
	return error;
}

int
hm_link_lost(struct hm_link *link, int64_t deadline)
{
	uint32_t pause_ms = 0;

	hm_transport_close(&link->transport);
	if (hm_deadline_left_ms(deadline) == 0 ||
	    ++link->n_lost >= HM_LINK_MAX_LOST) {
		link->n_lost = 0; /* the next call may try as often */
		return HM_E_UNAVAILABLE;
	}
	if (link->n_lost > 1)
		pause_ms = link->n_lost > 8 ? RECONNECT_PAUSE_MAX_MS
					    : 1u << (link->n_lost - 1);
	hm_deadline_pause(deadline, pause_ms);
	return HM_OK;
}

uint32_t
hm_link_next_id(struct hm_link *link)
{
	return ++link->last_id;
}

void
hm_link_fail(struct hm_link *link, int error, struct hm_errbuf *errbuf)
{
	const char *why = NULL;

	switch (error) {
	case HM_E_TIMEOUT:
		why = "no answer within the deadline";
		break;
	case HM_E_UNAVAILABLE:
		why = "hummingd went away";
		break;
	case HM_E_PROTOCOL:
	case HM_E_VERSION:
		why = "not the answer of a hummingd of this release";
		break;
	default:
		why = hm_strerror(error);
		break;
	}
	if (error != HM_E_TIMEOUT)
		hm_transport_close(&link->transport);
	if (errbuf != NULL && errbuf->text[0] == '\0')
		hm_errbuf_set(errbuf, "%s: %s", link->path, why);
}

int
hm_link_recv(struct hm_link *link, uint32_t first_id, int64_t deadline,
    struct hm_frame *frame_out)
{
	struct hm_frame frame;
	int error;

	for (;;) {
		error = hm_transport_recv(&link->transport, deadline, &frame);
		if (error != HM_OK)
			return error;
		/* Signed differences: ids may wrap in a long life. */
		if ((int32_t)(frame.request_id - link->last_id) > 0 ||
		    (frame.request_id == 0 && frame.type != HM_FRAME_ERROR)) {
			hm_fd_close(&frame.fd);
			return HM_E_PROTOCOL;
		}
		if (frame.request_id == 0 ||
		    (int32_t)(frame.request_id - first_id) >= 0)
			break;
		hm_fd_close(&frame.fd);
		/* A peer that floods us with old answers must not outrun the
		 * deadline, which is only looked at when there is nothing. */
		if (hm_deadline_left_ms(deadline) == 0)
			return HM_E_TIMEOUT;
	}
	/* That something is under way is no answer yet. */
	if (frame.type != HM_FRAME_PROGRESS && frame.type != HM_FRAME_PART)
		link->n_lost = 0;
	*frame_out = frame;
	return HM_OK;
}

/* The reply proper: skips progress, turns a refusal into its code. */
static int
link_recv_reply(struct hm_link *link, uint32_t id, int64_t deadline,
    struct hm_frame *reply_out, struct hm_errbuf *errbuf)
{
	struct hm_frame frame;
	int error;

	for (;;) {
		error = hm_link_recv(link, id, deadline, &frame);
		if (error != HM_OK)
			return error;
		if (frame.fd != -1) {
			hm_fd_close(&frame.fd);
			return HM_E_PROTOCOL;
		}
		if (frame.type != HM_FRAME_PROGRESS)
			break;
		if (hm_deadline_left_ms(deadline) == 0)
			return HM_E_TIMEOUT;
	}
	if (frame.type == HM_FRAME_ERROR)
		return hm_transport_refusal(&frame, errbuf);
	*reply_out = frame;
	return HM_OK;
}

/* Whether the connection can be used after this: a refusal is an answer. */
static bool
link_is_broken(int error)
{
	return error == HM_E_UNAVAILABLE || error == HM_E_PROTOCOL ||
	       error == HM_E_VERSION || error == HM_E_SYSTEM;
}

int
hm_link_exchange(struct hm_link *link, struct hm_frame *request,
    int64_t deadline, struct hm_frame *reply_out, struct hm_errbuf *errbuf)
{
	int error;

	for (;;) {
		hm_errbuf_clear(errbuf);
		error = hm_link_ready(link, deadline, errbuf);
		if (error != HM_OK)
			return error;
		hm_errbuf_clear(errbuf);
		request->request_id = hm_link_next_id(link);
		error = hm_transport_send(&link->transport, request, deadline);
		if (error == HM_OK)
			error = link_recv_reply(link, request->request_id,
			    deadline, reply_out, errbuf);
		/* An empty errbuf: nobody refused, the connection ended. */
		if (error != HM_E_UNAVAILABLE || errbuf->text[0] != '\0' ||
		    hm_link_lost(link, deadline) != HM_OK)
			break;
	}
	if (error == HM_E_TIMEOUT && errbuf->text[0] == '\0')
		hm_link_cancel(link, request->request_id);
	if (error != HM_OK && errbuf->text[0] == '\0')
		hm_link_fail(link, error, errbuf);
	else if (link_is_broken(error) && error != HM_E_UNAVAILABLE)
		hm_transport_close(&link->transport);
	return error;
}

void
hm_link_cancel(struct hm_link *link, uint32_t request_id)
{
	struct hm_frame frame = {.type = HM_FRAME_CANCEL, .fd = -1};
	uint8_t body[32];

	if (link->transport.fd == -1 ||
	    hm_codec_pack_cancel(request_id, body, sizeof body,
		&frame.n_body) != HM_OK)
		return;
	frame.body = body;
	frame.request_id = hm_link_next_id(link);
	(void)hm_frame_send(link->transport.fd, &frame);
}
