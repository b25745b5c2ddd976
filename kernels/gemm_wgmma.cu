/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_wgmma.cu - kernel H: GEMM on the Hopper tensor cores. sm_90a. Output and entry;
 * wgmma_roles.cuh feeds the stages, wgmma_sums.cuh empties them.
 *
 * C^T = W * A^T: the weights are the m side of wgmma, dequantized straight into operand A
 * registers; the activations are operand B in shared memory. 8-bit weights for 8-bit activations
 * go through registers, too: their bytes are the operand, and one pack serves all kernels.
 *
 *     tile        128 * n_slices weight rows by tile_tokens tokens
 *     warpgroup   0 .. n_groups - 1  consumers, in sets of two: n_slices slices of 64 rows each;
 *                                    two sets take the stages in turn and add up at the end
 *                 n_groups           producers: a thread for weights and activations, and a warp
 *                                    for activation scales per 128 k
 *
 * Scales of weights: folded into 16-bit operands (or, mx, into tables of 8-bit ones), in rowmul, or
 * applied where sums move to fp32. Scales of activations: per token at the end, per 128 k there.
 *
 * split_k = 0: persistent CTAs walk over tiles in bands (scheduler.cuh); the producer runs ahead
 *   over tile borders; the output leaves by stmatrix and a tensor store, one slice at a time. The
 *   last split_tiles tiles may be shared by all CTAs along K (stream-K).
 * split_k = 1: one tile per cluster, K split over its CTAs; fp32 sums are added through distributed
 *   shared memory in a fixed order (the same bits in every run).
 *
 * Sizes that do not fit the tile: K and M tails are zero-filled and clipped by the tensor maps;
 * row blocks beyond N read the last block again and are not stored.
 *
 * Dynamic shared memory: 1024 for alignment, then
 *     split_k = 0: n_stages * stage_bytes + 2 * tile_tokens * 128 for the output staging
 *     split_k = 1: the larger of n_stages * stage_bytes and
 *                  (sets * 4 + 2) * 128 * n_slices * tile_tokens
 *     and with a scale per token 2 * tile_tokens * 4
 * Grid: split_k = 0: min(tiles, SMs), with shared tiles SMs; 1: tiles * cluster size.
 *
 * At most 168 tokens with two slices (176 and 184 gave C7512). "unroll 1" on every producer loop:
 * unrolled they spill under 40 registers.
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
#include "wgmma_roles.cuh"
#include "wgmma_sums.cuh"

/* ---- output ---- */

/* The 128 threads of one consumer warpgroup meet. */
HM_DEV void group_sync(const consumer &at) { barrier_sync_at<128>(barrier_group + at.index); }

/* Factor and bias of the rows g and g + 8 of a warp; blocks beyond N repeat the last. A tile whose
 * K is split has them in shared memory: its end is the latency of a small problem. */
HM_DEV void load_row_terms(row_terms (&rows)[2], const gemm_params &p, const problem &q,
    const consumer &at, tile_place tile, int slice) {
    const u32 block = tile.n * row_blocks + at.group * n_slices + slice;
    const u32 row = smaller(block, q.last_block) * 64 + at.warp * 16 + at.lane / 4;
#pragma unroll
    for (int i = 0; i < 2; i++)
        rows[i] = {p.rowmul[row + 8 * i], p.bias ? p.bias[row + 8 * i] : 0.0f};
}
HM_DEV void load_row_terms(row_terms (&rows)[2], const gemm_params &p, const problem &q,
    const consumer &at, int slice) {
    const u32 row = (at.group * n_slices + slice) * 64 + at.warp * 16 + at.lane / 4;
    const u32 factors = q.row_factors + row * 4, addends = factors + row_blocks * 256;
#pragma unroll
    for (int i = 0; i < 2; i++)
        rows[i] = {float_of_bits(load_smem_u32(factors + 32 * i)),
            p.bias ? float_of_bits(load_smem_u32(addends + 32 * i)) : 0.0f};
}

/* Where the warpgroup keeps the scales of the tokens of its tile. */
HM_DEV u32 token_scales_of(const problem &q, const consumer &at) {
    return q.base + token_scales + at.group * (tile_tokens * 4);
}

/* Request them; they are there after copy_wait_all and a barrier of the warpgroup. The last barrier
 * of the tile before this one came after all reads of its scales. */
HM_DEV void request_token_scales(const gemm_params &p, const problem &q, const consumer &at,
    tile_place tile) {
#pragma unroll
    for (u32 first = 0; first < tile_tokens; first += 128) {
        const u32 i = first + (threadIdx.x & 127), m = tile.m * tile_tokens + i;
        if (i < tile_tokens)
            copy4(token_scales_of(q, at) + 4 * i,
                p.a_scale + (m < p.m ? (u64)m * p.a_scale_step : 0), m < p.m);
    }
}

/* A sum over all of K as a float. */
HM_DEV float value(total sum) { return (float)sum; }

/* Two sums of one row, tokens first and first + 1 of the lane; row: g or g + 8. */
HM_DEV u32 finish_tokens(float x, float y, row_terms row, const problem &q, const consumer &at,
    u32 first) {
    float tokens[2] = {1.0f, 1.0f};
    if constexpr (act_scale == act_scale_token)
        load_smem_f32x2(tokens, token_scales_of(q, at) + at.tokens + first * 4);
    return finish_pair<output>(x * tokens[0], y * tokens[1], row, row);
}

HM_DEV u32 finish_sums(const total *sum, row_terms row, const problem &q, const consumer &at,
    u32 first) {
    return finish_tokens(value(sum[0]), value(sum[1]), row, q, at, first);
}

/* Output of a tile, one slice at a time: scale, convert, transpose to [token][64 rows], store. */
HM_DEV void store_tile(const totals &d, const gemm_params &p, const problem &q, const consumer &at,
    tile_place tile) {
    const u32 staging = q.base + ring_bytes + at.group * staging_bytes;
    const bool storing = (threadIdx.x & 127) == 0;
#pragma unroll
    for (int i = 0; i < n_slices; i++) {
        const u32 block = tile.n * row_blocks + at.group * n_slices + i;
        row_terms rows[2];
        load_row_terms(rows, p, q, at, tile, i);
        if (storing)
            bulk_wait_read(); /* the store before has read the staging tile ... */
        group_sync(at);       /* ... and everybody knows */
#pragma unroll
        for (int c = 0; c < tile_tokens / 16; c++)
            store_matrices_t(staging + output_piece(c * 16, at.warp, at.lane),
                finish_sums(d[i] + c * 8, rows[0], q, at, c * 16),
                finish_sums(d[i] + c * 8 + 2, rows[1], q, at, c * 16),
                finish_sums(d[i] + c * 8 + 4, rows[0], q, at, c * 16 + 8),
                finish_sums(d[i] + c * 8 + 6, rows[1], q, at, c * 16 + 8));
        if constexpr (tile_tokens % 16 != 0)
            store_matrix_pair_t(staging + output_piece_last8(tile_tokens - 8, at.warp, at.lane),
                finish_sums(d[i] + tile_tokens / 2 - 4, rows[0], q, at, tile_tokens - 8),
                finish_sums(d[i] + tile_tokens / 2 - 2, rows[1], q, at, tile_tokens - 8));
        fence_async_proxy(); /* stmatrix above, tensor store below */
        group_sync(at);
        if (storing && block <= q.last_block) {
            tensor_store(&p.c_map, block * 64, tile.m * tile_tokens, staging);
            bulk_commit();
        }
    }
}

/* ---- the end of a tile whose K is split over sets and over the CTAs of a cluster ---- */

/*
 * The sums of set 1 go to set 0 through shared memory. Then each rank owns some columns of 8 tokens
 * of the tile: it pushes the others to their owners (st.async, which counts bytes on the owner's
 * barrier) and adds what arrives in the order of ranks, behind its own.
 *
 *     base   sums of the sets but the first   [set][block][8 tokens][thread][4]
 *            pushed by peers                  [peer][8 tokens][block][thread][4]
 *            staging of the output            [warpgroup][token][64 rows]
 */
enum {
    tokens8 = tile_tokens / 8,
    fragment_bytes = 128 * 16, /* 64 rows by 8 tokens, by thread */
    pushed_offset = (sets - 1) * tile_bytes,
};
using float_sums = float[n_slices][tile_tokens / 2];

/* First column of 8 tokens that a rank owns; the columns of this rank. */
HM_DEV u32 first_owned(const problem &q, u32 rank) { return split(rank, q.ranks, tokens8); }
HM_DEV u32 n_owned(const problem &q) { return first_owned(q, q.rank + 1) - first_owned(q, q.rank); }
HM_DEV u32 pushed_bytes(const problem &q) {
    return (q.ranks - 1) * n_owned(q) * (row_blocks * fragment_bytes);
}

HM_DEV void add4(float *sum, u32 smem) {
    const uint4 v = load_smem_u128(smem);
#pragma unroll
    for (int e = 0; e < 4; e++)
        add_bits(sum[e], word_of(v, e));
}

/* Add the sums of the other set to those of set 0. */
HM_DEV void add_sets(float_sums &d, const problem &q, const consumer &at) {
    const u32 mine =
        q.base + at.group * n_slices * tokens8 * fragment_bytes + (threadIdx.x & 127) * 16;
    barrier_sync<barrier_consumers, n_groups * 128>(); /* everybody has read the last stage */
    if (at.set != 0)
#pragma unroll
        for (int i = 0; i < n_slices * tokens8; i++)
            store_smem_f32x4(mine + i * fragment_bytes, d[i / tokens8] + i % tokens8 * 4);
    barrier_sync<barrier_consumers, n_groups * 128>();
    if (at.set == 0)
#pragma unroll
        for (int i = 0; i < n_slices * tokens8; i++)
            add4(d[i / tokens8] + i % tokens8 * 4, mine + i * fragment_bytes);
}

/* Where the pushed sums of column 0 would lie if it were owned, in CTA `rank`, from `peer` of the
 * others: columns that are owned then have constant distances. */
HM_DEV u32 pushed_column0(const problem &q, const consumer &at, u32 rank, u32 peer) {
    const u32 first = first_owned(q, rank), count = first_owned(q, rank + 1) - first;
    const u32 line = (peer * count - first) * row_blocks + at.group * n_slices;
    return q.base + pushed_offset + line * fragment_bytes + (threadIdx.x & 127) * 16;
}

HM_DEV void push_sums(const float_sums &d, const problem &q, const consumer &at) {
#pragma unroll 1
    for (u32 rank = 0; rank < q.ranks; rank++) {
        const u32 first = first_owned(q, rank), last = first_owned(q, rank + 1);
        const u32 peer = q.rank < rank ? q.rank : q.rank - 1; /* of that rank */
        const u32 target = /* column 0 itself may lie before any shared memory */
            peer_address(q.base, rank) + (pushed_column0(q, at, rank, peer) - q.base);
        const u32 arrived = peer_address(q.arrived, rank);
        if (rank == q.rank)
            continue;
#pragma unroll
        for (int c = 0; c < tokens8; c++)
            if (c >= first && c < last)
#pragma unroll
                for (int i = 0; i < n_slices; i++)
                    push_f32x4(target + (c * row_blocks + i) * fragment_bytes, arrived,
                        d[i] + 4 * c);
    }
}

HM_DEV void add_pushed(float_sums &d, const problem &q, const consumer &at) {
    const u32 begin = first_owned(q, q.rank), end = first_owned(q, q.rank + 1);
    mbarrier_wait(q.arrived, 0); /* pairs with the pushes of all peers */
#pragma unroll 1
    for (u32 peer = 0; peer + 1 < q.ranks; peer++) {
        const u32 source = pushed_column0(q, at, q.rank, peer);
#pragma unroll
        for (int c = 0; c < tokens8; c++)
            if (c >= begin && c < end)
#pragma unroll
                for (int i = 0; i < n_slices; i++)
                    add4(d[i] + 4 * c, source + (c * row_blocks + i) * fragment_bytes);
    }
}

/* The owned columns of slice i through the staging tile to C, 8 rows of a token a thread. */
HM_DEV void store_owned(const float_sums &d, const gemm_params &p, const problem &q,
    const consumer &at, tile_place tile, int i) {
    const u32 begin = first_owned(q, q.rank), end = first_owned(q, q.rank + 1);
    const u32 staging = q.base + pushed_offset + pushed_bytes(q) + at.group * staging_bytes;
    const u32 column0 = staging - begin * 1024 + output_piece_last8(0, at.warp, at.lane);
    const u32 block = tile.n * row_blocks + at.group * n_slices + i;
    row_terms rows[2];
    load_row_terms(rows, p, q, at, i);
#pragma unroll
    for (int c = 0; c < tokens8; c++)
        if (c >= begin && c < end)
            store_matrix_pair_t(column0 + c * 1024,
                finish_tokens(d[i][4 * c], d[i][4 * c + 1], rows[0], q, at, c * 8),
                finish_tokens(d[i][4 * c + 2], d[i][4 * c + 3], rows[1], q, at, c * 8));
    group_sync(at);
#pragma unroll 1
    for (u32 j = threadIdx.x & 127; j < (end - begin) * 64; j += 128) {
        const u32 token = j >> 3, piece = j & 7;
        const uint4 v = load_smem_u128(staging + swizzled(token, piece));
        const u32 m = tile.m * tile_tokens + begin * 8 + token, n = block * 64 + piece * 8;
        if (m < p.m && n < p.n) /* N % 8 == 0: 8 rows are inside or outside together */
            *(uint4 *)((u16 *)p.c + (u64)m * p.ldc + n) = v;
    }
}

/* The producer warpgroup takes part in the cluster barrier. A cluster of one has none: launched
 * without a cluster, barrier.cluster becomes __syncthreads, and st.async is an illegal
 * instruction. */
HM_DEV void finish_split(const totals &sums, const gemm_params &p, const problem &q,
    const consumer &at, tile_place tile) {
    const bool idle = sets > 1 && at.set >= q.stages; /* its sums are not defined */
    float_sums d;
#pragma unroll
    for (int i = 0; i < n_slices; i++)
#pragma unroll
        for (int e = 0; e < tile_tokens / 2; e++)
            d[i][e] = idle ? 0.0f : value(sums[i][e]);
    if (q.ranks > 1)
        cluster_arrive(); /* this thread reads no stage any more */
    if constexpr (sets > 1)
        add_sets(d, q, at);
    else if (q.ranks == 1)
        barrier_sync<barrier_consumers, n_groups * 128>();
    if (q.ranks > 1)
        cluster_wait(); /* nobody in the cluster does */
    if (at.set != 0)
        return;
    if (q.ranks > 1) {
        push_sums(d, q, at);
        add_pushed(d, q, at);
    }
    mbarrier_wait(q.rows_full, 0); /* pairs with request_row_terms */
#pragma unroll
    for (int i = 0; i < n_slices; i++) {
        if (i != 0)
            group_sync(at); /* the slice before has been read */
        store_owned(d, p, q, at, tile, i);
    }
}

/* ---- tiles that several CTAs share along K ---- */

/*
 * A piece that does not begin its tile leaves its sums in the workspace, in the slot of its share,
 * and raises a flag; the share that begins the tile adds the pieces in the order of K and lowers
 * the flags again. Sums are handed over as they are, 32 bits each: integers stay exact.
 *
 *     workspace   [4096 bytes: flags, 2 per share][share][slice][8 tokens][256 threads][4]
 */
HM_DEV u8 *piece_of(const gemm_params &p, u32 share, u32 slice, u32 tokens8) {
    const u32 line = slice * (tile_tokens / 8) + tokens8;
    return (u8 *)p.workspace + 4096 + (u64)share * tile_bytes + (line * 256 + threadIdx.x) * 16;
}
HM_DEV u32 *flag_of(const gemm_params &p, u32 share, const consumer &at) {
    return (u32 *)p.workspace + share * 2 + at.group;
}

HM_DEV void hand_over(const totals &d, const gemm_params &p, const problem &q, const consumer &at) {
#pragma unroll
    for (int i = 0; i < n_slices; i++)
#pragma unroll
        for (int c = 0; c < tile_tokens / 8; c++)
            store_global_u128(piece_of(p, q.share, i, c), bits_of(d[i][4 * c]),
                bits_of(d[i][4 * c + 1]), bits_of(d[i][4 * c + 2]), bits_of(d[i][4 * c + 3]));
    __threadfence(); /* the sums of every thread before the flag of the warpgroup */
    group_sync(at);
    if ((threadIdx.x & 127) == 0)
        store_release(flag_of(p, q.share, at), 1);
}

/* done: stages of the tile that d holds. The pieces behind are those of the next shares; a share
 * without units has none. */
HM_DEV void take_over(totals &d, const gemm_params &p, const problem &q, const consumer &at,
    u32 done) {
    u32 share = q.share;
#pragma unroll 1
    while (done < q.stages) {
        const u32 size = share_size(q.split, ++share);
        if (size == 0)
            continue;
        if ((threadIdx.x & 127) == 0) {
            while (load_acquire(flag_of(p, share, at)) == 0)
                ;
            *flag_of(p, share, at) = 0;
        }
        group_sync(at); /* what the first thread has acquired, all may read */
#pragma unroll
        for (int i = 0; i < n_slices; i++)
#pragma unroll
            for (int c = 0; c < tile_tokens / 8; c++) {
                const uint4 v = load_global_u128(piece_of(p, share, i, c));
#pragma unroll
                for (int e = 0; e < 4; e++)
                    add_bits(d[i][4 * c + e], word_of(v, e));
            }
        done += size;
    }
}

HM_DEV void consume_tiles(const gemm_params &p, const problem &q, const consumer &at) {
    ring_cursor ring = {at.set, 0};
    work item;
    if constexpr (act_scale == act_scale_token)
        grid_wait();
#pragma unroll 1
    for (u32 i = 0; next_work(item, q, i); i++) {
        const tile_place tile = tile_at(item.tile, q.n_tiles, q.m_tiles, p.band);
        totals d;
        if (act_scale == act_scale_token && item.first == 0 && at.set == 0)
            request_token_scales(p, q, at, tile);
        sum_stages(d, q, at, ring, item.count);
        if constexpr (act_scale == act_scale_token)
            copy_wait_all();
        if (shares_tiles && item.first != 0) {
            hand_over(d, p, q, at);
            continue;
        }
        if (shares_tiles && item.count < q.stages)
            take_over(d, p, q, at, item.count);
        if constexpr (split_k != 0)
            finish_split(d, p, q, at, tile);
        else
            store_tile(d, p, q, at, tile);
    }
    if (!split_k && (threadIdx.x & 127) == 0)
        bulk_wait(); /* shared memory must outlive the stores that read it */
}

/* Factors and bias of the rows of a tile whose K is split: one thread, at the start. */
HM_DEV void request_row_terms(const gemm_params &p, const problem &q) {
    const u32 first = tile_at(q.first_tile, q.n_tiles, q.m_tiles, p.band).n * row_blocks;
    const u32 bytes = smaller(row_blocks, q.last_block + 1 - first) * 256;
    mbarrier_expect(q.rows_full, p.bias ? 2 * bytes : bytes);
    bulk_load(q.row_factors, p.rowmul + first * 64, bytes, q.rows_full, policy_normal);
    if (p.bias)
        bulk_load(q.row_factors + row_blocks * 256, p.bias + first * 64, bytes, q.rows_full,
            policy_normal);
}

HM_DEV void init_barriers(const gemm_params &p, const problem &q) {
    for (int i = 0; i < n_stages; i++) {
        mbarrier_init(q.full + 8 * i, full_arrivals); /* producers'; bytes do the rest */
        mbarrier_init(q.empty + 8 * i, 256);          /* every thread of a set */
    }
    mbarrier_init(q.rows_full, 1);
    mbarrier_init(q.arrived, 1);
    mbarrier_init_fence();
    prefetch_map(&p.a_map);
    if constexpr (split_k != 0) {
        request_row_terms(p, q);
        mbarrier_expect(q.arrived, pushed_bytes(q));
    }
}

extern "C" __global__ void __launch_bounds__(n_threads, 1)
    hm_gemm_wgmma(const __grid_constant__ gemm_params p) {
    extern __shared__ u8 smem[];
    __shared__ __align__(16) float row_factors[split_k ? 2 * row_blocks * 64 : 4];
    __shared__ __align__(8) u64 barriers[2 * n_stages + 2];
    /* Uniform over the warp, and the compiler knows it: the branches below hold .aligned code. */
    const u32 group = __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0);
    const problem q = make_problem(p, (smem_address(smem) + 1023) & ~1023u, smem_address(barriers),
        smem_address(row_factors));

    grid_release();
    if (threadIdx.x == 0)
        init_barriers(p, q);
    __syncthreads();

    if (group == n_groups) {
        registers_shrink<producer_registers>();
        if ((threadIdx.x >> 5) == 4 * n_groups && elected())
            produce(p, q);
        if (act_scale == act_scale_group && (threadIdx.x >> 5) == 4 * n_groups + 1)
            produce_scales(p, q);
        __syncwarp();
        if (split_k != 0 && q.ranks > 1) { /* as in finish_split */
            cluster_arrive();
            cluster_wait();
        }
    } else {
        registers_grow<consumer_registers>();
        consume_tiles(p, q, make_consumer(group));
    }
}
