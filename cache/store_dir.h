/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_dir.h - the folder of a store: is it ours, and ours alone.
 *
 * A store is believed because nobody else could have written it. So the folder
 * must belong to this very uid, be writable by nobody else, lie on a local
 * file system and hold nothing but a store; and it is locked while in use.
 *
 * The lock's file is also the folder's mark: its text says that we made what
 * lies beside it, so that whatever a power cut left of that may be moved. A
 * data file in a folder without the mark may be another program's.
 */
#ifndef HM_CACHE_STORE_DIR_H
#define HM_CACHE_STORE_DIR_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/error.h"

#define HM_STORE_DATA_FILE  "data.mdb"
#define HM_STORE_NEW_FILE   "data.mdb.new" /* a copy that is being made */
#define HM_STORE_TABLE_FILE "lock.mdb"     /* LMDB's table of readers */
#define HM_STORE_LOCK_FILE  "lock"         /* ours: one daemon a store */

struct hm_store_dir {
	char *path; /* absolute, without links; owned */
	int fd;     /* the folder; owned */
	int lock_fd;
	bool is_marked; /* the mark was there, or has been made */
	bool made_lock; /* its file was not there before */
};

/**
 * Create (0700, parents too) or check a folder, and lock it.
 *
 * dir_out   filled on success; give it back with hm_store_dir_close
 *
 * Returns HM_OK; HM_E_INVALID when the folder cannot be ours; HM_E_BUSY when
 * another daemon holds it; HM_E_UNAVAILABLE when its file system takes nothing
 * (read-only, full); HM_E_NOMEM; HM_E_SYSTEM. errbuf gets one line that names
 * the path and the reason.
 */
int hm_store_dir_open(const char *path, struct hm_store_dir *dir_out,
    struct hm_errbuf *errbuf);
void hm_store_dir_close(struct hm_store_dir *dir);

/* Make the mark, durably: before the first byte of data. HM_OK or
 * HM_E_SYSTEM, errno kept. */
int hm_store_dir_mark(struct hm_store_dir *dir);

/* Close, and leave nothing behind in a folder that turned out not to be ours:
 * no lock that was not there before. */
void hm_store_dir_retreat(struct hm_store_dir *dir);

/**
 * Rename the data file to the first free "data.mdb.aside-<n>".
 *
 * name_out   gets that name (of size bytes)
 *
 * Returns HM_OK or HM_E_SYSTEM.
 */
int hm_store_dir_set_aside(const struct hm_store_dir *dir, char *name_out,
    size_t size);

/* The name of a network file system by its statfs magic; NULL if local. */
const char *hm_store_dir_network_name(unsigned long magic);

#endif
