/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h - the device sources, embedded at build time from kernels/.
 */
#ifndef HM_JIT_SOURCE_H
#define HM_JIT_SOURCE_H

#include <stddef.h>

#include "proto/error.h"

struct hm_source {
	const char *name; /* flat: "gemm_stream.cu", "ptx.cuh" */
	const char *text; /* NUL-terminated, static */
	size_t n_text;
	const char
	    *sha256; /* of the text, 64 hex digits, taken at build time */
};

#define HM_SOURCE_MAX_CLOSURE 32

/* What embed.cmake writes: the files sorted by name. */
extern const struct hm_source hm_source_table[];
extern const size_t hm_source_table_count;

/* All of them, sorted by name. Any thread, like all here. */
size_t hm_source_count(void);
const struct hm_source *hm_source_at(size_t index);

/**
 * The entry and every embedded file that it includes, directly or not, each
 * once, sorted by name. Generated headers (config.h, wgmma_shape.h) are not
 * embedded and are skipped.
 *
 * files    receives *n_out pointers to static entries; undefined on failure
 *
 * Returns HM_OK, HM_E_INVALID (no such entry) or HM_E_INTERNAL (an include
 * that is neither embedded nor generated, or too many files).
 */
int hm_source_closure(const char *entry,
    const struct hm_source *files[HM_SOURCE_MAX_CLOSURE], size_t *n_out);

/* The same over any table, for the tests. */
int hm_source_closure_of(const struct hm_source *table, size_t n_table,
    const char *entry, const struct hm_source *files[HM_SOURCE_MAX_CLOSURE],
    size_t *n_out);

/**
 * Step through the quoted includes of a text.
 *
 * text_io  where to look on; moved behind the include that was found
 * name     receives the name inside the quotes
 *
 * Returns 1, or 0 at the end. A name that does not fit is skipped.
 */
int hm_source_next_include(const char **text_io, char *name, size_t size);

#endif
