/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.c - lookup in the embedded table, and what an entry includes.
 *
 * An include is a line that begins with #include "name", spaces allowed. A
 * comment that holds such a line at its beginning would be taken for one: that
 * only makes a key depend on more than it must, never on less.
 */
#include "jit/source.h"

#include <stdbool.h>
#include <string.h>

#include "jit/emit.h"

#define MAX_NAME 64

/* Sorted by name, so that bisection finds. */
static const struct hm_source *
source_find_in(const struct hm_source *table, size_t n_table, const char *name)
{
	size_t low = 0, high = n_table;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, table[middle].name);

		if (order == 0)
			return &table[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

size_t
hm_source_count(void)
{
	return hm_source_table_count;
}

const struct hm_source *
hm_source_at(size_t index)
{
	return index < hm_source_table_count ? &hm_source_table[index] : NULL;
}

static const char *
source_skip_blanks(const char *text)
{
	while (*text == ' ' || *text == '\t')
		text++;
	return text;
}

/* The name in quotes behind an include at the beginning of a line, or NULL. */
static const char *
source_include_name(const char *line)
{
	static const char word[] = "include";

	line = source_skip_blanks(line);
	if (*line != '#')
		return NULL;
	line = source_skip_blanks(line + 1);
	if (strncmp(line, word, sizeof(word) - 1) != 0)
		return NULL;
	line = source_skip_blanks(line + sizeof(word) - 1);
	return *line == '"' ? line + 1 : NULL;
}

int
hm_source_next_include(const char **text_io, char *name, size_t size)
{
	const char *line = *text_io;

	while (*line != '\0') {
		const char *quoted = source_include_name(line);
		const char *end = strchr(line, '\n');
		size_t n = quoted != NULL ? strcspn(quoted, "\"\n") : 0;

		line = end != NULL ? end + 1 : line + strlen(line);
		if (quoted == NULL || quoted[n] != '"' || n >= size)
			continue;
		memcpy(name, quoted, n);
		name[n] = '\0';
		*text_io = line;
		return 1;
	}
	*text_io = line;
	return 0;
}

static bool
source_is_generated(const char *name)
{
	return strcmp(name, HM_EMIT_CONFIG_NAME) == 0 ||
	       strcmp(name, HM_EMIT_WGMMA_NAME) == 0;
}

/* Keeps files sorted by name; a file already there is not added again. */
static int
source_add(const struct hm_source *files[HM_SOURCE_MAX_CLOSURE], size_t *n_io,
    const struct hm_source *file)
{
	size_t at = 0;

	while (at < *n_io && strcmp(files[at]->name, file->name) < 0)
		at++;
	if (at < *n_io && files[at] == file)
		return HM_OK;
	if (*n_io == HM_SOURCE_MAX_CLOSURE)
		return HM_E_INTERNAL;
	for (size_t i = *n_io; i > at; i--)
		files[i] = files[i - 1];
	files[at] = file;
	(*n_io)++;
	return HM_OK;
}

/* Adds what one file includes. */
static int
source_add_includes(const struct hm_source *table, size_t n_table,
    const struct hm_source *file,
    const struct hm_source *files[HM_SOURCE_MAX_CLOSURE], size_t *n_io)
{
	const char *text = file->text;
	char name[MAX_NAME];
	int error = HM_OK;

	while (error == HM_OK &&
	       hm_source_next_include(&text, name, sizeof(name))) {
		const struct hm_source *included =
		    source_find_in(table, n_table, name);

		if (included != NULL)
			error = source_add(files, n_io, included);
		else if (!source_is_generated(name))
			error = HM_E_INTERNAL;
	}
	return error;
}

int
hm_source_closure_of(const struct hm_source *table, size_t n_table,
    const char *entry, const struct hm_source *files[HM_SOURCE_MAX_CLOSURE],
    size_t *n_out)
{
	const struct hm_source *file = source_find_in(table, n_table, entry);
	const struct hm_source *done[HM_SOURCE_MAX_CLOSURE] = {NULL};
	size_t n = 0, n_done = 0, i = 0;
	int error;

	if (file == NULL)
		return HM_E_INVALID;
	error = source_add(files, &n, file);
	while (error == HM_OK && n_done < n) {
		/* The next file that is in one list and not in the other. */
		for (i = 0; i < n_done && files[i] == done[i]; i++)
			;
		file = files[i];
		error = source_add(done, &n_done, file);
		if (error == HM_OK)
			error = source_add_includes(table, n_table, file, files,
			    &n);
	}
	if (error == HM_OK)
		*n_out = n;
	return error;
}

int
hm_source_closure(const char *entry,
    const struct hm_source *files[HM_SOURCE_MAX_CLOSURE], size_t *n_out)
{
	return hm_source_closure_of(hm_source_table, hm_source_table_count,
	    entry, files, n_out);
}
