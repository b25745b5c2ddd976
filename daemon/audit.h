/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit.h - who was refused what: one line each in the log, at level notice.
 */
#ifndef HM_DAEMON_AUDIT_H
#define HM_DAEMON_AUDIT_H

#include "daemon/core.h"
#include "daemon/limits.h"

/* Log and count a refusal for want of a right. what: "compile", "read", ...;
 * why: one line as the peer hears it. */
void hm_audit_refuse(struct hm_core *core, const struct hm_peer *peer,
    const char *what, const char *why);

/* The same for one who has taken all that a user may have. */
void hm_audit_limit(struct hm_core *core, const struct hm_peer *peer,
    const char *what, const char *why);

#endif
