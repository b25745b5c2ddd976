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
	int types[4]; /* of the maps, in turn */
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
	(void)steps;
	(void)interleave;
	(void)swizzle;
	(void)promotion;
	(void)fill;
	assert_int_equal(rank, 2);
	assert_int_equal((uintptr_t)map % 64, 0);
	seen.types[seen.n_maps++ % 4] = type;
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
	fixture->call.c_type = HUMMING_TYPE_BF16;
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
	int error = hm_gemm_check(&fixture->call, &fixture->args, &checked);

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
	assert_int_equal(hm_gemm_check(&fixture.call, &fixture.args, &checked),
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

/* Of s8 activations with a scale per token. */
static void
fixture_init_s8(struct fixture *fixture)
{
	fixture_init(fixture);
	fixture->call.a_type = HUMMING_TYPE_SINT(8);
	fixture->call.c_type = HUMMING_TYPE_F16;
	fixture->call.act_scale = HUMMING_ACT_TOKEN;
	fixture->call.k = 272;
	fixture->args.a_scale = (const float *)(const void *)(memory + 64);
}

static void
test_gemm_call__8_bit_activations_have_maps_of_bytes(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init_s8(&fixture);
	fixture.call.launch.tile_tokens = 16;
	fixture.args.lda = 288;
	assert_int_equal(run(&fixture), HM_OK);
	assert_int_equal(seen.n_maps, 2);
	assert_int_equal(seen.types[0], HM_CUDA_TENSOR_U8);
	assert_int_equal(seen.types[1], HM_CUDA_TENSOR_F16);
	/* the last one made is still that of c, in two bytes */
	assert_int_equal(seen.strides[0], 128);
	assert_int_equal(seen.box[0], 64);
	fixture.args.c = memory + 96;
	fixture.args.a = memory + 96; /* the map of c must not serve a */
	fixture.args.lda = 288;
	fixture.args.ldc = 288;
	fixture.call.n = 272;
	assert_int_equal(run(&fixture), HM_OK);
	assert_int_equal(seen.n_maps, 4);
	assert_int_equal(seen.types[2], HM_CUDA_TENSOR_U8);
	assert_int_equal(seen.strides[0], 576);
}

static void
test_gemm_call__a_map_of_bytes_has_boxes_of_128(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init_s8(&fixture);
	fixture.call.launch.tile_tokens = 16;
	assert_int_equal(run(&fixture), HM_OK);
	/* c again from the cache, so that the last one made is that of a */
	fixture.args.a = memory + 80;
	assert_int_equal(run(&fixture), HM_OK);
	assert_int_equal(seen.n_maps, 3);
	assert_int_equal(seen.sizes[0], 272);
	assert_int_equal(seen.sizes[1], 4);
	assert_int_equal(seen.strides[0], 272);
	assert_int_equal(seen.box[0], 128);
	assert_int_equal(seen.box[1], 16);
}

/* Steps of a_scale that reach the kernel. */
static void
expect_steps(const struct fixture *fixture, uint32_t step, uint32_t group_step)
{
	struct fixture copy = *fixture;

	assert_int_equal(run(&copy), HM_OK);
	assert_int_equal(seen.params.a_scale, (uintptr_t)memory + 64);
	assert_int_equal(seen.params.a_scale_step, step);
	assert_int_equal(seen.params.a_scale_group_step, group_step);
}

static void
test_gemm_call__steps_of_scales_follow_the_request(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init_s8(&fixture);
	expect_steps(&fixture, 1, 0);
	fixture.args.a_scale_step = 5;
	fixture.args.a_scale_group_step = 7; /* no groups: not looked at */
	expect_steps(&fixture, 5, 0);
	fixture.call.act_scale = HUMMING_ACT_TENSOR;
	expect_steps(&fixture, 0, 0);
	fixture_init_s8(&fixture);
	fixture.call.act_scale = HUMMING_ACT_GROUP;
	expect_steps(&fixture, 3, 1); /* 272 / 128 rounded up */
	fixture.args.a_scale_step = 4;
	expect_steps(&fixture, 4, 1);
	fixture.args.a_scale_step = 0;
	fixture.call.act_layout = 1;
	expect_steps(&fixture, 1, 4); /* m */
	fixture.args.a_scale_group_step = 8;
	expect_steps(&fixture, 1, 8);
	/* 16-bit activations have none */
	fixture_init(&fixture);
	fixture.args.a_scale = (const float *)(const void *)(memory + 4);
	fixture.args.a_scale_step = 3;
	assert_int_equal(run(&fixture), HM_OK);
	assert_int_equal(seen.params.a_scale, 0);
	assert_int_equal(seen.params.a_scale_step, 0);
}

static void
test_gemm_call__a_split_launch_has_a_workspace(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init(&fixture);
	fixture.call.workspace = 4096;
	assert_int_equal(run(&fixture), HM_OK);
	assert_int_equal(seen.params.workspace, 0);
	fixture.call.launch.split_tiles = 9;
	fixture.call.launch.workspace_bytes = 12345;
	assert_int_equal(run(&fixture), HM_OK);
	assert_int_equal(seen.params.split_tiles, 9);
	assert_int_equal(seen.params.workspace, 4096);
	fixture.args.workspace = memory + 128;
	assert_int_equal(run(&fixture), HM_OK);
	assert_int_equal(seen.params.workspace, (uintptr_t)memory + 128);
	fixture.args.workspace = memory + 4;
	seen.n_launches = 0;
	expect_refusal(&fixture, "workspace is not 16-byte aligned");
	fixture.args.workspace = NULL;
	fixture.call.workspace = 0;
	expect_refusal(&fixture, "workspace of 12345 bytes");
}

static void
test_gemm_call__8_bit_strides_and_scales_are_refused_by_name(void **state)
{
	struct fixture fixture;

	(void)state;
	fixture_init_s8(&fixture);
	fixture.args.lda = 280;
	expect_refusal(&fixture, "lda = 280 must be a multiple of 16");
	fixture.args.lda = 0;
	fixture.args.a_scale = NULL;
	expect_refusal(&fixture, "a_scale is NULL");
	fixture.args.a_scale = (const float *)(const void *)(memory + 4);
	expect_refusal(&fixture, "a_scale is not 16-byte aligned");
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
		test_gemm_call__8_bit_activations_have_maps_of_bytes),
	    cmocka_unit_test(test_gemm_call__a_map_of_bytes_has_boxes_of_128),
	    cmocka_unit_test(
		test_gemm_call__steps_of_scales_follow_the_request),
	    cmocka_unit_test(test_gemm_call__a_split_launch_has_a_workspace),
	    cmocka_unit_test(
		test_gemm_call__8_bit_strides_and_scales_are_refused_by_name),
	    cmocka_unit_test(
		test_gemm_call__a_refused_launch_is_told_with_its_name),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
