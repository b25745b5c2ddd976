/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack.h - one packed chunk, written from the text of the pack layout.
 *
 * On purpose without a function of layout.cuh or dequant.cuh: the tests compare
 * the device's index maps and decoders with this second reading of KERNELS.md
 * 3.1 to 3.6 and 4.3.
 */
#pragma once
#include <cstring>
#include <vector>

#include "host/ptx_host.h"

enum { pack_rows = 64, pack_k = 128 };

/* Plain weights of a chunk; group g covers k in [g, g + 1) * pack_group_k(). */
struct plain_chunk {
	u32 code[pack_rows][pack_k];  /* unsigned, as many bits as the type */
	u32 scale[pack_rows][4];      /* bits of the scale type, per group */
	u32 zero_point[pack_rows][4]; /* u8, or bits of a 16-bit float */
};

static inline u32
pack_group_k()
{
	const u32 group = HM_GROUP;

	return group == 0 ? 128 : group;
}

static inline u32
pack_weight_bits(weight_type type)
{
	return type == weight_u4 || type == weight_e2m1 ? 4 : 8;
}

/* What a code means. */
static inline double
pack_value(weight_type type, u32 code)
{
	static const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

	if (type == weight_u4)
		return code - 8.0;
	if (type == weight_u8)
		return code - 128.0;
	if (type == weight_e2m1)
		return code < 8 ? e2m1[code] : -e2m1[code - 8];
	return decode8<act_e4m3>(code);
}

/* e4m3 has a NaN, which is never packed. */
static inline bool
pack_is_code(weight_type type, u32 code)
{
	return type != weight_e4m3 || (code & 0x7f) != 0x7f;
}

/* ---- codes in their word ---- */

static inline u32
pack_rotate(u32 x, u32 bits)
{
	bits %= 32;
	return bits == 0 ? x : x << bits | x >> (32 - bits);
}

/* A register is the union of parts: the word rotated left, masked. */
struct pack_part {
	u32 rotation, mask;
};

/* Parts of register `slot` of its word (an empty mask: there is none), and
 * where the bits of a code go inside the 16 or 8 bits of the target. */
struct pack_slot {
	pack_part parts[2];
	int shift; /* of the code, or of its magnitude where sign is set */
	int sign;  /* target bit of a sign, or -1 */
};

static inline pack_slot
pack_slot_16(act_type act_, weight_type type, u32 slot)
{
	const bool bf16 = act_ == act_bf16;
	const u32 turn = bf16 ? 0 : 3;

	if (type == weight_u4) {
		const u32 d = 4 * (slot % 2) + turn;

		return {{{slot / 2 * 24, 0x000f000fu << d}, {0, 0}},
		    static_cast<int>(d), -1};
	}
	if (type == weight_u8)
		return {{{slot * 24, 0x00ff00ffu << turn}, {0, 0}},
		    static_cast<int>(turn), -1};
	if (type == weight_e2m1 && bf16) {
		static const pack_slot slots[4] = {
		    {{{0, 0x81c081c0}, {0, 0}}, 6, 15},
		    {{{4, 0x81c081c0}, {0, 0}}, 6, 15},
		    {{{6, 0x80c080c0}, {14, 0x01000100}}, 6, 15},
		    {{{10, 0x81c081c0}, {0, 0}}, 6, 15}};

		return slots[slot];
	}
	if (type == weight_e2m1) {
		static const pack_slot slots[4] = {
		    {{{0, 0x8e008e00}, {0, 0}}, 9, 15},
		    {{{3, 0x8e008e00}, {0, 0}}, 9, 15},
		    {{{6, 0x0e000e00}, {1, 0x80008000}}, 9, 15},
		    {{{9, 0x0e000e00}, {2, 0x80008000}}, 9, 15}};

		return slots[slot];
	}
	if (slot == 0)
		return {{{0, 0x87f087f0}, {0, 0}}, 4, 15};
	return {{{8, 0x07700770}, {4, 0x80808080}}, 4, 15};
}

static inline pack_slot
pack_slot_8(act_type act_, weight_type type, u32 slot)
{
	if (pack_weight_bits(type) == 8)
		return {{{0, 0xffffffff}, {0, 0}}, 0, -1};
	if (act_ == act_s8)
		return {{{slot * 4, 0xf0f0f0f0}, {0, 0}}, 4, -1};
	if (type == weight_u4)
		return {{{slot * 4, 0x87878787}, {0, 0}}, 0, 7};
	if (slot == 0)
		return {{{2, 0x9c9c9c9c}, {0, 0}}, 2, 7};
	return {{{0, 0x98989898}, {4, 0x04040404}}, 2, 7};
}

/* The code as the target wants it, before it is shifted. Bit 3 or 7 is a sign
 * where the slot has one. */
static inline u32
pack_recode(act_type act_, weight_type type, u32 code)
{
	if (act_ < act_e4m3)
		return code;
	if (type == weight_u8)
		return code ^ 0x80; /* u - 128 in two's complement */
	if (type == weight_u4 && act_ == act_s8)
		return code ^ 8;
	if (type == weight_u4) /* u - 8 = idx, or -idx - 1 with a sign */
		return code >= 8 ? code - 8 : (7 - code) | 8;
	return code;
}

/* Selector form of e2m1 with exponents in tables. */
static inline u32
pack_selector(u32 slot, u32 element, u32 code)
{
	return (code & 7) << (16 * slot + 4 * element) |
	       (code >> 3) << (8 * element + (slot == 0 ? 7 : 3));
}

/* The factor by which an operand differs from the value that it stands for. */
static inline double
pack_factor(act_type act_, weight_type type, scale_type scales)
{
	if (act_ < act_e4m3)
		return 0.015625; /* 2^-6 */
	if (act_ == act_s8)
		return type == weight_u4 ? 16 : 1;
	if (type == weight_u4)
		return 0.001953125; /* 2^-9 */
	return type == weight_e2m1 && scales != scale_mx ? 0.015625 : 1;
}

/* Bits of a word that hold `code` as element (half or byte) of a register. */
static inline u32
pack_word(act_type act_, weight_type type, scale_type scales, u32 slot,
    u32 element, u32 code)
{
	const u32 width = act_ < act_e4m3 ? 16 : 8;

	if (scales == scale_mx)
		return pack_selector(slot, element, code);
	if (act_ == act_f16 && type == weight_e4m3)
		return code << (16 * slot + 8 * element);
	const pack_slot s = width == 16 ? pack_slot_16(act_, type, slot)
					: pack_slot_8(act_, type, slot);
	const u32 top = pack_weight_bits(type) - 1;
	u32 bits = pack_recode(act_, type, code), word = 0;

	if (s.sign >= 0)
		bits = (bits & ((1u << top) - 1)) << s.shift | (bits >> top)
								   << s.sign;
	else
		bits <<= s.shift;
	bits <<= width * element;
	for (const pack_part &part : s.parts)
		word |= pack_rotate(bits & part.mask, 32 - part.rotation);
	return word;
}

/* ---- a chunk ---- */

/* Where weight (row, k) lies. */
struct pack_place {
	u32 byte;          /* of its word */
	u32 slot, element; /* register inside the word; half or byte of it */
};

static inline pack_place
pack_place_of(act_type act_, weight_type type, u32 row, u32 k)
{
	const bool wide = act_ < act_e4m3;
	const u32 bits = pack_weight_bits(type), tile = row / 16, half = k / 64;
	const u32 k_step = wide ? 16 : 32, step = k % 64 / k_step;
	const u32 t = wide ? k % 8 / 2 : k % 16 / 4, g = row % 8;
	const u32 i = row / 8 % 2 + 2 * (k % k_step / (k_step / 2));
	const u32 element = wide ? k % 2 : k % 4;
	u32 word, slot;

	if (wide && bits == 4) {
		word = step;
		slot = i;
	} else if (wide || bits == 4) {
		word = 2 * step + i / 2;
		slot = i % 2;
	} else {
		word = 4 * step + i;
		slot = 0;
	}
	const u32 unit = bits * 128; /* a row tile in a half */

	return {(half * 4 + tile) * unit + word / 4 * 512 + (4 * g + t) * 16 +
		    word % 4 * 4,
	    slot, element};
}

static inline void
pack_codes(std::vector<u8> &bytes, const plain_chunk &plain)
{
	for (u32 row = 0; row < pack_rows; row++)
		for (u32 k = 0; k < pack_k; k++) {
			const pack_place at =
			    pack_place_of(act, weight, row, k);
			u32 word;

			std::memcpy(&word, &bytes[at.byte], 4);
			word |= pack_word(act, weight, scale, at.slot,
			    at.element, plain.code[row][k]);
			std::memcpy(&bytes[at.byte], &word, 4);
		}
}

static inline void
pack_u16(std::vector<u8> &bytes, u32 byte, u32 value)
{
	bytes[byte] = static_cast<u8>(value & 0xff);
	bytes[byte + 1] = static_cast<u8>(value >> 8 & 0xff);
}

static inline void
pack_scale(std::vector<u8> &bytes, u32 line, u32 index, u32 bits)
{
	if (HM_SCALE >= 4) {
		bytes[line + index] = static_cast<u8>(bits);
	} else if (HM_SCALE == 3) {
		pack_u16(bytes, line + index * 4, bits & 0xffff);
		pack_u16(bytes, line + index * 4 + 2, bits >> 16);
	} else {
		pack_u16(bytes, line + index * 2, bits);
	}
}

static inline u32
pack_code_bytes()
{
	return 1024 * pack_weight_bits(weight);
}

static inline u32
pack_scale_line()
{
	return HM_SCALE == 3 ? 256 : HM_SCALE >= 4 ? 64 : 128;
}

static inline std::vector<u8>
pack_chunk(const plain_chunk &plain)
{
	std::vector<u8> bytes(HM_CHUNK_BYTES, 0);
	const u32 n_groups = HM_GROUP == 0 ? 0 : 128 / pack_group_k();
	const u32 scales = pack_code_bytes();
	const u32 zeros = scales + n_groups * pack_scale_line();

	pack_codes(bytes, plain);
	for (u32 group = 0; group < n_groups; group++)
		for (u32 row = 0; row < pack_rows; row++) {
			const u32 pair = row / 16 * 16 + row % 8 * 2 +
					 row / 8 % 2; /* [row tile][g][2] */
			const u32 z = plain.zero_point[row][group];

			pack_scale(bytes, scales + group * pack_scale_line(),
			    pair, plain.scale[row][group]);
			if (HM_ZERO == 1)
				bytes[zeros + group * 64 + pair] =
				    static_cast<u8>(z);
			if (HM_ZERO == 2)
				pack_u16(bytes, zeros + group * 128 + pair * 2,
				    z);
		}
	return bytes;
}
