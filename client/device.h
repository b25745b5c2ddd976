/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - a GPU, and the kernels of ours that are loaded on it.
 */
#ifndef HM_CLIENT_DEVICE_H
#define HM_CLIENT_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <humming/gemm.h>

#include "client/driver.h"
#include "proto/error.h"

/* A kernel loaded into one context, shared by the gemms that use it. */
struct hm_module {
	struct hm_module *next;
	void *context;
	void *module;
	void *function;
	uint32_t n_refs;
	char key[65];
};

struct humming_device {
	const struct hm_driver *driver; /* static */
	int handle;                     /* CUdevice */
	bool retained;                  /* its primary context, by us */
	struct humming_device_info info;
	pthread_mutex_t lock;      /* guards modules and every n_refs */
	struct hm_module *modules; /* owned */
};

/* The context that is current in the calling thread, which must be one of this
 * device. HM_OK or HM_E_INVALID, reason in hm_gemm_errbuf. */
int hm_device_context(const struct humming_device *device, void **context_out);

/**
 * A kernel loaded into the current context: again, or for the first time.
 *
 * key         64 hex digits, names the image
 * module_out  one reference, given back with hm_module_put
 *
 * Any thread. Returns HM_OK, HM_E_NOMEM, or hm_gemm_load's codes.
 */
int hm_module_get(struct humming_device *device, const char *key,
    const struct humming_kernel *kernel, struct hm_module **module_out);

/* NULL allowed. Unloads with the last reference. */
void hm_module_put(struct humming_device *device, struct hm_module *module);

#endif
