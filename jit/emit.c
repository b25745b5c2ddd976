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

#define HALF_CODE_BYTES 2048u /* 64 rows by 64 k, four bits each */
#define SCALE_LINE      128u  /* 16-bit scales of 64 rows */
#define MAX_DEFINES     24

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
common_is_valid(const struct hm_config *config)
{
	uint32_t group = config->group;

	if (config->act > HM_CONFIG_ACT_F16)
		return false;
	if (group != 0 && group != 32 && group != 64 && group != 128)
		return false;
	if (config->zero > HM_CONFIG_ZERO_FLOAT)
		return false;
	return config->zero == HM_CONFIG_ZERO_NONE || group != 0;
}

static bool
stream_is_valid(const struct hm_config *config)
{
	uint32_t warps = config->warps, warps_k = config->warps_k;

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

static bool
wgmma_is_valid(const struct hm_config *config)
{
	uint32_t tokens = config->tile_tokens;

	if (tokens == 0 || tokens % 8 != 0 || tokens > 256)
		return false;
	if (config->slices != 1 && config->slices != 2)
		return false;
	if (config->slices == 2 && tokens > 168)
		return false;
	if (config->split_k > 1 || (config->split_k == 1 && tokens % 16 != 0))
		return false;
	if (config->halves != 1 && config->halves != 2)
		return false;
	if (config->steps != 1 && config->steps != 2 &&
	    !(config->steps == 4 && config->halves == 2))
		return false;
	return config->stages >= 2 && config->threads == 384;
}

static bool
mma_is_valid(const struct hm_config *config)
{
	uint32_t n = config->warps_n, m = config->warps_m, k = config->warps_k;

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
	return config->threads == HM_EMIT_PACK_THREADS;
}

static bool
config_is_valid(const struct hm_config *config)
{
	if (!common_is_valid(config))
		return false;
	switch ((enum hm_family)config->family) {
	case HM_FAMILY_STREAM:
		return stream_is_valid(config);
	case HM_FAMILY_WGMMA:
		return wgmma_is_valid(config);
	case HM_FAMILY_MMA:
		return mma_is_valid(config);
	case HM_FAMILY_PACK:
		return pack_is_valid(config);
	}
	return false;
}

/* ---- sizes ---- */

/* A scale line and its zero points: 64 rows. */
static uint32_t
group_bytes(const struct hm_config *config)
{
	static const uint32_t zero_line[] = {
	    [HM_CONFIG_ZERO_NONE] = 0,
	    [HM_CONFIG_ZERO_INT] = 64,
	    [HM_CONFIG_ZERO_FLOAT] = 128,
	};

	return SCALE_LINE + zero_line[config->zero];
}

uint32_t
hm_emit_chunk_bytes(const struct hm_config *config)
{
	uint32_t n_groups;

	if (!common_is_valid(config))
		return 0;
	n_groups = config->group == 0 ? 0 : 128 / config->group;
	return round_up(2 * HALF_CODE_BYTES + n_groups * group_bytes(config),
	    128);
}

/* Half a chunk with the lines of the groups that touch it. */
static uint32_t
half_bytes(const struct hm_config *config)
{
	uint32_t n_groups = config->group == 0 ? 0 : 1;

	if (config->group == 32)
		n_groups = 2;
	return HALF_CODE_BYTES + n_groups * group_bytes(config);
}

static uint32_t
wgmma_stage_bytes(const struct hm_config *config)
{
	uint32_t block = config->halves == 2 ? hm_emit_chunk_bytes(config)
					     : half_bytes(config);
	uint32_t act = config->halves * config->tile_tokens * 128;

	return round_up(act + 2 * config->slices * block, 1024);
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

static void
emit_common(struct define_list *list, const struct hm_config *config)
{
	emit_add(list, "ACT", config->act);
	emit_add(list, "CHUNK_BYTES", hm_emit_chunk_bytes(config));
	emit_add(list, "FAMILY", config->family);
	emit_add(list, "GROUP", config->group);
	emit_add(list, "KERNEL_ABI", HM_KERNEL_ABI);
	emit_add(list, "PACK_LAYOUT", HM_PACK_LAYOUT);
	emit_add(list, "THREADS", config->threads);
	emit_add(list, "ZERO", config->zero);
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

int
hm_emit_wgmma(const struct hm_config *config, char *text, size_t size)
{
	struct text out = {.length = 0, .overflow = false};
	const char *type;
	uint32_t n_sums;

	if (config->family != HM_FAMILY_WGMMA || !config_is_valid(config))
		return HM_E_INVALID;
	type = config->act == HM_CONFIG_ACT_BF16 ? "bf16" : "f16";
	n_sums = config->tile_tokens / 2;

	/* d += a * b^T, or d = a * b^T where accumulate is 0. */
	text_add(&out,
	    "HM_DEV void wgmma_async(float *d, const u32 *a, u64 b_desc, "
	    "u32 accumulate) {\n"
	    "asm volatile(\"{.reg .pred p; setp.ne.b32 p, %%%u, 0;\\n\"\n"
	    "\"wgmma.mma_async.sync.aligned.m64n%uk16.f32.%s.%s {",
	    (unsigned int)(n_sums + 5), (unsigned int)config->tile_tokens, type,
	    type);
	text_add_operands(&out, 0, n_sums);
	text_add(&out, "}, {");
	text_add_operands(&out, n_sums, 4);
	text_add(&out,
	    "}, %%%u, p, 1, 1, 0;}\"\n: ", (unsigned int)(n_sums + 4));
	for (uint32_t i = 0; i < n_sums; i++)
		text_add(&out, "%s\"+f\"(d[%u])", i == 0 ? "" : ", ",
		    (unsigned int)i);
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
