/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_stream.cu - kernel S: GEMM of packed weights for a few tokens, bound by the stream of
 * weights. sm_90a.
 *
 * Every warp is a streaming engine of its own: a private ring of weight chunks (64 rows by 128 k,
 * scales inline) filled by bulk copies, mma.sync with the weights as operand A. The activations
 * of the CTA lie in shared memory. No CTA barrier stands in the main loop.
 *
 *     cluster      a range of 64-row groups                           (scheduler.cuh)
 *       rank       a range of K, summed through distributed shared memory at the end
 *         set      n_warps / warps_k sets take the row groups of the cluster in turn
 *           warp   a range of K inside the rank, summed through shared memory per row group
 *
 * Types: 16-bit activations go to mma m16n8k16, s8 to m16n8k32. fp8 is emulated by mma.sync on
 * sm_90, so both sides become f16, exactly, and a k32 step two k16 steps (dequant.cuh); u4 gives
 * v + 1/2 there, and the half comes off the sums.
 *
 * Scales: the tensor cores see exact values (dequant.cuh). A group's sum is multiplied by its
 * scale in fp32 when the group ends, and so is a sum over 128 k by the token's scale if that has
 * such groups. Channel scales and scales of whole tokens wait for the end.
 *
 * Order at the start. Weights do not depend on the kernel before, so rings are filled BEFORE
 * griddepcontrol.wait; but what is in flight delays what is requested later, and nothing can be
 * computed before the activations are there. So each warp first requests two chunks and the
 * others as those arrive, and warp 0 waits for the grid and requests the activations of all warps
 * before any weights of its own. Measured, N = K = 8192, u4, bf16, M = 1: 10.4 us with the
 * activations behind rings of three chunks, 9.5 so (without PDL 12.4 and 10.7).
 *
 * A chunk is copied to registers as soon as it is there and its slot requested again before the
 * arithmetic. Every sum is taken in a fixed order: results are the same bits in every run.
 *
 * Dynamic shared memory, M tokens, ck CTAs in a cluster, G = row_groups of the parameters,
 * most = ceil(ceil(K / 128) / (ck * warps_k)) chunks of a warp, e bytes of an activation:
 *     n_warps * ring_depth * chunk_bytes         rings
 *   + M * (warps_k * most * 128 * e + 16)        activations
 *   + warps_k * most * M * 4, to 16              their scales, if a token has one for each 128 k
 *   + n_warps * min(M, 8) * 65 * 4               partial sums of 8 tokens
 *   + G * 512                                    row factors, bias
 *   + (ck > 1 ? G * M * 256 : 0)                 fp32 tile that the cluster adds up
 * jit/launch reserves a little more. Grid: n_clusters * ck CTAs, n_clusters <= row groups is best;
 * more are allowed and idle.
 *
 * Limits: M <= 8 * token_tiles; s8 without groups: K < 2^17, or s32 sums overflow.
 *
 * Measured on an H200, N = K = 8192, with PDL, us: u4 x bf16, groups of 128, M = 1, 2, 4, 8: 9.5,
 * 10.1, 10.9, 12.0; u4 x s8, M = 1: 8.65; u4 x e4m3, M = 1, 4, 8: 9.3, 10.3, 10.8. The stream
 * alone takes 8.1 (15.1 with 8 bits). Two CTAs of it on one SM are slower: grids become unbalanced
 * (KERNELS_MEASURED.md 5), so jit/launch asks for more than half of the shared memory.
 *
 * Tried at M = 1, us: whole rings at once +0.5; one chunk first, two accumulator sets, the first
 * chunk in registers before the wait for the activations 0; half a chunk at a time in registers
 * +0.7; rings of 4 +0.2; 16 warps +0.3; activations of the chunk in its slot instead of all at the
 * start +1 (M = 8: -0.8); activations in pieces with a barrier each +0.1 (M = 8: -0.3); clusters
 * of 2 along K +1. u4 codes as subnormal bf16 operands, without the fma: -0.2, but activations
 * have to be scaled up for it and then must stay below 2^63.
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
    partial_stride = 65,              /* floats; 64 rows and one to spread the banks */
    token_bytes = 128 * act_bits / 8, /* of a token in a chunk */
    first_chunks = ring_depth < 2 ? ring_depth : 2, /* of a warp in flight before tokens are */
    /* halves of a chunk in registers: both where there are enough, of 128 (16 warps) or 255 */
    many_scales = groups_per_chunk > 1 || scale == scale_f32 || act_scale == act_scale_group,
    one_half = n_warps > 8 ? weight_bits == 8 || many_scales
                           : token_tiles == 2 && (weight_bits == 8 || group_k == 32),
    staged_halves = one_half ? 1 : 2,
    half_codes = (act == act_e4m3 || act == act_e5m2) && weight == weight_u4, /* v + 1/2 */
    mma_per_step = act == act_e4m3 || act == act_e5m2 ? 2 : 1,
    staged_groups = staged_halves == 2 ? groups_per_chunk : groups_per_half,
    scaled_sums = scale != scale_none && scale != scale_mx,
    /* k after which a sum is scaled and added to the total; 0: when the row group is done */
    part_k = scaled_sums                    ? group_k
             : act_scale == act_scale_group ? 128
                                            : 0,
    token_arrivals = act_scale == act_scale_none ? 2 : 2 + 32, /* scales: every lane of warp 0 */
};

using sums = accumulators<4, token_tiles>; /* 64 rows by M tokens of one warp */

/* What the tensor cores add to: s32 sums of s8, else fp32. */
template <act_type T> struct sum_type { using type = float; };
template <> struct sum_type<act_s8> { using type = int; };
struct part_sums {
    sum_type<act>::type sum[token_tiles][4][4];
    float offset[token_tiles][4]; /* half_codes: to be added to those of each row tile */
};

/* Where a thread works; constant after set-up. Addresses are in shared memory. */
struct place {
    stream_share share;
    u32 lane, set, k_warp;   /* k_warp: index of the warp inside its set */
    u32 ranks, rank;         /* of the cluster */
    u32 all_chunks;          /* along K */
    u32 first_chunk, chunks; /* of the rank */
    u32 ring, full;          /* chunks of this warp, and a barrier for each */
    u32 tokens, tokens_full; /* activations of the rank, and their barrier */
    u32 token_stride;        /* bytes; 16 more than a multiple of 128 for ldmatrix */
    u32 group_scales;        /* of the activations: [chunk of the rank][M] */
    u32 tokens_at_once;      /* tokens whose partial sums fit: min(M, 8) */
    float *partials;         /* of the set: [warps_k][tokens_at_once][partial_stride] */
    float *factors;          /* of the row groups of the cluster, 64 each; then as many addends */
};

/* Scales of whole tokens. */
__shared__ float token_scales[act_scale == act_scale_token ? 8 * token_tiles : 1];

/* Half a chunk or a chunk in registers, as one lane needs it. The sizes of one where there are no
 * groups keep the arrays legal; they are never touched then. */
struct staged_chunk {
    uint4 codes[staged_halves][4][pieces];
    u32 scales[staged_groups + (group_k == 0)][4], more[staged_groups + (group_k == 0)][4];
    u32 zeros[staged_groups + (group_k == 0)][4];
};

/* Activations of 64 k as operand B of 64 / step_k steps, fp8 widened. */
struct token_half {
    u32 b[token_tiles][act == act_s8 ? 4 : 8];
};

/* The same value, about which the compiler knows nothing. */
HM_DEV u32 opaque(u32 x) {
    asm volatile("" : "+r"(x));
    return x;
}

/* Behind the factors: addends, then the tile of the cluster sum, [row group][M][64]. */
HM_DEV float *addends_of(const gemm_params &p, const place &at) {
    return at.factors + p.row_groups * 64;
}
HM_DEV float *tile_of(const gemm_params &p, const place &at) {
    return at.factors + p.row_groups * 128;
}

/* ---- requests ---- */

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

/* Bytes of a token in the rank's slice of K, with and without what lies beyond K. */
HM_DEV u32 slice_bytes(const place &at) { return at.chunks * token_bytes; }
HM_DEV u32 true_slice_bytes(const gemm_params &p, const place &at) {
    return smaller(slice_bytes(at), (p.k - at.first_chunk * 128) * (act_bits / 8));
}

/* Zeros beyond K, because the weights there are padding and 0 * NaN is not 0. All threads. */
HM_DEV void clear_beyond_k(const gemm_params &p, const place &at) {
    const u32 begin = true_slice_bytes(p, at);
    for (u32 i = begin + threadIdx.x * 16; i < slice_bytes(at); i += n_threads * 16)
#pragma unroll 1
        for (u32 m = 0; m < p.m; m++)
            store_smem_u128(at.tokens + m * at.token_stride + i, 0, 0, 0, 0);
}

/* Row factors and bias of the cluster's rows: constant over kernels, so no wait. One thread. */
HM_DEV void request_row_terms(const gemm_params &p, const place &at) {
    const u32 bytes = (at.share.group_end - at.share.group_begin) * 256;
    const u32 first = at.share.group_begin * 64;
    mbarrier_expect(at.tokens_full, p.bias ? 2 * bytes : bytes);
    bulk_load(smem_address(at.factors), p.rowmul + first, bytes, at.tokens_full, policy_evict_last);
    if (p.bias)
        bulk_load(smem_address(addends_of(p, at)), p.bias + first, bytes, at.tokens_full,
            policy_evict_last);
}

/* Scales of the activations, 4 bytes at a time: their order in memory is the caller's. Warp 0. */
HM_DEV void request_token_scales(const gemm_params &p, const place &at) {
    const u32 groups = act_scale == act_scale_group ? at.chunks : 1;
    for (u32 i = at.lane; i < p.m * groups; i += 32) {
        const u32 group = i / p.m, m = i - group * p.m;
        if constexpr (act_scale == act_scale_group)
            copy4(at.group_scales + i * 4,
                p.a_scale + m * p.a_scale_step + (at.first_chunk + group) * p.a_scale_group_step,
                1);
        else
            copy4(smem_address(token_scales + i), p.a_scale + m * p.a_scale_step, 1);
    }
    copy_arrive(at.tokens_full);
}

/* All that comes from the kernel before, one bulk copy per token. Warp 0. */
HM_DEV void request_tokens(const gemm_params &p, const place &at) {
    const u32 bytes = true_slice_bytes(p, at);
    const u8 *source = (const u8 *)p.a + at.first_chunk * token_bytes;
    grid_wait();
    if (elected()) {
        mbarrier_expect(at.tokens_full, p.m * bytes);
        if (bytes != 0)
#pragma unroll 1
            for (u32 m = 0; m < p.m; m++)
                bulk_load(at.tokens + m * at.token_stride, source + (u64)m * p.lda * (act_bits / 8),
                    bytes, at.tokens_full, policy_evict_last);
    }
    if constexpr (act_scale != act_scale_none)
        request_token_scales(p, at);
    __syncwarp();
}

/* ---- arithmetic ---- */

HM_DEV void clear(part_sums &part) {
#pragma unroll
    for (int i = 0; i < token_tiles * 16; i++)
        part.sum[i / 16][i / 4 % 4][i % 4] = 0;
    if constexpr (half_codes)
#pragma unroll
        for (int i = 0; i < token_tiles * 4; i++)
            part.offset[i / 4][i % 4] = 0.0f;
}

/* Codes, scales and zero points of staged_halves halves from `half` on, to registers. */
HM_DEV void stage(staged_chunk &staged, u32 chunk, u32 half, u32 lane) {
#pragma unroll
    for (int r = 0; r < 4; r++) {
#pragma unroll
        for (int h = 0; h < staged_halves; h++)
#pragma unroll
            for (int piece = 0; piece < pieces; piece++)
                staged.codes[h][r][piece] =
                    load_smem_u128(chunk + (half + h) * half_code_bytes + lane_codes(r, lane) +
                                   piece * piece_bytes);
#pragma unroll
        for (int i = 0; i < staged_groups; i++) {
            const u32 group = first_group_of_half(half) + i;
            const u32 scales = chunk + chunk_scales(group) + lane_scales(r, lane);
            const u32 zeros = chunk + chunk_zeros(group) + lane_zeros(r, lane);
            if constexpr (scale_size == 1)
                staged.scales[i][r] = load_smem_u16(scales);
            else
                staged.scales[i][r] = load_smem_u32(scales);
            if constexpr (scale_size == 4)
                staged.more[i][r] = load_smem_u32(scales + 4);
            if constexpr (zero == zero_int)
                staged.zeros[i][r] = load_smem_u16(zeros);
            if constexpr (zero == zero_float)
                staged.zeros[i][r] = load_smem_u32(zeros);
        }
    }
}

/* tokens: ldmatrix address of each tile at the first byte of the half. */
HM_DEV void load_tokens(token_half &half, const u32 (&tokens)[token_tiles], u32 offset) {
#pragma unroll
    for (int t = 0; t < token_tiles; t++) {
        u32(&b)[act == act_s8 ? 4 : 8] = half.b[t];
        if constexpr (act_bits == 16) {
            load_matrices(b, tokens[t] + offset);
            load_matrices(b + 4, tokens[t] + offset + 64);
        } else if constexpr (act == act_s8) {
            load_matrices(b, tokens[t] + offset);
        } else {
            u32 bytes[4];
            load_matrices(bytes, tokens[t] + offset);
#pragma unroll
            for (int i = 0; i < 4; i++)
                widen_tokens<act, weight>(bytes[i], b + 2 * i);
        }
    }
}

/* Templates, so that only what this type needs is looked at. Words of a step to operand A: */
template <act_type T>
HM_DEV void make_operand(const u32 *words, const dequant_terms &terms, u32 (&a)[mma_per_step][4]) {
    if constexpr (mma_per_step == 2)
        dequant_step_wide<weight, scale>(words, terms, a);
    else
        dequant_step<T, weight, scale, zero_none>(words, terms, a[0]);
}

/* sum += a * b: a row tile against a token tile. */
template <act_type T, class V>
HM_DEV void multiply_tile(V (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    if constexpr (T == act_s8)
        mma_k32_s8(sum, a, b0, b1);
    else
        mma_k16<T == act_bf16 ? act_bf16 : act_f16>(sum, a, b0, b1);
}

/* part.offset += one step. A template for multiply_tile's sake. */
template <act_type T>
HM_DEV void multiply_offset(part_sums &part, const token_half &tokens, int step) {
    const u32 a[4] = {half_offset, half_offset, half_offset, half_offset};
#pragma unroll
    for (int i = 0; i < mma_per_step; i++)
#pragma unroll
        for (int t = 0; t < token_tiles; t++) {
            const u32 *b = tokens.b[t] + 2 * (step * mma_per_step + i);
            multiply_tile<T>(part.offset[t], a, b[0], b[1]);
        }
}

/* A sum in the units of rowmul, but for half_sum_factor, which write_partials applies. */
HM_DEV float part_sum(const part_sums &part, int t, int r, int e) {
    const float sum = (float)part.sum[t][r][e];
    return half_codes ? sum + part.offset[t][e] : sum;
}

/* total += scales * part, in fp32. a_scales: of the lane's two tokens of each tile. */
HM_DEV void add_part(sums &total, const part_sums &part, const staged_chunk &staged, int group,
    const float (&a_scales)[token_tiles][2]) {
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const scale_pair rows = scales_of<scale>(staged.scales[group][r], staged.more[group][r]);
#pragma unroll
        for (int t = 0; t < token_tiles; t++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float factor = e < 2 ? rows.even : rows.odd;
                if constexpr (act_scale == act_scale_group)
                    factor = scaled_sums ? factor * a_scales[t][e & 1] : a_scales[t][e & 1];
                total.sum[t][r][e] += factor * part_sum(part, t, r, e);
            }
    }
}

/* Whether `size` k (0: none) begin before a step or end after it. */
HM_DEV constexpr bool begins(u32 size, u32 half, u32 step) {
    return size != 0 && (half * 64 + step * step_k) % (size + (size == 0)) == 0;
}
HM_DEV constexpr bool ends(u32 size, u32 half, u32 step) {
    return size != 0 && (half * 64 + (step + 1) * step_k) % (size + (size == 0)) == 0;
}

/* What the operands of a row tile need from the group that begins at this step. */
HM_DEV void begin_group(dequant_terms (&terms)[4], const staged_chunk &staged, int group) {
#pragma unroll
    for (int r = 0; r < 4; r++) {
        if constexpr (zero != zero_none)
            set_zero_points<act, zero>(terms[r], staged.zeros[group][r]);
        if constexpr (scale == scale_mx)
            set_tables(terms[r], staged.scales[group][r]);
    }
}

/* 64 rows by 64 k: half `half` of a chunk, which is half `at` of the staged ones. */
HM_DEV void multiply_half(const staged_chunk &staged, int half, int at, const token_half &tokens,
    const float (&a_scales)[token_tiles][2], dequant_terms (&terms)[4], part_sums &part,
    sums &total) {
#pragma unroll
    for (int step = 0; step < steps_per_half; step++) {
        const int group = group_k == 0 ? 0 : (at * 64 + step * step_k) / (group_k + (group_k == 0));
        if (begins(group_k, half, step))
            begin_group(terms, staged, group);
        if (begins(part_k, half, step))
            clear(part);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            u32 words[words_per_step], a[mma_per_step][4];
#pragma unroll
            for (int i = 0; i < words_per_step; i++) {
                const int word = step * words_per_step + i;
                words[i] = word_of(staged.codes[at][r][word / 4], word % 4);
            }
            make_operand<act>(words, terms[r], a);
#pragma unroll
            for (int i = 0; i < mma_per_step; i++)
#pragma unroll
                for (int t = 0; t < token_tiles; t++) {
                    const u32 *b = tokens.b[t] + 2 * (step * mma_per_step + i);
                    multiply_tile<act>(part.sum[t][r], a[i], b[0], b[1]);
                }
        }
        if constexpr (half_codes)
            multiply_offset<act>(part, tokens, step);
        if (ends(part_k, half, step))
            add_part(total, part, staged, group, a_scales);
    }
}

/* Scales of the lane's tokens for a chunk of the rank; tokens beyond M repeat the last one. */
HM_DEV void load_group_scales(float (&a_scales)[token_tiles][2], const place &at, u32 m,
    u32 chunk) {
#pragma unroll
    for (int t = 0; t < token_tiles; t++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const u32 token = smaller(t * 8 + accumulator_token(at.lane, e), m - 1);
            a_scales[t][e] =
                float_of_bits(load_smem_u32(at.group_scales + (chunk * m + token) * 4));
        }
}

/* All chunks of the warp for one row group. tokens: ldmatrix address of each tile. */
HM_DEV void multiply_row_group(sums &total, u32 m, const place &at,
    const u32 (&tokens)[token_tiles], chunk_stream &next, ring_cursor &ring) {
    const u32 first = at.share.chunk_begin - at.first_chunk;
    dequant_terms terms[4];
    part_sums part;
#pragma unroll
    for (int r = 0; r < 4; r++)
        terms[r] = unit_terms<act>();
    clear(total);
    clear(part);
#pragma unroll 1
    for (u32 c = first; c < first + at.share.n_chunks; c++) {
        const u32 chunk = at.ring + ring.slot * chunk_bytes;
        float a_scales[token_tiles][2] = {};
        mbarrier_wait(at.full + ring.slot * 8, ring.phase); /* pairs with request_chunk */
        if constexpr (act_scale == act_scale_group)
            load_group_scales(a_scales, at, m, c);
#pragma unroll 1
        for (u32 half = 0; half < 2; half += staged_halves) {
            staged_chunk staged;
            token_half b[staged_halves];
            stage(staged, chunk, half, at.lane);
#pragma unroll
            for (int h = 0; h < staged_halves; h++)
                load_tokens(b[h], tokens, c * token_bytes + (half + h) * (token_bytes / 2));
            if (half + staged_halves == 2) {
                __syncwarp(); /* the last read of the slot before the next copy into it */
                request_chunk(next, ring.slot, at);
            }
#pragma unroll
            for (int h = 0; h < staged_halves; h++)
                multiply_half(staged, half + h, h, b[h], a_scales, terms, part, total);
        }
        advance<ring_depth>(ring);
    }
    if constexpr (part_k == 0)
#pragma unroll
        for (int i = 0; i < token_tiles * 16; i++)
            total.sum[i / 16][i / 4 % 4][i % 4] = part_sum(part, i / 16, i / 4 % 4, i % 4);
}

/* ---- sums over warps and ranks ---- */

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

/* Two neighbouring rows of token m as one 32-bit store wants them; row counts in the cluster. */
HM_DEV u32 finish_rows(const gemm_params &p, const place &at, u32 m, u32 row, float x, float y) {
    if constexpr (act_scale == act_scale_token)
        x *= token_scales[m], y *= token_scales[m];
    const float *factor = at.factors + row, *addend = addends_of(p, at) + row;
    return finish_pair<output>(x, y, {factor[0], p.bias ? addend[0] : 0.0f},
        {factor[1], p.bias ? addend[1] : 0.0f});
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
        if (opaque(at.ranks) > 1) /* one loop for both, not two */
            *(float2 *)(tile_of(p, at) + (local * p.m + m) * 64 + row) = make_float2(x, y);
        else if (group * 64 + row < p.n)
            *(u32 *)((u16 *)p.c + (u64)m * p.ldc + group * 64 + row) =
                finish_rows(p, at, m, local * 64 + row, x, y);
    }
}

/* This warp's sums of one token tile, to its part of the partial sums. */
HM_DEV void write_partials(const sums &total, u32 m, const place &at, int tile) {
    const float factor = half_codes ? half_sum_factor() : 1.0f;
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const u32 token = accumulator_token(at.lane, e);
        float *part = at.partials + (at.k_warp * at.tokens_at_once + token) * partial_stride;
        if (tile * 8 + token < m)
#pragma unroll
            for (int r = 0; r < 4; r++) {
                part[r * 16 + accumulator_row(at.lane, 0)] = total.sum[tile][r][e] * factor;
                part[r * 16 + accumulator_row(at.lane, 2)] = total.sum[tile][r][e + 2] * factor;
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
        if ((tile + 1) * 8 < p.m || group + n_sets < at.share.group_end)
            set_sync(at.set); /* and read before they are written again */
    }
}

/* Add the tiles of all ranks, each rank a share of the outputs, in rank order. */
HM_DEV void sum_cluster(const gemm_params &p, const place &at) {
    cluster_sync_warps(); /* every tile is written */
    const u32 units = (at.share.group_end - at.share.group_begin) * p.m * 16; /* of 4 rows */
#pragma unroll 1
    for (u32 i = at.rank * n_threads + threadIdx.x; i < units; i += at.ranks * n_threads) {
        const u32 address = smem_address(tile_of(p, at)) + i * 16;
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 2
        for (u32 rank = 0; rank < at.ranks; rank++) {
            const float4 peer = load_peer_f32x4(address, rank);
            v.x += peer.x, v.y += peer.y, v.z += peer.z, v.w += peer.w;
        }
        const u32 unit = i >> 4, local = unit / p.m, m = unit - local * p.m;
        const u32 row = local * 64 + (i & 15) * 4, n = at.share.group_begin * 64 + row;
        if (n < p.n) /* N % 8 == 0: all four rows or none */
            *(uint2 *)((u16 *)p.c + (u64)m * p.ldc + n) = make_uint2(
                finish_rows(p, at, m, row, v.x, v.y), finish_rows(p, at, m, row + 2, v.z, v.w));
    }
    cluster_sync_warps(); /* nobody leaves while a peer still reads its shared memory */
}

/* ---- set-up ---- */

/* The share of this warp. Without a cluster the divisors are known but one, which shortens the
 * way to the first request by a hundred instructions. */
HM_DEV void set_share(place &at, const gemm_params &p) {
    const u32 groups = ceil_div(p.n, 64);
    at.all_chunks = ceil_div(p.k, 128);
    at.ranks = cluster_size();
    at.rank = 0;
    at.first_chunk = 0;
    at.chunks = at.all_chunks;
    if (at.ranks == 1) {
        at.share =
            stream_share_of(blockIdx.x, gridDim.x, groups, at.k_warp, warps_k, at.all_chunks);
        return;
    }
    at.rank = cluster_rank();
    at.share = stream_share_of(blockIdx.x / at.ranks, gridDim.x / at.ranks, groups,
        at.rank * warps_k + at.k_warp, at.ranks * warps_k, at.all_chunks);
    at.first_chunk = split(at.rank, at.ranks, at.all_chunks);
    at.chunks = split(at.rank + 1, at.ranks, at.all_chunks) - at.first_chunk;
}

/* The share of this warp and its map of shared memory. */
HM_DEV place make_place(const gemm_params &p, u8 *smem, const u64 *barriers) {
    place at;
    const u32 warp = threadIdx.x >> 5;
    at.lane = threadIdx.x & 31;
    at.set = warp / warps_k;
    at.k_warp = warp % warps_k;
    set_share(at, p);
    const u32 most = at.share.most_chunks * warps_k; /* of a rank */
    at.token_stride = most * token_bytes + 16;
    at.tokens_at_once = smaller(p.m, 8);
    at.ring = smem_address(smem) + warp * ring_depth * chunk_bytes;
    at.full = smem_address(barriers) + warp * ring_depth * 8;
    at.tokens_full = smem_address(barriers) + n_warps * ring_depth * 8;
    u32 byte = n_warps * ring_depth * chunk_bytes;
    at.tokens = smem_address(smem) + byte;
    byte += p.m * at.token_stride;
    at.group_scales = smem_address(smem) + byte;
    if constexpr (act_scale == act_scale_group)
        byte += ceil_div(most * p.m * 4, 16) * 16;
    float *partials = (float *)(smem + byte);
    const u32 set_floats = warps_k * at.tokens_at_once * partial_stride;
    at.partials = partials + at.set * set_floats;
    at.factors = partials + n_sets * set_floats;
    return at;
}

/* The barriers of this warp, before anything else: its requests follow in the same thread. */
HM_DEV void init_barriers(const u64 *barriers) {
    const u32 full = smem_address(barriers) + (threadIdx.x >> 5) * ring_depth * 8;
    for (int i = 0; i < ring_depth; i++)
        mbarrier_init(full + i * 8, 1);
    if (threadIdx.x < 32)
        mbarrier_init(smem_address(barriers) + n_warps * ring_depth * 8, token_arrivals);
    mbarrier_init_fence();
}

/* Weights and activations of the start, in the order that the head of this file tells. */
HM_DEV void fill(const gemm_params &p, const place &at, chunk_stream &next) {
    const bool first_warp = threadIdx.x < 32;
    u32 filled = 0;
    if (!first_warp)
#pragma unroll 1
        for (; filled < first_chunks; filled++)
            request_chunk(next, filled, at);
    clear_beyond_k(p, at);
    __syncthreads(); /* the barrier of the tokens is set up, the zeros are written */
    if (first_warp) {
        if (elected())
            request_row_terms(p, at);
        __syncwarp();
        request_tokens(p, at);
    }
    for (bool tokens_there = false; filled < ring_depth;) {
        tokens_there = tokens_there || mbarrier_test(at.tokens_full, 0);
        if (tokens_there || filled < first_chunks ||
            mbarrier_test(at.full + (filled - first_chunks) * 8, 0))
            request_chunk(next, filled++, at);
    }
    mbarrier_wait(at.tokens_full, 0); /* pairs with request_tokens, request_row_terms */
}

extern "C" __global__ void __launch_bounds__(n_threads, ctas_per_sm)
    hm_gemm_stream(const __grid_constant__ gemm_params p) {
    extern __shared__ __align__(128) u8 smem[];
    __shared__ __align__(8) u64 barriers[n_warps * ring_depth + 1];

    grid_release();
    if (elected())
        init_barriers(barriers);
    __syncwarp();
    const place at = make_place(p, smem, barriers);
    /* A CTA without work keeps its slot until the previous grid ends: a grid of one CTA per SM
     * then keeps two co-resident grids balanced. */
    if (at.share.group_begin == at.share.group_end) {
        grid_wait();
        return;
    }
    chunk_stream next = stream_begin(p.w, at.share, at.set, at.all_chunks);
    fill(p, at, next);

    u32 tokens[token_tiles]; /* tokens beyond M repeat token 0; their sums are dropped */
#pragma unroll
    for (int t = 0; t < token_tiles; t++) {
        const u32 token = t * 8 + matrix_token(at.lane);
        tokens[t] =
            at.tokens + (token < p.m ? token : 0) * at.token_stride + matrix_piece(at.lane) * 16;
    }
    ring_cursor ring = {0, 0};
#pragma unroll 1
    for (u32 group = at.share.group_begin + at.set; group < at.share.group_end; group += n_sets) {
        sums total;
        multiply_row_group(total, p.m, at, tokens, next, ring);
        store_row_group(total, p, at, group);
    }
    if (at.ranks > 1)
        sum_cluster(p, at);
}
