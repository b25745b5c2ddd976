/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_value.c - a stored record: the bytes of one entry as a disk gives them
 * back, and what is read of them (the key's record, the meta).
 *
 * Promises: what parses lies inside the value, in order and without a gap, and
 * is written again as the same bytes; the fields of its record lie inside the
 * record; any bit that is turned in a value that parses is seen.
 *
 * A disk does not compute checksums, but whoever can write the store does: each
 * input is read as it is, then once more with both checksums made right.
 */
#include <stdlib.h>
#include <string.h>

#include "cache/entry.h"
#include "cache/value.h"
#include "fuzz.h"
#include "proto/codec.h"
#include "proto/digest.h"

/* As value.h draws it. */
#define AT_CHECKSUM 8u
#define AT_TICK     24u
#define AT_META     32u
#define AT_RECORD   36u
#define AT_KEY      48u
#define AT_IMAGESUM 80u

static uint64_t
value_load(const uint8_t *at, size_t n_bytes)
{
	uint64_t number = 0;

	for (size_t i = n_bytes; i-- > 0;)
		number = number << 8 | at[i];
	return number;
}

static void
value_check_record(const uint8_t *record, size_t n_record)
{
	size_t offset = 0, n_name = 0, n_value = 0, before = 0;
	const void *value = NULL;
	const char *name = NULL;

	while (hm_record_next(record, n_record, &offset, &name, &n_name, &value,
		   &n_value) == HM_OK) {
		const uint8_t *from = (const uint8_t *)name;

		fuzz_require(offset > before && offset <= n_record);
		fuzz_require(
		    n_name == 0 || (from >= record && n_name <= n_record));
		fuzz_require(n_value == 0 || (const uint8_t *)value + n_value <=
						 record + n_record);
		before = offset;
	}
}

static void
value_check_meta(const uint8_t *bytes, size_t n_bytes)
{
	struct hm_meta meta;

	if (hm_codec_unpack_meta(bytes, n_bytes, &meta) != HM_OK)
		return;
	fuzz_require(memchr(meta.spec, 0, sizeof meta.spec) != NULL);
	fuzz_require(memchr(meta.entry, 0, sizeof meta.entry) != NULL);
	fuzz_require(meta.n_config_words <= HM_MAX_CONFIG_WORDS);
}

/* Written again it is the same; with a bit turned it is none any more. */
static void
value_check_bytes(const uint8_t *data, size_t size, const struct hm_digest *key,
    const struct hm_entry_parts *parts, const struct hm_checksum *checksum)
{
	uint64_t tick = value_load(data + AT_TICK, 8);
	struct hm_entry *entry = NULL;
	struct hm_entry_parts none;
	struct hm_checksum other;
	uint8_t *again = malloc(size);
	size_t turned;

	if (again == NULL)
		abort();
	fuzz_require(
	    hm_entry_new_checked(key, parts, checksum, &entry) == HM_OK);
	fuzz_require(hm_value_bytes(entry) == size);
	hm_value_write(entry, tick, again);
	fuzz_require(memcmp(again, data, size) == 0);
	turned = (size_t)(value_load(data + AT_CHECKSUM, 8) % (size * 8));
	again[turned / 8] ^= (uint8_t)(1u << turned % 8);
	fuzz_require(
	    hm_value_parse(again, size, key, &none, &other) == HM_E_CORRUPT);
	hm_entry_unref(entry);
	free(again);
}

static void
value_check(const uint8_t *data, size_t size)
{
	const uint8_t *first = data + HM_VALUE_HEADER_BYTES;
	struct hm_entry_parts parts, head;
	struct hm_checksum checksum, head_checksum;
	struct hm_digest key = {{0}};
	int error;

	if (size >= HM_VALUE_HEADER_BYTES)
		memcpy(key.bytes, data + AT_KEY, HM_DIGEST_BYTES);
	error = hm_value_parse(data, size, &key, &parts, &checksum);
	if (error != HM_OK) {
		fuzz_require(error == HM_E_CORRUPT);
		return;
	}
	fuzz_require(hm_value_parse_head(data, size, &key, &head,
			 &head_checksum) == HM_OK);
	fuzz_require(parts.meta == first);
	fuzz_require(parts.record == first + parts.n_meta);
	fuzz_require(parts.image == first + parts.n_meta + parts.n_record);
	fuzz_require(parts.n_meta + parts.n_record + parts.n_image ==
		     size - HM_VALUE_HEADER_BYTES);
	value_check_bytes(data, size, &key, &parts, &checksum);
	value_check_record(parts.record, parts.n_record);
	value_check_meta(parts.meta, parts.n_meta);
	key.bytes[0] ^= 1;
	fuzz_require(hm_value_parse(data, size, &key, &parts, &checksum) ==
		     HM_E_CORRUPT);
}

/* Make the checksums right, where the sizes let one say what they cover. */
static void
value_seal(uint8_t *data, size_t size)
{
	struct hm_checksum checksum;
	size_t n_head;

	n_head = HM_VALUE_HEADER_BYTES + (size_t)value_load(data + AT_META, 4) +
		 (size_t)value_load(data + AT_RECORD, 4);
	if (n_head > size)
		return;
	hm_checksum_compute(data + n_head, size - n_head, &checksum);
	memcpy(data + AT_IMAGESUM, checksum.bytes, HM_CHECKSUM_BYTES);
	hm_checksum_compute(data + AT_TICK, n_head - AT_TICK, &checksum);
	memcpy(data + AT_CHECKSUM, checksum.bytes, HM_CHECKSUM_BYTES);
}

void
fuzz_one(const uint8_t *data, size_t size)
{
	uint8_t *sealed;

	value_check(data, size);
	value_check_record(data, size);
	value_check_meta(data, size);
	if (size < HM_VALUE_HEADER_BYTES)
		return;
	sealed = malloc(size);
	if (sealed == NULL)
		abort();
	memcpy(sealed, data, size);
	value_seal(sealed, size);
	value_check(sealed, size);
	free(sealed);
}
