/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_lmdb_care.c - work over the whole store while it serves: checking every
 * value, deleting what is too old, pins, and giving the disk back.
 *
 * All of it is the writer's. A slice is one transaction: it looks first, then
 * deletes, because LMDB's pointers end with the first write. Compaction writes
 * a second file beside the first and checks it page by page before it takes the
 * first one's name; a crash leaves one whole file or the other.
 */
#include "cache/store_lmdb.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cache/store_lmdb_impl.h"
#include "cache/value.h"
#include "proto/fd.h"

#define CARE_SLICE_KEYS    64u        /* deletions in one transaction */
#define CARE_VERIFY_BYTES  (8u << 20) /* of values, about a millisecond */
#define CARE_EXPIRE_ROWS   20000u     /* of the index, about the same */
#define CARE_EXPIRE_MAX_S  60u
#define CARE_CLEAR_KEYS    256u
#define CARE_LEAST_GAIN    (16u << 20) /* for which a file is written anew */
#define CARE_COMPACT_SLACK (1u << 20)

/* What a slice has found. */
struct care_slice {
	struct hm_store_walk *walk; /* borrowed */
	uint64_t n_rows;
	uint64_t n_bytes;
	size_t n_keys;
	struct hm_digest keys[CARE_SLICE_KEYS]; /* to be deleted */
};

/* Looks at one row; false: it was the slice's last. */
typedef bool (*care_look_fn)(struct hm_store *store, struct care_slice *slice,
    const MDB_val *value);

/* Visit rows of a database by key, from where the walk is. LMDB's codes. */
static int
care_scan(struct hm_store *store, enum store_db db, struct care_slice *slice,
    care_look_fn look)
{
	struct hm_store_walk *walk = slice->walk;
	MDB_val name = hm_store_key(&walk->at);
	struct hm_digest before = walk->at;
	MDB_cursor *cursor = NULL;
	MDB_val value;
	int rc;

	rc = mdb_cursor_open(store->txn, store->dbi[db], &cursor);
	if (rc != MDB_SUCCESS)
		return rc;
	rc = mdb_cursor_get(cursor, &name, &value,
	    walk->is_begun ? MDB_SET_RANGE : MDB_FIRST);
	if (rc == MDB_SUCCESS && walk->is_begun &&
	    memcmp(name.mv_data, before.bytes, HM_DIGEST_BYTES) == 0)
		rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT);
	walk->is_begun = true;
	while (rc == MDB_SUCCESS) {
		memcpy(walk->at.bytes, name.mv_data, HM_DIGEST_BYTES);
		slice->n_rows++;
		if (!look(store, slice, &value))
			break;
		rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT);
	}
	mdb_cursor_close(cursor);
	walk->is_done = rc == MDB_NOTFOUND;
	return rc == MDB_NOTFOUND ? MDB_SUCCESS : rc;
}

static int
care_delete(struct hm_store *store, struct care_slice *slice,
    struct hm_errbuf *errbuf)
{
	int error = HM_OK;

	for (size_t i = 0; error == HM_OK && i < slice->n_keys; i++) {
		MDB_val name = hm_store_key(&slice->keys[i]);
		bool removed = false;

		error = hm_store_remove(store, &name, &removed, errbuf);
		slice->walk->n_gone += removed;
	}
	return error;
}

/* ---- verify ---- */

static bool
care_look_at_value(struct hm_store *store, struct care_slice *slice,
    const MDB_val *value)
{
	struct hm_entry_parts parts;
	struct hm_checksum checksum;

	(void)store;
	slice->n_bytes += value->mv_size;
	if (hm_value_parse(value->mv_data, value->mv_size, &slice->walk->at,
		&parts, &checksum) != HM_OK)
		slice->keys[slice->n_keys++] = slice->walk->at;
	return slice->n_keys < CARE_SLICE_KEYS &&
	       slice->n_bytes < CARE_VERIFY_BYTES;
}

int
hm_store_verify(struct hm_store *store, struct hm_store_walk *walk,
    struct hm_errbuf *errbuf)
{
	struct care_slice slice = {.walk = walk};
	int rc = care_scan(store, DB_ENTRIES, &slice, care_look_at_value);

	if (rc != MDB_SUCCESS)
		return hm_store_fail(store, rc, "cannot read", errbuf);
	walk->n_checked += slice.n_rows;
	walk->n_bytes += slice.n_bytes;
	return care_delete(store, &slice, errbuf);
}

/* ---- age ---- */

static bool
care_look_at_age(struct hm_store *store, struct care_slice *slice,
    const MDB_val *value)
{
	struct store_place place;

	memcpy(&place, value->mv_data, sizeof(place));
	if (hm_store_is_expired(&store->rules, &place))
		slice->keys[slice->n_keys++] = slice->walk->at;
	return slice->n_keys < CARE_SLICE_KEYS &&
	       slice->n_rows < CARE_EXPIRE_ROWS;
}

int
hm_store_expire(struct hm_store *store, struct hm_store_walk *walk,
    struct hm_errbuf *errbuf)
{
	struct care_slice slice = {.walk = walk};
	uint64_t n_before = walk->n_gone;
	int error, rc;

	rc = care_scan(store, DB_INDEX, &slice, care_look_at_age);
	if (rc != MDB_SUCCESS)
		return hm_store_fail(store, rc, "cannot read", errbuf);
	walk->n_checked += slice.n_rows;
	error = care_delete(store, &slice, errbuf);
	store->pending.expired += walk->n_gone - n_before;
	return error;
}

bool
hm_store_wants_expire(struct hm_store *store)
{
	struct hm_store_policy policy;
	uint64_t wait_s, now_s;

	(void)pthread_mutex_lock(&store->env_lock);
	policy = store->policy;
	(void)pthread_mutex_unlock(&store->env_lock);
	if (policy.ttl_s == 0)
		return false;
	wait_s = policy.ttl_s / 8;
	if (wait_s == 0 || wait_s > CARE_EXPIRE_MAX_S)
		wait_s = wait_s == 0 ? 1 : CARE_EXPIRE_MAX_S;
	now_s = policy.now_s();
	/* A clock that was set back is no reason to wait. */
	if (now_s >= store->expire_s && now_s - store->expire_s < wait_s)
		return false;
	store->expire_s = now_s;
	return true;
}

/* ---- one key, everything ---- */

int
hm_store_evict(struct hm_store *store, const struct hm_digest *key,
    bool *evicted_out, struct hm_errbuf *errbuf)
{
	int error = hm_store_delete(store, key, false, evicted_out, errbuf);

	if (error == HM_OK)
		store->pending.evicted += *evicted_out;
	return error;
}

int
hm_store_clear(struct hm_store *store, struct hm_store_walk *walk,
    struct hm_errbuf *errbuf)
{
	uint64_t before = store->pending.evicted;
	int error = HM_OK;

	for (unsigned int i = 0; error == HM_OK && i < CARE_CLEAR_KEYS; i++)
		error = hm_store_evict_one(store, HM_STORE_ANY_GROUP, errbuf);
	walk->n_gone += store->pending.evicted - before;
	walk->is_done = error == HM_E_UNAVAILABLE;
	return error == HM_E_UNAVAILABLE ? HM_OK : error;
}

/* ---- pins ---- */

bool
hm_store_is_pinned(struct hm_store *store, const struct hm_digest *key)
{
	struct hm_digest copy = *key;
	MDB_val name = hm_store_key(&copy);
	struct store_place place;

	return hm_store_place_get(store, store->txn, &name, &place) ==
		   MDB_SUCCESS &&
	       place.flags == STORE_PINNED;
}

bool
hm_store_has_pinned(const struct hm_store *store)
{
	return hm_store_group_find(&store->totals, HM_TENANT_PINNED) != NULL;
}

/* May so many bytes more be pinned? The rest must do for everybody. */
static bool
care_has_room(const struct hm_store *store, uint64_t n_bytes)
{
	const struct store_group *pinned =
	    hm_store_group_find(&store->pending, HM_TENANT_PINNED);

	return n_bytes + (pinned == NULL ? 0 : pinned->bytes) <=
	       store->cap_bytes / 2;
}

/* The key's place goes from one group to another. */
static int
care_move(struct hm_store *store, MDB_val *name, struct store_place *place,
    uint64_t n_bytes)
{
	int rc;

	rc = hm_store_place_remove(store, name, place);
	if (rc != MDB_SUCCESS)
		return rc;
	hm_store_group_remove(&store->pending, hm_store_group_of(place),
	    n_bytes);
	place->flags = place->flags == STORE_PINNED ? 0 : STORE_PINNED;
	/* Its tenant may have no row any more. */
	place->tenant = hm_store_tenant_of(&store->pending, place->tenant);
	hm_store_group_add(&store->pending, hm_store_group_of(place), n_bytes);
	return hm_store_place_append(store, name, place);
}

int
hm_store_pin(struct hm_store *store, const struct hm_digest *key,
    bool is_pinned, struct hm_errbuf *errbuf)
{
	struct hm_digest copy = *key;
	MDB_val name = hm_store_key(&copy);
	struct store_place place;
	uint64_t n_bytes;
	MDB_val value;
	int rc;

	rc = mdb_get(store->txn, store->dbi[DB_ENTRIES], &name, &value);
	if (rc == MDB_SUCCESS)
		rc = hm_store_place_get(store, store->txn, &name, &place);
	if (rc == MDB_NOTFOUND) {
		hm_errbuf_set(errbuf, "no kernel is stored under this key");
		return HM_E_UNAVAILABLE;
	}
	if (rc != MDB_SUCCESS)
		return hm_store_fail(store, rc, "cannot read", errbuf);
	if (is_pinned == (place.flags == STORE_PINNED))
		return HM_OK;
	n_bytes = hm_store_check_footprint(name.mv_size, value.mv_size,
	    store->page_bytes);
	if (is_pinned && !care_has_room(store, n_bytes)) {
		hm_errbuf_set(errbuf,
		    "more than half of store.cap would be pinned");
		return HM_E_INVALID;
	}
	rc = care_move(store, &name, &place, n_bytes);
	return hm_store_fail(store, rc, "cannot write", errbuf);
}

/* ---- the disk ---- */

bool
hm_store_wants_compact(struct hm_store *store)
{
	uint64_t file_bytes = atomic_load(&store->n_file_bytes);

	return store->env != NULL && !store->is_trimming &&
	       store->totals.bytes < file_bytes / 2 &&
	       file_bytes - store->totals.bytes >= CARE_LEAST_GAIN;
}

static int
care_check_disk(const struct hm_store *store, struct hm_errbuf *errbuf)
{
	const uint64_t need =
	    store->totals.bytes + store->totals.bytes / 64 + CARE_COMPACT_SLACK;
	struct statvfs disk;

	if (fstatvfs(store->dir.fd, &disk) == 0 &&
	    (uint64_t)disk.f_bavail * disk.f_frsize < need) {
		hm_errbuf_set(errbuf,
		    "store %s: a compact copy needs %llu bytes of free disk",
		    store->dir.path, (unsigned long long)need);
		return HM_E_SYSTEM;
	}
	return HM_OK;
}

/* The live part, durably, under the new name. */
static int
care_copy(struct hm_store *store, struct hm_errbuf *errbuf)
{
	int error, fd, rc;

	(void)unlinkat(store->dir.fd, HM_STORE_NEW_FILE, 0);
	fd = openat(store->dir.fd, HM_STORE_NEW_FILE,
	    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	rc = fd == -1 ? errno : MDB_SUCCESS;
	if (rc == MDB_SUCCESS)
		rc = mdb_env_copyfd2(store->env, fd, MDB_CP_COMPACT);
	if (rc == MDB_SUCCESS && fsync(fd) == -1)
		rc = errno;
	error = hm_store_fail(store, rc, "cannot be copied", errbuf);
	hm_fd_close(&fd);
	return error;
}

/* Whether the copy is a sound store with all that the old one has. */
static int
care_check_copy(struct hm_store *store, struct hm_store_check *check_out,
    struct hm_errbuf *errbuf)
{
	int error =
	    hm_store_read_data(store, HM_STORE_NEW_FILE, check_out, errbuf);

	if (error == HM_OK &&
	    (check_out->n_entries[DB_ENTRIES] != store->totals.entries ||
		check_out->footprint[DB_ENTRIES] != store->totals.bytes ||
		check_out->n_leaked != 0)) {
		hm_errbuf_set(errbuf, "its compact copy is not the same");
		error = HM_E_SYSTEM;
	}
	if (error != HM_OK)
		hm_errbuf_prefix(errbuf, "store %s", store->dir.path);
	return error;
}

int
hm_store_compact(struct hm_store *store, struct hm_errbuf *errbuf)
{
	struct hm_store_check check;
	int error;

	if (store->env == NULL || hm_store_is_cut(store)) {
		hm_errbuf_set(errbuf, "store %s: without a file",
		    store->dir.path);
		return HM_E_SYSTEM;
	}
	error = care_check_disk(store, errbuf);
	if (error != HM_OK)
		return error;
	error = care_copy(store, errbuf);
	if (error == HM_OK)
		error = care_check_copy(store, &check, errbuf);
	if (error == HM_OK)
		return hm_store_swap(store, HM_STORE_NEW_FILE, &check, errbuf);
	(void)unlinkat(store->dir.fd, HM_STORE_NEW_FILE, 0);
	return HM_E_SYSTEM;
}
