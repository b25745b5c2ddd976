/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.c - see admin.h. A task of the cache runs on the cache's own thread; a
 * timer of ours asks now and then whether it is over. Loop thread only.
 */
#include "daemon/admin.h"

#include <stdlib.h>
#include <string.h>

#include <event2/event.h>
#include <jansson.h>

#include "cache/cache.h"
#include "daemon/log.h"
#include "proto/codec.h"

#define ADMIN_POLL_US 5000

struct hm_admin_desk {
	struct hm_core *core; /* borrowed */
	struct event *poll;   /* owned */
	/* Who waits for the task that is under way; NULL = nobody any more. */
	struct hm_session *session;
	uint32_t request_id;
};

/* By enum hm_admin_command. */
static const char *const admin_names[] = {"", "verify", "evict", "evict-all",
    "pin", "unpin", "drain", "reload"};

static json_t *
admin_number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/* What a task has done, as JSON; NULL without memory. */
static json_t *
admin_describe(const struct hm_cache_task *task)
{
	switch (task->kind) {
	case HM_CACHE_VERIFY:
		return json_pack("{s:o, s:o, s:o}", "checked",
		    admin_number(task->n_checked), "bytes",
		    admin_number(task->n_bytes), "damaged",
		    admin_number(task->n_gone));
	case HM_CACHE_EVICT:
	case HM_CACHE_EVICT_ALL:
		return json_pack("{s:o}", "evicted",
		    admin_number(task->n_gone));
	case HM_CACHE_PIN:
	case HM_CACHE_UNPIN:
		return json_pack("{s:b}", "pinned",
		    (int)(task->kind == HM_CACHE_PIN));
	case HM_CACHE_COMPACT:
		break;
	}
	return json_object();
}

static void
admin_answer(struct hm_session *session, uint32_t request_id, json_t *object)
{
	char *json = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);

	if (json == NULL)
		hm_session_send_error(session, request_id, HM_E_NOMEM,
		    hm_strerror(HM_E_NOMEM));
	else
		hm_session_send_text(session, request_id, json);
	free(json);
	json_decref(object);
}

static void
admin_refuse(struct hm_session *session, uint32_t request_id, int error,
    const struct hm_errbuf *why)
{
	hm_session_send_error(session, request_id, error,
	    why->text[0] == '\0' ? hm_strerror(error) : why->text);
}

static bool
admin_watch(struct hm_admin_desk *desk)
{
	const struct timeval wait = {0, ADMIN_POLL_US};

	return event_add(desk->poll, &wait) == 0;
}

static void
admin_on_poll(evutil_socket_t fd, short what, void *arg)
{
	struct hm_admin_desk *desk = arg;
	struct hm_session *session = desk->session;
	struct hm_cache_task task;

	(void)fd;
	(void)what;
	if (!hm_cache_poll(desk->core->cache, &task)) {
		/* The timer has just fired, so that its room is there. */
		(void)admin_watch(desk);
		return;
	}
	desk->session = NULL;
	hm_log(HM_LOG_CACHE, HM_LOG_NOTICE,
	    "task done kind=%u checked=%llu gone=%llu error=\"%s\" why=\"%s\"",
	    (unsigned)task.kind, (unsigned long long)task.n_checked,
	    (unsigned long long)task.n_gone, hm_strerror(task.error),
	    task.why.text);
	if (session == NULL)
		return;
	if (task.error != HM_OK)
		admin_refuse(session, desk->request_id, task.error, &task.why);
	else
		admin_answer(session, desk->request_id, admin_describe(&task));
}

static int
admin_begin(struct hm_admin_desk *desk, const struct hm_admin *admin)
{
	/* By enum hm_admin_command. */
	static const enum hm_cache_task_kind kinds[] = {
	    [HM_ADMIN_VERIFY] = HM_CACHE_VERIFY,
	    [HM_ADMIN_EVICT] = HM_CACHE_EVICT,
	    [HM_ADMIN_EVICT_ALL] = HM_CACHE_EVICT_ALL,
	    [HM_ADMIN_PIN] = HM_CACHE_PIN,
	    [HM_ADMIN_UNPIN] = HM_CACHE_UNPIN,
	};
	int error;

	/* A task under way is watched already: to set its timer again with
	 * every request would put its end off for as long as they come. */
	if (event_pending(desk->poll, EV_TIMEOUT, NULL))
		return HM_E_BUSY;
	if (!admin_watch(desk))
		return HM_E_NOMEM;
	error = hm_cache_begin(desk->core->cache, kinds[admin->command],
	    &admin->key);
	if (error != HM_OK)
		(void)event_del(desk->poll);
	return error;
}

static void
admin_start(struct hm_core *core, struct hm_session *session,
    uint32_t request_id, const struct hm_admin *admin)
{
	struct hm_admin_desk *desk = core->admin;
	struct hm_errbuf why = {""};
	int error = admin_begin(desk, admin);

	if (error == HM_OK) {
		desk->session = session;
		desk->request_id = request_id;
		return;
	}
	if (error == HM_E_BUSY)
		hm_errbuf_set(&why,
		    "another verify, evict, pin or unpin is at work");
	admin_refuse(session, request_id, error, &why);
}

static void
admin_reload(struct hm_core *core, struct hm_session *session,
    uint32_t request_id)
{
	struct hm_errbuf text = {""};
	int error = core->on_reload(core->host_arg, &text);

	if (error != HM_OK)
		admin_refuse(session, request_id, error, &text);
	else
		admin_answer(session, request_id,
		    json_pack("{s:b, s:s}", "reloaded", 1, "needs_restart",
			text.text));
}

int
hm_admin_handle(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame)
{
	struct hm_admin admin;
	int error;

	error = hm_codec_unpack_admin(frame->body, frame->n_body, &admin);
	if (error != HM_OK)
		return error;
	hm_log(HM_LOG_SERVER, HM_LOG_NOTICE,
	    "administered command=%s uid=%lu pid=%ld",
	    admin_names[admin.command], (unsigned long)session->peer.uid,
	    (long)session->peer.pid);
	switch ((enum hm_admin_command)admin.command) {
	case HM_ADMIN_VERIFY:
	case HM_ADMIN_EVICT:
	case HM_ADMIN_EVICT_ALL:
	case HM_ADMIN_PIN:
	case HM_ADMIN_UNPIN:
		admin_start(core, session, frame->request_id, &admin);
		break;
	case HM_ADMIN_DRAIN:
		admin_answer(session, frame->request_id,
		    json_pack("{s:b}", "draining", 1));
		if (!core->is_draining)
			core->on_stop(core->host_arg, "drain");
		break;
	case HM_ADMIN_RELOAD:
		admin_reload(core, session, frame->request_id);
		break;
	}
	return HM_OK;
}

int
hm_admin_open(struct hm_core *core, struct hm_admin_desk **desk_out)
{
	struct hm_admin_desk *desk = calloc(1, sizeof(*desk));

	if (desk == NULL)
		return HM_E_NOMEM;
	desk->core = core;
	desk->poll = event_new(core->base, -1, 0, admin_on_poll, desk);
	if (desk->poll == NULL) {
		free(desk);
		return HM_E_NOMEM;
	}
	*desk_out = desk;
	return HM_OK;
}

void
hm_admin_close(struct hm_admin_desk *desk)
{
	if (desk == NULL)
		return;
	event_free(desk->poll);
	free(desk);
}

void
hm_admin_forget(struct hm_admin_desk *desk, const struct hm_session *session)
{
	if (desk != NULL && desk->session == session)
		desk->session = NULL;
}
