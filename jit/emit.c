/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit.c - the generated text of a kernel build.
 *
 * Two things are decided here: how a configuration is spelled, and which
 * configurations are legal at all. The rules are those that the device
 * sources static_assert (kernels/prelude.cuh and the entry files); saying no
 * here costs microseconds, there a compile. The sizes of chunks and stages
 * are computed here and in the sources, from the same description
 * (kernels/layout.cuh): config.h states ours, the sources assert theirs.
 */
#include "jit/emit.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "proto/error.h"

#define ROWS              64u /* of a chunk, and of a line of scales */
#define MAX_DEFINES       24
#define QUANT_GROUP_BYTES 256u /* 128 values of 16 bits */

struct define {
	const char *name;
	uint32_t value;
};

/* Sorted by name: emit_add keeps it so. */
struct define_list {
	struct define items[MAX_DEFINES];
	size_t n_items;
};

/* A string that knows when it did not fit. */
struct text {
	char bytes[HM_EMIT_WGMMA_BYTES];
	size_t length;
	bool overflow;
};

static void __attribute__((format(printf, 2, 3)))
text_add(struct text *text, const char *format, ...)
{
	size_t room = sizeof(text->bytes) - text->length;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text->bytes + text->length, room, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= room)
		text->overflow = true;
	else
		text->length += (size_t)n;
}

static int
text_copy(const struct text *text, char *target, size_t size)
{
	if (text->overflow || text->length >= size)
		return HM_E_NOMEM;
	memcpy(target, text->bytes, text->length);
	target[text->length] = '\0';
	return HM_OK;
}

static uint32_t
round_up(uint32_t value, uint32_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* ---- which configurations exist ---- */

static bool
act_is_16_bit(uint32_t act)
{
	return act <= HM_CONFIG_ACT_F16;
}

static bool
weight_is_narrow(const struct hm_config *config)
{
	return config->weight == HM_CONFIG_WEIGHT_U4 ||
	       config->weight == HM_CONFIG_WEIGHT_E2M1;
}

/* Which weights meet which activations. */
static bool
pair_is_valid(const struct hm_config *config)
{
	switch (config->act) {
	case HM_CONFIG_ACT_BF16:
	case HM_CONFIG_ACT_F16:
		return config->weight <= HM_CONFIG_WEIGHT_E4M3;
	case HM_CONFIG_ACT_E4M3:
	case HM_CONFIG_ACT_E5M2:
		return config->weight <= HM_CONFIG_WEIGHT_E4M3 &&
		       config->weight != HM_CONFIG_WEIGHT_U8;
	case HM_CONFIG_ACT_S8:
		return config->weight <= HM_CONFIG_WEIGHT_U8;
	}
	return false;
}

static bool
scale_is_valid(const struct hm_config *config)
{
	bool wide = act_is_16_bit(config->act);

	switch ((enum hm_config_scale)config->scale) {
	case HM_CONFIG_SCALE_NONE:
		return config->group == 0;
	case HM_CONFIG_SCALE_BF16:
		return config->group != 0 && config->act != HM_CONFIG_ACT_F16;
	case HM_CONFIG_SCALE_F16:
		return config->group != 0 && config->act != HM_CONFIG_ACT_BF16;
	case HM_CONFIG_SCALE_F32:
		return config->group != 0 && !wide;
	case HM_CONFIG_SCALE_E8M0:
		return config->group == 32;
	case HM_CONFIG_SCALE_MX:
		return config->group == 32 && !wide &&
		       config->act != HM_CONFIG_ACT_S8 &&
		       config->weight == HM_CONFIG_WEIGHT_E2M1;
	}
	return false;
}

static bool
zero_is_valid(const struct hm_config *config)
{
	if (config->zero == HM_CONFIG_ZERO_NONE)
		return true;
	return config->zero <= HM_CONFIG_ZERO_FLOAT &&
	       act_is_16_bit(config->act) &&
	       config->weight == HM_CONFIG_WEIGHT_U4 &&
	       (config->scale == HM_CONFIG_SCALE_BF16 ||
		   config->scale == HM_CONFIG_SCALE_F16);
}

/* What the bytes of packed weights depend on: every family but QUANT. */
static bool
format_is_valid(const struct hm_config *config)
{
	uint32_t group = config->group;

	if (group != 0 && group != 32 && group != 64 && group != 128)
		return false;
	return pair_is_valid(config) && scale_is_valid(config) &&
	       zero_is_valid(config);
}

/* The output, and how 8-bit activations are scaled: the GEMM families. */
static bool
gemm_is_valid(const struct hm_config *config)
{
	if (!format_is_valid(config))
		return false;
	if (act_is_16_bit(config->act))
		return config->out == config->act &&
		       config->act_scale == HM_CONFIG_ACT_SCALE_NONE;
	return config->out <= HM_CONFIG_ACT_F16 &&
	       (config->act_scale == HM_CONFIG_ACT_SCALE_TOKEN ||
		   config->act_scale == HM_CONFIG_ACT_SCALE_GROUP);
}

static bool
stream_is_valid(const struct hm_config *config)
{
	uint32_t warps = config->warps, warps_k = config->warps_k;

	if (!gemm_is_valid(config))
		return false;
	if (config->token_tiles < 1 || config->token_tiles > 2)
		return false;
	if (config->ring < 1 || config->ring > 8 || config->ctas_per_sm < 1)
		return false;
	if (warps == 0 || warps % 4 != 0 || warps > 32 || warps_k == 0)
		return false;
	if (warps % warps_k != 0 || (warps_k != 1 && warps / warps_k > 4))
		return false;
	return config->threads == warps * 32;
}

/* Scales that no operand takes in are applied to sums, group by group. */
static bool
promote_is_valid(const struct hm_config *config)
{
	uint32_t promote = config->promote;

	if (act_is_16_bit(config->act))
		return promote == 0;
	if (config->scale != HM_CONFIG_SCALE_NONE &&
	    config->scale != HM_CONFIG_SCALE_MX)
		return promote == config->group;
	if (config->act_scale == HM_CONFIG_ACT_SCALE_GROUP)
		return promote == 128;
	return promote == 0 ||
	       (promote == 512 && config->act != HM_CONFIG_ACT_S8);
}

static bool
wgmma_tile_is_valid(const struct hm_config *config)
{
	uint32_t tokens = config->tile_tokens;

	if (tokens == 0 || tokens % 8 != 0 || tokens > 256)
		return false;
	if (config->act == HM_CONFIG_ACT_S8 && tokens > 32 && tokens % 16 != 0)
		return false;
	if (config->split_k > 1 || (config->split_k == 1 && tokens % 16 != 0))
		return false;
	if (config->slices != 1 && config->slices != 2)
		return false;
	if (config->promote != 0)
		return tokens <= (config->slices == 2 ? 88 : 192);
	return config->slices == 1 || tokens <= 168;
}

static bool
wgmma_is_valid(const struct hm_config *config)
{
	uint32_t halves = config->halves, steps = config->steps;

	if (!gemm_is_valid(config) || !promote_is_valid(config) ||
	    !wgmma_tile_is_valid(config))
		return false;
	if (halves != 2 && !(halves == 1 && act_is_16_bit(config->act)))
		return false;
	if (steps != 1 && steps != 2 && !(steps == 4 && halves == 2))
		return false;
	if (config->promote != 0 && config->promote < 32 * steps)
		return false;
	if (config->threads == 640) /* two sets of consumers */
		return config->split_k == 1 && config->stages >= 4 &&
		       config->stages % 2 == 0;
	return config->stages >= 2 && config->threads == 384;
}

static bool
mma_is_valid(const struct hm_config *config)
{
	uint32_t n = config->warps_n, m = config->warps_m, k = config->warps_k;

	if (!gemm_is_valid(config) || !act_is_16_bit(config->act) ||
	    config->weight != HM_CONFIG_WEIGHT_U4 ||
	    config->scale == HM_CONFIG_SCALE_E8M0)
		return false;
	if (n == 0 || n > 32 || m == 0 || m > 32 || k == 0 || k > 32)
		return false;
	if (config->threads != n * m * k * 32 || config->threads > 1024)
		return false;
	if (config->tile_rows == 0 || config->tile_rows % 64 != 0 ||
	    config->tile_rows % (16 * n) != 0 || config->tile_rows > 1024)
		return false;
	if (config->tile_tokens == 0 || config->tile_tokens % (8 * m) != 0 ||
	    config->tile_tokens > 1024)
		return false;
	return config->stages >= 2;
}

static bool
pack_is_valid(const struct hm_config *config)
{
	return format_is_valid(config) &&
	       config->threads == HM_EMIT_PACK_THREADS;
}

static bool
quant_is_valid(const struct hm_config *config)
{
	return !act_is_16_bit(config->act) && config->act <= HM_CONFIG_ACT_S8 &&
	       config->out <= HM_CONFIG_ACT_F16 &&
	       (config->act_scale == HM_CONFIG_ACT_SCALE_TOKEN ||
		   config->act_scale == HM_CONFIG_ACT_SCALE_GROUP) &&
	       config->epi <= HM_CONFIG_EPI_SILU_MUL &&
	       config->threads == HM_EMIT_QUANT_THREADS;
}

static bool
config_is_valid(const struct hm_config *config)
{
	switch ((enum hm_family)config->family) {
	case HM_FAMILY_STREAM:
		return stream_is_valid(config);
	case HM_FAMILY_WGMMA:
		return wgmma_is_valid(config);
	case HM_FAMILY_MMA:
		return mma_is_valid(config);
	case HM_FAMILY_PACK:
		return pack_is_valid(config);
	case HM_FAMILY_QUANT:
		return quant_is_valid(config);
	}
	return false;
}

/* ---- sizes ---- */

/* 64 rows by 64 k. */
static uint32_t
half_code_bytes(const struct hm_config *config)
{
	return ROWS * 64 / (weight_is_narrow(config) ? 2 : 1);
}

/* A scale line and its zero points: 64 rows. */
static uint32_t
group_bytes(const struct hm_config *config)
{
	static const uint32_t scale_bytes[] = {
	    [HM_CONFIG_SCALE_NONE] = 0,
	    [HM_CONFIG_SCALE_BF16] = 2,
	    [HM_CONFIG_SCALE_F16] = 2,
	    [HM_CONFIG_SCALE_F32] = 4,
	    [HM_CONFIG_SCALE_E8M0] = 1,
	    [HM_CONFIG_SCALE_MX] = 1,
	};
	static const uint32_t zero_bytes[] = {
	    [HM_CONFIG_ZERO_NONE] = 0,
	    [HM_CONFIG_ZERO_INT] = 1,
	    [HM_CONFIG_ZERO_FLOAT] = 2,
	};

	return ROWS * (scale_bytes[config->scale] + zero_bytes[config->zero]);
}

uint32_t
hm_emit_chunk_bytes(const struct hm_config *config)
{
	uint32_t n_groups;

	if (!format_is_valid(config))
		return 0;
	n_groups = config->group == 0 ? 0 : 128 / config->group;
	return round_up(
	    2 * half_code_bytes(config) + n_groups * group_bytes(config), 128);
}

/* Half a chunk with the lines of the groups that touch it. */
static uint32_t
half_bytes(const struct hm_config *config)
{
	uint32_t n_groups = config->group == 0 ? 0 : 1;

	if (config->group == 32)
		n_groups = 2;
	return half_code_bytes(config) + n_groups * group_bytes(config);
}

/* Rows of 128 bytes of activations, the weights of all row blocks, and the
 * scales of the activations where each 128 k have their own. */
static uint32_t
wgmma_stage_bytes(const struct hm_config *config)
{
	uint32_t block = config->halves == 2 ? hm_emit_chunk_bytes(config)
					     : half_bytes(config);
	uint32_t rows = act_is_16_bit(config->act) ? config->halves : 1;
	uint32_t scales =
	    config->act_scale == HM_CONFIG_ACT_SCALE_GROUP ? 4 : 0;

	return round_up(config->tile_tokens * (rows * 128 + scales) +
			    2 * config->slices * block,
	    1024);
}

static uint32_t
mma_stage_bytes(const struct hm_config *config)
{
	uint32_t weights = config->tile_rows / 64 * half_bytes(config);

	return config->warps_k *
	       round_up(config->tile_tokens * 128 + weights, 128);
}

uint32_t
hm_emit_stage_bytes(const struct hm_config *config)
{
	if (!config_is_valid(config))
		return 0;
	switch ((enum hm_family)config->family) {
	case HM_FAMILY_STREAM:
	case HM_FAMILY_PACK:
		return hm_emit_chunk_bytes(config);
	case HM_FAMILY_WGMMA:
		return wgmma_stage_bytes(config);
	case HM_FAMILY_MMA:
		return mma_stage_bytes(config);
	case HM_FAMILY_QUANT:
		return QUANT_GROUP_BYTES;
	}
	return 0;
}

/* ---- config.h ---- */

static void
emit_add(struct define_list *list, const char *name, uint32_t value)
{
	size_t at = list->n_items++;

	for (; at > 0 && strcmp(list->items[at - 1].name, name) > 0; at--)
		list->items[at] = list->items[at - 1];
	list->items[at] = (struct define){name, value};
}

/* What the format of packed weights is made of. */
static void
emit_format(struct define_list *list, const struct hm_config *config)
{
	emit_add(list, "CHUNK_BYTES", hm_emit_chunk_bytes(config));
	emit_add(list, "GROUP", config->group);
	emit_add(list, "PACK_LAYOUT", HM_PACK_LAYOUT);
	emit_add(list, "SCALE", config->scale);
	emit_add(list, "WEIGHT", config->weight);
	emit_add(list, "ZERO", config->zero);
}

static void
emit_common(struct define_list *list, const struct hm_config *config)
{
	emit_add(list, "ACT", config->act);
	emit_add(list, "FAMILY", config->family);
	emit_add(list, "KERNEL_ABI", HM_KERNEL_ABI);
	emit_add(list, "THREADS", config->threads);
	if (config->family != HM_FAMILY_QUANT)
		emit_format(list, config);
	if (config->family == HM_FAMILY_PACK)
		return;
	emit_add(list, "ACT_SCALE", config->act_scale);
	emit_add(list, "OUT", config->out);
}

static void
emit_stream(struct define_list *list, const struct hm_config *config)
{
	emit_add(list, "CTAS_PER_SM", config->ctas_per_sm);
	emit_add(list, "RING", config->ring);
	emit_add(list, "TOKEN_TILES", config->token_tiles);
	emit_add(list, "WARPS", config->warps);
	emit_add(list, "WARPS_K", config->warps_k);
}

static void
emit_wgmma(struct define_list *list, const struct hm_config *config)
{
	emit_add(list, "HALVES", config->halves);
	emit_add(list, "PROMOTE", config->promote);
	emit_add(list, "SLICES", config->slices);
	emit_add(list, "SPLIT_K", config->split_k);
	emit_add(list, "STAGES", config->stages);
	emit_add(list, "STAGE_BYTES", wgmma_stage_bytes(config));
	emit_add(list, "STEPS", config->steps);
	emit_add(list, "TILE_TOKENS", config->tile_tokens);
}

static void
emit_mma(struct define_list *list, const struct hm_config *config)
{
	emit_add(list, "STAGES", config->stages);
	emit_add(list, "STAGE_BYTES", mma_stage_bytes(config));
	emit_add(list, "TILE_ROWS", config->tile_rows);
	emit_add(list, "TILE_TOKENS", config->tile_tokens);
	emit_add(list, "WARPS_K", config->warps_k);
	emit_add(list, "WARPS_M", config->warps_m);
	emit_add(list, "WARPS_N", config->warps_n);
}

int
hm_emit_config(const struct hm_config *config, char *text, size_t size)
{
	struct define_list list = {.n_items = 0};
	struct text out = {.length = 0, .overflow = false};

	if (!config_is_valid(config))
		return HM_E_INVALID;
	emit_common(&list, config);
	switch ((enum hm_family)config->family) {
	case HM_FAMILY_STREAM:
		emit_stream(&list, config);
		break;
	case HM_FAMILY_WGMMA:
		emit_wgmma(&list, config);
		break;
	case HM_FAMILY_MMA:
		emit_mma(&list, config);
		break;
	case HM_FAMILY_PACK: /* has no choice of its own */
		break;
	case HM_FAMILY_QUANT:
		emit_add(&list, "EPI", config->epi);
		break;
	}
	for (size_t i = 0; i < list.n_items; i++)
		text_add(&out, "#define HM_%s %u\n", list.items[i].name,
		    (unsigned int)list.items[i].value);
	return text_copy(&out, text, size);
}

/* ---- wgmma_shape.h ---- */

/* "%first, %first+1, ..": the operands of one bracket. */
static void
text_add_operands(struct text *out, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		text_add(out, "%s%%%u", i == 0 ? "" : ", ",
		    (unsigned int)(first + i));
}

/* What an instruction is called, and the tail of immediates that it takes. */
struct wgmma_form {
	const char *types; /* of the sums, the weights, the activations */
	const char *tail;  /* behind the predicate of the sums */
	const char *sum;   /* C type */
	char constraint;
	uint32_t k;
};

/* Operand A in registers: 16-bit types may still transpose B, 8-bit ones may
 * not, integers cannot even negate (PTX ISA, "wgmma.mma_async"). */
static const struct wgmma_form wgmma_forms[] = {
    [HM_CONFIG_ACT_BF16] = {"f32.bf16.bf16", ", 1, 1, 0", "float", 'f', 16},
    [HM_CONFIG_ACT_F16] = {"f32.f16.f16", ", 1, 1, 0", "float", 'f', 16},
    [HM_CONFIG_ACT_E4M3] = {"f32.e4m3.e4m3", ", 1, 1", "float", 'f', 32},
    [HM_CONFIG_ACT_E5M2] = {"f32.e4m3.e5m2", ", 1, 1", "float", 'f', 32},
    [HM_CONFIG_ACT_S8] = {"s32.s8.s8", "", "int", 'r', 32},
};

int
hm_emit_wgmma(const struct hm_config *config, char *text, size_t size)
{
	struct text out = {.length = 0, .overflow = false};
	const struct wgmma_form *form;
	uint32_t n_sums;

	if (config->family != HM_FAMILY_WGMMA || !config_is_valid(config))
		return HM_E_INVALID;
	form = &wgmma_forms[config->act];
	n_sums = config->tile_tokens / 2;

	/* d += a * b^T, or d = a * b^T where accumulate is 0. */
	text_add(&out,
	    "using accumulator = %s;\n"
	    "HM_DEV void wgmma_async(accumulator *d, const u32 *a, u64 b_desc, "
	    "u32 accumulate) {\n"
	    "asm volatile(\"{.reg .pred p; setp.ne.b32 p, %%%u, 0;\\n\"\n"
	    "\"wgmma.mma_async.sync.aligned.m64n%uk%u.%s {",
	    form->sum, (unsigned int)(n_sums + 5),
	    (unsigned int)config->tile_tokens, (unsigned int)form->k,
	    form->types);
	text_add_operands(&out, 0, n_sums);
	text_add(&out, "}, {");
	text_add_operands(&out, n_sums, 4);
	text_add(&out, "}, %%%u, p%s;}\"\n: ", (unsigned int)(n_sums + 4),
	    form->tail);
	for (uint32_t i = 0; i < n_sums; i++)
		text_add(&out, "%s\"+%c\"(d[%u])", i == 0 ? "" : ", ",
		    form->constraint, (unsigned int)i);
	text_add(&out,
	    "\n: \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), "
	    "\"l\"(b_desc), \"r\"(accumulate));\n}\n");
	return text_copy(&out, text, size);
}

/* ---- names, options ---- */

const char *
hm_emit_entry(const struct hm_config *config)
{
	switch ((enum hm_family)config->family) {
	case HM_FAMILY_STREAM:
		return "hm_gemm_stream";
	case HM_FAMILY_WGMMA:
		return "hm_gemm_wgmma";
	case HM_FAMILY_MMA:
		return "hm_gemm_mma";
	case HM_FAMILY_PACK:
		return "hm_weight_pack";
	case HM_FAMILY_QUANT:
		return "hm_quant";
	}
	return NULL;
}

const char *
hm_emit_source(const struct hm_config *config)
{
	switch ((enum hm_family)config->family) {
	case HM_FAMILY_STREAM:
		return "gemm_stream.cu";
	case HM_FAMILY_WGMMA:
		return "gemm_wgmma.cu";
	case HM_FAMILY_MMA:
		return "gemm_mma.cu";
	case HM_FAMILY_PACK:
		return "pack.cu";
	case HM_FAMILY_QUANT:
		return "quant.cu";
	}
	return NULL;
}

int
hm_emit_needs_wgmma(const struct hm_config *config)
{
	return config->family == HM_FAMILY_WGMMA;
}

/* sm_, two or three digits, at most one letter of a and f. */
static bool
target_is_valid(const char *target)
{
	size_t n_digits;

	if (strncmp(target, "sm_", 3) != 0)
		return false;
	target += 3;
	n_digits = strspn(target, "0123456789");
	if (n_digits < 2 || n_digits > 3)
		return false;
	target += n_digits;
	if (*target == 'a' || *target == 'f')
		target++;
	return *target == '\0';
}

/*
 * --std: the language of kernels/, whatever the compiler's default.
 * -no-cache: NVRTC otherwise looks into the driver's own cache.
 * --ptxas-options=-v: the log then gives registers and spills (jit/report).
 * Tried without effect on time or size: --minimal, --split-compile, -O1, -O2
 * for ptxas; --Ofast-compile breaks the wgmma pipeline (KERNELS.md 7).
 */
int
hm_emit_options(const char *target, struct hm_emit_options *options_out)
{
	struct hm_emit_options options;

	if (target == NULL || !target_is_valid(target))
		return HM_E_INVALID;
	snprintf(options.text[0], HM_EMIT_OPTION_BYTES, "--gpu-architecture=%s",
	    target);
	snprintf(options.text[1], HM_EMIT_OPTION_BYTES, "--std=c++17");
	snprintf(options.text[2], HM_EMIT_OPTION_BYTES, "-no-cache");
	snprintf(options.text[3], HM_EMIT_OPTION_BYTES, "--ptxas-options=-v");
	*options_out = options;
	return HM_OK;
}
