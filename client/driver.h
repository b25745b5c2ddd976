/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - the CUDA driver, found at run time.
 *
 * Own declarations of the few functions and structs of libcuda.so.1 that are
 * used, so that nothing here needs cuda.h to build; tests/gpu/driver_abi.c
 * compares them with cuda.h where there is one. Handles are plain pointers,
 * device addresses plain numbers, results plain ints (0 = success).
 */
#ifndef HM_CLIENT_DRIVER_H
#define HM_CLIENT_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

/* CUdevice_attribute */
#define HM_CUDA_DEVICE_SMS        16
#define HM_CUDA_DEVICE_L2_BYTES   38
#define HM_CUDA_DEVICE_CC_MAJOR   75
#define HM_CUDA_DEVICE_CC_MINOR   76
#define HM_CUDA_DEVICE_SMEM_OPTIN 97

/* CUfunction_attribute */
#define HM_CUDA_FUNCTION_STATIC_SMEM  1
#define HM_CUDA_FUNCTION_DYNAMIC_SMEM 8

/* CUlaunchAttributeID */
#define HM_CUDA_LAUNCH_CLUSTER 4u
#define HM_CUDA_LAUNCH_PDL     6u

/* CUtensorMapDataType and the other enums of cuTensorMapEncodeTiled */
#define HM_CUDA_TENSOR_U8              0
#define HM_CUDA_TENSOR_F16             6
#define HM_CUDA_TENSOR_BF16            9
#define HM_CUDA_TENSOR_SWIZZLE_128B    3
#define HM_CUDA_TENSOR_PROMOTION_256B  3
#define HM_CUDA_TENSOR_INTERLEAVE_NONE 0
#define HM_CUDA_TENSOR_FILL_ZERO       0

/* CUlaunchAttribute */
struct hm_cuda_attribute {
	uint32_t id;
	uint32_t unused;
	union {
		uint32_t words[16];
		struct {
			uint32_t x, y, z;
		} cluster;
		int32_t allowed;
	} value;
};

/* CUlaunchConfig */
struct hm_cuda_launch {
	uint32_t grid_x, grid_y, grid_z;
	uint32_t block_x, block_y, block_z;
	uint32_t smem_bytes;
	void *stream;
	struct hm_cuda_attribute *attributes;
	uint32_t n_attributes;
};

struct hm_driver {
	int (*init)(unsigned int flags);
	int (*driver_version)(int *version);
	int (*error_name)(int result, const char **text);
	int (*error_text)(int result, const char **text);
	int (*device_count)(int *count);
	int (*device_get)(int *device, int ordinal);
	int (*device_name)(char *name, int size, int device);
	int (*device_attribute)(int *value, int attribute, int device);
	int (*context_retain)(void **context, int device);
	int (*context_release)(int device);
	int (*context_get)(void **context);
	int (*context_set)(void *context);
	int (*context_device)(int *device);
	int (*module_load)(void **module, const void *image);
	int (*module_unload)(void *module);
	int (*module_function)(void **function, void *module, const char *name);
	int (*function_get)(int *value, int attribute, void *function);
	int (*function_set)(void *function, int attribute, int value);
	int (*launch)(const struct hm_cuda_launch *launch, void *function,
	    void **params, void **extra);
	/* NULL in drivers before CUDA 12 */
	int (*tensor_map)(void *map, int type, uint32_t rank, void *address,
	    const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
	    const uint32_t *steps, int interleave, int swizzle, int promotion,
	    int fill);
	/* for workspaces; tests and tools need the rest besides */
	int (*memory_alloc)(uint64_t *address, size_t n_bytes);
	int (*memory_free)(uint64_t address);
	int (*memory_set)(uint64_t address, uint32_t word, size_t n_words);
	int (*copy_to_device)(uint64_t to, const void *from, size_t n_bytes);
	int (*copy_to_host)(void *to, uint64_t from, size_t n_bytes);
	int (*stream_synchronize)(void *stream);
};

/**
 * The driver, loaded and initialised once per process and never unloaded.
 *
 * driver_out  static
 *
 * Any thread. Returns HM_OK; HM_E_UNAVAILABLE (no libcuda.so.1, or it finds no
 * GPU), HM_E_UNSUPPORTED (it lacks a function we need) or HM_E_INTERNAL, reason
 * in errbuf.
 */
int hm_driver_get(const struct hm_driver **driver_out,
    struct hm_errbuf *errbuf);

/**
 * A driver's result as one of our codes.
 *
 * what    the call that was made, for errbuf
 * result  0 gives HM_OK and leaves errbuf alone
 */
int hm_driver_error(const struct hm_driver *driver, const char *what,
    int result, struct hm_errbuf *errbuf);

#endif
