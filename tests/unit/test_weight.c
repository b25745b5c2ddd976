/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_weight.c - what a description of weights may say: defaults, what is
 * refused and why, and that no two bits of a word are one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <humming/gemm.h>

#include "client/weight.h"
#include "jit/config.h"

#define S8 HUMMING_TYPE_SINT(8)
#define U4 HUMMING_TYPE_UINT(4)
#define U8 HUMMING_TYPE_UINT(8)

static struct humming_weight_source
make_source(uint32_t a_type, uint32_t w_type)
{
	struct humming_weight_source source;

	humming_weight_source_init(&source, sizeof source);
	source.n = 64;
	source.k = 128;
	source.a_type = a_type;
	source.w_type = w_type;
	return source;
}

static struct hm_weight
describe(const struct humming_weight_source *source)
{
	struct hm_weight weight;

	memset(&weight, 0, sizeof weight);
	assert_int_equal(hm_weight_describe(source, &weight), HM_OK);
	return weight;
}

static void
expect_refusal(const struct humming_weight_source *source, int error,
    const char *text)
{
	struct hm_weight weight;

	assert_int_equal(hm_weight_describe(source, &weight), error);
	if (strstr(humming_gemm_last_error(), text) == NULL)
		fail_msg("'%s' does not say '%s'", humming_gemm_last_error(),
		    text);
}

/* ---- fields ---- */

static void
test_weight__every_bit_of_a_word_belongs_to_one_code(void **state)
{
	uint32_t n_fields = 0;

	(void)state;
	for (uint32_t i = 0; i < 4 * 5 * 2; i++) {
		const struct hm_field *field =
		    hm_field_find(i % 4, i / 4 % 5, i / 20 != 0);
		struct hm_field_place place = {0, 0, 0};
		uint32_t seen = 0;

		if (field == NULL)
			continue;
		n_fields++;
		for (uint32_t j = 0; j < 32; j++) {
			uint32_t code = 1u << j % field->bits;
			uint32_t at = j / field->bits;
			uint32_t n_values = 32 / field->value_bits;
			uint32_t bit = 0;

			place.slot = at / n_values;
			place.value = at % n_values;
			bit = hm_field_put(field, &place, code) ^
			      hm_field_put(field, &place, 0);
			/* The two flips of u4 for fp8 differ in more bits. */
			if (field->flips[0] == field->flips[1])
				assert_int_equal(bit & (bit - 1), 0);
			assert_int_not_equal(bit, 0);
			seen |= bit;
		}
		assert_int_equal(seen, 0xffffffffu);
	}
	/* 14 formats, of which both fp8 types have four */
	assert_int_equal(n_fields, 18);
}

static void
test_weight__every_code_comes_back_whatever_its_neighbours(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 4 * 5 * 2 * 256; i++) {
		const struct hm_field *field =
		    hm_field_find(i / 256 % 4, i / 1024 % 5, i / 5120 != 0);
		uint32_t n_codes = field != NULL ? 32 / field->bits : 0;
		uint32_t n_values = field != NULL ? 32 / field->value_bits : 1;
		uint32_t word = 0;

		for (uint32_t at = 0; at < n_codes; at++) {
			struct hm_field_place place = {0, at / n_values,
			    at % n_values};

			word |= hm_field_put(field, &place,
			    (i + 37 * at) % (1u << field->bits));
		}
		for (uint32_t at = 0; at < n_codes; at++) {
			struct hm_field_place place = {0, at / n_values,
			    at % n_values};

			assert_int_equal(hm_field_get(field, &place, word),
			    (i + 37 * at) % (1u << field->bits));
		}
	}
}

/* ---- descriptions ---- */

static void
test_weight__defaults_are_those_of_a_request(void **state)
{
	struct humming_weight_source source;
	struct hm_weight weight;

	(void)state;
	humming_weight_source_init(&source, sizeof source);
	source.n = 8;
	source.k = 8;
	weight = describe(&source);
	assert_int_equal(weight.source.w_type, U4);
	assert_int_equal(weight.source.a_type, HUMMING_TYPE_BF16);
	assert_int_equal(weight.source.scale_type, HUMMING_TYPE_BF16);
	assert_int_equal(weight.source.scale_kind, HUMMING_SCALE_CHANNEL);
	source = make_source(S8, U8);
	source.group = 64;
	weight = describe(&source);
	assert_int_equal(weight.source.scale_type, HUMMING_TYPE_BF16);
	assert_int_equal(weight.source.scale_kind, HUMMING_SCALE_GROUP);
	source = make_source(HUMMING_TYPE_F16, HUMMING_TYPE_E4M3);
	source.block = 128;
	weight = describe(&source);
	assert_int_equal(weight.source.scale_kind, HUMMING_SCALE_BLOCK);
	source.block = 0;
	source.scale_kind = HUMMING_SCALE_BLOCK;
	weight = describe(&source);
	assert_int_equal(weight.source.block, 128);
	assert_int_equal(weight.group, 128);
}

/* A caller that was built before a field existed. */
static void
test_weight__a_shorter_struct_has_defaults_at_its_end(void **state)
{
	struct humming_weight_source source =
	    make_source(HUMMING_TYPE_BF16, U4);
	struct hm_weight weight;

	(void)state;
	source.group = 128;
	source.scale_kind = 99; /* beyond the size below */
	source.struct_size =
	    (uint32_t)offsetof(struct humming_weight_source, scale_kind);
	weight = describe(&source);
	assert_int_equal(weight.source.scale_kind, HUMMING_SCALE_GROUP);
	assert_int_equal(weight.chunk_bytes, 4096 + 128);
}

static void
test_weight__lines_hold_what_the_kernels_multiply_with(void **state)
{
	static const struct {
		uint32_t a_type, w_type, group, scale_type, mx_exact;
		enum hm_config_scale scale;
	} cases[] = {
	    {HUMMING_TYPE_BF16, U4, 128, HUMMING_TYPE_F32, 0,
		HM_CONFIG_SCALE_BF16},
	    {HUMMING_TYPE_F16, U8, 32, HUMMING_TYPE_BF16, 0,
		HM_CONFIG_SCALE_F16},
	    {HUMMING_TYPE_E4M3, U4, 128, HUMMING_TYPE_BF16, 0,
		HM_CONFIG_SCALE_BF16},
	    {HUMMING_TYPE_E4M3, U4, 128, HUMMING_TYPE_F32, 0,
		HM_CONFIG_SCALE_F32},
	    {S8, U4, 64, HUMMING_TYPE_F16, 0, HM_CONFIG_SCALE_F16},
	    {HUMMING_TYPE_BF16, HUMMING_TYPE_E2M1, 32, HUMMING_TYPE_E8M0, 0,
		HM_CONFIG_SCALE_E8M0},
	    {HUMMING_TYPE_E5M2, HUMMING_TYPE_E2M1, 32, HUMMING_TYPE_E8M0, 0,
		HM_CONFIG_SCALE_MX},
	    {HUMMING_TYPE_E5M2, HUMMING_TYPE_E2M1, 32, HUMMING_TYPE_E8M0, 1,
		HM_CONFIG_SCALE_E8M0},
	    {HUMMING_TYPE_E4M3, HUMMING_TYPE_E4M3, 32, HUMMING_TYPE_E8M0, 0,
		HM_CONFIG_SCALE_E8M0},
	    {HUMMING_TYPE_E4M3, HUMMING_TYPE_E4M3, 0, HUMMING_TYPE_F32, 0,
		HM_CONFIG_SCALE_NONE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct humming_weight_source source =
		    make_source(cases[i].a_type, cases[i].w_type);

		source.group = cases[i].group;
		source.scale_type = cases[i].scale_type;
		source.mx_exact = cases[i].mx_exact;
		assert_int_equal(describe(&source).scale, cases[i].scale);
	}
}

static void
test_weight__pairs_that_no_kernel_multiplies_are_refused(void **state)
{
	static const uint32_t pairs[][2] = {{S8, HUMMING_TYPE_E2M1},
	    {S8, HUMMING_TYPE_E4M3}, {HUMMING_TYPE_E4M3, U8},
	    {HUMMING_TYPE_E5M2, U8}};
	struct humming_weight_source source;

	(void)state;
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		source = make_source(pairs[i][0], pairs[i][1]);
		expect_refusal(&source, HM_E_UNSUPPORTED,
		    "fp8 activations take u4, e2m1 and e4m3");
	}
	source = make_source(HUMMING_TYPE_BF16, HUMMING_TYPE_E5M2);
	expect_refusal(&source, HM_E_UNSUPPORTED, "w_type must be");
	source = make_source(HUMMING_TYPE_E2M1, HUMMING_TYPE_E2M1);
	expect_refusal(&source, HM_E_UNSUPPORTED, "a_type must be");
	source = make_source(S8, U4);
	source.k = 136;
	expect_refusal(&source, HM_E_INVALID, "k = 136 one of 16");
	source = make_source(HUMMING_TYPE_BF16, U8);
	source.group = 128;
	source.zero = HUMMING_ZERO_INT;
	expect_refusal(&source, HM_E_UNSUPPORTED, "zero points need u4");
	source = make_source(S8, U4);
	source.group = 128;
	source.zero = HUMMING_ZERO_INT;
	expect_refusal(&source, HM_E_UNSUPPORTED, "zero points need u4");
}

static void
test_weight__scales_that_contradict_themselves_are_refused(void **state)
{
	struct humming_weight_source source =
	    make_source(HUMMING_TYPE_BF16, HUMMING_TYPE_E2M1);

	(void)state;
	source.group = 64;
	source.scale_type = HUMMING_TYPE_E8M0;
	expect_refusal(&source, HM_E_UNSUPPORTED, "groups of 32");
	source.group = 0;
	expect_refusal(&source, HM_E_UNSUPPORTED, "groups of 32");
	source.group = 32;
	source.mx_exact = 1;
	expect_refusal(&source, HM_E_INVALID, "mx_exact takes");
	source.mx_exact = 2;
	expect_refusal(&source, HM_E_INVALID, "no such");
	source = make_source(S8, U4);
	source.group = 32;
	source.scale_type = HUMMING_TYPE_E8M0;
	expect_refusal(&source, HM_E_UNSUPPORTED, "fp8 activations");
	source = make_source(HUMMING_TYPE_BF16, U4);
	source.group = 128;
	source.block = 128;
	expect_refusal(&source, HM_E_INVALID, "contradict");
	source.block = 0;
	source.scale_kind = HUMMING_SCALE_TENSOR;
	expect_refusal(&source, HM_E_INVALID, "contradict");
	source = make_source(HUMMING_TYPE_BF16, U4);
	source.block = 64;
	expect_refusal(&source, HM_E_UNSUPPORTED, "block must be 128");
	source.block = 0;
	source.scale_type = HUMMING_TYPE_E4M3;
	expect_refusal(&source, HM_E_INVALID, "scale_type is");
	source.scale_type = 0;
	source.scale_kind = 5;
	expect_refusal(&source, HM_E_INVALID, "no such");
	source = make_source(HUMMING_TYPE_BF16, U8);
	source.code_layout = HUMMING_CODES_NIBBLES;
	expect_refusal(&source, HM_E_INVALID, "NIBBLES takes u4 or e2m1");
	source = make_source(HUMMING_TYPE_BF16, U8);
	source.reserved = 1;
	expect_refusal(&source, HM_E_INVALID, "reserved");
}

/* ---- contents ---- */

static void
test_weight__codes_and_scales_that_are_no_numbers_are_refused(void **state)
{
	struct humming_weight_source source =
	    make_source(HUMMING_TYPE_E4M3, HUMMING_TYPE_E4M3);
	uint8_t *codes = calloc(64, 128);
	float scales[64];
	struct hm_weight weight;

	(void)state;
	assert_non_null(codes);
	for (uint32_t i = 0; i < 64; i++)
		scales[i] = 1;
	source.codes = codes;
	source.scales = scales;
	source.scale_type = HUMMING_TYPE_F32;
	codes[5 * 128 + 7] = 0xff;
	assert_int_equal(hm_weight_describe_full(&source, &weight),
	    HM_E_INVALID);
	assert_non_null(strstr(humming_gemm_last_error(),
	    "code 255 of row 5, column 7 is an e4m3 NaN"));
	source.code_layout = HUMMING_CODES_INT32;
	assert_int_equal(hm_weight_describe_full(&source, &weight),
	    HM_E_INVALID);
	codes[5 * 128 + 7] = 0x7e;
	assert_int_equal(hm_weight_describe_full(&source, &weight), HM_OK);
	/* rowmul of u4 for fp8 is 2^9 times the scale */
	source.w_type = U4;
	memset(codes, 0, (size_t)64 * 128);
	scales[63] = 0x1p116f;
	assert_int_equal(hm_weight_describe_full(&source, &weight), HM_OK);
	scales[63] = 0x1p117f;
	assert_int_equal(hm_weight_describe_full(&source, &weight),
	    HM_E_INVALID);
	source.a_type = S8;
	scales[63] = 0x1p119f;
	assert_int_equal(hm_weight_describe_full(&source, &weight), HM_OK);
	free(codes);
}

static void
test_weight__values_follow_the_types(void **state)
{
	struct humming_weight_source source =
	    make_source(HUMMING_TYPE_BF16, HUMMING_TYPE_E2M1);
	static const uint8_t codes[64 * 128] = {0, 7, 15, 1};
	struct hm_weight weight;

	(void)state;
	source.codes = codes;
	weight = describe(&source);
	assert_true(hm_weight_value(&weight, 0, 1) == 6);
	assert_true(hm_weight_value(&weight, 0, 2) == -6);
	assert_true(hm_weight_value(&weight, 0, 3) == 0.5);
	source.w_type = U8;
	weight = describe(&source);
	assert_true(hm_weight_value(&weight, 0, 0) == -128);
	assert_true(hm_weight_value(&weight, 0, 1) == -121);
	source.w_type = U4;
	weight = describe(&source);
	assert_true(hm_weight_value(&weight, 0, 2) == 7);
	source.w_type = HUMMING_TYPE_E4M3;
	weight = describe(&source);
	assert_true(hm_weight_value(&weight, 0, 3) == 1.0 / 512);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_weight__every_bit_of_a_word_belongs_to_one_code),
	    cmocka_unit_test(
		test_weight__every_code_comes_back_whatever_its_neighbours),
	    cmocka_unit_test(test_weight__defaults_are_those_of_a_request),
	    cmocka_unit_test(
		test_weight__a_shorter_struct_has_defaults_at_its_end),
	    cmocka_unit_test(
		test_weight__lines_hold_what_the_kernels_multiply_with),
	    cmocka_unit_test(
		test_weight__pairs_that_no_kernel_multiplies_are_refused),
	    cmocka_unit_test(
		test_weight__scales_that_contradict_themselves_are_refused),
	    cmocka_unit_test(
		test_weight__codes_and_scales_that_are_no_numbers_are_refused),
	    cmocka_unit_test(test_weight__values_follow_the_types),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
