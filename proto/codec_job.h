/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec_job.h - the messages between the daemon and its workers.
 *
 * codec.h says how pack, unpack and done functions behave, and includes this.
 */
#ifndef HM_PROTO_CODEC_JOB_H
#define HM_PROTO_CODEC_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

enum hm_job_kind { HM_JOB_OWN = 1, HM_JOB_CLIENT = 2, HM_JOB_PROBE = 3 };

struct hm_job {
	uint32_t kind; /* enum hm_job_kind */
	char arch[16];
	char source_name[64];
	char entry[128];
	char *config; /* owned text; NULL = none */
	char *shape;  /* owned text; NULL = none */
	uint32_t n_options;
	char (*options)[HM_MAX_OPTION_CHARS]; /* owned */
	uint32_t source_bytes;
	uint32_t result_bytes;
};

struct hm_job_result {
	int32_t error;
	uint32_t image_bytes;
	uint32_t registers;
	uint32_t spill_bytes;
	uint32_t smem_bytes;
	uint32_t compile_us;
	char entries[512];
	char message[512];
	char *log; /* owned; NULL = none */
	uint32_t resident_kib;
};

#define HM_SANDBOX_NO_NEW_PRIVS 1u
#define HM_SANDBOX_RLIMITS      2u
#define HM_SANDBOX_LANDLOCK     4u
#define HM_SANDBOX_SECCOMP      8u

struct hm_worker_ready {
	int32_t error;
	char compiler[256];
	char message[512];
	char archs[256];
	uint32_t sandbox; /* HM_SANDBOX_ bits that are in force */
};

int hm_codec_pack_job(const struct hm_job *job, uint8_t *buffer, size_t size,
    size_t *n_out);
int hm_codec_unpack_job(const uint8_t *body, size_t n_body,
    struct hm_job *job_out);
void hm_job_done(struct hm_job *job);
int hm_codec_pack_job_result(const struct hm_job_result *result,
    uint8_t *buffer, size_t size, size_t *n_out);
int hm_codec_unpack_job_result(const uint8_t *body, size_t n_body,
    struct hm_job_result *result_out);
void hm_job_result_done(struct hm_job_result *result);
int hm_codec_pack_worker_ready(const struct hm_worker_ready *ready,
    uint8_t *buffer, size_t size, size_t *n_out);
int hm_codec_unpack_worker_ready(const uint8_t *body, size_t n_body,
    struct hm_worker_ready *ready_out);

#endif
