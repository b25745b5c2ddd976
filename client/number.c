/* SPDX-License-Identifier: Apache-2.0 */
/*
 * number.c - numbers by their bits.
 *
 * A float of E exponent and F fraction bits with bias b is, for exponent field
 * e and fraction f, (2^F + f) * 2^(e - b - F) when e > 0 and f * 2^(1 - b - F)
 * when e = 0 (IEEE 754-2019, 3.4), b = 2^(E - 1) - 1. bf16 is the upper half of
 * a binary32. The small formats (OCP 8-bit floating point 1.0, MX 1.0) differ
 * in what the largest exponent means: e5m2 follows IEEE, e4m3 gives up all but
 * the last fraction for finite values, e2m1 has no special value at all. e8m0
 * is 2^(bits - 127), 255 a NaN.
 */
#include "client/number.h"

#include <string.h>

#include <humming/client.h>

#define DOUBLE_FRACTION_BITS 52
#define DOUBLE_BIAS          1023
#define DOUBLE_EXPONENT_MASK 0x7ffu

#define NUMBER_E8M0_NAN 0xffu
#define NUMBER_S8_MOST  127

/* How the bits of a float type are divided. */
struct number_format {
	int exponent_bits;
	int fraction_bits;
	int bias;
	uint32_t infinity; /* first magnitude that is not finite */
};

/* A HUMMING_TYPE_FLOAT spells its own format. */
static struct number_format
number_format(uint32_t type)
{
	struct number_format format;

	format.exponent_bits = (int)(type >> 8 & 0xffu);
	format.fraction_bits = (int)(type & 0xffu);
	format.bias = (1 << (format.exponent_bits - 1)) - 1;
	format.infinity = ((1u << format.exponent_bits) - 1)
			  << format.fraction_bits;
	if (type == HUMMING_TYPE_E4M3)
		format.infinity = 0x7f;
	else if (type == HUMMING_TYPE_E2M1)
		format.infinity = 0x8;
	return format;
}

static uint64_t
number_bits(double value)
{
	uint64_t bits = 0;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

double
hm_number_power(int exponent)
{
	uint64_t bits = (uint64_t)(exponent + DOUBLE_BIAS)
			<< DOUBLE_FRACTION_BITS;
	double value = 0;

	memcpy(&value, &bits, sizeof value);
	return value;
}

/* Exponent of a normal double: 2^e <= |value| < 2^(e + 1). */
static int
number_exponent(double value)
{
	return (int)(number_bits(value) >> DOUBLE_FRACTION_BITS &
		     DOUBLE_EXPONENT_MASK) -
	       DOUBLE_BIAS;
}

int
hm_number_ceil_exponent(double value)
{
	int exponent = number_exponent(value);

	return hm_number_power(exponent) < value ? exponent + 1 : exponent;
}

bool
hm_number_is_finite(double value)
{
	return (number_bits(value) >> DOUBLE_FRACTION_BITS &
		   DOUBLE_EXPONENT_MASK) != DOUBLE_EXPONENT_MASK;
}

/* A NaN with these lowest fraction bits, or infinity for 0. */
static double
number_special(uint32_t fraction)
{
	uint64_t bits =
	    (uint64_t)DOUBLE_EXPONENT_MASK << DOUBLE_FRACTION_BITS | fraction;
	double value = 0;

	memcpy(&value, &bits, sizeof value);
	return value;
}

/* A float of at most 16 bits, sign included. */
static double
number_decode(uint32_t type, uint32_t bits)
{
	struct number_format format = number_format(type);
	int sign_bit = format.exponent_bits + format.fraction_bits;
	uint32_t magnitude = bits & ((1u << sign_bit) - 1);
	uint32_t fraction = magnitude & ((1u << format.fraction_bits) - 1);
	uint32_t exponent = magnitude >> format.fraction_bits;
	double sign = (bits >> sign_bit & 1) != 0 ? -1.0 : 1.0;

	if (magnitude >= format.infinity)
		return sign * number_special(fraction); /* not 0: a NaN */
	if (exponent == 0)
		exponent = 1;
	else
		fraction |= 1u << format.fraction_bits;
	return sign * fraction *
	       hm_number_power(
		   (int)exponent - format.bias - format.fraction_bits);
}

double
hm_number_decode16(uint32_t type, uint16_t bits)
{
	return number_decode(type, bits);
}

double
hm_number_decode8(uint32_t type, uint8_t bits)
{
	if (type == HUMMING_TYPE_SINT(8))
		return bits < 128 ? bits : bits - 256;
	if (type != HUMMING_TYPE_E8M0)
		return number_decode(type, bits);
	return bits == NUMBER_E8M0_NAN ? number_special(1)
				       : hm_number_power(bits - 127);
}

/* A double of 0 to below 2^32 to the nearest integer, ties to even. */
static uint32_t
number_round(double value)
{
	uint32_t whole = (uint32_t)value;
	double rest = value - whole;

	if (rest > 0.5 || (rest >= 0.5 && (whole & 1) != 0))
		whole++;
	return whole;
}

/* Bits without the sign of a finite size >= 0; `infinity` stands for all that
 * is not finite in the type. */
static uint32_t
number_encode(const struct number_format *format, double size)
{
	int least = 1 - format->bias; /* exponent of the smallest normal */
	int exponent = number_exponent(size);
	uint32_t bits = 0;

	if (exponent > format->bias + 1)
		return format->infinity;
	if (exponent < least - format->fraction_bits - 1)
		return 0;
	if (exponent < least)
		exponent = least;
	/* The hidden bit of a normal adds the one that exponent - least lacks;
	 * a carry out of the fraction lands in the exponent, as it must. */
	bits = (uint32_t)(exponent - least) << format->fraction_bits;
	bits += number_round(
	    size * hm_number_power(format->fraction_bits - exponent));
	return bits < format->infinity ? bits : format->infinity;
}

uint16_t
hm_number_encode16(uint32_t type, double value)
{
	struct number_format format = number_format(type);
	uint32_t sign = (uint32_t)(number_bits(value) >> 48 & 0x8000u);
	double size = value < 0 ? -value : value;

	if (!hm_number_is_finite(value))
		return (uint16_t)(sign | format.infinity | (value != value));
	return (uint16_t)(sign | number_encode(&format, size));
}

uint8_t
hm_number_encode8(uint32_t type, double value)
{
	double size = value < 0 ? -value : value;
	uint32_t sign = number_bits(value) >> 63 != 0;
	struct number_format format;
	uint32_t bits = 0;

	if (type == HUMMING_TYPE_SINT(8)) {
		bits =
		    size < NUMBER_S8_MOST ? number_round(size) : NUMBER_S8_MOST;
		return (uint8_t)(sign != 0 ? 256 - bits : bits);
	}
	format = number_format(type);
	bits = number_encode(&format, size);
	if (bits >= format.infinity)
		bits = format.infinity - 1;
	return (uint8_t)(sign << (format.exponent_bits + format.fraction_bits) |
			 bits);
}

uint32_t
hm_number_bytes(uint32_t type)
{
	if (type == HUMMING_TYPE_F32)
		return 4;
	return type == HUMMING_TYPE_BF16 || type == HUMMING_TYPE_F16 ? 2 : 1;
}

double
hm_number_at(uint32_t type, const void *array, size_t index)
{
	const unsigned char *bytes = array;
	uint16_t half = 0;
	float single = 0;

	switch (hm_number_bytes(type)) {
	case 4:
		memcpy(&single, bytes + index * sizeof single, sizeof single);
		return (double)single;
	case 2:
		memcpy(&half, bytes + index * sizeof half, sizeof half);
		return number_decode(type, half);
	default: /* 1 */
		return hm_number_decode8(type, bytes[index]);
	}
}
