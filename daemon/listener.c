/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listener.c - lock, then bind, then listen.
 */
#include "daemon/listener.h"

#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/activation.h"
#include "proto/fd.h"

/* Clients retry when it is full; the system caps it at somaxconn. */
#define LISTENER_BACKLOG 4096

#define LISTENER_LOCK_BYTES (sizeof(((struct hm_listener *)0)->path) + 8)

void
hm_listener_init(struct hm_listener *listener)
{
	memset(listener, 0, sizeof(*listener));
	listener->fd = -1;
	listener->lock_fd = -1;
}

static int
listener_refuse(struct hm_errbuf *errbuf, const char *path)
{
	hm_errbuf_set(errbuf, "%s: %s", path, strerror(errno));
	return HM_E_SYSTEM;
}

/* What is there, if anything, must be a socket. */
static int
listener_check_kind(const struct hm_listener *listener,
    struct hm_errbuf *errbuf)
{
	struct stat status;

	if (lstat(listener->path, &status) != 0)
		return errno == ENOENT || errno == ENOTDIR
			   ? HM_OK
			   : listener_refuse(errbuf, listener->path);
	if (S_ISSOCK(status.st_mode))
		return HM_OK;
	hm_errbuf_set(errbuf, "%s: is there and is no socket", listener->path);
	return HM_E_INVALID;
}

int
hm_listener_adopt(struct hm_listener *listener, char *path_out, size_t size,
    struct hm_errbuf *errbuf)
{
	char path[sizeof(listener->path)] = "";
	int error;

	error = hm_activation_take(path, sizeof(path), &listener->fd, errbuf);
	if (error != HM_OK || listener->fd == -1)
		return error;
	listener->is_adopted = true;
	(void)snprintf(listener->path, sizeof(listener->path), "%s", path);
	(void)snprintf(path_out, size, "%s", path);
	return HM_OK;
}

static void
listener_lock_path(const struct hm_listener *listener,
    char path_out[LISTENER_LOCK_BYTES])
{
	(void)snprintf(path_out, LISTENER_LOCK_BYTES, "%s.lock",
	    listener->path);
}

/* Say who has the lock. Always HM_E_BUSY. */
static int
listener_name_holder(const struct hm_listener *listener, int lock_fd,
    struct hm_errbuf *errbuf)
{
	char pid[32] = "";
	ssize_t length = pread(lock_fd, pid, sizeof(pid) - 1, 0);

	pid[length > 0 ? strcspn(pid, "\n") : 0] = '\0';
	hm_errbuf_set(errbuf, "%s: another hummingd serves it%s%s",
	    listener->path, pid[0] == '\0' ? "" : ", pid ", pid);
	return HM_E_BUSY;
}

/*
 * Open and lock the file once. HM_E_UNAVAILABLE: it was locked after another
 * daemon, whose start was refused, had taken its name away.
 */
static int
listener_try_lock(struct hm_listener *listener, const char *path,
    struct hm_errbuf *errbuf)
{
	const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
	int fd = open(path, flags | O_EXCL, 0600);
	bool is_new = fd != -1;
	struct stat status;
	int error = HM_OK;

	if (fd == -1 && errno == EEXIST)
		fd = open(path, flags, 0600);
	if (fd == -1)
		return listener_refuse(errbuf, path);
	if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		error = errno == EWOULDBLOCK
			    ? listener_name_holder(listener, fd, errbuf)
			    : listener_refuse(errbuf, path);
	else if (fstat(fd, &status) != 0)
		error = listener_refuse(errbuf, path);
	else if (status.st_nlink == 0)
		error = HM_E_UNAVAILABLE;
	if (error != HM_OK) {
		hm_fd_close(&fd);
		return error;
	}
	listener->lock_fd = fd;
	listener->made_lock = is_new;
	return HM_OK;
}

int
hm_listener_lock(struct hm_listener *listener, const char *socket_path,
    struct hm_errbuf *errbuf)
{
	char path[LISTENER_LOCK_BYTES];
	char pid[32] = "";
	ssize_t length;
	int error;

	(void)snprintf(listener->path, sizeof(listener->path), "%s",
	    socket_path);
	/* Before a lock is left beside somebody's file. */
	error = listener_check_kind(listener, errbuf);
	if (error != HM_OK)
		return error;
	listener_lock_path(listener, path);
	do
		error = listener_try_lock(listener, path, errbuf);
	while (error == HM_E_UNAVAILABLE);
	if (error != HM_OK)
		return error;
	/* For listener_name_holder only: a full disk is no reason. */
	if (ftruncate(listener->lock_fd, 0) == 0) {
		(void)snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
		length = pwrite(listener->lock_fd, pid, strlen(pid), 0);
		(void)length;
	}
	return HM_OK;
}

/* Whether anybody listens there, of whatever kind. */
static bool
listener_is_alive(const struct hm_listener *listener)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	bool is_alive;
	int fd;

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s",
	    listener->path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	is_alive = fd != -1 && (connect(fd, (const struct sockaddr *)&address,
				    sizeof(address)) == 0 ||
				   errno == EAGAIN || errno == EPROTOTYPE);
	hm_fd_close(&fd);
	return is_alive;
}

/* We have the lock, so that no hummingd is behind a socket that is there; but
 * a service manager may be, which has none. */
static int
listener_remove_stale(const struct hm_listener *listener,
    struct hm_errbuf *errbuf)
{
	int error = listener_check_kind(listener, errbuf);

	if (error != HM_OK || access(listener->path, F_OK) != 0)
		return error;
	if (listener_is_alive(listener)) {
		hm_errbuf_set(errbuf,
		    "%s: another program listens there (hummingd.socket of "
		    "systemd?)",
		    listener->path);
		return HM_E_BUSY;
	}
	if (unlink(listener->path) != 0)
		return listener_refuse(errbuf, listener->path);
	return HM_OK;
}

static int
listener_bind(struct hm_listener *listener, mode_t mode,
    struct hm_errbuf *errbuf)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	mode_t old_mask;
	int result;

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s",
	    listener->path);
	listener->fd =
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd == -1)
		return listener_refuse(errbuf, listener->path);
	/* Closed to others until it has its own mode. */
	old_mask = umask(0177);
	result = bind(listener->fd, (const struct sockaddr *)&address,
	    sizeof(address));
	(void)umask(old_mask);
	if (result != 0) {
		/* The name is not ours to remove. */
		hm_fd_close(&listener->fd);
		return listener_refuse(errbuf, listener->path);
	}
	if (chmod(listener->path, mode) != 0 ||
	    listen(listener->fd, LISTENER_BACKLOG) != 0)
		return listener_refuse(errbuf, listener->path);
	listener->was_open = true;
	return HM_OK;
}

int
hm_listener_open(struct hm_listener *listener, mode_t mode,
    struct hm_errbuf *errbuf)
{
	int error = listener_remove_stale(listener, errbuf);

	if (error == HM_OK)
		error = listener_bind(listener, mode, errbuf);
	return error;
}

void
hm_listener_stop(struct hm_listener *listener)
{
	if (listener->fd == -1)
		return;
	if (!listener->is_adopted)
		(void)unlink(listener->path);
	hm_fd_close(&listener->fd);
}

void
hm_listener_close(struct hm_listener *listener)
{
	char path[LISTENER_LOCK_BYTES];

	hm_listener_stop(listener);
	/* A start that was refused leaves nothing behind. */
	if (listener->lock_fd != -1 && listener->made_lock &&
	    !listener->was_open) {
		listener_lock_path(listener, path);
		(void)unlink(path);
	}
	hm_fd_close(&listener->lock_fd);
}
