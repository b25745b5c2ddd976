/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - the small questions: one request, one text.
 */
#ifndef HM_CLIENT_CALL_H
#define HM_CLIENT_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "client/link.h"
#include "proto/codec.h"
#include "proto/digest.h"
#include "proto/error.h"

/**
 * PING, STATUS or STATS.
 *
 * text_out  freed by the caller; NULL = not wanted
 *
 * Returns as hm_link_exchange.
 */
int hm_call_text(struct hm_link *link, uint32_t frame_type, int64_t deadline,
    char **text_out, struct hm_errbuf *errbuf);

/* STOP, and wait until the daemon is gone. Also HM_E_DENIED. */
int hm_call_stop(struct hm_link *link, int64_t deadline,
    struct hm_errbuf *errbuf);

/**
 * Ask for the record stored under a key, or the nearest one.
 *
 * record      what the key is the digest of, for the search of the nearest
 * stored_out  freed by the caller; NULL when reply_out->found is 0
 */
int hm_call_explain(struct hm_link *link, const struct hm_record *record,
    int64_t deadline, struct hm_record_reply *reply_out, void **stored_out,
    struct hm_errbuf *errbuf);

#endif
