/* SPDX-License-Identifier: Apache-2.0 */
/*
 * packer.c - the packing kernel of one weight format, from hummingd.
 *
 * One kernel packs every matrix of a format, whatever its sizes and whatever
 * types its scales come in. Nothing in a packer changes after it was opened, so
 * that any thread may launch it.
 */
#include <humming/gemm.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/device.h"
#include "client/gemm_error.h"
#include "client/pack_call.h"
#include "client/sized.h"
#include "client/weight.h"

struct humming_packer {
	struct humming_device *device; /* borrowed; outlives the packer */
	struct humming_kernel *kernel; /* reference */
	struct hm_module *module;      /* reference */
	struct hm_weight weight;       /* the format; sizes and pointers of no
	                                * meaning */
};

static uint32_t
packer_scale_type(enum hm_config_scale scale)
{
	switch (scale) {
	case HM_CONFIG_SCALE_NONE:
		return 0;
	case HM_CONFIG_SCALE_BF16:
		return HUMMING_TYPE_BF16;
	case HM_CONFIG_SCALE_F16:
		return HUMMING_TYPE_F16;
	case HM_CONFIG_SCALE_F32:
		return HUMMING_TYPE_F32;
	case HM_CONFIG_SCALE_E8M0:
	case HM_CONFIG_SCALE_MX:
		return HUMMING_TYPE_E8M0;
	}
	return 0;
}

/* Asks for what the chunks hold: blocks are groups of 128 there, and the scale
 * of a tensor that of its rows. */
static void
packer_make_request(const struct humming_device *device,
    const struct hm_weight *weight, struct humming_kernel_request *request)
{
	const struct humming_weight_source *source = &weight->source;
	bool grouped = weight->scale != HM_CONFIG_SCALE_NONE;

	humming_kernel_request_init(request, sizeof *request);
	request->operation = HUMMING_OPERATION_PACK;
	request->target_cc = device->info.target_cc;
	request->target_suffix = device->info.target_suffix;
	request->sms = device->info.sms;
	request->a_type = source->a_type;
	request->w_type = source->w_type;
	request->scale_kind =
	    grouped ? HUMMING_SCALE_GROUP : HUMMING_SCALE_CHANNEL;
	request->group = grouped ? weight->group : 0;
	request->scale_type = packer_scale_type(weight->scale);
	request->mx_exact = source->mx_exact;
	request->zero = source->zero;
}

/* Whether chunks of both look alike. */
static bool
packer_is_same(const struct hm_weight *a, const struct hm_weight *b)
{
	return a->source.a_type == b->source.a_type &&
	       a->source.w_type == b->source.w_type && a->scale == b->scale &&
	       a->line_groups == b->line_groups &&
	       a->source.zero == b->source.zero;
}

static int
packer_fetch(const struct humming_device *device, struct humming_client *client,
    const struct hm_weight *weight, struct humming_kernel **kernel_out)
{
	struct humming_kernel_request request;
	int error = HUMMING_OK;

	packer_make_request(device, weight, &request);
	error = humming_client_get_kernel(client, &request, kernel_out);
	if (error != HUMMING_OK)
		hm_errbuf_set(hm_gemm_errbuf(), "%s",
		    humming_client_last_error(client));
	return error;
}

int
humming_packer_open(struct humming_device *device,
    struct humming_client *client, const struct humming_weight_source *source,
    struct humming_packer **packer_out)
{
	struct humming_kernel_info info = {.struct_size = sizeof info};
	struct humming_packer *packer = NULL;
	struct hm_weight weight;
	int error = hm_weight_describe(source, &weight);

	if (error != HM_OK)
		return error;
	if (device == NULL || client == NULL || packer_out == NULL) {
		hm_errbuf_set(hm_gemm_errbuf(), "packer: bad argument");
		return HUMMING_E_INVALID;
	}
	packer = calloc(1, sizeof *packer);
	if (packer == NULL)
		return hm_gemm_no_memory("packer");
	packer->device = device;
	packer->weight = weight;
	error = packer_fetch(device, client, &weight, &packer->kernel);
	if (error == HM_OK)
		error = humming_kernel_get_info(packer->kernel, &info);
	if (error == HM_OK)
		error = hm_module_get(device, info.key, packer->kernel,
		    &packer->module);
	if (error != HM_OK) {
		humming_packer_close(packer);
		return error;
	}
	*packer_out = packer;
	return HUMMING_OK;
}

void
humming_packer_close(struct humming_packer *packer)
{
	if (packer == NULL)
		return;
	hm_module_put(packer->device, packer->module);
	humming_kernel_unref(packer->kernel);
	free(packer);
}

void
humming_packer_args_init(struct humming_packer_args *args, uint32_t struct_size)
{
	hm_sized_init(args, struct_size);
}

int
humming_packer_launch(struct humming_packer *packer,
    const struct humming_weight_source *source,
    const struct humming_packer_args *args, void *stream)
{
	struct hm_pack_call call;
	int error = HM_OK;

	memset(&call, 0, sizeof call);
	error = hm_weight_describe(source, &call.weight);
	if (error != HM_OK)
		return error;
	source = &call.weight.source;
	if (packer == NULL || !packer_is_same(&packer->weight, &call.weight)) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "packer: opened for other types, scales or zero points");
		return HUMMING_E_INVALID;
	}
	call.driver = packer->device->driver;
	call.function = packer->module->function;
	call.launch.struct_size = sizeof call.launch;
	error = humming_kernel_launch(packer->kernel, 1, source->n, source->k,
	    &call.launch);
	if (error != HUMMING_OK) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "packer: no way to launch n = %u, k = %u", source->n,
		    source->k);
		return error;
	}
	return hm_pack_call(&call, args, stream);
}
