/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_get.c - get: one kernel by its SPEC, or all of a model in one round trip.
 */
#include "client/ctl.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/ctl_row.h"
#include "client/fetch.h"
#include "jit/spec.h"

/* What has been got so far. */
struct get_results {
	struct humming_kernel **kernels; /* owned */
	size_t n;
	size_t n_failed;
	int error; /* the first failure's */
	struct hm_errbuf why;
};

static void
get_on_result(void *payload, const struct hm_fetch_result *result)
{
	struct get_results *results = payload;

	results->kernels[result->index] = result->kernel;
	if (result->error == HM_OK)
		return;
	if (results->n_failed++ == 0) {
		results->error = result->error;
		hm_errbuf_set(&results->why, "%s",
		    result->message != NULL ? result->message : "");
	}
}

static int
get_init(struct get_results *results, size_t n)
{
	results->n = n;
	results->kernels =
	    calloc(n != 0 ? n : 1, sizeof(struct humming_kernel *));
	return results->kernels != NULL ? HM_OK : HM_E_NOMEM;
}

static void
get_done(struct get_results *results)
{
	for (size_t i = 0; results->kernels != NULL && i < results->n; i++)
		humming_kernel_unref(results->kernels[i]);
	free(results->kernels);
}

/* All requests over one link. HM_CTL_OK, or with the line written. */
static int
get_fetch(const struct hm_ctl *ctl, const struct hm_request *requests, size_t n,
    struct get_results *results)
{
	int64_t deadline = hm_ctl_deadline(ctl, false);
	struct hm_errbuf why = {.text = ""};
	struct hm_fetch fetch = {
	    .requests = requests,
	    .n_requests = n,
	    .on_result = get_on_result,
	    .payload = results,
	};
	struct hm_link link;
	int code;

	if (get_init(results, n) != HM_OK)
		return hm_ctl_fail(ctl, "out of memory");
	code = hm_ctl_open(ctl, true, deadline, &link);
	if (code != HM_CTL_OK)
		return code;
	(void)hm_fetch_run(&link, &fetch, deadline, &why);
	hm_link_done(&link);
	if (results->n_failed != 0)
		return hm_ctl_fail(ctl, "%s",
		    hm_ctl_why(results->error, &results->why));
	return HM_CTL_OK;
}

static int
get_write(const struct hm_ctl *ctl, const struct humming_kernel *kernel)
{
	struct hm_errbuf why = {.text = ""};
	const void *image;
	size_t n_image;
	int error;

	if (ctl->output == NULL)
		return HM_CTL_OK;
	error = humming_kernel_image(kernel, &image, &n_image);
	if (error == HM_OK)
		error = hm_ctl_write_file(ctl->output, image, n_image, &why);
	return error == HM_OK ? HM_CTL_OK
			      : hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
}

static int
get_one(const struct hm_ctl *ctl)
{
	struct get_results results = {.n = 0};
	struct hm_errbuf why = {.text = ""};
	struct hm_target targets[HM_CTL_MAX_TARGETS];
	struct hm_request request;
	size_t n_targets;
	int code, error;

	error = hm_spec_parse(ctl->operands[0], &request, &why);
	if (error != HM_OK)
		return hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
	code = hm_ctl_kernel_targets(ctl, targets, &n_targets);
	if (code != HM_CTL_OK)
		return code;
	if (n_targets != 1)
		return hm_ctl_usage(ctl, "takes one architecture");
	request.target = targets[0];
	code = get_fetch(ctl, &request, 1, &results);
	if (code == HM_CTL_OK)
		code = get_write(ctl, results.kernels[0]);
	if (code == HM_CTL_OK && !ctl->json)
		hm_ctl_row_print(results.kernels[0]);
	else if (code == HM_CTL_OK && hm_ctl_json_print(hm_ctl_row_json(
					  results.kernels[0])) != HM_OK)
		code = hm_ctl_fail(ctl, "out of memory");
	get_done(&results);
	return code;
}

static int
get_print_json(const struct hm_ctl *ctl, const struct get_results *results)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < results->n; i++) {
		if (json_array_append_new(rows,
			hm_ctl_row_json(results->kernels[i])) != 0) {
			json_decref(rows);
			rows = NULL;
			break;
		}
	}
	if (hm_ctl_json_print(rows) != HM_OK)
		return hm_ctl_fail(ctl, "out of memory");
	return HM_CTL_OK;
}

static void
get_print_table(const struct get_results *results)
{
	struct humming_kernel_info info = {.struct_size = sizeof info};
	struct hm_ctl_table table;
	uint64_t bytes = 0;
	uint32_t wait_us = 0;

	hm_ctl_row_titles(&table);
	for (size_t i = 0; i < results->n; i++) {
		hm_ctl_row_add(&table, results->kernels[i]);
		(void)humming_kernel_get_info(results->kernels[i], &info);
		bytes += info.image_bytes;
		wait_us = info.wait_us > wait_us ? info.wait_us : wait_us;
	}
	hm_ctl_table_print(&table, stdout);
	hm_ctl_table_done(&table);
	(void)printf("%zu kernel%s, %llu bytes, all here after %u us\n",
	    results->n, results->n == 1 ? "" : "s", (unsigned long long)bytes,
	    wait_us);
}

static int
get_model(const struct hm_ctl *ctl)
{
	struct get_results results = {.n = 0};
	struct hm_request *requests = NULL;
	struct hm_kernel_set set;
	int code;

	if (ctl->output != NULL)
		return hm_ctl_usage(ctl, "-o takes one SPEC, not a model");
	hm_kernel_set_init(&set);
	code = hm_ctl_collect(ctl, &set);
	if (code != HM_CTL_OK)
		goto out;
	requests = calloc(set.n_items + 1, sizeof *requests);
	if (requests == NULL) {
		code = hm_ctl_fail(ctl, "out of memory");
		goto out;
	}
	for (size_t i = 0; i < set.n_items; i++)
		requests[i] = set.items[i].request;
	code = get_fetch(ctl, requests, set.n_items, &results);
	if (code != HM_CTL_OK)
		goto out;
	if (ctl->json)
		code = get_print_json(ctl, &results);
	else
		get_print_table(&results);
out:
	get_done(&results);
	free(requests);
	hm_kernel_set_done(&set);
	return code;
}

int
hm_ctl_get(const struct hm_ctl *ctl)
{
	if (ctl->model != NULL)
		return get_model(ctl);
	if (ctl->n_operands != 1)
		return hm_ctl_usage(ctl,
		    ctl->n_operands == 0 ? "needs a SPEC" : "takes one SPEC");
	if (ctl->of_model != NULL || ctl->max_m_given)
		return hm_ctl_usage(ctl, "--%s takes --model beside it",
		    ctl->of_model != NULL ? ctl->of_model : "max-m");
	return get_one(ctl);
}
