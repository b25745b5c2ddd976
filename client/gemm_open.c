/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_open.c - the kernels of one layer type or of a whole model, in one round
 * trip.
 *
 * Which kernels a layer needs is the daemon's word: the table over M in its
 * replies. To ask for all of them before the first reply is there, the table is
 * guessed by this library's own plan. Where the guess was wrong, because the
 * daemon is of another release, a second round trip gets what is missing.
 */
#include <humming/gemm.h>

#include <stdlib.h>
#include <string.h>

#include "client/device.h"
#include "client/gemm_error.h"
#include "client/gemm_impl.h"
#include "client/request.h"
#include "jit/plan.h"

/* Guessed ones, then missing ones. */
#define SLOT_MAX_KERNELS (2 * HM_GEMM_MAX_RANGES)

/* A gemm to be. */
struct open_slot {
	struct humming_kernel_request request; /* target filled in, m = 1 */
	uint32_t m_most;                       /* 0 = none */
	uint32_t n_kernels;
	/* References. All come with the same table. */
	struct humming_kernel *kernels[SLOT_MAX_KERNELS];
};

struct open_batch {
	struct humming_client *client; /* borrowed */
	size_t n_slots;
	struct open_slot *slots; /* owned, like all here */
	/* The round trip that is being prepared. */
	size_t n_asked;
	struct humming_kernel_request *asked;
	struct open_slot **askers;
	struct humming_kernel **answers;
};

static void
batch_done(struct open_batch *batch)
{
	for (size_t i = 0; batch->slots != NULL && i < batch->n_slots; i++)
		for (uint32_t j = 0; j < batch->slots[i].n_kernels; j++)
			humming_kernel_unref(batch->slots[i].kernels[j]);
	free(batch->slots);
	free(batch->asked);
	free(batch->askers);
	free(batch->answers);
}

static int
batch_init(struct open_batch *batch, struct humming_client *client,
    size_t n_slots)
{
	size_t most = n_slots * HM_GEMM_MAX_RANGES;

	memset(batch, 0, sizeof *batch);
	batch->client = client;
	batch->n_slots = n_slots;
	batch->slots = calloc(n_slots, sizeof *batch->slots);
	batch->asked = calloc(most, sizeof *batch->asked);
	batch->askers = calloc(most, sizeof *batch->askers);
	batch->answers = calloc(most, sizeof *batch->answers);
	if (batch->slots != NULL && batch->asked != NULL &&
	    batch->askers != NULL && batch->answers != NULL)
		return HM_OK;
	batch_done(batch);
	(void)hm_gemm_no_memory("gemm");
	return HM_E_NOMEM;
}

/* At most HM_GEMM_MAX_RANGES times a slot and round trip. */
static void
batch_ask(struct open_batch *batch, struct open_slot *slot, uint32_t m)
{
	batch->asked[batch->n_asked] = slot->request;
	batch->asked[batch->n_asked].m = m;
	batch->askers[batch->n_asked++] = slot;
}

/* Kernels that came are in their slots, also after a failure. */
static int
batch_run(struct open_batch *batch)
{
	size_t n = batch->n_asked;
	int error = HUMMING_OK;

	batch->n_asked = 0;
	if (n == 0)
		return HUMMING_OK;
	memset(batch->answers, 0, n * sizeof(batch->answers[0]));
	error = humming_client_get_kernels(batch->client, batch->asked, n,
	    batch->answers, NULL);
	if (error != HUMMING_OK)
		hm_errbuf_set(hm_gemm_errbuf(), "%s",
		    humming_client_last_error(batch->client));
	for (size_t i = 0; i < n; i++) {
		struct open_slot *slot = batch->askers[i];

		if (batch->answers[i] != NULL)
			slot->kernels[slot->n_kernels++] = batch->answers[i];
	}
	return error;
}

/* Ask for m = 1, and for one M of every further kernel of our own plan. */
static void
batch_guess(struct open_batch *batch, struct open_slot *slot)
{
	struct hm_request request;
	struct hm_plan plan;

	batch_ask(batch, slot, 1);
	if (hm_request_import(&slot->request, &request, NULL) != HM_OK ||
	    hm_plan_compute(&request, &plan, NULL) != HM_OK)
		return;
	for (uint32_t i = 1; i < plan.n_rows; i++) {
		const struct hm_config *config = &plan.rows[i].config;
		uint32_t j = 0;

		if (slot->m_most != 0 && plan.rows[i].m_lo > slot->m_most)
			return;
		while (
		    memcmp(&plan.rows[j].config, config, sizeof *config) != 0)
			j++;
		if (j == i)
			batch_ask(batch, slot, plan.rows[i].m_lo);
	}
}

/* Ask for the rows of the daemon's table whose kernels are not there. */
static int
batch_complete(struct open_batch *batch, struct open_slot *slot)
{
	struct humming_range rows[HM_GEMM_MAX_RANGES];
	uint32_t n_rows = 0;
	int error = HM_OK;

	error = hm_gemm_count_ranges(slot->kernels[0], slot->m_most, &n_rows);
	for (uint32_t i = 0; error == HM_OK && i < n_rows; i++) {
		uint32_t j = 0;

		error = hm_gemm_range_at(slot->kernels[0], i, &rows[i]);
		if (error != HM_OK || hm_gemm_find_kernel(slot->kernels,
					  slot->n_kernels, rows[i].key) != NULL)
			continue;
		while (strcmp(rows[j].key, rows[i].key) != 0)
			j++;
		if (j == i) /* not asked for a moment ago */
			batch_ask(batch, slot, rows[i].m_lo);
	}
	return error;
}

static int
batch_read(struct open_batch *batch, const struct humming_device *device,
    const struct humming_kernel_request *requests)
{
	const unsigned char *bytes = (const unsigned char *)requests;
	int error = HM_OK;

	for (size_t i = 0; error == HM_OK && i < batch->n_slots; i++) {
		struct open_slot *slot = &batch->slots[i];

		error = hm_gemm_read_request(device,
		    (const void *)(bytes + i * requests->struct_size),
		    &slot->request);
		/* Row 0 of a table is that of m = 1. */
		slot->m_most = slot->request.m;
		slot->request.m = 1;
	}
	return error;
}

static int
batch_fetch(struct open_batch *batch)
{
	int error = HM_OK;

	for (size_t i = 0; i < batch->n_slots; i++)
		batch_guess(batch, &batch->slots[i]);
	error = batch_run(batch);
	/* A failure that only our guess asked for does not count: what the
	 * daemon's table needs is asked for again. */
	for (size_t i = 0; i < batch->n_slots; i++) {
		struct open_slot *slot = &batch->slots[i];

		if (slot->n_kernels == 0)
			return error != HM_OK ? error : HM_E_INTERNAL;
	}
	for (size_t i = 0; i < batch->n_slots; i++) {
		error = batch_complete(batch, &batch->slots[i]);
		if (error != HM_OK)
			return error;
	}
	return batch_run(batch);
}

int
humming_gemm_open_many(struct humming_device *device,
    struct humming_client *client,
    const struct humming_kernel_request *requests, size_t n,
    struct humming_gemm **gemms_out)
{
	struct open_batch batch;
	size_t n_open = 0;
	int error = HUMMING_OK;

	if (device == NULL || client == NULL || requests == NULL ||
	    gemms_out == NULL || n == 0 || n > SIZE_MAX / 4096) {
		hm_errbuf_set(hm_gemm_errbuf(), "gemm: bad argument");
		return HUMMING_E_INVALID;
	}
	error = batch_init(&batch, client, n);
	if (error != HM_OK)
		return error;
	error = batch_read(&batch, device, requests);
	if (error == HM_OK)
		error = batch_fetch(&batch);
	for (; error == HM_OK && n_open < n; n_open += error == HM_OK) {
		struct open_slot *slot = &batch.slots[n_open];

		slot->request.m = slot->m_most;
		error = humming_gemm_open_kernels(device, &slot->request,
		    slot->kernels, slot->n_kernels, &gemms_out[n_open]);
	}
	while (error != HM_OK && n_open > 0) {
		humming_gemm_close(gemms_out[--n_open]);
		gemms_out[n_open] = NULL;
	}
	batch_done(&batch);
	return error;
}

int
humming_gemm_open(struct humming_device *device, struct humming_client *client,
    const struct humming_kernel_request *request,
    struct humming_gemm **gemm_out)
{
	return humming_gemm_open_many(device, client, request, 1, gemm_out);
}
