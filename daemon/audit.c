/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit.c - see audit.h. A line has the peer as the kernel told it, never as it
 * calls itself.
 */
#include "daemon/audit.h"

#include "daemon/log.h"

static void
audit_say(const struct hm_peer *peer, const char *kind, const char *what,
    const char *why)
{
	struct hm_log_text quoted;

	hm_log(HM_LOG_CONN, HM_LOG_NOTICE,
	    "%s what=%s uid=%lu gid=%lu pid=%ld why=\"%s\"", kind, what,
	    (unsigned long)peer->uid, (unsigned long)peer->gid, (long)peer->pid,
	    hm_log_quote(&quoted, why));
}

void
hm_audit_refuse(struct hm_core *core, const struct hm_peer *peer,
    const char *what, const char *why)
{
	core->metrics.denied++;
	audit_say(peer, "denied", what, why);
}

void
hm_audit_limit(struct hm_core *core, const struct hm_peer *peer,
    const char *what, const char *why)
{
	core->metrics.limited++;
	audit_say(peer, "limited", what, why);
}
