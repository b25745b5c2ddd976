/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain.c - walks stored records; a bounded number of them, on the loop.
 */
#include "daemon/explain.h"

#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "proto/codec.h"
#include "proto/digest.h"

/* A walk costs about a microsecond a record: this many stall nobody. */
#define EXPLAIN_MAX_RECORDS 20000u
/* What a packet has room for beside the reply's body. */
#define EXPLAIN_MAX_BYTES (HM_FRAME_MAX_BYTES - 1024u)

struct explain_search {
	const struct hm_digest *key;
	const uint8_t *record; /* borrowed; NULL = not given */
	size_t n_record;
	uint32_t n_visited;
	uint32_t found; /* as in struct hm_record_reply */
	uint32_t score;
	struct hm_digest best_key;
	uint8_t *best; /* owned */
	size_t n_best;
};

static bool
explain_same(const void *a, size_t n_a, const void *b, size_t n_b)
{
	return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a) == 0);
}

/* The value of a field, or NULL. */
static const void *
explain_field(const void *record, size_t n_record, const char *name,
    size_t n_name, size_t *n_value_out)
{
	const char *at_name;
	const void *value;
	size_t n_at_name;
	size_t offset = 0;

	while (hm_record_next(record, n_record, &offset, &at_name, &n_at_name,
		   &value, n_value_out) == HM_OK) {
		if (explain_same(at_name, n_at_name, name, n_name))
			return value;
	}
	return NULL;
}

static bool
explain_shares(const struct explain_search *search, const void *record,
    size_t n_record, const char *name)
{
	size_t n_a = 0;
	size_t n_b = 0;
	const void *a = explain_field(search->record, search->n_record, name,
	    strlen(name), &n_a);
	const void *b =
	    explain_field(record, n_record, name, strlen(name), &n_b);

	return a != NULL && b != NULL && explain_same(a, n_a, b, n_b);
}

/* 1 + how many fields the two records share; 0 if kind or target differ. */
static uint32_t
explain_score(const struct explain_search *search, const void *record,
    size_t n_record)
{
	const char *name;
	const void *value;
	size_t n_name;
	size_t n_value;
	size_t offset = 0;
	uint32_t score = 1;

	if (!explain_shares(search, record, n_record, "kind") ||
	    !explain_shares(search, record, n_record, "target"))
		return 0;
	while (hm_record_next(record, n_record, &offset, &name, &n_name, &value,
		   &n_value) == HM_OK) {
		size_t n_other = 0;
		const void *other = explain_field(search->record,
		    search->n_record, name, n_name, &n_other);

		if (other != NULL &&
		    explain_same(value, n_value, other, n_other))
			score++;
	}
	return score;
}

static bool
explain_keep(struct explain_search *search, const struct hm_digest *key,
    const void *record, size_t n_record)
{
	uint8_t *copy;

	if (n_record == 0 || n_record > EXPLAIN_MAX_BYTES)
		return false;
	copy = malloc(n_record);
	if (copy == NULL)
		return false;
	memcpy(copy, record, n_record);
	free(search->best);
	search->best = copy;
	search->n_best = n_record;
	search->best_key = *key;
	return true;
}

static bool
explain_on_record(const struct hm_digest *key, const void *record,
    size_t n_record, void *arg)
{
	struct explain_search *search = arg;
	uint32_t score;

	if (hm_digest_equal(key, search->key)) {
		if (explain_keep(search, key, record, n_record))
			search->found = 1;
		return false;
	}
	if (search->record != NULL) {
		score = explain_score(search, record, n_record);
		if (score > search->score &&
		    explain_keep(search, key, record, n_record)) {
			search->score = score;
			search->found = 2;
		}
	}
	return ++search->n_visited < EXPLAIN_MAX_RECORDS;
}

int
hm_explain(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame)
{
	struct hm_digest key;
	struct explain_search search = {.key = &key,
	    .record = frame->n_raw == 0 ? NULL : frame->raw,
	    .n_record = frame->n_raw};
	struct hm_record_reply reply = {.found = 0};
	uint8_t body[256];
	struct hm_frame answer = {.type = HM_FRAME_RECORD,
	    .request_id = frame->request_id,
	    .body = body,
	    .fd = -1};
	int error;

	error = hm_codec_unpack_explain(frame->body, frame->n_body, &key);
	if (error != HM_OK)
		return error;
	error = hm_cache_each_record(core->cache, explain_on_record, &search);
	if (error != HM_OK) {
		hm_session_send_error(session, frame->request_id, error,
		    "the store cannot be read");
		goto out;
	}
	reply.found = search.found;
	reply.key = search.found == 0 ? key : search.best_key;
	reply.record_bytes = (uint32_t)search.n_best;
	error = hm_codec_pack_record_reply(&reply, body, sizeof(body),
	    &answer.n_body);
	answer.raw = search.best;
	answer.n_raw = search.n_best;
	if (error == HM_OK)
		hm_session_send(session, &answer, NULL);
out:
	free(search.best);
	return HM_OK;
}
