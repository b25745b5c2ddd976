/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.h - the face of the kernel cache: a hot tier over a durable store.
 *
 * The daemon's loop thread calls everything here; only cache/ itself owns the
 * writer thread behind it. A lookup goes hot, then store; a store hit is
 * checked against its checksum, copied up and counted. What the cache holds is
 * opaque to it: key, record, meta and image are bytes that jit/ and proto/
 * gave meaning to.
 *
 * Main invariant: what get returns is byte for byte what put was given under
 * that key, or nothing. A damaged value is deleted, counted and a miss.
 */
#ifndef HM_CACHE_CACHE_H
#define HM_CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/digest.h"
#include "proto/error.h"

struct hm_cache;

/*
 * One cached kernel: immutable and reference-counted (loop thread and writer
 * thread may both hold one). An image over HM_ENTRY_INLINE_BYTES lives in a
 * sealed memory file, so that it can be handed out by descriptor.
 */
struct hm_entry {
	struct hm_digest key;
	struct hm_checksum checksum; /* of the image */
	const uint8_t *meta;         /* as codec packs struct hm_meta */
	size_t n_meta;
	const uint8_t *record; /* the key's full record */
	size_t n_record;
	const uint8_t *image;
	size_t n_image;
	int fd; /* sealed memory file of the image, or -1; owned */
	uint32_t tenant;
	uint64_t born_s; /* seconds since 1970; HM_ENTRY_AGELESS = pinned */
	uint64_t serial; /* of this one in memory, from 1: no other has it */
};
#define HM_ENTRY_INLINE_BYTES 32768u
#define HM_ENTRY_AGELESS      UINT64_MAX

/* Whose an entry is: the uid that had it built, or one of these. A quota is
 * for one tenant; what everybody may ask for is shared and has none. The other
 * two are the store's own: (uid_t)-1 is no user, and the uids in its shadow
 * count with the others. */
#define HM_TENANT_PINNED UINT32_MAX
#define HM_TENANT_SHARED (UINT32_MAX - 1)
#define HM_TENANT_OTHERS (UINT32_MAX - 2)

struct hm_entry_parts {
	const void *meta;
	size_t n_meta;
	const void *record;
	size_t n_record;
	const void *image;
	size_t n_image;
	uint32_t tenant;
	uint64_t born_s; /* 0 = now */
};

/**
 * Make an entry by copying the parts; the checksum is computed here. Starts
 * with one reference. Returns HM_OK, HM_E_INVALID (empty image), HM_E_NOMEM or
 * HM_E_SYSTEM.
 */
int hm_entry_new(const struct hm_digest *key,
    const struct hm_entry_parts *parts, struct hm_entry **entry_out);
struct hm_entry *hm_entry_ref(struct hm_entry *entry);
void hm_entry_unref(struct hm_entry *entry); /* NULL allowed */

enum hm_cache_tier { HM_CACHE_MISS = 0, HM_CACHE_HOT = 1, HM_CACHE_STORE = 2 };

struct hm_cache_options {
	const char *directory; /* NULL: hot tier only */
	uint64_t cap_bytes;    /* of live data in the store; map = cap / 0.8 */
	uint64_t hot_bytes;    /* of images in the hot tier */
	uint64_t hot_files;    /* descriptors it may hold; 0 = its own choice */
	uint64_t quota_bytes;  /* of the store, for one tenant; 0 = the cap */
	uint64_t ttl_s;        /* of an entry, from its build; 0 = for ever */
	uint64_t (*now_s)(void); /* seconds since 1970; NULL = the system's */
};

struct hm_cache_stats {
	uint64_t hits_hot;
	uint64_t hits_store;
	uint64_t misses;
	uint64_t corrupt;     /* values that failed their checksum */
	uint64_t evicted;     /* entries evicted from the store */
	uint64_t over_quota;  /* of these: for the quota of their tenant */
	uint64_t expired;     /* entries that grew too old */
	uint64_t store_bytes; /* live bytes in the store */
	uint64_t store_entries;
	uint64_t store_file_bytes; /* of its file, free pages included */
	uint64_t pinned_bytes;
	uint64_t pinned_entries;
	uint64_t tenants;      /* with something in the store */
	uint64_t queued_bytes; /* on their way into it */
	uint64_t queued_entries;
	uint64_t hot_bytes;
	uint64_t hot_entries;
	uint64_t write_failures; /* puts that could not be made durable */
	bool durable;            /* false: no store, or it is degraded */
	char degraded[256];      /* why not durable; empty when it is */
	char notice[256];        /* what open had to do; empty mostly */
};

/**
 * The first half of opening: create the directory (0700) when missing, take
 * its lock. Costs the same for every size of store (but for one that lacks our
 * mark: that is checked here). Nothing else is called before hm_cache_load, but
 * hm_cache_close. Where the file system takes nothing, not even the lock
 * (read-only, full), there is no store until the next start: stats say why.
 *
 * Returns HM_OK; HM_E_INVALID when the directory is not ours (other owner,
 * writable by group or others, not a directory, holds foreign files or another
 * program's data.mdb, network file system); HM_E_BUSY when another daemon has
 * it; HM_E_NOMEM; HM_E_SYSTEM.
 * errbuf gets one line that names the path and the reason.
 */
int hm_cache_prepare(const struct hm_cache_options *options,
    struct hm_cache **cache_out, struct hm_errbuf *errbuf);

/**
 * The second half: create the store when missing, check it page by page, open
 * it, start the writer thread.
 *
 * A store that cannot be used (wrong version, damaged, shorter than its own
 * pages) is moved aside with its files kept and a new one starts; the notice
 * in struct hm_cache_stats then says where the old one is.
 *
 * Returns HM_OK; else HM_E_NOMEM or HM_E_SYSTEM, one line in errbuf. Then too
 * the cache can be used: it is degraded, keeps what is hot, and the next put
 * tries to open the store again.
 */
int hm_cache_load(struct hm_cache *cache, struct hm_errbuf *errbuf);

/* Both halves; one without its store is closed again. Returns as they do. */
int hm_cache_open(const struct hm_cache_options *options,
    struct hm_cache **cache_out, struct hm_errbuf *errbuf);

/* Waits for the writer to finish what was put. NULL allowed. */
void hm_cache_close(struct hm_cache *cache);

/**
 * Look up a key.
 *
 * record     the full record of the key; compared with the stored one, so
 *            that even a collision of digests is a miss
 * entry_out  a reference for the caller, on a hit
 * tier_out   HM_CACHE_MISS when there is none (which is no error)
 *
 * Returns HM_OK, HM_E_NOMEM or HM_E_SYSTEM.
 */
int hm_cache_get(struct hm_cache *cache, const struct hm_digest *key,
    const void *record, size_t n_record, struct hm_entry **entry_out,
    enum hm_cache_tier *tier_out);

/**
 * Put an entry: at once into the hot tier, and in the background into the
 * store. The caller keeps its reference. A full or failing store is counted
 * and never an error here.
 */
void hm_cache_put(struct hm_cache *cache, struct hm_entry *entry);

/* Delete an entry that is of no use to its owner, pinned or not: at once from
 * the hot tier, in the background from the store. */
void hm_cache_discard(struct hm_cache *cache, const struct hm_digest *key);

/* Block until everything put so far is durable (drain, tests). */
void hm_cache_flush(struct hm_cache *cache);

/* Quota and age from now on; now_s stays. */
void hm_cache_set_limits(struct hm_cache *cache, uint64_t quota_bytes,
    uint64_t ttl_s);

/*
 * Long work, one at a time, while everything else goes on: begin, then poll
 * until it is over. After what was put before.
 */
enum hm_cache_task_kind {
	HM_CACHE_VERIFY = 1, /* every stored value; the damaged are deleted */
	HM_CACHE_EVICT = 2,  /* one key from both tiers, unless it is pinned */
	HM_CACHE_EVICT_ALL = 3, /* all that is not pinned */
	HM_CACHE_PIN = 4, /* one key of the store: never evicted, no age */
	HM_CACHE_UNPIN = 5,
	HM_CACHE_COMPACT = 6 /* give free pages back to the disk */
};

struct hm_cache_task {
	enum hm_cache_task_kind kind;
	struct hm_digest key;
	/* How it ended; errbuf says why, if not well: HM_E_UNAVAILABLE (no such
	 * key), HM_E_INVALID (pinned; too much pinned), HM_E_CORRUPT (the whole
	 * store was damaged and set aside), HM_E_SYSTEM, HM_E_NOMEM. */
	int error;
	struct hm_errbuf why;
	uint64_t n_checked; /* verify: values, and their bytes */
	uint64_t n_bytes;
	uint64_t n_gone;  /* entries deleted */
	uint64_t n_freed; /* compact: bytes of the disk */
};

/* HM_OK, HM_E_BUSY (another one is under way) or HM_E_NOMEM. */
int hm_cache_begin(struct hm_cache *cache, enum hm_cache_task_kind kind,
    const struct hm_digest *key);

/* Whether the task has ended; if so, it is handed over and another may begin.
 * false also when there is none. */
bool hm_cache_poll(struct hm_cache *cache, struct hm_cache_task *task_out);

/* begin, and wait for the end (tests). Returns as begin, else the task's. */
int hm_cache_run(struct hm_cache *cache, enum hm_cache_task_kind kind,
    const struct hm_digest *key, struct hm_cache_task *task_out);

/*
 * Now and then (every few seconds): a store that could not write is tried
 * again, and gets what it missed and the hot tier still has; entries that are
 * too old go; a file that is mostly free pages is made smaller. Costs the
 * caller next to nothing.
 */
void hm_cache_tick(struct hm_cache *cache);

/**
 * Hand every stored record, of both tiers, once to `each` until that returns
 * false (explain looks for its key, or for the nearest). Key and record are
 * borrowed for the call, and `each` calls nothing of this header. Reads the
 * head of every value of the store: for admin commands.
 * Returns HM_OK or HM_E_SYSTEM.
 */
typedef bool (*hm_cache_record_fn)(const struct hm_digest *key,
    const void *record, size_t n_record, void *arg);
int hm_cache_each_record(struct hm_cache *cache, hm_cache_record_fn each,
    void *arg);

void hm_cache_get_stats(struct hm_cache *cache,
    struct hm_cache_stats *stats_out);

#endif
