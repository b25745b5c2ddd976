/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_jobs.c - who gets which job, and for how long.
 *
 * Sources of clients are limited twice: in time, to less than their clients
 * wait, and in number, so that there is always a worker for kernels of ours.
 */
#include "daemon/pool.h"

#include <errno.h>
#include <string.h>

#include <event2/event.h>

#include "daemon/handover.h"
#include "daemon/log.h"
#include "daemon/pool_impl.h"
#include "daemon/spawn.h"

uint64_t
hm_pool_job_ms(const struct hm_pool *pool, const struct hm_recipe *recipe)
{
	return recipe->is_own ? pool->settings->build_ms
			      : pool->settings->source_ms;
}

/* And of a processor: two thirds of it. One thread compiles, so that it gets
 * there first unless the machine is crowded. */
static uint64_t
pool_job_cpu_seconds(const struct hm_pool *pool, const struct hm_recipe *recipe)
{
	return (hm_pool_job_ms(pool, recipe) * 2 + 2999) / 3000;
}

uint32_t
hm_pool_count_sources(const struct hm_pool *pool)
{
	const struct pool_worker *worker;
	uint32_t n = 0;

	LIST_FOREACH (worker, &pool->workers, link)
		n += worker->state == POOL_WORKER_BUSY &&
		     !worker->recipe->is_own;
	return n;
}

/* How well a worker suits a job: 0 = not at all, more is better. */
static int
pool_worker_fit(const struct pool_worker *worker,
    const struct hm_recipe *recipe, bool is_fresh)
{
	if (worker->state != POOL_WORKER_IDLE ||
	    (is_fresh && worker->n_jobs != 0))
		return 0;
	if (!worker->is_tainted)
		return 1;
	if (recipe->is_own || worker->uid != recipe->uid)
		return 0;
	return 2;
}

static struct pool_worker *
pool_choose(struct hm_pool *pool, const struct hm_recipe *recipe, bool is_fresh)
{
	struct pool_worker *worker;
	struct pool_worker *best = NULL;
	struct pool_worker *unfit = NULL;
	struct hm_pool_counts counts;
	int best_fit = 0;

	LIST_FOREACH (worker, &pool->workers, link) {
		int fit = pool_worker_fit(worker, recipe, is_fresh);

		if (fit > best_fit) {
			best = worker;
			best_fit = fit;
		}
		if (fit == 0 && worker->state == POOL_WORKER_IDLE)
			unfit = worker;
	}
	if (best != NULL || unfit == NULL)
		return best;
	/* All who are free are spoilt for this job: replace one. */
	hm_pool_get_counts(pool, &counts);
	if (counts.n_starting == 0) {
		hm_pool_worker_retire(unfit);
		hm_pool_refill(pool);
	}
	return NULL;
}

/*
 * Sources of clients may take as many workers as are wanted, for as long as
 * limits.source_ms; a kernel of ours that comes then gets one more, so that one
 * user's sources never hold up everybody's kernels. Returns whether sources
 * have all that they may.
 */
static bool
pool_is_taken_by_sources(struct hm_pool *pool, const struct hm_recipe *recipe)
{
	if (hm_pool_count_sources(pool) < pool->n_wanted)
		return false;
	if (recipe->is_own && !pool->wants_spare) {
		pool->wants_spare = true;
		hm_pool_refill(pool);
	}
	return true;
}

int
hm_pool_start(struct hm_pool *pool, const struct hm_recipe *recipe,
    bool is_fresh, void *ticket)
{
	struct pool_worker *worker;
	struct hm_handover handover = {.job_id = ++pool->next_job_id,
	    .buffer = pool->packed};
	int error;

	if (pool->state == HM_POOL_UNAVAILABLE)
		return HM_E_UNAVAILABLE;
	if (pool_is_taken_by_sources(pool, recipe) && !recipe->is_own)
		return HM_E_BUSY;
	worker = pool_choose(pool, recipe, is_fresh);
	if (worker == NULL)
		return HM_E_BUSY;
	/* The wall clock below, and the worker's own limits, hold those for
	 * whom this fails. */
	if (hm_spawn_limit_cpu(worker->pid,
		pool_job_cpu_seconds(pool, recipe)) != HM_OK ||
	    hm_spawn_limit_memory(worker->pid,
		pool->settings->worker_memory_bytes) != HM_OK)
		hm_log(HM_LOG_POOL, HM_LOG_DEBUG,
		    "cannot limit a worker pid=%ld error=\"%s\"",
		    (long)worker->pid, strerror(errno));
	/* What cannot be timed is not given out. */
	if (!hm_pool_set_timer(worker->deadline, hm_pool_job_ms(pool, recipe)))
		return HM_E_NOMEM;
	handover.channel = worker->fd;
	error = hm_handover_send(&handover, recipe, &worker->result_fd);
	if (error != HM_OK)
		(void)event_del(worker->deadline);
	if (error == HM_E_UNAVAILABLE) {
		/* It died since we looked; SIGCHLD is on its way. */
		hm_pool_worker_kill(worker, HM_POOL_CRASHED);
		return HM_E_BUSY;
	}
	if (error != HM_OK)
		return error;
	worker->state = POOL_WORKER_BUSY;
	worker->job_id = handover.job_id;
	worker->n_jobs++;
	worker->recipe = recipe;
	worker->ticket = ticket;
	if (!recipe->is_own) {
		worker->is_tainted = true;
		worker->uid = recipe->uid;
	}
	return HM_OK;
}

void
hm_pool_cancel(struct hm_pool *pool, const void *ticket)
{
	struct pool_worker *worker;

	LIST_FOREACH (worker, &pool->workers, link) {
		if (worker->recipe == NULL || worker->ticket != ticket)
			continue;
		worker->recipe = NULL;
		worker->ticket = NULL;
		/* It may be dying already, of something that was wrong. */
		hm_pool_worker_retire(worker);
		return;
	}
}
