/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry.h - what the rooms beside cache.h need of an entry.
 *
 * An entry is one allocation: the face, its count, then meta, record and a
 * small image. Only a large image lies elsewhere, in a sealed memory file.
 */
#ifndef HM_CACHE_ENTRY_H
#define HM_CACHE_ENTRY_H

#include "cache/cache.h"

/* No part of an entry may be larger: bounds what a damaged value can ask. */
#define HM_ENTRY_MAX_BYTES (256u << 20)

/**
 * hm_entry_new for parts whose image was just found to match checksum.
 *
 * Any thread. Returns as hm_entry_new.
 */
int hm_entry_new_checked(const struct hm_digest *key,
    const struct hm_entry_parts *parts, const struct hm_checksum *checksum,
    struct hm_entry **entry_out);

/* Does the entry belong to this very record? Any thread. */
bool hm_entry_has_record(const struct hm_entry *entry, const void *record,
    size_t n_record);

/* The memory an entry holds, its image's pages included. Any thread. */
size_t hm_entry_cost_bytes(const struct hm_entry *entry);

#endif
