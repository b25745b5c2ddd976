/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits.h - who a peer is, what it may do, and how much of us it may take.
 */
#ifndef HM_DAEMON_LIMITS_H
#define HM_DAEMON_LIMITS_H

#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>

#include "daemon/config.h"
#include "proto/error.h"

#define HM_RIGHT_READ    1u /* our own kernels, status, stats, explain */
#define HM_RIGHT_COMPILE 2u /* sources of one's own */
#define HM_RIGHT_ADMIN   4u /* verify, evict, pin, drain, reload */

/* What a user takes of us, each kind up to a limit of its own. */
enum hm_limits_kind {
	HM_LIMITS_CONNECTIONS = 0, /* limits.uid_connections */
	HM_LIMITS_WAITS = 1,      /* kernels waited for: limits.uid_in_flight */
	HM_LIMITS_BUILDS = 2,     /* queued or running: limits.uid_queue */
	HM_LIMITS_RUNNING = 3,    /* builds that run; no limit, but counted */
	HM_LIMITS_SOURCE_KIB = 4, /* of sources in builds */
	HM_LIMITS_UNREAD_KIB = 5, /* of replies that wait */
	HM_LIMITS_N_KINDS = 6
};

/* Of each of the last two: for one user half of what there is for all together,
 * so that nobody ever takes the last of it. */
#define HM_LIMITS_USER_KIB (32u << 10)
#define HM_LIMITS_ALL_KIB  (64u << 10)

/* As the kernel said when the connection was made; never asked again. */
struct hm_peer {
	uid_t uid;
	gid_t gid;
	pid_t pid;
	uint32_t rights;
};

struct hm_limits;

/* Raises RLIMIT_NOFILE as far as it goes; looks the groups up once. */
int hm_limits_open(const struct hm_settings *settings,
    struct hm_limits **limits_out);
void hm_limits_close(struct hm_limits *limits); /* NULL allowed */

/* The settings were read anew; connections that are there stay. */
void hm_limits_update(struct hm_limits *limits,
    const struct hm_settings *settings);

/* Whether there is a group of this name. */
bool hm_limits_has_group(const char *name);

/* Descriptors that may be in use before is_scarce says so. */
uint64_t hm_limits_files(const struct hm_limits *limits);

/* The rights of a uid whose groups are given; what identify uses. */
uint32_t hm_limits_rights(const struct hm_limits *limits, uid_t uid,
    const gid_t *groups, size_t n_groups);

/* Whether this is the uid that the daemon runs as. */
bool hm_limits_is_own(uid_t uid);

/* Ask the kernel who is behind a connected socket. HM_OK or HM_E_SYSTEM. */
int hm_limits_identify(const struct hm_limits *limits, int socket_fd,
    struct hm_peer *peer_out);

/* One more of a kind for uid. HM_OK, HM_E_BUSY (its limit) or HM_E_NOMEM; then
 * nothing is to be given back. */
int hm_limits_take(struct hm_limits *limits, uid_t uid,
    enum hm_limits_kind kind);
void hm_limits_give(struct hm_limits *limits, uid_t uid,
    enum hm_limits_kind kind);

/* The same with bytes, of a kind that is counted in KiB. */
int hm_limits_take_bytes(struct hm_limits *limits, uid_t uid,
    enum hm_limits_kind kind, uint64_t n_bytes);
void hm_limits_give_bytes(struct hm_limits *limits, uid_t uid,
    enum hm_limits_kind kind, uint64_t n_bytes);

/* A build and its source together, or neither; why_out: a line, when it is
 * HM_E_BUSY. */
int hm_limits_take_build(struct hm_limits *limits, uid_t uid,
    uint64_t n_source_bytes, const char **why_out);
void hm_limits_give_build(struct hm_limits *limits, uid_t uid,
    uint64_t n_source_bytes);

/* When uid last took one that RUNNING counts, as a number that grows with each
 * of anybody's; 0 = not since he was last without anything. */
uint64_t hm_limits_last_turn(const struct hm_limits *limits, uid_t uid);

/* How many uid has taken; how many other users have any. */
uint32_t hm_limits_count(const struct hm_limits *limits, uid_t uid,
    enum hm_limits_kind kind);
uint32_t hm_limits_count_others(const struct hm_limits *limits, uid_t uid,
    enum hm_limits_kind kind);

/* Whether fd, the newest descriptor, already lies in the reserve: descriptors
 * are given out lowest first, so its number tells how many are in use. */
bool hm_limits_is_scarce(const struct hm_limits *limits, int fd);

#endif
