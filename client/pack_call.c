/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack_call.c - from a matrix in device memory to cuLaunchKernelEx.
 *
 * The kernel checks no pointer and no size, so that happens here. What only
 * the GPU can see, codes and scales, it reports itself.
 */
#include "client/pack_call.h"

#include <string.h>

#include "client/gemm_call.h"
#include "client/gemm_error.h"
#include "client/pack_params.h"
#include "client/sized.h"

static int
pack_check_pointer(const char *name, const void *pointer)
{
	return hm_gemm_check_pointer("packer", name, pointer);
}

static int
pack_check_optional(const char *name, const void *pointer)
{
	return pointer != NULL ? pack_check_pointer(name, pointer) : HM_OK;
}

static int
pack_check(const struct humming_weight_source *source,
    const struct humming_packer_args *args)
{
	int error = pack_check_pointer("codes", source->codes);

	if (error == HM_OK)
		error = pack_check_pointer("scales", source->scales);
	if (error == HM_OK && source->zero != HUMMING_ZERO_NONE)
		error = pack_check_pointer("zeros", source->zeros);
	if (error == HM_OK)
		error = pack_check_optional("bias", source->bias);
	if (error == HM_OK)
		error = pack_check_pointer("packed", args->packed);
	if (error == HM_OK)
		error = pack_check_pointer("rowmul", args->rowmul);
	if (error == HM_OK)
		error = pack_check_optional("packed bias", args->bias);
	if (error == HM_OK)
		error = pack_check_optional("problems", args->problems);
	return error;
}

static uint32_t
pack_float_type(uint32_t type)
{
	switch (type) {
	case HUMMING_TYPE_F32:
		return HM_PACK_F32;
	case HUMMING_TYPE_F16:
		return HM_PACK_F16;
	case HUMMING_TYPE_E8M0:
		return HM_PACK_E8M0;
	default: /* bf16, and what zeros are said to be that are not there */
		return HM_PACK_BF16;
	}
}

static struct hm_pack_params
pack_params(const struct hm_weight *weight,
    const struct humming_packer_args *args)
{
	const struct humming_weight_source *source = &weight->source;
	struct hm_pack_params params;

	memset(&params, 0, sizeof params);
	params.codes = (uintptr_t)source->codes;
	params.scales = (uintptr_t)source->scales;
	if (source->zero != HUMMING_ZERO_NONE)
		params.zeros = (uintptr_t)source->zeros;
	params.source_bias = (uintptr_t)source->bias;
	params.packed = (uintptr_t)args->packed;
	params.rowmul = (uintptr_t)args->rowmul;
	params.bias = (uintptr_t)args->bias;
	params.problems = (uintptr_t)args->problems;
	params.n = source->n;
	params.k = source->k;
	/* On a little-endian machine words are bytes, and GPUs are that. */
	params.code_pairs = weight->field->bits == 4 &&
			    source->code_layout != HUMMING_CODES_BYTES;
	params.scale_type = pack_float_type(source->scale_type);
	params.zero_type = pack_float_type(source->zero_type);
	params.scale_rows = weight->scale_rows;
	return params;
}

int
hm_pack_call(const struct hm_pack_call *call,
    const struct humming_packer_args *args, void *stream)
{
	struct humming_packer_args checked;
	struct hm_pack_params params;
	int error = hm_sized_read(&checked, sizeof checked, args);

	if (error != HM_OK || checked.reserved != 0) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "packer: bad struct_size or reserved");
		return HM_E_INVALID;
	}
	error = pack_check(&call->weight.source, &checked);
	if (error != HM_OK)
		return error;
	params = pack_params(&call->weight, &checked);
	return hm_gemm_enqueue(call->driver, call->function, &call->launch,
	    false, &params, stream);
}
