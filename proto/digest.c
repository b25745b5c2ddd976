/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest.c - SHA-256 keys, XXH3-128 checksums, and the record behind a key.
 *
 * A record is only ever appended to, by record_append, the one place that
 * grows it. All numbers in it are little-endian whatever the machine, since
 * records travel between machines inside packs.
 */
#include "proto/digest.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>
#include <xxhash.h>

/* No field of ours comes near: the largest is a generated config.h. */
#define RECORD_FIELD_LIMIT_BYTES (16u << 20)
#define RECORD_FIRST_BYTES       512u

_Static_assert(HM_DIGEST_BYTES == crypto_hash_sha256_BYTES,
    "a digest is one SHA-256");
_Static_assert(HM_CHECKSUM_BYTES == sizeof(XXH128_canonical_t),
    "a checksum is one XXH3-128");

static pthread_once_t digest_once = PTHREAD_ONCE_INIT;

static void
digest_init(void)
{
	if (sodium_init() == -1)
		return; /* it has no random numbers; hashing needs none */
}

void
hm_digest_compute(const void *bytes, size_t n_bytes,
    struct hm_digest *digest_out)
{
	static const unsigned char nothing[1];

	(void)pthread_once(&digest_once, digest_init);
	(void)crypto_hash_sha256(digest_out->bytes,
	    n_bytes == 0 ? nothing : bytes, n_bytes);
}

/* A key is no secret: constant time is not needed. */
bool
hm_digest_equal(const struct hm_digest *a, const struct hm_digest *b)
{
	return memcmp(a->bytes, b->bytes, HM_DIGEST_BYTES) == 0;
}

void
hm_digest_to_hex(const struct hm_digest *digest,
    char hex_out[HM_DIGEST_HEX_CHARS + 1])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < HM_DIGEST_BYTES; i++) {
		hex_out[2 * i] = digits[digest->bytes[i] >> 4];
		hex_out[2 * i + 1] = digits[digest->bytes[i] & 0xfu];
	}
	hex_out[HM_DIGEST_HEX_CHARS] = '\0';
}

void
hm_checksum_compute(const void *bytes, size_t n_bytes,
    struct hm_checksum *checksum_out)
{
	static const unsigned char nothing[1];
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical,
	    XXH3_128bits(n_bytes == 0 ? nothing : bytes, n_bytes));
	memcpy(checksum_out->bytes, canonical.digest, HM_CHECKSUM_BYTES);
}

bool
hm_checksum_equal(const struct hm_checksum *a, const struct hm_checksum *b)
{
	return memcmp(a->bytes, b->bytes, HM_CHECKSUM_BYTES) == 0;
}

static void
record_store_u32(uint8_t bytes[4], uint32_t value)
{
	for (size_t i = 0; i < 4; i++)
		bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t
record_load_u32(const uint8_t bytes[4])
{
	uint32_t value = 0;

	for (size_t i = 0; i < 4; i++)
		value |= (uint32_t)bytes[i] << (8 * i);
	return value;
}

void
hm_record_init(struct hm_record *record)
{
	*record = (struct hm_record){0};
}

void
hm_record_done(struct hm_record *record)
{
	if (record == NULL)
		return;
	free(record->bytes);
	*record = (struct hm_record){0};
}

/* Room for n_more bytes: the one checked realloc. */
static int
record_reserve(struct hm_record *record, size_t n_more)
{
	size_t capacity = record->capacity_bytes;
	uint8_t *bytes;
	size_t needed;

	if (__builtin_add_overflow(record->n_bytes, n_more, &needed))
		return HM_E_NOMEM;
	if (needed <= capacity)
		return HM_OK;
	if (capacity == 0)
		capacity = RECORD_FIRST_BYTES;
	while (capacity < needed) {
		if (__builtin_mul_overflow(capacity, (size_t)2, &capacity))
			return HM_E_NOMEM;
	}
	bytes = realloc(record->bytes, capacity);
	if (bytes == NULL)
		return HM_E_NOMEM;
	record->bytes = bytes;
	record->capacity_bytes = capacity;
	return HM_OK;
}

/* One length and its bytes; the caller has reserved the room. */
static void
record_append(struct hm_record *record, const void *bytes, size_t n_bytes)
{
	record_store_u32(record->bytes + record->n_bytes, (uint32_t)n_bytes);
	record->n_bytes += 4;
	if (n_bytes == 0)
		return;
	memcpy(record->bytes + record->n_bytes, bytes, n_bytes);
	record->n_bytes += n_bytes;
}

void
hm_record_put(struct hm_record *record, const char *name, const void *value,
    size_t n_bytes)
{
	size_t n_name;

	if (record->error != HM_OK)
		return;
	if (name == NULL || (value == NULL && n_bytes != 0) ||
	    n_bytes > RECORD_FIELD_LIMIT_BYTES) {
		record->error = HM_E_INVALID;
		return;
	}
	n_name = strnlen(name, RECORD_FIELD_LIMIT_BYTES + 1);
	if (n_name > RECORD_FIELD_LIMIT_BYTES) {
		record->error = HM_E_INVALID;
		return;
	}
	record->error = record_reserve(record, 4 + n_name + 4 + n_bytes);
	if (record->error != HM_OK)
		return;
	record_append(record, name, n_name);
	record_append(record, value, n_bytes);
}

void
hm_record_put_text(struct hm_record *record, const char *name, const char *text)
{
	/* A NULL text is a caller's mistake, not an empty value. */
	size_t n_bytes = text == NULL ? 1 : strlen(text);

	hm_record_put(record, name, text, n_bytes);
}

void
hm_record_put_u32(struct hm_record *record, const char *name, uint32_t value)
{
	uint8_t bytes[4];

	record_store_u32(bytes, value);
	hm_record_put(record, name, bytes, sizeof bytes);
}

/* One length-prefixed string at *offset_io, which moves behind it. */
static int
record_take(const uint8_t *bytes, size_t n_bytes, size_t *offset_io,
    const uint8_t **string_out, size_t *n_string_out)
{
	size_t offset = *offset_io;
	size_t n_string;

	if (n_bytes - offset < 4)
		return HM_E_CORRUPT;
	n_string = record_load_u32(bytes + offset);
	offset += 4;
	if (n_string > n_bytes - offset)
		return HM_E_CORRUPT;
	*string_out = bytes + offset;
	*n_string_out = n_string;
	*offset_io = offset + n_string;
	return HM_OK;
}

int
/* NOLINTNEXTLINE(readability-function-size): a field has four outputs */
hm_record_next(const void *bytes, size_t n_bytes, size_t *offset_io,
    const char **name_out, size_t *n_name_out, const void **value_out,
    size_t *n_value_out)
{
	size_t offset = *offset_io;
	const uint8_t *name, *value;
	size_t n_name, n_value;

	if (offset > n_bytes)
		return HM_E_CORRUPT;
	if (offset == n_bytes)
		return HM_E_UNAVAILABLE;
	if (record_take(bytes, n_bytes, &offset, &name, &n_name) != HM_OK)
		return HM_E_CORRUPT;
	if (record_take(bytes, n_bytes, &offset, &value, &n_value) != HM_OK)
		return HM_E_CORRUPT;

	*offset_io = offset;
	*name_out = (const char *)name;
	*n_name_out = n_name;
	*value_out = value;
	*n_value_out = n_value;
	return HM_OK;
}
