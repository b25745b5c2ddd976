/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.h - start one humming-worker: posix_spawn, never fork.
 */
#ifndef HM_DAEMON_SPAWN_H
#define HM_DAEMON_SPAWN_H

#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

struct hm_spawn {
	const char *path;  /* of humming-worker */
	const char *nvrtc; /* --nvrtc; "" = the worker's own search */
	bool shows_stderr; /* else /dev/null */
};

/**
 * Start a worker with the channel on descriptor 3, a process group of its own
 * (a terminal's ^C is ours to handle), default signals and nothing of our
 * environment but where a compiler may be found.
 *
 * pid_out   the caller reaps it
 * fd_out    our end of the channel, SOCK_SEQPACKET, non-blocking
 *
 * Returns HM_OK or HM_E_SYSTEM with the reason in errbuf.
 */
int hm_spawn_worker(const struct hm_spawn *spawn, pid_t *pid_out, int *fd_out,
    struct hm_errbuf *errbuf);

/* Let the process use seconds more of CPU time than it has used so far, then
 * SIGXCPU. HM_OK or HM_E_SYSTEM. */
int hm_spawn_limit_cpu(pid_t pid, uint64_t seconds);

/* Let the process map so many bytes more than it does now; never more than its
 * sandbox allows. HM_OK or HM_E_SYSTEM. */
int hm_spawn_limit_memory(pid_t pid, uint64_t bytes);

#endif
