/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.h - long work on a store, a step at a time, on the writer's side.
 *
 * A step is at most one transaction (or one compaction), so that puts get their
 * turn between two of them.
 */
#ifndef HM_CACHE_TASK_H
#define HM_CACHE_TASK_H

#include "cache/store_lmdb.h"

struct hm_task {
	struct hm_cache_task face;
	struct hm_store_walk walk;
	uint32_t n_retries;
};

/* One step. true: it is over, and face says how. */
bool hm_task_step(struct hm_store *store, struct hm_task *task);

/* What a store needs now and then; zeroed before the first step. */
struct hm_care {
	bool is_expiring; /* in the middle of it */
	struct hm_store_walk walk;
};

/* One step. true: there is no more to do this time. Failures end it: the next
 * time comes. */
bool hm_care_step(struct hm_store *store, struct hm_care *care);

#endif
