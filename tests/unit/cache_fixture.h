/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_fixture.h - folders and entries for the tests of cache/.
 *
 * Everything about entry number `seed` follows from that number, so that a
 * test can say what must come back without keeping it.
 */
#ifndef HM_TESTS_CACHE_FIXTURE_H
#define HM_TESTS_CACHE_FIXTURE_H

#include <sys/stat.h>

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/cache.h"
#include "cache/entry.h"

#define MIB ((uint64_t)1 << 20)

static inline uint64_t
fixture_random(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15u; /* splitmix64 */
	uint64_t z = *state;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline void
fixture_key(uint64_t seed, struct hm_digest *key_out)
{
	hm_digest_compute(&seed, sizeof(seed), key_out);
}

static inline size_t
fixture_record(uint64_t seed, char record[64])
{
	return (size_t)snprintf(record, 64, "record of entry %llu",
	    (unsigned long long)seed);
}

/* An image of n_bytes; the caller frees it. */
static inline uint8_t *
fixture_image(uint64_t seed, size_t n_bytes)
{
	uint8_t *image = malloc(n_bytes + sizeof(uint64_t));
	uint64_t state = seed;

	if (image == NULL)
		abort();
	for (size_t i = 0; i < n_bytes; i += sizeof(uint64_t)) {
		uint64_t word = fixture_random(&state);

		memcpy(image + i, &word, sizeof(word));
	}
	return image;
}

static inline struct hm_entry *
fixture_entry(uint64_t seed, size_t n_bytes)
{
	uint8_t *image = fixture_image(seed, n_bytes);
	struct hm_entry *entry = NULL;
	struct hm_digest key;
	char record[64];
	struct hm_entry_parts parts = {.meta = &seed,
	    .n_meta = sizeof(seed),
	    .record = record,
	    .n_record = fixture_record(seed, record),
	    .image = image,
	    .n_image = n_bytes};

	fixture_key(seed, &key);
	if (hm_entry_new(&key, &parts, &entry) != HM_OK)
		abort();
	free(image);
	return entry;
}

/* Is this, byte for byte, fixture_entry(seed, n_bytes)? */
static inline bool
fixture_entry_is(const struct hm_entry *entry, uint64_t seed, size_t n_bytes)
{
	uint8_t *image = fixture_image(seed, n_bytes);
	struct hm_checksum checksum;
	struct hm_digest key;
	char record[64];
	size_t n_record = fixture_record(seed, record);
	bool is_same;

	fixture_key(seed, &key);
	hm_checksum_compute(image, n_bytes, &checksum);
	is_same = hm_digest_equal(&entry->key, &key) &&
		  hm_checksum_equal(&entry->checksum, &checksum) &&
		  entry->n_meta == sizeof(seed) &&
		  memcmp(entry->meta, &seed, sizeof(seed)) == 0 &&
		  hm_entry_has_record(entry, record, n_record) &&
		  entry->n_image == n_bytes &&
		  memcmp(entry->image, image, n_bytes) == 0;
	free(image);
	return is_same;
}

/* Look entry number seed up; a hit must be the right one. */
static inline enum hm_cache_tier
fixture_get(struct hm_cache *cache, uint64_t seed, size_t n_bytes)
{
	enum hm_cache_tier tier = HM_CACHE_MISS;
	struct hm_entry *entry = NULL;
	struct hm_digest key;
	char record[64];
	size_t n_record = fixture_record(seed, record);

	fixture_key(seed, &key);
	assert_int_equal(
	    hm_cache_get(cache, &key, record, n_record, &entry, &tier), HM_OK);
	if (tier != HM_CACHE_MISS) {
		assert_non_null(entry);
		assert_true(fixture_entry_is(entry, seed, n_bytes));
	}
	hm_entry_unref(entry);
	return tier;
}

static inline void
fixture_put(struct hm_cache *cache, uint64_t seed, size_t n_bytes)
{
	struct hm_entry *entry = fixture_entry(seed, n_bytes);

	hm_cache_put(cache, entry);
	hm_entry_unref(entry);
}

static inline struct hm_cache *
fixture_open(const char *directory, uint64_t cap_bytes, uint64_t hot_bytes)
{
	const struct hm_cache_options options = {.directory = directory,
	    .cap_bytes = cap_bytes,
	    .hot_bytes = hot_bytes};
	struct hm_cache *cache = NULL;
	struct hm_errbuf errbuf = {""};

	if (hm_cache_open(&options, &cache, &errbuf) != HM_OK)
		print_error("open: %s\n", errbuf.text);
	assert_non_null(cache);
	return cache;
}

static inline char *
fixture_folder_in(const char *base)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/hm-cache-XXXXXX", base);
	if (mkdtemp(path) == NULL)
		abort();
	return strdup(path);
}

/* A new folder of our own in TMPDIR or /tmp; the caller frees the path. */
static inline char *
fixture_folder(void)
{
	const char *base = getenv("TMPDIR");

	return fixture_folder_in(base != NULL ? base : "/tmp");
}

/* The same in memory where there is such a place: for the many short stores
 * of a test that has no use for a disk's patience. */
static inline char *
fixture_folder_fast(void)
{
	if (access("/dev/shm", W_OK) == 0)
		return fixture_folder_in("/dev/shm");
	return fixture_folder();
}

static inline int
fixture_remove_one(const char *path, const struct stat *status, int kind,
    struct FTW *place)
{
	(void)status;
	(void)kind;
	(void)place;
	return remove(path);
}

static inline void
fixture_remove(char *folder)
{
	(void)nftw(folder, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(folder);
}

static inline void
fixture_path(const char *folder, const char *name, char path_out[320])
{
	(void)snprintf(path_out, 320, "%s/%s", folder, name);
}

/* A whole file; the caller frees it. */
static inline uint8_t *
fixture_read(const char *folder, const char *name, size_t *n_out)
{
	struct stat status;
	uint8_t *bytes;
	char path[320];
	int fd;

	fixture_path(folder, name, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd == -1 || fstat(fd, &status) == -1)
		abort();
	bytes = malloc((size_t)status.st_size + 1);
	if (bytes == NULL ||
	    read(fd, bytes, (size_t)status.st_size) != status.st_size)
		abort();
	(void)close(fd);
	*n_out = (size_t)status.st_size;
	return bytes;
}

static inline void
fixture_write(const char *folder, const char *name, const void *bytes,
    size_t n_bytes)
{
	char path[320];
	int fd;

	fixture_path(folder, name, path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd == -1 || write(fd, bytes, n_bytes) != (ssize_t)n_bytes)
		abort();
	(void)close(fd);
}

static inline bool
fixture_exists(const char *folder, const char *name)
{
	struct stat status;
	char path[320];

	fixture_path(folder, name, path);
	return lstat(path, &status) == 0;
}

#endif
