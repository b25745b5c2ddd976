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

/* As the kernel said when the connection was made; never asked again. */
struct hm_peer {
	uid_t uid;
	gid_t gid;
	pid_t pid;
	uint32_t rights;
};

struct hm_limits;

/* Raises RLIMIT_NOFILE as far as it goes; looks the group up once. */
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

/* One more connection of uid. HM_OK, HM_E_BUSY (its cap) or HM_E_NOMEM. */
int hm_limits_admit(struct hm_limits *limits, uid_t uid);
void hm_limits_release(struct hm_limits *limits, uid_t uid);

/* Whether fd, the newest descriptor, already lies in the reserve: descriptors
 * are given out lowest first, so its number tells how many are in use. */
bool hm_limits_is_scarce(const struct hm_limits *limits, int fd);

#endif
