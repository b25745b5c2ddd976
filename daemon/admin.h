/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.h - ADMIN: commands of those who may administer.
 *
 * What is quick is done and answered; what is long is the cache's task, one at
 * a time, and answered when that is over. Who goes away meanwhile is not
 * answered, but what was begun is finished.
 */
#ifndef HM_DAEMON_ADMIN_H
#define HM_DAEMON_ADMIN_H

#include "daemon/core.h"
#include "daemon/session.h"
#include "proto/frame.h"

struct hm_admin_desk;

/* core is borrowed and has its base. HM_OK or HM_E_NOMEM. close: NULL
 * allowed. */
int hm_admin_open(struct hm_core *core, struct hm_admin_desk **desk_out);
void hm_admin_close(struct hm_admin_desk *desk);

/* Handler of a frame: HM_OK, or an error that costs the connection. */
int hm_admin_handle(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame);

/* The client is gone. */
void hm_admin_forget(struct hm_admin_desk *desk,
    const struct hm_session *session);

#endif
