/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_explain.c - explain: is a kernel stored, and if not, in what does the
 * nearest stored one differ. Both records are taken apart field by field; a
 * generated header counts as one field per macro.
 */
#include "client/ctl.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/call.h"
#include "client/ctl_row.h"
#include "client/ctl_table.h"
#include "jit/key.h"
#include "jit/plan.h"
#include "jit/spec.h"
#include "proto/digest.h"

#define MAX_FIELDS  256
#define VALUE_CHARS 72

struct explain_field {
	char name[64];
	char value[VALUE_CHARS + 8]; /* equal texts are equal values */
};

struct explain_record {
	size_t n_fields;
	struct explain_field fields[MAX_FIELDS];
};

static struct explain_field *
explain_next(struct explain_record *record)
{
	return record->n_fields < MAX_FIELDS
		   ? &record->fields[record->n_fields++]
		   : NULL;
}

static bool
explain_is_text(const unsigned char *value, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!isprint(value[i]))
			return false;
	}
	return n != 0;
}

/* A value as one short word: text, number, or the digest of what is longer. */
static void
explain_value(char *text_out, size_t size, const void *value, size_t n)
{
	const unsigned char *bytes = value;
	char hex[HM_DIGEST_HEX_CHARS + 1];
	struct hm_digest digest;

	if (n <= VALUE_CHARS && explain_is_text(bytes, n)) {
		(void)snprintf(text_out, size, "%.*s", (int)n,
		    (const char *)value);
	} else if (n == 4) {
		(void)snprintf(text_out, size, "%u",
		    (unsigned)bytes[0] | (unsigned)bytes[1] << 8 |
			(unsigned)bytes[2] << 16 | (unsigned)bytes[3] << 24);
	} else if (n == HM_DIGEST_BYTES) {
		memcpy(digest.bytes, value, n);
		hm_digest_to_hex(&digest, hex);
		(void)snprintf(text_out, size, "%.16s...", hex);
	} else if (n == 0) {
		(void)snprintf(text_out, size, "(empty)");
	} else {
		hm_digest_compute(value, n, &digest);
		hm_digest_to_hex(&digest, hex);
		(void)snprintf(text_out, size, "%zu bytes, %.16s...", n, hex);
	}
}

/* "#define NAME VALUE" lines, each as a field of its own. */
static void
explain_macros(struct explain_record *record, const char *text, size_t n)
{
	const char *end = text + n;
	const char *line_end, *space;
	struct explain_field *field;

	for (; text < end; text = line_end + 1) {
		line_end = memchr(text, '\n', (size_t)(end - text));
		if (line_end == NULL)
			line_end = end;
		if (line_end - text < 9 || memcmp(text, "#define ", 8) != 0)
			continue;
		text += 8;
		space = memchr(text, ' ', (size_t)(line_end - text));
		if (space == NULL || (field = explain_next(record)) == NULL)
			continue;
		(void)snprintf(field->name, sizeof field->name, "%.*s",
		    (int)(space - text), text);
		explain_value(field->value, sizeof field->value, space + 1,
		    (size_t)(line_end - space - 1));
	}
}

static int
explain_read(struct explain_record *record, const void *bytes, size_t n_bytes)
{
	struct explain_field *field;
	const void *value;
	const char *name;
	size_t offset = 0, n_name, n_value;
	int error;

	record->n_fields = 0;
	while ((error = hm_record_next(bytes, n_bytes, &offset, &name, &n_name,
		    &value, &n_value)) == HM_OK) {
		if (n_value > 8 && memcmp(value, "#define ", 8) == 0) {
			explain_macros(record, value, n_value);
			continue;
		}
		field = explain_next(record);
		if (field == NULL)
			break;
		(void)snprintf(field->name, sizeof field->name, "%.*s",
		    (int)n_name, name);
		explain_value(field->value, sizeof field->value, value,
		    n_value);
	}
	return error == HM_E_UNAVAILABLE ? HM_OK : error;
}

/* The value of a field; the same name may stand several times (options): the
 * how-manieth is part of what it is. */
static const char *
explain_find(const struct explain_record *record, const char *name,
    size_t count)
{
	for (size_t i = 0; i < record->n_fields; i++) {
		if (strcmp(record->fields[i].name, name) == 0 && count-- == 0)
			return record->fields[i].value;
	}
	return "-";
}

static size_t
explain_count(const struct explain_record *record, size_t index)
{
	size_t count = 0;

	for (size_t i = 0; i < index; i++)
		count += strcmp(record->fields[i].name,
			     record->fields[index].name) == 0;
	return count;
}

/* Rows "field, wanted, stored" for what differs; turned says that b is what is
 * wanted, and then only fields that a alone has are added. */
static void
explain_compare(struct hm_ctl_table *table, const struct explain_record *a,
    const struct explain_record *b, bool turned)
{
	const struct explain_field *field;
	const char *other;

	for (size_t i = 0; i < a->n_fields; i++) {
		field = &a->fields[i];
		other = explain_find(b, field->name, explain_count(a, i));
		if (strcmp(field->value, other) == 0 ||
		    (turned && strcmp(other, "-") != 0))
			continue;
		hm_ctl_table_add(table, "%s", field->name);
		hm_ctl_table_add(table, "%s", turned ? other : field->value);
		hm_ctl_table_add(table, "%s", turned ? field->value : other);
	}
}

/* What is asked about, and what the daemon answered. */
struct explain {
	struct hm_request request;
	struct hm_record record;
	struct hm_digest key;
	char spec[HM_SPEC_MAX_CHARS + 1];
	char arch[16];
	struct hm_record_reply reply;
	void *stored; /* owned */
};

static int
explain_key(const struct hm_ctl *ctl, struct explain *explain)
{
	struct hm_target targets[HM_CTL_MAX_TARGETS];
	struct hm_errbuf why = {.text = ""};
	struct hm_plan plan;
	size_t n_targets;
	int code, error;

	error = hm_spec_parse(ctl->operands[0], &explain->request, &why);
	if (error != HM_OK)
		return hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
	code = hm_ctl_targets(ctl, targets, &n_targets);
	if (code != HM_CTL_OK)
		return code;
	if (n_targets != 1)
		return hm_ctl_usage(ctl, "takes one architecture");
	explain->request.target = targets[0];
	error = hm_plan_compute(&explain->request, &plan, &why);
	if (error == HM_OK)
		error =
		    hm_key_own(&hm_plan_find(&plan, explain->request.m)->config,
			&targets[0], &explain->record, &explain->key);
	if (error == HM_OK)
		error = hm_spec_print(&explain->request, explain->spec,
		    sizeof explain->spec);
	if (error != HM_OK)
		return hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
	hm_target_print(&targets[0], explain->arch);
	return HM_CTL_OK;
}

static int
explain_ask(const struct hm_ctl *ctl, struct explain *explain)
{
	int64_t deadline = hm_ctl_deadline(ctl, false);
	struct hm_errbuf why = {.text = ""};
	struct hm_link link;
	int code, error;

	code = hm_ctl_open(ctl, false, deadline, &link);
	if (code != HM_CTL_OK)
		return code;
	error = hm_call_explain(&link, &explain->record, deadline,
	    &explain->reply, &explain->stored, &why);
	hm_link_done(&link);
	if (error != HM_OK)
		return hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
	return HM_CTL_OK;
}

static int
explain_print_json(const struct explain *explain,
    const struct hm_ctl_table *table)
{
	char key[HM_DIGEST_HEX_CHARS + 1], nearest[HM_DIGEST_HEX_CHARS + 1];
	json_t *rows = json_array();
	json_t *json;

	hm_digest_to_hex(&explain->key, key);
	hm_digest_to_hex(&explain->reply.key, nearest);
	for (size_t i = 3; i + 2 < table->n_cells; i += 3)
		(void)json_array_append_new(rows,
		    json_pack("{s:s, s:s, s:s}", "field", table->cells[i],
			"wanted", table->cells[i + 1], "stored",
			table->cells[i + 2]));
	json =
	    json_pack("{s:s, s:s, s:s, s:b}", "key", key, "spec", explain->spec,
		"arch", explain->arch, "stored", explain->reply.found == 1);
	if (explain->reply.found == 2)
		(void)json_object_set_new(json, "nearest",
		    json_string(nearest));
	(void)json_object_set_new(json, "differences", rows);
	return hm_ctl_json_print(json);
}

static void
explain_print(const struct explain *explain, const struct hm_ctl_table *table)
{
	char key[HM_DIGEST_HEX_CHARS + 1], nearest[HM_DIGEST_HEX_CHARS + 1];
	bool same = table->n_cells <= 3;

	hm_digest_to_hex(&explain->key, key);
	hm_digest_to_hex(&explain->reply.key, nearest);
	(void)printf("%s for %s has key %s\n", explain->spec, explain->arch,
	    key);
	if (explain->reply.found == 0)
		(void)printf("not stored, nor anything like it\n");
	else if (explain->reply.found == 1)
		(void)printf(same ? "stored, with the same record\n"
				  : "stored, but its record differs in:\n");
	else
		(void)printf("not stored; the nearest is %s, which differs "
			     "in:\n",
		    nearest);
	if (!same)
		hm_ctl_table_print(table, stdout);
}

static int
explain_report(const struct hm_ctl *ctl, const struct explain *explain)
{
	struct explain_record *records = calloc(2, sizeof *records);
	struct hm_ctl_table table;
	int code = HM_CTL_OK;

	if (records == NULL)
		return hm_ctl_fail(ctl, "out of memory");
	hm_ctl_table_init(&table, 3);
	hm_ctl_table_add(&table, "field");
	hm_ctl_table_add(&table, "wanted");
	hm_ctl_table_add(&table, "stored");
	if (explain->stored != NULL &&
	    (explain_read(&records[0], explain->record.bytes,
		 explain->record.n_bytes) != HM_OK ||
		explain_read(&records[1], explain->stored,
		    explain->reply.record_bytes) != HM_OK))
		code = hm_ctl_fail(ctl, "the stored record is malformed");
	explain_compare(&table, &records[0], &records[1], false);
	explain_compare(&table, &records[1], &records[0], true);
	if (code == HM_CTL_OK && !ctl->json)
		explain_print(explain, &table);
	else if (code == HM_CTL_OK &&
		 explain_print_json(explain, &table) != HM_OK)
		code = hm_ctl_fail(ctl, "out of memory");
	hm_ctl_table_done(&table);
	free(records);
	return code;
}

int
hm_ctl_explain(const struct hm_ctl *ctl)
{
	struct explain explain = {.stored = NULL};
	int code;

	if (ctl->n_operands != 1)
		return hm_ctl_usage(ctl,
		    ctl->n_operands == 0 ? "needs a SPEC" : "takes one SPEC");
	hm_record_init(&explain.record);
	code = explain_key(ctl, &explain);
	if (code == HM_CTL_OK)
		code = explain_ask(ctl, &explain);
	if (code == HM_CTL_OK)
		code = explain_report(ctl, &explain);
	free(explain.stored);
	hm_record_done(&explain.record);
	return code;
}
