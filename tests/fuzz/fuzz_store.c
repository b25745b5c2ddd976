/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_store.c - the file of a store as a disk or a power cut left it.
 *
 * The input is a list of patches to a sound file of six entries:
 *
 *   u8 page (of as many as there are, cyclic)   u16 place in it, little-endian
 *   u8 what to do: 0-127 so many bytes, at most 16, follow and go there;
 *      128-191 so many zeros; 192-254 a page is copied there from the page of
 *      that number; 255 the file ends there
 *
 * Promises: the store opens, whatever is in its file; each entry is as it was
 * put, or a miss; it takes a new entry; nothing outside the file is read.
 */
#include <sys/stat.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/cache.h"
#include "fuzz.h"
#include "proto/fd.h"

#define N_ENTRIES 6u
#define CAP_BYTES (16u << 20)
#define PAGE      4096u
/* The largest goes by a memory file. */
#define MAX_IMAGE 40000u

static const size_t image_sizes[N_ENTRIES] = {1, 300, 3000, 9000, 20000,
    MAX_IMAGE};
static char folder[64];
static uint8_t *base, *work;
static size_t n_base;

static void
store_make_entry(uint32_t number, struct hm_entry **entry_out)
{
	static uint8_t image[MAX_IMAGE];
	char record[16];
	struct hm_digest key;
	struct hm_entry_parts parts = {.meta = "meta",
	    .n_meta = 4,
	    .record = record,
	    .image = image,
	    .n_image = number < N_ENTRIES ? image_sizes[number] : 500};

	parts.n_record =
	    (size_t)snprintf(record, sizeof record, "record %u", number);
	for (size_t i = 0; i < parts.n_image; i++)
		image[i] = (uint8_t)(i * 7 + i / 256 + number);
	hm_digest_compute(record, parts.n_record, &key);
	fuzz_require(hm_entry_new(&key, &parts, entry_out) == HM_OK);
}

static struct hm_cache *
store_open(void)
{
	const struct hm_cache_options options = {.directory = folder,
	    .cap_bytes = CAP_BYTES};
	struct hm_errbuf why = {.text = ""};
	struct hm_cache *cache = NULL;

	if (hm_cache_open(&options, &cache, &why) != HM_OK)
		(void)fprintf(stderr, "%s\n", why.text);
	fuzz_require(cache != NULL);
	return cache;
}

/* As it was put, or not there. */
static void
store_check_entry(struct hm_cache *cache, uint32_t number)
{
	enum hm_cache_tier tier = HM_CACHE_MISS;
	struct hm_entry *right = NULL, *entry = NULL;

	store_make_entry(number, &right);
	fuzz_require(hm_cache_get(cache, &right->key, right->record,
			 right->n_record, &entry, &tier) == HM_OK);
	if (tier != HM_CACHE_MISS) {
		fuzz_require(
		    entry->n_image == right->n_image &&
		    memcmp(entry->image, right->image, right->n_image) == 0);
		fuzz_require(
		    entry->n_meta == right->n_meta &&
		    memcmp(entry->meta, right->meta, right->n_meta) == 0);
		hm_entry_unref(entry);
	}
	hm_entry_unref(right);
}

static void
store_empty_folder(void)
{
	DIR *listing = opendir(folder);
	const struct dirent *entry;

	if (listing == NULL)
		abort();
	while ((entry = readdir(listing)) != NULL) {
		if (entry->d_name[0] != '.' &&
		    strcmp(entry->d_name, "lock") != 0)
			(void)unlinkat(dirfd(listing), entry->d_name, 0);
	}
	(void)closedir(listing);
}

static void
store_leave(void)
{
	char path[96];

	store_empty_folder();
	(void)snprintf(path, sizeof path, "%s/lock", folder);
	(void)unlink(path);
	(void)rmdir(folder);
}

/* In memory where there is such a place: a disk would be waited for. */
static void
store_make_base(void)
{
	struct hm_entry *entry = NULL;
	struct hm_cache *cache;
	struct stat status = {.st_size = 0};
	char path[96];
	int fd;

	(void)snprintf(folder, sizeof folder, "%s/hm-fuzz-XXXXXX",
	    access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	fuzz_require(mkdtemp(folder) != NULL);
	fuzz_require(atexit(store_leave) == 0);
	cache = store_open();
	for (uint32_t i = 0; i < N_ENTRIES; i++) {
		store_make_entry(i, &entry);
		hm_cache_put(cache, entry);
		hm_cache_flush(cache);
		hm_entry_unref(entry);
	}
	hm_cache_close(cache);
	(void)snprintf(path, sizeof path, "%s/data.mdb", folder);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	fuzz_require(fd != -1 && fstat(fd, &status) == 0);
	n_base = (size_t)status.st_size;
	base = malloc(n_base);
	work = malloc(n_base);
	fuzz_require(base != NULL && work != NULL && n_base >= 2 * PAGE);
	fuzz_require(read(fd, base, n_base) == (ssize_t)n_base);
	hm_fd_close(&fd);
}

/* One patch; how many bytes of the input it was. */
static size_t
store_patch(const uint8_t *data, size_t size, size_t *n_bytes_io)
{
	size_t n_pages = n_base / PAGE;
	size_t at = data[0] % n_pages * PAGE +
		    ((size_t)data[1] | (size_t)data[2] << 8) % PAGE;
	size_t n = 0, room = n_base - at;

	if (data[3] < 128) {
		n = data[3] % 17;
		n = n < size - 4 ? n : size - 4;
		n = n < room ? n : room;
		memcpy(work + at, data + 4, n);
		return 4 + n;
	}
	if (data[3] < 192) {
		n = data[3] - 127u;
		memset(work + at, 0, n < room ? n : room);
	} else if (data[3] < 255) {
		at -= at % PAGE;
		memcpy(work + at, base + (data[3] - 192u) % n_pages * PAGE,
		    PAGE);
	} else {
		*n_bytes_io = at;
	}
	return 4;
}

void
fuzz_one(const uint8_t *data, size_t size)
{
	struct hm_entry *entry = NULL;
	struct hm_cache *cache;
	size_t n_bytes, at = 0;
	char path[96];
	int fd;

	if (base == NULL)
		store_make_base();
	memcpy(work, base, n_base);
	n_bytes = n_base;
	while (size - at >= 4)
		at += store_patch(data + at, size - at, &n_bytes);
	store_empty_folder();
	(void)snprintf(path, sizeof path, "%s/data.mdb", folder);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	fuzz_require(fd != -1 && hm_fd_write_all(fd, work, n_bytes) == HM_OK);
	hm_fd_close(&fd);

	cache = store_open();
	for (uint32_t i = 0; i < N_ENTRIES; i++)
		store_check_entry(cache, i);
	store_make_entry(N_ENTRIES, &entry);
	hm_cache_put(cache, entry);
	hm_cache_flush(cache);
	hm_entry_unref(entry);
	store_check_entry(cache, N_ENTRIES);
	for (uint32_t i = 0; i < N_ENTRIES; i++)
		store_check_entry(cache, i);
	hm_cache_close(cache);
}
