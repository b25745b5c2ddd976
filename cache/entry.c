/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry.c - one cached kernel in memory.
 *
 * Immutable once made, so the only thing that threads share and change is the
 * count. The bytes of a large image are mapped from the very memory file that
 * clients get: there is one copy of them, whoever looks.
 */
#include "cache/entry.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/fd.h"

struct entry_box {
	struct hm_entry face; /* first, so that both have one address */
	atomic_uint n_refs;
	uint8_t bytes[]; /* meta, record, image if small */
};

static atomic_ullong next_serial = 1;

static struct entry_box *
entry_box(struct hm_entry *entry)
{
	return (struct entry_box *)entry;
}

static bool
entry_parts_ok(const struct hm_entry_parts *parts)
{
	return parts->image != NULL && parts->n_image > 0 &&
	       parts->n_image <= HM_ENTRY_MAX_BYTES &&
	       parts->n_meta <= HM_ENTRY_MAX_BYTES &&
	       parts->n_record <= HM_ENTRY_MAX_BYTES &&
	       (parts->meta != NULL || parts->n_meta == 0) &&
	       (parts->record != NULL || parts->n_record == 0);
}

/* memcpy that may be given nothing; returns where the next part goes. */
static uint8_t *
entry_append(uint8_t *to, const void *bytes, size_t n_bytes)
{
	if (n_bytes > 0)
		memcpy(to, bytes, n_bytes);
	return to + n_bytes;
}

static int
entry_image_to_memory_file(struct hm_entry *entry,
    const struct hm_entry_parts *parts)
{
	const void *map = NULL;
	size_t n_map = 0;
	int error;

	error = hm_fd_seal("humming-kernel", parts->image, parts->n_image,
	    &entry->fd);
	if (error != HM_OK)
		return error;
	error = hm_fd_map_sealed(entry->fd, parts->n_image, &map, &n_map);
	if (error != HM_OK) {
		hm_fd_close(&entry->fd);
		return error == HM_E_PROTOCOL ? HM_E_INTERNAL : error;
	}
	entry->image = map;
	entry->n_image = n_map;
	return HM_OK;
}

int
hm_entry_new_checked(const struct hm_digest *key,
    const struct hm_entry_parts *parts, const struct hm_checksum *checksum,
    struct hm_entry **entry_out)
{
	struct entry_box *box;
	struct hm_entry *entry;
	bool is_small;
	uint8_t *next;
	int error = HM_OK;

	if (!entry_parts_ok(parts))
		return HM_E_INVALID;

	is_small = parts->n_image <= HM_ENTRY_INLINE_BYTES;
	box = malloc(sizeof(*box) + parts->n_meta + parts->n_record +
		     (is_small ? parts->n_image : 0));
	if (box == NULL)
		return HM_E_NOMEM;
	atomic_init(&box->n_refs, 1);
	entry = &box->face;
	entry->key = *key;
	entry->checksum = *checksum;
	entry->serial = atomic_fetch_add(&next_serial, 1);
	entry->fd = -1;
	entry->tenant = parts->tenant;
	entry->born_s =
	    parts->born_s != 0 ? parts->born_s : (uint64_t)time(NULL);

	next = box->bytes;
	entry->meta = next;
	entry->n_meta = parts->n_meta;
	next = entry_append(next, parts->meta, parts->n_meta);
	entry->record = next;
	entry->n_record = parts->n_record;
	next = entry_append(next, parts->record, parts->n_record);
	if (is_small) {
		entry->image = next;
		entry->n_image = parts->n_image;
		entry_append(next, parts->image, parts->n_image);
	} else {
		error = entry_image_to_memory_file(entry, parts);
	}
	if (error != HM_OK) {
		free(box);
		return error;
	}
	*entry_out = entry;
	return HM_OK;
}

int
hm_entry_new(const struct hm_digest *key, const struct hm_entry_parts *parts,
    struct hm_entry **entry_out)
{
	struct hm_checksum checksum;

	if (!entry_parts_ok(parts))
		return HM_E_INVALID;
	hm_checksum_compute(parts->image, parts->n_image, &checksum);
	return hm_entry_new_checked(key, parts, &checksum, entry_out);
}

struct hm_entry *
hm_entry_ref(struct hm_entry *entry)
{
	atomic_fetch_add_explicit(&entry_box(entry)->n_refs, 1,
	    memory_order_relaxed);
	return entry;
}

void
hm_entry_unref(struct hm_entry *entry)
{
	if (entry == NULL)
		return;
	/* acq_rel: whoever frees must see all that the others did before. */
	if (atomic_fetch_sub_explicit(&entry_box(entry)->n_refs, 1,
		memory_order_acq_rel) != 1)
		return;
	if (entry->fd != -1) {
		hm_fd_unmap(entry->image, entry->n_image);
		hm_fd_close(&entry->fd);
	}
	free(entry_box(entry));
}

bool
hm_entry_has_record(const struct hm_entry *entry, const void *record,
    size_t n_record)
{
	if (entry->n_record != n_record)
		return false;
	return n_record == 0 || memcmp(entry->record, record, n_record) == 0;
}

size_t
hm_entry_cost_bytes(const struct hm_entry *entry)
{
	return sizeof(struct entry_box) + entry->n_meta + entry->n_record +
	       entry->n_image;
}
