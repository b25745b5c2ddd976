/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptx_host.h - the pure functions of ptx.cuh in plain arithmetic.
 *
 * Includes before the device headers, which then find these names. Sixteen-bit
 * floats are decoded to double, where every product here is exact and every
 * sum is checked to be, and encoded with one rounding to nearest even. So the
 * results are those that IEEE 754 and the PTX ISA ask of the instructions.
 */
#pragma once
#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "prelude.cuh"

struct half_format {
	int mantissa_bits; /* without the hidden one */
	int min_exponent;  /* of a normal number */
	int bias;
};

template <act_type T>
constexpr half_format
format_of()
{
	return T == act_bf16 ? half_format{7, -126, 127}
			     : half_format{10, -14, 15};
}

/* Finite patterns only: the kernels make no other. */
template <act_type T>
double
decode16(u32 bits)
{
	const half_format f = format_of<T>();
	const u32 mantissa = bits & ((1u << f.mantissa_bits) - 1);
	const u32 field = (bits & 0x7fff) >> f.mantissa_bits;
	const u32 hidden = field == 0 ? 0 : 1u << f.mantissa_bits;
	const int exponent =
	    (field == 0 ? f.min_exponent : static_cast<int>(field) - f.bias);
	const double v = std::ldexp(static_cast<double>(mantissa | hidden),
	    exponent - f.mantissa_bits);

	return (bits & 0x8000) != 0 ? -v : v;
}

/* Nearest even, subnormals kept, overflow to infinity. */
template <act_type T>
u32
encode16(double v)
{
	const half_format f = format_of<T>();
	const u32 sign = std::signbit(v) ? 0x8000u : 0u;
	const u32 infinity = (2u * static_cast<u32>(f.bias) + 1)
			     << f.mantissa_bits;
	int exponent = f.min_exponent;
	double units;

	v = std::fabs(v);
	if (v > 0 && std::ilogb(v) > exponent)
		exponent = std::ilogb(v);
	units = std::nearbyint(std::ldexp(v, f.mantissa_bits - exponent));
	/* units counts last places; a carry walks into the exponent field */
	const double bits =
	    units + std::ldexp(static_cast<double>(exponent - f.min_exponent),
			f.mantissa_bits);
	return sign | (bits >= infinity ? infinity : static_cast<u32>(bits));
}

/* a + b, which must be exact in double or the emulation would round twice. */
static inline double
exact_sum(double a, double b)
{
	const double sum = a + b;

	if (sum - a != b || sum - b != a) {
		std::printf("Bail out! inexact sum %g + %g\n", a, b);
		std::exit(2);
	}
	return sum;
}

template <act_type T>
u32
fma16(u32 a, u32 b, u32 c)
{
	const double product = decode16<T>(a) * decode16<T>(b);

	return encode16<T>(exact_sum(product, decode16<T>(c)));
}

template <act_type T>
u32
fma2(u32 a, u32 b, u32 c)
{
	return fma16<T>(a & 0xffff, b & 0xffff, c & 0xffff) |
	       fma16<T>(a >> 16, b >> 16, c >> 16) << 16;
}

template <act_type T>
u32
pack2(float low, float high)
{
	return encode16<T>(static_cast<double>(low)) |
	       encode16<T>(static_cast<double>(high)) << 16;
}

template <act_type T>
float
low_half(u32 pair)
{
	return static_cast<float>(decode16<T>(pair & 0xffff));
}

template <act_type T>
float
high_half(u32 pair)
{
	return static_cast<float>(decode16<T>(pair >> 16));
}

/* The 128 magnitudes and their signs; e4m3 has no infinity, its NaN is ours to
 * avoid. e5m2 is the upper byte of f16. */
template <act_type T>
double
decode8(u32 bits)
{
	if (T == act_e5m2)
		return decode16<act_f16>((bits & 0xff) << 8);
	const u32 field = bits >> 3 & 15, mantissa = bits & 7;
	const double v = field == 0
			     ? std::ldexp(static_cast<double>(mantissa), -9)
			     : std::ldexp(static_cast<double>(mantissa | 8),
				   static_cast<int>(field) - 10);

	return (bits & 0x80) != 0 ? -v : v;
}

template <act_type T>
u32
widen_low(u32 bytes)
{
	return encode16<act_f16>(decode8<T>(bytes & 0xff)) |
	       encode16<act_f16>(decode8<T>(bytes >> 8 & 0xff)) << 16;
}

template <act_type T>
u32
widen_high(u32 bytes)
{
	return widen_low<T>(bytes >> 16);
}

static inline float
float_of_bits(u32 bits)
{
	float value;

	std::memcpy(&value, &bits, 4);
	return value;
}

static inline u32
bits_of(float value)
{
	u32 bits;

	std::memcpy(&bits, &value, 4);
	return bits;
}

static inline float
fma1(float a, float b, float c)
{
	return std::fma(a, b, c);
}

static inline u32
permute_bytes(u32 a, u32 b, u32 selector)
{
	const u64 source = static_cast<u64>(b) << 32 | a;
	u32 result = 0;

	for (u32 i = 0; i < 4; i++) {
		const u32 byte = selector >> 4 * i & 7;

		result |= static_cast<u32>(source >> 8 * byte & 0xff) << 8 * i;
	}
	return result;
}

static inline u32
and_or(u32 a, u32 mask, u32 bits)
{
	return (a & mask) | bits;
}

static inline u32
rotate_right(u32 a, u32 bits)
{
	return bits == 0 ? a : a >> bits | a << (32 - bits);
}
