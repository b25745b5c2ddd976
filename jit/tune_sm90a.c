/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_sm90a.c - members of kernels S and H for Hopper, and what they cost.
 *
 * step_ns and the costs are what plan_sm90a.c's model of times is made of,
 * fitted to measurements on one H200 (KERNELS_MEASURED.md; tests/gpu/README.md,
 * "Members compared"). Prefetch, policy and depth are the best configurations
 * of prototypes/configs.txt.
 *
 * Left out, because another row is as fast within the spread of the
 * measurements and each row is a kernel more in every model: 256 x 152, 16
 * warps with a ring of 3 (4096 x 8192, M = 1: 6.7 us against 6.9). 176 and 184
 * tokens with two slices break the wgmma pipeline (C7512), as more than 88 do
 * with sums on two levels. Integers take multiples of 16 tokens alone.
 */
#include "jit/tune.h"

const struct hm_tune_stream hm_tune_stream[HM_TUNE_N_STREAM] = {
    [HM_TUNE_STREAM_DEEP] = {.ring = 3, .warps = 8, .warps_k = 8},
    [HM_TUNE_STREAM_WIDE] = {.ring = 2, .warps = 16, .warps_k = 16},
    [HM_TUNE_STREAM_PLAIN] = {.ring = 2, .warps = 8, .warps_k = 8},
    [HM_TUNE_STREAM_SETS] = {.ring = 2, .warps = 8, .warps_k = 4},
};

static const struct hm_tune_wgmma tune_wide[] = {
    /* tokens, slices, stages, halves, steps, split, sets, prefetch, evict,
     * ns */
    {16, 1, 12, 2, 4, 1, 2, 4, 1, 275},
    {16, 2, 10, 2, 4, 0, 1, 2, 1, 540},
    {32, 1, 12, 2, 4, 1, 2, 4, 1, 320},
    {32, 2, 8, 2, 4, 0, 1, 2, 1, 660},
    {64, 1, 8, 2, 4, 1, 2, 1, 1, 425},
    {64, 2, 6, 2, 4, 0, 1, 2, 1, 900},
    {96, 1, 6, 2, 4, 1, 1, 1, 1, 555},
    {128, 1, 5, 2, 4, 1, 1, 1, 1, 685},
    {128, 2, 7, 1, 2, 0, 1, 0, 0, 1370},
    {256, 1, 4, 1, 1, 0, 1, 0, 0, 1270},
    {256, 1, 4, 1, 1, 1, 1, 0, 0, 1340},
};

static const struct hm_tune_wgmma tune_one_level[] = {
    {16, 1, 12, 2, 4, 1, 2, 4, 1, 225},
    {16, 2, 10, 2, 4, 0, 1, 2, 1, 420},
    {32, 1, 12, 2, 4, 1, 2, 4, 1, 255},
    {32, 2, 8, 2, 4, 0, 1, 2, 1, 450},
    {64, 1, 12, 2, 4, 1, 2, 1, 1, 285},
    {64, 2, 8, 2, 4, 0, 1, 2, 1, 540},
    {96, 1, 9, 2, 4, 1, 1, 1, 1, 335},
    {128, 1, 9, 2, 4, 1, 1, 1, 1, 370},
    {128, 2, 5, 2, 1, 0, 1, 0, 0, 740},
    {256, 1, 3, 2, 1, 0, 1, 0, 0, 630},
    {256, 1, 4, 2, 1, 1, 1, 0, 0, 680},
};

static const struct hm_tune_wgmma tune_two_level[] = {
    {16, 1, 12, 2, 4, 1, 2, 4, 1, 245},
    {16, 2, 10, 2, 4, 0, 1, 2, 1, 440},
    {32, 1, 12, 2, 4, 1, 2, 4, 1, 270},
    {32, 2, 8, 2, 4, 0, 1, 2, 1, 490},
    {64, 1, 12, 2, 2, 1, 1, 1, 1, 375},
    {64, 2, 8, 2, 4, 0, 1, 2, 1, 650},
    {96, 1, 9, 2, 2, 1, 1, 1, 1, 445},
    {128, 1, 7, 2, 4, 0, 1, 0, 0, 505},
    {128, 1, 9, 2, 4, 1, 1, 2, 1, 520},
    {176, 1, 5, 2, 2, 0, 1, 0, 0, 640},
    {192, 1, 5, 2, 2, 0, 1, 0, 0, 690},
};

/* Pieces of a shared tile, through L2: one CTA writes, one reads. */
#define SHARE_GBS 40

static const struct hm_tune_costs costs = {
    .stream_ns = 1800,
    .stream_cluster_ns = 500,
    .stream_gbs = 4700,
    .stream_sm_gbs = 60,
    .stream_act_gbs = 6500,
    .stream_widen_gbs = 4000,
    .hbm_gbs = 4500,
    .l2_gbs = 8000,
    .tile_sm_gbs = 42,
    .split_ns = 2200,
    .cluster_ns = 1300,
    .persistent_ns = 2500,
    .tile_ns = 1000,
    .share_ns = 3000,
    .share_gbs = SHARE_GBS,
};

#define ROWS(table) (table), sizeof(table) / sizeof((table)[0])

/* Percent: u4, u8, e2m1, e4m3 beside floats, then beside integers. */
const struct hm_tune_table hm_tune_sm90a[HM_TUNE_N_CLASSES] = {
    [HM_TUNE_WIDE] = {ROWS(tune_wide), &costs, 790,
	{{100, 125, 100, 125}, {0, 0, 0, 0}}},
    [HM_TUNE_ONE_LEVEL] = {ROWS(tune_one_level), &costs, 1650,
	{{130, 0, 112, 120}, {100, 120, 0, 0}}},
    [HM_TUNE_TWO_LEVEL] = {ROWS(tune_two_level), &costs, 1250,
	{{100, 0, 100, 110}, {90, 110, 0, 0}}},
};
