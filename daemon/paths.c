/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paths.c - names of places, and the checks before we trust one.
 *
 * Where a private socket is, and whether its folder can be trusted, is
 * proto/place.h's: the clients look by the same rule.
 */
#include "daemon/paths.h"

#include <sys/stat.h>
#include <sys/un.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/place.h"

#define PATHS_SYSTEM_SOCKET "/run/hummingd/hummingd.sock"
#define PATHS_SYSTEM_STORE  "/var/cache/hummingd"

static void
paths_private_store(const char *socket, char *path, size_t size)
{
	const char *cache = hm_place_environment("XDG_CACHE_HOME");
	const char *home = hm_place_environment("HOME");
	const char *slash;

	if (cache != NULL) {
		(void)snprintf(path, size, "%s/humming", cache);
	} else if (home != NULL && access(home, W_OK) == 0) {
		(void)snprintf(path, size, "%s/.cache/humming", home);
	} else {
		slash = strrchr(socket, '/');
		(void)snprintf(path, size, "%.*s/store",
		    slash == NULL ? 1 : (int)(slash - socket),
		    slash == NULL ? "." : socket);
	}
}

int
hm_paths_resolve(struct hm_settings *settings, struct hm_errbuf *errbuf)
{
	char *socket = settings->socket;
	char *store = settings->store;
	struct sockaddr_un address;
	struct hm_place place;

	if (socket[0] == '\0' && settings->is_private &&
	    !hm_place_find(&place)) {
		hm_errbuf_set(errbuf,
		    "TMPDIR is too long for a socket beneath it; use --socket");
		return HM_E_INVALID;
	}
	if (socket[0] == '\0')
		(void)snprintf(socket, sizeof(settings->socket), "%s",
		    settings->is_private ? place.socket : PATHS_SYSTEM_SOCKET);
	if (store[0] == '\0' && settings->is_private)
		paths_private_store(socket, store, sizeof(settings->store));
	else if (store[0] == '\0')
		(void)snprintf(store, sizeof(settings->store), "%s",
		    PATHS_SYSTEM_STORE);
	if (strlen(socket) >= sizeof(address.sun_path)) {
		hm_errbuf_set(errbuf,
		    "socket: '%s' is longer than the %zu characters a socket "
		    "name may have",
		    socket, sizeof(address.sun_path) - 1);
		return HM_E_INVALID;
	}
	return HM_OK;
}

/* false: it is not there and cannot be made, errno says why. */
static bool
paths_make_folder(const char *folder, mode_t mode)
{
	int why;

	if (mkdir(folder, mode) == 0 || errno == EEXIST)
		return true;
	why = errno;
	if (access(folder, F_OK) == 0)
		return true;
	errno = why;
	return false;
}

/* Make every missing folder above path. */
static int
paths_make_parents(const char *path, mode_t last_mode, struct hm_errbuf *errbuf)
{
	char folder[HM_CONFIG_PATH_BYTES];
	char *last = NULL;

	(void)snprintf(folder, sizeof(folder), "%s", path);
	last = strrchr(folder, '/');
	if (last == NULL || last == folder)
		return HM_OK;
	*last = '\0';
	for (char *at = folder + 1;; at++) {
		bool is_last = *at == '\0';

		if (!is_last && *at != '/')
			continue;
		*at = '\0';
		if (!paths_make_folder(folder, is_last ? last_mode : 0755)) {
			hm_errbuf_set(errbuf,
			    "cannot make folder %s: %s; use --private, or "
			    "name --socket and --store",
			    folder, strerror(errno));
			return HM_E_SYSTEM;
		}
		if (is_last)
			return HM_OK;
		*at = '/';
	}
}

/* A private socket of the usual place stands in a folder that is ours alone. */
static int
paths_check_private(const char *socket, struct hm_errbuf *errbuf)
{
	struct hm_place usual;

	if (!hm_place_find(&usual) || strcmp(usual.socket, socket) != 0 ||
	    hm_place_is_private(usual.folder))
		return HM_OK;
	hm_errbuf_set(errbuf,
	    "%s is not a folder that only this user may write; use --socket",
	    usual.folder);
	return HM_E_DENIED;
}

int
hm_paths_prepare(const struct hm_settings *settings, struct hm_errbuf *errbuf)
{
	int error;

	error = paths_make_parents(settings->socket,
	    settings->is_private ? 0700 : 0755, errbuf);
	if (error == HM_OK && settings->is_private)
		error = paths_check_private(settings->socket, errbuf);
	if (error == HM_OK)
		error = paths_make_parents(settings->store, 0755, errbuf);
	return error;
}

int
hm_paths_find_worker(char *path_out, size_t size, struct hm_errbuf *errbuf)
{
	static const char *const places[] = {"", HM_LIBEXEC_FROM_SBIN "/",
	    HM_LIBEXEC_DIR "/"};
	char self[HM_CONFIG_PATH_BYTES] = "/";
	char path[HM_CONFIG_PATH_BYTES * 2];
	ssize_t length;

	length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[length > 0 ? length : 1] = '\0';
	*(strrchr(self, '/') + 1) = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s%shumming-worker",
		    places[i][0] == '/' ? "" : self, places[i]);
		if (access(path, X_OK) != 0 || strlen(path) >= size)
			continue;
		(void)snprintf(path_out, size, "%s", path);
		return HM_OK;
	}
	hm_errbuf_set(errbuf,
	    "humming-worker is neither beside hummingd nor in %s",
	    HM_LIBEXEC_DIR);
	return HM_E_UNAVAILABLE;
}
