/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paths.h - where socket, store and worker program are (DESIGN.md section 6).
 */
#ifndef HM_DAEMON_PATHS_H
#define HM_DAEMON_PATHS_H

#include <stddef.h>

#include "daemon/config.h"
#include "proto/error.h"

/**
 * Fill in socket and store where they are still empty.
 *
 *   system    /run/hummingd/hummingd.sock, /var/cache/hummingd
 *   private   $XDG_RUNTIME_DIR/humming/hummingd.sock, or
 *             ${TMPDIR:-/tmp}/humming-UID/hummingd.sock; and
 *             $XDG_CACHE_HOME/humming, $HOME/.cache/humming or the folder
 *             "store" beside the socket
 *
 * Creates nothing. Returns HM_OK or HM_E_INVALID (a path is too long).
 */
int hm_paths_resolve(struct hm_settings *settings, struct hm_errbuf *errbuf);

/**
 * Make the folders above socket and store where they are missing.
 *
 * The last folder of a private socket is made 0700; at one of the places above
 * it must be ours, and nobody else may write in it. Returns HM_OK, HM_E_DENIED
 * (it is not so) or HM_E_SYSTEM.
 */
int hm_paths_prepare(const struct hm_settings *settings,
    struct hm_errbuf *errbuf);

/* humming-worker beside this program, else in the installed libexec folder.
 * HM_OK, or HM_E_UNAVAILABLE. */
int hm_paths_find_worker(char *path_out, size_t size, struct hm_errbuf *errbuf);

#endif
