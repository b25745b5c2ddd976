/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_walk_stream8.cpp - one chunk through a whole warp of kernel S with 8-bit
 * activations, on the CPU.
 *
 * A chunk is packed by host/pack.h, which knows the pack layout and nothing of
 * the device code. Then what kernel S reads and multiplies is repeated with the
 * index maps of layout.cuh and the arithmetic of dequant.cuh; ldmatrix and
 * mma.sync are emulated from the fragment tables of the PTX ISA: m16n8k32 on
 * bytes for s8, two m16n8k16 on f16 for fp8, one more for the offset of u4. What
 * comes out must be the products and, scaled group by group, the sums, bit for
 * bit.
 */
#include <cmath>
#include <cstring>
#include <vector>

#include "host/pack.h"
#include "host/ptx_host.h"
#include "host/tap.h"

#include "dequant.cuh"
#include "layout.cuh"

enum { n_tokens = 8, stride = pack_k + 16 };

static u32 random_state = 1;

static u32
random_below(u32 n)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) % n;
}

static plain_chunk plain;
static u8 tokens8[n_tokens][pack_k];
static std::vector<u8> packed;

/* Values of few bits, so that sums are exact in double in any order. */
static u32
random_token()
{
	if (act == act_s8)
		return random_below(256);
	if (act == act_e4m3)
		return random_below(2) << 7 | (3 + random_below(8)) << 3 |
		       random_below(8);
	return random_below(2) << 7 | (11 + random_below(8)) << 2 |
	       random_below(4);
}

static u32
random_code()
{
	u32 code = random_below(1u << weight_bits);

	while (weight == weight_e4m3 && (code & 0x7f) == 0x7f)
		code = random_below(256);
	return code;
}

static u32
random_scale()
{
	const double r = (100 + random_below(1900)) / 2048.0 *
			 (random_below(2) != 0 ? 1 : -1);

	if (scale == scale_mx)
		return random_below(12);
	if (scale == scale_e8m0)
		return 110 + random_below(18);
	if (scale == scale_f32) {
		const float value = static_cast<float>(r);
		u32 bits;

		std::memcpy(&bits, &value, 4);
		return bits;
	}
	return scale == scale_f16 ? encode16<act_f16>(r)
				  : encode16<act_bf16>(r);
}

static void
make_problem()
{
	for (u32 row = 0; row < pack_rows; row++) {
		for (u32 k = 0; k < pack_k; k++)
			plain.code[row][k] = random_code();
		for (u32 &bits : plain.scale[row])
			bits = random_scale();
	}
	for (auto &token : tokens8)
		for (u8 &value : token)
			value = static_cast<u8>(random_token());
	packed = pack_chunk(plain);
}

/* ---- what must come out ---- */

static double
token_value(u32 token, u32 k)
{
	const u32 bits = tokens8[token][k];

	return act == act_s8
		   ? static_cast<double>(static_cast<signed char>(bits))
		   : decode8<act>(bits);
}

/* The operand: the value of the code times the factor of dequant.cuh and, with
 * folded exponents, times 2^e. */
static double
operand_value(u32 row, u32 k)
{
	static const double magnitudes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
	const u32 code = plain.code[row][k];

	if (act == act_s8)
		return weight == weight_u4 ? (code - 8.0) * 16 : code - 128.0;
	if (weight == weight_u4)
		return std::ldexp(code - 8.0, -9);
	if (weight == weight_e4m3)
		return decode8<act_e4m3>(code);
	const int e = scale == scale_mx
			  ? static_cast<int>(plain.scale[row][k / 32]) - 5
			  : -6;

	return std::ldexp(
	    (code & 8) != 0 ? -magnitudes[code & 7] : magnitudes[code & 7], e);
}

static double
scale_value(u32 row, u32 k)
{
	const u32 bits = plain.scale[row][k / pack_group_k()];

	switch (scale) {
	case scale_bf16:
		return decode16<act_bf16>(bits);
	case scale_f16:
		return decode16<act_f16>(bits);
	case scale_f32:
		return static_cast<double>(float_of_bits(bits));
	case scale_e8m0:
		return std::ldexp(1, static_cast<int>(bits) - 127);
	default:
		return 1;
	}
}

static double
expected(u32 row, u32 token, u32 first_k, u32 n_k, bool scaled)
{
	double sum = 0;

	for (u32 k = first_k; k < first_k + n_k; k++)
		sum += operand_value(row, k) * token_value(token, k) *
		       (scaled ? scale_value(row, k) : 1);
	return sum;
}

/* ---- instructions, from the fragment tables of the PTX ISA ---- */

static u32
word_at(const std::vector<u8> &memory, u32 byte)
{
	u32 word = 0;

	tap_check(byte % 4 == 0 && byte + 4 <= memory.size(), "load", byte);
	std::memcpy(&word, &memory[byte], 4);
	return word;
}

/* ldmatrix.x4 of one warp: address of row j of matrix i from lane 8 i + j. */
static void
emulate_ldmatrix(u32 (&r)[32][4], const std::vector<u8> &memory,
    const u32 (&address)[32])
{
	for (u32 lane = 0; lane < 32; lane++)
		for (u32 i = 0; i < 4; i++)
			r[lane][i] = word_at(memory,
			    address[8 * i + lane / 4] + lane % 4 * 4);
}

/* Element of a register: byte of s8, half of f16. */
static double
element(u32 bits, u32 e)
{
	if (act == act_s8)
		return static_cast<signed char>(bits >> 8 * e & 0xff);
	return decode16<act_f16>(bits >> 16 * e & 0xffff);
}

/*
 * mma.m16n8k32 (s8) and m16n8k16 (f16): d += a * b. With n elements a register,
 * a0 (g, n t ..) a1 (g + 8, n t ..) a2 (g, n t + 4 n ..) a3 both;
 * b0 (n t .., g) b1 (n t + 4 n .., g).
 */
static void
emulate_mma(double (&d)[32][4], const u32 (&a)[32][4], const u32 (&b)[32][2])
{
	const u32 n = act == act_s8 ? 4 : 2;
	double wide_a[16][32], wide_b[32][8];

	for (u32 lane = 0; lane < 32; lane++)
		for (u32 e = 0; e < n; e++) {
			const u32 g = lane / 4, k = lane % 4 * n + e;

			for (u32 i = 0; i < 4; i++)
				wide_a[g + 8 * (i % 2)][k + 4 * n * (i / 2)] =
				    element(a[lane][i], e);
			for (u32 i = 0; i < 2; i++)
				wide_b[k + 4 * n * i][g] =
				    element(b[lane][i], e);
		}
	for (u32 lane = 0; lane < 32; lane++)
		for (u32 e = 0; e < 4; e++) {
			const u32 row = lane / 4 + 8 * (e / 2);
			const u32 column = lane % 4 * 2 + e % 2;

			for (u32 k = 0; k < 8 * n; k++)
				d[lane][e] +=
				    wide_a[row][k] * wide_b[k][column];
		}
}

/* ---- what kernel S does ---- */

/* Activations as the kernel keeps them, through ldmatrix: a half of the chunk. */
static void
load_tokens(u32 (&r)[32][4], u32 half)
{
	std::vector<u8> memory(n_tokens * stride, 0xee);
	u32 address[32];

	for (u32 token = 0; token < n_tokens; token++)
		std::memcpy(&memory[token * stride], tokens8[token], pack_k);
	for (u32 lane = 0; lane < 32; lane++)
		address[lane] = matrix_token(lane) * stride +
				matrix_piece(lane) * 16 + half * 64;
	emulate_ldmatrix(r, memory, address);
}

/* Byte of a lane's two scales of the group of a step. */
static u32
lane_scale_byte(u32 half, u32 step, u32 tile, u32 lane)
{
	const u32 group = first_group_of_half(half) + group_of_step(step);

	return chunk_scales(group) + lane_scales(tile, lane);
}

/* The two scales as the kernel reads them: 2, 4 or 8 bytes. */
static scale_pair
lane_scale_pair(u32 byte)
{
	if (scale == scale_none || scale == scale_mx)
		return scales_of<scale>(0, 0);
	if (scale_size == 1)
		return scales_of<scale>(
		    static_cast<u32>(packed[byte] | packed[byte + 1] << 8), 0);
	return scales_of<scale>(word_at(packed, byte),
	    scale_size == 4 ? word_at(packed, byte + 4) : 0);
}

enum {
	n_mma = act == act_s8 ? 1 : 2, /* of a k32 step */
	token_type = act == act_e5m2 ? act_e5m2 : act_e4m3,
	half_codes = act != act_s8 && weight == weight_u4
};

/* Operand A of the instructions of a k32 step of a row tile. */
static void
step_operand(u32 (&a)[n_mma][32][4], u32 half, u32 tile, u32 step)
{
	for (u32 lane = 0; lane < 32; lane++) {
		const u32 codes =
		    half * half_code_bytes + lane_codes(tile, lane);
		dequant_terms terms = unit_terms<act>();
		u32 words[words_per_step], wide[2][4];

		for (u32 i = 0; i < words_per_step; i++) {
			const u32 word = step * words_per_step + i;

			words[i] = word_at(packed,
			    codes + word / 4 * piece_bytes + word % 4 * 4);
		}
		if (scale == scale_mx) {
			const u32 byte =
			    lane_scale_byte(half, step, tile, lane);

			set_tables(terms,
			    static_cast<u32>(
				packed[byte] | packed[byte + 1] << 8));
		}
		if (act == act_s8)
			dequant_step<act, weight, scale, zero_none>(words,
			    terms, wide[0]);
		else
			dequant_step_wide<weight, scale>(words, terms, wide);
		for (u32 i = 0; i < n_mma; i++)
			std::memcpy(a[i][lane], wide[i], sizeof wide[i]);
	}
}

/* d = a k32 step; tokens: of its half, as ldmatrix gives them; d is zero. */
static void
multiply_step(double (&d)[32][4], const u32 (&a)[n_mma][32][4],
    const u32 (&tokens)[32][4], u32 step)
{
	for (u32 i = 0; i < n_mma; i++) {
		u32 b[32][2];

		for (u32 lane = 0; lane < 32; lane++) {
			const u32 *words = tokens[lane] + 2 * step;

			b[lane][0] = words[0];
			b[lane][1] = words[1];
			if (act != act_s8)
				widen_tokens<static_cast<act_type>(token_type),
				    weight>(words[i], b[lane]);
		}
		emulate_mma(d, a[i], b);
		if (half_codes) { /* u4: v + 1/2 in other units */
			u32 offsets[32][4];

			std::memset(offsets, half_offset & 0xff,
			    sizeof offsets);
			emulate_mma(d, offsets, b);
		}
	}
	for (u32 lane = 0; half_codes && lane < 32; lane++)
		for (double &sum : d[lane])
			sum *= static_cast<double>(half_sum_factor());
}

static void
test_products()
{
	for (u32 at = 0; at < 2 * 4 * 2; at++) {
		const u32 half = at / 8, tile = at / 2 % 4, step = at % 2;
		u32 a[n_mma][32][4], tokens[32][4];
		double d[32][4] = {};

		load_tokens(tokens, half);
		step_operand(a, half, tile, step);
		multiply_step(d, a, tokens, step);
		for (u32 lane = 0; lane < 32; lane++)
			for (u32 e = 0; e < 4; e++) {
				const u32 row =
				    tile * 16 + accumulator_row(lane, e);

				tap_check(d[lane][e] ==
					      expected(row,
						  accumulator_token(lane, e),
						  half * 64 + step * 32, 32,
						  false),
				    "product", row, lane, e);
			}
	}
}

/* The sums of the whole chunk: part by part, scaled where its group ends. */
static void
test_sums()
{
	for (u32 tile = 0; tile < 4; tile++) {
		double total[32][4] = {};

		for (u32 at = 0; at < 4; at++) {
			const u32 half = at / 2, step = at % 2;
			u32 a[n_mma][32][4], tokens[32][4];
			double d[32][4] = {};

			load_tokens(tokens, half);
			step_operand(a, half, tile, step);
			multiply_step(d, a, tokens, step);
			for (u32 lane = 0; lane < 32; lane++) {
				const scale_pair rows = lane_scale_pair(
				    lane_scale_byte(half, step, tile, lane));

				for (u32 e = 0; e < 4; e++) {
					const double r = static_cast<double>(
					    e < 2 ? rows.even : rows.odd);

					total[lane][e] += d[lane][e] * r;
				}
			}
		}
		for (u32 lane = 0; lane < 32; lane++)
			for (u32 e = 0; e < 4; e++) {
				const u32 row =
				    tile * 16 + accumulator_row(lane, e);

				tap_check(total[lane][e] ==
					      expected(row,
						  accumulator_token(lane, e), 0,
						  pack_k, true),
				    "sum", row, lane, e);
			}
	}
}

static void
test_size()
{
	tap_check(packed.size() == chunk_bytes, "bytes of a chunk");
	tap_check(step_k == 32 && steps_per_half == 2, "steps");
}

int
main()
{
	make_problem();
	tap_run("kernel S, 8 bits: size", test_size);
	tap_run("kernel S, 8 bits: products", test_products);
	tap_run("kernel S, 8 bits: scaled sums", test_sums);
	return tap_done();
}
