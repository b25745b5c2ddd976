/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dequant.cuh - packed codes to operand A of the tensor cores, nothing else.
 *
 * A word is masked and rotated so that its codes land where the target type wants their bits; one
 * multiplication at most follows. The operand is the true value times a factor that is the same
 * for all weights of a format; rowmul carries its inverse (client/pack.c):
 *
 *     activations   u4      u8      e2m1    e4m3
 *     bf16, f16     2^-6    2^-6    2^-6    2^-6
 *     e4m3, e5m2    2^-9            2^-6    1         e2m1 with folded exponents ("mx"): 1
 *     s8            16      1
 *
 * 16-bit targets, integers. A small unsigned integer in the low bits of a float IS a float:
 * subnormals and the first binade share one spacing, so the bits u mean u * 2^-133 in bf16
 * (u < 256) and u * 2^-24 in f16 (u < 2048). Codes at lane bit d mean 2^d times that. One fma then
 * removes the offset and applies a scale, with one rounding:
 *
 *     fma(code, S, C)   S = r * 2^(127 - d) (bf16) or r * 2^(18 - d) (f16), C = -offset * r * 2^-6
 *                       = (u - offset) * r * 2^-6         offset 8 (u4) or 128 (u8)
 *
 * r <= 1 and the offset is a power of two, so the product and C are exact (f16: C while
 * |r| >= 2^-11). Derived in KERNELS.md 4.1; checked for every code, position and scale by
 * tests/kernels/host_dequant.cpp and, u4, on the device (KERNELS_MEASURED.md 1).
 *
 * 16-bit targets, floats. The sign at bit 15, exponent and mantissa with the exponent's last bit at
 * that of the target: the bits mean value * 2^(bias of the type - bias of the target), subnormals
 * included, and S = r * 2^120 (e2m1, bf16), 2^114 (e4m3, bf16), 2^8 (e2m1, f16) brings it to
 * 2^-6. The hardware converts e4m3 to f16, exactly; S = r * 2^-6.
 *
 *     u4, bf16     register i, half h at bits 16h + 4i: & 0x000f000f register 0, & 0x00f000f0
 *                  register 1; a shift right by 8 brings 2 and 3 to the same places
 *     u4, f16      that word rotated left by 3, so that codes sit as high as the linear range
 *                  allows and C keeps most of its precision: & 0x00780078, & 0x07800780, then a
 *                  ROTATE right by 8, as register 3 of half 1 lies in bits 31, 2..0
 *     u8, bf16     even register at bits 16h + 0..7, odd one at 16h + 8..15
 *     u8, f16      that word rotated left by 3
 *     e2m1, e4m3   target-shaped tilings found by search (KERNELS.md 4.3); masks below
 *
 * Even registers are row g, odd ones row g + 8 of a row tile, so a row has one multiplier only.
 *
 * 8-bit targets have no multiplier: scales are applied to sums, or, mx, an exponent shifts a table
 * of the eight magnitudes, out of which prmt picks four bytes at a time (KERNELS.md 4.5).
 *
 *     u4, s8       two's complement u - 8 in the high half of a byte
 *     u4, fp8      sign at bit 7, index u - 8 or 7 - u at bits 2..0; index plus sign is the
 *                  magnitude, and 0..8 in the low bits of e4m3 is linear
 *     e2m1, fp8    sign 7, magnitude 4..2
 *     e2m1, mx     selectors: magnitude of even byte c at bits 4c.., of odd byte c at 16 + 4c..;
 *                  signs in their fourth bits, of even byte c at 8c + 7, of odd byte c at 8c + 3
 *     8 bits       the byte itself
 *
 * Zero points (u4): value = (u - z) * r. With an integer z (0..255) the difference times 2^-6 is
 * exact in both types; a float z costs one rounding. r is applied afterwards, by a second
 * instruction (kernels H, G) or in fp32 by the caller (kernel S). Tried on paper and left: r * z
 * folded into C, whose rounding is worse than that of the difference whenever u is near z.
 *
 * cost of 8 u4 for 16 bits: 4 lop3, 1 shift, 4 fma; with a zero point and a folded scale 4 more fma
 */
#pragma once
#include "layout.cuh"
#include "prelude.cuh"
#include "ptx.cuh"

/* Multipliers at r = 1 and the addend that removes the offset, both halves of a register alike. */
template <act_type T, weight_type W> struct operand_format;
template <> struct operand_format<act_bf16, weight_u4> {
    enum : u32 { even_unit = 0x7f007f00u, odd_unit = 0x7d007d00u, addend = 0xbe00be00u };
}; /* 2^127, 2^123, -8 * 2^-6 */
template <> struct operand_format<act_f16, weight_u4> {
    enum : u32 { even_unit = 0x78007800u, odd_unit = 0x68006800u, addend = 0xb000b000u };
}; /* 2^15, 2^11, -8 * 2^-6 */
template <> struct operand_format<act_bf16, weight_u8> {
    enum : u32 { even_unit = 0x7f007f00u, odd_unit = even_unit, addend = 0xc000c000u };
}; /* 2^127, -128 * 2^-6 */
template <> struct operand_format<act_f16, weight_u8> {
    enum : u32 { even_unit = 0x78007800u, odd_unit = even_unit, addend = 0xc000c000u };
}; /* 2^15, -128 * 2^-6 */
template <> struct operand_format<act_bf16, weight_e2m1> {
    enum : u32 { even_unit = 0x7b807b80u, odd_unit = even_unit, addend = 0 }; /* 2^120 */
};
template <> struct operand_format<act_f16, weight_e2m1> {
    enum : u32 { even_unit = 0x5c005c00u, odd_unit = even_unit, addend = 0 }; /* 2^8 */
};
template <> struct operand_format<act_bf16, weight_e4m3> {
    enum : u32 { even_unit = 0x78807880u, odd_unit = even_unit, addend = 0 }; /* 2^114 */
};
template <> struct operand_format<act_f16, weight_e4m3> {
    enum : u32 { even_unit = 0x24002400u, odd_unit = even_unit, addend = 0 }; /* 2^-6 */
};

/* Constants of u4 and of its zero points. */
template <act_type T> struct code_format;
template <> struct code_format<act_bf16> {
    enum : u32 {
        even_mask = 0x000f000fu,
        odd_mask = 0x00f000f0u,
        zero_shift = 0,              /* integer zero points at d = 0 */
        zero_unit = 0xff00ff00u,     /* -2^127 */
        minus_2_pow_6 = 0xbc80bc80u, /* -2^-6 */
    };
};
template <> struct code_format<act_f16> {
    enum : u32 {
        even_mask = 0x00780078u,
        odd_mask = 0x07800780u,
        zero_shift = 3,              /* integer zero points at d = 3 */
        zero_unit = 0xf800f800u,     /* -2^15 */
        minus_2_pow_6 = 0xa400a400u, /* -2^-6 */
    };
};

/*
 * What one lane needs to dequantize one row tile of one group; names after the formula above.
 * With mx, s and c are the low and the high half of the table of a row. Unused with other 8-bit
 * targets.
 */
struct dequant_terms {
    u32 even_s, even_c; /* row g */
    u32 odd_s, odd_c;   /* row g + 8 */
    u32 even_r, odd_r;  /* scale of a second multiplication; unused without zero points */
};

/* The low or the high 16 bits of a word in both halves of a register. */
HM_DEV u32 twice_low(u32 pair) { return permute_bytes(pair, pair, 0x1010); }
HM_DEV u32 twice_high(u32 pair) { return permute_bytes(pair, pair, 0x3232); }

/* ---- terms ---- */

/* Terms of the value times 2^-6, r = 1: kernel S, and channel scales everywhere. */
template <act_type T, weight_type W = weight> HM_DEV dequant_terms unit_terms() {
    if constexpr (T == act_bf16 || T == act_f16) {
        using f = operand_format<T, W>;
        return {f::even_unit, f::addend, f::odd_unit, f::addend, 0, 0};
    }
    return {0, 0, 0, 0, 0, 0};
}

/* Replace the offset 8 by the zero points of rows g and g + 8, as loaded from their line. */
template <act_type T, zero_mode Z> HM_DEV void set_zero_points(dequant_terms &terms, u32 pair) {
    using f = code_format<T>;
    if constexpr (Z == zero_int) { /* two bytes; a code is a linear float here too */
        const u32 low = permute_bytes(pair, 0, 0x4040), high = permute_bytes(pair, 0, 0x4141);
        terms.even_c = mul2<T>(low << f::zero_shift, f::zero_unit);
        terms.odd_c = mul2<T>(high << f::zero_shift, f::zero_unit);
    } else { /* two values of type T */
        terms.even_c = mul2<T>(twice_low(pair), f::minus_2_pow_6);
        terms.odd_c = mul2<T>(twice_high(pair), f::minus_2_pow_6);
    }
}

/* Fold the scales of rows g and g + 8 (low, high half, of type T) into the terms: kernels H, G. */
template <act_type T, zero_mode Z, weight_type W = weight>
HM_DEV void fold_scales(dequant_terms &terms, u32 pair) {
    using f = operand_format<T, W>;
    const u32 even = twice_low(pair), odd = twice_high(pair);
    if constexpr (Z != zero_none) {
        terms.even_r = even;
        terms.odd_r = odd;
    } else if constexpr (f::addend == 0) {
        terms.even_s = mul2<T>(even, f::even_unit);
        terms.odd_s = mul2<T>(odd, f::odd_unit);
    } else {
        terms.even_s = mul2<T>(even, f::even_unit);
        terms.even_c = mul2<T>(even, f::addend);
        terms.odd_s = mul2<T>(odd, f::odd_unit);
        terms.odd_c = mul2<T>(odd, f::addend);
    }
}

/* 2^(byte - 127) for byte 0 or 1 of a pair of e8m0 scales; a byte of 0 is 0, as in a float. */
template <int index> HM_DEV float exponent_value(u32 bytes) {
    return float_of_bits((bytes >> 8 * index & 0xff) << 23);
}

/* A pair of e8m0 scales as values of type T, for fold_scales; f16 rounds below 2^-24. */
template <act_type T> HM_DEV u32 exponent_pair(u32 bytes) {
    return pack2<T>(exponent_value<0>(bytes), exponent_value<1>(bytes));
}

/* Tables of e4m3 magnitudes 0, 0.5, 1, 1.5 | 2, 3, 4, 6, times 2^e; byte = e + 5, e in [-5, 6]. */
HM_DEV void set_tables(dequant_terms &terms, u32 bytes) {
    const u32 even = bytes & 0xff, odd = bytes >> 8 & 0xff;
    const u32 low = 0x3c383000u - 5 * 0x08080800u, high = 0x4c484440u - 5 * 0x08080808u;
    terms.even_s = even * 0x08080800u + low;
    terms.even_c = even * 0x08080808u + high;
    terms.odd_s = odd * 0x08080800u + low;
    terms.odd_c = odd * 0x08080808u + high;
}

/* Scales of rows g and g + 8 in fp32, for sums. */
struct scale_pair {
    float even, odd;
};

/* low: the first four bytes of the two as they lie in a scale line; high: the next four (f32). */
template <scale_type S> HM_DEV scale_pair scales_of(u32 low, u32 high) {
    if constexpr (S == scale_bf16)
        return {low_half<act_bf16>(low), high_half<act_bf16>(low)};
    else if constexpr (S == scale_f16)
        return {low_half<act_f16>(low), high_half<act_f16>(low)};
    else if constexpr (S == scale_f32)
        return {float_of_bits(low), float_of_bits(high)};
    else if constexpr (S == scale_e8m0)
        return {exponent_value<0>(low), exponent_value<1>(low)};
    else
        return {1.0f, 1.0f}; /* none, or in the operands */
}

#ifdef __CUDACC__
/* The same from shared memory, at the lane's place in a scale line. */
template <scale_type S> HM_DEV scale_pair load_scales(u32 smem) {
    if constexpr (S == scale_f32) {
        const uint2 pair = load_smem_u64(smem);
        return scales_of<S>(pair.x, pair.y);
    } else if constexpr (S == scale_e8m0) {
        return scales_of<S>(load_smem_u16(smem), 0);
    } else if constexpr (S == scale_none || S == scale_mx) {
        return scales_of<S>(0, 0);
    } else {
        return scales_of<S>(load_smem_u32(smem), 0);
    }
}
#endif

/* ---- u4 to 16 bits ---- */

/* One word to the A fragment of one step: (u - zero) * 2^-6, times what even_s, odd_s hold. */
template <act_type T> HM_DEV void dequant_word(u32 word, const dequant_terms &terms, u32 *a) {
    using f = code_format<T>;
    a[0] = fma2<T>(word & f::even_mask, terms.even_s, terms.even_c);
    a[1] = fma2<T>(word & f::odd_mask, terms.odd_s, terms.odd_c);
    word = T == act_bf16 ? word >> 8 : rotate_right(word, 8);
    a[2] = fma2<T>(word & f::even_mask, terms.even_s, terms.even_c);
    a[3] = fma2<T>(word & f::odd_mask, terms.odd_s, terms.odd_c);
}

/* The same with folded scales: (u - zero) * r * 2^-6. */
template <act_type T, zero_mode Z>
HM_DEV void dequant_word_folded(u32 word, const dequant_terms &terms, u32 *a) {
    dequant_word<T>(word, terms, a);
    if constexpr (Z != zero_none) {
        a[0] = mul2<T>(a[0], terms.even_r);
        a[1] = mul2<T>(a[1], terms.odd_r);
        a[2] = mul2<T>(a[2], terms.even_r);
        a[3] = mul2<T>(a[3], terms.odd_r);
    }
}

/* ---- other types to 16 bits: bits into place, then the multiplication ---- */

HM_DEV u32 rotate_left(u32 a, u32 bits) { return rotate_right(a, 32 - bits); }

/* All four registers of a step out of its word. */
template <act_type T> HM_DEV void place_e2m1(u32 q, u32 *a) {
    if constexpr (T == act_bf16) { /* sign 15, magnitude 8..6 */
        const u32 mask = 0x81c081c0u;
        a[0] = q & mask;
        a[1] = rotate_left(q, 4) & mask;
        a[2] = (rotate_left(q, 6) & 0x80c080c0u) | (rotate_left(q, 14) & 0x01000100u);
        a[3] = rotate_left(q, 10) & mask;
    } else { /* sign 15, magnitude 11..9 */
        a[0] = q & 0x8e008e00u;
        a[1] = (q << 3) & 0x8e008e00u;
        a[2] = ((q << 6) & 0x0e000e00u) | ((q << 1) & 0x80008000u);
        a[3] = ((q << 9) & 0x0e000e00u) | ((q << 2) & 0x80008000u);
    }
}

/* An even and an odd register out of their word. */
template <act_type T, weight_type W> HM_DEV void place_pair(u32 q, u32 *a) {
    if constexpr (W == weight_u8 && T == act_bf16) {
        a[0] = q & 0x00ff00ffu;
        a[1] = (q >> 8) & 0x00ff00ffu;
    } else if constexpr (W == weight_u8) {
        a[0] = q & 0x07f807f8u;
        a[1] = rotate_right(q, 8) & 0x07f807f8u;
    } else if constexpr (T == act_bf16) { /* e4m3: sign 15, magnitude 10..4 */
        a[0] = q & 0x87f087f0u;
        a[1] = (rotate_left(q, 8) & 0x07700770u) | (rotate_left(q, 4) & 0x80808080u);
    } else {
        a[0] = widen_low<act_e4m3>(q);
        a[1] = widen_high<act_e4m3>(q);
    }
}

template <act_type T, weight_type W>
HM_DEV void dequant_step_16(const u32 *words, const dequant_terms &terms, u32 *a) {
    if constexpr (W == weight_e2m1) {
        place_e2m1<T>(words[0], a);
    } else {
        place_pair<T, W>(words[0], a);
        place_pair<T, W>(words[1], a + 2);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const u32 s = i & 1 ? terms.odd_s : terms.even_s, c = i & 1 ? terms.odd_c : terms.even_c;
        a[i] = operand_format<T, W>::addend == 0 ? mul2<T>(a[i], s) : fma2<T>(a[i], s, c);
    }
}

/* ---- to 8 bits: an even and an odd register out of their word ---- */

template <act_type T, weight_type W, scale_type S>
HM_DEV void dequant_pair_8(u32 q, const dequant_terms &terms, u32 *a) {
    if constexpr (T == act_s8) { /* u4 */
        a[0] = q & 0xf0f0f0f0u;
        a[1] = (q << 4) & 0xf0f0f0f0u;
    } else if constexpr (W == weight_u4) {
        const u32 r = rotate_left(q, 4); /* mask, mask, shift and add in one: 7 with the rotate */
        a[0] = (q & 0x87878787u) + ((q & 0x80808080u) >> 7);
        a[1] = (r & 0x87878787u) + ((r & 0x80808080u) >> 7);
    } else if constexpr (S == scale_mx) {
        a[0] = permute_bytes(terms.even_s, terms.even_c, q & 0x7777u) | (q & 0x80808080u);
        a[1] =
            permute_bytes(terms.odd_s, terms.odd_c, (q >> 16) & 0x7777u) | ((q << 4) & 0x80808080u);
    } else {
        a[0] = (q << 2) & 0x9c9c9c9cu;
        a[1] = (q & 0x98989898u) | (rotate_left(q, 4) & 0x04040404u);
    }
}

/*
 * The words of a step (layout.cuh) to its A fragment: value * factor, times r where fold_scales has
 * put it into the terms.
 */
template <act_type T, weight_type W, scale_type S, zero_mode Z>
HM_DEV void dequant_step(const u32 *words, const dequant_terms &terms, u32 *a) {
    if constexpr (T == act_bf16 || T == act_f16) {
        if constexpr (W == weight_u4)
            dequant_word_folded<T, Z>(words[0], terms, a);
        else
            dequant_step_16<T, W>(words, terms, a);
    } else if constexpr (W == weight_u4 || W == weight_e2m1) {
        dequant_pair_8<T, W, S>(words[0], terms, a);
        dequant_pair_8<T, W, S>(words[1], terms, a + 2);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = words[i];
    }
}

/* ---- 8-bit targets as f16, exactly: mma.sync emulates fp8 on sm_90, and badly ---- */

/*
 * A k32 step becomes two k16 steps, one for registers 0, 1 and one for 2, 3 (rows g and g + 8).
 * In each the k pair 2t, 2t + 1 of the fragment is two of the four bytes of a register and the
 * pair 2t + 8, 2t + 9 the other two, in operands A and B alike: k is permuted, which no sum
 * notices. The two are bytes 0, 1 and 2, 3; with u4, which needs no conversion, 0, 2 and 1, 3.
 */
HM_DEV void widen_rows(const u32 *pair, u32 *a) {
    a[0] = widen_low<act_e4m3>(pair[0]);
    a[1] = widen_low<act_e4m3>(pair[1]);
    a[2] = widen_high<act_e4m3>(pair[0]);
    a[3] = widen_high<act_e4m3>(pair[1]);
}

/*
 * u4: sign s and index i mean v = i or -i - 1, so v + 1/2 = +-(i + 1/2) is a sign and a magnitude:
 * s at bit 15, i at bits 10..8 and a one below it are (v + 1/2) * 2^-16 in f16, linear below 2^11.
 * The half is taken off the sums: half_offset is operand A of what it adds to them, negated.
 */
enum : u32 { half_offset = 0x80808080u };
HM_DEV float half_sum_factor() { return 128.0f; } /* from 2^-16 to the 2^-9 of rowmul */
HM_DEV u32 widen_u4(u32 bits) { return and_or(bits, 0x87008700u, 0x00800080u); }

/* The words of a k32 step to the A fragments of its two k16 steps. */
template <weight_type W, scale_type S>
HM_DEV void dequant_step_wide(const u32 *words, const dequant_terms &terms, u32 (*a)[4]) {
    if constexpr (W == weight_u4) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            a[i][0] = widen_u4(words[i] << 8);
            a[i][1] = widen_u4(rotate_left(words[i], 12));
            a[i][2] = widen_u4(words[i]);
            a[i][3] = widen_u4(words[i] << 4);
        }
    } else {
        u32 bytes[4];
        dequant_step<act_e4m3, W, S, zero_none>(words, terms, bytes);
        widen_rows(bytes, a[0]);
        widen_rows(bytes + 2, a[1]);
    }
}

/* A word of activations to b0 and b1. */
template <act_type T, weight_type W> HM_DEV void widen_tokens(u32 bytes, u32 *b) {
    if constexpr (W == weight_u4)
        bytes = permute_bytes(bytes, bytes, 0x3120);
    b[0] = widen_low<T>(bytes);
    b[1] = widen_high<T>(bytes);
}

/* Word j of the 16 bytes of a lane; j is a constant after unrolling. */
template <class V> HM_DEV u32 word_of(const V &codes, int j) {
    return j == 0 ? codes.x : j == 1 ? codes.y : j == 2 ? codes.z : codes.w;
}
