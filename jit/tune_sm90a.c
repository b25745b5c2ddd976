/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_sm90a.c - members of kernels S and H for Hopper.
 *
 * From KERNELS_MEASURED.md (one H200, int4 x bf16, groups of 128) and the best
 * configurations in prototypes/configs.txt. step_ns is what is left of a
 * measured time per 128 k when about 3.5 us for start, sum and output are taken
 * off: M = 16: 13.4 us, 32 steps; M = 256: 46.9 us, 32 steps; M = 4096: 669 us,
 * 8 waves of 64 steps; M = 8192: 1310 us, 12 waves of 64 steps.
 *
 * Left out, because another row is as fast within the spread of the
 * measurements and each row is a kernel more in every model: 256 x 128
 * persistent (M = 512: 88.2 us; 128 x 256 needs as many waves of shorter
 * tiles), 256 x 152, 16 warps with a ring of 3 (4096 x 8192, M = 1: 6.7 us
 * against 6.9). 176 and 184 tokens with two slices break the wgmma pipeline
 * (C7512).
 */
#include "jit/tune.h"

const struct hm_tune_stream hm_tune_stream[HM_TUNE_N_STREAM] = {
    [HM_TUNE_STREAM_DEEP] = {.ring = 3, .warps = 8, .warps_k = 8},
    [HM_TUNE_STREAM_WIDE] = {.ring = 2, .warps = 16, .warps_k = 16},
    [HM_TUNE_STREAM_PLAIN] = {.ring = 2, .warps = 8, .warps_k = 8},
    [HM_TUNE_STREAM_SETS] = {.ring = 2, .warps = 8, .warps_k = 4},
};

const struct hm_tune_wgmma hm_tune_wgmma[] = {
    /* tokens, slices, stages, halves, steps, split, prefetch, evict, ns */
    {16, 1, 12, 2, 4, 1, 2, 1, 310},
    {32, 1, 12, 2, 4, 1, 2, 1, 350},
    {64, 1, 9, 2, 4, 1, 1, 1, 435},
    {96, 1, 6, 2, 4, 1, 1, 1, 550},
    {128, 1, 5, 2, 4, 1, 1, 1, 690},
    {128, 2, 9, 1, 2, 1, 0, 0, 1300},
    {168, 2, 6, 1, 1, 0, 0, 0, 1670},
    {256, 1, 4, 1, 1, 0, 0, 0, 1270},
};

const size_t hm_tune_n_wgmma = sizeof(hm_tune_wgmma) / sizeof(hm_tune_wgmma[0]);
