/* SPDX-License-Identifier: Apache-2.0 */
/*
 * number.h - 8-, 16- and 32-bit numbers to double and back, by their bits.
 *
 * Types are HUMMING_TYPE_BF16, F16 and F32; of 8 bits E4M3, E5M2, E8M0 and
 * SINT(8); and E2M1, which has 4. Double holds every value of all of them
 * exactly, so the only roundings are those of the encoders. No libm.
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

/* The same for the types of at most 8 bits. E4M3 has one NaN of each sign and
 * no infinity, E2M1 neither (OCP 8-bit and MX formats). */
double hm_number_decode8(uint32_t type, uint8_t bits);

/* To the nearest, ties to even; beyond the largest finite value to that, as
 * cvt.satfinite does. E4M3, E5M2, E2M1 or SINT(8) (to -127..127); value is
 * finite. */
uint8_t hm_number_encode8(uint32_t type, double value);

/* Bytes of an element in an array; E2M1 takes one. */
uint32_t hm_number_bytes(uint32_t type);

/* Element `index` of an array. */
double hm_number_at(uint32_t type, const void *array, size_t index);

#endif
