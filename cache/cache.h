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
};
#define HM_ENTRY_INLINE_BYTES 32768u

struct hm_entry_parts {
	const void *meta;
	size_t n_meta;
	const void *record;
	size_t n_record;
	const void *image;
	size_t n_image;
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
};

struct hm_cache_stats {
	uint64_t hits_hot;
	uint64_t hits_store;
	uint64_t misses;
	uint64_t corrupt;     /* values that failed their checksum */
	uint64_t evicted;     /* entries evicted from the store */
	uint64_t store_bytes; /* live bytes in the store */
	uint64_t store_entries;
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
 * hm_cache_close.
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

/* Block until everything put so far is durable (drain, tests). */
void hm_cache_flush(struct hm_cache *cache);

/**
 * Delete one key, or everything when key is NULL, from both tiers.
 * n_out: how many entries went. Returns HM_OK or HM_E_SYSTEM.
 */
int hm_cache_evict(struct hm_cache *cache, const struct hm_digest *key,
    uint64_t *n_out);

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
