/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - stands in for the generated one of quant.cu. HM_ACT, HM_OUT,
 * HM_ACT_SCALE and HM_EPI come from the command line.
 */
#pragma once

#define HM_FAMILY     5
#define HM_KERNEL_ABI 2
#define HM_THREADS    256
