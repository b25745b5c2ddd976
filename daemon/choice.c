/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choice.c - request -> plan -> keys, remembered in a set-associative table.
 *
 * 256 sets of 4: two requests that fall into one place push out the older, and
 * the bound holds whatever clients ask for. Recipes have a table of their own,
 * by configuration: making a key costs more than planning (it walks the device
 * sources), and the many requests of a model lead to a handful.
 */
#include "daemon/choice.h"

#include <stdlib.h>
#include <string.h>

#include "jit/launch.h"
#include "jit/plan.h"
#include "jit/spec.h"
#include "proto/digest.h"

#define CHOICE_N_SETS 256u
#define CHOICE_N_WAYS 4u
/* A node asks for some models' configurations, 16 each at most, of one or two
 * targets: few enough to share a place seldom. */
#define CHOICE_N_RECIPES 2048u

struct choice_place {
	struct hm_choice *choice; /* one reference, or NULL */
	uint64_t used;            /* tick of the last find */
};

struct hm_choices {
	uint64_t tick;
	struct choice_place places[CHOICE_N_SETS][CHOICE_N_WAYS];
	struct hm_recipe *recipes[CHOICE_N_RECIPES]; /* a reference each */
};

int
hm_choices_open(struct hm_choices **choices_out)
{
	struct hm_choices *choices = calloc(1, sizeof(*choices));

	if (choices == NULL)
		return HM_E_NOMEM;
	*choices_out = choices;
	return HM_OK;
}

void
hm_choices_close(struct hm_choices *choices)
{
	if (choices == NULL)
		return;
	for (size_t set = 0; set < CHOICE_N_SETS; set++) {
		for (size_t way = 0; way < CHOICE_N_WAYS; way++)
			hm_choice_unref(choices->places[set][way].choice);
	}
	for (size_t i = 0; i < CHOICE_N_RECIPES; i++)
		hm_recipe_unref(choices->recipes[i]);
	free(choices);
}

struct hm_choice *
hm_choice_ref(struct hm_choice *choice)
{
	choice->n_refs++;
	return choice;
}

void
hm_choice_unref(struct hm_choice *choice)
{
	if (choice == NULL || --choice->n_refs > 0)
		return;
	hm_recipe_unref(choice->recipe);
	free(choice->packed.bytes);
	free(choice);
}

static struct hm_recipe **
choices_recipe_place(struct hm_choices *choices, const struct hm_config *config,
    const struct hm_target *target)
{
	struct hm_checksum a;
	struct hm_checksum b;
	uint32_t place;

	hm_checksum_compute(config, sizeof(*config), &a);
	hm_checksum_compute(target, sizeof(*target), &b);
	place = (uint32_t)(a.bytes[0] ^ b.bytes[0]) << 8 |
		(a.bytes[1] ^ b.bytes[1]);
	return &choices->recipes[place % CHOICE_N_RECIPES];
}

/* A name for people: the types, and the least M for which the row is chosen. */
static int
choice_print_row(const struct hm_request *request,
    const struct hm_plan_row *row, char spec_out[256])
{
	struct hm_request whole = *request;

	whole.m = row->m_lo;
	whole.n = 0;
	whole.k = 0;
	whole.sms = 0;
	return hm_spec_print(&whole, spec_out, 256);
}

/* The recipe of a row, remembered or made. Borrowed until the next call. */
static int
choices_get_recipe(struct hm_choices *choices, const struct hm_request *request,
    const struct hm_plan_row *row, struct hm_recipe **recipe_out)
{
	struct hm_recipe **place =
	    choices_recipe_place(choices, &row->config, &request->target);
	struct hm_recipe *recipe = *place;
	char spec[256];
	int error;

	if (recipe != NULL &&
	    memcmp(&recipe->config, &row->config, sizeof(row->config)) == 0 &&
	    memcmp(&recipe->target, &request->target,
		sizeof(request->target)) == 0) {
		*recipe_out = recipe;
		return HM_OK;
	}
	error = choice_print_row(request, row, spec);
	if (error == HM_OK)
		error = hm_recipe_new_own(&row->config, &request->target, spec,
		    &recipe);
	if (error != HM_OK)
		return error;
	hm_recipe_unref(*place);
	*place = recipe;
	*recipe_out = recipe;
	return HM_OK;
}

static int
choice_fill_range(struct hm_choices *choices, const struct hm_choice *choice,
    const struct hm_plan_row *row, struct hm_range *range,
    struct hm_errbuf *errbuf)
{
	const struct hm_request *request = &choice->request;
	struct hm_recipe *recipe = NULL;
	uint32_t sms = request->sms != 0 ? request->sms
					 : hm_plan_usual_sms(&request->target);
	uint32_t m = row->m_hi;
	struct hm_launch launch;
	int error;

	/* The last row has no end: what it needs at the largest planned M. */
	if (m == UINT32_MAX)
		m = row->m_lo > HM_PLAN_MAX_M ? row->m_lo : HM_PLAN_MAX_M;
	error = choices_get_recipe(choices, request, row, &recipe);
	if (error != HM_OK)
		return error;
	error = hm_launch_compute(row, m, request->n, request->k, sms, &launch);
	if (error != HM_OK) {
		hm_errbuf_set(errbuf, "%s: no launch has these n and k",
		    choice->spec);
		return error;
	}
	range->key = recipe->key;
	range->m_lo = row->m_lo;
	range->m_hi = row->m_hi;
	range->cluster = row->cluster;
	range->smem_bytes = launch.smem_bytes;
	range->band = row->band;
	range->prefetch = row->prefetch;
	range->weight_policy = row->weight_policy;
	range->split_tail = row->split_tail;
	range->grid = launch.grid_x * launch.grid_y;
	return HM_OK;
}

static int
choice_new(struct hm_choices *choices, const struct hm_request *request,
    struct hm_choice **choice_out, struct hm_errbuf *errbuf)
{
	struct hm_choice *choice = NULL;
	struct hm_recipe *recipe = NULL;
	struct hm_plan plan;
	uint32_t n_ranges;
	int error;

	error = hm_plan_compute(request, &plan, errbuf);
	if (error != HM_OK)
		return error;
	n_ranges = request->n != 0 && request->k != 0 ? plan.n_rows : 0;
	choice =
	    calloc(1, sizeof(*choice) + n_ranges * sizeof(choice->ranges[0]));
	if (choice == NULL)
		return HM_E_NOMEM;
	choice->n_refs = 1;
	choice->request = *request;
	error = hm_spec_print(request, choice->spec, sizeof(choice->spec));
	if (error == HM_OK)
		error = choices_get_recipe(choices, request,
		    hm_plan_find(&plan, request->m), &recipe);
	if (error == HM_OK)
		choice->recipe = hm_recipe_ref(recipe);
	for (uint32_t i = 0; error == HM_OK && i < n_ranges; i++)
		error = choice_fill_range(choices, choice, &plan.rows[i],
		    &choice->ranges[i], errbuf);
	choice->n_ranges = n_ranges;
	if (error != HM_OK) {
		hm_choice_unref(choice);
		return error;
	}
	*choice_out = choice;
	return HM_OK;
}

/* The set a request falls into. struct hm_request is words only: no padding. */
static struct choice_place *
choices_set(struct hm_choices *choices, const struct hm_request *request)
{
	struct hm_checksum hash;

	hm_checksum_compute(request, sizeof(*request), &hash);
	return choices->places[hash.bytes[0] % CHOICE_N_SETS];
}

int
hm_choices_get(struct hm_choices *choices, const struct hm_request *request,
    struct hm_choice **choice_out, struct hm_errbuf *errbuf)
{
	struct choice_place *set = choices_set(choices, request);
	struct choice_place *oldest = &set[0];
	struct hm_choice *choice = NULL;
	int error;

	choices->tick++;
	for (size_t way = 0; way < CHOICE_N_WAYS; way++) {
		struct choice_place *place = &set[way];

		if (place->choice != NULL &&
		    memcmp(&place->choice->request, request,
			sizeof(*request)) == 0) {
			place->used = choices->tick;
			*choice_out = hm_choice_ref(place->choice);
			return HM_OK;
		}
		if (place->used < oldest->used)
			oldest = place;
	}
	error = choice_new(choices, request, &choice, errbuf);
	if (error != HM_OK)
		return error;
	hm_choice_unref(oldest->choice);
	oldest->choice = hm_choice_ref(choice);
	oldest->used = choices->tick;
	*choice_out = choice;
	return HM_OK;
}
