/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_sm90a_rows.c - members measured to be best for one N and K.
 *
 * plan_sm90a.c's model of times is right to some percent; where that is not
 * enough, the fastest member of a measurement stands here. A row is
 *
 *     {class, weight bits, n, k, m_lo, m_hi, member, cluster, share}
 *
 * by class, weight bits, n, k, m_lo, without overlap; ranges of M that no row
 * covers are the model's. A member is one of tune_sm90a.c of that class, so
 * that a row never adds a kernel to the build. It is used with 132 SMs, unless
 * the request is deterministic, and if its shared memory fits. One H200.
 */
#include "jit/tune.h"

const struct hm_tune_row hm_tune_rows[] = {
    {HM_TUNE_WIDE, 4, 8192, 8192, 193, 256, HM_TUNE_H(256, 1, 1), 2, 0},
    /* KERNELS_MEASURED.md 4: two sets of warps, short K. */
    {HM_TUNE_WIDE, 4, 32768, 1024, 1, 2, HM_TUNE_S(HM_TUNE_STREAM_PLAIN), 1, 0},
    {HM_TUNE_WIDE, 4, 32768, 1024, 3, 8, HM_TUNE_S(HM_TUNE_STREAM_SETS), 1, 0},
};

const size_t hm_tune_n_rows = sizeof(hm_tune_rows) / sizeof(hm_tune_rows[0]);
