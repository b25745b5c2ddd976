/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gemm_params.c - the host's parameter block is the device's, field by
 * field.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/gemm_params.h"
#include "jit/config.h"

#include "gemm_params_device.h"

#define FIELD(name)                                                            \
	{                                                                      \
#name, offsetof(struct hm_gemm_params, name),                  \
		    sizeof(((struct hm_gemm_params *)0)->name)                 \
	}
static const struct device_field host_fields[] = {
    FIELD(a_map),
    FIELD(c_map),
    FIELD(w),
    FIELD(a),
    FIELD(c),
    FIELD(rowmul),
    FIELD(bias),
    FIELD(workspace),
    FIELD(m),
    FIELD(n),
    FIELD(k),
    FIELD(lda),
    FIELD(ldc),
    FIELD(band),
    FIELD(prefetch),
    FIELD(row_groups),
    FIELD(weight_policy),
    FIELD(a_scale_step),
    FIELD(a_scale),
    FIELD(a_scale_group_step),
    FIELD(split_tiles),
};

static void
test_gemm_params__every_field_has_its_place_on_both_sides(void **state)
{
	size_t n = sizeof host_fields / sizeof host_fields[0];

	(void)state;
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(host_fields[i].name, device_fields[i].name);
		assert_int_equal(host_fields[i].offset,
		    device_fields[i].offset);
		assert_int_equal(host_fields[i].size, device_fields[i].size);
	}
	assert_null(device_fields[n].name);
}

static void
test_gemm_params__size_and_alignment_are_the_same(void **state)
{
	(void)state;
	assert_int_equal(sizeof(struct hm_gemm_params), device_params_bytes);
	assert_int_equal(_Alignof(struct hm_gemm_params),
	    device_params_alignment);
}

static void
test_gemm_params__abi_number_is_the_one_that_keys_carry(void **state)
{
	(void)state;
	assert_int_equal(HM_GEMM_PARAMS_ABI, HM_KERNEL_ABI);
	assert_int_equal(device_kernel_abi, HM_KERNEL_ABI);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_gemm_params__every_field_has_its_place_on_both_sides),
	    cmocka_unit_test(test_gemm_params__size_and_alignment_are_the_same),
	    cmocka_unit_test(
		test_gemm_params__abi_number_is_the_one_that_keys_carry),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
