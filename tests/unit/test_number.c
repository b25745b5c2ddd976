/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_number.c - every float of at most 16 bits there and back, and rounding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <humming/client.h>

#include "client/number.h"

static float
float_of(uint32_t bits)
{
	float value = 0;

	memcpy(&value, &bits, sizeof value);
	return value;
}

static void
test_number__every_bf16_is_the_upper_half_of_a_float(void **state)
{
	(void)state;
	for (uint32_t bits = 0; bits < 65536; bits++) {
		double value =
		    hm_number_decode16(HUMMING_TYPE_BF16, (uint16_t)bits);
		double same = (double)float_of(bits << 16);

		if (same != same) {
			assert_true(value != value);
			continue;
		}
		assert_memory_equal(&value, &same, sizeof value);
		assert_int_equal(hm_number_encode16(HUMMING_TYPE_BF16, value),
		    bits);
	}
}

static void
test_number__every_f16_comes_back_and_they_rise(void **state)
{
	double last = -1;

	(void)state;
	for (uint32_t bits = 0; bits <= 0x7c00; bits++) {
		double value =
		    hm_number_decode16(HUMMING_TYPE_F16, (uint16_t)bits);

		assert_true(value > last);
		assert_int_equal(hm_number_encode16(HUMMING_TYPE_F16, value),
		    bits);
		assert_int_equal(hm_number_encode16(HUMMING_TYPE_F16, -value),
		    bits | 0x8000u);
		last = value;
	}
	assert_true(hm_number_decode16(HUMMING_TYPE_F16, 0x3c00) == 1.0);
	assert_true(hm_number_decode16(HUMMING_TYPE_F16, 0x7bff) == 65504.0);
	assert_true(
	    hm_number_decode16(HUMMING_TYPE_F16, 1) == hm_number_power(-24));
}

static void
check_rounding(uint32_t type)
{
	for (uint32_t bits = 0; bits < 0x7b00; bits++) {
		double low = hm_number_decode16(type, (uint16_t)bits);
		double high = hm_number_decode16(type, (uint16_t)(bits + 1));
		double middle = low + (high - low) / 2;
		double little = (high - low) / 1024;

		assert_int_equal(hm_number_encode16(type, middle),
		    (bits & 1) == 0 ? bits : bits + 1);
		assert_int_equal(hm_number_encode16(type, middle - little),
		    bits);
		assert_int_equal(hm_number_encode16(type, middle + little),
		    bits + 1);
	}
}

static void
test_number__encode_rounds_to_nearest_and_ties_to_even(void **state)
{
	(void)state;
	check_rounding(HUMMING_TYPE_BF16);
	check_rounding(HUMMING_TYPE_F16);
}

static void
test_number__too_large_is_infinity_and_nan_stays_nan(void **state)
{
	double nan = hm_number_decode16(HUMMING_TYPE_F16, 0x7e00);
	double infinity = hm_number_decode16(HUMMING_TYPE_F16, 0x7c00);

	(void)state;
	assert_int_equal(hm_number_encode16(HUMMING_TYPE_F16, 65519), 0x7bff);
	assert_int_equal(hm_number_encode16(HUMMING_TYPE_F16, 65520), 0x7c00);
	assert_int_equal(hm_number_encode16(HUMMING_TYPE_F16, -1e9), 0xfc00);
	assert_int_equal(hm_number_encode16(HUMMING_TYPE_BF16, infinity),
	    0x7f80);
	assert_int_equal(hm_number_encode16(HUMMING_TYPE_F16, nan) & 0x7fff,
	    0x7c01);
	assert_false(hm_number_is_finite(nan));
	assert_false(hm_number_is_finite(infinity));
	assert_true(hm_number_is_finite(1e300));
}

static void
test_number__ceil_exponent_is_the_least_power_not_below(void **state)
{
	(void)state;
	assert_int_equal(hm_number_ceil_exponent(1.0), 0);
	assert_int_equal(hm_number_ceil_exponent(1.0000001), 1);
	assert_int_equal(hm_number_ceil_exponent(0.99), 0);
	assert_int_equal(hm_number_ceil_exponent(0.5), -1);
	assert_int_equal(hm_number_ceil_exponent(hm_number_power(-133)), -133);
}

static void
test_number__at_reads_unaligned_arrays_of_all_types(void **state)
{
	unsigned char bytes[16] = {0};
	float single = 1.5f;
	uint16_t half = 0x3e00;

	(void)state;
	memcpy(bytes + 5, &single, 4);
	assert_true(hm_number_at(HUMMING_TYPE_F32, bytes + 1, 1) == 1.5);
	memcpy(bytes + 5, &half, 2);
	assert_true(hm_number_at(HUMMING_TYPE_F16, bytes + 1, 2) == 1.5);
	assert_true(hm_number_at(HUMMING_TYPE_BF16, bytes + 1, 2) == 0.125);
	bytes[7] = 0x81;
	assert_true(hm_number_at(HUMMING_TYPE_SINT(8), bytes + 1, 6) == -127);
	assert_true(hm_number_at(HUMMING_TYPE_E4M3, bytes, 7) == -1.0 / 512);
}

/* Largest finite magnitude of the 8-bit types, and what it means. */
static const struct {
	uint32_t type;
	uint32_t most;
	double value, least;
} small_types[] = {
    {HUMMING_TYPE_E4M3, 0x7e, 448, 1.0 / 512},
    {HUMMING_TYPE_E5M2, 0x7b, 57344, 1.0 / 65536},
    {HUMMING_TYPE_E2M1, 0x07, 6, 0.5},
};

static void
test_number__every_small_float_comes_back_and_they_rise(void **state)
{
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		uint32_t type = small_types[i].type;
		uint32_t sign = type == HUMMING_TYPE_E2M1 ? 8 : 128;
		double last = -1;

		for (uint32_t bits = 0; bits <= small_types[i].most; bits++) {
			double value = hm_number_decode8(type, (uint8_t)bits);

			assert_true(value > last);
			assert_int_equal(hm_number_encode8(type, value), bits);
			assert_true(hm_number_decode8(type,
					(uint8_t)(bits | sign)) == -value);
			assert_int_equal(hm_number_encode8(type, -value),
			    bits | sign);
			last = value;
		}
		assert_true(last == small_types[i].value);
		assert_true(hm_number_decode8(type, 1) == small_types[i].least);
	}
	assert_false(
	    hm_number_is_finite(hm_number_decode8(HUMMING_TYPE_E4M3, 0x7f)));
	assert_false(
	    hm_number_is_finite(hm_number_decode8(HUMMING_TYPE_E4M3, 0xff)));
	for (uint8_t bits = 0x7c; bits < 0x80; bits++)
		assert_false(hm_number_is_finite(
		    hm_number_decode8(HUMMING_TYPE_E5M2, bits)));
}

static void
test_number__small_floats_round_to_even_and_saturate(void **state)
{
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		uint32_t type = small_types[i].type;
		uint32_t most = small_types[i].most;

		for (uint32_t bits = 0; bits < most; bits++) {
			double low = hm_number_decode8(type, (uint8_t)bits);
			double high =
			    hm_number_decode8(type, (uint8_t)(bits + 1));
			double middle = (low + high) / 2;

			assert_int_equal(hm_number_encode8(type, middle),
			    (bits & 1) == 0 ? bits : bits + 1);
			assert_int_equal(
			    hm_number_encode8(type, middle * 0.999), bits);
			assert_int_equal(
			    hm_number_encode8(type, middle * 1.001), bits + 1);
		}
		assert_int_equal(
		    hm_number_encode8(type, small_types[i].value * 1.2), most);
		assert_int_equal(hm_number_encode8(type, 1e30), most);
		assert_true(
		    hm_number_decode8(type, hm_number_encode8(type, -1e30)) ==
		    -small_types[i].value);
	}
}

static void
test_number__s8_and_exponents_are_what_their_bits_say(void **state)
{
	(void)state;
	for (int value = -127; value <= 127; value++) {
		uint8_t bits = hm_number_encode8(HUMMING_TYPE_SINT(8), value);

		assert_int_equal(bits, value & 255);
		assert_true(
		    hm_number_decode8(HUMMING_TYPE_SINT(8), bits) == value);
	}
	assert_true(hm_number_decode8(HUMMING_TYPE_SINT(8), 0x80) == -128);
	assert_int_equal(hm_number_encode8(HUMMING_TYPE_SINT(8), 2.5), 2);
	assert_int_equal(hm_number_encode8(HUMMING_TYPE_SINT(8), -3.5), 0xfc);
	assert_int_equal(hm_number_encode8(HUMMING_TYPE_SINT(8), 1e9), 127);
	assert_int_equal(hm_number_encode8(HUMMING_TYPE_SINT(8), -128), 0x81);
	assert_true(hm_number_decode8(HUMMING_TYPE_E8M0, 127) == 1);
	assert_true(
	    hm_number_decode8(HUMMING_TYPE_E8M0, 0) == hm_number_power(-127));
	assert_true(
	    hm_number_decode8(HUMMING_TYPE_E8M0, 254) == hm_number_power(127));
	assert_false(
	    hm_number_is_finite(hm_number_decode8(HUMMING_TYPE_E8M0, 255)));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_number__every_bf16_is_the_upper_half_of_a_float),
	    cmocka_unit_test(test_number__every_f16_comes_back_and_they_rise),
	    cmocka_unit_test(
		test_number__encode_rounds_to_nearest_and_ties_to_even),
	    cmocka_unit_test(
		test_number__too_large_is_infinity_and_nan_stays_nan),
	    cmocka_unit_test(
		test_number__ceil_exponent_is_the_least_power_not_below),
	    cmocka_unit_test(
		test_number__at_reads_unaligned_arrays_of_all_types),
	    cmocka_unit_test(
		test_number__every_small_float_comes_back_and_they_rise),
	    cmocka_unit_test(
		test_number__small_floats_round_to_even_and_saturate),
	    cmocka_unit_test(
		test_number__s8_and_exponents_are_what_their_bits_say),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
