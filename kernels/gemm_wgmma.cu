/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_wgmma.cu - kernel H: W4A16 GEMM on the Hopper tensor cores. sm_90a.
 *
 * C^T = W * A^T: the weights are the m side of wgmma, dequantized straight into operand A
 * registers with their scales folded in; the activations are operand B in shared memory.
 *
 *     tile        128 * n_slices weight rows by tile_tokens tokens
 *     warpgroup   0, 1  consumers, n_slices slices of 64 rows each
 *                 2     producer, one thread: bulk copies of weights, tensor copies of activations
 *     stage       64 * halves along K:
 *                 [half][token][64 k] activations, 128-byte swizzle
 *                 [row block 0 .. 2 * n_slices - 1] weights, 64 rows each (layout.cuh)
 *
 *     consumer    wait full -> codes, scales -> dequant step j | wgmma of step j-1 still runs
 *                 -> fence, wgmma, commit, wait until one group is left -> ...
 *                 the first such wait of a stage frees the stage before it
 *
 * split_k = 0: persistent CTAs walk over tiles in bands (scheduler.cuh); the producer runs ahead
 *   over tile borders; the output leaves by stmatrix and a tensor store, one slice at a time.
 * split_k = 1: one tile per cluster, K split over its CTAs; fp32 fragments are added through
 *   distributed shared memory in rank order (the same bits in every run).
 *
 * Sizes that do not fit the tile: K and M tails are zero-filled and clipped by the tensor maps;
 * row blocks beyond N read the last block again and are not stored.
 *
 * Dynamic shared memory: 1024 for alignment + n_stages * stage_bytes, then
 *     split_k = 0: + 2 * tile_tokens * 128 for the output staging
 *     split_k = 1: at least 1024 + 128 * n_slices * tile_tokens * 4 + 4096 in all
 * Grid: split_k = 0: min(tiles, SMs); 1: tiles * cluster size.
 *
 * ptxas breaks a wgmma pipeline silently unless watched (C7511..C7514); what keeps it whole here:
 * "unroll 1" over stages and on every producer loop (unrolled they spill under 40 registers), the
 * parity of the operand buffers fixed at compile time, accumulators started by scale-d = 0 instead
 * of by zeroing, at most 168 tokens with two slices (176 and 184 gave C7512).
 * Measured on an H200 (KERNELS_MEASURED.md 3): 779 TFLOP/s at M = 512, 823 at 1024, 840 at 8192.
 * There: one group per 64 k (steps = 4) wins at M <= 128 (14.9 against 16.6 us at M = 16), one per
 * k16 above; requesting more than 2 stages before the grid dependency delays the activations.
 */
#include "dequant.cuh"
#include "epilogue.cuh"
#include "layout.cuh"
#include "pipeline.cuh"
#include "prelude.cuh"
#include "ptx.cuh"
#include "scheduler.cuh"

#include "wgmma_shape.h" /* generated: wgmma_async for 64 rows by tile_tokens columns */

enum {
    row_blocks = 2 * n_slices, /* of 64 rows, in a tile */
    act_half_bytes = tile_tokens * 128,
    act_bytes = halves * act_half_bytes,
    block_bytes = row_block<halves>::bytes, /* 64 rows of weights in a stage */
    block_scales = row_block<halves>::scales,
    block_zeros = row_block<halves>::zeros,
    load_bytes = act_bytes + row_blocks * block_bytes, /* that arrive per stage */
};
static_assert(stage_bytes == (load_bytes + 1023) / 1024 * 1024,
    "config.h and this file disagree about the bytes of a stage");
static_assert(stage_bytes % 1024 == 0, "the swizzle works on absolute address bits");

/* Named barriers. 0 is __syncthreads. */
enum { barrier_group0 = 1, barrier_group1 = 2, barrier_consumers = 3 };

/* What both roles know. */
struct problem {
    u32 base, full, empty;       /* shared memory: stages, barriers */
    u32 n_tiles, m_tiles, tiles; /* of the output */
    u32 first_tile, tile_step;
    u32 all_chunks, last_block; /* of K; of the rows */
    u32 ranks, rank;            /* of the cluster; 1, 0 unless split_k */
    k_range range;
    u32 stages; /* along this CTA's part of K */
};

HM_DEV problem make_problem(const gemm_params &p, u32 base, u32 barriers) {
    problem q;
    q.base = base;
    q.full = barriers;
    q.empty = barriers + 8 * n_stages;
    q.n_tiles = ceil_div(p.n, 64 * row_blocks);
    q.m_tiles = ceil_div(p.m, tile_tokens);
    q.tiles = q.n_tiles * q.m_tiles;
    q.all_chunks = ceil_div(p.k, 128);
    q.last_block = ceil_div(p.n, 64) - 1;
    q.ranks = split_k ? cluster_size() : 1;
    q.rank = split_k ? cluster_rank() : 0;
    q.first_tile = blockIdx.x / q.ranks;
    q.tile_step = split_k ? q.tiles : gridDim.x; /* one tile per cluster, or all in turn */
    q.range = split_k ? k_range_of(q.rank, q.ranks, q.all_chunks) : k_range{0, q.all_chunks, 0};
    q.stages = q.range.n_chunks * 2 / halves;
    return q;
}

/* ---- producer: one thread ---- */

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
    for (int half = 0; half < halves; half++)
        tensor_load(stage + half * act_half_bytes, &p.a_map, k + half * 64, token, barrier);
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
    u32 early = smaller(smaller(p.prefetch, n_stages), q.stages);
    bool waited = false;
#pragma unroll 1
    for (u32 t = q.first_tile; t < q.tiles; t += q.tile_step) {
        const tile_place tile = tile_at(t, q.n_tiles, q.m_tiles, p.band);
        const u32 token = tile.m * tile_tokens;
        from.first_block = tile.n * row_blocks;
        u32 s = 0;
        if (!waited) {
#pragma unroll 1
            for (u32 i = 0; i < early; i++) {
                mbarrier_expect(q.full + 8 * i, load_bytes);
                request_weights(from, i, q.base + i * stage_bytes, q.full + 8 * i);
            }
            grid_wait();
            waited = true;
#pragma unroll 1
            for (; s < early; s++) {
                request_tokens(p, q.range.first_k + s * (halves * 64), token,
                    q.base + s * stage_bytes, q.full + 8 * s);
                advance<n_stages>(ring);
            }
        }
#pragma unroll 1
        for (; s < q.stages; s++) {
            const u32 barrier = q.full + 8 * ring.slot, stage = q.base + ring.slot * stage_bytes;
            mbarrier_wait(q.empty + 8 * ring.slot, ring.phase); /* pairs with consume */
            mbarrier_expect(barrier, load_bytes);
            request_weights(from, s, stage, barrier);
            request_tokens(p, q.range.first_k + s * (halves * 64), token, stage, barrier);
            advance<n_stages>(ring);
        }
    }
}

/* ---- consumers: two warpgroups ---- */

struct consumer {
    u32 group, warp, lane; /* warpgroup 0..1, warp of it 0..3 */
    u32 codes;             /* where this lane reads in a stage, slice 0 */
    u32 scales, zeros;
};

HM_DEV consumer make_consumer(u32 group) {
    const u32 lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
    const u32 block = act_bytes + group * (n_slices * block_bytes);
    return {group, warp, lane, block + lane_codes(warp, lane),
        block + block_scales + lane_scales(warp, lane),
        block + block_zeros + lane_zeros(warp, lane)};
}

/* Scales and zero points of a group, counted inside the stage, for all slices. */
HM_DEV void load_terms(dequant_terms (&terms)[n_slices], const consumer &at, u32 stage, u32 group) {
#pragma unroll
    for (int i = 0; i < n_slices; i++) {
        const u32 block = stage + i * block_bytes;
        fold_scales<act, zero>(terms[i], load_smem_u32(block + at.scales + group * scale_line));
        if constexpr (zero == zero_int)
            set_zero_points<act, zero>(terms[i],
                load_smem_u16(block + at.zeros + group * zero_line));
        if constexpr (zero == zero_float)
            set_zero_points<act, zero>(terms[i],
                load_smem_u32(block + at.zeros + group * zero_line));
    }
}

using fragments = float[n_slices][tile_tokens / 2];

/* One group: `steps` k16 steps of all slices. a: operand A; tokens: operand B of its first step. */
HM_DEV void issue_group(fragments &d, const u32 (&a)[steps][n_slices][4], u32 tokens, u32 before) {
    wgmma_fence(); /* operand A was written by ordinary code, the wgmmas below read it */
#pragma unroll
    for (int e = 0; e < steps; e++) {
        const u64 b = wgmma_descriptor(tokens + e * 32);
#pragma unroll
        for (int i = 0; i < n_slices; i++)
            wgmma_async(d[i], a[e][i], b, before | e); /* the first of a tile overwrites d */
    }
    wgmma_commit();
    wgmma_wait<1>(); /* the group before is done: its operands and its stage are free */
}

/* What the two loops of consume share. */
struct consumer_state {
    u32 a[2][steps][n_slices][4]; /* operand A of the group in flight and of the next */
    dequant_terms terms[n_slices];
    u32 slot, s; /* the stage at hand: its place in the ring, its number along K */
};

/*
 * Give a stage back to the producer: every lane for what it has read itself. Tried one lane for its
 * warp: no faster (M = 64: 17.9 us against 17.6; M = 4096: 782 against 772, three runs side by
 * side), and racecheck cannot follow it; a __syncwarp before it breaks the wgmma pipeline (C7513).
 */
HM_DEV void release_stage(const problem &q, u32 slot) { mbarrier_arrive(q.empty + 8 * slot); }

/* 64 k of a stage. `half` is a constant where steps == 4, which picks the buffer by it. */
HM_DEV void consume_half(fragments &d, consumer_state &state, const problem &q, const consumer &at,
    int half) {
    const u32 stage = q.base + state.slot * stage_bytes;
    uint4 codes[n_slices];
#pragma unroll
    for (int i = 0; i < n_slices; i++)
        codes[i] = load_smem_u128(stage + at.codes + i * block_bytes + half * half_code_bytes);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int buffer = steps == 4 ? half & 1 : (steps == 2 ? j >> 1 : j & 1);
        const int first = j - (steps - 1); /* of the group that ends at step j */
        if (step_starts_group(j))
            load_terms(state.terms, at, stage, first_group_of_half(half) + group_of_step(j));
#pragma unroll
        for (int i = 0; i < n_slices; i++)
            dequant_word_folded<act, zero>(word_of(codes[i], j), state.terms[i],
                state.a[buffer][j % steps][i]);
        if (j % steps != steps - 1)
            continue;
        issue_group(d, state.a[buffer], stage + half * act_half_bytes + first * 32,
            state.s | half | first);
        if (first == 0 && half == 0 && state.s > 0)
            release_stage(q, slot_before<n_stages>(state.slot));
    }
}

/* The sums of one tile over this CTA's part of K. Defines d by the first wgmma (scale-d = 0). */
HM_DEV void consume(fragments &d, const problem &q, const consumer &at, ring_cursor &ring) {
    consumer_state state;
#pragma unroll
    for (int i = 0; i < n_slices; i++)
        state.terms[i] = integer_terms<act>();
#pragma unroll 1
    for (u32 s = 0; s < q.stages; s++) {
        mbarrier_wait(q.full + 8 * ring.slot, ring.phase); /* pairs with produce */
        state.slot = ring.slot;
        state.s = s;
        if constexpr (group_k == 128)
            load_terms(state.terms, at, q.base + ring.slot * stage_bytes, 0);
#pragma unroll(steps == 4 ? 2 : 1)
        for (int half = 0; half < halves; half++)
            consume_half(d, state, q, at, half);
        advance<n_stages>(ring);
    }
    wgmma_wait<0>();
}

/* The 128 threads of one consumer warpgroup meet. */
HM_DEV void group_sync(u32 group) {
    if (group != 0)
        barrier_sync<barrier_group1, 128>();
    else
        barrier_sync<barrier_group0, 128>();
}

/* Factor and bias of the rows g and g + 8 of a warp; blocks beyond N repeat the last. */
HM_DEV void load_row_terms(row_terms (&rows)[2], const gemm_params &p, u32 block, const problem &q,
    const consumer &at) {
    const u32 row = smaller(block, q.last_block) * 64 + at.warp * 16 + at.lane / 4;
#pragma unroll
    for (int i = 0; i < 2; i++)
        rows[i] = {p.rowmul[row + 8 * i], p.bias ? p.bias[row + 8 * i] : 0.0f};
}

/* Two accumulators of one row, two tokens; row 0: g, row 1: g + 8. */
HM_DEV u32 finish_tokens(const float *sum, row_terms row) {
    return finish_pair<act>(sum[0], sum[1], row, row);
}

/* Output of a tile, one slice at a time: scale, convert, transpose to [token][64 rows], store. */
HM_DEV void store_tile(const fragments &d, const gemm_params &p, const problem &q,
    const consumer &at, tile_place tile) {
    const u32 staging = q.base + n_stages * stage_bytes + at.group * act_half_bytes;
    const bool storing = (threadIdx.x & 127) == 0;
#pragma unroll
    for (int i = 0; i < n_slices; i++) {
        const u32 block = tile.n * row_blocks + at.group * n_slices + i;
        row_terms rows[2];
        load_row_terms(rows, p, block, q, at);
        if (storing)
            bulk_wait_read(); /* the store before has read the staging tile ... */
        group_sync(at.group); /* ... and everybody knows */
#pragma unroll
        for (int c = 0; c < tile_tokens / 16; c++)
            store_matrices_t(staging + output_piece(c * 16, at.warp, at.lane),
                finish_tokens(d[i] + c * 8, rows[0]), finish_tokens(d[i] + c * 8 + 2, rows[1]),
                finish_tokens(d[i] + c * 8 + 4, rows[0]), finish_tokens(d[i] + c * 8 + 6, rows[1]));
        if constexpr (tile_tokens % 16 != 0)
            store_matrix_pair_t(staging + output_piece_last8(tile_tokens - 8, at.warp, at.lane),
                finish_tokens(d[i] + tile_tokens / 2 - 4, rows[0]),
                finish_tokens(d[i] + tile_tokens / 2 - 2, rows[1]));
        fence_async_proxy(); /* stmatrix above, tensor store below */
        group_sync(at.group);
        if (storing && block <= q.last_block) {
            tensor_store(&p.c_map, block * 64, tile.m * tile_tokens, staging);
            bulk_commit();
        }
    }
}

/* Where the fp32 fragment of 8 tokens lies for thread `thread` of the warpgroup that owns slice. */
HM_DEV u32 fragment_smem(const problem &q, u32 slice, u32 tokens8, u32 thread) {
    return q.base + ((slice * (tile_tokens / 8) + tokens8) * 128 + thread) * 16;
}

HM_DEV void add(float4 &sum, const float4 &v) {
    sum.x += v.x;
    sum.y += v.y;
    sum.z += v.z;
    sum.w += v.w;
}

/* One unit of the cluster sum: 64 rows (slice) by 16 tokens, by one warpgroup. */
HM_DEV void store_unit(const gemm_params &p, const problem &q, const consumer &at, tile_place tile,
    u32 unit) {
    const u32 slice = unit / (tile_tokens / 16), tokens16 = unit % (tile_tokens / 16);
    const u32 block = tile.n * row_blocks + slice, thread = threadIdx.x & 127;
    const u32 staging = q.base + row_blocks * 64 * tile_tokens * 4 + at.group * 2048;
    const u32 address = fragment_smem(q, slice, 2 * tokens16, thread);
    row_terms rows[2];
    load_row_terms(rows, p, block, q, at);
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f), y = x;
#pragma unroll 2
    for (u32 rank = 0; rank < q.ranks; rank++) {
        add(x, load_peer_f32x4(address, rank));
        add(y, load_peer_f32x4(address + 128 * 16, rank));
    }
    group_sync(at.group); /* the unit before has been read */
    store_matrices_t(staging + output_piece(0, at.warp, at.lane),
        finish_pair<act>(x.x, x.y, rows[0], rows[0]), finish_pair<act>(x.z, x.w, rows[1], rows[1]),
        finish_pair<act>(y.x, y.y, rows[0], rows[0]), finish_pair<act>(y.z, y.w, rows[1], rows[1]));
    group_sync(at.group);
    const u32 token = thread >> 3, piece = thread & 7;
    const uint4 v = load_smem_u128(staging + swizzled(token, piece));
    const u32 m = tile.m * tile_tokens + tokens16 * 16 + token, n = block * 64 + piece * 8;
    if (m < p.m && n < p.n) /* N % 8 == 0: the 8 rows of a piece are inside or outside together */
        *(uint4 *)((u16 *)p.c + (u64)m * p.ldc + n) = v;
}

/* Split K: fragments to shared memory (the stages are free now), then every CTA of the cluster
 * finishes its share of the units. The producer warpgroup takes part in both cluster barriers. A
 * cluster of one has none: launched without a cluster, barrier.cluster becomes __syncthreads, which
 * the two roles may not call in two places. */
HM_DEV void sum_cluster(const fragments &d, const gemm_params &p, const problem &q,
    const consumer &at, tile_place tile) {
    barrier_sync<barrier_consumers, 256>(); /* both warpgroups have read the last stage */
#pragma unroll
    for (int i = 0; i < n_slices; i++)
#pragma unroll
        for (int c = 0; c < tile_tokens / 8; c++)
            store_smem_f32x4(fragment_smem(q, at.group * n_slices + i, c, threadIdx.x & 127),
                d[i] + 4 * c);
    if (q.ranks > 1)
        cluster_sync(); /* fragments of all ranks are written */
    else
        barrier_sync<barrier_consumers, 256>();
    const u32 units = row_blocks * (tile_tokens / 16);
    const u32 end = split(q.rank + 1, q.ranks, units);
#pragma unroll 1
    for (u32 unit = split(q.rank, q.ranks, units) + at.group; unit < end; unit += 2)
        store_unit(p, q, at, tile, unit);
    if (q.ranks > 1)
        cluster_sync(); /* nobody leaves while a peer still reads its shared memory */
}

HM_DEV void consume_tiles(const gemm_params &p, const problem &q, const consumer &at) {
    ring_cursor ring = {0, 0};
#pragma unroll 1
    for (u32 t = q.first_tile; t < q.tiles; t += q.tile_step) {
        const tile_place tile = tile_at(t, q.n_tiles, q.m_tiles, p.band);
        fragments d;
        consume(d, q, at, ring);
        if constexpr (split_k != 0) {
            sum_cluster(d, p, q, at, tile);
        } else {
            release_stage(q, slot_before<n_stages>(ring.slot)); /* the last of the tile */
            store_tile(d, p, q, at, tile);
        }
    }
    if (!split_k && (threadIdx.x & 127) == 0)
        bulk_wait(); /* shared memory must outlive the stores that read it */
}

extern "C" __global__ void __launch_bounds__(n_threads, 1)
    hm_gemm_wgmma(const __grid_constant__ gemm_params p) {
    extern __shared__ u8 smem[];
    __shared__ __align__(8) u64 barriers[2 * n_stages];
    /* Uniform over the warp, and the compiler knows it: the branches below hold .aligned code. */
    const u32 group = __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0);
    const problem q = make_problem(p, (smem_address(smem) + 1023) & ~1023u, smem_address(barriers));

    grid_release();
    if (threadIdx.x == 0) {
        for (int i = 0; i < n_stages; i++) {
            mbarrier_init(q.full + 8 * i, 1); /* the producer's announcement; bytes do the rest */
            mbarrier_init(q.empty + 8 * i, 256); /* every consumer thread */
        }
        mbarrier_init_fence();
    }
    __syncthreads();

    if (group == 2) {
        registers_shrink<40>();
        if ((threadIdx.x >> 5) == 8 && elected())
            produce(p, q);
        __syncwarp();
        if (split_k != 0 && q.ranks > 1) { /* the two barriers of sum_cluster */
            cluster_sync();
            cluster_sync();
        }
    } else {
        registers_grow<232>(); /* 40 * 128 + 232 * 256 = 64512 of 65536 */
        consume_tiles(p, q, make_consumer(group));
    }
}
