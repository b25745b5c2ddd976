/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer.c - from an outcome, an entry or an error to the reply's fields.
 */
#include "daemon/answer.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/audit.h"
#include "daemon/clock.h"
#include "daemon/log.h"
#include "daemon/reply.h"

void
hm_answer_failure(const struct hm_answer *to, const struct hm_outcome *outcome)
{
	struct hm_kernel_reply reply;
	struct hm_errbuf text = {""};

	memset(&reply, 0, sizeof(reply));
	reply.index = to->index;
	reply.status = outcome->status;
	reply.error = outcome->error;
	if (to->recipe != NULL)
		reply.key = to->recipe->key;
	if (outcome->status == HM_REPLY_BUSY)
		to->core->metrics.busy++;
	if (outcome->status == HM_REPLY_TRY_LOCAL)
		to->core->metrics.try_local++;
	hm_errbuf_set(&text, "%s",
	    outcome->message == NULL || outcome->message[0] == '\0'
		? hm_strerror(outcome->error)
		: outcome->message);
	memcpy(reply.message, text.text, sizeof(reply.message));
	if (outcome->status == HM_REPLY_DENIED)
		hm_audit_refuse(to->core, &to->session->peer, "compile",
		    text.text);
	if (outcome->log != NULL)
		reply.log = strdup(outcome->log);
	reply.wait_us = (uint32_t)(hm_clock_us() - to->received_us);
	hm_reply_send(to->session, to->request_id, &reply, NULL, NULL);
	hm_kernel_reply_done(&reply);
}

void
hm_answer_error(const struct hm_answer *to, int error, const char *message)
{
	struct hm_outcome outcome = {.error = error,
	    .status = HM_REPLY_FAILED,
	    .message = message};

	if (error == HM_E_UNSUPPORTED)
		outcome.status = HM_REPLY_UNSUPPORTED;
	if (error == HM_E_DENIED)
		outcome.status = HM_REPLY_DENIED;
	if (error == HM_E_BUSY)
		outcome.status = HM_REPLY_BUSY;
	if (error == HM_E_UNAVAILABLE)
		outcome.status = HM_REPLY_TRY_LOCAL;
	hm_answer_failure(to, &outcome);
}

static void
answer_count(const struct hm_answer *to, uint32_t tier, uint64_t wait_us)
{
	struct hm_metrics *metrics = &to->core->metrics;
	struct hm_log_text name;

	if (tier < HM_TIER_BUILT)
		metrics->hits[tier]++;
	hm_histogram_add(&metrics->latency[tier], wait_us);
	if (hm_log_enabled(HM_LOG_CONN, HM_LOG_INFO))
		hm_log(HM_LOG_CONN, HM_LOG_INFO,
		    "served conn=%llu request=%u index=%u name=\"%s\" "
		    "arch=%s tier=%s us=%llu",
		    (unsigned long long)to->session->number, to->request_id,
		    to->index,
		    to->choice != NULL ? to->choice->spec
				       : hm_log_quote(&name, to->recipe->name),
		    to->recipe->arch, hm_tier_name(tier),
		    (unsigned long long)wait_us);
}

/* HM_OK, or HM_E_CORRUPT when what is stored beside the image is no meta. */
static int
answer_make(const struct hm_answer *to, const struct hm_entry *entry,
    uint32_t tier, struct hm_kernel_reply *reply_out)
{
	const struct hm_meta *meta = hm_recipe_meta(to->recipe, entry);
	const struct hm_choice *choice = to->choice;

	if (meta == NULL)
		return HM_E_CORRUPT;
	memset(reply_out, 0, sizeof(*reply_out));
	reply_out->index = to->index;
	reply_out->status =
	    tier == HM_TIER_BUILT ? HM_REPLY_BUILT : HM_REPLY_HIT;
	reply_out->tier = tier;
	reply_out->key = to->recipe->key;
	reply_out->meta = *meta;
	if (choice == NULL)
		return HM_OK;
	memcpy(reply_out->meta.spec, choice->spec,
	    sizeof(reply_out->meta.spec));
	reply_out->n_ranges = choice->n_ranges;
	memcpy(reply_out->ranges, choice->ranges,
	    choice->n_ranges * sizeof(choice->ranges[0]));
	return HM_OK;
}

/*
 * Send an image. A hot hit looks the same every time but for its place in the
 * request and its waiting time, which is left out: a few microseconds.
 */
int
hm_answer_entry(const struct hm_answer *to, struct hm_entry *entry,
    uint32_t tier, const char *log)
{
	const struct hm_reply_place place = {to->request_id, to->index};
	struct hm_packed *packed = NULL;
	struct hm_kernel_reply reply;
	uint64_t wait_us;
	int error;

	if (tier == HM_TIER_HOT)
		packed = to->packed;
	if (packed != NULL &&
	    hm_reply_send_packed(to->session, &place, packed, entry)) {
		answer_count(to, tier, hm_clock_us() - to->received_us);
		return HM_OK;
	}
	error = answer_make(to, entry, tier, &reply);
	if (error != HM_OK)
		return error;
	if (log != NULL)
		reply.log = strdup(log);
	wait_us = hm_clock_us() - to->received_us;
	if (packed == NULL)
		reply.wait_us =
		    wait_us > UINT32_MAX ? UINT32_MAX : (uint32_t)wait_us;
	hm_reply_send(to->session, to->request_id, &reply, entry, packed);
	answer_count(to, tier, wait_us);
	hm_kernel_reply_done(&reply);
	return HM_OK;
}

/* Answer from the cache. HM_E_UNAVAILABLE: it must be built. */
int
hm_answer_from_cache(const struct hm_answer *to)
{
	struct hm_core *core = to->core;
	struct hm_recipe *recipe = to->recipe;
	struct hm_entry *entry = NULL;
	enum hm_cache_tier tier = HM_CACHE_MISS;
	struct hm_log_text name;
	int error;

	error = hm_cache_get(core->cache, &recipe->key, recipe->record.bytes,
	    recipe->record.n_bytes, &entry, &tier);
	if (error != HM_OK)
		return error;
	if (tier == HM_CACHE_MISS)
		return HM_E_UNAVAILABLE;
	error = hm_answer_entry(to, entry,
	    tier == HM_CACHE_HOT ? HM_TIER_HOT : HM_TIER_STORE, NULL);
	hm_entry_unref(entry);
	if (error != HM_E_CORRUPT)
		return error;
	hm_log(HM_LOG_CACHE, HM_LOG_WARNING,
	    "meta of a stored kernel does not decode, building it anew "
	    "name=\"%s\" arch=%s",
	    hm_log_quote(&name, hm_recipe_label(recipe)), recipe->arch);
	hm_cache_discard(core->cache, &recipe->key);
	return HM_E_UNAVAILABLE;
}
