/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_number.c - every 16-bit float there and back, and rounding.
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
test_number__at_reads_unaligned_arrays_of_all_three_types(void **state)
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
		test_number__at_reads_unaligned_arrays_of_all_three_types),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
