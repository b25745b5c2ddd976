/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_daemon.c - ping, stop, status, stats: what the daemon says of itself.
 */
#include "client/ctl.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/call.h"
#include "client/ctl_table.h"
#include "client/deadline.h"

#define DEFAULT_TIMEOUT_MS 30000u
#define WATCH_MS           1000u
#define NAME_CHARS         128

int64_t
hm_ctl_deadline(const struct hm_ctl *ctl, bool patient)
{
	if (ctl->timeout_ms != 0)
		return hm_deadline_in(ctl->timeout_ms);
	return patient ? HM_DEADLINE_NONE : hm_deadline_in(DEFAULT_TIMEOUT_MS);
}

int
hm_ctl_open(const struct hm_ctl *ctl, bool autostart, int64_t deadline,
    struct hm_link *link)
{
	struct hm_errbuf why = {.text = ""};
	int error;

	error = hm_link_init(link, ctl->socket_path, autostart, &why);
	if (error == HM_OK)
		error = hm_link_open(link,
		    hm_deadline_within(deadline, DEFAULT_TIMEOUT_MS), &why);
	if (error != HM_OK)
		return hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
	return HM_CTL_OK;
}

int
hm_ctl_ping(const struct hm_ctl *ctl)
{
	int64_t deadline = hm_ctl_deadline(ctl, false);
	struct hm_errbuf why = {.text = ""};
	struct hm_link link;
	int64_t start_us;
	int code, error;

	code = hm_ctl_open(ctl, false, deadline, &link);
	if (code != HM_CTL_OK)
		return code;
	start_us = hm_deadline_now_us();
	error = hm_call_text(&link, HM_FRAME_PING, deadline, NULL, &why);
	if (error != HM_OK)
		code = hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
	else
		(void)printf("hummingd %s at %s answered in %lld us\n",
		    link.transport.welcome.version, link.path,
		    (long long)(hm_deadline_now_us() - start_us));
	hm_link_done(&link);
	return code;
}

int
hm_ctl_stop(const struct hm_ctl *ctl)
{
	int64_t deadline = hm_ctl_deadline(ctl, false);
	struct hm_errbuf why = {.text = ""};
	struct hm_link link;
	int code, error;

	code = hm_ctl_open(ctl, false, deadline, &link);
	if (code != HM_CTL_OK)
		return code;
	error = hm_call_stop(&link, deadline, &why);
	if (error != HM_OK)
		code = hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
	else
		(void)printf("hummingd at %s stopped\n", link.path);
	hm_link_done(&link);
	return code;
}

/* A value in one cell; a list by spaces. */
static void
daemon_add_value(struct hm_ctl_table *table, const json_t *value)
{
	char line[512] = "";
	const char *word;
	size_t n = 0;
	char *text;

	for (size_t i = 0; i < json_array_size(value); i++) {
		word = json_string_value(json_array_get(value, i));
		if (word != NULL && n + strlen(word) + 2 < sizeof line)
			n += (size_t)snprintf(line + n, sizeof line - n, "%s%s",
			    n != 0 ? " " : "", word);
	}
	if (json_is_string(value)) {
		hm_ctl_table_add(table, "%s",
		    json_string_length(value) != 0 ? json_string_value(value)
						   : "-");
	} else if (json_is_array(value)) {
		hm_ctl_table_add(table, "%s", line);
	} else {
		text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
		hm_ctl_table_add(table, "%s", text != NULL ? text : "");
		free(text);
	}
}

/* NOLINTBEGIN(misc-no-recursion): jansson reads at most 2048 levels. */
/* One line per value; nested names are joined by dots. */
static void
daemon_flatten(struct hm_ctl_table *table, const char *prefix,
    const json_t *json)
{
	char name[NAME_CHARS];
	const char *key;
	json_t *value;
	void *at;

	for (at = json_object_iter((json_t *)(uintptr_t)json); at != NULL;
	     at = json_object_iter_next((json_t *)(uintptr_t)json, at)) {
		key = json_object_iter_key(at);
		value = json_object_iter_value(at);
		(void)snprintf(name, sizeof name, "%.60s%s%.60s", prefix,
		    prefix[0] != '\0' ? "." : "", key);
		if (json_is_object(value)) {
			/* Two levels is all there is; the limit is the wire's
			 * 64 KiB, of which each level takes at least five. */
			daemon_flatten(table, name, value);
			continue;
		}
		hm_ctl_table_add(table, "%s", name);
		daemon_add_value(table, value);
	}
}
/* NOLINTEND(misc-no-recursion) */

/* What the daemon said, for a person. */
static int
daemon_print(const struct hm_ctl *ctl, const char *text)
{
	struct hm_ctl_table table;
	json_error_t error;
	json_t *json;

	json = json_loads(text, 0, &error);
	if (!json_is_object(json)) {
		json_decref(json);
		return hm_ctl_fail(ctl, "hummingd's answer is not JSON");
	}
	hm_ctl_table_init(&table, 2);
	daemon_flatten(&table, "", json);
	hm_ctl_table_print(&table, stdout);
	hm_ctl_table_done(&table);
	json_decref(json);
	return HM_CTL_OK;
}

/* Ask once and print. */
static int
daemon_show(const struct hm_ctl *ctl, struct hm_link *link, uint32_t frame_type,
    int64_t deadline)
{
	struct hm_errbuf why = {.text = ""};
	char *text = NULL;
	int code = HM_CTL_OK;
	int error;

	error = hm_call_text(link, frame_type, deadline, &text, &why);
	if (error != HM_OK)
		return hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
	if (ctl->json)
		(void)printf("%s\n", text);
	else
		code = daemon_print(ctl, text);
	free(text);
	return code;
}

int
hm_ctl_status(const struct hm_ctl *ctl)
{
	int64_t deadline = hm_ctl_deadline(ctl, false);
	struct hm_link link;
	int code;

	code = hm_ctl_open(ctl, false, deadline, &link);
	if (code != HM_CTL_OK)
		return code;
	code = daemon_show(ctl, &link, HM_FRAME_STATUS, deadline);
	hm_link_done(&link);
	return code;
}

int
hm_ctl_stats(const struct hm_ctl *ctl)
{
	int64_t deadline = hm_ctl_deadline(ctl, false);
	bool clear = ctl->watch && !ctl->json && isatty(STDOUT_FILENO) == 1;
	struct hm_link link;
	int code;

	code = hm_ctl_open(ctl, false, deadline, &link);
	if (code != HM_CTL_OK)
		return code;
	do {
		if (clear)
			(void)fputs("\033[H\033[2J", stdout);
		code = daemon_show(ctl, &link, HM_FRAME_STATS, deadline);
		if (!ctl->watch || code != HM_CTL_OK)
			break;
		/* A reader that is gone ends the watch by SIGPIPE. */
		if (!clear && !ctl->json)
			(void)putchar('\n');
		(void)fflush(stdout);
		hm_deadline_pause(HM_DEADLINE_NONE, WATCH_MS);
		deadline = hm_ctl_deadline(ctl, false);
	} while (ferror(stdout) == 0);
	hm_link_done(&link);
	return code;
}
