/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits.c - peer credentials, rights, what each uid has taken, descriptors.
 *
 * Rights (DESIGN.md section 4): everybody reads, unless a group is named for
 * that; root, the daemon's own uid and the members of one group also compile
 * sources, and of one (the same by default) administer.
 */
#include "daemon/limits.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* SO_PEERGROUPS of a uid with more groups than this are cut: fewer rights. */
#define LIMITS_MAX_GROUPS 256
/* More descriptors than this only make close loops slow. */
#define LIMITS_MAX_FILES 65536
/* A group whose members take more room has nobody in it for us. */
#define LIMITS_GROUP_BYTES 65536

/* By the right that its members have beside reading; READ: who may do that. */
struct limits_group {
	uint32_t right;
	bool is_there;
	gid_t gid;
};
#define LIMITS_N_GROUPS 3u

struct limits_user {
	uid_t uid;
	uint32_t taken[HM_LIMITS_N_KINDS];
	uint64_t last_turn; /* of hm_limits.turn */
};

struct hm_limits {
	uid_t own_uid;
	bool is_open; /* everybody reads */
	struct limits_group groups[LIMITS_N_GROUPS];
	uint64_t most[HM_LIMITS_N_KINDS];
	uint64_t max_files; /* descriptors we may have */
	uint64_t n_files;   /* the same, less the reserve */
	uint64_t turn;      /* builds started so far */
	size_t n_users;
	size_t n_room;
	struct limits_user *users; /* owned; only those who have taken */
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
	const char *admin = settings->group_admin[0] != '\0'
				? settings->group_admin
				: settings->group;
	const char *const names[LIMITS_N_GROUPS] = {settings->group, admin,
	    settings->group_read};
	static const uint32_t rights[LIMITS_N_GROUPS] = {HM_RIGHT_COMPILE,
	    HM_RIGHT_ADMIN, HM_RIGHT_READ};

	limits->most[HM_LIMITS_CONNECTIONS] = settings->uid_connections;
	limits->most[HM_LIMITS_WAITS] = settings->uid_in_flight;
	limits->most[HM_LIMITS_BUILDS] = settings->uid_queue;
	limits->most[HM_LIMITS_RUNNING] = UINT32_MAX;
	limits->most[HM_LIMITS_SOURCE_KIB] = HM_LIMITS_USER_KIB;
	limits->most[HM_LIMITS_UNREAD_KIB] = HM_LIMITS_USER_KIB;
	limits->n_files = limits->max_files > settings->fd_reserve + 16
			      ? limits->max_files - settings->fd_reserve
			      : 16;
	limits->is_open = settings->group_read[0] == '\0';
	for (size_t i = 0; i < LIMITS_N_GROUPS; i++) {
		limits->groups[i].right = rights[i];
		limits->groups[i].is_there =
		    limits_find_group(names[i], &limits->groups[i].gid);
	}
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
	uint32_t rights = limits->is_open ? HM_RIGHT_READ : 0;

	if (uid == 0 || uid == limits->own_uid)
		return HM_RIGHT_READ | HM_RIGHT_COMPILE | HM_RIGHT_ADMIN;
	for (size_t i = 0; i < LIMITS_N_GROUPS; i++) {
		const struct limits_group *group = &limits->groups[i];

		for (size_t j = 0; group->is_there && j < n_groups; j++) {
			if (groups[j] == group->gid)
				rights |= group->right | HM_RIGHT_READ;
		}
	}
	return rights;
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
limits_find(const struct hm_limits *limits, uid_t uid)
{
	for (size_t i = 0; i < limits->n_users; i++) {
		if (limits->users[i].uid == uid)
			return &limits->users[i];
	}
	return NULL;
}

/* A row for a new user, or NULL. */
static struct limits_user *
limits_add(struct hm_limits *limits, uid_t uid)
{
	struct limits_user *user;

	if (limits->n_users == limits->n_room) {
		size_t n_room = limits->n_room == 0 ? 8 : limits->n_room * 2;
		struct limits_user *users =
		    reallocarray(limits->users, n_room, sizeof(*users));

		if (users == NULL)
			return NULL;
		limits->users = users;
		limits->n_room = n_room;
	}
	user = &limits->users[limits->n_users++];
	memset(user, 0, sizeof(*user));
	user->uid = uid;
	return user;
}

static int
limits_take(struct hm_limits *limits, uid_t uid, enum hm_limits_kind kind,
    uint32_t n)
{
	struct limits_user *user = limits_find(limits, uid);

	if (n == 0)
		return HM_OK;
	if (n > limits->most[kind])
		return HM_E_BUSY;
	if (user == NULL)
		user = limits_add(limits, uid);
	if (user == NULL)
		return HM_E_NOMEM;
	if (user->taken[kind] > limits->most[kind] - n)
		return HM_E_BUSY;
	user->taken[kind] += n;
	if (kind == HM_LIMITS_RUNNING)
		user->last_turn = ++limits->turn;
	return HM_OK;
}

static void
limits_give(struct hm_limits *limits, uid_t uid, enum hm_limits_kind kind,
    uint32_t n)
{
	struct limits_user *user = limits_find(limits, uid);

	if (user == NULL)
		return;
	user->taken[kind] -= n < user->taken[kind] ? n : user->taken[kind];
	for (size_t i = 0; i < HM_LIMITS_N_KINDS; i++) {
		if (user->taken[i] > 0)
			return;
	}
	*user = limits->users[--limits->n_users];
}

int
hm_limits_take(struct hm_limits *limits, uid_t uid, enum hm_limits_kind kind)
{
	return limits_take(limits, uid, kind, 1);
}

void
hm_limits_give(struct hm_limits *limits, uid_t uid, enum hm_limits_kind kind)
{
	limits_give(limits, uid, kind, 1);
}

/* Rounded up; nothing of ours is near 4 TiB. */
static uint32_t
limits_kib(uint64_t n_bytes)
{
	return (uint32_t)((n_bytes + 1023) / 1024);
}

int
hm_limits_take_bytes(struct hm_limits *limits, uid_t uid,
    enum hm_limits_kind kind, uint64_t n_bytes)
{
	return limits_take(limits, uid, kind, limits_kib(n_bytes));
}

void
hm_limits_give_bytes(struct hm_limits *limits, uid_t uid,
    enum hm_limits_kind kind, uint64_t n_bytes)
{
	limits_give(limits, uid, kind, limits_kib(n_bytes));
}

int
hm_limits_take_build(struct hm_limits *limits, uid_t uid,
    uint64_t n_source_bytes, const char **why_out)
{
	int error = limits_take(limits, uid, HM_LIMITS_BUILDS, 1);

	*why_out = "too many builds of this user are queued "
		   "(limits.uid_queue)";
	if (error != HM_OK)
		return error;
	error = limits_take(limits, uid, HM_LIMITS_SOURCE_KIB,
	    limits_kib(n_source_bytes));
	if (error == HM_OK)
		return HM_OK;
	limits_give(limits, uid, HM_LIMITS_BUILDS, 1);
	*why_out = "too many bytes of sources of this user are queued";
	return error;
}

void
hm_limits_give_build(struct hm_limits *limits, uid_t uid,
    uint64_t n_source_bytes)
{
	limits_give(limits, uid, HM_LIMITS_SOURCE_KIB,
	    limits_kib(n_source_bytes));
	limits_give(limits, uid, HM_LIMITS_BUILDS, 1);
}

uint64_t
hm_limits_last_turn(const struct hm_limits *limits, uid_t uid)
{
	const struct limits_user *user = limits_find(limits, uid);

	return user == NULL ? 0 : user->last_turn;
}

uint32_t
hm_limits_count(const struct hm_limits *limits, uid_t uid,
    enum hm_limits_kind kind)
{
	const struct limits_user *user = limits_find(limits, uid);

	return user == NULL ? 0 : user->taken[kind];
}

uint32_t
hm_limits_count_others(const struct hm_limits *limits, uid_t uid,
    enum hm_limits_kind kind)
{
	uint32_t n = 0;

	for (size_t i = 0; i < limits->n_users; i++)
		n += limits->users[i].uid != uid &&
		     limits->users[i].taken[kind] > 0;
	return n;
}

bool
hm_limits_is_scarce(const struct hm_limits *limits, int fd)
{
	return (uint64_t)fd >= limits->n_files;
}
