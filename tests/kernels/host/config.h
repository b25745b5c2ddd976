/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - stands in for the generated one when a host test compiles the
 * device headers. HM_ACT, HM_WEIGHT, HM_SCALE, HM_GROUP and HM_ZERO come from
 * the command line (one program per combination); the rest is any legal
 * configuration of kernel S.
 */
#pragma once

#define HM_FAMILY      1
#define HM_KERNEL_ABI  2
#define HM_PACK_LAYOUT 1
#define HM_THREADS     256
#define HM_TOKEN_TILES 1
#define HM_RING        3
#define HM_WARPS       8
#define HM_WARPS_K     8
#define HM_CTAS_PER_SM 1

#define HM_OUT       (HM_ACT == 1)
#define HM_ACT_SCALE (HM_ACT >= 2)

/* the second term keeps a division by zero away from the unused branch */
#define HM_HOST_DIVISOR    (HM_GROUP + (HM_GROUP == 0))
#define HM_HOST_GROUPS     (HM_GROUP == 0 ? 0 : 128 / HM_HOST_DIVISOR)
#define HM_HOST_SCALE_LINE (HM_SCALE == 3 ? 256 : HM_SCALE >= 4 ? 64 : 128)
#define HM_HOST_ZERO_LINE  (HM_ZERO == 0 ? 0 : HM_ZERO == 1 ? 64 : 128)
#define HM_HOST_CODE_BYTES (HM_WEIGHT % 2 == 0 ? 4096 : 8192)
#define HM_CHUNK_BYTES                                                         \
	((HM_HOST_CODE_BYTES +                                                 \
	     HM_HOST_GROUPS * (HM_HOST_SCALE_LINE + HM_HOST_ZERO_LINE) +       \
	     127) /                                                            \
	    128 * 128)
