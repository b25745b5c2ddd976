/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_text.c - fields of a configuration and of its launch by name.
 */
#include "config_text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a member of kernel H that the plan's row was none of. */
#define CONFIG_WGMMA_THREADS 384u

static bool
config_set(struct hm_plan_row *row, const char *key, size_t n_key,
    const char *value)
{
	struct hm_config *config = &row->config;
	const struct {
		const char *key;
		uint32_t *field;
	} fields[] = {
	    {"threads", &config->threads},
	    {"tiles", &config->token_tiles},
	    {"ring", &config->ring},
	    {"warps", &config->warps},
	    {"warps_k", &config->warps_k},
	    {"ctas", &config->ctas_per_sm},
	    {"tokens", &config->tile_tokens},
	    {"slices", &config->slices},
	    {"stages", &config->stages},
	    {"halves", &config->halves},
	    {"steps", &config->steps},
	    {"split", &config->split_k},
	    {"promote", &config->promote},
	    {"rows", &config->tile_rows},
	    {"warps_n", &config->warps_n},
	    {"warps_m", &config->warps_m},
	    {"cluster", &row->cluster},
	    {"band", &row->band},
	    {"prefetch", &row->prefetch},
	    {"policy", &row->weight_policy},
	    {"tail", &row->split_tail},
	};

	if (n_key == 6 && strncmp(key, "family", 6) == 0) {
		config->family = *value == 'S'   ? HM_FAMILY_STREAM
				 : *value == 'H' ? HM_FAMILY_WGMMA
						 : HM_FAMILY_MMA;
		return true;
	}
	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
		if (strlen(fields[i].key) != n_key ||
		    strncmp(fields[i].key, key, n_key) != 0)
			continue;
		*fields[i].field = (uint32_t)strtoul(value, NULL, 10);
		return true;
	}
	return false;
}

bool
config_text_apply(const char *text, struct hm_plan_row *row)
{
	struct hm_config *config = &row->config;
	const struct hm_config before = *config;

	if (*text == '\0')
		return true;
	config->threads = 0;
	for (const char *item = text; *item != '\0';) {
		const char *equals = strchr(item, '=');
		const char *comma = strchr(item, ',');

		if (equals == NULL ||
		    !config_set(row, item, (size_t)(equals - item),
			equals + 1)) {
			printf("# not a configuration: %s\n", item);
			return false;
		}
		item = comma != NULL ? comma + 1 : item + strlen(item);
	}
	if (config->threads != 0)
		return true;
	if (config->family == HM_FAMILY_STREAM)
		config->threads = 32 * config->warps;
	else if (config->family == HM_FAMILY_WGMMA)
		config->threads = before.family == HM_FAMILY_WGMMA
				      ? before.threads
				      : CONFIG_WGMMA_THREADS;
	else
		config->threads =
		    32 * config->warps_n * config->warps_m * config->warps_k;
	return true;
}

void
config_text_launch(const struct hm_plan_row *row, char *text, size_t size)
{
	snprintf(text, size, "ck=%u pre=%u band=%u%s", row->cluster,
	    row->prefetch, row->band, row->split_tail != 0 ? " tail" : "");
}
