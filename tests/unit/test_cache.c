/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cache.c - the face of the cache: what it promises in cache.h, and that
 * no damage to its file ever becomes an error, a crash or wrong bytes.
 *
 * HM_TEST_FLIPS=n makes the damage tests try n places each instead of a few
 * hundred.
 */
#include <sys/resource.h>

#include <dirent.h>
#include <signal.h>

#include "cache_fixture.h"

#include "cache/store_dir.h"

#define CAP (64 * MIB)
#define HOT (8 * MIB)

static struct hm_cache_stats
stats_of(struct hm_cache *cache)
{
	struct hm_cache_stats stats;

	hm_cache_get_stats(cache, &stats);
	return stats;
}

/* Evict one entry; how many went. */
static uint64_t
evict(struct hm_cache *cache, uint64_t seed)
{
	struct hm_cache_task task;
	struct hm_digest key;

	fixture_key(seed, &key);
	assert_int_equal(hm_cache_run(cache, HM_CACHE_EVICT, &key, &task),
	    HM_OK);
	return task.n_gone;
}

static uint64_t
evict_all(struct hm_cache *cache)
{
	struct hm_cache_task task;

	assert_int_equal(hm_cache_run(cache, HM_CACHE_EVICT_ALL, NULL, &task),
	    HM_OK);
	return task.n_gone;
}

/* ---- the face ---- */

static void
test_cache__put_is_hot_at_once_and_stored_later(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, CAP, HOT);
	struct hm_cache_stats stats;

	(void)state;
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_MISS);
	fixture_put(cache, 1, 20000);
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_HOT);
	hm_cache_flush(cache);
	stats = stats_of(cache);
	assert_int_equal(stats.misses, 1);
	assert_int_equal(stats.hits_hot, 1);
	assert_int_equal(stats.hits_store, 0);
	assert_int_equal(stats.store_entries, 1);
	assert_int_equal(stats.hot_entries, 1);
	assert_true(stats.store_bytes >= 20000 && stats.hot_bytes >= 20000);
	assert_int_equal(stats.write_failures, 0);
	assert_true(stats.durable);
	assert_string_equal(stats.degraded, "");
	assert_string_equal(stats.notice, "");
	hm_cache_close(cache);
	hm_cache_close(NULL);
	fixture_remove(folder);
}

static void
test_cache__restart_serves_from_the_store_then_hot(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, CAP, HOT);

	(void)state;
	fixture_put(cache, 1, 20000);
	fixture_put(cache, 2, 200000);
	hm_cache_close(cache); /* waits for the writer, without a flush */

	cache = fixture_open(folder, CAP, HOT);
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_STORE);
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_HOT);
	assert_int_equal(fixture_get(cache, 2, 200000), HM_CACHE_STORE);
	assert_int_equal(fixture_get(cache, 2, 200000), HM_CACHE_HOT);
	assert_int_equal(fixture_get(cache, 3, 10), HM_CACHE_MISS);
	assert_int_equal(stats_of(cache).hits_store, 2);
	assert_int_equal(stats_of(cache).hits_hot, 2);
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
test_cache__without_hot_tier_a_put_is_still_found_at_once(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, CAP, 0);

	(void)state;
	for (uint64_t i = 0; i < 200; i++) {
		fixture_put(cache, i, 20000);
		assert_int_not_equal(fixture_get(cache, i, 20000),
		    HM_CACHE_MISS);
	}
	hm_cache_flush(cache);
	assert_int_equal(stats_of(cache).hot_entries, 0);
	for (uint64_t i = 0; i < 200; i++)
		assert_int_equal(fixture_get(cache, i, 20000), HM_CACHE_STORE);
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
test_cache__without_folder_is_hot_only(void **state)
{
	struct hm_cache *cache = fixture_open(NULL, 0, HOT);

	(void)state;
	fixture_put(cache, 1, 20000);
	fixture_put(cache, 2, 20000);
	hm_cache_flush(cache);
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_HOT);
	assert_false(stats_of(cache).durable);
	assert_true(strlen(stats_of(cache).degraded) > 0);
	assert_int_equal(evict(cache, 1), 1);
	assert_int_equal(evict(cache, 1), 0);
	assert_int_equal(evict_all(cache), 1);
	assert_int_equal(fixture_get(cache, 2, 20000), HM_CACHE_MISS);
	hm_cache_close(cache);
}

/* Two records under one digest: never the other one's bytes. */
static void
test_cache__collision_of_digests_is_a_miss(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, CAP, HOT);
	enum hm_cache_tier tier = HM_CACHE_HOT;
	struct hm_entry *entry = NULL;
	struct hm_digest key;

	(void)state;
	fixture_put(cache, 1, 20000);
	fixture_key(1, &key);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(hm_cache_get(cache, &key, "record of entry 2",
				     17, &entry, &tier),
		    HM_OK);
		assert_int_equal(tier, HM_CACHE_MISS);
		assert_null(entry);
		assert_int_equal(
		    hm_cache_get(cache, &key, NULL, 0, &entry, &tier), HM_OK);
		assert_int_equal(tier, HM_CACHE_MISS);
		assert_int_equal(fixture_get(cache, 1, 20000),
		    i == 0 ? HM_CACHE_HOT : HM_CACHE_STORE);
		assert_int_equal(stats_of(cache).corrupt, 0);
		hm_cache_close(cache); /* then the same from the store */
		cache = fixture_open(folder, CAP, HOT);
	}
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
test_cache__second_put_of_a_key_replaces(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, CAP, HOT);

	(void)state;
	for (size_t n = 1000; n < 60000; n += 1000)
		fixture_put(cache, 1, n);
	assert_int_equal(fixture_get(cache, 1, 59000), HM_CACHE_HOT);
	hm_cache_close(cache);
	cache = fixture_open(folder, CAP, HOT);
	assert_int_equal(fixture_get(cache, 1, 59000), HM_CACHE_STORE);
	assert_int_equal(stats_of(cache).store_entries, 1);
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
test_cache__evict_takes_from_both_tiers(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, CAP, HOT);

	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		fixture_put(cache, i, 20000);
	assert_int_equal(evict(cache, 3), 1); /* not flushed before */
	assert_int_equal(evict(cache, 3), 0);
	assert_int_equal(fixture_get(cache, 3, 20000), HM_CACHE_MISS);
	assert_int_equal(evict_all(cache), 9);
	assert_int_equal(stats_of(cache).store_entries, 0);
	assert_int_equal(stats_of(cache).hot_entries, 0);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(fixture_get(cache, i, 20000), HM_CACHE_MISS);
	fixture_put(cache, 4, 20000);
	hm_cache_close(cache);
	cache = fixture_open(folder, CAP, HOT);
	assert_int_equal(fixture_get(cache, 4, 20000), HM_CACHE_STORE);
	assert_int_equal(fixture_get(cache, 5, 20000), HM_CACHE_MISS);
	hm_cache_close(cache);
	fixture_remove(folder);
}

struct seen {
	unsigned int n;
	unsigned int stop_after;
	unsigned int by_seed[8];
};

static bool
see_record(const struct hm_digest *key, const void *record, size_t n_record,
    void *arg)
{
	struct seen *seen = arg;

	for (uint64_t i = 0; i < 8; i++) {
		struct hm_digest own;
		char text[64];

		fixture_key(i, &own);
		if (!hm_digest_equal(&own, key))
			continue;
		assert_int_equal(n_record, fixture_record(i, text));
		assert_memory_equal(record, text, n_record);
		seen->by_seed[i]++;
	}
	seen->n++;
	return seen->n != seen->stop_after;
}

static void
test_cache__each_record_visits_each_once(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, CAP, 50000);
	struct seen seen = {.n = 0};

	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		fixture_put(cache, i, 20000); /* two stay hot */
	hm_cache_flush(cache);
	assert_int_equal(hm_cache_each_record(cache, see_record, &seen), HM_OK);
	for (int i = 0; i < 8; i++)
		assert_int_equal(seen.by_seed[i], 1);
	assert_int_equal(seen.n, 8);
	for (unsigned int stop = 1; stop < 8; stop++) {
		seen = (struct seen){.stop_after = stop};
		assert_int_equal(hm_cache_each_record(cache, see_record, &seen),
		    HM_OK);
		assert_int_equal(seen.n, stop);
	}
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
test_cache__hot_hits_keep_an_entry_in_the_store(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_cache *cache = fixture_open(folder, 4 * MIB, 100000);

	(void)state;
	fixture_put(cache, 0, 30000);
	for (uint64_t i = 1; i < 400; i++) {
		/* Stays hot by being used, so the store never sees it read. */
		assert_int_equal(fixture_get(cache, 0, 30000), HM_CACHE_HOT);
		fixture_put(cache, i, 30000);
		hm_cache_flush(cache);
	}
	assert_true(stats_of(cache).evicted > 200);
	hm_cache_close(cache);
	cache = fixture_open(folder, 4 * MIB, 100000);
	assert_int_equal(fixture_get(cache, 0, 30000), HM_CACHE_STORE);
	assert_int_equal(fixture_get(cache, 1, 30000), HM_CACHE_MISS);
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
test_cache__uses_alone_are_kept_at_close(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, 4 * MIB, HOT);

	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		fixture_put(cache, i, 30000);
	hm_cache_close(cache);
	cache = fixture_open(folder, 4 * MIB, HOT);
	assert_int_equal(fixture_get(cache, 0, 30000), HM_CACHE_STORE);
	hm_cache_close(cache);
	cache = fixture_open(folder, 4 * MIB, HOT);
	for (uint64_t i = 100; i < 140; i++)
		fixture_put(cache, i, 30000);
	hm_cache_close(cache);
	cache = fixture_open(folder, 4 * MIB, HOT);
	assert_int_equal(fixture_get(cache, 0, 30000), HM_CACHE_STORE);
	assert_int_equal(fixture_get(cache, 1, 30000), HM_CACHE_MISS);
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
test_cache__open_refusals_come_through(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, CAP, HOT);
	struct hm_cache_options options = {.directory = folder,
	    .cap_bytes = CAP,
	    .hot_bytes = HOT};
	struct hm_cache *second = NULL;
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(hm_cache_open(&options, &second, &errbuf), HM_E_BUSY);
	assert_non_null(strstr(errbuf.text, folder));
	hm_cache_close(cache);
	fixture_write(folder, "stranger", "x", 1);
	assert_int_equal(hm_cache_open(&options, &second, &errbuf),
	    HM_E_INVALID);
	assert_non_null(strstr(errbuf.text, "stranger"));
	assert_null(second);
	fixture_remove(folder);
}

/* ---- full ---- */

/* Every put is served, and then is in the store or counted. */
static void
test_cache__small_store_with_random_sizes_never_fails(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_cache *cache = fixture_open(folder, 2 * MIB, 4 * MIB);
	struct hm_cache_stats stats;
	static size_t sizes[500];
	uint64_t random = 5;
	uint64_t n_stored = 0;

	(void)state;
	for (int i = 0; i < 1500; i++) {
		uint64_t seed = fixture_random(&random) % 500;

		sizes[seed] = 1 + fixture_random(&random) % 300000;
		fixture_put(cache, seed, sizes[seed]);
		assert_int_equal(fixture_get(cache, seed, sizes[seed]),
		    HM_CACHE_HOT);
		stats = stats_of(cache);
		assert_true(stats.store_bytes <= 2 * MIB);
		if (i % 50 == 0)
			hm_cache_flush(cache);
	}
	hm_cache_flush(cache);
	stats = stats_of(cache);
	assert_true(stats.evicted > 500);
	assert_int_equal(stats.corrupt, 0);
	assert_true(stats.durable);
	hm_cache_close(cache);

	cache = fixture_open(folder, 2 * MIB, 4 * MIB);
	for (uint64_t i = 0; i < 500; i++) {
		if (sizes[i] != 0)
			n_stored +=
			    fixture_get(cache, i, sizes[i]) == HM_CACHE_STORE;
	}
	assert_int_equal(stats_of(cache).store_entries, n_stored);
	assert_true(n_stored > 5);
	assert_string_equal(stats_of(cache).notice, "");
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
test_cache__entry_over_the_store_is_served_and_counted(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, MIB, HOT);

	(void)state;
	fixture_put(cache, 1, 2 * MIB);
	fixture_put(cache, 2, 1000);
	hm_cache_flush(cache);
	assert_int_equal(fixture_get(cache, 1, 2 * MIB), HM_CACHE_HOT);
	assert_int_equal(stats_of(cache).write_failures, 1);
	assert_int_equal(stats_of(cache).store_entries, 1);
	assert_true(stats_of(cache).durable);
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
test_cache__flood_is_stored_or_counted(void **state)
{
	const uint64_t n = 150;
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, 512 * MIB, 0);
	uint64_t n_found = 0;

	(void)state;
	for (uint64_t i = 0; i < n; i++)
		fixture_put(cache, i, MIB); /* five times the queue */
	hm_cache_flush(cache);
	for (uint64_t i = 0; i < n; i++)
		n_found += fixture_get(cache, i, MIB) == HM_CACHE_STORE;
	/* What a queue of 32 MiB holds, records included. */
	assert_true(n_found >= 31);
	assert_int_equal(n_found + stats_of(cache).write_failures, n);
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
test_cache__full_disk_degrades_and_recovers(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, CAP, HOT);
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct rlimit before, full;

	(void)state;
	assert_int_equal(sigaction(SIGXFSZ, &ignore, NULL), 0);
	fixture_put(cache, 1, 200000);
	hm_cache_flush(cache);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	full = before;
	/* Nothing behind the two meta pages: however the writer batches, each
	 * batch fails. The limit holds for memory files as well: small ones. */
	full.rlim_cur = 8192;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
	for (uint64_t i = 2; i < 22; i++)
		fixture_put(cache, i, 30000);
	hm_cache_flush(cache);
	assert_true(stats_of(cache).write_failures > 0);
	assert_false(stats_of(cache).durable);
	assert_non_null(strstr(stats_of(cache).degraded, folder));
	assert_int_equal(fixture_get(cache, 1, 200000), HM_CACHE_HOT);
	assert_int_equal(fixture_get(cache, 21, 30000), HM_CACHE_HOT);
	assert_int_equal(fixture_get(cache, 99, 1), HM_CACHE_MISS);

	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	fixture_put(cache, 30, 30000);
	hm_cache_flush(cache);
	assert_true(stats_of(cache).durable);
	assert_string_equal(stats_of(cache).degraded, "");
	hm_cache_close(cache);
	cache = fixture_open(folder, CAP, HOT);
	assert_int_equal(fixture_get(cache, 1, 200000), HM_CACHE_STORE);
	assert_int_equal(fixture_get(cache, 30, 30000), HM_CACHE_STORE);

	/* Making space must work when nothing else does. */
	full.rlim_cur = 300000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
	assert_true(evict_all(cache) >= 2);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	hm_cache_close(cache);
	fixture_remove(folder);
}

/* ---- damage ---- */

/* Sizes of the entries of the store that is damaged: in a leaf, on one page,
 * on many, in a memory file. */
static const size_t damage_sizes[] = {1, 500, 1500, 3000, 5000, 20000, 20000,
    40000, 200000, 700, 900, 100, 30, 1900, 1950};
#define N_DAMAGE (sizeof(damage_sizes) / sizeof(damage_sizes[0]))

/* A closed store that has seen deletes and replacements too. */
static char *
damage_store(void)
{
	char *folder = fixture_folder_fast();
	struct hm_cache *cache = fixture_open(folder, CAP, 0);

	for (uint64_t i = 0; i < 100; i++) {
		fixture_put(cache, 1000 + i, 3000);
		fixture_put(cache, 1000 + i % 50, 3500);
		hm_cache_flush(cache);
	}
	for (uint64_t i = 0; i < 95; i++)
		(void)evict(cache, 1000 + i);
	for (uint64_t i = 0; i < N_DAMAGE; i++)
		fixture_put(cache, i, damage_sizes[i]);
	hm_cache_close(cache);
	return folder;
}

/* With this data file: open, read all, write, evict, reopen. Returns how many
 * of the entries were still there at first. */
static unsigned int
damage_try(const char *folder, const uint8_t *bytes, size_t n_bytes)
{
	unsigned int n_hits = 0;
	struct hm_cache_stats stats, before;
	struct hm_cache *cache;
	char path[320];

	fixture_write(folder, HM_STORE_DATA_FILE, bytes, n_bytes);
	cache = fixture_open(folder, CAP, 0);
	for (uint64_t i = 0; i < N_DAMAGE; i++)
		n_hits +=
		    fixture_get(cache, i, damage_sizes[i]) != HM_CACHE_MISS;
	hm_cache_flush(cache);
	before = stats_of(cache);
	/* A miss has a cause that was told, unless keys themselves changed. */
	assert_true(n_hits + 2 >= N_DAMAGE || before.corrupt > 0 ||
		    before.notice[0] != '\0');

	/* Everything can be put anew, replaced and deleted. */
	for (uint64_t i = 0; i < N_DAMAGE; i++)
		fixture_put(cache, i, damage_sizes[i]);
	for (uint64_t i = 0; i < 95; i += 5)
		fixture_put(cache, 1000 + i, 4000);
	for (uint64_t i = 0; i < N_DAMAGE; i += 4)
		(void)evict(cache, i);
	hm_cache_flush(cache);
	stats = stats_of(cache);
	assert_int_equal(stats.write_failures, 0);
	assert_true(stats.durable);
	hm_cache_close(cache);

	/* Once all is rewritten nothing is damaged. If a page header was found
	 * to be on the way, what came before it is gone with the old file. */
	cache = fixture_open(folder, CAP, 0);
	assert_string_equal(stats_of(cache).notice, "");
	for (uint64_t i = 0; i < N_DAMAGE; i++) {
		bool is_hit =
		    fixture_get(cache, i, damage_sizes[i]) == HM_CACHE_STORE;

		if (i % 4 == 0)
			assert_false(is_hit);
		else if (strcmp(stats.notice, before.notice) == 0)
			assert_true(is_hit);
	}
	assert_int_equal(stats_of(cache).corrupt, 0);
	if (stats_of(cache).store_entries > 60)
		(void)evict_all(cache);
	hm_cache_close(cache);
	for (unsigned int aside = 1; aside < 4; aside++) {
		(void)snprintf(path, sizeof(path), "%s/data.mdb.aside-%u",
		    folder, aside);
		(void)unlink(path);
	}
	return n_hits;
}

static int
damage_n_places(void)
{
	const char *wish = getenv("HM_TEST_FLIPS");

	return wish != NULL ? (int)strtoul(wish, NULL, 10) : 150;
}

static void
test_cache__undamaged_store_has_all(void **state)
{
	char *folder = damage_store();
	size_t n;
	uint8_t *bytes = fixture_read(folder, HM_STORE_DATA_FILE, &n);

	(void)state;
	assert_int_equal(damage_try(folder, bytes, n), N_DAMAGE);
	free(bytes);
	fixture_remove(folder);
}

/* One bit in a value: that key is a miss, counted, deleted; others stay. */
static void
test_cache__flipped_image_is_a_counted_miss_once(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, CAP, HOT);
	uint8_t *bytes, *at, *image = fixture_image(1, 20000);
	size_t n;

	(void)state;
	fixture_put(cache, 1, 20000);
	fixture_put(cache, 2, 20000);
	hm_cache_close(cache);
	bytes = fixture_read(folder, HM_STORE_DATA_FILE, &n);
	at = memmem(bytes, n, image + 4000, 100);
	assert_non_null(at);
	at[50] ^= 0x10;
	fixture_write(folder, HM_STORE_DATA_FILE, bytes, n);

	cache = fixture_open(folder, CAP, HOT);
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_MISS);
	assert_int_equal(stats_of(cache).corrupt, 1);
	hm_cache_flush(cache);
	assert_int_equal(stats_of(cache).store_entries, 1);
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_MISS);
	assert_int_equal(stats_of(cache).corrupt, 1);
	assert_int_equal(fixture_get(cache, 2, 20000), HM_CACHE_STORE);
	fixture_put(cache, 1, 20000);
	hm_cache_close(cache);
	cache = fixture_open(folder, CAP, HOT);
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_STORE);
	assert_string_equal(stats_of(cache).notice, "");
	hm_cache_close(cache);
	free(bytes);
	free(image);
	fixture_remove(folder);
}

/* Pages that are no continuation of a value hold what LMDB believes. */
static bool
is_structure(const uint8_t *bytes, size_t page)
{
	uint64_t number;
	uint16_t flags;

	memcpy(&number, bytes + page * 4096, sizeof(number));
	memcpy(&flags, bytes + page * 4096 + 10, sizeof(flags));
	return page < 2 ||
	       (number == page && (flags == 1 || flags == 2 || flags == 4));
}

enum damage { FLIP_BIT, ZERO_BYTES, DUPLICATE_BYTES, RANDOM_BYTES };

static void
damage_bytes(uint8_t *bytes, size_t n, size_t at, enum damage kind,
    uint64_t *random)
{
	size_t length = 1 + fixture_random(random) % 64;
	size_t from = fixture_random(random) % (n - 64);

	if (length > n - at)
		length = n - at;
	switch (kind) {
	case FLIP_BIT:
		bytes[at] ^= (uint8_t)(1u << fixture_random(random) % 8);
		break;
	case ZERO_BYTES:
		memset(bytes + at, 0, length);
		break;
	case DUPLICATE_BYTES:
		memmove(bytes + at, bytes + from, length);
		break;
	case RANDOM_BYTES:
		for (size_t i = 0; i < length; i++)
			bytes[at + i] = (uint8_t)fixture_random(random);
		break;
	}
}

static void
damage_many(enum damage kind)
{
	char *folder = damage_store();
	size_t n;
	uint8_t *sound = fixture_read(folder, HM_STORE_DATA_FILE, &n);
	uint8_t *bytes = malloc(n);
	unsigned int n_missed = 0;
	uint64_t random = 1000 + (uint64_t)kind;
	const char *from = getenv("HM_TEST_SEED");

	if (from != NULL)
		random = strtoul(from, NULL, 10);
	assert_non_null(bytes);
	for (int i = 0; i < damage_n_places(); i++) {
		size_t page = fixture_random(&random) % (n / 4096);
		size_t within = fixture_random(&random) % 4096;

		/* Most of the file is images: go for the pages that lead. */
		if (i % 8 != 0) {
			while (!is_structure(sound, page))
				page = (page + 1) % (n / 4096);
		}
		/* And there for headers and offsets, half of the time. */
		if (i % 2 == 0)
			within %= 64;
		memcpy(bytes, sound, n);
		damage_bytes(bytes, n, page * 4096 + within, kind, &random);
		n_missed += damage_try(folder, bytes, n) < N_DAMAGE;
	}
	assert_true(n_missed > 0); /* the damage did reach something */
	free(bytes);
	free(sound);
	fixture_remove(folder);
}

static void
test_cache__flipped_bits_are_hits_or_misses(void **state)
{
	(void)state;
	damage_many(FLIP_BIT);
}

static void
test_cache__zeroed_bytes_are_hits_or_misses(void **state)
{
	(void)state;
	damage_many(ZERO_BYTES);
}

static void
test_cache__duplicated_bytes_are_hits_or_misses(void **state)
{
	(void)state;
	damage_many(DUPLICATE_BYTES);
}

static void
test_cache__random_bytes_are_hits_or_misses(void **state)
{
	(void)state;
	damage_many(RANDOM_BYTES);
}

static void
test_cache__file_cut_anywhere_is_hits_or_misses(void **state)
{
	char *folder = damage_store();
	size_t n;
	uint8_t *bytes = fixture_read(folder, HM_STORE_DATA_FILE, &n);
	uint64_t random = 3;

	(void)state;
	for (int i = 0; i < 40; i++)
		(void)damage_try(folder, bytes,
		    fixture_random(&random) % (i < 10 ? 8192 : n));
	free(bytes);
	fixture_remove(folder);
}

/* Damaged under the running daemon's feet: what was in the file is lost, but
 * told, and the store goes on. */
static void
test_cache__damaged_page_header_starts_a_new_store_at_once(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = fixture_open(folder, CAP, HOT);
	uint8_t *bytes, *value;
	size_t n;

	(void)state;
	fixture_put(cache, 1, 20000);
	hm_cache_close(cache);
	bytes = fixture_read(folder, HM_STORE_DATA_FILE, &n);
	value = memmem(bytes, n, "HMV1", 4);
	assert_non_null(value);
	value[-4] ^= 1; /* the count of its pages */
	fixture_write(folder, HM_STORE_DATA_FILE, bytes, n);
	free(bytes);

	cache = fixture_open(folder, CAP, HOT);
	assert_string_equal(stats_of(cache).notice, "");
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_STORE);
	fixture_put(cache, 1, 20000);
	hm_cache_flush(cache);
	assert_non_null(strstr(stats_of(cache).notice, "data.mdb.aside-1"));
	assert_int_equal(stats_of(cache).write_failures, 0);
	assert_true(stats_of(cache).durable);
	assert_int_equal(stats_of(cache).store_entries, 1);
	assert_true(fixture_exists(folder, "data.mdb.aside-1"));
	hm_cache_close(cache);
	cache = fixture_open(folder, CAP, HOT);
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_STORE);
	hm_cache_close(cache);
	fixture_remove(folder);
}

/* ---- threads ---- */

#define MAX_THREADS 64

static size_t
list_threads(unsigned long ids_out[MAX_THREADS])
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *item;
	size_t n = 0;

	assert_non_null(tasks);
	while ((item = readdir(tasks)) != NULL) {
		if (item->d_name[0] != '.' && n < MAX_THREADS)
			ids_out[n++] = strtoul(item->d_name, NULL, 10);
	}
	(void)closedir(tasks);
	return n;
}

static uint64_t
blocked_signals(unsigned long id)
{
	char path[64], line[256];
	uint64_t mask = 0;
	FILE *status;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%lu/status", id);
	status = fopen(path, "re");
	assert_non_null(status);
	while (fgets(line, sizeof(line), status) != NULL) {
		if (strncmp(line, "SigBlk:", 7) == 0)
			mask = strtoull(line + 7, NULL, 16);
	}
	(void)fclose(status);
	return mask;
}

static void
test_cache__writer_takes_no_signals(void **state)
{
	unsigned long before[MAX_THREADS], after[MAX_THREADS];
	char *folder = fixture_folder();
	size_t n_before = list_threads(before);
	struct hm_cache *cache = fixture_open(folder, CAP, HOT);
	size_t n_after = list_threads(after);
	uint64_t own = blocked_signals((unsigned long)getpid());

	(void)state;
	hm_cache_flush(cache); /* glibc blocks all while a thread begins */
	assert_int_equal(n_after, n_before + 1);
	assert_int_equal(own >> (SIGTERM - 1) & 1, 0); /* ours stay open */
	for (size_t i = 0; i < n_after; i++) {
		uint64_t mask = blocked_signals(after[i]);
		bool is_old = false;

		for (size_t j = 0; j < n_before; j++)
			is_old = is_old || before[j] == after[i];
		if (is_old)
			continue;
		assert_int_equal(mask >> (SIGTERM - 1) & 1, 1);
		assert_int_equal(mask >> (SIGXFSZ - 1) & 1, 1);
		assert_int_equal(mask >> (SIGPIPE - 1) & 1, 1);
	}
	hm_cache_close(cache);
	fixture_remove(folder);
}

/* For the thread sanitizer: everything at once, with no flush between. */
static void
test_cache__random_use_is_right_throughout(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_cache *cache = fixture_open(folder, 3 * MIB, MIB);
	static size_t sizes[200];
	uint64_t random = 77;
	struct seen seen;

	(void)state;
	for (int i = 0; i < 6000; i++) {
		uint64_t seed = fixture_random(&random) % 200;
		uint64_t what = fixture_random(&random) % 1000;

		if (what < 300) {
			sizes[seed] = 1 + fixture_random(&random) % 60000;
			fixture_put(cache, seed, sizes[seed]);
		} else if (what < 990) {
			if (sizes[seed] != 0)
				(void)fixture_get(cache, seed, sizes[seed]);
		} else if (what < 995) {
			(void)evict(cache, seed);
			assert_int_equal(fixture_get(cache, seed, 1),
			    HM_CACHE_MISS);
		} else if (what < 999) {
			seen = (struct seen){.n = 0};
			(void)hm_cache_each_record(cache, see_record, &seen);
			(void)stats_of(cache);
		} else {
			(void)evict_all(cache);
		}
	}
	assert_int_equal(stats_of(cache).corrupt, 0);
	hm_cache_close(cache);
	fixture_remove(folder);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_cache__put_is_hot_at_once_and_stored_later),
	    cmocka_unit_test(
		test_cache__restart_serves_from_the_store_then_hot),
	    cmocka_unit_test(
		test_cache__without_hot_tier_a_put_is_still_found_at_once),
	    cmocka_unit_test(test_cache__without_folder_is_hot_only),
	    cmocka_unit_test(test_cache__collision_of_digests_is_a_miss),
	    cmocka_unit_test(test_cache__second_put_of_a_key_replaces),
	    cmocka_unit_test(test_cache__evict_takes_from_both_tiers),
	    cmocka_unit_test(test_cache__each_record_visits_each_once),
	    cmocka_unit_test(test_cache__hot_hits_keep_an_entry_in_the_store),
	    cmocka_unit_test(test_cache__uses_alone_are_kept_at_close),
	    cmocka_unit_test(test_cache__open_refusals_come_through),
	    cmocka_unit_test(
		test_cache__small_store_with_random_sizes_never_fails),
	    cmocka_unit_test(
		test_cache__entry_over_the_store_is_served_and_counted),
	    cmocka_unit_test(test_cache__flood_is_stored_or_counted),
	    cmocka_unit_test(test_cache__full_disk_degrades_and_recovers),
	    cmocka_unit_test(test_cache__undamaged_store_has_all),
	    cmocka_unit_test(test_cache__flipped_image_is_a_counted_miss_once),
	    cmocka_unit_test(test_cache__flipped_bits_are_hits_or_misses),
	    cmocka_unit_test(test_cache__zeroed_bytes_are_hits_or_misses),
	    cmocka_unit_test(test_cache__duplicated_bytes_are_hits_or_misses),
	    cmocka_unit_test(test_cache__random_bytes_are_hits_or_misses),
	    cmocka_unit_test(test_cache__file_cut_anywhere_is_hits_or_misses),
	    cmocka_unit_test(
		test_cache__damaged_page_header_starts_a_new_store_at_once),
	    cmocka_unit_test(test_cache__writer_takes_no_signals),
	    cmocka_unit_test(test_cache__random_use_is_right_throughout),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
