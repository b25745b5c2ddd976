/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_want.c - which kernels a command line asks for: targets times the layers
 * of a model, or times SPECs. plan prints this set, prewarm builds it.
 */
#include "client/ctl.h"

#include <stdio.h>
#include <string.h>

#include <humming/gemm.h>

#include "jit/plan.h"
#include "jit/spec.h"

/* The first GPU's own target. */
static int
want_gpu_target(struct hm_target *target_out)
{
	struct humming_device_info info = {.struct_size = sizeof info};
	struct humming_device *device;
	int error;

	error = humming_device_open(0, &device);
	if (error != HM_OK)
		return error;
	error = humming_device_get_info(device, &info);
	humming_device_close(device);
	if (error != HM_OK)
		return error;
	target_out->cc = info.target_cc;
	target_out->suffix = info.target_suffix;
	return HM_OK;
}

int
hm_ctl_targets(const struct hm_ctl *ctl,
    struct hm_target targets_out[HM_CTL_MAX_TARGETS], size_t *n_out)
{
	struct hm_errbuf why = {.text = ""};
	const char *next = ctl->arch;
	char text[16];
	size_t n = 0, length;

	if (ctl->arch == NULL) {
		if (want_gpu_target(&targets_out[0]) != HM_OK)
			return hm_ctl_usage(ctl,
			    "there is no GPU to take the architecture from: "
			    "give --arch, as in --arch sm_90a");
		*n_out = 1;
		return HM_CTL_OK;
	}
	for (;;) {
		length = strcspn(next, ",");
		(void)snprintf(text, sizeof text, "%.*s",
		    length < sizeof text ? (int)length : (int)sizeof text - 1,
		    next);
		if (n == HM_CTL_MAX_TARGETS)
			return hm_ctl_fail(ctl, "--arch: more than %d",
			    HM_CTL_MAX_TARGETS);
		if (hm_target_parse(text, &targets_out[n], &why) != HM_OK)
			return hm_ctl_fail(ctl, "--arch: %s",
			    hm_ctl_why(HM_E_INVALID, &why));
		n++;
		if (next[length] == '\0')
			break;
		next += length + 1;
	}
	*n_out = n;
	return HM_CTL_OK;
}

int
hm_ctl_kernel_targets(const struct hm_ctl *ctl,
    struct hm_target targets_out[HM_CTL_MAX_TARGETS], size_t *n_out)
{
	struct hm_errbuf why = {.text = ""};
	int code;

	code = hm_ctl_targets(ctl, targets_out, n_out);
	for (size_t i = 0; code == HM_CTL_OK && i < *n_out; i++) {
		if (hm_plan_check_target(&targets_out[i], &why) != HM_OK)
			code = hm_ctl_fail(ctl, "%s%s",
			    ctl->arch != NULL ? "--arch: " : "", why.text);
	}
	return code;
}

static int
want_add(const struct hm_ctl *ctl, struct hm_kernel_set *set, const char *layer,
    const struct hm_request *request)
{
	struct hm_errbuf why = {.text = ""};
	int error;

	error = hm_kernel_set_add(set, layer, request, ctl->max_m, &why);
	if (error == HM_OK)
		return HM_CTL_OK;
	return hm_ctl_fail(ctl, "%s: %s", layer, hm_ctl_why(error, &why));
}

static int
want_model(const struct hm_ctl *ctl, const struct hm_target *targets, size_t n,
    struct hm_kernel_set *set)
{
	struct hm_errbuf why = {.text = ""};
	struct hm_request request;
	struct hm_model model;
	int code = HM_CTL_OK;
	int error;

	error = hm_model_load(ctl->model, &ctl->model_options, &model, &why);
	if (error != HM_OK)
		return hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
	for (size_t i = 0; i < n && code == HM_CTL_OK; i++) {
		for (size_t j = 0; j < model.n_layers && code == HM_CTL_OK;
		     j++) {
			request = model.layers[j].request;
			request.target = targets[i];
			code =
			    want_add(ctl, set, model.layers[j].name, &request);
		}
	}
	return code;
}

static int
want_specs(const struct hm_ctl *ctl, const struct hm_target *targets, size_t n,
    struct hm_kernel_set *set)
{
	struct hm_errbuf why = {.text = ""};
	struct hm_request request;
	int code = HM_CTL_OK;
	int error;

	for (size_t i = 0; i < n * ctl->n_operands && code == HM_CTL_OK; i++) {
		error = hm_spec_parse(ctl->operands[i % ctl->n_operands],
		    &request, &why);
		if (error != HM_OK)
			return hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
		request.target = targets[i / ctl->n_operands];
		code = want_add(ctl, set, ctl->operands[i % ctl->n_operands],
		    &request);
	}
	return code;
}

int
hm_ctl_collect(const struct hm_ctl *ctl, struct hm_kernel_set *set)
{
	struct hm_target targets[HM_CTL_MAX_TARGETS];
	size_t n = 0;
	int code;

	if (ctl->model != NULL && ctl->n_operands != 0)
		return hm_ctl_usage(ctl, "takes --model or SPECs, not both");
	if (ctl->model == NULL && ctl->n_operands == 0)
		return hm_ctl_usage(ctl, "needs --model or a SPEC");
	if (ctl->model == NULL && ctl->of_model != NULL)
		return hm_ctl_usage(ctl, "--%s takes --model beside it",
		    ctl->of_model);
	code = hm_ctl_kernel_targets(ctl, targets, &n);
	if (code != HM_CTL_OK)
		return code;
	if (ctl->model != NULL)
		return want_model(ctl, targets, n, set);
	return want_specs(ctl, targets, n, set);
}
