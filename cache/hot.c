/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hot.c - a hash table with chains, and one list in order of use.
 *
 * Keys are SHA-256, so their first bytes are the hash. The table doubles when
 * it has as many entries as chains; it never shrinks, as the tier soon fills
 * up again.
 */
#include "cache/hot.h"

#include <sys/queue.h>
#include <sys/resource.h>

#include <stdlib.h>
#include <string.h>

#include "cache/entry.h"

#define HOT_FIRST_CHAINS 64u
#define HOT_MAX_FILES    16384u /* each is a mapping too; those are limited */

struct hot_node {
	LIST_ENTRY(hot_node) chain;
	TAILQ_ENTRY(hot_node) use;
	struct hm_entry *entry; /* one reference */
	uint64_t epoch;         /* of the last find or put */
};
LIST_HEAD(hot_chain, hot_node);
TAILQ_HEAD(hot_use, hot_node);

struct hm_hot {
	uint64_t cap_bytes;
	uint64_t n_bytes;
	size_t n_entries;
	size_t cap_files;
	size_t n_files;  /* entries that hold a descriptor */
	size_t n_chains; /* a power of two */
	struct hot_chain *chains;
	struct hot_use by_use; /* most recently used first */
};

static struct hot_chain *
hot_chain_of(struct hot_chain *chains, size_t n_chains,
    const struct hm_digest *key)
{
	uint64_t hash;

	memcpy(&hash, key->bytes, sizeof(hash));
	return &chains[hash & (n_chains - 1)];
}

static struct hot_node *
hot_node_find(const struct hm_hot *hot, const struct hm_digest *key)
{
	struct hot_node *node;

	LIST_FOREACH (node, hot_chain_of(hot->chains, hot->n_chains, key),
	    chain) {
		if (hm_digest_equal(&node->entry->key, key))
			return node;
	}
	return NULL;
}

static void
hot_node_drop(struct hm_hot *hot, struct hot_node *node)
{
	LIST_REMOVE(node, chain);
	TAILQ_REMOVE(&hot->by_use, node, use);
	hot->n_bytes -= hm_entry_cost_bytes(node->entry);
	hot->n_entries--;
	hot->n_files -= node->entry->fd != -1;
	hm_entry_unref(node->entry);
	free(node);
}

static void
hot_node_to_front(struct hm_hot *hot, struct hot_node *node)
{
	TAILQ_REMOVE(&hot->by_use, node, use);
	TAILQ_INSERT_HEAD(&hot->by_use, node, use);
}

/* Longer chains are only slower, so that a failure here is none. */
static void
hot_grow(struct hm_hot *hot)
{
	size_t n_chains = hot->n_chains * 2;
	struct hot_chain *chains;
	struct hot_node *node;

	chains = calloc(n_chains, sizeof(*chains));
	if (chains == NULL)
		return;
	TAILQ_FOREACH (node, &hot->by_use, use) {
		LIST_REMOVE(node, chain);
		LIST_INSERT_HEAD(
		    hot_chain_of(chains, n_chains, &node->entry->key), node,
		    chain);
	}
	free(hot->chains);
	hot->chains = chains;
	hot->n_chains = n_chains;
}

/* Half of what the process may open: connections need the rest. */
static size_t
hot_choose_cap_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return HOT_MAX_FILES;
	if (limit.rlim_cur / 2 < HOT_MAX_FILES)
		return (size_t)(limit.rlim_cur / 2);
	return HOT_MAX_FILES;
}

int
hm_hot_new(uint64_t cap_bytes, struct hm_hot **hot_out)
{
	struct hm_hot *hot;

	hot = calloc(1, sizeof(*hot));
	if (hot == NULL)
		return HM_E_NOMEM;
	hot->chains = calloc(HOT_FIRST_CHAINS, sizeof(*hot->chains));
	if (hot->chains == NULL) {
		free(hot);
		return HM_E_NOMEM;
	}
	hot->n_chains = HOT_FIRST_CHAINS;
	hot->cap_bytes = cap_bytes;
	hot->cap_files = hot_choose_cap_files();
	TAILQ_INIT(&hot->by_use);
	*hot_out = hot;
	return HM_OK;
}

void
hm_hot_limit_files(struct hm_hot *hot, uint64_t max_files)
{
	if (max_files < hot->cap_files)
		hot->cap_files = (size_t)max_files;
}

void
hm_hot_free(struct hm_hot *hot)
{
	if (hot == NULL)
		return;
	hm_hot_clear(hot);
	free(hot->chains);
	free(hot);
}

struct hm_entry *
hm_hot_find(struct hm_hot *hot, const struct hm_digest *key, uint64_t epoch,
    bool *first_out)
{
	struct hot_node *node;

	node = hot_node_find(hot, key);
	if (node == NULL)
		return NULL;
	hot_node_to_front(hot, node);
	*first_out = node->epoch != epoch;
	node->epoch = epoch;
	return node->entry;
}

int
hm_hot_put(struct hm_hot *hot, struct hm_entry *entry, uint64_t epoch)
{
	uint64_t cost_bytes = hm_entry_cost_bytes(entry);
	struct hot_node *node, *old;

	node = malloc(sizeof(*node));
	if (node == NULL)
		return HM_E_NOMEM;
	node->entry = hm_entry_ref(entry);
	node->epoch = epoch;

	old = hot_node_find(hot, &entry->key);
	if (old != NULL)
		hot_node_drop(hot, old);
	if (hot->n_entries >= hot->n_chains)
		hot_grow(hot);
	LIST_INSERT_HEAD(hot_chain_of(hot->chains, hot->n_chains, &entry->key),
	    node, chain);
	TAILQ_INSERT_HEAD(&hot->by_use, node, use);
	hot->n_bytes += cost_bytes;
	hot->n_entries++;
	hot->n_files += entry->fd != -1;

	/* One larger than the tier would push all others out, then leave. */
	if (cost_bytes > hot->cap_bytes) {
		hot_node_drop(hot, node);
		return HM_OK;
	}
	while (hot->n_bytes > hot->cap_bytes || hot->n_files > hot->cap_files)
		/* The analyzer cannot see that a dropped one left the list.
		 * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		hot_node_drop(hot, TAILQ_LAST(&hot->by_use, hot_use));
	return HM_OK;
}

bool
hm_hot_has(const struct hm_hot *hot, const struct hm_digest *key)
{
	return hot_node_find(hot, key) != NULL;
}

bool
hm_hot_remove(struct hm_hot *hot, const struct hm_digest *key)
{
	struct hot_node *node;

	node = hot_node_find(hot, key);
	if (node == NULL)
		return false;
	hot_node_drop(hot, node);
	return true;
}

void
hm_hot_clear(struct hm_hot *hot)
{
	struct hot_node *node;

	while ((node = TAILQ_FIRST(&hot->by_use)) != NULL)
		hot_node_drop(hot, node);
}

void
hm_hot_each(struct hm_hot *hot, hm_hot_fn each, void *arg)
{
	struct hot_node *node;

	TAILQ_FOREACH (node, &hot->by_use, use) {
		if (!each(node->entry, arg))
			return;
	}
}

uint64_t
hm_hot_bytes(const struct hm_hot *hot)
{
	return hot->n_bytes;
}

uint64_t
hm_hot_entries(const struct hm_hot *hot)
{
	return hot->n_entries;
}
