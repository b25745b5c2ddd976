/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgmma_roles.cuh - kernel H: who does what, where things lie in shared memory, and the producers.
 *
 *     stage   64 * halves along K:
 *             activations        16-bit [half][token][64 k], 8-bit [token][128 k]: rows of 128
 *                                bytes, 128-byte swizzle
 *             weights            [row block 0 .. 2 * n_slices - 1], 64 rows each (layout.cuh)
 *             activation scales  [token] fp32, with a scale per 128 k only
 *
 * The producer asks for the weights of the first stages before the grid dependency and for all else
 * after it; nobody reads activations or their scales earlier.
 */
#pragma once
#include "layout.cuh"
#include "pipeline.cuh"
#include "prelude.cuh"
#include "ptx.cuh"
#include "scheduler.cuh"

enum {
    row_blocks = 2 * n_slices,            /* of 64 rows, in a tile */
    k_rows = act_bits == 16 ? halves : 1, /* 128-byte rows of a token in a stage: 64 or 128 k */
    k_row_bytes = tile_tokens * 128,
    act_bytes = k_rows * k_row_bytes,
    block_bytes = row_block<halves>::bytes, /* 64 rows of weights in a stage */
    block_scales = row_block<halves>::scales,
    block_zeros = row_block<halves>::zeros,
    load_bytes = act_bytes + row_blocks * block_bytes, /* that the tensor and bulk copies bring */
    stage_scales = load_bytes,                         /* behind them: of activations, per 128 k */
    stage_scale_bytes = act_scale == act_scale_group ? tile_tokens * 4 : 0,
    full_arrivals = 1 + (act_scale == act_scale_group ? 32 : 0),
};
static_assert(stage_bytes == (load_bytes + stage_scale_bytes + 1023) / 1024 * 1024,
    "config.h and this file disagree about the bytes of a stage");
static_assert(stage_bytes % 1024 == 0, "the swizzle works on absolute address bits");

/* Roles. A set is a pair of consumer warpgroups; sets take the stages in turn. */
enum {
    sets = (n_threads / 128 - 1) / 2,
    n_groups = 2 * sets,
    launch_registers = 65536 / n_threads / 8 * 8,
    producer_registers = sets == 1 ? 40 : 32,
    consumer_registers =
        (launch_registers * n_threads - producer_registers * 128) / (n_groups * 128) / 8 * 8,
};

/* What lies behind the stages or, the stages being free by then, in their place. */
enum {
    ring_bytes = n_stages * stage_bytes,
    staging_bytes = tile_tokens * 128,                  /* of a warpgroup: a slice of the output */
    tile_bytes = row_blocks * 64 * tile_tokens * 4,     /* fp32 sums */
    cluster_bytes = sets * tile_bytes + tile_bytes / 2, /* finish_split */
    token_scales = split_k == 0                 ? ring_bytes + 2 * staging_bytes
                   : ring_bytes > cluster_bytes ? ring_bytes
                                                : cluster_bytes,
};

/* Tiles may be shared between CTAs along K. Where no register is left for that (wide tiles, zero
 * points of two slices) split_tiles is ignored: every CTA takes whole tiles. */
enum {
    shares_tiles =
        split_k == 0 && tile_tokens * n_slices <= 256 && (n_slices == 1 || zero == zero_none),
};

/* Named barriers. 0 is __syncthreads, 1 to n_groups are the warpgroups' own. */
enum { barrier_group = 1, barrier_consumers = 7 };

/* What both roles know. */
struct problem {
    u32 base, full, empty;       /* shared memory: stages, barriers of each */
    u32 rows_full, arrived;      /* of finish_split: row factors, pushed sums */
    u32 row_factors;             /* [2][rows of the tile]: factors, bias; only with split_k */
    u32 n_tiles, m_tiles, tiles; /* of the output */
    u32 first_tile;              /* of the cluster */
    u32 all_chunks, last_block;  /* of K; of the rows */
    u32 ranks, rank;             /* of the cluster; 1, 0 unless split_k */
    k_range range;
    u32 stages;      /* along this CTA's part of K */
    u32 share;       /* of this CTA in the tiles that all share along K (scheduler.cuh) */
    u32 whole_tiles; /* the others */
    shares split;
};

HM_DEV problem make_problem(const gemm_params &p, u32 base, u32 barriers, u32 row_factors) {
    problem q;
    q.base = base;
    q.full = barriers;
    q.empty = barriers + 8 * n_stages;
    q.rows_full = barriers + 16 * n_stages;
    q.arrived = q.rows_full + 8;
    q.row_factors = row_factors;
    q.n_tiles = ceil_div(p.n, 64 * row_blocks);
    q.m_tiles = ceil_div(p.m, tile_tokens);
    q.tiles = q.n_tiles * q.m_tiles;
    q.all_chunks = ceil_div(p.k, 128);
    q.last_block = ceil_div(p.n, 64) - 1;
    q.ranks = split_k ? cluster_size() : 1;
    q.rank = split_k ? cluster_rank() : 0;
    q.first_tile = blockIdx.x / q.ranks;
    q.range = split_k ? k_range_of(q.rank, q.ranks, q.all_chunks) : k_range{0, q.all_chunks, 0};
    q.stages = q.range.n_chunks * 2 / halves;
    q.share = gridDim.x - 1 - blockIdx.x; /* waits for higher shares: CTAs that began before us */
    q.whole_tiles = q.tiles - p.split_tiles;
    q.split = shares_of(p.split_tiles * q.stages, gridDim.x);
    return q;
}

/* Work number i of this CTA: the cluster's only tile, or what scheduler.cuh gives. */
HM_DEV bool next_work(work &item, const problem &q, u32 i) {
    if constexpr (split_k != 0)
        item = {q.first_tile, 0, i == 0 ? q.stages : 0};
    else if constexpr (!shares_tiles)
        item = {blockIdx.x + i * gridDim.x, 0, blockIdx.x + i * gridDim.x < q.tiles ? q.stages : 0};
    else
        item = work_at(i, q.split, q.share, q.stages, blockIdx.x, gridDim.x, q.whole_tiles);
    return item.count != 0;
}

/* ---- producer: one thread ---- */

enum { stage_k = halves * 64 };

struct weight_source {
    const u8 *chunks; /* first chunk of the K range, row block 0 */
    u32 block_stride; /* bytes from one row block to the next */
    u32 first_block, last_block;
    u64 policy;
};

/* The weights of one stage: one copy per row block, or one per kind of line in half stages. */
HM_DEV void request_weights(const weight_source &from, u32 index, u32 stage, u32 barrier) {
    const u32 half = halves == 2 ? 0 : index & 1;
    const u8 *chunk = from.chunks + (u64)(halves == 2 ? index : index >> 1) * chunk_bytes;
#pragma unroll
    for (int i = 0; i < row_blocks; i++) {
        const u32 block = smaller(from.first_block + i, from.last_block);
        const u8 *source = chunk + (u64)block * from.block_stride;
        const u32 target = stage + act_bytes + i * block_bytes;
        if constexpr (halves == 2) {
            bulk_load(target, source, chunk_bytes, barrier, from.policy);
            continue;
        }
        const u32 group = first_group_of_half(half);
        bulk_load(target, source + half * half_code_bytes, half_code_bytes, barrier, from.policy);
        if constexpr (halves == 1 && half_scale_bytes != 0)
            bulk_load(target + block_scales, source + chunk_scales(group), half_scale_bytes,
                barrier, from.policy);
        if constexpr (halves == 1 && half_zero_bytes != 0)
            bulk_load(target + block_zeros, source + chunk_zeros(group), half_zero_bytes, barrier,
                from.policy);
    }
}

HM_DEV void request_tokens(const gemm_params &p, u32 k, u32 token, u32 stage, u32 barrier) {
#pragma unroll
    for (int row = 0; row < k_rows; row++)
        tensor_load(stage + row * k_row_bytes, &p.a_map, k + row * 64, token, barrier);
}

/* Fill the ring over all tiles. Weights do not depend on the grid before us: those of the first
 * stages are requested before its end, everything else after it. */
HM_DEV void produce(const gemm_params &p, const problem &q) {
    weight_source from;
    from.chunks = (const u8 *)p.w + (u64)q.range.chunk * chunk_bytes;
    from.block_stride = q.all_chunks * chunk_bytes;
    from.last_block = q.last_block;
    from.policy = p.weight_policy != 0 ? policy_evict_first : policy_normal;
    ring_cursor ring = {0, 1};
    bool waited = false;
    work item;
#pragma unroll 1
    for (u32 i = 0; next_work(item, q, i); i++) {
        const tile_place tile = tile_at(item.tile, q.n_tiles, q.m_tiles, p.band);
        const u32 token = tile.m * tile_tokens, first_k = q.range.first_k + item.first * stage_k;
        from.first_block = tile.n * row_blocks;
        u32 s = 0;
        if (!waited) {
            const u32 early = smaller(smaller(p.prefetch, n_stages), item.count);
#pragma unroll 1
            for (u32 e = 0; e < early; e++) {
                mbarrier_expect(q.full + 8 * e, load_bytes);
                request_weights(from, item.first + e, q.base + e * stage_bytes, q.full + 8 * e);
            }
            grid_wait();
            waited = true;
#pragma unroll 1
            for (; s < early; s++) {
                request_tokens(p, first_k + s * stage_k, token, q.base + s * stage_bytes,
                    q.full + 8 * s);
                advance<n_stages>(ring);
            }
        }
#pragma unroll 1
        for (; s < item.count; s++) {
            const u32 barrier = q.full + 8 * ring.slot, stage = q.base + ring.slot * stage_bytes;
            mbarrier_wait(q.empty + 8 * ring.slot, ring.phase); /* pairs with release_stage */
            mbarrier_expect(barrier, load_bytes);
            request_weights(from, item.first + s, stage, barrier);
            request_tokens(p, first_k + s * stage_k, token, stage, barrier);
            advance<n_stages>(ring);
        }
    }
}

/*
 * The scales of activations per 128 k, by a warp of their own: 4 bytes at a time, as tokens lie
 * anywhere. Its lanes' arrivals complete a stage together with the bytes that produce() announces.
 * Zeros beyond M, and beyond K, where the activations are zero as well.
 */
HM_DEV void produce_scales(const gemm_params &p, const problem &q) {
    const u32 lane = threadIdx.x & 31;
    ring_cursor ring = {0, 1};
    work item;
    grid_wait();
#pragma unroll 1
    for (u32 i = 0; next_work(item, q, i); i++) {
        const u32 token = tile_at(item.tile, q.n_tiles, q.m_tiles, p.band).m * tile_tokens;
        u32 group = q.range.first_k / 128 + item.first;
#pragma unroll 1
        for (u32 s = 0; s < item.count; s++, group++) {
            const u32 target = q.base + ring.slot * stage_bytes + stage_scales;
            mbarrier_wait(q.empty + 8 * ring.slot, ring.phase); /* pairs with release_stage */
#pragma unroll 1
            for (u32 t = lane; t < tile_tokens; t += 32) {
                const bool inside = token + t < p.m && group < q.all_chunks;
                const u64 at = (u64)(token + t) * p.a_scale_step + group * p.a_scale_group_step;
                copy4(target + 4 * t, p.a_scale + (inside ? at : 0), inside);
            }
            copy_arrive(q.full + 8 * ring.slot);
            advance<n_stages>(ring);
        }
    }
    copy_wait_all();
}
