/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_lmdb_impl.h - what store_lmdb.c (opening, the reader's side) and
 * store_lmdb_write.c (the writer's side) share. Nobody else includes it.
 */
#ifndef HM_CACHE_STORE_LMDB_IMPL_H
#define HM_CACHE_STORE_LMDB_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include <lmdb.h>

#include "cache/store_dir.h"
#include "cache/store_lmdb.h"

#define STORE_TICK_BYTES 8u

enum store_db { DB_ENTRIES, DB_INDEX, DB_LRU, DB_META, N_DBS };

struct store_totals {
	uint64_t bytes;
	uint64_t entries;
	uint64_t evicted;
	uint64_t next_tick;
};

struct hm_store {
	struct hm_store_dir dir;
	uint64_t cap_bytes;
	size_t page_bytes;
	const void *map;          /* page 0 of env; LMDB does not tell it */
	pthread_mutex_t env_lock; /* env, reader, totals, notice */
	MDB_env *env;             /* NULL: lost, see hm_store_restart */
	int data_fd;              /* LMDB's own, as long as env is there */
	atomic_uint_fast64_t n_file_bytes; /* at least; see is_cut */
	MDB_dbi dbi[N_DBS];
	MDB_txn *reader; /* reset between calls: holds no snapshot then */
	struct store_totals totals;
	char notice[256];
	/* the writer's own */
	MDB_txn *txn;
	struct store_totals pending; /* totals once txn commits */
	uint64_t first_put_tick;     /* of txn */
	bool is_trimming;
};

/* The one place that turns LMDB's codes (and errno's) into ours. */
int hm_store_error(int rc);

/* The same, and says in errbuf what went wrong, if anything did. */
int hm_store_fail(const struct hm_store *store, int rc, const char *what,
    struct hm_errbuf *errbuf);

/* HM_E_CORRUPT, with a reason. */
int hm_store_damaged(const struct hm_store *store, const char *what,
    struct hm_errbuf *errbuf);

/*
 * Whether the file is shorter than it was: somebody has cut it under our feet,
 * and what lies beyond its end is mapped but would be answered with SIGBUS.
 * Asked before every transaction (0.3 us); a cut in the middle of one, or a
 * sector that the disk cannot read, still ends the process.
 */
bool hm_store_is_cut(const struct hm_store *store);

/* The file has grown; what is_cut goes by. After a commit. */
void hm_store_note_size(struct hm_store *store);

/* Borrows key: LMDB does not promise const, so give it a copy. */
MDB_val hm_store_key(struct hm_digest *key);

/* A key of the lru database as a number. */
uint64_t hm_store_tick_of_key(const MDB_val *key);

#endif
