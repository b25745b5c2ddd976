/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_lmdb.h - the durable tier: one LMDB environment, the only user of LMDB.
 *
 * Two sides. The reader's may be called by one thread, the writer's by one
 * other; reads never wait for a commit. Whatever leaves the store is checked
 * and copied first, no transaction outlives a call of the reader's side.
 *
 * Order of use is in logical ticks, counted by the writer. Sizes are what the
 * values take of the file (hm_store_check_footprint), whole pages included.
 */
#ifndef HM_CACHE_STORE_LMDB_H
#define HM_CACHE_STORE_LMDB_H

#include "cache/cache.h"

#define HM_STORE_MIN_CAP_BYTES (1u << 20)

struct hm_store;

struct hm_store_stats {
	uint64_t bytes; /* live */
	uint64_t entries;
	uint64_t evicted;
	uint64_t over_quota; /* of these: for the quota of their tenant */
	uint64_t expired;
	uint64_t pinned_bytes;
	uint64_t pinned_entries;
	uint64_t tenants;    /* that have an entry which is not pinned */
	uint64_t file_bytes; /* of the data file */
	char notice[256];    /* what an open had to do, the latest; or empty */
};

/* What may stay; changes at any time. */
struct hm_store_policy {
	uint64_t quota_bytes; /* of one tenant; 0 = the cap is the only one */
	uint64_t ttl_s;       /* of an entry, from its build; 0 = for ever */
	uint64_t (*now_s)(void); /* never NULL: seconds since 1970 */
};

/**
 * Make a folder ours, as hm_cache_prepare promises; no file in it is read.
 *
 * cap_bytes  of live data; the map is cap_bytes / 0.8 and stays so
 *
 * Returns as hm_cache_prepare, and HM_E_UNAVAILABLE when the file system takes
 * nothing, not even the lock.
 */
int hm_store_prepare(const char *directory, uint64_t cap_bytes,
    struct hm_store **store_out, struct hm_errbuf *errbuf);

/* Open or create the store in its prepared folder, once. HM_OK, HM_E_NOMEM or
 * HM_E_SYSTEM: then it is without a file, as after a failed restart. */
int hm_store_load(struct hm_store *store, struct hm_errbuf *errbuf);

/* Either side. Before the first one: no quota, no age, the real clock. */
void hm_store_set_policy(struct hm_store *store,
    const struct hm_store_policy *policy);

/* Both, or neither. */
int hm_store_open(const char *directory, uint64_t cap_bytes,
    struct hm_store **store_out, struct hm_errbuf *errbuf);
void hm_store_close(struct hm_store *store); /* NULL allowed */

/* ---- the reader's side ---- */

/**
 * Look up, check and copy one entry. One that is pinned has no age.
 *
 * Returns HM_OK (a reference for the caller), HM_E_UNAVAILABLE (not there, or
 * too old), HM_E_CORRUPT (there, but damaged: have the writer delete it),
 * HM_E_NOMEM,
 * HM_E_SYSTEM (no memory file could be made).
 */
int hm_store_find(struct hm_store *store, const struct hm_digest *key,
    struct hm_entry **entry_out);

bool hm_store_has(struct hm_store *store, const struct hm_digest *key);

/* As hm_cache_each_record, of the store alone; damaged ones are left out. */
int hm_store_each_record(struct hm_store *store, hm_cache_record_fn each,
    void *arg);

/* As of the last commit. Also for the writer. */
void hm_store_get_stats(struct hm_store *store,
    struct hm_store_stats *stats_out);

/* ---- the writer's side ---- */

/*
 * A transaction: begin, any number of steps, commit. When a step fails the
 * caller aborts. Failures, errbuf saying why:
 *
 *   HM_E_BUSY     the map is full: hm_store_make_room, then all over again
 *   HM_E_CORRUPT  damaged beyond one value: hm_store_restart
 *   HM_E_SYSTEM   full disk and the like; HM_E_NOMEM
 */
int hm_store_begin(struct hm_store *store, struct hm_errbuf *errbuf);
int hm_store_commit(struct hm_store *store, struct hm_errbuf *errbuf);
void hm_store_abort(struct hm_store *store);

/* Make a key the most recently used. One that is not there is no error.
 * Before the first put of a transaction. */
int hm_store_touch(struct hm_store *store, const struct hm_digest *key,
    struct hm_errbuf *errbuf);

/**
 * Store an entry, replacing one of its key, which stays pinned if it was; at
 * the cap, old ones leave in the same transaction, at its tenant's quota old
 * ones of that tenant. A key may be put once in a transaction, of all entries
 * together no more than hm_store_batch_bytes unless it is a single one.
 *
 * Returns as above, or HM_E_INVALID: there is no room for this one (too large
 * at all, or all the rest is pinned); the transaction goes on without it.
 */
int hm_store_put(struct hm_store *store, const struct hm_entry *entry,
    struct hm_errbuf *errbuf);

/**
 * A step: delete a key, counted as evicted.
 *
 * evicted_out  whether something went
 */
int hm_store_evict(struct hm_store *store, const struct hm_digest *key,
    bool *evicted_out, struct hm_errbuf *errbuf);

/**
 * Delete a key.
 *
 * if_damaged   only when its value fails its checksum
 * deleted_out  whether something went
 */
int hm_store_delete(struct hm_store *store, const struct hm_digest *key,
    bool if_damaged, bool *deleted_out, struct hm_errbuf *errbuf);

/*
 * Eviction goes on below the cap to seven eighths of it (70 of 80 % of the
 * map), in slices, so that no transaction dirties more than a few hundred
 * pages. While this is true the writer owes transactions of hm_store_trim.
 * A store opened with a lower cap than it has bytes starts so, and only then
 * is its cap exceeded.
 */
bool hm_store_is_trimming(const struct hm_store *store);
int hm_store_trim(struct hm_store *store, struct hm_errbuf *errbuf);

/* Evict, outside of any transaction, so that pages are free when it returns:
 * LMDB can use them again only two commits later, which happen in here. */
int hm_store_make_room(struct hm_store *store, struct hm_errbuf *errbuf);

/*
 * Work over the whole store, in slices: each call does some of it, and writes
 * *at_io where the next one goes on. Zeroed before the first; is_done after the
 * last.
 */
struct hm_store_walk {
	struct hm_digest at; /* the last key that was looked at */
	bool is_begun;
	bool is_done;
	uint64_t n_checked;
	uint64_t n_bytes; /* of their values */
	uint64_t n_gone;
};

/* Steps of a transaction: check the values of a slice and delete the damaged;
 * delete those of a slice that are too old; evict a slice of what is not
 * pinned. */
int hm_store_verify(struct hm_store *store, struct hm_store_walk *walk,
    struct hm_errbuf *errbuf);
int hm_store_expire(struct hm_store *store, struct hm_store_walk *walk,
    struct hm_errbuf *errbuf);

/* Whether entries have an age, and it is time to look for the old again: eight
 * times in a life, but not more often than every second, nor less than every
 * minute. true counts as a look. */
bool hm_store_wants_expire(struct hm_store *store);
int hm_store_clear(struct hm_store *store, struct hm_store_walk *walk,
    struct hm_errbuf *errbuf);

/**
 * A step: pin or unpin a key. What is pinned is never evicted and has no age,
 * until it is unpinned, replaced by nothing, or found damaged.
 *
 * Returns as a step; HM_E_UNAVAILABLE (no such key); HM_E_INVALID (more than
 * half of the cap would be pinned).
 */
int hm_store_pin(struct hm_store *store, const struct hm_digest *key,
    bool is_pinned, struct hm_errbuf *errbuf);

/* Within a transaction: is there a key, and is it pinned? */
bool hm_store_is_pinned(struct hm_store *store, const struct hm_digest *key);

/* Whether anything is pinned, as of the last commit. */
bool hm_store_has_pinned(const struct hm_store *store);

/**
 * Write the live part into a new file and put it in the place of the old one,
 * outside of any transaction. Readers wait only for the exchange. Needs the
 * room of the live bytes on the disk; failing leaves everything as it was.
 *
 * Returns HM_OK, HM_E_SYSTEM (errbuf: the disk), or as a failed restart.
 */
int hm_store_compact(struct hm_store *store, struct hm_errbuf *errbuf);

/* Whether that would give back half of the file and at least 16 MiB. */
bool hm_store_wants_compact(struct hm_store *store);

/* Outside of any transaction: can something be written again? A commit that
 * is not empty. Not tried while the disk is full: HM_E_SYSTEM. */
int hm_store_probe(struct hm_store *store, struct hm_errbuf *errbuf);

enum hm_store_restart {
	HM_STORE_REOPEN,    /* after a failure that left LMDB unusable */
	HM_STORE_SET_ASIDE, /* damaged: keep the file, begin anew */
	HM_STORE_ERASE      /* everything is to go, and its disk space */
};

/* Close and open again, outside of any transaction. On failure the store is
 * without a file: finds miss, and begin tries again. */
int hm_store_restart(struct hm_store *store, enum hm_store_restart how,
    struct hm_errbuf *errbuf);

uint64_t hm_store_batch_bytes(struct hm_store *store);

#endif
