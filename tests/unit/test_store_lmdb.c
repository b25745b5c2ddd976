/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_lmdb.c - the durable tier without a writer thread: layout,
 * accounting, order of use, full maps, damaged files, the folder.
 *
 * The file itself is the witness: hm_store_check_file counts it page by page,
 * independently of what the store says of itself.
 */
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <dirent.h>
#include <sched.h>
#include <signal.h>

#include <lmdb.h>

#include "cache_fixture.h"

#include "cache/store_check.h"
#include "cache/store_dir.h"
#include "cache/store_lmdb.h"
#include "cache/value.h"

#define CAP (64 * MIB)

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

/* Bytes of the value of a fixture entry with a two-digit seed or so. */
static size_t
value_bytes(size_t n_bytes)
{
	struct hm_entry *entry = fixture_entry(10, n_bytes);
	size_t n = hm_value_bytes(entry);

	hm_entry_unref(entry);
	return n;
}

/* What opening this folder says; it must fail. */
static int
refusal(const char *folder, char text_out[512])
{
	struct hm_store *store = NULL;
	struct hm_errbuf errbuf = {""};
	int error = hm_store_open(folder, CAP, &store, &errbuf);

	hm_store_close(store);
	assert_null(store);
	assert_null(strchr(errbuf.text, '\n'));
	assert_non_null(strstr(errbuf.text, folder));
	memcpy(text_out, errbuf.text, sizeof(errbuf.text));
	return error;
}

static int
step_put(struct hm_store *store, uint64_t seed, size_t n_bytes)
{
	struct hm_entry *entry = fixture_entry(seed, n_bytes);
	struct hm_errbuf errbuf = {""};
	int error = hm_store_put(store, entry, &errbuf);

	assert_true(error == HM_OK || errbuf.text[0] != '\0');
	hm_entry_unref(entry);
	return error;
}

static void
begin(struct hm_store *store)
{
	assert_int_equal(hm_store_begin(store, NULL), HM_OK);
}

static void
commit(struct hm_store *store)
{
	assert_int_equal(hm_store_commit(store, NULL), HM_OK);
}

static void
put(struct hm_store *store, uint64_t seed, size_t n_bytes)
{
	begin(store);
	assert_int_equal(step_put(store, seed, n_bytes), HM_OK);
	commit(store);
}

static void
touch(struct hm_store *store, uint64_t seed)
{
	struct hm_digest key;

	fixture_key(seed, &key);
	begin(store);
	assert_int_equal(hm_store_touch(store, &key, NULL), HM_OK);
	commit(store);
}

static bool
delete_key(struct hm_store *store, uint64_t seed)
{
	struct hm_digest key;
	bool deleted = false;

	fixture_key(seed, &key);
	begin(store);
	assert_int_equal(hm_store_delete(store, &key, false, &deleted, NULL),
	    HM_OK);
	commit(store);
	return deleted;
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

static bool
has(struct hm_store *store, uint64_t seed)
{
	struct hm_digest key;

	fixture_key(seed, &key);
	return hm_store_has(store, &key);
}

static const struct hm_store_check_rule rules[] = {
    {"entries", 32, 32, 0, UINT32_MAX},
    {"index", 32, 32, 24, 24},
    {"lru", 12, 12, 32, 32},
    {"meta", 1, 16, 8, 64},
};

static void
check_file(const char *folder, struct hm_store_check *check_out)
{
	struct hm_errbuf errbuf = {""};
	char path[320];
	int error, fd;

	fixture_path(folder, HM_STORE_DATA_FILE, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd != -1);
	error = hm_store_check_file(fd, rules, 4, check_out, &errbuf);
	(void)close(fd);
	if (error != HM_OK)
		print_error("check: %s\n", errbuf.text);
	assert_int_equal(error, HM_OK);
}

/* The store's own counts are those of the file; no page is lost. */
static void
assert_counts(struct hm_store *store, const char *folder)
{
	struct hm_store_check check;
	struct hm_store_stats stats;

	check_file(folder, &check);
	hm_store_get_stats(store, &stats);
	assert_int_equal(stats.bytes, check.footprint[0]);
	assert_int_equal(stats.entries, check.n_entries[0]);
	assert_int_equal(stats.entries, check.n_entries[1]);
	assert_int_equal(stats.entries, check.n_entries[2]);
	assert_int_equal(check.n_leaked, 0);
}

static void
get_notice(struct hm_store *store, char notice_out[256])
{
	struct hm_store_stats stats;

	hm_store_get_stats(store, &stats);
	memcpy(notice_out, stats.notice, sizeof(stats.notice));
}

/* ---- values ---- */

static void
test_value__every_flipped_bit_is_corrupt(void **state)
{
	struct hm_entry *entry = fixture_entry(3, 500);
	size_t n = hm_value_bytes(entry);
	uint8_t *bytes = malloc(n);
	struct hm_entry_parts parts;
	struct hm_checksum checksum;

	(void)state;
	assert_non_null(bytes);
	hm_value_write(entry, 42, bytes);
	assert_int_equal(
	    hm_value_parse(bytes, n, &entry->key, &parts, &checksum), HM_OK);
	assert_int_equal(parts.n_image, 500);
	assert_memory_equal(parts.image, entry->image, 500);
	for (size_t bit = 0; bit < 8 * n; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		assert_int_equal(
		    hm_value_parse(bytes, n, &entry->key, &parts, &checksum),
		    HM_E_CORRUPT);
		bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
	for (size_t cut = 0; cut < n; cut++)
		assert_int_equal(
		    hm_value_parse(bytes, cut, &entry->key, &parts, &checksum),
		    HM_E_CORRUPT);
	free(bytes);
	hm_entry_unref(entry);
}

static void
test_value__under_another_key_is_corrupt(void **state)
{
	struct hm_entry *entry = fixture_entry(3, 500);
	size_t n = hm_value_bytes(entry);
	uint8_t *bytes = malloc(n);
	struct hm_entry_parts parts;
	struct hm_checksum checksum;
	struct hm_digest other;

	(void)state;
	assert_non_null(bytes);
	fixture_key(4, &other);
	hm_value_write(entry, 42, bytes);
	assert_int_equal(hm_value_parse(bytes, n, &other, &parts, &checksum),
	    HM_E_CORRUPT);
	free(bytes);
	hm_entry_unref(entry);
}

/* ---- puts and finds ---- */

static void
test_store__sizes_around_page_limits_come_back(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, CAP);
	struct hm_digest key;

	(void)state;
	/* 1..5000 crosses "in the leaf" to one page, to two pages. */
	begin(store);
	for (size_t n = 1; n < 5000; n += 7)
		assert_int_equal(step_put(store, n, n), HM_OK);
	commit(store);
	put(store, 32768, 32768);
	put(store, 32769, 32769);
	put(store, 200000, 200000);
	assert_counts(store, folder);
	for (size_t n = 1; n < 5000; n += 7)
		assert_int_equal(find(store, n, n), HM_OK);
	assert_int_equal(find(store, 32768, 32768), HM_OK);
	assert_int_equal(find(store, 32769, 32769), HM_OK);
	assert_int_equal(find(store, 200000, 200000), HM_OK);
	assert_int_equal(find(store, 7777777, 1), HM_E_UNAVAILABLE);
	fixture_key(7777777, &key);
	assert_false(hm_store_has(store, &key));
	hm_store_close(store);
	hm_store_close(NULL);
	fixture_remove(folder);
}

static void
test_store__reopened_has_everything(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, CAP);
	struct hm_store_stats before, after;

	(void)state;
	for (uint64_t i = 0; i < 50; i++)
		put(store, i, 20000);
	hm_store_get_stats(store, &before);
	hm_store_close(store);
	store = open_store(folder, CAP);
	hm_store_get_stats(store, &after);
	assert_int_equal(after.bytes, before.bytes);
	assert_int_equal(after.entries, 50);
	assert_string_equal(after.notice, "");
	for (uint64_t i = 0; i < 50; i++)
		assert_int_equal(find(store, i, 20000), HM_OK);
	hm_store_close(store);
	fixture_remove(folder);
}

static void
test_store__aborted_put_leaves_no_trace(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, CAP);

	(void)state;
	put(store, 1, 3000);
	begin(store);
	assert_int_equal(step_put(store, 1, 9000), HM_OK);
	assert_int_equal(step_put(store, 2, 9000), HM_OK);
	hm_store_abort(store);
	assert_int_equal(find(store, 1, 3000), HM_OK);
	assert_false(has(store, 2));
	assert_counts(store, folder);
	hm_store_close(store);
	fixture_remove(folder);
}

static void
test_store__delete_if_damaged_spares_the_sound(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, CAP);
	struct hm_digest key;
	bool deleted = true;

	(void)state;
	put(store, 1, 3000);
	fixture_key(1, &key);
	begin(store);
	assert_int_equal(hm_store_delete(store, &key, true, &deleted, NULL),
	    HM_OK);
	commit(store);
	assert_false(deleted);
	assert_true(has(store, 1));
	assert_true(delete_key(store, 1));
	assert_false(delete_key(store, 1));
	assert_false(has(store, 1));
	hm_store_close(store);
	fixture_remove(folder);
}

struct seen {
	size_t n;
	size_t stop_after;
};

static bool
see_record(const struct hm_digest *key, const void *record, size_t n_record,
    void *arg)
{
	struct seen *seen = arg;

	(void)key;
	assert_true(n_record > 10);
	assert_memory_equal(record, "record of ", 10);
	seen->n++;
	return seen->n != seen->stop_after;
}

static void
test_store__each_record_visits_all_and_stops(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, CAP);
	struct seen seen = {0, 0};

	(void)state;
	for (uint64_t i = 0; i < 20; i++)
		put(store, i, 100 + 1000 * i);
	assert_int_equal(hm_store_each_record(store, see_record, &seen), HM_OK);
	assert_int_equal(seen.n, 20);
	seen = (struct seen){0, 3};
	assert_int_equal(hm_store_each_record(store, see_record, &seen), HM_OK);
	assert_int_equal(seen.n, 3);
	hm_store_close(store);
	fixture_remove(folder);
}

/* ---- order, cap, accounting ---- */

static void
test_store__at_the_cap_the_least_recently_used_leave(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, 4 * MIB);
	struct hm_store_stats stats;
	uint64_t seed = 0, n_fit;

	(void)state;
	n_fit =
	    4 * MIB /
	    hm_store_check_footprint(HM_DIGEST_BYTES, value_bytes(32768), 4096);
	for (; seed < n_fit; seed++)
		put(store, seed, 32768);
	hm_store_get_stats(store, &stats);
	assert_int_equal(stats.evicted, 0);
	touch(store, 0);
	touch(store, 2);
	put(store, seed, 32768);

	/* Down to seven eighths, in that one transaction. */
	hm_store_get_stats(store, &stats);
	assert_true(stats.bytes <= 4 * MIB / 8 * 7);
	assert_true(stats.bytes > 4 * MIB / 8 * 6);
	assert_true(stats.evicted > 10 && stats.evicted < 20);
	assert_int_equal(stats.entries, n_fit + 1 - stats.evicted);
	assert_true(has(store, 0));
	assert_true(has(store, 2));
	assert_true(has(store, n_fit));
	/* The evicted ones are exactly the oldest of the others. */
	assert_false(has(store, 1));
	for (uint64_t i = 3; i < n_fit; i++)
		assert_int_equal(has(store, i), i >= stats.evicted + 2);
	assert_counts(store, folder);
	hm_store_close(store);
	fixture_remove(folder);
}

static void
test_store__order_of_use_survives_a_restart(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, 4 * MIB);

	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		put(store, i, 32768);
	touch(store, 0);
	hm_store_close(store);
	store = open_store(folder, 4 * MIB);
	for (uint64_t i = 100; i < 120; i++)
		put(store, i, 32768);
	assert_true(has(store, 0));
	assert_false(has(store, 1));
	assert_true(has(store, 119));
	hm_store_close(store);
	fixture_remove(folder);
}

static void
test_store__smaller_cap_trims_in_slices(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, 16 * MIB);
	struct hm_store_stats stats;

	(void)state;
	for (uint64_t i = 0; i < 30; i++) {
		begin(store);
		for (uint64_t j = 0; j < 50; j++)
			assert_int_equal(step_put(store, 50 * i + j, 5000),
			    HM_OK);
		commit(store);
	}
	hm_store_get_stats(store, &stats);
	assert_int_equal(stats.entries, 1500);
	hm_store_close(store);

	store = open_store(folder, 2 * MIB);
	assert_true(hm_store_is_trimming(store));
	put(store, 5001, 5000);
	hm_store_get_stats(store, &stats);
	assert_int_equal(stats.evicted, 256); /* a slice, not a thousand */
	while (hm_store_is_trimming(store)) {
		begin(store);
		assert_int_equal(hm_store_trim(store, NULL), HM_OK);
		commit(store);
	}
	hm_store_get_stats(store, &stats);
	assert_true(stats.bytes <= 2 * MIB / 8 * 7);
	assert_true(has(store, 5001));
	assert_counts(store, folder);
	hm_store_close(store);
	fixture_remove(folder);
}

static void
test_store__entry_over_a_quarter_is_refused(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, MIB);

	(void)state;
	put(store, 1, 1000);
	begin(store);
	assert_int_equal(step_put(store, 2, MIB / 4), HM_E_INVALID);
	assert_int_equal(step_put(store, 3, MIB / 4 - 8192), HM_OK);
	commit(store);
	assert_true(has(store, 1));
	assert_true(has(store, 3));
	hm_store_close(store);
	fixture_remove(folder);
}

static void
test_store__random_operations_keep_the_counts(void **state)
{
	char *folder = fixture_folder_fast();
	struct hm_store *store = open_store(folder, 3 * MIB);
	struct hm_store_stats stats;
	uint64_t random = 11;

	(void)state;
	for (int i = 0; i < 700; i++) {
		uint64_t first = fixture_random(&random) % 300;

		begin(store);
		/* Consecutive seeds: no key twice in a transaction. */
		for (uint64_t j = 0; j < fixture_random(&random) % 8; j++) {
			size_t n = 1 + fixture_random(&random) % 30000;
			struct hm_digest key;
			bool deleted;

			fixture_key(first + j, &key);
			if (fixture_random(&random) % 4 == 0)
				assert_int_equal(hm_store_delete(store, &key,
						     false, &deleted, NULL),
				    HM_OK);
			else
				assert_int_equal(step_put(store, first + j, n),
				    HM_OK);
		}
		if (fixture_random(&random) % 8 == 0)
			hm_store_abort(store);
		else
			commit(store);
		hm_store_get_stats(store, &stats);
		assert_true(stats.bytes <= 3 * MIB);
		if (i % 10 == 0)
			assert_counts(store, folder);
	}
	assert_true(stats.evicted > 100);
	assert_counts(store, folder);
	hm_store_close(store);
	fixture_remove(folder);
}

/* ---- full maps, full disks ---- */

static void
test_store__full_map_is_busy_and_room_can_be_made(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, 2 * MIB);
	struct hm_store_stats stats;
	int error = HM_OK;

	(void)state;
	for (uint64_t i = 0; i < 16; i++)
		put(store, i, 100000);
	/* Replacing all at once needs the pages twice. */
	begin(store);
	for (uint64_t i = 0; error == HM_OK && i < 16; i++)
		error = step_put(store, i, 100001);
	assert_int_equal(error, HM_E_BUSY);
	hm_store_abort(store);

	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(find(store, i, 100000), HM_OK);
	assert_int_equal(hm_store_make_room(store, NULL), HM_OK);
	hm_store_get_stats(store, &stats);
	assert_true(stats.evicted > 0 && stats.entries > 0);
	assert_false(has(store, 0));
	assert_true(has(store, 15));
	begin(store);
	assert_int_equal(step_put(store, 0, 100001), HM_OK);
	commit(store);
	assert_counts(store, folder);
	hm_store_close(store);
	fixture_remove(folder);
}

/* What a full disk does to pwrite, a limit on the size of files does too. */
static void
test_store__full_disk_is_an_error_and_passes(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, CAP);
	struct hm_errbuf errbuf = {""};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct rlimit before, full;

	(void)state;
	assert_int_equal(sigaction(SIGXFSZ, &ignore, NULL), 0);
	put(store, 1, 200000);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	full = before;
	full.rlim_cur = 300000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
	for (uint64_t i = 2; i < 5; i++) {
		begin(store);
		assert_int_equal(step_put(store, i, 200000), HM_OK);
		assert_int_equal(hm_store_commit(store, &errbuf), HM_E_SYSTEM);
		assert_non_null(strstr(errbuf.text, "cannot write"));
		assert_non_null(strstr(errbuf.text, "File too large"));
		assert_int_equal(find(store, 1, 200000), HM_OK);
		assert_int_equal(find(store, i, 200000), HM_E_UNAVAILABLE);
	}
	assert_counts(store, folder);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	put(store, 2, 200000);
	assert_int_equal(find(store, 1, 200000), HM_OK);
	assert_int_equal(find(store, 2, 200000), HM_OK);
	assert_counts(store, folder);
	hm_store_close(store);
	fixture_remove(folder);
}

/* LMDB says "Input/output error" for a write that was cut short. */
static void
test_store__full_file_system_is_named(void **state)
{
	char *folder = fixture_folder();
	struct hm_errbuf errbuf = {""};
	struct hm_store *store;
	uint64_t n = 0;
	int error;

	(void)state;
	/* In a mount namespace of ours, so that nobody has to clean up. */
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", folder, "tmpfs", 0, "size=1m,mode=700") != 0) {
		fixture_remove(folder);
		skip();
	}
	store = open_store(folder, CAP);
	do {
		begin(store);
		assert_int_equal(step_put(store, ++n, 100000), HM_OK);
		error = hm_store_commit(store, &errbuf);
	} while (error == HM_OK && n < 20);
	assert_int_equal(error, HM_E_SYSTEM);
	assert_non_null(strstr(errbuf.text, "No space left"));
	assert_true(n > 3);
	for (uint64_t i = 1; i < n; i++)
		assert_int_equal(find(store, i, 100000), HM_OK);
	assert_int_equal(
	    mount("none", folder, "tmpfs", MS_REMOUNT, "size=8m,mode=700"), 0);
	put(store, n, 100000);
	assert_int_equal(find(store, n, 100000), HM_OK);
	hm_store_close(store);
	assert_int_equal(umount(folder), 0);
	fixture_remove(folder);
}

/* Cut under our feet: what is mapped beyond its end would be SIGBUS. */
static void
test_store__file_cut_while_open_is_set_aside(void **state)
{
	static const off_t cuts[] = {0, 4096, 100000};

	(void)state;
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		char *folder = fixture_folder();
		struct hm_store *store = open_store(folder, CAP);
		struct hm_errbuf errbuf = {""};
		char path[320];

		put(store, 1, 200000);
		fixture_path(folder, HM_STORE_DATA_FILE, path);
		assert_int_equal(truncate(path, cuts[i]), 0);
		assert_int_equal(find(store, 1, 200000), HM_E_UNAVAILABLE);
		assert_false(has(store, 1));
		assert_int_equal(hm_store_begin(store, &errbuf), HM_E_CORRUPT);
		assert_non_null(strstr(errbuf.text, "cut short"));
		assert_int_equal(
		    hm_store_restart(store, HM_STORE_SET_ASIDE, &errbuf),
		    HM_OK);
		assert_true(fixture_exists(folder, "data.mdb.aside-1"));
		put(store, 2, 200000);
		assert_int_equal(find(store, 2, 200000), HM_OK);
		hm_store_close(store);
		fixture_remove(folder);
	}
}

static void
test_store__erase_gives_the_disk_back(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, CAP);
	struct hm_store_stats stats;
	size_t n;

	(void)state;
	for (uint64_t i = 0; i < 50; i++)
		put(store, i, 200000);
	assert_int_equal(hm_store_restart(store, HM_STORE_ERASE, NULL), HM_OK);
	free(fixture_read(folder, HM_STORE_DATA_FILE, &n));
	assert_true(n < 100000);
	hm_store_get_stats(store, &stats);
	assert_int_equal(stats.entries, 0);
	assert_int_equal(stats.bytes, 0);
	assert_int_equal(stats.evicted, 50);
	assert_int_equal(find(store, 1, 200000), HM_E_UNAVAILABLE);
	put(store, 1, 200000);
	assert_int_equal(find(store, 1, 200000), HM_OK);
	hm_store_close(store);
	fixture_remove(folder);
}

/* ---- damaged and foreign files ---- */

/* A folder that has our mark, and bytes of whatever kind for data. */
static char *
marked_folder(const void *bytes, size_t n_bytes)
{
	char *folder = fixture_folder();

	hm_store_close(open_store(folder, CAP));
	fixture_write(folder, HM_STORE_DATA_FILE, bytes, n_bytes);
	return folder;
}

/* A store of three entries, closed. */
static char *
closed_store(void)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, CAP);

	for (uint64_t i = 0; i < 3; i++)
		put(store, i, 20000);
	hm_store_close(store);
	return folder;
}

/* The file there makes way: kept whole under a new name, told, and a new
 * store works. */
static void
assert_set_aside(const char *folder, const char *why)
{
	size_t n_before, n_after;
	uint8_t *before = fixture_read(folder, HM_STORE_DATA_FILE, &n_before);
	struct hm_store *store = open_store(folder, CAP);
	uint8_t *after = fixture_read(folder, "data.mdb.aside-1", &n_after);
	char notice[256];

	get_notice(store, notice);
	assert_non_null(strstr(notice, folder));
	assert_non_null(strstr(notice, why));
	assert_non_null(strstr(notice, "data.mdb.aside-1"));
	assert_int_equal(n_before, n_after);
	assert_memory_equal(before, after, n_before);
	assert_int_equal(find(store, 0, 20000), HM_E_UNAVAILABLE);
	put(store, 9, 20000);
	hm_store_close(store);
	store = open_store(folder, CAP);
	assert_int_equal(find(store, 9, 20000), HM_OK);
	get_notice(store, notice);
	assert_string_equal(notice, "");
	hm_store_close(store);
	free(before);
	free(after);
}

static void
test_store__truncated_file_is_set_aside(void **state)
{
	(void)state;
	for (size_t keep = 0; keep < 6; keep++) {
		const size_t cut[] = {100, 4096, 8192, 8193, 20480, 0};
		char *folder = closed_store();
		size_t n;
		uint8_t *bytes = fixture_read(folder, HM_STORE_DATA_FILE, &n);

		fixture_write(folder, HM_STORE_DATA_FILE, bytes,
		    cut[keep] != 0 ? cut[keep] : n - 1);
		assert_set_aside(folder, "damaged");
		free(bytes);
		fixture_remove(folder);
	}
}

static void
test_store__random_file_is_set_aside(void **state)
{
	uint8_t *bytes = fixture_image(99, 1 << 20);
	char *folder = marked_folder(bytes, 1 << 20);

	(void)state;
	assert_set_aside(folder, "no LMDB file");
	free(bytes);
	fixture_remove(folder);
}

static void
test_store__file_of_zeros_is_set_aside(void **state)
{
	uint8_t *bytes = calloc(1, 65536);
	char *folder = marked_folder(bytes, 65536);

	(void)state;
	assert_set_aside(folder, "no LMDB file");
	free(bytes);
	fixture_remove(folder);
}

static void
test_store__empty_file_is_a_new_store(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store;

	(void)state;
	fixture_write(folder, HM_STORE_DATA_FILE, "", 0);
	store = open_store(folder, CAP);
	put(store, 1, 1000);
	assert_false(fixture_exists(folder, "data.mdb.aside-1"));
	hm_store_close(store);
	fixture_remove(folder);
}

/* Replace every occurrence of a text in the data file. */
static size_t
edit_file(const char *folder, const char *from, size_t n_from, const char *to)
{
	size_t n, n_edits = 0;
	uint8_t *bytes = fixture_read(folder, HM_STORE_DATA_FILE, &n);
	uint8_t *at = bytes;

	while (
	    (at = memmem(at, n - (size_t)(at - bytes), from, n_from)) != NULL) {
		memcpy(at, to, n_from);
		n_edits++;
	}
	fixture_write(folder, HM_STORE_DATA_FILE, bytes, n);
	free(bytes);
	return n_edits;
}

static void
test_store__other_schema_version_is_set_aside(void **state)
{
	char *folder = closed_store();

	(void)state;
	assert_true(edit_file(folder, "hm-store\2", 9, "hm-store\1") > 0);
	assert_set_aside(folder, "another version");
	fixture_remove(folder);
}

static void
test_store__other_lmdb_version_is_set_aside(void **state)
{
	char *folder = closed_store();

	(void)state;
	assert_int_equal(
	    edit_file(folder, "\xde\xc0\xef\xbe\1", 5, "\xde\xc0\xef\xbe\2"),
	    2);
	assert_set_aside(folder, "another version of LMDB");
	fixture_remove(folder);
}

static void
test_store__foreign_database_is_set_aside(void **state)
{
	char *folder = closed_store();

	(void)state;
	assert_true(edit_file(folder, "entries", 7, "entrail") > 0);
	assert_set_aside(folder, "no store of hummingd");
	fixture_remove(folder);
}

static void
test_store__aside_files_are_never_replaced(void **state)
{
	char *folder = marked_folder("first", 5);
	size_t n;
	uint8_t *kept;
	struct hm_store *store;

	(void)state;
	hm_store_close(open_store(folder, CAP));
	fixture_write(folder, HM_STORE_DATA_FILE, "second", 6);
	store = open_store(folder, CAP);
	kept = fixture_read(folder, "data.mdb.aside-1", &n);
	assert_int_equal(n, 5);
	assert_memory_equal(kept, "first", 5);
	free(kept);
	kept = fixture_read(folder, "data.mdb.aside-2", &n);
	assert_memory_equal(kept, "second", 6);
	free(kept);
	hm_store_close(store);
	fixture_remove(folder);
}

/*
 * LMDB frees as many pages as a value's page header says. Whoever deletes or
 * replaces such a value must find out first.
 */
static void
test_store__damaged_page_header_stops_a_delete(void **state)
{
	char *folder = closed_store();
	size_t n;
	uint8_t *bytes = fixture_read(folder, HM_STORE_DATA_FILE, &n);
	uint8_t *value = memmem(bytes, n, "HMV1", 4);
	struct hm_errbuf errbuf = {""};
	struct hm_store *store;
	int n_corrupt = 0;
	char notice[256];

	(void)state;
	assert_non_null(value);
	assert_int_equal((value - bytes) % 4096, 16);
	value[-4] = 200; /* pages of this value */
	fixture_write(folder, HM_STORE_DATA_FILE, bytes, n);
	free(bytes);

	store = open_store(folder, CAP);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(find(store, i, 20000), HM_OK);
		begin(store);
		if (step_put(store, i, 20000) == HM_E_CORRUPT)
			n_corrupt++;
		hm_store_abort(store);
	}
	assert_int_equal(n_corrupt, 1);
	hm_errbuf_set(&errbuf, "store %s: damaged", folder);
	assert_int_equal(hm_store_restart(store, HM_STORE_SET_ASIDE, &errbuf),
	    HM_OK);
	get_notice(store, notice);
	assert_non_null(strstr(notice, "data.mdb.aside-1"));
	assert_false(has(store, 0));
	put(store, 0, 20000);
	assert_int_equal(find(store, 0, 20000), HM_OK);
	hm_store_close(store);
	fixture_remove(folder);
}

/* ---- one test for each thing that LMDB believes ---- */

static uint16_t
get_u16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static void
set_u16(uint8_t *at, unsigned int value)
{
	uint16_t small = (uint16_t)value;

	memcpy(at, &small, sizeof(small));
}

/* A leaf with at least two big values (a free page that once was one too,
 * which does no harm). */
static bool
is_leaf_of_entries(const uint8_t *page)
{
	const uint8_t *node = page + get_u16(page + 16);

	return get_u16(page + 10) == 2 && get_u16(page + 12) >= 20 &&
	       get_u16(page + 16) < 4050 && get_u16(node + 4) == 1 &&
	       get_u16(node + 6) == 32;
}

typedef void (*edit_fn)(uint8_t *page);

static void
edit_same_pages(uint8_t *page)
{
	memcpy(page + get_u16(page + 16) + 40, page + get_u16(page + 18) + 40,
	    8);
}

static void
edit_page_beyond_the_end(uint8_t *page)
{
	page[get_u16(page + 16) + 40 + 3] = 1;
}

static void
edit_swapped_keys(uint8_t *page)
{
	unsigned int first = get_u16(page + 16);

	set_u16(page + 16, get_u16(page + 18));
	set_u16(page + 18, first);
}

static void
edit_node_left_out(uint8_t *page)
{
	set_u16(page + 12, get_u16(page + 12) - 2u);
}

static void
edit_node_beyond_the_page(uint8_t *page)
{
	set_u16(page + 16, 4090);
}

static void
edit_key_too_long(uint8_t *page)
{
	/* Node sizes still add up: two inline bytes more, the next less. */
	set_u16(page + get_u16(page + 16) + 6, 34);
}

static void
edit_big_made_small(uint8_t *page)
{
	set_u16(page + get_u16(page + 16) + 4, 0);
}

static void
edit_sub_database(uint8_t *page)
{
	set_u16(page + get_u16(page + 16) + 4, 3);
}

static void
edit_number(uint8_t *page)
{
	page[0] ^= 1;
}

static void
edit_kind(uint8_t *page)
{
	set_u16(page + 10, 0x22);
}

static void
assert_damage_found(edit_fn edit, const char *why)
{
	char *folder = closed_store();
	size_t n, n_edits = 0;
	uint8_t *bytes = fixture_read(folder, HM_STORE_DATA_FILE, &n);

	for (size_t at = 8192; at < n; at += 4096) {
		if (is_leaf_of_entries(bytes + at)) {
			edit(bytes + at);
			n_edits++;
		}
	}
	assert_true(n_edits > 0);
	fixture_write(folder, HM_STORE_DATA_FILE, bytes, n);
	assert_set_aside(folder, why);
	free(bytes);
	fixture_remove(folder);
}

static void
test_check__damaged_leaf_is_found_by_name(void **state)
{
	(void)state;
	assert_damage_found(edit_same_pages, "a page used twice");
	assert_damage_found(edit_page_beyond_the_end,
	    "a page outside the file");
	assert_damage_found(edit_swapped_keys, "the order of keys");
	assert_damage_found(edit_node_left_out, "the nodes of a page");
	assert_damage_found(edit_node_beyond_the_page, "a node's place");
	assert_damage_found(edit_key_too_long, "the nodes of a page");
	assert_damage_found(edit_big_made_small, "a node's size");
	assert_damage_found(edit_sub_database, "the size of a value");
	assert_damage_found(edit_number, "a page with another's number");
	assert_damage_found(edit_kind, "the kind of a page");
}

/* Both headers, at this offset: add. */
static void
assert_header_found(size_t offset, int add, const char *why)
{
	char *folder = closed_store();
	size_t n;
	uint8_t *bytes = fixture_read(folder, HM_STORE_DATA_FILE, &n);

	for (size_t at = offset; at < 8192; at += 4096) {
		uint64_t value;

		memcpy(&value, bytes + at, sizeof(value));
		value += (uint64_t)add;
		memcpy(bytes + at, &value, sizeof(value));
	}
	fixture_write(folder, HM_STORE_DATA_FILE, bytes, n);
	assert_set_aside(folder, why);
	free(bytes);
	fixture_remove(folder);
}

static void
test_check__damaged_header_is_found_by_name(void **state)
{
	(void)state;
	/* last page: nothing lies on it, only the map would end too early */
	assert_header_found(136, 64, "shorter than its pages");
	assert_header_found(144, 1, "the transactions");
	assert_header_found(120, 1, "a database's counts"); /* of main */
	assert_header_found(88 + 4, 4, "a database's record");
	assert_header_found(88 + 40, 1, "damaged");
	assert_header_found(40, 4096, "damaged"); /* page size */
}

/* ---- the folder ---- */

static void
test_folder__missing_ones_are_created_private(void **state)
{
	char *folder = fixture_folder();
	struct stat status;
	char path[320];

	(void)state;
	fixture_path(folder, "a/b/c", path);
	hm_store_close(open_store(path, CAP));
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0700);
	fixture_path(folder, "a", path);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0700);
	fixture_path(folder, "a/b/c/data.mdb", path);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	fixture_remove(folder);
}

static void
test_folder__second_opener_is_refused(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, CAP);
	char text[512];

	(void)state;
	assert_int_equal(refusal(folder, text), HM_E_BUSY);
	assert_non_null(strstr(text, "another daemon"));
	put(store, 1, 1000); /* the first one does not notice */
	hm_store_close(store);
	hm_store_close(open_store(folder, CAP));
	fixture_remove(folder);
}

/* Databases of other programs, n names in each; 0: its data has no name. */
static void
make_foreign(const char *folder, unsigned n_names)
{
	MDB_val key = {.mv_size = 4}, value = {.mv_size = 5};
	char bytes[5] = "data", name[32];
	MDB_env *env = NULL;
	MDB_txn *txn = NULL;
	MDB_dbi dbi;

	key.mv_data = value.mv_data = bytes;
	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_set_maxdbs(env, 300), 0);
	assert_int_equal(mdb_env_open(env, folder, 0, 0600), 0);
	assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
	for (unsigned i = 0; i < n_names; i++) {
		(void)snprintf(name, sizeof(name), "users-%u", i);
		assert_int_equal(mdb_dbi_open(txn, name, MDB_CREATE, &dbi), 0);
		assert_int_equal(mdb_put(txn, dbi, &key, &value, 0), 0);
	}
	if (n_names == 0) {
		assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
		assert_int_equal(mdb_put(txn, dbi, &key, &value, 0), 0);
	}
	assert_int_equal(mdb_txn_commit(txn), 0);
	mdb_env_close(env);
}

static void
test_folder__database_of_another_program_is_refused_untouched(void **state)
{
	static const unsigned n_names[] = {1, 4, 200, 0};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		char *folder = fixture_folder();
		struct stat before, after;
		char path[320];
		char text[512];

		make_foreign(folder, n_names[i]);
		fixture_path(folder, "data.mdb", path);
		assert_int_equal(stat(path, &before), 0);
		assert_int_equal(refusal(folder, text), HM_E_INVALID);
		assert_non_null(strstr(text, "another program"));
		assert_int_equal(stat(path, &after), 0);
		assert_int_equal(before.st_ino, after.st_ino);
		assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
		fixture_remove(folder);
	}
}

/* Whatever is called data.mdb in a folder that never was a store of ours. */
static void
test_folder__foreign_data_file_is_refused_untouched(void **state)
{
	static const char text[] = "chapter one\n";
	uint8_t *noise = fixture_image(7, 65536);
	char *other = fixture_folder();
	struct {
		const void *bytes;
		size_t n_bytes;
	} foreign[] = {{text, sizeof(text) - 1}, {noise, 65536}, {NULL, 0}};
	uint8_t *empty;

	(void)state;
	make_foreign(other, 0); /* then without its data: no name at all */
	empty = fixture_read(other, HM_STORE_DATA_FILE, &foreign[2].n_bytes);
	memcpy(empty + 4096, empty, 4096); /* both headers: the empty one */
	empty[4096] = 1;
	foreign[2].bytes = empty;
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
		char *folder = fixture_folder();
		char reason[512];
		uint8_t *after;
		size_t n;

		fixture_write(folder, HM_STORE_DATA_FILE, foreign[i].bytes,
		    foreign[i].n_bytes);
		assert_int_equal(refusal(folder, reason), HM_E_INVALID);
		assert_non_null(strstr(reason, "not ours"));
		after = fixture_read(folder, HM_STORE_DATA_FILE, &n);
		assert_int_equal(n, foreign[i].n_bytes);
		assert_memory_equal(after, foreign[i].bytes, n);
		assert_false(fixture_exists(folder, HM_STORE_LOCK_FILE));
		assert_false(fixture_exists(folder, "data.mdb.aside-1"));
		free(after);
		fixture_remove(folder);
	}
	free(noise);
	free(empty);
	fixture_remove(other);
}

/* A store that was copied here without its lock is one all the same. */
static void
test_folder__data_of_ours_without_the_mark_is_taken(void **state)
{
	char *folder = closed_store();
	char path[320];
	struct hm_store *store;

	(void)state;
	fixture_path(folder, HM_STORE_LOCK_FILE, path);
	assert_int_equal(unlink(path), 0);
	store = open_store(folder, CAP);
	assert_int_equal(find(store, 1, 20000), HM_OK);
	hm_store_close(store);
	/* Now it has the mark: damage is ours to move. */
	fixture_write(folder, HM_STORE_DATA_FILE, "damage", 6);
	assert_set_aside(folder, "damaged");
	fixture_remove(folder);
}

static void
test_folder__foreign_file_is_refused_untouched(void **state)
{
	char *folder = fixture_folder();
	char text[512];

	(void)state;
	fixture_write(folder, "thesis.txt", "all of it", 9);
	assert_int_equal(refusal(folder, text), HM_E_INVALID);
	assert_non_null(strstr(text, "thesis.txt"));
	assert_false(fixture_exists(folder, HM_STORE_LOCK_FILE));
	assert_false(fixture_exists(folder, HM_STORE_DATA_FILE));
	fixture_remove(folder);
}

static void
test_folder__lost_and_found_is_no_stranger(void **state)
{
	char *folder = fixture_folder();
	char path[320];

	(void)state;
	fixture_path(folder, "lost+found", path);
	assert_int_equal(mkdir(path, 0700), 0);
	hm_store_close(open_store(folder, CAP));
	fixture_remove(folder);
}

static void
test_folder__writable_by_others_is_refused(void **state)
{
	char *folder = fixture_folder();
	char text[512];

	(void)state;
	assert_int_equal(chmod(folder, 0770), 0);
	assert_int_equal(refusal(folder, text), HM_E_INVALID);
	assert_non_null(strstr(text, "0770"));
	assert_int_equal(chmod(folder, 0702), 0);
	assert_int_equal(refusal(folder, text), HM_E_INVALID);
	assert_int_equal(chmod(folder, 0755), 0);
	hm_store_close(open_store(folder, CAP));
	fixture_remove(folder);
}

static void
test_folder__of_another_owner_is_refused(void **state)
{
	char *folder = fixture_folder();
	char text[512];

	(void)state;
	if (geteuid() != 0) {
		fixture_remove(folder);
		skip(); /* only root can give a folder away */
	}
	assert_int_equal(chown(folder, 12345, 12345), 0);
	assert_int_equal(refusal(folder, text), HM_E_INVALID);
	assert_non_null(strstr(text, "12345"));
	assert_int_equal(chown(folder, 0, 0), 0);
	fixture_write(folder, HM_STORE_DATA_FILE, "", 0);
	{
		char path[320];

		fixture_path(folder, HM_STORE_DATA_FILE, path);
		assert_int_equal(chown(path, 12345, 12345), 0);
	}
	assert_int_equal(refusal(folder, text), HM_E_INVALID);
	assert_non_null(strstr(text, HM_STORE_DATA_FILE));
	fixture_remove(folder);
}

static void
test_folder__that_is_a_file_is_refused(void **state)
{
	char *folder = fixture_folder();
	char path[320], text[512];

	(void)state;
	fixture_write(folder, "file", "x", 1);
	fixture_path(folder, "file", path);
	assert_int_equal(refusal(path, text), HM_E_INVALID);
	fixture_path(folder, "file/below", path);
	assert_int_equal(refusal(path, text), HM_E_INVALID);
	fixture_remove(folder);
}

static void
test_folder__data_that_is_a_link_is_refused(void **state)
{
	char *folder = fixture_folder();
	char path[320], text[512];

	(void)state;
	fixture_path(folder, HM_STORE_DATA_FILE, path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(refusal(folder, text), HM_E_INVALID);
	fixture_remove(folder);
}

static void
test_folder__network_file_systems_have_names(void **state)
{
	(void)state;
	assert_string_equal(hm_store_dir_network_name(0x6969), "NFS");
	assert_string_equal(hm_store_dir_network_name(0xff534d42), "CIFS");
	/* f_type is a signed long on some machines */
	assert_string_equal(
	    hm_store_dir_network_name((unsigned long)(int32_t)0xff534d42u),
	    "CIFS");
	assert_string_equal(hm_store_dir_network_name(0x65735546), "FUSE");
	assert_null(hm_store_dir_network_name(0xef53));     /* ext4 */
	assert_null(hm_store_dir_network_name(0x58465342)); /* XFS */
	assert_null(hm_store_dir_network_name(0x9123683e)); /* btrfs */
	assert_null(hm_store_dir_network_name(0x01021994)); /* tmpfs */
	assert_null(hm_store_dir_network_name(0x794c7630)); /* overlay */
}

static void
test_folder__path_that_is_no_path_is_refused(void **state)
{
	struct hm_store *store = NULL;
	struct hm_errbuf errbuf = {""};
	char path[5000];

	(void)state;
	assert_int_equal(hm_store_open("", CAP, &store, &errbuf), HM_E_INVALID);
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(hm_store_open(path, CAP, &store, &errbuf),
	    HM_E_INVALID);
	assert_int_equal(hm_store_open("/tmp", 1000, &store, &errbuf),
	    HM_E_INVALID);
	assert_non_null(strstr(errbuf.text, "1 MiB"));
	assert_null(store);
}

static void
test_store__no_descriptor_survives_exec(void **state)
{
	char *folder = fixture_folder();
	struct hm_store *store = open_store(folder, CAP);
	struct dirent *item;
	DIR *list = opendir("/proc/self/fd");
	int n_ours = 0;

	(void)state;
	assert_non_null(list);
	while ((item = readdir(list)) != NULL) {
		char target[512], name[300];
		ssize_t n;

		(void)snprintf(name, sizeof(name), "/proc/self/fd/%s",
		    item->d_name);
		n = readlink(name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		if (strncmp(target, folder, strlen(folder)) != 0)
			continue;
		n_ours++;
		assert_int_equal(
		    fcntl((int)strtoul(item->d_name, NULL, 10), F_GETFD) &
			FD_CLOEXEC,
		    FD_CLOEXEC);
	}
	assert_true(n_ours >= 4);
	(void)closedir(list);
	hm_store_close(store);
	fixture_remove(folder);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_value__every_flipped_bit_is_corrupt),
	    cmocka_unit_test(test_value__under_another_key_is_corrupt),
	    cmocka_unit_test(test_store__sizes_around_page_limits_come_back),
	    cmocka_unit_test(test_store__reopened_has_everything),
	    cmocka_unit_test(test_store__aborted_put_leaves_no_trace),
	    cmocka_unit_test(test_store__delete_if_damaged_spares_the_sound),
	    cmocka_unit_test(test_store__each_record_visits_all_and_stops),
	    cmocka_unit_test(
		test_store__at_the_cap_the_least_recently_used_leave),
	    cmocka_unit_test(test_store__order_of_use_survives_a_restart),
	    cmocka_unit_test(test_store__smaller_cap_trims_in_slices),
	    cmocka_unit_test(test_store__entry_over_a_quarter_is_refused),
	    cmocka_unit_test(test_store__random_operations_keep_the_counts),
	    cmocka_unit_test(test_store__full_map_is_busy_and_room_can_be_made),
	    cmocka_unit_test(test_store__full_disk_is_an_error_and_passes),
	    cmocka_unit_test(test_store__full_file_system_is_named),
	    cmocka_unit_test(test_store__file_cut_while_open_is_set_aside),
	    cmocka_unit_test(test_store__erase_gives_the_disk_back),
	    cmocka_unit_test(test_store__truncated_file_is_set_aside),
	    cmocka_unit_test(test_store__random_file_is_set_aside),
	    cmocka_unit_test(test_store__file_of_zeros_is_set_aside),
	    cmocka_unit_test(test_store__empty_file_is_a_new_store),
	    cmocka_unit_test(test_store__other_schema_version_is_set_aside),
	    cmocka_unit_test(test_store__other_lmdb_version_is_set_aside),
	    cmocka_unit_test(test_store__foreign_database_is_set_aside),
	    cmocka_unit_test(test_store__aside_files_are_never_replaced),
	    cmocka_unit_test(test_store__damaged_page_header_stops_a_delete),
	    cmocka_unit_test(test_check__damaged_leaf_is_found_by_name),
	    cmocka_unit_test(test_check__damaged_header_is_found_by_name),
	    cmocka_unit_test(test_folder__missing_ones_are_created_private),
	    cmocka_unit_test(test_folder__second_opener_is_refused),
	    cmocka_unit_test(
		test_folder__database_of_another_program_is_refused_untouched),
	    cmocka_unit_test(
		test_folder__foreign_data_file_is_refused_untouched),
	    cmocka_unit_test(
		test_folder__data_of_ours_without_the_mark_is_taken),
	    cmocka_unit_test(test_folder__foreign_file_is_refused_untouched),
	    cmocka_unit_test(test_folder__lost_and_found_is_no_stranger),
	    cmocka_unit_test(test_folder__writable_by_others_is_refused),
	    cmocka_unit_test(test_folder__of_another_owner_is_refused),
	    cmocka_unit_test(test_folder__that_is_a_file_is_refused),
	    cmocka_unit_test(test_folder__data_that_is_a_link_is_refused),
	    cmocka_unit_test(test_folder__network_file_systems_have_names),
	    cmocka_unit_test(test_folder__path_that_is_no_path_is_refused),
	    cmocka_unit_test(test_store__no_descriptor_survives_exec),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("store_lmdb", tests, NULL, NULL);
}
