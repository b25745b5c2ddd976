/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight_entry.c - see flight_entry.h.
 */
#include "daemon/flight_entry.h"

#include <stdio.h>
#include <string.h>

#include "jit/emit.h"
#include "proto/codec.h"

/* What is stored beside the image, packed. */
static int
entry_pack_meta(const struct hm_recipe *recipe,
    const struct hm_pool_result *from, uint8_t buffer[4096], size_t *n_out)
{
	const struct hm_job_result *result = from->result;
	struct hm_meta meta;
	size_t length;

	memset(&meta, 0, sizeof(meta));
	(void)snprintf(meta.spec, sizeof(meta.spec), "%s", recipe->spec);
	(void)snprintf(meta.arch, sizeof(meta.arch), "%s", recipe->arch);
	(void)snprintf(meta.compiler, sizeof(meta.compiler), "%s",
	    from->compiler);
	(void)snprintf(meta.entries, sizeof(meta.entries), "%s",
	    result->entries);
	if (recipe->is_own) {
		(void)snprintf(meta.entry, sizeof(meta.entry), "%s",
		    hm_emit_entry(&recipe->config));
		meta.n_config_words =
		    sizeof(recipe->config) / sizeof(meta.config_words[0]);
		memcpy(meta.config_words, &recipe->config,
		    sizeof(recipe->config));
	} else {
		length = strcspn(result->entries, ",");
		(void)snprintf(meta.entry, sizeof(meta.entry), "%.*s",
		    (int)length, result->entries);
	}
	meta.registers = result->registers;
	meta.spill_bytes = result->spill_bytes;
	meta.smem_bytes = result->smem_bytes;
	meta.compile_us = result->compile_us;
	return hm_codec_pack_meta(&meta, buffer, 4096, n_out);
}

/* The highest uids are the store's own names. */
static uint32_t
entry_tenant(uid_t uid)
{
	return uid < HM_TENANT_OTHERS ? uid : HM_TENANT_OTHERS;
}

int
hm_flight_entry_new(const struct hm_recipe *recipe,
    const struct hm_pool_result *from, struct hm_entry **entry_out)
{
	uint8_t meta[4096];
	struct hm_entry_parts parts = {.meta = meta,
	    .record = recipe->record.bytes,
	    .n_record = recipe->record.n_bytes,
	    .image = from->image,
	    .n_image = from->n_image,
	    /* Kernels of ours are everybody's. */
	    .tenant =
		recipe->is_own ? HM_TENANT_SHARED : entry_tenant(recipe->uid)};
	int error;

	error = entry_pack_meta(recipe, from, meta, &parts.n_meta);
	if (error != HM_OK)
		return error;
	return hm_entry_new(&recipe->key, &parts, entry_out);
}
