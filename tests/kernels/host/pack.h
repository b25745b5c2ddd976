/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack.h - one packed chunk, written from the text of the pack layout.
 *
 * On purpose without a function of layout.cuh: the tests compare the device's
 * index maps with this second reading of KERNELS.md 3.1 to 3.6.
 */
#pragma once
#include <cstring>
#include <vector>

#include "prelude.cuh"

enum { pack_rows = 64, pack_k = 128 };

/* Plain weights of a chunk; group g covers k in [g, g + 1) * pack_group_k(). */
struct plain_chunk {
	u32 code[pack_rows][pack_k];  /* 0..15 */
	u32 scale[pack_rows][4];      /* bits of the 16-bit r, per group */
	u32 zero_point[pack_rows][4]; /* u8, or bits of a 16-bit float */
};

static inline u32
pack_group_k()
{
	const u32 group = HM_GROUP;

	return group == 0 ? 128 : group;
}

/* Byte of the word that holds weight (row, k), and the bit of its code. */
static inline void
pack_place(u32 row, u32 k, u32 *byte_out, u32 *bit_out)
{
	const u32 half = k / 64, step = k / 16 % 4, row_tile = row / 16;
	const u32 g = row % 8, upper = row / 8 % 2; /* row g or g + 8 */
	const u32 t = k % 8 / 2, h = k % 2, i = upper + 2 * (k / 8 % 2);

	*byte_out = half * 2048 + row_tile * 512 + (4 * g + t) * 16 + step * 4;
	*bit_out = 16 * h + 4 * i;
}

static inline void
pack_codes(std::vector<u8> &bytes, const plain_chunk &plain)
{
	for (u32 row = 0; row < pack_rows; row++)
		for (u32 k = 0; k < pack_k; k++) {
			u32 byte, bit, word;

			pack_place(row, k, &byte, &bit);
			std::memcpy(&word, &bytes[byte], 4);
			word |= plain.code[row][k] << bit;
			std::memcpy(&bytes[byte], &word, 4);
		}
	if (HM_ACT == 0)
		return;
	for (u32 byte = 0; byte < 4096; byte += 4) { /* f16: left by 3 */
		u32 word;

		std::memcpy(&word, &bytes[byte], 4);
		word = word << 3 | word >> 29;
		std::memcpy(&bytes[byte], &word, 4);
	}
}

static inline void
pack_u16(std::vector<u8> &bytes, u32 byte, u32 value)
{
	bytes[byte] = static_cast<u8>(value & 0xff);
	bytes[byte + 1] = static_cast<u8>(value >> 8 & 0xff);
}

static inline std::vector<u8>
pack_chunk(const plain_chunk &plain)
{
	std::vector<u8> bytes(HM_CHUNK_BYTES, 0);
	const u32 n_groups = HM_GROUP == 0 ? 0 : 128 / pack_group_k();
	const u32 zeros = 4096 + n_groups * 128;

	pack_codes(bytes, plain);
	for (u32 group = 0; group < n_groups; group++)
		for (u32 row = 0; row < pack_rows; row++) {
			const u32 pair = row / 16 * 16 + row % 8 * 2 +
					 row / 8 % 2; /* [row tile][g][2] */
			const u32 z = plain.zero_point[row][group];

			pack_u16(bytes, 4096 + group * 128 + pair * 2,
			    plain.scale[row][group]);
			if (HM_ZERO == 1)
				bytes[zeros + group * 64 + pair] =
				    static_cast<u8>(z);
			if (HM_ZERO == 2)
				pack_u16(bytes, zeros + group * 128 + pair * 2,
				    z);
		}
	return bytes;
}
