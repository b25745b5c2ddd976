/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_lmdb_write.c - the writer's side of the store: puts, order of use,
 * eviction.
 *
 * A put, its place in the order and the evictions it causes are one
 * transaction. index and lru carry no checksum: what the one says is held
 * against the other before anything is deleted for it. Counts are kept in
 * `pending` and become true with the commit.
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

/* Big-endian, so that memcmp orders ticks. */
static MDB_val
store_tick_key(uint64_t tick, uint8_t bytes[STORE_TICK_BYTES])
{
	for (unsigned int i = 0; i < STORE_TICK_BYTES; i++)
		bytes[i] = (uint8_t)(tick >> (8 * (STORE_TICK_BYTES - 1 - i)));
	return (MDB_val){.mv_size = STORE_TICK_BYTES, .mv_data = bytes};
}

/* ---- the writer's side: transactions ---- */

int
hm_store_begin(struct hm_store *store, struct hm_errbuf *errbuf)
{
	int error, rc;

	if (store->env != NULL && hm_store_is_cut(store))
		return hm_store_damaged(store, "its file was cut short",
		    errbuf);
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

static int
store_tick_of(struct hm_store *store, MDB_val *name, uint64_t *tick_out)
{
	MDB_val value;
	int rc;

	rc = mdb_get(store->txn, store->dbi[DB_INDEX], name, &value);
	if (rc == MDB_SUCCESS)
		memcpy(tick_out, value.mv_data, STORE_TICK_BYTES);
	return rc;
}

/* Take a key's place in the order away, if that place is the key's. */
static int
store_lru_remove(struct hm_store *store, const MDB_val *name, uint64_t tick)
{
	uint8_t bytes[STORE_TICK_BYTES];
	MDB_val at = store_tick_key(tick, bytes);
	MDB_val value;
	int rc;

	rc = mdb_get(store->txn, store->dbi[DB_LRU], &at, &value);
	if (rc == MDB_SUCCESS &&
	    memcmp(value.mv_data, name->mv_data, HM_DIGEST_BYTES) == 0)
		rc = mdb_del(store->txn, store->dbi[DB_LRU], &at, NULL);
	return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

/* The next tick becomes this key's, in both directions. */
static int
store_lru_append(struct hm_store *store, MDB_val *name)
{
	uint64_t tick = store->pending.next_tick++;
	uint8_t bytes[STORE_TICK_BYTES];
	MDB_val at = store_tick_key(tick, bytes);
	MDB_val value = *name;
	int rc;

	rc = mdb_put(store->txn, store->dbi[DB_LRU], &at, &value, 0);
	if (rc != MDB_SUCCESS)
		return rc;
	value.mv_size = STORE_TICK_BYTES;
	value.mv_data = &tick;
	return mdb_put(store->txn, store->dbi[DB_INDEX], name, &value, 0);
}

int
hm_store_touch(struct hm_store *store, const struct hm_digest *key,
    struct hm_errbuf *errbuf)
{
	struct hm_digest copy = *key;
	MDB_val name = hm_store_key(&copy);
	uint64_t tick;
	int rc;

	rc = store_tick_of(store, &name, &tick);
	if (rc == MDB_NOTFOUND)
		return HM_OK;
	if (rc == MDB_SUCCESS)
		rc = store_lru_remove(store, &name, tick);
	if (rc == MDB_SUCCESS)
		rc = store_lru_append(store, &name);
	return hm_store_fail(store, rc, "cannot write", errbuf);
}

/*
 * Remove an entry with its place in the order. The header of its pages is
 * looked at first, because LMDB frees as many pages as that says.
 */
static int
store_remove(struct hm_store *store, MDB_val *name, bool *removed_out,
    struct hm_errbuf *errbuf)
{
	uint64_t tick = 0, footprint;
	MDB_val value;
	int rc;

	rc = mdb_get(store->txn, store->dbi[DB_ENTRIES], name, &value);
	if (rc == MDB_SUCCESS) {
		footprint = hm_store_check_footprint(name->mv_size,
		    value.mv_size, store->page_bytes);
		if (hm_store_check_is_big(name->mv_size, value.mv_size,
			store->page_bytes) &&
		    !hm_store_check_big_header(value.mv_data, value.mv_size,
			store->map, store->page_bytes))
			return hm_store_damaged(store, "a page header", errbuf);
		rc = mdb_del(store->txn, store->dbi[DB_ENTRIES], name, NULL);
		if (rc != MDB_SUCCESS)
			return hm_store_fail(store, rc, "cannot delete",
			    errbuf);
		store->pending.bytes -= footprint;
		store->pending.entries--;
		*removed_out = true;
	}
	if (rc == MDB_SUCCESS || rc == MDB_NOTFOUND)
		rc = store_tick_of(store, name, &tick);
	if (rc == MDB_SUCCESS)
		rc = store_lru_remove(store, name, tick);
	if (rc == MDB_SUCCESS)
		rc = mdb_del(store->txn, store->dbi[DB_INDEX], name, NULL);
	if (rc == MDB_NOTFOUND)
		rc = MDB_SUCCESS;
	return hm_store_fail(store, rc, "cannot delete", errbuf);
}

/* The oldest key; HM_E_UNAVAILABLE if the order is empty. */
static int
store_oldest(struct hm_store *store, uint64_t *tick_out,
    struct hm_digest *key_out)
{
	MDB_cursor *cursor;
	MDB_val at, value;
	int rc;

	rc = mdb_cursor_open(store->txn, store->dbi[DB_LRU], &cursor);
	if (rc != MDB_SUCCESS)
		return hm_store_error(rc);
	rc = mdb_cursor_get(cursor, &at, &value, MDB_FIRST);
	if (rc == MDB_SUCCESS) {
		*tick_out = hm_store_tick_of_key(&at);
		memcpy(key_out->bytes, value.mv_data, HM_DIGEST_BYTES);
	}
	mdb_cursor_close(cursor);
	return hm_store_error(rc);
}

/* Evict the oldest entry. A place that is not its key's only disappears. */
static int
store_evict_one(struct hm_store *store, struct hm_errbuf *errbuf)
{
	uint8_t bytes[STORE_TICK_BYTES];
	struct hm_digest key;
	MDB_val name, at;
	uint64_t tick = 0, own_tick = 0;
	bool removed = false;
	int error, rc;

	error = store_oldest(store, &tick, &key);
	if (error == HM_E_UNAVAILABLE ||
	    (error == HM_OK && tick >= store->first_put_tick))
		return hm_store_damaged(store, "the order of use", errbuf);
	if (error != HM_OK)
		return hm_store_fail(store, MDB_CORRUPTED, "cannot evict",
		    errbuf);

	name = hm_store_key(&key);
	rc = store_tick_of(store, &name, &own_tick);
	if (rc == MDB_SUCCESS && own_tick == tick) {
		error = store_remove(store, &name, &removed, errbuf);
		store->pending.evicted += removed;
		return error;
	}
	at = store_tick_key(tick, bytes);
	if (rc == MDB_SUCCESS || rc == MDB_NOTFOUND)
		rc = mdb_del(store->txn, store->dbi[DB_LRU], &at, NULL);
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
		if (store->pending.bytes + need <= store_trim_bytes(store) ||
		    store->pending.entries == 0) {
			store->is_trimming = false;
			return HM_OK;
		}
		error = store_evict_one(store, errbuf);
		if (error != HM_OK)
			return error;
	}
	return HM_OK;
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
		error = store_evict_one(store, errbuf);
		if (error != HM_OK)
			return error;
	}
	return store_evict_slice(store, need, errbuf);
}

int
hm_store_put(struct hm_store *store, const struct hm_entry *entry,
    struct hm_errbuf *errbuf)
{
	struct hm_digest key = entry->key;
	MDB_val name = hm_store_key(&key);
	MDB_val value = {.mv_size = hm_value_bytes(entry), .mv_data = NULL};
	uint64_t footprint = hm_store_check_footprint(name.mv_size,
	    value.mv_size, store->page_bytes);
	bool removed = false;
	int error, rc;

	if (footprint > store->cap_bytes / 4) {
		hm_errbuf_set(errbuf,
		    "store %s: an entry of %zu bytes is over a quarter of its "
		    "size",
		    store->dir.path, value.mv_size);
		return HM_E_INVALID;
	}
	error = store_remove(store, &name, &removed, errbuf);
	if (error == HM_OK)
		error = store_make_space(store, footprint, errbuf);
	if (error != HM_OK)
		return error;

	if (store->first_put_tick == UINT64_MAX)
		store->first_put_tick = store->pending.next_tick;
	rc = mdb_put(store->txn, store->dbi[DB_ENTRIES], &name, &value,
	    MDB_RESERVE);
	if (rc == MDB_SUCCESS) {
		hm_value_write(entry, store->pending.next_tick, value.mv_data);
		rc = store_lru_append(store, &name);
	}
	if (rc != MDB_SUCCESS)
		return hm_store_fail(store, rc, "cannot write", errbuf);
	store->pending.bytes += footprint;
	store->pending.entries++;
	return HM_OK;
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
	error = store_remove(store, &name, &deleted, errbuf);
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
		error = store_evict_one(store, errbuf);
	}
	if (error == HM_OK)
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
hm_store_batch_bytes(const struct hm_store *store)
{
	uint64_t bytes = store->cap_bytes / 8;

	return bytes < STORE_MAX_BATCH ? bytes : STORE_MAX_BATCH;
}
