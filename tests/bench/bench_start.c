/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_start.c - how long hummingd takes from exec to listening, and to its
 * first answer, with a large store (DESIGN.md section 9: 4 GB, 100 ms).
 *
 *     bench_start [GB] [STARTS]          4 GB, 5 starts
 *
 * The store is filled through cache/ with entries of 24 KiB, as our kernels
 * are. Prints a table; judges nothing, because a time is no test. The folder is
 * made under TMPDIR and removed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/cache.h"
#include "proto/digest.h"
#include "tests/integration/harness.h"
#include "tests/integration/wire.h"

#define ENTRY_BYTES 24576u
#define FLUSH_EACH  256u

static uint64_t store_gb = 4, n_starts = 5;

static void
put_entry(struct hm_cache *cache, uint64_t number)
{
	static uint8_t image[ENTRY_BYTES];
	struct hm_entry_parts parts = {.meta = "bench",
	    .n_meta = 5,
	    .record = &number,
	    .n_record = sizeof number,
	    .image = image,
	    .n_image = sizeof image};
	struct hm_digest key;
	struct hm_entry *entry;

	for (size_t i = 0; i < sizeof image; i += sizeof number)
		memcpy(image + i, &number, sizeof number);
	hm_digest_compute(&number, sizeof number, &key);
	assert_int_equal(hm_entry_new(&key, &parts, &entry), HM_OK);
	hm_cache_put(cache, entry);
	hm_entry_unref(entry);
}

static uint64_t
fill(const char *folder, uint64_t n_bytes)
{
	struct hm_cache_options options = {.directory = folder,
	    .cap_bytes = n_bytes * 2,
	    .hot_bytes = 0};
	struct hm_cache_stats stats;
	struct hm_cache *cache;
	uint64_t n = n_bytes / ENTRY_BYTES;

	assert_int_equal(hm_cache_open(&options, &cache, NULL), HM_OK);
	for (uint64_t i = 0; i < n; i++) {
		put_entry(cache, i);
		if (i % FLUSH_EACH == 0)
			hm_cache_flush(cache);
	}
	hm_cache_flush(cache);
	hm_cache_get_stats(cache, &stats);
	assert_int_equal(stats.write_failures, 0);
	hm_cache_close(cache);
	return stats.store_entries;
}

/* Milliseconds from exec to ready, and to the first answer. */
static void
start_once(struct harness *harness, uint64_t times_out[2], uint64_t *rss_out)
{
	struct wire wire;
	uint64_t begin = harness_now_ms();

	harness_start(harness);
	times_out[0] = harness_now_ms() - begin;
	wire_open(&wire, harness);
	*rss_out = wire_number(&wire, HM_FRAME_STATS, "rss_bytes");
	times_out[1] = harness_now_ms() - begin;
	wire_close(&wire);
	assert_int_equal(harness_stop(harness), 0);
}

static void
bench_start__with_a_large_store(void **state)
{
	struct harness harness;
	char cap[64];
	uint64_t times[2], rss, n;

	(void)state;
	harness_init(&harness);
	n = fill(harness.store, store_gb * 1000000000u);
	(void)snprintf(cap, sizeof cap, "HUMMING_STORE_CAP=%lluG",
	    (unsigned long long)store_gb * 2);
	harness.environment[0] = cap;
	(void)printf("# store: %llu GB, %llu entries\n",
	    (unsigned long long)store_gb, (unsigned long long)n);
	(void)printf("# %8s %14s %12s %12s\n", "start", "listening ms",
	    "answer ms", "anon KiB");
	for (uint64_t i = 0; i < n_starts; i++) {
		start_once(&harness, times, &rss);
		(void)printf("# %8llu %14llu %12llu %12llu\n",
		    (unsigned long long)i + 1, (unsigned long long)times[0],
		    (unsigned long long)times[1],
		    (unsigned long long)rss / 1024);
	}
	harness_done(&harness);
}

static uint64_t
number_or(const char *text, uint64_t usual)
{
	char *end;
	unsigned long long value;

	if (text == NULL)
		return usual;
	value = strtoull(text, &end, 10);
	return *end == '\0' && value > 0 && value < 1000 ? value : usual;
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bench_start__with_a_large_store),
	};

	store_gb = number_or(argc > 1 ? argv[1] : NULL, store_gb);
	n_starts = number_or(argc > 2 ? argv[2] : NULL, n_starts);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
