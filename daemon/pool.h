/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - the humming-worker processes: started ahead, given one job at a
 * time, killed at the deadline, replaced when they die or grow old.
 *
 *   STARTING --ready--> IDLE --job--> BUSY --result--> IDLE
 *       \________________ \_____________ \___ end, kill --> DYING --SIGCHLD-->
 *
 * Taint: after a client's source a worker takes only sources of that uid,
 * never our own kernels. The pool neither queues nor retries: flight.c does.
 * A worker's word is not believed: a result is sealed before it is looked at,
 * and a worker that still maps it for writing is killed.
 */
#ifndef HM_DAEMON_POOL_H
#define HM_DAEMON_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/recipe.h"
#include "proto/codec.h"
#include "proto/error.h"

struct event_base;
struct hm_pool;
struct hm_settings;

enum hm_pool_state {
	HM_POOL_STARTING = 0, /* no worker has reported yet */
	HM_POOL_READY = 1,
	HM_POOL_UNAVAILABLE = 2 /* no compiler: hm_pool_message says why */
};

enum hm_pool_end {
	HM_POOL_DONE = 0,    /* the worker answered; look at the result */
	HM_POOL_CRASHED = 1, /* it died, or broke the rules */
	HM_POOL_TIMED_OUT = 2
};

struct hm_pool_result {
	enum hm_pool_end end;
	const struct hm_job_result *result; /* HM_POOL_DONE; borrowed */
	const void *image; /* sealed map, borrowed; NULL when it failed */
	size_t n_image;
	const char *compiler;     /* that built it; borrowed */
	struct hm_errbuf message; /* why it crashed */
};

struct hm_pool_host {
	/* A job is over; ticket as given with it. */
	void (*on_result)(void *arg, void *ticket,
	    const struct hm_pool_result *result);
	/* A worker is free, or the state has changed: try again to start. */
	void (*on_change)(void *arg);
	void *arg;
};

/* HM_OK, HM_E_NOMEM. Workers start from the loop; a worker program that is not
 * there makes the pool UNAVAILABLE, not an error. settings is borrowed. */
int hm_pool_open(const struct hm_settings *settings, struct event_base *base,
    const struct hm_pool_host *host, struct hm_pool **pool_out);

/* The settings were read anew: every worker makes way for one that looks for
 * its compiler again, the idle ones now, the others after their job; and so
 * many of them as are wanted now. */
void hm_pool_reload(struct hm_pool *pool);

/* Kills every worker and reaps it. NULL allowed. */
void hm_pool_close(struct hm_pool *pool);

enum hm_pool_state hm_pool_state(const struct hm_pool *pool);
/* Why there is no compiler, or the last trouble; "" when all is well. */
const char *hm_pool_message(const struct hm_pool *pool);
/* Identity of the compiler; "" before one is READY. */
const char *hm_pool_compiler(const struct hm_pool *pool);
/* What it can build for, "75,80,..."; "" before one is READY. */
const char *hm_pool_targets(const struct hm_pool *pool);
/* HM_SANDBOX_ bits in force in every worker. */
uint32_t hm_pool_sandbox(const struct hm_pool *pool);
bool hm_pool_knows(const struct hm_pool *pool, const struct hm_target *target);

struct hm_pool_counts {
	uint32_t n_wanted, n_starting, n_idle, n_busy;
	uint64_t n_started, n_crashed;
};
void hm_pool_get_counts(const struct hm_pool *pool,
    struct hm_pool_counts *counts_out);

/**
 * Give a job to a suitable worker.
 *
 * recipe    borrowed until on_result
 * is_fresh  only a worker that has done nothing yet will do
 * ticket    handed back with the result
 *
 * Returns HM_OK; HM_E_BUSY (none is free; on_change follows when one is);
 * HM_E_UNAVAILABLE (no compiler); HM_E_NOMEM; HM_E_SYSTEM.
 */
int hm_pool_start(struct hm_pool *pool, const struct hm_recipe *recipe,
    bool is_fresh, void *ticket);

/* Nobody wants this job's result any more: its worker goes, no on_result
 * follows, and the recipe is not used after this. */
void hm_pool_cancel(struct hm_pool *pool, const void *ticket);

#endif
