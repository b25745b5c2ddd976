/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_fields.c - the tables of DESIGN.md section 5: what a SPEC may say.
 *
 * Adding a field or a shorthand is adding a row here; spec.c parses and prints
 * whatever the rows say, in their order.
 */
#include "jit/spec_fields.h"

const struct hm_spec_word hm_spec_operations[] = {
    {"gemm", HM_OPERATION_GEMM},
    {"moe-indexed", HM_OPERATION_MOE_INDEXED},
    {"moe-grouped", HM_OPERATION_MOE_GROUPED},
    {"moe-masked", HM_OPERATION_MOE_MASKED},
    {"quant", HM_OPERATION_QUANT},
    {"pack", HM_OPERATION_PACK},
    {"align", HM_OPERATION_ALIGN},
    {"combine", HM_OPERATION_COMBINE},
    {NULL, 0},
};

static const struct hm_spec_word spec_scales[] = {
    {"channel", HM_SCALE_CHANNEL},
    {"tensor", HM_SCALE_TENSOR},
    {NULL, 0},
};

static const struct hm_spec_word spec_zeros[] = {
    {"none", HM_ZERO_NONE},
    {"int", HM_ZERO_INT},
    {"float", HM_ZERO_FLOAT},
    {NULL, 0},
};

static const struct hm_spec_word spec_acts[] = {
    {"token", HM_ACT_SCALE_TOKEN},
    {"tensor", HM_ACT_SCALE_TENSOR},
    {NULL, 0},
};

static const struct hm_spec_word spec_layouts[] = {
    {"k", 0},
    {"m", 1},
    {NULL, 0},
};

static const struct hm_spec_word spec_sums[] = {
    {"f32", HM_TYPE_F32},
    {"f16", HM_TYPE_F16},
    {"precise", HM_ACC_PRECISE},
    {NULL, 0},
};

static const struct hm_spec_word spec_epilogues[] = {
    {"none", HM_EPILOGUE_NONE},
    {"silu-mul", HM_EPILOGUE_SILU_MUL},
    {"swiglu-oai", HM_EPILOGUE_SWIGLU_OAI},
    {NULL, 0},
};

static const struct hm_spec_word spec_mx[] = {
    {"fused", 0},
    {"exact", 1},
    {NULL, 0},
};

#define AT(member) offsetof(struct hm_request, member)

#define TAKES_SIZE "takes a number from 0 to 16777216"
#define TAKES_FLAG "takes 0 or 1"

const struct hm_spec_field hm_spec_fields[] = {
    {"a", AT(a_type), NULL, "takes bf16, f16, e4m3, e5m2, s8, s4 or e2m1",
	HM_SPEC_TYPE, 0},
    {"w", AT(w_type), NULL,
	"takes u1 to u8, s1 to s8 or eXmY of at most 8 bits", HM_SPEC_TYPE, 0},
    {"c", AT(c_type), NULL, "takes bf16 or f16", HM_SPEC_TYPE, 0},
    {"group", AT(group), NULL, "takes a power of two from 16 to 65536",
	HM_SPEC_GROUP, HM_SPEC_MAX_GROUP},
    {"scale", AT(scale_kind), spec_scales, "takes channel or tensor",
	HM_SPEC_SCALE, 0},
    {"block", AT(block_rows), NULL, "takes 128x128 or 64x64", HM_SPEC_BLOCK, 0},
    {"stype", AT(scale_type), NULL,
	"takes f32, bf16, f16, e4m3, e5m2, e8m0 or s8", HM_SPEC_TYPE, 0},
    {"tensor", AT(tensor_scale), NULL, TAKES_FLAG, HM_SPEC_NUMBER, 1},
    {"zp", AT(zero), spec_zeros, "takes none, int or float", HM_SPEC_WORD, 0},
    {"act", AT(act_scale), spec_acts,
	"takes token, tensor or a power of two from 16 to 65536", HM_SPEC_ACT,
	HM_SPEC_MAX_GROUP},
    {"actlayout", AT(act_layout), spec_layouts, "takes k or m", HM_SPEC_WORD,
	0},
    {"bias", AT(bias), NULL, TAKES_FLAG, HM_SPEC_NUMBER, 1},
    {"det", AT(deterministic), NULL, TAKES_FLAG, HM_SPEC_NUMBER, 1},
    {"acc", AT(acc_type), spec_sums, "takes f32, f16 or precise", HM_SPEC_WORD,
	0},
    {"epi", AT(epilogue), spec_epilogues, "takes none, silu-mul or swiglu-oai",
	HM_SPEC_WORD, 0},
    {"q", AT(q_type), NULL, "takes e4m3 or s8", HM_SPEC_TYPE, 0},
    {"mx", AT(mx_exact), spec_mx, "takes fused or exact", HM_SPEC_WORD, 0},
    {"m", AT(m), NULL, TAKES_SIZE, HM_SPEC_NUMBER, HM_SPEC_MAX_SIZE},
    {"n", AT(n), NULL, TAKES_SIZE, HM_SPEC_NUMBER, HM_SPEC_MAX_SIZE},
    {"k", AT(k), NULL, TAKES_SIZE, HM_SPEC_NUMBER, HM_SPEC_MAX_SIZE},
    {"experts", AT(experts), NULL, "takes a number from 0 to 65536",
	HM_SPEC_NUMBER, HM_SPEC_MAX_EXPERTS},
    {"topk", AT(topk), NULL, "takes a number from 0 to 1024", HM_SPEC_NUMBER,
	HM_SPEC_MAX_TOPK},
    {"sms", AT(sms), NULL, "takes a number from 0 to 4096", HM_SPEC_NUMBER,
	HM_SPEC_MAX_SMS},
};

const size_t hm_spec_n_fields =
    sizeof(hm_spec_fields) / sizeof(hm_spec_fields[0]);

const struct hm_spec_shorthand hm_spec_shorthands[] = {
    {"w4a16", "a=bf16,w=u4,group=128"},
    {"w8a16", "a=bf16,w=u8,scale=channel"},
    {"w4a8", "a=e4m3,w=u4,group=128,act=token"},
    {"w4a8i", "a=s8,w=u4,scale=channel,act=token"},
    {"w8a8", "a=e4m3,w=e4m3,scale=channel,act=token"},
    {"w8a8i", "a=s8,w=s8,scale=channel,act=token"},
    {"w4a4", "a=s4,w=s4,scale=channel,act=token"},
    {"mxfp4a16", "a=bf16,w=e2m1,group=32,stype=e8m0"},
    {"mxfp4a8", "a=e4m3,w=e2m1,group=32,stype=e8m0,act=token"},
    {"nvfp4a16", "a=bf16,w=e2m1,group=16,stype=e4m3,tensor=1"},
    {"nvfp4a4", "a=e2m1,w=e2m1,group=16,stype=e4m3,tensor=1,act=16"},
    {"fp8block", "a=e4m3,w=e4m3,block=128x128,act=128"},
    {NULL, NULL},
};
