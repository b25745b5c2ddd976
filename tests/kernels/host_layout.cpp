/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_layout.cpp - layout.cuh: every map is a bijection where it must be, says
 * what the pack layout says, and touches each shared-memory bank once.
 */
#include <set>
#include <utility>

#include "host/pack.h"
#include "host/ptx_host.h"
#include "host/tap.h"

#include "layout.cuh"

/* Lanes of a phase (those served in one cycle) must use different banks. */
static bool
phase_is_bank_free(const u32 *bytes, u32 n_lanes, u32 width)
{
	std::set<u32> banks;

	for (u32 lane = 0; lane < n_lanes; lane++)
		for (u32 word = 0; word < width / 4; word++)
			banks.insert((bytes[lane] / 4 + word) % 32);
	return banks.size() == n_lanes * (width / 4);
}

/* Registers of a step in one word (the drawing in layout.cuh). */
static u32
registers_per_word()
{
	return 4u / words_per_step;
}

/* Lane, step, register, element <-> row, k: each weight has one place, ours. */
static void
test_codes_are_a_bijection()
{
	const u32 elements = act_bits == 16 ? 2 : 4;
	const u32 per_lane = steps_per_half * 4 * elements;
	std::set<std::pair<u32, u32>> seen;

	for (u32 at = 0; at < 8 * 32 * per_lane; at++) {
		const u32 half = at / per_lane / 128, lane = at / per_lane % 32;
		const u32 tile = at / per_lane / 32 % 4;
		const u32 step = at / (4 * elements) % steps_per_half;
		const u32 i = at / elements % 4, element = at % elements;
		const u32 row = tile * 16 + fragment_row(lane, i);
		const u32 k =
		    half * 64 + step * step_k + fragment_k(lane, i, element);
		const u32 word =
		    step * words_per_step + i / registers_per_word();
		const pack_place place = pack_place_of(act, weight, row, k);

		tap_check(place.byte ==
			      half * half_code_bytes + lane_codes(tile, lane) +
				  word / 4 * piece_bytes + word % 4 * 4,
		    "byte", row, k);
		tap_check(place.slot == i % registers_per_word() &&
			      place.element == element,
		    "place in the word", row, k);
		seen.insert({row, k});
	}
	tap_check(seen.size() == 64 * 128, "all weights seen");
}

/* Examples of KERNELS.md 3.6, word for word: u4 and bf16. */
static void
test_codes_worked_example()
{
	static const struct {
		u32 n, k, byte, bit;
	} rows[] = {
	    {0, 0, 0, 0},
	    {0, 1, 0, 16},
	    {8, 0, 0, 4},
	    {0, 8, 0, 8},
	    {1, 0, 4 * 16, 0},
	    {0, 2, 16, 0},
	    {0, 16, 4, 0},
	    {16, 0, 512, 0},
	    {0, 64, 2048, 0},
	};

	for (const auto &row : rows) {
		const pack_place at =
		    pack_place_of(act_bf16, weight_u4, row.n, row.k);
		const u32 word = pack_word(act_bf16, weight_u4, scale_none,
		    at.slot, at.element, 1);

		tap_check(at.byte == row.byte && word == 1u << row.bit,
		    "example", row.n, row.k);
	}
}

static void
test_codes_loads_are_bank_free()
{
	for (u32 tile = 0; tile < 4; tile++)
		for (u32 phase = 0; phase < 32; phase += 8) {
			u32 bytes[8];

			for (u32 lane = 0; lane < 8; lane++)
				bytes[lane] = lane_codes(tile, phase + lane) +
					      (pieces - 1) * piece_bytes;
			tap_check(phase_is_bank_free(bytes, 8, 16), "16 bytes",
			    tile, phase);
		}
}

/* Scales and zero points: right place, one bank per row pair, no overlap. */
static void
test_lines_follow_the_pack()
{
	std::set<u32> bytes;

	for (u32 group = 0; group < groups_per_chunk; group++)
		for (u32 tile = 0; tile < 4; tile++)
			for (u32 lane = 0; lane < 32; lane++) {
				const u32 pair = tile * 8 + lane / 4;
				const u32 scales = chunk_scales(group) +
						   lane_scales(tile, lane);
				const u32 z =
				    chunk_zeros(group) + lane_zeros(tile, lane);

				tap_check(scales ==
					      pack_code_bytes() +
						  group * pack_scale_line() +
						  pair * 2 * scale_size,
				    "scale", group, tile, lane);
				for (u32 b = 0; b < 2 * scale_size; b++)
					bytes.insert(scales + b);
				if (zero == zero_none)
					continue;
				const u32 width = zero == zero_int ? 2 : 4;

				tap_check(z == pack_code_bytes() +
						   groups_per_chunk *
						       pack_scale_line() +
						   group * 32 * width +
						   pair * width,
				    "zero point", group, tile, lane);
				for (u32 b = 0; b < width; b++)
					bytes.insert(z + b);
			}
	tap_check(bytes.size() == groups_per_chunk *
				      static_cast<u32>(scale_line + zero_line),
	    "no overlap");
	tap_check(bytes.empty() || *bytes.rbegin() < chunk_bytes, "inside");
	tap_check(chunk_bytes % 128 == 0, "padded");
}

/* Steps and the groups that they begin and end. */
static void
test_groups_of_steps()
{
	for (u32 k = 0; k < 128; k += step_k) {
		const u32 half = k / 64, step = k % 64 / step_k;
		const u32 group =
		    first_group_of_half(half) + group_of_step(step);
		const bool inside = group_k != 0 && group_k < 128;

		tap_check(group == (group_k == 0 ? 0 : k / pack_group_k()),
		    "group", k);
		tap_check(step_starts_group(step) ==
			      (inside && k % pack_group_k() == 0),
		    "start", k);
		tap_check(step_ends_group(step) ==
			      (inside && (k + step_k) % pack_group_k() == 0),
		    "end", k);
	}
}

/* Half a chunk in a stage: lines where the copies put them. */
static void
test_row_block_of_one_half()
{
	const u32 codes = pack_code_bytes() / 2;

	tap_check(row_block<1>::scales == codes, "scales after the codes");
	tap_check(row_block<1>::zeros == codes + half_scale_bytes,
	    "zero points after the scales");
	tap_check(row_block<1>::bytes ==
		      codes + half_scale_bytes + half_zero_bytes,
	    "bytes");
	tap_check(row_block<2>::bytes == HM_CHUNK_BYTES, "two halves: a chunk");
	tap_check(row_block<2>::scales == chunk_scales(0), "its scales");
	tap_check(row_block<2>::zeros == chunk_zeros(0), "its zero points");
	for (u32 half = 0; half < 2; half++) /* copies: 16-byte granules */
		tap_check(chunk_scales(first_group_of_half(half)) % 16 == 0 &&
			      chunk_zeros(first_group_of_half(half)) % 16 ==
				  0 &&
			      half_zero_bytes % 16 == 0,
		    "alignment", half);
}

static void
test_swizzle_is_a_bijection()
{
	std::set<u32> seen;

	for (u32 row = 0; row < 256; row++)
		for (u32 piece = 0; piece < 8; piece++) {
			const u32 byte = swizzled(row, piece);

			/* PTX ISA, 128-byte mode: bits 4-6 ^= bits 7-9 */
			const u32 plain = row * 128 + piece * 16;

			tap_check(byte == (plain ^ (plain >> 7 & 7) << 4),
			    "hardware form", row, piece);
			tap_check(byte / 128 == row && byte % 16 == 0,
			    "stays in its row", row, piece);
			seen.insert(byte);
		}
	tap_check(seen.size() == 256 * 8, "bijection");
}

/* ldmatrix: the eight rows of a matrix, swizzled and with kernel S's stride. */
static void
test_ldmatrix_is_bank_free()
{
	for (u32 tile = 0; tile < 16; tile++)
		for (u32 piece = 0; piece < 8; piece++) {
			u32 rows[8], padded[8];

			for (u32 lane = 0; lane < 8; lane++) {
				const u32 row = tile * 8 + matrix_token(lane);

				rows[lane] = swizzled(row, piece);
				padded[lane] =
				    row * (5 * 256 + 16) + piece * 16;
			}
			tap_check(phase_is_bank_free(rows, 8, 16), "swizzled",
			    tile, piece);
			tap_check(phase_is_bank_free(padded, 8, 16), "padded",
			    tile, piece);
		}
	for (u32 lane = 0; lane < 32; lane++)
		tap_check(matrix_token(lane) == lane % 8 &&
			      matrix_piece(lane) == lane / 8,
		    "lane", lane);
}

/* stmatrix: all pieces of the tile once, bank-free. */
static void
test_stmatrix_covers_the_tile()
{
	std::set<u32> seen;

	for (u32 first = 0; first < 32; first += 16)
		for (u32 warp = 0; warp < 4; warp++)
			for (u32 phase = 0; phase < 32; phase += 8) {
				u32 bytes[8];

				for (u32 lane = 0; lane < 8; lane++) {
					bytes[lane] = output_piece(first, warp,
					    phase + lane);
					seen.insert(bytes[lane]);
				}
				tap_check(phase_is_bank_free(bytes, 8, 16),
				    "phase", first, warp, phase);
			}
	tap_check(seen.size() == 32 * 8, "every piece once");
	for (u32 warp = 0; warp < 4; warp++)
		for (u32 lane = 0; lane < 16; lane++)
			tap_check(output_piece_last8(16, warp, lane) ==
				      output_piece(16, warp, lane),
			    "the last eight tokens alike", warp, lane);
}

/* PTX ISA, "Matrix Descriptor", field by field. */
static void
test_descriptor_fields()
{
	for (u32 smem = 0; smem < 227 * 1024; smem += 16) {
		const u64 d = wgmma_descriptor(smem);

		tap_check((d & 0x3fff) << 4 == smem, "address", smem);
		tap_check((d >> 16 & 0x3fff) == 1, "leading offset", smem);
		tap_check((d >> 32 & 0x3fff) << 4 == 1024, "stride", smem);
		tap_check((d >> 49 & 7) == 0, "base offset", smem);
		tap_check(d >> 62 == 1, "128-byte swizzle", smem);
	}
}

int
main()
{
	tap_run("codes are a bijection", test_codes_are_a_bijection);
	tap_run("codes, worked example", test_codes_worked_example);
	tap_run("code loads are bank-free", test_codes_loads_are_bank_free);
	tap_run("lines follow the pack", test_lines_follow_the_pack);
	tap_run("groups of steps", test_groups_of_steps);
	tap_run("row block of one half", test_row_block_of_one_half);
	tap_run("swizzle is a bijection", test_swizzle_is_a_bijection);
	tap_run("ldmatrix is bank-free", test_ldmatrix_is_bank_free);
	tap_run("stmatrix covers the tile", test_stmatrix_covers_the_tile);
	tap_run("descriptor fields", test_descriptor_fields);
	return tap_done();
}
