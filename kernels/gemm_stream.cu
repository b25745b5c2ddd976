/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_stream.cu - kernel S: W4A16 GEMM for a few tokens, bound by the stream of weights. sm_90a.
 *
 * Every warp is a streaming engine of its own: a private ring of weight chunks (64 rows by 128 k,
 * scales inline) filled by bulk copies, a private slice of the activations resident in shared
 * memory, mma.sync with the weights as operand A. No CTA barrier stands in the main loop.
 *
 *     cluster      a range of 64-row groups                           (scheduler.cuh)
 *       rank       a range of K, summed through distributed shared memory at the end
 *         set      n_warps / warps_k sets take the row groups of the cluster in turn
 *           warp   a range of K inside the rank, summed through shared memory per row group
 *
 * Scales: the tensor cores see the exact integers (u - 8) * 2^-6; a group's sum is multiplied by
 * its scale in fp32 when the group ends. Channel scales need no such second accumulator.
 *
 * Order at the start: the weights of the whole ring are requested BEFORE griddepcontrol.wait, the
 * activations after it, so that consecutive kernels overlap. Every sum is taken in a fixed order:
 * results are the same bits in every run.
 *
 * Dynamic shared memory, M tokens, ck CTAs in a cluster, G = row_groups of the parameters,
 * most = ceil(ceil(K / 128) / (ck * warps_k)) chunks of a warp:
 *     n_warps * (ring_depth * chunk_bytes        rings
 *                + M * (most * 256 + 16))        activations
 *   + n_warps * min(M, 8) * 65 * 4               partial sums of 8 tokens
 *   + G * 512                                    row factors, bias
 *   + (ck > 1 ? G * M * 256 : 0)                 fp32 tile that the cluster adds up
 * Grid: n_clusters * ck CTAs, n_clusters <= row groups is best; more are allowed and idle.
 *
 * Limits: M <= 8 * token_tiles. Measured on an H200 at N = K = 8192, M = 1: 10.2 us (floor 8.1);
 * what is left is the wait and un-overlapped latency of the arithmetic (KERNELS_MEASURED.md 5).
 * Tried there without gain: codes as subnormal MMA operands, cp.async for the activations (slower
 * by 0.1-0.6 us), row tiles in the outer loop, interleaved first copies, rings deeper than 3.
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
    n_sets = n_warps / warps_k,
    partial_stride = 65, /* floats; 64 rows and one to spread the banks */
};

using sums = accumulators<4, token_tiles>; /* 64 rows by M tokens of one warp */

/* Where a thread works; constant after set-up. Addresses are in shared memory. */
struct place {
    stream_share share;
    u32 lane, set, k_warp;    /* k_warp: index of the warp inside its set */
    u32 ranks, rank;          /* of the cluster */
    u32 all_chunks;           /* along K */
    u32 ring, full;           /* chunks of this warp, and a barrier for each */
    u32 tokens, tokens_full;  /* its activations, and their barrier */
    u32 token_stride;         /* bytes; 16 more than a multiple of 256 for ldmatrix */
    u32 tokens_at_once;       /* tokens whose partial sums fit: min(M, 8) */
    float *partials;          /* of the set: [warps_k][tokens_at_once][partial_stride] */
    float *factors, *addends; /* of the row groups of the cluster, 64 each */
    float *tile;              /* cluster sum: [row group][M][64] */
};

/* What the group of scales at hand needs. */
struct group_state {
    sums part;
    u32 scales[4];
    dequant_terms terms[4];
};

/* Request the next chunk of the stream into a slot that nobody reads any more. */
HM_DEV void request_chunk(chunk_stream &next, u32 slot, const place &at) {
    if (next.group >= at.share.group_end)
        return;
    if (elected()) {
        const u32 barrier = at.full + slot * 8;
        mbarrier_expect(barrier, chunk_bytes);
        bulk_load(at.ring + slot * chunk_bytes, next.source, chunk_bytes, barrier,
            policy_evict_first);
    }
    stream_advance(next, at.share, n_sets, at.all_chunks);
}

/*
 * Activations of the warp's slice of K: one bulk copy per token, cut at K; the rest of the last
 * chunk becomes zero, because the weights there are padding and 0 * NaN is not 0. The writes of
 * the zeros are seen by the warp after the __syncwarp of the caller.
 */
HM_DEV void request_tokens(const gemm_params &p, const place &at) {
    const u32 slice_bytes = at.share.n_chunks * 256;
    const u32 true_bytes = smaller(slice_bytes, (p.k - at.share.chunk_begin * 128) * 2);
    for (u32 i = at.lane * 16; i < slice_bytes - true_bytes; i += 512)
#pragma unroll 1
        for (u32 m = 0; m < p.m; m++)
            store_smem_u128(at.tokens + m * at.token_stride + true_bytes + i, 0, 0, 0, 0);
    if (elected()) {
        mbarrier_expect(at.tokens_full, p.m * true_bytes);
        grid_wait();
        const u8 *source = (const u8 *)p.a + at.share.chunk_begin * 256;
        if (true_bytes != 0)
#pragma unroll 1
            for (u32 m = 0; m < p.m; m++)
                bulk_load(at.tokens + m * at.token_stride, source + (u64)m * p.lda * 2, true_bytes,
                    at.tokens_full, policy_evict_last);
    }
}

/* Start a group of scales; index counts the groups of the chunk. */
HM_DEV void begin_group(group_state &group, u32 chunk, u32 index, u32 lane) {
    clear(group.part);
#pragma unroll
    for (int r = 0; r < 4; r++) {
        group.scales[r] = load_smem_u32(chunk + chunk_scales(index) + lane_scales(r, lane));
        if constexpr (zero == zero_int)
            set_zero_points<act, zero>(group.terms[r],
                load_smem_u16(chunk + chunk_zeros(index) + lane_zeros(r, lane)));
        if constexpr (zero == zero_float)
            set_zero_points<act, zero>(group.terms[r],
                load_smem_u32(chunk + chunk_zeros(index) + lane_zeros(r, lane)));
    }
}

/* End it: total += scale * sum of the group, in fp32. */
HM_DEV void end_group(const group_state &group, sums &total) {
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const float even = low_half<act>(group.scales[r]), odd = high_half<act>(group.scales[r]);
#pragma unroll
        for (int t = 0; t < token_tiles; t++) {
            total.sum[t][r][0] += even * group.part.sum[t][r][0];
            total.sum[t][r][1] += even * group.part.sum[t][r][1];
            total.sum[t][r][2] += odd * group.part.sum[t][r][2];
            total.sum[t][r][3] += odd * group.part.sum[t][r][3];
        }
    }
}

/* One half of a chunk: 64 rows by 64 k against all tokens. tokens: ldmatrix address per tile. */
HM_DEV void multiply_half(u32 chunk, int half, u32 lane, const u32 (&tokens)[token_tiles],
    group_state &group, sums &total) {
    u32 b[token_tiles][2][4];
#pragma unroll
    for (int t = 0; t < token_tiles; t++) {
        load_matrices(b[t][0], tokens[t] + half * 128);
        load_matrices(b[t][1], tokens[t] + half * 128 + 64);
    }
    uint4 codes[4];
#pragma unroll
    for (int r = 0; r < 4; r++)
        codes[r] = load_smem_u128(chunk + half * half_code_bytes + lane_codes(r, lane));
#pragma unroll
    for (int step = 0; step < 4; step++) {
        if (step_starts_group(step))
            begin_group(group, chunk, first_group_of_half(half) + group_of_step(step), lane);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            u32 a[4];
            dequant_word<act>(word_of(codes[r], step), group.terms[r], a);
            multiply_row_tile(group_k == 0 ? total : group.part, r, a, b, step);
        }
        if (step_ends_group(step))
            end_group(group, total);
    }
}

/* All chunks of the warp for one row group. */
HM_DEV void multiply_row_group(sums &total, const place &at, const u32 (&tokens)[token_tiles],
    chunk_stream &next, ring_cursor &ring) {
    group_state group;
#pragma unroll
    for (int r = 0; r < 4; r++)
        group.terms[r] = integer_terms<act>();
    clear(total);
#pragma unroll 1
    for (u32 c = 0; c < at.share.n_chunks; c++) {
        mbarrier_wait(at.full + ring.slot * 8, ring.phase); /* pairs with request_chunk */
        const u32 chunk = at.ring + ring.slot * chunk_bytes;
        u32 here[token_tiles];
#pragma unroll
        for (int t = 0; t < token_tiles; t++)
            here[t] = tokens[t] + c * 256;
        if constexpr (group_k == 128)
            begin_group(group, chunk, 0, at.lane);
#pragma unroll
        for (int half = 0; half < 2; half++)
            multiply_half(chunk, half, at.lane, here, group, total);
        __syncwarp(); /* the last read of the slot before the next copy into it */
        request_chunk(next, ring.slot, at);
        if constexpr (group_k == 128)
            end_group(group, total);
        advance<ring_depth>(ring);
    }
}

/* All warps of a set meet; the partial sums change hands. */
HM_DEV void set_sync(u32 set) {
    if constexpr (n_sets == 1)
        __syncthreads();
    else if constexpr (warps_k == 1)
        __syncwarp();
    else if (set == 0)
        barrier_sync<1, warps_k * 32>();
    else if (set == 1)
        barrier_sync<2, warps_k * 32>();
    else if (set == 2)
        barrier_sync<3, warps_k * 32>();
    else
        barrier_sync<4, warps_k * 32>();
}

HM_DEV row_terms row_terms_at(const gemm_params &p, const place &at, u32 row) {
    return {at.factors[row], p.bias ? at.addends[row] : 0.0f};
}

/* Add up the warps of a set for tokens 8 * tile..; write C, or the tile that the cluster adds. */
HM_DEV void sum_warps(const gemm_params &p, const place &at, u32 group, u32 tile) {
    const u32 local = group - at.share.group_begin;
    const u32 n_tokens = smaller(p.m - tile * 8, 8);
#pragma unroll 1
    for (u32 i = at.k_warp * 32 + at.lane; i < n_tokens * 32; i += warps_k * 32) {
        const u32 token = i >> 5, row = (i & 31) * 2, m = tile * 8 + token;
        float x = 0.0f, y = 0.0f;
#pragma unroll
        for (int w = 0; w < warps_k; w++) {
            const float *part = at.partials + (w * at.tokens_at_once + token) * partial_stride;
            x += part[row];
            y += part[row + 1];
        }
        if (at.ranks > 1)
            *(float2 *)(at.tile + (local * p.m + m) * 64 + row) = make_float2(x, y);
        else if (group * 64 + row < p.n)
            *(u32 *)((u16 *)p.c + (u64)m * p.ldc + group * 64 + row) = finish_pair<act>(x, y,
                row_terms_at(p, at, local * 64 + row), row_terms_at(p, at, local * 64 + row + 1));
    }
}

/* This warp's sums of one token tile, to its part of the partial sums. */
HM_DEV void write_partials(const sums &total, u32 m, const place &at, int tile) {
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const u32 token = accumulator_token(at.lane, e);
        float *part = at.partials + (at.k_warp * at.tokens_at_once + token) * partial_stride;
        if (tile * 8 + token < m)
#pragma unroll
            for (int r = 0; r < 4; r++) {
                part[r * 16 + accumulator_row(at.lane, 0)] = total.sum[tile][r][e];
                part[r * 16 + accumulator_row(at.lane, 2)] = total.sum[tile][r][e + 2];
            }
    }
}

/* Hand the sums of one row group over, 8 tokens at a time. The loop stays rolled for the sake of
 * its code size; only the writes, which index registers, exist once per tile. */
HM_DEV void store_row_group(const sums &total, const gemm_params &p, const place &at, u32 group) {
#pragma unroll 1
    for (u32 tile = 0; tile * 8 < p.m; tile++) {
#pragma unroll
        for (int t = 0; t < token_tiles; t++)
            if (t == tile)
                write_partials(total, p.m, at, t);
        set_sync(at.set); /* partial sums written before they are read */
        sum_warps(p, at, group, tile);
        set_sync(at.set); /* and read before they are written again */
    }
}

/* Add the tiles of all ranks, each rank a share of the outputs, in rank order. */
HM_DEV void sum_cluster(const gemm_params &p, const place &at) {
    cluster_sync(); /* every tile is written */
    const u32 units = (at.share.group_end - at.share.group_begin) * p.m * 16; /* of 4 rows */
    const u32 end = split(at.rank + 1, at.ranks, units);
#pragma unroll 1
    for (u32 i = split(at.rank, at.ranks, units) + threadIdx.x; i < end; i += n_threads) {
        const u32 address = smem_address(at.tile) + i * 16;
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
        for (u32 rank = 0; rank < at.ranks; rank++) {
            const float4 peer = load_peer_f32x4(address, rank);
            v.x += peer.x, v.y += peer.y, v.z += peer.z, v.w += peer.w;
        }
        const u32 unit = i >> 4, local = unit / p.m, m = unit - local * p.m;
        const u32 row = local * 64 + (i & 15) * 4, n = at.share.group_begin * 64 + row;
        if (n < p.n) /* N % 8 == 0: all four rows or none */
            *(uint2 *)((u16 *)p.c + (u64)m * p.ldc + n) = make_uint2(
                finish_pair<act>(v.x, v.y, row_terms_at(p, at, row), row_terms_at(p, at, row + 1)),
                finish_pair<act>(v.z, v.w, row_terms_at(p, at, row + 2),
                    row_terms_at(p, at, row + 3)));
    }
    cluster_sync(); /* nobody leaves while a peer still reads its shared memory */
}

/* The share of this warp and its map of shared memory. */
HM_DEV place make_place(const gemm_params &p, u8 *smem, const u64 *barriers) {
    place at;
    const u32 warp = threadIdx.x >> 5;
    at.lane = threadIdx.x & 31;
    at.set = warp / warps_k;
    at.k_warp = warp % warps_k;
    at.ranks = cluster_size();
    at.rank = cluster_rank();
    at.all_chunks = ceil_div(p.k, 128);
    at.share = stream_share_of(blockIdx.x / at.ranks, gridDim.x / at.ranks, ceil_div(p.n, 64),
        at.rank * warps_k + at.k_warp, at.ranks * warps_k, at.all_chunks);
    at.token_stride = at.share.most_chunks * 256 + 16;
    at.tokens_at_once = smaller(p.m, 8);
    const u32 warp_bytes = ring_depth * chunk_bytes + p.m * at.token_stride;
    at.ring = smem_address(smem) + warp * warp_bytes;
    at.tokens = at.ring + ring_depth * chunk_bytes;
    at.full = smem_address(barriers) + warp * (ring_depth + 1) * 8;
    at.tokens_full = at.full + ring_depth * 8;
    float *partials = (float *)(smem + n_warps * warp_bytes);
    const u32 set_floats = warps_k * at.tokens_at_once * partial_stride;
    at.partials = partials + at.set * set_floats;
    at.factors = partials + n_sets * set_floats;
    at.addends = at.factors + p.row_groups * 64;
    at.tile = at.addends + p.row_groups * 64;
    return at;
}

/* Row factors and bias of the cluster's rows, by warp 0, on its own token barrier. */
HM_DEV void request_row_terms(const gemm_params &p, const place &at) {
    const u32 bytes = (at.share.group_end - at.share.group_begin) * 256;
    const u32 first = at.share.group_begin * 64;
    mbarrier_expect(at.tokens_full, p.bias ? 2 * bytes : bytes);
    bulk_load(smem_address(at.factors), p.rowmul + first, bytes, at.tokens_full, policy_evict_last);
    if (p.bias)
        bulk_load(smem_address(at.addends), p.bias + first, bytes, at.tokens_full,
            policy_evict_last);
}

extern "C" __global__ void __launch_bounds__(n_threads, ctas_per_sm)
    hm_gemm_stream(const __grid_constant__ gemm_params p) {
    extern __shared__ __align__(128) u8 smem[];
    __shared__ __align__(8) u64 barriers[n_warps * (ring_depth + 1)];
    const place at = make_place(p, smem, barriers);
    const bool first_warp = threadIdx.x < 32;

    grid_release();
    /* A CTA without work keeps its slot until the previous grid ends: a grid of one CTA per SM
     * then keeps two co-resident grids balanced. */
    if (at.share.group_begin == at.share.group_end) {
        grid_wait();
        return;
    }
    if (elected()) {
        for (int i = 0; i < ring_depth; i++)
            mbarrier_init(at.full + i * 8, 1);
        mbarrier_init(at.tokens_full, first_warp ? 2 : 1);
        mbarrier_init_fence();
    }
    __syncwarp();
    if (first_warp && elected())
        request_row_terms(p, at);

    chunk_stream next = stream_begin(p.w, at.share, at.set, at.all_chunks);
#pragma unroll 1
    for (int i = 0; i < ring_depth; i++)
        request_chunk(next, i, at);
    request_tokens(p, at);
    __syncwarp();
    mbarrier_wait(at.tokens_full, 0); /* pairs with request_tokens, request_row_terms */

    u32 tokens[token_tiles]; /* tokens beyond M repeat token 0; their sums are dropped */
#pragma unroll
    for (int t = 0; t < token_tiles; t++) {
        const u32 token = t * 8 + matrix_token(at.lane);
        tokens[t] =
            at.tokens + (token < p.m ? token : 0) * at.token_stride + matrix_piece(at.lane) * 16;
    }
    if constexpr (n_sets > 1)
        __syncthreads(); /* row factors came through the barrier of warp 0 */

    ring_cursor ring = {0, 0};
#pragma unroll 1
    for (u32 group = at.share.group_begin + at.set; group < at.share.group_end; group += n_sets) {
        sums total;
        multiply_row_group(total, at, tokens, next, ring);
        store_row_group(total, p, at, group);
    }
    if (at.ranks > 1)
        sum_cluster(p, at);
}
