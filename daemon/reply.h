/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply.h - one KERNEL reply, with its image by the way that fits.
 */
#ifndef HM_DAEMON_REPLY_H
#define HM_DAEMON_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"
#include "daemon/recipe.h"
#include "daemon/session.h"
#include "proto/codec.h"

/**
 * Send a reply.
 *
 * reply    image_bytes, checksum, ABI and layout are filled in here
 * entry    whose image goes with it; NULL = none
 * packed   the body is kept there for hm_reply_send_packed; NULL = nowhere
 *
 * Up to 32 KiB inline; more by descriptor if the client takes one and none is
 * outstanding, else in PART packets ahead of the reply. Nothing to check:
 * hm_session_send's rule.
 */
void hm_reply_send(struct hm_session *session, uint32_t request_id,
    struct hm_kernel_reply *reply, struct hm_entry *entry,
    struct hm_packed *packed);

/* Send the body of an earlier reply once more, in another place. Returns
 * whether there is one for this entry. */
struct hm_reply_place {
	uint32_t request_id;
	uint32_t index; /* of the request in its GET */
};
bool hm_reply_send_packed(struct hm_session *session,
    const struct hm_reply_place *place, const struct hm_packed *packed,
    struct hm_entry *entry);

#endif
