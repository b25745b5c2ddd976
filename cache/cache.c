/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.c - the face and the policy: hot, then what waits to be written, then
 * the store.
 *
 * The hot tier and the counters are the loop thread's alone; the store and the
 * writer lock for themselves. A failing store never fails a lookup or a put:
 * without it a key is a miss and a build is not kept.
 */
#include "cache/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache/entry.h"
#include "cache/hot.h"
#include "cache/store_lmdb.h"
#include "cache/writer.h"

/* Puts that are made again in one tick. */
#define CACHE_RETRIES 64u

struct hm_cache {
	struct hm_hot *hot;
	struct hm_store *store;    /* NULL: hot tier only */
	struct hm_writer *writer;  /* NULL with it */
	struct hm_errbuf no_store; /* why there is none */
	uint64_t hits_hot;
	uint64_t hits_store;
	uint64_t misses;
	uint64_t corrupt;
	struct hm_store_policy policy;
	/* The task under way: what of it the hot tier had; without a store the
	 * whole task. */
	bool has_task;
	struct hm_cache_task task;
	uint64_t n_hot_gone;
};

static uint64_t
cache_now_s(void)
{
	return (uint64_t)time(NULL);
}

static int
cache_prepare_store(struct hm_cache *cache,
    const struct hm_cache_options *options, struct hm_errbuf *errbuf)
{
	struct hm_errbuf why = {""};
	int error = hm_store_prepare(options->directory, options->cap_bytes,
	    &cache->store, &why);

	if (error == HM_E_UNAVAILABLE) {
		cache->no_store = why;
		return HM_OK;
	}
	if (error != HM_OK)
		hm_errbuf_set(errbuf, "%s", why.text);
	return error;
}

int
hm_cache_prepare(const struct hm_cache_options *options,
    struct hm_cache **cache_out, struct hm_errbuf *errbuf)
{
	struct hm_cache *cache;
	int error;

	cache = calloc(1, sizeof(*cache));
	if (cache == NULL) {
		hm_errbuf_set(errbuf, "cache: out of memory");
		return HM_E_NOMEM;
	}
	cache->policy.quota_bytes = options->quota_bytes;
	cache->policy.ttl_s = options->ttl_s;
	cache->policy.now_s =
	    options->now_s == NULL ? cache_now_s : options->now_s;
	error = hm_hot_new(options->hot_bytes, &cache->hot);
	if (error != HM_OK)
		hm_errbuf_set(errbuf, "cache: out of memory");
	else if (options->hot_files != 0)
		hm_hot_limit_files(cache->hot, options->hot_files);
	hm_errbuf_set(&cache->no_store, "no store: nothing is kept");
	if (error == HM_OK && options->directory != NULL)
		error = cache_prepare_store(cache, options, errbuf);
	if (error != HM_OK) {
		hm_cache_close(cache);
		return error;
	}
	*cache_out = cache;
	return HM_OK;
}

int
hm_cache_load(struct hm_cache *cache, struct hm_errbuf *errbuf)
{
	struct hm_errbuf why = {""};
	int store_error, error;

	if (cache->store == NULL)
		return HM_OK;
	hm_store_set_policy(cache->store, &cache->policy);
	store_error = hm_store_load(cache->store, &why);
	error = hm_writer_new(cache->store, why.text, &cache->writer);
	if (error != HM_OK) {
		hm_errbuf_set(errbuf, "store: cannot start its writer");
		hm_store_close(cache->store);
		cache->store = NULL;
		return error;
	}
	if (store_error != HM_OK)
		hm_errbuf_set(errbuf, "%s", why.text);
	return store_error;
}

int
hm_cache_open(const struct hm_cache_options *options,
    struct hm_cache **cache_out, struct hm_errbuf *errbuf)
{
	struct hm_cache *cache = NULL;
	int error;

	error = hm_cache_prepare(options, &cache, errbuf);
	if (error == HM_OK)
		error = hm_cache_load(cache, errbuf);
	if (error != HM_OK) {
		hm_cache_close(cache);
		return error;
	}
	*cache_out = cache;
	return HM_OK;
}

void
hm_cache_close(struct hm_cache *cache)
{
	if (cache == NULL)
		return;
	hm_writer_free(cache->writer);
	hm_store_close(cache->store);
	hm_hot_free(cache->hot);
	free(cache);
}

static uint64_t
cache_epoch(struct hm_cache *cache)
{
	return cache->writer != NULL ? hm_writer_epoch(cache->writer) : 1;
}

void
hm_cache_set_limits(struct hm_cache *cache, uint64_t quota_bytes,
    uint64_t ttl_s)
{
	cache->policy.quota_bytes = quota_bytes;
	cache->policy.ttl_s = ttl_s;
	if (cache->store != NULL)
		hm_store_set_policy(cache->store, &cache->policy);
}

static bool
cache_is_expired(const struct hm_cache *cache, const struct hm_entry *entry)
{
	uint64_t now_s;

	if (cache->policy.ttl_s == 0 || entry->born_s == HM_ENTRY_AGELESS)
		return false;
	now_s = cache->policy.now_s();
	return now_s > entry->born_s &&
	       now_s - entry->born_s >= cache->policy.ttl_s;
}

/* Not in the hot tier. HM_E_UNAVAILABLE: nowhere. */
static int
cache_find_below(struct hm_cache *cache, const struct hm_digest *key,
    struct hm_entry **entry_out, enum hm_cache_tier *tier_out)
{
	struct hm_entry *entry;
	int error;

	if (cache->store == NULL)
		return HM_E_UNAVAILABLE;
	/* First, as it is newer than what the store may have. */
	entry = hm_writer_find(cache->writer, key);
	if (entry != NULL && !cache_is_expired(cache, entry)) {
		*entry_out = entry;
		*tier_out = HM_CACHE_HOT;
		return HM_OK;
	}
	hm_entry_unref(entry);
	error = hm_store_find(cache->store, key, entry_out);
	if (error == HM_OK)
		*tier_out = HM_CACHE_STORE;
	if (error == HM_E_CORRUPT) {
		cache->corrupt++;
		hm_writer_discard(cache->writer, key, true);
		error = HM_E_UNAVAILABLE;
	}
	return error;
}

int
hm_cache_get(struct hm_cache *cache, const struct hm_digest *key,
    const void *record, size_t n_record, struct hm_entry **entry_out,
    enum hm_cache_tier *tier_out)
{
	enum hm_cache_tier tier = HM_CACHE_HOT;
	uint64_t epoch = cache_epoch(cache);
	struct hm_entry *entry;
	bool is_first = false;
	int error;

	entry = hm_hot_find(cache->hot, key, epoch, &is_first);
	/* The store knows whether it was pinned since. */
	if (entry != NULL && cache_is_expired(cache, entry)) {
		(void)hm_hot_remove(cache->hot, key);
		entry = NULL;
	}
	if (entry != NULL) {
		(void)hm_entry_ref(entry);
	} else {
		error = cache_find_below(cache, key, &entry, &tier);
		if (error != HM_OK && error != HM_E_UNAVAILABLE)
			return error;
	}
	if (entry == NULL || !hm_entry_has_record(entry, record, n_record)) {
		hm_entry_unref(entry);
		cache->misses++;
		*tier_out = HM_CACHE_MISS;
		return HM_OK;
	}

	if (tier == HM_CACHE_STORE) {
		cache->hits_store++;
		is_first = true;
		/* Without memory for it the next hit is one of the store. */
		(void)hm_hot_put(cache->hot, entry, epoch);
	} else {
		cache->hits_hot++;
	}
	if (is_first && cache->writer != NULL)
		hm_writer_touch(cache->writer, key);
	*entry_out = entry;
	*tier_out = tier;
	return HM_OK;
}

void
hm_cache_put(struct hm_cache *cache, struct hm_entry *entry)
{
	/* Without memory for it the store, or the next build, has it. But an
	 * older one must not stay in front of it. */
	if (hm_hot_put(cache->hot, entry, cache_epoch(cache)) != HM_OK)
		(void)hm_hot_remove(cache->hot, &entry->key);
	if (cache->writer != NULL)
		hm_writer_put(cache->writer, entry);
}

void
hm_cache_discard(struct hm_cache *cache, const struct hm_digest *key)
{
	(void)hm_hot_remove(cache->hot, key);
	if (cache->writer != NULL)
		hm_writer_discard(cache->writer, key, false);
}

void
hm_cache_flush(struct hm_cache *cache)
{
	if (cache->writer != NULL)
		hm_writer_flush(cache->writer);
}

/* ---- tasks ---- */

struct cache_count {
	struct hm_store *store;
	uint64_t n;
};

static bool
cache_count_hot_only(const struct hm_entry *entry, void *arg)
{
	struct cache_count *count = arg;

	count->n +=
	    count->store == NULL || !hm_store_has(count->store, &entry->key);
	return true;
}

/* How many entries are in the hot tier, and nowhere on their way to the store
 * either. */
static uint64_t
cache_hot_only(struct hm_cache *cache)
{
	struct cache_count count = {.store = cache->store, .n = 0};
	uint64_t n_queued = 0, n_bytes = 0;

	if (cache->writer != NULL)
		hm_writer_count_queued(cache->writer, &n_queued, &n_bytes);
	hm_hot_each(cache->hot, cache_count_hot_only, &count);
	return count.n > n_queued ? count.n - n_queued : 0;
}

/* The hot tier forgets what is to go, or to be looked at anew; how many? */
static uint64_t
cache_forget(struct hm_cache *cache, const struct hm_cache_task *task)
{
	uint64_t n = 0;

	switch (task->kind) {
	case HM_CACHE_EVICT_ALL:
		n = cache_hot_only(cache);
		hm_hot_clear(cache->hot);
		break;
	case HM_CACHE_EVICT:
	case HM_CACHE_PIN:
	case HM_CACHE_UNPIN:
		n = hm_hot_remove(cache->hot, &task->key);
		break;
	case HM_CACHE_VERIFY:
	case HM_CACHE_COMPACT:
		break;
	}
	return n;
}

int
hm_cache_begin(struct hm_cache *cache, enum hm_cache_task_kind kind,
    const struct hm_digest *key)
{
	struct hm_cache_task task;
	uint64_t n_hot_gone;
	int error = HM_OK;

	if (cache->has_task)
		return HM_E_BUSY;
	memset(&task, 0, sizeof(task));
	task.kind = kind;
	if (key != NULL)
		task.key = *key;
	n_hot_gone = cache_forget(cache, &task);
	if (cache->writer != NULL)
		error = hm_writer_begin(cache->writer, kind, key);
	if (error != HM_OK)
		return error;
	cache->has_task = true;
	cache->task = task;
	cache->n_hot_gone = n_hot_gone;
	return HM_OK;
}

/* Without a store only the hot tier has anything. */
static void
cache_end_alone(struct hm_cache *cache, struct hm_cache_task *task)
{
	*task = cache->task;
	if (task->kind == HM_CACHE_PIN || task->kind == HM_CACHE_UNPIN) {
		task->error = HM_E_UNAVAILABLE;
		hm_errbuf_set(&task->why, "there is no store");
	}
}

bool
hm_cache_poll(struct hm_cache *cache, struct hm_cache_task *task_out)
{
	struct hm_cache_task task;

	if (!cache->has_task)
		return false;
	if (cache->writer == NULL)
		cache_end_alone(cache, &task);
	else if (!hm_writer_poll(cache->writer, &task))
		return false;
	cache->has_task = false;
	/* Once more: meanwhile it may have come back from the store. */
	(void)cache_forget(cache, &task);
	if (task.kind == HM_CACHE_VERIFY)
		cache->corrupt += task.n_gone;
	else if (task.kind == HM_CACHE_EVICT_ALL)
		task.n_gone += cache->n_hot_gone;
	else if (task.kind == HM_CACHE_EVICT && task.error == HM_OK)
		task.n_gone = (task.n_gone | cache->n_hot_gone) != 0;
	*task_out = task;
	return true;
}

int
hm_cache_run(struct hm_cache *cache, enum hm_cache_task_kind kind,
    const struct hm_digest *key, struct hm_cache_task *task_out)
{
	int error = hm_cache_begin(cache, kind, key);

	if (error != HM_OK)
		return error;
	if (cache->writer != NULL)
		hm_writer_wait_task(cache->writer);
	return hm_cache_poll(cache, task_out) ? task_out->error : HM_E_INTERNAL;
}

void
hm_cache_tick(struct hm_cache *cache)
{
	struct hm_digest lost[CACHE_RETRIES];
	struct hm_entry *entry;
	bool is_first;
	size_t n;

	if (cache->writer == NULL)
		return;
	n = hm_writer_take_lost(cache->writer, lost, CACHE_RETRIES);
	for (size_t i = 0; i < n; i++) {
		entry = hm_hot_find(cache->hot, &lost[i], cache_epoch(cache),
		    &is_first);
		if (entry != NULL && !hm_store_has(cache->store, &lost[i]))
			hm_writer_put(cache->writer, entry);
	}
	hm_writer_tick(cache->writer);
}

/* ---- records and counts ---- */

/* each_record: the hot tier first, then what only the store has. */
struct cache_visit {
	struct hm_hot *hot;
	hm_cache_record_fn each;
	void *arg;
	bool is_over;
};

static bool
cache_visit_hot(const struct hm_entry *entry, void *arg)
{
	struct cache_visit *visit = arg;

	visit->is_over = !visit->each(&entry->key, entry->record,
	    entry->n_record, visit->arg);
	return !visit->is_over;
}

static bool
cache_visit_store(const struct hm_digest *key, const void *record,
    size_t n_record, void *arg)
{
	struct cache_visit *visit = arg;

	if (hm_hot_has(visit->hot, key))
		return true;
	return visit->each(key, record, n_record, visit->arg);
}

int
hm_cache_each_record(struct hm_cache *cache, hm_cache_record_fn each, void *arg)
{
	struct cache_visit visit = {.hot = cache->hot,
	    .each = each,
	    .arg = arg};

	hm_hot_each(cache->hot, cache_visit_hot, &visit);
	if (visit.is_over || cache->store == NULL)
		return HM_OK;
	return hm_store_each_record(cache->store, cache_visit_store, &visit);
}

void
hm_cache_get_stats(struct hm_cache *cache, struct hm_cache_stats *stats_out)
{
	struct hm_writer_stats writer;
	struct hm_store_stats store;

	memset(stats_out, 0, sizeof(*stats_out));
	stats_out->hits_hot = cache->hits_hot;
	stats_out->hits_store = cache->hits_store;
	stats_out->misses = cache->misses;
	stats_out->corrupt = cache->corrupt;
	stats_out->hot_bytes = hm_hot_bytes(cache->hot);
	stats_out->hot_entries = hm_hot_entries(cache->hot);
	if (cache->store == NULL) {
		(void)snprintf(stats_out->degraded, sizeof(stats_out->degraded),
		    "%.255s", cache->no_store.text);
		return;
	}
	hm_store_get_stats(cache->store, &store);
	hm_writer_get_stats(cache->writer, &writer);
	stats_out->evicted = store.evicted;
	stats_out->over_quota = store.over_quota;
	stats_out->expired = store.expired;
	stats_out->store_file_bytes = store.file_bytes;
	stats_out->pinned_bytes = store.pinned_bytes;
	stats_out->pinned_entries = store.pinned_entries;
	stats_out->tenants = store.tenants;
	stats_out->store_bytes = store.bytes;
	stats_out->store_entries = store.entries;
	stats_out->write_failures = writer.write_failures;
	stats_out->durable = writer.degraded[0] == '\0';
	hm_writer_count_queued(cache->writer, &stats_out->queued_entries,
	    &stats_out->queued_bytes);
	memcpy(stats_out->degraded, writer.degraded,
	    sizeof(stats_out->degraded));
	memcpy(stats_out->notice, store.notice, sizeof(stats_out->notice));
}
