/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handover.c - see handover.h.
 */
#include "daemon/handover.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jit/job.h"
#include "proto/fd.h"
#include "proto/frame.h"

/* A source up to this size goes in the packet, else in the result's file. */
#define HANDOVER_INLINE_BYTES 40960u

static int
handover_make_job(const struct hm_recipe *recipe, struct hm_job *job)
{
	int error = HM_OK;

	if (recipe->is_own) {
		error = hm_job_own(&recipe->config, &recipe->target, job);
	} else {
		memset(job, 0, sizeof(*job));
		job->kind = HM_JOB_CLIENT;
		(void)snprintf(job->arch, sizeof(job->arch), "%s",
		    recipe->arch);
		(void)snprintf(job->source_name, sizeof(job->source_name), "%s",
		    recipe->name);
		job->n_options = recipe->n_options;
		job->options = recipe->options; /* borrowed: see below */
		job->source_bytes = (uint32_t)recipe->n_source;
	}
	job->result_bytes = HM_JOB_RESULT_BYTES;
	return error;
}

static int
handover_pack(const struct hm_recipe *recipe, uint8_t *buffer, size_t *n_out)
{
	struct hm_job job;
	int error = handover_make_job(recipe, &job);

	if (error != HM_OK)
		return error;
	error = hm_codec_pack_job(&job, buffer, HM_FRAME_MAX_BYTES, n_out);
	if (!recipe->is_own)
		job.options = NULL;
	hm_job_done(&job);
	return error;
}

int
hm_handover_send(const struct hm_handover *handover,
    const struct hm_recipe *recipe, int *result_fd_out)
{
	struct hm_frame frame = {.type = HM_FRAME_JOB,
	    .request_id = handover->job_id,
	    .body = handover->buffer,
	    .fd = -1};
	int fd = -1;
	int error;

	error = handover_pack(recipe, handover->buffer, &frame.n_body);
	if (error != HM_OK)
		return error;
	error = hm_fd_memory("humming-result", HM_JOB_RESULT_BYTES, &fd);
	if (error != HM_OK)
		return error;
	if (recipe->n_source > HANDOVER_INLINE_BYTES) {
		if (pwrite(fd, recipe->source, recipe->n_source, 0) !=
		    (ssize_t)recipe->n_source)
			error = HM_E_SYSTEM;
	} else {
		frame.raw = recipe->source;
		frame.n_raw = recipe->n_source;
	}
	frame.fd = fd;
	if (error == HM_OK)
		error = hm_frame_send(handover->channel, &frame);
	if (error != HM_OK) {
		hm_fd_close(&fd);
		return error;
	}
	*result_fd_out = fd;
	return HM_OK;
}

int
hm_handover_take(int result_fd, const struct hm_job_result *result,
    const void **image_out, size_t *n_image_out)
{
	int error;

	if (result->image_bytes == 0 ||
	    result->image_bytes > HM_JOB_RESULT_BYTES)
		return HM_E_PROTOCOL;
	error = hm_fd_seal_existing(result_fd, result->image_bytes);
	if (error != HM_OK)
		return error;
	return hm_fd_map_sealed(result_fd, HM_JOB_RESULT_BYTES, image_out,
	    n_image_out);
}
