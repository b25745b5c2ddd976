/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.c - GPUs: what they are, and whose context is current. Which kernels
 * are loaded on one is module.c's.
 */
#include "client/device.h"

#include <stdlib.h>
#include <string.h>

#include "client/gemm_error.h"
#include "client/sized.h"

/* Older GPUs lack mma.m16n8k16 and cp.async. */
#define DEVICE_LEAST_CC 80u
/* From here on the architecture's own instructions need the suffix. */
#define DEVICE_SUFFIX_CC 90u

static int
device_attribute(const struct hm_driver *driver, int handle, int attribute,
    uint32_t *value_out)
{
	int value = 0;
	int error = hm_driver_error(driver, "cuDeviceGetAttribute",
	    driver->device_attribute(&value, attribute, handle),
	    hm_gemm_errbuf());

	if (error == HM_OK)
		*value_out = (uint32_t)value;
	return error;
}

static int
device_read_info(const struct hm_driver *driver, int handle,
    struct humming_device_info *info)
{
	const struct {
		int attribute;
		uint32_t *value;
	} wanted[] = {
	    {HM_CUDA_DEVICE_SMS, &info->sms},
	    {HM_CUDA_DEVICE_SMEM_OPTIN, &info->smem_bytes},
	    {HM_CUDA_DEVICE_L2_BYTES, &info->l2_bytes},
	    {HM_CUDA_DEVICE_CC_MAJOR, &info->target_cc},
	    {HM_CUDA_DEVICE_CC_MINOR, &info->target_suffix},
	};
	int version = 0;
	int error = HM_OK;

	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		error = device_attribute(driver, handle, wanted[i].attribute,
		    wanted[i].value);
		if (error != HM_OK)
			return error;
	}
	info->target_cc = info->target_cc * 10 + info->target_suffix;
	info->target_suffix = info->target_cc >= DEVICE_SUFFIX_CC ? 'a' : 0;
	if (driver->driver_version(&version) == 0)
		info->driver_version = (uint32_t)version;
	return hm_driver_error(driver, "cuDeviceGetName",
	    driver->device_name(info->name, (int)sizeof info->name - 1, handle),
	    hm_gemm_errbuf());
}

static int
device_find(const struct hm_driver *driver, int32_t ordinal, int *handle_out)
{
	struct hm_errbuf *errbuf = hm_gemm_errbuf();
	void *context = NULL;

	if (ordinal != HUMMING_DEVICE_CURRENT)
		return hm_driver_error(driver, "cuDeviceGet",
		    driver->device_get(handle_out, ordinal), errbuf);
	if (driver->context_get(&context) != 0 || context == NULL) {
		hm_errbuf_set(errbuf, "device: no CUDA context is current");
		return HM_E_UNAVAILABLE;
	}
	return hm_driver_error(driver, "cuCtxGetDevice",
	    driver->context_device(handle_out), errbuf);
}

int
humming_device_open(int32_t ordinal, struct humming_device **device_out)
{
	struct hm_errbuf *errbuf = hm_gemm_errbuf();
	struct humming_device *device = NULL;
	const struct hm_driver *driver = NULL;
	int handle = 0;
	int error = HM_OK;

	if (device_out == NULL || ordinal < HUMMING_DEVICE_CURRENT) {
		hm_errbuf_set(errbuf, "device: bad argument");
		return HM_E_INVALID;
	}
	error = hm_driver_get(&driver, errbuf);
	if (error == HM_OK)
		error = device_find(driver, ordinal, &handle);
	if (error != HM_OK)
		return error;

	device = calloc(1, sizeof *device);
	if (device == NULL)
		return hm_gemm_no_memory("device");
	device->driver = driver;
	device->handle = handle;
	/* CUdevice is the ordinal, by the driver's documentation. */
	device->info.ordinal = handle;
	error = device_read_info(driver, handle, &device->info);
	if (error != HM_OK)
		goto out;
	if (device->info.target_cc < DEVICE_LEAST_CC) {
		hm_errbuf_set(errbuf,
		    "device: %s has compute capability %u.%u, 8.0 is needed",
		    device->info.name, device->info.target_cc / 10,
		    device->info.target_cc % 10);
		error = HM_E_UNSUPPORTED;
		goto out;
	}
	if (pthread_mutex_init(&device->lock, NULL) != 0) {
		error = hm_gemm_no_memory("device");
		goto out;
	}
	*device_out = device;
	device = NULL;
out:
	free(device);
	return error;
}

void
humming_device_close(struct humming_device *device)
{
	if (device == NULL)
		return;
	if (device->retained)
		(void)device->driver->context_release(device->handle);
	(void)pthread_mutex_destroy(&device->lock);
	free(device);
}

int
humming_device_make_current(struct humming_device *device)
{
	struct hm_errbuf *errbuf = hm_gemm_errbuf();
	void *context = NULL;
	int error = HM_OK;

	if (device == NULL) {
		hm_errbuf_set(errbuf, "device: bad argument");
		return HM_E_INVALID;
	}
	error = hm_driver_error(device->driver, "cuDevicePrimaryCtxRetain",
	    device->driver->context_retain(&context, device->handle), errbuf);
	if (error != HM_OK)
		return error;
	/* One reference is enough, however often this is called. */
	if (device->retained)
		(void)device->driver->context_release(device->handle);
	device->retained = true;
	return hm_driver_error(device->driver, "cuCtxSetCurrent",
	    device->driver->context_set(context), errbuf);
}

int
humming_device_get_info(const struct humming_device *device,
    struct humming_device_info *info)
{
	int error = HM_E_INVALID;

	if (device != NULL)
		error =
		    hm_sized_write(info, &device->info, sizeof device->info);
	if (error != HM_OK)
		hm_errbuf_set(hm_gemm_errbuf(), "device: bad argument");
	return error;
}

int
humming_device_request(const struct humming_device *device,
    struct humming_kernel_request *request)
{
	struct humming_kernel_request filled;
	int error = hm_sized_read(&filled, sizeof filled, request);

	if (error != HM_OK || device == NULL) {
		hm_errbuf_set(hm_gemm_errbuf(), "device: bad request");
		return HM_E_INVALID;
	}
	filled.target_cc = device->info.target_cc;
	filled.target_suffix = device->info.target_suffix;
	filled.sms = device->info.sms;
	return hm_sized_write(request, &filled, sizeof filled);
}

int
hm_device_context(const struct humming_device *device, void **context_out)
{
	void *context = NULL;
	int handle = 0;

	if (device->driver->context_get(&context) != 0 || context == NULL ||
	    device->driver->context_device(&handle) != 0 ||
	    handle != device->handle) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "gemm: no context of %s is current in this thread",
		    device->info.name);
		return HM_E_INVALID;
	}
	*context_out = context;
	return HM_OK;
}
