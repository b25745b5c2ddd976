/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_mma.cu - kernel G: W4A16 GEMM with cp.async, ldmatrix and mma.sync. sm_80 and later.
 *
 * The general member of the family: any M, every architecture from sm_80 on, the same packed
 * weights and the same dequantization as its siblings, no instruction newer than sm_80 except the
 * grid dependency, which ptx.cuh leaves out before sm_90.
 *
 *     CTA      tile_rows weight rows by tile_tokens tokens, one tile, no split across CTAs
 *     warps    warps_n along the rows, then warps_m along the tokens, then warps_k along K
 *     stage    64 * warps_k along K, one part of 64 k for each of the warps_k:
 *
 *              part   [token][64 k]           activations, 128-byte rows, swizzled (layout.cuh)
 *                     [row block][half chunk] weights: codes, scale lines, zero point lines
 *
 *     ring     n_stages - 1 stages are on their way while one is used:
 *              wait for the oldest, barrier, request the next into the slot just left, multiply
 *
 * Scales are folded into the weights (dequant.cuh). The fp32 tile goes through shared memory, where
 * the parts of K are added in order, and leaves in 16-byte pieces of 8 rows of one token.
 *
 * Tails: tokens beyond M and k beyond K are zero-filled by cp.async and never read; row blocks
 * beyond N read the last block again and are not stored.
 *
 * Dynamic shared memory: n_stages * stage_bytes, which also holds the output tile at the end.
 * Grid: x = tiles of rows, y = tiles of tokens.
 */
#include "dequant.cuh"
#include "epilogue.cuh"
#include "layout.cuh"
#include "mma.cuh"
#include "pipeline.cuh"
#include "prelude.cuh"
#include "ptx.cuh"
#include "scheduler.cuh"

enum {
    row_blocks = tile_rows / 64,
    row_tiles = tile_rows / 16 / warps_n,    /* of a warp */
    token_tiles = tile_tokens / 8 / warps_m, /* of a warp */
    act_part_bytes = tile_tokens * 128,
    block_bytes = row_block<1>::bytes, /* 64 rows of weights in a part */
    block_scales = row_block<1>::scales,
    block_zeros = row_block<1>::zeros,
    part_bytes = (act_part_bytes + row_blocks * block_bytes + 127) / 128 * 128,
    tile_stride =
        tile_rows + 4, /* floats from token to token of the output tile; 4 spreads banks */
};
static_assert(stage_bytes == part_bytes * warps_k,
    "config.h and this file disagree about the bytes of a stage");
static_assert(tile_tokens * tile_stride * 4 <= n_stages * stage_bytes,
    "the stages are large enough to hold the output tile");

using sums = accumulators<row_tiles, token_tiles>;

/* Where a thread works; constant after set-up. */
struct place {
    u32 smem;
    u32 lane, warp_n, warp_m, warp_k;
    u32 first_block, last_block; /* 64-row blocks: of the tile, of the problem */
    u32 first_token;
    u32 all_chunks; /* along K */
};

HM_DEV place make_place(const gemm_params &p, u32 smem) {
    const u32 warp = threadIdx.x >> 5;
    place at;
    at.smem = smem;
    at.lane = threadIdx.x & 31;
    at.warp_n = warp % warps_n;
    at.warp_m = warp / warps_n % warps_m;
    at.warp_k = warp / (warps_n * warps_m);
    at.first_block = blockIdx.x * row_blocks;
    at.last_block = ceil_div(p.n, 64) - 1;
    at.first_token = blockIdx.y * tile_tokens;
    at.all_chunks = ceil_div(p.k, 128);
    return at;
}

/* ---- copies: all threads, 16 bytes each ---- */

/* Half a chunk of row block `block` of the tile; index counts halves along K, clamped to the last
 * one where warps_k reaches beyond K: the activations there are zero. */
HM_DEV const u8 *chunk_source(const gemm_params &p, const place &at, u32 block, u32 index) {
    const u32 row = smaller(at.first_block + block, at.last_block);
    const u32 chunk = smaller(index >> 1, at.all_chunks - 1);
    return (const u8 *)p.w + ((u64)row * at.all_chunks + chunk) * chunk_bytes;
}

/* One kind of line of all row blocks and parts: `bytes` each, at `offset` of the stored half. */
template <int bytes, class source_offset>
HM_DEV void copy_lines(const gemm_params &p, const place &at, u32 stage, u32 slot, u32 offset,
    source_offset from) {
    constexpr u32 pieces = bytes / 16, total = pieces * row_blocks * warps_k;
#pragma unroll
    for (u32 first = 0; first < total; first += n_threads) {
        const u32 i = first + threadIdx.x, line = i / pieces, piece = i % pieces;
        const u32 block = line % row_blocks, part = line / row_blocks;
        const u32 index = stage * warps_k + part;
        if (total % n_threads != 0 && i >= total)
            break;
        copy16(at.smem + slot * stage_bytes + part * part_bytes + act_part_bytes +
                   block * block_bytes + offset + piece * 16,
            chunk_source(p, at, block, index) + from(index & 1) + piece * 16, 1);
    }
}

HM_DEV void copy_weights(const gemm_params &p, const place &at, u32 stage, u32 slot) {
    copy_lines<half_code_bytes>(p, at, stage, slot, 0,
        [](u32 half) { return half * half_code_bytes; });
    if constexpr (half_scale_bytes != 0)
        copy_lines<half_scale_bytes>(p, at, stage, slot, block_scales,
            [](u32 half) { return chunk_scales(first_group_of_half(half)); });
    if constexpr (half_zero_bytes != 0)
        copy_lines<half_zero_bytes>(p, at, stage, slot, block_zeros,
            [](u32 half) { return chunk_zeros(first_group_of_half(half)); });
}

HM_DEV void copy_tokens(const gemm_params &p, const place &at, u32 stage, u32 slot) {
    constexpr u32 total = tile_tokens * 8 * warps_k;
#pragma unroll
    for (u32 first = 0; first < total; first += n_threads) {
        const u32 i = first + threadIdx.x, piece = i % 8, row = i / 8 % tile_tokens;
        const u32 part = i / (8 * tile_tokens);
        if (total % n_threads != 0 && i >= total)
            break;
        const u32 token = at.first_token + row, k = (stage * warps_k + part) * 64 + piece * 8;
        const bool valid = token < p.m && k < p.k; /* K % 8 == 0: a piece is inside or outside */
        copy16(at.smem + slot * stage_bytes + part * part_bytes + swizzled(row, piece),
            (const u16 *)p.a + (valid ? (u64)token * p.lda + k : 0), valid);
    }
}

/* ---- arithmetic ---- */

/* Scales and zero points of a group, counted inside the half, for the row tiles of the warp. */
HM_DEV void load_terms(dequant_terms (&terms)[row_tiles], const place &at, u32 weights, u32 group) {
#pragma unroll
    for (int r = 0; r < row_tiles; r++) {
        const u32 tile = at.warp_n * row_tiles + r, block = weights + tile / 4 * block_bytes;
        const u32 zeros = block + block_zeros + group * zero_line + lane_zeros(tile % 4, at.lane);
        fold_scales<act, zero>(terms[r], load_smem_u32(block + block_scales + group * scale_line +
                                                       lane_scales(tile % 4, at.lane)));
        if constexpr (zero == zero_int)
            set_zero_points<act, zero>(terms[r], load_smem_u16(zeros));
        if constexpr (zero == zero_float)
            set_zero_points<act, zero>(terms[r], load_smem_u32(zeros));
    }
}

/* acc += the 64 k of this warp's part of a stage. */
HM_DEV void multiply_part(sums &acc, const place &at, u32 part, dequant_terms (&terms)[row_tiles]) {
    const u32 weights = part + act_part_bytes;
    uint4 codes[row_tiles];
#pragma unroll
    for (int r = 0; r < row_tiles; r++) {
        const u32 tile = at.warp_n * row_tiles + r;
        codes[r] = load_smem_u128(weights + tile / 4 * block_bytes + lane_codes(tile % 4, at.lane));
    }
    if constexpr (group_k == 128)
        load_terms(terms, at, weights, 0);
    u32 b[token_tiles][2][4];
#pragma unroll
    for (int step = 0; step < 4; step++) {
        if (step % 2 == 0)
#pragma unroll
            for (int t = 0; t < token_tiles; t++) {
                const u32 row = (at.warp_m * token_tiles + t) * 8 + matrix_token(at.lane);
                load_matrices(b[t][step / 2],
                    part + swizzled(row, step * 2 + matrix_piece(at.lane)));
            }
        if (step_starts_group(step))
            load_terms(terms, at, weights, group_of_step(step));
#pragma unroll
        for (int r = 0; r < row_tiles; r++) {
            u32 a[4];
            dequant_word_folded<act, zero>(word_of(codes[r], step), terms[r], a);
            multiply_row_tile(acc, r, a, b, step);
        }
    }
}

/* The whole of K through the ring. */
HM_DEV void multiply(sums &acc, const gemm_params &p, const place &at) {
    const u32 stages = ceil_div(p.k, 64 * warps_k);
    dequant_terms terms[row_tiles];
#pragma unroll
    for (int r = 0; r < row_tiles; r++)
        terms[r] = unit_terms<act>();
    clear(acc);
    /* Weights do not depend on the grid before us; they belong to the group of stage 0. */
#pragma unroll 1
    for (u32 s = 0; s < n_stages - 1; s++)
        if (s < stages)
            copy_weights(p, at, s, s);
    grid_wait();
#pragma unroll 1
    for (u32 s = 0; s < n_stages - 1; s++) {
        if (s < stages)
            copy_tokens(p, at, s, s);
        copy_commit(); /* empty beyond K, so that a wait always counts the same groups */
    }
    ring_cursor used = {0, 0}, filled = {n_stages - 1, 0};
#pragma unroll 1
    for (u32 s = 0; s < stages; s++) {
        copy_wait<n_stages - 2>(); /* this thread's copies of stage s have landed ... */
        __syncthreads();           /* ... everybody's have, and stage s - 1 has been read by all */
        if (s + n_stages - 1 < stages) {
            copy_weights(p, at, s + n_stages - 1, filled.slot);
            copy_tokens(p, at, s + n_stages - 1, filled.slot);
        }
        copy_commit();
        multiply_part(acc, at, at.smem + used.slot * stage_bytes + at.warp_k * part_bytes, terms);
        advance<n_stages>(used);
        advance<n_stages>(filled);
    }
    copy_wait<0>();
    __syncthreads(); /* the stages are free for the output tile */
}

/* ---- output ---- */

/* This warp's sums to the tile [token][tile_stride], or on top of what is there. */
HM_DEV void write_sums(const sums &acc, const place &at, float *tile, bool add) {
#pragma unroll
    for (int t = 0; t < token_tiles; t++)
#pragma unroll
        for (int r = 0; r < row_tiles; r++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const u32 token = (at.warp_m * token_tiles + t) * 8 + accumulator_token(at.lane, e);
                const u32 row = (at.warp_n * row_tiles + r) * 16 + accumulator_row(at.lane, e);
                float *cell = tile + token * tile_stride + row;
                *cell = add ? *cell + acc.sum[t][r][e] : acc.sum[t][r][e];
            }
}

/* The parts of K in order, one after the other. */
HM_DEV void collect(const sums &acc, const place &at, float *tile) {
#pragma unroll 1
    for (u32 part = 0; part < warps_k; part++) {
        if (part == at.warp_k)
            write_sums(acc, at, tile, part != 0);
        __syncthreads(); /* written before it is added to, or read */
    }
}

HM_DEV row_terms row_terms_at(const gemm_params &p, u32 row) {
    return {p.rowmul[row], p.bias ? p.bias[row] : 0.0f};
}

/* 16 bytes of C a thread and turn: 8 rows of one token. N % 8 == 0: all inside or all outside. */
HM_DEV void store(const gemm_params &p, const place &at, const float *tile) {
    constexpr u32 pieces = tile_rows / 8;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < tile_tokens * pieces; i += n_threads) {
        const u32 token = i / pieces, row = i % pieces * 8;
        const u32 m = at.first_token + token, n = at.first_block * 64 + row;
        if (m >= p.m || n >= p.n)
            continue;
        u32 out[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float *cell = tile + token * tile_stride + row + 2 * j;
            out[j] = finish_pair<act>(cell[0], cell[1], row_terms_at(p, n + 2 * j),
                row_terms_at(p, n + 2 * j + 1));
        }
        *(uint4 *)((u16 *)p.c + (u64)m * p.ldc + n) = make_uint4(out[0], out[1], out[2], out[3]);
    }
}

extern "C" __global__ void __launch_bounds__(n_threads)
    hm_gemm_mma(const __grid_constant__ gemm_params p) {
    extern __shared__ __align__(128) u8 smem[];
    const place at = make_place(p, smem_address(smem));
    sums acc;

    grid_release();
    multiply(acc, p, at);
    collect(acc, at, (float *)smem);
    store(p, at, (const float *)smem);
}
