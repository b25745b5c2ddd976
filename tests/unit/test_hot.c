/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hot.c - entries in memory, and the tier that keeps some of them.
 */
#include <sys/mman.h>
#include <sys/resource.h>

#include <errno.h>

#include "cache_fixture.h"

#include "cache/hot.h"

#define SMALL 1000u

static struct hm_hot *
new_hot(uint64_t cap_bytes)
{
	struct hm_hot *hot = NULL;

	assert_int_equal(hm_hot_new(cap_bytes, &hot), HM_OK);
	return hot;
}

static void
put(struct hm_hot *hot, uint64_t seed, size_t n_bytes)
{
	struct hm_entry *entry = fixture_entry(seed, n_bytes);

	assert_int_equal(hm_hot_put(hot, entry, 1), HM_OK);
	hm_entry_unref(entry);
}

static bool
has(struct hm_hot *hot, uint64_t seed)
{
	struct hm_digest key;

	fixture_key(seed, &key);
	return hm_hot_has(hot, &key);
}

static struct hm_entry *
find(struct hm_hot *hot, uint64_t seed, uint64_t epoch, bool *first_out)
{
	struct hm_digest key;

	fixture_key(seed, &key);
	return hm_hot_find(hot, &key, epoch, first_out);
}

static uint64_t
cost_of(size_t n_bytes)
{
	struct hm_entry *entry = fixture_entry(1, n_bytes);
	uint64_t cost = hm_entry_cost_bytes(entry);

	hm_entry_unref(entry);
	return cost;
}

static void
test_entry__any_size_keeps_its_bytes(void **state)
{
	const size_t sizes[] = {1, 7, 20000, HM_ENTRY_INLINE_BYTES,
	    HM_ENTRY_INLINE_BYTES + 1, 200000};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct hm_entry *entry = fixture_entry(i, sizes[i]);

		assert_true(fixture_entry_is(entry, i, sizes[i]));
		assert_int_equal(entry->fd != -1,
		    sizes[i] > HM_ENTRY_INLINE_BYTES);
		hm_entry_unref(entry);
	}
}

static void
test_entry__empty_image_is_invalid(void **state)
{
	struct hm_entry_parts parts = {.image = "x", .n_image = 0};
	struct hm_entry *entry = NULL;
	struct hm_digest key;

	(void)state;
	fixture_key(1, &key);
	assert_int_equal(hm_entry_new(&key, &parts, &entry), HM_E_INVALID);
	parts.image = NULL;
	parts.n_image = 5;
	assert_int_equal(hm_entry_new(&key, &parts, &entry), HM_E_INVALID);
	assert_null(entry);
}

static void
test_entry__large_image_is_sealed_and_closed_at_the_end(void **state)
{
	struct hm_entry *entry = fixture_entry(1, 100000);
	int fd = entry->fd;
	int seals = fcntl(fd, F_GET_SEALS);

	(void)state;
	assert_true((seals & F_SEAL_WRITE) != 0);
	assert_true((seals & F_SEAL_SHRINK) != 0);
	assert_true((seals & F_SEAL_GROW) != 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(write(fd, "x", 1), -1);

	(void)hm_entry_ref(entry);
	hm_entry_unref(entry);
	assert_true(fixture_entry_is(entry, 1, 100000));
	hm_entry_unref(entry);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(errno, EBADF);
	hm_entry_unref(NULL);
}

static void
test_entry__without_descriptors_fails_cleanly(void **state)
{
	struct rlimit before, none;
	struct hm_entry *entry = NULL;
	struct hm_digest key;
	uint8_t *image = fixture_image(1, 100000);
	const struct hm_entry_parts parts = {.image = image, .n_image = 100000};

	(void)state;
	fixture_key(1, &key);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(hm_entry_new(&key, &parts, &entry), HM_E_SYSTEM);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_null(entry);
	free(image);
}

static void
test_hot__put_then_find_returns_the_same_entry(void **state)
{
	struct hm_hot *hot = new_hot(MIB);
	struct hm_entry *entry = fixture_entry(5, SMALL);
	bool first;

	(void)state;
	assert_null(find(hot, 5, 1, &first));
	assert_int_equal(hm_hot_put(hot, entry, 1), HM_OK);
	assert_ptr_equal(find(hot, 5, 1, &first), entry);
	assert_null(find(hot, 6, 1, &first));
	assert_int_equal(hm_hot_entries(hot), 1);
	assert_int_equal(hm_hot_bytes(hot), hm_entry_cost_bytes(entry));
	hm_entry_unref(entry);
	hm_hot_free(hot);
	hm_hot_free(NULL);
}

static void
test_hot__over_cap_the_least_recently_used_leaves(void **state)
{
	struct hm_hot *hot = new_hot(3 * cost_of(SMALL));
	bool first;

	(void)state;
	put(hot, 1, SMALL);
	put(hot, 2, SMALL);
	put(hot, 3, SMALL);
	assert_non_null(find(hot, 1, 1, &first)); /* now 2 is the oldest */
	put(hot, 4, SMALL);
	assert_false(has(hot, 2));
	assert_true(has(hot, 1) && has(hot, 3) && has(hot, 4));
	put(hot, 5, SMALL);
	assert_false(has(hot, 3));
	assert_true(has(hot, 1));
	assert_int_equal(hm_hot_bytes(hot), 3 * cost_of(SMALL));
	hm_hot_free(hot);
}

static void
test_hot__same_key_replaces(void **state)
{
	struct hm_hot *hot = new_hot(MIB);
	struct hm_digest key;
	bool first;

	(void)state;
	put(hot, 1, SMALL);
	put(hot, 1, 2 * SMALL);
	assert_int_equal(hm_hot_entries(hot), 1);
	assert_int_equal(hm_hot_bytes(hot), cost_of(2 * SMALL));
	assert_true(fixture_entry_is(find(hot, 1, 1, &first), 1, 2 * SMALL));
	fixture_key(1, &key);
	assert_true(hm_hot_remove(hot, &key));
	assert_false(hm_hot_remove(hot, &key));
	assert_int_equal(hm_hot_bytes(hot), 0);
	hm_hot_free(hot);
}

static void
test_hot__entry_over_the_whole_cap_leaves_others_alone(void **state)
{
	struct hm_hot *hot = new_hot(2 * cost_of(SMALL));

	(void)state;
	put(hot, 1, SMALL);
	put(hot, 2, 10 * SMALL);
	assert_true(has(hot, 1));
	assert_false(has(hot, 2));
	/* The old one of that key must not be found in its stead. */
	put(hot, 1, 10 * SMALL);
	assert_false(has(hot, 1));
	assert_int_equal(hm_hot_bytes(hot), 0);
	hm_hot_free(hot);
}

static void
test_hot__evicted_entry_lives_while_held(void **state)
{
	struct hm_hot *hot = new_hot(cost_of(100000));
	struct hm_entry *held;
	bool first;

	(void)state;
	put(hot, 1, 100000);
	held = hm_entry_ref(find(hot, 1, 1, &first));
	put(hot, 2, 100000);
	assert_false(has(hot, 1));
	assert_true(fixture_entry_is(held, 1, 100000));
	hm_entry_unref(held);
	hm_hot_free(hot);
}

static void
test_hot__epoch_tells_the_first_use(void **state)
{
	struct hm_hot *hot = new_hot(MIB);
	bool first = true;

	(void)state;
	put(hot, 1, SMALL); /* epoch 1 */
	assert_non_null(find(hot, 1, 1, &first));
	assert_false(first);
	assert_non_null(find(hot, 1, 2, &first));
	assert_true(first);
	assert_non_null(find(hot, 1, 2, &first));
	assert_false(first);
	hm_hot_free(hot);
}

static void
test_hot__grows_and_finds_all(void **state)
{
	struct hm_hot *hot = new_hot(64 * MIB);
	bool first;

	(void)state;
	for (uint64_t i = 0; i < 5000; i++)
		put(hot, i, 10);
	assert_int_equal(hm_hot_entries(hot), 5000);
	for (uint64_t i = 0; i < 5000; i++)
		assert_true(fixture_entry_is(find(hot, i, 1, &first), i, 10));
	hm_hot_clear(hot);
	assert_int_equal(hm_hot_entries(hot), 0);
	assert_false(has(hot, 17));
	hm_hot_free(hot);
}

static void
test_hot__files_stay_under_half_the_limit(void **state)
{
	struct rlimit before, few;
	struct hm_hot *hot;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 40;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	hot = new_hot(64 * MIB);
	for (uint64_t i = 0; i < 60; i++)
		put(hot, i, 40000);
	assert_int_equal(hm_hot_entries(hot), 20);
	put(hot, 100, 10); /* holds none, so all stay */
	assert_int_equal(hm_hot_entries(hot), 21);
	hm_hot_free(hot);
	hot = new_hot(64 * MIB);
	hm_hot_limit_files(hot, 1000); /* never more than half */
	hm_hot_limit_files(hot, 7);
	for (uint64_t i = 0; i < 60; i++)
		put(hot, i, 40000);
	assert_int_equal(hm_hot_entries(hot), 7);
	hm_hot_free(hot);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* Whatever is done in whatever order: bytes = the sum, bytes <= cap. */
static bool
add_cost(const struct hm_entry *entry, void *arg)
{
	uint64_t *sum = arg;

	*sum += hm_entry_cost_bytes(entry);
	return true;
}

static void
test_hot__random_operations_keep_the_sum(void **state)
{
	const uint64_t cap = 200000;
	struct hm_hot *hot = new_hot(cap);
	uint64_t random = 7;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint64_t seed = fixture_random(&random) % 64;
		uint64_t sum = 0;
		struct hm_digest key;

		fixture_key(seed, &key);
		if (fixture_random(&random) % 4 == 0)
			(void)hm_hot_remove(hot, &key);
		else
			put(hot, seed, 1 + fixture_random(&random) % 9000);
		hm_hot_each(hot, add_cost, &sum);
		assert_int_equal(hm_hot_bytes(hot), sum);
		assert_true(sum <= cap);
	}
	hm_hot_free(hot);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_entry__any_size_keeps_its_bytes),
	    cmocka_unit_test(test_entry__empty_image_is_invalid),
	    cmocka_unit_test(
		test_entry__large_image_is_sealed_and_closed_at_the_end),
	    cmocka_unit_test(test_entry__without_descriptors_fails_cleanly),
	    cmocka_unit_test(test_hot__put_then_find_returns_the_same_entry),
	    cmocka_unit_test(test_hot__over_cap_the_least_recently_used_leaves),
	    cmocka_unit_test(test_hot__same_key_replaces),
	    cmocka_unit_test(
		test_hot__entry_over_the_whole_cap_leaves_others_alone),
	    cmocka_unit_test(test_hot__evicted_entry_lives_while_held),
	    cmocka_unit_test(test_hot__epoch_tells_the_first_use),
	    cmocka_unit_test(test_hot__grows_and_finds_all),
	    cmocka_unit_test(test_hot__files_stay_under_half_the_limit),
	    cmocka_unit_test(test_hot__random_operations_keep_the_sum),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("hot", tests, NULL, NULL);
}
