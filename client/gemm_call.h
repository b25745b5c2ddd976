/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_call.h - one launch of a loaded kernel: arguments checked, parameter
 * block and tensor maps filled in, cuLaunchKernelEx called.
 *
 * Knows nothing of kernels' origin; gemm.c and the programs of tests/gpu use
 * it. Grid, shared memory and cluster come from outside (jit/launch).
 */
#ifndef HM_CLIENT_GEMM_CALL_H
#define HM_CLIENT_GEMM_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <humming/gemm.h>

#include "client/driver.h"
#include "client/gemm_params.h"
#include "proto/error.h"

/* Encoding a tensor map takes about a microsecond (KERNELS.md App. A 12); a
 * model's layers reuse few buffers. */
#define HM_GEMM_MAPS 16

/* A tensor map and what it was made from; address 0 = empty. */
struct hm_gemm_map {
	uint64_t address;
	uint32_t rows, columns, stride, box_rows;
	uint32_t type; /* HUMMING_TYPE_ of the elements */
	struct hm_tensor_map map;
};

/* The last maps made; zeroed = empty. */
struct hm_gemm_maps {
	uint32_t next; /* to be replaced */
	struct hm_gemm_map items[HM_GEMM_MAPS];
};

/* A kernel ready to be launched on one kind of GEMM. */
struct hm_gemm_call {
	const struct hm_driver *driver;
	void *function;
	uint32_t a_type;     /* HUMMING_TYPE_BF16, F16, E4M3, E5M2 or SINT(8) */
	uint32_t c_type;     /* HUMMING_TYPE_BF16 or F16 */
	uint32_t act_scale;  /* HUMMING_ACT_ of 8-bit activations, else 0 */
	uint32_t act_layout; /* of HUMMING_ACT_GROUP, as in a request */
	uint32_t n, k;
	struct humming_launch launch; /* for the m of the arguments */
	uint64_t workspace;        /* where the arguments give none; 0 = none */
	struct hm_gemm_maps *maps; /* borrowed; one thread at a time */
};

/* Load `image` into the current context and find `entry`; the function may
 * then use all of the device's shared memory. smem_bytes is the device's limit
 * per CTA. Returns HM_OK or hm_driver_error's codes; nothing stays loaded on
 * failure. */
int hm_gemm_load(const struct hm_driver *driver, const void *image,
    const char *entry, uint32_t smem_bytes, void **module_out,
    void **function_out);

/**
 * cuLaunchKernelEx for every kernel of the GPU part.
 *
 * launch      grid, CTA, cluster and shared memory; its pdl is not looked at
 * pdl         with programmatic dependent launch
 * parameters  the kernel's one parameter; the driver copies it
 * stream      NULL = the default stream
 *
 * Returns hm_driver_error's codes, reason in hm_gemm_errbuf.
 */
int hm_gemm_enqueue(const struct hm_driver *driver, void *function,
    const struct humming_launch *launch, bool pdl, void *parameters,
    void *stream);

/**
 * Check a caller's arguments and fill in the defaults of lda, ldc and the steps
 * of a_scale.
 *
 * call      types, n and k of it are looked at
 * args_out  a whole struct of ours; m may be 0, then nothing else is checked
 *
 * Returns HM_OK or HM_E_INVALID, reason in hm_gemm_errbuf.
 */
int hm_gemm_check(const struct hm_gemm_call *call,
    const struct humming_gemm_args *args, struct humming_gemm_args *args_out);

/* Launch with arguments that went through hm_gemm_check, m > 0. */
int hm_gemm_call(const struct hm_gemm_call *call,
    const struct humming_gemm_args *args, void *stream);

#endif
