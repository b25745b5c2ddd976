/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch.c - one row per frame type: its handler, and in which state of the
 * session and with which right it may come.
 */
#include "daemon/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/admin.h"
#include "daemon/audit.h"
#include "daemon/call.h"
#include "daemon/compile.h"
#include "daemon/config.h"
#include "daemon/explain.h"
#include "daemon/log.h"
#include "jit/config.h"
#include "proto/codec.h"

typedef int (*dispatch_fn)(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame);

static int
dispatch_send_welcome(struct hm_session *session, uint32_t request_id)
{
	struct hm_welcome welcome = {.schema = HM_SCHEMA,
	    .capabilities = HM_CAPABILITY_FD | HM_CAPABILITY_ADMIN,
	    .kernel_abi = HM_KERNEL_ABI,
	    .pack_layout = HM_PACK_LAYOUT,
	    .version = HM_VERSION,
	    .max_requests = HM_MAX_GET_REQUESTS,
	    .max_source_bytes = HM_MAX_SOURCE_BYTES};
	uint8_t body[256];
	struct hm_frame frame = {.type = HM_FRAME_WELCOME,
	    .request_id = request_id,
	    .body = body,
	    .fd = -1};
	int error;

	error =
	    hm_codec_pack_welcome(&welcome, body, sizeof(body), &frame.n_body);
	if (error == HM_OK)
		hm_session_send(session, &frame, NULL);
	return error;
}

/* Two releases agree here or part by name, before a kernel is launched wrong.
 * A client that launches nothing gives no kernel ABI. */
static int
dispatch_hello(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame)
{
	struct hm_errbuf text = {""};
	struct hm_log_text program;
	struct hm_hello hello;
	int error;

	(void)core;
	error = hm_codec_unpack_hello(frame->body, frame->n_body, &hello);
	if (error != HM_OK)
		return error;
	if (hello.schema != HM_SCHEMA)
		hm_errbuf_set(&text,
		    "hummingd " HM_VERSION " speaks schema %u, not %u",
		    HM_SCHEMA, hello.schema);
	else if (hello.kernel_abi != 0 && hello.kernel_abi != HM_KERNEL_ABI)
		hm_errbuf_set(&text,
		    "hummingd " HM_VERSION " builds for kernel ABI %u, not %u",
		    HM_KERNEL_ABI, hello.kernel_abi);
	else if (hello.pack_layout != 0 && hello.pack_layout != HM_PACK_LAYOUT)
		hm_errbuf_set(&text,
		    "hummingd " HM_VERSION " builds for weight layout %u, "
		    "not %u",
		    HM_PACK_LAYOUT, hello.pack_layout);
	if (text.text[0] != '\0') {
		hm_session_send_error(session, frame->request_id, HM_E_VERSION,
		    text.text);
		hm_session_finish(session);
		return HM_OK;
	}
	hm_session_welcome(session, hello.capabilities);
	hm_log(HM_LOG_CONN, HM_LOG_DEBUG,
	    "hello conn=%llu uid=%lu pid=%ld program=\"%s\"",
	    (unsigned long long)session->number,
	    (unsigned long)session->peer.uid, (long)session->peer.pid,
	    hm_log_quote(&program, hello.program));
	return dispatch_send_welcome(session, frame->request_id);
}

static int
dispatch_cancel(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame)
{
	uint32_t request_id = 0;
	int error;

	(void)core;
	error = hm_codec_unpack_cancel(frame->body, frame->n_body, &request_id);
	if (error == HM_OK)
		hm_call_cancel(session, request_id);
	return error;
}

static int
dispatch_ping(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame)
{
	(void)core;
	hm_session_send_text(session, frame->request_id,
	    "hummingd " HM_VERSION);
	return HM_OK;
}

static int
dispatch_json(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame)
{
	char *json = NULL;
	int error;

	error = frame->type == HM_FRAME_STATS
		    ? hm_metrics_stats(core, &json)
		    : hm_metrics_status(core, session->peer.rights, &json);
	if (error != HM_OK)
		hm_session_send_error(session, frame->request_id, error,
		    hm_strerror(error));
	else
		hm_session_send_text(session, frame->request_id, json);
	free(json);
	return HM_OK;
}

/* Refuse, and write down who it was. */
static void
dispatch_deny(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame, const char *what, const char *why)
{
	hm_audit_refuse(core, &session->peer, what, why);
	hm_session_send_error(session, frame->request_id, HM_E_DENIED, why);
}

static int
dispatch_stop(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame)
{
	const char *why = NULL;

	/* Not the group: a private daemon is one user's. */
	if (!core->settings->is_private)
		why = "only a private daemon obeys stop; ask the service "
		      "manager";
	else if (session->peer.uid != 0 && !hm_limits_is_own(session->peer.uid))
		why = "only its own user and root may stop this daemon";
	if (why != NULL) {
		dispatch_deny(core, session, frame, "stop", why);
		return HM_OK;
	}
	hm_log(HM_LOG_SERVER, HM_LOG_NOTICE, "stop requested uid=%lu pid=%ld",
	    (unsigned long)session->peer.uid, (long)session->peer.pid);
	hm_session_send_text(session, frame->request_id, "stopping");
	core->on_stop(core->host_arg, "stop");
	return HM_OK;
}

/* stop and compile look closer themselves. */
static const struct dispatch_row {
	uint32_t type;
	enum hm_session_state state; /* the only one it may come in */
	uint32_t right;              /* HM_RIGHT_; 0 = everybody's */
	const char *name;
	dispatch_fn handler;
} dispatch_table[] = {
    {HM_FRAME_HELLO, HM_SESSION_HELLO, 0, "hello", dispatch_hello},
    {HM_FRAME_GET, HM_SESSION_OPEN, HM_RIGHT_READ, "get", hm_call_get},
    {HM_FRAME_COMPILE, HM_SESSION_OPEN, 0, "compile", hm_compile_handle},
    {HM_FRAME_CANCEL, HM_SESSION_OPEN, 0, "cancel", dispatch_cancel},
    {HM_FRAME_PING, HM_SESSION_OPEN, 0, "ping", dispatch_ping},
    {HM_FRAME_STATUS, HM_SESSION_OPEN, HM_RIGHT_READ, "status", dispatch_json},
    {HM_FRAME_STATS, HM_SESSION_OPEN, HM_RIGHT_READ, "stats", dispatch_json},
    {HM_FRAME_STOP, HM_SESSION_OPEN, 0, "stop", dispatch_stop},
    {HM_FRAME_EXPLAIN, HM_SESSION_OPEN, HM_RIGHT_READ, "explain", hm_explain},
    {HM_FRAME_ADMIN, HM_SESSION_OPEN, HM_RIGHT_ADMIN, "admin", hm_admin_handle},
};

/* Who may, in words. */
static const char *
dispatch_who(uint32_t right)
{
	return right == HM_RIGHT_ADMIN
		   ? "this needs root, the daemon's own user or its group "
		     "(group.admin, else group, in hummingd.conf)"
		   : "this needs root, the daemon's own user or a group of "
		     "its own (group.read in hummingd.conf)";
}

int
hm_dispatch(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame)
{
	const size_t n_rows =
	    sizeof(dispatch_table) / sizeof(dispatch_table[0]);

	for (size_t i = 0; i < n_rows; i++) {
		const struct dispatch_row *row = &dispatch_table[i];

		if (row->type != frame->type)
			continue;
		if (row->state != session->state)
			return HM_E_PROTOCOL;
		if ((session->peer.rights & row->right) != row->right) {
			dispatch_deny(core, session, frame, row->name,
			    dispatch_who(row->right));
			return HM_OK;
		}
		return row->handler(core, session, frame);
	}
	return HM_E_PROTOCOL;
}
