/* SPDX-License-Identifier: Apache-2.0 */
#include "client/label.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As jit/toolchain_nvrtc names every program. */
static const char label_fixed[] = "kernel.cu";
#define LABEL_FIXED_CHARS (sizeof label_fixed - 1)

/* "kernel.cu(12): error: ..." */
static int
label_starts(const char *line)
{
	return strncmp(line, label_fixed, LABEL_FIXED_CHARS) == 0 &&
	       line[LABEL_FIXED_CHARS] == '(';
}

static size_t
label_count(const char *text)
{
	size_t n = 0;

	for (const char *line = text; line != NULL;) {
		n += (size_t)label_starts(line);
		line = strchr(line, '\n');
		if (line != NULL)
			line++;
	}
	return n;
}

char *
hm_label_lines(const char *text, const char *name)
{
	size_t n_name = strlen(name);
	char *result = malloc(strlen(text) + label_count(text) * n_name + 1);
	char *out = result;

	if (result == NULL)
		return NULL;
	for (const char *line = text; *line != '\0';) {
		const char *end = strchr(line, '\n');
		size_t n;

		if (label_starts(line)) {
			memcpy(out, name, n_name);
			out += n_name;
			line += LABEL_FIXED_CHARS;
		}
		n = end != NULL ? (size_t)(end + 1 - line) : strlen(line);
		memcpy(out, line, n);
		out += n;
		line += n;
	}
	*out = '\0';
	return result;
}

void
hm_label_line(const char *line, const char *name, char *out, size_t size)
{
	if (label_starts(line))
		(void)snprintf(out, size, "%s%s", name,
		    line + LABEL_FIXED_CHARS);
	else
		(void)snprintf(out, size, "%s", line);
}
