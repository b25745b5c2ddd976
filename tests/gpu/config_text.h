/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_text.h - a row of the plan, changed by a text such as
 * "family=H,tokens=64,slices=2,cluster=2": how members are tried that no table
 * has.
 */
#ifndef HM_TESTS_GPU_CONFIG_TEXT_H
#define HM_TESTS_GPU_CONFIG_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "jit/plan.h"

/* The keys, for usage texts. */
#define CONFIG_TEXT_KEYS                                                       \
	"family=S|H|G threads tiles ring warps warps_k ctas tokens slices "    \
	"stages halves steps split promote rows warps_n warps_m cluster band " \
	"prefetch policy tail"

/**
 * Apply "key=value,..." to a row. Threads follow from the family's fields
 * unless they are given.
 *
 * Returns false after printing a note when a key is unknown.
 */
bool config_text_apply(const char *text, struct hm_plan_row *row);

/* The launch arguments of a row: "ck=2 pre=1 band=64 tail". */
void config_text_launch(const struct hm_plan_row *row, char *text, size_t size);

#endif
