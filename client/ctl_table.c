/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_table.c - see ctl_table.h.
 */
#include "client/ctl_table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void
hm_ctl_table_init(struct hm_ctl_table *table, size_t n_columns)
{
	memset(table, 0, sizeof *table);
	table->n_columns = n_columns;
}

void
hm_ctl_table_done(struct hm_ctl_table *table)
{
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i]);
	free(table->cells);
	memset(table, 0, sizeof *table);
}

void
hm_ctl_table_add(struct hm_ctl_table *table, const char *format, ...)
{
	size_t n_room = table->n_room != 0 ? table->n_room * 2 : 64;
	char *cell = NULL;
	char **larger;
	va_list arguments;

	if (table->n_cells == table->n_room) {
		larger = reallocarray(table->cells, n_room, sizeof *larger);
		if (larger == NULL) {
			table->failed = 1;
			return;
		}
		table->cells = larger;
		table->n_room = n_room;
	}
	va_start(arguments, format);
	if (vasprintf(&cell, format, arguments) == -1)
		cell = NULL;
	va_end(arguments);
	if (cell == NULL)
		table->failed = 1;
	else
		table->cells[table->n_cells++] = cell;
}

/* A column is right-aligned when all its cells below the title are numbers. */
static bool
table_is_number(const char *cell)
{
	size_t n = strspn(cell, "0123456789.");

	return cell[0] == '-' || (n != 0 && cell[n] == '\0');
}

static void
table_measure(const struct hm_ctl_table *table, size_t column, int *width_out,
    bool *number_out)
{
	size_t width = 0, n;
	bool number = table->n_cells > table->n_columns;

	for (size_t i = column; i < table->n_cells; i += table->n_columns) {
		n = strlen(table->cells[i]);
		width = n > width ? n : width;
		number =
		    number && (i == column || table_is_number(table->cells[i]));
	}
	*width_out = (int)width;
	*number_out = number;
}

void
hm_ctl_table_print(const struct hm_ctl_table *table, FILE *file)
{
	int width[HM_CTL_TABLE_COLUMNS];
	bool number[HM_CTL_TABLE_COLUMNS];
	size_t column;

	if (table->n_columns == 0)
		return;
	for (size_t i = 0; i < table->n_columns; i++)
		table_measure(table, i, &width[i], &number[i]);
	for (size_t i = 0; i < table->n_cells; i++) {
		column = i % table->n_columns;
		if (number[column])
			(void)fprintf(file, "%*s", width[column],
			    table->cells[i]);
		else if (column + 1 < table->n_columns)
			(void)fprintf(file, "%-*s", width[column],
			    table->cells[i]);
		else
			(void)fputs(table->cells[i], file);
		(void)fputs(column + 1 < table->n_columns ? "  " : "\n", file);
	}
}
