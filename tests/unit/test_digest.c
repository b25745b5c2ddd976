/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_digest.c - published vectors, and records that cannot be mistaken.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_alloc.h"
#include "proto/digest.h"

static void
expect_digest(const void *bytes, size_t n_bytes, const char *expected)
{
	char hex[HM_DIGEST_HEX_CHARS + 1];
	struct hm_digest digest;

	hm_digest_compute(bytes, n_bytes, &digest);
	hm_digest_to_hex(&digest, hex);
	assert_string_equal(hex, expected);
}

/* FIPS 180-4 examples, and the empty message. */
static void
test_digest__known_messages_give_published_sha256(void **state)
{
	char *million = malloc(1000000);

	(void)state;
	assert_non_null(million);
	memset(million, 'a', 1000000);
	expect_digest(NULL, 0,
	    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	expect_digest("abc", 3,
	    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	expect_digest(million, 1000000,
	    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	free(million);
}

static void *
digest_thread(void *arg)
{
	hm_digest_compute("abc", 3, arg);
	return NULL;
}

static void
test_digest__threads_at_once_agree(void **state)
{
	struct hm_digest digests[8] = {0};
	struct hm_digest expected;
	pthread_t threads[8];

	(void)state;
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
				     digest_thread, &digests[i]),
		    0);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	hm_digest_compute("abc", 3, &expected);
	for (size_t i = 0; i < 8; i++)
		assert_true(hm_digest_equal(&digests[i], &expected));
}

static void
test_digest__every_byte_takes_part_in_equality(void **state)
{
	struct hm_digest a = {0};
	struct hm_checksum c = {0};

	(void)state;
	for (size_t i = 0; i < HM_DIGEST_BYTES; i++) {
		struct hm_digest b = a;

		assert_true(hm_digest_equal(&a, &b));
		b.bytes[i] ^= 1;
		assert_false(hm_digest_equal(&a, &b));
	}
	for (size_t i = 0; i < HM_CHECKSUM_BYTES; i++) {
		struct hm_checksum d = c;

		assert_true(hm_checksum_equal(&c, &d));
		d.bytes[i] ^= 0x80;
		assert_false(hm_checksum_equal(&c, &d));
	}
}

static void
test_digest__hex_is_64_lower_case_digits(void **state)
{
	const char *hex =
	    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1cf0feff";
	const uint8_t last[] = {0xf0, 0xfe, 0xff};
	char printed[HM_DIGEST_HEX_CHARS + 1];
	struct hm_digest digest;

	(void)state;
	for (size_t i = 0; i < HM_DIGEST_BYTES; i++)
		digest.bytes[i] = (uint8_t)i;
	memcpy(digest.bytes + HM_DIGEST_BYTES - sizeof last, last, sizeof last);
	hm_digest_to_hex(&digest, printed);
	assert_string_equal(printed, hex);
}

/* XXH3-128 of "" is in xxHash's own sanity vectors, printed big-endian. */
static void
test_digest__checksum_is_canonical_xxh3(void **state)
{
	const uint8_t of_nothing[] = {0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98,
	    0xd8, 0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f};
	const uint8_t of_abc[] = {0x06, 0xb0, 0x5a, 0xb6, 0x73, 0x3a, 0x61,
	    0x85, 0x78, 0xaf, 0x5f, 0x94, 0x89, 0x2f, 0x39, 0x50};
	struct hm_checksum checksum;

	(void)state;
	hm_checksum_compute(NULL, 0, &checksum);
	assert_memory_equal(checksum.bytes, of_nothing, HM_CHECKSUM_BYTES);
	hm_checksum_compute("abc", 3, &checksum);
	assert_memory_equal(checksum.bytes, of_abc, HM_CHECKSUM_BYTES);
}

static void
test_digest__checksum_sees_any_flipped_bit(void **state)
{
	struct hm_checksum before, after;
	uint8_t bytes[300];

	(void)state;
	memset(bytes, 0x5a, sizeof bytes);
	hm_checksum_compute(bytes, sizeof bytes, &before);
	for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		hm_checksum_compute(bytes, sizeof bytes, &after);
		assert_false(hm_checksum_equal(&before, &after));
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

/* The bytes are on disk and in packs: they may never change. */
static void
test_digest__record_has_golden_bytes(void **state)
{
	const uint8_t golden[] = {1, 0, 0, 0, 'n', 2, 0, 0, 0, 'v', 'w', 2, 0,
	    0, 0, 'u', '3', 4, 0, 0, 0, 0x04, 0x03, 0x02, 0x01, 0, 0, 0, 0, 0,
	    0, 0, 0};
	struct hm_record record;

	(void)state;
	hm_record_init(&record);
	hm_record_put_text(&record, "n", "vw");
	hm_record_put_u32(&record, "u3", 0x01020304u);
	hm_record_put(&record, "", NULL, 0);
	assert_int_equal(record.error, HM_OK);
	assert_int_equal(record.n_bytes, sizeof golden);
	assert_memory_equal(record.bytes, golden, sizeof golden);
	hm_record_done(&record);
}

static void
record_of_pair(const char *name, const char *value, struct hm_digest *out)
{
	struct hm_record record;

	hm_record_init(&record);
	hm_record_put_text(&record, name, value);
	assert_int_equal(record.error, HM_OK);
	hm_digest_compute(record.bytes, record.n_bytes, out);
	hm_record_done(&record);
}

static void
test_digest__records_of_shifted_borders_differ(void **state)
{
	struct hm_digest a, b;
	struct hm_record one, two;

	(void)state;
	record_of_pair("a", "bc", &a);
	record_of_pair("ab", "c", &b);
	assert_false(hm_digest_equal(&a, &b));
	record_of_pair("abc", "", &b);
	assert_false(hm_digest_equal(&a, &b));

	hm_record_init(&one);
	hm_record_init(&two);
	hm_record_put_text(&one, "a", "1");
	hm_record_put_text(&one, "b", "2");
	hm_record_put_text(&two, "b", "2");
	hm_record_put_text(&two, "a", "1");
	assert_int_equal(one.n_bytes, two.n_bytes);
	assert_memory_not_equal(one.bytes, two.bytes, one.n_bytes);
	hm_record_done(&one);
	hm_record_done(&two);
}

static void
expect_field(const struct hm_record *record, size_t *offset, const char *name,
    const void *value, size_t n_value)
{
	const char *name_found;
	const void *value_found;
	size_t n_name_found, n_value_found;

	assert_int_equal(hm_record_next(record->bytes, record->n_bytes, offset,
			     &name_found, &n_name_found, &value_found,
			     &n_value_found),
	    HM_OK);
	assert_int_equal(n_name_found, strlen(name));
	assert_memory_equal(name_found, name, n_name_found);
	assert_int_equal(n_value_found, n_value);
	assert_memory_equal(value_found, value, n_value);
}

static int
record_step(const void *bytes, size_t n_bytes, size_t *offset)
{
	const char *name;
	const void *value;
	size_t n_name, n_value;

	return hm_record_next(bytes, n_bytes, offset, &name, &n_name, &value,
	    &n_value);
}

static void
test_digest__record_is_read_back_field_by_field(void **state)
{
	static uint8_t large[100000];
	struct hm_record record;
	size_t offset = 0;

	(void)state;
	memset(large, 0xee, sizeof large);
	hm_record_init(&record);
	hm_record_put_text(&record, "first", "one");
	hm_record_put(&record, "large", large, sizeof large);
	hm_record_put_text(&record, "last", "");
	expect_field(&record, &offset, "first", "one", 3);
	expect_field(&record, &offset, "large", large, sizeof large);
	expect_field(&record, &offset, "last", "", 0);
	assert_int_equal(offset, record.n_bytes);
	assert_int_equal(record_step(record.bytes, record.n_bytes, &offset),
	    HM_E_UNAVAILABLE);
	hm_record_done(&record);
	assert_null(record.bytes);
	hm_record_done(&record);
	hm_record_done(NULL);
}

/* Every prefix is either a shorter record (a border) or corrupt. */
static void
test_digest__cut_record_is_corrupt(void **state)
{
	struct hm_record record;
	size_t offset;

	(void)state;
	hm_record_init(&record);
	hm_record_put_text(&record, "name", "value");
	for (size_t n = 1; n < record.n_bytes; n++) {
		uint8_t *copy = malloc(n); /* exact, so that asan sees it */

		assert_non_null(copy);
		memcpy(copy, record.bytes, n);
		offset = 0;
		assert_int_equal(record_step(copy, n, &offset), HM_E_CORRUPT);
		assert_int_equal(offset, 0);
		free(copy);
	}
	offset = record.n_bytes + 1;
	assert_int_equal(record_step(record.bytes, record.n_bytes, &offset),
	    HM_E_CORRUPT);
	memset(record.bytes, 0xff, 4);
	offset = 0;
	assert_int_equal(record_step(record.bytes, record.n_bytes, &offset),
	    HM_E_CORRUPT);
	hm_record_done(&record);
}

static void
test_digest__wrong_fields_are_kept_as_error(void **state)
{
	struct hm_record record;
	size_t n_before;

	(void)state;
	hm_record_init(&record);
	hm_record_put_text(&record, "a", "b");
	n_before = record.n_bytes;
	hm_record_put(&record, "big", "", ((size_t)16 << 20) + 1);
	assert_int_equal(record.error, HM_E_INVALID);
	hm_record_put_text(&record, "c", "d");
	assert_int_equal(record.n_bytes, n_before);
	hm_record_done(&record);

	hm_record_put_text(&record, "text", NULL);
	assert_int_equal(record.error, HM_E_INVALID);
	hm_record_done(&record);
	hm_record_put_text(&record, NULL, "x");
	assert_int_equal(record.error, HM_E_INVALID);
	hm_record_done(&record);
}

static void
test_digest__largest_field_is_stored(void **state)
{
	const size_t n_bytes = (size_t)16 << 20;
	uint8_t *bytes = calloc(1, n_bytes);
	struct hm_record record;
	size_t offset = 0;

	(void)state;
	assert_non_null(bytes);
	hm_record_init(&record);
	hm_record_put(&record, "big", bytes, n_bytes);
	assert_int_equal(record.error, HM_OK);
	expect_field(&record, &offset, "big", bytes, n_bytes);
	hm_record_done(&record);
	free(bytes);
}

/* Each growth fails once: the record says so and stays what it was. */
static void
test_digest__no_memory_is_kept_as_error(void **state)
{
	uint8_t block[400] = {0};

	(void)state;
	for (size_t fail_at = 1; fail_at <= 4; fail_at++) {
		struct hm_record record;

		hm_record_init(&record);
		fake_alloc_fail_at(fail_at);
		for (int i = 0; i < 10; i++)
			hm_record_put(&record, "b", block, sizeof block);
		fake_alloc_fail_at(0);
		assert_int_equal(record.error, HM_E_NOMEM);
		assert_true(record.n_bytes <= record.capacity_bytes);
		assert_int_equal(record.n_bytes % (4 + 1 + 4 + 400), 0);
		hm_record_done(&record);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_digest__known_messages_give_published_sha256),
	    cmocka_unit_test(test_digest__threads_at_once_agree),
	    cmocka_unit_test(test_digest__every_byte_takes_part_in_equality),
	    cmocka_unit_test(test_digest__hex_is_64_lower_case_digits),
	    cmocka_unit_test(test_digest__checksum_is_canonical_xxh3),
	    cmocka_unit_test(test_digest__checksum_sees_any_flipped_bit),
	    cmocka_unit_test(test_digest__record_has_golden_bytes),
	    cmocka_unit_test(test_digest__records_of_shifted_borders_differ),
	    cmocka_unit_test(test_digest__record_is_read_back_field_by_field),
	    cmocka_unit_test(test_digest__cut_record_is_corrupt),
	    cmocka_unit_test(test_digest__wrong_fields_are_kept_as_error),
	    cmocka_unit_test(test_digest__largest_field_is_stored),
	    cmocka_unit_test(test_digest__no_memory_is_kept_as_error),
	};

	return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
