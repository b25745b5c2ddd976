/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gemm_demo_data.c - the operands of humming-gemm-demo for every kind of
 * SPEC, and that its judgement can fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/gemm_demo_data.h"
#include "client/number.h"
#include "jit/spec.h"

static const char *const specs[] = {"w4a16", "w4a16,a=f16,c=f16,zp=int",
    "w4a16,group=64,zp=float,bias=1", "w8a16", "w8a16,a=f16,c=f16", "mxfp4a16",
    "gemm,a=bf16,w=e4m3,scale=tensor", "w4a8", "w4a8i", "w8a8", "w8a8i",
    "mxfp4a8", "mxfp4a8,mx=exact", "fp8block", "fp8block,actlayout=m",
    "w8a8,act=tensor,a=e5m2"};
#define N_SPECS (sizeof specs / sizeof specs[0])

static struct hm_request
make_request(const char *spec)
{
	struct hm_errbuf why = {.text = ""};
	struct hm_request request;

	if (hm_spec_parse(spec, &request, &why) != HM_OK)
		fail_msg("%s: %s", spec, why.text);
	request.m = 3;
	request.n = 72;
	request.k = 400;
	return request;
}

/* The reference as a GPU would store it. */
static void
store_expected(struct hm_demo_data *data)
{
	for (size_t i = 0; i < (size_t)data->m * data->source.n; i++)
		data->c[i] =
		    hm_number_encode16(data->c_type, data->expected[i]);
}

static void
test_gemm_demo_data__right_results_are_right_for_every_spec(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_SPECS; i++) {
		struct hm_request request = make_request(specs[i]);
		struct hm_demo_data data;
		double error = 0;

		if (hm_demo_data_init(&data, &request) != HUMMING_OK)
			fail_msg("%s: %s", specs[i], humming_gemm_last_error());
		assert_int_equal(hm_demo_data_judge(&data, &error), HUMMING_OK);
		assert_true(error == 1e9); /* nobody wrote c */
		store_expected(&data);
		assert_int_equal(hm_demo_data_judge(&data, &error), HUMMING_OK);
		assert_true(error < 2e-3);
		/* one wrong row of 72 shows */
		for (uint32_t m = 0; m < data.m; m++)
			data.c[m * 72 + 5] = 0;
		assert_int_equal(hm_demo_data_judge(&data, &error), HUMMING_OK);
		assert_true(error > 1e-2);
		hm_demo_data_done(&data);
	}
}

/* Largest |q| of `n` quantized values. */
static double
largest(const struct hm_demo_data *data, size_t first, uint32_t n)
{
	double most = 0;

	for (uint32_t i = 0; i < n; i++) {
		double value =
		    hm_number_decode8(data->source.a_type, data->a[first + i]);

		value = value < 0 ? -value : value;
		most = value > most ? value : most;
	}
	return most;
}

static void
test_gemm_demo_data__quantized_values_fill_the_type(void **state)
{
	static const struct {
		const char *spec;
		double most;
		uint32_t group;
	} cases[] = {{"w8a8", 448, 400}, {"w8a8i", 127, 400},
	    {"w8a8,a=e5m2", 57344, 400}, {"fp8block", 448, 128},
	    {"fp8block,actlayout=m", 448, 128}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct hm_request request = make_request(cases[i].spec);
		struct hm_demo_data data;

		assert_int_equal(hm_demo_data_init(&data, &request),
		    HUMMING_OK);
		for (uint32_t j = 0; j < 3 * 400; j += cases[i].group) {
			uint32_t left = 400 - j % 400;
			uint32_t n =
			    left < cases[i].group ? left : cases[i].group;
			uint32_t m = j / 400;
			double scale =
			    (double)data.a_scale[m * data.a_scale_step +
						 j % 400 / 128 *
						     data.a_scale_group_step];

			assert_true(largest(&data, j, n) == cases[i].most);
			/* values lie in -1..1 */
			assert_true(scale * cases[i].most <= 1.0001 &&
				    scale * cases[i].most > 0.5);
			if (n == left) /* on to the next token */
				j = (m + 1) * 400 - cases[i].group;
		}
		hm_demo_data_done(&data);
	}
}

static void
test_gemm_demo_data__what_cannot_be_packed_is_said(void **state)
{
	struct hm_request request = make_request("nvfp4a16");
	struct hm_demo_data data;

	(void)state;
	assert_int_equal(hm_demo_data_init(&data, &request), HUMMING_E_INVALID);
	assert_true(strlen(humming_gemm_last_error()) > 0);
	hm_demo_data_done(&data);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_gemm_demo_data__right_results_are_right_for_every_spec),
	    cmocka_unit_test(
		test_gemm_demo_data__quantized_values_fill_the_type),
	    cmocka_unit_test(
		test_gemm_demo_data__what_cannot_be_packed_is_said),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
