/* SPDX-License-Identifier: Apache-2.0 */
/*
 * announce.c - nobody there to hear it is no reason not to serve: a failure to
 * notify is logged once and is nothing more.
 */
#include "daemon/announce.h"

#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "daemon/config.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/notify.h"
#include "daemon/pool.h"

struct hm_announce {
	struct hm_core *core; /* borrowed */
	struct event *alive;  /* owned; NULL = nobody watches */
	struct hm_errbuf status;
	bool is_deaf; /* a notification failed before */
};

static void
announce_check(struct hm_announce *announce, int error,
    const struct hm_errbuf *why)
{
	if (error == HM_OK || announce->is_deaf)
		return;
	announce->is_deaf = true;
	hm_log(HM_LOG_SERVER, HM_LOG_WARNING, "cannot notify why=\"%s\"",
	    why->text);
}

static void
announce_describe(const struct hm_announce *announce,
    struct hm_errbuf *text_out)
{
	const struct hm_core *core = announce->core;
	const char *socket = core->settings->socket;
	struct hm_errbuf degraded = {""};

	/* Before the store was looked at there is nothing to say of it. */
	if (core->is_loaded)
		hm_metrics_degraded(core, &degraded);
	hm_errbuf_set(text_out, "Serving %s; %s", socket,
	    degraded.text[0] != '\0'                     ? degraded.text
	    : hm_pool_state(core->pool) == HM_POOL_READY ? "compiler ready"
							 : "compiler starting");
}

static void
announce_on_alive(evutil_socket_t fd, short what, void *arg)
{
	struct hm_announce *announce = arg;
	struct hm_errbuf why = {""};

	(void)fd;
	(void)what;
	announce_check(announce, hm_notify_alive(&why), &why);
}

static int
announce_watch(struct hm_announce *announce)
{
	uint64_t half_us = hm_notify_watchdog_us() / 2;
	struct timeval interval = {(time_t)(half_us / 1000000),
	    (suseconds_t)(half_us % 1000000)};

	if (half_us == 0)
		return HM_OK;
	announce->alive = event_new(announce->core->base, -1, EV_PERSIST,
	    announce_on_alive, announce);
	if (announce->alive == NULL || event_add(announce->alive, &interval))
		return HM_E_NOMEM;
	return HM_OK;
}

int
hm_announce_open(struct hm_core *core, struct hm_announce **announce_out)
{
	struct hm_announce *announce = calloc(1, sizeof(*announce));
	int error;

	if (announce == NULL)
		return HM_E_NOMEM;
	announce->core = core;
	error = announce_watch(announce);
	if (error != HM_OK) {
		hm_announce_close(announce);
		return error;
	}
	*announce_out = announce;
	return HM_OK;
}

void
hm_announce_close(struct hm_announce *announce)
{
	if (announce == NULL)
		return;
	if (announce->alive != NULL)
		event_free(announce->alive);
	free(announce);
}

void
hm_announce_ready(struct hm_announce *announce)
{
	struct hm_errbuf why = {""};

	announce_describe(announce, &announce->status);
	announce_check(announce, hm_notify_ready(announce->status.text, &why),
	    &why);
}

void
hm_announce_reloading(struct hm_announce *announce)
{
	struct hm_errbuf why = {""};

	announce_check(announce, hm_notify_reloading(&why), &why);
}

void
hm_announce_stopping(struct hm_announce *announce)
{
	struct hm_errbuf why = {""};

	announce_check(announce, hm_notify_stopping(&why), &why);
}

void
hm_announce_change(struct hm_announce *announce)
{
	struct hm_errbuf status = {""};
	struct hm_errbuf why = {""};

	announce_describe(announce, &status);
	if (strcmp(status.text, announce->status.text) == 0)
		return;
	announce->status = status;
	announce_check(announce, hm_notify_status(status.text, &why), &why);
}
