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

int
hm_listener_lock(struct hm_listener *listener, const char *socket_path,
    struct hm_errbuf *errbuf)
{
	char path[sizeof(listener->path) + 8];
	char pid[32] = "";
	ssize_t length;

	(void)snprintf(listener->path, sizeof(listener->path), "%s",
	    socket_path);
	(void)snprintf(path, sizeof(path), "%s.lock", listener->path);
	listener->lock_fd =
	    open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (listener->lock_fd == -1)
		return listener_refuse(errbuf, path);
	if (flock(listener->lock_fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK)
			return listener_refuse(errbuf, path);
		length = pread(listener->lock_fd, pid, sizeof(pid) - 1, 0);
		pid[length > 0 ? strcspn(pid, "\n") : 0] = '\0';
		hm_errbuf_set(errbuf, "%s: another hummingd serves it%s%s",
		    listener->path, pid[0] == '\0' ? "" : ", pid ", pid);
		return HM_E_BUSY;
	}
	length = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
	/* For the message above only. */
	if (ftruncate(listener->lock_fd, 0) != 0 ||
	    pwrite(listener->lock_fd, pid, (size_t)length, 0) != length)
		return listener_refuse(errbuf, path);
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
	struct stat status;

	if (lstat(listener->path, &status) != 0)
		return errno == ENOENT
			   ? HM_OK
			   : listener_refuse(errbuf, listener->path);
	if (!S_ISSOCK(status.st_mode)) {
		hm_errbuf_set(errbuf, "%s: is there and is no socket",
		    listener->path);
		return HM_E_INVALID;
	}
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
	if (result != 0 || chmod(listener->path, mode) != 0 ||
	    listen(listener->fd, LISTENER_BACKLOG) != 0)
		return listener_refuse(errbuf, listener->path);
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
	hm_listener_stop(listener);
	hm_fd_close(&listener->lock_fd);
}
