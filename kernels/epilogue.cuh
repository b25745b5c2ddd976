/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epilogue.cuh - from fp32 sums to the output type.
 *
 *     C[m][n] = round(sum * rowmul[n] + bias[n])       fp32 fma, then one rounding to the type
 *
 * rowmul[n] = f * P[n] for groups (s[n][g] = r[n][g] * P[n]) and f * s[n] for channel scales; f
 * takes back the factor of the format that dequant.cuh lists. Without a bias the addend is +0.
 */
#pragma once
#include "prelude.cuh"
#include "ptx.cuh"

/* Factor and addend of one weight row. */
struct row_terms {
    float factor, addend;
};

HM_DEV float finish(float sum, row_terms row) { return fma1(sum, row.factor, row.addend); }

/* Two neighbouring rows of one token, as one 32-bit store wants them. */
template <act_type T> HM_DEV u32 finish_pair(float x, float y, row_terms rx, row_terms ry) {
    return pack2<T>(finish(x, rx), finish(y, ry));
}
