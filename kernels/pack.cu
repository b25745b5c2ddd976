/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack.cu - plain codes, scales and zero points to the chunks that the GEMM kernels stream.
 *
 * The same bytes as client/pack.c makes on the CPU, whose head states the rules; layout.cuh draws
 * a chunk, dequant.cuh says where it wants the bits of a code. Runs once per layer, so it is
 * written to be checked: floats are handled by their bits, in integers, and tests/kernels/host_pack
 * runs every function below but the entry on a CPU.
 *
 * grid     x = N / 64 rounded up; y = any number of CTAs, which share the chunks of a row block
 * threads  256; a chunk's codes are 256 pieces of 16 bytes, or 512 of 8-bit codes
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
enum { float_f32 = 0, float_bf16 = 1, float_f16 = 2, float_e8m0 = 3 };
enum { problem_code = 1, problem_scale = 2, problem_bias = 4, problem_span = 8 };

/* The one parameter of the entry, ABI 2; twin of struct hm_pack_params in client/pack_params.h. */
struct pack_params {
    const void *codes;  /* bytes [N][K], or [N][K / 2] of two codes, low bits first; 8-aligned */
    const void *scales; /* [N / scale_rows rounded up][groups] of scale_type */
    const void *zeros;  /* [N][groups]: u8, or of zero_type; NULL without zero points */
    const u32 *source_bias; /* float [N], or NULL = zeros */
    u8 *packed;             /* [N/64][K/128] chunks, 16-aligned */
    u32 *rowmul;            /* float [N rounded up to 64] */
    u32 *bias;              /* the same, or NULL */
    u32 *problems;          /* bits are set, none cleared; NULL = nobody asks */
    u32 n, k;               /* multiples of 8 */
    u32 code_pairs;         /* 1: two codes a byte */
    u32 scale_type, zero_type;
    u32 scale_rows; /* rows that share their scales: 1, 128 (blocks) or N (one for all) */
    u32 reserved[2];
};
static_assert(sizeof(pack_params) == 96, "ABI 2");

enum {
    row_pitch = 136, /* bytes of a row of codes in shared memory: no bank conflicts */
    lines_end = code_bytes + groups_per_chunk * (scale_line + zero_line),
    zero_code = weight == weight_u4 ? 8 : (weight == weight_u8 ? 128 : 0),
    /* log2 of what rowmul carries back: the operand is the value times 2^-this (dequant.cuh) */
    rowmul_exponent = act_bits == 16                               ? 6
                      : weight == weight_u4                        ? (act == act_s8 ? -4 : 9)
                      : weight == weight_e2m1 && scale != scale_mx ? 6
                                                                   : 0,
    /* Bits of 2^120, or less where rowmul would overflow: no scale reaches it. */
    largest_scale = ((rowmul_exponent > 6 ? 126 - rowmul_exponent : 120) + 127) << 23,
    e8m0_least = -120, /* exponents of r that e8m0 keeps, and that a table of mx has */
    mx_least = -5,
    mx_most = 6,
};
struct pack_shared {
    u64 codes[64 * row_pitch / 8];
    u32 largest[n_threads];  /* four partial maxima a row, as bits of |s| */
    u32 smallest[n_threads]; /* mx only: minima */
    int power[64];           /* exponent of P */
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
    if (type == float_e8m0) { /* 2^(byte - 127); the last one comes out as infinity */
        const u32 byte = ((const u8 *)array)[index];
        return byte != 0 ? byte << 23 : 1u << 22;
    }
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

/* Bits of 2^e, e <= 127; 0 below the smallest. */
HM_DEV u32 float_of_power(int e) {
    return e >= -126 ? (u32)(e + 127) << 23 : (e >= -149 ? 1u << (e + 149) : 0);
}

/* x * 2^-e in the format of `type`, to the nearest, ties to even (client/number.c). */
HM_DEV u32 encode(u32 type, u32 x, int e) {
    const int fraction_bits = type == float_f32 ? 23 : (type == float_f16 ? 10 : 7);
    const int bias = type == float_f16 ? 15 : 127, least = 1 - bias;
    const u32 infinity = (u32)(2 * bias + 1) << fraction_bits;
    const u32 sign = type == float_f32 ? x & 0x80000000 : x >> 16 & 0x8000;
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
    const u32 shift = (u32)(field - exponent + 23 - fraction_bits); /* 0 to 24 */
    const u32 whole = mantissa >> shift, rest = mantissa & ((1u << shift) - 1);
    const u32 half = shift != 0 ? 1u << (shift - 1) : 1; /* with no shift there is no rest */
    const u32 rounded = whole + (rest > half || (rest == half && (whole & 1)));
    return sign | smaller(((u32)(field - least) << fraction_bits) + rounded, infinity);
}

/* ---- codes as they come ---- */

HM_DEV u32 n_groups(const pack_params &p) { return group_k == 0 ? 1 : ceil_div(p.k, group_k); }

/* Code of zero, for what lies beyond N or K. */
HM_DEV u32 padding_code(const pack_params &p, u32 n, u32 k) {
    if (zero != zero_int || group_k == 0 || n >= p.n || k / (group_k ? group_k : 1) >= n_groups(p))
        return zero_code;
    const u8 *zeros = (const u8 *)p.zeros;
    return smaller(zeros[(u64)n * n_groups(p) + k / (group_k ? group_k : 1)], 15);
}

/* Codes k to k + 7 of row n, one a byte; k is a multiple of 8. */
HM_DEV u64 eight_codes(const pack_params &p, u32 n, u32 k) {
    u64 codes = 0;
    if (n >= p.n || k >= p.k)
        return padding_code(p, n, k) * 0x0101010101010101ull;
    if (!p.code_pairs)
        return ((const u64 *)p.codes)[((u64)n * p.k + k) / 8];
    const u32 word = ((const u32 *)p.codes)[((u64)n * p.k + k) / 8];
    for (u32 i = 0; i < 8; i++)
        codes |= (u64)(word >> 4 * i & 15) << 8 * i;
    return codes;
}

/* Whether one of eight codes is no number: above 15, or a NaN, which a carry into bit 7 shows. */
HM_DEV bool is_bad(u64 codes) {
    if (weight_bits == 4)
        return (codes & 0xf0f0f0f0f0f0f0f0ull) != 0;
    return weight == weight_e4m3 &&
           (((codes & 0x7f7f7f7f7f7f7f7full) + 0x0101010101010101ull) & 0x8080808080808080ull) != 0;
}

/* mx: whether all codes of a group are zeros, of either sign. */
HM_DEV bool is_zero_group(const pack_params &p, u32 n, u32 group) {
    const u32 end = smaller((group + 1) * group_k, p.k);
    u64 all = 0;
    for (u32 k = group * group_k; k < end; k += 8)
        all |= eight_codes(p, n, k);
    return (all & 0x0707070707070707ull) == 0;
}

/* ---- rows ---- */

/* Bits of a scale as a float. */
HM_DEV u32 scale_at(const pack_params &p, u32 n, u32 group) {
    return float_at(p.scale_type, p.scales, (u64)(n / p.scale_rows) * n_groups(p) + group);
}

/* A quarter of a row's scales: the largest, and of mx the smallest. Returns problems. */
HM_DEV u32 pack_largest(const pack_params &p, pack_shared &shared, u32 row_block, u32 thread) {
    const u32 n = row_block * 64 + thread / 4, groups = n_groups(p);
    u32 largest = 0, smallest = ~0u, problems = 0;
    for (u32 g = thread % 4; n < p.n && g < groups; g += 4) {
        const u32 size = scale_at(p, n, g) & 0x7fffffff;
        if (size >= largest_scale)
            problems = problem_scale;
        if (scale == scale_mx && is_zero_group(p, n, g))
            continue;
        largest = size > largest ? size : largest;
        smallest = smaller(size, smallest);
    }
    shared.largest[thread] = largest;
    shared.smallest[thread] = smallest;
    return problems;
}

/* Threads 0 to 63, a row each; the first CTA of a row block writes what rows have. */
HM_DEV u32 pack_row(const pack_params &p, pack_shared &shared, u32 row_block, u32 thread,
    bool first) {
    const u32 n = row_block * 64 + thread;
    u32 largest = 0, smallest = ~0u, factor = 0, shift = 0, problems = 0;
    for (u32 i = 4 * thread; i < 4 * thread + 4; i++) {
        largest = shared.largest[i] > largest ? shared.largest[i] : largest;
        smallest = smaller(shared.smallest[i], smallest);
    }
    int power = largest != 0 ? ceil_exponent(largest) : 0;
    if (scale == scale_mx && largest != 0) {
        if (power - ceil_exponent(smallest) > mx_most - mx_least)
            problems = problem_span;
        power -= mx_most;
    }
    shared.power[thread] = power;
    if (n < p.n && group_k != 0)
        factor = float_of_power(power + rowmul_exponent);
    else if (n < p.n)
        factor = encode(float_f32, scale_at(p, n, 0), -rowmul_exponent);
    if (n < p.n && p.source_bias)
        shift = p.source_bias[n];
    if (first)
        p.rowmul[n] = factor;
    if (first && p.bias)
        p.bias[n] = shift;
    return problems | ((shift & 0x7f800000) == 0x7f800000 ? problem_bias : 0);
}

/* ---- codes as they go ---- */

/* A sixteenth of four rows a thread, 64 rows in all. */
HM_DEV u32 pack_load(const pack_params &p, pack_shared &shared, u32 row_block, u32 chunk,
    u32 thread) {
    u32 problems = 0;
    for (u32 i = thread; i < 64 * 16; i += n_threads) {
        const u32 row = i / 16, piece = i % 16;
        const u64 codes = eight_codes(p, row_block * 64 + row, chunk * 128 + piece * 8);
        shared.codes[row * (row_pitch / 8) + piece] = codes;
        problems |= is_bad(codes) ? problem_code : 0;
    }
    return problems;
}

/* A code in the low bits of its value (half or byte) of a register, as dequant.cuh wants it. */
HM_DEV u32 placed(u32 code) {
    const u32 magnitude = code & 7, sign = code >> 3 & 1;
    switch ((int)weight) {
    case weight_u4:
        if (act_bits == 16)
            return (code & 15) << (act == act_f16 ? 3 : 0);
        if (act == act_s8)
            return ((code & 15) ^ 8) << 4;            /* two's complement of u - 8 */
        return (sign ? magnitude : 0x87 - magnitude); /* sign, and u - 8 or 7 - u */
    case weight_u8:
        return act == act_s8 ? code ^ 0x80 : code << (act == act_f16 ? 3 : 0);
    case weight_e2m1:
        if (act_bits == 16)
            return magnitude << (act == act_f16 ? 9 : 6) | sign << 15;
        return magnitude << (scale == scale_mx ? 0 : 2) | sign << 7;
    default: /* e4m3 */
        return act == act_bf16 ? (code & 0x7f) << 4 | (code & 0x80) << 8 : code;
    }
}

/* Bits of a register that dequant.cuh gets by rotate_left(word, rotation) & mask: back. */
HM_DEV u32 stored_part(u32 a_register, u32 rotation, u32 mask) {
    return rotate_right(a_register & mask, rotation);
}

/* The bits that the register of a slot sets in its word. */
HM_DEV u32 stored(u32 slot, u32 r) {
    const bool even = slot % 2 == 0;
    if (act_bits == weight_bits)
        return r;
    if (weight == weight_u4 && act_bits == 16)
        return stored_part(r, (32 - 4 * slot) % 32, ~0u);
    if (weight_bits == 4 && act_bits == 8 && scale == scale_mx) /* selectors of prmt, and signs */
        return stored_part(r, even ? 0 : 4, 0x80808080) | stored_part(r, even ? 0 : 16, 0x7) |
               stored_part(r, even ? 4 : 20, 0x700) | stored_part(r, even ? 8 : 24, 0x70000) |
               stored_part(r, even ? 12 : 28, 0x7000000);
    if (weight == weight_u4)
        return stored_part(r, even ? 0 : 4, ~0u);
    if (weight == weight_u8)
        return stored_part(r, even ? 0 : 24, ~0u);
    if (weight == weight_e4m3 && act == act_f16) /* pairs of bytes */
        return stored_part(r, even ? 0 : 16, 0xff) | stored_part(r, even ? 8 : 24, 0xff0000);
    if (weight == weight_e4m3)
        return even ? r : stored_part(r, 8, 0x07700770) | stored_part(r, 4, 0x80808080);
    if (act_bits == 8) /* e2m1 */
        return even ? stored_part(r, 2, ~0u)
                    : stored_part(r, 0, 0x98989898) | stored_part(r, 4, 0x04040404);
    if (act == act_bf16)
        return slot == 2 ? stored_part(r, 6, 0x80c080c0) | stored_part(r, 14, 0x01000100)
                         : stored_part(r, slot == 3 ? 10 : 4 * slot, ~0u);
    return slot < 2 ? stored_part(r, 3 * slot, ~0u)
                    : stored_part(r, 3 * slot, 0x0e000e00) | stored_part(r, slot - 1, 0x80008000);
}

/* A word of a lane: the registers of its slots, of a row tile and half (layout.cuh). */
HM_DEV u32 fragment_word(const u8 *codes, u32 row_tile, u32 half, u32 lane, u32 word) {
    const u32 slots = act_bits / weight_bits, values = 32 / act_bits;
    u32 bits = 0;
    for (u32 slot = 0; slot < slots; slot++) {
        const u32 index = word * slots + slot, step = index / 4, i = index % 4;
        const u32 row = row_tile * 16 + fragment_row(lane, i);
        u32 r = 0;
        for (u32 e = 0; e < values; e++) {
            const u32 k = half * 64 + step * step_k + fragment_k(lane, i, e);
            r |= placed(codes[row * row_pitch + k]) << (e * act_bits);
        }
        bits |= stored(slot, r);
    }
    return bits;
}

/* Pieces of 16 bytes; [half][row tile][piece][lane] is the order of threads. */
HM_DEV void pack_codes(const pack_shared &shared, u8 *out, u32 thread) {
    const u8 *codes = (const u8 *)shared.codes;
#pragma unroll 1
    for (u32 i = thread; i < code_bytes / 16; i += n_threads) {
        const u32 lane = i % 32, piece = i / 32 % pieces, row_tile = i / (32 * pieces) % 4;
        u32 *words = (u32 *)(out + i * 16);
#pragma unroll 1
        for (u32 word = 0; word < 4; word++)
            words[word] =
                fragment_word(codes, row_tile, i / (128 * pieces), lane, piece * 4 + word);
    }
}

/* ---- scales and zero points ---- */

HM_DEV u32 zero_bits(const pack_params &p, u64 at) {
    if (zero == zero_int)
        return ((const u8 *)p.zeros)[at];
    return encode(act == act_f16 ? float_f16 : float_bf16, float_at(p.zero_type, p.zeros, at), 0);
}

/* r of a scale of which P = 2^power. */
HM_DEV u32 scale_bits(u32 x, int power) {
    if (scale == scale_e8m0) {
        const int e = ceil_exponent(x) - power;
        return e < e8m0_least ? 0 : (u32)(e + 127);
    }
    if (scale == scale_mx) {
        const int e = ceil_exponent(x) - power;
        return (u32)((e < mx_least ? mx_least : (e > mx_most ? mx_most : e)) - mx_least);
    }
    return encode(scale == scale_f32 ? float_f32 : (scale == scale_f16 ? float_f16 : float_bf16), x,
        power);
}

HM_DEV void put_bits(u8 *line, u32 index, u32 size, u32 bits) {
    if (size == 1)
        line[index] = (u8)bits;
    else if (size == 2)
        ((u16 *)line)[index] = (u16)bits;
    else
        ((u32 *)line)[index] = bits;
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
        r = scale_bits(scale_at(p, n, group), shared.power[row]);
    put_bits(out + chunk_scales(i / 64), index, scale_size, r);
    if (zero == zero_none)
        return 0;
    if (inside)
        z = zero_bits(p, at);
    put_bits(out + chunk_zeros(i / 64), index, zero == zero_int ? 1 : 2, z);
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
