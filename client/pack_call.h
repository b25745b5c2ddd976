/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack_call.h - one launch of the packing kernel: arguments checked, parameter
 * block filled in, cuLaunchKernelEx called.
 *
 * Knows nothing of the kernel's origin; packer.c and tests/gpu use it.
 */
#ifndef HM_CLIENT_PACK_CALL_H
#define HM_CLIENT_PACK_CALL_H

#include <stdint.h>

#include <humming/gemm.h>

#include "client/driver.h"
#include "client/weight.h"
#include "proto/error.h"

/* A packing kernel ready to be launched on a matrix. */
struct hm_pack_call {
	const struct hm_driver *driver;
	void *function;
	struct hm_weight weight;      /* by hm_weight_describe; pointers are
	                               * device memory */
	struct humming_launch launch; /* for its n and k */
};

/**
 * Check pointers and launch.
 *
 * Returns HM_OK, HM_E_INVALID or hm_driver_error's codes, reason in
 * hm_gemm_errbuf.
 */
int hm_pack_call(const struct hm_pack_call *call,
    const struct humming_packer_args *args, void *stream);

#endif
