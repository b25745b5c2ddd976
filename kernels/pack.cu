/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack.cu - plain codes, scales and zero points to the chunks that the GEMM kernels stream.
 *
 * The same bytes as client/pack.c makes on the CPU, whose head states the rules; layout.cuh draws
 * a chunk. Runs once per layer, so it is written to be checked: floats are handled by their bits,
 * in integers, and tests/kernels/host_pack runs every function below but the entry on a CPU.
 *
 * grid     x = N / 64 rounded up; y = any number of CTAs, which share the chunks of a row block
 * threads  256 = the 16-byte pieces of a chunk's codes
 * smem     static only
 *
 * A CTA first finds the power of two of each of its 64 rows (every CTA of a row block for itself:
 * a row has few scales), then loads one chunk after the other into shared memory, row by row, and
 * reads it back in the order of fragments.
 *
 * What the host cannot see is reported, not refused: bits of *problems, if there is one.
 */
#include "layout.cuh"

/* Types of scales and zero points as they come; bits of *problems. */
enum { float_f32 = 0, float_bf16 = 1, float_f16 = 2 };
enum { problem_code = 1, problem_scale = 2, problem_bias = 4 };

/* The one parameter of the entry, ABI 1; twin of struct hm_pack_params in client/pack_params.h. */
struct pack_params {
    const void *codes;  /* bytes [N][K], or words [N][K / 8], lowest four bits first; 8-aligned */
    const void *scales; /* [N][groups] of scale_type */
    const void *zeros;  /* the same shape: u8, or of zero_type; NULL without zero points */
    const u32 *source_bias; /* float [N], or NULL = zeros */
    u8 *packed;             /* [N/64][K/128] chunks, 16-aligned */
    u32 *rowmul;            /* float [N rounded up to 64] */
    u32 *bias;              /* the same, or NULL */
    u32 *problems;          /* bits are set, none cleared; NULL = nobody asks */
    u32 n, k;               /* multiples of 8 */
    u32 code_words;         /* 0 bytes, 1 words */
    u32 scale_type, zero_type;
    u32 reserved[3];
};
static_assert(sizeof(pack_params) == 96, "ABI 1");

enum {
    row_pitch = 136, /* bytes of a row of codes in shared memory: no bank conflicts */
    lines_end = code_bytes + groups_per_chunk * (scale_line + zero_line),
    rowmul_exponent = 6,               /* what dequantization leaves in the operand (dequant.cuh) */
    largest_scale = (120 + 127) << 23, /* bits of 2^120: no scale reaches it */
};
struct pack_shared {
    u64 codes[64 * row_pitch / 8];
    u32 largest[n_threads]; /* four partial maxima a row, as bits of |s| */
    int power[64];          /* exponent of P */
};

/* ---- floats by their bits ---- */

HM_DEV u32 float_of_half(u32 half) {
    const u32 sign = (half & 0x8000) << 16, fraction = half & 0x3ff, exponent = half >> 10 & 31;
    if (exponent == 31)
        return sign | 0x7f800000 | fraction << 13;
    if (exponent != 0)
        return sign | (exponent + 112) << 23 | fraction << 13;
    if (fraction == 0)
        return sign;
    u32 normal = fraction, e = 113;
    for (; normal < 0x400; e--)
        normal <<= 1;
    return sign | e << 23 | (normal & 0x3ff) << 13;
}

HM_DEV u32 float_at(u32 type, const void *array, u64 index) {
    if (type == float_f32)
        return ((const u32 *)array)[index];
    const u32 bits = ((const u16 *)array)[index];
    return type == float_bf16 ? bits << 16 : float_of_half(bits);
}

/* Smallest e with 2^e >= x, for the bits of a finite x > 0. */
HM_DEV int ceil_exponent(u32 x) {
    if (x >= 1u << 23)
        return (int)(x >> 23) - 127 + ((x & 0x7fffff) != 0);
    int e = -149;
    while (1u << (e + 149) < x)
        e++;
    return e;
}

/* Bits of 2^e, -149 <= e <= 127. */
HM_DEV u32 float_of_power(int e) { return e >= -126 ? (u32)(e + 127) << 23 : 1u << (e + 149); }

/* A float times 2^e, e >= 0, the result finite: exact. */
HM_DEV u32 float_scaled(u32 x, u32 e) {
    const u32 sign = x & 0x80000000;
    u32 mantissa = x & 0x7fffffff;
    if (mantissa == 0)
        return x;
    if (mantissa >= 1u << 23)
        return x + (e << 23);
    u32 exponent = e;
    for (; exponent > 0 && mantissa < 1u << 23; exponent--)
        mantissa <<= 1;
    return sign | (mantissa < 1u << 23 ? 0 : exponent << 23) + mantissa;
}

/* x * 2^-e in the activations' type, to the nearest, ties to even (client/number.c). */
HM_DEV u32 encode_16(u32 x, int e) {
    const int fraction_bits = act == act_f16 ? 10 : 7, bias = act == act_f16 ? 15 : 127;
    const int least = 1 - bias;
    const u32 infinity = (u32)(2 * bias + 1) << fraction_bits;
    const u32 sign = x >> 16 & 0x8000;
    u32 mantissa = x & 0x7fffffff;
    if (mantissa >= 0x7f800000)
        return sign | infinity | (mantissa > 0x7f800000);
    if (mantissa == 0)
        return sign;
    int exponent = (int)(mantissa >> 23) - 127;
    mantissa &= 0x7fffff;
    if (exponent == -127)
        for (exponent = -126; mantissa < 1u << 23; exponent--)
            mantissa <<= 1;
    mantissa |= 1u << 23; /* x = mantissa * 2^(exponent - 23) */
    exponent -= e;
    if (exponent > bias)
        return sign | infinity;
    if (exponent < least - fraction_bits - 1)
        return sign;
    const int field = exponent < least ? least : exponent;
    const u32 shift = (u32)(field - exponent + 23 - fraction_bits); /* 13 to 24 */
    const u32 whole = mantissa >> shift, rest = mantissa & ((1u << shift) - 1);
    const u32 half = 1u << (shift - 1);
    const u32 rounded = whole + (rest > half || (rest == half && (whole & 1)));
    return sign | smaller(((u32)(field - least) << fraction_bits) + rounded, infinity);
}

/* ---- rows ---- */

HM_DEV u32 n_groups(const pack_params &p) { return group_k == 0 ? 1 : ceil_div(p.k, group_k); }

/* A quarter of a row's scales: the largest. Returns problems. */
HM_DEV u32 pack_largest(const pack_params &p, pack_shared &shared, u32 row_block, u32 thread) {
    const u32 n = row_block * 64 + thread / 4, groups = n_groups(p);
    u32 largest = 0;
    for (u32 g = thread % 4; n < p.n && g < groups; g += 4) {
        const u32 size = float_at(p.scale_type, p.scales, (u64)n * groups + g) & 0x7fffffff;
        largest = size > largest ? size : largest;
    }
    shared.largest[thread] = largest;
    return largest >= largest_scale ? problem_scale : 0;
}

/* Threads 0 to 63, a row each; the first CTA of a row block writes what rows have. */
HM_DEV u32 pack_row(const pack_params &p, pack_shared &shared, u32 row_block, u32 thread,
    bool first) {
    const u32 n = row_block * 64 + thread;
    u32 largest = 0, factor = 0, shift = 0;
    for (u32 i = 0; i < 4; i++)
        largest =
            shared.largest[4 * thread + i] > largest ? shared.largest[4 * thread + i] : largest;
    const int power = largest != 0 ? ceil_exponent(largest) : 0;
    shared.power[thread] = power;
    if (n < p.n && group_k != 0)
        factor = float_of_power(power + rowmul_exponent);
    else if (n < p.n)
        factor = float_scaled(float_at(p.scale_type, p.scales, n), rowmul_exponent);
    if (n < p.n && p.source_bias)
        shift = p.source_bias[n];
    if (first)
        p.rowmul[n] = factor;
    if (first && p.bias)
        p.bias[n] = shift;
    return (shift & 0x7f800000) == 0x7f800000 ? problem_bias : 0;
}

/* ---- codes ---- */

/* Code of zero, for what lies beyond N or K. */
HM_DEV u32 padding_code(const pack_params &p, u32 n, u32 k) {
    if (zero != zero_int || group_k == 0 || n >= p.n || k / (group_k ? group_k : 1) >= n_groups(p))
        return 8;
    const u8 *zeros = (const u8 *)p.zeros;
    return smaller(zeros[(u64)n * n_groups(p) + k / (group_k ? group_k : 1)], 15);
}

/* Codes k to k + 7 of row n, one a byte; k is a multiple of 8. */
HM_DEV u64 eight_codes(const pack_params &p, u32 n, u32 k) {
    u64 codes = 0;
    if (n >= p.n || k >= p.k)
        return padding_code(p, n, k) * 0x0101010101010101ull;
    if (!p.code_words)
        return ((const u64 *)p.codes)[((u64)n * p.k + k) / 8];
    const u32 word = ((const u32 *)p.codes)[((u64)n * p.k + k) / 8];
    for (u32 i = 0; i < 8; i++)
        codes |= (u64)(word >> 4 * i & 15) << 8 * i;
    return codes;
}

/* A sixteenth of four rows a thread, 64 rows in all. */
HM_DEV u32 pack_load(const pack_params &p, pack_shared &shared, u32 row_block, u32 chunk,
    u32 thread) {
    u64 all = 0;
    for (u32 i = thread; i < 64 * 16; i += n_threads) {
        const u32 row = i / 16, piece = i % 16;
        const u64 codes = eight_codes(p, row_block * 64 + row, chunk * 128 + piece * 8);
        shared.codes[row * (row_pitch / 8) + piece] = codes;
        all |= codes;
    }
    return (all & 0xf0f0f0f0f0f0f0f0ull) != 0 ? problem_code : 0;
}

/* The word of a k16 step: four registers of two halves (layout.cuh). */
HM_DEV u32 fragment_word(const u8 *codes, u32 row_tile, u32 lane, u32 first_k) {
    u32 word = 0;
    for (u32 i = 0; i < 4; i++)
        for (u32 h = 0; h < 2; h++) {
            const u32 row = row_tile * 16 + fragment_row(lane, i);
            const u32 code = codes[row * row_pitch + first_k + fragment_k(lane, i, h)];
            word |= (code & 15) << (16 * h + 4 * i);
        }
    return act == act_f16 ? word << 3 | word >> 29 : word;
}

/* 16 bytes a thread: [half][row tile][lane] is the order of threads. */
HM_DEV void pack_codes(const pack_shared &shared, u8 *out, u32 thread) {
    const u8 *codes = (const u8 *)shared.codes;
    u32 *words = (u32 *)(out + thread * 16);
#pragma unroll 1
    for (u32 step = 0; step < 4; step++)
        words[step] =
            fragment_word(codes, thread / 32 % 4, thread % 32, thread / 128 * 64 + step * 16);
}

/* ---- scales and zero points ---- */

HM_DEV u32 zero_bits(const pack_params &p, u64 at) {
    if (zero == zero_int)
        return ((const u8 *)p.zeros)[at];
    return encode_16(float_at(p.zero_type, p.zeros, at), 0);
}

/* One row of one group of the chunk; i counts 64 rows a group. */
HM_DEV u32 pack_line(const pack_params &p, const pack_shared &shared, u8 *out, u32 row_block,
    u32 first_group, u32 i) {
    const u32 row = i % 64, n = row_block * 64 + row, group = first_group + i / 64;
    const u32 index = row / 16 * 16 + row % 8 * 2 + row / 8 % 2; /* rows g, g + 8 side by side */
    const u64 at = (u64)n * n_groups(p) + group;
    const bool inside = n < p.n && group < n_groups(p);
    u32 r = 0, z = 0;
    if (inside)
        r = encode_16(float_at(p.scale_type, p.scales, at), shared.power[row]);
    ((u16 *)(out + chunk_scales(i / 64)))[index] = (u16)r;
    if (zero == zero_none)
        return 0;
    if (inside)
        z = zero_bits(p, at);
    if (zero == zero_int)
        out[chunk_zeros(i / 64) + index] = (u8)z;
    else
        ((u16 *)(out + chunk_zeros(i / 64)))[index] = (u16)z;
    return zero == zero_float && inside &&
                   (float_at(p.zero_type, p.zeros, at) & 0x7f800000) == 0x7f800000
               ? problem_scale
               : 0;
}

HM_DEV u32 pack_lines(const pack_params &p, const pack_shared &shared, u8 *out, u32 row_block,
    u32 chunk, u32 thread) {
    const u32 lines = groups_per_chunk * 64;
    u32 problems = 0;
    for (u32 i = thread; i < lines; i += n_threads)
        problems |= pack_line(p, shared, out, row_block, chunk * groups_per_chunk, i);
    for (u32 i = lines_end + thread; i < chunk_bytes; i += n_threads)
        out[i] = 0;
    return problems;
}

HM_DEV u8 *chunk_of(const pack_params &p, u32 row_block, u32 chunk) {
    return p.packed + ((u64)row_block * ceil_div(p.k, 128) + chunk) * chunk_bytes;
}

#ifdef __CUDACC__
extern "C" __global__ void __launch_bounds__(n_threads)
    hm_weight_pack(const __grid_constant__ pack_params p) {
    __shared__ pack_shared shared;
    const u32 row_block = blockIdx.x, thread = threadIdx.x;
    u32 problems = pack_largest(p, shared, row_block, thread);
    __syncthreads();
    if (thread < 64)
        problems |= pack_row(p, shared, row_block, thread, blockIdx.y == 0);
    for (u32 chunk = blockIdx.y; chunk < ceil_div(p.k, 128); chunk += gridDim.y) {
        u8 *out = chunk_of(p, row_block, chunk);
        problems |= pack_load(p, shared, row_block, chunk, thread);
        __syncthreads(); /* also for the powers of the rows, in the first round */
        pack_codes(shared, out, thread);
        problems |= pack_lines(p, shared, out, row_block, chunk, thread);
        __syncthreads();
    }
    if (problems && p.problems)
        atomicOr(p.problems, problems);
}
#endif
