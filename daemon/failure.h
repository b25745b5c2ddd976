/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failure.h - builds that failed a short while ago, by key.
 *
 * A small ring: the oldest memory goes when a new one needs its place, so that
 * a client that sends nothing but broken sources costs bounded memory.
 */
#ifndef HM_DAEMON_FAILURE_H
#define HM_DAEMON_FAILURE_H

#include <stdint.h>

#include "proto/digest.h"
#include "proto/error.h"

#define HM_FAILURE_SLOTS 128u

struct hm_failure {
	struct hm_digest key;
	uint64_t expires_us; /* 0 = the slot is empty */
	int error;           /* enum hm_error */
	char message[512];
	char *log; /* owned; NULL = none */
};

struct hm_failures {
	uint32_t next;
	struct hm_failure slots[HM_FAILURE_SLOTS];
};

/* How long a failure of this class is believed. */
uint64_t hm_failure_lifetime_us(int error);

/* Remember; log is copied (without memory for it: no log). */
void hm_failures_put(struct hm_failures *failures,
    const struct hm_failure *failure, uint64_t now_us);

/* Borrowed until the next put. NULL when there is none, or it is too old. */
const struct hm_failure *hm_failures_find(struct hm_failures *failures,
    const struct hm_digest *key, uint64_t now_us);

void hm_failures_done(struct hm_failures *failures);

#endif
