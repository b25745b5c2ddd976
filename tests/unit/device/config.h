/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - a fixed configuration of family S, for host tests that only want
 * what prelude.cuh declares; real ones are written by jit/emit.
 */
#define HM_ACT         0
#define HM_ACT_SCALE   0
#define HM_CHUNK_BYTES 4224
#define HM_CTAS_PER_SM 1
#define HM_FAMILY      1
#define HM_GROUP       128
#define HM_KERNEL_ABI  2
#define HM_OUT         0
#define HM_PACK_LAYOUT 1
#define HM_RING        3
#define HM_SCALE       1
#define HM_THREADS     256
#define HM_TOKEN_TILES 1
#define HM_WARPS       8
#define HM_WARPS_K     8
#define HM_WEIGHT      0
#define HM_ZERO        0
