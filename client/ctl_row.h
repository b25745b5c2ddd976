/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_row.h - a kernel as the tools show it: one JSON object, one table row.
 */
#ifndef HM_CLIENT_CTL_ROW_H
#define HM_CLIENT_CTL_ROW_H

#include <jansson.h>

#include <humming/client.h>

#include "client/ctl_table.h"

/* The object of `get --json` (hummingctl(1), JSON). NULL without memory. */
json_t *hm_ctl_row_json(const struct humming_kernel *kernel);

/* Titles, then a row per kernel. */
void hm_ctl_row_titles(struct hm_ctl_table *table);
void hm_ctl_row_add(struct hm_ctl_table *table,
    const struct humming_kernel *kernel);

/* One kernel in one line. */
void hm_ctl_row_print(const struct humming_kernel *kernel);

/* Print and free; consumes json, of which NULL means that memory ran out.
 * HM_OK or HM_E_NOMEM; a failed write stays with stdout, and main tells it. */
int hm_ctl_json_print(json_t *json);

#endif
