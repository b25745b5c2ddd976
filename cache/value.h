/* SPDX-License-Identifier: Apache-2.0 */
/*
 * value.h - the bytes of one entry as they lie in a store.
 *
 * All integers little-endian:
 *
 *    0  u32  magic "HMV1"          40  u64  bytes of the image
 *    4  u32  version               48  32   key
 *    8  16   head checksum         80  16   image checksum
 *   24  u64  tick of the store     96       meta, record, image
 *   32  u32  bytes of the meta
 *   36  u32  bytes of the record
 *
 * The head checksum (XXH3-128) covers everything from byte 24 to the end of
 * the record, and with it the image checksum, which covers the rest: every
 * byte is under a checksum, and the image is hashed once.
 */
#ifndef HM_CACHE_VALUE_H
#define HM_CACHE_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"

#define HM_VALUE_HEADER_BYTES 96u
#define HM_VALUE_VERSION      1u

/* How many bytes hm_value_write makes of an entry. */
size_t hm_value_bytes(const struct hm_entry *entry);

/* Write an entry into out, which has room for hm_value_bytes of it. */
void hm_value_write(const struct hm_entry *entry, uint64_t tick, void *out);

/**
 * Check a value whole and say where its parts are.
 *
 * key           the key it was found under; it must name the same
 * parts_out     point into bytes; borrowed
 * checksum_out  of the image
 *
 * Any thread. Returns HM_OK or HM_E_CORRUPT (outputs untouched).
 */
int hm_value_parse(const void *bytes, size_t n_bytes,
    const struct hm_digest *key, struct hm_entry_parts *parts_out,
    struct hm_checksum *checksum_out);

/* The same, but the image is not looked at: all that a record needs. */
int hm_value_parse_head(const void *bytes, size_t n_bytes,
    const struct hm_digest *key, struct hm_entry_parts *parts_out,
    struct hm_checksum *checksum_out);

#endif
