/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_launch.c - grid and shared memory against the sums of the kernels' file
 * heads, written out by hand, and the limits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jit/launch.h"
#include "proto/error.h"

static const struct hm_plan_row stream_row = {
    .config = {.family = HM_FAMILY_STREAM,
	.scale = HM_CONFIG_SCALE_BF16,
	.group = 128,
	.threads = 256,
	.token_tiles = 1,
	.ring = 3,
	.warps = 8,
	.warps_k = 8,
	.ctas_per_sm = 1},
    .cluster = 1,
    .weight_policy = 1,
};

static const struct hm_plan_row split_row = {
    .config = {.family = HM_FAMILY_WGMMA,
	.scale = HM_CONFIG_SCALE_BF16,
	.group = 128,
	.threads = 384,
	.tile_tokens = 64,
	.stages = 8,
	.slices = 1,
	.halves = 2,
	.steps = 4,
	.split_k = 1},
    .cluster = 2,
    .band = 7,
    .prefetch = 1,
    .weight_policy = 1,
};

static const struct hm_plan_row persistent_row = {
    .config = {.family = HM_FAMILY_WGMMA,
	.scale = HM_CONFIG_SCALE_BF16,
	.group = 128,
	.threads = 384,
	.tile_tokens = 256,
	.stages = 4,
	.slices = 1,
	.halves = 1,
	.steps = 1},
    .cluster = 1,
    .band = 16,
    .prefetch = 4,
};

static const struct hm_plan_row mma_row = {
    .config = {.family = HM_FAMILY_MMA,
	.scale = HM_CONFIG_SCALE_BF16,
	.group = 128,
	.threads = 128,
	.tile_tokens = 64,
	.tile_rows = 128,
	.stages = 4,
	.warps_n = 4,
	.warps_m = 1,
	.warps_k = 1},
    .cluster = 1,
};

static struct hm_launch
launch_of(const struct hm_plan_row *row, uint32_t m, uint32_t n, uint32_t k,
    uint32_t sms)
{
	struct hm_launch launch;

	assert_int_equal(hm_launch_compute(row, m, n, k, sms, &launch), HM_OK);
	return launch;
}

/* 8 warps: 3 chunks of 4224, one token of 8 chunks a warp, partial sums. */
static void
test_launch__stream_has_a_cta_per_row_group_up_to_the_sms(void **state)
{
	struct hm_launch launch = launch_of(&stream_row, 1, 8192, 8192, 132);

	(void)state;
	assert_int_equal(launch.grid_x, 128);
	assert_int_equal(launch.grid_y, 1);
	assert_int_equal(launch.threads, 256);
	assert_int_equal(launch.cluster, 1);
	assert_int_equal(launch.row_groups, 1);
	assert_int_equal(launch.weight_policy, 1);
	assert_int_equal(launch.tile_tokens, 0);
	assert_int_equal(launch.smem_bytes,
	    8 * (3 * 4224 + (8 * 256 + 16) + 65 * 4) + 512);
	assert_true(launch.smem_bytes > 116 * 1024);

	launch = launch_of(&stream_row, 2, 32768, 1024, 132);
	assert_int_equal(launch.grid_x, 132);
	assert_int_equal(launch.row_groups, 4); /* 512 over 132 */
	/* 108 KB are its own; two CTAs shall not fit an SM. */
	assert_int_equal(launch.smem_bytes, 116 * 1024);
	/* Tails: 72 rows are 2 groups, 136 k are 2 chunks. */
	launch = launch_of(&stream_row, 1, 72, 136, 132);
	assert_int_equal(launch.grid_x, 2);
}

static void
test_launch__stream_clusters_divide_k_and_add_a_tile(void **state)
{
	struct hm_plan_row row = stream_row;
	struct hm_launch launch;

	(void)state;
	row.cluster = 2;
	launch = launch_of(&row, 4, 8192, 8192, 132);
	assert_int_equal(launch.grid_x, 132); /* 66 clusters */
	assert_int_equal(launch.row_groups, 2);
	assert_int_equal(launch.smem_bytes,
	    8 * (3 * 4224 + 4 * (4 * 256 + 16) + 4 * 65 * 4) + 2 * 512 +
		2 * 4 * 256);
	row.cluster = 4;
	launch = launch_of(&row, 1, 1024, 4096, 132);
	assert_int_equal(launch.grid_x, 64);
	launch = launch_of(&row, 1, 8192, 8192, 132);
	assert_int_equal(launch.grid_x, 120); /* 30 fit, not 33 */
}

static void
test_launch__stream_refuses_what_does_not_fit(void **state)
{
	struct hm_launch launch;

	(void)state;
	memset(&launch, 0x5a, sizeof(launch));
	assert_int_equal(
	    hm_launch_compute(&stream_row, 9, 8192, 8192, 132, &launch),
	    HM_E_INVALID);
	assert_int_equal(
	    hm_launch_compute(&stream_row, 8, 8192, 28672, 132, &launch),
	    HM_E_UNSUPPORTED);
	assert_int_equal(launch.grid_x, 0x5a5a5a5a);
}

static void
test_launch__split_tiles_are_one_cluster_each(void **state)
{
	struct hm_plan_row row = split_row;
	struct hm_launch launch = launch_of(&row, 64, 8192, 8192, 132);
	const uint32_t stage = 25600; /* 2 * 64 * 128 + 2 * 4224, up to 1024 */

	(void)state;
	assert_int_equal(launch.grid_x, 128);
	assert_int_equal(launch.cluster, 2);
	assert_int_equal(launch.tile_tokens, 64);
	assert_int_equal(launch.tile_rows, 128);
	assert_int_equal(launch.band, 7);
	assert_int_equal(launch.prefetch, 1);
	assert_int_equal(launch.smem_bytes, 1024 + 8 * stage);
	launch = launch_of(&row, 65, 200, 8192, 132);
	assert_int_equal(launch.grid_x, 2 * 2 * 2);
	assert_int_equal(launch.band, 2); /* never wider than there are tiles */
	/* Few stages: the fp32 tile of the cluster is what counts. */
	row.config.stages = 2;
	row.config.tile_tokens = 128;
	row.config.slices = 2;
	row.config.halves = 1;
	row.config.steps = 2;
	launch = launch_of(&row, 128, 8192, 8192, 132);
	assert_int_equal(launch.smem_bytes,
	    1024 + 256 * 128 * 4 + 256 * 128 * 2);
	/* A second set of warpgroups has sums of its own. */
	row = split_row;
	row.config.threads = 640;
	row.config.stages = 4;
	row.config.tile_tokens = 160;
	launch = launch_of(&row, 128, 8192, 8192, 132);
	assert_int_equal(launch.smem_bytes,
	    1024 + 2 * 128 * 160 * 4 + 128 * 160 * 2);
}

static void
test_launch__persistent_tiles_take_at_most_the_sms(void **state)
{
	struct hm_plan_row row = persistent_row;
	struct hm_launch launch = launch_of(&row, 4096, 8192, 8192, 132);
	const uint32_t stage = 37888; /* 256 * 128 + 2 * (2048 + 128), up */

	(void)state;
	assert_int_equal(launch.grid_x, 132);
	assert_int_equal(launch.band, 16);
	assert_int_equal(launch.smem_bytes, 1024 + 4 * stage + 2 * 256 * 128);
	launch = launch_of(&row, 257, 1024, 8192, 132);
	assert_int_equal(launch.grid_x, 16);
	assert_int_equal(launch.band, 8);
	row.cluster = 2;
	assert_int_equal(
	    hm_launch_compute(&row, 4096, 8192, 8192, 132, &launch),
	    HM_E_INVALID);
	row = persistent_row;
	row.config.stages = 5;
	assert_int_equal(
	    hm_launch_compute(&row, 4096, 8192, 8192, 132, &launch),
	    HM_E_UNSUPPORTED);
}

/* Half the bytes of 16-bit activations; scales of the activations per group lie
 * in the warp's part, per token behind everything. */
static void
test_launch__8_bit_activations_take_half(void **state)
{
	struct hm_plan_row row = stream_row;
	struct hm_launch launch;

	(void)state;
	row.config.act = HM_CONFIG_ACT_E4M3;
	row.config.weight = HM_CONFIG_WEIGHT_E4M3;
	row.config.scale = HM_CONFIG_SCALE_F32;
	row.config.act_scale = HM_CONFIG_ACT_SCALE_TOKEN;
	row.config.ring = 2;
	launch = launch_of(&row, 3, 8192, 8192, 132);
	assert_int_equal(launch.smem_bytes,
	    8 * (2 * (8192 + 256) + 3 * (8 * 128 + 16) + 3 * 65 * 4) + 512);
	row.config.act_scale = HM_CONFIG_ACT_SCALE_GROUP;
	launch = launch_of(&row, 3, 8192, 8192 - 128, 132);
	/* 63 chunks: 8 for a warp at most, 96 bytes of scales. */
	assert_int_equal(launch.smem_bytes,
	    8 * (2 * (8192 + 256) + 3 * (8 * 128 + 16) + 3 * 65 * 4 + 96) +
		512);

	row = persistent_row;
	row.config.act = HM_CONFIG_ACT_S8;
	row.config.scale = HM_CONFIG_SCALE_NONE;
	row.config.group = 0;
	row.config.act_scale = HM_CONFIG_ACT_SCALE_TOKEN;
	row.config.halves = 2;
	row.config.stages = 3;
	launch = launch_of(&row, 4096, 8192, 8192, 132);
	assert_int_equal(launch.smem_bytes,
	    1024 + 3 * (256 * 128 + 2 * 4096) + 2 * 256 * 128 + 2 * 256 * 4);

	row = split_row;
	row.config.act = HM_CONFIG_ACT_E4M3;
	row.config.act_scale = HM_CONFIG_ACT_SCALE_GROUP;
	row.config.promote = 128;
	launch = launch_of(&row, 64, 8192, 8192, 132);
	/* 64 * (128 + 4) + 2 * 4224 = 16896, up to 1024. */
	assert_int_equal(launch.smem_bytes, 1024 + 8 * 17408);
	row.config.act_scale = HM_CONFIG_ACT_SCALE_TOKEN;
	row.config.stages = 2;
	launch = launch_of(&row, 64, 8192, 8192, 132);
	assert_int_equal(launch.smem_bytes,
	    1024 + 128 * 64 * 4 + 128 * 64 * 2 + 2 * 64 * 4);
	/* Rows of 16 bytes. */
	assert_int_equal(hm_launch_compute(&row, 64, 8192, 8200, 132, &launch),
	    HM_E_INVALID);
}

/* 4096 x 8192: 16 x 64 tiles, 7 waves of 132 and 100 more. */
static void
test_launch__a_last_wave_may_be_shared(void **state)
{
	const uint64_t tile_bytes = 128 * 256 * 4;
	struct hm_plan_row row = persistent_row;
	struct hm_launch launch;

	(void)state;
	row.split_tail = 1;
	launch = launch_of(&row, 4096, 8192, 8192, 132);
	assert_int_equal(launch.split_tiles, 16 * 64 - 7 * 132);
	assert_int_equal(launch.grid_x, 132);
	assert_int_equal(launch.workspace_bytes, 4096 + 132 * tile_bytes);
	/* Fewer tiles than SMs: all are shared, by all. */
	launch = launch_of(&row, 256, 8192, 8192, 132);
	assert_int_equal(launch.split_tiles, 64);
	assert_int_equal(launch.grid_x, 132);
	/* 132 + 4: four alone would be cut into 33 pieces each; 132 + 28. */
	launch = launch_of(&row, 1024, 128 * 34, 8192, 132);
	assert_int_equal(launch.split_tiles, 136);
	launch = launch_of(&row, 64, 128 * 136, 8192, 132);
	assert_int_equal(launch.split_tiles, 136);
	launch = launch_of(&row, 1024, 128 * 40, 25600, 132);
	assert_int_equal(launch.split_tiles, 28);
	/* Whole waves are nobody's to share. */
	launch = launch_of(&row, 512, 128 * 66, 8192, 132);
	assert_int_equal(launch.split_tiles, 0);
	assert_int_equal(launch.workspace_bytes, 0);
	row.split_tail = 0;
	launch = launch_of(&row, 4096, 8192, 8192, 132);
	assert_int_equal(launch.split_tiles, 0);
	row = split_row;
	row.split_tail = 1;
	assert_int_equal(hm_launch_compute(&row, 64, 8192, 8192, 132, &launch),
	    HM_E_INVALID);
}

static void
test_launch__quant_has_a_cta_per_token_or_32_groups(void **state)
{
	struct hm_plan_row row = {.config = {.family = HM_FAMILY_QUANT,
				      .act = HM_CONFIG_ACT_E4M3,
				      .act_scale = HM_CONFIG_ACT_SCALE_TOKEN,
				      .threads = 256},
	    .cluster = 1};
	struct hm_launch launch = launch_of(&row, 77, 0, 5120, 132);

	(void)state;
	assert_int_equal(launch.grid_x, 77);
	assert_int_equal(launch.grid_y, 1);
	assert_int_equal(launch.threads, 256);
	assert_int_equal(launch.smem_bytes, 0);
	assert_int_equal(launch.cluster, 1);
	row.config.act_scale = HM_CONFIG_ACT_SCALE_GROUP;
	launch = launch_of(&row, 77, 0, 5120 + 8, 132);
	assert_int_equal(launch.grid_x, (77 * 41 + 31) / 32);
	assert_int_equal(
	    hm_launch_compute(&row, 1u << 20, 0, 1u << 20, 132, &launch),
	    HM_E_INVALID);
	assert_int_equal(hm_launch_compute(&row, 1, 0, 12, 132, &launch),
	    HM_E_INVALID);
}

static void
test_launch__mma_has_a_cta_per_tile(void **state)
{
	struct hm_launch launch = launch_of(&mma_row, 65, 1000, 4096, 108);
	const uint32_t stage = 64 * 128 + 2 * (2048 + 128);

	(void)state;
	assert_int_equal(launch.grid_x, 8);
	assert_int_equal(launch.grid_y, 2);
	assert_int_equal(launch.threads, 128);
	assert_int_equal(launch.cluster, 1);
	assert_int_equal(launch.tile_tokens, 0);
	assert_int_equal(launch.smem_bytes, 4 * stage);
	assert_int_equal(launch.workspace_bytes, 0);
	/* gridDim.y ends at 65535. */
	assert_int_equal(
	    hm_launch_compute(&mma_row, 65536u * 64u, 8, 8, 108, &launch),
	    HM_E_INVALID);
}

static void
test_launch__sizes_must_be_positive_multiples_of_8(void **state)
{
	static const uint32_t bad[][4] = {{0, 8, 8, 132}, {1, 0, 8, 132},
	    {1, 8, 0, 132}, {1, 8, 8, 0}, {1, 12, 8, 132}, {1, 8, 12, 132},
	    {1, UINT32_MAX - 7, 8, 132}, {UINT32_MAX, 8, 8, 132}};
	const struct hm_plan_row *rows[] = {&stream_row, &split_row,
	    &persistent_row, &mma_row};
	struct hm_launch launch;

	(void)state;
	for (size_t i = 0; i < 32; i++) {
		const uint32_t *at = bad[i % 8];

		assert_int_equal(hm_launch_compute(rows[i / 8], at[0], at[1],
				     at[2], at[3], &launch),
		    HM_E_INVALID);
	}
	for (size_t i = 0; i < 4; i++)
		(void)launch_of(rows[i], 1, 8, 8, 132);
}

static void
test_launch__rows_of_no_kernel_are_refused(void **state)
{
	struct hm_plan_row row = {.cluster = 1};
	struct hm_launch launch;

	(void)state;
	assert_int_equal(hm_launch_compute(&row, 1, 8, 8, 132, &launch),
	    HM_E_INVALID);
	row = mma_row;
	row.cluster = 0;
	assert_int_equal(hm_launch_compute(&row, 1, 8, 8, 132, &launch),
	    HM_E_INVALID);
}

static void
test_launch__measured_cluster_counts_are_known(void **state)
{
	(void)state;
	assert_int_equal(hm_launch_active_clusters(132, 1), 132);
	assert_int_equal(hm_launch_active_clusters(132, 2), 66);
	assert_int_equal(hm_launch_active_clusters(132, 4), 30);
	assert_int_equal(hm_launch_active_clusters(1, 4), 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_launch__stream_has_a_cta_per_row_group_up_to_the_sms),
	    cmocka_unit_test(
		test_launch__stream_clusters_divide_k_and_add_a_tile),
	    cmocka_unit_test(test_launch__stream_refuses_what_does_not_fit),
	    cmocka_unit_test(test_launch__split_tiles_are_one_cluster_each),
	    cmocka_unit_test(
		test_launch__persistent_tiles_take_at_most_the_sms),
	    cmocka_unit_test(test_launch__8_bit_activations_take_half),
	    cmocka_unit_test(test_launch__a_last_wave_may_be_shared),
	    cmocka_unit_test(
		test_launch__quant_has_a_cta_per_token_or_32_groups),
	    cmocka_unit_test(test_launch__mma_has_a_cta_per_tile),
	    cmocka_unit_test(
		test_launch__sizes_must_be_positive_multiples_of_8),
	    cmocka_unit_test(test_launch__rows_of_no_kernel_are_refused),
	    cmocka_unit_test(test_launch__measured_cluster_counts_are_known),
	};

	return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
