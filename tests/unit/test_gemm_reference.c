/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gemm_reference.c - the oracle against sums done by hand.
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
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
