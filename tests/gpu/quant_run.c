/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_run.c - from a format to its quantization kernel, and the launch by the
 * library's client/quant_call.c with the grid of jit/launch.
 */
#include "quant_run.h"

#include <stdio.h>
#include <string.h>

#include "client/gemm_error.h"
#include "client/quant.h"
#include "jit/type.h"
#include "proto/request.h"

bool
quant_config(const struct session *session, const struct format *format,
    struct hm_config *config_out)
{
	char a[HM_TYPE_CHARS], c[HM_TYPE_CHARS], text[96];
	struct hm_plan plan;

	hm_type_print(format_a_type(format), a);
	hm_type_print(format_c_type(format), c);
	snprintf(text, sizeof text, "quant,a=%s,c=%s,act=%s", a, c,
	    format->act_scales == FORMAT_ACT_GROUP ? "128" : "token");
	if (!session_plan_text(session, text, &session->target, &plan))
		return false;
	*config_out = plan.rows[0].config;
	return true;
}

int
quant_launch(const struct quant_run *run)
{
	const struct ops_activations *q = run->q;
	struct hm_plan_row row = {.m_lo = 1,
	    .m_hi = UINT32_MAX,
	    .config = run->kernel->config,
	    .cluster = 1};
	struct hm_quant_format format = {.silu_mul = false};
	struct humming_quant_args args = {.struct_size = sizeof args};
	struct hm_quant_call call;
	struct hm_launch launch;
	int error =
	    hm_launch_compute(&row, run->m, q->k, q->k, run->sms, &launch);

	if (error != HM_OK) {
		hm_errbuf_set(hm_gemm_errbuf(), "jit/launch refuses a quant");
		return error;
	}
	memset(&call, 0, sizeof call);
	call.driver = run->driver;
	call.function = run->kernel->function;
	call.launch.grid_x = launch.grid_x;
	call.launch.grid_y = launch.grid_y;
	call.launch.block_threads = launch.threads;
	call.launch.dynamic_smem_bytes = launch.smem_bytes;
	call.launch.pdl = run->pdl;
	format.act_scale =
	    run->kernel->config.act_scale == HM_CONFIG_ACT_SCALE_GROUP
		? HUMMING_ACT_GROUP
		: HUMMING_ACT_TOKEN;
	args.m = run->m;
	args.k = q->k;
	args.ldx = q->k;
	args.ldq = q->ld;
	args.scale_step = q->scale_step;
	args.scale_group_step = q->scale_group_step;
	args.x = run->d_x;
	args.q = q->d_a;
	args.scale = q->d_scales;
	error = hm_quant_check(&format, &args, &args);
	return error == HM_OK ? hm_quant_call(&call, &args, run->stream)
			      : error;
}
