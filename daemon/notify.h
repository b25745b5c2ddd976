/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.h - tell whoever started us that we listen, or that we leave.
 *
 * Two protocols: a descriptor named by HUMMING_READY_FD gets "ready\n" and is
 * closed (tests, autostart); the datagram socket named by NOTIFY_SOCKET gets
 * sd_notify(3)'s READY=1 and STOPPING=1.
 */
#ifndef HM_DAEMON_NOTIFY_H
#define HM_DAEMON_NOTIFY_H

#include "proto/error.h"

/* Both are no-ops when nobody asked. HM_OK, HM_E_INVALID (the variable makes
 * no sense) or HM_E_SYSTEM; what failed in errbuf. */
int hm_notify_ready(struct hm_errbuf *errbuf);
int hm_notify_stopping(struct hm_errbuf *errbuf);

#endif
