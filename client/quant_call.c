/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_call.c - from a matrix of activations to cuLaunchKernelEx.
 *
 * Everything the kernel takes for granted is checked in hm_quant_check: it
 * checks nothing itself.
 */
#include "client/quant.h"

#include <string.h>

#include "client/gemm_call.h"
#include "client/gemm_error.h"
#include "client/quant_params.h"
#include "client/sized.h"

/* Two of them are countable in 32 bits; jit/launch has the same bound. */
#define QUANT_MOST_K (1u << 28)

static int
quant_refuse(const char *what)
{
	hm_errbuf_set(hm_gemm_errbuf(), "quant: no kernel for this %s", what);
	return HM_E_UNSUPPORTED;
}

int
hm_quant_describe(const struct humming_kernel_request *request,
    struct hm_quant_format *format_out)
{
	struct humming_kernel_request full;
	struct hm_quant_format format;

	if (hm_sized_read(&full, sizeof full, request) != HM_OK) {
		hm_errbuf_set(hm_gemm_errbuf(), "quant: bad request");
		return HM_E_INVALID;
	}
	memset(&format, 0, sizeof format);
	format.a_type = full.a_type;
	format.c_type = full.c_type != 0 ? full.c_type : HUMMING_TYPE_BF16;
	format.act_scale =
	    full.act_scale != 0 ? full.act_scale : HUMMING_ACT_TOKEN;
	format.m_major = full.act_layout == 1;
	format.silu_mul = full.epilogue == HUMMING_EPILOGUE_SILU_MUL;
	if (format.a_type != HUMMING_TYPE_E4M3 &&
	    format.a_type != HUMMING_TYPE_E5M2 &&
	    format.a_type != HUMMING_TYPE_SINT(8))
		return quant_refuse("a_type: e4m3, e5m2 and s8 are made");
	if (format.c_type != HUMMING_TYPE_BF16 &&
	    format.c_type != HUMMING_TYPE_F16)
		return quant_refuse("c_type: bf16 and f16 are read");
	if (format.act_scale != HUMMING_ACT_TOKEN &&
	    format.act_scale != HUMMING_ACT_GROUP)
		return quant_refuse("act_scale: token and group are made");
	if (format.act_scale == HUMMING_ACT_GROUP && full.act_group != 0 &&
	    full.act_group != HM_QUANT_GROUP)
		return quant_refuse("act_group: it is 128");
	if (full.act_layout > 1)
		return quant_refuse("act_layout: 0 or 1");
	if (full.epilogue != HUMMING_EPILOGUE_NONE && !format.silu_mul)
		return quant_refuse("epilogue: none and silu-mul");
	*format_out = format;
	return HM_OK;
}

static int
quant_check_pointer(const char *name, const void *pointer)
{
	return hm_gemm_check_pointer("quant", name, pointer);
}

static int
quant_check_stride(const char *name, uint32_t stride, uint32_t columns)
{
	if (stride % 8 == 0 && stride >= columns)
		return HM_OK;
	hm_errbuf_set(hm_gemm_errbuf(),
	    "quant: %s = %u must be a multiple of 8 and at least %u", name,
	    stride, columns);
	return HM_E_INVALID;
}

static void
quant_fill_steps(const struct hm_quant_format *format,
    struct humming_quant_args *args)
{
	uint32_t n_groups = (args->k + HM_QUANT_GROUP - 1) / HM_QUANT_GROUP;
	bool grouped = format->act_scale == HUMMING_ACT_GROUP;

	if (args->ldx == 0)
		args->ldx = format->silu_mul ? 2 * args->k : args->k;
	if (args->ldq == 0)
		args->ldq = args->k;
	if (args->scale_step == 0)
		args->scale_step = grouped && !format->m_major ? n_groups : 1;
	if (args->scale_group_step == 0)
		args->scale_group_step = format->m_major ? args->m : 1;
}

int
hm_quant_check(const struct hm_quant_format *format,
    const struct humming_quant_args *args, struct humming_quant_args *args_out)
{
	struct humming_quant_args checked;
	uint32_t columns = 0;
	int error = hm_sized_read(&checked, sizeof checked, args);

	if (error != HM_OK || checked.reserved != 0) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "quant: bad struct_size or reserved");
		return HM_E_INVALID;
	}
	if (checked.m != 0) {
		if (checked.k == 0 || checked.k % 8 != 0 ||
		    checked.k > QUANT_MOST_K) {
			hm_errbuf_set(hm_gemm_errbuf(),
			    "quant: k = %u must be a multiple of 8 up to 2^28",
			    checked.k);
			return HM_E_INVALID;
		}
		quant_fill_steps(format, &checked);
		columns = format->silu_mul ? 2 * checked.k : checked.k;
		error = quant_check_pointer("x", checked.x);
		if (error == HM_OK)
			error = quant_check_pointer("q", checked.q);
		if (error == HM_OK)
			error = quant_check_pointer("scale", checked.scale);
		if (error == HM_OK)
			error = quant_check_stride("ldx", checked.ldx, columns);
		if (error == HM_OK)
			error =
			    quant_check_stride("ldq", checked.ldq, checked.k);
	}
	if (error == HM_OK)
		*args_out = checked;
	return error;
}

int
hm_quant_call(const struct hm_quant_call *call,
    const struct humming_quant_args *args, void *stream)
{
	struct hm_quant_params params;

	memset(&params, 0, sizeof params);
	params.x = (uintptr_t)args->x;
	params.q = (uintptr_t)args->q;
	params.scale = (uintptr_t)args->scale;
	params.m = args->m;
	params.k = args->k;
	params.ldx = args->ldx;
	params.ldq = args->ldq;
	params.scale_step = args->scale_step;
	params.scale_group_step = args->scale_group_step;
	return hm_gemm_enqueue(call->driver, call->function, &call->launch,
	    call->launch.pdl != 0, &params, stream);
}
