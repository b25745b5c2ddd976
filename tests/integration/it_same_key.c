/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_same_key.c - what differs from pod to pod and from start to start is in no
 * key: prefix of the installation, times of its files, environment, working
 * folder, pid, socket. All that one daemon built is a hit for the next.
 */
#include <sys/stat.h>

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
#include "tests/integration/wire.h"

static struct harness harness;

static const char *const specs[] = {"w4a16,m=1,n=8192,k=8192",
    "w4a16,m=64,n=8192,k=8192"};
static const char *const archs[] = {"sm_90a", "sm_80"};
#define N_KERNELS (2u * 2u + 1u)

static int
setup(void **state)
{
	(void)state;
	harness_init(&harness);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	harness_done(&harness);
	return 0;
}

static void
copy_program(const char *folder, const char *name)
{
	const char *build = getenv("HM_BIN_DIR");
	char path[512];
	char bytes[65536];
	ssize_t n;
	int in, out;

	(void)snprintf(path, sizeof(path), "%s/%s",
	    build == NULL ? HM_BIN_DIR : build, name);
	in = open(path, O_RDONLY | O_CLOEXEC);
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, bytes, sizeof(bytes))) > 0)
		assert_int_equal(hm_fd_write_all(out, bytes, (size_t)n), HM_OK);
	hm_fd_close(&in);
	hm_fd_close(&out);
}

/* Install hummingd at another prefix. */
static void
install_at(const char *name, char *folder_out, size_t size)
{
	(void)snprintf(folder_out, size, "%s/%s", harness.folder, name);
	assert_int_equal(mkdir(folder_out, 0700), 0);
	copy_program(folder_out, "hummingd");
	copy_program(folder_out, "humming-worker");
}

/* All kernels, and a source; in which tier each was. */
static void
ask_all(struct hm_digest *keys_out, uint32_t tier)
{
	const struct wire_source source = {
	    .text = "extern \"C\" __global__ void f(int *p) { *p = N; }\n",
	    .arch = "sm_80",
	    .option = "-DN=7"};
	struct wire_kernel kernel;
	struct wire wire;
	size_t n = 0;

	wire_open_ready(&wire, &harness);
	for (size_t s = 0; s < 2; s++) {
		for (size_t a = 0; a < 2; a++) {
			wire_get(&wire, specs[s], archs[a], &kernel);
			assert_int_equal(kernel.reply.error, HM_OK);
			assert_int_equal(kernel.reply.tier, tier);
			keys_out[n++] = kernel.reply.key;
			wire_kernel_done(&kernel);
		}
	}
	wire_compile(&wire, &source, &kernel);
	assert_int_equal(kernel.reply.error, HM_OK);
	assert_int_equal(kernel.reply.tier, tier);
	keys_out[n++] = kernel.reply.key;
	wire_kernel_done(&kernel);
	assert_int_equal(n, N_KERNELS);
	wire_close(&wire);
}

/* The driver is not there, and its compiler's cache, which would go stale with
 * the next driver, is neither read nor written. */
static void
expect_no_driver(const char *driver_cache)
{
	assert_false(harness_maps(&harness, "libcuda.so"));
	assert_int_equal(access(driver_cache, F_OK), -1);
}

/* A file gets another time: years ago, or to come. */
static void
touch(const char *folder, const char *name, time_t seconds)
{
	const struct timespec times[2] = {{.tv_sec = seconds},
	    {.tv_sec = seconds}};
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void
test_same_key__other_prefix_times_and_environment__all_hits(void **state)
{
	struct hm_digest first[N_KERNELS], again[N_KERNELS];
	char one[128], two[128], driver_cache[128], variable[160];

	(void)state;
	(void)snprintf(driver_cache, sizeof(driver_cache), "%s/nv",
	    harness.folder);
	(void)snprintf(variable, sizeof(variable), "CUDA_CACHE_PATH=%s",
	    driver_cache);
	harness.environment[0] = variable;
	install_at("prefix-one", one, sizeof(one));
	install_at("a-longer-prefix-two", two, sizeof(two));
	harness.program_folder = one;
	harness_start(&harness);
	ask_all(first, HM_TIER_BUILT);
	expect_no_driver(driver_cache);
	assert_int_equal(harness_stop(&harness), 0);

	touch(one, "hummingd", 1000000000);
	touch(one, "humming-worker", 4000000000);
	touch(harness.store, "data.mdb", 1000000000);
	touch(harness.store, "lock", 4000000000);
	harness_start(&harness);
	ask_all(again, HM_TIER_STORE);
	assert_memory_equal(first, again, sizeof(first));
	assert_int_equal(harness_stop(&harness), 0);

	harness.program_folder = two;
	harness.environment[0] = "HOSTNAME=pod-7f9c";
	harness.environment[1] = "DYN_SYSTEM_PORT=45123";
	harness.environment[2] = "CUDA_CACHE_PATH=/nowhere";
	harness.environment[3] = "TZ=Asia/Tokyo";
	harness.environment[4] = "LC_ALL=tr_TR.UTF-8";
	harness.environment[5] = "NVCC_APPEND_FLAGS=-G -lineinfo";
	harness.environment[6] = "HUMMING_WORKERS=1";
	(void)snprintf(harness.socket, sizeof(harness.socket), "%s/other",
	    harness.folder);
	harness_start(&harness);
	ask_all(again, HM_TIER_STORE);
	assert_memory_equal(first, again, sizeof(first));
}

/* ... and what it builds there is the same, byte for byte. */
static void
test_same_key__built_elsewhere__same_key_and_same_bytes(void **state)
{
	struct wire_kernel kernels[2];
	struct wire wire;
	char two[128];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		if (i == 1) {
			install_at("two", two, sizeof(two));
			harness.program_folder = two;
			harness.environment[0] = "NVCC_PREPEND_FLAGS=-O0";
			(void)snprintf(harness.store, sizeof(harness.store),
			    "%s/other-store", harness.folder);
		}
		harness_start(&harness);
		wire_open_ready(&wire, &harness);
		wire_get(&wire, specs[1], "sm_90a", &kernels[i]);
		assert_int_equal(kernels[i].reply.tier, HM_TIER_BUILT);
		wire_close(&wire);
		assert_int_equal(harness_stop(&harness), 0);
	}
	assert_true(
	    hm_digest_equal(&kernels[0].reply.key, &kernels[1].reply.key));
	assert_int_equal(kernels[0].n_image, kernels[1].n_image);
	assert_memory_equal(kernels[0].image, kernels[1].image,
	    kernels[0].n_image);
	wire_kernel_done(&kernels[0]);
	wire_kernel_done(&kernels[1]);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_same_key__other_prefix_times_and_environment__all_hits),
	    TEST(test_same_key__built_elsewhere__same_key_and_same_bytes),
	};

	return cmocka_run_group_tests_name("same_key", tests, NULL, NULL);
}
