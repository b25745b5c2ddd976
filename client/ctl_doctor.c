/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_doctor.c - doctor: what works here and what does not, check by check. It
 * judges what status and stats say, so that both tell the same.
 */
#include "client/ctl.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/call.h"
#include "client/ctl_row.h"
#include "client/ctl_table.h"
#include "client/link.h"

enum doctor_state { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor {
	struct hm_ctl_table table; /* check, state, detail */
	uint32_t n_failed;
	uint32_t n_warned;
	json_t *status; /* owned; NULL = not there */
	json_t *stats;
};

static void
doctor_say(struct doctor *doctor, const char *check, enum doctor_state state,
    const char *detail)
{
	static const char *const names[] = {"ok", "warn", "fail"};

	hm_ctl_table_add(&doctor->table, "%s", check);
	hm_ctl_table_add(&doctor->table, "%s", names[state]);
	hm_ctl_table_add(&doctor->table, "%s",
	    detail[0] != '\0' ? detail : "-");
	doctor->n_warned += state == DOCTOR_WARN;
	doctor->n_failed += state == DOCTOR_FAIL;
}

static const char *
doctor_text(const struct doctor *doctor, const char *name)
{
	const char *text =
	    json_string_value(json_object_get(doctor->status, name));

	return text != NULL ? text : "";
}

/* A list of words by blanks. Returns how many. */
static size_t
doctor_words(const struct doctor *doctor, const char *name, char *text_out,
    size_t size)
{
	const json_t *list = json_object_get(doctor->status, name);
	size_t n_used = 0;

	text_out[0] = '\0';
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));

		if (word == NULL || n_used + strlen(word) + 2 > size)
			break;
		n_used += (size_t)snprintf(text_out + n_used, size - n_used,
		    "%s%s", n_used == 0 ? "" : " ", word);
	}
	return json_array_size(list);
}

static int
doctor_fetch(struct hm_link *link, uint32_t type, int64_t deadline,
    json_t **json_out, struct hm_errbuf *why)
{
	json_error_t ignored;
	char *text = NULL;
	int error = hm_call_text(link, type, deadline, &text, why);

	if (error != HM_OK)
		return error;
	*json_out = json_loads(text, 0, &ignored);
	free(text);
	return json_is_object(*json_out) ? HM_OK : HM_E_PROTOCOL;
}

/* Is it there, of which version, and does it answer? */
static void
doctor_check_daemon(const struct hm_ctl *ctl, struct doctor *doctor)
{
	int64_t deadline = hm_ctl_deadline(ctl, false);
	struct hm_errbuf why = {.text = ""};
	struct hm_link link;
	int error;

	error = hm_link_init(&link, ctl->socket_path, false, &why);
	if (error == HM_OK)
		error = hm_link_open(&link, deadline, &why);
	if (error != HM_OK) {
		doctor_say(doctor, "socket", DOCTOR_FAIL,
		    hm_ctl_why(error, &why));
		return;
	}
	doctor_say(doctor, "socket", DOCTOR_OK, link.path);
	doctor_say(doctor, "version",
	    strcmp(link.transport.welcome.version, HM_VERSION) == 0
		? DOCTOR_OK
		: DOCTOR_WARN,
	    link.transport.welcome.version);
	error = doctor_fetch(&link, HM_FRAME_STATUS, deadline, &doctor->status,
	    &why);
	if (error == HM_OK)
		error = doctor_fetch(&link, HM_FRAME_STATS, deadline,
		    &doctor->stats, &why);
	if (error != HM_OK)
		doctor_say(doctor, "status", DOCTOR_FAIL,
		    hm_ctl_why(error, &why));
	hm_link_done(&link);
}

static void
doctor_check_compiler(struct doctor *doctor)
{
	const char *readiness = doctor_text(doctor, "readiness");

	if (strcmp(readiness, "ready") == 0)
		doctor_say(doctor, "compiler", DOCTOR_OK,
		    doctor_text(doctor, "compiler"));
	else if (strcmp(readiness, "no compiler") == 0)
		doctor_say(doctor, "compiler", DOCTOR_FAIL,
		    doctor_text(doctor, "degraded"));
	else
		doctor_say(doctor, "compiler", DOCTOR_WARN, readiness);
}

static void
doctor_check_sandbox(struct doctor *doctor)
{
	char parts[128];
	size_t n_parts = doctor_words(doctor, "sandbox", parts, sizeof parts);

	if (strcmp(doctor_text(doctor, "readiness"), "ready") == 0)
		doctor_say(doctor, "sandbox",
		    n_parts == 4 ? DOCTOR_OK : DOCTOR_WARN, parts);
}

static void
doctor_check_store(struct doctor *doctor)
{
	const json_t *store =
	    json_object_get(json_object_get(doctor->status, "tiers"), "store");
	const char *notice = doctor_text(doctor, "notice");

	if (json_is_true(json_object_get(store, "durable")))
		doctor_say(doctor, "store", DOCTOR_OK,
		    doctor_text(doctor, "store"));
	else
		doctor_say(doctor, "store", DOCTOR_FAIL,
		    doctor_text(doctor, "degraded"));
	if (notice[0] != '\0')
		doctor_say(doctor, "store", DOCTOR_WARN, notice);
}

static void
doctor_check_rights(struct doctor *doctor)
{
	char rights[64];

	(void)doctor_words(doctor, "rights", rights, sizeof rights);
	doctor_say(doctor, "rights", DOCTOR_OK, rights);
}

/* Counters that stand still where all is well. */
static void
doctor_check_counters(struct doctor *doctor)
{
	static const struct {
		const char *name, *detail;
	} rows[] = {
	    {"corrupt", "stored kernels failed their checksum: look at the "
			"disk"},
	    {"write_failures", "kernels could not be stored"},
	    {"busy", "requests were refused at a limit"},
	    {"try_local", "requests were told to build for themselves"},
	};
	struct hm_errbuf text;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		long long n = (long long)json_integer_value(
		    json_object_get(doctor->stats, rows[i].name));

		if (n == 0)
			continue;
		hm_errbuf_set(&text, "%lld %s", n, rows[i].detail);
		doctor_say(doctor, rows[i].name, DOCTOR_WARN, text.text);
	}
}

static int
doctor_print_json(const struct doctor *doctor)
{
	const struct hm_ctl_table *table = &doctor->table;
	json_t *rows = json_array();

	for (size_t i = 3; i + 2 < table->n_cells; i += 3)
		(void)json_array_append_new(rows,
		    json_pack("{s:s, s:s, s:s}", "check", table->cells[i],
			"state", table->cells[i + 1], "detail",
			table->cells[i + 2]));
	return hm_ctl_json_print(json_pack("{s:b, s:o}", "ok",
	    (int)(doctor->n_failed == 0), "checks", rows));
}

static const char *
doctor_first_failure(const struct doctor *doctor)
{
	const struct hm_ctl_table *table = &doctor->table;

	for (size_t i = 3; i + 2 < table->n_cells; i += 3) {
		if (strcmp(table->cells[i + 1], "fail") == 0)
			return table->cells[i + 2];
	}
	return "";
}

int
hm_ctl_doctor(const struct hm_ctl *ctl)
{
	struct doctor doctor = {.n_failed = 0};
	int code = HM_CTL_OK;

	hm_ctl_table_init(&doctor.table, 3);
	hm_ctl_table_add(&doctor.table, "check");
	hm_ctl_table_add(&doctor.table, "state");
	hm_ctl_table_add(&doctor.table, "detail");
	doctor_check_daemon(ctl, &doctor);
	if (doctor.status != NULL && doctor.stats != NULL) {
		doctor_check_compiler(&doctor);
		doctor_check_sandbox(&doctor);
		doctor_check_store(&doctor);
		doctor_check_rights(&doctor);
		doctor_check_counters(&doctor);
	}
	if (!ctl->json)
		hm_ctl_table_print(&doctor.table, stdout);
	else if (doctor_print_json(&doctor) != HM_OK)
		code = hm_ctl_fail(ctl, "out of memory");
	if (code == HM_CTL_OK && doctor.n_failed > 0)
		code =
		    hm_ctl_fail(ctl, "%u of the checks failed; the first: %s",
			doctor.n_failed, doctor_first_failure(&doctor));
	json_decref(doctor.status);
	json_decref(doctor.stats);
	hm_ctl_table_done(&doctor.table);
	return code;
}
