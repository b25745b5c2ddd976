/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch.h - from a frame's type to who answers it.
 */
#ifndef HM_DAEMON_DISPATCH_H
#define HM_DAEMON_DISPATCH_H

#include "daemon/core.h"
#include "daemon/session.h"
#include "proto/frame.h"

/**
 * Handle one frame of a client.
 *
 * Returns HM_OK, or an error that costs the connection: a type nobody knows or
 * that does not fit the session's state, or a body that does not decode.
 */
int hm_dispatch(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame);

#endif
