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

#include "cache/store_check.h"
#include "cache/store_dir.h"
#include "cache/store_lmdb.h"

#define STORE_AT_BYTES 12u /* a key of the lru database */
/* struct store_place's only flag: as many bits as it takes that damage of one
 * makes none. */
#define STORE_PINNED      0x214e4950u /* "PIN!" */
#define STORE_MAX_TENANTS 256u

enum store_db { DB_ENTRIES, DB_INDEX, DB_LRU, DB_META, N_DBS };

/* A row of the index database: what the store knows of an entry beside its
 * value. In the file as it is here; the machine is little-endian. */
struct store_place {
	uint64_t tick;   /* of its last use */
	uint64_t born_s; /* when it was built, seconds since 1970 */
	uint32_t tenant; /* as in struct hm_entry */
	uint32_t flags;
};

/* What a group holds: one of a tenant's, or all that is pinned. */
struct store_group {
	uint32_t group;
	uint64_t bytes;
	uint64_t entries;
};

/* The pinned, the shared and those beyond the table have their places too. */
#define STORE_MAX_GROUPS (STORE_MAX_TENANTS + 3)

struct store_totals {
	uint64_t bytes;
	uint64_t entries;
	uint64_t evicted;
	uint64_t over_quota;
	uint64_t expired;
	uint64_t next_tick;
	uint32_t n_groups; /* every group with an entry is in the table */
	struct store_group groups[STORE_MAX_GROUPS];
};

struct hm_store {
	struct hm_store_dir dir;
	uint64_t cap_bytes;
	size_t page_bytes;
	const void *map;          /* page 0 of env; LMDB does not tell it */
	pthread_mutex_t env_lock; /* env, reader, totals, notice, policy */
	struct hm_store_policy policy;
	MDB_env *env; /* NULL: lost, see hm_store_restart */
	int data_fd;  /* LMDB's own, as long as env is there */
	atomic_uint_fast64_t n_file_bytes; /* at least; see is_cut */
	MDB_dbi dbi[N_DBS];
	MDB_txn *reader; /* reset between calls: holds no snapshot then */
	struct store_totals totals;
	char notice[256];
	/* the writer's own */
	MDB_txn *txn;
	struct store_totals pending;  /* totals once txn commits */
	struct hm_store_policy rules; /* policy when txn began */
	uint64_t first_put_tick;      /* of txn */
	bool is_trimming;
	uint64_t expire_s; /* when it last looked for what is too old */
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

/* Whether the disk has next to nothing left. */
bool hm_store_is_disk_full(const struct hm_store *store);

/* The file has grown; what is_cut goes by. After a commit. */
void hm_store_note_size(struct hm_store *store);

/* Borrows key: LMDB does not promise const, so give it a copy. */
MDB_val hm_store_key(struct hm_digest *key);

/* ---- store_lmdb_order.c: places and groups ---- */

/* What policy says of an entry of this age and place. */
bool hm_store_is_expired(const struct hm_store_policy *policy,
    const struct store_place *place);

/* The group of a place: its tenant's, or that of the pinned. */
uint32_t hm_store_group_of(const struct store_place *place);

/* A group's row, or NULL. */
const struct store_group *hm_store_group_find(const struct store_totals *totals,
    uint32_t group);

/* One entry of so many bytes more or less. What the table has no row for is
 * HM_TENANT_OTHERS; see hm_store_tenant_of. */
void hm_store_group_add(struct store_totals *totals, uint32_t group,
    uint64_t n_bytes);
void hm_store_group_remove(struct store_totals *totals, uint32_t group,
    uint64_t n_bytes);

/* The tenant under which an entry is put: its own, or HM_TENANT_OTHERS when
 * there are too many. */
uint32_t hm_store_tenant_of(const struct store_totals *totals, uint32_t tenant);

/* An entry's row of the index. LMDB's codes. */
int hm_store_place_get(const struct hm_store *store, MDB_txn *txn,
    MDB_val *name, struct store_place *place_out);

/* Take an entry's row of the order away, if it is the entry's. */
int hm_store_place_remove(struct hm_store *store, const MDB_val *name,
    const struct store_place *place);

/* The next tick becomes this place's, in both directions. */
int hm_store_place_append(struct hm_store *store, MDB_val *name,
    struct store_place *place);

/* Delete a row of the order. */
int hm_store_place_drop(struct hm_store *store, uint32_t group, uint64_t tick);

/**
 * The least recently used entry of a group, or, with HM_STORE_ANY_GROUP, of all
 * but the pinned. LMDB's codes, MDB_NOTFOUND if there is none.
 */
#define HM_STORE_ANY_GROUP UINT32_MAX
struct store_oldest {
	uint32_t group;
	uint64_t tick;
	struct hm_digest key;
};
int hm_store_oldest(struct hm_store *store, uint32_t group,
    struct store_oldest *oldest_out);

/* Count the trees of a store that was just opened: groups and the last tick.
 * HM_OK, or as hm_store_fail. */
int hm_store_count(struct hm_store *store, MDB_txn *txn,
    struct store_totals *totals_out, struct hm_errbuf *errbuf);

/* ---- store_lmdb_write.c, for store_lmdb_care.c ---- */

/* Remove an entry with its place. As the steps of hm_store_begin. */
int hm_store_remove(struct hm_store *store, MDB_val *name, bool *removed_out,
    struct hm_errbuf *errbuf);

/* Evict the oldest of a group (of all but the pinned, as above). Also
 * HM_E_UNAVAILABLE: there is none. */
int hm_store_evict_one(struct hm_store *store, uint32_t group,
    struct hm_errbuf *errbuf);

/* ---- store_lmdb.c, for store_lmdb_care.c ---- */

/* Look at a data file of this folder, as hm_store_check_file does. */
int hm_store_read_data(struct hm_store *store, const char *name,
    struct hm_store_check *check_out, struct hm_errbuf *errbuf);

/* Close the environment, put another file that was checked in the place of its
 * data, open that. HM_OK, or without a file as after a failed restart. */
int hm_store_swap(struct hm_store *store, const char *name,
    const struct hm_store_check *check, struct hm_errbuf *errbuf);

#endif
