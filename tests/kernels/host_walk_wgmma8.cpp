/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_walk_wgmma8.cpp - one chunk through a warp of kernel H with 8-bit
 * activations, on the CPU.
 *
 * As in host_walk.cpp the chunk comes from host/pack.h; the reads of kernel H
 * are repeated with layout.cuh and dequant.cuh, wgmma m64nNk32 is emulated from
 * the fragment table of the PTX ISA and the fields of the descriptor. Sums must
 * be the products, bit for bit: whole ones with channel scales and folded
 * exponents, group by group with the others.
 */
#include <cmath>
#include <cstring>
#include <vector>

#include "host/pack.h"
#include "host/ptx_host.h"
#include "host/tap.h"

#include "dequant.cuh"
#include "layout.cuh"

enum {
	n_tokens = 16,
	folded = scale == scale_mx,
};

static u32 random_state = 1;

static u32
random_below(u32 n)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) % n;
}

/* Weights and activations of one chunk; tokens as bytes of their type. */
static plain_chunk plain;
static u8 tokens8[n_tokens][pack_k];
static std::vector<u8> packed;

static double
activation(u32 byte)
{
	if (act == act_s8)
		return static_cast<signed char>(byte);
	return act == act_e4m3 ? decode8<act_e4m3>(byte)
			       : decode8<act_e5m2>(byte);
}

/* Bits of a scale: a float that f32, bf16 and f16 hold, or an exponent. */
static u32
random_scale()
{
	const float r = static_cast<float>(1 + random_below(127)) / 128;

	if (scale == scale_mx)
		return random_below(12);
	if (scale == scale_e8m0)
		return 127 - random_below(6);
	if (scale == scale_f32)
		return bits_of(r);
	return scale == scale_bf16 ? encode16<act_bf16>(static_cast<double>(r))
				   : encode16<act_f16>(static_cast<double>(r));
}

static double
scale_of(u32 row, u32 group)
{
	const u32 bits = plain.scale[row][group];

	const int kind = scale;

	switch (kind) {
	case scale_mx:
		return std::ldexp(1, static_cast<int>(bits) - 5);
	case scale_e8m0:
		return std::ldexp(1, static_cast<int>(bits) - 127);
	case scale_f32:
		return static_cast<double>(float_of_bits(bits));
	case scale_bf16:
		return decode16<act_bf16>(bits);
	case scale_f16:
		return decode16<act_f16>(bits);
	default:
		return 1;
	}
}

static void
make_problem()
{
	for (u32 row = 0; row < pack_rows; row++) {
		for (u32 k = 0; k < pack_k; k++)
			do
				plain.code[row][k] =
				    random_below(1u << weight_bits);
			while (!pack_is_code(weight, plain.code[row][k]));
		for (u32 group = 0; group < 4; group++)
			plain.scale[row][group] = random_scale();
	}
	for (auto &token : tokens8)
		for (u8 &value : token) /* no infinity, no NaN */
			value = static_cast<u8>(
			    random_below(0x60) | random_below(2) << 7);
	packed = pack_chunk(plain);
}

/* Products of k in [first_k, first_k + n_k): operands, not values. */
static double
expected(u32 row, u32 token, u32 first_k, u32 n_k)
{
	double sum = 0;

	for (u32 k = first_k; k < first_k + n_k; k++)
		sum += pack_value(weight, plain.code[row][k]) *
		       pack_factor(act, weight, scale) *
		       (folded ? scale_of(row, k / 32) : 1) *
		       activation(tokens8[token][k]);
	return sum;
}

static u32
word_at(u32 byte)
{
	u32 word;

	tap_check(byte % 4 == 0 && byte + 4 <= packed.size(), "load", byte);
	std::memcpy(&word, &packed[byte], 4);
	return word;
}

static u32
u16_at(u32 byte)
{
	tap_check(byte % 2 == 0 && byte + 2 <= packed.size(), "load", byte);
	return packed[byte] | static_cast<u32>(packed[byte + 1]) << 8;
}

/* Activations as a tensor copy of 128 bytes by n_tokens places them. */
static std::vector<u8>
stage_tokens()
{
	std::vector<u8> memory(n_tokens * 128, 0);

	for (u32 token = 0; token < n_tokens; token++)
		for (u32 k = 0; k < pack_k; k++)
			memory[swizzled(token, k / 16) + k % 16] =
			    tokens8[token][k];
	return memory;
}

/* Element (k, token) of operand B of a k32 step, by its descriptor. */
static double
wgmma_b(const std::vector<u8> &memory, u64 descriptor, u32 k, u32 token)
{
	const u32 start = static_cast<u32>(descriptor & 0x3fff) << 4;
	const u32 stride = static_cast<u32>(descriptor >> 32 & 0x3fff) << 4;
	const u32 byte = start + token / 8 * stride + token % 8 * 128 + k;

	return activation(memory[byte ^ (byte >> 7 & 7) << 4]);
}

/* Weights are e4m3 whatever kind of fp8 the activations are. */
static double
operand_a(u32 word, u32 byte)
{
	const u32 bits = word >> 8 * byte & 0xff;

	if (act == act_s8)
		return static_cast<signed char>(bits);
	return decode8<act_e4m3>(bits);
}

/* Sums of a warp: d[4c + e] of m64nNk32. */
struct warp_sums {
	double d[32][n_tokens / 2];
};

/* a0 (g, 4t..) a1 (g + 8, 4t..) a2 (g, 16 + 4t..) a3 (g + 8, 16 + 4t..) */
static void
emulate_wgmma(warp_sums &sums, const u32 (&a)[32][4],
    const std::vector<u8> &memory, u64 descriptor)
{
	double wide[16][32];

	for (u32 lane = 0; lane < 32; lane++)
		for (u32 i = 0; i < 4; i++)
			for (u32 c = 0; c < 4; c++)
				wide[lane / 4 + 8 * (i % 2)]
				    [16 * (i / 2) + 4 * (lane % 4) + c] =
					operand_a(a[lane][i], c);
	for (u32 lane = 0; lane < 32; lane++)
		for (u32 e = 0; e < n_tokens / 2; e++) {
			const u32 row = lane / 4 + 8 * (e / 2 % 2);
			const u32 token = e / 4 * 8 + lane % 4 * 2 + e % 2;

			for (u32 k = 0; k < 32; k++)
				sums.d[lane][e] +=
				    wide[row][k] *
				    wgmma_b(memory, descriptor, k, token);
		}
}

/* Step j of 0..3 of the chunk for the 16 rows of a warp, as dequant does. */
static void
operand(u32 (&a)[32][4], u32 warp, u32 j)
{
	const u32 half = j / steps_per_half, step = j % steps_per_half;
	const u32 group = first_group_of_half(half) + group_of_step(step);

	for (u32 lane = 0; lane < 32; lane++) {
		const u32 codes =
		    half * half_code_bytes + lane_codes(warp, lane);
		dequant_terms terms = unit_terms<act>();
		u32 words[words_per_step];

		for (u32 w = 0; w < words_per_step; w++) {
			const u32 index = step * words_per_step + w;

			words[w] = word_at(
			    codes + index / 4 * piece_bytes + index % 4 * 4);
		}
		if (folded)
			set_tables(terms, u16_at(chunk_scales(group) +
						 lane_scales(warp, lane)));
		dequant_step<act, weight, scale, zero>(words, terms, a[lane]);
	}
}

/* Steps [first, last) of the chunk: sums must be the products. */
static void
check_steps(u32 warp, u32 first, u32 last)
{
	const std::vector<u8> memory = stage_tokens();
	warp_sums sums = {};

	for (u32 j = first; j < last; j++) {
		u32 a[32][4];

		operand(a, warp, j);
		emulate_wgmma(sums, a, memory, wgmma_descriptor(j * 32));
	}
	for (u32 lane = 0; lane < 32; lane++)
		for (u32 e = 0; e < n_tokens / 2; e++) {
			const u32 row =
			    warp * 16 + accumulator_row(lane, e % 4);
			const u32 token =
			    e / 4 * 8 + accumulator_token(lane, e % 4);

			tap_check(sums.d[lane][e] == expected(row, token,
							 first * 32,
							 (last - first) * 32),
			    "sum", row, token, first);
		}
}

static void
test_whole_chunk()
{
	for (u32 warp = 0; warp < 4; warp++)
		check_steps(warp, 0, 4);
}

/* Parts that are promoted: their sums, and the scales that meet them. */
static void
test_groups()
{
	const u32 n_steps = pack_group_k() / 32;

	for (u32 warp = 0; warp < 4; warp++)
		for (u32 j = 0; j < 4; j += n_steps)
			check_steps(warp, j, j + n_steps);
}

static void
test_row_scales()
{
	for (u32 group = 0; group < groups_per_chunk; group++)
		for (u32 warp = 0; warp < 4; warp++)
			for (u32 lane = 0; lane < 32; lane++) {
				const u32 line = chunk_scales(group) +
						 lane_scales(warp, lane);
				const u32 low = scale_size == 1 ? u16_at(line)
								: word_at(line);
				const scale_pair pair = scales_of<scale>(low,
				    scale_size == 4 ? word_at(line + 4) : 0);
				const u32 row = warp * 16 + lane / 4;

				tap_check(static_cast<double>(pair.even) ==
					      scale_of(row, group),
				    "row g", group, row);
				tap_check(static_cast<double>(pair.odd) ==
					      scale_of(row + 8, group),
				    "row g + 8", group, row);
			}
}

int
main()
{
	make_problem();
	tap_run("kernel H, a whole chunk", test_whole_chunk);
	tap_run("kernel H, group by group", test_groups);
	if (group_k != 0 && !folded)
		tap_run("kernel H, scales of sums", test_row_scales);
	return tap_done();
}
