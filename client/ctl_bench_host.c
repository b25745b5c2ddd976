/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_bench_host.c - the daemon that a bench starts, asks, pins and ends.
 *
 * It is our child, with everything it makes in one folder of ours. Settings of
 * the caller's environment do not reach it, but for where NVRTC is.
 */
#include "client/ctl_bench.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/autostart.h"
#include "client/call.h"
#include "client/deadline.h"
#include "proto/fd.h"

#define GIVEN_FD      3  /* of a program that we start */
#define FIRST_FREE_FD 10 /* ours are moved above those it is given */
#define START_MS      30000u
#define END_MS        12000u /* more than a daemon takes to drain */
#define ASK_PAUSE_MS  5u
#define FOLDERS_OPEN  8

/* What a daemon of ours is told besides its command line. It builds a source
 * of ours alone, so a sandbox with a part missing is good enough; and it leaves
 * soon when we cannot stop it any more. */
static const char *const host_settings[] = {
    "HUMMING_READY_FD=3",
    "HUMMING_SANDBOX=best-effort",
    "HUMMING_LIMITS_IDLE_MS=5000",
};
#define N_HOST_SETTINGS (sizeof host_settings / sizeof host_settings[0])

int
hm_bench_go_on(struct hm_bench *bench)
{
	sigset_t pending;

	(void)sigemptyset(&pending);
	(void)sigpending(&pending);
	if (sigismember(&pending, SIGINT) == 1 ||
	    sigismember(&pending, SIGTERM) == 1 ||
	    sigismember(&pending, SIGHUP) == 1) {
		hm_errbuf_set(&bench->why, "interrupted");
		return HM_E_UNAVAILABLE;
	}
	if (hm_deadline_left_ms(bench->deadline) == 0) {
		hm_errbuf_set(&bench->why, "not done within --timeout");
		return HM_E_TIMEOUT;
	}
	return HM_OK;
}

/* --- programs ------------------------------------------------------------ */

/* The environment without settings of the daemon's, with those above. The
 * array is the caller's to free. */
static char **
host_environment(void)
{
	char **copy;
	size_t n = 0, n_copy = 0;

	while (environ[n] != NULL)
		n++;
	copy = calloc(n + N_HOST_SETTINGS + 1, sizeof *copy);
	if (copy == NULL)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		if ((strncmp(environ[i], "HUMMING_", 8) != 0 ||
			strncmp(environ[i], "HUMMING_NVRTC=", 14) == 0 ||
			strncmp(environ[i], "HUMMING_PREFIX=", 15) == 0 ||
			strncmp(environ[i], "HUMMING_COMPILER_NVRTC=", 23) ==
			    0) &&
		    strncmp(environ[i], "NOTIFY_SOCKET=", 14) != 0)
			copy[n_copy++] = environ[i];
	}
	/* posix_spawn writes to none of them. */
	memcpy(copy + n_copy, host_settings, sizeof host_settings);
	return copy;
}

/* Returns 0 or the number of an error. */
static int
host_prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes,
    const struct hm_bench_program *program)
{
	const short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
			    POSIX_SPAWN_SETPGROUP;
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
		number = posix_spawn_file_actions_adddup2(actions,
		    program->log_fd, 2);
	if (number == 0)
		number = posix_spawn_file_actions_adddup2(actions, program->fd,
		    GIVEN_FD);
	if (number == 0)
		number = posix_spawn_file_actions_addclosefrom_np(actions,
		    GIVEN_FD + 1);
	if (number == 0)
		number = posix_spawnattr_setsigmask(attributes, &none);
	if (number == 0)
		number = posix_spawnattr_setsigdefault(attributes, &all);
	/* In a group of its own: what a terminal sends us must not end it in
	 * the middle of a call of ours, which would look for it again. */
	if (number == 0)
		number = posix_spawnattr_setpgroup(attributes, 0);
	if (number == 0)
		number = posix_spawnattr_setflags(attributes, flags);
	return number;
}

/* A copy with a number that none of the child's own takes. Returns 0 or the
 * number of an error. */
static int
host_raise(int fd, int *raised_out)
{
	*raised_out = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
	return *raised_out == -1 ? errno : 0;
}

int
hm_bench_spawn(const struct hm_bench_program *program, pid_t *pid_out,
    struct hm_errbuf *errbuf)
{
	struct hm_bench_program raised = *program;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	char **environment = host_environment();
	int number;

	raised.fd = -1;
	raised.log_fd = -1;
	/* Neither allocates in glibc: nothing to undo. */
	if (environment == NULL ||
	    posix_spawn_file_actions_init(&actions) != 0 ||
	    posix_spawnattr_init(&attributes) != 0) {
		free(environment);
		hm_errbuf_set(errbuf, "%s: cannot be started: %s",
		    program->arguments[0], hm_strerror(HM_E_NOMEM));
		return HM_E_NOMEM;
	}
	number = host_raise(program->fd, &raised.fd);
	if (number == 0)
		number = host_raise(program->log_fd, &raised.log_fd);
	if (number == 0)
		number = host_prepare(&actions, &attributes, &raised);
	if (number == 0)
		number = posix_spawn(pid_out, program->arguments[0], &actions,
		    &attributes, program->arguments, environment);
	hm_fd_close(&raised.fd);
	hm_fd_close(&raised.log_fd);
	(void)posix_spawnattr_destroy(&attributes);
	(void)posix_spawn_file_actions_destroy(&actions);
	free(environment);
	if (number == 0)
		return HM_OK;
	hm_errbuf_set(errbuf, "%s: cannot be started: %s",
	    program->arguments[0], strerror(number));
	return HM_E_SYSTEM;
}

void
hm_bench_end(pid_t *pid)
{
	int64_t deadline = hm_deadline_in(END_MS);
	bool is_killed = false;

	if (*pid == -1)
		return;
	(void)kill(*pid, SIGTERM);
	while (waitpid(*pid, NULL, WNOHANG) == 0) {
		if (hm_deadline_left_ms(deadline) == 0 && !is_killed) {
			(void)kill(*pid, SIGKILL);
			is_killed = true;
		}
		(void)poll(NULL, 0, ASK_PAUSE_MS);
	}
	*pid = -1;
}

/* --- the folder ---------------------------------------------------------- */

static int
host_make_folder(struct hm_bench *bench)
{
	const char *parent = getenv("TMPDIR");
	int n;

	if (parent == NULL || parent[0] != '/')
		parent = "/tmp";
	n = snprintf(bench->folder, sizeof bench->folder, "%s/hm-bench-XXXXXX",
	    parent);
	if (n < 0 || (size_t)n >= sizeof bench->folder) {
		bench->folder[0] = '\0';
		hm_errbuf_set(&bench->why,
		    "TMPDIR: '%s' is too long for a socket in it", parent);
		return HM_E_INVALID;
	}
	if (mkdtemp(bench->folder) == NULL) {
		bench->folder[0] = '\0';
		hm_errbuf_set(&bench->why, "cannot make a folder in %s: %s",
		    parent, strerror(errno));
		return HM_E_SYSTEM;
	}
	(void)snprintf(bench->socket_path, sizeof bench->socket_path,
	    "%s/hummingd.sock", bench->folder);
	return HM_OK;
}

static int
host_remove(const char *path, const struct stat *status, int type,
    struct FTW *place)
{
	(void)status;
	(void)type;
	(void)place;
	return remove(path);
}

/* --- start and stop ------------------------------------------------------ */

/* The last line of the daemon's log, as the reason. */
static void
host_last_words(struct hm_bench *bench, int log_fd)
{
	char text[4096];
	char *line, *end;
	off_t size = lseek(log_fd, 0, SEEK_END);
	off_t start =
	    size > (off_t)sizeof text - 1 ? size - ((off_t)sizeof text - 1) : 0;
	ssize_t n = pread(log_fd, text, sizeof text - 1, start);

	text[n > 0 ? n : 0] = '\0';
	end = text + strlen(text);
	while (end > text && end[-1] == '\n')
		*--end = '\0';
	line = strrchr(text, '\n');
	hm_errbuf_set(&bench->why, "hummingd did not start: %.300s",
	    line != NULL ? line + 1 : text);
}

/* "ready", or the end of file of a daemon that gave up. */
static int
host_wait_ready(struct hm_bench *bench, int ready_fd, int log_fd)
{
	struct pollfd wait = {.fd = ready_fd, .events = POLLIN};
	int64_t deadline = hm_deadline_within(bench->deadline, START_MS);
	char text[16];
	int error;

	while (poll(&wait, 1, (int)ASK_PAUSE_MS) <= 0) {
		error = hm_bench_go_on(bench);
		if (error != HM_OK)
			return error;
		if (hm_deadline_left_ms(deadline) == 0) {
			hm_errbuf_set(&bench->why, "hummingd does not start");
			return HM_E_TIMEOUT;
		}
	}
	if (read(ready_fd, text, sizeof text) > 0)
		return HM_OK;
	host_last_words(bench, log_fd);
	return HM_E_UNAVAILABLE;
}

static int
host_start_daemon(struct hm_bench *bench, int log_fd)
{
	char private[] = "--private", plain[] = "-f";
	char socket_option[] = "--socket", store_option[] = "--store";
	char store[HM_BENCH_PATH_CHARS + 16];
	char *arguments[] = {bench->program, plain, private, socket_option,
	    bench->socket_path, store_option, store, NULL};
	struct hm_bench_program program = {.arguments = arguments,
	    .log_fd = log_fd};
	int ready[2];
	int error;

	(void)snprintf(store, sizeof store, "%s/store", bench->folder);
	if (pipe2(ready, O_CLOEXEC) == -1) {
		hm_errbuf_set(&bench->why, "a pipe to hummingd: %s",
		    strerror(errno));
		return HM_E_SYSTEM;
	}
	program.fd = ready[1];
	error = hm_bench_spawn(&program, &bench->daemon, &bench->why);
	hm_fd_close(&ready[1]);
	if (error == HM_OK)
		error = host_wait_ready(bench, ready[0], log_fd);
	hm_fd_close(&ready[0]);
	return error;
}

/* An object of STATUS or STATS; NULL with the reason in bench->why. */
static json_t *
host_ask(struct hm_bench *bench, uint32_t frame_type, int *error_out)
{
	json_t *object = NULL;
	char *text = NULL;

	*error_out = hm_call_text(&bench->link, frame_type, bench->deadline,
	    &text, &bench->why);
	if (*error_out == HM_OK) {
		object = json_loads(text, 0, NULL);
		if (object == NULL)
			*error_out = HM_E_PROTOCOL;
	}
	free(text);
	return object;
}

int
hm_bench_wait_compilers(struct hm_bench *bench)
{
	const char *readiness = "", *degraded = "";
	json_int_t n_starting = 0, n_wanted = 0;
	json_t *status;
	int error;

	for (;;) {
		error = hm_bench_go_on(bench);
		if (error != HM_OK)
			return error;
		status = host_ask(bench, HM_FRAME_STATUS, &error);
		if (status == NULL)
			return error;
		if (json_unpack(status, "{s:s, s:s, s:{s:I, s:I}}", "readiness",
			&readiness, "degraded", &degraded, "workers",
			"starting", &n_starting, "wanted", &n_wanted) != 0)
			error = HM_E_PROTOCOL;
		else if (strcmp(readiness, "no compiler") == 0)
			error = HM_E_UNAVAILABLE;
		if (error == HM_E_UNAVAILABLE)
			hm_errbuf_set(&bench->why, "%s", degraded);
		if (error == HM_OK &&
		    (strcmp(readiness, "ready") != 0 || n_starting != 0))
			error = HM_E_BUSY;
		json_decref(status);
		bench->n_compilers = n_wanted > 0 ? (uint32_t)n_wanted : 1;
		if (error != HM_E_BUSY)
			return error;
		hm_deadline_pause(bench->deadline, ASK_PAUSE_MS);
	}
}

int
hm_bench_host_start(struct hm_bench *bench)
{
	char log_path[HM_BENCH_PATH_CHARS + 16];
	int log_fd = -1;
	int error;

	error = hm_autostart_program(bench->program, sizeof bench->program,
	    &bench->why);
	if (error == HM_OK)
		error = host_make_folder(bench);
	if (error != HM_OK)
		return error;
	(void)snprintf(log_path, sizeof log_path, "%s/log", bench->folder);
	log_fd = open(log_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log_fd == -1) {
		hm_errbuf_set(&bench->why, "%s: %s", log_path, strerror(errno));
		return HM_E_SYSTEM;
	}
	error = host_start_daemon(bench, log_fd);
	hm_fd_close(&log_fd);
	if (error == HM_OK)
		error = hm_link_init(&bench->link, bench->socket_path, false,
		    &bench->why);
	if (error == HM_OK)
		error = hm_link_open(&bench->link,
		    hm_deadline_within(bench->deadline, START_MS), &bench->why);
	if (error == HM_OK)
		error = hm_bench_wait_compilers(bench);
	return error;
}

void
hm_bench_host_stop(struct hm_bench *bench)
{
	hm_link_done(&bench->link);
	hm_bench_end(&bench->daemon);
	if (bench->folder[0] != '\0')
		(void)nftw(bench->folder, host_remove, FOLDERS_OPEN,
		    FTW_DEPTH | FTW_PHYS);
	bench->folder[0] = '\0';
}

/* --- questions ----------------------------------------------------------- */

int
hm_bench_pin(struct hm_bench *bench, pid_t pid, size_t from, size_t n)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (size_t i = from; i < from + n && i < bench->n_cores; i++)
		CPU_SET(bench->cores[i], &set);
	if (sched_setaffinity(pid, sizeof set, &set) == 0)
		return HM_OK;
	hm_errbuf_set(&bench->why, "cannot pin to a core: %s", strerror(errno));
	return HM_E_SYSTEM;
}

int
hm_bench_stat(struct hm_bench *bench, const char *name, double *value_out)
{
	json_t *object;
	int error;

	object = host_ask(bench, HM_FRAME_STATS, &error);
	if (object == NULL)
		return error;
	*value_out = json_number_value(json_object_get(object, name));
	json_decref(object);
	return HM_OK;
}

int
hm_bench_open(struct hm_bench *bench, struct humming_client **client_out)
{
	struct humming_client_options options;
	int error;

	humming_client_options_init(&options, sizeof options);
	options.socket_path = bench->socket_path;
	options.timeout_ms = bench->timeout_ms;
	error = humming_client_open(&options, client_out);
	if (error != HUMMING_OK)
		hm_errbuf_set(&bench->why, "%s",
		    humming_client_last_error(NULL));
	return error;
}
