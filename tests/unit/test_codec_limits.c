/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_codec_limits.c - no limit can be passed by one, in either direction.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec_samples.h"
#include "proto/codec.h"
#include "proto/frame.h"

/* A body written by hand: the packer would refuse. */
struct body {
	uint8_t bytes[2 * HM_FRAME_MAX_BYTES];
	size_t n;
};

static struct body body; /* too large for a stack */

static void
put_varint(uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		body.bytes[body.n++] = (uint8_t)(value | 0x80);
	body.bytes[body.n++] = (uint8_t)value;
}

static void
put_number(uint32_t field, uint64_t value)
{
	put_varint(field << 3);
	put_varint(value);
}

static void
put_bytes(uint32_t field, const void *bytes, size_t n_bytes)
{
	put_varint(field << 3 | 2);
	put_varint(n_bytes);
	memcpy(body.bytes + body.n, bytes, n_bytes);
	body.n += n_bytes;
}

/* A text of n letters. */
static void
put_letters(uint32_t field, size_t n)
{
	char *letters = malloc(n + 1);

	assert_non_null(letters);
	codec_sample_text(letters, n + 1);
	put_bytes(field, letters, n);
	free(letters);
}

static const struct codec_subject *
subject(const char *name)
{
	size_t i = 0;

	while (i + 1 < CODEC_N_SUBJECTS &&
	       strcmp(codec_subjects[i].name, name) != 0)
		i++;
	assert_string_equal(codec_subjects[i].name, name);
	return &codec_subjects[i];
}

/* Unpack what was put as such a message, and start a new body. */
static void
expect_body(const char *name, int expected)
{
	static uint8_t again[HM_FRAME_MAX_BYTES];
	size_t n_again;

	assert_int_equal(
	    subject(name)->repack(body.bytes, body.n, again, &n_again),
	    expected);
	body.n = 0;
}

static void
test_codec_limits__names_one_too_long_are_refused(void **state)
{
	const struct {
		const char *message;
		uint32_t field;
		size_t most;
	} names[] = {
	    {"hello", 5, 63},
	    {"welcome", 5, 31},
	    {"compile", 4, 63},
	    {"compile", 5, 255}, /* an option */
	    {"meta", 1, 255},
	    {"meta", 2, 15},
	    {"meta", 3, 127},
	    {"meta", 4, 255},
	    {"meta", 11, 511},
	    {"refusal", 2, 511},
	    {"job_result", 7, 511},
	    {"job_result", 8, 511},
	    {"job_result", 9, HM_MAX_LOG_BYTES},
	    {"worker_ready", 2, 255},
	    {"worker_ready", 3, 511},
	    {"worker_ready", 4, 255},
	};

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		put_letters(names[i].field, names[i].most);
		expect_body(names[i].message, HM_OK);
		put_letters(names[i].field, names[i].most + 1);
		expect_body(names[i].message, HM_E_PROTOCOL);
	}
}

static void
test_codec_limits__job_texts_one_too_long_are_refused(void **state)
{
	const struct {
		uint32_t field;
		size_t most;
	} texts[] = {{2, 15}, {3, 63}, {4, 127}, {5, HM_MAX_JOB_TEXT_BYTES},
	    {6, HM_MAX_JOB_TEXT_BYTES}};

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		put_number(1, HM_JOB_OWN);
		put_letters(texts[i].field, texts[i].most);
		expect_body("job", HM_OK);
		put_number(1, HM_JOB_OWN);
		put_letters(texts[i].field, texts[i].most + 1);
		expect_body("job", HM_E_PROTOCOL);
	}
}

/* The fields that a kernel reply cannot do without. */
static void
put_kernel(uint64_t status, size_t n_key, size_t n_checksum)
{
	const uint8_t bytes[64] = {0};

	if (status != 0)
		put_number(2, status);
	put_bytes(4, bytes, n_key);
	put_bytes(6, bytes, n_checksum);
}

static void
test_codec_limits__wrong_digest_lengths_are_refused(void **state)
{
	const uint8_t bytes[64] = {0};

	(void)state;
	put_kernel(1, 32, 16);
	expect_body("kernel", HM_OK);
	for (size_t n = 1; n <= 64; n++) {
		put_kernel(1, n, 16);
		expect_body("kernel", n == 32 ? HM_OK : HM_E_PROTOCOL);
		put_kernel(1, 32, n);
		expect_body("kernel", n == 16 ? HM_OK : HM_E_PROTOCOL);
		put_bytes(1, bytes, n);
		expect_body("explain", n == 32 ? HM_OK : HM_E_PROTOCOL);
		put_number(1, 1);
		put_bytes(2, bytes, n);
		expect_body("record", n == 32 ? HM_OK : HM_E_PROTOCOL);
		put_number(1, HM_ADMIN_PIN);
		put_bytes(2, bytes, n);
		expect_body("admin", n == 32 ? HM_OK : HM_E_PROTOCOL);
	}
	expect_body("explain", HM_E_PROTOCOL);
}

static void
test_codec_limits__numbers_one_too_large_are_refused(void **state)
{
	const struct {
		const char *message;
		uint32_t field;
		uint32_t most;
	} numbers[] = {
	    {"compile", 6, HM_MAX_SOURCE_BYTES},
	    {"kernel", 1, HM_MAX_GET_REQUESTS - 1},
	    {"kernel", 3, HM_TIER_BUILT},
	    {"kernel", 5, HM_MAX_IMAGE_BYTES},
	    {"progress", 1, HM_MAX_GET_REQUESTS - 1},
	    {"record", 1, 2},
	    {"record", 3, HM_FRAME_MAX_BYTES},
	    {"job", 8, HM_MAX_SOURCE_BYTES},
	    {"job", 9, HM_MAX_IMAGE_BYTES},
	    {"job_result", 2, HM_MAX_IMAGE_BYTES},
	    {"worker_ready", 5, 15},
	};
	const uint8_t key[32] = {0};

	(void)state;
	for (size_t i = 0; i < 2 * sizeof numbers / sizeof numbers[0]; i++) {
		const char *message = numbers[i / 2].message;
		uint64_t value = (uint64_t)numbers[i / 2].most + i % 2;

		put_number(numbers[i / 2].field, value);
		if (strcmp(message, "kernel") == 0)
			put_kernel(1, 32, 16);
		if (strcmp(message, "job") == 0)
			put_number(1, HM_JOB_CLIENT);
		if (strcmp(message, "record") == 0)
			put_bytes(2, key, sizeof key);
		expect_body(message, i % 2 == 0 ? HM_OK : HM_E_PROTOCOL);
	}
}

static void
test_codec_limits__unknown_enum_values_are_refused(void **state)
{
	(void)state;
	put_kernel(0, 32, 16);
	expect_body("kernel", HM_E_PROTOCOL);
	for (uint32_t status = 1; status <= 10; status++) {
		put_kernel(status, 32, 16);
		expect_body("kernel", status <= 7 ? HM_OK : HM_E_PROTOCOL);
	}
	expect_body("job", HM_E_PROTOCOL);
	for (uint32_t kind = 1; kind <= 5; kind++) {
		put_number(1, kind);
		expect_body("job", kind <= 3 ? HM_OK : HM_E_PROTOCOL);
	}
	put_number(2, HM_LANE_PREWARM + 1);
	put_bytes(3, "", 0);
	expect_body("get", HM_E_PROTOCOL);
}

static void
test_codec_limits__errors_outside_the_enum_are_refused(void **state)
{
	const char *messages[] = {"refusal", "job_result", "worker_ready"};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		put_number(1, (uint64_t)(int64_t)HM_E_INTERNAL);
		expect_body(messages[i], HM_OK);
		put_number(1, (uint64_t)(int64_t)(HM_E_INTERNAL - 1));
		expect_body(messages[i], HM_E_PROTOCOL);
		put_number(1, 1);
		expect_body(messages[i], HM_E_PROTOCOL);
		put_number(1, (uint64_t)INT32_MAX);
		expect_body(messages[i], HM_E_PROTOCOL);
		put_number(1, (uint64_t)(int64_t)INT32_MIN);
		expect_body(messages[i], HM_E_PROTOCOL);
	}
	put_kernel(3, 32, 16);
	put_number(12, 1);
	expect_body("kernel", HM_E_PROTOCOL);
}

static void
test_codec_limits__lists_one_too_long_are_refused(void **state)
{
	const uint8_t key[32] = {0};
	uint8_t range[2 + 32] = {3 << 3 | 2, 32};

	(void)state;
	memcpy(range + 2, key, sizeof key);
	for (uint32_t more = 0; more <= 1; more++) {
		int expected = more == 0 ? HM_OK : HM_E_PROTOCOL;

		for (uint32_t i = 0; i < HM_MAX_GET_REQUESTS + more; i++)
			put_bytes(3, "", 0);
		expect_body("get", expected);
		for (uint32_t i = 0; i < HM_MAX_OPTIONS + more; i++)
			put_bytes(5, "-DX", 3);
		expect_body("compile", expected);
		put_number(1, HM_JOB_CLIENT);
		for (uint32_t i = 0; i < HM_MAX_OPTIONS + more; i++)
			put_bytes(7, "", 0);
		expect_body("job", expected);
		put_kernel(1, 32, 16);
		for (uint32_t i = 0; i < HM_MAX_RANGES + more; i++)
			put_bytes(8, range, sizeof range);
		expect_body("kernel", expected);
		put_letters(9, (size_t)4 * (HM_MAX_CONFIG_WORDS + more));
		expect_body("meta", expected);
	}
	expect_body("get", HM_E_PROTOCOL); /* of nothing */
	for (size_t n = 1; n < 8; n++) {
		put_letters(9, n);
		expect_body("meta", n == 4 ? HM_OK : HM_E_PROTOCOL);
	}
	/* In a nested message too. */
	put_kernel(1, 32, 16);
	put_bytes(8, range, 2);
	expect_body("kernel", HM_E_PROTOCOL);
	put_kernel(1, 32, 16);
	put_bytes(8, "", 0); /* a range without a key */
	expect_body("kernel", HM_E_PROTOCOL);
}

static void
test_codec_limits__control_characters_in_names_are_refused(void **state)
{
	(void)state;
	for (unsigned int c = 0; c < 256; c++) {
		const char name[3] = {'a', (char)c, 'b'};
		int expected = c < 32 || c == 127 ? HM_E_PROTOCOL : HM_OK;

		put_bytes(5, name, sizeof name);
		expect_body("hello", expected);
		put_bytes(5, name, sizeof name);
		expect_body("compile", expected);
		put_number(1, HM_JOB_OWN);
		put_bytes(5, name, sizeof name); /* a generated text */
		expect_body("job", c == '\n' || c == '\t' ? HM_OK : expected);
		/* Packing would refuse the same. */
		if (c != 0) {
			struct hm_hello hello = {.program = "a?b"};

			hello.program[1] = (char)c;
			assert_int_equal(hm_codec_pack_hello(&hello, body.bytes,
					     sizeof body.bytes, &body.n),
			    expected == HM_OK ? HM_OK : HM_E_INVALID);
			body.n = 0;
		}
	}
}

static void
test_codec_limits__control_characters_in_messages_are_replaced(void **state)
{
	const char *dirty = "a\x1b[0m\r\n\tb\x7f";
	struct hm_job_result got;

	(void)state;
	put_bytes(8, dirty, strlen(dirty));
	put_bytes(9, dirty, strlen(dirty));
	assert_int_equal(hm_codec_unpack_job_result(body.bytes, body.n, &got),
	    HM_OK);
	assert_string_equal(got.message, "a?[0m???b?");
	assert_string_equal(got.log, "a?[0m?\n\tb?");
	hm_job_result_done(&got);
	body.n = 0;
	put_bytes(8, "a\0b", 3);
	expect_body("job_result", HM_E_PROTOCOL);
	put_bytes(9, "a\0b", 3);
	expect_body("job_result", HM_E_PROTOCOL);
}

static void
test_codec_limits__pack_refuses_what_unpack_would(void **state)
{
	struct hm_kernel_reply reply;
	struct hm_get get = {0};
	size_t n = 77;

	(void)state;
	codec_sample_kernel(&reply);
	reply.n_ranges = HM_MAX_RANGES + 1;
	assert_int_equal(
	    hm_codec_pack_kernel(&reply, body.bytes, sizeof body.bytes, &n),
	    HM_E_INVALID);
	reply.n_ranges = 0;
	reply.meta.n_config_words = HM_MAX_CONFIG_WORDS + 1;
	assert_int_equal(
	    hm_codec_pack_kernel(&reply, body.bytes, sizeof body.bytes, &n),
	    HM_E_INVALID);
	reply.meta.n_config_words = 0;
	memset(reply.meta.spec, 'x', sizeof reply.meta.spec);
	assert_int_equal(
	    hm_codec_pack_kernel(&reply, body.bytes, sizeof body.bytes, &n),
	    HM_E_INVALID);
	reply.meta.spec[0] = '\0';
	reply.status = 0;
	assert_int_equal(
	    hm_codec_pack_kernel(&reply, body.bytes, sizeof body.bytes, &n),
	    HM_E_INVALID);
	hm_kernel_reply_done(&reply);
	assert_int_equal(
	    hm_codec_pack_get(&get, body.bytes, sizeof body.bytes, &n),
	    HM_E_INVALID);
	get.n_requests = HM_MAX_GET_REQUESTS + 1;
	assert_int_equal(
	    hm_codec_pack_get(&get, body.bytes, sizeof body.bytes, &n),
	    HM_E_INVALID);
	assert_int_equal(n, 77);
}

static void
test_codec_limits__pack_refuses_long_lists_and_texts(void **state)
{
	struct hm_compile compile;
	struct hm_job_result result;
	struct hm_job job = {.kind = HM_JOB_CLIENT, .n_options = 1};
	size_t n = 77;

	(void)state;
	codec_sample_compile(&compile);
	compile.n_options = HM_MAX_OPTIONS + 1;
	assert_int_equal(
	    hm_codec_pack_compile(&compile, body.bytes, sizeof body.bytes, &n),
	    HM_E_INVALID);
	compile.n_options = HM_MAX_OPTIONS;
	compile.options[5][HM_MAX_OPTION_CHARS - 1] = 'x';
	assert_int_equal(
	    hm_codec_pack_compile(&compile, body.bytes, sizeof body.bytes, &n),
	    HM_E_INVALID);
	hm_compile_done(&compile);
	assert_int_equal(
	    hm_codec_pack_job(&job, body.bytes, sizeof body.bytes, &n),
	    HM_E_INVALID);
	codec_sample_job_result(&result);
	free(result.log);
	result.log = malloc(HM_MAX_LOG_BYTES + 2);
	assert_non_null(result.log);
	codec_sample_text(result.log, HM_MAX_LOG_BYTES + 2);
	assert_int_equal(hm_codec_pack_job_result(&result, body.bytes,
			     sizeof body.bytes, &n),
	    HM_E_INVALID);
	hm_job_result_done(&result);
	assert_int_equal(n, 77);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_codec_limits__names_one_too_long_are_refused),
	    cmocka_unit_test(
		test_codec_limits__job_texts_one_too_long_are_refused),
	    cmocka_unit_test(
		test_codec_limits__wrong_digest_lengths_are_refused),
	    cmocka_unit_test(
		test_codec_limits__numbers_one_too_large_are_refused),
	    cmocka_unit_test(
		test_codec_limits__unknown_enum_values_are_refused),
	    cmocka_unit_test(
		test_codec_limits__errors_outside_the_enum_are_refused),
	    cmocka_unit_test(test_codec_limits__lists_one_too_long_are_refused),
	    cmocka_unit_test(
		test_codec_limits__control_characters_in_names_are_refused),
	    cmocka_unit_test(
		test_codec_limits__control_characters_in_messages_are_replaced),
	    cmocka_unit_test(test_codec_limits__pack_refuses_what_unpack_would),
	    cmocka_unit_test(
		test_codec_limits__pack_refuses_long_lists_and_texts),
	};

	return cmocka_run_group_tests_name("codec_limits", tests, NULL, NULL);
}
