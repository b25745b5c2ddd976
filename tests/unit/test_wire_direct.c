/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wire_direct.c - GET, KERNEL and META without protobuf-c, beside it:
 * the same bytes go out, and nothing comes in that it would read otherwise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codec_samples.h"
#include "hummingd.pb-c.h"
#include "proto/codec.h"
#include "proto/frame.h"

#define N_MUTANTS 30000

static uint8_t body[HM_FRAME_MAX_BYTES], other[HM_FRAME_MAX_BYTES];
static size_t n_body;
static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint32_t
random_below(size_t n)
{
	random_state =
	    random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((random_state >> 32) % n);
}

static void
pack_get(void)
{
	struct hm_get get;

	codec_sample_get(&get);
	assert_int_equal(hm_codec_pack_get(&get, body, sizeof body, &n_body),
	    HM_OK);
	hm_get_done(&get);
}

static void
pack_kernel(void)
{
	struct hm_kernel_reply reply;

	codec_sample_kernel(&reply);
	assert_int_equal(
	    hm_codec_pack_kernel(&reply, body, sizeof body, &n_body), HM_OK);
	hm_kernel_reply_done(&reply);
}

static void
test_wire_direct__get_is_packed_as_protobuf_does(void **state)
{
	Humming__Get *get;

	(void)state;
	pack_get();
	get = humming__get__unpack(NULL, n_body, body);
	assert_non_null(get);
	assert_int_equal(humming__get__get_packed_size(get), n_body);
	assert_int_equal(humming__get__pack(get, other), n_body);
	assert_memory_equal(other, body, n_body);
	humming__get__free_unpacked(get, NULL);
}

/* What our reader takes, protobuf-c takes, too, and finds the same in it. */
static void
expect_same_kernel(const uint8_t *bytes, const struct hm_kernel_reply *reply)
{
	Humming__Kernel *wire = humming__kernel__unpack(NULL, n_body, bytes);

	assert_non_null(wire);
	assert_int_equal(wire->index, reply->index);
	assert_int_equal(wire->status, reply->status);
	assert_int_equal(wire->tier, reply->tier);
	assert_int_equal(wire->image_bytes, reply->image_bytes);
	assert_int_equal(wire->error, reply->error);
	assert_int_equal(wire->wait_us, reply->wait_us);
	assert_memory_equal(wire->key.data, reply->key.bytes, 32);
	assert_int_equal(wire->n_ranges, reply->n_ranges);
	for (size_t i = 0; i < wire->n_ranges; i++) {
		const Humming__Range *range = wire->ranges[i];

		assert_int_equal(range->m_lo, reply->ranges[i].m_lo);
		assert_int_equal(range->m_hi, reply->ranges[i].m_hi);
		assert_int_equal(range->grid, reply->ranges[i].grid);
		assert_memory_equal(range->key.data, reply->ranges[i].key.bytes,
		    32);
	}
	if (wire->meta != NULL) {
		assert_string_equal(wire->meta->spec, reply->meta.spec);
		assert_int_equal(wire->meta->registers, reply->meta.registers);
		assert_int_equal(wire->meta->config.len,
		    4 * reply->meta.n_config_words);
	}
	humming__kernel__free_unpacked(wire, NULL);
}

static void
test_wire_direct__mutated_kernels_read_as_protobuf_does(void **state)
{
	struct hm_kernel_reply reply;
	size_t n_accepted = 0;

	(void)state;
	pack_kernel();
	for (size_t i = 0; i < N_MUTANTS; i++) {
		memcpy(other, body, n_body);
		for (uint32_t k = random_below(3) + 1; k > 0; k--)
			other[random_below(n_body)] =
			    (uint8_t)random_below(256);
		if (hm_codec_unpack_kernel(other, n_body, &reply) != HM_OK)
			continue;
		n_accepted++;
		expect_same_kernel(other, &reply);
		hm_kernel_reply_done(&reply);
	}
	assert_true(n_accepted > 1000);
	assert_true(n_accepted < N_MUTANTS);
}

/* A body of two parts, unpacked as a kernel. */
static int
unpack_parts(const uint8_t *first, size_t n_first, const uint8_t *second,
    size_t n_second, struct hm_kernel_reply *reply_out)
{
	memcpy(other, first, n_first);
	memcpy(other + n_first, second, n_second);
	return hm_codec_unpack_kernel(other, n_first + n_second, reply_out);
}

static void
test_wire_direct__fields_in_any_order_are_read(void **state)
{
	/* index and status, which the sample begins with */
	const size_t n_head = 5;
	struct hm_kernel_reply ordered, swapped;

	(void)state;
	pack_kernel();
	assert_int_equal(body[0], 1 << 3);
	assert_int_equal(body[3], 2 << 3);
	assert_int_equal(hm_codec_unpack_kernel(body, n_body, &ordered), HM_OK);
	assert_int_equal(unpack_parts(body + n_head, n_body - n_head, body,
			     n_head, &swapped),
	    HM_OK);
	assert_int_equal(swapped.index, ordered.index);
	assert_int_equal(swapped.status, ordered.status);
	assert_int_equal(swapped.n_ranges, ordered.n_ranges);
	hm_kernel_reply_done(&ordered);
	hm_kernel_reply_done(&swapped);
}

static void
test_wire_direct__what_only_protobuf_takes_is_refused(void **state)
{
	static const struct {
		size_t n;
		uint8_t bytes[12];
	} tails[] = {
	    {2, {2 << 3, 2}},                            /* twice */
	    {2, {7 << 3 | 2, 0}},                        /* the meta twice */
	    {3, {3 << 3, 0x81, 0}},                      /* padded */
	    {2, {3 << 3, 0}},                            /* a default */
	    {2, {14 << 3 | 2, 0}},                       /* an empty text */
	    {2, {3 << 3 | 2, 0}},                        /* another type */
	    {5, {13 << 3 | 2, 3, 'a', 0, 'b'}},          /* behind a NUL */
	    {4, {14 << 3 | 2, 9, 'a', 'b'}},             /* cut */
	    {7, {3 << 3, 0x85, 0x80, 0x80, 0x80, 0x10}}, /* too wide */
	    {1, {3 << 3}},                               /* no value */
	    {2, {3 << 3 | 3, 3 << 3 | 4}},               /* a group */
	    {2, {0, 1}},                                 /* field 0 */
	};
	const uint8_t newer[] = {15 << 3, 1, 0x82, 1, 2, 'n', 'w'};
	struct hm_kernel_reply small = {.status = HM_REPLY_HIT};
	struct hm_kernel_reply reply;

	(void)state;
	assert_int_equal(
	    hm_codec_pack_kernel(&small, body, sizeof body, &n_body), HM_OK);
	assert_int_equal(
	    unpack_parts(body, n_body, newer, sizeof newer, &reply), HM_OK);
	for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
		if (unpack_parts(body, n_body, tails[i].bytes, tails[i].n,
			&reply) != HM_E_PROTOCOL)
			fail_msg("tail %zu was taken", i);
	}
}

static void
test_wire_direct__numbers_of_every_width_round_trip(void **state)
{
	struct hm_request request = {.target = {90, 'a'}};
	struct hm_get get = {.n_requests = 1, .requests = &request};
	struct hm_get got;

	(void)state;
	for (unsigned shift = 0; shift < 32; shift++) {
		for (uint32_t k = 0; k < 2; k++) {
			request.m = (1u << shift) - k;
			request.sms = UINT32_MAX >> shift;
			assert_int_equal(
			    hm_codec_pack_get(&get, body, sizeof body, &n_body),
			    HM_OK);
			assert_int_equal(
			    hm_codec_unpack_get(body, n_body, &got), HM_OK);
			assert_memory_equal(got.requests, &request,
			    sizeof request);
			hm_get_done(&got);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_wire_direct__get_is_packed_as_protobuf_does),
	    cmocka_unit_test(
		test_wire_direct__mutated_kernels_read_as_protobuf_does),
	    cmocka_unit_test(test_wire_direct__fields_in_any_order_are_read),
	    cmocka_unit_test(
		test_wire_direct__what_only_protobuf_takes_is_refused),
	    cmocka_unit_test(
		test_wire_direct__numbers_of_every_width_round_trip),
	};

	return cmocka_run_group_tests_name("wire_direct", tests, NULL, NULL);
}
