/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - life and death of the workers.
 *
 * A worker that must go is killed and stays DYING until SIGCHLD; only then does
 * its job count as lost, so that the message can name the signal. What makes
 * workers die before they are ready (a broken compiler, a kernel without what
 * the sandbox needs) would make them die again: starts are spaced out, and
 * after a few the pool is UNAVAILABLE and tries one worker at a time. Who gets
 * which job, and for how long, is pool_jobs.c's.
 */
#include "daemon/pool.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "daemon/config.h"
#include "daemon/handover.h"
#include "daemon/log.h"
#include "daemon/paths.h"
#include "daemon/pool_impl.h"
#include "daemon/spawn.h"
#include "proto/fd.h"
#include "proto/frame.h"

#define POOL_START_MS      30000u /* from spawn to WORKER_READY */
#define POOL_MAX_BAD_START 3u     /* in a row, then UNAVAILABLE */
#define POOL_BACKOFF_MS    200u   /* doubled for each bad start */
#define POOL_MAX_BACKOFF   30000u
#define POOL_MAX_WORKERS   64u

static void pool_on_child(evutil_socket_t fd, short what, void *arg);
static void pool_on_refill(evutil_socket_t fd, short what, void *arg);
static void pool_worker_on_readable(evutil_socket_t fd, short what, void *arg);
static void pool_worker_on_deadline(evutil_socket_t fd, short what, void *arg);

bool
hm_pool_set_timer(struct event *event, uint64_t ms)
{
	struct timeval wait = {(time_t)(ms / 1000),
	    (suseconds_t)(ms % 1000 * 1000)};

	if (event_add(event, &wait) == 0)
		return true;
	hm_log(HM_LOG_POOL, HM_LOG_ERR, "cannot set a timer");
	return false;
}

static uint32_t
pool_count_cores(void)
{
	cpu_set_t set;
	int n_cores = 1;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		n_cores = CPU_COUNT(&set);
	if (n_cores < 1)
		return 1;
	return (uint32_t)n_cores < POOL_MAX_WORKERS ? (uint32_t)n_cores
						    : POOL_MAX_WORKERS;
}

/* A change of state is said once, and wakes those who wait for it. */
static void
pool_set_state(struct hm_pool *pool, enum hm_pool_state state,
    const char *message)
{
	bool is_news = pool->state != state;

	pool->state = state;
	hm_errbuf_set(&pool->message, "%s", message);
	if (!is_news)
		return;
	if (state == HM_POOL_UNAVAILABLE)
		hm_log(HM_LOG_POOL, HM_LOG_WARNING,
		    "no compiler, serving what is stored why=\"%s\"", message);
	if (state == HM_POOL_READY)
		hm_log(HM_LOG_POOL, HM_LOG_NOTICE,
		    "compiler ready compiler=\"%s\" targets=%s sandbox=%#x",
		    pool->ready.compiler, pool->ready.archs,
		    pool->ready.sandbox);
	pool->host.on_change(pool->host.arg);
}

static void
pool_worker_free(struct pool_worker *worker)
{
	LIST_REMOVE(worker, link);
	if (worker->readable != NULL)
		event_free(worker->readable);
	if (worker->deadline != NULL)
		event_free(worker->deadline);
	hm_fd_close(&worker->fd);
	hm_fd_close(&worker->result_fd);
	free(worker);
}

/* SIGKILL; the rest follows when it is reaped. */
void
hm_pool_worker_kill(struct pool_worker *worker, enum hm_pool_end end)
{
	if (worker->state == POOL_WORKER_DYING)
		return;
	worker->is_unready = worker->state == POOL_WORKER_STARTING;
	worker->state = POOL_WORKER_DYING;
	worker->end = end;
	(void)event_del(worker->readable);
	(void)event_del(worker->deadline);
	hm_fd_close(&worker->fd);
	(void)kill(worker->pid, SIGKILL);
}

void
hm_pool_worker_retire(struct pool_worker *worker)
{
	if (worker->state == POOL_WORKER_DYING)
		return;
	worker->is_retired = true;
	hm_pool_worker_kill(worker, HM_POOL_CRASHED);
}

static int
pool_spawn(struct hm_pool *pool)
{
	struct hm_spawn spawn = {.path = pool->path,
	    .nvrtc = pool->settings->nvrtc,
	    .shows_stderr = hm_log_enabled(HM_LOG_POOL, HM_LOG_DEBUG)};
	struct pool_worker *worker = calloc(1, sizeof(*worker));
	struct hm_errbuf text = {""};
	int error;

	if (worker == NULL)
		return HM_E_NOMEM;
	worker->pool = pool;
	worker->result_fd = -1;
	error = hm_spawn_worker(&spawn, &worker->pid, &worker->fd, &text);
	if (error != HM_OK) {
		pool_set_state(pool, HM_POOL_UNAVAILABLE, text.text);
		free(worker);
		return error;
	}
	LIST_INSERT_HEAD(&pool->workers, worker, link);
	pool->n_started++;
	worker->state = POOL_WORKER_STARTING;
	worker->readable = event_new(pool->base, worker->fd,
	    EV_READ | EV_PERSIST, pool_worker_on_readable, worker);
	worker->deadline =
	    event_new(pool->base, -1, 0, pool_worker_on_deadline, worker);
	if (worker->readable == NULL || worker->deadline == NULL ||
	    event_add(worker->readable, NULL) != 0 ||
	    !hm_pool_set_timer(worker->deadline, POOL_START_MS)) {
		hm_log(HM_LOG_POOL, HM_LOG_ERR, "cannot watch a worker pid=%ld",
		    (long)worker->pid);
		(void)kill(worker->pid, SIGKILL);
		(void)waitpid(worker->pid, NULL, 0);
		pool_worker_free(worker);
		return HM_E_NOMEM;
	}
	hm_log(HM_LOG_POOL, HM_LOG_DEBUG, "worker started pid=%ld",
	    (long)worker->pid);
	return HM_OK;
}

void
hm_pool_get_counts(const struct hm_pool *pool,
    struct hm_pool_counts *counts_out)
{
	const struct pool_worker *worker;
	struct hm_pool_counts counts = {.n_wanted = pool->n_wanted,
	    .n_started = pool->n_started,
	    .n_crashed = pool->n_crashed};

	LIST_FOREACH (worker, &pool->workers, link) {
		switch (worker->state) {
		case POOL_WORKER_STARTING:
			counts.n_starting++;
			break;
		case POOL_WORKER_IDLE:
			counts.n_idle++;
			break;
		case POOL_WORKER_BUSY:
			counts.n_busy++;
			break;
		case POOL_WORKER_DYING:
			break;
		}
	}
	*counts_out = counts;
}

static uint64_t
pool_backoff_ms(const struct hm_pool *pool)
{
	uint64_t ms = POOL_BACKOFF_MS;

	for (uint32_t i = 1; i < pool->n_bad_starts; i++) {
		ms *= 2;
		if (ms >= POOL_MAX_BACKOFF)
			return POOL_MAX_BACKOFF;
	}
	return ms;
}

/* Start what is missing, now or, after bad starts, in a while. */
void
hm_pool_refill(struct hm_pool *pool)
{
	const bool wants_spare =
	    pool->wants_spare && hm_pool_count_sources(pool) >= pool->n_wanted;
	uint32_t n_wanted = pool->state == HM_POOL_UNAVAILABLE
				? 1
				: pool->n_wanted + wants_spare;
	struct hm_pool_counts counts;
	struct hm_errbuf text = {""};

	pool->wants_spare = wants_spare;
	if (event_pending(pool->refill, EV_TIMEOUT, NULL))
		return;
	if (pool->path[0] == '\0' && hm_paths_find_worker(pool->path,
					 sizeof(pool->path), &text) != HM_OK) {
		pool_set_state(pool, HM_POOL_UNAVAILABLE, text.text);
		(void)hm_pool_set_timer(pool->refill, POOL_MAX_BACKOFF);
		return;
	}
	hm_pool_get_counts(pool, &counts);
	for (uint32_t n = counts.n_starting + counts.n_idle + counts.n_busy;
	     n < n_wanted; n++) {
		if (pool_spawn(pool) != HM_OK) {
			(void)hm_pool_set_timer(pool->refill, POOL_MAX_BACKOFF);
			return;
		}
	}
}

static void
pool_on_refill(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	hm_pool_refill(arg);
}

/* One more worker that never got ready. */
static void
pool_bad_start(struct hm_pool *pool, const char *why)
{
	struct hm_pool_counts counts;

	pool->n_bad_starts++;
	hm_pool_get_counts(pool, &counts);
	if (pool->n_bad_starts >= POOL_MAX_BAD_START &&
	    counts.n_idle + counts.n_busy == 0)
		pool_set_state(pool, HM_POOL_UNAVAILABLE, why);
	if (!event_pending(pool->refill, EV_TIMEOUT, NULL))
		(void)hm_pool_set_timer(pool->refill, pool_backoff_ms(pool));
}

static void
pool_count_wanted(struct hm_pool *pool)
{
	pool->n_wanted = pool->settings->workers == 0
			     ? pool_count_cores()
			     : (uint32_t)pool->settings->workers;
}

int
hm_pool_open(const struct hm_settings *settings, struct event_base *base,
    const struct hm_pool_host *host, struct hm_pool **pool_out)
{
	struct hm_pool *pool = calloc(1, sizeof(*pool));

	if (pool == NULL)
		return HM_E_NOMEM;
	LIST_INIT(&pool->workers);
	pool->settings = settings;
	pool->base = base;
	pool->host = *host;
	pool_count_wanted(pool);
	pool->child = evsignal_new(base, SIGCHLD, pool_on_child, pool);
	pool->refill = event_new(base, -1, 0, pool_on_refill, pool);
	if (pool->child == NULL || pool->refill == NULL ||
	    event_add(pool->child, NULL) != 0 ||
	    !hm_pool_set_timer(pool->refill, 0)) {
		hm_pool_close(pool);
		return HM_E_NOMEM;
	}
	*pool_out = pool;
	return HM_OK;
}

void
hm_pool_reload(struct hm_pool *pool)
{
	struct pool_worker *worker;

	pool_count_wanted(pool);
	pool->path[0] = '\0';
	LIST_FOREACH (worker, &pool->workers, link) {
		worker->is_outdated = true;
		if (worker->state == POOL_WORKER_STARTING ||
		    worker->state == POOL_WORKER_IDLE)
			hm_pool_worker_retire(worker);
	}
	/* Whatever was wrong may have been put right. */
	pool->n_bad_starts = 0;
	(void)hm_pool_set_timer(pool->refill, 0);
}

void
hm_pool_close(struct hm_pool *pool)
{
	struct pool_worker *worker;

	if (pool == NULL)
		return;
	LIST_FOREACH (worker, &pool->workers, link)
		hm_pool_worker_kill(worker, HM_POOL_CRASHED);
	while ((worker = LIST_FIRST(&pool->workers)) != NULL) {
		/* The analyzer cannot see that a freed one left the list.
		 * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		while (waitpid(worker->pid, NULL, 0) == -1 && errno == EINTR)
			;
		pool_worker_free(worker);
	}
	if (pool->child != NULL)
		event_free(pool->child);
	if (pool->refill != NULL)
		event_free(pool->refill);
	free(pool);
}

enum hm_pool_state
hm_pool_state(const struct hm_pool *pool)
{
	return pool->state;
}

const char *
hm_pool_message(const struct hm_pool *pool)
{
	return pool->message.text;
}

const char *
hm_pool_compiler(const struct hm_pool *pool)
{
	return pool->ready.compiler;
}

const char *
hm_pool_targets(const struct hm_pool *pool)
{
	return pool->ready.archs;
}

uint32_t
hm_pool_sandbox(const struct hm_pool *pool)
{
	return pool->ready.sandbox;
}

bool
hm_pool_knows(const struct hm_pool *pool, const struct hm_target *target)
{
	char number[16];
	const char *at = pool->ready.archs;
	size_t length;
	int n_number;

	n_number = snprintf(number, sizeof(number), "%u", target->cc);
	if (at[0] == '\0' || n_number < 0)
		return true;
	for (; *at != '\0'; at += length + (at[length] == ',')) {
		length = strcspn(at, ",");
		if (length == (size_t)n_number &&
		    strncmp(at, number, length) == 0)
			return true;
	}
	return false;
}

/* Hand a result over and let go of the job. */
static void
pool_worker_finish(struct pool_worker *worker, struct hm_pool_result *result)
{
	struct hm_pool *pool = worker->pool;
	void *ticket = worker->ticket;

	worker->recipe = NULL;
	worker->ticket = NULL;
	pool->host.on_result(pool->host.arg, ticket, result);
	hm_fd_close(&worker->result_fd);
}

/* Whether a worker has done enough for one life. */
static bool
pool_worker_is_old(const struct pool_worker *worker,
    const struct hm_job_result *result)
{
	const struct hm_settings *settings = worker->pool->settings;

	/* The compiler was replaced while we ran: no two kinds at once. */
	if (worker->is_outdated ||
	    strcmp(worker->compiler, worker->pool->ready.compiler) != 0)
		return true;
	return worker->n_jobs >= settings->worker_jobs ||
	       (uint64_t)result->resident_kib * 1024 >
		   settings->worker_resident_bytes;
}

/* Whether this one is more than are wanted, now that it is idle again: the
 * spare worker stays in its place. */
static bool
pool_worker_is_surplus(const struct pool_worker *worker)
{
	struct hm_pool *pool = worker->pool;
	struct hm_pool_counts counts;

	hm_pool_get_counts(pool, &counts);
	if (!worker->is_tainted ||
	    counts.n_starting + counts.n_idle + counts.n_busy <= pool->n_wanted)
		return false;
	pool->wants_spare = false;
	return true;
}

static int
pool_worker_take_result(struct pool_worker *worker,
    const struct hm_frame *frame)
{
	struct hm_pool_result from = {.end = HM_POOL_DONE};
	struct hm_job_result result;
	int error;

	if (worker->state != POOL_WORKER_BUSY ||
	    frame->request_id != worker->job_id)
		return HM_E_PROTOCOL;
	error = hm_codec_unpack_job_result(frame->body, frame->n_body, &result);
	if (error != HM_OK)
		return error;
	from.result = &result;
	from.compiler = worker->compiler;
	if (result.error == HM_OK)
		error = hm_handover_take(worker->result_fd, &result,
		    &from.image, &from.n_image);
	if (error == HM_OK) {
		(void)event_del(worker->deadline);
		worker->state = POOL_WORKER_IDLE;
		pool_worker_finish(worker, &from);
		if (from.image != NULL)
			hm_fd_unmap(from.image, from.n_image);
		if (pool_worker_is_old(worker, &result) ||
		    pool_worker_is_surplus(worker))
			hm_pool_worker_retire(worker);
		worker->pool->host.on_change(worker->pool->host.arg);
	}
	hm_job_result_done(&result);
	return error;
}

/* Idle workers whose compiler is no longer the one that new workers find. */
static void
pool_retire_others(struct hm_pool *pool)
{
	struct pool_worker *worker;

	LIST_FOREACH (worker, &pool->workers, link) {
		if (worker->state == POOL_WORKER_IDLE &&
		    strcmp(worker->compiler, pool->ready.compiler) != 0)
			hm_pool_worker_retire(worker);
	}
}

static int
pool_worker_take_ready(struct pool_worker *worker, const struct hm_frame *frame)
{
	struct hm_pool *pool = worker->pool;
	struct hm_worker_ready ready;
	int error;

	if (worker->state != POOL_WORKER_STARTING)
		return HM_E_PROTOCOL;
	error =
	    hm_codec_unpack_worker_ready(frame->body, frame->n_body, &ready);
	if (error != HM_OK)
		return error;
	if (ready.error != HM_OK) {
		hm_errbuf_set(&worker->why, "%s", ready.message);
		pool->n_bad_starts += POOL_MAX_BAD_START;
		hm_pool_worker_kill(worker, HM_POOL_CRASHED);
		return HM_OK;
	}
	(void)event_del(worker->deadline);
	worker->state = POOL_WORKER_IDLE;
	pool->n_bad_starts = 0;
	(void)snprintf(worker->compiler, sizeof(worker->compiler), "%s",
	    ready.compiler);
	pool->ready = ready;
	pool_retire_others(pool);
	pool_set_state(pool, HM_POOL_READY, "");
	pool->host.on_change(pool->host.arg);
	hm_pool_refill(pool);
	return HM_OK;
}

static void
pool_worker_on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct pool_worker *worker = arg;
	struct hm_frame frame;
	int error;

	(void)what;
	error = hm_frame_recv(fd, worker->pool->received, &frame);
	if (error == HM_E_BUSY)
		return;
	if (error == HM_OK) {
		if (frame.type == HM_FRAME_JOB_RESULT)
			error = pool_worker_take_result(worker, &frame);
		else if (frame.type == HM_FRAME_WORKER_READY)
			error = pool_worker_take_ready(worker, &frame);
		else
			error = HM_E_PROTOCOL;
		hm_fd_close(&frame.fd);
		if (error != HM_OK)
			hm_errbuf_set(&worker->why,
			    "the compiler process broke the rules: %s",
			    hm_strerror(error));
	}
	if (error != HM_OK)
		hm_pool_worker_kill(worker, HM_POOL_CRASHED);
}

static void
pool_worker_on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct pool_worker *worker = arg;

	(void)fd;
	(void)what;
	if (worker->state == POOL_WORKER_STARTING)
		hm_errbuf_set(&worker->why,
		    "the compiler was not ready after %u s",
		    POOL_START_MS / 1000);
	else
		hm_errbuf_set(&worker->why,
		    "the compiler took longer than %llu ms (limits.%s)",
		    (unsigned long long)hm_pool_job_ms(worker->pool,
			worker->recipe),
		    worker->recipe->is_own ? "build_ms" : "source_ms");
	hm_pool_worker_kill(worker, HM_POOL_TIMED_OUT);
}

/* Put the end of a worker in words, unless we know better why it went. */
static void
pool_worker_explain(struct pool_worker *worker, int status)
{
	if (worker->why.text[0] != '\0')
		return;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
		worker->end = HM_POOL_TIMED_OUT;
		hm_errbuf_set(&worker->why,
		    "the compiler used up its processor time%s",
		    worker->recipe == NULL   ? ""
		    : worker->recipe->is_own ? ", 2/3 of limits.build_ms"
					     : ", 2/3 of limits.source_ms");
	} else if (WIFSIGNALED(status)) {
		hm_errbuf_set(&worker->why,
		    "the compiler process was killed by signal %d (%s)",
		    WTERMSIG(status), strsignal(WTERMSIG(status)));
	} else {
		hm_errbuf_set(&worker->why,
		    "the compiler process ended with status %d",
		    WEXITSTATUS(status));
	}
}

/* What a job that was lost had cost by then, for who sent it. */
static void
pool_worker_account(struct pool_worker *worker, const struct rusage *usage)
{
	struct hm_errbuf why = worker->why;
	long long ms =
	    (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000LL +
	    (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1000;

	hm_errbuf_set(&worker->why,
	    "%s; the process had used %lld ms of processor time and %ld MiB",
	    why.text, ms, usage->ru_maxrss / 1024);
}

/* A worker is dead and reaped: settle its job, start another. */
static void
pool_bury(struct pool_worker *worker, int status, const struct rusage *usage)
{
	struct hm_pool *pool = worker->pool;
	bool is_bad = !worker->is_retired;
	struct hm_pool_result result = {.image = NULL};

	pool_worker_explain(worker, status);
	if (worker->recipe != NULL)
		pool_worker_account(worker, usage);
	result.end = worker->end;
	result.message = worker->why;
	if (is_bad) {
		pool->n_crashed++;
		hm_log(HM_LOG_POOL,
		    pool->state == HM_POOL_UNAVAILABLE ? HM_LOG_DEBUG
						       : HM_LOG_WARNING,
		    "worker lost pid=%ld jobs=%llu why=\"%s\"",
		    (long)worker->pid, (unsigned long long)worker->n_jobs,
		    worker->why.text);
	}
	if (worker->recipe != NULL)
		pool_worker_finish(worker, &result);
	if (is_bad && worker->is_unready)
		pool_bad_start(pool, result.message.text);
	pool_worker_free(worker);
	hm_pool_refill(pool);
}

static void
pool_on_child(evutil_socket_t fd, short what, void *arg)
{
	struct hm_pool *pool = arg;
	struct pool_worker *worker;
	struct pool_worker *next;
	struct rusage usage;
	int status = 0;

	(void)fd;
	(void)what;
	for (worker = LIST_FIRST(&pool->workers); worker != NULL;
	     worker = next) {
		next = LIST_NEXT(worker, link);
		if (wait4(worker->pid, &status, WNOHANG, &usage) != worker->pid)
			continue;
		/* Its last words may still be in the channel: a finished job,
		 * or why it cannot start. */
		if (worker->state != POOL_WORKER_DYING)
			pool_worker_on_readable(worker->fd, EV_READ, worker);
		if (worker->state != POOL_WORKER_DYING) {
			worker->is_unready =
			    worker->state == POOL_WORKER_STARTING;
			worker->end = HM_POOL_CRASHED;
			worker->state = POOL_WORKER_DYING;
		}
		pool_bury(worker, status, &usage);
	}
}
