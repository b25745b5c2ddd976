/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant.h - one quantization of activations: the format that a request asks
 * for, arguments checked, and the launch.
 *
 * Knows nothing of the kernel's origin; quant.c and tests/gpu use it.
 */
#ifndef HM_CLIENT_QUANT_H
#define HM_CLIENT_QUANT_H

#include <stdbool.h>
#include <stdint.h>

#include <humming/gemm.h>

#include "client/driver.h"
#include "proto/error.h"

#define HM_QUANT_GROUP 128u

/* What a request says, defaults filled in. */
struct hm_quant_format {
	uint32_t a_type;    /* made: HUMMING_TYPE_E4M3, E5M2 or SINT(8) */
	uint32_t c_type;    /* read: HUMMING_TYPE_BF16 or F16 */
	uint32_t act_scale; /* HUMMING_ACT_TOKEN or GROUP */
	bool m_major;       /* default order of the scales of groups */
	bool silu_mul;
};

/* A quantization kernel ready to be launched on a matrix. */
struct hm_quant_call {
	const struct hm_driver *driver;
	void *function;
	struct humming_launch launch; /* for the m and k of the arguments */
};

/**
 * Returns HM_OK, HM_E_INVALID (struct_size) or HM_E_UNSUPPORTED, reason in
 * hm_gemm_errbuf.
 */
int hm_quant_describe(const struct humming_kernel_request *request,
    struct hm_quant_format *format_out);

/**
 * Check a caller's arguments and fill in the defaults of the steps.
 *
 * args_out  a whole struct of ours; m may be 0, then nothing else is checked
 *
 * Returns HM_OK or HM_E_INVALID, reason in hm_gemm_errbuf.
 */
int hm_quant_check(const struct hm_quant_format *format,
    const struct humming_quant_args *args, struct humming_quant_args *args_out);

/* Launch with arguments that went through hm_quant_check, m > 0. */
int hm_quant_call(const struct hm_quant_call *call,
    const struct humming_quant_args *args, void *stream);

#endif
