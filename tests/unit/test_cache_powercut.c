/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cache_powercut.c - the power fails at every write step of a store.
 *
 * This program's own pwrite, writev and fdatasync stand in front of libc's, so
 * that each write of LMDB is noted. Then for every step a file is made as a
 * disk might have it after a cut there: everything up to the last sync, and of
 * what came later any subset of the 512-byte sectors, in any order. Each must
 * open, with all that had been acknowledged.
 */
#include <sys/syscall.h>
#include <sys/uio.h>

#include <stdatomic.h>

#include "cache_fixture.h"

#include "cache/store_dir.h"

#define CAP       (2 * MIB)
#define MAX_STEPS 4096u
#define SECTOR    512u

enum step_kind { STEP_WRITE, STEP_SYNC, STEP_ACK };

struct step {
	enum step_kind kind;
	size_t offset;
	size_t n_bytes;
	uint8_t *bytes;
	uint64_t acked; /* entries below are durable */
};

static struct step steps[MAX_STEPS];
static atomic_size_t n_steps;
static atomic_bool is_recording;

/* Only the writer thread writes while recording, and a flush orders it with
 * the acknowledgements of the test. */
static struct step *
step_new(enum step_kind kind)
{
	size_t i = atomic_fetch_add(&n_steps, 1);

	if (i >= MAX_STEPS)
		abort();
	steps[i].kind = kind;
	return &steps[i];
}

static void
record_write(size_t offset, const void *bytes, size_t n_bytes)
{
	struct step *step = step_new(STEP_WRITE);

	step->offset = offset;
	step->n_bytes = n_bytes;
	step->bytes = malloc(n_bytes);
	if (step->bytes == NULL)
		abort();
	memcpy(step->bytes, bytes, n_bytes);
}

/* LMDB writes its data file through two descriptors; the one for the headers
 * is O_DSYNC. Nothing else is written this way while recording. */
__attribute__((visibility("default"))) ssize_t
pwrite64(int fd, const void *bytes, size_t n_bytes, off64_t offset)
{
	if (atomic_load(&is_recording)) {
		record_write((size_t)offset, bytes, n_bytes);
		if ((fcntl(fd, F_GETFL) & O_DSYNC) != 0)
			(void)step_new(STEP_SYNC);
	}
	return syscall(SYS_pwrite64, fd, bytes, n_bytes, offset);
}

__attribute__((visibility("default"))) ssize_t
pwrite(int fd, const void *bytes, size_t n_bytes, off_t offset)
{
	return pwrite64(fd, bytes, n_bytes, offset);
}

__attribute__((visibility("default"))) ssize_t
writev(int fd, const struct iovec *parts, int n_parts)
{
	off_t offset = lseek(fd, 0, SEEK_CUR);

	for (int i = 0; i < n_parts && atomic_load(&is_recording); i++) {
		record_write((size_t)offset, parts[i].iov_base,
		    parts[i].iov_len);
		offset += (off_t)parts[i].iov_len;
	}
	return syscall(SYS_writev, fd, parts, n_parts);
}

__attribute__((visibility("default"))) int
fdatasync(int fd)
{
	(void)fd;
	if (atomic_load(&is_recording))
		(void)step_new(STEP_SYNC);
	return 0; /* the disk of this test is the list of steps */
}

static size_t
size_of(uint64_t seed)
{
	uint64_t state = seed;

	return 1 + fixture_random(&state) % 40000;
}

/* ---- the disk ---- */

struct disk {
	uint8_t *bytes;
	size_t n_bytes;
};

static void
disk_write(struct disk *disk, size_t offset, const uint8_t *bytes, size_t n)
{
	if (offset + n > 4 * MIB)
		abort();
	memcpy(disk->bytes + offset, bytes, n);
	if (disk->n_bytes < offset + n)
		disk->n_bytes = offset + n;
}

/* Some sectors of a write that was not synced. */
static void
disk_write_torn(struct disk *disk, const struct step *step, uint64_t *random)
{
	uint64_t likely = fixture_random(random) % 3;

	for (size_t at = 0; at < step->n_bytes; at += SECTOR) {
		size_t n = step->n_bytes - at;

		if (n > SECTOR)
			n = SECTOR;
		if (fixture_random(random) % 2 < likely)
			disk_write(disk, step->offset + at, step->bytes + at,
			    n);
	}
}

/* What may be on the disk if the power fails right after step n - 1. */
static uint64_t
disk_after(struct disk *disk, size_t n, uint64_t *random)
{
	uint64_t acked = 0;
	size_t n_synced = 0;

	disk->n_bytes = 0;
	memset(disk->bytes, 0, 4 * MIB);
	for (size_t i = 0; i < n; i++) {
		if (steps[i].kind == STEP_SYNC)
			n_synced = i;
		if (steps[i].kind == STEP_ACK)
			acked = steps[i].acked;
	}
	for (size_t i = 0; i < n; i++) {
		if (steps[i].kind != STEP_WRITE)
			continue;
		if (i < n_synced)
			disk_write(disk, steps[i].offset, steps[i].bytes,
			    steps[i].n_bytes);
		else
			disk_write_torn(disk, &steps[i], random);
	}
	return acked;
}

/* ---- the tests ---- */

static void
record_store(const char *folder, uint64_t n_entries)
{
	struct hm_cache *cache;

	atomic_store(&n_steps, 0);
	atomic_store(&is_recording, true);
	cache = fixture_open(folder, CAP, 0);
	for (uint64_t i = 0; i < n_entries;) {
		for (uint64_t j = 0; j < 1 + i % 5; j++, i++)
			fixture_put(cache, i, size_of(i));
		hm_cache_flush(cache);
		step_new(STEP_ACK)->acked = i;
	}
	hm_cache_close(cache);
	atomic_store(&is_recording, false);
}

static void
check_cut(const char *folder, const struct disk *disk, uint64_t acked)
{
	struct hm_cache_stats stats;
	struct hm_cache *cache;

	fixture_write(folder, HM_STORE_DATA_FILE, disk->bytes, disk->n_bytes);
	cache = fixture_open(folder, CAP, 0);
	hm_cache_get_stats(cache, &stats);
	/* The two headers of a new file are one write, before anything was
	 * promised; a store that had been one is never set aside. */
	assert_true(acked == 0 || stats.notice[0] == '\0');
	/* Eviction begins at the cap and takes the oldest. */
	for (uint64_t i = acked > 20 ? acked - 20 : 0; i < acked; i++)
		assert_int_equal(fixture_get(cache, i, size_of(i)),
		    HM_CACHE_STORE);
	for (uint64_t i = acked; i < acked + 6; i++)
		(void)fixture_get(cache, i, size_of(i));
	hm_cache_get_stats(cache, &stats);
	assert_int_equal(stats.corrupt, 0);
	hm_cache_close(cache);
}

static void
test_cache_powercut__at_every_step_acknowledged_entries_stay(void **state)
{
	char *folder = fixture_folder_fast();
	struct disk disk = {.bytes = malloc(4 * MIB)};
	uint64_t random = 1;
	size_t n;

	(void)state;
	assert_non_null(disk.bytes);
	record_store(folder, 160); /* 3 MB into 2: evictions as well */
	n = atomic_load(&n_steps);
	assert_true(n > 300);
	for (size_t i = 1; i <= n; i++) {
		uint64_t acked = disk_after(&disk, i, &random);

		if (steps[i - 1].kind == STEP_WRITE)
			check_cut(folder, &disk, acked);
	}
	for (size_t i = 0; i < n; i++)
		free(steps[i].bytes);
	free(disk.bytes);
	fixture_remove(folder);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_cache_powercut__at_every_step_acknowledged_entries_stay),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cache_powercut", tests, NULL, NULL);
}
