/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver_abi.c - client/driver.h against cuda.h, at compile time.
 *
 * The library declares the few driver structs and numbers that it uses by
 * itself; where cuda.h is at hand they are compared with the original.
 */
#include <cuda.h>
#include <stddef.h>

#include "client/driver.h"
#include "client/gemm_params.h"

#define SAME_PLACE(ours, our_field, theirs, their_field)                       \
	_Static_assert(offsetof(ours, our_field) ==                            \
			       offsetof(theirs, their_field) &&                \
			   sizeof(((ours *)0)->our_field) ==                   \
			       sizeof(((theirs *)0)->their_field),             \
	    #their_field)
#define SAME_NUMBER(ours, theirs)                                              \
	_Static_assert((int)(ours) == (int)(theirs), #theirs)

_Static_assert(sizeof(struct hm_cuda_launch) == sizeof(CUlaunchConfig), "size");
SAME_PLACE(struct hm_cuda_launch, grid_x, CUlaunchConfig, gridDimX);
SAME_PLACE(struct hm_cuda_launch, grid_y, CUlaunchConfig, gridDimY);
SAME_PLACE(struct hm_cuda_launch, grid_z, CUlaunchConfig, gridDimZ);
SAME_PLACE(struct hm_cuda_launch, block_x, CUlaunchConfig, blockDimX);
SAME_PLACE(struct hm_cuda_launch, block_y, CUlaunchConfig, blockDimY);
SAME_PLACE(struct hm_cuda_launch, block_z, CUlaunchConfig, blockDimZ);
SAME_PLACE(struct hm_cuda_launch, smem_bytes, CUlaunchConfig, sharedMemBytes);
SAME_PLACE(struct hm_cuda_launch, stream, CUlaunchConfig, hStream);
SAME_PLACE(struct hm_cuda_launch, attributes, CUlaunchConfig, attrs);
SAME_PLACE(struct hm_cuda_launch, n_attributes, CUlaunchConfig, numAttrs);

_Static_assert(sizeof(struct hm_cuda_attribute) == sizeof(CUlaunchAttribute),
    "size");
SAME_PLACE(struct hm_cuda_attribute, id, CUlaunchAttribute, id);
SAME_PLACE(struct hm_cuda_attribute, value, CUlaunchAttribute, value);
SAME_PLACE(struct hm_cuda_attribute, value.cluster.x, CUlaunchAttribute,
    value.clusterDim.x);
SAME_PLACE(struct hm_cuda_attribute, value.cluster.z, CUlaunchAttribute,
    value.clusterDim.z);
SAME_PLACE(struct hm_cuda_attribute, value.allowed, CUlaunchAttribute,
    value.programmaticStreamSerializationAllowed);

_Static_assert(sizeof(struct hm_tensor_map) == sizeof(CUtensorMap), "size");
_Static_assert(sizeof(CUdeviceptr) == sizeof(uint64_t), "address");
_Static_assert(sizeof(CUdevice) == sizeof(int), "device");
_Static_assert(sizeof(CUresult) == sizeof(int), "result");

SAME_NUMBER(HM_CUDA_DEVICE_SMS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_NUMBER(HM_CUDA_DEVICE_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME_NUMBER(HM_CUDA_DEVICE_CC_MAJOR,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_NUMBER(HM_CUDA_DEVICE_CC_MINOR,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_NUMBER(HM_CUDA_DEVICE_SMEM_OPTIN,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_NUMBER(HM_CUDA_FUNCTION_STATIC_SMEM, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME_NUMBER(HM_CUDA_FUNCTION_DYNAMIC_SMEM,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_NUMBER(HM_CUDA_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME_NUMBER(HM_CUDA_LAUNCH_PDL,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME_NUMBER(HM_CUDA_TENSOR_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME_NUMBER(HM_CUDA_TENSOR_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME_NUMBER(HM_CUDA_TENSOR_SWIZZLE_128B, CU_TENSOR_MAP_SWIZZLE_128B);
SAME_NUMBER(HM_CUDA_TENSOR_PROMOTION_256B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME_NUMBER(HM_CUDA_TENSOR_INTERLEAVE_NONE, CU_TENSOR_MAP_INTERLEAVE_NONE);
SAME_NUMBER(HM_CUDA_TENSOR_FILL_ZERO, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
