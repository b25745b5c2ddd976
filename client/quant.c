/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant.c - the quantization kernel of one format, from hummingd.
 *
 * One kernel quantizes every matrix of a format, whatever its sizes. Nothing in
 * it changes after it was opened, so that any thread may launch it.
 */
#include "client/quant.h"

#include <stdlib.h>
#include <string.h>

#include "client/device.h"
#include "client/gemm_error.h"
#include "client/sized.h"

struct humming_quant {
	struct humming_device *device; /* borrowed; outlives the quant */
	struct humming_kernel *kernel; /* reference */
	struct hm_module *module;      /* reference */
	struct hm_quant_format format;
};

/* Only what the kernel depends on: equal kernels have equal requests. */
static void
quant_make_request(const struct humming_device *device,
    const struct humming_kernel_request *wanted,
    const struct hm_quant_format *format,
    struct humming_kernel_request *request)
{
	struct humming_kernel_request full;

	humming_kernel_request_init(request, sizeof *request);
	request->operation = HUMMING_OPERATION_QUANT;
	request->target_cc = device->info.target_cc;
	request->target_suffix = device->info.target_suffix;
	request->sms = device->info.sms;
	if (hm_sized_read(&full, sizeof full, wanted) == HM_OK) {
		if (full.target_cc != 0) {
			request->target_cc = full.target_cc;
			request->target_suffix = full.target_suffix;
		}
		if (full.sms != 0)
			request->sms = full.sms;
	}
	request->a_type = format->a_type;
	request->c_type = format->c_type;
	request->act_scale = format->act_scale;
	if (format->act_scale == HUMMING_ACT_GROUP)
		request->act_group = HM_QUANT_GROUP;
	if (format->silu_mul)
		request->epilogue = HUMMING_EPILOGUE_SILU_MUL;
}

static int
quant_fetch(struct humming_quant *quant, struct humming_client *client,
    const struct humming_kernel_request *wanted)
{
	struct humming_kernel_info info = {.struct_size = sizeof info};
	struct humming_kernel_request request;
	int error = HM_OK;

	quant_make_request(quant->device, wanted, &quant->format, &request);
	error = humming_client_get_kernel(client, &request, &quant->kernel);
	if (error != HUMMING_OK) {
		hm_errbuf_set(hm_gemm_errbuf(), "%s",
		    humming_client_last_error(client));
		return error;
	}
	error = humming_kernel_get_info(quant->kernel, &info);
	if (error != HUMMING_OK)
		return error;
	return hm_module_get(quant->device, info.key, quant->kernel,
	    &quant->module);
}

int
humming_quant_open(struct humming_device *device, struct humming_client *client,
    const struct humming_kernel_request *request,
    struct humming_quant **quant_out)
{
	struct humming_quant *quant = NULL;
	struct hm_quant_format format;
	int error = hm_quant_describe(request, &format);

	if (error != HM_OK)
		return error;
	if (device == NULL || client == NULL || quant_out == NULL) {
		hm_errbuf_set(hm_gemm_errbuf(), "quant: bad argument");
		return HUMMING_E_INVALID;
	}
	quant = calloc(1, sizeof *quant);
	if (quant == NULL)
		return hm_gemm_no_memory("quant");
	quant->device = device;
	quant->format = format;
	error = quant_fetch(quant, client, request);
	if (error != HM_OK) {
		humming_quant_close(quant);
		return error;
	}
	*quant_out = quant;
	return HUMMING_OK;
}

void
humming_quant_close(struct humming_quant *quant)
{
	if (quant == NULL)
		return;
	hm_module_put(quant->device, quant->module);
	humming_kernel_unref(quant->kernel);
	free(quant);
}

void
humming_quant_args_init(struct humming_quant_args *args, uint32_t struct_size)
{
	hm_sized_init(args, struct_size);
}

int
humming_quant_launch(struct humming_quant *quant,
    const struct humming_quant_args *args, void *stream)
{
	struct humming_quant_args checked;
	struct hm_quant_call call;
	int error = HM_OK;

	if (quant == NULL) {
		hm_errbuf_set(hm_gemm_errbuf(), "quant: bad argument");
		return HUMMING_E_INVALID;
	}
	error = hm_quant_check(&quant->format, args, &checked);
	if (error != HM_OK || checked.m == 0)
		return error;
	memset(&call, 0, sizeof call);
	call.driver = quant->device->driver;
	call.function = quant->module->function;
	call.launch.struct_size = sizeof call.launch;
	/* The kernel has no N. */
	error = humming_kernel_launch(quant->kernel, checked.m, checked.k,
	    checked.k, &call.launch);
	if (error != HUMMING_OK) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "quant: no way to launch m = %u, k = %u", checked.m,
		    checked.k);
		return error;
	}
	return hm_quant_call(&call, &checked, stream);
}
