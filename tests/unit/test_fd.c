/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fd.c - seals hold against everything a peer could try.
 */
#include <sys/mman.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/fd.h"

#define ALL_SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

static int
sealed_file(const char *text)
{
	int fd = -1;

	assert_int_equal(hm_fd_seal("hm-test", text, strlen(text), &fd), HM_OK);
	assert_int_not_equal(fd, -1);
	return fd;
}

static void
expect_sealed(int fd, size_t n_bytes)
{
	char byte = 'x';
	void *map;

	assert_int_equal(fcntl(fd, F_GET_SEALS) & ALL_SEALS, ALL_SEALS);
	assert_int_equal(pwrite(fd, &byte, 1, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, (off_t)n_bytes + 1), -1);
	assert_int_equal(errno, EPERM);
	map = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_equal(map, MAP_FAILED);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
}

static void
test_fd__close_sets_minus_one_and_keeps_errno(void **state)
{
	int fd = sealed_file("x");
	int copy = fd;

	(void)state;
	errno = ENOTDIR;
	hm_fd_close(&fd);
	assert_int_equal(fd, -1);
	assert_int_equal(errno, ENOTDIR);
	assert_int_equal(fcntl(copy, F_GETFD), -1);
	errno = ENOTDIR;
	hm_fd_close(&fd);
	assert_int_equal(errno, ENOTDIR);
	/* Also when close itself fails. */
	hm_fd_close(&copy);
	assert_int_equal(errno, ENOTDIR);
	assert_int_equal(copy, -1);
}

static void
test_fd__sealed_file_cannot_change(void **state)
{
	const char *text = "immutable";
	const void *bytes;
	size_t n_bytes;
	int fd = sealed_file(text);

	(void)state;
	expect_sealed(fd, strlen(text));
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(hm_fd_map_sealed(fd, strlen(text), &bytes, &n_bytes),
	    HM_OK);
	assert_int_equal(n_bytes, strlen(text));
	assert_memory_equal(bytes, text, n_bytes);
	hm_fd_close(&fd);
	assert_memory_equal(bytes, text, n_bytes);
	hm_fd_unmap(bytes, n_bytes);
	hm_fd_unmap(NULL, 0);
}

static void
test_fd__bad_arguments_are_refused(void **state)
{
	char name[251];
	int fd = -7;

	(void)state;
	memset(name, 'n', sizeof name);
	name[250] = '\0';
	assert_int_equal(hm_fd_seal("n", NULL, 1, &fd), HM_E_INVALID);
	assert_int_equal(hm_fd_seal("n", "x", 0, &fd), HM_E_INVALID);
	assert_int_equal(hm_fd_seal(NULL, "x", 1, &fd), HM_E_INVALID);
	assert_int_equal(hm_fd_seal(name, "x", 1, &fd), HM_E_INVALID);
	assert_int_equal(hm_fd_memory("n", 0, &fd), HM_E_INVALID);
	assert_int_equal(hm_fd_memory("n", SIZE_MAX, &fd), HM_E_INVALID);
	assert_int_equal(hm_fd_memory(NULL, 1, &fd), HM_E_INVALID);
	assert_int_equal(fd, -7);
	name[249] = '\0';
	assert_int_equal(hm_fd_seal(name, "x", 1, &fd), HM_OK);
	hm_fd_close(&fd);
}

static void
test_fd__memory_has_its_size_and_is_zero(void **state)
{
	uint8_t bytes[100];
	struct stat status;
	int fd = -1;

	(void)state;
	assert_int_equal(hm_fd_memory("hm-test", 5000, &fd), HM_OK);
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_size, 5000);
	assert_int_equal(pread(fd, bytes, 100, 4900), 100);
	for (size_t i = 0; i < sizeof bytes; i++)
		assert_int_equal(bytes[i], 0);
	assert_int_equal(pwrite(fd, "x", 1, 4999), 1);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	hm_fd_close(&fd);
}

static void
test_fd__existing_file_is_cut_and_sealed(void **state)
{
	const void *bytes;
	size_t n_bytes;
	int fd = -1;

	(void)state;
	assert_int_equal(hm_fd_memory("hm-test", 1 << 20, &fd), HM_OK);
	assert_int_equal(pwrite(fd, "result", 6, 0), 6);
	assert_int_equal(hm_fd_seal_existing(fd, 0), HM_E_INVALID);
	assert_int_equal(hm_fd_seal_existing(fd, 6), HM_OK);
	expect_sealed(fd, 6);
	assert_int_equal(hm_fd_map_sealed(fd, 100, &bytes, &n_bytes), HM_OK);
	assert_int_equal(n_bytes, 6);
	assert_memory_equal(bytes, "result", 6);
	hm_fd_unmap(bytes, n_bytes);
	/* What is sealed already cannot be cut. */
	assert_int_equal(hm_fd_seal_existing(fd, 3), HM_E_SYSTEM);
	assert_int_equal(errno, EPERM);
	hm_fd_close(&fd);
}

static void
test_fd__file_mapped_for_writing_is_busy(void **state)
{
	uint8_t *map;
	int fd = -1;

	(void)state;
	assert_int_equal(hm_fd_memory("hm-test", 4096, &fd), HM_OK);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	map[0] = 1;
	assert_int_equal(hm_fd_seal_existing(fd, 100), HM_E_BUSY);
	assert_int_equal(munmap(map, 4096), 0);
	assert_int_equal(hm_fd_seal_existing(fd, 100), HM_OK);
	hm_fd_close(&fd);
}

static void
expect_map(int fd, size_t limit_bytes, int expected)
{
	const void *bytes = &fd;
	size_t n_bytes = 77;

	assert_int_equal(hm_fd_map_sealed(fd, limit_bytes, &bytes, &n_bytes),
	    expected);
	assert_ptr_equal(bytes, &fd);
	assert_int_equal(n_bytes, 77);
}

/* Leave out one seal at a time: each is needed. */
static void
test_fd__partly_sealed_file_is_not_mapped(void **state)
{
	const int seals[] = {F_SEAL_WRITE, F_SEAL_GROW, F_SEAL_SHRINK,
	    F_SEAL_SEAL, ALL_SEALS, F_SEAL_WRITE | F_SEAL_SEAL};

	(void)state;
	for (size_t i = 0; i < sizeof seals / sizeof seals[0]; i++) {
		int fd = -1;

		assert_int_equal(hm_fd_memory("hm-test", 10, &fd), HM_OK);
		assert_int_equal(fcntl(fd, F_ADD_SEALS, ALL_SEALS & ~seals[i]),
		    0);
		expect_map(fd, 100, HM_E_PROTOCOL);
		hm_fd_close(&fd);
	}
}

/* F_SEAL_FUTURE_WRITE lets a map made before go on writing. */
static void
test_fd__future_write_seal_is_not_enough(void **state)
{
	const int seals = (ALL_SEALS & ~F_SEAL_WRITE) | F_SEAL_FUTURE_WRITE;
	int fd = -1;

	(void)state;
	assert_int_equal(hm_fd_memory("hm-test", 10, &fd), HM_OK);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	expect_map(fd, 100, HM_E_PROTOCOL);
	hm_fd_close(&fd);
}

static void
test_fd__size_outside_the_limit_is_not_mapped(void **state)
{
	int empty = memfd_create("hm-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int fd = sealed_file("12345");

	(void)state;
	expect_map(fd, 4, HM_E_PROTOCOL);
	expect_map(fd, 0, HM_E_PROTOCOL);
	assert_int_equal(fcntl(empty, F_ADD_SEALS, ALL_SEALS), 0);
	expect_map(empty, 100, HM_E_PROTOCOL);
	hm_fd_close(&fd);
	hm_fd_close(&empty);
}

static void
test_fd__other_descriptors_are_not_mapped(void **state)
{
	int ends[2];
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_not_equal(file, -1);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	expect_map(file, SIZE_MAX, HM_E_PROTOCOL);
	expect_map(ends[0], SIZE_MAX, HM_E_PROTOCOL);
	expect_map(-1, SIZE_MAX, HM_E_SYSTEM);
	assert_int_equal(errno, EBADF);
	hm_fd_close(&file);
	hm_fd_close(&ends[0]);
	hm_fd_close(&ends[1]);
}

struct drain {
	int fd;
	size_t n_bytes;
};

static void *
drain_thread(void *arg)
{
	struct drain *drain = arg;
	uint8_t bytes[4096];
	ssize_t n;

	while ((n = read(drain->fd, bytes, sizeof bytes)) > 0)
		drain->n_bytes += (size_t)n;
	return NULL;
}

/* A pipe takes 64 KiB at once: the rest needs more than one write. */
static void
test_fd__write_all_survives_short_writes(void **state)
{
	const size_t n_bytes = 1 << 20;
	uint8_t *bytes = calloc(1, n_bytes);
	struct drain drain = {0};
	pthread_t thread;
	int ends[2];

	(void)state;
	assert_non_null(bytes);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	drain.fd = ends[0];
	assert_int_equal(pthread_create(&thread, NULL, drain_thread, &drain),
	    0);
	assert_int_equal(hm_fd_write_all(ends[1], bytes, n_bytes), HM_OK);
	hm_fd_close(&ends[1]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(drain.n_bytes, n_bytes);
	assert_int_equal(hm_fd_write_all(ends[0], bytes, 1), HM_E_SYSTEM);
	assert_int_equal(errno, EBADF);
	assert_int_equal(hm_fd_write_all(-1, NULL, 0), HM_OK);
	hm_fd_close(&ends[0]);
	free(bytes);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_fd__close_sets_minus_one_and_keeps_errno),
	    cmocka_unit_test(test_fd__sealed_file_cannot_change),
	    cmocka_unit_test(test_fd__bad_arguments_are_refused),
	    cmocka_unit_test(test_fd__memory_has_its_size_and_is_zero),
	    cmocka_unit_test(test_fd__existing_file_is_cut_and_sealed),
	    cmocka_unit_test(test_fd__file_mapped_for_writing_is_busy),
	    cmocka_unit_test(test_fd__partly_sealed_file_is_not_mapped),
	    cmocka_unit_test(test_fd__future_write_seal_is_not_enough),
	    cmocka_unit_test(test_fd__size_outside_the_limit_is_not_mapped),
	    cmocka_unit_test(test_fd__other_descriptors_are_not_mapped),
	    cmocka_unit_test(test_fd__write_all_survives_short_writes),
	};

	return cmocka_run_group_tests_name("fd", tests, NULL, NULL);
}
