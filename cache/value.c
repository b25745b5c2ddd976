/* SPDX-License-Identifier: Apache-2.0 */
/*
 * value.c - see value.h for the picture.
 *
 * Nothing that is read here is trusted before its checksum: sizes are bounded
 * by the value's own length first, and only then used to find the parts.
 */
#include "cache/value.h"

#include <string.h>

#define VALUE_MAGIC       0x31564d48u /* "HMV1" */
#define VALUE_AT_CHECKSUM 8
#define VALUE_AT_TICK     24
#define VALUE_AT_META     32
#define VALUE_AT_RECORD   36
#define VALUE_AT_IMAGE    40
#define VALUE_AT_KEY      48
#define VALUE_AT_IMAGESUM 80

static void
value_put_u32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

static void
value_put_u64(uint8_t *at, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t
value_get_u32(const uint8_t *at)
{
	uint32_t value = 0;

	for (int i = 0; i < 4; i++)
		value |= (uint32_t)at[i] << (8 * i);
	return value;
}

static uint64_t
value_get_u64(const uint8_t *at)
{
	return value_get_u32(at) | (uint64_t)value_get_u32(at + 4) << 32;
}

size_t
hm_value_bytes(const struct hm_entry *entry)
{
	return HM_VALUE_HEADER_BYTES + entry->n_meta + entry->n_record +
	       entry->n_image;
}

void
hm_value_write(const struct hm_entry *entry, uint64_t tick, void *out)
{
	uint8_t *at = out;
	uint8_t *next = at + HM_VALUE_HEADER_BYTES;
	struct hm_checksum checksum;

	value_put_u32(at, VALUE_MAGIC);
	value_put_u32(at + 4, HM_VALUE_VERSION);
	value_put_u64(at + VALUE_AT_TICK, tick);
	value_put_u32(at + VALUE_AT_META, (uint32_t)entry->n_meta);
	value_put_u32(at + VALUE_AT_RECORD, (uint32_t)entry->n_record);
	value_put_u64(at + VALUE_AT_IMAGE, entry->n_image);
	memcpy(at + VALUE_AT_KEY, entry->key.bytes, HM_DIGEST_BYTES);
	memcpy(at + VALUE_AT_IMAGESUM, entry->checksum.bytes,
	    HM_CHECKSUM_BYTES);

	memcpy(next, entry->meta, entry->n_meta);
	next += entry->n_meta;
	memcpy(next, entry->record, entry->n_record);
	next += entry->n_record;
	memcpy(next, entry->image, entry->n_image);

	hm_checksum_compute(at + VALUE_AT_TICK,
	    (size_t)(next - (at + VALUE_AT_TICK)), &checksum);
	memcpy(at + VALUE_AT_CHECKSUM, checksum.bytes, HM_CHECKSUM_BYTES);
}

int
hm_value_parse_head(const void *bytes, size_t n_bytes,
    const struct hm_digest *key, struct hm_entry_parts *parts_out,
    struct hm_checksum *checksum_out)
{
	const uint8_t *at = bytes;
	struct hm_checksum stored, found;
	uint64_t n_meta, n_record, n_image, n_left;

	if (n_bytes < HM_VALUE_HEADER_BYTES ||
	    value_get_u32(at) != VALUE_MAGIC ||
	    value_get_u32(at + 4) != HM_VALUE_VERSION)
		return HM_E_CORRUPT;

	n_left = n_bytes - HM_VALUE_HEADER_BYTES;
	n_meta = value_get_u32(at + VALUE_AT_META);
	n_record = value_get_u32(at + VALUE_AT_RECORD);
	n_image = value_get_u64(at + VALUE_AT_IMAGE);
	if (n_meta + n_record > n_left || n_image == 0 ||
	    n_image != n_left - n_meta - n_record)
		return HM_E_CORRUPT;

	memcpy(stored.bytes, at + VALUE_AT_CHECKSUM, HM_CHECKSUM_BYTES);
	hm_checksum_compute(at + VALUE_AT_TICK,
	    (size_t)(HM_VALUE_HEADER_BYTES - VALUE_AT_TICK + n_meta + n_record),
	    &found);
	if (!hm_checksum_equal(&stored, &found) ||
	    memcmp(at + VALUE_AT_KEY, key->bytes, HM_DIGEST_BYTES) != 0)
		return HM_E_CORRUPT;

	parts_out->meta = at + HM_VALUE_HEADER_BYTES;
	parts_out->n_meta = (size_t)n_meta;
	parts_out->record = at + HM_VALUE_HEADER_BYTES + n_meta;
	parts_out->n_record = (size_t)n_record;
	parts_out->image = at + HM_VALUE_HEADER_BYTES + n_meta + n_record;
	parts_out->n_image = (size_t)n_image;
	memcpy(checksum_out->bytes, at + VALUE_AT_IMAGESUM, HM_CHECKSUM_BYTES);
	return HM_OK;
}

int
hm_value_parse(const void *bytes, size_t n_bytes, const struct hm_digest *key,
    struct hm_entry_parts *parts_out, struct hm_checksum *checksum_out)
{
	struct hm_entry_parts parts;
	struct hm_checksum checksum, found;
	int error;

	error = hm_value_parse_head(bytes, n_bytes, key, &parts, &checksum);
	if (error != HM_OK)
		return error;
	hm_checksum_compute(parts.image, parts.n_image, &found);
	if (!hm_checksum_equal(&checksum, &found))
		return HM_E_CORRUPT;
	*parts_out = parts;
	*checksum_out = checksum;
	return HM_OK;
}
