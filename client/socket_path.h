/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_path.h - where the daemon's socket may be (DESIGN.md section 6).
 *
 * A socket that is named (by the caller or by HUMMING_SOCKET) is the only
 * candidate. Otherwise: the node's, then the private ones of this user. A
 * private folder that somebody else owns, or may write, is never believed.
 */
#ifndef HM_CLIENT_SOCKET_PATH_H
#define HM_CLIENT_SOCKET_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/error.h"
#include "proto/place.h"

#define HM_SOCKET_PATH_SYSTEM "/run/hummingd/hummingd.sock"
#define HM_SOCKET_PATH_CHARS  HM_PLACE_CHARS
#define HM_SOCKET_PATH_MAX    3

struct hm_socket_path {
	bool named; /* the only one allowed; never start a daemon */
	size_t n_paths;
	char paths[HM_SOCKET_PATH_MAX][HM_SOCKET_PATH_CHARS];
};

/**
 * The candidates, best first.
 *
 * socket_path   what the caller named; NULL or "" = nothing
 *
 * Reads the environment and looks at private folders; creates nothing. Returns
 * HM_OK or HM_E_INVALID (the named path is too long for a socket).
 */
int hm_socket_path_find(const char *socket_path,
    struct hm_socket_path *paths_out, struct hm_errbuf *errbuf);

/**
 * Where a private daemon of this user would listen, its folder made (0700) and
 * its owner checked.
 *
 * Returns HM_OK, HM_E_DENIED (the folder is not ours), HM_E_INVALID (too long)
 * or HM_E_SYSTEM.
 */
int hm_socket_path_private(char path_out[HM_SOCKET_PATH_CHARS],
    struct hm_errbuf *errbuf);

#endif
