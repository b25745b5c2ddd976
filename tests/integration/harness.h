/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness.h - the real hummingd on a temporary socket and store.
 *
 * Functions that can only fail when the machine is broken assert. Nothing
 * sleeps: readiness is a descriptor, an end is a pidfd, everything else is an
 * answer of the daemon; all with a deadline.
 */
#ifndef HM_TESTS_HARNESS_H
#define HM_TESTS_HARNESS_H

#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>

#define HARNESS_WAIT_MS 30000

struct harness {
	char folder[64]; /* temporary; holds all of the rest */
	char socket[96];
	char store[96];
	char log[96];
	bool is_system;             /* not --private */
	const char *program_folder; /* of hummingd; NULL = the build's */
	unsigned max_files;         /* RLIMIT_NOFILE; 0 = ours */
	bool has_no_stdio;          /* 0, 1 and 2 are closed; no log */
	/* KEY=VALUE beside the usual environment; NULL ends it. */
	const char *environment[8];
	pid_t pid; /* 0 = not running */
};

/* A new folder; nothing is started. done stops what runs, asserts that it ends
 * well, and removes the folder. */
void harness_init(struct harness *harness);
void harness_done(struct harness *harness);

/* Start hummingd and wait until it says ready. */
void harness_start(struct harness *harness);

/* Start hummingd where it must fail. Returns its exit status; its stderr is in
 * text_out. options: NULL-terminated, instead of the usual ones if not NULL. */
int harness_fail(struct harness *harness, const char *const *options,
    char *text_out, size_t size);

void harness_signal(const struct harness *harness, int number);

/* Wait for the end. Returns the exit status, or 128 + signal. */
int harness_wait(struct harness *harness);

/* SIGTERM, then harness_wait. */
int harness_stop(struct harness *harness);

/* SIGKILL, then harness_wait. */
void harness_kill(struct harness *harness);

/* Pids of the daemon's children, at most max; returns how many. */
size_t harness_workers(const struct harness *harness, pid_t *pids, size_t max);

/* How many open descriptors the daemon has. */
size_t harness_count_fds(const struct harness *harness);

/* Whether a mapped file of the daemon has this in its path. */
bool harness_maps(const struct harness *harness, const char *word);

/* Monotonic milliseconds. */
uint64_t harness_now_ms(void);

/* A whole file as text, cut to size. */
void harness_read(const char *path, char *text_out, size_t size);

/* A number from the environment, or the default. */
uint64_t harness_number(const char *name, uint64_t usual);

#endif
