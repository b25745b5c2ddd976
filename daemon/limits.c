/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits.c - peer credentials, rights, connections per uid, descriptors.
 *
 * Rights (DESIGN.md section 4): everybody reads; root, the daemon's own uid
 * and the members of one group also compile sources.
 */
#include "daemon/limits.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <unistd.h>

/* SO_PEERGROUPS of a uid with more groups than this are cut: fewer rights. */
#define LIMITS_MAX_GROUPS 256
/* More descriptors than this only make close loops slow. */
#define LIMITS_MAX_FILES 65536
/* A group whose members take more room has nobody in it for us. */
#define LIMITS_GROUP_BYTES 65536

struct limits_user {
	uid_t uid;
	uint32_t n_connections;
};

struct hm_limits {
	uid_t own_uid;
	bool has_group;
	gid_t group;
	uint64_t uid_connections;
	uint64_t max_files; /* descriptors we may have */
	uint64_t n_files;   /* the same, less the reserve */
	size_t n_users;
	size_t n_room;
	struct limits_user *users; /* owned; only those with connections */
};

static uint64_t
limits_raise_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1024;
	limit.rlim_cur = limit.rlim_max;
	if (limit.rlim_cur == RLIM_INFINITY ||
	    limit.rlim_cur > LIMITS_MAX_FILES)
		limit.rlim_cur = LIMITS_MAX_FILES;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 1024;
	return limit.rlim_cur;
}

/* Whether there is a group of this name. */
static bool
limits_find_group(const char *name, gid_t *group_out)
{
	struct group group;
	struct group *found = NULL;
	char *buffer = malloc(LIMITS_GROUP_BYTES);

	if (buffer != NULL && name[0] != '\0')
		(void)getgrnam_r(name, &group, buffer, LIMITS_GROUP_BYTES,
		    &found);
	if (found != NULL)
		*group_out = group.gr_gid;
	free(buffer);
	return found != NULL;
}

bool
hm_limits_has_group(const char *name)
{
	gid_t group;

	return limits_find_group(name, &group);
}

void
hm_limits_update(struct hm_limits *limits, const struct hm_settings *settings)
{
	limits->uid_connections = settings->uid_connections;
	limits->n_files = limits->max_files > settings->fd_reserve + 16
			      ? limits->max_files - settings->fd_reserve
			      : 16;
	limits->has_group = limits_find_group(settings->group, &limits->group);
}

int
hm_limits_open(const struct hm_settings *settings,
    struct hm_limits **limits_out)
{
	struct hm_limits *limits = calloc(1, sizeof(*limits));

	if (limits == NULL)
		return HM_E_NOMEM;
	limits->own_uid = geteuid();
	limits->max_files = limits_raise_files();
	hm_limits_update(limits, settings);
	*limits_out = limits;
	return HM_OK;
}

uint64_t
hm_limits_files(const struct hm_limits *limits)
{
	return limits->n_files;
}

void
hm_limits_close(struct hm_limits *limits)
{
	if (limits == NULL)
		return;
	free(limits->users);
	free(limits);
}

uint32_t
hm_limits_rights(const struct hm_limits *limits, uid_t uid, const gid_t *groups,
    size_t n_groups)
{
	const uint32_t all = HM_RIGHT_READ | HM_RIGHT_COMPILE;

	if (uid == 0 || uid == limits->own_uid)
		return all;
	for (size_t i = 0; limits->has_group && i < n_groups; i++) {
		if (groups[i] == limits->group)
			return all;
	}
	return HM_RIGHT_READ;
}

bool
hm_limits_is_own(uid_t uid)
{
	return uid == geteuid();
}

int
hm_limits_identify(const struct hm_limits *limits, int socket_fd,
    struct hm_peer *peer_out)
{
	struct ucred credentials;
	gid_t groups[LIMITS_MAX_GROUPS + 1];
	socklen_t size = sizeof(credentials);
	size_t n_groups = 0;

	if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials,
		&size) != 0)
		return HM_E_SYSTEM;
	size = LIMITS_MAX_GROUPS * sizeof(groups[0]);
	if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) ==
	    0)
		n_groups = size / sizeof(groups[0]);
	groups[n_groups++] = credentials.gid;
	peer_out->uid = credentials.uid;
	peer_out->gid = credentials.gid;
	peer_out->pid = credentials.pid;
	peer_out->rights =
	    hm_limits_rights(limits, credentials.uid, groups, n_groups);
	return HM_OK;
}

static struct limits_user *
limits_find(struct hm_limits *limits, uid_t uid)
{
	for (size_t i = 0; i < limits->n_users; i++) {
		if (limits->users[i].uid == uid)
			return &limits->users[i];
	}
	return NULL;
}

int
hm_limits_admit(struct hm_limits *limits, uid_t uid)
{
	struct limits_user *user = limits_find(limits, uid);

	if (user == NULL && limits->n_users == limits->n_room) {
		size_t n_room = limits->n_room == 0 ? 8 : limits->n_room * 2;
		struct limits_user *users =
		    reallocarray(limits->users, n_room, sizeof(*users));

		if (users == NULL)
			return HM_E_NOMEM;
		limits->users = users;
		limits->n_room = n_room;
	}
	if (user == NULL) {
		user = &limits->users[limits->n_users++];
		user->uid = uid;
		user->n_connections = 0;
	}
	if (user->n_connections >= limits->uid_connections)
		return HM_E_BUSY;
	user->n_connections++;
	return HM_OK;
}

void
hm_limits_release(struct hm_limits *limits, uid_t uid)
{
	struct limits_user *user = limits_find(limits, uid);

	if (user == NULL || --user->n_connections > 0)
		return;
	*user = limits->users[--limits->n_users];
}

bool
hm_limits_is_scarce(const struct hm_limits *limits, int fd)
{
	return (uint64_t)fd >= limits->n_files;
}
