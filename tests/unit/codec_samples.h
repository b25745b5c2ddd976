/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec_samples.h - one full message of each kind, with its extreme values.
 *
 * Every number is as large as it may be, or differs from its neighbours; every
 * text is as long as it may be. Free samples with the _done of codec.h.
 */
#ifndef HM_TESTS_CODEC_SAMPLES_H
#define HM_TESTS_CODEC_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "proto/codec.h"

/* A kind of message, for tests that treat all alike. */
struct codec_subject {
	const char *name;
	int (*pack)(uint8_t *buffer, size_t size, size_t *n_out);
	/* Unpack; if that went well, pack again. */
	int (*repack)(const uint8_t *body, size_t n_body, uint8_t *buffer,
	    size_t *n_out);
};

#define CODEC_N_SUBJECTS 16
extern const struct codec_subject codec_subjects[CODEC_N_SUBJECTS];

/* size - 1 letters and a NUL. */
void codec_sample_text(char *text, size_t size);
void codec_sample_hello(struct hm_hello *hello);
void codec_sample_welcome(struct hm_welcome *welcome);
void codec_sample_get(struct hm_get *get);
void codec_sample_compile(struct hm_compile *compile);
void codec_sample_digest(struct hm_digest *digest, uint8_t first);
void codec_sample_meta(struct hm_meta *meta);
void codec_sample_kernel(struct hm_kernel_reply *reply);
void codec_sample_progress(struct hm_progress *progress);
void codec_sample_refusal(struct hm_refusal *refusal);
void codec_sample_record(struct hm_record_reply *reply);
void codec_sample_job(struct hm_job *job);
void codec_sample_job_result(struct hm_job_result *result);
void codec_sample_worker_ready(struct hm_worker_ready *ready);

#endif
