/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.cuh - index maps: packed weights, fragments, swizzle. Pure functions, nothing else.
 *
 * Packed weights, pack layout 1 (KERNELS.md 3.1-3.6)
 *
 *   [N/64][K/128] chunks, N padded to 64 and K to 128; one chunk holds 64 rows by 128 k:
 *
 *     codes    [half 0..1][row tile 0..3][piece][lane 0..31][16 bytes]
 *                half   64 k of the chunk        row tile  16 of its rows
 *                piece  one with 4-bit weights, two with 8-bit weights
 *     scales   one line per group of the chunk, k ascending: [row tile][g 0..7][2], the scales of
 *                rows g and g + 8, so that a lane finds its two in one load; 1, 2 or 4 bytes each
 *     zeros    zero points, one line per group in the same order: u8 (64 bytes) or 16-bit (128)
 *     then     padding to a multiple of 128 bytes
 *
 * A lane (g, t) owns registers of the A fragment of every step j of a half: of mma.m16n8k16 for
 * 16-bit activations (j = 0..3), of m16n8k32 for 8-bit ones (j = 0..1). PTX ISA, "Matrix
 * Fragments for mma.m16n8k16" and "... k32":
 *
 *     16-bit   register i, half h  =  row g + 8 * (i & 1),  k = 16 j + 8 * (i >> 1) + 2 * t + h
 *      8-bit   register i, byte c  =  row g + 8 * (i & 1),  k = 32 j + 16 * (i >> 1) + 4 * t + c
 *
 * Its words, the 16 bytes of piece 0 and then those of piece 1, hold
 *
 *     16-bit   4-bit weights   word j            all four registers of step j
 *              8-bit weights   word 2 j + p      registers 2 p and 2 p + 1
 *      8-bit   4-bit weights   word 2 j + p      registers 2 p and 2 p + 1
 *              8-bit weights   word 4 j + i      register i, as the instruction takes it
 *
 * Where a code's bits lie inside its word is the business of dequant.cuh: each type sits where its
 * target wants it.
 *
 * wgmma with A in registers uses these very fragments, 16 rows per warp, so one pack serves all
 * kernels (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", "... k32").
 */
#pragma once
#include "prelude.cuh"
#include "ptx.cuh"

/* ---- a chunk ---- */

enum {
    step_k = act_bits == 16 ? 16 : 32,
    steps_per_half = 64 / step_k,
    piece_bytes = 512,           /* 16 bytes of every lane */
    pieces = weight_bits / 4,    /* of a row tile in a half */
    words_per_half = 4 * pieces, /* of a lane, in a row tile */
    words_per_step = words_per_half / steps_per_half,
    half_code_bytes = 64 * 64 * weight_bits / 8, /* 64 rows by 64 k */
    code_bytes = 2 * half_code_bytes,
    groups_per_chunk = group_k == 0 ? 0 : 128 / group_k,
    groups_per_half = group_k == 0 ? 0 : (group_k >= 64 ? 1 : 64 / group_k),
    scale_size = scale == scale_f32 ? 4 : (scale >= scale_e8m0 ? 1 : 2), /* bytes */
    scale_line = 64 * scale_size,
    zero_line = zero == zero_none ? 0 : (zero == zero_int ? 64 : 128),
};

static_assert(chunk_bytes ==
                  (code_bytes + groups_per_chunk * (scale_line + zero_line) + 127) / 128 * 128,
    "config.h and the pack layout disagree about the bytes of a chunk");

/* Byte of the scale line and of the zero point line of a group, from the start of the chunk. */
HM_DEV constexpr u32 chunk_scales(u32 group) { return code_bytes + group * scale_line; }
HM_DEV constexpr u32 chunk_zeros(u32 group) {
    return code_bytes + groups_per_chunk * scale_line + group * zero_line;
}

/*
 * A row block (64 rows) in a stage of kernels H and G. Two halves: the chunk as it is. One half:
 * the codes of that half, then the lines of the groups that touch it; a group of 128 is touched by
 * both halves of its chunk and copied for each.
 */
enum {
    half_scale_bytes = groups_per_half * scale_line,
    half_zero_bytes = groups_per_half * zero_line,
};
template <int n_halves> struct row_block {
    static_assert(n_halves == 1 || n_halves == 2, "half a chunk or a chunk");
    enum {
        scales = n_halves * half_code_bytes, /* first scale line */
        zeros = scales + (n_halves == 2 ? groups_per_chunk : groups_per_half) * scale_line,
        bytes = n_halves == 2 ? chunk_bytes : zeros + half_zero_bytes,
    };
    static_assert(bytes % 16 == 0, "every row block begins at a 16-byte boundary");
};

/* First group, counted inside the chunk, that touches a half. */
HM_DEV constexpr u32 first_group_of_half(u32 half) {
    return group_k >= 128 ? 0 : half * groups_per_half;
}

/* ---- where a lane reads ---- */

/* Its 16 bytes of piece 0 of a row tile, from the start of the codes of a half. */
HM_DEV constexpr u32 lane_codes(u32 row_tile, u32 lane) {
    return row_tile * (pieces * piece_bytes) + lane * 16;
}
/* Its two scales, from the start of a line. */
HM_DEV constexpr u32 lane_scales(u32 row_tile, u32 lane) {
    return row_tile * (16 * scale_size) + lane / 4 * (2 * scale_size);
}
/* Its two zero points, from the start of a line: 16 or 32 bits. */
HM_DEV constexpr u32 lane_zeros(u32 row_tile, u32 lane) {
    return zero == zero_int ? row_tile * 16 + lane / 4 * 2 : row_tile * 32 + lane / 4 * 4;
}

/* Group boundaries inside a half, by step. A group of 128 or a channel has none inside. */
HM_DEV constexpr bool step_starts_group(u32 step) {
    return group_k != 0 && group_k < 128 && step * step_k % group_k == 0;
}
HM_DEV constexpr bool step_ends_group(u32 step) {
    return group_k != 0 && group_k < 128 && (step + 1) * step_k % group_k == 0;
}
/* The group of a step, counted from the first group of the half. */
HM_DEV constexpr u32 group_of_step(u32 step) {
    return group_k == 0 || group_k >= 64 ? 0 : step * step_k / group_k;
}

/* ---- fragments ---- */

/* Row (0..15) and k (0..step_k - 1) of register i, element e (half or byte) of a lane. */
HM_DEV constexpr u32 fragment_row(u32 lane, u32 i) { return lane / 4 + 8 * (i & 1); }
HM_DEV constexpr u32 fragment_k(u32 lane, u32 i, u32 e) {
    return step_k / 2 * (i >> 1) + step_k / 8 * (lane % 4) + e;
}
/* Row (0..15) and token (0..7) of accumulator e = 0..3 of an m16n8 tile. */
HM_DEV constexpr u32 accumulator_row(u32 lane, u32 e) { return lane / 4 + 8 * (e >> 1); }
HM_DEV constexpr u32 accumulator_token(u32 lane, u32 e) { return 2 * (lane % 4) + (e & 1); }

/*
 * ldmatrix of activations (operand B, stored [token][k]): matrix i of the four holds 8 tokens by
 * 8 k, 16 bytes a row, so one load covers 8 tokens by 32 k = two k16 steps. Registers 0 and 1 are
 * b0 and b1 of the first step, 2 and 3 those of the second.
 */
HM_DEV constexpr u32 matrix_token(u32 lane) { return lane & 7; }
HM_DEV constexpr u32 matrix_piece(u32 lane) { return lane >> 3; } /* 16-byte piece of the row */

/* ---- swizzle ---- */

/*
 * Rows of 128 bytes, 16-byte piece c of row r at c ^ (r & 7). Eight rows read at one logical
 * piece (ldmatrix, stmatrix) then touch eight different groups of four banks: no conflict.
 * It is the 128-byte swizzle of the tensor copies and of wgmma when row 0 is 1024-byte aligned
 * (PTX ISA, "Swizzling Modes").
 */
HM_DEV constexpr u32 swizzled(u32 row, u32 piece) { return row * 128 + ((piece ^ (row & 7)) << 4); }

/*
 * Byte that a lane addresses in stmatrix.trans of 16 (or the last 8) tokens by the 16 rows of its
 * warp, in an output tile [token][64 rows of a slice] of 128-byte swizzled rows. Matrices 0 and 1
 * are rows 0-7 and 8-15 of the warp for the first 8 tokens, 2 and 3 the same for the next 8.
 */
HM_DEV constexpr u32 output_piece(u32 first_token, u32 warp, u32 lane) {
    return swizzled(first_token + (lane >> 4) * 8 + (lane & 7), warp * 2 + ((lane >> 3) & 1));
}
HM_DEV constexpr u32 output_piece_last8(u32 first_token, u32 warp, u32 lane) {
    return swizzled(first_token + (lane & 7), warp * 2 + ((lane >> 3) & 1));
}

/*
 * Descriptor of a K-major B tile with 128-byte swizzled rows (PTX ISA, "Matrix Descriptor"):
 *   bits 0-13   address / 16          16-29  leading offset / 16, unused here, 1
 *   bits 32-45  stride / 16: 8 rows of 128 bytes = 1024      62-63  1 = 128-byte swizzle
 * The next step lies 32 bytes further inside the row; the hardware applies the swizzle to the
 * absolute address, so adding to the start address is right. Shared memory ends below 2^18, so
 * smem / 16 needs no mask.
 */
HM_DEV constexpr u64 wgmma_descriptor(u32 smem) {
    return (1ull << 62) | (u64(1024 >> 4) << 32) | (1ull << 16) | (smem >> 4);
}
