/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_check.h - is this file a whole LMDB store, before LMDB maps it?
 *
 * LMDB believes its file: one damaged byte in a page of its trees can make it
 * read or free pages that are not there or not its own, and the process dies.
 * So every page of every tree is read here first, with pread, and held against
 * all that LMDB 0.9 takes for granted. Values are not looked at (each has a
 * checksum of its own), which leaves about one page in a hundred to read.
 */
#ifndef HM_CACHE_STORE_CHECK_H
#define HM_CACHE_STORE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

/* What a named database of the store may hold. */
struct hm_store_check_rule {
	const char *name;
	uint16_t n_key_lo, n_key_hi;   /* bytes of a key */
	uint32_t n_data_lo, n_data_hi; /* bytes of its data */
};

#define HM_STORE_CHECK_MAX_RULES 6u

struct hm_store_check {
	bool is_new; /* nothing in the file yet */
	size_t page_bytes;
	uint64_t n_pages;  /* that the store uses of the file */
	uint64_t n_leaked; /* of these: neither used nor free */
	uint64_t n_entries[HM_STORE_CHECK_MAX_RULES]; /* per rule */
	uint64_t footprint[HM_STORE_CHECK_MAX_RULES]; /* of the data; bytes */
};

/* Bytes of the file that a value of n_bytes takes; n_key is its key's. */
uint64_t hm_store_check_footprint(size_t n_key, size_t n_bytes,
    size_t page_bytes);

/* Does LMDB put such a value on pages of its own? */
bool hm_store_check_is_big(size_t n_key, size_t n_bytes, size_t page_bytes);

/**
 * Read all trees of a store.
 *
 * fd         the data file, nobody writing to it
 * rules      the databases that may be in it, n_rules of them
 * check_out  set on success
 *
 * Returns HM_OK; HM_E_VERSION (LMDB, but not of our kind); HM_E_CORRUPT;
 * HM_E_NOMEM; HM_E_SYSTEM. errbuf gets the reason, without the path.
 */
int hm_store_check_file(int fd, const struct hm_store_check_rule *rules,
    size_t n_rules, struct hm_store_check *check_out, struct hm_errbuf *errbuf);

/* Where page 0 is mapped, by a small value on a sound page. Pages are no
 * larger than the system's. */
const void *hm_store_check_map_of(const void *value, size_t page_bytes);

/**
 * Does the header of a big value's first page, which lies before the value,
 * say what it must? LMDB frees the pages that this header names.
 *
 * value      as LMDB returned it, on a page that this transaction did not
 *            write
 * map        where page 0 is mapped
 */
bool hm_store_check_big_header(const void *value, size_t n_bytes,
    const void *map, size_t page_bytes);

#endif
