/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autostart.c - see autostart.h.
 */
#include "client/autostart.h"

#include <sys/file.h>
#include <sys/wait.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/deadline.h"
#include "proto/fd.h"

#define READY_FD      3 /* in the daemon; HUMMING_READY_FD says so */
#define LOCK_PAUSE_MS 5u
#define REAP_PAUSE_MS 1u
#define LOG_MAX_BYTES (1 << 20) /* started anew above this */
/* Descriptors that the child gets are moved above those it gives them. */
#define FIRST_FREE_FD 10

/* Lies in whatever holds this library: the program, or libhumming.so. */
static const char autostart_anchor = 'h';

/* A folder's path with another name at its end. */
static int
autostart_beside(const char *path, const char *name, char *path_out,
    size_t size)
{
	const char *slash = strrchr(path, '/');
	int n;

	if (slash == NULL)
		return HM_E_INVALID;
	n = snprintf(path_out, size, "%.*s/%s", (int)(slash - path), path,
	    name);
	return n > 0 && (size_t)n < size ? HM_OK : HM_E_INVALID;
}

static bool
autostart_runs(const char *path, const char *name, char *path_out, size_t size)
{
	return autostart_beside(path, name, path_out, size) == HM_OK &&
	       access(path_out, X_OK) == 0;
}

int
hm_autostart_program(char *path_out, size_t size, struct hm_errbuf *errbuf)
{
	char self[PATH_MAX];
	Dl_info library;
	ssize_t n;

	n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n > 0) {
		self[n] = '\0';
		if (autostart_runs(self, "hummingd", path_out, size))
			return HM_OK;
	}
	if (dladdr(&autostart_anchor, &library) != 0 &&
	    library.dli_fname != NULL &&
	    realpath(library.dli_fname, self) != NULL &&
	    (autostart_runs(self, "hummingd", path_out, size) ||
		autostart_runs(self, "../bin/hummingd", path_out, size)))
		return HM_OK;
	if (autostart_runs(HM_SBIN_DIR "/", "hummingd", path_out, size))
		return HM_OK;
	hm_errbuf_set(errbuf,
	    "no hummingd program beside this one or in " HM_SBIN_DIR);
	return HM_E_UNAVAILABLE;
}

/* One lock for all callers of this user; close gives it back. */
static int
autostart_lock(const char *socket_path, int64_t deadline, int *fd_out,
    struct hm_errbuf *errbuf)
{
	char path[HM_SOCKET_PATH_CHARS + 16];
	int fd;

	if (autostart_beside(socket_path, "autostart.lock", path,
		sizeof path) != HM_OK) {
		hm_errbuf_set(errbuf, "%s: no room for a lock beside it",
		    socket_path);
		return HM_E_INVALID;
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd == -1) {
		hm_errbuf_set(errbuf, "%s: %s", path, strerror(errno));
		return HM_E_SYSTEM;
	}
	while (flock(fd, LOCK_EX | LOCK_NB) == -1) {
		if (errno != EWOULDBLOCK && errno != EINTR) {
			hm_errbuf_set(errbuf, "%s: %s", path, strerror(errno));
			hm_fd_close(&fd);
			return HM_E_SYSTEM;
		}
		if (hm_deadline_left_ms(deadline) == 0) {
			hm_errbuf_set(errbuf,
			    "%s: another process is still starting hummingd",
			    path);
			hm_fd_close(&fd);
			return HM_E_TIMEOUT;
		}
		hm_deadline_pause(deadline, LOCK_PAUSE_MS);
	}
	*fd_out = fd;
	return HM_OK;
}

/* The caller's environment with our HUMMING_READY_FD in place of its own and
 * without NOTIFY_SOCKET, whose service manager waits for another program. The
 * array is the caller's to free. */
static char **
autostart_environment(char *ready)
{
	char **copy;
	size_t n = 0, n_copy = 0;

	while (environ != NULL && environ[n] != NULL)
		n++;
	copy = calloc(n + 2, sizeof *copy);
	if (copy == NULL)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		if (strncmp(environ[i], "HUMMING_READY_FD=", 17) != 0 &&
		    strncmp(environ[i], "NOTIFY_SOCKET=", 14) != 0)
			copy[n_copy++] = environ[i];
	}
	copy[n_copy] = ready;
	return copy;
}

/* No descriptor but the pipe and the log, no signal mask, no terminal. Returns
 * 0 or the number of an error. */
static int
autostart_prepare(posix_spawn_file_actions_t *actions,
    posix_spawnattr_t *attributes, int ready_fd, int log_fd)
{
	const short flags =
	    POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID;
	sigset_t none, all;
	int number;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	number = posix_spawn_file_actions_addopen(actions, 0, "/dev/null",
	    O_RDONLY, 0);
	if (number == 0)
		number = posix_spawn_file_actions_addopen(actions, 1,
		    "/dev/null", O_WRONLY, 0);
	if (number == 0)
		number = posix_spawn_file_actions_adddup2(actions, log_fd, 2);
	if (number == 0)
		number = posix_spawn_file_actions_adddup2(actions, ready_fd,
		    READY_FD);
	if (number == 0)
		number = posix_spawn_file_actions_addclosefrom_np(actions,
		    READY_FD + 1);
	if (number == 0)
		number = posix_spawn_file_actions_addchdir_np(actions, "/");
	if (number == 0)
		number = posix_spawnattr_setsigmask(attributes, &none);
	if (number == 0)
		number = posix_spawnattr_setsigdefault(attributes, &all);
	if (number == 0)
		number = posix_spawnattr_setflags(attributes, flags);
	return number;
}

static int
autostart_spawn(const char *program, char *socket_path, int ready_fd,
    int log_fd, pid_t *pid_out, struct hm_errbuf *errbuf)
{
	char name[] = "hummingd", private[] = "--private", at[] = "--socket";
	char ready[] = "HUMMING_READY_FD=3";
	char *arguments[] = {name, private, at, socket_path, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	char **environment;
	int number;

	environment = autostart_environment(ready);
	/* Neither allocates in glibc: nothing to undo. */
	if (environment == NULL ||
	    posix_spawn_file_actions_init(&actions) != 0 ||
	    posix_spawnattr_init(&attributes) != 0) {
		free(environment);
		hm_errbuf_set(errbuf, "%s: cannot be started: %s", program,
		    hm_strerror(HM_E_NOMEM));
		return HM_E_NOMEM;
	}
	number = autostart_prepare(&actions, &attributes, ready_fd, log_fd);
	if (number == 0)
		number = posix_spawn(pid_out, program, &actions, &attributes,
		    arguments, environment);
	(void)posix_spawnattr_destroy(&attributes);
	(void)posix_spawn_file_actions_destroy(&actions);
	free(environment);
	if (number == 0)
		return HM_OK;
	hm_errbuf_set(errbuf, "%s: cannot be started: %s", program,
	    strerror(number));
	return HM_E_SYSTEM;
}

/* A descriptor like *fd with a number of FIRST_FREE_FD or more in its place. */
static int
autostart_raise(int *fd)
{
	int raised = fcntl(*fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);

	if (raised == -1)
		return HM_E_SYSTEM;
	hm_fd_close(fd);
	*fd = raised;
	return HM_OK;
}

/* The daemon's log, beside its socket; *start_out = where it goes on. */
static int
autostart_open_log(const char *socket_path, int *fd_out, off_t *start_out,
    struct hm_errbuf *errbuf)
{
	char path[HM_SOCKET_PATH_CHARS + 16];
	off_t end;
	int fd;

	if (autostart_beside(socket_path, "hummingd.log", path, sizeof path) !=
	    HM_OK) {
		hm_errbuf_set(errbuf, "%s: no room for a log beside it",
		    socket_path);
		return HM_E_INVALID;
	}
	fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
	    0600);
	if (fd == -1) {
		hm_errbuf_set(errbuf, "%s: %s", path, strerror(errno));
		return HM_E_SYSTEM;
	}
	end = lseek(fd, 0, SEEK_END);
	if (end > LOG_MAX_BYTES && ftruncate(fd, 0) == 0)
		end = 0;
	if (end < 0 || autostart_raise(&fd) != HM_OK) {
		hm_errbuf_set(errbuf, "%s: %s", path, strerror(errno));
		hm_fd_close(&fd);
		return HM_E_SYSTEM;
	}
	*fd_out = fd;
	*start_out = end;
	return HM_OK;
}

/* What the daemon wrote last before it left, as the reason. */
static void
autostart_last_words(int log_fd, off_t start, pid_t pid, int64_t deadline,
    struct hm_errbuf *errbuf)
{
	char text[4096];
	char *line, *end;
	ssize_t n;

	/* Its end of the pipe is closed, which a process that is about to end
	 * does; one that is stopped there must not hold us up. */
	while (waitpid(pid, NULL, WNOHANG) == 0 &&
	       hm_deadline_left_ms(deadline) != 0)
		hm_deadline_pause(deadline, REAP_PAUSE_MS);
	n = pread(log_fd, text, sizeof text - 1, start);
	text[n > 0 ? n : 0] = '\0';
	end = text + strlen(text);
	while (end > text && end[-1] == '\n')
		*--end = '\0';
	line = strrchr(text, '\n');
	line = line != NULL ? line + 1 : text;
	if (line[0] == '\0')
		hm_errbuf_set(errbuf, "hummingd left before it was ready");
	else
		hm_errbuf_set(errbuf, "hummingd did not start: %.300s", line);
}

/* "ready", or the end of file of a daemon that gave up. */
static int
autostart_wait_ready(int ready_fd, int64_t deadline, struct hm_errbuf *errbuf)
{
	struct pollfd wait = {.fd = ready_fd, .events = POLLIN};
	char text[16];
	int left, n;

	do {
		left = hm_deadline_left_ms(deadline);
		if (left == 0) {
			hm_errbuf_set(errbuf, "hummingd is still starting");
			return HM_E_TIMEOUT;
		}
		n = poll(&wait, 1, left);
	} while (n == 0 || (n == -1 && errno == EINTR));
	return read(ready_fd, text, sizeof text) > 0 ? HM_OK : HM_E_UNAVAILABLE;
}

/* Start the daemon and wait until it listens. The caller holds the lock. */
static int
autostart_start(char *socket_path, int64_t deadline, struct hm_errbuf *errbuf)
{
	char program[PATH_MAX];
	int ready[2] = {-1, -1};
	int log_fd = -1;
	off_t log_start = 0;
	pid_t pid = -1;
	int error;

	error = hm_autostart_program(program, sizeof program, errbuf);
	if (error != HM_OK)
		return error;
	error = autostart_open_log(socket_path, &log_fd, &log_start, errbuf);
	if (error != HM_OK)
		return error;
	if (pipe2(ready, O_CLOEXEC) == -1 ||
	    autostart_raise(&ready[1]) != HM_OK) {
		hm_errbuf_set(errbuf, "a pipe to hummingd: %s",
		    strerror(errno));
		error = HM_E_SYSTEM;
		goto out;
	}
	error = autostart_spawn(program, socket_path, ready[1], log_fd, &pid,
	    errbuf);
	if (error != HM_OK)
		goto out;
	/* Only the daemon's own end may keep the pipe open. */
	hm_fd_close(&ready[1]);
	error = autostart_wait_ready(ready[0], deadline, errbuf);
	if (error == HM_E_UNAVAILABLE)
		autostart_last_words(log_fd, log_start, pid, deadline, errbuf);
out:
	hm_fd_close(&ready[1]);
	hm_fd_close(&ready[0]);
	hm_fd_close(&log_fd);
	return error;
}

int
hm_autostart_connect(struct hm_transport *transport, int64_t deadline,
    char path_out[HM_SOCKET_PATH_CHARS], struct hm_errbuf *errbuf)
{
	char path[HM_SOCKET_PATH_CHARS];
	int lock_fd = -1;
	int error;

	error = hm_socket_path_private(path, errbuf);
	if (error != HM_OK)
		return error;
	error = autostart_lock(path, deadline, &lock_fd, errbuf);
	if (error != HM_OK)
		return error;
	/* While we waited for the lock somebody may have started it. */
	error = hm_transport_connect(transport, path, deadline, errbuf);
	if (error == HM_E_UNAVAILABLE) {
		error = autostart_start(path, deadline, errbuf);
		if (error == HM_OK)
			error = hm_transport_connect(transport, path, deadline,
			    errbuf);
	}
	hm_fd_close(&lock_fd);
	if (error == HM_OK)
		memcpy(path_out, path, sizeof path);
	return error;
}
