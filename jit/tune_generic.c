/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_generic.c - members of kernel G, and the targets that exist.
 *
 * G's tiles are KERNELS.md 2.3, not yet measured: warps split the rows first,
 * so that a weight is dequantized once, and K when there are few tokens. Shared
 * memory stays below the 99 KB of sm_86, sm_89 and sm_120.
 *
 * SM counts are those of the boards sold; the first is what a request without
 * sms is planned for.
 */
#include "jit/tune.h"

const struct hm_tune_mma hm_tune_mma[HM_TUNE_N_MMA] = {
    /* tokens, rows, stages, warps along rows, tokens, K */
    [HM_TUNE_MMA_16] = {16, 64, 6, 4, 1, 2},
    [HM_TUNE_MMA_32] = {32, 64, 6, 4, 1, 1},
    [HM_TUNE_MMA_64] = {64, 128, 4, 4, 1, 1},
    [HM_TUNE_MMA_128] = {128, 128, 4, 4, 2, 1},
};

const struct hm_tune_target hm_tune_targets[] = {
    {80, "", {108, 56}},                     /* A100; A30 */
    {86, "", {84, 82, 72, 68}},              /* A40, A6000; 3090; A10; 3080 */
    {87, "", {16, 14, 8}},                   /* Orin */
    {89, "", {142, 128, 76, 58}},            /* L40S; 4090; 4080; L4 */
    {90, "a", {132, 114, 78}},               /* H100, H200; H100 PCIe; H20 */
    {100, "af", {148, 152}},                 /* B200; GB200 */
    {103, "af", {148, 152, 160}},            /* B300; GB300 */
    {110, "af", {20, 12}},                   /* Thor */
    {120, "af", {188, 170, 84, 70, 48, 36}}, /* RTX PRO 6000; 5090 ... 5060 */
    {121, "af", {48}},                       /* GB10 */
};

const size_t hm_tune_n_targets =
    sizeof(hm_tune_targets) / sizeof(hm_tune_targets[0]);
