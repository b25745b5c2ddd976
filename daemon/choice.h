/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choice.h - what a request for one of our kernels comes to: the kernel for
 * its own M, and the table over M for its N and K.
 *
 * Planning, printing and hashing cost tens of microseconds, a hit may cost a
 * few: the last choices are remembered, a bounded number of them. A choice is
 * a pure function of the request, so what is remembered never goes stale.
 */
#ifndef HM_DAEMON_CHOICE_H
#define HM_DAEMON_CHOICE_H

#include <stdint.h>

#include "daemon/recipe.h"
#include "proto/codec.h"
#include "proto/request.h"

/* Counted, immutable but for packed. Loop thread only. */
struct hm_choice {
	uint32_t n_refs;
	struct hm_request request;
	char spec[256];           /* canonical text of the request as asked */
	struct hm_recipe *recipe; /* one reference */
	struct hm_packed packed;  /* of a hot hit */
	uint32_t n_ranges;
	struct hm_range ranges[]; /* empty unless n and k were given */
};

struct hm_choices;

/* HM_OK or HM_E_NOMEM. close: NULL allowed. */
int hm_choices_open(struct hm_choices **choices_out);
void hm_choices_close(struct hm_choices *choices);

/**
 * Find or make the choice for a request.
 *
 * choice_out   a reference for the caller, hm_choice_unref
 *
 * Returns HM_OK, HM_E_INVALID or HM_E_UNSUPPORTED with the reason in errbuf,
 * HM_E_NOMEM, HM_E_INTERNAL.
 */
int hm_choices_get(struct hm_choices *choices, const struct hm_request *request,
    struct hm_choice **choice_out, struct hm_errbuf *errbuf);

struct hm_choice *hm_choice_ref(struct hm_choice *choice);
void hm_choice_unref(struct hm_choice *choice); /* NULL allowed */

#endif
