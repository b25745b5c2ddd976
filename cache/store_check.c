/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_check.c - a reader of LMDB's file format that believes nothing.
 *
 * The format is that of LMDB 0.9 on 64-bit little-endian machines, from its
 * mdb.c (MDB_page, MDB_node, MDB_db, MDB_meta). All offsets below are bytes.
 *
 *   page    0 u64 number, 8 u16 pad, 10 u16 flags,
 *           12 u16 lower, 14 u16 upper (or 12 u32 pages, if overflow),
 *           16 u16 offsets of the nodes, up to lower; nodes from upper on
 *   node    0 u16 lo, 2 u16 hi, 4 u16 flags, 6 u16 key bytes, 8 key, data
 *           (leaf: lo, hi = bytes of the data; branch: lo, hi, flags = child)
 *   db      0 u32 pad, 4 u16 flags, 6 u16 depth, 8 u64 branch pages,
 *           16 leaf pages, 24 overflow pages, 32 entries, 40 root
 *   meta    page header, then 16 u32 magic, 20 u32 version, 24 u64 address,
 *           32 u64 map bytes, 40 db of free pages, 88 main db,
 *           136 u64 last page, 144 u64 transaction
 *
 * What is held true: pages lie in the file and are used once; nodes tile their
 * page; keys ascend, within what the branches above promise; counts in the
 * database records are those found; the lists of free pages name pages that
 * nothing uses.
 */
#include "cache/store_check.h"

#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the store's file is read as little-endian"
#endif

#define PAGE_HEADER_BYTES 16u
#define PAGE_BRANCH       0x01u
#define PAGE_LEAF         0x02u
#define PAGE_OVERFLOW     0x04u
#define PAGE_META         0x08u
#define PAGE_NONE         UINT64_MAX
#define PAGE_MIN_BYTES    512u
#define PAGE_MAX_BYTES    32768u

#define NODE_HEADER_BYTES 8u
#define NODE_BIG          0x01u
#define NODE_SUB          0x02u

#define DB_BYTES         48u
#define DB_FLAGS_INTEGER 0x08u

#define META_READ_BYTES 152u
#define META_MAGIC      0xbeefc0deu
#define META_VERSION    1u

#define CHECK_MAX_DEPTH 16u /* 2^16 leaves and more at two keys a page */
#define CHECK_MAX_KEY   64u
#define CHECK_MAX_TXN   (UINT64_MAX >> 2) /* LMDB counts on, unchecked */

struct check_key {
	uint16_t n;
	uint8_t bytes[CHECK_MAX_KEY];
};

struct check_node {
	uint16_t flags;
	uint16_t n_key;
	uint32_t n_data;
	uint64_t child; /* of a branch node */
	const uint8_t *key;
	const uint8_t *data; /* what lies in the page */
	size_t n_inline;     /* bytes of it */
};

enum check_kind { CHECK_FREE, CHECK_MAIN, CHECK_NAMED };

/* One tree: what its record says, and what was found. */
struct check_db {
	enum check_kind kind;
	size_t rule; /* for CHECK_NAMED */
	uint16_t flags, depth;
	uint64_t n_branch, n_leaf, n_overflow, n_entries, root;
	uint64_t found_branch, found_leaf, found_overflow, found_entries;
	struct check_key last; /* of the leaves so far */
};

struct check {
	int fd;
	size_t page_bytes;
	uint64_t last_page;
	uint64_t txn;
	uint64_t n_used;
	uint8_t *used;   /* one bit a page */
	uint16_t *tiles; /* scratch: node bytes by offset / 2 */
	uint8_t *levels[CHECK_MAX_DEPTH]; /* one page each, made when needed */
	const struct hm_store_check_rule *rules;
	size_t n_rules;
	unsigned int rules_seen; /* bit per rule */
	struct hm_store_check result;
	struct hm_errbuf *errbuf;
};

/* A tree below this node: first key >= lo, all keys < hi (n == 0: no bound). */
struct check_bounds {
	struct check_key lo, hi;
};

static uint16_t
check_u16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static uint32_t
check_u32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static uint64_t
check_u64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static int
check_bad(struct check *check, const char *what, uint64_t page)
{
	hm_errbuf_set(check->errbuf, "damaged: %s (page %llu)", what,
	    (unsigned long long)page);
	return HM_E_CORRUPT;
}

static uint64_t
check_big_pages(size_t n_bytes, size_t page_bytes)
{
	return (PAGE_HEADER_BYTES - 1 + n_bytes) / page_bytes + 1;
}

bool
hm_store_check_is_big(size_t n_key, size_t n_bytes, size_t page_bytes)
{
	/* me_nodemax of mdb.c: at least two nodes fit in a page. */
	size_t node_max =
	    (((page_bytes - PAGE_HEADER_BYTES) / 2) & ~(size_t)1) -
	    sizeof(uint16_t);

	return NODE_HEADER_BYTES + n_key + n_bytes > node_max;
}

uint64_t
hm_store_check_footprint(size_t n_key, size_t n_bytes, size_t page_bytes)
{
	uint64_t node_bytes = NODE_HEADER_BYTES + sizeof(uint16_t) + n_key;

	if (!hm_store_check_is_big(n_key, n_bytes, page_bytes))
		return node_bytes + n_bytes;
	return node_bytes + sizeof(uint64_t) +
	       check_big_pages(n_bytes, page_bytes) * page_bytes;
}

static bool
check_big_header(const uint8_t *page, uint64_t number, size_t n_bytes,
    size_t page_bytes)
{
	return check_u64(page) == number &&
	       check_u16(page + 10) == PAGE_OVERFLOW &&
	       check_u32(page + 12) == check_big_pages(n_bytes, page_bytes);
}

bool
hm_store_check_big_header(const void *value, size_t n_bytes, const void *map,
    size_t page_bytes)
{
	uintptr_t offset = (uintptr_t)value - (uintptr_t)map;

	return offset % page_bytes == PAGE_HEADER_BYTES &&
	       check_big_header((const uint8_t *)value - PAGE_HEADER_BYTES,
		   offset / page_bytes, n_bytes, page_bytes);
}

const void *
hm_store_check_map_of(const void *value, size_t page_bytes)
{
	uintptr_t within = (uintptr_t)value % page_bytes;
	const uint8_t *page = (const uint8_t *)value - within;

	return page - check_u64(page) * page_bytes;
}

/* ---- pages ---- */

static int
check_read(struct check *check, uint64_t offset, void *out, size_t n)
{
	uint8_t *to = out;
	size_t done = 0;

	while (done < n) {
		ssize_t got = pread(check->fd, to + done, n - done,
		    (off_t)(offset + done));

		if (got == -1 && errno == EINTR)
			continue;
		if (got == -1 && errno != EIO) {
			hm_errbuf_set(check->errbuf, "cannot be read: %s",
			    strerror(errno));
			return HM_E_SYSTEM;
		}
		if (got <= 0)
			return check_bad(check, "unreadable",
			    offset / check->page_bytes);
		done += (size_t)got;
	}
	return HM_OK;
}

static int
check_use(struct check *check, uint64_t page, uint64_t n)
{
	if (page < 2 || n == 0 || page > check->last_page ||
	    n - 1 > check->last_page - page)
		return check_bad(check, "a page outside the file", page);
	for (uint64_t i = page; i < page + n; i++) {
		uint8_t bit = (uint8_t)(1u << (i & 7));

		if ((check->used[i / 8] & bit) != 0)
			return check_bad(check, "a page used twice", i);
		check->used[i / 8] |= bit;
	}
	check->n_used += n;
	return HM_OK;
}

static int
check_load(struct check *check, uint64_t page, unsigned int level)
{
	int error;

	error = check_use(check, page, 1);
	if (error != HM_OK)
		return error;
	if (check->levels[level] == NULL)
		check->levels[level] = malloc(check->page_bytes);
	if (check->levels[level] == NULL)
		return HM_E_NOMEM;
	error = check_read(check, page * check->page_bytes,
	    check->levels[level], check->page_bytes);
	if (error != HM_OK)
		return error;
	if (check_u64(check->levels[level]) != page)
		return check_bad(check, "a page with another's number", page);
	return HM_OK;
}

/* Offsets were checked by check_tiles before. */
static void
check_node_get(const uint8_t *page, size_t i, bool is_leaf,
    struct check_node *node_out)
{
	const uint8_t *at = page + check_u16(page + PAGE_HEADER_BYTES + 2 * i);

	node_out->flags = check_u16(at + 4);
	node_out->n_key = check_u16(at + 6);
	node_out->n_data = check_u32(at);
	node_out->child = check_u32(at) | (uint64_t)node_out->flags << 32;
	node_out->key = at + NODE_HEADER_BYTES;
	node_out->data = node_out->key + node_out->n_key;
	node_out->n_inline = 0;
	if (is_leaf)
		node_out->n_inline = (node_out->flags & NODE_BIG) != 0
					 ? sizeof(uint64_t)
					 : node_out->n_data;
}

/*
 * The nodes of a page must cover it from upper to its end, each byte once.
 * Their sizes go into a table by offset; then one walk from upper must meet
 * every one of them.
 */
static int
check_tiles(struct check *check, uint64_t number, const uint8_t *page,
    bool is_leaf, size_t *n_nodes_out)
{
	size_t lower = check_u16(page + 12), upper = check_u16(page + 14);
	size_t n_nodes, n_met = 0, at;
	struct check_node node;

	if (lower < PAGE_HEADER_BYTES || lower % 2 != 0 || lower > upper ||
	    upper % 2 != 0 || upper > check->page_bytes)
		return check_bad(check, "the bounds of a page", number);
	n_nodes = (lower - PAGE_HEADER_BYTES) / 2;
	memset(check->tiles, 0, check->page_bytes);

	for (size_t i = 0; i < n_nodes; i++) {
		size_t n_bytes;

		at = check_u16(page + PAGE_HEADER_BYTES + 2 * i);
		if (at < upper || at % 2 != 0 ||
		    at + NODE_HEADER_BYTES > check->page_bytes)
			return check_bad(check, "a node's place", number);
		check_node_get(page, i, is_leaf, &node);
		n_bytes = NODE_HEADER_BYTES + node.n_key + node.n_inline;
		n_bytes += n_bytes % 2;
		if (n_bytes > check->page_bytes - at ||
		    check->tiles[at / 2] != 0)
			return check_bad(check, "a node's size", number);
		check->tiles[at / 2] = (uint16_t)n_bytes;
	}
	for (at = upper; at < check->page_bytes; at += check->tiles[at / 2]) {
		if (check->tiles[at / 2] == 0)
			break;
		n_met++;
	}
	if (at != check->page_bytes || n_met != n_nodes)
		return check_bad(check, "the nodes of a page", number);
	*n_nodes_out = n_nodes;
	return HM_OK;
}

/* ---- keys ---- */

static int
check_compare(const struct check_db *db, const struct check_key *a,
    const struct check_key *b)
{
	uint16_t n = a->n < b->n ? a->n : b->n;
	int order;

	if (db->kind == CHECK_FREE) {
		uint64_t x = check_u64(a->bytes), y = check_u64(b->bytes);

		return x < y ? -1 : x > y;
	}
	order = memcmp(a->bytes, b->bytes, n);
	if (order == 0)
		order = (int)a->n - (int)b->n;
	return order;
}

/* Take a node's key over, if it is one that this tree may have. */
static int
check_key_take(struct check *check, const struct check_db *db,
    const struct check_node *node, uint64_t page, struct check_key *key_out)
{
	uint16_t lo = 1, hi = CHECK_MAX_KEY;

	if (db->kind == CHECK_FREE) {
		lo = hi = sizeof(uint64_t);
	} else if (db->kind == CHECK_NAMED) {
		lo = check->rules[db->rule].n_key_lo;
		hi = check->rules[db->rule].n_key_hi;
	}
	if (node->n_key < lo || node->n_key > hi || hi > CHECK_MAX_KEY)
		return check_bad(check, "the size of a key", page);
	key_out->n = node->n_key;
	memcpy(key_out->bytes, node->key, node->n_key);
	return HM_OK;
}

/* ---- leaves ---- */

static int
check_big(struct check *check, struct check_db *db,
    const struct check_node *node, uint64_t *page_out)
{
	uint64_t page = check_u64(node->data);
	uint64_t n = check_big_pages(node->n_data, check->page_bytes);
	int error;

	error = check_use(check, page, n);
	if (error != HM_OK)
		return error;
	db->found_overflow += n;
	*page_out = page;
	return HM_OK;
}

/* One list of free pages: a count, then the numbers, highest first. */
static int
check_free_list(struct check *check, const uint8_t *list, size_t n_bytes,
    uint64_t page)
{
	uint64_t n, before = PAGE_NONE;

	if (n_bytes < sizeof(uint64_t))
		return check_bad(check, "a list of free pages", page);
	n = check_u64(list);
	if (n > n_bytes / sizeof(uint64_t) - 1)
		return check_bad(check, "a list of free pages", page);
	for (uint64_t i = 1; i <= n; i++) {
		uint64_t free_page = check_u64(list + i * sizeof(uint64_t));
		int error;

		if (free_page >= before)
			return check_bad(check, "the order of free pages",
			    page);
		error = check_use(check, free_page, 1);
		if (error != HM_OK)
			return error;
		before = free_page;
	}
	return HM_OK;
}

static int
check_free_node(struct check *check, struct check_db *db,
    const struct check_node *node, uint64_t page)
{
	uint64_t first;
	uint8_t *list;
	int error;

	if (check_u64(node->key) > check->txn || node->flags > NODE_BIG)
		return check_bad(check, "a free list's transaction", page);
	if (node->flags == 0)
		return check_free_list(check, node->data, node->n_data, page);

	error = check_big(check, db, node, &first);
	if (error != HM_OK)
		return error;
	list = malloc(PAGE_HEADER_BYTES + (size_t)node->n_data);
	if (list == NULL)
		return HM_E_NOMEM;
	error = check_read(check, first * check->page_bytes, list,
	    PAGE_HEADER_BYTES + (size_t)node->n_data);
	if (error == HM_OK &&
	    !check_big_header(list, first, node->n_data, check->page_bytes))
		error = check_bad(check, "a free list's header", first);
	if (error == HM_OK)
		error = check_free_list(check, list + PAGE_HEADER_BYTES,
		    node->n_data, first);
	free(list);
	return error;
}

static int
check_named_node(struct check *check, struct check_db *db,
    const struct check_node *node, uint64_t page)
{
	const struct hm_store_check_rule *rule = &check->rules[db->rule];
	bool is_big =
	    hm_store_check_is_big(node->n_key, node->n_data, check->page_bytes);
	uint64_t first;

	if (node->n_data < rule->n_data_lo || node->n_data > rule->n_data_hi ||
	    node->flags != (is_big ? NODE_BIG : 0))
		return check_bad(check, "the size of a value", page);
	check->result.footprint[db->rule] += hm_store_check_footprint(
	    node->n_key, node->n_data, check->page_bytes);
	return is_big ? check_big(check, db, node, &first) : HM_OK;
}

/* NOLINTBEGIN(misc-no-recursion): the depth of a tree is checked first. */
static int check_tree(struct check *check, struct check_db *db);

/* The main tree holds the records of the named ones, and nothing else. */
static int
check_main_node(struct check *check, const struct check_node *node,
    uint64_t page)
{
	struct check_db db = {.kind = CHECK_NAMED};
	size_t rule;

	if (node->flags != NODE_SUB || node->n_data != DB_BYTES)
		return check_bad(check, "a database's record", page);
	for (rule = 0; rule < check->n_rules; rule++) {
		if (strlen(check->rules[rule].name) == node->n_key &&
		    memcmp(check->rules[rule].name, node->key, node->n_key) ==
			0)
			break;
	}
	if (rule == check->n_rules || (check->rules_seen >> rule & 1u) != 0) {
		hm_errbuf_set(check->errbuf,
		    "no store of hummingd: it has other databases");
		return HM_E_VERSION;
	}
	check->rules_seen |= 1u << rule;

	db.rule = rule;
	if (check_u32(node->data) != 0)
		return check_bad(check, "a database's record", page);
	db.flags = check_u16(node->data + 4);
	db.depth = check_u16(node->data + 6);
	db.n_branch = check_u64(node->data + 8);
	db.n_leaf = check_u64(node->data + 16);
	db.n_overflow = check_u64(node->data + 24);
	db.n_entries = check_u64(node->data + 32);
	db.root = check_u64(node->data + 40);
	check->result.n_entries[rule] = db.n_entries;
	return check_tree(check, &db);
}

static int
check_leaf(struct check *check, struct check_db *db, const uint8_t *page,
    uint64_t number, const struct check_bounds *bounds)
{
	struct check_node node;
	struct check_key key;
	size_t n_nodes;
	int error;

	error = check_tiles(check, number, page, true, &n_nodes);
	if (error == HM_OK && n_nodes == 0)
		error = check_bad(check, "an empty page", number);
	for (size_t i = 0; error == HM_OK && i < n_nodes; i++) {
		check_node_get(page, i, true, &node);
		error = check_key_take(check, db, &node, number, &key);
		if (error != HM_OK)
			break;
		if ((db->last.n != 0 &&
			check_compare(db, &db->last, &key) >= 0) ||
		    (bounds->lo.n != 0 &&
			check_compare(db, &bounds->lo, &key) > 0) ||
		    (bounds->hi.n != 0 &&
			check_compare(db, &bounds->hi, &key) <= 0))
			return check_bad(check, "the order of keys", number);
		db->last = key;
		db->found_entries++;
		switch (db->kind) {
		case CHECK_FREE:
			error = check_free_node(check, db, &node, number);
			break;
		case CHECK_MAIN:
			error = check_main_node(check, &node, number);
			break;
		case CHECK_NAMED:
			error = check_named_node(check, db, &node, number);
			break;
		}
	}
	return error;
}

/* ---- trees ---- */

static int check_page(struct check *check, struct check_db *db, uint64_t number,
    unsigned int level, const struct check_bounds *bounds);

/* The leaves lie scattered: on a cold disk, ask for all of them at once. */
static void
check_read_ahead(const struct check *check, const uint8_t *page, size_t n_nodes)
{
	struct check_node node;

	for (size_t i = 0; i < n_nodes; i++) {
		check_node_get(page, i, false, &node);
		if (node.child <= check->last_page)
			(void)posix_fadvise(check->fd,
			    (off_t)(node.child * check->page_bytes),
			    (off_t)check->page_bytes, POSIX_FADV_WILLNEED);
	}
}

static int
check_branch(struct check *check, struct check_db *db, uint64_t number,
    unsigned int level, const struct check_bounds *bounds)
{
	const uint8_t *page = check->levels[level];
	struct check_bounds below = *bounds;
	struct check_node node;
	size_t n_nodes;
	int error;

	error = check_tiles(check, number, page, false, &n_nodes);
	/* LMDB asserts two, but lets the free tree pass with one. */
	if (error == HM_OK && n_nodes < (db->kind == CHECK_FREE ? 1u : 2u))
		error = check_bad(check, "an empty branch", number);
	if (error == HM_OK && level + 2u == db->depth)
		check_read_ahead(check, page, n_nodes);
	for (size_t i = 0; error == HM_OK && i < n_nodes; i++) {
		uint64_t child;

		check_node_get(page, i, false, &node);
		child = node.child;
		/* The first key of a branch is never read, the next one is
		 * where this child ends. */
		if (i > 0)
			below.lo = below.hi;
		below.hi = bounds->hi;
		if (i + 1 < n_nodes) {
			check_node_get(page, i + 1, false, &node);
			error =
			    check_key_take(check, db, &node, number, &below.hi);
		}
		if (error == HM_OK && below.lo.n != 0 && below.hi.n != 0 &&
		    check_compare(db, &below.lo, &below.hi) >= 0)
			error = check_bad(check, "the order of keys", number);
		if (error == HM_OK)
			error = check_page(check, db, child, level + 1, &below);
	}
	return error;
}

/* At most CHECK_MAX_DEPTH deep: the depth of a tree is checked before. */
static int
check_page(struct check *check, struct check_db *db, uint64_t number,
    unsigned int level, const struct check_bounds *bounds)
{
	bool is_leaf = level + 1u == db->depth;
	const unsigned int slot =
	    db->kind == CHECK_MAIN ? CHECK_MAX_DEPTH - 1u - level : level;
	int error;

	error = check_load(check, number, slot);
	if (error != HM_OK)
		return error;
	if (check_u16(check->levels[slot] + 10) !=
	    (is_leaf ? PAGE_LEAF : PAGE_BRANCH))
		return check_bad(check, "the kind of a page", number);
	if (is_leaf) {
		db->found_leaf++;
		return check_leaf(check, db, check->levels[slot], number,
		    bounds);
	}
	db->found_branch++;
	return check_branch(check, db, number, level, bounds);
}

static int
check_tree(struct check *check, struct check_db *db)
{
	const struct check_bounds bounds = {.lo = {.n = 0}, .hi = {.n = 0}};
	/* The main tree keeps its pages while the others are walked, so that
	 * it is held to one leaf: three names need no more. */
	const uint16_t max_depth =
	    db->kind == CHECK_MAIN ? 1 : CHECK_MAX_DEPTH - 1;
	int error = HM_OK;

	if (db->flags != (db->kind == CHECK_FREE ? DB_FLAGS_INTEGER : 0) ||
	    db->depth > max_depth ||
	    (db->depth == 0) != (db->root == PAGE_NONE))
		return check_bad(check, "a database's record", db->root);
	if (db->depth > 0)
		error = check_page(check, db, db->root, 0, &bounds);
	if (error == HM_OK &&
	    (db->found_branch != db->n_branch || db->found_leaf != db->n_leaf ||
		db->found_overflow != db->n_overflow ||
		db->found_entries != db->n_entries))
		error = check_bad(check, "a database's counts", db->root);
	return error;
}

/* NOLINTEND(misc-no-recursion) */

/* ---- the file ---- */

/* Both meta pages must be sound; the later transaction counts. */
static int
check_meta(struct check *check, uint64_t file_bytes, uint8_t *meta_out)
{
	uint8_t meta[2][META_READ_BYTES];
	const uint8_t *latest;
	uint64_t txn[2];
	int error;

	check->page_bytes = PAGE_MIN_BYTES;
	error = check_read(check, 0, meta[0], META_READ_BYTES);
	if (error != HM_OK)
		return error;
	check->page_bytes = check_u32(meta[0] + 40);
	if (check_u16(meta[0] + 10) != PAGE_META ||
	    check_u32(meta[0] + 16) != META_MAGIC) {
		hm_errbuf_set(check->errbuf, "no LMDB file");
		return HM_E_CORRUPT;
	}
	if (check_u32(meta[0] + 20) != META_VERSION) {
		hm_errbuf_set(check->errbuf, "of another version of LMDB");
		return HM_E_VERSION;
	}
	if (check->page_bytes < PAGE_MIN_BYTES ||
	    check->page_bytes > PAGE_MAX_BYTES ||
	    (check->page_bytes & (check->page_bytes - 1)) != 0)
		return check_bad(check, "the page size", 0);
	error = check_read(check, check->page_bytes, meta[1], META_READ_BYTES);
	if (error != HM_OK)
		return error;
	if (check_u16(meta[1] + 10) != PAGE_META ||
	    memcmp(meta[0] + 16, meta[1] + 16, 8) != 0 ||
	    check_u32(meta[1] + 40) != check->page_bytes)
		return check_bad(check, "the second header", 1);

	/* Transaction N writes header N % 2, so that these two are the last. */
	txn[0] = check_u64(meta[0] + 144);
	txn[1] = check_u64(meta[1] + 144);
	if ((txn[0] | txn[1]) != 0 &&
	    (txn[0] % 2 != 0 || (txn[0] + 1 != txn[1] && txn[1] + 1 != txn[0])))
		return check_bad(check, "the transactions", txn[1]);
	latest = txn[0] < txn[1] ? meta[1] : meta[0];
	check->last_page = check_u64(latest + 136);
	check->txn = check_u64(latest + 144);
	/* What LMDB maps and does not check: beyond the end lies SIGBUS. */
	if (check->txn > CHECK_MAX_TXN || check->last_page < 1 ||
	    check->last_page >= file_bytes / check->page_bytes)
		return check_bad(check, "the file is shorter than its pages",
		    check->last_page);
	memcpy(meta_out, latest, META_READ_BYTES);
	return HM_OK;
}

static void
check_db_from(struct check_db *db, enum check_kind kind, const uint8_t *at)
{
	memset(db, 0, sizeof(*db));
	db->kind = kind;
	db->flags = check_u16(at + 4);
	db->depth = check_u16(at + 6);
	db->n_branch = check_u64(at + 8);
	db->n_leaf = check_u64(at + 16);
	db->n_overflow = check_u64(at + 24);
	db->n_entries = check_u64(at + 32);
	db->root = check_u64(at + 40);
}

static int
check_all_trees(struct check *check, const uint8_t *meta)
{
	struct check_db db;
	int error;

	check->used = calloc(check->last_page / 8 + 1, 1);
	check->tiles = malloc(check->page_bytes);
	if (check->used == NULL || check->tiles == NULL)
		return HM_E_NOMEM;
	check_db_from(&db, CHECK_MAIN, meta + 88);
	error = check_tree(check, &db);
	if (error != HM_OK)
		return error;
	check_db_from(&db, CHECK_FREE, meta + 40);
	error = check_tree(check, &db);
	check->result.page_bytes = check->page_bytes;
	check->result.n_pages = check->last_page + 1;
	check->result.n_leaked = check->last_page - 1 - check->n_used;
	return error;
}

int
hm_store_check_file(int fd, const struct hm_store_check_rule *rules,
    size_t n_rules, struct hm_store_check *check_out, struct hm_errbuf *errbuf)
{
	struct check check = {.fd = fd,
	    .rules = rules,
	    .n_rules = n_rules,
	    .errbuf = errbuf};
	uint8_t meta[META_READ_BYTES];
	struct stat status;
	int error;

	if (fstat(fd, &status) == -1) {
		hm_errbuf_set(errbuf, "%s", strerror(errno));
		return HM_E_SYSTEM;
	}
	if (status.st_size == 0) {
		check.result.is_new = true;
		*check_out = check.result;
		return HM_OK;
	}
	error = check_meta(&check, (uint64_t)status.st_size, meta);
	if (error == HM_OK)
		error = check_all_trees(&check, meta);
	if (error == HM_E_NOMEM)
		hm_errbuf_set(errbuf, "out of memory");

	for (size_t i = 0; i < CHECK_MAX_DEPTH; i++)
		free(check.levels[i]);
	free(check.used);
	free(check.tiles);
	if (error == HM_OK)
		*check_out = check.result;
	return error;
}
