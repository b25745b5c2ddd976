/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan_format.c - what is multiplied: from the types and scales of a request to
 * the fields of a configuration, or the reason why this build has no kernel.
 *
 * Several requests are one format: scales per tensor are channel scales with
 * equal rows, blocks of 128x128 are groups of 128 with equal rows, f32 group
 * scales beside 16-bit activations are rounded when the weights are packed. A
 * scale of the activations per tensor is one per token, read again and again.
 */
#include "jit/plan_impl.h"

#include <stdio.h>
#include <string.h>

#include "jit/emit.h"
#include "jit/spec.h"
#include "jit/type.h"

/* Blocks, and groups of activations: the only size there is. */
#define BLOCK 128u
/* From this k on sums of products of int8, 2^14 at most each, leave 32 bits. */
#define S32_SUMS_K (1u << 17)
/* k between two promotions where nothing but acc=precise asks for them. */
#define PRECISE_K 512u

int
hm_plan_refuse(struct hm_errbuf *errbuf, const char *what, const char *takes)
{
	hm_errbuf_set(errbuf, "%s: this build has kernels for %s only", what,
	    takes);
	return HM_E_UNSUPPORTED;
}

static int
format_refuse_type(struct hm_errbuf *errbuf, const char *field, uint32_t type,
    const char *takes)
{
	char what[32], name[HM_TYPE_CHARS];

	hm_type_print(type, name);
	(void)snprintf(what, sizeof(what), "%s=%s", field, name);
	return hm_plan_refuse(errbuf, what, takes);
}

static int
format_refuse_number(struct hm_errbuf *errbuf, const char *field,
    uint32_t number, const char *takes)
{
	char what[32];

	(void)snprintf(what, sizeof(what), "%s=%u", field, number);
	return hm_plan_refuse(errbuf, what, takes);
}

/* ---- types ---- */

static bool
format_find(const uint32_t *types, size_t n, uint32_t type, uint32_t *index_out)
{
	for (uint32_t i = 0; i < n; i++) {
		if (types[i] != type)
			continue;
		*index_out = i;
		return true;
	}
	return false;
}

static const uint32_t format_acts[] = {
    [HM_CONFIG_ACT_BF16] = HM_TYPE_BF16,
    [HM_CONFIG_ACT_F16] = HM_TYPE_F16,
    [HM_CONFIG_ACT_E4M3] = HM_TYPE_E4M3,
    [HM_CONFIG_ACT_E5M2] = HM_TYPE_E5M2,
    [HM_CONFIG_ACT_S8] = HM_TYPE_SINT(8),
};

static const uint32_t format_weights[] = {
    [HM_CONFIG_WEIGHT_U4] = HM_TYPE_UINT(4),
    [HM_CONFIG_WEIGHT_U8] = HM_TYPE_UINT(8),
    [HM_CONFIG_WEIGHT_E2M1] = HM_TYPE_E2M1,
    [HM_CONFIG_WEIGHT_E4M3] = HM_TYPE_E4M3,
};

static bool
format_is_wide(const struct hm_config *format)
{
	return format->act <= HM_CONFIG_ACT_F16;
}

static int
format_types(const struct hm_request *full, struct hm_config *format,
    struct hm_errbuf *errbuf)
{
	if (!format_find(format_acts,
		sizeof(format_acts) / sizeof(format_acts[0]), full->a_type,
		&format->act))
		return format_refuse_type(errbuf, "a", full->a_type,
		    "a=bf16, f16, e4m3, e5m2 and s8");
	if (!format_find(format_weights,
		sizeof(format_weights) / sizeof(format_weights[0]),
		full->w_type, &format->weight))
		return format_refuse_type(errbuf, "w", full->w_type,
		    "w=u4, u8, e2m1 and e4m3");
	if (format->act == HM_CONFIG_ACT_S8 &&
	    format->weight >= HM_CONFIG_WEIGHT_E2M1)
		return hm_plan_refuse(errbuf, "a=s8 with w=e2m1",
		    "a=s8 with w=u4 and w=u8");
	if (format_is_wide(format) && full->c_type != full->a_type)
		return format_refuse_type(errbuf, "c", full->c_type,
		    "an output of the type of 16-bit activations");
	format->out = full->c_type == HM_TYPE_F16 ? HM_CONFIG_ACT_F16
						  : HM_CONFIG_ACT_BF16;
	if (full->acc_type == HM_TYPE_F16)
		return hm_plan_refuse(errbuf, "acc=f16",
		    "acc=f32 and acc=precise");
	if (full->epilogue != HM_EPILOGUE_NONE)
		return hm_plan_refuse(errbuf, "epi", "epi=none");
	return HM_OK;
}

/* ---- scales of the weights ---- */

static bool
format_is_plain_scale(uint32_t type)
{
	return type == HM_TYPE_F32 || type == HM_TYPE_BF16 ||
	       type == HM_TYPE_F16;
}

/* e8m0: into fp8 operands where a table of 16 values holds the products. */
static int
format_exponents(const struct hm_request *full, struct hm_config *format,
    struct hm_errbuf *errbuf)
{
	if (full->scale_kind != HM_SCALE_GROUP || full->group != 32)
		return hm_plan_refuse(errbuf, "stype=e8m0",
		    "group=32 with stype=e8m0");
	if (format->act == HM_CONFIG_ACT_S8)
		return hm_plan_refuse(errbuf, "stype=e8m0 with a=s8",
		    "group scales of bf16, f16 or f32 with a=s8");
	format->group = 32;
	format->scale = HM_CONFIG_SCALE_E8M0;
	if (!format_is_wide(format) && full->mx_exact == 0 &&
	    format->weight == HM_CONFIG_WEIGHT_E2M1)
		format->scale = HM_CONFIG_SCALE_MX;
	return HM_OK;
}

/* Scales along K that the kernels multiply with: groups and blocks. */
static int
format_groups(const struct hm_request *full, struct hm_config *format,
    struct hm_errbuf *errbuf)
{
	bool blocked = full->scale_kind == HM_SCALE_BLOCK;
	uint32_t type = full->scale_type;

	if (blocked && full->block_rows != BLOCK)
		return hm_plan_refuse(errbuf, "block=64x64", "block=128x128");
	if (!blocked && full->group != 32 && full->group != 64 &&
	    full->group != 128)
		return format_refuse_number(errbuf, "group", full->group,
		    "group=32, 64, 128, block=128x128, scale=channel and "
		    "scale=tensor");
	if (!format_is_plain_scale(type) ||
	    (format_is_wide(format) && type != HM_TYPE_F32 &&
		type != full->a_type))
		return format_refuse_type(errbuf, "stype", type,
		    format_is_wide(format)
			? "group scales of f32, e8m0 or the type of a"
			: "group scales of f32, bf16, f16 or e8m0");
	format->group = blocked ? BLOCK : full->group;
	if (format_is_wide(format))
		format->scale = format->act == HM_CONFIG_ACT_F16
				    ? HM_CONFIG_SCALE_F16
				    : HM_CONFIG_SCALE_BF16;
	else if (blocked || type == HM_TYPE_F32)
		format->scale = HM_CONFIG_SCALE_F32;
	else
		format->scale = type == HM_TYPE_F16 ? HM_CONFIG_SCALE_F16
						    : HM_CONFIG_SCALE_BF16;
	return HM_OK;
}

static int
format_scales(const struct hm_request *full, struct hm_config *format,
    struct hm_errbuf *errbuf)
{
	if (full->tensor_scale != 0)
		return hm_plan_refuse(errbuf, "tensor=1", "tensor=0");
	if (full->scale_type == HM_TYPE_E8M0)
		return format_exponents(full, format, errbuf);
	if (full->scale_kind == HM_SCALE_GROUP ||
	    full->scale_kind == HM_SCALE_BLOCK)
		return format_groups(full, format, errbuf);
	if (!format_is_plain_scale(full->scale_type))
		return format_refuse_type(errbuf, "stype", full->scale_type,
		    "channel and tensor scales of f32, bf16 or f16");
	format->scale = HM_CONFIG_SCALE_NONE;
	format->group = 0;
	return HM_OK;
}

static int
format_zero(const struct hm_request *full, struct hm_config *format,
    struct hm_errbuf *errbuf)
{
	if (full->zero == HM_ZERO_NONE)
		return HM_OK;
	if (full->scale_kind != HM_SCALE_GROUP)
		return hm_plan_refuse(errbuf,
		    full->scale_kind == HM_SCALE_BLOCK ? "zp with a block"
		    : full->scale_kind == HM_SCALE_TENSOR
			? "zp with scale=tensor"
			: "zp with scale=channel",
		    "zero points with a group");
	if (!format_is_wide(format) || format->weight != HM_CONFIG_WEIGHT_U4 ||
	    format->scale == HM_CONFIG_SCALE_E8M0)
		return hm_plan_refuse(errbuf,
		    full->zero == HM_ZERO_INT ? "zp=int" : "zp=float",
		    "zero points of w=u4 with 16-bit activations and scales");
	format->zero = full->zero == HM_ZERO_INT ? HM_CONFIG_ZERO_INT
						 : HM_CONFIG_ZERO_FLOAT;
	return HM_OK;
}

/* ---- scales of the activations ---- */

static int
format_act_scale(const struct hm_request *full, struct hm_config *format,
    struct hm_errbuf *errbuf)
{
	char what[48];

	if (format_is_wide(format))
		return HM_OK;
	format->act_scale = HM_CONFIG_ACT_SCALE_TOKEN;
	if (full->act_scale != HM_ACT_SCALE_GROUP)
		return HM_OK;
	if (full->act_group != BLOCK)
		return format_refuse_number(errbuf, "act", full->act_group,
		    "act=token, act=tensor and act=128");
	if (format->group != 0 && format->group != BLOCK) {
		(void)snprintf(what, sizeof(what), "act=128 with group=%u",
		    format->group);
		return hm_plan_refuse(errbuf, what,
		    "act=128 with group=128, block=128x128, scale=channel and "
		    "scale=tensor");
	}
	format->act_scale = HM_CONFIG_ACT_SCALE_GROUP;
	return HM_OK;
}

/* k after which the tensor cores' sums are scaled and added in fp32. */
static uint32_t
format_promote(const struct hm_request *full, const struct hm_config *format)
{
	bool in_operand = format->scale == HM_CONFIG_SCALE_NONE ||
			  format->scale == HM_CONFIG_SCALE_MX;

	if (format_is_wide(format))
		return 0;
	if (format->act_scale == HM_CONFIG_ACT_SCALE_GROUP)
		return BLOCK;
	if (!in_operand)
		return format->group;
	return full->acc_type == HM_ACC_PRECISE ? PRECISE_K : 0;
}

/* ---- sizes ---- */

/* The kernels copy 16 bytes at a time along N and K. */
static int
format_sizes(const struct hm_request *full, uint32_t act_bytes,
    struct hm_errbuf *errbuf)
{
	uint32_t k_unit = 16 / act_bytes;

	if (full->n % 8 != 0)
		return format_refuse_number(errbuf, "n", full->n,
		    "multiples of 8");
	if (full->k % k_unit != 0)
		return format_refuse_number(errbuf, "k", full->k,
		    k_unit == 8 ? "multiples of 8"
				: "multiples of 16 with 8-bit activations");
	return HM_OK;
}

/* Integers are summed over all of k unless scales along it intervene. */
static int
format_sums(const struct hm_request *full, const struct hm_config *format,
    struct hm_errbuf *errbuf)
{
	char what[64];

	if (format->act != HM_CONFIG_ACT_S8 || format->promote != 0 ||
	    full->k < S32_SUMS_K)
		return HM_OK;
	(void)snprintf(what, sizeof(what),
	    "k=%u with a=s8 and no scales along k", full->k);
	return hm_plan_refuse(errbuf, what, "k below 131072 (sums of 32 bits)");
}

int
hm_plan_format(const struct hm_request *full, struct hm_config *format_out,
    struct hm_errbuf *errbuf)
{
	bool packs = full->operation == HM_OPERATION_PACK;
	struct hm_config format = {0};
	int error;

	error = format_types(full, &format, errbuf);
	if (error == HM_OK)
		error = format_scales(full, &format, errbuf);
	if (error == HM_OK)
		error = format_zero(full, &format, errbuf);
	/* Packed weights know nothing of them. */
	if (error == HM_OK && !packs)
		error = format_act_scale(full, &format, errbuf);
	if (error == HM_OK)
		error =
		    format_sizes(full, format_is_wide(&format) ? 2 : 1, errbuf);
	if (error != HM_OK)
		return error;
	if (!packs) {
		format.promote = format_promote(full, &format);
		error = format_sums(full, &format, errbuf);
	}
	if (error == HM_OK)
		*format_out = format;
	return error;
}

int
hm_plan_quant(const struct hm_request *full, struct hm_config *config_out,
    struct hm_errbuf *errbuf)
{
	bool grouped = full->act_scale == HM_ACT_SCALE_GROUP;
	uint32_t act = 0;

	if (!format_find(format_acts,
		sizeof(format_acts) / sizeof(format_acts[0]), full->a_type,
		&act))
		return format_refuse_type(errbuf, "quant to a", full->a_type,
		    "a=e4m3, e5m2 and s8");
	if (grouped && full->act_group != BLOCK)
		return format_refuse_number(errbuf, "quant with act",
		    full->act_group, "act=token and act=128");
	if (full->act_scale == HM_ACT_SCALE_TENSOR)
		return hm_plan_refuse(errbuf, "quant with act=tensor",
		    "act=token and act=128");
	if (full->epilogue > HM_EPILOGUE_SILU_MUL)
		return hm_plan_refuse(errbuf, "quant with epi=swiglu-oai",
		    "epi=none and epi=silu-mul");
	if (full->k % 8 != 0)
		return format_refuse_number(errbuf, "k", full->k,
		    "multiples of 8");
	*config_out = (struct hm_config){
	    .family = HM_FAMILY_QUANT,
	    .act = act,
	    .out = full->c_type == HM_TYPE_F16 ? HM_CONFIG_ACT_F16
					       : HM_CONFIG_ACT_BF16,
	    .act_scale =
		grouped ? HM_CONFIG_ACT_SCALE_GROUP : HM_CONFIG_ACT_SCALE_TOKEN,
	    .epi = full->epilogue == HM_EPILOGUE_SILU_MUL
		       ? HM_CONFIG_EPI_SILU_MUL
		       : HM_CONFIG_EPI_NONE,
	    .threads = HM_EMIT_QUANT_THREADS,
	};
	return HM_OK;
}

/* ---- targets ---- */

bool
hm_plan_is_hopper(const struct hm_target *target)
{
	return target->cc == 90 && target->suffix == 'a';
}

int
hm_plan_check_format(const struct hm_config *format,
    const struct hm_target *target, struct hm_errbuf *errbuf)
{
	static const char *const acts[] = {"bf16", "f16", "e4m3", "e5m2", "s8"};
	static const char *const weights[] = {"u4", "u8", "e2m1", "e4m3"};
	char what[48], name[16];

	hm_target_print(target, name);
	if (format->family == HM_FAMILY_QUANT) {
		/* Integers are converted everywhere, fp8 since sm_89. */
		if (target->cc >= 89 || format->act == HM_CONFIG_ACT_S8)
			return HM_OK;
		(void)snprintf(what, sizeof(what), "quant to a=%s on %s",
		    acts[format->act], name);
		return hm_plan_refuse(errbuf, what, "sm_89 and newer");
	}
	if (hm_plan_is_hopper(target))
		return HM_OK;
	if (!format_is_wide(format))
		(void)snprintf(what, sizeof(what), "a=%s on %s",
		    acts[format->act], name);
	else if (format->weight != HM_CONFIG_WEIGHT_U4)
		(void)snprintf(what, sizeof(what), "w=%s on %s",
		    weights[format->weight], name);
	else if (format->scale == HM_CONFIG_SCALE_E8M0)
		(void)snprintf(what, sizeof(what), "stype=e8m0 on %s", name);
	else
		return HM_OK;
	return hm_plan_refuse(errbuf, what, "sm_90a");
}

enum hm_tune_class
hm_plan_class(const struct hm_config *format)
{
	if (format_is_wide(format))
		return HM_TUNE_WIDE;
	return format->promote != 0 ? HM_TUNE_TWO_LEVEL : HM_TUNE_ONE_LEVEL;
}
