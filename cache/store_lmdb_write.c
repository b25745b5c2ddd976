/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_lmdb_write.c - the writer's side of the store: puts, order of use,
 * eviction.
 *
 * A put, its place in the order and the evictions it causes are one
 * transaction. Counts are kept in `pending` and become true with the commit.
 */
#include "cache/store_lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cache/entry.h"
#include "cache/store_check.h"
#include "cache/store_lmdb_impl.h"
#include "cache/value.h"
#include "proto/fd.h"

#define STORE_SLICE       256u /* evictions in one transaction */
#define STORE_MAX_BATCH   (8u << 20)
#define STORE_PROBE_BYTES 65536

/* ---- the writer's side: transactions ---- */

int
hm_store_begin(struct hm_store *store, struct hm_errbuf *errbuf)
{
	int error, rc;

	if (store->env != NULL && hm_store_is_cut(store))
		return hm_store_damaged(store, "its file was cut short",
		    errbuf);
	/* Before LMDB's own lock: that is taken within ours at an open. */
	(void)pthread_mutex_lock(&store->env_lock);
	store->rules = store->policy;
	(void)pthread_mutex_unlock(&store->env_lock);
	rc = MDB_PANIC;
	if (store->env != NULL)
		rc = mdb_txn_begin(store->env, NULL, 0, &store->txn);
	/* A failed write of the meta page makes LMDB give up for good. */
	if (rc == MDB_PANIC) {
		error = hm_store_restart(store, HM_STORE_REOPEN, errbuf);
		if (error != HM_OK)
			return error;
		rc = mdb_txn_begin(store->env, NULL, 0, &store->txn);
	}
	if (rc != MDB_SUCCESS) {
		store->txn = NULL;
		return hm_store_fail(store, rc, "cannot write", errbuf);
	}
	store->pending = store->totals;
	store->first_put_tick = UINT64_MAX;
	return HM_OK;
}

/*
 * LMDB calls every write that was cut short an I/O error. Such a write has used
 * up what there was, so that one more at the end of the file gets the reason
 * (ENOSPC, EDQUOT, EFBIG, a real EIO). What it did write is taken back.
 */
static int
store_explain_eio(const struct hm_store *store)
{
	static const uint8_t zeros[STORE_PROBE_BYTES];
	ssize_t n = 0;
	int rc = EIO;
	off_t end;
	int fd;

	fd = openat(store->dir.fd, HM_STORE_DATA_FILE,
	    O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1)
		return rc;
	end = lseek(fd, 0, SEEK_END);
	for (off_t at = end; end != -1 && at < end + STORE_PROBE_BYTES;
	     at += n) {
		n = pwrite(fd, zeros, (size_t)(end + STORE_PROBE_BYTES - at),
		    at);
		if (n <= 0) {
			rc = n == 0 ? EIO : errno;
			break;
		}
	}
	if (end != -1 && ftruncate(fd, end) == -1)
		rc = EIO;
	hm_fd_close(&fd);
	return rc;
}

int
hm_store_commit(struct hm_store *store, struct hm_errbuf *errbuf)
{
	MDB_txn *txn = store->txn;
	int rc;

	store->txn = NULL;
	rc = mdb_txn_commit(txn);
	if (rc == EIO)
		rc = store_explain_eio(store);
	if (rc != MDB_SUCCESS)
		return hm_store_fail(store, rc, "cannot write", errbuf);
	hm_store_note_size(store);
	(void)pthread_mutex_lock(&store->env_lock);
	store->totals = store->pending;
	(void)pthread_mutex_unlock(&store->env_lock);
	return HM_OK;
}

void
hm_store_abort(struct hm_store *store)
{
	if (store->txn != NULL)
		mdb_txn_abort(store->txn);
	store->txn = NULL;
}

/* ---- the writer's side: steps ---- */

int
hm_store_touch(struct hm_store *store, const struct hm_digest *key,
    struct hm_errbuf *errbuf)
{
	struct hm_digest copy = *key;
	MDB_val name = hm_store_key(&copy);
	struct store_place place;
	int rc;

	rc = hm_store_place_get(store, store->txn, &name, &place);
	if (rc == MDB_NOTFOUND)
		return HM_OK;
	if (rc == MDB_SUCCESS)
		rc = hm_store_place_remove(store, &name, &place);
	if (rc == MDB_SUCCESS)
		rc = hm_store_place_append(store, &name, &place);
	return hm_store_fail(store, rc, "cannot write", errbuf);
}

/* The header of its pages is looked at first, because LMDB frees as many pages
 * as that says. */
static int
store_remove_value(struct hm_store *store, MDB_val *name, const MDB_val *value,
    uint32_t group, struct hm_errbuf *errbuf)
{
	uint64_t footprint = hm_store_check_footprint(name->mv_size,
	    value->mv_size, store->page_bytes);
	int rc;

	if (hm_store_check_is_big(name->mv_size, value->mv_size,
		store->page_bytes) &&
	    !hm_store_check_big_header(value->mv_data, value->mv_size,
		store->map, store->page_bytes))
		return hm_store_damaged(store, "a page header", errbuf);
	rc = mdb_del(store->txn, store->dbi[DB_ENTRIES], name, NULL);
	if (rc != MDB_SUCCESS)
		return hm_store_fail(store, rc, "cannot delete", errbuf);
	store->pending.bytes -= footprint;
	store->pending.entries--;
	hm_store_group_remove(&store->pending, group, footprint);
	return HM_OK;
}

int
hm_store_remove(struct hm_store *store, MDB_val *name, bool *removed_out,
    struct hm_errbuf *errbuf)
{
	struct store_place place = {.tenant = HM_TENANT_SHARED};
	MDB_val value;
	int error, rc, rc_place;

	rc_place = hm_store_place_get(store, store->txn, name, &place);
	rc = mdb_get(store->txn, store->dbi[DB_ENTRIES], name, &value);
	if (rc == MDB_SUCCESS) {
		error = store_remove_value(store, name, &value,
		    hm_store_group_of(&place), errbuf);
		if (error != HM_OK)
			return error;
		*removed_out = true;
	}
	if (rc == MDB_SUCCESS || rc == MDB_NOTFOUND)
		rc = rc_place;
	if (rc == MDB_SUCCESS)
		rc = hm_store_place_remove(store, name, &place);
	if (rc == MDB_SUCCESS)
		rc = mdb_del(store->txn, store->dbi[DB_INDEX], name, NULL);
	if (rc == MDB_NOTFOUND)
		rc = MDB_SUCCESS;
	return hm_store_fail(store, rc, "cannot delete", errbuf);
}

/* Whether it is no wonder that nothing is left to evict. Where nothing is
 * pinned there is always more than one transaction puts. */
static bool
store_may_run_dry(const struct hm_store *store)
{
	return store->pending.entries == 0 ||
	       hm_store_group_find(&store->pending, HM_TENANT_PINNED) != NULL;
}

/* A place that is not its key's only disappears. */
int
hm_store_evict_one(struct hm_store *store, uint32_t group,
    struct hm_errbuf *errbuf)
{
	struct store_oldest oldest;
	struct store_place place;
	bool removed = false;
	MDB_val name;
	int error, rc;

	rc = hm_store_oldest(store, group, &oldest);
	/* What this transaction has put is no page of the map's. */
	if (rc == MDB_SUCCESS && oldest.tick >= store->first_put_tick)
		rc = MDB_NOTFOUND;
	if (rc == MDB_NOTFOUND)
		return group != HM_STORE_ANY_GROUP || store_may_run_dry(store)
			   ? HM_E_UNAVAILABLE
			   : hm_store_damaged(store, "the order of use",
				 errbuf);
	if (rc != MDB_SUCCESS)
		return hm_store_fail(store, MDB_CORRUPTED, "cannot evict",
		    errbuf);

	name = hm_store_key(&oldest.key);
	rc = hm_store_place_get(store, store->txn, &name, &place);
	if (rc == MDB_SUCCESS && place.tick == oldest.tick &&
	    hm_store_group_of(&place) == oldest.group) {
		error = hm_store_remove(store, &name, &removed, errbuf);
		store->pending.evicted += removed;
		return error;
	}
	if (rc == MDB_SUCCESS || rc == MDB_NOTFOUND)
		rc = hm_store_place_drop(store, oldest.group, oldest.tick);
	return hm_store_fail(store, rc, "cannot evict", errbuf);
}

static uint64_t
store_trim_bytes(const struct hm_store *store)
{
	return store->cap_bytes - store->cap_bytes / 8;
}

/* At most a slice of evictions towards the lower mark, leaving need free. */
static int
store_evict_slice(struct hm_store *store, uint64_t need,
    struct hm_errbuf *errbuf)
{
	int error;

	for (unsigned int i = 0; i < STORE_SLICE; i++) {
		error = HM_E_UNAVAILABLE;
		if (store->pending.bytes + need > store_trim_bytes(store))
			error = hm_store_evict_one(store, HM_STORE_ANY_GROUP,
			    errbuf);
		if (error == HM_E_UNAVAILABLE) {
			store->is_trimming = false;
			return HM_OK;
		}
		if (error != HM_OK)
			return error;
	}
	return HM_OK;
}

static int
store_refuse(const struct hm_store *store, const char *why,
    struct hm_errbuf *errbuf)
{
	hm_errbuf_set(errbuf, "store %s: %s", store->dir.path, why);
	return HM_E_INVALID;
}

/* At its quota a tenant makes room for itself, a slice at most: after that many
 * a quota that was lowered goes on with its next entry. */
static int
store_make_quota(struct hm_store *store, uint32_t tenant, uint64_t need,
    struct hm_errbuf *errbuf)
{
	const uint64_t quota = store->rules.quota_bytes;
	const struct store_group *group;
	uint64_t evicted;
	int error;

	if (quota == 0 || tenant == HM_TENANT_SHARED)
		return HM_OK;
	if (need > quota)
		return store_refuse(store, "an entry is over its user's quota",
		    errbuf);
	for (unsigned int i = 0; i < STORE_SLICE; i++) {
		group = hm_store_group_find(&store->pending, tenant);
		if (group == NULL || group->bytes + need <= quota)
			return HM_OK;
		evicted = store->pending.evicted;
		error = hm_store_evict_one(store, tenant, errbuf);
		if (error == HM_E_UNAVAILABLE)
			break;
		if (error != HM_OK)
			return error;
		store->pending.over_quota += store->pending.evicted - evicted;
	}
	return store_refuse(store, "its user's quota is used up", errbuf);
}

static int
store_make_space(struct hm_store *store, uint64_t need,
    struct hm_errbuf *errbuf)
{
	int error;

	if (store->pending.bytes + need <= store->cap_bytes)
		return HM_OK;
	/* Over it already: the cap was lowered. Slice by slice then. */
	if (store->pending.bytes > store->cap_bytes)
		return store_evict_slice(store, need, errbuf);
	store->is_trimming = true;
	while (store->pending.bytes + need > store->cap_bytes) {
		error = hm_store_evict_one(store, HM_STORE_ANY_GROUP, errbuf);
		if (error == HM_E_UNAVAILABLE)
			return store_refuse(store,
			    "all that is in it is pinned", errbuf);
		if (error != HM_OK)
			return error;
	}
	return store_evict_slice(store, need, errbuf);
}

/* The place of an entry that is put now: what is pinned stays so. */
static int
store_new_place(struct hm_store *store, const struct hm_entry *entry,
    MDB_val *name, struct store_place *place_out)
{
	struct store_place before = {.flags = 0};
	int rc = hm_store_place_get(store, store->txn, name, &before);

	if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
		return rc;
	place_out->tenant = hm_store_tenant_of(&store->pending, entry->tenant);
	place_out->born_s = entry->born_s;
	place_out->flags = before.flags == STORE_PINNED ? STORE_PINNED : 0;
	/* Whoever else pins it has no age to tell. */
	if (entry->born_s == HM_ENTRY_AGELESS)
		place_out->born_s = store->rules.now_s();
	return MDB_SUCCESS;
}

static int
store_write(struct hm_store *store, const struct hm_entry *entry, MDB_val *name,
    struct store_place *place, struct hm_errbuf *errbuf)
{
	MDB_val value = {.mv_size = hm_value_bytes(entry), .mv_data = NULL};
	uint64_t footprint = hm_store_check_footprint(name->mv_size,
	    value.mv_size, store->page_bytes);
	int rc;

	if (store->first_put_tick == UINT64_MAX)
		store->first_put_tick = store->pending.next_tick;
	rc = mdb_put(store->txn, store->dbi[DB_ENTRIES], name, &value,
	    MDB_RESERVE);
	if (rc == MDB_SUCCESS) {
		hm_value_write(entry, store->pending.next_tick, value.mv_data);
		rc = hm_store_place_append(store, name, place);
	}
	if (rc != MDB_SUCCESS)
		return hm_store_fail(store, rc, "cannot write", errbuf);
	store->pending.bytes += footprint;
	store->pending.entries++;
	hm_store_group_add(&store->pending, hm_store_group_of(place),
	    footprint);
	return HM_OK;
}

int
hm_store_put(struct hm_store *store, const struct hm_entry *entry,
    struct hm_errbuf *errbuf)
{
	struct hm_digest key = entry->key;
	MDB_val name = hm_store_key(&key);
	uint64_t footprint = hm_store_check_footprint(name.mv_size,
	    hm_value_bytes(entry), store->page_bytes);
	struct store_place place = {.flags = 0};
	bool removed = false;
	int error, rc;

	if (footprint > store->cap_bytes / 4) {
		hm_errbuf_set(errbuf,
		    "store %s: an entry of %zu bytes is over a quarter of its "
		    "size",
		    store->dir.path, hm_value_bytes(entry));
		return HM_E_INVALID;
	}
	rc = store_new_place(store, entry, &name, &place);
	if (rc != MDB_SUCCESS)
		return hm_store_fail(store, rc, "cannot read", errbuf);
	error = hm_store_remove(store, &name, &removed, errbuf);
	if (error == HM_OK && place.flags != STORE_PINNED)
		error =
		    store_make_quota(store, place.tenant, footprint, errbuf);
	if (error == HM_OK)
		error = store_make_space(store, footprint, errbuf);
	if (error != HM_OK)
		return error;
	return store_write(store, entry, &name, &place, errbuf);
}

int
hm_store_delete(struct hm_store *store, const struct hm_digest *key,
    bool if_damaged, bool *deleted_out, struct hm_errbuf *errbuf)
{
	struct hm_digest copy = *key;
	MDB_val name = hm_store_key(&copy);
	struct hm_entry_parts parts;
	struct hm_checksum checksum;
	MDB_val value;
	bool deleted = false;
	int error, rc;

	if (if_damaged) {
		rc = mdb_get(store->txn, store->dbi[DB_ENTRIES], &name, &value);
		if (rc == MDB_SUCCESS &&
		    hm_value_parse(value.mv_data, value.mv_size, key, &parts,
			&checksum) == HM_OK) {
			*deleted_out = false;
			return HM_OK;
		}
	}
	error = hm_store_remove(store, &name, &deleted, errbuf);
	if (error == HM_OK)
		*deleted_out = deleted;
	return error;
}

bool
hm_store_is_trimming(const struct hm_store *store)
{
	return store->is_trimming && store->env != NULL;
}

int
hm_store_trim(struct hm_store *store, struct hm_errbuf *errbuf)
{
	return store_evict_slice(store, 0, errbuf);
}

/* ---- the writer's side: full maps and new starts ---- */

static int
store_room_evict(struct hm_store *store, struct hm_errbuf *errbuf)
{
	uint64_t target = store->totals.bytes / 8 * 7;
	int error;

	error = hm_store_begin(store, errbuf);
	for (unsigned int i = 0; error == HM_OK && i < STORE_SLICE; i++) {
		if (store->pending.entries == 0 ||
		    store->pending.bytes < target)
			break;
		error = hm_store_evict_one(store, HM_STORE_ANY_GROUP, errbuf);
	}
	if (error == HM_OK || error == HM_E_UNAVAILABLE)
		return hm_store_commit(store, errbuf);
	hm_store_abort(store);
	return error;
}

/* LMDB writes nothing for a transaction that changed nothing. */
static int
store_room_mark(struct hm_store *store, struct hm_errbuf *errbuf)
{
	char name[] = "marker";
	MDB_val key = {.mv_size = sizeof(name) - 1, .mv_data = name};
	MDB_val value = {.mv_size = sizeof(uint64_t),
	    .mv_data = &store->pending.next_tick};
	int error, rc;

	error = hm_store_begin(store, errbuf);
	if (error != HM_OK)
		return error;
	store->pending.next_tick++;
	rc = mdb_put(store->txn, store->dbi[DB_META], &key, &value, 0);
	if (rc == MDB_SUCCESS)
		return hm_store_commit(store, errbuf);
	hm_store_abort(store);
	return hm_store_fail(store, rc, "cannot write", errbuf);
}

int
hm_store_probe(struct hm_store *store, struct hm_errbuf *errbuf)
{
	if (hm_store_is_disk_full(store))
		return hm_store_fail(store, ENOSPC, "cannot write", errbuf);
	return store_room_mark(store, errbuf);
}

int
hm_store_make_room(struct hm_store *store, struct hm_errbuf *errbuf)
{
	uint64_t evicted = store->totals.evicted;
	int error;

	error = store_room_evict(store, errbuf);
	if (error == HM_OK)
		error = store_room_mark(store, errbuf);
	/* Deleting takes pages too. With none left, or with nothing left to
	 * delete, starting over is the only way on. */
	if (error == HM_E_BUSY ||
	    (error == HM_OK && store->totals.evicted == evicted))
		error = hm_store_restart(store, HM_STORE_ERASE, errbuf);
	return error;
}

uint64_t
hm_store_batch_bytes(struct hm_store *store)
{
	uint64_t bytes = store->cap_bytes / 8;
	uint64_t quota_bytes;

	(void)pthread_mutex_lock(&store->env_lock);
	quota_bytes = store->policy.quota_bytes;
	(void)pthread_mutex_unlock(&store->env_lock);
	/* A tenant makes room for a batch among what it had before. */
	if (quota_bytes != 0 && bytes > quota_bytes / 2)
		bytes = quota_bytes / 2;
	return bytes < STORE_MAX_BATCH ? bytes : STORE_MAX_BATCH;
}
