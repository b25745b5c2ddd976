/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_list.c - what the compile tests build.
 *
 * All members of all formats would be thousands of kernels. W4A16 in most of
 * its forms and the formats that shorthands name are listed whole; of each
 * other format a member of kernel S and one of kernel H, because members differ
 * in their tiles, formats in how an operand is made, and the two meet in few
 * lines of device code. With 8-bit activations, too, types of scales,
 * activations and outputs are paired so that each occurs, not each pair.
 */
#include "jit/emit.h"
#include "jit/plan_impl.h"

struct plan_list {
	struct hm_config *configs;
	size_t n, max;
};

static void
list_add(struct plan_list *list, struct hm_config config)
{
	if (list->n < list->max)
		list->configs[list->n] = config;
	list->n++;
}

/* whole: all members, else one of each kernel; nth picks which of H. */
static void
list_hopper(struct plan_list *list, const struct hm_config *format, bool whole,
    uint32_t nth)
{
	const struct hm_tune_table *table =
	    &hm_tune_sm90a[hm_plan_class(format)];

	for (size_t i = 0; i < HM_TUNE_N_STREAM; i++) {
		if (whole || i == HM_TUNE_STREAM_PLAIN)
			list_add(list,
			    hm_plan_stream_config(format, &hm_tune_stream[i]));
	}
	for (size_t i = 0; i < table->n_rows; i++) {
		if (hm_plan_wgmma_serves(format, &table->rows[i]) &&
		    (whole || i == table->n_rows - 1 - nth % 3))
			list_add(list,
			    hm_plan_wgmma_config(format, &table->rows[i]));
	}
}

/* What deterministic requests lead to besides. */
static void
list_one_order(struct plan_list *list, const struct hm_config *format)
{
	const struct hm_tune_table *table =
	    &hm_tune_sm90a[hm_plan_class(format)];

	for (size_t i = 0; i < table->n_rows; i++) {
		const struct hm_tune_wgmma single =
		    hm_plan_one_order(&table->rows[i]);

		if (table->rows[i].sets != 1)
			list_add(list, hm_plan_wgmma_config(format, &single));
	}
}

/* ---- W4A16, on every target ---- */

static void
list_w4a16_format(struct plan_list *list, const struct hm_target *target,
    const struct hm_config *format)
{
	/* The largest lines of zero points, and those of the usual group. */
	bool whole =
	    format->zero == HM_CONFIG_ZERO_NONE || format->group == 128 ||
	    (format->group == 32 && format->zero == HM_CONFIG_ZERO_FLOAT);

	if (hm_plan_is_hopper(target))
		list_hopper(list, format, whole, format->zero);
	if (hm_plan_is_hopper(target) && format->group == 128 &&
	    format->zero == HM_CONFIG_ZERO_NONE)
		list_one_order(list, format);
	for (size_t i = 0; i < HM_TUNE_N_MMA && !hm_plan_is_hopper(target); i++)
		list_add(list, hm_plan_mma_config(format, &hm_tune_mma[i]));
	list_add(list, hm_plan_pack_config(format));
}

static void
list_w4a16(struct plan_list *list, const struct hm_target *target)
{
	static const uint32_t groups[] = {0, 32, 64, 128};

	for (uint32_t i = 0; i < 8; i++) {
		uint32_t group = groups[i % 4];
		uint32_t act = i / 4;
		struct hm_config format = {.act = act,
		    .out = act,
		    .group = group};

		if (group != 0)
			format.scale = act == HM_CONFIG_ACT_F16
					   ? HM_CONFIG_SCALE_F16
					   : HM_CONFIG_SCALE_BF16;
		for (uint32_t zero = 0; zero < (group == 0 ? 1 : 3); zero++) {
			format.zero = zero;
			list_w4a16_format(list, target, &format);
		}
	}
}

/* ---- the other formats, sm_90a ---- */

/* Sets of weights. */
#define U4   (1u << HM_CONFIG_WEIGHT_U4)
#define U8   (1u << HM_CONFIG_WEIGHT_U8)
#define E2M1 (1u << HM_CONFIG_WEIGHT_E2M1)
#define E4M3 (1u << HM_CONFIG_WEIGHT_E4M3)
#define ALL  (U4 | U8 | E2M1 | E4M3)
#define FP8  (U4 | E2M1 | E4M3)
#define S8   (U4 | U8)

#define TOKEN HM_CONFIG_ACT_SCALE_TOKEN
#define GROUP HM_CONFIG_ACT_SCALE_GROUP

static const struct list_row {
	uint32_t act, out, scale, group, act_scale, promote;
	uint32_t weights; /* a format each */
	uint32_t whole;   /* those of them that are listed whole */
	uint32_t packs;   /* 1: with the pack; rows may share one */
} list_rows[] = {
    {0, 0, HM_CONFIG_SCALE_NONE, 0, 0, 0, ALL & ~U4, U8, 1},
    {0, 0, HM_CONFIG_SCALE_BF16, 32, 0, 0, ALL & ~U4, 0, 1},
    {0, 0, HM_CONFIG_SCALE_BF16, 64, 0, 0, ALL & ~U4, 0, 1},
    {0, 0, HM_CONFIG_SCALE_BF16, 128, 0, 0, ALL & ~U4, 0, 1},
    {0, 0, HM_CONFIG_SCALE_E8M0, 32, 0, 0, ALL, E2M1, 1},
    {1, 1, HM_CONFIG_SCALE_NONE, 0, 0, 0, ALL & ~U4, 0, 1},
    {1, 1, HM_CONFIG_SCALE_F16, 32, 0, 0, ALL & ~U4, 0, 1},
    {1, 1, HM_CONFIG_SCALE_F16, 64, 0, 0, ALL & ~U4, 0, 1},
    {1, 1, HM_CONFIG_SCALE_F16, 128, 0, 0, ALL & ~U4, 0, 1},
    {1, 1, HM_CONFIG_SCALE_E8M0, 32, 0, 0, ALL, 0, 1},
    /* fp8 */
    {2, 0, HM_CONFIG_SCALE_NONE, 0, TOKEN, 0, FP8, FP8, 1},
    {3, 1, HM_CONFIG_SCALE_NONE, 0, TOKEN, 512, FP8, 0, 0},
    {3, 0, HM_CONFIG_SCALE_NONE, 0, GROUP, 128, FP8, 0, 0},
    {3, 1, HM_CONFIG_SCALE_BF16, 32, TOKEN, 32, FP8, 0, 1},
    {2, 1, HM_CONFIG_SCALE_F16, 64, TOKEN, 64, FP8, 0, 1},
    {2, 0, HM_CONFIG_SCALE_BF16, 128, TOKEN, 128, FP8, U4, 1},
    {3, 0, HM_CONFIG_SCALE_F32, 128, TOKEN, 128, FP8, 0, 0},
    {2, 1, HM_CONFIG_SCALE_BF16, 128, GROUP, 128, FP8, 0, 0},
    {2, 0, HM_CONFIG_SCALE_F32, 128, GROUP, 128, FP8, E4M3, 1},
    {2, 0, HM_CONFIG_SCALE_E8M0, 32, TOKEN, 32, FP8, 0, 1},
    {2, 0, HM_CONFIG_SCALE_MX, 32, TOKEN, 0, E2M1, E2M1, 1},
    {3, 1, HM_CONFIG_SCALE_MX, 32, TOKEN, 512, E2M1, 0, 0},
    /* int8 */
    {4, 0, HM_CONFIG_SCALE_NONE, 0, TOKEN, 0, S8, S8, 1},
    {4, 1, HM_CONFIG_SCALE_NONE, 0, GROUP, 128, S8, 0, 0},
    {4, 0, HM_CONFIG_SCALE_BF16, 32, TOKEN, 32, S8, 0, 1},
    {4, 1, HM_CONFIG_SCALE_F16, 64, TOKEN, 64, S8, 0, 1},
    {4, 0, HM_CONFIG_SCALE_BF16, 128, TOKEN, 128, S8, 0, 1},
    {4, 1, HM_CONFIG_SCALE_F32, 128, TOKEN, 128, S8, 0, 1},
    {4, 0, HM_CONFIG_SCALE_F32, 128, GROUP, 128, S8, 0, 0},
};

#define N_ROWS (sizeof(list_rows) / sizeof(list_rows[0]))

static void
list_others(struct plan_list *list)
{
	for (uint32_t i = 0; i < N_ROWS * 4; i++) {
		const struct list_row *row = &list_rows[i / 4];
		uint32_t weight = i % 4;
		struct hm_config format = {
		    .act = row->act,
		    .out = row->out,
		    .weight = weight,
		    .scale = row->scale,
		    .group = row->group,
		    .act_scale = row->act_scale,
		    .promote = row->promote,
		};

		if ((row->weights >> weight & 1) == 0)
			continue;
		list_hopper(list, &format, (row->whole >> weight & 1) != 0, i);
		if (row->packs != 0)
			list_add(list, hm_plan_pack_config(&format));
	}
}

/* ---- quantization ---- */

/* All on Hopper; elsewhere the plain ones of bf16, in the same code. */
static void
list_quant(struct plan_list *list, const struct hm_target *target)
{
	uint32_t n = hm_plan_is_hopper(target) ? 3 * 2 * 2 * 2 : 3 * 2;

	for (uint32_t i = 0; i < n; i++) {
		struct hm_config config = {
		    .family = HM_FAMILY_QUANT,
		    .act = HM_CONFIG_ACT_E4M3 + i % 3,
		    .act_scale = i / 3 % 2 != 0 ? GROUP : TOKEN,
		    .out = i / 6 % 2,
		    .epi = i / 12,
		    .threads = HM_EMIT_QUANT_THREADS,
		};

		if (hm_plan_check_format(&config, target, NULL) == HM_OK)
			list_add(list, config);
	}
}

size_t
hm_plan_all_configs(const struct hm_target *target, struct hm_config *configs,
    size_t max)
{
	struct plan_list list = {configs, 0, max};

	if (hm_plan_check_target(target, NULL) != HM_OK)
		return 0;
	list_w4a16(&list, target);
	list_quant(&list, target);
	if (hm_plan_is_hopper(target))
		list_others(&list);
	return list.n;
}
