/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sized.c - the struct_size rule of the public headers, in one place.
 */
#include "client/sized.h"

#include <stdint.h>
#include <string.h>

/* Nothing of ours is near this; a size above it is a struct never set up. */
#define SIZED_MAX_BYTES 65536u

static uint32_t
sized_get(const void *sized)
{
	uint32_t n = 0;

	memcpy(&n, sized, sizeof n);
	return n;
}

int
hm_sized_read(void *to, size_t n_to, const void *from)
{
	const unsigned char *bytes = from;
	uint32_t n_known = (uint32_t)n_to;
	uint32_t n_from = 0;

	if (to == NULL || from == NULL)
		return HM_E_INVALID;
	n_from = sized_get(from);
	if (n_from < sizeof n_from || n_from > SIZED_MAX_BYTES)
		return HM_E_INVALID;
	for (size_t i = n_to; i < n_from; i++)
		if (bytes[i] != 0)
			return HM_E_INVALID;
	memset(to, 0, n_to);
	memcpy(to, from, n_from < n_to ? n_from : n_to);
	memcpy(to, &n_known, sizeof n_known);
	return HM_OK;
}

int
hm_sized_write(void *to, const void *from, size_t n_from)
{
	unsigned char *bytes = to;
	uint32_t n_to = 0;

	if (to == NULL || from == NULL)
		return HM_E_INVALID;
	n_to = sized_get(to);
	if (n_to < sizeof n_to || n_to > SIZED_MAX_BYTES)
		return HM_E_INVALID;
	memset(bytes + sizeof n_to, 0, n_to - sizeof n_to);
	memcpy(to, from, n_to < n_from ? n_to : n_from);
	memcpy(to, &n_to, sizeof n_to);
	return HM_OK;
}

void
hm_sized_init(void *to, size_t n_to)
{
	uint32_t n = (uint32_t)n_to;

	if (to == NULL || n_to < sizeof n)
		return;
	memset(to, 0, n_to);
	memcpy(to, &n, sizeof n);
}
