/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recipe.h - one kernel that can be built: its key, the full record of that
 * key, and all that a worker needs. Counted, immutable but for the note on the
 * entry last served. Loop thread only.
 */
#ifndef HM_DAEMON_RECIPE_H
#define HM_DAEMON_RECIPE_H

#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"
#include "jit/config.h"
#include "proto/codec.h"
#include "proto/digest.h"
#include "proto/error.h"
#include "proto/request.h"

/* The body of a reply as it went out last, for the entry with this serial. */
struct hm_packed {
	uint8_t *bytes; /* owned; NULL = none yet */
	size_t n_bytes;
	uint64_t serial;
};

struct hm_recipe {
	uint32_t n_refs;
	struct hm_digest key;
	struct hm_record record; /* owned */
	struct hm_target target;
	char arch[16];
	bool is_own; /* one of our kernels, else a client's source */
	bool is_cacheable;
	/* Of our own kernels. */
	struct hm_config config;
	char spec[256]; /* for people: types, and the least M that leads here */
	/* Of a client's source. */
	uid_t uid;
	char compiler[256]; /* that is in the key */
	char name[64];
	uint8_t *source; /* owned */
	size_t n_source;
	uint32_t n_options;
	char (*options)[HM_MAX_OPTION_CHARS]; /* owned, normalised */
	/* Decoded meta of the entry with this serial; NULL = none yet. */
	struct hm_meta *meta; /* owned */
	uint64_t meta_serial;
	struct hm_packed packed; /* of a hot hit; client sources only */
};

/* The recipe of one of our kernels. HM_OK, HM_E_NOMEM, HM_E_INTERNAL. */
int hm_recipe_new_own(const struct hm_config *config,
    const struct hm_target *target, const char *spec,
    struct hm_recipe **recipe_out);

/**
 * The recipe of a client's source.
 *
 * compile    as decoded; its options are checked against the allow-list
 * source     copied
 * compiler   identity of the toolchain, part of the key
 *
 * Returns HM_OK, HM_E_DENIED (an option, named in errbuf), HM_E_NOMEM or
 * HM_E_INTERNAL.
 */
struct hm_recipe_source {
	const struct hm_compile *compile;
	const void *source;
	size_t n_source;
	const char *compiler;
	uid_t uid;
};
int hm_recipe_new_source(const struct hm_recipe_source *source,
    struct hm_recipe **recipe_out, struct hm_errbuf *errbuf);

struct hm_recipe *hm_recipe_ref(struct hm_recipe *recipe);
void hm_recipe_unref(struct hm_recipe *recipe); /* NULL allowed */

/* What a person calls it: the spec, or the source's name as the client gave
 * it. Borrowed. */
const char *hm_recipe_label(const struct hm_recipe *recipe);

/* Meta of an entry of this key, decoded at most once per image. Borrowed until
 * the next call. NULL if the stored meta does not decode. */
const struct hm_meta *hm_recipe_meta(struct hm_recipe *recipe,
    const struct hm_entry *entry);

#endif
