/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mma.cuh - k16 steps on the tensor cores by mma.sync, over the tiles of one warp.
 *
 * The weights are operand A (16 rows by 16 k, straight from dequant.cuh), the activations operand
 * B (16 k by 8 tokens, straight from ldmatrix), so the accumulators hold C^T: rows are weight
 * rows, columns tokens. wgmma does the same with 64 rows and up to 256 tokens; its instruction is
 * generated for one width (wgmma_shape.h) and its schedule is kernel H's own (wgmma_sums.cuh).
 */
#pragma once
#include "dequant.cuh"
#include "layout.cuh"
#include "prelude.cuh"
#include "ptx.cuh"

/* fp32 sums of row tiles by token tiles; sum[t][r][e] follows layout.cuh, accumulator_row. */
template <int row_tiles, int tiles> struct accumulators { float sum[tiles][row_tiles][4]; };

template <int row_tiles, int tiles> HM_DEV void clear(accumulators<row_tiles, tiles> &acc) {
#pragma unroll
    for (int t = 0; t < tiles; t++)
#pragma unroll
        for (int r = 0; r < row_tiles; r++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                acc.sum[t][r][e] = 0.0f;
}

/* b0 and b1 of a k16 step 0..3 of 64 k, out of the two ldmatrix results b[0..1][0..3] of a tile. */
HM_DEV u32 operand_b(const u32 (&b)[2][4], int step, int i) {
    return b[step >> 1][(step & 1) * 2 + i];
}

/* acc += the k16 step: one row tile against all token tiles. */
template <int row_tiles, int tiles>
HM_DEV void multiply_row_tile(accumulators<row_tiles, tiles> &acc, int row_tile, const u32 (&a)[4],
    const u32 (&b)[tiles][2][4], int step) {
#pragma unroll
    for (int t = 0; t < tiles; t++)
        mma_k16<act>(acc.sum[t][row_tile], a, operand_b(b[t], step, 0), operand_b(b[t], step, 1));
}
