/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_codec_hostile.c - bodies nobody of ours would send, and no memory.
 *
 * Meant to run under the address sanitizer too: bodies lie in blocks of
 * exactly their size. Whatever unpack accepts must be what pack accepts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec_samples.h"
#include "fake_alloc.h"
#include "proto/codec.h"
#include "proto/frame.h"

/* What wire.c grants, and as much again for the struct that we return. */
#define HELD_LIMIT_BYTES(n_body) ((size_t)192 * 1024 + 5 * (n_body))

/* The largest number with a tag of one byte; no message has it. */
#define UNKNOWN_FIELD 15

static uint64_t random_state;

static uint32_t
random_below(uint32_t n)
{
	random_state =
	    random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((random_state >> 32) % n);
}

static int
hostile_open(void **state)
{
	(void)state;
	random_state = 0x9e3779b97f4a7c15u;
	return 0;
}

/* HM_OK, or refused as malformed: nothing else. */
static int
try_body(const struct codec_subject *subject, const uint8_t *bytes, size_t n)
{
	static uint8_t again[HM_FRAME_MAX_BYTES];
	uint8_t *body = malloc(n > 0 ? n : 1);
	size_t n_again = 0;
	int error;

	assert_non_null(body);
	memcpy(body, bytes, n);
	error = subject->repack(body, n, again, &n_again);
	assert_true(error == HM_OK || error == HM_E_PROTOCOL);
	assert_true(n_again <= n);
	free(body);
	return error;
}

static void
test_codec_hostile__truncated_bodies_never_crash(void **state)
{
	static uint8_t body[HM_FRAME_MAX_BYTES];
	size_t n_refused = 0;
	size_t n_tried = 0;

	(void)state;
	for (size_t i = 0; i < CODEC_N_SUBJECTS; i++) {
		size_t n = 0;

		assert_int_equal(codec_subjects[i].pack(body, sizeof body, &n),
		    HM_OK);
		assert_int_equal(try_body(&codec_subjects[i], body, n), HM_OK);
		/* Every cut of a small body, some of a large one. */
		for (size_t cut = 0; cut < n; cut += 1 + n / 1500) {
			n_tried++;
			n_refused +=
			    try_body(&codec_subjects[i], body, cut) != HM_OK;
		}
	}
	assert_true(n_tried > 5000);
	assert_true(n_refused > n_tried / 2);
}

/* A few bytes of a valid body changed, among them lengths and tags. */
static void
test_codec_hostile__mutated_bodies_never_crash(void **state)
{
	static uint8_t body[HM_FRAME_MAX_BYTES], mutant[HM_FRAME_MAX_BYTES];
	size_t n_accepted = 0;

	(void)state;
	for (size_t i = 0; i < CODEC_N_SUBJECTS; i++) {
		size_t n = 0;
		size_t n_rounds;

		assert_int_equal(codec_subjects[i].pack(body, sizeof body, &n),
		    HM_OK);
		n_rounds = n < 4096 ? 5000 : 400;
		for (size_t round = 0; round < n_rounds; round++) {
			memcpy(mutant, body, n);
			for (uint32_t k = random_below(4) + 1; k > 0; k--)
				mutant[random_below((uint32_t)n)] =
				    (uint8_t)random_below(256);
			n_accepted +=
			    try_body(&codec_subjects[i], mutant, n) == HM_OK;
		}
	}
	assert_true(n_accepted > 1000);
}

static void
test_codec_hostile__random_bodies_never_crash(void **state)
{
	uint8_t body[64];

	(void)state;
	for (size_t round = 0; round < 200000; round++) {
		const struct codec_subject *subject =
		    &codec_subjects[round % CODEC_N_SUBJECTS];
		size_t n = random_below(sizeof body + 1);

		for (size_t i = 0; i < n; i++)
			body[i] = (uint8_t)random_below(256);
		/* Mostly tags and lengths that are plausible. */
		for (size_t i = 0; i < n && round % 4 != 0; i++)
			body[i] &= i % 3 == 2 ? 0xff : 0x3f;
		(void)try_body(subject, body, n);
	}
}

/* n times the same few bytes: as many fields as fit one body. */
static void
expect_bomb(const char *what, const uint8_t *unit, size_t n_unit)
{
	static uint8_t body[HM_FRAME_MAX_BYTES];
	size_t n = sizeof body / n_unit * n_unit;

	for (size_t i = 0; i < n; i++)
		body[i] = unit[i % n_unit];
	for (size_t i = 0; i < CODEC_N_SUBJECTS; i++) {
		fake_alloc_fail_at(0);
		/* A message read in place skips what it does not know. */
		if (try_body(&codec_subjects[i], body, n) == HM_OK &&
		    (unit[0] >> 3 != UNKNOWN_FIELD ||
			fake_alloc_peak_bytes() > n + 4096))
			fail_msg("%s: accepted as %s", what,
			    codec_subjects[i].name);
		if (fake_alloc_peak_bytes() > HELD_LIMIT_BYTES(n))
			fail_msg("%s: %zu bytes held", what,
			    fake_alloc_peak_bytes());
	}
}

static void
test_codec_hostile__bombs_are_refused_within_the_budget(void **state)
{
	const uint8_t empty_requests[] = {3 << 3 | 2, 0};
	const uint8_t empty_options[] = {5 << 3 | 2, 0};
	const uint8_t empty_ranges[] = {8 << 3 | 2, 0};
	const uint8_t empty_metas[] = {7 << 3 | 2, 0};
	const uint8_t scalars[] = {1 << 3, 1};
	const uint8_t unknown[] = {UNKNOWN_FIELD << 3, 1};
	const uint8_t unknown_bytes[] = {UNKNOWN_FIELD << 3 | 2, 0};

	(void)state;
	expect_bomb("requests", empty_requests, sizeof empty_requests);
	expect_bomb("options", empty_options, sizeof empty_options);
	expect_bomb("ranges", empty_ranges, sizeof empty_ranges);
	expect_bomb("metas", empty_metas, sizeof empty_metas);
	expect_bomb("scalars", scalars, sizeof scalars);
	expect_bomb("unknown", unknown, sizeof unknown);
	expect_bomb("unknown bytes", unknown_bytes, sizeof unknown_bytes);
}

static void
expect_hello(const uint8_t *body, size_t n, int expected)
{
	struct hm_hello got, before;

	memset(&got, 0xa5, sizeof got);
	before = got;
	assert_int_equal(hm_codec_unpack_hello(body, n, &got), expected);
	if (expected != HM_OK)
		assert_memory_equal(&got, &before, sizeof got);
}

/* Bodies that protobuf would take, but that say less than they hold. */
static void
test_codec_hostile__encodings_that_are_not_ours_are_refused(void **state)
{
	const uint8_t plain[] = {1 << 3, 5};
	const uint8_t padded[] = {1 << 3, 0x85, 0x00};
	const uint8_t padded_tag[] = {0x80 | 1 << 3, 0x00, 5};
	const uint8_t too_wide[] = {1 << 3, 0x85, 0x80, 0x80, 0x80, 0x10};
	const uint8_t twice[] = {1 << 3, 5, 1 << 3, 6};
	const uint8_t zero[] = {1 << 3, 0};
	const uint8_t wrong_type[] = {1 << 3 | 2, 1, 5};
	const uint8_t group[] = {1 << 3 | 3, 1 << 3 | 4};
	const uint8_t field_zero[] = {0, 5};
	const uint8_t nul_in_text[] = {5 << 3 | 2, 3, 'a', 0, 'b'};
	const uint8_t too_long[] = {5 << 3 | 2, 4, 'a', 'b', 'c'};
	const uint8_t huge[] = {5 << 3 | 2, 0xff, 0xff, 0xff, 0xff, 0x0f};

	(void)state;
	expect_hello(plain, sizeof plain, HM_OK);
	expect_hello(padded, sizeof padded, HM_E_PROTOCOL);
	expect_hello(padded_tag, sizeof padded_tag, HM_E_PROTOCOL);
	expect_hello(too_wide, sizeof too_wide, HM_E_PROTOCOL);
	expect_hello(twice, sizeof twice, HM_E_PROTOCOL);
	expect_hello(zero, sizeof zero, HM_E_PROTOCOL);
	expect_hello(wrong_type, sizeof wrong_type, HM_E_PROTOCOL);
	expect_hello(group, sizeof group, HM_E_PROTOCOL);
	expect_hello(field_zero, sizeof field_zero, HM_E_PROTOCOL);
	expect_hello(nul_in_text, sizeof nul_in_text, HM_E_PROTOCOL);
	expect_hello(too_long, sizeof too_long, HM_E_PROTOCOL);
	expect_hello(huge, sizeof huge, HM_E_PROTOCOL);
}

/* A later schema adds fields; that is not malformed. */
static void
test_codec_hostile__unknown_fields_are_skipped(void **state)
{
	const uint8_t body[] = {1 << 3, 5, 15 << 3, 9, 14 << 3 | 2, 3, 'n', 'e',
	    'w', 13 << 3 | 5, 1, 2, 3, 4};
	struct hm_hello got;

	(void)state;
	assert_int_equal(hm_codec_unpack_hello(body, sizeof body, &got), HM_OK);
	assert_int_equal(got.schema, 5);
	assert_string_equal(got.program, "");
}

static void
test_codec_hostile__body_larger_than_a_frame_is_refused(void **state)
{
	const size_t n = HM_FRAME_MAX_BYTES + 1;
	uint8_t *body = malloc(n);
	char *text = NULL;

	(void)state;
	assert_non_null(body);
	memset(body, 'x', n);
	body[0] = 1 << 3 | 2; /* one text that fills the body */
	body[1] = 0xfd;
	body[2] = 0xff;
	body[3] = 0x03;
	assert_int_equal(hm_codec_unpack_text(body, n, &text), HM_E_PROTOCOL);
	body[1] = 0xfc;
	assert_int_equal(hm_codec_unpack_text(body, n - 1, &text), HM_OK);
	free(text);
	free(body);
}

/* Each allocation of each unpack fails once; the sanitizer counts leaks. */
static void
test_codec_hostile__no_memory_is_reported_everywhere(void **state)
{
	static uint8_t body[HM_FRAME_MAX_BYTES], again[HM_FRAME_MAX_BYTES];
	size_t n_all_sites = 0;
	size_t n_again;

	(void)state;
	for (size_t i = 0; i < CODEC_N_SUBJECTS; i++) {
		const struct codec_subject *subject = &codec_subjects[i];
		size_t n = 0;
		size_t n_sites;

		assert_int_equal(subject->pack(body, sizeof body, &n), HM_OK);
		fake_alloc_fail_at(0);
		assert_int_equal(subject->repack(body, n, again, &n_again),
		    HM_OK);
		n_sites = fake_alloc_count();
		n_all_sites += n_sites;
		for (size_t site = 1; site <= n_sites; site++) {
			fake_alloc_fail_at(site);
			assert_int_equal(
			    subject->repack(body, n, again, &n_again),
			    HM_E_NOMEM);
		}
		fake_alloc_fail_at(0);
	}
	/* A message that is read in place has none of its own. */
	assert_true(n_all_sites > CODEC_N_SUBJECTS);
}

#define HOSTILE_TEST(test) cmocka_unit_test_setup(test, hostile_open)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    HOSTILE_TEST(test_codec_hostile__truncated_bodies_never_crash),
	    HOSTILE_TEST(test_codec_hostile__mutated_bodies_never_crash),
	    HOSTILE_TEST(test_codec_hostile__random_bodies_never_crash),
	    HOSTILE_TEST(
		test_codec_hostile__bombs_are_refused_within_the_budget),
	    HOSTILE_TEST(
		test_codec_hostile__encodings_that_are_not_ours_are_refused),
	    HOSTILE_TEST(test_codec_hostile__unknown_fields_are_skipped),
	    HOSTILE_TEST(
		test_codec_hostile__body_larger_than_a_frame_is_refused),
	    HOSTILE_TEST(test_codec_hostile__no_memory_is_reported_everywhere),
	};

	return cmocka_run_group_tests_name("codec_hostile", tests, NULL, NULL);
}
