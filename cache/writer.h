/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.h - the one thread that writes to a store.
 *
 * Puts wait in a queue that is bounded in bytes, and become durable a batch at
 * a time: while one batch is being synced the next one gathers. Uses of keys
 * ("touches") only ride along, so that reading alone never writes. Long work
 * (task.h) takes turns with the batches. All calls are the loop thread's.
 */
#ifndef HM_CACHE_WRITER_H
#define HM_CACHE_WRITER_H

#include "cache/store_lmdb.h"

struct hm_writer;

struct hm_writer_stats {
	uint64_t write_failures;
	char degraded[256]; /* why the latest write failed; empty: it did not */
};

/* The store is borrowed and must outlive the writer; degraded is why it could
 * not be opened, or "". The thread takes no signals. Returns HM_OK, HM_E_NOMEM
 * or HM_E_SYSTEM. */
int hm_writer_new(struct hm_store *store, const char *degraded,
    struct hm_writer **writer_out);

/* Writes what is queued, then ends the thread. NULL allowed. */
void hm_writer_free(struct hm_writer *writer);

/* Takes a reference. When the queue is over its bound the entry is dropped
 * and counted as a write failure. */
void hm_writer_put(struct hm_writer *writer, struct hm_entry *entry);

/* Note a use of a key. May be forgotten: the order of use is a hint. */
void hm_writer_touch(struct hm_writer *writer, const struct hm_digest *key);

/* Changes whenever the touches so far are on their way to the store; a key
 * need not be touched twice in one epoch. Never 0. */
uint64_t hm_writer_epoch(struct hm_writer *writer);

/* Delete a key in the background; if_damaged: only if its value really is. */
void hm_writer_discard(struct hm_writer *writer, const struct hm_digest *key,
    bool if_damaged);

/* A queued entry: a reference for the caller, or NULL. */
struct hm_entry *hm_writer_find(struct hm_writer *writer,
    const struct hm_digest *key);

/* Add to entries_io and bytes_io what is queued and not in the store. */
void hm_writer_count_queued(struct hm_writer *writer, uint64_t *entries_io,
    uint64_t *bytes_io);

/* As hm_cache_begin, hm_cache_poll. */
int hm_writer_begin(struct hm_writer *writer, enum hm_cache_task_kind kind,
    const struct hm_digest *key);
bool hm_writer_poll(struct hm_writer *writer, struct hm_cache_task *task_out);

/* Wait for the end of the task that was begun. */
void hm_writer_wait_task(struct hm_writer *writer);

/* Look after the store when there is nothing else to do, see hm_cache_tick. */
void hm_writer_tick(struct hm_writer *writer);

/* Keys whose puts have failed, once the store can be written again: at most
 * max of them, which are forgotten here. Returns how many. */
size_t hm_writer_take_lost(struct hm_writer *writer, struct hm_digest *keys_out,
    size_t max);

/* Wait until all that was put or touched is durable, or has failed. */
void hm_writer_flush(struct hm_writer *writer);

void hm_writer_get_stats(struct hm_writer *writer,
    struct hm_writer_stats *stats_out);

#endif
