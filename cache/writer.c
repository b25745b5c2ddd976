/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.c - see writer.h.
 *
 *   loop thread                     writer thread
 *   put, discard, task, flush   ->  queue, in order
 *   touch                       ->  a list, written with the next batch
 *
 * A job stays in the queue until its transaction has committed or failed, so
 * that a lookup finds it all the while. Only the loop thread appends and only
 * the writer removes, from the front; `lock` guards both, and the lists.
 * Failures are never errors to the one who put: they are counted, and the text
 * of the latest says why.
 */
#include "cache/writer.h"

#include <sys/queue.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/task.h"

#define WRITER_QUEUE_BYTES (32u << 20)
#define WRITER_BATCH       64u
#define WRITER_TOUCHES     4096u
#define WRITER_ATTEMPTS    3u
#define WRITER_LOST        512u

enum writer_kind { WRITER_PUT, WRITER_DISCARD, WRITER_TASK, WRITER_FLUSH };

enum writer_task_state {
	WRITER_TASK_NONE,
	WRITER_TASK_QUEUED,
	WRITER_TASK_RUNNING,
	WRITER_TASK_DONE
};

struct writer_job {
	TAILQ_ENTRY(writer_job) link;
	enum writer_kind kind;
	struct hm_digest key;
	struct hm_entry *entry; /* WRITER_PUT: one reference */
	uint64_t n_bytes;
	bool if_damaged; /* WRITER_DISCARD */
	/* a job that is waited for lies on the stack of who waits */
	bool is_waited;
	bool is_done;
};
TAILQ_HEAD(writer_queue, writer_job);

/*
 * The first n jobs of the queue, and the touches that go with them. By
 * pointers, because the link of the last one changes with each new job.
 */
struct writer_batch {
	struct writer_job *jobs[WRITER_BATCH];
	size_t n_jobs;
	const struct hm_digest *touches;
	size_t n_touches;
	uint64_t n_puts;
	uint64_t n_failed;
	int error;
	struct hm_errbuf why;
};

struct hm_writer {
	struct hm_store *store; /* borrowed */
	pthread_t thread;
	pthread_mutex_t lock; /* all below */
	pthread_cond_t work;
	pthread_cond_t done;
	struct writer_queue queue;
	uint64_t queue_bytes;
	struct hm_digest *touches; /* WRITER_TOUCHES of them */
	struct hm_digest *spare;   /* the list that is being written */
	size_t n_touches;
	atomic_uint_fast64_t epoch; /* read without the lock, at every hit */
	bool is_stopping;
	enum writer_task_state task_state;
	struct hm_task task; /* RUNNING: the writer's own, without the lock */
	bool wants_care;
	struct hm_care care; /* the writer's own */
	size_t n_lost;
	struct hm_digest lost[WRITER_LOST];
	struct hm_writer_stats stats;
};

/* ---- the writer thread ---- */

static bool
writer_has_key(const struct writer_job *job)
{
	return job->kind == WRITER_PUT || job->kind == WRITER_DISCARD;
}

/* The store takes one put of a key in a transaction. */
static bool
writer_batch_has_key(const struct writer_batch *batch,
    const struct writer_job *job)
{
	if (!writer_has_key(job))
		return false;
	for (size_t i = 0; i < batch->n_jobs; i++) {
		if (writer_has_key(batch->jobs[i]) &&
		    hm_digest_equal(&batch->jobs[i]->key, &job->key))
			return true;
	}
	return false;
}

/* Under the lock: what the next transaction is made of. */
static void
writer_take_batch(struct hm_writer *writer, struct writer_batch *batch)
{
	uint64_t limit_bytes = hm_store_batch_bytes(writer->store);
	uint64_t n_bytes = 0;
	struct hm_digest *touches = writer->touches;
	struct writer_job *job;

	memset(batch, 0, sizeof(*batch));
	TAILQ_FOREACH (job, &writer->queue, link) {
		n_bytes += job->n_bytes;
		if (batch->n_jobs > 0 &&
		    (batch->n_jobs == WRITER_BATCH || n_bytes > limit_bytes ||
			job->kind == WRITER_TASK ||
			writer_batch_has_key(batch, job)))
			break;
		batch->jobs[batch->n_jobs++] = job;
		batch->n_puts += job->kind == WRITER_PUT;
		if (job->kind == WRITER_TASK)
			break;
	}
	batch->touches = touches;
	batch->n_touches = writer->n_touches;
	writer->touches = writer->spare;
	writer->spare = touches;
	writer->n_touches = 0;
	atomic_fetch_add(&writer->epoch, 1);
}

static int
writer_step(struct hm_writer *writer, struct writer_job *job,
    struct writer_batch *batch)
{
	bool deleted = false;
	int error = HM_OK;

	switch (job->kind) {
	case WRITER_PUT:
		error = hm_store_put(writer->store, job->entry, &batch->why);
		if (error == HM_E_INVALID) { /* too large: only this one */
			batch->n_failed++;
			error = HM_OK;
		}
		break;
	case WRITER_DISCARD:
		error = hm_store_delete(writer->store, &job->key,
		    job->if_damaged, &deleted, &batch->why);
		break;
	case WRITER_TASK:
	case WRITER_FLUSH:
		break;
	}
	return error;
}

static int
writer_try(struct hm_writer *writer, struct writer_batch *batch)
{
	int error;

	batch->n_failed = 0;
	error = hm_store_begin(writer->store, &batch->why);
	for (size_t i = 0; error == HM_OK && i < batch->n_touches; i++)
		error = hm_store_touch(writer->store, &batch->touches[i],
		    &batch->why);
	for (size_t i = 0; error == HM_OK && i < batch->n_jobs; i++)
		error = writer_step(writer, batch->jobs[i], batch);
	if (error == HM_OK)
		return hm_store_commit(writer->store, &batch->why);
	hm_store_abort(writer->store);
	return error;
}

static void
writer_write(struct hm_writer *writer, struct writer_batch *batch)
{
	int error = HM_OK;

	for (unsigned int i = 0; i < WRITER_ATTEMPTS; i++) {
		batch->error = writer_try(writer, batch);
		if (batch->error == HM_E_BUSY)
			error = hm_store_make_room(writer->store, &batch->why);
		else if (batch->error == HM_E_CORRUPT)
			error = hm_store_restart(writer->store,
			    HM_STORE_SET_ASIDE, &batch->why);
		else
			break;
		if (error != HM_OK)
			break;
	}
}

/* A put that failed is worth another try while the hot tier has it. */
static void
writer_note_lost(struct hm_writer *writer, const struct hm_digest *key)
{
	if (writer->n_lost < WRITER_LOST)
		writer->lost[writer->n_lost++] = *key;
}

/* Under the lock: the batch leaves the queue, whoever waits is told. */
static void
writer_finish(struct hm_writer *writer, struct writer_batch *batch)
{
	struct hm_writer_stats *stats = &writer->stats;

	for (size_t i = 0; i < batch->n_jobs; i++) {
		struct writer_job *job = batch->jobs[i];

		TAILQ_REMOVE(&writer->queue, job, link);
		writer->queue_bytes -= job->n_bytes;
		hm_entry_unref(job->entry);
		if (job->kind == WRITER_TASK)
			writer->task_state = WRITER_TASK_RUNNING;
		if (job->kind == WRITER_PUT && batch->error != HM_OK)
			writer_note_lost(writer, &job->key);
		if (job->is_waited)
			job->is_done = true;
		else
			free(job);
	}
	if (batch->error != HM_OK) {
		stats->write_failures += batch->n_puts;
		(void)snprintf(stats->degraded, sizeof(stats->degraded),
		    "%.255s", batch->why.text);
	} else {
		stats->write_failures += batch->n_failed;
		if (batch->n_puts > batch->n_failed)
			stats->degraded[0] = '\0';
	}
	(void)pthread_cond_broadcast(&writer->done);
}

/* One slice. A failure ends it: the next put comes back to it. */
static bool
writer_trim(struct hm_writer *writer)
{
	int error;

	error = hm_store_begin(writer->store, NULL);
	if (error == HM_OK)
		error = hm_store_trim(writer->store, NULL);
	if (error == HM_OK)
		return hm_store_commit(writer->store, NULL) == HM_OK;
	hm_store_abort(writer->store);
	return false;
}

/* These four take the lock's holder's place and give it back. */
static bool
writer_run_batch(struct hm_writer *writer)
{
	struct writer_batch batch;

	writer_take_batch(writer, &batch);
	(void)pthread_mutex_unlock(&writer->lock);
	writer_write(writer, &batch);
	(void)pthread_mutex_lock(&writer->lock);
	writer_finish(writer, &batch);
	return batch.error == HM_OK;
}

static void
writer_run_task(struct hm_writer *writer)
{
	bool is_over;

	(void)pthread_mutex_unlock(&writer->lock);
	is_over = hm_task_step(writer->store, &writer->task);
	(void)pthread_mutex_lock(&writer->lock);
	if (!is_over)
		return;
	writer->task_state = WRITER_TASK_DONE;
	(void)pthread_cond_broadcast(&writer->done);
}

static bool
writer_run_trim(struct hm_writer *writer)
{
	bool is_done;

	(void)pthread_mutex_unlock(&writer->lock);
	is_done = writer_trim(writer);
	(void)pthread_mutex_lock(&writer->lock);
	return is_done;
}

static void
writer_run_care(struct hm_writer *writer)
{
	bool is_degraded = writer->stats.degraded[0] != '\0';
	struct hm_errbuf why = {""};
	int error = HM_OK;
	bool is_over;

	(void)pthread_mutex_unlock(&writer->lock);
	if (is_degraded)
		error = hm_store_probe(writer->store, &why);
	is_over = error != HM_OK || hm_care_step(writer->store, &writer->care);
	(void)pthread_mutex_lock(&writer->lock);
	if (is_degraded)
		(void)snprintf(writer->stats.degraded,
		    sizeof(writer->stats.degraded), "%.255s", why.text);
	if (!is_over)
		return;
	writer->wants_care = false;
	memset(&writer->care, 0, sizeof(writer->care));
}

static void *
writer_main(void *arg)
{
	struct hm_writer *writer = arg;
	bool may_trim = true;

	(void)pthread_mutex_lock(&writer->lock);
	for (;;) {
		may_trim = may_trim && hm_store_is_trimming(writer->store);
		if (!TAILQ_EMPTY(&writer->queue))
			may_trim = writer_run_batch(writer);
		else if (writer->is_stopping)
			break;
		else if (writer->task_state != WRITER_TASK_RUNNING && may_trim)
			may_trim = writer_run_trim(writer);
		else if (writer->task_state != WRITER_TASK_RUNNING &&
			 writer->wants_care)
			writer_run_care(writer);
		else if (writer->task_state != WRITER_TASK_RUNNING)
			(void)pthread_cond_wait(&writer->work, &writer->lock);
		/* In turns with the batches. */
		if (writer->task_state == WRITER_TASK_RUNNING)
			writer_run_task(writer);
	}
	(void)pthread_mutex_unlock(&writer->lock);
	return NULL;
}

/* ---- the loop thread ---- */

static int
writer_start_thread(struct hm_writer *writer)
{
	sigset_t all, before;
	int rc;

	/* Signals are the loop's: the new thread inherits a full mask. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&writer->thread, NULL, writer_main, writer);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc == 0 ? HM_OK : HM_E_SYSTEM;
}

static void
writer_dispose(struct hm_writer *writer)
{
	(void)pthread_cond_destroy(&writer->done);
	(void)pthread_cond_destroy(&writer->work);
	(void)pthread_mutex_destroy(&writer->lock);
	free(writer->touches);
	free(writer->spare);
	free(writer);
}

int
hm_writer_new(struct hm_store *store, const char *degraded,
    struct hm_writer **writer_out)
{
	struct hm_writer *writer;
	int error = HM_E_NOMEM;

	writer = calloc(1, sizeof(*writer));
	if (writer == NULL)
		return HM_E_NOMEM;
	writer->store = store;
	(void)snprintf(writer->stats.degraded, sizeof(writer->stats.degraded),
	    "%.255s", degraded);
	atomic_init(&writer->epoch, 1);
	TAILQ_INIT(&writer->queue);
	(void)pthread_mutex_init(&writer->lock, NULL);
	(void)pthread_cond_init(&writer->work, NULL);
	(void)pthread_cond_init(&writer->done, NULL);
	writer->touches = calloc(WRITER_TOUCHES, sizeof(*writer->touches));
	writer->spare = calloc(WRITER_TOUCHES, sizeof(*writer->spare));
	if (writer->touches != NULL && writer->spare != NULL)
		error = writer_start_thread(writer);
	if (error != HM_OK) {
		writer_dispose(writer);
		return error;
	}
	*writer_out = writer;
	return HM_OK;
}

void
hm_writer_free(struct hm_writer *writer)
{
	if (writer == NULL)
		return;
	hm_writer_flush(writer); /* for the touches */
	(void)pthread_mutex_lock(&writer->lock);
	writer->is_stopping = true;
	(void)pthread_cond_signal(&writer->work);
	(void)pthread_mutex_unlock(&writer->lock);
	(void)pthread_join(writer->thread, NULL);
	writer_dispose(writer);
}

static void
writer_append(struct hm_writer *writer, struct writer_job *job)
{
	TAILQ_INSERT_TAIL(&writer->queue, job, link);
	writer->queue_bytes += job->n_bytes;
	(void)pthread_cond_signal(&writer->work);
}

void
hm_writer_put(struct hm_writer *writer, struct hm_entry *entry)
{
	uint64_t n_bytes = entry->n_meta + entry->n_record + entry->n_image;
	struct writer_job *job;

	job = calloc(1, sizeof(*job));
	if (job != NULL) {
		job->kind = WRITER_PUT;
		job->key = entry->key;
		job->n_bytes = n_bytes;
	}
	(void)pthread_mutex_lock(&writer->lock);
	/* One that is alone may be larger than the bound. */
	if (job != NULL &&
	    (TAILQ_EMPTY(&writer->queue) ||
		writer->queue_bytes + n_bytes <= WRITER_QUEUE_BYTES)) {
		job->entry = hm_entry_ref(entry);
		writer_append(writer, job);
		job = NULL;
	} else {
		writer->stats.write_failures++;
		writer_note_lost(writer, &entry->key);
	}
	(void)pthread_mutex_unlock(&writer->lock);
	free(job);
}

void
hm_writer_touch(struct hm_writer *writer, const struct hm_digest *key)
{
	(void)pthread_mutex_lock(&writer->lock);
	if (writer->n_touches < WRITER_TOUCHES)
		writer->touches[writer->n_touches++] = *key;
	(void)pthread_mutex_unlock(&writer->lock);
}

uint64_t
hm_writer_epoch(struct hm_writer *writer)
{
	return atomic_load(&writer->epoch);
}

void
hm_writer_discard(struct hm_writer *writer, const struct hm_digest *key,
    bool if_damaged)
{
	struct writer_job *job;

	job = calloc(1, sizeof(*job));
	if (job == NULL)
		return; /* the next lookup finds it damaged again */
	job->kind = WRITER_DISCARD;
	job->key = *key;
	job->if_damaged = if_damaged;
	(void)pthread_mutex_lock(&writer->lock);
	writer_append(writer, job);
	(void)pthread_mutex_unlock(&writer->lock);
}

struct hm_entry *
hm_writer_find(struct hm_writer *writer, const struct hm_digest *key)
{
	struct hm_entry *entry = NULL;
	struct writer_job *job;

	(void)pthread_mutex_lock(&writer->lock);
	/* The latest put of a key is the one that will stay. */
	TAILQ_FOREACH (job, &writer->queue, link) {
		if (job->kind == WRITER_PUT && hm_digest_equal(&job->key, key))
			entry = job->entry;
	}
	if (entry != NULL)
		(void)hm_entry_ref(entry);
	(void)pthread_mutex_unlock(&writer->lock);
	return entry;
}

/* Queue a job that lies on our stack and wait until it is done. */
static void
writer_wait(struct hm_writer *writer, struct writer_job *job)
{
	job->is_waited = true;
	(void)pthread_mutex_lock(&writer->lock);
	writer_append(writer, job);
	while (!job->is_done)
		(void)pthread_cond_wait(&writer->done, &writer->lock);
	(void)pthread_mutex_unlock(&writer->lock);
}

int
hm_writer_begin(struct hm_writer *writer, enum hm_cache_task_kind kind,
    const struct hm_digest *key)
{
	struct writer_job *job;
	int error = HM_E_BUSY;

	job = calloc(1, sizeof(*job));
	if (job == NULL)
		return HM_E_NOMEM;
	job->kind = WRITER_TASK;
	(void)pthread_mutex_lock(&writer->lock);
	if (writer->task_state == WRITER_TASK_NONE) {
		memset(&writer->task, 0, sizeof(writer->task));
		writer->task.face.kind = kind;
		if (key != NULL)
			writer->task.face.key = *key;
		writer->task_state = WRITER_TASK_QUEUED;
		writer_append(writer, job);
		job = NULL;
		error = HM_OK;
	}
	(void)pthread_mutex_unlock(&writer->lock);
	free(job);
	return error;
}

bool
hm_writer_poll(struct hm_writer *writer, struct hm_cache_task *task_out)
{
	bool is_over;

	(void)pthread_mutex_lock(&writer->lock);
	is_over = writer->task_state == WRITER_TASK_DONE;
	if (is_over) {
		*task_out = writer->task.face;
		writer->task_state = WRITER_TASK_NONE;
	}
	(void)pthread_mutex_unlock(&writer->lock);
	return is_over;
}

void
hm_writer_wait_task(struct hm_writer *writer)
{
	(void)pthread_mutex_lock(&writer->lock);
	while (writer->task_state == WRITER_TASK_QUEUED ||
	       writer->task_state == WRITER_TASK_RUNNING)
		(void)pthread_cond_wait(&writer->done, &writer->lock);
	(void)pthread_mutex_unlock(&writer->lock);
}

void
hm_writer_tick(struct hm_writer *writer)
{
	(void)pthread_mutex_lock(&writer->lock);
	writer->wants_care = true;
	(void)pthread_cond_signal(&writer->work);
	(void)pthread_mutex_unlock(&writer->lock);
}

size_t
hm_writer_take_lost(struct hm_writer *writer, struct hm_digest *keys_out,
    size_t max)
{
	size_t n = 0;

	(void)pthread_mutex_lock(&writer->lock);
	while (
	    writer->stats.degraded[0] == '\0' && n < max && writer->n_lost > 0)
		keys_out[n++] = writer->lost[--writer->n_lost];
	(void)pthread_mutex_unlock(&writer->lock);
	return n;
}

void
hm_writer_flush(struct hm_writer *writer)
{
	struct writer_job job = {.kind = WRITER_FLUSH};

	writer_wait(writer, &job);
}

void
hm_writer_get_stats(struct hm_writer *writer, struct hm_writer_stats *stats_out)
{
	(void)pthread_mutex_lock(&writer->lock);
	*stats_out = writer->stats;
	(void)pthread_mutex_unlock(&writer->lock);
}

void
hm_writer_count_queued(struct hm_writer *writer, uint64_t *entries_io,
    uint64_t *bytes_io)
{
	const struct writer_job *job;

	(void)pthread_mutex_lock(&writer->lock);
	TAILQ_FOREACH (job, &writer->queue, link) {
		/* The batch that is being written may have just arrived. */
		if (job->kind != WRITER_PUT ||
		    hm_store_has(writer->store, &job->key))
			continue;
		*entries_io += 1;
		*bytes_io += job->n_bytes;
	}
	(void)pthread_mutex_unlock(&writer->lock);
}
