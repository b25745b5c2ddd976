/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gemm_reference.c - the oracle against sums done by hand, and for the
 * 8-bit types against three plain loops.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <humming/gemm.h>

#define N 8u
#define K 72u

#define BF16_ONE  0x3f80u
#define BF16_HALF 0x3f00u
#define F16_ONE   0x3c00u
#define F16_TWO   0x4000u

struct problem {
	struct humming_weight_source source;
	struct humming_gemm_reference_args args;
	uint8_t codes[N * K];
	uint16_t scales[N * 3];
	uint8_t zero_codes[N * 3];
	uint16_t a[2 * (K + 8)];
	double c[2 * (N + 1)];
};

/* Codes of 8 (value 0), scales and activations of 1, two tokens; group 32, so
 * that the third group is partial. */
static void
problem_init(struct problem *problem)
{
	memset(problem, 0, sizeof *problem);
	humming_weight_source_init(&problem->source, sizeof problem->source);
	memset(problem->codes, 8, sizeof problem->codes);
	for (uint32_t i = 0; i < N * 3; i++)
		problem->scales[i] = BF16_ONE;
	for (uint32_t i = 0; i < 2 * (K + 8); i++)
		problem->a[i] = BF16_ONE;
	for (uint32_t i = 0; i < 2 * (N + 1); i++)
		problem->c[i] = -77;
	problem->source.n = N;
	problem->source.k = K;
	problem->source.group = 32;
	problem->source.codes = problem->codes;
	problem->source.scales = problem->scales;
	problem->args.m = 2;
	problem->args.lda = K + 8;
	problem->args.ldc = N + 1;
	problem->args.a = problem->a;
	problem->args.c_out = problem->c;
}

static void
problem_run(struct problem *problem)
{
	assert_int_equal(
	    humming_gemm_reference(&problem->source, &problem->args),
	    HUMMING_OK);
}

static void
test_reference__one_weight_meets_its_own_scale_and_activation(void **state)
{
	struct problem problem;

	(void)state;
	problem_init(&problem);
	problem.codes[3 * K + 70] = 13;        /* 5, in the partial group */
	problem.scales[3 * 3 + 2] = BF16_HALF; /* times 0.5 */
	problem.a[(K + 8) + 70] = 0x4040;      /* times 3, second token */
	problem_run(&problem);
	assert_true(problem.c[3] == 2.5);
	assert_true(problem.c[(N + 1) + 3] == 7.5);
	assert_true(problem.c[2] == 0 && problem.c[4] == 0);
}

static void
test_reference__elements_beyond_n_and_k_are_left_alone(void **state)
{
	struct problem problem;

	(void)state;
	problem_init(&problem);
	problem.a[K] = 0x7fc0; /* NaN in the gap between two tokens */
	problem_run(&problem);
	assert_true(problem.c[N] == -77 && problem.c[2 * N + 1] == -77);
	assert_true(problem.c[0] == 0);
}

static void
test_reference__integer_zero_point_replaces_eight(void **state)
{
	struct problem problem;

	(void)state;
	problem_init(&problem);
	memset(problem.zero_codes, 7, sizeof problem.zero_codes);
	problem.source.zero = HUMMING_ZERO_INT;
	problem.source.zeros = problem.zero_codes;
	problem_run(&problem);
	assert_true(problem.c[5] == K);
	problem.zero_codes[5 * 3 + 2] = 9; /* -1 for the last 8 of row 5 */
	problem_run(&problem);
	assert_true(problem.c[5] == 64 - 8);
}

static void
test_reference__float_zero_point_is_read_in_its_type(void **state)
{
	struct problem problem;
	float zeros[N * 3];

	(void)state;
	problem_init(&problem);
	for (uint32_t i = 0; i < N * 3; i++)
		zeros[i] = 7.75f;
	problem.source.zero = HUMMING_ZERO_FLOAT;
	problem.source.zero_type = HUMMING_TYPE_F32;
	problem.source.zeros = zeros;
	problem_run(&problem);
	assert_true(problem.c[0] == K * 0.25);
}

static void
test_reference__f16_row_scales_and_bias(void **state)
{
	struct problem problem;
	float bias[N] = {0, 10, 0, 0, 0, 0, 0, -1};
	float scales[N] = {1, 2, 1, 1, 1, 1, 1, 4};

	(void)state;
	problem_init(&problem);
	for (uint32_t i = 0; i < 2 * (K + 8); i++)
		problem.a[i] = i < K + 8 ? F16_ONE : F16_TWO;
	memset(problem.codes, 9, sizeof problem.codes);
	problem.source.a_type = HUMMING_TYPE_F16;
	problem.source.group = 0;
	problem.source.scales = scales;
	problem.source.scale_type = HUMMING_TYPE_F32;
	problem.source.bias = bias;
	problem_run(&problem);
	assert_true(problem.c[1] == 2 * K + 10);
	assert_true(problem.c[(N + 1) + 7] == 8 * K - 1);
}

static void
test_reference__short_strides_are_refused(void **state)
{
	struct problem problem;

	(void)state;
	problem_init(&problem);
	problem.args.lda = K - 1;
	assert_int_equal(humming_gemm_reference(&problem.source, &problem.args),
	    HUMMING_E_INVALID);
	problem.args.lda = K;
	problem.args.ldc = N - 1;
	assert_int_equal(humming_gemm_reference(&problem.source, &problem.args),
	    HUMMING_E_INVALID);
	assert_true(problem.c[0] == -77);
}

/* ---- 8-bit types: three loops ---- */

#define M8 3u
#define N8 136u
#define K8 272u

/* e4m3 and e2m1 by their definitions. */
static double
e4m3_value(uint32_t bits)
{
	int exponent = (int)(bits >> 3 & 15);
	double value = bits & 7;

	value += exponent > 0 ? 8 : 0;
	for (int i = 0; i < 10 - (exponent > 0 ? exponent : 1); i++)
		value /= 2;
	for (int i = 10; i < exponent; i++)
		value *= 2;
	return (bits & 128) != 0 ? -value : value;
}

static double
e2m1_value(uint32_t bits)
{
	static const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

	return (bits & 8) != 0 ? -values[bits & 7] : values[bits & 7];
}

/* Operands as bytes; all scales are small powers of two or near them. */
struct operands {
	uint8_t codes[N8 * K8];
	uint8_t a[M8 * K8];
	float a_scale[M8 * 3];
	double weights[N8 * K8];     /* with their scales */
	double activations[M8 * K8]; /* the same */
};

static void
operands_fill(struct operands *operands)
{
	uint32_t random = 1;

	for (uint32_t i = 0; i < N8 * K8; i++) {
		random = random * 1664525u + 1013904223u;
		operands->codes[i] = (uint8_t)(random >> 24);
		if ((operands->codes[i] & 127) == 127)
			operands->codes[i] = 1;
	}
	for (uint32_t i = 0; i < M8 * K8; i++) {
		random = random * 1664525u + 1013904223u;
		operands->a[i] = (uint8_t)(random >> 24);
		if ((operands->a[i] & 127) == 127)
			operands->a[i] = 1;
	}
	for (uint32_t i = 0; i < M8 * 3; i++)
		operands->a_scale[i] = 0.25f + (float)i;
}

static void
expect_three_loops(const struct humming_weight_source *source,
    const struct humming_gemm_reference_args *args,
    const struct operands *operands)
{
	static double c[M8 * N8];
	struct humming_gemm_reference_args full = *args;

	full.m = M8;
	full.lda = K8;
	full.ldc = N8;
	full.a = operands->a;
	full.c_out = c;
	assert_int_equal(humming_gemm_reference(source, &full), HUMMING_OK);
	for (uint32_t m = 0; m < M8; m++)
		for (uint32_t n = 0; n < N8; n++) {
			double sum = 0, size = 1e-30;

			for (uint32_t k = 0; k < K8; k++) {
				double term =
				    operands->activations[m * K8 + k] *
				    operands->weights[n * K8 + k];

				sum += term;
				size += term < 0 ? -term : term;
			}
			assert_true(c[m * N8 + n] - sum <= 1e-13 * size &&
				    c[m * N8 + n] - sum >= -1e-13 * size);
		}
}

static void
test_reference__e4m3_blocks_with_activation_scales_per_group(void **state)
{
	static struct operands o;
	struct humming_weight_source source;
	struct humming_gemm_reference_args args = {0};
	float scales[2 * 3] = {1, 2, 3, 0.5f, 0.1f, 7};

	(void)state;
	operands_fill(&o);
	for (uint32_t i = 0; i < N8 * K8; i++)
		o.weights[i] = e4m3_value(o.codes[i]) *
			       (double)scales[i / K8 / 128 * 3 + i % K8 / 128];
	for (uint32_t i = 0; i < M8 * K8; i++)
		o.activations[i] = e4m3_value(o.a[i]) *
				   (double)o.a_scale[i / K8 * 3 + i % K8 / 128];
	humming_weight_source_init(&source, sizeof source);
	source.n = N8;
	source.k = K8;
	source.w_type = HUMMING_TYPE_E4M3;
	source.a_type = HUMMING_TYPE_E4M3;
	source.scale_kind = HUMMING_SCALE_BLOCK;
	source.scale_type = HUMMING_TYPE_F32;
	source.codes = o.codes;
	source.scales = scales;
	args.a_scale = o.a_scale;
	args.a_scale_step = 3;
	args.a_scale_group_step = 1;
	expect_three_loops(&source, &args, &o);
	/* the same scales by groups first */
	for (uint32_t i = 0; i < M8 * K8; i++)
		o.activations[i] =
		    e4m3_value(o.a[i]) *
		    (double)o.a_scale[i / K8 + i % K8 / 128 * M8];
	args.a_scale_step = 1;
	args.a_scale_group_step = M8;
	expect_three_loops(&source, &args, &o);
}

static void
test_reference__mxfp4_groups_of_exponents(void **state)
{
	static struct operands o;
	static uint8_t scales[N8 * 9];
	static uint8_t nibbles[N8 * K8 / 2];
	struct humming_weight_source source;
	struct humming_gemm_reference_args args = {0};

	(void)state;
	operands_fill(&o);
	for (uint32_t i = 0; i < N8 * 9; i++)
		scales[i] = (uint8_t)(127 + i % 5); /* 1 to 16 */
	for (uint32_t i = 0; i < N8 * K8; i++) {
		nibbles[i / 2] |= (uint8_t)((o.codes[i] & 15) << 4 * (i % 2));
		o.weights[i] = e2m1_value(o.codes[i] & 15) *
			       (1u << (scales[i / K8 * 9 + i % K8 / 32] - 127));
	}
	for (uint32_t i = 0; i < M8 * K8; i++)
		o.activations[i] = e4m3_value(o.a[i]) * (double)o.a_scale[0];
	humming_weight_source_init(&source, sizeof source);
	source.n = N8;
	source.k = K8;
	source.w_type = HUMMING_TYPE_E2M1;
	source.a_type = HUMMING_TYPE_E4M3;
	source.group = 32;
	source.scale_type = HUMMING_TYPE_E8M0;
	source.code_layout = HUMMING_CODES_NIBBLES;
	source.codes = nibbles;
	source.scales = scales;
	args.a_scale = o.a_scale; /* one for all */
	expect_three_loops(&source, &args, &o);
	/* scales that only mx_exact packs do not trouble the reference */
	scales[0] = 127 + 20;
	for (uint32_t k = 0; k < 32; k++)
		o.weights[k] = e2m1_value(o.codes[k] & 15) * (1u << 20);
	expect_three_loops(&source, &args, &o);
}

static void
test_reference__s8_tokens_and_a_scale_for_the_tensor(void **state)
{
	static struct operands o;
	struct humming_weight_source source;
	struct humming_gemm_reference_args args = {0};
	float scale = 0.375f;

	(void)state;
	operands_fill(&o);
	for (uint32_t i = 0; i < N8 * K8; i++)
		o.weights[i] = (o.codes[i] - 128.0) * 0.375;
	for (uint32_t i = 0; i < M8 * K8; i++)
		o.activations[i] = (o.a[i] < 128 ? o.a[i] : o.a[i] - 256.0) *
				   (double)o.a_scale[i / K8 * 2];
	humming_weight_source_init(&source, sizeof source);
	source.n = N8;
	source.k = K8;
	source.w_type = HUMMING_TYPE_UINT(8);
	source.a_type = HUMMING_TYPE_SINT(8);
	source.scale_kind = HUMMING_SCALE_TENSOR;
	source.scale_type = HUMMING_TYPE_F32;
	source.codes = o.codes;
	source.scales = &scale;
	args.a_scale = o.a_scale;
	args.a_scale_step = 2;
	expect_three_loops(&source, &args, &o);
	/* no scales: ones */
	for (uint32_t i = 0; i < M8 * K8; i++)
		o.activations[i] = o.a[i] < 128 ? o.a[i] : o.a[i] - 256.0;
	args.a_scale = NULL;
	expect_three_loops(&source, &args, &o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_reference__one_weight_meets_its_own_scale_and_activation),
	    cmocka_unit_test(
		test_reference__elements_beyond_n_and_k_are_left_alone),
	    cmocka_unit_test(test_reference__integer_zero_point_replaces_eight),
	    cmocka_unit_test(
		test_reference__float_zero_point_is_read_in_its_type),
	    cmocka_unit_test(test_reference__f16_row_scales_and_bias),
	    cmocka_unit_test(test_reference__short_strides_are_refused),
	    cmocka_unit_test(
		test_reference__e4m3_blocks_with_activation_scales_per_group),
	    cmocka_unit_test(test_reference__mxfp4_groups_of_exponents),
	    cmocka_unit_test(
		test_reference__s8_tokens_and_a_scale_for_the_tensor),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
