/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_foreign.c - reads the header and the root page of the names, in the
 * format that store_check.c describes; every offset is checked before use.
 */
#include "cache/store_foreign.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define FOREIGN_MAX_PAGE   32768u
#define FOREIGN_META_BYTES 152u
#define FOREIGN_MAGIC      0xbeefc0deu
#define FOREIGN_BRANCH     0x01u
#define FOREIGN_LEAF       0x02u

/* The record of the tree of names, from the latest header. */
struct foreign_main {
	uint64_t txn, root, n_branch, n_leaf, n_entries;
	uint32_t page_bytes;
	uint16_t depth;
};

static bool
foreign_read(int fd, uint64_t offset, void *out, size_t n)
{
	return pread(fd, out, n, (off_t)offset) == (ssize_t)n;
}

static bool
foreign_read_meta(int fd, uint64_t offset, struct foreign_main *main_out)
{
	uint8_t meta[FOREIGN_META_BYTES];
	uint32_t magic;

	if (!foreign_read(fd, offset, meta, sizeof(meta)))
		return false;
	memcpy(&magic, meta + 16, sizeof(magic));
	memcpy(&main_out->page_bytes, meta + 40, 4);
	memcpy(&main_out->depth, meta + 88 + 6, 2);
	memcpy(&main_out->n_branch, meta + 88 + 8, 8);
	memcpy(&main_out->n_leaf, meta + 88 + 16, 8);
	memcpy(&main_out->n_entries, meta + 88 + 32, 8);
	memcpy(&main_out->root, meta + 88 + 40, 8);
	memcpy(&main_out->txn, meta + 144, 8);
	return magic == FOREIGN_MAGIC && main_out->page_bytes >= 512 &&
	       main_out->page_bytes <= FOREIGN_MAX_PAGE;
}

static bool
foreign_is_ours(const uint8_t *key, size_t n_key, const char *const *names,
    size_t n_names)
{
	for (size_t i = 0; i < n_names; i++) {
		if (strlen(names[i]) == n_key &&
		    memcmp(names[i], key, n_key) == 0)
			return true;
	}
	return false;
}

/* Whether the n nodes of a leaf are sound, and none has a name of ours. */
static bool
foreign_leaf(const uint8_t *page, size_t page_bytes, size_t n_nodes,
    const char *const *names, size_t n_names)
{
	uint16_t at, n_key;

	for (size_t i = 0; i < n_nodes; i++) {
		memcpy(&at, page + 16 + 2 * i, 2);
		if (at + 8u > page_bytes)
			return false;
		memcpy(&n_key, page + at + 6, 2);
		if (n_key == 0 || at + 8u + n_key > page_bytes ||
		    foreign_is_ours(page + at + 8, n_key, names, n_names))
			return false;
	}
	return n_nodes > 0;
}

bool
hm_store_is_foreign(int fd, const char *const *names, size_t n_names)
{
	uint8_t page[FOREIGN_MAX_PAGE];
	struct foreign_main main[2];
	const struct foreign_main *last;
	uint64_t number;
	uint16_t kind, lower;

	if (!foreign_read_meta(fd, 0, &main[0]) ||
	    !foreign_read_meta(fd, main[0].page_bytes, &main[1]))
		return false;
	last = main[1].txn > main[0].txn ? &main[1] : &main[0];
	if (last->root > INT64_MAX / FOREIGN_MAX_PAGE ||
	    !foreign_read(fd, last->root * last->page_bytes, page,
		last->page_bytes))
		return false;
	memcpy(&number, page, 8);
	memcpy(&kind, page + 10, 2);
	memcpy(&lower, page + 12, 2);
	if (number != last->root || lower < 16 || lower > last->page_bytes)
		return false;
	/* A record that does not fit its page is damage. */
	if (kind == FOREIGN_BRANCH) /* our few names fit on one leaf */
		return last->depth > 1 && last->n_branch > 0 &&
		       last->n_leaf > 1;
	return kind == FOREIGN_LEAF && last->depth == 1 && last->n_leaf == 1 &&
	       (lower - 16u) / 2 == last->n_entries &&
	       foreign_leaf(page, last->page_bytes, (lower - 16u) / 2, names,
		   n_names);
}
