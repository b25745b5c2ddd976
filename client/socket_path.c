/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_path.c - see socket_path.h.
 */
#include "client/socket_path.h"

#include <sys/stat.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A private folder: its path without the socket's name. */
struct socket_folder {
	char path[HM_SOCKET_PATH_CHARS];
};

/* What the environment says, NULL when it says nothing. A set-user-id program
 * is not steered by its caller. */
static const char *
socket_path_env(const char *name)
{
	const char *value = secure_getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

/* Ours, a real folder, and nobody else may write in it. */
static bool
socket_path_is_private(const char *folder)
{
	struct stat status;

	return lstat(folder, &status) == 0 && S_ISDIR(status.st_mode) &&
	       status.st_uid == geteuid() && (status.st_mode & 022) == 0;
}

/* $XDG_RUNTIME_DIR/humming, when the runtime folder is there and ours. */
static bool
socket_path_runtime(struct socket_folder *folder_out)
{
	const char *runtime = socket_path_env("XDG_RUNTIME_DIR");
	int n;

	if (runtime == NULL || runtime[0] != '/' ||
	    !socket_path_is_private(runtime))
		return false;
	n = snprintf(folder_out->path, sizeof folder_out->path, "%s/humming",
	    runtime);
	return n > 0 && (size_t)n < sizeof folder_out->path;
}

/* A folder named after the user under the temporary directory. */
static bool
socket_path_temporary(struct socket_folder *folder_out)
{
	const char *temporary = socket_path_env("TMPDIR");
	int n;

	if (temporary == NULL || temporary[0] != '/')
		temporary = "/tmp";
	n = snprintf(folder_out->path, sizeof folder_out->path, "%s/humming-%u",
	    temporary, (unsigned)geteuid());
	return n > 0 && (size_t)n < sizeof folder_out->path;
}

static bool
socket_path_join(const struct socket_folder *folder,
    char path_out[HM_SOCKET_PATH_CHARS])
{
	char path[2 * HM_SOCKET_PATH_CHARS];
	int n;

	n = snprintf(path, sizeof path, "%s/hummingd.sock", folder->path);
	if (n < 0 || n >= HM_SOCKET_PATH_CHARS)
		return false;
	memcpy(path_out, path, (size_t)n + 1);
	return true;
}

static void
socket_path_add(struct hm_socket_path *paths,
    const struct socket_folder *folder)
{
	if (socket_path_is_private(folder->path) &&
	    socket_path_join(folder, paths->paths[paths->n_paths]))
		paths->n_paths++;
}

int
hm_socket_path_find(const char *socket_path, struct hm_socket_path *paths_out,
    struct hm_errbuf *errbuf)
{
	struct hm_socket_path paths = {.named = true, .n_paths = 1};
	struct socket_folder folder;

	if (socket_path == NULL || socket_path[0] == '\0')
		socket_path = socket_path_env("HUMMING_SOCKET");
	if (socket_path != NULL) {
		if (strlen(socket_path) >= HM_SOCKET_PATH_CHARS) {
			hm_errbuf_set(errbuf,
			    "%s: longer than the %d characters of a socket's "
			    "path",
			    socket_path, HM_SOCKET_PATH_CHARS - 1);
			return HM_E_INVALID;
		}
		memcpy(paths.paths[0], socket_path, strlen(socket_path) + 1);
		*paths_out = paths;
		return HM_OK;
	}
	paths.named = false;
	memcpy(paths.paths[0], HM_SOCKET_PATH_SYSTEM,
	    sizeof HM_SOCKET_PATH_SYSTEM);
	if (socket_path_runtime(&folder))
		socket_path_add(&paths, &folder);
	if (socket_path_temporary(&folder))
		socket_path_add(&paths, &folder);
	*paths_out = paths;
	return HM_OK;
}

int
hm_socket_path_private(char path_out[HM_SOCKET_PATH_CHARS],
    struct hm_errbuf *errbuf)
{
	struct socket_folder folder;
	char path[HM_SOCKET_PATH_CHARS];

	if ((!socket_path_runtime(&folder) ||
		!socket_path_join(&folder, path)) &&
	    (!socket_path_temporary(&folder) ||
		!socket_path_join(&folder, path))) {
		hm_errbuf_set(errbuf,
		    "TMPDIR is too long for a socket beneath it");
		return HM_E_INVALID;
	}
	if (mkdir(folder.path, 0700) == -1 && errno != EEXIST) {
		hm_errbuf_set(errbuf, "%s: %s", folder.path, strerror(errno));
		return HM_E_SYSTEM;
	}
	if (!socket_path_is_private(folder.path)) {
		hm_errbuf_set(errbuf,
		    "%s: not a folder that only this user may write",
		    folder.path);
		return HM_E_DENIED;
	}
	memcpy(path_out, path, sizeof path);
	return HM_OK;
}
