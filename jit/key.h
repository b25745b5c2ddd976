/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.h - content keys of compiled kernels (DESIGN.md section 3).
 *
 * A key is the SHA-256 of a record of length-prefixed fields. No path, no time,
 * no environment, no driver and no number of SMs is in it.
 */
#ifndef HM_JIT_KEY_H
#define HM_JIT_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "jit/config.h"
#include "jit/source.h"
#include "proto/digest.h"
#include "proto/error.h"
#include "proto/request.h"

/* Raised when the meaning of a record changes; old entries are then unused. */
#define HM_KEY_SCHEMA 1u

/**
 * Key of one of our own kernels. The fields of its record, in this order:
 * schema, kind, kernel_abi, pack_layout, target, output, entry, config.h,
 * wgmma_shape.h (if included), option (once for each), then for every embedded
 * source that the entry includes, sorted by name, "source NAME" with the
 * digest of its text in hex.
 *
 * record_out  initialised by the caller and empty, filled here; after a failure
 *             only good for hm_record_done
 * key_out     digest of the record; untouched on failure
 *
 * Any thread. Returns HM_OK, HM_E_NOMEM, HM_E_INVALID (no such configuration
 * or target) or HM_E_INTERNAL (an entry names a source that is not embedded).
 */
int hm_key_own(const struct hm_config *config, const struct hm_target *target,
    struct hm_record *record_out, struct hm_digest *key_out);

/* The same over any table of sources, for the tests. */
int hm_key_own_from(const struct hm_source *table, size_t n_table,
    const struct hm_config *config, const struct hm_target *target,
    struct hm_record *record_out, struct hm_digest *key_out);

struct hm_key_source {
	const void *source;
	size_t n_source;
	struct hm_target target;
	const char *compiler; /* identity of the toolchain */
	uint32_t n_options;   /* normalised by hm_options_check */
	const char *const *options;
};

/**
 * Key of a client's source: schema, kind, compiler, target, output, option
 * (once for each, in order), source (digest of the text). Names and headers of
 * the client are not part of it. Returns as hm_key_own, never INTERNAL.
 */
int hm_key_client(const struct hm_key_source *source,
    struct hm_record *record_out, struct hm_digest *key_out);

#endif
