/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - the running daemon: makes the parts, runs the loop, ends well.
 */
#ifndef HM_DAEMON_SERVER_H
#define HM_DAEMON_SERVER_H

#include "daemon/options.h"
#include "proto/error.h"

struct hm_server;

/**
 * Lock, listen, open the store. Ready means listening: whoever asked is told
 * here, before any compiler is up.
 *
 * options   borrowed: what a reload starts from
 * settings  borrowed, and changed: by a reload, and socket by a service manager
 *           that has opened one for us
 *
 * Returns HM_OK or the error of the part that failed, one line in errbuf.
 */
int hm_server_open(const struct hm_options *options,
    struct hm_settings *settings, struct hm_server **server_out,
    struct hm_errbuf *errbuf);

/* Until SIGTERM, SIGINT, `stop` or, if private, idleness. HM_OK, or HM_E_SYSTEM
 * (the loop cannot go on) and one line in errbuf. */
int hm_server_run(struct hm_server *server, struct hm_errbuf *errbuf);

/* Everything stored is durable afterwards. NULL allowed. */
void hm_server_close(struct hm_server *server);

#endif
