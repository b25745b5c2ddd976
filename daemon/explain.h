/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain.h - answers EXPLAIN: is a key stored, and if not, what comes nearest.
 *
 * The frame's raw bytes may hold the full record of the key asked for (the
 * tools compute it by jit/key). With it, a miss is answered with the stored
 * record of the same kind and target that shares most fields with it.
 */
#ifndef HM_DAEMON_EXPLAIN_H
#define HM_DAEMON_EXPLAIN_H

#include "daemon/core.h"
#include "daemon/session.h"
#include "proto/frame.h"

/* Handler of a frame: HM_OK, or an error that costs the connection. */
int hm_explain(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame);

#endif
