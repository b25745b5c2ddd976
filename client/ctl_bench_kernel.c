/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_bench_kernel.c - what a bench asks for: always for sm_90a, so that it
 * needs no GPU and everybody's numbers mean the same kernels.
 */
#include "client/ctl_bench.h"

#include <stdio.h>
#include <string.h>

#include "client/fetch.h"
#include "client/request.h"
#include "jit/spec.h"
#include "proto/fd.h"

#define BENCH_CC     90u
#define BENCH_SUFFIX 'a'
/* The largest GET or COMPILE of one kernel: far below a packet. */
#define BODY_BYTES 4096u

/* A kernel and a table: 199 KiB of constants that the cubin carries. */
static const char bench_source[] =
    "__device__ unsigned table[50944] = {1};\n"
    "extern \"C\" __global__ void bench_large(unsigned *out)\n"
    "{\n"
    "\tout[threadIdx.x] = table[out[threadIdx.x] % 50944];\n"
    "}\n";

/* Qwen/Qwen3-32B on Hugging Face: what of its config.json a plan reads. */
static const char bench_config[] =
    "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\","
    " \"hidden_size\": 5120, \"intermediate_size\": 25600,"
    " \"num_hidden_layers\": 64, \"num_attention_heads\": 64,"
    " \"num_key_value_heads\": 8, \"head_dim\": 128,"
    " \"vocab_size\": 151936, \"torch_dtype\": \"bfloat16\"}";

int
hm_bench_want_spec(struct hm_bench *bench, const char *spec,
    struct hm_bench_want *want_out)
{
	struct hm_request request;
	int error;

	memset(want_out, 0, sizeof *want_out);
	error = hm_spec_parse(spec, &request, &bench->why);
	if (error != HM_OK)
		return error;
	request.target = (struct hm_target){BENCH_CC, BENCH_SUFFIX};
	hm_request_export(&request, &want_out->request);
	return HM_OK;
}

void
hm_bench_source(const char *text, struct humming_source *source_out)
{
	memset(source_out, 0, sizeof *source_out);
	source_out->struct_size = sizeof *source_out;
	source_out->target_cc = BENCH_CC;
	source_out->target_suffix = BENCH_SUFFIX;
	source_out->name = "bench.cu";
	source_out->text = text;
	source_out->text_bytes = strlen(text);
}

void
hm_bench_want_large(struct humming_source *source,
    struct hm_bench_want *want_out)
{
	hm_bench_source(bench_source, source);
	memset(want_out, 0, sizeof *want_out);
	want_out->source = source;
}

int
hm_bench_get(struct hm_bench *bench, struct humming_client *client,
    const struct hm_bench_want *want, struct humming_kernel **kernel_out)
{
	int error;

	error =
	    want->source != NULL
		? humming_client_compile(client, want->source, kernel_out)
		: humming_client_get_kernel(client, &want->request, kernel_out);
	if (error != HUMMING_OK)
		hm_errbuf_set(&bench->why, "%s",
		    humming_client_last_error(client));
	return error;
}

/* The packet that the library sends for it. */
static int
kernel_pack(struct hm_bench *bench, const struct hm_bench_want *want,
    uint8_t body[BODY_BYTES], struct hm_frame *frame)
{
	const struct humming_source *source = want->source;
	struct hm_request request;
	struct hm_get get = {.deadline_ms = 1, .requests = &request};
	struct hm_compile compile = {.deadline_ms = 1};
	int error;

	if (source == NULL) {
		error =
		    hm_request_import(&want->request, &request, &bench->why);
		if (error != HM_OK)
			return error;
		get.n_requests = 1;
		frame->type = HM_FRAME_GET;
		return hm_codec_pack_get(&get, body, BODY_BYTES,
		    &frame->n_body);
	}
	frame->type = HM_FRAME_COMPILE;
	frame->raw = (const uint8_t *)source->text;
	frame->n_raw = source->text_bytes;
	compile.target.cc = source->target_cc;
	compile.target.suffix = source->target_suffix;
	compile.source_bytes = (uint32_t)source->text_bytes;
	(void)snprintf(compile.name, sizeof compile.name, "%s", source->name);
	return hm_codec_pack_compile(&compile, body, BODY_BYTES,
	    &frame->n_body);
}

/* Ask over the wire and look at the packets. */
static int
kernel_measure_packets(struct hm_bench *bench, struct hm_bench_want *want)
{
	uint8_t body[BODY_BYTES];
	struct hm_frame frame = {.body = body, .fd = -1};
	struct hm_transport *transport = &bench->link.transport;
	const void *map;
	int error;

	error = kernel_pack(bench, want, body, &frame);
	if (error != HM_OK)
		return error;
	want->sizes.request_bytes =
	    HM_FRAME_HEADER_BYTES + frame.n_body + frame.n_raw;
	frame.request_id = hm_link_next_id(&bench->link);
	error = hm_transport_send(transport, &frame, bench->deadline);
	if (error == HM_OK)
		error = hm_link_recv(&bench->link, frame.request_id,
		    bench->deadline, &frame);
	if (error != HM_OK)
		return error;
	want->sizes.reply_bytes =
	    HM_FRAME_HEADER_BYTES + frame.n_body + frame.n_raw;
	if (frame.type != HM_FRAME_KERNEL)
		error = HM_E_PROTOCOL;
	if (error == HM_OK && frame.fd != -1) {
		error = hm_fd_map_sealed(frame.fd, HM_MAX_IMAGE_BYTES, &map,
		    &want->sizes.file_bytes);
		if (error == HM_OK)
			hm_fd_unmap(map, want->sizes.file_bytes);
	}
	hm_fd_close(&frame.fd);
	return error;
}

int
hm_bench_prepare(struct hm_bench *bench, struct hm_bench_want *want)
{
	struct humming_client *client = NULL;
	struct humming_kernel *kernel = NULL;
	int error;

	error = hm_bench_open(bench, &client);
	if (error == HM_OK)
		error = hm_bench_get(bench, client, want, &kernel);
	if (error == HM_OK)
		error = kernel_measure_packets(bench, want);
	humming_kernel_unref(kernel);
	humming_client_close(client);
	return error;
}

int
hm_bench_model(struct hm_bench *bench, struct hm_kernel_set *set)
{
	const struct hm_model_options options = {.quant = "w4a16"};
	struct hm_model model;
	struct hm_request request;
	int error;

	error = hm_model_parse(bench_config, sizeof bench_config - 1,
	    "Qwen3-32B", &options, &model, &bench->why);
	for (size_t i = 0; error == HM_OK && i < model.n_layers; i++) {
		request = model.layers[i].request;
		request.target = (struct hm_target){BENCH_CC, BENCH_SUFFIX};
		error = hm_kernel_set_add(set, model.layers[i].name, &request,
		    0, &bench->why);
	}
	return error;
}
