/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client_request.c - the public constants and structs are the house's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <humming/client.h>

#include "client/request.h"
#include "jit/spec.h"
#include "proto/error.h"
#include "proto/request.h"

#define SAME(a, b) assert_int_equal((int64_t)(a), (int64_t)(b))

static void
test_client_request__constants_are_equal(void **state)
{
	(void)state;
	SAME(HUMMING_OK, HM_OK);
	SAME(HUMMING_E_INVALID, HM_E_INVALID);
	SAME(HUMMING_E_NOMEM, HM_E_NOMEM);
	SAME(HUMMING_E_SYSTEM, HM_E_SYSTEM);
	SAME(HUMMING_E_UNAVAILABLE, HM_E_UNAVAILABLE);
	SAME(HUMMING_E_TIMEOUT, HM_E_TIMEOUT);
	SAME(HUMMING_E_BUSY, HM_E_BUSY);
	SAME(HUMMING_E_DENIED, HM_E_DENIED);
	SAME(HUMMING_E_PROTOCOL, HM_E_PROTOCOL);
	SAME(HUMMING_E_VERSION, HM_E_VERSION);
	SAME(HUMMING_E_UNSUPPORTED, HM_E_UNSUPPORTED);
	SAME(HUMMING_E_COMPILE, HM_E_COMPILE);
	SAME(HUMMING_E_CORRUPT, HM_E_CORRUPT);
	SAME(HUMMING_E_INTERNAL, HM_E_INTERNAL);
	SAME(HUMMING_TYPE_BF16, HM_TYPE_BF16);
	SAME(HUMMING_TYPE_F16, HM_TYPE_F16);
	SAME(HUMMING_TYPE_F32, HM_TYPE_F32);
	SAME(HUMMING_TYPE_E8M0, HM_TYPE_E8M0);
	SAME(HUMMING_ACC_PRECISE, HM_ACC_PRECISE);
	SAME(HUMMING_TYPE_FLOAT(4u, 3u), HM_TYPE_E4M3);
	SAME(HUMMING_TYPE_E4M3, HM_TYPE_E4M3);
	SAME(HUMMING_TYPE_E5M2, HM_TYPE_E5M2);
	SAME(HUMMING_TYPE_E2M1, HM_TYPE_E2M1);
	for (uint32_t bits = 1; bits <= 8; bits++) {
		SAME(HUMMING_TYPE_UINT(bits), HM_TYPE_UINT(bits));
		SAME(HUMMING_TYPE_SINT(bits), HM_TYPE_SINT(bits));
	}
	SAME(HUMMING_OPERATION_GEMM, HM_OPERATION_GEMM);
	SAME(HUMMING_OPERATION_QUANT, HM_OPERATION_QUANT);
	SAME(HUMMING_EPILOGUE_NONE, HM_EPILOGUE_NONE);
	SAME(HUMMING_EPILOGUE_SILU_MUL, HM_EPILOGUE_SILU_MUL);
	SAME(HUMMING_SCALE_GROUP, HM_SCALE_GROUP);
	SAME(HUMMING_SCALE_CHANNEL, HM_SCALE_CHANNEL);
	SAME(HUMMING_SCALE_TENSOR, HM_SCALE_TENSOR);
	SAME(HUMMING_SCALE_BLOCK, HM_SCALE_BLOCK);
	SAME(HUMMING_ZERO_NONE, HM_ZERO_NONE);
	SAME(HUMMING_ZERO_INT, HM_ZERO_INT);
	SAME(HUMMING_ZERO_FLOAT, HM_ZERO_FLOAT);
	SAME(HUMMING_ACT_TOKEN, HM_ACT_SCALE_TOKEN);
	SAME(HUMMING_ACT_TENSOR, HM_ACT_SCALE_TENSOR);
	SAME(HUMMING_ACT_GROUP, HM_ACT_SCALE_GROUP);
}

static void
test_client_request__version_is_of_the_library(void **state)
{
	(void)state;
	assert_true(humming_version() > 0);
	for (int error = 0; error >= -20; error--)
		assert_true(humming_strerror(error)[0] != '\0');
}

/* Every field arrives, none at another's place: distinct values there and back
 * again. */
static void
test_client_request__every_field_survives_the_round(void **state)
{
	struct humming_kernel_request request, back;
	struct hm_request ours;
	struct hm_errbuf why = {.text = ""};
	uint32_t words[sizeof request / sizeof(uint32_t)];
	size_t n = sizeof words / sizeof words[0];

	(void)state;
	for (size_t i = 0; i < n; i++)
		words[i] = (uint32_t)(0x10100 + i);
	words[0] = sizeof request;
	memcpy(&request, words, sizeof request);
	assert_int_equal(hm_request_import(&request, &ours, &why), HM_OK);
	hm_request_export(&ours, &back);
	memcpy(words, &back, sizeof back);
	for (size_t i = 1; i < n; i++)
		assert_int_equal(words[i], 0x10100 + i);
	/* As many fields here as there, so none of ours was forgotten. */
	assert_int_equal(sizeof ours / sizeof(uint32_t), n - 1);
}

static void
test_client_request__defaults_are_those_of_a_spec(void **state)
{
	struct humming_kernel_request request;
	struct hm_request ours, parsed;
	struct hm_errbuf why = {.text = ""};

	(void)state;
	humming_kernel_request_init(&request, sizeof request);
	assert_int_equal(hm_request_import(&request, &ours, &why),
	    HM_E_INVALID); /* no target */
	request.target_cc = 90;
	request.target_suffix = 'a';
	request.w_type = HUMMING_TYPE_SINT(4);
	request.scale_kind = HUMMING_SCALE_GROUP;
	request.group = 128;
	request.m = 1;
	assert_int_equal(hm_request_import(&request, &ours, &why), HM_OK);
	assert_int_equal(hm_spec_parse("w4a16,m=1", &parsed, &why), HM_OK);
	parsed.target = ours.target;
	assert_memory_equal(&ours, &parsed, sizeof ours);
}

/* An older caller's struct is shorter, a newer one's longer. */
static void
test_client_request__struct_size_is_the_version(void **state)
{
	struct {
		struct humming_kernel_request request;
		uint32_t tail;
	} longer;
	struct hm_request ours;
	struct hm_errbuf why = {.text = ""};

	(void)state;
	memset(&longer, 0, sizeof longer);
	longer.request.struct_size = sizeof longer;
	longer.request.target_cc = 90;
	longer.request.sms = 7;
	assert_int_equal(hm_request_import(&longer.request, &ours, &why),
	    HM_OK);
	assert_int_equal(ours.sms, 7);
	longer.tail = 1;
	assert_int_equal(hm_request_import(&longer.request, &ours, &why),
	    HM_E_INVALID);
	longer.request.struct_size =
	    offsetof(struct humming_kernel_request, sms);
	assert_int_equal(hm_request_import(&longer.request, &ours, &why),
	    HM_OK);
	assert_int_equal(ours.sms, 0);
	longer.request.struct_size = 0;
	assert_int_equal(hm_request_import(&longer.request, &ours, &why),
	    HM_E_INVALID);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_client_request__constants_are_equal),
	    cmocka_unit_test(test_client_request__version_is_of_the_library),
	    cmocka_unit_test(
		test_client_request__every_field_survives_the_round),
	    cmocka_unit_test(test_client_request__defaults_are_those_of_a_spec),
	    cmocka_unit_test(test_client_request__struct_size_is_the_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
