/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hot.h - the hot tier: entries in memory, least recently used ones leave.
 *
 * Bounded in bytes (hm_entry_cost_bytes) and, as large images hold a descriptor
 * each, by half of RLIMIT_NOFILE at hm_hot_new or less. Holds one reference per
 * entry; an entry that leaves lives on while others hold it. One thread at a
 * time.
 */
#ifndef HM_CACHE_HOT_H
#define HM_CACHE_HOT_H

#include "cache/cache.h"

struct hm_hot;

/* cap_bytes may be 0: then nothing stays. Returns HM_OK or HM_E_NOMEM. */
int hm_hot_new(uint64_t cap_bytes, struct hm_hot **hot_out);
void hm_hot_free(struct hm_hot *hot); /* NULL allowed */

/* Hold no more descriptors than this, if it is less than so far. Before the
 * first put. */
void hm_hot_limit_files(struct hm_hot *hot, uint64_t max_files);

/**
 * Find an entry and make it the most recently used.
 *
 * epoch      any number but 0
 * first_out  whether no find or put of this key had this epoch before
 *
 * Returns the entry, borrowed until the next call, or NULL.
 */
struct hm_entry *hm_hot_find(struct hm_hot *hot, const struct hm_digest *key,
    uint64_t epoch, bool *first_out);

/**
 * Put an entry, taking a reference of its own, replacing one of the same key.
 * One that is larger than the whole tier does not stay, which is no error.
 *
 * epoch      as for find
 *
 * Returns HM_OK or HM_E_NOMEM (the tier is as before).
 */
int hm_hot_put(struct hm_hot *hot, struct hm_entry *entry, uint64_t epoch);

/* Is it there? Counts as no use. */
bool hm_hot_has(const struct hm_hot *hot, const struct hm_digest *key);

/* Drop one key; was it there? */
bool hm_hot_remove(struct hm_hot *hot, const struct hm_digest *key);
void hm_hot_clear(struct hm_hot *hot);

/* Visit all, most recently used first, until each returns false. */
typedef bool (*hm_hot_fn)(const struct hm_entry *entry, void *arg);
void hm_hot_each(struct hm_hot *hot, hm_hot_fn each, void *arg);

uint64_t hm_hot_bytes(const struct hm_hot *hot);
uint64_t hm_hot_entries(const struct hm_hot *hot);

#endif
