/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_cuda.c - the functions of the CUDA driver API that client/driver.c looks
 * up, with the names and parameters of the real ones.
 */
#include "fake_cuda.h"

#include <stdio.h>
#include <string.h>

#define FAKE_API __attribute__((visibility("default")))

#define SUCCESS        0
#define INVALID_VALUE  1
#define OUT_OF_MEMORY  2
#define INVALID_DEVICE 101

struct fake_cuda fake_cuda = {.major = 9};

/* Declared here, because no header of ours may have these names.
 * NOLINTBEGIN(readability-identifier-naming,readability-function-size,
 * readability-non-const-parameter): the prototypes are NVIDIA's. */
FAKE_API int cuInit(unsigned int flags);
FAKE_API int cuDriverGetVersion(int *version);
FAKE_API int cuGetErrorName(int result, const char **text);
FAKE_API int cuGetErrorString(int result, const char **text);
FAKE_API int cuDeviceGetCount(int *count);
FAKE_API int cuDeviceGet(int *device, int ordinal);
FAKE_API int cuDeviceGetName(char *name, int size, int device);
FAKE_API int cuDeviceGetAttribute(int *value, int attribute, int device);
FAKE_API int cuDevicePrimaryCtxRetain(void **context, int device);
FAKE_API int cuDevicePrimaryCtxRelease_v2(int device);
FAKE_API int cuCtxGetCurrent(void **context);
FAKE_API int cuCtxSetCurrent(void *context);
FAKE_API int cuCtxGetDevice(int *device);
FAKE_API int cuModuleLoadData(void **module, const void *image);
FAKE_API int cuModuleUnload(void *module);
FAKE_API int cuModuleGetFunction(void **function, void *module,
    const char *name);
FAKE_API int cuFuncGetAttribute(int *value, int attribute, void *function);
FAKE_API int cuFuncSetAttribute(void *function, int attribute, int value);
FAKE_API int cuLaunchKernelEx(const struct hm_cuda_launch *launch,
    void *function, void **params, void **extra);
FAKE_API int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank,
    void *address, const uint64_t *sizes, const uint64_t *strides,
    const uint32_t *box, const uint32_t *steps, int interleave, int swizzle,
    int promotion, int fill);
FAKE_API int cuMemAlloc_v2(uint64_t *address, size_t n_bytes);
FAKE_API int cuMemFree_v2(uint64_t address);
FAKE_API int cuMemsetD32_v2(uint64_t address, unsigned int word,
    size_t n_words);
FAKE_API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n_bytes);
FAKE_API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n_bytes);
FAKE_API int cuStreamSynchronize(void *stream);

int
cuInit(unsigned int flags)
{
	return flags == 0 ? SUCCESS : INVALID_VALUE;
}

int
cuDriverGetVersion(int *version)
{
	*version = 13000;
	return SUCCESS;
}

int
cuGetErrorName(int result, const char **text)
{
	(void)result;
	*text = "FAKE_ERROR";
	return SUCCESS;
}

int
cuGetErrorString(int result, const char **text)
{
	(void)result;
	*text = "a fake error";
	return SUCCESS;
}

int
cuDeviceGetCount(int *count)
{
	*count = 1;
	return SUCCESS;
}

int
cuDeviceGet(int *device, int ordinal)
{
	if (fake_cuda.no_device || ordinal != 0)
		return INVALID_DEVICE;
	*device = 0;
	return SUCCESS;
}

int
cuDeviceGetName(char *name, int size, int device)
{
	(void)device;
	memset(name, 0, (size_t)size);
	(void)snprintf(name, (size_t)size, "Fake H200");
	return SUCCESS;
}

int
cuDeviceGetAttribute(int *value, int attribute, int device)
{
	(void)device;
	switch (attribute) {
	case HM_CUDA_DEVICE_SMS:
		*value = 132;
		return SUCCESS;
	case HM_CUDA_DEVICE_L2_BYTES:
		*value = 60 << 20;
		return SUCCESS;
	case HM_CUDA_DEVICE_CC_MAJOR:
		*value = fake_cuda.major;
		return SUCCESS;
	case HM_CUDA_DEVICE_CC_MINOR:
		*value = fake_cuda.minor;
		return SUCCESS;
	case HM_CUDA_DEVICE_SMEM_OPTIN:
		*value = 232448;
		return SUCCESS;
	default: /* any other int */
		return INVALID_VALUE;
	}
}

int
cuDevicePrimaryCtxRetain(void **context, int device)
{
	(void)device;
	fake_cuda.n_retained++;
	*context = &fake_cuda;
	return SUCCESS;
}

int
cuDevicePrimaryCtxRelease_v2(int device)
{
	(void)device;
	fake_cuda.n_released++;
	return SUCCESS;
}

int
cuCtxGetCurrent(void **context)
{
	*context = fake_cuda.context;
	return SUCCESS;
}

int
cuCtxSetCurrent(void *context)
{
	fake_cuda.context = context;
	return SUCCESS;
}

int
cuCtxGetDevice(int *device)
{
	*device = 0;
	return fake_cuda.context != NULL ? SUCCESS : 201;
}

/* A module is its image, a function its module. */
int
cuModuleLoadData(void **module, const void *image)
{
	if (fake_cuda.load_result != SUCCESS)
		return fake_cuda.load_result;
	fake_cuda.n_loaded++;
	memcpy(module, &image, sizeof image);
	return SUCCESS;
}

int
cuModuleUnload(void *module)
{
	(void)module;
	fake_cuda.n_unloaded++;
	return SUCCESS;
}

int
cuModuleGetFunction(void **function, void *module, const char *name)
{
	(void)name;
	*function = module;
	return SUCCESS;
}

int
cuFuncGetAttribute(int *value, int attribute, void *function)
{
	(void)attribute;
	(void)function;
	*value = 256;
	return SUCCESS;
}

int
cuFuncSetAttribute(void *function, int attribute, int value)
{
	(void)function;
	if (attribute == HM_CUDA_FUNCTION_DYNAMIC_SMEM)
		fake_cuda.dynamic_smem = value;
	return SUCCESS;
}

int
cuLaunchKernelEx(const struct hm_cuda_launch *launch, void *function,
    void **params, void **extra)
{
	(void)extra;
	fake_cuda.n_launches++;
	fake_cuda.launched = function;
	fake_cuda.launch = *launch;
	if (launch->n_attributes != 0)
		memcpy(fake_cuda.attributes, launch->attributes,
		    launch->n_attributes * sizeof launch->attributes[0]);
	if (fake_cuda.is_pack)
		memcpy(&fake_cuda.pack_params, params[0],
		    sizeof fake_cuda.pack_params);
	else if (fake_cuda.is_quant)
		memcpy(&fake_cuda.quant_params, params[0],
		    sizeof fake_cuda.quant_params);
	else
		memcpy(&fake_cuda.params, params[0], sizeof fake_cuda.params);
	return SUCCESS;
}

int
cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address,
    const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
    const uint32_t *steps, int interleave, int swizzle, int promotion, int fill)
{
	(void)type;
	(void)rank;
	(void)sizes;
	(void)strides;
	(void)box;
	(void)steps;
	(void)interleave;
	(void)swizzle;
	(void)promotion;
	(void)fill;
	fake_cuda.n_maps++;
	memcpy(map, &address, sizeof address);
	return SUCCESS;
}

int
cuMemAlloc_v2(uint64_t *address, size_t n_bytes)
{
	if (fake_cuda.no_memory)
		return OUT_OF_MEMORY;
	fake_cuda.n_allocated++;
	fake_cuda.allocated_bytes = n_bytes;
	*address = FAKE_CUDA_MEMORY;
	return SUCCESS;
}

int
cuMemFree_v2(uint64_t address)
{
	if (address != FAKE_CUDA_MEMORY)
		return INVALID_VALUE;
	fake_cuda.n_freed++;
	return SUCCESS;
}

int
cuMemsetD32_v2(uint64_t address, unsigned int word, size_t n_words)
{
	if (word != 0)
		return INVALID_VALUE;
	fake_cuda.set_address = address;
	fake_cuda.set_words = n_words;
	return SUCCESS;
}

int
cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n_bytes)
{
	(void)to;
	(void)from;
	(void)n_bytes;
	return INVALID_VALUE;
}

int
cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n_bytes)
{
	(void)to;
	(void)from;
	(void)n_bytes;
	return INVALID_VALUE;
}

int
cuStreamSynchronize(void *stream)
{
	(void)stream;
	fake_cuda.n_synchronized++;
	return SUCCESS;
}
/* NOLINTEND(readability-identifier-naming,readability-function-size,
 * readability-non-const-parameter) */
