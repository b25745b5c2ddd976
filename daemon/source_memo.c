/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source_memo.c - a direct-mapped table; equality is decided on the bytes.
 */
#include "daemon/source_memo.h"

#include <stdlib.h>
#include <string.h>

#include "proto/digest.h"

#define MEMO_N_PLACES   64u
#define MEMO_MAX_BODY   2048u
#define MEMO_MAX_SOURCE 16384u

struct memo_place {
	struct hm_recipe *recipe; /* one reference; NULL = empty */
	uint8_t *body;            /* owned */
	size_t n_body;
	char compiler[256];
};

struct hm_source_memo {
	struct memo_place places[MEMO_N_PLACES];
};

int
hm_source_memo_open(struct hm_source_memo **memo_out)
{
	struct hm_source_memo *memo = calloc(1, sizeof(*memo));

	if (memo == NULL)
		return HM_E_NOMEM;
	*memo_out = memo;
	return HM_OK;
}

static void
memo_clear(struct memo_place *place)
{
	hm_recipe_unref(place->recipe);
	free(place->body);
	memset(place, 0, sizeof(*place));
}

void
hm_source_memo_close(struct hm_source_memo *memo)
{
	if (memo == NULL)
		return;
	for (size_t i = 0; i < MEMO_N_PLACES; i++)
		memo_clear(&memo->places[i]);
	free(memo);
}

static struct memo_place *
memo_place_of(struct hm_source_memo *memo, const struct hm_source_view *view)
{
	struct hm_checksum body;
	struct hm_checksum source;

	hm_checksum_compute(view->body, view->n_body, &body);
	hm_checksum_compute(view->source, view->n_source, &source);
	return &memo->places[(body.bytes[0] ^ source.bytes[0]) % MEMO_N_PLACES];
}

static bool
memo_is_small(const struct hm_source_view *view)
{
	return view->n_source <= MEMO_MAX_SOURCE &&
	       view->n_body <= MEMO_MAX_BODY && view->n_body > 0;
}

struct hm_recipe *
hm_source_memo_find(struct hm_source_memo *memo,
    const struct hm_source_view *view)
{
	const struct memo_place *place;
	struct hm_recipe *recipe;

	if (!memo_is_small(view))
		return NULL;
	place = memo_place_of(memo, view);
	recipe = place->recipe;
	if (recipe == NULL || recipe->uid != view->uid ||
	    recipe->n_source != view->n_source ||
	    place->n_body != view->n_body ||
	    strcmp(place->compiler, view->compiler) != 0 ||
	    memcmp(place->body, view->body, view->n_body) != 0 ||
	    memcmp(recipe->source, view->source, view->n_source) != 0)
		return NULL;
	return recipe;
}

void
hm_source_memo_put(struct hm_source_memo *memo,
    const struct hm_source_view *view, struct hm_recipe *recipe)
{
	struct memo_place *place;

	if (!memo_is_small(view) || !recipe->is_cacheable ||
	    strlen(view->compiler) >= sizeof(place->compiler))
		return;
	place = memo_place_of(memo, view);
	memo_clear(place);
	place->body = malloc(view->n_body);
	if (place->body == NULL)
		return;
	memcpy(place->body, view->body, view->n_body);
	place->n_body = view->n_body;
	memcpy(place->compiler, view->compiler, strlen(view->compiler) + 1);
	place->recipe = hm_recipe_ref(recipe);
}
