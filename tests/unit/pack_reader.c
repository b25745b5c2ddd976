/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack_reader.c - see pack_reader.h.
 */
#include "pack_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "jit/config.h"

double
pack_reader_power(int exponent)
{
	double value = 1;

	for (; exponent > 0; exponent--)
		value *= 2;
	for (; exponent < 0; exponent++)
		value /= 2;
	return value;
}

/* A float of so many exponent and fraction bits, without special values. */
static double
float_value(uint32_t bits, uint32_t n_exponent, uint32_t n_fraction)
{
	uint32_t fraction = bits & ((1u << n_fraction) - 1);
	int exponent = (int)(bits >> n_fraction & ((1u << n_exponent) - 1));
	int bias = (1 << (n_exponent - 1)) - 1;
	double value = fraction;

	if (exponent > 0)
		value += 1u << n_fraction;
	else
		exponent = 1;
	value *= pack_reader_power(exponent - bias - (int)n_fraction);
	return (bits >> (n_exponent + n_fraction) & 1) != 0 ? -value : value;
}

double
pack_reader_value(uint32_t w_type, uint32_t code)
{
	static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

	if (w_type == U4)
		return (double)code - 8;
	if (w_type == U8)
		return (double)code - 128;
	if (w_type == E2M1)
		return (code & 8) != 0 ? -e2m1[code & 7] : e2m1[code & 7];
	return float_value(code, 4, 3);
}

static uint32_t
rotl(uint32_t word, uint32_t n)
{
	return word << n | word >> (32 - n);
}

/* 16-bit activations: register i of a step whose words are q[0], q[1]. */
static uint32_t
read_16(const struct pack_format *format, const uint32_t *q, uint32_t i)
{
	bool is_f16 = format->a_type == F16;
	uint32_t word = q[0];

	if (format->w_type == U4) {
		if (is_f16)
			return rotl(word, 32 - 3) >> 4 * i & 0x000f000fu;
		return word >> 4 * i & 0x000f000fu;
	}
	if (format->w_type == E2M1 && !is_f16) {
		const uint32_t m = 0x81c081c0u;
		const uint32_t registers[] = {word & m, rotl(word, 4) & m,
		    (rotl(word, 6) & 0x80c080c0u) |
			(rotl(word, 14) & 0x01000100u),
		    rotl(word, 10) & m};

		return registers[i];
	}
	if (format->w_type == E2M1) {
		const uint32_t m = 0x0e000e00u;
		const uint32_t registers[] = {word & 0x8e008e00u,
		    word << 3 & 0x8e008e00u,
		    (word << 6 & m) | (word << 1 & 0x80008000u),
		    (word << 9 & m) | (word << 2 & 0x80008000u)};

		return registers[i];
	}
	word = q[i >> 1];
	if (format->w_type == U8 && !is_f16)
		return word >> 8 * (i & 1) & 0x00ff00ffu;
	if (format->w_type == U8)
		return ((i & 1) == 0 ? word : rotl(word, 24)) & 0x07f807f8u;
	if (!is_f16 && (i & 1) == 0)
		return word & 0x87f087f0u;
	if (!is_f16)
		return (rotl(word, 8) & 0x07700770u) |
		       (rotl(word, 4) & 0x80808080u);
	word >>= 16 * (i & 1); /* e4m3 pairs for cvt */
	return (word & 0xff) | (word & 0xff00) << 8;
}

/* Value h of a register as the operand that the tensor cores see. */
static double
operand_16(const struct pack_format *format, uint32_t bits, uint32_t h)
{
	bool is_f16 = format->a_type == F16;
	uint32_t half = bits >> 16 * h & 0xffffu;

	switch (format->w_type) {
	case U4:
		return (half - 8.0) / 64;
	case U8:
		return ((is_f16 ? half >> 3 : half) - 128.0) / 64;
	case E2M1:
		return is_f16
			   ? float_value(half, 5, 10) * 256
			   : float_value(half, 8, 7) * pack_reader_power(120);
	default:
		return is_f16
			   ? float_value(half, 4, 3) / 64
			   : float_value(half, 8, 7) * pack_reader_power(114);
	}
}

/* prmt with T0 and T1 of KERNELS.md 4.5, e the exponent of the group. */
static uint32_t
read_table(int e, uint32_t selectors)
{
	uint64_t table = (uint64_t)(0x4c484440u + (uint32_t)e * 0x08080808u)
			     << 32 |
			 (uint32_t)(0x3c383000u + (uint32_t)e * 0x08080800u);
	uint32_t bytes = 0;

	for (uint32_t c = 0; c < 4; c++)
		bytes |= (uint32_t)(table >> 8 * (selectors >> 4 * c & 7) & 255)
			 << 8 * c;
	return bytes;
}

/* 8-bit activations: register i of step j; e of the row's group, for mx. */
static uint32_t
read_8(const struct pack_format *format, const uint32_t *words, uint32_t j,
    uint32_t i, int e)
{
	bool is_odd = (i & 1) != 0;
	uint32_t q = words[2 * j + (i >> 1)];
	uint32_t x = 0;

	if (format->w_type == U8 || format->w_type == E4M3)
		return words[4 * j + i];
	if (format->w_type == U4 && format->a_type == S8)
		return (is_odd ? q << 4 : q) & 0xf0f0f0f0u;
	if (format->w_type == U4) {
		x = (is_odd ? rotl(q, 4) : q) & 0x87878787u;
		return x + (x >> 7 & 0x01010101u);
	}
	if (format->scale == HM_CONFIG_SCALE_MX && !is_odd)
		return read_table(e, q & 0x7777) | (q & 0x80808080u);
	if (format->scale == HM_CONFIG_SCALE_MX)
		return read_table(e, q >> 16 & 0x7777) | (q << 4 & 0x80808080u);
	if (!is_odd)
		return rotl(q, 2) & 0x9c9c9c9cu;
	return (q & 0x98989898u) | (rotl(q, 4) & 0x04040404u);
}

static double
operand_8(const struct pack_format *format, uint32_t bits, uint32_t c)
{
	uint32_t byte = bits >> 8 * c & 0xffu;

	if (format->a_type == S8)
		return byte < 128 ? byte : byte - 256.0;
	return float_value(byte, 4, 3);
}

/* The bits of the line's element of a row (of 64) for k (of 128). */
static uint32_t
read_line(const struct pack_format *format, const uint8_t *chunk, uint32_t row,
    uint32_t k)
{
	static const uint32_t sizes[] = {0, 2, 2, 4, 1, 1};
	uint32_t n_bytes = sizes[format->scale];
	uint32_t code_bytes =
	    format->w_type == U4 || format->w_type == E2M1 ? 4096 : 8192;
	uint32_t index = row / 16 * 16 + row % 8 * 2 + row / 8 % 2;
	uint32_t bits = 0;

	if (n_bytes == 0)
		return 0;
	memcpy(&bits,
	    chunk + code_bytes +
		(size_t)(k / format->line_group) * 64 * n_bytes +
		(size_t)index * n_bytes,
	    n_bytes);
	return bits;
}

/* r of a line, as the kernels multiply with it. */
static double
line_scale(const struct pack_format *format, uint32_t bits)
{
	float single = 0;

	switch (format->scale) {
	case HM_CONFIG_SCALE_BF16:
		return float_value(bits, 8, 7);
	case HM_CONFIG_SCALE_F16:
		return float_value(bits, 5, 10);
	case HM_CONFIG_SCALE_F32:
		memcpy(&single, &bits, sizeof single);
		return (double)single;
	case HM_CONFIG_SCALE_E8M0:
		return pack_reader_power((int)bits - 127);
	default: /* channel, and mx, which is in the operand */
		return 1;
	}
}

/* What a lane of a row tile and half makes of its words. */
static void
read_lane(const struct pack_format *format, const uint8_t *chunk, uint32_t half,
    uint32_t row_tile, uint32_t lane, double (*weights)[128])
{
	uint32_t n_words =
	    format->w_type == U4 || format->w_type == E2M1 ? 4 : 8;
	bool is_16 = format->a_type == BF16 || format->a_type == F16;
	uint32_t width = is_16 ? 2 : 4;
	uint32_t words[8] = {0};

	for (uint32_t piece = 0; piece < n_words / 4; piece++)
		memcpy(words + 4 * (size_t)piece,
		    chunk + (size_t)(half * 4 + row_tile) * 128 * n_words +
			(size_t)piece * 512 + (size_t)lane * 16,
		    16);
	for (uint32_t slot = 0; slot < 32; slot++) {
		uint32_t e = slot % width;
		uint32_t i = slot / width % 4;
		uint32_t j = slot / width / 4;
		uint32_t row = 16 * row_tile + lane / 4 + 8 * (i & 1);
		uint32_t k = 64 * half + 8 * width * j + 4 * width * (i >> 1) +
			     width * (lane % 4) + e;
		uint32_t line = read_line(format, chunk, row, k);
		double operand = 0;

		if (is_16)
			operand = operand_16(format,
			    read_16(format, words + (size_t)j * (n_words / 4),
				i),
			    e);
		else
			operand = operand_8(format,
			    read_8(format, words, j, i, (int)line - 5), e);
		weights[row][k] = operand * line_scale(format, line);
	}
}

void
pack_reader_chunk(const struct pack_format *format, const uint8_t *chunk,
    double (*weights)[128])
{
	for (uint32_t i = 0; i < 2 * 4 * 32; i++)
		read_lane(format, chunk, i / 128, i / 32 % 4, i % 32, weights);
}
