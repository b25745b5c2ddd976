/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_check.c - the defaults of a request, and which combinations can be
 * right at all.
 *
 * A rule belongs here when no kernel, however written, could satisfy the
 * request: its reason is arithmetic or contradiction, never "not built yet".
 * The ranges are KERNELS.md 4.7: what is multiplied has the type of the
 * activations, so every weight value must be exact in that type.
 */
#include "jit/spec.h"

#include <stdbool.h>

#include "jit/spec_fields.h"
#include "jit/type.h"

static bool
spec_is_gemm(const struct hm_request *request)
{
	return request->operation >= HM_OPERATION_GEMM &&
	       request->operation <= HM_OPERATION_MOE_MASKED;
}

static bool
spec_has_weights(const struct hm_request *request)
{
	return spec_is_gemm(request) || request->operation == HM_OPERATION_PACK;
}

static bool
spec_is_narrow(uint32_t type)
{
	uint32_t bits = hm_type_bits(type);

	return bits == 8 || bits == 4;
}

void
hm_spec_complete(struct hm_request *request)
{
	if (request->operation == 0)
		request->operation = HM_OPERATION_GEMM;
	if (request->a_type == 0)
		request->a_type = HM_TYPE_BF16;
	if (request->c_type == 0)
		request->c_type =
		    request->a_type == HM_TYPE_F16 ? HM_TYPE_F16 : HM_TYPE_BF16;
	if (request->scale_type == 0)
		request->scale_type = request->c_type;
	if (request->acc_type == 0)
		request->acc_type = HM_TYPE_F32;
	if (request->act_scale == HM_ACT_SCALE_NONE &&
	    spec_is_narrow(request->a_type))
		request->act_scale = HM_ACT_SCALE_TOKEN;
	/* Two's complement and offset binary are one after packing. */
	if (HM_TYPE_KIND(request->w_type) == HM_KIND_SINT &&
	    request->zero == HM_ZERO_NONE)
		request->w_type =
		    HM_TYPE_UINT(HM_TYPE_MANTISSA(request->w_type));
}

static bool
spec_one_of(uint32_t type, const uint32_t *types, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (types[i] == type)
			return true;
	}
	return false;
}

/* Types that a field may have at all; the name says which field. */
static int
spec_check_type(const char *name, uint32_t type, const uint32_t *types,
    size_t n, struct hm_errbuf *errbuf)
{
	char text[HM_TYPE_CHARS];

	if (spec_one_of(type, types, n))
		return HM_OK;
	for (size_t i = 0; i < hm_spec_n_fields; i++) {
		if (hm_spec_fields[i].name[0] != name[0] ||
		    hm_spec_fields[i].name[1] != name[1])
			continue;
		hm_type_print(type, text);
		hm_errbuf_set(errbuf, "%s=%s: %s", name, text,
		    hm_spec_fields[i].takes);
		break;
	}
	return HM_E_INVALID;
}

#define N_TYPES(types) (sizeof(types) / sizeof((types)[0]))

/* What the sums are kept in follows from what is summed. */
static int
spec_check_sums(const struct hm_request *request, struct hm_errbuf *errbuf)
{
	uint32_t a_type = request->a_type;

	if (request->acc_type == HM_TYPE_F16 &&
	    (a_type == HM_TYPE_BF16 || hm_type_is_int(a_type))) {
		hm_errbuf_set(errbuf,
		    "acc=f16: takes f16 or fp8 activations, products of bf16 "
		    "or integers leave its range");
		return HM_E_INVALID;
	}
	if (request->acc_type == HM_ACC_PRECISE && a_type != HM_TYPE_E4M3 &&
	    a_type != HM_TYPE_E5M2) {
		hm_errbuf_set(errbuf,
		    "acc=precise: takes fp8 activations, all others are "
		    "summed precisely");
		return HM_E_INVALID;
	}
	return HM_OK;
}

static int
spec_check_types(const struct hm_request *request, struct hm_errbuf *errbuf)
{
	static const uint32_t a_types[] = {HM_TYPE_BF16, HM_TYPE_F16,
	    HM_TYPE_E4M3, HM_TYPE_E5M2, HM_TYPE_SINT(8), HM_TYPE_SINT(4),
	    HM_TYPE_E2M1};
	static const uint32_t c_types[] = {HM_TYPE_BF16, HM_TYPE_F16};
	static const uint32_t scale_types[] = {HM_TYPE_F32, HM_TYPE_BF16,
	    HM_TYPE_F16, HM_TYPE_E4M3, HM_TYPE_E5M2, HM_TYPE_E8M0,
	    HM_TYPE_SINT(8)};
	static const uint32_t acc_types[] = {HM_TYPE_F32, HM_TYPE_F16,
	    HM_ACC_PRECISE};
	static const uint32_t q_types[] = {0, HM_TYPE_E4M3, HM_TYPE_SINT(8)};
	int error;

	error = spec_check_type("a", request->a_type, a_types, N_TYPES(a_types),
	    errbuf);
	if (error == HM_OK)
		error = spec_check_type("c", request->c_type, c_types,
		    N_TYPES(c_types), errbuf);
	if (error == HM_OK)
		error = spec_check_type("stype", request->scale_type,
		    scale_types, N_TYPES(scale_types), errbuf);
	if (error == HM_OK)
		error = spec_check_type("acc", request->acc_type, acc_types,
		    N_TYPES(acc_types), errbuf);
	if (error == HM_OK)
		error = spec_check_type("q", request->q_type, q_types,
		    N_TYPES(q_types), errbuf);
	return error == HM_OK ? spec_check_sums(request, errbuf) : error;
}

static bool
spec_is_group(uint32_t group)
{
	return group >= 16 && group <= HM_SPEC_MAX_GROUP &&
	       (group & (group - 1)) == 0;
}

/* Exactly one of group, scale and block, and nothing of the other two. */
static int
spec_check_scale(const struct hm_request *request, struct hm_errbuf *errbuf)
{
	bool grouped = request->scale_kind == HM_SCALE_GROUP;
	bool blocked = request->scale_kind == HM_SCALE_BLOCK;

	if (request->scale_kind == 0 || request->scale_kind > HM_SCALE_BLOCK ||
	    (!grouped && request->group != 0) ||
	    (!blocked && (request->block_rows | request->block_cols) != 0)) {
		hm_errbuf_set(errbuf,
		    "scales of the weights: takes exactly one of group, "
		    "scale, block");
		return HM_E_INVALID;
	}
	if (grouped && !spec_is_group(request->group)) {
		hm_errbuf_set(errbuf,
		    "group=%u: takes a power of two from 16 to %u",
		    request->group, HM_SPEC_MAX_GROUP);
		return HM_E_INVALID;
	}
	if (blocked &&
	    (request->block_rows != request->block_cols ||
		(request->block_rows != 128 && request->block_rows != 64))) {
		hm_errbuf_set(errbuf, "block=%ux%u: takes 128x128 or 64x64",
		    request->block_rows, request->block_cols);
		return HM_E_INVALID;
	}
	if (request->tensor_scale > 1 ||
	    (request->tensor_scale == 1 &&
		request->scale_kind == HM_SCALE_TENSOR)) {
		hm_errbuf_set(errbuf,
		    "tensor=%u: takes 0 or 1, and not beside scale=tensor",
		    request->tensor_scale);
		return HM_E_INVALID;
	}
	return HM_OK;
}

/* An integer scale under a channel scale (KERNELS.md 4.6) stays within int8. */
static int
spec_check_scale_type(const struct hm_request *request,
    struct hm_errbuf *errbuf)
{
	if (request->scale_type == HM_TYPE_SINT(8) &&
	    (request->scale_kind != HM_SCALE_GROUP ||
		request->a_type != HM_TYPE_SINT(8) ||
		!hm_type_is_int(request->w_type))) {
		hm_errbuf_set(errbuf,
		    "stype=s8: takes group scales of integer weights with "
		    "a=s8");
		return HM_E_INVALID;
	}
	if (request->mx_exact > 1 ||
	    (request->mx_exact == 1 &&
		(request->scale_type != HM_TYPE_E8M0 ||
		    hm_type_bits(request->a_type) != 8))) {
		hm_errbuf_set(errbuf,
		    "mx=exact: takes stype=e8m0 with 8-bit activations");
		return HM_E_INVALID;
	}
	if (request->zero > HM_ZERO_FLOAT ||
	    (request->zero != HM_ZERO_NONE &&
		HM_TYPE_KIND(request->w_type) != HM_KIND_UINT)) {
		hm_errbuf_set(errbuf,
		    "zp=%s: takes unsigned integer weights u1 to u8",
		    request->zero == HM_ZERO_INT ? "int" : "float");
		return HM_E_INVALID;
	}
	return HM_OK;
}

/* Largest value of an ExMy over its smallest step: how wide an integer that
 * represents all its values must be. */
static uint64_t
spec_float_span(uint32_t type)
{
	uint32_t exponent_bits = HM_TYPE_EXPONENT(type);
	uint32_t mantissa_bits = HM_TYPE_MANTISSA(type);
	uint64_t digits = (UINT64_C(2) << mantissa_bits) - 1;

	if (exponent_bits > 3)
		return UINT64_MAX;
	return digits << ((1u << exponent_bits) - 2);
}

static bool
spec_float_fits(uint32_t type, uint32_t into)
{
	return HM_TYPE_EXPONENT(type) <= HM_TYPE_EXPONENT(into) &&
	       HM_TYPE_MANTISSA(type) <= HM_TYPE_MANTISSA(into);
}

/* Bits of the widest integer weight that is exact in the activations' type. */
static uint32_t
spec_int_bits(uint32_t a_type)
{
	switch (a_type) {
	case HM_TYPE_E4M3:
		return 5; /* every integer up to 16 */
	case HM_TYPE_E5M2:
		return 4; /* up to 8 */
	case HM_TYPE_E2M1:
		return 3; /* up to 4 */
	case HM_TYPE_SINT(4):
		return 4;
	default:
		return 8;
	}
}

static bool
spec_weight_fits(uint32_t w_type, uint32_t a_type)
{
	if (hm_type_is_int(w_type))
		return hm_type_bits(w_type) <= spec_int_bits(a_type);
	if (hm_type_is_int(a_type))
		return spec_float_span(w_type) <
		       UINT64_C(1) << (hm_type_bits(a_type) - 1);
	/* The tensor cores multiply the two fp8 kinds with each other. */
	if (hm_type_bits(a_type) == 8)
		return spec_float_fits(w_type, HM_TYPE_E4M3) ||
		       spec_float_fits(w_type, HM_TYPE_E5M2);
	return spec_float_fits(w_type, a_type);
}

/* stated: what the caller calls the type, for messages. */
static int
spec_check_weights(const struct hm_request *request, uint32_t stated,
    struct hm_errbuf *errbuf)
{
	uint32_t w_type = request->w_type;
	uint32_t a_type = request->a_type;
	char w_text[HM_TYPE_CHARS], a_text[HM_TYPE_CHARS];
	int error;

	if (w_type == 0) {
		hm_errbuf_set(errbuf,
		    "w is missing: takes u1 to u8, s1 to s8 or eXmY of at "
		    "most 8 bits");
		return HM_E_INVALID;
	}
	hm_type_print(stated, w_text);
	if (!hm_type_is_valid(w_type) || hm_type_bits(w_type) > 8 ||
	    w_type == HM_TYPE_E8M0) {
		hm_errbuf_set(errbuf,
		    "w=%s: takes u1 to u8, s1 to s8 or eXmY of at most 8 bits",
		    w_text);
		return HM_E_INVALID;
	}
	error = spec_check_scale(request, errbuf);
	if (error == HM_OK)
		error = spec_check_scale_type(request, errbuf);
	if (error != HM_OK || spec_weight_fits(w_type, a_type))
		return error;

	hm_type_print(a_type, a_text);
	if (hm_type_is_int(w_type))
		hm_errbuf_set(errbuf,
		    "w=%s does not fit a=%s, which is exact for integer "
		    "weights of at most %u bits",
		    w_text, a_text, spec_int_bits(a_type));
	else
		hm_errbuf_set(errbuf,
		    "w=%s does not fit a=%s: not all of its values are exact "
		    "there",
		    w_text, a_text);
	return HM_E_INVALID;
}

/* Operations without weights: nothing of them may be said. */
static int
spec_check_no_weights(const struct hm_request *request,
    struct hm_errbuf *errbuf)
{
	const char *name = NULL;

	if (request->w_type != 0)
		name = "w";
	else if (request->scale_kind != 0)
		name = "group, scale or block";
	else if (request->zero != HM_ZERO_NONE)
		name = "zp";
	else if (request->tensor_scale != 0)
		name = "tensor";
	else if (request->mx_exact != 0)
		name = "mx";
	if (name == NULL)
		return HM_OK;
	hm_errbuf_set(errbuf,
	    "%s: takes an operation with weights (gemm, moe-*, pack)", name);
	return HM_E_INVALID;
}

static int
spec_check_activations(const struct hm_request *request,
    struct hm_errbuf *errbuf)
{
	char a_text[HM_TYPE_CHARS];
	bool grouped = request->act_scale == HM_ACT_SCALE_GROUP;

	hm_type_print(request->a_type, a_text);
	if (!spec_is_narrow(request->a_type) &&
	    (request->act_scale | request->act_group | request->act_layout) !=
		0) {
		hm_errbuf_set(errbuf,
		    "act: takes 8- or 4-bit activations, a=%s has no scale",
		    a_text);
		return HM_E_INVALID;
	}
	if (request->act_scale > HM_ACT_SCALE_GROUP ||
	    (grouped && !spec_is_group(request->act_group)) ||
	    (!grouped && request->act_group != 0)) {
		hm_errbuf_set(errbuf,
		    "act=%u: takes token, tensor or a power of two from 16 to "
		    "%u",
		    request->act_group, HM_SPEC_MAX_GROUP);
		return HM_E_INVALID;
	}
	if (request->act_layout > 1 || (request->act_layout == 1 && !grouped)) {
		hm_errbuf_set(errbuf,
		    "actlayout=m: takes scales per group, as in act=128");
		return HM_E_INVALID;
	}
	if (request->operation == HM_OPERATION_QUANT &&
	    !spec_is_narrow(request->a_type)) {
		hm_errbuf_set(errbuf,
		    "a=%s: quant takes e4m3, e5m2, s8, s4 or e2m1", a_text);
		return HM_E_INVALID;
	}
	return HM_OK;
}

static int
spec_check_output(const struct hm_request *request, struct hm_errbuf *errbuf)
{
	if (request->bias > 1 || request->deterministic > 1) {
		hm_errbuf_set(errbuf, "bias and det: take 0 or 1");
		return HM_E_INVALID;
	}
	if (request->epilogue > HM_EPILOGUE_SWIGLU_OAI ||
	    (request->epilogue != HM_EPILOGUE_NONE && !spec_is_gemm(request) &&
		request->operation != HM_OPERATION_QUANT)) {
		hm_errbuf_set(errbuf,
		    "epi: takes none, silu-mul or swiglu-oai, with gemm, "
		    "moe-* or quant");
		return HM_E_INVALID;
	}
	if (request->q_type != 0 &&
	    (request->epilogue == HM_EPILOGUE_NONE || !spec_is_gemm(request))) {
		hm_errbuf_set(errbuf,
		    "q: takes an epilogue before it, as in gemm with "
		    "epi=silu-mul");
		return HM_E_INVALID;
	}
	if (request->epilogue != HM_EPILOGUE_NONE && spec_is_gemm(request) &&
	    request->n % 2 != 0) {
		hm_errbuf_set(errbuf,
		    "n=%u: takes an even number with epi, gate and up are "
		    "halves",
		    request->n);
		return HM_E_INVALID;
	}
	return HM_OK;
}

static int
spec_check_sizes(const struct hm_request *request, struct hm_errbuf *errbuf)
{
	const struct {
		const char *name;
		uint32_t value, most;
	} sizes[] = {
	    {"m", request->m, HM_SPEC_MAX_SIZE},
	    {"n", request->n, HM_SPEC_MAX_SIZE},
	    {"k", request->k, HM_SPEC_MAX_SIZE},
	    {"experts", request->experts, HM_SPEC_MAX_EXPERTS},
	    {"topk", request->topk, HM_SPEC_MAX_TOPK},
	    {"sms", request->sms, HM_SPEC_MAX_SMS},
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i].value <= sizes[i].most)
			continue;
		hm_errbuf_set(errbuf, "%s=%u: takes a number up to %u",
		    sizes[i].name, sizes[i].value, sizes[i].most);
		return HM_E_INVALID;
	}
	if ((request->experts | request->topk) != 0 &&
	    (request->operation == HM_OPERATION_GEMM ||
		request->operation == HM_OPERATION_QUANT)) {
		hm_errbuf_set(errbuf,
		    "experts and topk: take a moe operation, pack, align or "
		    "combine");
		return HM_E_INVALID;
	}
	if (request->experts != 0 && request->topk > request->experts) {
		hm_errbuf_set(errbuf, "topk=%u: takes at most experts=%u",
		    request->topk, request->experts);
		return HM_E_INVALID;
	}
	return HM_OK;
}

int
hm_spec_check(const struct hm_request *request, struct hm_errbuf *errbuf)
{
	struct hm_request full = *request;
	int error;

	hm_spec_complete(&full);
	if (full.operation < HM_OPERATION_GEMM ||
	    full.operation > HM_OPERATION_COMBINE) {
		hm_errbuf_set(errbuf, "operation %u is not one",
		    full.operation);
		return HM_E_INVALID;
	}
	if (full.target.suffix != 0 && full.target.suffix != 'a' &&
	    full.target.suffix != 'f') {
		hm_errbuf_set(errbuf,
		    "architecture: takes no suffix, 'a' or 'f'");
		return HM_E_INVALID;
	}
	error = spec_check_types(&full, errbuf);
	if (error == HM_OK)
		error = spec_has_weights(&full)
			    ? spec_check_weights(&full, request->w_type, errbuf)
			    : spec_check_no_weights(&full, errbuf);
	if (error == HM_OK)
		error = spec_check_activations(&full, errbuf);
	if (error == HM_OK)
		error = spec_check_output(&full, errbuf);
	if (error == HM_OK)
		error = spec_check_sizes(&full, errbuf);
	return error;
}
