/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - receive, hand down, send, give up on peers that lie or stall.
 *
 * Decides nothing about requests. session_update_interest is the only place
 * that touches the two socket events. Loop thread only.
 */
#include "daemon/session.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <endian.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "daemon/config.h"
#include "daemon/log.h"
#include "proto/codec.h"
#include "proto/fd.h"

/* Of all slow readers together, and no more than half of it for the sessions of
 * one user; who adds to it beyond that is dropped. */
#define SESSION_MAX_QUEUED_BYTES ((uint64_t)HM_LIMITS_ALL_KIB << 10)

/* What a text takes beside itself: tag and length. */
#define SESSION_TEXT_BYTES 16u

/* A frame that waits for the socket. */
struct hm_packet {
	STAILQ_ENTRY(hm_packet) link;
	struct hm_frame frame;  /* its bytes stand behind the packet; no fd */
	struct hm_entry *entry; /* one reference: owns raw then; or NULL */
	uint64_t n_bytes;       /* of the frame, whoever owns them */
	uint64_t n_own_bytes;   /* of memory that this packet takes */
	bool is_counted;        /* n_own_bytes, among its user's */
	uint8_t body[];
};

static uint64_t session_number;

void
hm_session_host_init(struct hm_session_host *host)
{
	uintptr_t past = (uintptr_t)host->room % HM_SESSION_ALIGN;

	host->buffer =
	    host->room + (HM_SESSION_ALIGN - past) % HM_SESSION_ALIGN;
}

static void
packet_free(struct hm_session *session, struct hm_packet *packet)
{
	session->host->queued_bytes -= packet->n_own_bytes;
	if (packet->is_counted)
		hm_limits_give_bytes(session->host->limits, session->peer.uid,
		    HM_LIMITS_UNREAD_KIB, packet->n_own_bytes);
	hm_entry_unref(packet->entry);
	free(packet);
}

static void
session_on_reap(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	hm_session_free(arg);
}

void
hm_session_free(struct hm_session *session)
{
	struct hm_packet *packet;

	session->state = HM_SESSION_DEAD;
	session->host->on_closed(session, session->host->arg);
	while ((packet = STAILQ_FIRST(&session->queue)) != NULL) {
		STAILQ_REMOVE_HEAD(&session->queue, link);
		packet_free(session, packet);
	}
	event_free(session->readable);
	event_free(session->writable);
	event_free(session->stalled);
	event_free(session->reaper);
	hm_fd_close(&session->fd);
	free(session);
}

static bool
session_set_event(struct event *event, bool is_wanted)
{
	return (is_wanted ? event_add(event, NULL) : event_del(event)) == 0;
}

/* false: what is wanted cannot be watched. */
static bool
session_set_interest(struct hm_session *session, short interest)
{
	short change = (short)(interest ^ session->interest);
	bool is_set = true;

	session->interest = interest;
	if ((change & EV_READ) != 0)
		is_set =
		    session_set_event(session->readable, interest == EV_READ);
	if ((change & EV_WRITE) != 0)
		is_set = session_set_event(session->writable,
			     interest == EV_WRITE) &&
			 is_set;
	return is_set;
}

void
hm_session_update_interest(struct hm_session *session)
{
	short interest = 0;

	if (session->state != HM_SESSION_DEAD) {
		if (!STAILQ_EMPTY(&session->queue))
			interest = EV_WRITE;
		else if (session->state != HM_SESSION_FLUSH &&
			 session->n_in_flight <
			     session->host->settings->in_flight)
			interest = EV_READ;
	}
	/* It would be deaf or mute for ever. */
	if (!session_set_interest(session, interest))
		hm_session_kill(session, HM_E_SYSTEM, "cannot be watched");
}

/* The one way to an end: the rest happens in a turn of the loop's own. */
static void
session_end(struct hm_session *session)
{
	if (session->state == HM_SESSION_DEAD)
		return;
	session->state = HM_SESSION_DEAD;
	(void)session_set_interest(session, 0);
	(void)event_del(session->stalled);
	event_active(session->reaper, EV_TIMEOUT, 0);
}

void
hm_session_kill(struct hm_session *session, int error, const char *why)
{
	if (session->state == HM_SESSION_DEAD)
		return;
	hm_log(HM_LOG_CONN, HM_LOG_INFO,
	    "connection dropped conn=%llu uid=%lu pid=%ld error=\"%s\" "
	    "why=\"%s\"",
	    (unsigned long long)session->number,
	    (unsigned long)session->peer.uid, (long)session->peer.pid,
	    hm_strerror(error), why);
	session_end(session);
}

void
hm_session_finish(struct hm_session *session)
{
	if (session->state == HM_SESSION_DEAD)
		return;
	session->state = HM_SESSION_FLUSH;
	if (STAILQ_EMPTY(&session->queue))
		session_end(session);
	else
		hm_session_update_interest(session);
}

static void
session_on_stalled(evutil_socket_t fd, short what, void *arg)
{
	struct hm_session *session = arg;

	(void)fd;
	(void)what;
	hm_session_kill(session, HM_E_TIMEOUT,
	    session->state == HM_SESSION_HELLO ? "says no hello"
					       : "takes no replies");
}

static void
session_watch_stall(struct hm_session *session)
{
	uint64_t stall_ms = session->host->settings->stall_ms;
	struct timeval wait = {(time_t)(stall_ms / 1000),
	    (suseconds_t)(stall_ms % 1000 * 1000)};

	if (event_add(session->stalled, &wait) != 0)
		hm_session_kill(session, HM_E_NOMEM, "cannot be timed");
}

static void
session_enqueue(struct hm_session *session, const struct hm_frame *frame,
    struct hm_entry *entry)
{
	struct hm_session_host *host = session->host;
	size_t n_raw = entry == NULL ? frame->n_raw : 0;
	struct hm_packet *packet;

	packet = malloc(sizeof(*packet) + frame->n_body + n_raw);
	if (packet == NULL) {
		hm_session_kill(session, HM_E_NOMEM, "no memory to send");
		return;
	}
	packet->frame = *frame;
	if (frame->n_body > 0)
		memcpy(packet->body, frame->body, frame->n_body);
	packet->frame.body = packet->body;
	packet->entry = entry == NULL ? NULL : hm_entry_ref(entry);
	if (n_raw > 0) {
		memcpy(packet->body + frame->n_body, frame->raw, n_raw);
		packet->frame.raw = packet->body + frame->n_body;
	}
	packet->n_bytes = frame->n_body + frame->n_raw + sizeof(*packet);
	if (STAILQ_EMPTY(&session->queue))
		session_watch_stall(session);
	STAILQ_INSERT_TAIL(&session->queue, packet, link);
	session->queued_bytes += packet->n_bytes;
	packet->n_own_bytes = sizeof(*packet) + frame->n_body + n_raw;
	host->queued_bytes += packet->n_own_bytes;
	packet->is_counted =
	    hm_limits_take_bytes(host->limits, session->peer.uid,
		HM_LIMITS_UNREAD_KIB, packet->n_own_bytes) == HM_OK;
	if (session->queued_bytes > host->settings->send_bytes ||
	    !packet->is_counted ||
	    host->queued_bytes > SESSION_MAX_QUEUED_BYTES)
		hm_session_kill(session, HM_E_BUSY,
		    "more replies wait than limits.send_bytes");
	hm_session_update_interest(session);
}

void
hm_session_send(struct hm_session *session, const struct hm_frame *frame,
    const struct hm_payload *payload)
{
	struct hm_frame whole = *frame;
	int error = HM_E_BUSY;

	if (session->state == HM_SESSION_DEAD ||
	    session->state == HM_SESSION_FLUSH)
		return;
	if (payload != NULL && payload->n_bytes > 0) {
		whole.raw = payload->entry->image + payload->offset;
		whole.n_raw = payload->n_bytes;
	}
	if (STAILQ_EMPTY(&session->queue))
		error = hm_frame_send(session->fd, &whole);
	if (error == HM_E_BUSY)
		session_enqueue(session, &whole,
		    payload == NULL ? NULL : payload->entry);
	else if (error != HM_OK)
		hm_session_kill(session, error, "cannot send");
}

bool
hm_session_pass_fd(struct hm_session *session, const struct hm_frame *frame)
{
	int n_unread = 0;

	if ((session->capabilities & HM_CAPABILITY_FD) == 0 ||
	    session->state != HM_SESSION_OPEN || !STAILQ_EMPTY(&session->queue))
		return false;
	if (session->fd_outstanding &&
	    ioctl(session->fd, SIOCOUTQ, &n_unread) == 0 && n_unread == 0)
		session->fd_outstanding = false;
	if (session->fd_outstanding ||
	    hm_frame_send(session->fd, frame) != HM_OK)
		return false;
	session->fd_outstanding = true;
	return true;
}

void
hm_session_send_error(struct hm_session *session, uint32_t request_id,
    int error, const char *message)
{
	struct hm_refusal refusal = {.error = error};
	uint8_t body[sizeof(refusal) + 64];
	struct hm_frame frame = {.type = HM_FRAME_ERROR,
	    .request_id = request_id,
	    .body = body,
	    .fd = -1};
	struct hm_errbuf text = {""};

	hm_errbuf_set(&text, "%s", message);
	memcpy(refusal.message, text.text,
	    sizeof(refusal.message) < sizeof(text.text)
		? sizeof(refusal.message)
		: sizeof(text.text));
	if (hm_codec_pack_refusal(&refusal, body, sizeof(body),
		&frame.n_body) != HM_OK)
		hm_session_kill(session, HM_E_INTERNAL, "cannot pack");
	else
		hm_session_send(session, &frame, NULL);
}

void
hm_session_send_text(struct hm_session *session, uint32_t request_id,
    const char *text)
{
	const size_t max = HM_FRAME_MAX_BYTES - HM_FRAME_HEADER_BYTES;
	const size_t wanted = strlen(text) + SESSION_TEXT_BYTES;
	const size_t size = wanted < max ? wanted : max;
	struct hm_frame frame = {.type = HM_FRAME_TEXT,
	    .request_id = request_id,
	    .fd = -1};
	uint8_t *body = malloc(size);

	frame.body = body;
	if (body == NULL ||
	    hm_codec_pack_text(text, body, size, &frame.n_body) != HM_OK)
		hm_session_send_error(session, request_id, HM_E_NOMEM,
		    "the answer does not fit");
	else
		hm_session_send(session, &frame, NULL);
	free(body);
}

static void
session_on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct hm_session *session = arg;
	struct hm_packet *packet;
	int error = HM_OK;

	(void)fd;
	(void)what;
	while (error == HM_OK &&
	       (packet = STAILQ_FIRST(&session->queue)) != NULL) {
		error = hm_frame_send(session->fd, &packet->frame);
		if (error != HM_OK)
			break;
		STAILQ_REMOVE_HEAD(&session->queue, link);
		session->queued_bytes -= packet->n_bytes;
		packet_free(session, packet);
		session_watch_stall(session);
	}
	if (error != HM_OK && error != HM_E_BUSY) {
		hm_session_kill(session, error, "cannot send");
		return;
	}
	if (error == HM_OK) {
		(void)event_del(session->stalled);
		if (session->state == HM_SESSION_FLUSH)
			session_end(session);
	}
	hm_session_update_interest(session);
}

/* A first frame of another version of frames: the one thing that peer may
 * understand is an error of ours, which tells it both numbers. */
static void
session_refuse_version(struct hm_session *session)
{
	struct hm_errbuf text = {""};
	uint16_t theirs;

	memcpy(&theirs, session->host->buffer + 4, sizeof(theirs));
	hm_errbuf_set(&text,
	    "hummingd " HM_VERSION " speaks frame version %u, not %u",
	    HM_FRAME_VERSION, le16toh(theirs));
	hm_session_send_error(session, 0, HM_E_VERSION, text.text);
	hm_session_finish(session);
}

/*
 * One readable event handles at most one message; the rest waits for the next
 * turn.
 */
static void
session_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct hm_session *session = arg;
	struct hm_session_host *host = session->host;
	struct hm_frame frame;
	int error;

	(void)what;
	error = hm_frame_recv(fd, host->buffer, &frame);
	if (error == HM_E_BUSY)
		return;
	if (error == HM_E_UNAVAILABLE) {
		hm_log(HM_LOG_CONN, HM_LOG_DEBUG, "connection ended conn=%llu",
		    (unsigned long long)session->number);
		session_end(session);
		return;
	}
	if (error == HM_E_VERSION && session->state == HM_SESSION_HELLO) {
		session_refuse_version(session);
		return;
	}
	if (error != HM_OK) {
		hm_session_kill(session, error, "not a frame of ours");
		return;
	}
	session->fd_outstanding = false; /* it is reading, so it has read */
	if (HM_FRAME_HEADER_BYTES + frame.n_body + frame.n_raw >
	    host->settings->frame_bytes)
		error = HM_E_PROTOCOL;
	else
		error = host->on_frame(session, &frame, host->arg);
	hm_fd_close(&frame.fd);
	if (error != HM_OK)
		hm_session_kill(session, error, "bad frame");
	else
		hm_session_update_interest(session);
}

void
hm_session_welcome(struct hm_session *session, uint32_t capabilities)
{
	session->capabilities = capabilities;
	session->state = HM_SESSION_OPEN;
	if (STAILQ_EMPTY(&session->queue))
		(void)event_del(session->stalled);
}

int
hm_session_new(struct hm_session_host *host, int fd, const struct hm_peer *peer,
    struct hm_session **session_out)
{
	struct hm_session *session = calloc(1, sizeof(*session));

	if (session == NULL)
		return HM_E_NOMEM;
	STAILQ_INIT(&session->queue);
	LIST_INIT(&session->calls);
	session->host = host;
	session->peer = *peer;
	session->number = ++session_number;
	session->readable = event_new(host->base, fd, EV_READ | EV_PERSIST,
	    session_on_readable, session);
	session->writable = event_new(host->base, fd, EV_WRITE | EV_PERSIST,
	    session_on_writable, session);
	session->stalled =
	    event_new(host->base, -1, 0, session_on_stalled, session);
	session->reaper =
	    event_new(host->base, -1, 0, session_on_reap, session);
	if (session->readable == NULL || session->writable == NULL ||
	    session->stalled == NULL || session->reaper == NULL) {
		if (session->readable != NULL)
			event_free(session->readable);
		if (session->writable != NULL)
			event_free(session->writable);
		if (session->stalled != NULL)
			event_free(session->stalled);
		if (session->reaper != NULL)
			event_free(session->reaper);
		free(session);
		return HM_E_NOMEM;
	}
	session->fd = fd;
	session_watch_stall(session);
	hm_session_update_interest(session);
	*session_out = session;
	return HM_OK;
}
