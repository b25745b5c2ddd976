/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.c - see fuzz.h.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
fuzz_require_at(bool holds, const char *promise, int line)
{
	if (holds)
		return;
	(void)fprintf(stderr, "broken promise, line %d: %s\n", line, promise);
	abort();
}

char *
fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	if (text == NULL)
		abort();
	if (size != 0)
		memcpy(text, data, size);
	text[size] = '\0';
	return text;
}
