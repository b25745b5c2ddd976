/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest.h - content keys (SHA-256) and checksums (XXH3-128).
 *
 * A key is the SHA-256 of a record: a canonical sequence of length-prefixed
 * fields, built by struct hm_record. A checksum only detects damage; it is
 * never a key.
 */
#ifndef HM_PROTO_DIGEST_H
#define HM_PROTO_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

#define HM_DIGEST_BYTES     32
#define HM_DIGEST_HEX_CHARS 64
#define HM_CHECKSUM_BYTES   16

struct hm_digest {
	uint8_t bytes[HM_DIGEST_BYTES];
};

struct hm_checksum {
	uint8_t bytes[HM_CHECKSUM_BYTES];
};

/* SHA-256 of n_bytes; bytes may be NULL when n_bytes is 0. Any thread. */
void hm_digest_compute(const void *bytes, size_t n_bytes,
    struct hm_digest *digest_out);

bool hm_digest_equal(const struct hm_digest *a, const struct hm_digest *b);

/* 64 lower-case hex digits and a NUL into hex_out. */
void hm_digest_to_hex(const struct hm_digest *digest,
    char hex_out[HM_DIGEST_HEX_CHARS + 1]);

/* XXH3-128 in its canonical (big-endian) byte order. Any thread. */
void hm_checksum_compute(const void *bytes, size_t n_bytes,
    struct hm_checksum *checksum_out);

bool hm_checksum_equal(const struct hm_checksum *a,
    const struct hm_checksum *b);

/*
 * A record under construction. Field = u32 little-endian length of the name,
 * name, u32 length of the value, value; so no two different sequences of
 * fields have the same bytes. bytes is owned by the record.
 */
struct hm_record {
	uint8_t *bytes;
	size_t n_bytes;
	size_t capacity_bytes;
	int error; /* first failure; later puts do nothing */
};

/* Storage owned by the caller; hm_record_done frees what is inside. */
void hm_record_init(struct hm_record *record);
void hm_record_done(struct hm_record *record);

/* Append one field. A failure (NOMEM, or a value over 16 MiB: INVALID) is kept
 * in record->error, so that a caller may check once, at the end. */
void hm_record_put(struct hm_record *record, const char *name,
    const void *value, size_t n_bytes);
void hm_record_put_text(struct hm_record *record, const char *name,
    const char *text);
void hm_record_put_u32(struct hm_record *record, const char *name,
    uint32_t value);

/**
 * Step through a finished record.
 *
 * offset_io   0 for the first field; moved behind the field on success
 * others      point into bytes; borrowed; name is not NUL-terminated
 *
 * Returns HM_OK, HM_E_UNAVAILABLE at the end, HM_E_CORRUPT if malformed.
 */
int hm_record_next(const void *bytes, size_t n_bytes, size_t *offset_io,
    const char **name_out, size_t *n_name_out, const void **value_out,
    size_t *n_value_out);

#endif
