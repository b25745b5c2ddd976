/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_walk.cpp - one chunk through a whole warp of each kernel, on the CPU.
 *
 * A chunk is packed by host/pack.h, which knows the pack layout and nothing of
 * the device code. Then the reads of kernels S, H and G are repeated with the
 * index maps of layout.cuh and the arithmetic of dequant.cuh; ldmatrix,
 * mma.sync, wgmma and stmatrix are emulated from the fragment tables of the PTX
 * ISA. What comes out must be the product, bit for bit: codes, lanes, scales,
 * zero points, swizzle and transposition are all in it.
 */
#include <cmath>
#include <cstring>
#include <vector>

#include "host/pack.h"
#include "host/ptx_host.h"
#include "host/tap.h"

#include "dequant.cuh"
#include "layout.cuh"

enum { n_tokens = 16, slice_tokens = n_tokens };

static u32 random_state = 1;

static u32
random_below(u32 n)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) % n;
}

/* Kernel G multiplies u4 and 16-bit scales only. */
enum { has_mma = weight == weight_u4 && scale != scale_e8m0 };

/* Weights and activations of one chunk, and what their product must be. */
static plain_chunk plain;
static u32 tokens16[n_tokens][pack_k]; /* bits of the activation type */
static std::vector<u8> packed;

static u32
random_code()
{
	u32 code;

	do
		code = random_below(1u << weight_bits);
	while (!pack_is_code(weight, code));
	return code;
}

/* Bits of a scale of at most one. */
static u32
random_scale()
{
	const double r = 0.05 + random_below(1900) / 2000.0;

	if (scale == scale_e8m0)
		return 127 - random_below(6);
	return encode16<act>(random_below(2) != 0 ? r : -r);
}

static void
make_problem()
{
	for (u32 row = 0; row < pack_rows; row++) {
		for (u32 k = 0; k < pack_k; k++)
			plain.code[row][k] = random_code();
		for (u32 group = 0; group < 4; group++) {
			const u32 z = random_below(16);

			plain.scale[row][group] = random_scale();
			plain.zero_point[row][group] =
			    zero == zero_float ? encode16<act>(0.37 + 0.83 * z)
					       : z;
		}
	}
	for (auto &token : tokens16)
		for (u32 &value : token)
			value = encode16<act>(
			    (static_cast<double>(random_below(65)) - 32) / 16);
	packed = pack_chunk(plain);
}

/* value * 2^-6 as one value of the type: exact but for a float zero point. */
static double
offset_weight(u32 row, u32 k)
{
	const u32 bits = plain.zero_point[row][k / pack_group_k()];
	const u32 code = plain.code[row][k];
	const double v = zero == zero_none  ? pack_value(weight, code)
			 : zero == zero_int ? code - static_cast<double>(bits)
					    : code - decode16<act>(bits);

	return decode16<act>(encode16<act>(v / 64));
}

static double
scale_of(u32 row, u32 group)
{
	const u32 bits = plain.scale[row][group];

	return scale == scale_e8m0 ? std::ldexp(1, static_cast<int>(bits) - 127)
				   : decode16<act>(bits);
}

/* Folded: one more rounding, or, without a zero point, one in all. */
static double
folded_weight(u32 row, u32 k)
{
	const double r = group_k == 0 ? 1.0 : scale_of(row, k / pack_group_k());

	return decode16<act>(encode16<act>(
	    zero == zero_none ? pack_value(weight, plain.code[row][k]) / 64 * r
			      : offset_weight(row, k) * r));
}

static double
token_value(u32 token, u32 k)
{
	return decode16<act>(tokens16[token][k]);
}

static double
expected(u32 row, u32 token, double (*weight)(u32, u32), u32 first_k, u32 n_k)
{
	double sum = 0;

	for (u32 k = first_k; k < first_k + n_k; k++)
		sum += weight(row, k) * token_value(token, k);
	return sum;
}

static u32
word_at(const std::vector<u8> &memory, u32 byte)
{
	u32 word;

	tap_check(byte % 4 == 0 && byte + 4 <= memory.size(), "load", byte);
	std::memcpy(&word, &memory[byte], 4);
	return word;
}

static u32
u16_at(const std::vector<u8> &memory, u32 byte)
{
	tap_check(byte % 2 == 0 && byte + 2 <= memory.size(), "load", byte);
	return memory[byte] | static_cast<u32>(memory[byte + 1]) << 8;
}

/* ---- instructions, from the fragment tables of the PTX ISA ---- */

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

/* mma.m16n8k16: d += a * b. a0 (g, 2t) a1 (g+8, 2t) a2 (g, 2t+8) a3 both. */
static void
emulate_mma(double (&d)[32][4], const u32 (&a)[32][4], const u32 (&b)[32][2])
{
	double wide_a[16][16], wide_b[16][8];

	for (u32 lane = 0; lane < 32; lane++)
		for (u32 h = 0; h < 2; h++) {
			const u32 g = lane / 4, k = lane % 4 * 2 + h;
			const u32 shift = 16 * h;

			for (u32 i = 0; i < 4; i++)
				wide_a[g + 8 * (i % 2)][k + 8 * (i / 2)] =
				    decode16<act>(a[lane][i] >> shift & 0xffff);
			for (u32 i = 0; i < 2; i++)
				wide_b[k + 8 * i][g] =
				    decode16<act>(b[lane][i] >> shift & 0xffff);
		}
	for (u32 lane = 0; lane < 32; lane++)
		for (u32 e = 0; e < 4; e++) {
			const u32 row = lane / 4 + 8 * (e / 2);
			const u32 column = lane % 4 * 2 + e % 2;

			for (u32 k = 0; k < 16; k++)
				d[lane][e] +=
				    wide_a[row][k] * wide_b[k][column];
		}
}

/* Operand B of wgmma: element (k, token) of a k16 step, by its descriptor. */
static double
wgmma_b(const std::vector<u8> &memory, u64 descriptor, u32 k, u32 token)
{
	const u32 start = static_cast<u32>(descriptor & 0x3fff) << 4;
	const u32 stride = static_cast<u32>(descriptor >> 32 & 0x3fff) << 4;
	const u32 plain_byte =
	    start + token / 8 * stride + token % 8 * 128 + k * 2;
	const u32 byte = plain_byte ^ (plain_byte >> 7 & 7) << 4;

	return decode16<act>(u16_at(memory, byte));
}

/* ---- what the kernels do ---- */

/* Terms of one lane from lines at `scales` and `zeros` of a group. */
static void
load_lane_terms(dequant_terms &terms, const std::vector<u8> &memory, u32 scales,
    u32 zeros, bool fold)
{
	if (fold)
		fold_scales<act, zero>(terms,
		    scale == scale_e8m0
			? exponent_pair<act>(u16_at(memory, scales))
			: word_at(memory, scales));
	if constexpr (zero == zero_int)
		set_zero_points<act, zero>(terms, u16_at(memory, zeros));
	if constexpr (zero == zero_float)
		set_zero_points<act, zero>(terms, word_at(memory, zeros));
}

/* The words of a step of a lane; codes: its first, in a half. */
static void
step_words(u32 (&words)[words_per_step], const std::vector<u8> &memory,
    u32 codes, u32 step)
{
	for (u32 w = 0; w < words_per_step; w++) {
		const u32 index = step * words_per_step + w;

		words[w] = word_at(memory,
		    codes + index / 4 * piece_bytes + index % 4 * 4);
	}
}

/* Activations as kernel S keeps them: rows of 256 bytes and 16 more. */
static std::vector<u8>
stream_tokens(u32 stride)
{
	std::vector<u8> memory(n_tokens * stride, 0);

	for (u32 token = 0; token < n_tokens; token++)
		for (u32 k = 0; k < pack_k; k++)
			pack_u16(memory, token * stride + k * 2,
			    tokens16[token][k]);
	return memory;
}

/* Both halves of b for a k16 step, as mma.cuh, operand_b takes them. */
static void
step_operand(u32 (&b)[32][2], const u32 (&loaded)[2][32][4], u32 step)
{
	for (u32 lane = 0; lane < 32; lane++)
		for (u32 i = 0; i < 2; i++)
			b[lane][i] =
			    loaded[step >> 1][lane][(step & 1) * 2 + i];
}

/* One k16 step of kernel S for a row tile: exact integers, group by group. */
static void
stream_step(double (&d)[32][4], u32 half, u32 tile, u32 step,
    const u32 (&b)[32][2])
{
	const u32 group = first_group_of_half(half) + group_of_step(step);
	u32 a[32][4];

	for (u32 lane = 0; lane < 32; lane++) {
		dequant_terms terms = unit_terms<act>();
		u32 words[words_per_step];

		load_lane_terms(terms, packed,
		    chunk_scales(group) + lane_scales(tile, lane),
		    chunk_zeros(group) + lane_zeros(tile, lane), false);
		step_words(words, packed,
		    half * half_code_bytes + lane_codes(tile, lane), step);
		/* unscaled: a zero point does not fold a scale either */
		dequant_step<act, weight, scale, zero_none>(words, terms,
		    a[lane]);
	}
	emulate_mma(d, a, b);
}

/* Kernel S: 64 rows by 8 tokens of the chunk. */
static void
test_stream_walk()
{
	const u32 stride = 256 + 16;
	const std::vector<u8> memory = stream_tokens(stride);

	for (u32 at = 0; at < 2 * 4 * 4; at++) {
		const u32 half = at / 16, tile = at / 4 % 4, step = at % 4;
		u32 loaded[2][32][4], b[32][2];
		double d[32][4] = {};

		for (u32 i = 0; i < 2; i++) {
			u32 address[32];

			for (u32 lane = 0; lane < 32; lane++)
				address[lane] = matrix_token(lane) * stride +
						matrix_piece(lane) * 16 +
						half * 128 + i * 64;
			emulate_ldmatrix(loaded[i], memory, address);
		}
		step_operand(b, loaded, step);
		stream_step(d, half, tile, step, b);
		for (u32 lane = 0; lane < 32; lane++)
			for (u32 e = 0; e < 4; e++) {
				const u32 row =
				    tile * 16 + accumulator_row(lane, e);

				tap_check(d[lane][e] ==
					      expected(row,
						  accumulator_token(lane, e),
						  offset_weight,
						  half * 64 + step * 16, 16),
				    "product", row, lane, e);
			}
	}
}

/* The scales that kernel S multiplies a group by. */
static void
test_stream_scales()
{
	for (u32 group = 0; group < groups_per_chunk; group++)
		for (u32 tile = 0; tile < 4; tile++)
			for (u32 lane = 0; lane < 32; lane++) {
				const u32 line = chunk_scales(group) +
						 lane_scales(tile, lane);
				const scale_pair pair = scales_of<scale>(
				    scale_size == 1 ? u16_at(packed, line)
						    : word_at(packed, line),
				    0);
				const u32 row = tile * 16 + lane / 4;

				tap_check(static_cast<double>(pair.even) ==
					      scale_of(row, group),
				    "row g", group, tile, lane);
				tap_check(static_cast<double>(pair.odd) ==
					      scale_of(row + 8, group),
				    "row g + 8", group, tile, lane);
			}
	tap_check(packed.size() == chunk_bytes, "bytes");
}

/* Activations of 64 k as tensor copies and kernel G place them: swizzled. */
static std::vector<u8>
swizzled_tokens(u32 half)
{
	std::vector<u8> memory(n_tokens * 128, 0);

	for (u32 token = 0; token < n_tokens; token++)
		for (u32 k = 0; k < 64; k++)
			pack_u16(memory, swizzled(token, k / 8) + k % 8 * 2,
			    tokens16[token][half * 64 + k]);
	return memory;
}

/* A row block of a stage: the whole chunk, or the copies of one half. */
template <int n_halves>
static std::vector<u8>
stage_block(u32 half)
{
	using block = row_block<n_halves>;
	const u32 group = first_group_of_half(half);
	std::vector<u8> memory(block::bytes, 0xee);

	if (n_halves == 2)
		return packed;
	std::memcpy(&memory[0], &packed[half * half_code_bytes],
	    half_code_bytes);
	if (half_scale_bytes != 0)
		std::memcpy(&memory[block::scales],
		    &packed[chunk_scales(group)], half_scale_bytes);
	if (half_zero_bytes != 0)
		std::memcpy(&memory[block::zeros], &packed[chunk_zeros(group)],
		    half_zero_bytes);
	return memory;
}

/* Operand A of a k16 step with folded scales, out of a row block. */
template <int n_halves>
static void
folded_operand(u32 (&a)[32][4], const std::vector<u8> &block, u32 half,
    u32 tile, u32 step)
{
	using place = row_block<n_halves>;
	const u32 codes = n_halves == 2 ? half * half_code_bytes : 0;
	const u32 group = (n_halves == 2 ? first_group_of_half(half) : 0) +
			  group_of_step(step);

	for (u32 lane = 0; lane < 32; lane++) {
		dequant_terms terms = unit_terms<act>();
		u32 words[words_per_step];

		load_lane_terms(terms, block,
		    place::scales + group * scale_line +
			lane_scales(tile, lane),
		    place::zeros + group * zero_line + lane_zeros(tile, lane),
		    group_k != 0);
		step_words(words, block, codes + lane_codes(tile, lane), step);
		dequant_step<act, weight, scale, zero>(words, terms, a[lane]);
	}
}

/* Kernel G: one part of a stage, 64 rows by 8 tokens of each token tile. */
static void
test_mma_walk()
{
	for (u32 at = 0; at < 2 * 2 * 4 * 4; at++) {
		const u32 half = at / 32, token_tile = at / 16 % 2;
		const u32 tile = at / 4 % 4, step = at % 4;
		const std::vector<u8> memory = swizzled_tokens(half);
		u32 loaded[2][32][4], a[32][4], b[32][2], address[32];
		double d[32][4] = {};

		for (u32 lane = 0; lane < 32; lane++) /* as multiply_part */
			address[lane] =
			    swizzled(token_tile * 8 + matrix_token(lane),
				step / 2 * 2 * 2 + matrix_piece(lane));
		emulate_ldmatrix(loaded[step >> 1], memory, address);
		step_operand(b, loaded, step);
		folded_operand<1>(a, stage_block<1>(half), half, tile, step);
		emulate_mma(d, a, b);
		for (u32 lane = 0; lane < 32; lane++)
			for (u32 e = 0; e < 4; e++) {
				const u32 row =
				    tile * 16 + accumulator_row(lane, e);
				const u32 token =
				    token_tile * 8 + accumulator_token(lane, e);

				tap_check(d[lane][e] ==
					      expected(row, token,
						  folded_weight,
						  half * 64 + step * 16, 16),
				    "product", row, token, at);
			}
	}
}

/* Sums of a warp of kernel H: d[4c + e] of m64nNk16, tokens 8c + .. */
struct warp_sums {
	double d[32][slice_tokens / 2];
};

/* wgmma of one warp's 16 rows: operand A in registers, B by descriptor. */
static void
emulate_wgmma(warp_sums &sums, const u32 (&a)[32][4],
    const std::vector<u8> &memory, u64 descriptor)
{
	for (u32 c = 0; c < slice_tokens / 8; c++) {
		u32 b[32][2];
		double d[32][4] = {};

		for (u32 lane = 0; lane < 32; lane++)
			for (u32 i = 0; i < 2; i++) {
				const u32 k = 8 * i + lane % 4 * 2;
				const u32 token = 8 * c + lane / 4;

				b[lane][i] = encode16<act>(wgmma_b(memory,
						 descriptor, k, token)) |
					     encode16<act>(wgmma_b(memory,
						 descriptor, k + 1, token))
						 << 16;
			}
		emulate_mma(d, a, b);
		for (u32 lane = 0; lane < 32; lane++)
			for (u32 e = 0; e < 4; e++)
				sums.d[lane][4 * c + e] += d[lane][e];
	}
}

/* stmatrix.x4.trans: memory row j of matrix i holds column j of its matrix. */
static void
emulate_stmatrix_t(std::vector<u8> &memory, const u32 (&address)[32],
    const u32 (&r)[32][4])
{
	for (u32 i = 0; i < 4; i++)
		for (u32 j = 0; j < 8; j++)
			for (u32 x = 0; x < 8; x++) {
				const u32 pair = r[4 * x + j / 2][i];

				pack_u16(memory, address[8 * i + j] + x * 2,
				    j % 2 == 0 ? pair & 0xffff : pair >> 16);
			}
}

/* The output path of store_tile for one warp, factor 1, no bias. */
static void
store_warp(std::vector<u8> &staging, const warp_sums &sums, u32 warp)
{
	for (u32 c = 0; c < slice_tokens / 16; c++) {
		u32 address[32], r[32][4];

		for (u32 lane = 0; lane < 32; lane++) {
			const double *d = sums.d[lane] + 8 * c;

			address[lane] = output_piece(c * 16, warp, lane);
			for (u32 i = 0; i < 4; i++)
				r[lane][i] = encode16<act>(d[2 * i]) |
					     encode16<act>(d[2 * i + 1]) << 16;
		}
		emulate_stmatrix_t(staging, address, r);
	}
}

/* Kernel H: one m64 slice over the whole chunk, stages of n_halves. */
template <int n_halves>
static void
wgmma_walk()
{
	std::vector<u8> staging(slice_tokens * 128, 0);

	for (u32 warp = 0; warp < 4; warp++) {
		warp_sums sums = {};

		for (u32 at = 0; at < 8; at++) {
			const u32 half = at / 4, step = at % 4;
			u32 a[32][4];

			folded_operand<n_halves>(a, stage_block<n_halves>(half),
			    half, warp, step);
			emulate_wgmma(sums, a, swizzled_tokens(half),
			    wgmma_descriptor(step * 32));
		}
		store_warp(staging, sums, warp);
	}
	/* a tensor store reads [token][row] through the same swizzle */
	for (u32 token = 0; token < slice_tokens; token++)
		for (u32 row = 0; row < 64; row++) {
			const u32 got = u16_at(staging,
			    swizzled(token, row / 8) + row % 8 * 2);
			const double want =
			    expected(row, token, folded_weight, 0, pack_k);

			tap_check(got == encode16<act>(want) ||
				      ((got | encode16<act>(want)) & 0x7fff) ==
					  0,
			    "output", token, row);
		}
}

static void
test_wgmma_walk_chunks()
{
	wgmma_walk<2>();
}

static void
test_wgmma_walk_halves()
{
	wgmma_walk<1>();
}

int
main()
{
	make_problem();
	tap_run("kernel S, products", test_stream_walk);
	tap_run("kernel S, scales", test_stream_scales);
	if (has_mma)
		tap_run("kernel G, products", test_mma_walk);
	tap_run("kernel H, stages of a chunk", test_wgmma_walk_chunks);
	tap_run("kernel H, stages of half a chunk", test_wgmma_walk_halves);
	return tap_done();
}
