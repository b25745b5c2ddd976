/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fetch.h - get kernels: many requests over one link, replies as they come.
 *
 * Owns the part of the protocol between GET or COMPILE and the KERNEL replies:
 * which replies belong to what, parts and descriptors, what to ask again after
 * a reconnect. Every request gets exactly one call of the result function,
 * whatever happens.
 */
#ifndef HM_CLIENT_FETCH_H
#define HM_CLIENT_FETCH_H

#include <stddef.h>
#include <stdint.h>

#include "client/link.h"
#include "proto/codec.h"
#include "proto/error.h"
#include "proto/request.h"
#include <humming/client.h>

/* What became of one request. */
struct hm_fetch_result {
	size_t index;
	int error;                     /* HM_OK, then kernel is set */
	struct humming_kernel *kernel; /* one reference, the receiver's */
	const char *message;           /* borrowed; why it failed, one line */
	const char *log; /* borrowed; the compiler's; NULL = none */
};

typedef void (
    *hm_fetch_result_fn)(void *payload, const struct hm_fetch_result *result);
/* A build still runs, or waits at this place of the queue. */
typedef void (*hm_fetch_progress_fn)(void *payload, size_t index,
    const struct hm_progress *progress);

/* Either requests, or one source with how to compile it. */
struct hm_fetch {
	const struct hm_request *requests; /* borrowed */
	size_t n_requests;                 /* 1 with a source */
	const struct hm_compile *compile;  /* borrowed; NULL = requests */
	const void *source;                /* borrowed; compile->source_bytes */
	uint32_t lane;                     /* enum hm_lane */
	size_t window; /* requests in flight; 0 = all, in few packets */
	hm_fetch_result_fn on_result;
	hm_fetch_progress_fn on_progress; /* NULL = not wanted */
	void *payload;
};

/**
 * Run to the end or to the deadline.
 *
 * Returns HM_OK when every request was answered, also with a failure of its
 * own; else what ended the run, which the unanswered got as their result.
 */
int hm_fetch_run(struct hm_link *link, const struct hm_fetch *fetch,
    int64_t deadline, struct hm_errbuf *errbuf);

#endif
