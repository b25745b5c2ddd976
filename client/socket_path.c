/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_path.c - see socket_path.h.
 */
#include "client/socket_path.h"

#include <sys/stat.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What the environment says, NULL when it says nothing. A set-user-id program
 * is not steered by its caller. */
static const char *
socket_path_env(const char *name)
{
	const char *value = secure_getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

static void
socket_path_add(struct hm_socket_path *paths, const struct hm_place *place)
{
	if (hm_place_is_private(place->folder))
		memcpy(paths->paths[paths->n_paths++], place->socket,
		    sizeof place->socket);
}

int
hm_socket_path_find(const char *socket_path, struct hm_socket_path *paths_out,
    struct hm_errbuf *errbuf)
{
	struct hm_socket_path paths = {.named = true, .n_paths = 1};
	struct hm_place place;

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
	if (hm_place_runtime(&place))
		socket_path_add(&paths, &place);
	if (hm_place_temporary(&place))
		socket_path_add(&paths, &place);
	*paths_out = paths;
	return HM_OK;
}

int
hm_socket_path_private(char path_out[HM_SOCKET_PATH_CHARS],
    struct hm_errbuf *errbuf)
{
	struct hm_place place;

	if (!hm_place_find(&place)) {
		hm_errbuf_set(errbuf,
		    "TMPDIR is too long for a socket beneath it");
		return HM_E_INVALID;
	}
	if (mkdir(place.folder, 0700) == -1 && errno != EEXIST) {
		hm_errbuf_set(errbuf, "%s: %s", place.folder, strerror(errno));
		return HM_E_SYSTEM;
	}
	if (!hm_place_is_private(place.folder)) {
		hm_errbuf_set(errbuf,
		    "%s: not a folder that only this user may write",
		    place.folder);
		return HM_E_DENIED;
	}
	memcpy(path_out, place.socket, sizeof place.socket);
	return HM_OK;
}
