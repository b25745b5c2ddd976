/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape_options.c - lists from the command line.
 */
#include "shape_options.h"

#include <stdlib.h>
#include <string.h>

#define SHAPE_SECONDS 3600.0

static bool
read_m_list(struct shape_options *options, const char *text)
{
	char *end = NULL;

	options->n_m = 0;
	while (*text != '\0' && options->n_m < SHAPE_MAX_M) {
		options->m[options->n_m++] = (uint32_t)strtoul(text, &end, 10);
		if (end == text || options->m[options->n_m - 1] == 0 ||
		    (*end != ',' && *end != '\0'))
			return false;
		text = *end == ',' ? end + 1 : end;
	}
	return options->n_m > 0;
}

static void
add_shapes(struct shape_options *options, size_t first, size_t end)
{
	for (size_t i = first; i < end && options->n_shapes < SHAPE_MAX_SHAPES;
	     i++)
		options->shapes[options->n_shapes++] = dense_shapes[i];
}

/* "square", "real" or NxK, separated by commas. */
static bool
read_shapes(struct shape_options *options, const char *text)
{
	while (*text != '\0' && options->n_shapes < SHAPE_MAX_SHAPES) {
		struct dense_shape *shape = &options->shapes[options->n_shapes];
		size_t n = strcspn(text, ",");
		char *end = NULL;

		if (n == 6 && strncmp(text, "square", n) == 0) {
			add_shapes(options, 0, 1);
		} else if (n == 4 && strncmp(text, "real", n) == 0) {
			add_shapes(options, 1, dense_n_shapes);
		} else {
			shape->name = "";
			shape->n = (uint32_t)strtoul(text, &end, 10);
			if (*end != 'x')
				return false;
			shape->k = (uint32_t)strtoul(end + 1, &end, 10);
			if (end != text + n)
				return false;
			options->n_shapes++;
		}
		text += text[n] == ',' ? n + 1 : n;
	}
	return options->n_shapes > 0;
}

static bool
read_classes(struct shape_options *options, const char *text)
{
	while (*text != '\0' && options->n_classes < SHAPE_MAX_CLASSES) {
		size_t n = strcspn(text, ",");
		size_t i = 0;

		while (i < dense_n_classes &&
		       (strlen(dense_classes[i].name) != n ||
			   strncmp(dense_classes[i].name, text, n) != 0))
			i++;
		if (i == dense_n_classes)
			return false;
		options->classes[options->n_classes++] = &dense_classes[i];
		text += text[n] == ',' ? n + 1 : n;
	}
	return options->n_classes > 0;
}

void
shape_options_init(struct shape_options *options)
{
	memset(options, 0, sizeof *options);
	options->seconds = SHAPE_SECONDS;
}

int
shape_options_read(struct shape_options *options, const char *name,
    const char *value)
{
	if (strcmp(name, "--compile-only") == 0) {
		options->compile_only = true;
		return 1;
	}
	if (value == NULL)
		return 0;
	if (strcmp(name, "--class") == 0)
		return read_classes(options, value) ? 2 : -1;
	if (strcmp(name, "--shape") == 0)
		return read_shapes(options, value) ? 2 : -1;
	if (strcmp(name, "--m") == 0)
		return read_m_list(options, value) ? 2 : -1;
	if (strcmp(name, "--seconds") != 0)
		return 0;
	options->seconds = strtod(value, NULL);
	return 2;
}

void
shape_options_default(struct shape_options *options)
{
	options->any_class = options->n_classes != 0;
	for (size_t i = 0; !options->any_class && i < dense_n_classes; i++)
		if (!dense_classes[i].only_named)
			options->classes[options->n_classes++] =
			    &dense_classes[i];
	if (options->n_shapes == 0)
		add_shapes(options, 0, dense_n_shapes);
}
