/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.c - what a worker inherits, which is next to nothing.
 */
#include "daemon/spawn.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/fd.h"

#define SPAWN_CHANNEL 3

/* Where a compiler may be found; a worker needs nothing else of ours. */
static const char *const spawn_variables[] = {"CUDA_HOME", "HOME",
    "HUMMING_NVRTC", "HUMMING_PREFIX", "LD_LIBRARY_PATH", "XDG_DATA_HOME"};
#define N_SPAWN_VARIABLES (sizeof(spawn_variables) / sizeof(spawn_variables[0]))

struct spawn_environment {
	char *list[N_SPAWN_VARIABLES + 2]; /* strings owned; NULL ends it */
};

static void
spawn_environment_done(struct spawn_environment *environment)
{
	for (size_t i = 0; environment->list[i] != NULL; i++)
		free(environment->list[i]);
}

static int
spawn_environment_init(struct spawn_environment *environment)
{
	size_t n = 0;

	memset(environment, 0, sizeof(*environment));
	for (size_t i = 0; i < N_SPAWN_VARIABLES; i++) {
		const char *value = getenv(spawn_variables[i]);

		if (value == NULL)
			continue;
		if (asprintf(&environment->list[n], "%s=%s", spawn_variables[i],
			value) < 0) {
			environment->list[n] = NULL;
			return HM_E_NOMEM;
		}
		n++;
	}
	environment->list[n] = strdup("LC_ALL=C");
	return environment->list[n] == NULL ? HM_E_NOMEM : HM_OK;
}

/* Descriptors of the child; an error number of posix_spawn's kind, or 0. */
static int
spawn_set_files(posix_spawn_file_actions_t *files, int channel,
    bool shows_stderr)
{
	int error;

	error = posix_spawn_file_actions_addopen(files, STDIN_FILENO,
	    "/dev/null", O_RDONLY, 0);
	if (error == 0)
		error = posix_spawn_file_actions_addopen(files, STDOUT_FILENO,
		    "/dev/null", O_WRONLY, 0);
	if (error == 0 && !shows_stderr)
		error = posix_spawn_file_actions_addopen(files, STDERR_FILENO,
		    "/dev/null", O_WRONLY, 0);
	/* Clears close-on-exec, also when channel is 3 already. */
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(files, channel,
		    SPAWN_CHANNEL);
	return error;
}

static int
spawn_set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t none;
	sigset_t all;
	int error;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK |
							 POSIX_SPAWN_SETSIGDEF |
							 POSIX_SPAWN_SETPGROUP);
	if (error == 0)
		error = posix_spawnattr_setsigmask(attributes, &none);
	if (error == 0)
		error = posix_spawnattr_setsigdefault(attributes, &all);
	if (error == 0)
		error = posix_spawnattr_setpgroup(attributes, 0);
	return error;
}

static int
spawn_run(const struct hm_spawn *spawn, int channel, char **environment,
    pid_t *pid_out)
{
	char name[] = "humming-worker";
	char option[] = "--nvrtc";
	char *nvrtc = strdup(spawn->nvrtc);
	char *arguments[] = {name, option, nvrtc, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int error;

	if (nvrtc == NULL)
		return ENOMEM;
	if (nvrtc[0] == '\0')
		arguments[1] = NULL;
	error = posix_spawn_file_actions_init(&files);
	if (error != 0) {
		free(nvrtc);
		return error;
	}
	error = posix_spawnattr_init(&attributes);
	if (error == 0) {
		error = spawn_set_files(&files, channel, spawn->shows_stderr);
		if (error == 0)
			error = spawn_set_attributes(&attributes);
		if (error == 0)
			error = posix_spawn(pid_out, spawn->path, &files,
			    &attributes, arguments, environment);
		(void)posix_spawnattr_destroy(&attributes);
	}
	(void)posix_spawn_file_actions_destroy(&files);
	free(nvrtc);
	return error;
}

int
hm_spawn_worker(const struct hm_spawn *spawn, pid_t *pid_out, int *fd_out,
    struct hm_errbuf *errbuf)
{
	const struct sched_param no_priority = {.sched_priority = 0};
	struct spawn_environment environment = {{NULL}};
	int pair[2] = {-1, -1};
	int error = HM_E_SYSTEM;
	int failure;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
		hm_errbuf_set(errbuf, "socketpair: %s", strerror(errno));
		return HM_E_SYSTEM;
	}
	if (fcntl(pair[0], F_SETFL, O_NONBLOCK) != 0) {
		hm_errbuf_set(errbuf, "socketpair: %s", strerror(errno));
		goto out;
	}
	failure = spawn_environment_init(&environment) == HM_OK
		      ? spawn_run(spawn, pair[1], environment.list, pid_out)
		      : ENOMEM;
	if (failure != 0) {
		hm_errbuf_set(errbuf, "%s: %s", spawn->path, strerror(failure));
		goto out;
	}
	/* It never preempts who wakes up for a hit, the daemon or a client, and
	 * has its full share otherwise: with a lower one (nice 10 was tried) a
	 * busy machine makes its deadline pass. As good as it goes. */
	(void)sched_setscheduler(*pid_out, SCHED_BATCH, &no_priority);
	*fd_out = pair[0];
	pair[0] = -1;
	error = HM_OK;
out:
	spawn_environment_done(&environment);
	hm_fd_close(&pair[0]);
	hm_fd_close(&pair[1]);
	return error;
}

int
hm_spawn_limit_cpu(pid_t pid, uint64_t seconds)
{
	struct rlimit limit;
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 ||
	    clock_gettime(clock, &used) != 0 ||
	    prlimit(pid, RLIMIT_CPU, NULL, &limit) != 0)
		return HM_E_SYSTEM;
	limit.rlim_cur = (rlim_t)used.tv_sec + 1 + seconds;
	if (limit.rlim_cur > limit.rlim_max)
		limit.rlim_cur = limit.rlim_max;
	return prlimit(pid, RLIMIT_CPU, &limit, NULL) == 0 ? HM_OK
							   : HM_E_SYSTEM;
}

int
hm_spawn_limit_memory(pid_t pid, uint64_t bytes)
{
	unsigned long long n_pages = 0;
	struct rlimit limit;
	char path[64];
	FILE *file;
	int n_read;

	(void)snprintf(path, sizeof(path), "/proc/%ld/statm", (long)pid);
	file = fopen(path, "re");
	if (file == NULL)
		return HM_E_SYSTEM;
	/* A number of the kernel's. NOLINTNEXTLINE(cert-err34-c) */
	n_read = fscanf(file, "%llu", &n_pages);
	(void)fclose(file);
	if (n_read != 1 || prlimit(pid, RLIMIT_AS, NULL, &limit) != 0)
		return HM_E_SYSTEM;
	limit.rlim_cur =
	    (rlim_t)(n_pages * (unsigned long long)sysconf(_SC_PAGESIZE) +
		     bytes);
	if (limit.rlim_cur > limit.rlim_max)
		limit.rlim_cur = limit.rlim_max;
	return prlimit(pid, RLIMIT_AS, &limit, NULL) == 0 ? HM_OK : HM_E_SYSTEM;
}
