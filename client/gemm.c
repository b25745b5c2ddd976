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
 * Kernels that share tiles along K need a workspace. Whether any M of the table
 * does is found out when the gemm is opened, because launching must not
 * allocate.
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
#include "client/number.h"
#include "client/sized.h"

/* Bytes at the start of a workspace that begin as zeros. */
#define GEMM_FLAG_BYTES 4096u

struct gemm_range {
	uint32_t m_lo, m_hi;
	struct humming_kernel *kernel; /* reference; NULL = not loaded */
	struct hm_module *module;      /* reference */
};

struct humming_gemm {
	struct humming_device *device; /* borrowed; outlives the gemm */
	uint32_t a_type, c_type;
	uint32_t act_scale, act_layout; /* of 8-bit activations, else 0 */
	uint32_t n, k;
	uint32_t m_most;    /* 0 = none */
	uint64_t workspace; /* owned device memory; 0 = none */
	uint64_t workspace_bytes;
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

/* Bytes that some M of a loaded range wants. CTAs share the tiles of a last
 * wave that is not full, so the answer for M repeats after as many tiles of
 * tokens as there are SMs. */
static int
gemm_measure_range(const struct humming_gemm *gemm,
    const struct gemm_range *range, uint64_t *bytes_out)
{
	struct humming_launch launch;
	uint32_t m = range->m_lo;
	uint32_t m_hi = range->m_hi;
	int error = HUMMING_OK;

	if (gemm->m_most != 0 && m_hi > gemm->m_most)
		m_hi = gemm->m_most;
	*bytes_out = 0;
	for (uint32_t i = 0; i <= gemm->device->info.sms; i++) {
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
		*bytes_out = launch.workspace_bytes;
		/* Without tile_tokens it is a family that has no such tiles. */
		if (*bytes_out != 0 || launch.tile_tokens == 0 || m >= m_hi)
			break;
		m = m_hi - m < launch.tile_tokens ? m_hi
						  : m + launch.tile_tokens;
	}
	return HUMMING_OK;
}

/* The largest workspace of all ranges, its flags zero. */
static int
gemm_alloc_workspace(struct humming_gemm *gemm)
{
	const struct hm_driver *driver = gemm->device->driver;
	struct hm_errbuf *errbuf = hm_gemm_errbuf();
	uint64_t bytes = 0;
	int error = HUMMING_OK;

	for (uint32_t i = 0; i < gemm->n_ranges; i++) {
		if (gemm->ranges[i].kernel == NULL)
			continue;
		error = gemm_measure_range(gemm, &gemm->ranges[i], &bytes);
		if (error != HUMMING_OK)
			return error;
		if (bytes > gemm->workspace_bytes)
			gemm->workspace_bytes = bytes;
	}
	if (gemm->workspace_bytes == 0)
		return HUMMING_OK;
	error = hm_driver_error(driver, "cuMemAlloc",
	    driver->memory_alloc(&gemm->workspace, gemm->workspace_bytes),
	    errbuf);
	if (error == HUMMING_OK)
		error = hm_driver_error(driver, "cuMemsetD32",
		    driver->memory_set(gemm->workspace, 0, GEMM_FLAG_BYTES / 4),
		    errbuf);
	/* The first launch may be on a stream that does not wait for this. */
	if (error == HUMMING_OK)
		error = hm_driver_error(driver, "cuStreamSynchronize",
		    driver->stream_synchronize(NULL), errbuf);
	return error;
}

static void
gemm_read_types(struct humming_gemm *gemm,
    const struct humming_kernel_request *request)
{
	gemm->a_type =
	    request->a_type != 0 ? request->a_type : HUMMING_TYPE_BF16;
	gemm->c_type = request->c_type;
	if (gemm->c_type == 0)
		gemm->c_type = gemm->a_type == HUMMING_TYPE_F16
				   ? HUMMING_TYPE_F16
				   : HUMMING_TYPE_BF16;
	if (hm_number_bytes(gemm->a_type) == 1) {
		gemm->act_scale = request->act_scale != 0 ? request->act_scale
							  : HUMMING_ACT_TOKEN;
		gemm->act_layout = request->act_layout;
	}
	gemm->n = request->n;
	gemm->k = request->k;
	gemm->m_most = request->m;
}

/* An alignment that a tensor map of 8-bit activations needs. */
static int
gemm_check_sizes(const struct humming_gemm *gemm)
{
	if (hm_number_bytes(gemm->a_type) != 1 || gemm->k % 16 == 0)
		return HUMMING_OK;
	hm_errbuf_set(hm_gemm_errbuf(),
	    "gemm: k = %u must be a multiple of 16 for 8-bit activations",
	    gemm->k);
	return HUMMING_E_INVALID;
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
		return hm_gemm_no_memory("gemm");
	memset(gemm, 0, sizeof *gemm);
	gemm->device = device;
	gemm_read_types(gemm, &full);
	error = gemm_check_sizes(gemm);
	for (uint32_t i = 0; i < n_ranges && error == HUMMING_OK; i++) {
		gemm->n_ranges = i + 1; /* so that close frees this one too */
		error = gemm_load_range(gemm, kernels, n_kernels, i);
	}
	if (error == HUMMING_OK)
		error = gemm_alloc_workspace(gemm);
	if (error != HUMMING_OK) {
		humming_gemm_close(gemm);
		return error;
	}
	*gemm_out = gemm;
	return HUMMING_OK;
}

uint64_t
humming_gemm_workspace_bytes(const struct humming_gemm *gemm)
{
	return gemm != NULL ? gemm->workspace_bytes : 0;
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
	if (gemm->workspace != 0)
		(void)gemm->device->driver->memory_free(gemm->workspace);
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
		/* Its size was found for the m of the request. */
		if (launch.workspace_bytes > gemm->workspace_bytes) {
			hm_errbuf_set(hm_gemm_errbuf(),
			    "gemm: m = %u needs a larger workspace, opened for "
			    "m up to %u",
			    m, gemm->m_most);
			return HUMMING_E_INVALID;
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

	memset(&call, 0, sizeof call);
	if (gemm == NULL) {
		hm_errbuf_set(hm_gemm_errbuf(), "gemm: NULL");
		return HUMMING_E_INVALID;
	}
	call.driver = gemm->device->driver;
	call.a_type = gemm->a_type;
	call.c_type = gemm->c_type;
	call.act_scale = gemm->act_scale;
	call.act_layout = gemm->act_layout;
	call.n = gemm->n;
	call.k = gemm->k;
	call.workspace = gemm->workspace;
	call.maps = &gemm->maps;
	error = hm_gemm_check(&call, args, &checked);
	if (error != HUMMING_OK || checked.m == 0)
		return error;
	error = gemm_find_launch(gemm, checked.m, &range);
	if (error != HUMMING_OK)
		return error;
	call.function = range->module->function;
	call.launch = gemm->last_launch;
	return hm_gemm_call(&call, &checked, stream);
}
