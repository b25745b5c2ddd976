/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_set.h - the distinct kernels of a list of requests, with their uses.
 *
 * What `hummingctl plan` prints and `prewarm` builds: for every layer and every
 * M from 1 to max_m the plan's row, gathered by key. Also over every SM count
 * that is usual for the target, so that a prewarmed image serves all of them.
 */
#ifndef HM_JIT_KERNEL_SET_H
#define HM_JIT_KERNEL_SET_H

#include <stddef.h>
#include <stdint.h>

#include "jit/config.h"
#include "proto/digest.h"
#include "proto/error.h"
#include "proto/request.h"

struct hm_kernel_use {
	char layer[32];
	uint32_t n, k, m_lo, m_hi; /* m inclusive, as wide as it goes */
	uint32_t sms;              /* for which this use was chosen */
};

struct hm_kernel_item {
	struct hm_digest key;
	struct hm_config config;
	struct hm_request request; /* full: target, m, n, k, sms of one use */
	size_t n_uses;
	struct hm_kernel_use *uses; /* owned */
};

struct hm_kernel_set {
	size_t n_items;
	struct hm_kernel_item *items; /* owned, in order of first use */
};

void hm_kernel_set_init(struct hm_kernel_set *set);
void hm_kernel_set_done(struct hm_kernel_set *set);

/**
 * Add all kernels of one layer.
 *
 * layer    label of the uses, cut to fit
 * request  types, target, n, k; m: 0 = every M up to max_m, else that one M;
 *          sms: 0 = the target's usual counts, else that one count
 * max_m    0 = HM_PLAN_MAX_M
 *
 * For the first usual count every range of M becomes a use. For the others only
 * kernels that the set does not have yet are added, with their uses. The
 * request of an item leads back to its key through hm_plan_compute,
 * hm_plan_find and hm_key_own; its sms is 0 where any of its uses is for the
 * first usual count.
 *
 * Returns HM_OK, HM_E_NOMEM or what hm_plan_compute and hm_key_own return; the
 * set is whole after a failure, too, but may hold a part of the layer.
 */
int hm_kernel_set_add(struct hm_kernel_set *set, const char *layer,
    const struct hm_request *request, uint32_t max_m, struct hm_errbuf *errbuf);

#endif
