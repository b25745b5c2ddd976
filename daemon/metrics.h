/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h - counters, latencies, and the two JSON texts made of them.
 */
#ifndef HM_DAEMON_METRICS_H
#define HM_DAEMON_METRICS_H

#include <stdint.h>

#include "proto/codec.h"
#include "proto/error.h"

/* Microseconds by powers of two, eight steps each: 12 % wide at most. */
#define HM_HISTOGRAM_STEPS   8u
#define HM_HISTOGRAM_BUCKETS (37u * HM_HISTOGRAM_STEPS)

struct hm_histogram {
	uint64_t n_values;
	uint64_t buckets[HM_HISTOGRAM_BUCKETS];
};

void hm_histogram_add(struct hm_histogram *histogram, uint64_t value_us);
/* The value below which a share of permille/1000 lies; 0 when empty. */
uint64_t hm_histogram_quantile(const struct hm_histogram *histogram,
    uint32_t permille);

/* Counts requested kernels, never a worker's probe. */
struct hm_metrics {
	uint64_t hits[HM_TIER_BUILT]; /* by enum hm_reply_tier */
	uint64_t builds;
	uint64_t build_failures;
	uint64_t joined; /* requests that found their build under way */
	uint64_t busy;
	uint64_t try_local; /* told to build it themselves */
	uint64_t denied;    /* for want of a right */
	uint64_t limited;   /* at a limit of one user */
	struct hm_histogram latency[HM_TIER_BUILT + 1]; /* receipt to reply */
};

struct hm_core;

/* DESIGN.md section 7's `stats --json` and `status --json`; the caller frees
 * the text. HM_OK or HM_E_NOMEM. */
int hm_metrics_stats(const struct hm_core *core, char **json_out);
/* rights: HM_RIGHT_ bits of the one who asks. */
int hm_metrics_status(const struct hm_core *core, uint32_t rights,
    char **json_out);

/* Why we are less than whole, in one line; "" when nothing is wrong. */
void hm_metrics_degraded(const struct hm_core *core,
    struct hm_errbuf *text_out);

/* Anonymous resident memory of this process. 0 if it cannot be read. */
uint64_t hm_metrics_rss_bytes(void);

#endif
