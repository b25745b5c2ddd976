/* SPDX-License-Identifier: Apache-2.0 */
/*
 * announce.h - what the service manager hears of us, and when.
 *
 * Ready, stopping and reloading as they happen; a line for `systemctl status`
 * whenever it would read differently; and, where it watches us, a sign of life
 * at half its interval. That comes from a timer of the loop, so that a loop
 * that has stopped turning gives none. Loop thread only.
 */
#ifndef HM_DAEMON_ANNOUNCE_H
#define HM_DAEMON_ANNOUNCE_H

#include "daemon/core.h"

struct hm_announce;

/* core is borrowed and has its base. HM_OK or HM_E_NOMEM. close: NULL
 * allowed. */
int hm_announce_open(struct hm_core *core, struct hm_announce **announce_out);
void hm_announce_close(struct hm_announce *announce);

/* Also after a reload. */
void hm_announce_ready(struct hm_announce *announce);
void hm_announce_reloading(struct hm_announce *announce);
void hm_announce_stopping(struct hm_announce *announce);

/* Something may have changed that the status line says. */
void hm_announce_change(struct hm_announce *announce);

#endif
