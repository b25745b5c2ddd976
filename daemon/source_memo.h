/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_memo.h - the recipes of client sources that were asked for lately.
 *
 * Decoding, checking options and hashing by SHA-256 cost more than the rest of
 * a hit. A request whose packet and source are byte for byte those of an
 * earlier one, from the same user and for the same compiler, leads to the same
 * recipe. Bounded: 64 places, small sources only. Loop thread only.
 */
#ifndef HM_DAEMON_SOURCE_MEMO_H
#define HM_DAEMON_SOURCE_MEMO_H

#include <sys/types.h>

#include <stddef.h>
#include <stdint.h>

#include "daemon/recipe.h"

struct hm_source_memo;

/* A COMPILE as it came; all borrowed. */
struct hm_source_view {
	const uint8_t *body;
	size_t n_body;
	const uint8_t *source;
	size_t n_source;
	const char *compiler;
	uid_t uid;
};

/* HM_OK or HM_E_NOMEM. close: NULL allowed. */
int hm_source_memo_open(struct hm_source_memo **memo_out);
void hm_source_memo_close(struct hm_source_memo *memo);

/* Borrowed until the next put. NULL when it is not remembered. */
struct hm_recipe *hm_source_memo_find(struct hm_source_memo *memo,
    const struct hm_source_view *view);

/* Remember; what is too large or cannot be cached is not, silently. */
void hm_source_memo_put(struct hm_source_memo *memo,
    const struct hm_source_view *view, struct hm_recipe *recipe);

#endif
