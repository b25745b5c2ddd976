/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.c - see task.h. Knows the order of steps, nothing of LMDB or threads.
 */
#include "cache/task.h"

#include <string.h>

#define TASK_MAX_RETRIES 3u

static int
task_evict(struct hm_store *store, struct hm_task *task)
{
	bool is_evicted = false;
	int error;

	if (hm_store_is_pinned(store, &task->face.key)) {
		hm_errbuf_set(&task->face.why, "it is pinned; unpin it first");
		return HM_E_INVALID;
	}
	error = hm_store_evict(store, &task->face.key, &is_evicted,
	    &task->face.why);
	task->walk.n_gone = is_evicted;
	return error;
}

/* The part of a task that one transaction does. */
static int
task_do(struct hm_store *store, struct hm_task *task)
{
	task->walk.is_done = true;
	switch (task->face.kind) {
	case HM_CACHE_VERIFY:
		return hm_store_verify(store, &task->walk, &task->face.why);
	case HM_CACHE_EVICT:
		return task_evict(store, task);
	case HM_CACHE_EVICT_ALL:
		return hm_store_clear(store, &task->walk, &task->face.why);
	case HM_CACHE_PIN:
	case HM_CACHE_UNPIN:
		return hm_store_pin(store, &task->face.key,
		    task->face.kind == HM_CACHE_PIN, &task->face.why);
	case HM_CACHE_COMPACT:
		break;
	}
	return HM_E_INTERNAL;
}

static int
task_transact(struct hm_store *store, struct hm_task *task)
{
	const struct hm_store_walk before = task->walk;
	int error;

	error = hm_store_begin(store, &task->face.why);
	if (error == HM_OK)
		error = task_do(store, task);
	if (error == HM_OK)
		error = hm_store_commit(store, &task->face.why);
	else
		hm_store_abort(store);
	if (error != HM_OK)
		task->walk = before;
	return error;
}

/* After a failure; true: the step is worth another try. What was to be checked
 * is gone with a store that is set aside. */
static bool
task_recover(struct hm_store *store, struct hm_task *task)
{
	struct hm_errbuf why = task->face.why;
	int error = task->face.error;

	if (++task->n_retries > TASK_MAX_RETRIES)
		return false;
	if (error == HM_E_BUSY)
		error = hm_store_make_room(store, &why);
	else if (error == HM_E_CORRUPT)
		error = hm_store_restart(store, HM_STORE_SET_ASIDE, &why);
	return error == HM_OK && (task->face.error == HM_E_BUSY ||
				     task->face.kind != HM_CACHE_VERIFY);
}

/* Everything at once: with the file, however damaged or full it is. */
static void
task_erase(struct hm_store *store, struct hm_task *task)
{
	struct hm_store_stats before;

	hm_store_get_stats(store, &before);
	task->face.error =
	    hm_store_restart(store, HM_STORE_ERASE, &task->face.why);
	task->face.n_gone = before.entries;
}

static void
task_compact(struct hm_store *store, struct hm_task *task)
{
	struct hm_store_stats before, after;

	hm_store_get_stats(store, &before);
	task->face.error = hm_store_compact(store, &task->face.why);
	hm_store_get_stats(store, &after);
	if (after.file_bytes < before.file_bytes)
		task->face.n_freed = before.file_bytes - after.file_bytes;
}

bool
hm_task_step(struct hm_store *store, struct hm_task *task)
{
	if (task->face.kind == HM_CACHE_COMPACT) {
		task_compact(store, task);
		return true;
	}
	if (task->face.kind == HM_CACHE_EVICT_ALL && !task->walk.is_begun &&
	    !hm_store_has_pinned(store)) {
		task_erase(store, task);
		return true;
	}
	task->face.error = task_transact(store, task);
	if (task->face.error != HM_OK && task_recover(store, task)) {
		hm_errbuf_clear(&task->face.why);
		task->face.error = HM_OK;
		return false;
	}
	task->face.n_checked = task->walk.n_checked;
	task->face.n_bytes = task->walk.n_bytes;
	task->face.n_gone = task->walk.n_gone;
	return task->face.error != HM_OK || task->walk.is_done;
}

static int
care_expire(struct hm_store *store, struct hm_care *care)
{
	int error;

	error = hm_store_begin(store, NULL);
	if (error == HM_OK)
		error = hm_store_expire(store, &care->walk, NULL);
	if (error == HM_OK)
		return hm_store_commit(store, NULL);
	hm_store_abort(store);
	return error;
}

bool
hm_care_step(struct hm_store *store, struct hm_care *care)
{
	if (care->is_expiring || hm_store_wants_expire(store)) {
		if (care_expire(store, care) != HM_OK)
			return true;
		care->is_expiring = !care->walk.is_done;
		return false;
	}
	if (hm_store_wants_compact(store))
		(void)hm_store_compact(store, NULL);
	return true;
}
