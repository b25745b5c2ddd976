/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_codec.c - every message comes back as it went, at its extremes.
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

/* The body under test: too large for a stack. */
static struct {
	uint8_t bytes[2 * HM_FRAME_MAX_BYTES];
	size_t n;
} body;

static void
expect_packed(int error)
{
	assert_int_equal(error, HM_OK);
	assert_true(body.n <= HM_FRAME_MAX_BYTES);
}

static void
test_codec__hello_round_trips(void **state)
{
	struct hm_hello sent, got;

	(void)state;
	codec_sample_hello(&sent);
	expect_packed(
	    hm_codec_pack_hello(&sent, body.bytes, sizeof body.bytes, &body.n));
	assert_int_equal(hm_codec_unpack_hello(body.bytes, body.n, &got),
	    HM_OK);
	assert_memory_equal(&got, &sent, sizeof sent);
}

static void
test_codec__welcome_round_trips(void **state)
{
	struct hm_welcome sent, got;

	(void)state;
	codec_sample_welcome(&sent);
	expect_packed(hm_codec_pack_welcome(&sent, body.bytes,
	    sizeof body.bytes, &body.n));
	assert_int_equal(hm_codec_unpack_welcome(body.bytes, body.n, &got),
	    HM_OK);
	assert_memory_equal(&got, &sent, sizeof sent);
}

static void
test_codec__get_round_trips(void **state)
{
	struct hm_get sent, got;

	(void)state;
	codec_sample_get(&sent);
	expect_packed(
	    hm_codec_pack_get(&sent, body.bytes, sizeof body.bytes, &body.n));
	assert_int_equal(hm_codec_unpack_get(body.bytes, body.n, &got), HM_OK);
	assert_int_equal(got.deadline_ms, sent.deadline_ms);
	assert_int_equal(got.lane, sent.lane);
	assert_int_equal(got.n_requests, sent.n_requests);
	assert_memory_equal(got.requests, sent.requests,
	    sent.n_requests * sizeof *sent.requests);
	hm_get_done(&got);
	assert_null(got.requests);
	hm_get_done(&got);
	hm_get_done(&sent);
}

static void
test_codec__compile_round_trips(void **state)
{
	struct hm_compile sent, got;

	(void)state;
	codec_sample_compile(&sent);
	expect_packed(hm_codec_pack_compile(&sent, body.bytes,
	    sizeof body.bytes, &body.n));
	assert_int_equal(hm_codec_unpack_compile(body.bytes, body.n, &got),
	    HM_OK);
	assert_int_equal(got.deadline_ms, sent.deadline_ms);
	assert_int_equal(got.target.cc, sent.target.cc);
	assert_int_equal(got.target.suffix, sent.target.suffix);
	assert_string_equal(got.name, sent.name);
	assert_int_equal(got.source_bytes, sent.source_bytes);
	assert_int_equal(got.n_options, sent.n_options);
	assert_memory_equal(got.options, sent.options,
	    sent.n_options * sizeof *sent.options);
	hm_compile_done(&got);
	hm_compile_done(&got);
	hm_compile_done(&sent);
}

static void
test_codec__cancel_and_explain_round_trip(void **state)
{
	struct hm_digest sent, got;
	uint32_t id = 0;

	(void)state;
	expect_packed(hm_codec_pack_cancel(UINT32_MAX, body.bytes,
	    sizeof body.bytes, &body.n));
	assert_int_equal(hm_codec_unpack_cancel(body.bytes, body.n, &id),
	    HM_OK);
	assert_int_equal(id, UINT32_MAX);
	codec_sample_digest(&sent, 99);
	expect_packed(hm_codec_pack_explain(&sent, body.bytes,
	    sizeof body.bytes, &body.n));
	assert_int_equal(hm_codec_unpack_explain(body.bytes, body.n, &got),
	    HM_OK);
	assert_memory_equal(&got, &sent, sizeof sent);
}

static void
test_codec__meta_round_trips(void **state)
{
	struct hm_meta sent, got;

	(void)state;
	codec_sample_meta(&sent);
	expect_packed(
	    hm_codec_pack_meta(&sent, body.bytes, sizeof body.bytes, &body.n));
	assert_int_equal(hm_codec_unpack_meta(body.bytes, body.n, &got), HM_OK);
	assert_memory_equal(&got, &sent, sizeof sent);
}

static void
test_codec__kernel_round_trips(void **state)
{
	struct hm_kernel_reply sent, got;

	(void)state;
	codec_sample_kernel(&sent);
	expect_packed(hm_codec_pack_kernel(&sent, body.bytes, sizeof body.bytes,
	    &body.n));
	assert_int_equal(hm_codec_unpack_kernel(body.bytes, body.n, &got),
	    HM_OK);
	assert_memory_equal(&got, &sent, offsetof(struct hm_kernel_reply, log));
	assert_string_equal(got.log, sent.log);
	hm_kernel_reply_done(&got);
	hm_kernel_reply_done(&got);
	hm_kernel_reply_done(&sent);
}

static void
test_codec__progress_and_record_round_trip(void **state)
{
	struct hm_record_reply record_sent, record_got;
	struct hm_progress sent, got;

	(void)state;
	codec_sample_progress(&sent);
	expect_packed(hm_codec_pack_progress(&sent, body.bytes,
	    sizeof body.bytes, &body.n));
	assert_int_equal(hm_codec_unpack_progress(body.bytes, body.n, &got),
	    HM_OK);
	assert_memory_equal(&got, &sent, sizeof sent);
	codec_sample_record(&record_sent);
	expect_packed(hm_codec_pack_record_reply(&record_sent, body.bytes,
	    sizeof body.bytes, &body.n));
	assert_int_equal(
	    hm_codec_unpack_record_reply(body.bytes, body.n, &record_got),
	    HM_OK);
	assert_memory_equal(&record_got, &record_sent, sizeof record_sent);
}

static void
test_codec__refusal_round_trips(void **state)
{
	struct hm_refusal sent, got;

	(void)state;
	codec_sample_refusal(&sent);
	for (sent.error = HM_E_INTERNAL; sent.error <= HM_OK; sent.error++) {
		expect_packed(hm_codec_pack_refusal(&sent, body.bytes,
		    sizeof body.bytes, &body.n));
		assert_int_equal(
		    hm_codec_unpack_refusal(body.bytes, body.n, &got), HM_OK);
		assert_memory_equal(&got, &sent, sizeof sent);
	}
}

static void
expect_text(const char *sent, const char *expected)
{
	char *got = NULL;

	expect_packed(
	    hm_codec_pack_text(sent, body.bytes, HM_FRAME_MAX_BYTES, &body.n));
	assert_int_equal(hm_codec_unpack_text(body.bytes, body.n, &got), HM_OK);
	assert_string_equal(got, expected);
	free(got);
}

static void
test_codec__text_round_trips(void **state)
{
	/* With a tag and a length of three bytes it just fits a body. */
	const size_t n_most = HM_FRAME_MAX_BYTES - HM_FRAME_HEADER_BYTES - 4;
	char *text = malloc(n_most + 2);
	size_t n = 0;

	(void)state;
	assert_non_null(text);
	expect_text("", "");
	expect_text("{\n\t\"a\": \"\xc3\xa9\"}", "{\n\t\"a\": \"\xc3\xa9\"}");
	expect_text("a\x1b[1m\rb\x7f", "a?[1m?b?");
	codec_sample_text(text, n_most + 1);
	expect_text(text, text);
	codec_sample_text(text, n_most + 2);
	assert_int_equal(hm_codec_pack_text(text, body.bytes,
			     HM_FRAME_MAX_BYTES - HM_FRAME_HEADER_BYTES, &n),
	    HM_E_INVALID);
	assert_int_equal(n, 0);
	free(text);
	body.n = 0;
}

static void
expect_same_job(const struct hm_job *a, const struct hm_job *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_string_equal(a->arch, b->arch);
	assert_string_equal(a->source_name, b->source_name);
	assert_string_equal(a->entry, b->entry);
	assert_string_equal(a->config, b->config);
	assert_string_equal(a->shape, b->shape);
	assert_int_equal(a->source_bytes, b->source_bytes);
	assert_int_equal(a->result_bytes, b->result_bytes);
	assert_int_equal(a->n_options, b->n_options);
	assert_memory_equal(a->options, b->options,
	    a->n_options * sizeof *a->options);
}

static void
test_codec__job_round_trips(void **state)
{
	struct hm_job sent, got;

	(void)state;
	codec_sample_job(&sent);
	expect_packed(
	    hm_codec_pack_job(&sent, body.bytes, sizeof body.bytes, &body.n));
	assert_int_equal(hm_codec_unpack_job(body.bytes, body.n, &got), HM_OK);
	expect_same_job(&got, &sent);
	hm_job_done(&got);
	hm_job_done(&got);
	hm_job_done(&sent);
}

static void
test_codec__job_result_round_trips(void **state)
{
	struct hm_job_result sent, got;

	(void)state;
	codec_sample_job_result(&sent);
	expect_packed(hm_codec_pack_job_result(&sent, body.bytes,
	    sizeof body.bytes, &body.n));
	assert_int_equal(hm_codec_unpack_job_result(body.bytes, body.n, &got),
	    HM_OK);
	assert_memory_equal(&got, &sent, offsetof(struct hm_job_result, log));
	assert_string_equal(got.log, sent.log);
	assert_int_equal(got.resident_kib, sent.resident_kib);
	hm_job_result_done(&got);
	hm_job_result_done(&got);
	hm_job_result_done(&sent);
}

static void
test_codec__worker_ready_round_trips(void **state)
{
	struct hm_worker_ready sent, got;

	(void)state;
	codec_sample_worker_ready(&sent);
	expect_packed(hm_codec_pack_worker_ready(&sent, body.bytes,
	    sizeof body.bytes, &body.n));
	assert_int_equal(hm_codec_unpack_worker_ready(body.bytes, body.n, &got),
	    HM_OK);
	assert_memory_equal(&got, &sent, sizeof sent);
}

/* All defaults: what is not on the wire arrives as zeros and NULLs. */
static void
test_codec__empty_messages_round_trip(void **state)
{
	static const struct hm_job_result result;
	struct hm_job_result result_got;
	static const struct hm_hello hello;
	struct hm_hello hello_got;
	struct hm_kernel_reply kernel = {.status = HM_REPLY_HIT};
	struct hm_kernel_reply kernel_got;

	(void)state;
	expect_packed(hm_codec_pack_job_result(&result, body.bytes,
	    sizeof body.bytes, &body.n));
	assert_int_equal(body.n, 0);
	assert_int_equal(hm_codec_unpack_job_result(NULL, 0, &result_got),
	    HM_OK);
	assert_memory_equal(&result_got, &result, sizeof result);
	assert_int_equal(hm_codec_unpack_hello(NULL, 0, &hello_got), HM_OK);
	assert_memory_equal(&hello_got, &hello, sizeof hello);
	expect_packed(hm_codec_pack_kernel(&kernel, body.bytes,
	    sizeof body.bytes, &body.n));
	assert_int_equal(
	    hm_codec_unpack_kernel(body.bytes, body.n, &kernel_got), HM_OK);
	assert_memory_equal(&kernel_got, &kernel,
	    offsetof(struct hm_kernel_reply, log));
	assert_null(kernel_got.log);
	body.n = 0;
}

/* frame.h promises room for this many raw bytes beside any kernel reply. */
static void
test_codec__largest_reply_leaves_room_for_inline_bytes(void **state)
{
	struct hm_kernel_reply reply;

	(void)state;
	codec_sample_kernel(&reply);
	expect_packed(hm_codec_pack_kernel(&reply, body.bytes,
	    sizeof body.bytes, &body.n));
	hm_kernel_reply_done(&reply);
	assert_true(body.n + HM_FRAME_INLINE_BYTES + HM_FRAME_HEADER_BYTES <=
		    HM_FRAME_MAX_BYTES);
}

/* Field numbers and types are a promise to other releases. */
static void
test_codec__hello_has_golden_bytes(void **state)
{
	const uint8_t golden[] = {0x08, 0x01, 0x10, 0x01, 0x18, 0x03, 0x20,
	    0x84, 0x02, 0x2a, 0x03, 'c', 't', 'l'};
	const struct hm_hello hello = {1, 1, 3, 260, "ctl"};

	(void)state;
	expect_packed(hm_codec_pack_hello(&hello, body.bytes, sizeof body.bytes,
	    &body.n));
	assert_int_equal(body.n, sizeof golden);
	assert_memory_equal(body.bytes, golden, sizeof golden);
	body.n = 0;
}

static void
test_codec__pack_needs_exactly_its_size(void **state)
{
	(void)state;
	for (size_t i = 0; i < CODEC_N_SUBJECTS; i++) {
		const struct codec_subject *s = &codec_subjects[i];
		size_t n, n_again = 77;
		uint8_t *exact;

		expect_packed(s->pack(body.bytes, sizeof body.bytes, &n));
		exact = malloc(n); /* asan sees one byte too many */
		assert_non_null(exact);
		assert_int_equal(s->pack(exact, n - 1, &n_again), HM_E_INVALID);
		assert_int_equal(n_again, 77);
		assert_int_equal(s->pack(exact, n, &n_again), HM_OK);
		assert_int_equal(n_again, n);
		assert_memory_equal(exact, body.bytes, n);
		free(exact);
	}
}

static void
test_codec__tier_names_are_those_of_the_design(void **state)
{
	(void)state;
	assert_string_equal(hm_tier_name(HM_TIER_HOT), "hot");
	assert_string_equal(hm_tier_name(HM_TIER_STORE), "store");
	assert_string_equal(hm_tier_name(HM_TIER_PACK), "pack");
	assert_string_equal(hm_tier_name(HM_TIER_REMOTE), "remote");
	assert_string_equal(hm_tier_name(HM_TIER_BUILT), "built");
	assert_string_equal(hm_tier_name(HM_TIER_NONE), "none");
	assert_string_equal(hm_tier_name(HM_TIER_BUILT + 1), "none");
	assert_string_equal(hm_tier_name(UINT32_MAX), "none");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_codec__hello_round_trips),
	    cmocka_unit_test(test_codec__welcome_round_trips),
	    cmocka_unit_test(test_codec__get_round_trips),
	    cmocka_unit_test(test_codec__compile_round_trips),
	    cmocka_unit_test(test_codec__cancel_and_explain_round_trip),
	    cmocka_unit_test(test_codec__meta_round_trips),
	    cmocka_unit_test(test_codec__kernel_round_trips),
	    cmocka_unit_test(test_codec__progress_and_record_round_trip),
	    cmocka_unit_test(test_codec__refusal_round_trips),
	    cmocka_unit_test(test_codec__text_round_trips),
	    cmocka_unit_test(test_codec__job_round_trips),
	    cmocka_unit_test(test_codec__job_result_round_trips),
	    cmocka_unit_test(test_codec__worker_ready_round_trips),
	    cmocka_unit_test(test_codec__empty_messages_round_trip),
	    cmocka_unit_test(
		test_codec__largest_reply_leaves_room_for_inline_bytes),
	    cmocka_unit_test(test_codec__hello_has_golden_bytes),
	    cmocka_unit_test(test_codec__pack_needs_exactly_its_size),
	    cmocka_unit_test(test_codec__tier_names_are_those_of_the_design),
	};

	return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
