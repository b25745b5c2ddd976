/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recipe.c - makes keys by jit/key and keeps them with what they stand for.
 */
#include "daemon/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/job.h"
#include "jit/key.h"
#include "jit/spec.h"

/* Makes the keys of uncacheable builds differ; never stored. */
static uint32_t recipe_serial;

static struct hm_recipe *
recipe_new(const struct hm_target *target)
{
	struct hm_recipe *recipe = calloc(1, sizeof(*recipe));

	if (recipe == NULL)
		return NULL;
	recipe->n_refs = 1;
	recipe->target = *target;
	hm_target_print(target, recipe->arch);
	hm_record_init(&recipe->record);
	return recipe;
}

int
hm_recipe_new_own(const struct hm_config *config,
    const struct hm_target *target, const char *spec,
    struct hm_recipe **recipe_out)
{
	struct hm_recipe *recipe = recipe_new(target);
	int error;

	if (recipe == NULL)
		return HM_E_NOMEM;
	recipe->is_own = true;
	recipe->is_cacheable = true;
	recipe->config = *config;
	(void)snprintf(recipe->spec, sizeof(recipe->spec), "%s", spec);
	error = hm_key_own(config, target, &recipe->record, &recipe->key);
	if (error != HM_OK) {
		hm_recipe_unref(recipe);
		return error;
	}
	*recipe_out = recipe;
	return HM_OK;
}

/* Copy and check what a client sent into the recipe. */
static int
recipe_take_source(struct hm_recipe *recipe,
    const struct hm_recipe_source *from, struct hm_errbuf *errbuf)
{
	const struct hm_compile *compile = from->compile;

	(void)snprintf(recipe->name, sizeof(recipe->name), "%s",
	    compile->name[0] == '\0' ? "source.cu" : compile->name);
	(void)snprintf(recipe->compiler, sizeof(recipe->compiler), "%s",
	    from->compiler);
	recipe->uid = from->uid;
	recipe->source = malloc(from->n_source);
	recipe->options =
	    calloc(compile->n_options == 0 ? 1 : compile->n_options,
		sizeof(*recipe->options));
	if (recipe->source == NULL || recipe->options == NULL)
		return HM_E_NOMEM;
	memcpy(recipe->source, from->source, from->n_source);
	recipe->n_source = from->n_source;
	recipe->n_options = compile->n_options;
	return hm_options_check(compile->n_options, compile->options,
	    recipe->options, errbuf);
}

static int
recipe_key_source(struct hm_recipe *recipe, const char *compiler)
{
	const char *options[HM_MAX_OPTIONS];
	struct hm_key_source source = {.source = recipe->source,
	    .n_source = recipe->n_source,
	    .target = recipe->target,
	    .compiler = compiler,
	    .n_options = recipe->n_options,
	    .options = options};
	int error;

	if (recipe->n_options > HM_MAX_OPTIONS)
		return HM_E_INTERNAL;
	for (uint32_t i = 0; i < recipe->n_options; i++)
		options[i] = recipe->options[i];
	error = hm_key_client(&source, &recipe->record, &recipe->key);
	if (error != HM_OK || recipe->is_cacheable)
		return error;
	/* Never joined, never found again. */
	hm_record_put_u32(&recipe->record, "serial", ++recipe_serial);
	hm_digest_compute(recipe->record.bytes, recipe->record.n_bytes,
	    &recipe->key);
	return recipe->record.error;
}

int
hm_recipe_new_source(const struct hm_recipe_source *source,
    struct hm_recipe **recipe_out, struct hm_errbuf *errbuf)
{
	struct hm_recipe *recipe = recipe_new(&source->compile->target);
	int error;

	if (recipe == NULL)
		return HM_E_NOMEM;
	error = recipe_take_source(recipe, source, errbuf);
	if (error == HM_OK) {
		recipe->is_cacheable =
		    hm_source_is_cacheable(recipe->source, recipe->n_source);
		error = recipe_key_source(recipe, source->compiler);
	}
	if (error != HM_OK) {
		hm_recipe_unref(recipe);
		return error;
	}
	*recipe_out = recipe;
	return HM_OK;
}

struct hm_recipe *
hm_recipe_ref(struct hm_recipe *recipe)
{
	recipe->n_refs++;
	return recipe;
}

void
hm_recipe_unref(struct hm_recipe *recipe)
{
	if (recipe == NULL || --recipe->n_refs > 0)
		return;
	hm_record_done(&recipe->record);
	free(recipe->source);
	free(recipe->options);
	free(recipe->meta);
	free(recipe->packed.bytes);
	free(recipe);
}

const char *
hm_recipe_label(const struct hm_recipe *recipe)
{
	return recipe->is_own ? recipe->spec : recipe->name;
}

const struct hm_meta *
hm_recipe_meta(struct hm_recipe *recipe, const struct hm_entry *entry)
{
	if (recipe->meta != NULL && recipe->meta_serial == entry->serial)
		return recipe->meta;
	if (recipe->meta == NULL)
		recipe->meta = calloc(1, sizeof(*recipe->meta));
	if (recipe->meta == NULL)
		return NULL;
	if (hm_codec_unpack_meta(entry->meta, entry->n_meta, recipe->meta) !=
	    HM_OK) {
		free(recipe->meta);
		recipe->meta = NULL;
		return NULL;
	}
	recipe->meta_serial = entry->serial;
	return recipe->meta;
}
