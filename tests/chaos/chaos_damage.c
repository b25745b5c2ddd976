/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chaos_damage.c - stored bytes are damaged, between two lives of the daemon
 * and under the feet of a running one: whatever it serves afterwards is what
 * was stored, or built again; nothing damaged, no crash, no refused start.
 *
 * HM_CHAOS_DAMAGES sets how many mutations (30). Most daemons here have no
 * compiler, so that every answer with an image came from the store.
 */
#include <sys/mman.h>
#include <sys/stat.h>

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/fd.h"
#include "tests/chaos/chaos.h"

#define N_KEYS 6u
/* Of a running daemon's file, per life. */
#define N_ONLINE 20u

static struct harness harness;
/* What was stored: all other bytes under these keys are wrong. */
static struct wire_kernel stored[N_KEYS];
static uint64_t n_mutations, n_served, n_missed, n_aside, n_corrupt;

static void
data_path(char *path_out, size_t size)
{
	(void)snprintf(path_out, size, "%s/data.mdb", harness.store);
}

static int
setup(void **state)
{
	(void)state;
	harness_init(&harness);
	harness.environment[0] = "HUMMING_HOT_BYTES=0";
	harness.environment[1] = "HUMMING_WORKERS=1";
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	harness_done(&harness);
	return 0;
}

/* Kernels of ours: they need no compiler once they are stored. */
static void
ask(struct wire *wire, uint32_t i, struct wire_kernel *kernel_out)
{
	static const char *const archs[N_KEYS] = {"sm_80", "sm_86", "sm_89",
	    "sm_90a", "sm_100", "sm_120"};

	wire_get(wire, "w4a16,m=1,n=8192,k=8192", archs[i], kernel_out);
}

/* Ask for all keys; count what came, and hold it against what was stored. */
static void
ask_all(struct wire *wire, bool has_compiler)
{
	struct wire_kernel kernel;

	for (uint32_t i = 0; i < N_KEYS; i++) {
		ask(wire, i, &kernel);
		if (kernel.reply.error != HM_OK) {
			if (has_compiler)
				fail_msg("key %u: %s", i, kernel.reply.message);
			assert_int_equal(kernel.reply.error, HM_E_UNSUPPORTED);
			n_missed++;
		} else {
			assert_true(hm_digest_equal(&stored[i].reply.key,
			    &kernel.reply.key));
			assert_int_equal(kernel.n_image, stored[i].n_image);
			assert_memory_equal(kernel.image, stored[i].image,
			    kernel.n_image);
			n_served++;
		}
		wire_kernel_done(&kernel);
	}
}

/* Build and store all keys; note their bytes. */
static void
fill_store(void)
{
	struct wire wire;

	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	for (uint32_t i = 0; i < N_KEYS; i++) {
		ask(&wire, i, &stored[i]);
		assert_int_equal(stored[i].reply.error, HM_OK);
	}
	wire_wait_number(&wire, HM_FRAME_STATUS, "tiers.store.entries", N_KEYS);
	wire_close(&wire);
	assert_int_equal(harness_stop(&harness), 0);
}

static void
read_data(uint8_t **bytes_out, size_t *n_out)
{
	char path[160];
	struct stat status = {.st_size = 0};
	uint8_t *bytes;
	int fd;

	data_path(path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && fstat(fd, &status) == 0);
	bytes = malloc((size_t)status.st_size + 1);
	assert_non_null(bytes);
	assert_int_equal(read(fd, bytes, (size_t)status.st_size),
	    status.st_size);
	hm_fd_close(&fd);
	*bytes_out = bytes;
	*n_out = (size_t)status.st_size;
}

static void
write_data(const uint8_t *bytes, size_t n_bytes)
{
	char path[160];
	int fd;

	data_path(path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(hm_fd_write_all(fd, bytes, n_bytes), HM_OK);
	hm_fd_close(&fd);
}

/* What was set aside; removed, so that it does not pile up. */
static void
remove_aside(void)
{
	DIR *folder = opendir(harness.store);
	const struct dirent *entry;

	assert_non_null(folder);
	while ((entry = readdir(folder)) != NULL) {
		if (strncmp(entry->d_name, "data.mdb.aside", 14) != 0)
			continue;
		assert_int_equal(unlinkat(dirfd(folder), entry->d_name, 0), 0);
		n_aside++;
	}
	(void)closedir(folder);
}

/* A bit, a byte, a run of zeros or of other bytes; or the end is missing. */
static size_t
mutate(uint8_t *bytes, size_t n_bytes)
{
	size_t at = chaos_random(n_bytes), from = chaos_random(n_bytes);
	size_t n = 1 + chaos_random(64);

	/* Half of them in the pages that say where all others are. */
	if (chaos_random(2) == 0)
		at = chaos_random(n_bytes < 65536 ? n_bytes : 65536);
	if (n > n_bytes - at)
		n = n_bytes - at;
	if (n > n_bytes - from)
		n = n_bytes - from;
	switch (chaos_random(16)) {
	case 0:
		return at;
	case 1:
	case 2:
		memset(bytes + at, 0, n);
		break;
	case 3:
	case 4:
		memmove(bytes + at, bytes + from, n);
		break;
	case 5:
	case 6:
	case 7:
		bytes[at] = (uint8_t)chaos_random(256);
		break;
	default:
		bytes[at] ^= (uint8_t)(1u << chaos_random(8));
		break;
	}
	return n_bytes;
}

static void
start(struct wire *wire)
{
	harness_start(&harness);
	wire_open(wire, &harness);
}

static void
stop(struct wire *wire)
{
	n_corrupt += wire_number(wire, HM_FRAME_STATS, "corrupt");
	wire_close(wire);
	assert_int_equal(harness_stop(&harness), 0);
	remove_aside();
}

/* Turn a bit in a stored image while the daemon runs: its map shows it at
 * once. A page that is an image's and nothing else's is found by its bytes. */
static void
damage_running(const uint8_t *whole, size_t n_whole)
{
	const struct wire_kernel *kernel = &stored[chaos_random(N_KEYS)];
	size_t from = chaos_random(kernel->n_image - 512);
	const uint8_t *page = memmem(whole, n_whole, kernel->image + from, 512);
	char path[160];
	uint8_t byte;
	off_t at;
	int fd;

	if (page == NULL)
		return;
	data_path(path, sizeof(path));
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	at = page - whole + (off_t)chaos_random(512);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= (uint8_t)(1u << chaos_random(8));
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	hm_fd_close(&fd);
}

static void
one_life(const uint8_t *whole, size_t n_whole, uint8_t *copy)
{
	struct wire wire;
	size_t n_bytes;

	memcpy(copy, whole, n_whole);
	n_bytes = mutate(copy, n_whole);
	write_data(copy, n_bytes);
	n_mutations++;
	start(&wire);
	ask_all(&wire, false);
	stop(&wire);
}

static void
one_life_with_damage(const uint8_t *whole, size_t n_whole)
{
	struct wire wire;

	write_data(whole, n_whole);
	start(&wire);
	ask_all(&wire, false);
	for (uint32_t i = 0; i < N_ONLINE; i++) {
		damage_running(whole, n_whole);
		n_mutations++;
		ask_all(&wire, false);
	}
	stop(&wire);
}

static void
test_chaos__damaged_bytes__are_never_served(void **state)
{
	uint64_t n = harness_number("HM_CHAOS_DAMAGES", 30);
	uint8_t *whole = NULL, *copy;
	size_t n_whole = 0;
	struct wire wire;

	(void)state;
	fill_store();
	read_data(&whole, &n_whole);
	copy = malloc(n_whole + 1);
	assert_non_null(copy);
	harness.environment[2] = "HUMMING_NVRTC=/nonexistent";
	while (n_mutations < n) {
		one_life(whole, n_whole, copy);
		if (n_mutations % (4 * N_ONLINE) == N_ONLINE)
			one_life_with_damage(whole, n_whole);
	}
	print_message("%llu mutations of %zu bytes: %llu answers as stored, "
		      "%llu misses, %llu values found damaged, %llu stores "
		      "set aside\n",
	    (unsigned long long)n_mutations, n_whole,
	    (unsigned long long)n_served, (unsigned long long)n_missed,
	    (unsigned long long)n_corrupt, (unsigned long long)n_aside);
	assert_true(n_served > 0 && n_corrupt > 0);
	/* With a compiler, damage costs a build and nothing else. */
	memcpy(copy, whole, n_whole);
	write_data(copy, mutate(copy, n_whole));
	harness.environment[2] = NULL;
	start(&wire);
	wire_expect_compiler(&wire);
	ask_all(&wire, true);
	stop(&wire);
	for (uint32_t i = 0; i < N_KEYS; i++)
		wire_kernel_done(&stored[i]);
	free(whole);
	free(copy);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		test_chaos__damaged_bytes__are_never_served, setup, teardown),
	};

	return cmocka_run_group_tests_name("chaos_damage", tests, NULL, NULL);
}
