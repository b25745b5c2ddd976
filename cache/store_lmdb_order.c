/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_lmdb_order.c - who holds how much, and in which order it was used.
 *
 * The order of use is kept group by group: a key of the lru database is a
 * group's number and a tick, so that the oldest entry of one tenant is found as
 * fast as the oldest of all, which is the least of the groups' firsts. What is
 * pinned is a group of its own, and is never looked into.
 *
 * index and lru carry no checksum: what the one says is held against the other,
 * and sums never go below zero. A store that is opened counts anew.
 */
#include <string.h>

#include "cache/store_lmdb_impl.h"

#define ORDER_MAX_TICK (UINT64_MAX >> 2)

/* ---- groups ---- */

bool
hm_store_is_expired(const struct hm_store_policy *policy,
    const struct store_place *place)
{
	uint64_t now_s;

	if (policy->ttl_s == 0 || place->flags == STORE_PINNED)
		return false;
	now_s = policy->now_s();
	return now_s > place->born_s && now_s - place->born_s >= policy->ttl_s;
}

uint32_t
hm_store_group_of(const struct store_place *place)
{
	return place->flags == STORE_PINNED ? HM_TENANT_PINNED : place->tenant;
}

const struct store_group *
hm_store_group_find(const struct store_totals *totals, uint32_t group)
{
	for (uint32_t i = 0; i < totals->n_groups; i++) {
		if (totals->groups[i].group == group)
			return &totals->groups[i];
	}
	return NULL;
}

static bool
order_is_special(uint32_t tenant)
{
	return tenant == HM_TENANT_PINNED || tenant == HM_TENANT_SHARED ||
	       tenant == HM_TENANT_OTHERS;
}

uint32_t
hm_store_tenant_of(const struct store_totals *totals, uint32_t tenant)
{
	uint32_t n_tenants = 0;

	if (order_is_special(tenant) ||
	    hm_store_group_find(totals, tenant) != NULL)
		return tenant;
	for (uint32_t i = 0; i < totals->n_groups; i++)
		n_tenants += !order_is_special(totals->groups[i].group);
	return n_tenants < STORE_MAX_TENANTS ? tenant : HM_TENANT_OTHERS;
}

/* The row of a group, or of those that have none. */
static struct store_group *
order_row(struct store_totals *totals, uint32_t group)
{
	struct store_group *others = NULL;

	for (uint32_t i = 0; i < totals->n_groups; i++) {
		if (totals->groups[i].group == group)
			return &totals->groups[i];
		if (totals->groups[i].group == HM_TENANT_OTHERS)
			others = &totals->groups[i];
	}
	return others;
}

void
hm_store_group_add(struct store_totals *totals, uint32_t group,
    uint64_t n_bytes)
{
	struct store_group *row;

	group = hm_store_tenant_of(totals, group);
	row = order_row(totals, group);
	if (row == NULL || row->group != group) {
		row = &totals->groups[totals->n_groups++];
		memset(row, 0, sizeof(*row));
		row->group = group;
	}
	row->bytes += n_bytes;
	row->entries++;
}

void
hm_store_group_remove(struct store_totals *totals, uint32_t group,
    uint64_t n_bytes)
{
	struct store_group *row = order_row(totals, group);

	if (row == NULL)
		return;
	row->bytes -= n_bytes < row->bytes ? n_bytes : row->bytes;
	if (row->entries > 0 && --row->entries > 0)
		return;
	*row = totals->groups[--totals->n_groups];
}

/* ---- places ---- */

/* Big-endian, so that memcmp orders groups, then ticks. */
static MDB_val
order_key(uint32_t group, uint64_t tick, uint8_t bytes[STORE_AT_BYTES])
{
	for (unsigned int i = 0; i < 4; i++)
		bytes[i] = (uint8_t)(group >> (8 * (3 - i)));
	for (unsigned int i = 0; i < 8; i++)
		bytes[4 + i] = (uint8_t)(tick >> (8 * (7 - i)));
	return (MDB_val){.mv_size = STORE_AT_BYTES, .mv_data = bytes};
}

static void
order_read_key(const MDB_val *key, uint32_t *group_out, uint64_t *tick_out)
{
	const uint8_t *bytes = key->mv_data;
	uint32_t group = 0;
	uint64_t tick = 0;

	for (unsigned int i = 0; i < 4; i++)
		group = group << 8 | bytes[i];
	for (unsigned int i = 4; i < STORE_AT_BYTES; i++)
		tick = tick << 8 | bytes[i];
	*group_out = group;
	*tick_out = tick;
}

int
hm_store_place_get(const struct hm_store *store, MDB_txn *txn, MDB_val *name,
    struct store_place *place_out)
{
	MDB_val value;
	int rc;

	rc = mdb_get(txn, store->dbi[DB_INDEX], name, &value);
	if (rc == MDB_SUCCESS)
		memcpy(place_out, value.mv_data, sizeof(*place_out));
	return rc;
}

int
hm_store_place_drop(struct hm_store *store, uint32_t group, uint64_t tick)
{
	uint8_t bytes[STORE_AT_BYTES];
	MDB_val at = order_key(group, tick, bytes);

	return mdb_del(store->txn, store->dbi[DB_LRU], &at, NULL);
}

int
hm_store_place_remove(struct hm_store *store, const MDB_val *name,
    const struct store_place *place)
{
	uint8_t bytes[STORE_AT_BYTES];
	MDB_val at = order_key(hm_store_group_of(place), place->tick, bytes);
	MDB_val value;
	int rc;

	rc = mdb_get(store->txn, store->dbi[DB_LRU], &at, &value);
	if (rc == MDB_SUCCESS &&
	    memcmp(value.mv_data, name->mv_data, HM_DIGEST_BYTES) == 0)
		rc = mdb_del(store->txn, store->dbi[DB_LRU], &at, NULL);
	return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

int
hm_store_place_append(struct hm_store *store, MDB_val *name,
    struct store_place *place)
{
	uint8_t bytes[STORE_AT_BYTES];
	MDB_val value = *name;
	MDB_val at;
	int rc;

	place->tick = store->pending.next_tick++;
	at = order_key(hm_store_group_of(place), place->tick, bytes);
	rc = mdb_put(store->txn, store->dbi[DB_LRU], &at, &value, 0);
	if (rc != MDB_SUCCESS)
		return rc;
	value.mv_size = sizeof(*place);
	value.mv_data = place;
	return mdb_put(store->txn, store->dbi[DB_INDEX], name, &value, 0);
}

/* The first row of a group that the cursor finds, at or behind a group; then
 * *group_io is the one it is of. */
static int
order_first(MDB_cursor *cursor, uint32_t *group_io,
    struct store_oldest *first_out)
{
	uint8_t bytes[STORE_AT_BYTES];
	MDB_val at = order_key(*group_io, 0, bytes);
	MDB_val value;
	int rc;

	rc = mdb_cursor_get(cursor, &at, &value, MDB_SET_RANGE);
	if (rc != MDB_SUCCESS)
		return rc;
	order_read_key(&at, &first_out->group, &first_out->tick);
	memcpy(first_out->key.bytes, value.mv_data, HM_DIGEST_BYTES);
	*group_io = first_out->group;
	return MDB_SUCCESS;
}

int
hm_store_oldest(struct hm_store *store, uint32_t group,
    struct store_oldest *oldest_out)
{
	struct store_oldest first;
	MDB_cursor *cursor = NULL;
	uint32_t at = group == HM_STORE_ANY_GROUP ? 0 : group;
	bool has_one = false;
	int rc;

	rc = mdb_cursor_open(store->txn, store->dbi[DB_LRU], &cursor);
	if (rc != MDB_SUCCESS)
		return rc;
	while ((rc = order_first(cursor, &at, &first)) == MDB_SUCCESS &&
	       at != HM_TENANT_PINNED &&
	       (group == HM_STORE_ANY_GROUP || at == group)) {
		if (!has_one || first.tick < oldest_out->tick)
			*oldest_out = first;
		has_one = true;
		if (group != HM_STORE_ANY_GROUP)
			break;
		at++;
	}
	mdb_cursor_close(cursor);
	if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
		return rc;
	return has_one ? MDB_SUCCESS : MDB_NOTFOUND;
}

/* ---- a store that was just opened ---- */

/* The greatest tick: the last row of each group. */
static int
order_last_tick(MDB_cursor *cursor, uint64_t *tick_out)
{
	uint8_t bytes[STORE_AT_BYTES];
	uint64_t last = 0, tick = 0;
	uint32_t group = 0;
	MDB_val at, value;
	int rc;

	rc = mdb_cursor_get(cursor, &at, &value, MDB_FIRST);
	while (rc == MDB_SUCCESS) {
		order_read_key(&at, &group, &tick);
		at = order_key(group + 1, 0, bytes);
		rc = MDB_NOTFOUND;
		if (group != UINT32_MAX)
			rc = mdb_cursor_get(cursor, &at, &value, MDB_SET_RANGE);
		if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
			break;
		rc = mdb_cursor_get(cursor, &at, &value,
		    rc == MDB_SUCCESS ? MDB_PREV : MDB_LAST);
		if (rc != MDB_SUCCESS)
			break;
		order_read_key(&at, &group, &tick);
		last = tick > last ? tick : last;
		rc = mdb_cursor_get(cursor, &at, &value, MDB_NEXT);
	}
	*tick_out = last;
	return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

/* Both trees are in the order of keys, so that one pass joins them. An entry
 * without a place is nobody's own. */
static int
order_join(const struct hm_store *store, MDB_cursor *entries, MDB_cursor *index,
    struct store_totals *totals)
{
	MDB_val name, value, row_name, row;
	int rc_row, rc;

	rc_row = mdb_cursor_get(index, &row_name, &row, MDB_FIRST);
	rc = mdb_cursor_get(entries, &name, &value, MDB_FIRST);
	while (rc == MDB_SUCCESS) {
		struct store_place place = {.tenant = HM_TENANT_SHARED};
		uint64_t n_bytes = hm_store_check_footprint(name.mv_size,
		    value.mv_size, store->page_bytes);
		int order = -1;

		while (rc_row == MDB_SUCCESS &&
		       (order = memcmp(row_name.mv_data, name.mv_data,
			    HM_DIGEST_BYTES)) < 0)
			rc_row =
			    mdb_cursor_get(index, &row_name, &row, MDB_NEXT);
		if (rc_row == MDB_SUCCESS && order == 0)
			memcpy(&place, row.mv_data, sizeof(place));
		hm_store_group_add(totals, hm_store_group_of(&place), n_bytes);
		totals->bytes += n_bytes;
		totals->entries++;
		rc = mdb_cursor_get(entries, &name, &value, MDB_NEXT);
	}
	if (rc == MDB_NOTFOUND && rc_row != MDB_NOTFOUND)
		return rc_row;
	return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

int
hm_store_count(struct hm_store *store, MDB_txn *txn,
    struct store_totals *totals_out, struct hm_errbuf *errbuf)
{
	MDB_cursor *cursors[3] = {NULL, NULL, NULL};
	uint64_t tick = 0;
	int rc = MDB_SUCCESS;

	for (int i = 0; rc == MDB_SUCCESS && i < 3; i++)
		rc = mdb_cursor_open(txn, store->dbi[i], &cursors[i]);
	if (rc == MDB_SUCCESS)
		rc = order_last_tick(cursors[DB_LRU], &tick);
	if (rc == MDB_SUCCESS)
		rc = order_join(store, cursors[DB_ENTRIES], cursors[DB_INDEX],
		    totals_out);
	for (int i = 0; i < 3; i++) {
		if (cursors[i] != NULL)
			mdb_cursor_close(cursors[i]);
	}
	if (rc != MDB_SUCCESS)
		return hm_store_fail(store, rc, "cannot read", errbuf);
	if (tick > ORDER_MAX_TICK)
		return hm_store_damaged(store, "a tick", errbuf);
	totals_out->next_tick = tick + 1;
	return HM_OK;
}

/* ---- what may stay, and what is there ---- */

void
hm_store_set_policy(struct hm_store *store,
    const struct hm_store_policy *policy)
{
	(void)pthread_mutex_lock(&store->env_lock);
	store->policy = *policy;
	(void)pthread_mutex_unlock(&store->env_lock);
}

void
hm_store_get_stats(struct hm_store *store, struct hm_store_stats *stats_out)
{
	const struct store_group *pinned;

	memset(stats_out, 0, sizeof(*stats_out));
	(void)pthread_mutex_lock(&store->env_lock);
	stats_out->bytes = store->totals.bytes;
	stats_out->entries = store->totals.entries;
	stats_out->evicted = store->totals.evicted;
	stats_out->over_quota = store->totals.over_quota;
	stats_out->expired = store->totals.expired;
	pinned = hm_store_group_find(&store->totals, HM_TENANT_PINNED);
	stats_out->tenants = store->totals.n_groups - (pinned != NULL);
	if (pinned != NULL) {
		stats_out->pinned_bytes = pinned->bytes;
		stats_out->pinned_entries = pinned->entries;
	}
	if (store->env != NULL)
		stats_out->file_bytes = atomic_load(&store->n_file_bytes);
	memcpy(stats_out->notice, store->notice, sizeof(stats_out->notice));
	(void)pthread_mutex_unlock(&store->env_lock);
}
