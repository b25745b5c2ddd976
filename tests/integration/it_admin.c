/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_admin.c - what an administrator asks of a living daemon: verify, evict,
 * pin, drain, reload; and what becomes of kernels by quota, age and damage.
 */
#include <sys/file.h>

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/integration/wire.h"

static struct harness harness;

static int
setup(void **state)
{
	harness_init(&harness);
	harness.environment[0] = "HUMMING_WORKERS=1";
	*state = &harness;
	return 0;
}

static int
teardown(void **state)
{
	harness_done(*state);
	return 0;
}

/* A small source of its own for each number. */
static void
build(struct wire *wire, unsigned number, struct wire_kernel *kernel_out)
{
	char option[32];
	const struct wire_source source = {
	    .text = "extern \"C\" __global__ void f(int *p) { *p = N; }\n",
	    .arch = "sm_80",
	    .option = option};

	(void)snprintf(option, sizeof(option), "-DN=%u", number);
	wire_compile(wire, &source, kernel_out);
	assert_int_equal(kernel_out->reply.error, HM_OK);
}

static uint32_t
build_tier(struct wire *wire, unsigned number, struct hm_digest *key_out)
{
	struct wire_kernel kernel;
	uint32_t tier;

	build(wire, number, &kernel);
	tier = kernel.reply.tier;
	if (key_out != NULL)
		*key_out = kernel.reply.key;
	wire_kernel_done(&kernel);
	return tier;
}

/* The command works, and says this of a number. */
static void
expect_number(struct wire *wire, uint32_t command, const struct hm_digest *key,
    const char *name, long long wanted)
{
	char line[512] = "";
	int error;
	json_t *json =
	    wire_admin(wire, command, key, &error, line, sizeof(line));

	if (json == NULL)
		fail_msg("%d: %s", error, line);
	assert_int_equal(json_integer_value(json_object_get(json, name)),
	    wanted);
	json_decref(json);
}

static void
expect_error(struct wire *wire, uint32_t command, const struct hm_digest *key,
    int wanted, const char *word)
{
	char line[512] = "";
	int error;

	assert_null(wire_admin(wire, command, key, &error, line, sizeof(line)));
	assert_int_equal(error, wanted);
	if (strstr(line, word) == NULL)
		fail_msg("not '%s': %s", word, line);
}

/* The command works; whatever it says. */
static void
expect_works(struct wire *wire, uint32_t command, const struct hm_digest *key)
{
	char line[512] = "";
	int error;
	json_t *json =
	    wire_admin(wire, command, key, &error, line, sizeof(line));

	if (json == NULL)
		fail_msg("%d: %s", error, line);
	json_decref(json);
}

static void
test_admin__pinned_kernel__outlives_evict_and_restart(void **state)
{
	struct hm_digest pinned, other, never = {{1}};
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	assert_int_equal(build_tier(&wire, 1, &pinned), HM_TIER_BUILT);
	assert_int_equal(build_tier(&wire, 2, &other), HM_TIER_BUILT);
	/* At once: what was put before is stored before. */
	expect_works(&wire, HM_ADMIN_PIN, &pinned);
	expect_error(&wire, HM_ADMIN_PIN, &never, HM_E_UNAVAILABLE,
	    "no kernel");
	expect_error(&wire, HM_ADMIN_EVICT, &pinned, HM_E_INVALID, "unpin");
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "pinned"), 1);
	expect_number(&wire, HM_ADMIN_EVICT, &other, "evicted", 1);
	expect_number(&wire, HM_ADMIN_EVICT, &other, "evicted", 0);
	assert_int_equal(build_tier(&wire, 2, NULL), HM_TIER_BUILT);
	expect_number(&wire, HM_ADMIN_EVICT_ALL, NULL, "evicted", 1);
	assert_int_equal(build_tier(&wire, 1, NULL), HM_TIER_STORE);
	assert_int_equal(build_tier(&wire, 2, NULL), HM_TIER_BUILT);
	wire_close(&wire);
	assert_int_equal(harness_stop(&harness), 0);
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "pinned"), 1);
	expect_works(&wire, HM_ADMIN_UNPIN, &pinned);
	expect_number(&wire, HM_ADMIN_EVICT_ALL, NULL, "evicted", 2);
	assert_int_equal(build_tier(&wire, 1, NULL), HM_TIER_BUILT);
	wire_close(&wire);
}

/* The same bytes again, but of a build of its own: to the microsecond four
 * never take equally long. */
static void
test_admin__built_again__says_its_own_time(void **state)
{
	struct wire_kernel kernel;
	uint32_t first_us = 0;
	bool differs = false;
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	for (unsigned int i = 0; i < 4; i++) {
		wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
		assert_int_equal(kernel.reply.tier, HM_TIER_BUILT);
		if (i == 0)
			first_us = kernel.reply.meta.compile_us;
		differs |= kernel.reply.meta.compile_us != first_us;
		expect_number(&wire, HM_ADMIN_EVICT, &kernel.reply.key,
		    "evicted", 1);
		wire_kernel_done(&kernel);
	}
	assert_true(differs);
	wire_close(&wire);
}

/* Change a byte of what is stored of an image, behind the daemon's back. */
static void
damage(const struct wire_kernel *kernel)
{
	char path[160];
	size_t n = 0;
	uint8_t *bytes = malloc(16u << 20);
	uint8_t *at;
	uint8_t byte;
	ssize_t got;
	int fd;

	assert_non_null(bytes);
	(void)snprintf(path, sizeof(path), "%s/data.mdb", harness.store);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd != -1);
	while ((got = read(fd, bytes + n, (16u << 20) - n)) > 0)
		n += (size_t)got;
	/* Whole: the others differ in a number only. */
	at = memmem(bytes, n, kernel->image, kernel->n_image);
	assert_non_null(at);
	byte = (uint8_t)(at[500] ^ 4);
	assert_int_equal(pwrite(fd, &byte, 1, at + 500 - bytes), 1);
	(void)close(fd);
	free(bytes);
}

static void
test_admin__verify__finds_damage_while_hits_go_on(void **state)
{
	struct wire_kernel kernel;
	struct hm_frame frame;
	struct wire admin;
	struct wire wire;
	uint32_t tier;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&admin, &harness);
	for (unsigned i = 1; i < 10; i++)
		(void)build_tier(&wire, i, NULL);
	build(&wire, 99, &kernel);
	wire_wait_number(&wire, HM_FRAME_STATS, "entries", 10);
	expect_number(&admin, HM_ADMIN_VERIFY, NULL, "damaged", 0);
	damage(&kernel);
	(void)wire_send_admin(&admin, HM_ADMIN_VERIFY, NULL);
	do {
		tier = build_tier(&wire, 5, NULL);
		assert_true(tier == HM_TIER_HOT || tier == HM_TIER_STORE);
	} while (!wire_recv(&admin, &frame, 0));
	assert_int_equal(frame.type, HM_FRAME_TEXT);
	assert_non_null(
	    memmem(frame.body, frame.n_body, "\"checked\":10,", 13));
	assert_non_null(memmem(frame.body, frame.n_body, "\"damaged\":1}", 12));
	expect_number(&admin, HM_ADMIN_VERIFY, NULL, "checked", 9);
	assert_int_equal(wire_number(&admin, HM_FRAME_STATS, "corrupt"), 1);
	wire_kernel_done(&kernel);
	wire_close(&wire);
	wire_close(&admin);
	assert_int_equal(harness_stop(&harness), 0);
	/* Gone, and built anew: never served. */
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	assert_int_equal(build_tier(&wire, 99, NULL), HM_TIER_BUILT);
	assert_int_equal(build_tier(&wire, 5, NULL), HM_TIER_STORE);
	wire_close(&wire);
}

/* A damaged value that is asked for: a counted miss, built anew. */
static void
test_admin__damaged_value__is_a_counted_miss(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	build(&wire, 1, &kernel);
	wire_close(&wire);
	assert_int_equal(harness_stop(&harness), 0);
	damage(&kernel);
	wire_kernel_done(&kernel);
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	assert_int_equal(build_tier(&wire, 1, NULL), HM_TIER_BUILT);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "corrupt"), 1);
	wire_close(&wire);
}

static void
test_admin__too_old_kernel__is_built_again(void **state)
{
	struct wire wire;
	uint64_t until_ms = harness_now_ms() + HARNESS_WAIT_MS;
	uint32_t tier = HM_TIER_HOT;

	(void)state;
	harness.environment[1] = "HUMMING_STORE_TTL_S=2";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	assert_int_equal(build_tier(&wire, 1, NULL), HM_TIER_BUILT);
	while (tier != HM_TIER_BUILT && harness_now_ms() < until_ms)
		tier = build_tier(&wire, 1, NULL);
	assert_int_equal(tier, HM_TIER_BUILT);
	/* And by itself it leaves the store. */
	wire_wait_number(&wire, HM_FRAME_STATS, "entries", 0);
	assert_true(wire_number(&wire, HM_FRAME_STATS, "expired") >= 1);
	wire_close(&wire);
}

static void
test_admin__user_over_his_quota__evicts_himself(void **state)
{
	static const char text[] =
	    "__device__ int table[50000] = {N, 1};\n"
	    "extern \"C\" __global__ void f(int *p) { *p = table[*p]; }\n";
	char option[32];
	const struct wire_source source = {.text = text,
	    .arch = "sm_80",
	    .option = option};
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	harness.environment[1] = "HUMMING_STORE_QUOTA=1M";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	/* Everybody's, and older than all that follows. */
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	for (int i = 0; i < 12; i++) {
		(void)snprintf(option, sizeof(option), "-DN=%d", i);
		wire_compile(&wire, &source, &kernel);
		assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
		wire_kernel_done(&kernel);
	}
	wire_wait_number(&wire, HM_FRAME_STATS, "over_quota", 7);
	assert_true(wire_number(&wire, HM_FRAME_STATS, "bytes") < 1100000);
	wire_close(&wire);
	assert_int_equal(harness_stop(&harness), 0);
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.tier, HM_TIER_STORE);
	wire_kernel_done(&kernel);
	wire_compile(&wire, &source, &kernel); /* the newest */
	assert_int_equal(kernel.reply.tier, HM_TIER_STORE);
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

static void
test_admin__drain__finishes_and_leaves(void **state)
{
	char *text = wire_slow_source(300, 1);
	const struct wire_source source = {.text = text, .arch = "sm_80"};
	struct wire_kernel kernel;
	struct hm_frame frame;
	struct wire admin;
	struct wire wire;
	char path[128];
	int lock_fd;

	(void)state;
	harness.is_system = true;
	harness.environment[1] = "HUMMING_LIMITS_DRAIN_MS=20000";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&admin, &harness);
	(void)wire_send_compile(&wire, &source);
	free(text);
	wire_wait_number(&admin, HM_FRAME_STATUS, "workers.building", 1);
	expect_works(&admin, HM_ADMIN_DRAIN, NULL);
	assert_true(wire_recv_kernel(&wire, &kernel));
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	/* Who sees the end of his connection may start the next one. */
	assert_false(wire_recv(&admin, &frame, 20000));
	(void)snprintf(path, sizeof(path), "%s.lock", harness.socket);
	lock_fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(lock_fd != -1);
	assert_int_equal(flock(lock_fd, LOCK_EX | LOCK_NB), 0);
	(void)close(lock_fd);
	assert_int_equal(harness_wait(&harness), 0);
	wire_close(&admin);
	wire_close(&wire);
}

static void
test_admin__reload__is_answered(void **state)
{
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	expect_works(&wire, HM_ADMIN_RELOAD, NULL);
	wire_expect_compiler(&wire);
	assert_int_equal(build_tier(&wire, 1, NULL), HM_TIER_BUILT);
	wire_close(&wire);
}

/* Who asks for something long and goes away leaves nothing behind. */
static void
test_admin__client_vanishes__task_is_finished(void **state)
{
	const uint64_t end = harness_now_ms() + 10000;
	struct wire admin;
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	(void)build_tier(&wire, 1, NULL);
	for (int i = 0; i < 20; i++) {
		wire_open(&admin, &harness);
		(void)wire_send_admin(&admin, HM_ADMIN_VERIFY, NULL);
		wire_close(&admin);
	}
	for (;;) {
		char line[512];
		int error;
		json_t *json = wire_admin(&wire, HM_ADMIN_VERIFY, NULL, &error,
		    line, sizeof(line));

		json_decref(json);
		if (json != NULL)
			break;
		assert_int_equal(error, HM_E_BUSY);
		/* Who asks again and again does not put its end off. */
		assert_true(harness_now_ms() < end);
	}
	wire_close(&wire);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_admin__pinned_kernel__outlives_evict_and_restart),
	    TEST(test_admin__built_again__says_its_own_time),
	    TEST(test_admin__verify__finds_damage_while_hits_go_on),
	    TEST(test_admin__damaged_value__is_a_counted_miss),
	    TEST(test_admin__too_old_kernel__is_built_again),
	    TEST(test_admin__user_over_his_quota__evicts_himself),
	    TEST(test_admin__drain__finishes_and_leaves),
	    TEST(test_admin__reload__is_answered),
	    TEST(test_admin__client_vanishes__task_is_finished),
	};

	return cmocka_run_group_tests_name("admin", tests, NULL, NULL);
}
