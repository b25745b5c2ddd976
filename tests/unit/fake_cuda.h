/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_cuda.h - a libcuda.so.1 that computes nothing and remembers everything.
 *
 * One device that looks like an H200, contexts that are mere numbers, modules
 * and functions that are the images they came from. Linked into a test, it is
 * what dlopen("libcuda.so.1") finds.
 */
#ifndef HM_TESTS_FAKE_CUDA_H
#define HM_TESTS_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "client/driver.h"
#include "client/gemm_params.h"
#include "client/pack_params.h"
#include "client/quant_params.h"

struct fake_cuda {
	/* what the test sets */
	int no_device;   /* cuDeviceGet fails */
	int load_result; /* of cuModuleLoadData */
	int no_memory;   /* cuMemAlloc fails */
	int major, minor;
	void *context; /* current; NULL = none */
	int is_pack;   /* launches have pack_params */
	int is_quant;  /* they have quant_params */
	/* what was done */
	uint32_t n_loaded, n_unloaded, n_launches, n_maps;
	uint32_t n_retained, n_released;
	uint32_t n_allocated, n_freed, n_synchronized;
	uint64_t allocated_bytes; /* by the last cuMemAlloc */
	uint64_t set_address;     /* of the last cuMemsetD32 */
	size_t set_words;
	const void *launched; /* image of the function launched last */
	int dynamic_smem;     /* allowed to the function found last */
	struct hm_cuda_launch launch;
	struct hm_cuda_attribute attributes[2];
	struct hm_gemm_params params;
	struct hm_pack_params pack_params;
	struct hm_quant_params quant_params;
};

/* Where cuMemAlloc puts everything. */
#define FAKE_CUDA_MEMORY UINT64_C(0x7000000000)

__attribute__((visibility("default"))) extern struct fake_cuda fake_cuda;

#endif
