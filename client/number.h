/* SPDX-License-Identifier: Apache-2.0 */
/*
 * number.h - 16- and 32-bit floats to double and back, by their bits.
 *
 * Types are HUMMING_TYPE_BF16, HUMMING_TYPE_F16 and HUMMING_TYPE_F32. Double
 * holds every value of all three exactly, so the only rounding is the one of
 * hm_number_encode16. No libm.
 */
#ifndef HM_CLIENT_NUMBER_H
#define HM_CLIENT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 2^exponent, -1022 <= exponent <= 1023. */
double hm_number_power(int exponent);

/* Smallest e with 2^e >= value, for a finite value > 0 that is not subnormal
 * as a double. */
int hm_number_ceil_exponent(double value);

bool hm_number_is_finite(double value);

/* A bf16 or f16 by its bits. */
double hm_number_decode16(uint32_t type, uint16_t bits);

/* To the nearest, ties to even; beyond the largest to infinity. */
uint16_t hm_number_encode16(uint32_t type, double value);

/* Element `index` of an array of bf16, f16 or f32. */
double hm_number_at(uint32_t type, const void *array, size_t index);

#endif
