/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.h - answers COMPILE: any CUDA C source, for those who may.
 */
#ifndef HM_DAEMON_COMPILE_H
#define HM_DAEMON_COMPILE_H

#include "daemon/core.h"
#include "daemon/session.h"
#include "proto/frame.h"

/* Handler of a frame: HM_OK, or an error that costs the connection. */
int hm_compile_handle(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame);

/* The pool has changed: requests that wait for a compiler go on. */
void hm_compile_resume_parked(struct hm_core *core);

/* Why a client's source may not be compiled here; false if it may. */
bool hm_compile_is_forbidden(const struct hm_core *core,
    struct hm_errbuf *text_out);

#endif
