/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_params_device.h - what kernels/prelude.cuh says about its parameter
 * block, seen from C.
 */
#ifndef HM_TESTS_GEMM_PARAMS_DEVICE_H
#define HM_TESTS_GEMM_PARAMS_DEVICE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct device_field {
	const char *name;
	size_t offset, size;
};

/* The fields of struct gemm_params; the last has name NULL. */
extern const struct device_field device_fields[];
extern const size_t device_params_bytes, device_params_alignment;
extern const unsigned device_kernel_abi;

#ifdef __cplusplus
}
#endif

#endif
