/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dequant.cuh - four-bit codes to bf16 or f16 fragments, nothing else.
 *
 * A small unsigned integer in the low bits of a float IS a float: subnormals and the first binade
 * share one spacing, so the bits u mean u * 2^-133 in bf16 (u < 256) and u * 2^-24 in f16
 * (u < 2048). Codes at lane bit d mean 2^d times that. One fma then removes the offset and applies
 * a scale, with one rounding:
 *
 *     fma(code, S, C)    S = r * 2^(127 - d) (bf16) or r * 2^(18 - d) (f16),  C = -8 * r * 2^-6
 *                        = (u - 8) * r * 2^-6
 *
 * The 2^-6 keeps 2^(127 - d) and 2^(18 - d) inside the types; rowmul carries 2^6 back. r <= 1 and
 * 8 is a power of two, so the product and C are exact (f16: C while |r| >= 2^-11). Derived in
 * KERNELS.md 4.1; checked for every code, position and scale by tests/kernels/host_dequant.cpp and
 * on the device (KERNELS_MEASURED.md 1).
 *
 * bf16 word (bits of register i, half h at 16h + 4i; layout.cuh)
 *     & 0x000f000f  register 0 at d = 0         & 0x00f000f0  register 1 at d = 4
 *     a shift right by 8 brings registers 2 and 3 to the same places (d < 8 keeps u << d < 256)
 *
 * f16 word = bf16 word rotated left by 3, so that codes sit as high as the linear range allows
 * and C keeps most of its precision
 *     & 0x00780078  register 0 at d = 3         & 0x07800780  register 1 at d = 7
 *     a ROTATE right by 8 for registers 2 and 3: register 3 of half 1 lies in bits 31, 2..0
 *
 * Even registers are row g, odd ones row g + 8 of a row tile, so a row has one multiplier only.
 *
 * Zero points: value = (u - z) * r. With an integer z (0..255) the difference times 2^-6 is exact
 * in both types; a float z costs one rounding. r is applied afterwards, by a second instruction
 * (kernels H, G) or in fp32 by the caller (kernel S). Tried on paper and left: r * z folded into
 * C, whose rounding is worse than that of the difference whenever u is near z.
 *
 * cost per 8 weights: 4 lop3, 1 shift, 4 fma; with a zero point and a folded scale 4 more fma
 */
#pragma once
#include "layout.cuh"
#include "prelude.cuh"
#include "ptx.cuh"

/* Constants of a type, both halves of a register alike. */
template <act_type T> struct code_format;
template <> struct code_format<act_bf16> {
    enum : u32 {
        even_mask = 0x000f000fu,
        odd_mask = 0x00f000f0u,
        even_unit = 0x7f007f00u,     /* 2^127 */
        odd_unit = 0x7d007d00u,      /* 2^123 */
        minus_eighth = 0xbe00be00u,  /* -8 * 2^-6 */
        zero_shift = 0,              /* integer zero points at d = 0 */
        zero_unit = 0xff00ff00u,     /* -2^127 */
        minus_2_pow_6 = 0xbc80bc80u, /* -2^-6 */
    };
};
template <> struct code_format<act_f16> {
    enum : u32 {
        even_mask = 0x00780078u,
        odd_mask = 0x07800780u,
        even_unit = 0x78007800u,     /* 2^15 */
        odd_unit = 0x68006800u,      /* 2^11 */
        minus_eighth = 0xb000b000u,  /* -8 * 2^-6 */
        zero_shift = 3,              /* integer zero points at d = 3 */
        zero_unit = 0xf800f800u,     /* -2^15 */
        minus_2_pow_6 = 0xa400a400u, /* -2^-6 */
    };
};

/* What one lane needs to dequantize one row tile of one group; names after the formula above. */
struct dequant_terms {
    u32 even_s, even_c; /* row g */
    u32 odd_s, odd_c;   /* row g + 8 */
    u32 even_r, odd_r;  /* scale of a second multiplication; unused without zero points */
};

/* The low or the high 16 bits of a word in both halves of a register. */
HM_DEV u32 twice_low(u32 pair) { return permute_bytes(pair, pair, 0x1010); }
HM_DEV u32 twice_high(u32 pair) { return permute_bytes(pair, pair, 0x3232); }

/* Terms of the plain integers (u - 8) * 2^-6: kernel S, and channel scales everywhere. */
template <act_type T> HM_DEV dequant_terms integer_terms() {
    using f = code_format<T>;
    return {f::even_unit, f::minus_eighth, f::odd_unit, f::minus_eighth, 0, 0};
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

/* Fold the scales of rows g and g + 8 (low, high half) into the terms: kernels H and G. */
template <act_type T, zero_mode Z> HM_DEV void fold_scales(dequant_terms &terms, u32 pair) {
    using f = code_format<T>;
    const u32 even = twice_low(pair), odd = twice_high(pair);
    if constexpr (Z == zero_none) {
        terms.even_s = mul2<T>(even, f::even_unit);
        terms.even_c = mul2<T>(even, f::minus_eighth);
        terms.odd_s = mul2<T>(odd, f::odd_unit);
        terms.odd_c = mul2<T>(odd, f::minus_eighth);
    } else {
        terms.even_r = even;
        terms.odd_r = odd;
    }
}

/* One word to the A fragment of one k16 step: (u - zero) * 2^-6, times what even_s, odd_s hold. */
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

/* Word j of the 16 bytes of a lane; j is a constant after unrolling. */
template <class V> HM_DEV u32 word_of(const V &codes, int j) {
    return j == 0 ? codes.x : j == 1 ? codes.y : j == 2 ? codes.z : codes.w;
}
