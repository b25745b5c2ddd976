/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_set.c - gathers plans by kernel.
 *
 * Two rows are one kernel when configuration and target agree; the key follows
 * from these two and is computed once for each item.
 */
#include "jit/kernel_set.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/key.h"
#include "jit/plan.h"

#define MAX_SMS 16

void
hm_kernel_set_init(struct hm_kernel_set *set)
{
	memset(set, 0, sizeof(*set));
}

void
hm_kernel_set_done(struct hm_kernel_set *set)
{
	for (size_t i = 0; i < set->n_items; i++)
		free(set->items[i].uses);
	free(set->items);
	hm_kernel_set_init(set);
}

static struct hm_kernel_item *
set_find(const struct hm_kernel_set *set, const struct hm_config *config,
    const struct hm_target *target)
{
	for (size_t i = 0; i < set->n_items; i++) {
		struct hm_kernel_item *item = &set->items[i];

		if (memcmp(&item->config, config, sizeof(*config)) == 0 &&
		    item->request.target.cc == target->cc &&
		    item->request.target.suffix == target->suffix)
			return item;
	}
	return NULL;
}

/* A new item without uses; request is the one that leads to it. */
static int
set_add_item(struct hm_kernel_set *set, const struct hm_config *config,
    const struct hm_request *request, struct hm_kernel_item **item_out)
{
	struct hm_kernel_item item = {.config = *config, .request = *request};
	struct hm_kernel_item *items;
	struct hm_record record;
	int error;

	hm_record_init(&record);
	error = hm_key_own(config, &request->target, &record, &item.key);
	hm_record_done(&record);
	if (error != HM_OK)
		return error;
	items = reallocarray(set->items, set->n_items + 1, sizeof(*items));
	if (items == NULL)
		return HM_E_NOMEM;

	set->items = items;
	items[set->n_items] = item;
	*item_out = &items[set->n_items++];
	return HM_OK;
}

/* A use behind the item's last one, or that one made longer. */
static int
set_add_use(struct hm_kernel_item *item, const struct hm_kernel_use *use)
{
	struct hm_kernel_use *uses;

	if (item->n_uses > 0) {
		struct hm_kernel_use *last = &item->uses[item->n_uses - 1];

		if (strcmp(last->layer, use->layer) == 0 && last->n == use->n &&
		    last->k == use->k && last->sms == use->sms &&
		    last->m_hi + 1 == use->m_lo) {
			last->m_hi = use->m_hi;
			return HM_OK;
		}
	}
	uses = reallocarray(item->uses, item->n_uses + 1, sizeof(*uses));
	if (uses == NULL)
		return HM_E_NOMEM;

	item->uses = uses;
	uses[item->n_uses++] = *use;
	return HM_OK;
}

/* One table of one SM count; all: also uses of kernels that are there. */
static int
set_add_plan(struct hm_kernel_set *set, struct hm_kernel_use use,
    const struct hm_request *request, bool all, struct hm_errbuf *errbuf)
{
	const uint32_t m_first = use.m_lo, m_last = use.m_hi;
	size_t n_old = set->n_items;
	struct hm_plan plan;
	int error;

	error = hm_plan_compute(request, &plan, errbuf);
	for (uint32_t i = 0; error == HM_OK && i < plan.n_rows; i++) {
		const struct hm_plan_row *row = &plan.rows[i];
		struct hm_kernel_item *item =
		    set_find(set, &row->config, &request->target);
		struct hm_request leads = *request;

		if (row->m_hi < m_first || row->m_lo > m_last ||
		    (item != NULL && !all &&
			(size_t)(item - set->items) < n_old))
			continue;
		use.m_lo = row->m_lo > m_first ? row->m_lo : m_first;
		use.m_hi = row->m_hi < m_last ? row->m_hi : m_last;
		leads.m = use.m_lo;
		if (item == NULL)
			error = set_add_item(set, &row->config, &leads, &item);
		else if (request->sms == 0 && item->request.sms != 0)
			/* Found for other numbers of SMs so far. */
			item->request = leads;
		if (error == HM_OK)
			error = set_add_use(item, &use);
	}
	return error;
}

int
hm_kernel_set_add(struct hm_kernel_set *set, const char *layer,
    const struct hm_request *request, uint32_t max_m, struct hm_errbuf *errbuf)
{
	struct hm_request asked = *request;
	uint32_t sms[MAX_SMS];
	size_t n_sms = hm_plan_sms_list(&request->target, sms, MAX_SMS);
	struct hm_kernel_use use = {
	    .n = request->n,
	    .k = request->k,
	    .m_lo = request->m != 0 ? request->m : 1,
	    .m_hi = max_m != 0 ? max_m : HM_PLAN_MAX_M,
	};
	int error = HM_OK;

	(void)snprintf(use.layer, sizeof(use.layer), "%s", layer);
	if (request->m != 0)
		use.m_hi = request->m;
	/* Also of no known target: the plan then says so. */
	if (request->sms != 0 || n_sms == 0) {
		sms[0] = request->sms;
		n_sms = 1;
	}
	for (size_t i = 0; error == HM_OK && i < n_sms; i++) {
		use.sms = sms[i];
		asked.sms = i == 0 ? request->sms : sms[i];
		error = set_add_plan(set, use, &asked, i == 0, errbuf);
	}
	return error;
}
