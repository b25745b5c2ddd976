/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant.cu - activations of 16 bits to 8 bits and their scales, in front of a GEMM.
 *
 * grid     act_scale TOKEN: x = M, a CTA per token.
 *          act_scale GROUP: x = M * ceil(K / 128) / 32 rounded up; (token, group) pairs are counted
 *          token by token and a warp has four, so that each lane has four loads on their way.
 * threads  256
 * smem     static only (TOKEN: 32 bytes)
 * pdl      lets the next grid start at once, so that a GEMM streams its weights meanwhile; waits
 *          for the grids before it ahead of every access to x, q and scale
 *
 *     y        = x, or silu(gate) * up with gate = x[m][k], up = x[m][K + k], in fp32, not rounded
 *     amax     = largest |y| of the token, or of the group
 *     scale    = max(amax / 448, 2^-126) for e4m3; 57344 for e5m2, 127 for s8; 1 where amax is 0
 *     q        = y * (1 / scale), each of the two operations rounded to fp32, then to the nearest
 *                code, ties to even, saturated
 *
 * client/quant_reference.c does the same operations in the same order: equal bits for plain
 * activations; with silu-mul ex2.approx and rcp.approx differ from it by a few last places of fp32.
 * The floor of 2^-126 keeps 1 / scale finite; only what is below 2^-117 (e5m2: 2^-110) notices.
 * NaN and infinity are seen in what the GEMM makes of the token (or of the group): the scale is
 * NaN or infinity, every q is zero, so that the product with the scale is NaN in both cases.
 *
 * TOKEN reads x once: a thread keeps up to 64 values in registers, K <= 16384 (silu-mul: 12288) in
 * all. What lies beyond is read again for q, out of L1, where the rest of a row of K = 65536 still
 * fits. Columns come in pieces of 8 (TOKEN, 16 bytes) and 4 (GROUP, 8 bytes), so K, ldx and ldq
 * are multiples of 8.
 */
#include "ptx.cuh"

static_assert(act == act_s8 || device_arch == 0 || device_arch >= 890,
    "cvt to e4m3 and e5m2 needs sm_89");

/* The one parameter of the entry, ABI 2; twin of struct hm_quant_params, client/quant_params.h. */
struct quant_params {
    const u16 *x; /* [M][ldx] of `output`; 16-aligned */
    u8 *q;        /* [M][ldq] of `act`; 16-aligned */
    float *scale; /* of token m and group g at m * scale_step + g * scale_group_step */
    u32 m, k;     /* k: of q */
    u32 ldx, ldq; /* elements */
    u32 scale_step;
    u32 scale_group_step; /* GROUP */
    u32 reserved[4];
};
static_assert(sizeof(quant_params) == 64, "ABI 2");

enum {
    quant_group = 128,
    token_columns = 8 * n_threads, /* of one load by all threads */
    /* loads whose result a thread keeps; 8 with silu-mul would take 95 registers */
    token_kept = epi == epi_silu_mul ? 6 : 8,
    warp_pairs = 4, /* (token, group) pairs of a warp */
    /* CTAs on an SM that keep enough loads on their way, with registers for them */
    ctas_per_sm = act_scale == act_scale_token && epi == epi_silu_mul ? 3 : 4,
    infinity_bits = 0x7f800000,
};

/* N registers of two 16-bit values each, as they lie in memory. */
template <u32 N> struct __attribute__((aligned(4 * N))) quant_words { u32 word[N]; };

/* What one load brings. silu-mul: N words of gates and N of ups, then 2 N floats in their place. */
template <u32 N> struct quant_values { u32 bits[epi == epi_silu_mul ? 2 * N : N]; };

/* ---- instructions; the host test has stand-ins ---- */

#ifdef __CUDACC__
HM_DEV float divided(float a, float b) { return __fdiv_rn(a, b); }
HM_DEV float product(float a, float b) { return __fmul_rn(a, b); }

/* cvt.rn.satfinite.{e4m3x2,e5m2x2}.f32 (sm_89), or cvt.rni and cvt.pack.sat.s8.s32. */
HM_DEV u32 pack_codes(float v0, float v1, float v2, float v3) {
    u32 d;
    if constexpr (act == act_e4m3)
        asm("{.reg .b16 l, h; cvt.rn.satfinite.e4m3x2.f32 l, %2, %1;"
            " cvt.rn.satfinite.e4m3x2.f32 h, %4, %3; mov.b32 %0, {l, h};}"
            : "=r"(d)
            : "f"(v0), "f"(v1), "f"(v2), "f"(v3));
    else if constexpr (act == act_e5m2)
        asm("{.reg .b16 l, h; cvt.rn.satfinite.e5m2x2.f32 l, %2, %1;"
            " cvt.rn.satfinite.e5m2x2.f32 h, %4, %3; mov.b32 %0, {l, h};}"
            : "=r"(d)
            : "f"(v0), "f"(v1), "f"(v2), "f"(v3));
    else
        asm("{.reg .b32 a, b, c, e; cvt.rni.s32.f32 a, %1; cvt.rni.s32.f32 b, %2;"
            " cvt.rni.s32.f32 c, %3; cvt.rni.s32.f32 e, %4;"
            " cvt.pack.sat.s8.s32.b32 c, e, c, 0; cvt.pack.sat.s8.s32.b32 %0, b, a, c;}"
            : "=r"(d)
            : "f"(v0), "f"(v1), "f"(v2), "f"(v3));
    return d;
}

/* gate / (1 + 2^(-gate * log2 e)): ex2.approx and rcp.approx, relative error below 2^-16; 0 for
 * gates below -87, where rcp flushes. */
[[maybe_unused]] HM_DEV float silu(float gate) {
    float power, sigmoid;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(product(gate, -1.4426950409f)));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(sigmoid) : "f"(__fadd_rn(1.0f, power)));
    return product(gate, sigmoid);
}
#endif

/* ---- pieces of a token ---- */

template <u32 N>
HM_DEV void load_values(const quant_params &p, u32 token, u32 k, quant_values<N> &values) {
    const u16 *x = p.x + (u64)token * p.ldx + k;
    const quant_words<N> first = *(const quant_words<N> *)x;
    for (u32 i = 0; i < N; i++)
        values.bits[i] = first.word[i];
    if constexpr (epi == epi_silu_mul) {
        const quant_words<N> ups = *(const quant_words<N> *)(x + p.k);
        for (u32 i = 0; i < N; i++)
            values.bits[N + i] = ups.word[i];
    }
}

HM_DEV float half_of(const u32 *words, u32 i) {
    return i % 2 == 0 ? low_half<output>(words[i / 2]) : high_half<output>(words[i / 2]);
}

/* silu-mul: gates and ups to their products. Comes after all loads, lest they wait for it. */
template <u32 N> HM_DEV void finish_values(quant_values<N> &values) {
    if constexpr (epi == epi_silu_mul) {
        quant_values<N> y;
        for (u32 i = 0; i < 2 * N; i++)
            y.bits[i] =
                bits_of(product(silu(half_of(values.bits, i)), half_of(values.bits + N, i)));
        values = y;
    }
}

template <u32 N> HM_DEV float value_at(const quant_values<N> &values, u32 i) {
    return epi == epi_silu_mul ? float_of_bits(values.bits[i]) : half_of(values.bits, i);
}

/* Bits of the largest |y|: floats of one sign compare as integers, NaN above all. */
template <u32 N> HM_DEV u32 largest_of(const quant_values<N> &values, u32 largest) {
    for (u32 i = 0; i < 2 * N; i++) {
        const u32 size = bits_of(value_at(values, i)) & 0x7fffffff;
        largest = size > largest ? size : largest;
    }
    return largest;
}

/* What follows from the bits of amax. */
HM_DEV float scale_of(u32 amax) {
    constexpr float most = act == act_e4m3 ? 448.0f : act == act_e5m2 ? 57344.0f : 127.0f;
    constexpr float least = 0x1p-126f;
    if (amax == 0)
        return 1.0f;
    if (amax > infinity_bits)
        return float_of_bits(0x7fffffff);
    const float scale = divided(float_of_bits(amax), most);
    return scale < least ? least : scale;
}
HM_DEV float inverse_of(float scale) { return divided(1.0f, scale); }
HM_DEV u32 kept_bits(u32 amax) { return amax < infinity_bits ? 0xffffffffu : 0; }

template <u32 N>
HM_DEV void store_codes(const quant_params &p, u32 token, u32 k, const quant_values<N> &values,
    float inverse, u32 kept) {
    quant_words<N / 2> codes;
    for (u32 i = 0; i < N / 2; i++)
        codes.word[i] = pack_codes(product(value_at(values, 4 * i), inverse),
                            product(value_at(values, 4 * i + 1), inverse),
                            product(value_at(values, 4 * i + 2), inverse),
                            product(value_at(values, 4 * i + 3), inverse)) &
                        kept;
    *(quant_words<N / 2> *)(p.q + (u64)token * p.ldq + k) = codes;
}

/* ---- a CTA per token ---- */

HM_DEV u32 token_rounds(const quant_params &p) { return ceil_div(p.k, token_kept * token_columns); }

HM_DEV u32 token_k(u32 round, u32 i, u32 thread) {
    return (round * token_kept + i) * token_columns + thread * 8;
}

/* The thread's share of a round, zeros beyond K; returns the largest of it and of `largest`. */
HM_DEV u32 token_load(const quant_params &p, u32 token, u32 round, u32 thread, u32 largest,
    quant_values<4> *values) {
#pragma unroll
    for (u32 i = 0; i < token_kept; i++) {
        values[i] = {};
        if (token_k(round, i, thread) < p.k)
            load_values(p, token, token_k(round, i, thread), values[i]);
    }
#pragma unroll
    for (u32 i = 0; i < token_kept; i++) {
        if (token_k(round, i, 0) >= p.k)
            break;
        finish_values(values[i]);
        largest = largest_of(values[i], largest);
    }
    return largest;
}

/* All rounds, the last one first: the values of round 0 stay. */
HM_DEV u32 token_largest(const quant_params &p, u32 token, u32 thread, quant_values<4> *values) {
    u32 largest = 0;
#pragma unroll 1
    for (u32 round = token_rounds(p); round > 0; round--)
        largest = token_load(p, token, round - 1, thread, largest, values);
    return largest;
}

HM_DEV void token_store(const quant_params &p, u32 token, u32 thread, u32 amax,
    quant_values<4> *values) {
    const float scale = scale_of(amax), inverse = inverse_of(scale);
    if (thread == 0)
        p.scale[(u64)token * p.scale_step] = scale;
#pragma unroll 1
    for (u32 round = 0; round < token_rounds(p); round++) {
        if (round > 0)
            token_load(p, token, round, thread, 0, values);
#pragma unroll
        for (u32 i = 0; i < token_kept; i++)
            if (token_k(round, i, thread) < p.k)
                store_codes(p, token, token_k(round, i, thread), values[i], inverse,
                    kept_bits(amax));
    }
}

/* ---- a warp per four pairs of token and group ---- */

struct quant_pair {
    u32 token, group;
    bool exists;
};

HM_DEV void pairs_find(const quant_params &p, u32 warp, quant_pair *pairs) {
    const u32 groups = ceil_div(p.k, quant_group), first = warp * warp_pairs;
    u32 token = first / groups, group = first % groups;
#pragma unroll
    for (u32 i = 0; i < warp_pairs; i++) {
        pairs[i] = {token, group, token < p.m};
        group++;
        if (group == groups) {
            group = 0;
            token++;
        }
    }
}

HM_DEV bool pair_has(const quant_params &p, const quant_pair &pair, u32 lane) {
    return pair.exists && pair.group * quant_group + lane * 4 < p.k;
}

/* The lane's four values of each pair, and their amax. */
HM_DEV void pairs_load(const quant_params &p, u32 lane, const quant_pair *pairs,
    quant_values<2> *values, u32 *largest) {
#pragma unroll
    for (u32 i = 0; i < warp_pairs; i++) {
        values[i] = {};
        if (pair_has(p, pairs[i], lane))
            load_values(p, pairs[i].token, pairs[i].group * quant_group + lane * 4, values[i]);
    }
#pragma unroll
    for (u32 i = 0; i < warp_pairs; i++) {
        finish_values(values[i]);
        largest[i] = largest_of(values[i], 0);
    }
}

HM_DEV void pair_store_scale(const quant_params &p, const quant_pair &pair, float scale) {
    if (pair.exists)
        p.scale[(u64)pair.token * p.scale_step + (u64)pair.group * p.scale_group_step] = scale;
}

HM_DEV void pair_store(const quant_params &p, u32 lane, const quant_pair &pair,
    const quant_values<2> &values, float inverse, u32 amax) {
    if (pair_has(p, pair, lane))
        store_codes(p, pair.token, pair.group * quant_group + lane * 4, values, inverse,
            kept_bits(amax));
}

/* ---- the entry ---- */

#ifdef __CUDACC__
HM_DEV void quant_token(const quant_params &p) {
    __shared__ u32 maxima[n_threads / 32];
    const u32 token = blockIdx.x, thread = threadIdx.x;
    quant_values<4> values[token_kept];
    grid_wait();
    u32 amax = __reduce_max_sync(0xffffffff, token_largest(p, token, thread, values));
    if (thread % 32 == 0)
        maxima[thread / 32] = amax;
    __syncthreads();
    for (u32 i = 0; i < n_threads / 32; i++)
        amax = maxima[i] > amax ? maxima[i] : amax;
    token_store(p, token, thread, amax, values);
}

/* Lanes 0 to 3 find the scale of a pair each: a division costs more than a lane's codes. */
HM_DEV void quant_groups(const quant_params &p) {
    const u32 lane = threadIdx.x % 32;
    quant_pair pairs[warp_pairs];
    quant_values<2> values[warp_pairs];
    u32 amax[warp_pairs], mine = 0;
    pairs_find(p, blockIdx.x * (n_threads / 32) + threadIdx.x / 32, pairs);
    grid_wait();
    pairs_load(p, lane, pairs, values, amax);
#pragma unroll
    for (u32 i = 0; i < warp_pairs; i++) {
        amax[i] = __reduce_max_sync(0xffffffff, amax[i]);
        mine = lane == i ? amax[i] : mine;
    }
    const float scale = scale_of(mine), inverse = inverse_of(scale);
#pragma unroll
    for (u32 i = 0; i < warp_pairs; i++) {
        if (lane == i)
            pair_store_scale(p, pairs[i], scale);
        pair_store(p, lane, pairs[i], values[i], __shfl_sync(0xffffffff, inverse, i), amax[i]);
    }
}

extern "C" __global__ void __launch_bounds__(n_threads, ctas_per_sm)
    hm_quant(const __grid_constant__ quant_params p) {
    grid_release();
    if constexpr (act_scale == act_scale_token)
        quant_token(p);
    else
        quant_groups(p);
}
#endif
