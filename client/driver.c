/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.c - libcuda.so.1 by dlopen.
 *
 * The names below are those of the ABI, with the version suffix that cuda.h
 * hides behind macros. Loading happens once, under pthread_once; the result,
 * good or bad, stays for the life of the process, because a driver does not
 * appear under a running process and unloading libcuda is not supported.
 */
#include "client/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* CUresult values that mean something to a caller (cuda.h) */
#define DRIVER_INVALID_VALUE     1
#define DRIVER_OUT_OF_MEMORY     2
#define DRIVER_STUB_LIBRARY      34
#define DRIVER_NO_DEVICE         100
#define DRIVER_INVALID_DEVICE    101
#define DRIVER_INVALID_IMAGE     200
#define DRIVER_INVALID_CONTEXT   201
#define DRIVER_NO_BINARY         209
#define DRIVER_INVALID_PTX       218
#define DRIVER_UNSUPPORTED_PTX   222
#define DRIVER_NOT_FOUND         500
#define DRIVER_SYSTEM_NOT_READY  802
#define DRIVER_SYSTEM_MISMATCH   803
#define DRIVER_COMPAT_NOT_DEVICE 804

struct driver_symbol {
	const char *name;
	size_t offset;
	bool optional;
};

#define DRIVER_SYMBOL(field, name)                                             \
	{                                                                      \
		name, offsetof(struct hm_driver, field), false                 \
	}
static const struct driver_symbol driver_symbols[] = {
    DRIVER_SYMBOL(init, "cuInit"),
    DRIVER_SYMBOL(driver_version, "cuDriverGetVersion"),
    DRIVER_SYMBOL(error_name, "cuGetErrorName"),
    DRIVER_SYMBOL(error_text, "cuGetErrorString"),
    DRIVER_SYMBOL(device_count, "cuDeviceGetCount"),
    DRIVER_SYMBOL(device_get, "cuDeviceGet"),
    DRIVER_SYMBOL(device_name, "cuDeviceGetName"),
    DRIVER_SYMBOL(device_attribute, "cuDeviceGetAttribute"),
    DRIVER_SYMBOL(context_retain, "cuDevicePrimaryCtxRetain"),
    DRIVER_SYMBOL(context_release, "cuDevicePrimaryCtxRelease_v2"),
    DRIVER_SYMBOL(context_get, "cuCtxGetCurrent"),
    DRIVER_SYMBOL(context_set, "cuCtxSetCurrent"),
    DRIVER_SYMBOL(context_device, "cuCtxGetDevice"),
    DRIVER_SYMBOL(module_load, "cuModuleLoadData"),
    DRIVER_SYMBOL(module_unload, "cuModuleUnload"),
    DRIVER_SYMBOL(module_function, "cuModuleGetFunction"),
    DRIVER_SYMBOL(function_get, "cuFuncGetAttribute"),
    DRIVER_SYMBOL(function_set, "cuFuncSetAttribute"),
    DRIVER_SYMBOL(launch, "cuLaunchKernelEx"),
    {"cuTensorMapEncodeTiled", offsetof(struct hm_driver, tensor_map), true},
    DRIVER_SYMBOL(memory_alloc, "cuMemAlloc_v2"),
    DRIVER_SYMBOL(memory_free, "cuMemFree_v2"),
    DRIVER_SYMBOL(memory_set, "cuMemsetD32_v2"),
    DRIVER_SYMBOL(copy_to_device, "cuMemcpyHtoD_v2"),
    DRIVER_SYMBOL(copy_to_host, "cuMemcpyDtoH_v2"),
    DRIVER_SYMBOL(stream_synchronize, "cuStreamSynchronize"),
};

static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static struct hm_driver driver_functions;
static struct hm_errbuf driver_errbuf; /* why loading failed */
static int driver_state;               /* HM_OK or why not */

static int
driver_resolve(void *library)
{
	size_t n = sizeof driver_symbols / sizeof driver_symbols[0];

	for (size_t i = 0; i < n; i++) {
		const struct driver_symbol *symbol = &driver_symbols[i];
		void *address = dlsym(library, symbol->name);
		unsigned char *at = (unsigned char *)&driver_functions;

		if (address == NULL && !symbol->optional) {
			hm_errbuf_set(&driver_errbuf,
			    "CUDA driver: no %s: it is too old (CUDA 11.8 or "
			    "newer is needed)",
			    symbol->name);
			return HM_E_UNSUPPORTED;
		}
		/* ISO C has no cast from object to function pointer; POSIX
		 * says that both have one representation (dlsym). */
		memcpy(at + symbol->offset, &address, sizeof address);
	}
	return HM_OK;
}

static void
driver_load(void)
{
	/* Never closed: see the file head. */
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (library == NULL) {
		hm_errbuf_set(&driver_errbuf,
		    "CUDA driver: libcuda.so.1 is not there");
		driver_state = HM_E_UNAVAILABLE;
		return;
	}
	driver_state = driver_resolve(library);
	if (driver_state == HM_OK)
		driver_state = hm_driver_error(&driver_functions, "cuInit",
		    driver_functions.init(0), &driver_errbuf);
}

int
hm_driver_get(const struct hm_driver **driver_out, struct hm_errbuf *errbuf)
{
	(void)pthread_once(&driver_once, driver_load);
	if (driver_state != HM_OK) {
		hm_errbuf_set(errbuf, "%s", driver_errbuf.text);
		return driver_state;
	}
	*driver_out = &driver_functions;
	return HM_OK;
}

static int
driver_code(int result)
{
	switch (result) {
	case DRIVER_INVALID_VALUE:
	case DRIVER_INVALID_DEVICE:
	case DRIVER_INVALID_CONTEXT:
		return HM_E_INVALID;
	case DRIVER_OUT_OF_MEMORY:
		return HM_E_NOMEM;
	case DRIVER_STUB_LIBRARY:
	case DRIVER_NO_DEVICE:
	case DRIVER_SYSTEM_NOT_READY:
	case DRIVER_SYSTEM_MISMATCH:
	case DRIVER_COMPAT_NOT_DEVICE:
		return HM_E_UNAVAILABLE;
	case DRIVER_INVALID_IMAGE:
	case DRIVER_NOT_FOUND:
		return HM_E_CORRUPT;
	case DRIVER_NO_BINARY:
	case DRIVER_INVALID_PTX:
	case DRIVER_UNSUPPORTED_PTX:
		return HM_E_UNSUPPORTED;
	default: /* CUresult is the driver's, and grows */
		return HM_E_INTERNAL;
	}
}

int
hm_driver_error(const struct hm_driver *driver, const char *what, int result,
    struct hm_errbuf *errbuf)
{
	const char *name = NULL;
	const char *text = NULL;

	if (result == 0)
		return HM_OK;
	(void)driver->error_name(result, &name);
	(void)driver->error_text(result, &text);
	hm_errbuf_set(errbuf, "%s: %s (%s)", what,
	    text != NULL ? text : "unknown error", name != NULL ? name : "?");
	return driver_code(result);
}
