/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cache_care.c - tasks and limits through the face of the cache: what they
 * do to both tiers, beside lookups and puts that go on.
 */
#include <sys/mount.h>

#include <sched.h>

#include "cache_fixture.h"

#include "cache/store_dir.h"

#define CAP (64 * MIB)
#define HOT (8 * MIB)

static uint64_t clock_s = 1000000;

static uint64_t
now_s(void)
{
	return clock_s;
}

static struct hm_cache *
open_cache(const char *folder, uint64_t quota_bytes, uint64_t ttl_s)
{
	const struct hm_cache_options options = {.directory = folder,
	    .cap_bytes = CAP,
	    .hot_bytes = HOT,
	    .quota_bytes = quota_bytes,
	    .ttl_s = ttl_s,
	    .now_s = now_s};
	struct hm_cache *cache = NULL;

	assert_int_equal(hm_cache_open(&options, &cache, NULL), HM_OK);
	return cache;
}

static struct hm_cache_stats
stats_of(struct hm_cache *cache)
{
	struct hm_cache_stats stats;

	hm_cache_get_stats(cache, &stats);
	return stats;
}

static void
put_of(struct hm_cache *cache, uint32_t tenant, uint64_t seed, size_t n_bytes)
{
	struct hm_entry *entry = fixture_entry(seed, n_bytes);

	entry->tenant = tenant;
	entry->born_s = clock_s;
	hm_cache_put(cache, entry);
	hm_entry_unref(entry);
}

static int
run(struct hm_cache *cache, enum hm_cache_task_kind kind, uint64_t seed,
    struct hm_cache_task *task_out)
{
	struct hm_digest key;

	fixture_key(seed, &key);
	return hm_cache_run(cache, kind, &key, task_out);
}

static void
test_task__one_at_a_time_and_after_what_was_put(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = open_cache(folder, 0, 0);
	struct hm_cache_task task;
	struct hm_digest key;

	(void)state;
	assert_false(hm_cache_poll(cache, &task));
	for (uint64_t i = 0; i < 100; i++)
		put_of(cache, 1, i, 20000);
	fixture_key(99, &key);
	assert_int_equal(hm_cache_begin(cache, HM_CACHE_PIN, &key), HM_OK);
	assert_int_equal(hm_cache_begin(cache, HM_CACHE_VERIFY, NULL),
	    HM_E_BUSY);
	hm_cache_flush(cache);
	while (!hm_cache_poll(cache, &task))
		;
	assert_int_equal(task.kind, HM_CACHE_PIN);
	assert_int_equal(task.error, HM_OK);
	assert_int_equal(stats_of(cache).pinned_entries, 1);
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
test_task__verify_counts_all_while_puts_go_on(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = open_cache(folder, 0, 0);
	struct hm_cache_task task;

	(void)state;
	for (uint64_t i = 0; i < 300; i++)
		put_of(cache, 1, i, 40000);
	assert_int_equal(hm_cache_begin(cache, HM_CACHE_VERIFY, NULL), HM_OK);
	for (uint64_t i = 0; !hm_cache_poll(cache, &task); i++) {
		if (i < 100)
			put_of(cache, 1, 1000 + i, 20000);
		assert_int_not_equal(fixture_get(cache, i % 300, 40000),
		    HM_CACHE_MISS);
	}
	assert_int_equal(task.error, HM_OK);
	assert_true(task.n_checked >= 300);
	assert_int_equal(task.n_gone, 0);
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
test_task__pinned_is_neither_evicted_nor_cleared(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = open_cache(folder, 0, 0);
	struct hm_cache_task task;

	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		put_of(cache, 1, i, 20000);
	assert_int_equal(run(cache, HM_CACHE_PIN, 3, &task), HM_OK);
	assert_int_equal(run(cache, HM_CACHE_PIN, 77, &task), HM_E_UNAVAILABLE);
	assert_non_null(strstr(task.why.text, "no kernel"));
	assert_int_equal(run(cache, HM_CACHE_EVICT, 3, &task), HM_E_INVALID);
	assert_non_null(strstr(task.why.text, "unpin"));
	assert_int_equal(run(cache, HM_CACHE_EVICT, 4, &task), HM_OK);
	assert_int_equal(task.n_gone, 1);
	assert_int_equal(stats_of(cache).evicted, 1);
	assert_int_equal(run(cache, HM_CACHE_EVICT_ALL, 0, &task), HM_OK);
	assert_int_equal(task.n_gone, 8);
	assert_int_equal(stats_of(cache).evicted, 9);
	assert_int_equal(fixture_get(cache, 3, 20000), HM_CACHE_STORE);
	assert_int_equal(fixture_get(cache, 5, 20000), HM_CACHE_MISS);
	assert_int_equal(run(cache, HM_CACHE_UNPIN, 3, &task), HM_OK);
	assert_int_equal(run(cache, HM_CACHE_EVICT_ALL, 0, &task), HM_OK);
	assert_int_equal(task.n_gone, 1);
	assert_int_equal(fixture_get(cache, 3, 20000), HM_CACHE_MISS);
	hm_cache_close(cache);
	fixture_remove(folder);
}

/* In every tier: hot, in the queue, in the store. */
static void
test_age__is_over_in_every_tier(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = open_cache(folder, 0, 60);
	struct hm_cache_task task;

	(void)state;
	put_of(cache, 1, 1, 20000);
	put_of(cache, 1, 2, 20000);
	assert_int_equal(run(cache, HM_CACHE_PIN, 2, &task), HM_OK);
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_HOT);
	clock_s += 60;
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_MISS);
	assert_int_equal(fixture_get(cache, 2, 20000), HM_CACHE_STORE);
	assert_int_equal(fixture_get(cache, 2, 20000), HM_CACHE_HOT);
	/* Unpinned it is as old as it is. */
	assert_int_equal(run(cache, HM_CACHE_UNPIN, 2, &task), HM_OK);
	assert_int_equal(fixture_get(cache, 2, 20000), HM_CACHE_MISS);
	put_of(cache, 1, 1, 20000);
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_HOT);
	hm_cache_flush(cache);
	hm_cache_tick(cache);
	while (stats_of(cache).expired == 0)
		hm_cache_flush(cache);
	assert_int_equal(stats_of(cache).store_entries, 1);
	/* From now on nothing is too old. */
	hm_cache_set_limits(cache, 0, 0);
	clock_s += 1000;
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_HOT);
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
test_quota__over_it_is_served_hot_and_others_are_kept(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = open_cache(folder, MIB, 0);

	(void)state;
	put_of(cache, 5, 1, 20000);
	for (uint64_t i = 100; i < 200; i++)
		put_of(cache, 6, i, 20000);
	hm_cache_flush(cache);
	assert_true(stats_of(cache).over_quota > 40);
	assert_int_equal(fixture_get(cache, 100, 20000), HM_CACHE_HOT);
	hm_cache_close(cache);
	cache = open_cache(folder, MIB, 0);
	assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_STORE);
	assert_int_equal(fixture_get(cache, 199, 20000), HM_CACHE_STORE);
	assert_int_equal(fixture_get(cache, 100, 20000), HM_CACHE_MISS);
	hm_cache_close(cache);
	fixture_remove(folder);
}

/* A disk that was full and is not any more: without a put the store comes back
 * by itself, with what it missed. */
static void
test_tick__full_disk_is_caught_up_with(void **state)
{
	static uint8_t fill[4096];
	char *folder = fixture_folder();
	struct hm_cache *cache;
	char path[320];
	int fd;

	(void)state;
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", folder, "tmpfs", 0, "size=4m,mode=700") != 0)
		skip();
	cache = open_cache(folder, 0, 0);
	put_of(cache, 1, 1, 20000);
	hm_cache_flush(cache);
	fixture_path(folder, "data.mdb.aside-1", path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd != -1);
	while (write(fd, fill, sizeof(fill)) > 0)
		;
	for (uint64_t i = 10; i < 20; i++) {
		put_of(cache, 1, i, 30000);
		hm_cache_flush(cache);
	}
	assert_false(stats_of(cache).durable);
	hm_cache_tick(cache);
	hm_cache_flush(cache);
	assert_false(stats_of(cache).durable);
	assert_true(stats_of(cache).write_failures >= 9);
	assert_int_equal(fixture_get(cache, 15, 30000), HM_CACHE_HOT);
	(void)close(fd);
	assert_int_equal(unlink(path), 0);
	/* One tick finds out, the next one puts again. */
	while (!stats_of(cache).durable) {
		hm_cache_tick(cache);
		hm_cache_flush(cache);
	}
	hm_cache_tick(cache);
	hm_cache_flush(cache);
	assert_int_equal(stats_of(cache).store_entries, 11);
	hm_cache_close(cache);
	cache = open_cache(folder, 0, 0);
	for (uint64_t i = 10; i < 20; i++)
		assert_int_equal(fixture_get(cache, i, 30000), HM_CACHE_STORE);
	hm_cache_close(cache);
	assert_int_equal(umount(folder), 0);
	fixture_remove(folder);
}

/* Not even the lock, or the folder, can be made: served and not kept. */
static void
test_open__read_only_disk_is_no_store(void **state)
{
	const char *const names[] = {"", "/missing/too"};
	char *folder = fixture_folder();
	struct hm_cache_task task;
	struct hm_cache *cache;
	char path[320];

	(void)state;
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", folder, "tmpfs", MS_RDONLY, "size=4m,mode=700") != 0)
		skip();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", folder, names[i]);
		cache = open_cache(path, 0, 0);
		assert_false(stats_of(cache).durable);
		assert_non_null(strstr(stats_of(cache).degraded, "Read-only"));
		assert_non_null(strstr(stats_of(cache).degraded, path));
		put_of(cache, 1, 1, 20000);
		assert_int_equal(fixture_get(cache, 1, 20000), HM_CACHE_HOT);
		assert_int_equal(run(cache, HM_CACHE_PIN, 1, &task),
		    HM_E_UNAVAILABLE);
		assert_int_equal(run(cache, HM_CACHE_VERIFY, 0, &task), HM_OK);
		hm_cache_close(cache);
	}
	assert_int_equal(umount(folder), 0);
	fixture_remove(folder);
}

/* Free pages go back to the disk while everything is served. */
static void
test_tick__mostly_free_file_is_made_smaller(void **state)
{
	char *folder = fixture_folder();
	struct hm_cache *cache = open_cache(folder, 0, 0);
	struct hm_cache_task task;

	(void)state;
	for (uint64_t i = 0; i < 200; i++) {
		put_of(cache, 1, i, 200000);
		if (i % 50 == 49)
			hm_cache_flush(cache);
	}
	assert_int_equal(run(cache, HM_CACHE_PIN, 7, &task), HM_OK);
	assert_int_equal(run(cache, HM_CACHE_EVICT_ALL, 0, &task), HM_OK);
	assert_true(stats_of(cache).store_file_bytes > 30000000);
	hm_cache_tick(cache);
	while (stats_of(cache).store_file_bytes > 2000000)
		assert_int_not_equal(fixture_get(cache, 7, 200000),
		    HM_CACHE_MISS);
	assert_int_equal(stats_of(cache).store_entries, 1);
	put_of(cache, 1, 500, 20000);
	hm_cache_close(cache);
	cache = open_cache(folder, 0, 0);
	assert_int_equal(fixture_get(cache, 7, 200000), HM_CACHE_STORE);
	assert_int_equal(fixture_get(cache, 500, 20000), HM_CACHE_STORE);
	hm_cache_close(cache);
	fixture_remove(folder);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_task__one_at_a_time_and_after_what_was_put),
	    cmocka_unit_test(test_task__verify_counts_all_while_puts_go_on),
	    cmocka_unit_test(test_task__pinned_is_neither_evicted_nor_cleared),
	    cmocka_unit_test(test_age__is_over_in_every_tier),
	    cmocka_unit_test(
		test_quota__over_it_is_served_hot_and_others_are_kept),
	    cmocka_unit_test(test_tick__full_disk_is_caught_up_with),
	    cmocka_unit_test(test_open__read_only_disk_is_no_store),
	    cmocka_unit_test(test_tick__mostly_free_file_is_made_smaller),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cache_care", tests, NULL, NULL);
}
