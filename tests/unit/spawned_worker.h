/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawned_worker.h - the real humming-worker, driven as the daemon drives it.
 *
 * Every failure of the harness itself (no program, no descriptor, a reply that
 * does not unpack) fails the running test.
 */
#ifndef HM_TESTS_SPAWNED_WORKER_H
#define HM_TESTS_SPAWNED_WORKER_H

#include <sys/resource.h>
#include <sys/types.h>

#include <stddef.h>
#include <stdint.h>

#include "proto/codec.h"
#include "proto/frame.h"

struct spawned_worker {
	pid_t pid; /* 0 once it is reaped */
	int fd;    /* our end of the channel, owned; -1 once closed */
	struct hm_worker_ready ready;
	uint32_t last_id;
	int status;          /* of wait4, once reaped */
	struct rusage usage; /* likewise */
	uint8_t packet[HM_FRAME_MAX_BYTES];
};

/* A job and what came of it. */
struct spawned_job {
	const char *arch;
	const char *source;
	uint32_t n_options;
	char (*options)[HM_MAX_OPTION_CHARS];
	size_t result_bytes; /* 0: 1 MiB */
	int answered;        /* 0: the worker died instead */
	struct hm_job_result result;
	uint8_t *image; /* owned: the whole memory file, result_bytes long */
};

/* Start one and wait for WORKER_READY; environment NULL: as ours. */
void spawned_worker_start(struct spawned_worker *worker, char **environment);

/* Start one and do not wait. */
void spawned_worker_spawn(struct spawned_worker *worker, char **environment);
void spawned_worker_wait_ready(struct spawned_worker *worker);

/* The worker's soft CPU limit: what it may have used by now, and this much. */
void spawned_worker_limit_cpu(const struct spawned_worker *worker,
    rlim_t seconds);

/* Do a client's job; free with spawned_job_done. */
void spawned_worker_compile(struct spawned_worker *worker,
    struct spawned_job *job);
void spawned_job_done(struct spawned_job *job);

/* Send any job with any descriptor (-1: none), and wait for its result. */
int spawned_worker_submit(struct spawned_worker *worker,
    const struct hm_job *job, const void *raw, size_t n_raw, int fd,
    struct hm_job_result *result_out);

/* Close the channel, reap the process (killed after 10 s). */
void spawned_worker_stop(struct spawned_worker *worker);

#endif
