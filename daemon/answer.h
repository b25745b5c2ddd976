/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer.h - where one wanted kernel's reply goes, and the replies there are.
 *
 * Whatever is said to a client about a kernel, and counted or logged about it,
 * passes here. Nothing to check after sending: hm_session_send's rule.
 */
#ifndef HM_DAEMON_ANSWER_H
#define HM_DAEMON_ANSWER_H

#include <stdint.h>

#include "cache/cache.h"
#include "daemon/choice.h"
#include "daemon/core.h"
#include "daemon/flight.h"
#include "daemon/recipe.h"
#include "daemon/session.h"

/* All pointers are borrowed. */
struct hm_answer {
	struct hm_core *core;
	struct hm_session *session;
	uint32_t request_id;
	uint32_t index;
	uint64_t received_us;
	const struct hm_choice *choice; /* NULL for client sources */
	struct hm_recipe *recipe;       /* NULL if none was found */
	struct hm_packed *packed;       /* where a hot hit's body is kept */
};

/* A build that failed, or was refused. */
void hm_answer_failure(const struct hm_answer *to,
    const struct hm_outcome *outcome);

/* The same from an error; message "" = hm_strerror's words. */
void hm_answer_error(const struct hm_answer *to, int error,
    const char *message);

/**
 * A kernel.
 *
 * tier     enum hm_reply_tier
 * log      of the compiler; NULL = none
 *
 * Returns HM_OK, or HM_E_CORRUPT (nothing was sent) when what is stored beside
 * the image is no meta.
 */
int hm_answer_entry(const struct hm_answer *to, struct hm_entry *entry,
    uint32_t tier, const char *log);

/* Answer if the cache has the recipe's kernel. HM_OK: it was sent;
 * HM_E_UNAVAILABLE: it must be built; anything else: nothing was sent. */
int hm_answer_from_cache(const struct hm_answer *to);

#endif
