/* SPDX-License-Identifier: Apache-2.0 */
/*
 * number.c - floats by their bits.
 *
 * A float of E exponent and F fraction bits with bias b is, for exponent field
 * e and fraction f, (2^F + f) * 2^(e - b - F) when e > 0 and f * 2^(1 - b - F)
 * when e = 0 (IEEE 754-2019, 3.4). bf16 is the upper half of a binary32.
 */
#include "client/number.h"

#include <string.h>

#include <humming/client.h>

#define DOUBLE_FRACTION_BITS 52
#define DOUBLE_BIAS          1023
#define DOUBLE_EXPONENT_MASK 0x7ffu

/* Exponent and fraction bits of a 16-bit type. */
struct number_format {
	int exponent_bits;
	int fraction_bits;
	int bias;
};

static struct number_format
number_format(uint32_t type)
{
	struct number_format format = {8, 7, 127};

	if (type == HUMMING_TYPE_F16)
		format = (struct number_format){5, 10, 15};
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

double
hm_number_decode16(uint32_t type, uint16_t bits)
{
	struct number_format format = number_format(type);
	uint32_t fraction = bits & ((1u << format.fraction_bits) - 1);
	uint32_t exponent = (bits & 0x7fffu) >> format.fraction_bits;
	uint32_t special = (1u << format.exponent_bits) - 1;
	double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
	uint64_t infinity = (uint64_t)DOUBLE_EXPONENT_MASK
			    << DOUBLE_FRACTION_BITS;
	double value = 0;

	if (exponent == special) {
		infinity |= fraction; /* not zero: a NaN */
		memcpy(&value, &infinity, sizeof value);
		return sign * value;
	}
	if (exponent == 0)
		exponent = 1;
	else
		fraction |= 1u << format.fraction_bits;
	return sign * fraction *
	       hm_number_power(
		   (int)exponent - format.bias - format.fraction_bits);
}

/* A positive double below 2^52 to the nearest integer, ties to even. */
static uint32_t
number_round(double value)
{
	uint32_t whole = (uint32_t)value;
	double rest = value - whole;

	if (rest > 0.5 || (rest >= 0.5 && (whole & 1) != 0))
		whole++;
	return whole;
}

uint16_t
hm_number_encode16(uint32_t type, double value)
{
	struct number_format format = number_format(type);
	uint32_t infinity = ((1u << format.exponent_bits) - 1)
			    << format.fraction_bits;
	uint32_t sign = (uint32_t)(number_bits(value) >> 48 & 0x8000u);
	int least = 1 - format.bias; /* exponent of the smallest normal */
	double size = value < 0 ? -value : value;
	int exponent = number_exponent(value);
	uint32_t bits = 0;

	if (!hm_number_is_finite(value))
		return (uint16_t)(sign | infinity | (value != value));
	if (exponent > format.bias)
		return (uint16_t)(sign | infinity);
	if (exponent < least - format.fraction_bits - 1)
		return (uint16_t)sign;
	if (exponent < least)
		exponent = least;
	/* The hidden bit of a normal adds the one that exponent - least lacks;
	 * a carry out of the fraction lands in the exponent, as it must. */
	bits = (uint32_t)(exponent - least) << format.fraction_bits;
	bits += number_round(
	    size * hm_number_power(format.fraction_bits - exponent));
	if (bits > infinity)
		bits = infinity;
	return (uint16_t)(sign | bits);
}

double
hm_number_at(uint32_t type, const void *array, size_t index)
{
	const unsigned char *bytes = array;
	uint16_t half = 0;
	float single = 0;

	if (type == HUMMING_TYPE_F32) {
		memcpy(&single, bytes + index * sizeof single, sizeof single);
		return (double)single;
	}
	memcpy(&half, bytes + index * sizeof half, sizeof half);
	return hm_number_decode16(type, half);
}
