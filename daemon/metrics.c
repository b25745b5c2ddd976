/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.c - histograms, and the JSON of `stats` and `status`.
 *
 * The field names are an interface (DESIGN.md section 7): scripts read them.
 */
#include "daemon/metrics.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "cache/cache.h"
#include "daemon/clock.h"
#include "daemon/compile.h"
#include "daemon/config.h"
#include "daemon/core.h"
#include "daemon/flight.h"
#include "daemon/pool.h"

/* Values below 8 have a bucket each; above, the leading bit and the three
 * behind it choose one. */
static uint32_t
histogram_bucket(uint64_t value)
{
	uint32_t log2;
	uint32_t bucket;

	if (value < HM_HISTOGRAM_STEPS)
		return (uint32_t)value;
	log2 = 63u - (uint32_t)__builtin_clzll(value);
	bucket = (log2 - 2) * HM_HISTOGRAM_STEPS +
		 (uint32_t)(value >> (log2 - 3) & (HM_HISTOGRAM_STEPS - 1));
	return bucket < HM_HISTOGRAM_BUCKETS ? bucket
					     : HM_HISTOGRAM_BUCKETS - 1;
}

/* The least value that falls into a bucket. */
static uint64_t
histogram_value(uint32_t bucket)
{
	uint32_t log2 = bucket / HM_HISTOGRAM_STEPS + 2;
	uint64_t step = bucket % HM_HISTOGRAM_STEPS;

	if (bucket < HM_HISTOGRAM_STEPS)
		return bucket;
	return (HM_HISTOGRAM_STEPS + step) << (log2 - 3);
}

void
hm_histogram_add(struct hm_histogram *histogram, uint64_t value_us)
{
	histogram->n_values++;
	histogram->buckets[histogram_bucket(value_us)]++;
}

uint64_t
hm_histogram_quantile(const struct hm_histogram *histogram, uint32_t permille)
{
	uint64_t wanted = (histogram->n_values * permille + 999) / 1000;
	uint64_t seen = 0;

	if (histogram->n_values == 0)
		return 0;
	for (uint32_t i = 0; i < HM_HISTOGRAM_BUCKETS; i++) {
		seen += histogram->buckets[i];
		if (seen >= wanted)
			return histogram_value(i);
	}
	return histogram_value(HM_HISTOGRAM_BUCKETS - 1);
}

uint64_t
hm_metrics_rss_bytes(void)
{
	unsigned long long size = 0;
	unsigned long long resident = 0;
	unsigned long long shared = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	int n_read;

	if (file == NULL)
		return 0;
	/* Numbers of the kernel's. NOLINTNEXTLINE(cert-err34-c) */
	n_read = fscanf(file, "%llu %llu %llu", &size, &resident, &shared);
	(void)fclose(file);
	if (n_read != 3 || resident < shared)
		return 0;
	return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static json_t *
metrics_number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/* {"hot": {"p50": .., "p99": ..}, ...} for every tier of this release. */
static json_t *
metrics_latency(const struct hm_metrics *metrics)
{
	json_t *latency = json_object();

	for (uint32_t tier = HM_TIER_HOT; tier <= HM_TIER_BUILT; tier++) {
		const struct hm_histogram *histogram = &metrics->latency[tier];

		json_object_set_new(latency, hm_tier_name(tier),
		    json_pack("{s:o, s:o}", "p50",
			metrics_number(hm_histogram_quantile(histogram, 500)),
			"p99",
			metrics_number(hm_histogram_quantile(histogram, 990))));
	}
	return latency;
}

static json_t *
metrics_hits(const struct hm_metrics *metrics)
{
	json_t *hits = json_object();

	for (uint32_t tier = HM_TIER_HOT; tier < HM_TIER_BUILT; tier++)
		json_object_set_new(hits, hm_tier_name(tier),
		    metrics_number(metrics->hits[tier]));
	return hits;
}

/* Print and let go of an object in which something may have failed. */
static int
metrics_print(json_t *object, char **json_out)
{
	char *json = json_dumps(object, JSON_COMPACT);

	json_decref(object);
	if (json == NULL)
		return HM_E_NOMEM;
	*json_out = json;
	return HM_OK;
}

/* What became of what was in the store, and what is there. */
static void
metrics_add_store(json_t *object, const struct hm_cache_stats *cache)
{
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
	    {"over_quota", cache->over_quota},
	    {"expired", cache->expired},
	    {"write_failures", cache->write_failures},
	    {"pinned", cache->pinned_entries},
	    {"pinned_bytes", cache->pinned_bytes},
	    {"tenants", cache->tenants},
	    {"file_bytes", cache->store_file_bytes},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		json_object_set_new(object, rows[i].name,
		    metrics_number(rows[i].value));
}

int
hm_metrics_stats(const struct hm_core *core, char **json_out)
{
	const struct hm_metrics *metrics = &core->metrics;
	struct hm_cache_stats cache;
	json_t *object;

	hm_cache_get_stats(core->cache, &cache);
	object = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "hits",
	    metrics_hits(metrics), "builds", metrics_number(metrics->builds),
	    "build_failures", metrics_number(metrics->build_failures), "joined",
	    metrics_number(metrics->joined), "busy",
	    metrics_number(metrics->busy), "corrupt",
	    metrics_number(cache.corrupt), "evicted",
	    metrics_number(cache.evicted));
	if (object == NULL)
		return HM_E_NOMEM;
	/* What was built a moment ago is kept, though not yet on the disk. */
	json_object_set_new(object, "bytes",
	    metrics_number(cache.durable
			       ? cache.store_bytes + cache.queued_bytes
			       : cache.hot_bytes));
	json_object_set_new(object, "entries",
	    metrics_number(cache.durable
			       ? cache.store_entries + cache.queued_entries
			       : cache.hot_entries));
	metrics_add_store(object, &cache);
	json_object_set_new(object, "try_local",
	    metrics_number(metrics->try_local));
	json_object_set_new(object, "denied", metrics_number(metrics->denied));
	json_object_set_new(object, "limited",
	    metrics_number(metrics->limited));
	json_object_set_new(object, "rss_bytes",
	    metrics_number(hm_metrics_rss_bytes()));
	json_object_set_new(object, "latency_us", metrics_latency(metrics));
	return metrics_print(object, json_out);
}

/* The names of the bits that are set. */
static json_t *
metrics_bits(uint32_t bits, const char *const *names, size_t n_names)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n_names; i++) {
		if ((bits >> i & 1u) != 0)
			json_array_append_new(list, json_string(names[i]));
	}
	return list;
}

/* "75,80,90" as ["sm_75", "sm_80", "sm_90"]. */
static json_t *
metrics_targets(const char *at)
{
	json_t *list = json_array();
	char name[32];
	size_t length;

	for (; *at != '\0'; at += length + (at[length] == ',')) {
		length = strcspn(at, ",");
		(void)snprintf(name, sizeof(name), "sm_%.*s", (int)length, at);
		json_array_append_new(list, json_string(name));
	}
	return list;
}

static json_t *
metrics_tiers(const struct hm_core *core, const struct hm_cache_stats *cache)
{
	return json_pack("{s:{s:o, s:o, s:o}, s:{s:o, s:o, s:o, s:b}}", "hot",
	    "entries", metrics_number(cache->hot_entries), "bytes",
	    metrics_number(cache->hot_bytes), "cap",
	    metrics_number(core->settings->hot_bytes), "store", "entries",
	    metrics_number(cache->store_entries), "bytes",
	    metrics_number(cache->store_bytes), "cap",
	    metrics_number(core->settings->store_cap_bytes), "durable",
	    (int)cache->durable);
}

static json_t *
metrics_workers(const struct hm_core *core)
{
	struct hm_pool_counts counts;

	hm_pool_get_counts(core->pool, &counts);
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "wanted",
	    metrics_number(counts.n_wanted), "starting",
	    metrics_number(counts.n_starting), "idle",
	    metrics_number(counts.n_idle), "busy",
	    metrics_number(counts.n_busy), "started",
	    metrics_number(counts.n_started), "crashed",
	    metrics_number(counts.n_crashed), "queued",
	    metrics_number(hm_flights_queued(core->flights)), "building",
	    metrics_number(hm_flights_running(core->flights)));
}

static void
metrics_add_reason(struct hm_errbuf *text, const char *what, const char *why)
{
	struct hm_errbuf before = *text;

	hm_errbuf_set(text, "%s%s%s%s", before.text,
	    before.text[0] == '\0' ? "" : "; ", what, why);
}

void
hm_metrics_degraded(const struct hm_core *core, struct hm_errbuf *text_out)
{
	struct hm_errbuf missing = {""};
	struct hm_cache_stats cache;

	hm_cache_get_stats(core->cache, &cache);
	hm_errbuf_clear(text_out);
	if (hm_pool_state(core->pool) == HM_POOL_UNAVAILABLE)
		metrics_add_reason(text_out,
		    "no compiler: ", hm_pool_message(core->pool));
	if (!cache.durable)
		metrics_add_reason(text_out, "store: ", cache.degraded);
	if (hm_pool_state(core->pool) == HM_POOL_READY &&
	    hm_compile_is_forbidden(core, &missing))
		metrics_add_reason(text_out,
		    "no client sources: ", missing.text);
}

static const char *
metrics_readiness(const struct hm_core *core)
{
	static const char *const names[] = {"starting", "ready", "no compiler"};

	return core->is_draining ? "draining"
				 : names[hm_pool_state(core->pool)];
}

int
hm_metrics_status(const struct hm_core *core, uint32_t rights, char **json_out)
{
	static const char *const sandbox_names[] = {"no_new_privs", "rlimits",
	    "landlock", "seccomp"};
	static const char *const right_names[] = {"read", "compile", "admin"};
	const struct hm_settings *settings = core->settings;
	struct hm_cache_stats cache;
	struct hm_errbuf degraded = {""};
	json_t *object;

	hm_cache_get_stats(core->cache, &cache);
	hm_metrics_degraded(core, &degraded);
	object = json_pack("{s:s, s:I, s:I, s:b, s:s, s:s, s:s, s:s, s:s}",
	    "version", HM_VERSION, "pid", (json_int_t)getpid(), "uid",
	    (json_int_t)geteuid(), "private", (int)settings->is_private,
	    "socket", settings->socket, "store", settings->store, "compiler",
	    hm_pool_compiler(core->pool), "readiness", metrics_readiness(core),
	    "degraded", degraded.text);
	if (object == NULL)
		return HM_E_NOMEM;
	json_object_set_new(object, "notice", json_string(cache.notice));
	json_object_set_new(object, "sandbox",
	    metrics_bits(hm_pool_sandbox(core->pool), sandbox_names, 4));
	json_object_set_new(object, "rights",
	    metrics_bits(rights, right_names, 3));
	json_object_set_new(object, "targets",
	    metrics_targets(hm_pool_targets(core->pool)));
	json_object_set_new(object, "tiers", metrics_tiers(core, &cache));
	json_object_set_new(object, "workers", metrics_workers(core));
	json_object_set_new(object, "uptime_s",
	    metrics_number((hm_clock_us() - core->started_us) / 1000000));
	return metrics_print(object, json_out);
}
