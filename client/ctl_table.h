/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_table.h - aligned text tables: numbers to the right, words to the left.
 */
#ifndef HM_CLIENT_CTL_TABLE_H
#define HM_CLIENT_CTL_TABLE_H

#include <stddef.h>
#include <stdio.h>

#define HM_CTL_TABLE_COLUMNS 12

/* Owned by the caller: hm_ctl_table_init, then hm_ctl_table_done. */
struct hm_ctl_table {
	size_t n_columns;
	size_t n_cells;
	size_t n_room;
	char **cells; /* owned, and each of them; row by row */
	int failed;   /* no memory: the table prints as far as it got */
};

void hm_ctl_table_init(struct hm_ctl_table *table, size_t n_columns);
void hm_ctl_table_done(struct hm_ctl_table *table);

/* Append one cell; a row is n_columns of them, the first row the titles. */
void hm_ctl_table_add(struct hm_ctl_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void hm_ctl_table_print(const struct hm_ctl_table *table, FILE *file);

#endif
