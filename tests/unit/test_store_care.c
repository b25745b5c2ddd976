/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_care.c - whose entries leave and when: quotas, age, pins; and work
 * over the whole store: verify, compaction.
 *
 * As in test_store_lmdb.c the file is the witness: hm_store_check_file counts
 * it page by page.
 */
#include <sys/mount.h>

#include <sched.h>

#include "cache_fixture.h"

#include "cache/store_check.h"
#include "cache/store_dir.h"
#include "cache/store_lmdb.h"

#define CAP (64 * MIB)

static uint64_t clock_s;

static uint64_t
now_s(void)
{
	return clock_s;
}

static struct hm_store *
open_store(const char *folder, uint64_t cap_bytes)
{
	struct hm_store *store = NULL;
	struct hm_errbuf errbuf = {""};

	if (hm_store_open(folder, cap_bytes, &store, &errbuf) != HM_OK)
		print_error("open: %s\n", errbuf.text);
	assert_non_null(store);
	return store;
}

static void
set_policy(struct hm_store *store, uint64_t quota_bytes, uint64_t ttl_s)
{
	const struct hm_store_policy policy = {.quota_bytes = quota_bytes,
	    .ttl_s = ttl_s,
	    .now_s = now_s};

	hm_store_set_policy(store, &policy);
}

static struct hm_store_stats
stats_of(struct hm_store *store)
{
	struct hm_store_stats stats;

	hm_store_get_stats(store, &stats);
	return stats;
}

/* In a transaction: an entry of a tenant, built now. */
static int
step_put(struct hm_store *store, uint32_t tenant, uint64_t seed, size_t n_bytes)
{
	struct hm_entry *entry = fixture_entry(seed, n_bytes);
	struct hm_errbuf errbuf = {""};
	int error;

	entry->tenant = tenant;
	entry->born_s = clock_s;
	error = hm_store_put(store, entry, &errbuf);
	assert_true(error == HM_OK || errbuf.text[0] != '\0');
	hm_entry_unref(entry);
	return error;
}

static void
put(struct hm_store *store, uint32_t tenant, uint64_t seed, size_t n_bytes)
{
	assert_int_equal(hm_store_begin(store, NULL), HM_OK);
	assert_int_equal(step_put(store, tenant, seed, n_bytes), HM_OK);
	assert_int_equal(hm_store_commit(store, NULL), HM_OK);
}

/* Pin or unpin; the step's answer. */
static int
pin(struct hm_store *store, uint64_t seed, bool is_pinned)
{
	struct hm_errbuf errbuf = {""};
	struct hm_digest key;
	int error;

	fixture_key(seed, &key);
	assert_int_equal(hm_store_begin(store, NULL), HM_OK);
	error = hm_store_pin(store, &key, is_pinned, &errbuf);
	if (error == HM_OK)
		assert_int_equal(hm_store_commit(store, NULL), HM_OK);
	else
		hm_store_abort(store);
	assert_true(error == HM_OK || errbuf.text[0] != '\0');
	return error;
}

static bool
has(struct hm_store *store, uint64_t seed)
{
	struct hm_digest key;

	fixture_key(seed, &key);
	return hm_store_has(store, &key);
}

static int
find(struct hm_store *store, uint64_t seed, size_t n_bytes)
{
	struct hm_entry *entry = NULL;
	struct hm_digest key;
	int error;

	fixture_key(seed, &key);
	error = hm_store_find(store, &key, &entry);
	if (error == HM_OK)
		assert_true(fixture_entry_is(entry, seed, n_bytes));
	hm_entry_unref(entry);
	return error;
}

typedef int (*walk_fn)(struct hm_store *store, struct hm_store_walk *walk,
    struct hm_errbuf *errbuf);

/* A whole walk; how many slices it took. */
static unsigned int
walk_all(struct hm_store *store, walk_fn step, struct hm_store_walk *walk)
{
	unsigned int n_slices = 0;

	memset(walk, 0, sizeof(*walk));
	while (!walk->is_done) {
		assert_int_equal(hm_store_begin(store, NULL), HM_OK);
		assert_int_equal(step(store, walk, NULL), HM_OK);
		assert_int_equal(hm_store_commit(store, NULL), HM_OK);
		n_slices++;
	}
	return n_slices;
}

/* The store's own counts are those of the file, now and when it is opened
 * anew: also how much is pinned and how many tenants there are. */
static struct hm_store *
reopen_and_compare(struct hm_store *store, const char *folder,
    uint64_t cap_bytes)
{
	static const struct hm_store_check_rule rules[] = {
	    {"entries", 32, 32, 0, UINT32_MAX},
	    {"index", 32, 32, 24, 24},
	    {"lru", 12, 12, 32, 32},
	    {"meta", 1, 16, 8, 64},
	};
	struct hm_store_stats before = stats_of(store);
	struct hm_store_check check;
	struct hm_store_stats after;
	char path[320];
	int fd;

	hm_store_close(store);
	fixture_path(folder, HM_STORE_DATA_FILE, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd != -1);
	assert_int_equal(hm_store_check_file(fd, rules, 4, &check, NULL),
	    HM_OK);
	(void)close(fd);
	assert_int_equal(before.bytes, check.footprint[0]);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(before.entries, check.n_entries[i]);
	assert_int_equal(check.n_leaked, 0);
	store = open_store(folder, cap_bytes);
	after = stats_of(store);
	assert_int_equal(after.bytes, before.bytes);
	assert_int_equal(after.entries, before.entries);
	assert_int_equal(after.pinned_bytes, before.pinned_bytes);
	assert_int_equal(after.pinned_entries, before.pinned_entries);
	assert_int_equal(after.tenants, before.tenants);
	return store;
}

/* ---- quotas ---- */

static void
test_quota__noisy_tenant_evicts_itself_alone(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_store *store = open_store(folder, CAP);

	(void)state;
	set_policy(store, MIB, 0);
	for (uint64_t i = 0; i < 20; i++)
		put(store, 1000, i, 20000);
	for (uint64_t i = 100; i < 120; i++)
		put(store, HM_TENANT_SHARED, i, 20000);
	assert_int_equal(stats_of(store).evicted, 0);
	for (uint64_t i = 200; i < 400; i++)
		put(store, 1001, i, 20000);
	for (uint64_t i = 0; i < 20; i++)
		assert_true(has(store, i));
	for (uint64_t i = 100; i < 120; i++)
		assert_true(has(store, i));
	/* Its own oldest have gone, its newest are there, a MiB of them. */
	assert_false(has(store, 200));
	assert_true(has(store, 399));
	assert_true(stats_of(store).over_quota > 140);
	assert_int_equal(stats_of(store).over_quota, stats_of(store).evicted);
	assert_int_equal(stats_of(store).tenants, 3);
	assert_int_equal(stats_of(store).entries,
	    240 - stats_of(store).evicted);
	store = reopen_and_compare(store, folder, CAP);
	hm_store_close(store);
	fixture_remove(folder);
}

static void
test_quota__shared_kernels_have_none(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_store *store = open_store(folder, CAP);

	(void)state;
	set_policy(store, MIB, 0);
	for (uint64_t i = 0; i < 200; i++)
		put(store, HM_TENANT_SHARED, i, 20000);
	assert_int_equal(stats_of(store).entries, 200);
	hm_store_close(store);
	fixture_remove(folder);
}

/* One entry over all of it is refused, and the transaction goes on. */
static void
test_quota__entry_over_it_is_refused_alone(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_store *store = open_store(folder, CAP);

	(void)state;
	set_policy(store, MIB, 0);
	assert_int_equal(hm_store_begin(store, NULL), HM_OK);
	assert_int_equal(step_put(store, 1, 1, 20000), HM_OK);
	assert_int_equal(step_put(store, 1, 2, 2000000), HM_E_INVALID);
	assert_int_equal(step_put(store, 1, 3, 20000), HM_OK);
	assert_int_equal(hm_store_commit(store, NULL), HM_OK);
	assert_true(has(store, 1) && !has(store, 2) && has(store, 3));
	hm_store_close(store);
	fixture_remove(folder);
}

/* A quota that was lowered is come down to in slices. */
static void
test_quota__lowered_goes_down_by_and_by(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_store *store = open_store(folder, CAP);
	int error = HM_E_INVALID;
	unsigned int n = 0;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++)
		put(store, 7, i, 5000);
	set_policy(store, MIB, 0);
	for (; error == HM_E_INVALID && n < 10; n++) {
		assert_int_equal(hm_store_begin(store, NULL), HM_OK);
		error = step_put(store, 7, 5000 + n, 5000);
		assert_int_equal(hm_store_commit(store, NULL), HM_OK);
	}
	assert_int_equal(error, HM_OK);
	assert_true(n > 1);
	assert_true(stats_of(store).bytes <= MIB);
	store = reopen_and_compare(store, folder, CAP);
	hm_store_close(store);
	fixture_remove(folder);
}

/* More users than the table has room for: they share what the others have. */
static void
test_quota__more_tenants_than_rows_are_one(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_store *store = open_store(folder, CAP);

	(void)state;
	set_policy(store, MIB, 0);
	for (uint32_t i = 0; i < 400; i++)
		put(store, 1000 + i, i, 3000);
	assert_int_equal(stats_of(store).tenants, 257);
	assert_int_equal(stats_of(store).entries, 400);
	for (uint32_t i = 400; i < 1400; i++)
		put(store, 1000 + i, i, 20000);
	assert_true(has(store, 0) && has(store, 255) && !has(store, 256));
	assert_true(stats_of(store).bytes < 256 * 8192 + MIB);
	store = reopen_and_compare(store, folder, CAP);
	hm_store_close(store);
	fixture_remove(folder);
}

/* ---- age ---- */

static void
test_age__too_old_is_a_miss_and_then_deleted(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_store *store = open_store(folder, CAP);
	struct hm_store_walk walk;

	(void)state;
	clock_s = 1000000;
	set_policy(store, 0, 60);
	for (uint64_t i = 0; i < 100; i++)
		put(store, 1, i, 3000);
	clock_s += 30;
	for (uint64_t i = 100; i < 200; i++)
		put(store, 1, i, 3000);
	clock_s += 29;
	assert_int_equal(find(store, 0, 3000), HM_OK);
	clock_s += 1;
	assert_int_equal(find(store, 0, 3000), HM_E_UNAVAILABLE);
	assert_int_equal(find(store, 100, 3000), HM_OK);
	assert_true(has(store, 0));
	assert_true(walk_all(store, hm_store_expire, &walk) >= 2);
	assert_int_equal(walk.n_gone, 100);
	assert_int_equal(stats_of(store).expired, 100);
	assert_int_equal(stats_of(store).entries, 100);
	assert_false(has(store, 0));
	store = reopen_and_compare(store, folder, CAP);
	/* A clock that was set back makes nothing old. */
	set_policy(store, 0, 60);
	clock_s = 10;
	assert_int_equal(find(store, 100, 3000), HM_OK);
	hm_store_close(store);
	fixture_remove(folder);
}

/* ---- pins ---- */

static void
test_pin__survives_eviction_age_and_replacement(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_store *store = open_store(folder, 4 * MIB);
	struct hm_store_walk walk;
	struct hm_digest key;

	(void)state;
	clock_s = 1000000;
	set_policy(store, MIB, 60);
	put(store, 1, 1, 20000);
	assert_int_equal(pin(store, 1, true), HM_OK);
	assert_int_equal(pin(store, 1, true), HM_OK); /* again is no error */
	assert_int_equal(pin(store, 999, true), HM_E_UNAVAILABLE);
	assert_int_equal(stats_of(store).pinned_entries, 1);
	assert_int_equal(stats_of(store).tenants, 0);
	for (uint64_t i = 100; i < 600; i++)
		put(store, (uint32_t)(i % 5), i, 20000);
	assert_int_equal(find(store, 1, 20000), HM_OK);
	clock_s += 100;
	assert_int_equal(find(store, 1, 20000), HM_OK);
	(void)walk_all(store, hm_store_expire, &walk);
	assert_int_equal(find(store, 1, 20000), HM_OK);
	assert_int_equal(stats_of(store).entries, 1);
	put(store, 2, 1, 30000); /* built anew: still pinned */
	fixture_key(1, &key);
	assert_int_equal(hm_store_begin(store, NULL), HM_OK);
	assert_true(hm_store_is_pinned(store, &key));
	hm_store_abort(store);
	store = reopen_and_compare(store, folder, 4 * MIB);
	assert_true(hm_store_has_pinned(store));
	/* Nothing but it: everything else can be cleared, it cannot. */
	put(store, 2, 2, 30000);
	(void)walk_all(store, hm_store_clear, &walk);
	assert_int_equal(walk.n_gone, 1);
	assert_int_equal(find(store, 1, 30000), HM_OK);

	assert_int_equal(pin(store, 1, false), HM_OK);
	assert_false(hm_store_has_pinned(store));
	assert_int_equal(stats_of(store).tenants, 1);
	set_policy(store, 0, 0);
	for (uint64_t i = 100; i < 600; i++)
		put(store, 3, i, 20000);
	assert_false(has(store, 1));
	store = reopen_and_compare(store, folder, 4 * MIB);
	hm_store_close(store);
	fixture_remove(folder);
}

static void
test_pin__at_most_half_of_the_store(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_store *store = open_store(folder, 4 * MIB);
	uint64_t n_pinned = 0;
	int error = HM_OK;

	(void)state;
	for (uint64_t i = 0; error == HM_OK && i < 200; i++) {
		put(store, 1, i, 20000);
		error = pin(store, i, true);
		n_pinned += error == HM_OK;
	}
	assert_int_equal(error, HM_E_INVALID);
	assert_int_equal(stats_of(store).pinned_entries, n_pinned);
	assert_true(stats_of(store).pinned_bytes <= 2 * MIB);
	assert_true(stats_of(store).pinned_bytes > 2 * MIB - 40000);
	/* The other half goes on. */
	for (uint64_t i = 1000; i < 1500; i++)
		put(store, 2, i, 20000);
	for (uint64_t i = 0; i < n_pinned; i++)
		assert_int_equal(find(store, i, 20000), HM_OK);
	assert_true(has(store, 1499));
	assert_true(stats_of(store).bytes <= 4 * MIB);
	store = reopen_and_compare(store, folder, 4 * MIB);
	hm_store_close(store);

	/* A cap that is now less than what is pinned: puts go on. */
	store = open_store(folder, MIB);
	assert_int_equal(hm_store_begin(store, NULL), HM_OK);
	for (uint64_t i = 2000; i < 2003; i++)
		(void)step_put(store, 2, i, 20000);
	assert_int_equal(hm_store_commit(store, NULL), HM_OK);
	assert_string_equal(stats_of(store).notice, "");
	for (uint64_t i = 0; i < n_pinned; i++)
		assert_int_equal(find(store, i, 20000), HM_OK);
	hm_store_close(store);
	fixture_remove(folder);
}

/* ---- random operations ---- */

static void
test_care__random_operations_keep_every_count(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_store *store = open_store(folder, 3 * MIB);
	struct hm_store_walk walk;
	uint64_t random = 23;

	(void)state;
	clock_s = 5000;
	set_policy(store, MIB, 300);
	for (int i = 0; i < 3000; i++) {
		uint64_t seed = fixture_random(&random) % 300;
		uint32_t tenant = (uint32_t)(fixture_random(&random) % 6);
		uint64_t what = fixture_random(&random) % 100;

		clock_s += fixture_random(&random) % 2;
		if (what < 70) {
			assert_int_equal(hm_store_begin(store, NULL), HM_OK);
			(void)step_put(store, tenant, seed,
			    1 + fixture_random(&random) % 30000);
			if (what < 5)
				hm_store_abort(store);
			else
				assert_int_equal(hm_store_commit(store, NULL),
				    HM_OK);
		} else if (what < 80) {
			(void)pin(store, seed, true);
		} else if (what < 95) {
			(void)pin(store, seed, false);
		} else if (what < 98) {
			(void)walk_all(store, hm_store_expire, &walk);
		} else if (what < 99) {
			assert_int_equal(hm_store_compact(store, NULL), HM_OK);
		} else {
			store = reopen_and_compare(store, folder, 3 * MIB);
			set_policy(store, MIB, 300);
		}
		assert_true(stats_of(store).bytes <= 3 * MIB);
		assert_string_equal(stats_of(store).notice, "");
	}
	store = reopen_and_compare(store, folder, 3 * MIB);
	hm_store_close(store);
	fixture_remove(folder);
}

/* ---- verify ---- */

/* Change one byte of each of these entries' images behind the store's back. */
static void
damage(const char *folder, const uint64_t *seeds, size_t n_seeds,
    size_t n_bytes)
{
	size_t n;
	uint8_t *bytes = fixture_read(folder, HM_STORE_DATA_FILE, &n);
	char path[320];
	int fd;

	fixture_path(folder, HM_STORE_DATA_FILE, path);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd != -1);
	for (size_t i = 0; i < n_seeds; i++) {
		uint8_t *image = fixture_image(seeds[i], n_bytes);
		uint8_t *at = memmem(bytes, n, image, 4000);
		uint8_t byte;

		assert_non_null(at);
		byte = (uint8_t)(at[100] ^ 1);
		assert_int_equal(pwrite(fd, &byte, 1, at + 100 - bytes), 1);
		free(image);
	}
	(void)close(fd);
	free(bytes);
}

static void
test_verify__finds_every_damaged_value_in_a_living_store(void **state)
{
	static const uint64_t damaged[] = {0, 17, 500, 999};
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, CAP);
	struct hm_store_walk walk;

	(void)state;
	for (uint64_t i = 0; i < 20; i++) {
		assert_int_equal(hm_store_begin(store, NULL), HM_OK);
		for (uint64_t j = 0; j < 50; j++)
			assert_int_equal(step_put(store, 1, 50 * i + j, 20000),
			    HM_OK);
		assert_int_equal(hm_store_commit(store, NULL), HM_OK);
	}
	assert_true(walk_all(store, hm_store_verify, &walk) >= 2);
	assert_int_equal(walk.n_checked, 1000);
	assert_int_equal(walk.n_gone, 0);
	assert_true(walk.n_bytes >= 20000000);
	damage(folder, damaged, 4, 20000);
	(void)walk_all(store, hm_store_verify, &walk);
	assert_int_equal(walk.n_checked, 1000);
	assert_int_equal(walk.n_gone, 4);
	for (size_t i = 0; i < 4; i++)
		assert_false(has(store, damaged[i]));
	assert_int_equal(find(store, 1, 20000), HM_OK);
	(void)walk_all(store, hm_store_verify, &walk);
	assert_int_equal(walk.n_checked, 996);
	assert_int_equal(walk.n_gone, 0);
	store = reopen_and_compare(store, folder, CAP);
	hm_store_close(store);
	fixture_remove(folder);
}

/* ---- compaction ---- */

static void
test_compact__gives_the_disk_back_and_keeps_all(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_store *store = open_store(folder, CAP);
	struct hm_store_walk walk;
	uint64_t before;

	(void)state;
	for (uint64_t i = 0; i < 200; i++)
		put(store, 1, i, 200000);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(pin(store, i, true), HM_OK);
	put(store, 2, 300, 20000);
	assert_false(hm_store_wants_compact(store));
	(void)walk_all(store, hm_store_clear, &walk);
	assert_int_equal(walk.n_gone, 196);
	put(store, 2, 301, 20000);
	before = stats_of(store).file_bytes;
	assert_true(before > 40000000);
	assert_true(hm_store_wants_compact(store));
	assert_int_equal(hm_store_compact(store, NULL), HM_OK);
	assert_true(stats_of(store).file_bytes < 1200000);
	assert_false(hm_store_wants_compact(store));
	assert_false(fixture_exists(folder, HM_STORE_NEW_FILE));
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(find(store, i, 200000), HM_OK);
	assert_int_equal(find(store, 301, 20000), HM_OK);
	assert_int_equal(stats_of(store).pinned_entries, 5);
	put(store, 2, 302, 20000);
	store = reopen_and_compare(store, folder, CAP);
	assert_int_equal(find(store, 302, 20000), HM_OK);
	hm_store_close(store);
	fixture_remove(folder);
}

/* What a crash left of one does not matter, and goes. */
static void
test_compact__half_a_copy_is_removed_at_open(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_store *store = open_store(folder, CAP);

	(void)state;
	put(store, 1, 1, 20000);
	hm_store_close(store);
	fixture_write(folder, HM_STORE_NEW_FILE, "half", 4);
	store = open_store(folder, CAP);
	assert_false(fixture_exists(folder, HM_STORE_NEW_FILE));
	assert_int_equal(find(store, 1, 20000), HM_OK);
	hm_store_close(store);
	fixture_remove(folder);
}

/* Without room for the copy everything stays as it is. */
static void
test_compact__full_disk_leaves_the_store_alone(void **state)
{
	char *folder = fixture_folder();
	struct hm_errbuf errbuf = {""};
	struct hm_store *store;

	(void)state;
	/* In a mount namespace of ours, so that nobody has to clean up. */
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", folder, "tmpfs", 0, "size=4m,mode=700") != 0)
		skip();
	store = open_store(folder, CAP);
	for (uint64_t i = 0; i < 12; i++)
		put(store, 1, i, 200000);
	assert_int_equal(hm_store_compact(store, &errbuf), HM_E_SYSTEM);
	assert_non_null(strstr(errbuf.text, "bytes of free disk"));
	assert_false(fixture_exists(folder, HM_STORE_NEW_FILE));
	for (uint64_t i = 0; i < 12; i++)
		assert_int_equal(find(store, i, 200000), HM_OK);
	put(store, 1, 12, 20000);
	store = reopen_and_compare(store, folder, CAP);
	hm_store_close(store);
	assert_int_equal(umount(folder), 0);
	fixture_remove(folder);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_quota__noisy_tenant_evicts_itself_alone),
	    cmocka_unit_test(test_quota__shared_kernels_have_none),
	    cmocka_unit_test(test_quota__entry_over_it_is_refused_alone),
	    cmocka_unit_test(test_quota__lowered_goes_down_by_and_by),
	    cmocka_unit_test(test_quota__more_tenants_than_rows_are_one),
	    cmocka_unit_test(test_age__too_old_is_a_miss_and_then_deleted),
	    cmocka_unit_test(test_pin__survives_eviction_age_and_replacement),
	    cmocka_unit_test(test_pin__at_most_half_of_the_store),
	    cmocka_unit_test(test_care__random_operations_keep_every_count),
	    cmocka_unit_test(
		test_verify__finds_every_damaged_value_in_a_living_store),
	    cmocka_unit_test(test_compact__gives_the_disk_back_and_keeps_all),
	    cmocka_unit_test(test_compact__half_a_copy_is_removed_at_open),
	    cmocka_unit_test(test_compact__full_disk_leaves_the_store_alone),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("store_care", tests, NULL, NULL);
}
