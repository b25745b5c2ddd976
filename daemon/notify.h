/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.h - tell whoever started us how we are.
 *
 * Two protocols: a descriptor named by HUMMING_READY_FD gets "ready\n" and is
 * closed (tests, autostart); the datagram socket named by NOTIFY_SOCKET gets
 * the assignments of sd_notify(3).
 */
#ifndef HM_DAEMON_NOTIFY_H
#define HM_DAEMON_NOTIFY_H

#include <stdint.h>

#include "proto/error.h"

/*
 * All are no-ops when nobody asked. HM_OK, HM_E_INVALID (the variable makes no
 * sense) or HM_E_SYSTEM; what failed in errbuf. status is one line for a
 * person, or NULL.
 */
int hm_notify_ready(const char *status, struct hm_errbuf *errbuf);
int hm_notify_stopping(struct hm_errbuf *errbuf);
/* The configuration is read anew; hm_notify_ready follows. */
int hm_notify_reloading(struct hm_errbuf *errbuf);
int hm_notify_status(const char *status, struct hm_errbuf *errbuf);
/* We live: to be said more often than hm_notify_watchdog_us. */
int hm_notify_alive(struct hm_errbuf *errbuf);

/* How long we may say nothing before we are killed, in microseconds; 0 when
 * nobody watches this process. From WATCHDOG_USEC and WATCHDOG_PID. */
uint64_t hm_notify_watchdog_us(void);

#endif
