/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failure.c - the negative cache of DESIGN.md section 3.
 */
#include "daemon/failure.h"

#include <stdlib.h>
#include <string.h>

#define FAILURE_COMPILE_US (600u * UINT64_C(1000000))
#define FAILURE_OTHER_US   (60u * UINT64_C(1000000))

uint64_t
hm_failure_lifetime_us(int error)
{
	/* The same source fails the same way; a crash, a deadline or a lack
	 * of memory may be the machine's, so it is tried again sooner. */
	return error == HM_E_COMPILE ? FAILURE_COMPILE_US : FAILURE_OTHER_US;
}

static void
failure_clear(struct hm_failure *failure)
{
	free(failure->log);
	memset(failure, 0, sizeof(*failure));
}

void
hm_failures_put(struct hm_failures *failures, const struct hm_failure *failure,
    uint64_t now_us)
{
	struct hm_failure *slot =
	    &failures->slots[failures->next % HM_FAILURE_SLOTS];

	failures->next++;
	failure_clear(slot);
	*slot = *failure;
	slot->expires_us = now_us + hm_failure_lifetime_us(failure->error);
	if (failure->log != NULL)
		slot->log = strdup(failure->log);
}

const struct hm_failure *
hm_failures_find(struct hm_failures *failures, const struct hm_digest *key,
    uint64_t now_us)
{
	for (uint32_t i = 0; i < HM_FAILURE_SLOTS; i++) {
		struct hm_failure *slot = &failures->slots[i];

		if (slot->expires_us == 0 || !hm_digest_equal(&slot->key, key))
			continue;
		if (slot->expires_us > now_us)
			return slot;
		failure_clear(slot);
	}
	return NULL;
}

void
hm_failures_done(struct hm_failures *failures)
{
	for (uint32_t i = 0; i < HM_FAILURE_SLOTS; i++)
		failure_clear(&failures->slots[i]);
}
