/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c - see request.h. The public constants are the house's own: a test
 * keeps the two sets equal.
 */
#include "client/request.h"

#include "client/sized.h"
#include "jit/spec.h"

int
hm_request_import(const struct humming_kernel_request *request,
    struct hm_request *request_out, struct hm_errbuf *errbuf)
{
	struct humming_kernel_request in;

	if (hm_sized_read(&in, sizeof in, request) != HM_OK) {
		hm_errbuf_set(errbuf,
		    "request: struct_size %u or an unknown tail (call "
		    "humming_kernel_request_init first)",
		    request->struct_size);
		return HM_E_INVALID;
	}
	if (in.target_cc == 0) {
		hm_errbuf_set(errbuf, "request: target_cc is not set");
		return HM_E_INVALID;
	}
	*request_out = (struct hm_request){
	    .target = {.cc = in.target_cc, .suffix = in.target_suffix},
	    .operation = in.operation,
	    .a_type = in.a_type,
	    .w_type = in.w_type,
	    .c_type = in.c_type,
	    .scale_kind = in.scale_kind,
	    .group = in.group,
	    .block_rows = in.block_rows,
	    .block_cols = in.block_cols,
	    .scale_type = in.scale_type,
	    .tensor_scale = in.tensor_scale,
	    .zero = in.zero,
	    .act_scale = in.act_scale,
	    .act_group = in.act_group,
	    .act_layout = in.act_layout,
	    .bias = in.bias,
	    .deterministic = in.deterministic,
	    .acc_type = in.acc_type,
	    .epilogue = in.epilogue,
	    .q_type = in.q_type,
	    .mx_exact = in.mx_exact,
	    .m = in.m,
	    .n = in.n,
	    .k = in.k,
	    .experts = in.experts,
	    .topk = in.topk,
	    .sms = in.sms,
	};
	hm_spec_complete(request_out);
	return HM_OK;
}

void
hm_request_export(const struct hm_request *request,
    struct humming_kernel_request *request_out)
{
	*request_out = (struct humming_kernel_request){
	    .struct_size = sizeof *request_out,
	    .operation = request->operation,
	    .target_cc = request->target.cc,
	    .target_suffix = request->target.suffix,
	    .a_type = request->a_type,
	    .w_type = request->w_type,
	    .c_type = request->c_type,
	    .scale_kind = request->scale_kind,
	    .group = request->group,
	    .block_rows = request->block_rows,
	    .block_cols = request->block_cols,
	    .scale_type = request->scale_type,
	    .tensor_scale = request->tensor_scale,
	    .zero = request->zero,
	    .act_scale = request->act_scale,
	    .act_group = request->act_group,
	    .act_layout = request->act_layout,
	    .bias = request->bias,
	    .deterministic = request->deterministic,
	    .acc_type = request->acc_type,
	    .epilogue = request->epilogue,
	    .q_type = request->q_type,
	    .mx_exact = request->mx_exact,
	    .m = request->m,
	    .n = request->n,
	    .k = request->k,
	    .experts = request->experts,
	    .topk = request->topk,
	    .sms = request->sms,
	};
}
