/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_dir.c - see store_dir.h for what is asked of a folder and why.
 *
 * Nothing is created in a folder before it has passed every check, so that a
 * wrong path in the configuration leaves no trace there. Links on the way to
 * the folder are followed (systemd makes /var/cache/NAME one); files inside
 * are not.
 */
#include "cache/store_dir.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/fd.h"

#define DIR_MARK         "store of hummingd\n"
#define DIR_ASIDE_PREFIX HM_STORE_DATA_FILE ".aside-"
#define DIR_MAX_ASIDE    10000u
#define DIR_MODE_OTHERS  (S_IWGRP | S_IWOTH)

/*
 * By linux/magic.h and the file systems' own sources. Shared disks (OCFS2,
 * GFS2) are here too: there a second machine maps the same file.
 */
static const struct {
	unsigned long magic;
	const char *name;
} dir_networks[] = {
    {0x00006969, "NFS"},
    {0x0000517b, "SMB"},
    {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB2"},
    {0x0bd00bd0, "Lustre"},
    {0x47504653, "GPFS"},
    {0x00c36400, "Ceph"},
    {0x65735546, "FUSE"},
    {0x01021997, "9P"},
    {0x5346414f, "AFS"},
    {0x6b414653, "AFS"},
    {0x73757245, "Coda"},
    {0x0000564c, "NCP"},
    {0x19830326, "BeeGFS"},
    {0x20030528, "OrangeFS"},
    {0xaad7aaea, "PanFS"},
    {0x786f4256, "vboxsf"},
    {0x7461636f, "OCFS2"},
    {0x01161970, "GFS2"},
};

const char *
hm_store_dir_network_name(unsigned long magic)
{
	const size_t n = sizeof(dir_networks) / sizeof(dir_networks[0]);

	for (size_t i = 0; i < n; i++) {
		if (dir_networks[i].magic == (magic & 0xffffffffu))
			return dir_networks[i].name;
	}
	return NULL;
}

/* A file system that takes nothing from anybody is none of ours to refuse. */
static int
dir_error_of(int number)
{
	return number == EROFS || number == ENOSPC || number == EDQUOT
		   ? HM_E_UNAVAILABLE
		   : HM_E_SYSTEM;
}

/* mkdir -p with 0700 for whatever was missing; what exists stays as it is. */
static int
dir_create(const char *path, struct hm_errbuf *errbuf)
{
	char partial[PATH_MAX];
	size_t n = strlen(path);

	if (n == 0 || n >= sizeof(partial)) {
		hm_errbuf_set(errbuf, "store: the path is %s",
		    n == 0 ? "empty" : "too long");
		return HM_E_INVALID;
	}
	memcpy(partial, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		if (partial[i] != '/' && partial[i] != '\0')
			continue;
		partial[i] = '\0';
		if (mkdir(partial, 0700) == -1 && errno != EEXIST) {
			hm_errbuf_set(errbuf,
			    "store %s: cannot create the folder %s: %s", path,
			    partial, strerror(errno));
			return errno == ENOTDIR ? HM_E_INVALID
						: dir_error_of(errno);
		}
		if (i < n)
			partial[i] = '/';
	}
	return HM_OK;
}

static int
dir_check_folder(const char *path, int fd, struct hm_errbuf *errbuf)
{
	const char *network;
	struct statfs file_system;
	struct stat status;

	if (fstat(fd, &status) == -1 || fstatfs(fd, &file_system) == -1) {
		hm_errbuf_set(errbuf, "store %s: %s", path, strerror(errno));
		return HM_E_SYSTEM;
	}
	if (status.st_uid != geteuid()) {
		hm_errbuf_set(errbuf,
		    "store %s: not ours: the folder belongs to uid %u and "
		    "this is uid %u",
		    path, status.st_uid, geteuid());
		return HM_E_INVALID;
	}
	if ((status.st_mode & DIR_MODE_OTHERS) != 0) {
		hm_errbuf_set(errbuf,
		    "store %s: not ours alone: the folder's mode is %04o, "
		    "so that others may write to it (chmod 0700)",
		    path, status.st_mode & 07777u);
		return HM_E_INVALID;
	}
	network = hm_store_dir_network_name((unsigned long)file_system.f_type);
	if (network != NULL) {
		hm_errbuf_set(errbuf,
		    "store %s: on a network file system (%s), where a store "
		    "does not keep: set `store` to a folder on a local disk",
		    path, network);
		return HM_E_INVALID;
	}
	return HM_OK;
}

static bool
dir_knows_name(const char *name)
{
	return strcmp(name, HM_STORE_DATA_FILE) == 0 ||
	       strcmp(name, HM_STORE_NEW_FILE) == 0 ||
	       strcmp(name, HM_STORE_TABLE_FILE) == 0 ||
	       strcmp(name, HM_STORE_LOCK_FILE) == 0 ||
	       strncmp(name, DIR_ASIDE_PREFIX, strlen(DIR_ASIDE_PREFIX)) == 0;
}

static int
dir_check_file(const char *path, int fd, const char *name,
    struct hm_errbuf *errbuf)
{
	struct stat status;

	/* The root of an ext file system has this one by itself. */
	if (strcmp(name, "lost+found") == 0)
		return HM_OK;
	if (!dir_knows_name(name)) {
		hm_errbuf_set(errbuf,
		    "store %s: not ours: the folder holds '%s', which is no "
		    "part of a store",
		    path, name);
		return HM_E_INVALID;
	}
	if (fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) == -1) {
		hm_errbuf_set(errbuf, "store %s: %s: %s", path, name,
		    strerror(errno));
		return HM_E_SYSTEM;
	}
	if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
	    (status.st_mode & DIR_MODE_OTHERS) != 0) {
		hm_errbuf_set(errbuf,
		    "store %s: not ours: '%s' is no regular file that only "
		    "uid %u can write",
		    path, name, geteuid());
		return HM_E_INVALID;
	}
	return HM_OK;
}

static int
dir_check_files(const char *path, int fd, struct hm_errbuf *errbuf)
{
	struct dirent *item;
	DIR *list = NULL;
	int error = HM_OK;
	int own_fd;

	own_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (own_fd != -1)
		list = fdopendir(own_fd); /* takes own_fd */
	if (list == NULL) {
		hm_errbuf_set(errbuf, "store %s: %s", path, strerror(errno));
		hm_fd_close(&own_fd);
		return HM_E_SYSTEM;
	}
	/* One thread reads this stream, which is all that readdir asks. */
	while (error == HM_OK && (item = readdir(list)) != NULL) {
		if (strcmp(item->d_name, ".") != 0 &&
		    strcmp(item->d_name, "..") != 0)
			error = dir_check_file(path, fd, item->d_name, errbuf);
	}
	closedir(list);
	return error;
}

static bool
dir_has_mark(int lock_fd)
{
	char text[sizeof(DIR_MARK)] = "";

	return pread(lock_fd, text, sizeof(text) - 1, 0) ==
		   (ssize_t)sizeof(text) - 1 &&
	       strcmp(text, DIR_MARK) == 0;
}

static int
dir_lock(const char *path, struct hm_store_dir *dir, struct hm_errbuf *errbuf)
{
	const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
	bool made_lock;
	int lock_fd;

	lock_fd = openat(dir->fd, HM_STORE_LOCK_FILE, flags | O_EXCL, 0600);
	made_lock = lock_fd != -1;
	if (!made_lock && errno == EEXIST)
		lock_fd = openat(dir->fd, HM_STORE_LOCK_FILE, flags, 0600);
	if (lock_fd == -1) {
		hm_errbuf_set(errbuf, "store %s: cannot create its lock: %s",
		    path, strerror(errno));
		return dir_error_of(errno);
	}
	if (flock(lock_fd, LOCK_EX | LOCK_NB) == -1) {
		hm_errbuf_set(errbuf, "store %s: %s", path,
		    errno == EWOULDBLOCK ? "in use by another daemon"
					 : strerror(errno));
		hm_fd_close(&lock_fd);
		return errno == EWOULDBLOCK ? HM_E_BUSY : HM_E_SYSTEM;
	}
	dir->lock_fd = lock_fd;
	dir->made_lock = made_lock;
	dir->is_marked = dir_has_mark(lock_fd);
	return HM_OK;
}

int
hm_store_dir_open(const char *path, struct hm_store_dir *dir_out,
    struct hm_errbuf *errbuf)
{
	struct hm_store_dir dir = {.path = NULL, .fd = -1, .lock_fd = -1};
	int error;

	error = dir_create(path, errbuf);
	if (error != HM_OK)
		return error;
	dir.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir.fd != -1)
		dir.path = realpath(path, NULL);
	if (dir.path == NULL) {
		error = errno == ENOTDIR ? HM_E_INVALID : HM_E_SYSTEM;
		hm_errbuf_set(errbuf, "store %s: %s", path, strerror(errno));
		goto out;
	}
	error = dir_check_folder(path, dir.fd, errbuf);
	if (error == HM_OK)
		error = dir_check_files(path, dir.fd, errbuf);
	if (error == HM_OK)
		error = dir_lock(path, &dir, errbuf);
out:
	if (error == HM_OK)
		*dir_out = dir;
	else
		hm_store_dir_close(&dir);
	return error;
}

void
hm_store_dir_close(struct hm_store_dir *dir)
{
	hm_fd_close(&dir->lock_fd);
	hm_fd_close(&dir->fd);
	free(dir->path);
	dir->path = NULL;
}

int
hm_store_dir_mark(struct hm_store_dir *dir)
{
	if (hm_fd_write_all(dir->lock_fd, DIR_MARK, sizeof(DIR_MARK) - 1) !=
		HM_OK ||
	    fsync(dir->lock_fd) == -1 || fsync(dir->fd) == -1)
		return HM_E_SYSTEM;
	dir->is_marked = true;
	return HM_OK;
}

void
hm_store_dir_retreat(struct hm_store_dir *dir)
{
	if (dir->made_lock)
		(void)unlinkat(dir->fd, HM_STORE_LOCK_FILE, 0);
	hm_store_dir_close(dir);
}

int
hm_store_dir_set_aside(const struct hm_store_dir *dir, char *name_out,
    size_t size)
{
	struct stat status;
	char name[64];

	/* No race between the two calls: the folder is ours and locked. */
	for (unsigned int n = 1; n <= DIR_MAX_ASIDE; n++) {
		(void)snprintf(name, sizeof(name), DIR_ASIDE_PREFIX "%u", n);
		if (fstatat(dir->fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		if (errno != ENOENT ||
		    renameat(dir->fd, HM_STORE_DATA_FILE, dir->fd, name) == -1)
			return HM_E_SYSTEM;
		(void)snprintf(name_out, size, "%s", name);
		return HM_OK;
	}
	errno = EEXIST;
	return HM_E_SYSTEM;
}
