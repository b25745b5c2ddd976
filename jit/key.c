/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.c - what makes two compiled kernels the same.
 *
 * The record is built field by field in a fixed order that the golden test
 * keeps; everything in it is content. The compiler is part of a client's key,
 * because its source may mean something else to another one, and not of ours
 * (DESIGN.md section 3). Sources enter by digests taken at build time.
 */
#include "jit/key.h"

#include <stdio.h>

#include "jit/emit.h"
#include "jit/spec.h"

#define OUTPUT_KIND "cubin"

static void
key_put_target(struct hm_record *record, const struct hm_target *target)
{
	char text[16];

	hm_target_print(target, text);
	hm_record_put_text(record, "target", text);
}

/* The generated headers, as the compiler will see them. */
static int
key_put_generated(struct hm_record *record, const struct hm_config *config)
{
	char text[HM_EMIT_WGMMA_BYTES];
	int error;

	error = hm_emit_config(config, text, sizeof(text));
	if (error != HM_OK)
		return error;
	hm_record_put_text(record, HM_EMIT_CONFIG_NAME, text);
	if (!hm_emit_needs_wgmma(config))
		return HM_OK;
	error = hm_emit_wgmma(config, text, sizeof(text));
	if (error == HM_OK)
		hm_record_put_text(record, HM_EMIT_WGMMA_NAME, text);
	return error;
}

static int
key_put_options(struct hm_record *record, const struct hm_target *target)
{
	struct hm_emit_options options;
	char text[16];
	int error;

	hm_target_print(target, text);
	error = hm_emit_options(text, &options);
	for (size_t i = 0; error == HM_OK && i < HM_EMIT_N_OPTIONS; i++)
		hm_record_put_text(record, "option", options.text[i]);
	return error;
}

static int
key_put_sources(struct hm_record *record, const struct hm_source *table,
    size_t n_table, const char *entry)
{
	const struct hm_source *files[HM_SOURCE_MAX_CLOSURE];
	char name[96];
	size_t n = 0;

	if (hm_source_closure_of(table, n_table, entry, files, &n) != HM_OK)
		return HM_E_INTERNAL;
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "source %s", files[i]->name);
		hm_record_put_text(record, name, files[i]->sha256);
	}
	return HM_OK;
}

static int
key_finish(const struct hm_record *record, struct hm_digest *key_out)
{
	if (record->error != HM_OK)
		return record->error;
	hm_digest_compute(record->bytes, record->n_bytes, key_out);
	return HM_OK;
}

int
hm_key_own_from(const struct hm_source *table, size_t n_table,
    const struct hm_config *config, const struct hm_target *target,
    struct hm_record *record_out, struct hm_digest *key_out)
{
	const char *entry = hm_emit_entry(config);
	int error;

	if (entry == NULL)
		return HM_E_INVALID;
	hm_record_put_u32(record_out, "schema", HM_KEY_SCHEMA);
	hm_record_put_text(record_out, "kind", "own");
	hm_record_put_u32(record_out, "kernel_abi", HM_KERNEL_ABI);
	hm_record_put_u32(record_out, "pack_layout", HM_PACK_LAYOUT);
	key_put_target(record_out, target);
	hm_record_put_text(record_out, "output", OUTPUT_KIND);
	hm_record_put_text(record_out, "entry", entry);
	error = key_put_generated(record_out, config);
	if (error == HM_OK)
		error = key_put_options(record_out, target);
	if (error == HM_OK)
		error = key_put_sources(record_out, table, n_table,
		    hm_emit_source(config));
	if (error == HM_OK)
		error = key_finish(record_out, key_out);
	return error;
}

int
hm_key_own(const struct hm_config *config, const struct hm_target *target,
    struct hm_record *record_out, struct hm_digest *key_out)
{
	return hm_key_own_from(hm_source_table, hm_source_table_count, config,
	    target, record_out, key_out);
}

int
hm_key_client(const struct hm_key_source *source, struct hm_record *record_out,
    struct hm_digest *key_out)
{
	struct hm_digest digest;
	char hex[HM_DIGEST_HEX_CHARS + 1];

	if (source->source == NULL || source->compiler == NULL)
		return HM_E_INVALID;
	hm_digest_compute(source->source, source->n_source, &digest);
	hm_digest_to_hex(&digest, hex);
	hm_record_put_u32(record_out, "schema", HM_KEY_SCHEMA);
	hm_record_put_text(record_out, "kind", "client");
	hm_record_put_text(record_out, "compiler", source->compiler);
	key_put_target(record_out, &source->target);
	hm_record_put_text(record_out, "output", OUTPUT_KIND);
	for (uint32_t i = 0; i < source->n_options; i++)
		hm_record_put_text(record_out, "option", source->options[i]);
	hm_record_put_text(record_out, "source", hex);
	return key_finish(record_out, key_out);
}
