/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_bench.h - what the files of `hummingctl bench` share.
 *
 * Every row sets what hummingd does beside the least that a Unix socket could
 * do for it, measured in the same run on the same cores in turns, so that a
 * slow or noisy machine moves both. Rows state targets; nothing here fails
 * because of a time.
 *
 * Functions that return int give HM_OK or an error of enum hm_error, with the
 * reason in bench->why.
 */
#ifndef HM_CLIENT_CTL_BENCH_H
#define HM_CLIENT_CTL_BENCH_H

#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <humming/client.h>

#include "client/ctl.h"
#include "client/link.h"
#include "jit/kernel_set.h"
#include "proto/digest.h"

/* A kernel of about 20 KB. */
#define HM_BENCH_SPEC       "w4a16,m=1,n=8192,k=8192"
#define HM_BENCH_CLIENTS    64
#define HM_BENCH_MAX_ROWS   8
#define HM_BENCH_MAX_EXTRAS 8
#define HM_BENCH_PATH_CHARS 80 /* of our folder; a socket's path is longer */

/* A number that the fixed columns have no place for; JSON only has the name. */
struct hm_bench_extra {
	const char *name; /* static */
	double value;
};

struct hm_bench_row {
	const char *name; /* static */
	double p50_us, per_s;
	double bare_p50_us, bare_per_s;
	double ratio;
	char target[32];
	char verdict[40]; /* "met", or "missed by ..." */
	size_t n_extras;
	struct hm_bench_extra extras[HM_BENCH_MAX_EXTRAS];
};

/* How long something took each time, in nanoseconds. */
struct hm_bench_samples {
	uint32_t *ns; /* owned */
	size_t n, n_room;
	uint64_t sum_ns; /* of all, also of those that found no room */
	uint64_t n_all;
};

struct hm_bench {
	const struct hm_ctl *ctl;
	struct hm_errbuf why;
	uint32_t timeout_ms; /* of each call; UINT32_MAX = none */
	int64_t deadline;    /* of the whole command */
	char folder[HM_BENCH_PATH_CHARS];
	char socket_path[HM_SOCKET_PATH_CHARS];
	char program[4096];   /* hummingd */
	pid_t daemon;         /* -1 = not started */
	struct hm_link link;  /* to the daemon: for questions, and because a
	                      * daemon whose bench was killed is idle then and
	                      * leaves */
	uint32_t n_compilers; /* that the daemon runs at a time */
	size_t cores[2];
	size_t n_cores; /* that we use: 1 or 2 */
	size_t n_rows;
	struct hm_bench_row rows[HM_BENCH_MAX_ROWS];
};

/* --- what is measured (ctl_bench_hit.c, _herd.c, _cold.c) ---------------- */

int hm_bench_hit(struct hm_bench *bench);
int hm_bench_herd(struct hm_bench *bench);
int hm_bench_cold(struct hm_bench *bench);

/* --- rows (ctl_bench_row.c) ---------------------------------------------- */

/* The next row, zeroed but for its name. */
struct hm_bench_row *hm_bench_row_new(struct hm_bench *bench, const char *name);
void hm_bench_row_extra(struct hm_bench_row *row, const char *name,
    double value);

/* "<= limit" or ">= limit" of a value, and whether it holds. unit: "" or as it
 * is printed. */
void hm_bench_row_at_most(struct hm_bench_row *row, double value, double limit,
    const char *unit);
void hm_bench_row_at_least(struct hm_bench_row *row, double value, double limit,
    const char *unit);

/* The JSON of hummingctl(1), or a table. HM_CTL_OK or HM_CTL_FAILED. */
int hm_bench_print(const struct hm_bench *bench);

/* HM_OK or HM_E_NOMEM; done accepts zeroed ones. */
int hm_bench_samples_init(struct hm_bench_samples *samples, size_t n_room);
void hm_bench_samples_done(struct hm_bench_samples *samples);
void hm_bench_samples_clear(struct hm_bench_samples *samples);
void hm_bench_samples_add(struct hm_bench_samples *samples, int64_t ns);

/* In microseconds; sorts. 0 when there are none. */
double hm_bench_samples_p50_us(struct hm_bench_samples *samples);
/* How many a second, one after the other. */
double hm_bench_samples_per_s(const struct hm_bench_samples *samples);

/* --- a daemon of our own (ctl_bench_host.c) ------------------------------ */

/**
 * Make a folder, start hummingd there with an empty store, and wait until its
 * compilers are ready.
 *
 * Whatever this returns, hm_bench_host_stop is to be called: it ends the
 * daemon and removes the folder.
 */
int hm_bench_host_start(struct hm_bench *bench);
void hm_bench_host_stop(struct hm_bench *bench);

/* Start a program with one descriptor as its 3 and a file as its stderr.
 * HM_OK, HM_E_SYSTEM or HM_E_NOMEM, with the reason in errbuf. */
struct hm_bench_program {
	char *const *arguments; /* [0] = the program's path */
	int fd;                 /* becomes 3 */
	int log_fd;             /* becomes 2 */
};
int hm_bench_spawn(const struct hm_bench_program *program, pid_t *pid_out,
    struct hm_errbuf *errbuf);

/* End and reap a process that we started; *pid becomes -1. */
void hm_bench_end(pid_t *pid);

/* Whether somebody wants us to stop (SIGINT, SIGTERM, SIGHUP are held back, so
 * that the daemon never stays behind): HM_OK, or HM_E_UNAVAILABLE. Also
 * HM_E_TIMEOUT past the deadline. */
int hm_bench_go_on(struct hm_bench *bench);

/* Until no compiler is starting any more: one that does takes a core. */
int hm_bench_wait_compilers(struct hm_bench *bench);

/* Pin a process's main thread, or our own thread (pid 0), to cores [from, from
 * + n) of ours. */
int hm_bench_pin(struct hm_bench *bench, pid_t pid, size_t from, size_t n);

/* A number of the daemon's statistics, such as "builds". */
int hm_bench_stat(struct hm_bench *bench, const char *name, double *value_out);

/* A connection of its own to the daemon. */
int hm_bench_open(struct hm_bench *bench, struct humming_client **client_out);

/* --- the bare socket (ctl_bench_bare.c) ---------------------------------- */

/* What goes over it: the sizes of whole packets; and of a memory file that
 * goes along with the reply, 0 = none. */
struct hm_bench_sizes {
	size_t request_bytes;
	size_t reply_bytes;
	size_t file_bytes;
};

/* The other end, a process that does nothing but answer. */
struct hm_bench_bare {
	struct hm_bench_sizes sizes;
	pid_t pid;
	int fd;                          /* one connection; -1 = none */
	char path[HM_SOCKET_PATH_CHARS]; /* "" = a pair, no listener */
	uint8_t *buffer;                 /* owned; a packet */
};

/* One client: the peer blocks in its receive. Or many: it listens in our
 * folder and waits by epoll. done accepts zeroed ones with pid and fd -1. */
int hm_bench_bare_pair(struct hm_bench *bench,
    const struct hm_bench_sizes *sizes, struct hm_bench_bare *bare_out);
int hm_bench_bare_listen(struct hm_bench *bench,
    const struct hm_bench_sizes *sizes, struct hm_bench_bare *bare_out);
void hm_bench_bare_done(struct hm_bench_bare *bare);

/* Another connection to one that listens; -1 on failure. */
int hm_bench_bare_connect(const struct hm_bench_bare *bare);

/* Room for a packet, as well placed as the library's own; NULL without memory,
 * else free() it. */
uint8_t *hm_bench_packet(void);

/* One way; a file that comes is mapped and unmapped. With a checksum, what has
 * come is read for it. false when the connection is broken. */
bool hm_bench_bare_send(int fd, const struct hm_bench_sizes *sizes,
    const uint8_t *buffer);
bool hm_bench_bare_recv(int fd, const struct hm_bench_sizes *sizes,
    uint8_t *buffer, struct hm_checksum *checksum_out);

/* The other end's main program: `hummingctl bench peer REPLY FILE`. */
int hm_bench_peer(const struct hm_ctl *ctl);

/* --- requests (ctl_bench_kernel.c) --------------------------------------- */

/* One kernel wanted, through the public API. */
struct hm_bench_want {
	struct humming_kernel_request request;
	const struct humming_source *source; /* borrowed; NULL = request */
	struct hm_bench_sizes sizes;         /* on the wire, for a hit */
};

/* A request by its SPEC, for sm_90a. */
int hm_bench_want_spec(struct hm_bench *bench, const char *spec,
    struct hm_bench_want *want_out);
/* A source whose cubin is about 200 KB, most of it a table. want borrows it. */
void hm_bench_want_large(struct humming_source *source,
    struct hm_bench_want *want_out);

/* A client's source; text is borrowed. */
void hm_bench_source(const char *text, struct humming_source *source_out);

/* Get it once; built if need be. */
int hm_bench_get(struct hm_bench *bench, struct humming_client *client,
    const struct hm_bench_want *want, struct humming_kernel **kernel_out);

/* Have it built, and fill in want->sizes. */
int hm_bench_prepare(struct hm_bench *bench, struct hm_bench_want *want);

/* The kernels of Qwen3-32B w4a16 for sm_90a. set: initialised. */
int hm_bench_model(struct hm_bench *bench, struct hm_kernel_set *set);

#endif
