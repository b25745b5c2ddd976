/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_lmdb.c - see store_lmdb.h. Four databases in one environment:
 *
 *   entries  key (32)          -> value (value.h)
 *   index    key (32)          -> its place: last use, age, tenant, pinned
 *   lru      group (4), tick (8), big-endian -> key (32); so the first of a
 *                                 group is its oldest
 *   meta     "schema"          -> magic and version of all this
 *            "marker"          -> a counter that makes a commit non-empty
 *
 * This file opens, reads and starts over; store_lmdb_write.c writes,
 * store_lmdb_order.c knows places and groups, store_lmdb_care.c looks after the
 * whole.
 *
 * Locks: env_lock is held by the reader for one call and by the writer only to
 * publish counts and to replace the environment; so a reader never waits for
 * a disk. The environment itself is changed by the writer alone.
 *
 * Never WRITEMAP: a full disk is then an error of pwrite, not a SIGBUS. What
 * LMDB does write through a map, the table of readers, has its blocks first.
 */
#include "cache/store_lmdb.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cache/entry.h"
#include "cache/store_check.h"
#include "cache/store_foreign.h"
#include "cache/store_lmdb_impl.h"
#include "cache/value.h"
#include "proto/fd.h"

#define STORE_SCHEMA_MAGIC   "hm-store"
#define STORE_SCHEMA_VERSION 2u
#define STORE_SLACK_BYTES    (4u << 20)
/* More than LMDB wants for its 126 readers. */
#define STORE_TABLE_BYTES 16384
/* A disk with less than this is full, whatever an error says. */
#define STORE_FULL_BYTES (64u << 10)

static const struct hm_store_check_rule store_rules[N_DBS] = {
    [DB_ENTRIES] = {"entries", HM_DIGEST_BYTES, HM_DIGEST_BYTES,
	HM_VALUE_HEADER_BYTES, 3 * HM_ENTRY_MAX_BYTES},
    [DB_INDEX] = {"index", HM_DIGEST_BYTES, HM_DIGEST_BYTES,
	sizeof(struct store_place), sizeof(struct store_place)},
    [DB_LRU] = {"lru", STORE_AT_BYTES, STORE_AT_BYTES, HM_DIGEST_BYTES,
	HM_DIGEST_BYTES},
    [DB_META] = {"meta", 1, 16, 8, 64},
};

struct store_schema {
	char magic[8];
	uint32_t version;
	uint32_t reserved;
};

/* ---- errors ---- */

int
hm_store_error(int rc)
{
	switch (rc) {
	case MDB_SUCCESS:
		return HM_OK;
	case MDB_NOTFOUND:
		return HM_E_UNAVAILABLE;
	case MDB_MAP_FULL:
	case MDB_TXN_FULL:
		return HM_E_BUSY;
	case MDB_INVALID:
	case MDB_CORRUPTED:
	case MDB_PAGE_NOTFOUND:
	case MDB_CURSOR_FULL:
	case MDB_PAGE_FULL:
	case MDB_INCOMPATIBLE:
		return HM_E_CORRUPT;
	case MDB_VERSION_MISMATCH:
		return HM_E_VERSION;
	case ENOMEM:
		return HM_E_NOMEM;
	}
	if (rc > 0)
		errno = rc;
	return HM_E_SYSTEM;
}

bool
hm_store_is_disk_full(const struct hm_store *store)
{
	struct statvfs disk;

	return fstatvfs(store->dir.fd, &disk) == 0 &&
	       (uint64_t)disk.f_bavail * disk.f_frsize < STORE_FULL_BYTES;
}

int
hm_store_fail(const struct hm_store *store, int rc, const char *what,
    struct hm_errbuf *errbuf)
{
	/* LMDB makes a write that was cut short an I/O error. */
	if (rc == EIO && hm_store_is_disk_full(store))
		rc = ENOSPC;
	if (rc != MDB_SUCCESS)
		hm_errbuf_set(errbuf, "store %s: %s: %s", store->dir.path, what,
		    mdb_strerror(rc));
	return hm_store_error(rc);
}

int
hm_store_damaged(const struct hm_store *store, const char *what,
    struct hm_errbuf *errbuf)
{
	hm_errbuf_set(errbuf, "store %s: damaged: %s", store->dir.path, what);
	return HM_E_CORRUPT;
}

/* ---- the size of the file ---- */

bool
hm_store_is_cut(const struct hm_store *store)
{
	uint64_t least = atomic_load(&store->n_file_bytes);
	struct stat status;

	return fstat(store->data_fd, &status) == 0 &&
	       (uint64_t)status.st_size < least;
}

void
hm_store_note_size(struct hm_store *store)
{
	struct stat status;

	if (fstat(store->data_fd, &status) == 0)
		atomic_store(&store->n_file_bytes, (uint64_t)status.st_size);
}

/* The reader's transaction, renewed; the lock is held. */
static bool
store_renew(struct hm_store *store)
{
	return store->env != NULL && !hm_store_is_cut(store) &&
	       mdb_txn_renew(store->reader) == MDB_SUCCESS;
}

/* ---- keys ---- */

MDB_val
hm_store_key(struct hm_digest *key)
{
	return (MDB_val){.mv_size = sizeof(key->bytes), .mv_data = key->bytes};
}

/* ---- opening ---- */

/* Look at the file before LMDB does. A missing one is new. Without the path
 * in errbuf, unless it cannot be opened at all. */
int
hm_store_read_data(struct hm_store *store, const char *name,
    struct hm_store_check *check_out, struct hm_errbuf *errbuf)
{
	int error, fd;

	fd = openat(store->dir.fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1 && errno == ENOENT) {
		memset(check_out, 0, sizeof(*check_out));
		check_out->is_new = true;
		return HM_OK;
	}
	if (fd == -1) {
		hm_errbuf_set(errbuf, "cannot open its data: %s",
		    strerror(errno));
		return HM_E_SYSTEM;
	}
	error = hm_store_check_file(fd, store_rules, N_DBS, check_out, errbuf);
	hm_fd_close(&fd);
	return error;
}

static int
store_check_data(struct hm_store *store, struct hm_store_check *check_out,
    struct hm_errbuf *errbuf)
{
	int error =
	    hm_store_read_data(store, HM_STORE_DATA_FILE, check_out, errbuf);

	if (error != HM_OK)
		hm_errbuf_prefix(errbuf, "store %s", store->dir.path);
	return error;
}

/* A database of another program is neither ours to use nor to move. */
static int
store_refuse_foreign(struct hm_store *store, struct hm_errbuf *errbuf)
{
	const char *names[N_DBS];
	bool is_foreign;
	int fd;

	for (size_t i = 0; i < N_DBS; i++)
		names[i] = store_rules[i].name;

	fd = openat(store->dir.fd, HM_STORE_DATA_FILE,
	    O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1)
		return HM_OK; /* not there; or hm_store_load says why */
	is_foreign = hm_store_is_foreign(fd, names, N_DBS);
	hm_fd_close(&fd);
	if (!is_foreign)
		return HM_OK;
	hm_errbuf_set(errbuf,
	    "store %s: " HM_STORE_DATA_FILE
	    " is a database of another program; name a folder of its own",
	    store->dir.path);
	return HM_E_INVALID;
}

/* In a folder without our mark: is the file one of ours all the same? It must
 * be sound, and hold what the first transaction of a store writes. */
static int
store_check_unmarked(struct hm_store *store, struct hm_errbuf *errbuf)
{
	struct hm_store_check check = {.is_new = false};
	struct hm_errbuf why = {""};
	int error = hm_store_read_data(store, HM_STORE_DATA_FILE, &check, &why);

	if (error == HM_OK && !check.is_new && check.n_entries[DB_META] == 0) {
		hm_errbuf_set(&why, "an empty database");
		error = HM_E_VERSION;
	}
	if (error == HM_OK)
		return HM_OK;
	hm_errbuf_set(errbuf, "store %s: %s", store->dir.path, why.text);
	if (error != HM_E_CORRUPT && error != HM_E_VERSION)
		return error;
	hm_errbuf_set(errbuf,
	    "store %s: not ours: hummingd did not make the " HM_STORE_DATA_FILE
	    " in it (%s); name another folder",
	    store->dir.path, why.text);
	return HM_E_INVALID;
}

/* What another program put there is neither ours to use nor to move. */
static int
store_claim(struct hm_store *store, struct hm_errbuf *errbuf)
{
	int error = store_refuse_foreign(store, errbuf);

	if (error != HM_OK || store->dir.is_marked)
		return error;
	return store_check_unmarked(store, errbuf);
}

/*
 * The cap is 80 % of the map. A store that was left larger than its new cap
 * has no free page: it needs some beyond its file to delete anything at all.
 */
static size_t
store_map_bytes(const struct hm_store *store,
    const struct hm_store_check *check)
{
	uint64_t map_bytes = store->cap_bytes + store->cap_bytes / 4;
	uint64_t file_bytes = check->n_pages * store->page_bytes;
	uint64_t least_bytes = file_bytes + file_bytes / 8 + STORE_SLACK_BYTES;

	if (check->footprint[DB_ENTRIES] > store->cap_bytes &&
	    map_bytes < least_bytes)
		map_bytes = least_bytes;
	return (size_t)(map_bytes - map_bytes % store->page_bytes);
}

/*
 * LMDB's table of readers, made anew: those in it were a dead daemon's, and
 * under our lock nobody else has any. LMDB would make the file with a hole and
 * then write to its mapping, which a full disk answers with SIGBUS; it takes
 * one that is large enough as it is.
 */
static int
store_table_create(const struct hm_store *store)
{
	int fd, rc;

	(void)unlinkat(store->dir.fd, HM_STORE_TABLE_FILE, 0);
	fd = openat(store->dir.fd, HM_STORE_TABLE_FILE,
	    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd == -1)
		return errno;
	rc = posix_fallocate(fd, 0, STORE_TABLE_BYTES);
	hm_fd_close(&fd);
	if (rc != 0) /* a later LMDB must not find half of it */
		(void)unlinkat(store->dir.fd, HM_STORE_TABLE_FILE, 0);
	return rc;
}

static int
store_env_create(struct hm_store *store, const struct hm_store_check *check,
    struct hm_errbuf *errbuf)
{
	int dead = 0, fd = -1;
	int rc;

	if (!store->dir.is_marked && hm_store_dir_mark(&store->dir) != HM_OK)
		return hm_store_fail(store, errno, "cannot open", errbuf);
	rc = store_table_create(store);
	if (rc != 0)
		return hm_store_fail(store, rc, "cannot open", errbuf);
	rc = mdb_env_create(&store->env);
	if (rc != MDB_SUCCESS) {
		store->env = NULL;
		return hm_store_fail(store, rc, "cannot open", errbuf);
	}
	rc = mdb_env_set_mapsize(store->env, store_map_bytes(store, check));
	if (rc == MDB_SUCCESS)
		rc = mdb_env_set_maxdbs(store->env, N_DBS);
	if (rc == MDB_SUCCESS)
		rc = mdb_env_open(store->env, store->dir.path,
		    MDB_NOTLS | MDB_NORDAHEAD, 0600);
	if (rc == MDB_SUCCESS)
		rc = mdb_reader_check(store->env, &dead);
	/* LMDB leaves this one open across exec, on purpose; we do not. */
	if (rc == MDB_SUCCESS)
		rc = mdb_env_get_fd(store->env, &fd);
	if (rc == MDB_SUCCESS && fcntl(fd, F_SETFD, FD_CLOEXEC) == -1)
		rc = errno;
	store->data_fd = fd;
	return hm_store_fail(store, rc, "cannot open", errbuf);
}

static MDB_val
store_schema_key(void)
{
	static char name[] = "schema"; /* LMDB's keys are not const */

	return (MDB_val){.mv_size = sizeof(name) - 1, .mv_data = name};
}

/* The schema record decides whether the rest is read at all. */
static int
store_schema_check(struct hm_store *store, MDB_txn *txn, bool is_empty,
    struct hm_errbuf *errbuf)
{
	struct store_schema schema = {STORE_SCHEMA_MAGIC, STORE_SCHEMA_VERSION,
	    0};
	MDB_val key = store_schema_key();
	MDB_val value;
	int rc;

	rc = mdb_get(txn, store->dbi[DB_META], &key, &value);
	if (rc == MDB_NOTFOUND && is_empty) {
		value.mv_size = sizeof(schema);
		value.mv_data = &schema;
		rc = mdb_put(txn, store->dbi[DB_META], &key, &value, 0);
		return hm_store_fail(store, rc, "cannot create", errbuf);
	}
	if (rc != MDB_SUCCESS && rc != MDB_NOTFOUND)
		return hm_store_fail(store, rc, "cannot read", errbuf);
	if (rc == MDB_NOTFOUND || value.mv_size != sizeof(schema) ||
	    memcmp(value.mv_data, &schema, sizeof(schema)) != 0) {
		hm_errbuf_set(errbuf, "store %s: of another version",
		    store->dir.path);
		return HM_E_VERSION;
	}
	return HM_OK;
}

/* The reader's one transaction, which is renewed for each call. */
static int
store_reader_open(struct hm_store *store)
{
	MDB_val key = store_schema_key();
	MDB_val value;
	int rc;

	rc = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &store->reader);
	if (rc != MDB_SUCCESS)
		return rc;
	rc = mdb_get(store->reader, store->dbi[DB_META], &key, &value);
	if (rc == MDB_SUCCESS)
		store->map =
		    hm_store_check_map_of(value.mv_data, store->page_bytes);
	mdb_txn_reset(store->reader);
	return rc;
}

/* Database handles live on only if their transaction commits. */
static int
store_dbs_open(struct hm_store *store, const struct hm_store_check *check,
    struct hm_errbuf *errbuf)
{
	struct store_totals counted = {.evicted = store->totals.evicted,
	    .over_quota = store->totals.over_quota,
	    .expired = store->totals.expired};
	MDB_txn *txn = NULL;
	int error = HM_OK;
	int rc;

	rc = mdb_txn_begin(store->env, NULL, 0, &txn);
	for (int i = 0; rc == MDB_SUCCESS && i < N_DBS; i++)
		rc = mdb_dbi_open(txn, store_rules[i].name, MDB_CREATE,
		    &store->dbi[i]);
	if (rc != MDB_SUCCESS)
		error = hm_store_fail(store, rc, "cannot create", errbuf);
	if (error == HM_OK)
		error = store_schema_check(store, txn,
		    check->n_entries[DB_ENTRIES] == 0, errbuf);
	if (error == HM_OK)
		error = hm_store_count(store, txn, &counted, errbuf);
	if (error != HM_OK) {
		mdb_txn_abort(txn);
		return error;
	}
	rc = mdb_txn_commit(txn);
	if (rc == MDB_SUCCESS)
		rc = store_reader_open(store);
	if (rc != MDB_SUCCESS)
		return hm_store_fail(store, rc, "cannot create", errbuf);
	hm_store_note_size(store);

	/* Counted from the trees, so that they cannot drift. */
	store->totals = counted;
	store->is_trimming = store->totals.bytes > store->cap_bytes;
	return HM_OK;
}

static void
store_env_close(struct hm_store *store)
{
	if (store->reader != NULL)
		mdb_txn_abort(store->reader);
	store->reader = NULL;
	if (store->env != NULL)
		mdb_env_close(store->env);
	store->env = NULL;
	store->totals.bytes = 0;
	store->totals.entries = 0;
	store->totals.n_groups = 0;
	store->is_trimming = false;
}

/* Open a file that was checked. */
static int
store_env_use(struct hm_store *store, const struct hm_store_check *check,
    struct hm_errbuf *errbuf)
{
	int error;

	/* A file keeps the page size of the machine that made it. */
	store->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	if (!check->is_new && check->page_bytes > store->page_bytes) {
		hm_errbuf_set(errbuf,
		    "store %s: of a machine with larger pages",
		    store->dir.path);
		return HM_E_VERSION;
	}
	if (!check->is_new)
		store->page_bytes = check->page_bytes;
	error = store_env_create(store, check, errbuf);
	if (error == HM_OK)
		error = store_dbs_open(store, check, errbuf);
	if (error != HM_OK)
		store_env_close(store);
	return error;
}

static int
store_env_try(struct hm_store *store, struct hm_errbuf *errbuf)
{
	struct hm_store_check check = {.is_new = false};
	int error;

	error = store_check_data(store, &check, errbuf);
	return error != HM_OK ? error : store_env_use(store, &check, errbuf);
}

static int
store_set_aside(struct hm_store *store, const char *why,
    struct hm_errbuf *errbuf)
{
	char name[64];

	if (hm_store_dir_set_aside(&store->dir, name, sizeof(name)) != HM_OK)
		return hm_store_fail(store, errno, "cannot be set aside",
		    errbuf);
	(void)snprintf(store->notice, sizeof(store->notice),
	    "%.160s; kept as %s, a new store begins", why, name);
	return HM_OK;
}

/* An unusable file makes way, once. */
static int
store_env_open(struct hm_store *store, struct hm_errbuf *errbuf)
{
	struct hm_errbuf why = {""};
	int error;

	error = store_env_try(store, &why);
	if (error == HM_E_CORRUPT || error == HM_E_VERSION) {
		error = store_set_aside(store, why.text, errbuf);
		return error != HM_OK ? error : store_env_try(store, errbuf);
	}
	if (error != HM_OK)
		hm_errbuf_set(errbuf, "%s", why.text);
	return error;
}

static uint64_t
store_now_s(void)
{
	return (uint64_t)time(NULL);
}

int
hm_store_prepare(const char *directory, uint64_t cap_bytes,
    struct hm_store **store_out, struct hm_errbuf *errbuf)
{
	struct hm_store *store;
	int error;

	if (cap_bytes < HM_STORE_MIN_CAP_BYTES || cap_bytes > SIZE_MAX / 4) {
		hm_errbuf_set(errbuf,
		    "store %s: a size of %llu bytes is not between 1 MiB and "
		    "what can be mapped",
		    directory, (unsigned long long)cap_bytes);
		return HM_E_INVALID;
	}
	store = calloc(1, sizeof(*store));
	if (store == NULL)
		return HM_E_NOMEM;
	store->cap_bytes = cap_bytes;
	store->policy.now_s = store_now_s;
	error = hm_store_dir_open(directory, &store->dir, errbuf);
	if (error != HM_OK) {
		free(store);
		return error;
	}
	(void)pthread_mutex_init(&store->env_lock, NULL);
	error = store_claim(store, errbuf);
	if (error != HM_OK) {
		hm_store_dir_retreat(&store->dir);
		(void)pthread_mutex_destroy(&store->env_lock);
		free(store);
		return error;
	}
	*store_out = store;
	return HM_OK;
}

int
hm_store_load(struct hm_store *store, struct hm_errbuf *errbuf)
{
	int error;

	/* What a compaction left that did not come to its end. */
	if (store->dir.is_marked)
		(void)unlinkat(store->dir.fd, HM_STORE_NEW_FILE, 0);
	(void)pthread_mutex_lock(&store->env_lock);
	error = store_env_open(store, errbuf);
	(void)pthread_mutex_unlock(&store->env_lock);
	return error == HM_OK || error == HM_E_NOMEM ? error : HM_E_SYSTEM;
}

int
hm_store_open(const char *directory, uint64_t cap_bytes,
    struct hm_store **store_out, struct hm_errbuf *errbuf)
{
	struct hm_store *store = NULL;
	int error;

	error = hm_store_prepare(directory, cap_bytes, &store, errbuf);
	if (error == HM_OK)
		error = hm_store_load(store, errbuf);
	if (error != HM_OK) {
		hm_store_close(store);
		return error;
	}
	*store_out = store;
	return HM_OK;
}

void
hm_store_close(struct hm_store *store)
{
	if (store == NULL)
		return;
	hm_store_abort(store);
	store_env_close(store);
	hm_store_dir_close(&store->dir); /* the lock goes last */
	(void)pthread_mutex_destroy(&store->env_lock);
	free(store);
}

/* ---- the reader's side ---- */

static int
store_value_to_entry(const struct hm_digest *key, const MDB_val *value,
    const struct store_place *place, struct hm_entry **entry_out)
{
	struct hm_entry_parts parts;
	struct hm_checksum checksum;
	int error;

	error = hm_value_parse(value->mv_data, value->mv_size, key, &parts,
	    &checksum);
	if (error != HM_OK)
		return error;
	parts.tenant = place->tenant;
	parts.born_s =
	    place->flags == STORE_PINNED ? HM_ENTRY_AGELESS : place->born_s;
	error = hm_entry_new_checked(key, &parts, &checksum, entry_out);
	return error == HM_E_INVALID ? HM_E_CORRUPT : error;
}

int
hm_store_find(struct hm_store *store, const struct hm_digest *key,
    struct hm_entry **entry_out)
{
	struct hm_digest copy = *key; /* LMDB's keys are not const */
	MDB_val name = hm_store_key(&copy);
	struct store_place place = {.tenant = HM_TENANT_SHARED};
	MDB_val value;
	int error = HM_E_UNAVAILABLE;

	(void)pthread_mutex_lock(&store->env_lock);
	if (store_renew(store)) {
		error = hm_store_error(mdb_get(store->reader,
		    store->dbi[DB_ENTRIES], &name, &value));
		/* One without a place is as old as it is now. */
		if (error == HM_OK)
			(void)hm_store_place_get(store, store->reader, &name,
			    &place);
		if (error == HM_OK && place.tick != 0 &&
		    hm_store_is_expired(&store->policy, &place))
			error = HM_E_UNAVAILABLE;
		if (error == HM_OK)
			error = store_value_to_entry(key, &value, &place,
			    entry_out);
		mdb_txn_reset(store->reader);
	}
	(void)pthread_mutex_unlock(&store->env_lock);
	return error;
}

bool
hm_store_has(struct hm_store *store, const struct hm_digest *key)
{
	struct hm_digest copy = *key;
	MDB_val name = hm_store_key(&copy);
	MDB_val value;
	bool has = false;

	(void)pthread_mutex_lock(&store->env_lock);
	if (store_renew(store)) {
		has = mdb_get(store->reader, store->dbi[DB_ENTRIES], &name,
			  &value) == MDB_SUCCESS;
		mdb_txn_reset(store->reader);
	}
	(void)pthread_mutex_unlock(&store->env_lock);
	return has;
}

/* One step of each_record; false ends it. */
static bool
store_visit(const MDB_val *name, const MDB_val *value, hm_cache_record_fn each,
    void *arg)
{
	struct hm_entry_parts parts;
	struct hm_checksum checksum;
	struct hm_digest key;

	memcpy(key.bytes, name->mv_data, sizeof(key.bytes));
	if (hm_value_parse_head(value->mv_data, value->mv_size, &key, &parts,
		&checksum) != HM_OK)
		return true;
	return each(&key, parts.record, parts.n_record, arg);
}

int
hm_store_each_record(struct hm_store *store, hm_cache_record_fn each, void *arg)
{
	MDB_cursor *cursor = NULL;
	MDB_val name, value;
	int rc = MDB_NOTFOUND;

	(void)pthread_mutex_lock(&store->env_lock);
	if (!store_renew(store)) {
		rc = store->env == NULL ? MDB_NOTFOUND : EIO;
		goto out;
	}
	rc = mdb_cursor_open(store->reader, store->dbi[DB_ENTRIES], &cursor);
	if (rc == MDB_SUCCESS)
		rc = mdb_cursor_get(cursor, &name, &value, MDB_FIRST);
	while (rc == MDB_SUCCESS && store_visit(&name, &value, each, arg))
		rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT);
	if (cursor != NULL)
		mdb_cursor_close(cursor);
	mdb_txn_reset(store->reader);
out:
	(void)pthread_mutex_unlock(&store->env_lock);
	return rc == MDB_SUCCESS || rc == MDB_NOTFOUND ? HM_OK : HM_E_SYSTEM;
}

/* ---- new starts ---- */

int
hm_store_restart(struct hm_store *store, enum hm_store_restart how,
    struct hm_errbuf *errbuf)
{
	struct hm_errbuf why = {""};
	uint64_t n_entries;
	int error = HM_OK;

	if (errbuf != NULL)
		why = *errbuf;
	hm_store_abort(store);
	(void)pthread_mutex_lock(&store->env_lock);
	n_entries = store->totals.entries;
	store_env_close(store);
	switch (how) {
	case HM_STORE_REOPEN:
		break;
	case HM_STORE_SET_ASIDE:
		error = store_set_aside(store, why.text, errbuf);
		break;
	case HM_STORE_ERASE:
		store->totals.evicted += n_entries;
		if (unlinkat(store->dir.fd, HM_STORE_DATA_FILE, 0) == -1 &&
		    errno != ENOENT)
			error =
			    hm_store_fail(store, errno, "cannot erase", errbuf);
		break;
	}
	if (error == HM_OK)
		error = store_env_open(store, errbuf);
	(void)pthread_mutex_unlock(&store->env_lock);
	return error;
}

int
hm_store_swap(struct hm_store *store, const char *name,
    const struct hm_store_check *check, struct hm_errbuf *errbuf)
{
	int error = HM_OK;

	(void)pthread_mutex_lock(&store->env_lock);
	store_env_close(store);
	if (renameat(store->dir.fd, name, store->dir.fd, HM_STORE_DATA_FILE) ==
		-1 ||
	    fsync(store->dir.fd) == -1)
		error = hm_store_fail(store, errno, "cannot exchange its file",
		    errbuf);
	/* Whichever file has the name now is a whole one. */
	if (error == HM_OK)
		error = store_env_use(store, check, errbuf);
	else
		(void)store_env_open(store, NULL);
	(void)pthread_mutex_unlock(&store->env_lock);
	return error;
}
