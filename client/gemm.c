/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm.c - the kernels of one layer type, and which of them serves an M.
 *
 * The daemon's reply for a request with n and k carries the table over M:
 * consecutive ranges, each with the key of a kernel. A gemm keeps that table,
 * one kernel and one loaded module per row; gemm_open.c fetches them. How a
 * kernel is launched for an M is humming_kernel_launch's answer; the last one
 * is kept, because a decoding worker asks for the same M again and again.
 *
 * One thread at a time: the tensor maps and the last answer are not locked.
 */
#include <humming/gemm.h>

#include <stdlib.h>
#include <string.h>

#include "client/device.h"
#include "client/gemm_call.h"
#include "client/gemm_error.h"
#include "client/gemm_impl.h"
#include "client/sized.h"
#include "client/weight.h"

struct gemm_range {
	uint32_t m_lo, m_hi;
	struct humming_kernel *kernel; /* reference; NULL = not loaded */
	struct hm_module *module;      /* reference */
};

struct humming_gemm {
	struct humming_device *device; /* borrowed; outlives the gemm */
	uint32_t a_type;
	uint32_t n, k;
	uint32_t n_ranges;
	struct gemm_range ranges[HM_GEMM_MAX_RANGES];
	uint32_t last_m; /* 0 = none yet */
	struct humming_launch last_launch;
	struct hm_gemm_maps maps;
};

int
hm_gemm_read_request(const struct humming_device *device,
    const struct humming_kernel_request *request,
    struct humming_kernel_request *full_out)
{
	struct humming_kernel_request full;

	if (device == NULL ||
	    hm_sized_read(&full, sizeof full, request) != HM_OK ||
	    full.n == 0 || full.k == 0) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "gemm: the request must give n and k");
		return HM_E_INVALID;
	}
	if (full.target_cc == 0) {
		full.target_cc = device->info.target_cc;
		full.target_suffix = device->info.target_suffix;
	}
	if (full.sms == 0)
		full.sms = device->info.sms;
	*full_out = full;
	return HM_OK;
}

int
hm_gemm_range_at(const struct humming_kernel *kernel, uint32_t index,
    struct humming_range *range_out)
{
	int error = humming_kernel_range(kernel, index, range_out);

	if (error != HUMMING_OK)
		hm_errbuf_set(hm_gemm_errbuf(),
		    "gemm: a kernel's table over M cannot be read");
	return error;
}

int
hm_gemm_count_ranges(const struct humming_kernel *kernel, uint32_t m_most,
    uint32_t *n_out)
{
	struct humming_kernel_info info;
	struct humming_range range;
	uint32_t n = 0;
	int error = HUMMING_OK;

	memset(&info, 0, sizeof info);
	info.struct_size = sizeof info;
	error = humming_kernel_get_info(kernel, &info);
	if (error != HUMMING_OK)
		return error;
	if (info.kernel_abi != HM_GEMM_PARAMS_ABI ||
	    info.pack_layout != HM_WEIGHT_LAYOUT) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "gemm: kernel ABI %u and pack layout %u, this library has "
		    "%u and %u",
		    info.kernel_abi, info.pack_layout, HM_GEMM_PARAMS_ABI,
		    HM_WEIGHT_LAYOUT);
		return HM_E_VERSION;
	}
	if (info.n_ranges == 0 || info.n_ranges > HM_GEMM_MAX_RANGES) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "gemm: a kernel without a table over M: n and k must be "
		    "in its request");
		return HM_E_INVALID;
	}
	for (n = 0; n < info.n_ranges; n++) {
		error = hm_gemm_range_at(kernel, n, &range);
		if (error != HUMMING_OK)
			return error;
		if (m_most != 0 && range.m_lo > m_most)
			break;
	}
	*n_out = n;
	return HUMMING_OK;
}

struct humming_kernel *
hm_gemm_find_kernel(struct humming_kernel *const *kernels, size_t n,
    const char *key)
{
	struct humming_kernel_info info;

	for (size_t i = 0; i < n; i++) {
		memset(&info, 0, sizeof info);
		info.struct_size = sizeof info;
		if (kernels[i] != NULL &&
		    humming_kernel_get_info(kernels[i], &info) == HUMMING_OK &&
		    strcmp(info.key, key) == 0)
			return kernels[i];
	}
	return NULL;
}

static int
gemm_load_range(struct humming_gemm *gemm,
    struct humming_kernel *const *kernels, size_t n_kernels, uint32_t index)
{
	struct gemm_range *range = &gemm->ranges[index];
	struct humming_kernel *kernel = NULL;
	struct humming_range row;
	int error = hm_gemm_range_at(kernels[0], index, &row);

	if (error != HUMMING_OK)
		return error;
	range->m_lo = row.m_lo;
	range->m_hi = row.m_hi;
	kernel = hm_gemm_find_kernel(kernels, n_kernels, row.key);
	if (kernel == NULL)
		return HUMMING_OK; /* launching an M of it says so */
	error = hm_module_get(gemm->device, row.key, kernel, &range->module);
	if (error == HUMMING_OK)
		range->kernel = humming_kernel_ref(kernel);
	return error;
}

int
humming_gemm_open_kernels(struct humming_device *device,
    const struct humming_kernel_request *request,
    struct humming_kernel *const *kernels, size_t n_kernels,
    struct humming_gemm **gemm_out)
{
	struct humming_kernel_request full;
	struct humming_gemm *gemm = NULL;
	uint32_t n_ranges = 0;
	int error = hm_gemm_read_request(device, request, &full);

	if (error != HUMMING_OK)
		return error;
	if (kernels == NULL || n_kernels == 0 || kernels[0] == NULL ||
	    gemm_out == NULL) {
		hm_errbuf_set(hm_gemm_errbuf(), "gemm: no kernels");
		return HUMMING_E_INVALID;
	}
	error = hm_gemm_count_ranges(kernels[0], full.m, &n_ranges);
	if (error != HUMMING_OK)
		return error;

	/* Its tensor maps are aligned to 64 bytes. */
	gemm = aligned_alloc(_Alignof(struct humming_gemm), sizeof *gemm);
	if (gemm == NULL)
		return HUMMING_E_NOMEM;
	memset(gemm, 0, sizeof *gemm);
	gemm->device = device;
	gemm->a_type = full.a_type != 0 ? full.a_type : HUMMING_TYPE_BF16;
	gemm->n = full.n;
	gemm->k = full.k;
	for (uint32_t i = 0; i < n_ranges && error == HUMMING_OK; i++) {
		gemm->n_ranges = i + 1; /* so that close frees this one too */
		error = gemm_load_range(gemm, kernels, n_kernels, i);
	}
	if (error != HUMMING_OK) {
		humming_gemm_close(gemm);
		return error;
	}
	*gemm_out = gemm;
	return HUMMING_OK;
}

void
humming_gemm_close(struct humming_gemm *gemm)
{
	if (gemm == NULL)
		return;
	for (uint32_t i = 0; i < gemm->n_ranges; i++) {
		hm_module_put(gemm->device, gemm->ranges[i].module);
		humming_kernel_unref(gemm->ranges[i].kernel);
	}
	free(gemm);
}

void
humming_gemm_args_init(struct humming_gemm_args *args, uint32_t struct_size)
{
	hm_sized_init(args, struct_size);
}

/* The loaded row that serves m, and how to launch it. */
static int
gemm_find_launch(struct humming_gemm *gemm, uint32_t m,
    const struct gemm_range **range_out)
{
	const struct gemm_range *range = NULL;
	struct humming_launch launch;
	int error = HUMMING_OK;

	for (uint32_t i = 0; i < gemm->n_ranges; i++)
		if (m >= gemm->ranges[i].m_lo && m <= gemm->ranges[i].m_hi)
			range = &gemm->ranges[i];
	if (range == NULL || range->kernel == NULL) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "gemm: no kernel was loaded for m = %u", m);
		return HUMMING_E_UNSUPPORTED;
	}
	if (gemm->last_m != m) {
		memset(&launch, 0, sizeof launch);
		launch.struct_size = sizeof launch;
		error = humming_kernel_launch(range->kernel, m, gemm->n,
		    gemm->k, &launch);
		if (error != HUMMING_OK) {
			hm_errbuf_set(hm_gemm_errbuf(),
			    "gemm: no way to launch m = %u, n = %u, k = %u", m,
			    gemm->n, gemm->k);
			return error;
		}
		gemm->last_m = m;
		gemm->last_launch = launch;
	}
	*range_out = range;
	return HUMMING_OK;
}

int
humming_gemm_launch(struct humming_gemm *gemm,
    const struct humming_gemm_args *args, void *stream)
{
	struct humming_gemm_args checked;
	struct hm_gemm_call call;
	const struct gemm_range *range = NULL;
	int error = HUMMING_OK;

	if (gemm == NULL) {
		hm_errbuf_set(hm_gemm_errbuf(), "gemm: NULL");
		return HUMMING_E_INVALID;
	}
	error = hm_gemm_check(args, gemm->n, gemm->k, &checked);
	if (error != HUMMING_OK || checked.m == 0)
		return error;
	error = gemm_find_launch(gemm, checked.m, &range);
	if (error != HUMMING_OK)
		return error;
	call.driver = gemm->device->driver;
	call.function = range->module->function;
	call.a_type = gemm->a_type;
	call.n = gemm->n;
	call.k = gemm->k;
	call.launch = gemm->last_launch;
	call.maps = &gemm->maps;
	return hm_gemm_call(&call, &checked, stream);
}
