/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - what kernel is wanted, as plain numbers.
 *
 * DESIGN.md section 5: jit/spec prints and parses its text form, codec carries
 * it, jit/plan turns it into a configuration. 0 means "default" or "not given"
 * everywhere. Nothing here says which combinations are legal: jit/spec does.
 */
#ifndef HM_PROTO_REQUEST_H
#define HM_PROTO_REQUEST_H

#include <stdint.h>

/* A numeric type: kind, exponent bits, mantissa bits (integers: all bits). */
enum hm_kind {
	HM_KIND_NONE = 0,
	HM_KIND_UINT = 1, /* value = code - 2^(bits-1), unless zp is given */
	HM_KIND_SINT = 2, /* two's complement */
	HM_KIND_FLOAT = 3,
	HM_KIND_UEXP = 4 /* e8m0: an exponent without a sign */
};
#define HM_TYPE(kind, exponent_bits, mantissa_bits)                            \
	((uint32_t)(kind) << 16 | (uint32_t)(exponent_bits) << 8 |             \
	    (uint32_t)(mantissa_bits))
#define HM_TYPE_KIND(type)     ((type) >> 16)
#define HM_TYPE_EXPONENT(type) ((type) >> 8 & 0xffu)
#define HM_TYPE_MANTISSA(type) ((type)&0xffu)
#define HM_TYPE_UINT(bits)     HM_TYPE(HM_KIND_UINT, 0, bits)
#define HM_TYPE_SINT(bits)     HM_TYPE(HM_KIND_SINT, 0, bits)
#define HM_TYPE_BF16           HM_TYPE(HM_KIND_FLOAT, 8, 7)
#define HM_TYPE_F16            HM_TYPE(HM_KIND_FLOAT, 5, 10)
#define HM_TYPE_F32            HM_TYPE(HM_KIND_FLOAT, 8, 23)
#define HM_TYPE_E4M3           HM_TYPE(HM_KIND_FLOAT, 4, 3)
#define HM_TYPE_E5M2           HM_TYPE(HM_KIND_FLOAT, 5, 2)
#define HM_TYPE_E2M1           HM_TYPE(HM_KIND_FLOAT, 2, 1)
#define HM_TYPE_E8M0           HM_TYPE(HM_KIND_UEXP, 8, 0)

/* No type, but a value of acc_type beside HM_TYPE_F32 and HM_TYPE_F16: sums of
 * fp8 products in fp32, without the tensor cores' shorter one over more than
 * 512 k. */
#define HM_ACC_PRECISE HM_TYPE(HM_KIND_NONE, 0, 1)

enum hm_operation {
	HM_OPERATION_GEMM = 1,
	HM_OPERATION_MOE_INDEXED = 2,
	HM_OPERATION_MOE_GROUPED = 3,
	HM_OPERATION_MOE_MASKED = 4,
	HM_OPERATION_QUANT = 5,
	HM_OPERATION_PACK = 6,
	HM_OPERATION_ALIGN = 7,
	HM_OPERATION_COMBINE = 8
};

enum hm_scale_kind {
	HM_SCALE_GROUP = 1,
	HM_SCALE_CHANNEL = 2,
	HM_SCALE_TENSOR = 3,
	HM_SCALE_BLOCK = 4
};

enum hm_zero_kind { HM_ZERO_NONE = 0, HM_ZERO_INT = 1, HM_ZERO_FLOAT = 2 };

enum hm_act_scale {
	HM_ACT_SCALE_NONE = 0,
	HM_ACT_SCALE_TOKEN = 1,
	HM_ACT_SCALE_TENSOR = 2,
	HM_ACT_SCALE_GROUP = 3
};

enum hm_epilogue {
	HM_EPILOGUE_NONE = 0,
	HM_EPILOGUE_SILU_MUL = 1,
	HM_EPILOGUE_SWIGLU_OAI = 2
};

/* Compute capability times ten and the suffix: 90, 'a' is sm_90a. */
struct hm_target {
	uint32_t cc;     /* 80, 90, 100, 120, ...; 0 = not given */
	uint32_t suffix; /* 0, 'a' or 'f' */
};

struct hm_request {
	struct hm_target target;
	uint32_t operation; /* enum hm_operation */
	uint32_t a_type;    /* HM_TYPE */
	uint32_t w_type;
	uint32_t c_type;
	uint32_t scale_kind; /* enum hm_scale_kind, of the weights */
	uint32_t group;      /* along K, for HM_SCALE_GROUP */
	uint32_t block_rows; /* for HM_SCALE_BLOCK */
	uint32_t block_cols;
	uint32_t scale_type;   /* HM_TYPE of the weight scale */
	uint32_t tensor_scale; /* 1: one more fp32 scale per tensor */
	uint32_t zero;         /* enum hm_zero_kind */
	uint32_t act_scale;    /* enum hm_act_scale */
	uint32_t act_group;
	uint32_t act_layout; /* 0 = k-major, 1 = m-major */
	uint32_t bias;
	uint32_t deterministic;
	uint32_t acc_type; /* HM_TYPE_F32, HM_TYPE_F16 or HM_ACC_PRECISE */
	uint32_t epilogue; /* enum hm_epilogue */
	uint32_t q_type;   /* result quantized to; 0 = not */
	uint32_t mx_exact; /* 0 = fused, 1 = exact */
	uint32_t m, n, k;  /* hints; 0 = not given */
	uint32_t experts, topk;
	uint32_t sms; /* 0 = the target's usual count */
};

#endif
