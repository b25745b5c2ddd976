/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.c - which kernels are loaded where.
 *
 * A model has many layers and few kernels: layers that use the same kernel
 * share one loaded module per context. The list is short (a kernel per tile
 * size and type), so it is searched in order, under the device's lock. Loading
 * holds the lock too: two threads that want one kernel load it once.
 */
#include <stdlib.h>
#include <string.h>

#include "client/device.h"
#include "client/gemm_call.h"
#include "client/gemm_error.h"

static struct hm_module *
module_find(const struct humming_device *device, const void *context,
    const char *key)
{
	struct hm_module *module = device->modules;

	while (module != NULL &&
	       (module->context != context || strcmp(module->key, key) != 0))
		module = module->next;
	return module;
}

static int
module_load(struct humming_device *device, void *context, const char *key,
    const struct humming_kernel *kernel)
{
	struct hm_module *module = NULL;
	const void *image = NULL;
	size_t n_image = 0;
	int error = humming_kernel_image(kernel, &image, &n_image);

	if (error != HM_OK)
		return error;
	module = calloc(1, sizeof *module);
	if (module == NULL)
		return hm_gemm_no_memory("module");
	error =
	    hm_gemm_load(device->driver, image, humming_kernel_entry(kernel),
		device->info.smem_bytes, &module->module, &module->function);
	if (error != HM_OK) {
		free(module);
		return error;
	}
	module->context = context;
	memcpy(module->key, key, strnlen(key, sizeof module->key - 1));
	module->next = device->modules;
	device->modules = module;
	return HM_OK;
}

int
hm_module_get(struct humming_device *device, const char *key,
    const struct humming_kernel *kernel, struct hm_module **module_out)
{
	struct hm_module *module = NULL;
	void *context = NULL;
	int error = hm_device_context(device, &context);

	if (error != HM_OK)
		return error;
	(void)pthread_mutex_lock(&device->lock);
	module = module_find(device, context, key);
	if (module == NULL) {
		error = module_load(device, context, key, kernel);
		module = device->modules; /* where a new one is put */
	}
	if (error == HM_OK) {
		module->n_refs++;
		*module_out = module;
	}
	(void)pthread_mutex_unlock(&device->lock);
	return error;
}

void
hm_module_put(struct humming_device *device, struct hm_module *module)
{
	struct hm_module **at = &device->modules;

	if (module == NULL)
		return;
	(void)pthread_mutex_lock(&device->lock);
	if (--module->n_refs == 0) {
		while (*at != module)
			at = &(*at)->next;
		*at = module->next;
		(void)device->driver->module_unload(module->module);
		free(module);
	}
	(void)pthread_mutex_unlock(&device->lock);
}
