/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec_job.c - messages between the daemon and its workers.
 *
 * After a client's source a worker is as little trusted as a client, so its
 * answers meet the same limits.
 */
#include "proto/codec_job.h"

#include <stdlib.h>

#include "hummingd.pb-c.h"
#include "proto/wire.h"

static const struct hm_wire_field job_fields[] = {
    HM_ROW_ENUM(Job, job, kind, HM_JOB_PROBE),
    HM_ROW_NAME(Job, job, arch),
    HM_ROW_NAME(Job, job, source_name),
    HM_ROW_NAME(Job, job, entry),
    HM_ROW_STRING(HM_WIRE_TEXT, HM_MAX_JOB_TEXT_BYTES, Job, job, config),
    HM_ROW_STRING(HM_WIRE_TEXT, HM_MAX_JOB_TEXT_BYTES, Job, job, shape),
    HM_ROW_U32(Job, job, source_bytes, HM_MAX_SOURCE_BYTES),
    HM_ROW_U32(Job, job, result_bytes, HM_MAX_IMAGE_BYTES),
};
static const struct hm_wire_message job_message =
    HM_WIRE_MESSAGE(job, job_fields);

static const struct hm_wire_field result_fields[] = {
    HM_ROW_ERROR(JobResult, job_result),
    HM_ROW_U32(JobResult, job_result, image_bytes, HM_MAX_IMAGE_BYTES),
    HM_ROW_ANY(JobResult, job_result, registers),
    HM_ROW_ANY(JobResult, job_result, spill_bytes),
    HM_ROW_ANY(JobResult, job_result, smem_bytes),
    HM_ROW_ANY(JobResult, job_result, compile_us),
    HM_ROW_NAME(JobResult, job_result, entries),
    HM_ROW_LINE(JobResult, job_result, message),
    HM_ROW_STRING(HM_WIRE_LOG, HM_MAX_LOG_BYTES, JobResult, job_result, log),
    HM_ROW_ANY(JobResult, job_result, resident_kib),
};
static const struct hm_wire_message result_message =
    HM_WIRE_MESSAGE(job_result, result_fields);

static const struct hm_wire_field ready_fields[] = {
    HM_ROW_ERROR(WorkerReady, worker_ready),
    HM_ROW_NAME(WorkerReady, worker_ready, compiler),
    HM_ROW_LINE(WorkerReady, worker_ready, message),
    HM_ROW_NAME(WorkerReady, worker_ready, archs),
    HM_ROW_U32(WorkerReady, worker_ready, sandbox,
	HM_SANDBOX_NO_NEW_PRIVS | HM_SANDBOX_RLIMITS | HM_SANDBOX_LANDLOCK |
	    HM_SANDBOX_SECCOMP),
};
static const struct hm_wire_message ready_message =
    HM_WIRE_MESSAGE(worker_ready, ready_fields);

int
hm_codec_pack_job(const struct hm_job *job, uint8_t *buffer, size_t size,
    size_t *n_out)
{
	char *options[HM_MAX_OPTIONS];
	Humming__Job wire;
	int error;

	error = hm_wire_lend(&job_message, job, &wire);
	if (error == HM_OK)
		error =
		    hm_wire_lend_options(job->options, job->n_options, options);
	if (error != HM_OK)
		return error;
	wire.n_options = job->n_options;
	wire.options = options;
	return hm_wire_pack(&wire.base, buffer, size, n_out);
}

int
hm_codec_unpack_job(const uint8_t *body, size_t n_body, struct hm_job *job_out)
{
	struct hm_job job = {0};
	const Humming__Job *decoded;
	ProtobufCMessage *wire;
	int error;

	error = hm_wire_unpack(&job_message, body, n_body, &wire);
	if (error != HM_OK)
		return error;
	decoded = (const Humming__Job *)wire;
	error = hm_wire_copy(&job_message, wire, &job);
	if (error == HM_OK)
		error = hm_wire_copy_options(decoded->options,
		    decoded->n_options, &job.n_options, &job.options);
	hm_wire_free(wire);
	if (error == HM_OK)
		*job_out = job;
	else
		hm_job_done(&job);
	return error;
}

void
hm_job_done(struct hm_job *job)
{
	if (job == NULL)
		return;
	free(job->config);
	free(job->shape);
	free(job->options);
	*job = (struct hm_job){0};
}

int
hm_codec_pack_job_result(const struct hm_job_result *result, uint8_t *buffer,
    size_t size, size_t *n_out)
{
	return hm_wire_pack_plain(&result_message, result, buffer, size, n_out);
}

int
hm_codec_unpack_job_result(const uint8_t *body, size_t n_body,
    struct hm_job_result *result_out)
{
	struct hm_job_result result = {0};
	int error;

	error = hm_wire_unpack_plain(&result_message, body, n_body, &result);
	if (error == HM_OK)
		*result_out = result;
	else
		hm_job_result_done(&result);
	return error;
}

void
hm_job_result_done(struct hm_job_result *result)
{
	if (result == NULL)
		return;
	free(result->log);
	*result = (struct hm_job_result){0};
}

int
hm_codec_pack_worker_ready(const struct hm_worker_ready *ready, uint8_t *buffer,
    size_t size, size_t *n_out)
{
	return hm_wire_pack_plain(&ready_message, ready, buffer, size, n_out);
}

int
hm_codec_unpack_worker_ready(const uint8_t *body, size_t n_body,
    struct hm_worker_ready *ready_out)
{
	struct hm_worker_ready ready = {0};
	int error;

	error = hm_wire_unpack_plain(&ready_message, body, n_body, &ready);
	if (error == HM_OK)
		*ready_out = ready;
	return error;
}
