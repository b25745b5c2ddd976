/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_plan.c - plan: the distinct kernels that a model or SPECs lead to. Asks
 * no daemon.
 */
#include "client/ctl.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "client/ctl_row.h"
#include "client/ctl_table.h"
#include "jit/plan.h"
#include "jit/spec.h"

/* A row's uses are those for the SM count in its spec: for the others the plan
 * may cut M elsewhere, which would make `get` of a use answer another key. */
static bool
plan_is_shown(const struct hm_kernel_item *item,
    const struct hm_kernel_use *use)
{
	uint32_t usual = hm_plan_usual_sms(&item->request.target);
	uint32_t ours = item->request.sms != 0 ? item->request.sms : usual;

	return (use->sms != 0 ? use->sms : usual) == ours;
}

static json_t *
plan_json_uses(const struct hm_kernel_item *item)
{
	const struct hm_kernel_use *use;
	json_t *uses = json_array();

	for (size_t i = 0; i < item->n_uses; i++) {
		use = &item->uses[i];
		if (plan_is_shown(item, use))
			(void)json_array_append_new(uses,
			    json_pack("{s:s, s:I, s:I, s:I, s:I}", "layer",
				use->layer, "n", (json_int_t)use->n, "k",
				(json_int_t)use->k, "m_lo",
				(json_int_t)use->m_lo, "m_hi",
				(json_int_t)use->m_hi));
	}
	return uses;
}

/* What both forms of output show of an item. */
struct plan_text {
	char key[HM_DIGEST_HEX_CHARS + 1];
	char spec[HM_SPEC_MAX_CHARS + 1];
	char arch[16];
};

static int
plan_text(const struct hm_kernel_item *item, struct plan_text *text)
{
	hm_digest_to_hex(&item->key, text->key);
	hm_target_print(&item->request.target, text->arch);
	return hm_spec_print(&item->request, text->spec, sizeof text->spec);
}

static int
plan_print_json(const struct hm_ctl *ctl, const struct hm_kernel_set *set)
{
	json_t *rows = json_array();
	struct plan_text text;

	for (size_t i = 0; i < set->n_items; i++) {
		if (plan_text(&set->items[i], &text) != HM_OK ||
		    json_array_append_new(rows,
			json_pack("{s:s, s:s, s:s, s:o}", "key", text.key,
			    "spec", text.spec, "arch", text.arch, "uses",
			    plan_json_uses(&set->items[i]))) != 0) {
			json_decref(rows);
			rows = NULL;
			break;
		}
	}
	if (hm_ctl_json_print(rows) != HM_OK)
		return hm_ctl_fail(ctl, "out of memory");
	return HM_CTL_OK;
}

/* The layers of an item by name, each once, and the span of their M. */
static void
plan_summarise(const struct hm_kernel_item *item, char *layers, size_t size,
    uint32_t *m_lo, uint32_t *m_hi)
{
	const struct hm_kernel_use *use;
	size_t n = 0;
	bool seen;

	*m_lo = UINT32_MAX;
	*m_hi = 0;
	layers[0] = '\0';
	for (size_t i = 0; i < item->n_uses; i++) {
		use = &item->uses[i];
		if (!plan_is_shown(item, use))
			continue;
		*m_lo = use->m_lo < *m_lo ? use->m_lo : *m_lo;
		*m_hi = use->m_hi > *m_hi ? use->m_hi : *m_hi;
		seen = false;
		for (size_t j = 0; j < i && !seen; j++)
			seen = plan_is_shown(item, &item->uses[j]) &&
			       strcmp(item->uses[j].layer, use->layer) == 0;
		if (!seen && n + strlen(use->layer) + 2 < size)
			n += (size_t)snprintf(layers + n, size - n, "%s%s",
			    n != 0 ? "," : "", use->layer);
	}
}

static int
plan_print_table(const struct hm_ctl *ctl, const struct hm_kernel_set *set)
{
	struct hm_ctl_table table;
	struct plan_text text;
	char layers[512];
	uint32_t m_lo, m_hi;

	hm_ctl_table_init(&table, 5);
	hm_ctl_table_add(&table, "key");
	hm_ctl_table_add(&table, "arch");
	hm_ctl_table_add(&table, "M");
	hm_ctl_table_add(&table, "spec");
	hm_ctl_table_add(&table, "layers");
	for (size_t i = 0; i < set->n_items; i++) {
		if (plan_text(&set->items[i], &text) != HM_OK) {
			hm_ctl_table_done(&table);
			return hm_ctl_fail(ctl, "a request without a spec");
		}
		plan_summarise(&set->items[i], layers, sizeof layers, &m_lo,
		    &m_hi);
		hm_ctl_table_add(&table, "%.12s", text.key);
		hm_ctl_table_add(&table, "%s", text.arch);
		hm_ctl_table_add(&table, "%u-%u", m_lo, m_hi);
		hm_ctl_table_add(&table, "%s", text.spec);
		hm_ctl_table_add(&table, "%s", layers);
	}
	hm_ctl_table_print(&table, stdout);
	hm_ctl_table_done(&table);
	(void)printf(
	    "%zu kernel%s; which M a kernel serves depends on N and K: "
	    "--json lists every use\n",
	    set->n_items, set->n_items == 1 ? "" : "s");
	return HM_CTL_OK;
}

int
hm_ctl_plan(const struct hm_ctl *ctl)
{
	struct hm_kernel_set set;
	int code;

	hm_kernel_set_init(&set);
	code = hm_ctl_collect(ctl, &set);
	if (code == HM_CTL_OK)
		code = ctl->json ? plan_print_json(ctl, &set)
				 : plan_print_table(ctl, &set);
	hm_kernel_set_done(&set);
	return code;
}
