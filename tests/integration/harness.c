/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness.c - see harness.h.
 */
#include "tests/integration/harness.h"

#include <sys/syscall.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_ENVIRONMENT 256
#define READY_FD        9

uint64_t
harness_now_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

uint64_t
harness_number(const char *name, uint64_t usual)
{
	const char *text = getenv(name);
	unsigned long long number = 0;

	if (text == NULL || sscanf(text, "%llu", &number) != 1)
		return usual;
	return number;
}

void
harness_init(struct harness *harness)
{
	memset(harness, 0, sizeof(*harness));
	(void)snprintf(harness->folder, sizeof(harness->folder),
	    "/tmp/hm-it-XXXXXX");
	assert_non_null(mkdtemp(harness->folder));
	(void)snprintf(harness->socket, sizeof(harness->socket), "%s/socket",
	    harness->folder);
	(void)snprintf(harness->store, sizeof(harness->store), "%s/store",
	    harness->folder);
	(void)snprintf(harness->log, sizeof(harness->log), "%s/log",
	    harness->folder);
}

static int
harness_remove(const char *path, const struct stat *status, int what,
    struct FTW *where)
{
	(void)status;
	(void)what;
	(void)where;
	return remove(path);
}

void
harness_done(struct harness *harness)
{
	/* Also where a sanitizer reports what was leaked. */
	if (harness->pid != 0)
		assert_int_equal(harness_stop(harness), 0);
	(void)nftw(harness->folder, harness_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* Ours first: of two equal names getenv takes the first. */
static void
harness_environment(const struct harness *harness,
    const char *list[MAX_ENVIRONMENT])
{
	size_t n = 0;

	for (size_t i = 0; harness->environment[i] != NULL; i++)
		list[n++] = harness->environment[i];
	list[n++] = "HUMMING_READY_FD=9";
	list[n++] = "HUMMING_LIMITS_DRAIN_MS=1000";
	for (size_t i = 0; environ[i] != NULL && n + 1 < MAX_ENVIRONMENT; i++) {
		if (strncmp(environ[i], "HUMMING_SOCKET=", 15) != 0 &&
		    strncmp(environ[i], "HUMMING_STORE=", 14) != 0)
			list[n++] = environ[i];
	}
	list[n] = NULL;
}

static void
harness_spawn(struct harness *harness, const char *const *options, int ready_fd)
{
	const char *usual[] = {"-f", "--socket", harness->socket, "--store",
	    harness->store, harness->is_system ? NULL : "--private", NULL};
	const char *arguments[20];
	char limit[64] = "";
	char script[128];
	bool needs_shell = harness->max_files != 0 || harness->has_no_stdio;
	const char *environment[MAX_ENVIRONMENT];
	const char *folder = getenv("HM_BIN_DIR");
	posix_spawn_file_actions_t files;
	char path[512];
	size_t n = 0;

	if (harness->program_folder != NULL)
		folder = harness->program_folder;
	(void)snprintf(path, sizeof(path), "%s/hummingd",
	    folder == NULL ? HM_BIN_DIR : folder);
	if (options == NULL)
		options = usual;
	/* By a shell: a limit of our own could not be raised again. */
	if (harness->max_files != 0)
		(void)snprintf(limit, sizeof(limit), "ulimit -n %u && ",
		    harness->max_files);
	(void)snprintf(script, sizeof(script), "%sexec \"$0\" \"$@\"%s", limit,
	    harness->has_no_stdio ? " <&- >&- 2>&-" : "");
	if (needs_shell) {
		arguments[n++] = "sh";
		arguments[n++] = "-c";
		arguments[n++] = script;
	}
	arguments[n++] = path;
	for (size_t i = 0; options[i] != NULL; i++)
		arguments[n++] = options[i];
	arguments[n] = NULL;
	harness_environment(harness, environment);
	assert_int_equal(posix_spawn_file_actions_init(&files), 0);
	assert_int_equal(posix_spawn_file_actions_addopen(&files, STDERR_FILENO,
			     harness->log, O_WRONLY | O_CREAT | O_APPEND, 0600),
	    0);
	assert_int_equal(posix_spawn_file_actions_addopen(&files, STDOUT_FILENO,
			     "/dev/null", O_WRONLY, 0),
	    0);
	if (ready_fd != -1)
		assert_int_equal(posix_spawn_file_actions_adddup2(&files,
				     ready_fd, READY_FD),
		    0);
	assert_int_equal(posix_spawn(&harness->pid,
			     needs_shell ? "/bin/sh" : path, &files, NULL,
			     (char *const *)(uintptr_t)arguments,
			     (char *const *)(uintptr_t)environment),
	    0);
	(void)posix_spawn_file_actions_destroy(&files);
}

void
harness_start(struct harness *harness)
{
	char text[1024] = "";
	int ends[2];
	struct pollfd wait = {.events = POLLIN};
	char line[16] = "";

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	harness_spawn(harness, NULL, ends[1]);
	(void)close(ends[1]);
	wait.fd = ends[0];
	assert_int_equal(poll(&wait, 1, HARNESS_WAIT_MS), 1);
	if (read(ends[0], line, sizeof(line) - 1) != 6) {
		harness_read(harness->log, text, sizeof(text));
		fail_msg("hummingd did not start: %s", text);
	}
	assert_string_equal(line, "ready\n");
	(void)close(ends[0]);
}

int
harness_fail(struct harness *harness, const char *const *options,
    char *text_out, size_t size)
{
	int status;

	(void)unlink(harness->log);
	harness_spawn(harness, options, -1);
	status = harness_wait(harness);
	harness_read(harness->log, text_out, size);
	return status;
}

void
harness_signal(const struct harness *harness, int number)
{
	assert_true(harness->pid > 1);
	assert_int_equal(kill(harness->pid, number), 0);
}

int
harness_wait(struct harness *harness)
{
	struct pollfd wait = {.events = POLLIN};
	int status = 0;

	wait.fd = (int)syscall(SYS_pidfd_open, harness->pid, 0);
	assert_true(wait.fd >= 0);
	if (poll(&wait, 1, HARNESS_WAIT_MS) != 1) {
		harness_signal(harness, SIGKILL);
		(void)waitpid(harness->pid, &status, 0);
		harness->pid = 0;
		fail_msg("hummingd did not end");
	}
	(void)close(wait.fd);
	assert_int_equal(waitpid(harness->pid, &status, 0), harness->pid);
	harness->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int
harness_stop(struct harness *harness)
{
	harness_signal(harness, SIGTERM);
	return harness_wait(harness);
}

void
harness_kill(struct harness *harness)
{
	harness_signal(harness, SIGKILL);
	(void)harness_wait(harness);
}

void
harness_read(const char *path, char *text_out, size_t size)
{
	FILE *file = fopen(path, "re");
	size_t n = 0;

	if (file != NULL) {
		n = fread(text_out, 1, size - 1, file);
		(void)fclose(file);
	}
	text_out[n] = '\0';
}

/* The parent of a process, 0 if it is gone. */
static pid_t
harness_parent(const char *pid)
{
	char path[300];
	char text[512];
	const char *end;
	long parent = 0;

	(void)snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	harness_read(path, text, sizeof(text));
	end = strrchr(text, ')');
	if (end == NULL || sscanf(end + 1, " %*c %ld", &parent) != 1)
		return 0;
	return (pid_t)parent;
}

size_t
harness_workers(const struct harness *harness, pid_t *pids, size_t max)
{
	DIR *folder = opendir("/proc");
	const struct dirent *entry;
	size_t n = 0;
	long pid = 0;

	assert_non_null(folder);
	while ((entry = readdir(folder)) != NULL && n < max) {
		if (sscanf(entry->d_name, "%ld", &pid) == 1 &&
		    harness_parent(entry->d_name) == harness->pid)
			pids[n++] = (pid_t)pid;
	}
	(void)closedir(folder);
	return n;
}

size_t
harness_count_fds(const struct harness *harness)
{
	char path[64];
	DIR *folder;
	size_t n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%ld/fd", (long)harness->pid);
	folder = opendir(path);
	assert_non_null(folder);
	while (readdir(folder) != NULL)
		n++;
	(void)closedir(folder);
	return n;
}

bool
harness_maps(const struct harness *harness, const char *word)
{
	char path[64];
	char line[1024];
	bool found = false;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%ld/maps",
	    (long)harness->pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (!found && fgets(line, sizeof(line), file) != NULL)
		found = strstr(line, word) != NULL;
	(void)fclose(file);
	return found;
}
