/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gemm_call.c - what reaches the driver for a launch.
 *
 * The driver is a fake that records: without a GPU the real one cannot be made
 * to show its arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/gemm_call.h"

/* What the fake driver saw. */
static struct {
	uint32_t n_launches, n_maps;
	struct hm_cuda_launch launch;
	struct hm_cuda_attribute attributes[2];
	struct hm_gemm_params params;
	uint64_t sizes[2], strides[1];
	uint32_t box[2];
	int result;
} seen;

static int
fake_launch(const struct hm_cuda_launch *launch, void *function, void **params,
    void **extra)
{
	(void)function;
	(void)extra;
	seen.n_launches++;
	seen.launch = *launch;
	memcpy(seen.attributes, launch->attributes,
	    launch->n_attributes * sizeof seen.attributes[0]);
	memcpy(&seen.params, params[0], sizeof seen.params);
	return seen.result;
}

/* NOLINTBEGIN(readability-function-size): the prototype is NVIDIA's. */
static int
fake_tensor_map(void *map, int type, uint32_t rank, void *address,
    const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
    const uint32_t *steps, int interleave, int swizzle, int promotion, int fill)
{
	(void)type;
	(void)steps;
	(void)interleave;
	(void)swizzle;
	(void)promotion;
	(void)fill;
	assert_int_equal(rank, 2);
	assert_int_equal((uintptr_t)map % 64, 0);
	seen.n_maps++;
	memcpy(seen.sizes, sizes, sizeof seen.sizes);
	memcpy(seen.strides, strides, sizeof seen.strides);
	memcpy(seen.box, box, sizeof seen.box);
	memset(map, 0, sizeof(struct hm_tensor_map));
	memcpy(map, &address, sizeof address);
	return 0;
}
/* NOLINTEND(readability-function-size) */

static int
fake_text(int result, const char **text)
{
	(void)result;
	*text = "fake";
	return 0;
}

static _Alignas(16) unsigned char memory[256];

struct fixture {
	struct hm_driver driver;
	struct hm_gemm_call call;
	struct hm_gemm_maps maps;
	struct humming_gemm_args args;
};

static void
fixture_init(struct fixture *fixture)
{
	memset(&seen, 0, sizeof seen);
	memset(fixture, 0, sizeof *fixture);
	fixture->driver.launch = fake_launch;
	fixture->driver.tensor_map = fake_tensor_map;
	fixture->driver.error_name = fake_text;
	fixture->driver.error_text = fake_text;
	fixture->call.driver = &fixture->driver;
	fixture->call.a_type = HUMMING_TYPE_BF16;
	fixture->call.n = 64;
	fixture->call.k = 128;
	fixture->call.launch.grid_x = 3;
	fixture->call.launch.block_threads = 384;
	fixture->call.launch.dynamic_smem_bytes = 1000;
	fixture->call.launch.band = 5;
	fixture->call.launch.prefetch = 6;
	fixture->call.launch.row_groups = 7;
	fixture->call.launch.weight_policy = 1;
	fixture->call.maps = &fixture->maps;
	fixture->args.struct_size = sizeof fixture->args;
	fixture->args.m = 4;
	fixture->args.a = memory;
	fixture->args.w = memory + 16;
	fixture->args.rowmul = (const float *)(const void *)(memory + 32);
	fixture->args.c = memory + 48;
}

static int
run(struct fixture *fixture)
{
	struct humming_gemm_args checked;
	int error = hm_gemm_check(&fixture->args, fixture->call.n,
	    fixture->call.k, &checked);

	if (error != HM_OK)
		return error;
	return hm_gemm_call(&fixture->call, &checked, memory);
}

static void
test_gemm_call__arguments_reach_the_parameter_block(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	assert_int_equal(run(&fixture), HM_OK);
	assert_int_equal(seen.launch.grid_x, 3);
	assert_int_equal(seen.launch.grid_y, 1);
	assert_int_equal(seen.launch.block_x, 384);
	assert_int_equal(seen.launch.smem_bytes, 1000);
	assert_ptr_equal(seen.launch.stream, memory);
	assert_int_equal(seen.launch.n_attributes, 0);
	assert_int_equal(seen.params.a, (uintptr_t)memory);
	assert_int_equal(seen.params.w, (uintptr_t)memory + 16);
	assert_int_equal(seen.params.rowmul, (uintptr_t)memory + 32);
	assert_int_equal(seen.params.c, (uintptr_t)memory + 48);
	assert_int_equal(seen.params.bias, 0);
	assert_int_equal(seen.params.m, 4);
	assert_int_equal(seen.params.lda, 128);
	assert_int_equal(seen.params.ldc, 64);
	assert_int_equal(seen.params.band, 5);
	assert_int_equal(seen.params.prefetch, 6);
	assert_int_equal(seen.params.row_groups, 7);
	assert_int_equal(seen.params.weight_policy, 1);
	assert_int_equal(seen.n_maps, 0);
}

static void
test_gemm_call__cluster_and_pdl_become_attributes(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	fixture.call.launch.cluster_size = 2;
	fixture.call.launch.pdl = 1;
	assert_int_equal(run(&fixture), HM_OK);
	assert_int_equal(seen.launch.n_attributes, 2);
	assert_int_equal(seen.attributes[0].id, HM_CUDA_LAUNCH_CLUSTER);
	assert_int_equal(seen.attributes[0].value.cluster.x, 2);
	assert_int_equal(seen.attributes[0].value.cluster.z, 1);
	assert_int_equal(seen.attributes[1].id, HM_CUDA_LAUNCH_PDL);
	assert_int_equal(seen.attributes[1].value.allowed, 1);
	fixture.args.flags = HUMMING_GEMM_NO_PDL;
	assert_int_equal(run(&fixture), HM_OK);
	assert_int_equal(seen.launch.n_attributes, 1);
}

static void
test_gemm_call__tensor_maps_are_made_once_per_buffer(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	fixture.call.launch.tile_tokens = 16;
	fixture.args.lda = 136;
	fixture.args.ldc = 72;
	assert_int_equal(run(&fixture), HM_OK);
	assert_int_equal(run(&fixture), HM_OK);
	assert_int_equal(seen.n_maps, 2);
	assert_int_equal(seen.params.a_map.words[0], (uintptr_t)memory);
	assert_int_equal(seen.params.c_map.words[0], (uintptr_t)memory + 48);
	/* the last one made is that of c: {N, M} by ldc, boxes of 64 by 16 */
	assert_int_equal(seen.sizes[0], 64);
	assert_int_equal(seen.sizes[1], 4);
	assert_int_equal(seen.strides[0], 144);
	assert_int_equal(seen.box[0], 64);
	assert_int_equal(seen.box[1], 16);
	fixture.args.m = 5;
	assert_int_equal(run(&fixture), HM_OK);
	assert_int_equal(seen.n_maps, 4);
	/* more buffers than the cache holds: still right, made again */
	for (uint32_t i = 0; i < 3 * HM_GEMM_MAPS; i++) {
		fixture.args.m = 6 + i;
		assert_int_equal(run(&fixture), HM_OK);
		assert_int_equal(seen.params.a_map.words[0], (uintptr_t)memory);
	}
}

static void
test_gemm_call__no_tokens_need_no_pointers(void **state)
{
	struct humming_gemm_args checked;
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	memset(&fixture.args, 0, sizeof fixture.args);
	fixture.args.struct_size = sizeof fixture.args;
	assert_int_equal(hm_gemm_check(&fixture.args, 64, 128, &checked),
	    HM_OK);
	assert_int_equal(checked.m, 0);
}

static void
expect_refusal(const struct fixture *fixture, const char *text)
{
	struct fixture copy = *fixture;

	assert_int_equal(run(&copy), HM_E_INVALID);
	assert_int_equal(seen.n_launches, 0);
	assert_non_null(strstr(humming_gemm_last_error(), text));
}

static void
test_gemm_call__bad_pointers_and_strides_are_refused_by_name(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	fixture.args.a = memory + 8;
	expect_refusal(&fixture, "a is not 16-byte aligned");
	fixture_init(&fixture);
	fixture.args.w = NULL;
	expect_refusal(&fixture, "w is NULL");
	fixture_init(&fixture);
	fixture.args.bias = (const float *)(const void *)(memory + 4);
	expect_refusal(&fixture, "bias is not");
	fixture_init(&fixture);
	fixture.args.lda = 120;
	expect_refusal(&fixture, "lda = 120");
	fixture_init(&fixture);
	fixture.args.ldc = 68;
	expect_refusal(&fixture, "ldc = 68");
	fixture_init(&fixture);
	fixture.args.flags = 2;
	expect_refusal(&fixture, "flags");
	fixture_init(&fixture);
	fixture.args.struct_size = 0;
	expect_refusal(&fixture, "struct_size");
}

static void
test_gemm_call__a_refused_launch_is_told_with_its_name(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	seen.result = 701;
	assert_int_equal(run(&fixture), HM_E_INTERNAL);
	assert_non_null(strstr(humming_gemm_last_error(), "cuLaunchKernelEx"));
	seen.result = 2;
	assert_int_equal(run(&fixture), HM_E_NOMEM);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_gemm_call__arguments_reach_the_parameter_block),
	    cmocka_unit_test(test_gemm_call__cluster_and_pdl_become_attributes),
	    cmocka_unit_test(
		test_gemm_call__tensor_maps_are_made_once_per_buffer),
	    cmocka_unit_test(test_gemm_call__no_tokens_need_no_pointers),
	    cmocka_unit_test(
		test_gemm_call__bad_pointers_and_strides_are_refused_by_name),
	    cmocka_unit_test(
		test_gemm_call__a_refused_launch_is_told_with_its_name),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
