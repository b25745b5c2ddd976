/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec_samples.c - see codec_samples.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec_samples.h"
#include "proto/frame.h"

void
codec_sample_text(char *text, size_t size)
{
	for (size_t i = 0; i + 1 < size; i++)
		text[i] = (char)('a' + i % 26);
	text[size - 1] = '\0';
}

static char *
sample_owned(size_t n_chars)
{
	char *text = malloc(n_chars + 1);

	assert_non_null(text);
	codec_sample_text(text, n_chars + 1);
	return text;
}

/* Large numbers, no two alike, into a struct that is nothing but uint32_t. */
static void
sample_words(void *words, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes / 4; i++) {
		uint32_t word = UINT32_MAX - (uint32_t)i;

		memcpy((char *)words + 4 * i, &word, sizeof word);
	}
}

void
codec_sample_digest(struct hm_digest *digest, uint8_t first)
{
	for (size_t i = 0; i < HM_DIGEST_BYTES; i++)
		digest->bytes[i] = (uint8_t)(first + i);
}

void
codec_sample_hello(struct hm_hello *hello)
{
	memset(hello, 0, sizeof *hello);
	sample_words(hello, offsetof(struct hm_hello, program));
	codec_sample_text(hello->program, sizeof hello->program);
}

void
codec_sample_welcome(struct hm_welcome *welcome)
{
	memset(welcome, 0, sizeof *welcome);
	sample_words(welcome, sizeof *welcome);
	codec_sample_text(welcome->version, sizeof welcome->version);
}

void
codec_sample_get(struct hm_get *get)
{
	memset(get, 0, sizeof *get);
	get->deadline_ms = UINT32_MAX;
	get->lane = HM_LANE_PREWARM;
	get->n_requests = HM_MAX_GET_REQUESTS;
	get->requests = calloc(get->n_requests, sizeof *get->requests);
	assert_non_null(get->requests);
	sample_words(get->requests, get->n_requests * sizeof *get->requests);
}

static void
sample_options(uint32_t *n_out, char (**options_out)[HM_MAX_OPTION_CHARS])
{
	char(*options)[HM_MAX_OPTION_CHARS];

	options = calloc(HM_MAX_OPTIONS, sizeof *options);
	assert_non_null(options);
	for (size_t i = 0; i < HM_MAX_OPTIONS; i++) {
		codec_sample_text(options[i], HM_MAX_OPTION_CHARS);
		options[i][0] = (char)('0' + i);
	}
	*n_out = HM_MAX_OPTIONS;
	*options_out = options;
}

void
codec_sample_compile(struct hm_compile *compile)
{
	memset(compile, 0, sizeof *compile);
	compile->deadline_ms = UINT32_MAX;
	compile->target.cc = UINT32_MAX - 1;
	compile->target.suffix = UINT32_MAX - 2;
	codec_sample_text(compile->name, sizeof compile->name);
	sample_options(&compile->n_options, &compile->options);
	compile->source_bytes = HM_MAX_SOURCE_BYTES;
}

void
codec_sample_meta(struct hm_meta *meta)
{
	memset(meta, 0, sizeof *meta);
	codec_sample_text(meta->spec, sizeof meta->spec);
	codec_sample_text(meta->arch, sizeof meta->arch);
	codec_sample_text(meta->entry, sizeof meta->entry);
	codec_sample_text(meta->compiler, sizeof meta->compiler);
	codec_sample_text(meta->entries, sizeof meta->entries);
	sample_words(&meta->registers, 4 * sizeof meta->registers);
	meta->n_config_words = HM_MAX_CONFIG_WORDS;
	sample_words(meta->config_words, sizeof meta->config_words);
}

void
codec_sample_kernel(struct hm_kernel_reply *reply)
{
	memset(reply, 0, sizeof *reply);
	reply->index = HM_MAX_GET_REQUESTS - 1;
	reply->status = HM_REPLY_TRY_LOCAL;
	reply->tier = HM_TIER_BUILT;
	codec_sample_digest(&reply->key, 1);
	reply->image_bytes = HM_MAX_IMAGE_BYTES;
	memset(reply->checksum.bytes, 0xff, HM_CHECKSUM_BYTES);
	codec_sample_meta(&reply->meta);
	reply->n_ranges = HM_MAX_RANGES;
	sample_words(reply->ranges, sizeof reply->ranges);
	for (uint32_t i = 0; i < HM_MAX_RANGES; i++)
		codec_sample_digest(&reply->ranges[i].key, (uint8_t)i);
	reply->kernel_abi = UINT32_MAX;
	reply->pack_layout = UINT32_MAX - 1;
	reply->wait_us = UINT32_MAX - 2;
	reply->error = HM_E_INTERNAL;
	codec_sample_text(reply->message, sizeof reply->message);
	reply->log = sample_owned(HM_MAX_LOG_BYTES);
}

void
codec_sample_progress(struct hm_progress *progress)
{
	sample_words(progress, sizeof *progress);
	progress->index = HM_MAX_GET_REQUESTS - 1;
}

void
codec_sample_refusal(struct hm_refusal *refusal)
{
	memset(refusal, 0, sizeof *refusal);
	refusal->error = HM_E_INTERNAL;
	codec_sample_text(refusal->message, sizeof refusal->message);
}

void
codec_sample_record(struct hm_record_reply *reply)
{
	memset(reply, 0, sizeof *reply);
	reply->found = 2;
	codec_sample_digest(&reply->key, 200);
	reply->record_bytes = HM_FRAME_MAX_BYTES;
}

void
codec_sample_job(struct hm_job *job)
{
	memset(job, 0, sizeof *job);
	job->kind = HM_JOB_PROBE;
	codec_sample_text(job->arch, sizeof job->arch);
	codec_sample_text(job->source_name, sizeof job->source_name);
	codec_sample_text(job->entry, sizeof job->entry);
	/* Both at their limit and all options would not fit one packet. */
	job->config = sample_owned(HM_MAX_JOB_TEXT_BYTES);
	job->shape = sample_owned(8000);
	job->shape[0] = '\n';
	job->shape[1] = '\t';
	sample_options(&job->n_options, &job->options);
	job->source_bytes = HM_MAX_SOURCE_BYTES;
	job->result_bytes = HM_MAX_IMAGE_BYTES;
}

void
codec_sample_job_result(struct hm_job_result *result)
{
	memset(result, 0, sizeof *result);
	result->error = HM_E_INTERNAL;
	result->image_bytes = HM_MAX_IMAGE_BYTES;
	sample_words(&result->registers, 4 * sizeof result->registers);
	codec_sample_text(result->entries, sizeof result->entries);
	codec_sample_text(result->message, sizeof result->message);
	result->log = sample_owned(HM_MAX_LOG_BYTES);
	result->resident_kib = UINT32_MAX;
}

void
codec_sample_worker_ready(struct hm_worker_ready *ready)
{
	memset(ready, 0, sizeof *ready);
	ready->error = HM_E_INTERNAL;
	codec_sample_text(ready->compiler, sizeof ready->compiler);
	codec_sample_text(ready->message, sizeof ready->message);
	codec_sample_text(ready->archs, sizeof ready->archs);
	ready->sandbox = HM_SANDBOX_NO_NEW_PRIVS | HM_SANDBOX_RLIMITS |
			 HM_SANDBOX_LANDLOCK | HM_SANDBOX_SECCOMP;
}

/*
 * The same two functions for every struct; written out by a macro, because C
 * has no other way to say "for each type".
 */
#define SUBJECT(sample, type, codec, done)                                     \
	static int pack_##sample(uint8_t *buffer, size_t size, size_t *n_out)  \
	{                                                                      \
		struct type plain;                                             \
		int error;                                                     \
                                                                               \
		codec_sample_##sample(&plain);                                 \
		error = hm_codec_pack_##codec(&plain, buffer, size, n_out);    \
		done(&plain);                                                  \
		return error;                                                  \
	}                                                                      \
	static int repack_##sample(const uint8_t *body, size_t n_body,         \
	    uint8_t *buffer, size_t *n_out)                                    \
	{                                                                      \
		struct type plain;                                             \
		int error;                                                     \
                                                                               \
		error = hm_codec_unpack_##codec(body, n_body, &plain);         \
		if (error != HM_OK)                                            \
			return error;                                          \
		assert_int_equal(hm_codec_pack_##codec(&plain, buffer,         \
				     HM_FRAME_MAX_BYTES, n_out),               \
		    HM_OK);                                                    \
		done(&plain);                                                  \
		return HM_OK;                                                  \
	}

static void
sample_not_owned(const void *plain)
{
	(void)plain;
}

SUBJECT(hello, hm_hello, hello, sample_not_owned)
SUBJECT(welcome, hm_welcome, welcome, sample_not_owned)
SUBJECT(get, hm_get, get, hm_get_done)
SUBJECT(compile, hm_compile, compile, hm_compile_done)
SUBJECT(meta, hm_meta, meta, sample_not_owned)
SUBJECT(kernel, hm_kernel_reply, kernel, hm_kernel_reply_done)
SUBJECT(progress, hm_progress, progress, sample_not_owned)
SUBJECT(refusal, hm_refusal, refusal, sample_not_owned)
SUBJECT(record, hm_record_reply, record_reply, sample_not_owned)
SUBJECT(job, hm_job, job, hm_job_done)
SUBJECT(job_result, hm_job_result, job_result, hm_job_result_done)
SUBJECT(worker_ready, hm_worker_ready, worker_ready, sample_not_owned)

static int
pack_cancel(uint8_t *buffer, size_t size, size_t *n_out)
{
	return hm_codec_pack_cancel(UINT32_MAX, buffer, size, n_out);
}

static int
repack_cancel(const uint8_t *body, size_t n_body, uint8_t *buffer,
    size_t *n_out)
{
	uint32_t id;
	int error;

	error = hm_codec_unpack_cancel(body, n_body, &id);
	if (error != HM_OK)
		return error;
	return hm_codec_pack_cancel(id, buffer, HM_FRAME_MAX_BYTES, n_out);
}

static int
pack_admin(uint8_t *buffer, size_t size, size_t *n_out)
{
	struct hm_admin admin = {.command = HM_ADMIN_PIN};

	hm_digest_compute("pinned", 6, &admin.key);
	return hm_codec_pack_admin(&admin, buffer, size, n_out);
}

static int
repack_admin(const uint8_t *body, size_t n_body, uint8_t *buffer, size_t *n_out)
{
	struct hm_admin admin;
	int error;

	error = hm_codec_unpack_admin(body, n_body, &admin);
	if (error != HM_OK)
		return error;
	return hm_codec_pack_admin(&admin, buffer, HM_FRAME_MAX_BYTES, n_out);
}

static int
pack_explain(uint8_t *buffer, size_t size, size_t *n_out)
{
	struct hm_digest key;

	codec_sample_digest(&key, 77);
	return hm_codec_pack_explain(&key, buffer, size, n_out);
}

static int
repack_explain(const uint8_t *body, size_t n_body, uint8_t *buffer,
    size_t *n_out)
{
	struct hm_digest key;
	int error;

	error = hm_codec_unpack_explain(body, n_body, &key);
	if (error != HM_OK)
		return error;
	return hm_codec_pack_explain(&key, buffer, HM_FRAME_MAX_BYTES, n_out);
}

static int
pack_text(uint8_t *buffer, size_t size, size_t *n_out)
{
	return hm_codec_pack_text("{\n\t\"state\": \"r\xc3\xa9"
				  "ady\"\n}",
	    buffer, size, n_out);
}

static int
repack_text(const uint8_t *body, size_t n_body, uint8_t *buffer, size_t *n_out)
{
	char *text;
	int error;

	error = hm_codec_unpack_text(body, n_body, &text);
	if (error != HM_OK)
		return error;
	error = hm_codec_pack_text(text, buffer, HM_FRAME_MAX_BYTES, n_out);
	free(text);
	return error;
}

const struct codec_subject codec_subjects[CODEC_N_SUBJECTS] = {
    {"hello", pack_hello, repack_hello},
    {"welcome", pack_welcome, repack_welcome},
    {"get", pack_get, repack_get},
    {"compile", pack_compile, repack_compile},
    {"cancel", pack_cancel, repack_cancel},
    {"explain", pack_explain, repack_explain},
    {"admin", pack_admin, repack_admin},
    {"meta", pack_meta, repack_meta},
    {"kernel", pack_kernel, repack_kernel},
    {"progress", pack_progress, repack_progress},
    {"text", pack_text, repack_text},
    {"refusal", pack_refusal, repack_refusal},
    {"record", pack_record, repack_record},
    {"job", pack_job, repack_job},
    {"job_result", pack_job_result, repack_job_result},
    {"worker_ready", pack_worker_ready, repack_worker_ready},
};
