/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_emit.c - the generated text is exact, sorted and refused when wrong.
 *
 * The goldens are written out in full: a change of one byte changes the key of
 * every kernel in every store, so it must be seen here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "jit/emit.h"
#include "proto/error.h"

static const struct hm_config stream_config = {
    .family = HM_FAMILY_STREAM,
    .act = HM_CONFIG_ACT_BF16,
    .scale = HM_CONFIG_SCALE_BF16,
    .group = 128,
    .threads = 256,
    .token_tiles = 1,
    .ring = 3,
    .warps = 8,
    .warps_k = 8,
    .ctas_per_sm = 1,
};

static const struct hm_config wgmma_config = {
    .family = HM_FAMILY_WGMMA,
    .act = HM_CONFIG_ACT_F16,
    .out = HM_CONFIG_ACT_F16,
    .scale = HM_CONFIG_SCALE_F16,
    .group = 128,
    .threads = 384,
    .tile_tokens = 128,
    .stages = 6,
    .slices = 2,
    .halves = 1,
    .steps = 1,
};

static const struct hm_config mma_config = {
    .family = HM_FAMILY_MMA,
    .act = HM_CONFIG_ACT_BF16,
    .scale = HM_CONFIG_SCALE_BF16,
    .group = 32,
    .zero = HM_CONFIG_ZERO_INT,
    .threads = 256,
    .tile_tokens = 16,
    .stages = 4,
    .tile_rows = 64,
    .warps_n = 4,
    .warps_m = 1,
    .warps_k = 2,
};

static const struct hm_config pack_config = {
    .family = HM_FAMILY_PACK,
    .act = HM_CONFIG_ACT_F16,
    .scale = HM_CONFIG_SCALE_F16,
    .group = 64,
    .zero = HM_CONFIG_ZERO_FLOAT,
    .threads = 256,
};

/* fp8 activations, scales of both sides per 128 k: two-level accumulation. */
static const struct hm_config wgmma8_config = {
    .family = HM_FAMILY_WGMMA,
    .act = HM_CONFIG_ACT_E4M3,
    .weight = HM_CONFIG_WEIGHT_E4M3,
    .scale = HM_CONFIG_SCALE_F32,
    .group = 128,
    .act_scale = HM_CONFIG_ACT_SCALE_GROUP,
    .threads = 384,
    .tile_tokens = 128,
    .stages = 4,
    .slices = 1,
    .halves = 2,
    .steps = 1,
    .promote = 128,
};

static const struct hm_config quant_config = {
    .family = HM_FAMILY_QUANT,
    .act = HM_CONFIG_ACT_S8,
    .out = HM_CONFIG_ACT_F16,
    .act_scale = HM_CONFIG_ACT_SCALE_TOKEN,
    .threads = 256,
    .epi = HM_CONFIG_EPI_SILU_MUL,
};

static void
test_emit_config__each_family_is_exact(void **state)
{
	char text[HM_EMIT_CONFIG_BYTES];

	(void)state;
	assert_int_equal(hm_emit_config(&stream_config, text, sizeof(text)),
	    HM_OK);
	assert_string_equal(text, "#define HM_ACT 0\n"
				  "#define HM_ACT_SCALE 0\n"
				  "#define HM_CHUNK_BYTES 4224\n"
				  "#define HM_CTAS_PER_SM 1\n"
				  "#define HM_FAMILY 1\n"
				  "#define HM_GROUP 128\n"
				  "#define HM_KERNEL_ABI 2\n"
				  "#define HM_OUT 0\n"
				  "#define HM_PACK_LAYOUT 1\n"
				  "#define HM_RING 3\n"
				  "#define HM_SCALE 1\n"
				  "#define HM_THREADS 256\n"
				  "#define HM_TOKEN_TILES 1\n"
				  "#define HM_WARPS 8\n"
				  "#define HM_WARPS_K 8\n"
				  "#define HM_WEIGHT 0\n"
				  "#define HM_ZERO 0\n");
	assert_int_equal(hm_emit_config(&wgmma_config, text, sizeof(text)),
	    HM_OK);
	assert_string_equal(text, "#define HM_ACT 1\n"
				  "#define HM_ACT_SCALE 0\n"
				  "#define HM_CHUNK_BYTES 4224\n"
				  "#define HM_FAMILY 2\n"
				  "#define HM_GROUP 128\n"
				  "#define HM_HALVES 1\n"
				  "#define HM_KERNEL_ABI 2\n"
				  "#define HM_OUT 1\n"
				  "#define HM_PACK_LAYOUT 1\n"
				  "#define HM_PROMOTE 0\n"
				  "#define HM_SCALE 2\n"
				  "#define HM_SLICES 2\n"
				  "#define HM_SPLIT_K 0\n"
				  "#define HM_STAGES 6\n"
				  "#define HM_STAGE_BYTES 25600\n"
				  "#define HM_STEPS 1\n"
				  "#define HM_THREADS 384\n"
				  "#define HM_TILE_TOKENS 128\n"
				  "#define HM_WEIGHT 0\n"
				  "#define HM_ZERO 0\n");
	assert_int_equal(hm_emit_config(&wgmma8_config, text, sizeof(text)),
	    HM_OK);
	assert_string_equal(text, "#define HM_ACT 2\n"
				  "#define HM_ACT_SCALE 2\n"
				  "#define HM_CHUNK_BYTES 8448\n"
				  "#define HM_FAMILY 2\n"
				  "#define HM_GROUP 128\n"
				  "#define HM_HALVES 2\n"
				  "#define HM_KERNEL_ABI 2\n"
				  "#define HM_OUT 0\n"
				  "#define HM_PACK_LAYOUT 1\n"
				  "#define HM_PROMOTE 128\n"
				  "#define HM_SCALE 3\n"
				  "#define HM_SLICES 1\n"
				  "#define HM_SPLIT_K 0\n"
				  "#define HM_STAGES 4\n"
				  "#define HM_STAGE_BYTES 33792\n"
				  "#define HM_STEPS 1\n"
				  "#define HM_THREADS 384\n"
				  "#define HM_TILE_TOKENS 128\n"
				  "#define HM_WEIGHT 3\n"
				  "#define HM_ZERO 0\n");
}

static void
test_emit_config__other_families_are_exact(void **state)
{
	char text[HM_EMIT_CONFIG_BYTES];

	(void)state;
	assert_int_equal(hm_emit_config(&pack_config, text, sizeof(text)),
	    HM_OK);
	assert_string_equal(text, "#define HM_ACT 1\n"
				  "#define HM_CHUNK_BYTES 4608\n"
				  "#define HM_FAMILY 4\n"
				  "#define HM_GROUP 64\n"
				  "#define HM_KERNEL_ABI 2\n"
				  "#define HM_PACK_LAYOUT 1\n"
				  "#define HM_SCALE 2\n"
				  "#define HM_THREADS 256\n"
				  "#define HM_WEIGHT 0\n"
				  "#define HM_ZERO 2\n");
	assert_int_equal(hm_emit_config(&quant_config, text, sizeof(text)),
	    HM_OK);
	assert_string_equal(text, "#define HM_ACT 4\n"
				  "#define HM_ACT_SCALE 1\n"
				  "#define HM_EPI 1\n"
				  "#define HM_FAMILY 5\n"
				  "#define HM_KERNEL_ABI 2\n"
				  "#define HM_OUT 1\n"
				  "#define HM_THREADS 256\n");
	assert_int_equal(hm_emit_config(&mma_config, text, sizeof(text)),
	    HM_OK);
	assert_string_equal(text, "#define HM_ACT 0\n"
				  "#define HM_ACT_SCALE 0\n"
				  "#define HM_CHUNK_BYTES 4864\n"
				  "#define HM_FAMILY 3\n"
				  "#define HM_GROUP 32\n"
				  "#define HM_KERNEL_ABI 2\n"
				  "#define HM_OUT 0\n"
				  "#define HM_PACK_LAYOUT 1\n"
				  "#define HM_SCALE 1\n"
				  "#define HM_STAGES 4\n"
				  "#define HM_STAGE_BYTES 8960\n"
				  "#define HM_THREADS 256\n"
				  "#define HM_TILE_ROWS 64\n"
				  "#define HM_TILE_TOKENS 16\n"
				  "#define HM_WARPS_K 2\n"
				  "#define HM_WARPS_M 1\n"
				  "#define HM_WARPS_N 4\n"
				  "#define HM_WEIGHT 0\n"
				  "#define HM_ZERO 1\n");
}

static void
test_emit_config__small_buffer_fails_untouched(void **state)
{
	char text[HM_EMIT_CONFIG_BYTES], again[HM_EMIT_CONFIG_BYTES];
	size_t length;

	(void)state;
	assert_int_equal(hm_emit_config(&stream_config, text, sizeof(text)),
	    HM_OK);
	length = strlen(text);
	memset(again, 'x', sizeof(again));
	assert_int_equal(hm_emit_config(&stream_config, again, length),
	    HM_E_NOMEM);
	assert_int_equal(again[0], 'x');
	assert_int_equal(hm_emit_config(&stream_config, again, length + 1),
	    HM_OK);
	assert_string_equal(again, text);
}

/* Fields that the family does not read must reach neither text nor key. */
static void
test_emit_config__foreign_fields_are_ignored(void **state)
{
	struct hm_config config = stream_config;
	char text[HM_EMIT_CONFIG_BYTES], again[HM_EMIT_CONFIG_BYTES];

	(void)state;
	config.tile_tokens = 77;
	config.stages = 1;
	config.tile_rows = 3;
	config.split_k = 9;
	config.promote = 7;
	config.epi = 5;
	assert_int_equal(hm_emit_config(&stream_config, text, sizeof(text)),
	    HM_OK);
	assert_int_equal(hm_emit_config(&config, again, sizeof(again)), HM_OK);
	assert_string_equal(again, text);
}

static void
expect_invalid(const struct hm_config *config)
{
	char text[HM_EMIT_CONFIG_BYTES] = "x";

	assert_int_equal(hm_emit_config(config, text, sizeof(text)),
	    HM_E_INVALID);
	assert_string_equal(text, "x");
	assert_int_equal(hm_emit_stage_bytes(config), 0);
}

#define EXPECT_INVALID(base, field, bad)                                       \
	do {                                                                   \
		struct hm_config config_ = (base);                             \
		config_.field = (bad);                                         \
		expect_invalid(&config_);                                      \
	} while (0)

static void
test_emit_config__illegal_value_is_refused(void **state)
{
	(void)state;
	EXPECT_INVALID(stream_config, family, 0);
	EXPECT_INVALID(stream_config, family, 6);
	EXPECT_INVALID(pack_config, threads, 128);
	EXPECT_INVALID(stream_config, act, 2); /* has a scale of its own */
	EXPECT_INVALID(stream_config, act, 5);
	EXPECT_INVALID(stream_config, out, 1);
	EXPECT_INVALID(stream_config, weight, 4);
	EXPECT_INVALID(stream_config, scale, 0); /* has groups */
	EXPECT_INVALID(stream_config, scale, 2); /* f16 scales, bf16 tokens */
	EXPECT_INVALID(stream_config, scale, 3); /* folded ones have 16 bits */
	EXPECT_INVALID(stream_config, scale, 4); /* e8m0 means groups of 32 */
	EXPECT_INVALID(stream_config, act_scale, 1);
	EXPECT_INVALID(stream_config, group, 16);
	EXPECT_INVALID(stream_config, zero, 3);
	EXPECT_INVALID(stream_config, token_tiles, 3);
	EXPECT_INVALID(stream_config, ring, 0);
	EXPECT_INVALID(stream_config, warps, 6);
	EXPECT_INVALID(stream_config, warps_k, 3);
	EXPECT_INVALID(stream_config, warps_k, 0);
	EXPECT_INVALID(stream_config, threads, 128);
	EXPECT_INVALID(stream_config, ctas_per_sm, 0);
	EXPECT_INVALID(wgmma_config, tile_tokens, 12);
	EXPECT_INVALID(wgmma_config, tile_tokens, 264);
	EXPECT_INVALID(wgmma_config, tile_tokens, 176); /* two slices */
	EXPECT_INVALID(wgmma_config, slices, 3);
	EXPECT_INVALID(wgmma_config, halves, 3);
	EXPECT_INVALID(wgmma_config, steps, 4); /* needs two halves */
	EXPECT_INVALID(wgmma_config, stages, 1);
	EXPECT_INVALID(wgmma_config, threads, 256);
	EXPECT_INVALID(wgmma_config, threads, 640); /* needs split_k */
	EXPECT_INVALID(wgmma_config, promote, 128);
	EXPECT_INVALID(mma_config, weight, 1);
	EXPECT_INVALID(mma_config, tile_rows, 32);
	EXPECT_INVALID(mma_config, tile_tokens, 12);
	EXPECT_INVALID(mma_config, warps_n, 3);
	EXPECT_INVALID(mma_config, warps_k, 0);
	EXPECT_INVALID(mma_config, threads, 128);
	EXPECT_INVALID(mma_config, group, 0); /* zero points need groups */
}

static void
test_emit_config__illegal_8_bit_value_is_refused(void **state)
{
	struct hm_config config = wgmma8_config;

	(void)state;
	EXPECT_INVALID(wgmma8_config, out, 2);
	EXPECT_INVALID(wgmma8_config, weight, HM_CONFIG_WEIGHT_U8);
	EXPECT_INVALID(wgmma8_config, act, HM_CONFIG_ACT_S8); /* by e4m3 */
	EXPECT_INVALID(wgmma8_config, act_scale, 0);
	EXPECT_INVALID(wgmma8_config, act_scale, 3);
	EXPECT_INVALID(wgmma8_config, zero, 1);
	EXPECT_INVALID(wgmma8_config, halves, 1);
	EXPECT_INVALID(wgmma8_config, promote, 0);
	EXPECT_INVALID(wgmma8_config, promote, 512); /* scales every 128 */
	EXPECT_INVALID(wgmma8_config, tile_tokens, 200);
	EXPECT_INVALID(wgmma8_config, slices, 2); /* too many sums */
	EXPECT_INVALID(wgmma8_config, scale, HM_CONFIG_SCALE_MX);
	EXPECT_INVALID(quant_config, act, HM_CONFIG_ACT_BF16);
	EXPECT_INVALID(quant_config, out, 2);
	EXPECT_INVALID(quant_config, act_scale, 0);
	EXPECT_INVALID(quant_config, epi, 2);
	EXPECT_INVALID(quant_config, threads, 128);

	config.scale = HM_CONFIG_SCALE_BF16;
	config.group = 64;
	config.promote = 64;
	EXPECT_INVALID(config, steps, 4); /* longer than a group */
	config.weight = HM_CONFIG_WEIGHT_U8;
	config.act = HM_CONFIG_ACT_S8;
	EXPECT_INVALID(config, tile_tokens, 40); /* integers: steps of 16 */
	config.group = 0;
	config.scale = HM_CONFIG_SCALE_NONE;
	config.act_scale = HM_CONFIG_ACT_SCALE_TOKEN;
	EXPECT_INVALID(config, promote, 512); /* integers are exact */
}

/* The members that plans are made of. */
static void
test_emit_config__8_bit_values_are_accepted(void **state)
{
	struct hm_config config = wgmma8_config;

	(void)state;
	config.scale = HM_CONFIG_SCALE_NONE;
	config.group = 0;
	assert_int_not_equal(hm_emit_stage_bytes(&config), 0);
	config.act_scale = HM_CONFIG_ACT_SCALE_TOKEN;
	config.promote = 512;
	assert_int_not_equal(hm_emit_stage_bytes(&config), 0);
	config.promote = 0;
	config.slices = 2;
	config.steps = 2;
	config.tile_tokens = 168;
	assert_int_not_equal(hm_emit_stage_bytes(&config), 0);
	config.weight = HM_CONFIG_WEIGHT_E2M1;
	config.scale = HM_CONFIG_SCALE_MX;
	config.group = 32;
	assert_int_not_equal(hm_emit_stage_bytes(&config), 0);
	config.split_k = 1;
	config.threads = 640;
	config.tile_tokens = 32;
	assert_int_not_equal(hm_emit_stage_bytes(&config), 0);
}

static void
test_emit_wgmma__8_bit_forms_are_exact(void **state)
{
	struct hm_config config = wgmma8_config;
	char text[HM_EMIT_WGMMA_BYTES];

	(void)state;
	config.tile_tokens = 8;
	assert_int_equal(hm_emit_wgmma(&config, text, sizeof(text)), HM_OK);
	assert_non_null(strstr(text, "using accumulator = float;\n"));
	assert_non_null(strstr(text,
	    "m64n8k32.f32.e4m3.e4m3 "
	    "{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1;}\"\n"));
	config.act = HM_CONFIG_ACT_E5M2;
	assert_int_equal(hm_emit_wgmma(&config, text, sizeof(text)), HM_OK);
	assert_non_null(strstr(text, "m64n8k32.f32.e4m3.e5m2 "));
	config.act = HM_CONFIG_ACT_S8;
	config.weight = HM_CONFIG_WEIGHT_U4;
	assert_int_equal(hm_emit_wgmma(&config, text, sizeof(text)), HM_OK);
	assert_string_equal(text,
	    "using accumulator = int;\n"
	    "HM_DEV void wgmma_async(accumulator *d, const u32 *a, u64 b_desc, "
	    "u32 accumulate) {\n"
	    "asm volatile(\"{.reg .pred p; setp.ne.b32 p, %9, 0;\\n\"\n"
	    "\"wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 "
	    "{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p;}\"\n"
	    ": \"+r\"(d[0]), \"+r\"(d[1]), \"+r\"(d[2]), \"+r\"(d[3])\n"
	    ": \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), "
	    "\"l\"(b_desc), \"r\"(accumulate));\n}\n");
}

static void
test_emit_wgmma__shape_8_is_exact(void **state)
{
	struct hm_config config = wgmma_config;
	char text[HM_EMIT_WGMMA_BYTES];

	(void)state;
	config.tile_tokens = 8;
	assert_int_equal(hm_emit_wgmma(&config, text, sizeof(text)), HM_OK);
	assert_string_equal(text,
	    "using accumulator = float;\n"
	    "HM_DEV void wgmma_async(accumulator *d, const u32 *a, u64 b_desc, "
	    "u32 accumulate) {\n"
	    "asm volatile(\"{.reg .pred p; setp.ne.b32 p, %9, 0;\\n\"\n"
	    "\"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
	    "{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1, 0;}\"\n"
	    ": \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])\n"
	    ": \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), "
	    "\"l\"(b_desc), \"r\"(accumulate));\n}\n");
}

static void
test_emit_wgmma__widest_fits_and_others_are_refused(void **state)
{
	struct hm_config config = wgmma_config;
	char text[HM_EMIT_WGMMA_BYTES];

	(void)state;
	config.slices = 1;
	config.tile_tokens = 256;
	config.act = HM_CONFIG_ACT_BF16;
	config.out = HM_CONFIG_ACT_BF16;
	config.scale = HM_CONFIG_SCALE_BF16;
	assert_int_equal(hm_emit_wgmma(&config, text, sizeof(text)), HM_OK);
	assert_non_null(strstr(text, "m64n256k16.f32.bf16.bf16"));
	assert_non_null(strstr(text, "setp.ne.b32 p, %133, 0"));
	assert_non_null(strstr(text, "\"+f\"(d[127])\n"));
	assert_int_equal(hm_emit_wgmma(&config, text, 100), HM_E_NOMEM);
	assert_int_equal(hm_emit_wgmma(&stream_config, text, sizeof(text)),
	    HM_E_INVALID);
}

static void
test_emit_names__each_family_has_its_own(void **state)
{
	struct hm_config config = {.family = 0};

	(void)state;
	assert_string_equal(hm_emit_entry(&stream_config), "hm_gemm_stream");
	assert_string_equal(hm_emit_source(&stream_config), "gemm_stream.cu");
	assert_string_equal(hm_emit_entry(&wgmma_config), "hm_gemm_wgmma");
	assert_string_equal(hm_emit_source(&wgmma_config), "gemm_wgmma.cu");
	assert_string_equal(hm_emit_entry(&pack_config), "hm_weight_pack");
	assert_string_equal(hm_emit_source(&pack_config), "pack.cu");
	assert_string_equal(hm_emit_entry(&quant_config), "hm_quant");
	assert_string_equal(hm_emit_source(&quant_config), "quant.cu");
	assert_string_equal(hm_emit_entry(&mma_config), "hm_gemm_mma");
	assert_string_equal(hm_emit_source(&mma_config), "gemm_mma.cu");
	assert_null(hm_emit_entry(&config));
	assert_null(hm_emit_source(&config));
	assert_int_equal(hm_emit_needs_wgmma(&wgmma_config), 1);
	assert_int_equal(hm_emit_needs_wgmma(&stream_config), 0);
	assert_int_equal(hm_emit_needs_wgmma(&mma_config), 0);
}

static void
test_emit_chunk_bytes__every_group_and_zero_point(void **state)
{
	static const struct {
		uint32_t group, zero, bytes;
	} rows[] = {
	    {0, 0, 4096},
	    {128, 0, 4096 + 128},
	    {128, 1, 4096 + 128 + 128}, /* 64 bytes of padding */
	    {128, 2, 4096 + 256},
	    {64, 0, 4096 + 256},
	    {64, 1, 4096 + 256 + 128},
	    {64, 2, 4096 + 512},
	    {32, 0, 4096 + 512},
	    {32, 1, 4096 + 512 + 256},
	    {32, 2, 4096 + 1024},
	};
	struct hm_config config = stream_config;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		config.group = rows[i].group;
		config.scale = rows[i].group == 0 ? HM_CONFIG_SCALE_NONE
						  : HM_CONFIG_SCALE_BF16;
		config.zero = rows[i].zero;
		assert_int_equal(hm_emit_chunk_bytes(&config), rows[i].bytes);
	}
	config.group = 0;
	config.scale = HM_CONFIG_SCALE_NONE;
	config.zero = HM_CONFIG_ZERO_INT;
	assert_int_equal(hm_emit_chunk_bytes(&config), 0);
}

static void
test_emit_chunk_bytes__every_weight_and_scale(void **state)
{
	static const struct {
		uint32_t act, weight, scale, group, bytes;
	} rows[] = {
	    {HM_CONFIG_ACT_BF16, HM_CONFIG_WEIGHT_U8, HM_CONFIG_SCALE_BF16, 128,
		8192 + 128},
	    {HM_CONFIG_ACT_F16, HM_CONFIG_WEIGHT_E2M1, HM_CONFIG_SCALE_E8M0, 32,
		4096 + 4 * 64},
	    {HM_CONFIG_ACT_E5M2, HM_CONFIG_WEIGHT_E2M1, HM_CONFIG_SCALE_MX, 32,
		4096 + 4 * 64},
	    {HM_CONFIG_ACT_E4M3, HM_CONFIG_WEIGHT_E4M3, HM_CONFIG_SCALE_F32,
		128, 8192 + 256},
	    {HM_CONFIG_ACT_S8, HM_CONFIG_WEIGHT_U4, HM_CONFIG_SCALE_F16, 64,
		4096 + 2 * 128},
	    {HM_CONFIG_ACT_S8, HM_CONFIG_WEIGHT_U8, HM_CONFIG_SCALE_NONE, 0,
		8192},
	};
	struct hm_config config = pack_config;

	(void)state;
	config.zero = HM_CONFIG_ZERO_NONE;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		config.act = rows[i].act;
		config.weight = rows[i].weight;
		config.scale = rows[i].scale;
		config.group = rows[i].group;
		assert_int_equal(hm_emit_chunk_bytes(&config), rows[i].bytes);
	}
}

static void
test_emit_stage_bytes__known_sums(void **state)
{
	struct hm_config config = wgmma_config;

	(void)state;
	assert_int_equal(hm_emit_stage_bytes(&stream_config), 4224);
	/* 128 tokens of 128 bytes, 4 row blocks of 2048 + 128, to 1024. */
	assert_int_equal(hm_emit_stage_bytes(&wgmma_config), 25600);
	config.halves = 2;
	/* 2 * 16384 + 4 * 4224 = 49664 */
	assert_int_equal(hm_emit_stage_bytes(&config), 50176);
	config.group = 0;
	config.scale = HM_CONFIG_SCALE_NONE;
	/* 2 * 16384 + 4 * 4096, already a multiple */
	assert_int_equal(hm_emit_stage_bytes(&config), 49152);
	/* 128 tokens of 128 + 4 bytes, 2 row blocks of 8448, to 1024. */
	assert_int_equal(hm_emit_stage_bytes(&wgmma8_config), 33792);
	assert_int_equal(hm_emit_stage_bytes(&quant_config), 256);
	/* 2 parts of 16 * 128 + 2048 + 2 * (128 + 64) = 4480 */
	assert_int_equal(hm_emit_stage_bytes(&mma_config), 8960);
}

static void
test_emit_options__list_is_exact(void **state)
{
	struct hm_emit_options options;

	(void)state;
	assert_int_equal(hm_emit_options("sm_90a", &options), HM_OK);
	assert_string_equal(options.text[0], "--gpu-architecture=sm_90a");
	assert_string_equal(options.text[1], "--std=c++17");
	assert_string_equal(options.text[2], "-no-cache");
	assert_string_equal(options.text[3], "--ptxas-options=-v");
	assert_int_equal(hm_emit_options("sm_120f", &options), HM_OK);
	assert_string_equal(options.text[0], "--gpu-architecture=sm_120f");
}

static void
test_emit_options__bad_target_fails_untouched(void **state)
{
	static const char *const bad[] = {
	    "",
	    "sm_",
	    "sm_9",
	    "sm_9000",
	    "sm_90b",
	    "sm_90aa",
	    "sm_90a ",
	    "compute_90",
	    "90a",
	    "sm_90a --maxrregcount=8",
	};
	struct hm_emit_options options;

	(void)state;
	memset(&options, 'x', sizeof(options));
	assert_int_equal(hm_emit_options(NULL, &options), HM_E_INVALID);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(hm_emit_options(bad[i], &options),
		    HM_E_INVALID);
	assert_int_equal(options.text[0][0], 'x');
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_emit_config__each_family_is_exact),
	    cmocka_unit_test(test_emit_config__other_families_are_exact),
	    cmocka_unit_test(test_emit_config__small_buffer_fails_untouched),
	    cmocka_unit_test(test_emit_config__foreign_fields_are_ignored),
	    cmocka_unit_test(test_emit_config__illegal_value_is_refused),
	    cmocka_unit_test(test_emit_config__illegal_8_bit_value_is_refused),
	    cmocka_unit_test(test_emit_config__8_bit_values_are_accepted),
	    cmocka_unit_test(test_emit_wgmma__shape_8_is_exact),
	    cmocka_unit_test(test_emit_wgmma__8_bit_forms_are_exact),
	    cmocka_unit_test(
		test_emit_wgmma__widest_fits_and_others_are_refused),
	    cmocka_unit_test(test_emit_names__each_family_has_its_own),
	    cmocka_unit_test(test_emit_chunk_bytes__every_group_and_zero_point),
	    cmocka_unit_test(test_emit_chunk_bytes__every_weight_and_scale),
	    cmocka_unit_test(test_emit_stage_bytes__known_sums),
	    cmocka_unit_test(test_emit_options__list_is_exact),
	    cmocka_unit_test(test_emit_options__bad_target_fails_untouched),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
