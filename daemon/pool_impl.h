/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_impl.h - what pool.c (life and death of the workers) and pool_jobs.c
 * (who gets which job) share. Nobody else includes it.
 */
#ifndef HM_DAEMON_POOL_IMPL_H
#define HM_DAEMON_POOL_IMPL_H

#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/config.h"
#include "daemon/pool.h"
#include "proto/frame.h"

struct event;

enum pool_worker_state {
	POOL_WORKER_STARTING,
	POOL_WORKER_IDLE,
	POOL_WORKER_BUSY,
	POOL_WORKER_DYING
};

struct pool_worker {
	LIST_ENTRY(pool_worker) link;
	struct hm_pool *pool; /* borrowed */
	enum pool_worker_state state;
	pid_t pid;
	int fd;                 /* owned; -1 when DYING */
	struct event *readable; /* owned */
	struct event *deadline; /* owned */
	char compiler[256];     /* what it said it is */
	uint64_t n_jobs;
	bool is_outdated; /* the settings changed since it was started */
	bool is_tainted;
	uid_t uid; /* whose sources, if tainted */
	/* The job at hand; kept while DYING, until the worker is reaped. */
	const struct hm_recipe *recipe; /* borrowed; NULL = no job */
	void *ticket;
	int result_fd; /* owned */
	uint32_t job_id;
	/* Why we killed it. */
	bool is_retired; /* nothing was wrong */
	bool is_unready; /* it died before it ever worked */
	enum hm_pool_end end;
	struct hm_errbuf why;
};

struct hm_pool {
	const struct hm_settings *settings; /* borrowed */
	struct event_base *base;            /* borrowed */
	struct hm_pool_host host;
	char path[HM_CONFIG_PATH_BYTES];
	LIST_HEAD(, pool_worker) workers;
	struct event *child; /* SIGCHLD; owned, as the next */
	struct event *refill;
	enum hm_pool_state state;
	uint32_t n_wanted;
	bool wants_spare;      /* one more, for kernels of our own */
	uint32_t n_bad_starts; /* in a row */
	uint32_t next_job_id;
	uint64_t n_started;
	uint64_t n_crashed;
	struct hm_worker_ready ready; /* of the last that was */
	struct hm_errbuf message;
	uint8_t received[HM_FRAME_MAX_BYTES];
	uint8_t packed[HM_FRAME_MAX_BYTES];
};

/* Arm a timer. */
bool hm_pool_set_timer(struct event *event, uint64_t ms);

/* SIGKILL; the rest follows when it is reaped. No-op for one that is dying. */
void hm_pool_worker_kill(struct pool_worker *worker, enum hm_pool_end end);

/* The same to one with which nothing is wrong. */
void hm_pool_worker_retire(struct pool_worker *worker);

/* Start what is missing, now or, after bad starts, in a while. */
void hm_pool_refill(struct hm_pool *pool);

/* How long a job may take by the clock. */
uint64_t hm_pool_job_ms(const struct hm_pool *pool,
    const struct hm_recipe *recipe);

/* How many workers have a client's source at hand. */
uint32_t hm_pool_count_sources(const struct hm_pool *pool);

#endif
