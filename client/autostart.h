/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autostart.h - start a private daemon the way tmux starts its server.
 *
 * A lock file in the private folder makes many callers start one: who gets the
 * lock looks again whether somebody answers, and only then starts. posix_spawn,
 * no fork; the daemon leads a session of its own, so that no signal of the
 * terminal reaches it, and tells through a pipe that it listens.
 */
#ifndef HM_CLIENT_AUTOSTART_H
#define HM_CLIENT_AUTOSTART_H

#include <stdint.h>

#include "client/socket_path.h"
#include "client/transport.h"
#include "proto/error.h"

/**
 * Connect to this user's private daemon, starting it if need be.
 *
 * transport  connected on success, not greeted yet
 * path_out   its socket, on success
 *
 * Returns HM_OK; HM_E_UNAVAILABLE (no hummingd program found, or it left
 * before it was ready: its last words are in errbuf); HM_E_TIMEOUT; or as
 * hm_socket_path_private and hm_transport_connect.
 */
int hm_autostart_connect(struct hm_transport *transport, int64_t deadline,
    char path_out[HM_SOCKET_PATH_CHARS], struct hm_errbuf *errbuf);

/* The hummingd that belongs to this program: beside it, beside this library or
 * its bin/, then the installed one. HM_OK or HM_E_UNAVAILABLE. */
int hm_autostart_program(char *path_out, size_t size, struct hm_errbuf *errbuf);

#endif
