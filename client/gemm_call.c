/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_call.c - from pointers and sizes to cuLaunchKernelEx.
 *
 * Everything a kernel takes for granted is checked in hm_gemm_check: kernels
 * check nothing. No device memory is allocated and nothing waits, so a call may
 * be captured; the parameter block is copied by the driver.
 */
#include "client/gemm_call.h"

#include <stdbool.h>
#include <string.h>

#include "client/gemm_error.h"
#include "client/number.h"
#include "client/sized.h"
#include "jit/config.h"

/* client/kernel.c has refused kernels of another ABI. */
_Static_assert(HM_GEMM_PARAMS_ABI == HM_KERNEL_ABI, "one parameter block");

/* Of strides, in bytes, as of pointers. */
#define CALL_ALIGNMENT 16u
/* One row of a box: the 128 bytes of the swizzle. */
#define CALL_BOX_BYTES 128u
#define CALL_ACT_GROUP 128u

int
hm_gemm_load(const struct hm_driver *driver, const void *image,
    const char *entry, uint32_t smem_bytes, void **module_out,
    void **function_out)
{
	struct hm_errbuf *errbuf = hm_gemm_errbuf();
	void *module = NULL;
	void *function = NULL;
	int used = 0;
	int error = HM_OK;

	error = hm_driver_error(driver, "cuModuleLoadData",
	    driver->module_load(&module, image), errbuf);
	if (error != HM_OK)
		return error;
	error = hm_driver_error(driver, "cuModuleGetFunction",
	    driver->module_function(&function, module, entry), errbuf);
	if (error != HM_OK)
		goto out;
	error = hm_driver_error(driver, "cuFuncGetAttribute",
	    driver->function_get(&used, HM_CUDA_FUNCTION_STATIC_SMEM, function),
	    errbuf);
	if (error != HM_OK)
		goto out;
	error = hm_driver_error(driver, "cuFuncSetAttribute",
	    driver->function_set(function, HM_CUDA_FUNCTION_DYNAMIC_SMEM,
		(int)smem_bytes - used),
	    errbuf);
	if (error != HM_OK)
		goto out;
	*module_out = module;
	*function_out = function;
	module = NULL;
out:
	if (module != NULL)
		(void)driver->module_unload(module);
	return error;
}

static int
call_check_pointer(const char *name, const void *pointer)
{
	return hm_gemm_check_pointer("gemm", name, pointer);
}

/* A stride in elements of `type`, of which rows have `columns`. */
static int
call_check_stride(const char *name, uint32_t type, uint32_t stride,
    uint32_t columns)
{
	uint32_t step = CALL_ALIGNMENT / hm_number_bytes(type);

	if (stride % step == 0 && stride >= columns)
		return HM_OK;
	hm_errbuf_set(hm_gemm_errbuf(),
	    "gemm: %s = %u must be a multiple of %u and at least %u", name,
	    stride, step, columns);
	return HM_E_INVALID;
}

/* The steps that a_scale has by default, and 0 where there is no scale or one
 * for all. */
static void
call_complete_scale(const struct hm_gemm_call *call,
    struct humming_gemm_args *args)
{
	bool m_major = call->act_layout != 0;
	uint32_t n_groups = (call->k + CALL_ACT_GROUP - 1) / CALL_ACT_GROUP;

	if (call->act_scale != HUMMING_ACT_GROUP)
		args->a_scale_group_step = 0;
	if (call->act_scale != HUMMING_ACT_GROUP &&
	    call->act_scale != HUMMING_ACT_TOKEN)
		args->a_scale_step = 0;
	else if (args->a_scale_step == 0)
		args->a_scale_step =
		    call->act_scale == HUMMING_ACT_GROUP && !m_major ? n_groups
								     : 1;
	if (call->act_scale == HUMMING_ACT_GROUP &&
	    args->a_scale_group_step == 0)
		args->a_scale_group_step = m_major ? args->m : 1;
	if (call->act_scale == 0)
		args->a_scale = NULL;
}

/* Pointers and strides of arguments whose defaults are filled in, m > 0. */
static int
call_check(const struct hm_gemm_call *call,
    const struct humming_gemm_args *args)
{
	int error = call_check_pointer("a", args->a);

	if (error == HM_OK)
		error = call_check_pointer("w", args->w);
	if (error == HM_OK)
		error = call_check_pointer("rowmul", args->rowmul);
	if (error == HM_OK)
		error = call_check_pointer("c", args->c);
	if (error == HM_OK && args->bias != NULL)
		error = call_check_pointer("bias", args->bias);
	if (error == HM_OK && call->act_scale != 0)
		error = call_check_pointer("a_scale", args->a_scale);
	if (error == HM_OK && args->workspace != NULL)
		error = call_check_pointer("workspace", args->workspace);
	if (error == HM_OK)
		error =
		    call_check_stride("lda", call->a_type, args->lda, call->k);
	if (error == HM_OK)
		error =
		    call_check_stride("ldc", call->c_type, args->ldc, call->n);
	return error;
}

int
hm_gemm_check(const struct hm_gemm_call *call,
    const struct humming_gemm_args *args, struct humming_gemm_args *args_out)
{
	struct humming_gemm_args checked;
	int error = hm_sized_read(&checked, sizeof checked, args);

	if (error != HM_OK || (checked.flags & ~HUMMING_GEMM_NO_PDL) != 0) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "gemm: bad struct_size or flags");
		return HM_E_INVALID;
	}
	if (checked.lda == 0)
		checked.lda = call->k;
	if (checked.ldc == 0)
		checked.ldc = call->n;
	call_complete_scale(call, &checked);
	if (checked.m != 0)
		error = call_check(call, &checked);
	if (error != HM_OK)
		return error;
	*args_out = checked;
	return HM_OK;
}

static int
call_tensor_type(uint32_t type)
{
	if (hm_number_bytes(type) == 1)
		return HM_CUDA_TENSOR_U8;
	return type == HUMMING_TYPE_F16 ? HM_CUDA_TENSOR_F16
					: HM_CUDA_TENSOR_BF16;
}

static int
call_encode(const struct hm_gemm_call *call, struct hm_gemm_map *item)
{
	const uint64_t sizes[2] = {item->columns, item->rows};
	uint32_t n_bytes = hm_number_bytes(item->type);
	const uint64_t strides[1] = {(uint64_t)item->stride * n_bytes};
	const uint32_t box[2] = {CALL_BOX_BYTES / n_bytes, item->box_rows};
	const uint32_t steps[2] = {1, 1};
	void *address = NULL;

	memcpy(&address, &item->address, sizeof address);
	return hm_driver_error(call->driver, "cuTensorMapEncodeTiled",
	    call->driver->tensor_map(&item->map, call_tensor_type(item->type),
		2, address, sizes, strides, box, steps,
		HM_CUDA_TENSOR_INTERLEAVE_NONE, HM_CUDA_TENSOR_SWIZZLE_128B,
		HM_CUDA_TENSOR_PROMOTION_256B, HM_CUDA_TENSOR_FILL_ZERO),
	    hm_gemm_errbuf());
}

/* The map for `wanted` (its map member aside), cached or made. */
static int
call_map(const struct hm_gemm_call *call, const struct hm_gemm_map *wanted,
    struct hm_tensor_map *map_out)
{
	struct hm_gemm_maps *maps = call->maps;
	struct hm_gemm_map item = *wanted;
	int error = HM_OK;

	for (uint32_t i = 0; i < HM_GEMM_MAPS; i++) {
		const struct hm_gemm_map *old = &maps->items[i];

		if (old->address != wanted->address ||
		    old->rows != wanted->rows ||
		    old->columns != wanted->columns ||
		    old->stride != wanted->stride ||
		    old->type != wanted->type ||
		    old->box_rows != wanted->box_rows)
			continue;
		*map_out = old->map;
		return HM_OK;
	}
	error = call_encode(call, &item);
	if (error != HM_OK)
		return error;
	maps->items[maps->next] = item;
	maps->next = (maps->next + 1) % HM_GEMM_MAPS;
	*map_out = item.map;
	return HM_OK;
}

static int
call_maps(const struct hm_gemm_call *call, const struct humming_gemm_args *args,
    struct hm_gemm_params *params)
{
	struct hm_gemm_map wanted;
	int error = HM_OK;

	if (call->driver->tensor_map == NULL) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "gemm: the driver has no tensor maps (CUDA 12 is needed)");
		return HM_E_UNSUPPORTED;
	}
	memset(&wanted, 0, sizeof wanted);
	wanted.rows = args->m;
	wanted.box_rows = call->launch.tile_tokens;
	wanted.address = params->a;
	wanted.columns = call->k;
	wanted.stride = args->lda;
	wanted.type = call->a_type;
	error = call_map(call, &wanted, &params->a_map);
	if (error != HM_OK)
		return error;
	wanted.address = params->c;
	wanted.columns = call->n;
	wanted.stride = args->ldc;
	wanted.type = call->c_type;
	return call_map(call, &wanted, &params->c_map);
}

static int
call_params(const struct hm_gemm_call *call,
    const struct humming_gemm_args *args, struct hm_gemm_params *params)
{
	memset(params, 0, sizeof *params);
	params->w = (uintptr_t)args->w;
	params->a = (uintptr_t)args->a;
	params->c = (uintptr_t)args->c;
	params->rowmul = (uintptr_t)args->rowmul;
	params->bias = (uintptr_t)args->bias;
	params->m = args->m;
	params->n = call->n;
	params->k = call->k;
	params->lda = args->lda;
	params->ldc = args->ldc;
	params->band = call->launch.band;
	params->prefetch = call->launch.prefetch;
	params->row_groups = call->launch.row_groups;
	params->weight_policy = call->launch.weight_policy;
	params->a_scale = (uintptr_t)args->a_scale;
	params->a_scale_step = args->a_scale_step;
	params->a_scale_group_step = args->a_scale_group_step;
	params->split_tiles = call->launch.split_tiles;
	if (params->split_tiles != 0)
		params->workspace = args->workspace != NULL
					? (uintptr_t)args->workspace
					: call->workspace;
	if (params->split_tiles != 0 && params->workspace == 0) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "gemm: m = %u needs a workspace of %llu bytes", args->m,
		    (unsigned long long)call->launch.workspace_bytes);
		return HM_E_INVALID;
	}
	if (call->launch.tile_tokens == 0)
		return HM_OK;
	return call_maps(call, args, params);
}

int
hm_gemm_enqueue(const struct hm_driver *driver, void *function,
    const struct humming_launch *launch, bool pdl, void *parameters,
    void *stream)
{
	struct hm_cuda_attribute attributes[2];
	struct hm_cuda_launch ours;
	void *pointers[1] = {parameters};

	memset(attributes, 0, sizeof attributes);
	memset(&ours, 0, sizeof ours);
	ours.grid_x = launch->grid_x;
	ours.grid_y = launch->grid_y != 0 ? launch->grid_y : 1;
	ours.grid_z = 1;
	ours.block_x = launch->block_threads;
	ours.block_y = 1;
	ours.block_z = 1;
	ours.smem_bytes = launch->dynamic_smem_bytes;
	ours.stream = stream;
	ours.attributes = attributes;
	if (launch->cluster_size > 1) {
		attributes[ours.n_attributes].id = HM_CUDA_LAUNCH_CLUSTER;
		attributes[ours.n_attributes].value.cluster.x =
		    launch->cluster_size;
		attributes[ours.n_attributes].value.cluster.y = 1;
		attributes[ours.n_attributes].value.cluster.z = 1;
		ours.n_attributes++;
	}
	if (pdl) {
		attributes[ours.n_attributes].id = HM_CUDA_LAUNCH_PDL;
		attributes[ours.n_attributes].value.allowed = 1;
		ours.n_attributes++;
	}
	return hm_driver_error(driver, "cuLaunchKernelEx",
	    driver->launch(&ours, function, pointers, NULL), hm_gemm_errbuf());
}

int
hm_gemm_call(const struct hm_gemm_call *call,
    const struct humming_gemm_args *args, void *stream)
{
	bool pdl =
	    call->launch.pdl != 0 && (args->flags & HUMMING_GEMM_NO_PDL) == 0;
	struct hm_gemm_params params;
	int error = call_params(call, args, &params);

	if (error != HM_OK)
		return error;
	return hm_gemm_enqueue(call->driver, call->function, &call->launch, pdl,
	    &params, stream);
}
