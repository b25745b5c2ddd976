/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format.h - the types and scales of a problem, as its request states them, and
 * what follows from them: sizes, values of codes, texts, the list of formats
 * that the checks go through.
 */
#ifndef HM_TESTS_GPU_FORMAT_H
#define HM_TESTS_GPU_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jit/config.h"

/* How the scales of the weights are laid out. */
enum format_scales {
	FORMAT_GROUPS = 0, /* one per row and group; group 0: one per row */
	FORMAT_TENSOR = 1, /* one in all, f32; group 0 */
	FORMAT_BLOCKS = 2  /* one per 128 x 128, f32; group 128 */
};

/* Scales of 8-bit activations. */
enum format_act_scales {
	FORMAT_ACT_TOKEN = 0,
	FORMAT_ACT_TENSOR = 1,
	FORMAT_ACT_GROUP = 2 /* one per token and 128 k */
};

/* All zero: bf16 activations, u4 weights, one scale per row. */
struct format {
	uint32_t act;        /* enum hm_config_act */
	uint32_t out;        /* BF16 or F16 beside 8-bit activations;
	                      * else the output has the activations' type */
	uint32_t weight;     /* enum hm_config_weight */
	uint32_t group;      /* 32, 64, 128, or 0 */
	uint32_t scales;     /* enum format_scales */
	uint32_t scale_type; /* HUMMING_TYPE_ of group scales; 0 = the output's
	                      */
	uint32_t zero;       /* enum hm_config_zero */
	uint32_t act_scales; /* enum format_act_scales */
	bool precise;        /* acc=precise */
	bool mx_exact;       /* mx=exact */
	bool det;            /* det=1 */
};

/* Elements of a scale group of the activations, and rows and columns of a
 * block of the weights. */
#define FORMAT_BLOCK 128u

bool format_is_narrow(const struct format *format); /* 8-bit activations */
bool format_out_is_f16(const struct format *format);
uint32_t format_act_bytes(const struct format *format);
/* Sizes of k that can be given: multiples of this. */
uint32_t format_k_step(const struct format *format);

/* HUMMING_TYPE_ of the four of them. */
uint32_t format_a_type(const struct format *format);
uint32_t format_c_type(const struct format *format);
uint32_t format_w_type(const struct format *format);
uint32_t format_scale_type(const struct format *format);

/* Codes of a weight type: 16 or 256. */
uint32_t format_n_codes(uint32_t weight);
/* Value of a code before a zero point is taken off; NaN for e4m3's two. */
double format_code_value(uint32_t weight, uint32_t code);
/* What is taken off without zero points: 8, 128, or 0 for floats. */
double format_code_zero(uint32_t weight);
/* The code of e4m3 nearest to a value, ties to even, saturated. */
uint32_t format_encode_e4m3(double value);

/* "gemm,a=bf16,w=u4,group=128,n=8192,k=8192" */
void format_spec_text(const struct format *format, uint32_t n, uint32_t k,
    char *text, size_t size);
/* "bf16 u4 g128 zp=int" */
void format_describe(const struct format *format, char *text, size_t size);

/* Every format that is checked; those below FORMAT_N_FIRST are u4 with 16-bit
 * activations: both types x (channel, then group x zero point). */
#define FORMAT_N_FIRST 20u
size_t format_count(void);
struct format format_at(size_t index);

#endif
