/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pack_formats.c - every format of packed weights. pack_reader.c reads the
 * chunks as the GPU does; what it gets, times rowmul, must be the plain weight
 * exactly: all scales here are exact in every type.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <humming/gemm.h>

#include "jit/config.h"
#include "jit/emit.h"
#include "jit/plan.h"

#include "pack_reader.h"

#define GROUPS(group, type) HUMMING_SCALE_GROUP, group, type, 0
#define MX_EXACT(group)     HUMMING_SCALE_GROUP, group, E8M0, 1
#define CHANNEL(type)       HUMMING_SCALE_CHANNEL, 0, type, 0
#define TENSOR(type)        HUMMING_SCALE_TENSOR, 0, type, 0
#define BLOCKS(type)        HUMMING_SCALE_BLOCK, 0, type, 0

/* clang-format off */
static const struct pack_format formats[] = {
    {BF16, U4, GROUPS(128, BF16), 0, 0, 1, 128, 64},
    {F16, U4, GROUPS(32, F32), 1, 0, 2, 32, 64},
    {BF16, U4, BLOCKS(F32), 0, 0, 1, 128, 64},
    {BF16, U4, GROUPS(32, E8M0), 0, 0, 4, 32, 64},
    {BF16, U8, CHANNEL(F32), 0, 1, 0, 0, 64},
    {BF16, U8, GROUPS(64, BF16), 0, 1, 1, 64, 64},
    {F16, U8, GROUPS(128, F16), 1, 1, 2, 128, 64},
    {F16, U8, TENSOR(F32), 1, 1, 0, 0, 64},
    {BF16, E2M1, GROUPS(32, E8M0), 0, 2, 4, 32, 64},
    {BF16, E2M1, CHANNEL(BF16), 0, 2, 0, 0, 64},
    {F16, E2M1, GROUPS(32, E8M0), 1, 2, 4, 32, 64},
    {F16, E2M1, GROUPS(64, F16), 1, 2, 2, 64, 64},
    {BF16, E4M3, BLOCKS(F32), 0, 3, 1, 128, 64},
    {BF16, E4M3, TENSOR(F32), 0, 3, 0, 0, 64},
    {F16, E4M3, CHANNEL(F32), 1, 3, 0, 0, 64},
    {F16, E4M3, BLOCKS(BF16), 1, 3, 2, 128, 64},
    {F16, E4M3, GROUPS(32, E8M0), 1, 3, 4, 32, 64},
    {E4M3, U4, GROUPS(128, BF16), 2, 0, 1, 128, 512},
    {E5M2, U4, GROUPS(64, F16), 3, 0, 2, 64, 512},
    {E4M3, U4, GROUPS(32, F32), 2, 0, 3, 32, 512},
    {E4M3, U4, CHANNEL(F32), 2, 0, 0, 0, 512},
    {E4M3, U4, GROUPS(32, E8M0), 2, 0, 4, 32, 512},
    {E4M3, E2M1, GROUPS(32, E8M0), 2, 2, 5, 32, 1},
    {E5M2, E2M1, GROUPS(32, E8M0), 3, 2, 5, 32, 1},
    {E4M3, E2M1, MX_EXACT(32), 2, 2, 4, 32, 64},
    {E4M3, E2M1, GROUPS(128, F32), 2, 2, 3, 128, 64},
    {E5M2, E2M1, CHANNEL(F16), 3, 2, 0, 0, 64},
    {E4M3, E4M3, BLOCKS(F32), 2, 3, 3, 128, 1},
    {E4M3, E4M3, BLOCKS(BF16), 2, 3, 3, 128, 1},
    {E5M2, E4M3, TENSOR(F32), 3, 3, 0, 0, 1},
    {E4M3, E4M3, GROUPS(32, E8M0), 2, 3, 4, 32, 1},
    {S8, U4, GROUPS(64, F16), 4, 0, 2, 64, 1.0 / 16},
    {S8, U4, CHANNEL(F32), 4, 0, 0, 0, 1.0 / 16},
    {S8, U8, GROUPS(128, F32), 4, 1, 3, 128, 1},
    {S8, U8, CHANNEL(BF16), 4, 1, 0, 0, 1},
};
/* clang-format on */
#define N_FORMATS (sizeof formats / sizeof formats[0])

static uint16_t
half_bits(uint32_t type, float value)
{
	uint32_t bits = 0;

	memcpy(&bits, &value, sizeof bits);
	if (type == BF16)
		return (uint16_t)(bits >> 16);
	if (value == 0)
		return 0;
	return (uint16_t)((bits >> 16 & 0x8000u) |
			  ((bits >> 23 & 255) - 112) << 10 |
			  (bits >> 13 & 1023));
}

static uint32_t
random_next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* ---- matrices ---- */

struct matrix {
	const struct pack_format *format;
	struct humming_weight_source source;
	struct humming_weight_sizes sizes;
	uint32_t group, n_groups; /* of a row, as the kernels see them */
	uint8_t *codes;
	uint8_t *scales;
	double *exact; /* scale of [row][group] */
	uint8_t *packed;
	float *rowmul;
};

static void *
must_alloc(size_t n, size_t size)
{
	void *memory = calloc(n, size);

	assert_non_null(memory);
	return memory;
}

static void
put_scale(struct matrix *matrix, uint32_t index, float value, int exponent)
{
	uint32_t type = matrix->source.scale_type;
	uint16_t half = half_bits(type, value);

	if (type == E8M0)
		matrix->scales[index] = (uint8_t)(exponent + 127);
	else if (type == F32)
		memcpy(matrix->scales + (size_t)4 * index, &value, 4);
	else
		memcpy(matrix->scales + (size_t)2 * index, &half, 2);
}

/* Seven significant bits: exact in every type. Signs only where there are. */
static void
fill_scales(struct matrix *matrix)
{
	const struct pack_format *format = matrix->format;
	uint32_t n = matrix->source.n;
	uint32_t shared = format->scale_kind == HUMMING_SCALE_TENSOR  ? n
			  : format->scale_kind == HUMMING_SCALE_BLOCK ? 128
								      : 1;
	uint64_t state = 5;

	for (uint32_t i = 0; i < n * matrix->n_groups; i++) {
		uint32_t row = i / matrix->n_groups;
		uint32_t g = i % matrix->n_groups;
		int exponent = (int)(random_next(&state) % 12) - 7;
		double value = (64 + random_next(&state) % 64) / 64.0;

		if (format->scale_type == E8M0)
			value = 1;
		else if (random_next(&state) % 4 == 0)
			value = -value;
		value *= pack_reader_power(exponent);
		if (row % shared == 0)
			put_scale(matrix, row / shared * matrix->n_groups + g,
			    (float)value, exponent);
		else
			value = matrix->exact[i - matrix->n_groups];
		matrix->exact[i] = value;
	}
}

static void
matrix_init(struct matrix *matrix, const struct pack_format *format, uint32_t n,
    uint32_t k)
{
	uint32_t group = format->line_group != 0 ? format->line_group : k;
	uint64_t state = 3 + n + k;

	memset(matrix, 0, sizeof *matrix);
	matrix->format = format;
	matrix->group = group;
	matrix->n_groups = (k + group - 1) / group;
	humming_weight_source_init(&matrix->source, sizeof matrix->source);
	matrix->source.n = n;
	matrix->source.k = k;
	matrix->source.a_type = format->a_type;
	matrix->source.w_type = format->w_type;
	matrix->source.scale_kind = format->scale_kind;
	matrix->source.group = format->group;
	matrix->source.scale_type = format->scale_type;
	matrix->source.mx_exact = format->mx_exact;
	matrix->codes = must_alloc((size_t)n * k, 1);
	matrix->scales = must_alloc((size_t)n * matrix->n_groups, 4);
	matrix->exact = must_alloc((size_t)n * matrix->n_groups, 8);
	for (size_t i = 0; i < (size_t)n * k; i++) {
		uint32_t r = random_next(&state);

		matrix->codes[i] =
		    format->w_type == U4 || format->w_type == E2M1 ? r & 15
								   : r & 255;
		if (format->w_type == E4M3 && (r & 127) == 127)
			matrix->codes[i] = 1;
	}
	fill_scales(matrix);
	matrix->source.codes = matrix->codes;
	matrix->source.scales = matrix->scales;
	matrix->sizes.struct_size = sizeof matrix->sizes;
	assert_int_equal(humming_weight_size(&matrix->source, &matrix->sizes),
	    HUMMING_OK);
	matrix->packed = must_alloc(matrix->sizes.packed_bytes, 1);
	matrix->rowmul = must_alloc(matrix->sizes.rowmul_bytes, 1);
	memset(matrix->packed, 0xa5, matrix->sizes.packed_bytes);
}

static void
matrix_pack(struct matrix *matrix)
{
	assert_int_equal(humming_weight_pack(&matrix->source, matrix->packed,
			     matrix->rowmul, NULL),
	    HUMMING_OK);
}

static void
matrix_done(struct matrix *matrix)
{
	free(matrix->codes);
	free(matrix->scales);
	free(matrix->exact);
	free(matrix->packed);
	free(matrix->rowmul);
}

/* ---- tests ---- */

static const uint32_t shapes[][2] = {{64, 128}, {8, 16}, {72, 208}, {264, 400}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

static void
check_chunk(const struct matrix *matrix, uint32_t n_block, uint32_t k_block)
{
	static double weights[64][128];
	uint32_t n = matrix->source.n, k = matrix->source.k;
	uint32_t k_blocks = (k + 127) / 128;
	size_t chunk_bytes =
	    matrix->sizes.packed_bytes / ((size_t)(n + 63) / 64 * k_blocks);
	const uint8_t *chunk =
	    matrix->packed +
	    ((size_t)n_block * k_blocks + k_block) * chunk_bytes;

	pack_reader_chunk(matrix->format, chunk, weights);
	for (uint32_t i = 0; i < 64 * 128; i++) {
		uint32_t row = n_block * 64 + i / 128;
		uint32_t column = k_block * 128 + i % 128;
		double read =
		    weights[i / 128][i % 128] * (double)matrix->rowmul[row];
		double expected = 0;

		if (row < n && column < k)
			expected = pack_reader_value(matrix->source.w_type,
				       matrix->codes[row * k + column]) *
				   matrix->exact[row * matrix->n_groups +
						 column / matrix->group];
		assert_true(read == expected);
	}
}

static void
test_pack_formats__every_lane_reads_the_plain_weights(void **state)
{
	struct matrix matrix;

	(void)state;
	for (size_t i = 0; i < N_FORMATS * N_SHAPES; i++) {
		const uint32_t *shape = shapes[i % N_SHAPES];

		matrix_init(&matrix, &formats[i / N_SHAPES], shape[0],
		    shape[1]);
		matrix_pack(&matrix);
		for (uint32_t n = 0; n < (shape[0] + 63) / 64; n++)
			for (uint32_t k = 0; k < (shape[1] + 127) / 128; k++)
				check_chunk(&matrix, n, k);
		matrix_done(&matrix);
	}
}

static void
check_identity(struct matrix *matrix)
{
	uint32_t n = matrix->source.n, k = matrix->source.k;
	struct humming_weight_plain plain = {0};

	plain.codes = must_alloc((size_t)n * k, 1);
	plain.scales = must_alloc((size_t)n * matrix->n_groups, 4);
	assert_int_equal(humming_weight_unpack(&matrix->source, matrix->packed,
			     matrix->rowmul, &plain),
	    HUMMING_OK);
	assert_memory_equal(plain.codes, matrix->codes, (size_t)n * k);
	for (size_t i = 0; i < (size_t)n * matrix->n_groups; i++)
		assert_true((double)plain.scales[i] == matrix->exact[i]);
	free(plain.codes);
	free(plain.scales);
}

static void
test_pack_formats__unpacking_gives_back_codes_and_scales(void **state)
{
	struct matrix matrix;

	(void)state;
	for (size_t i = 0; i < N_FORMATS * N_SHAPES; i++) {
		matrix_init(&matrix, &formats[i / N_SHAPES],
		    shapes[i % N_SHAPES][0], shapes[i % N_SHAPES][1]);
		matrix_pack(&matrix);
		check_identity(&matrix);
		matrix_done(&matrix);
	}
}

static void
test_pack_formats__chunks_have_the_size_that_kernels_expect(void **state)
{
	struct matrix matrix;

	(void)state;
	for (size_t i = 0; i < N_FORMATS; i++) {
		const struct pack_format *format = &formats[i];
		struct hm_config config = {.family = HM_FAMILY_PACK,
		    .act = format->act,
		    .weight = format->weight,
		    .scale = format->scale,
		    .group = format->line_group,
		    .threads = HM_EMIT_PACK_THREADS};

		matrix_init(&matrix, format, 72, 208);
		assert_int_not_equal(hm_emit_chunk_bytes(&config), 0);
		assert_int_equal(matrix.sizes.packed_bytes,
		    4 * hm_emit_chunk_bytes(&config));
		assert_int_equal(matrix.sizes.rowmul_bytes, 128 * 4);
		matrix_done(&matrix);
	}
}

/* What a GEMM of these weights is built with, for every M. */
static void
test_pack_formats__plans_of_gemms_read_these_chunks(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_FORMATS; i++) {
		const struct pack_format *format = &formats[i];
		struct hm_errbuf why = {.text = ""};
		struct hm_request request = {.operation = HM_OPERATION_GEMM,
		    .target = {.cc = 90, .suffix = 'a'},
		    .a_type = format->a_type,
		    .w_type = format->w_type,
		    .scale_kind = format->scale_kind,
		    .group = format->group,
		    .scale_type = format->scale_type,
		    .mx_exact = format->mx_exact,
		    .n = 8192,
		    .k = 8192};
		struct hm_plan plan;

		/* The packer rounds to the type of the activations. */
		if ((format->a_type == BF16 || format->a_type == F16) &&
		    format->scale_type != E8M0)
			request.scale_type = 0;
		if (format->scale_kind == HUMMING_SCALE_BLOCK)
			request.block_rows = request.block_cols = 128;
		if (hm_plan_compute(&request, &plan, &why) != HM_OK)
			fail_msg("format %zu: %s", i, why.text);
		for (uint32_t j = 0; j < plan.n_rows; j++) {
			const struct hm_config *config = &plan.rows[j].config;

			assert_int_equal(config->act, format->act);
			assert_int_equal(config->weight, format->weight);
			assert_int_equal(config->scale, format->scale);
			assert_int_equal(config->group, format->line_group);
		}
	}
}

static void
test_pack_formats__rowmul_carries_the_factor_of_the_operand(void **state)
{
	struct matrix matrix;
	const float scale = 0.75f;

	(void)state;
	for (size_t i = 0; i < N_FORMATS; i++) {
		const struct pack_format *format = &formats[i];
		double expected = format->factor;

		matrix_init(&matrix, format, 8, 128);
		for (uint32_t j = 0; j < 8 * matrix.n_groups; j++)
			put_scale(&matrix, j, scale, -1);
		matrix_pack(&matrix);
		if (format->line_group == 0)
			expected *= 0.75;
		else if (format->scale_type == E8M0)
			expected /=
			    format->scale == HM_CONFIG_SCALE_MX ? 128 : 2;
		assert_true((double)matrix.rowmul[0] == expected);
		assert_true(matrix.rowmul[8] == 0.0f); /* beyond n */
		matrix_done(&matrix);
	}
}

/* One code that is not zero: which byte of the chunk is not that of zeros, and
 * in which bits. Worked by hand from the rotations and masks. */
static void
test_pack_formats__worked_examples_land_where_the_layout_says(void **state)
{
	static const struct {
		uint32_t a_type, w_type, n, k, code;
		uint32_t byte, bits; /* of the packed chunk */
	} places[] = {
	    /* u8 (zero is 0x80), bf16: even rows in bytes 0 and 2, odd
	     * ones in 1 and 3; the second piece begins at 512, k 8 to 15
	     * are in the next word */
	    {BF16, U8, 0, 0, 0xab, 0, 0x2b},
	    {BF16, U8, 8, 0, 0xab, 1, 0x2b},
	    {BF16, U8, 8, 1, 0xab, 3, 0x2b},
	    {BF16, U8, 0, 8, 0xab, 4, 0x2b},
	    {BF16, U8, 0, 32, 0xab, 512, 0x2b},
	    {BF16, U8, 16, 0, 0xab, 1024, 0x2b},
	    {BF16, U8, 0, 64, 0xab, 4096, 0x2b},
	    /* e2m1, bf16: sign 15, magnitude at 8, 7, 6 */
	    {BF16, E2M1, 0, 0, 0x8, 1, 0x80},
	    {BF16, E2M1, 0, 0, 0x3, 0, 0xc0},
	    {BF16, E2M1, 8, 0, 0x8, 1, 0x08}, /* 15 - 4 */
	    {BF16, E2M1, 0, 8, 0x4, 3, 0x04}, /* 8 - 14 = 26 mod 32 */
	    {F16, E2M1, 8, 8, 0x8, 1, 0x20},  /* 13 */
	    {F16, E2M1, 8, 8, 0x7, 0, 0x07},
	    /* e4m3: sign 7 of an odd row at 15 - 4, magnitude 4 to 6 at 28 */
	    {BF16, E4M3, 8, 0, 0x80, 1, 0x08},
	    {BF16, E4M3, 8, 0, 0x07, 3, 0x70},
	    {F16, E4M3, 8, 1, 0x55, 3, 0x55},
	    /* 8-bit activations: four k in a register, rows 8 above in turn */
	    {S8, U8, 0, 3, 0x81, 3, 0x01},
	    {S8, U8, 8, 0, 0x81, 4, 0x01},
	    {S8, U8, 0, 16, 0x81, 8, 0x01},
	    {S8, U8, 1, 0, 0x81, 64, 0x01},
	    {S8, U8, 0, 32, 0x81, 512, 0x01},
	    {S8, U4, 0, 1, 0x9, 1, 0x10},
	    {S8, U4, 8, 1, 0x7, 1, 0x0f},
	    {S8, U4, 0, 16, 0x9, 4, 0x10},
	    {E4M3, U4, 0, 0, 0x7, 0, 0x80}, /* -1: sign, index 0 */
	    {E4M3, U4, 8, 0, 0xf, 3, 0x70}, /* 7: bits 0..2 - 4 */
	    {E4M3, E2M1, 0, 0, 0x7, 0, 0x07},
	    {E4M3, E2M1, 0, 0, 0x8, 0, 0x20},
	    {E4M3, E2M1, 8, 0, 0x1, 3, 0x40}, /* 2 - 4 = 30 mod 32 */
	    {E4M3, E4M3, 0, 0, 0x31, 0, 0x31},
	};
	struct matrix matrix;

	(void)state;
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		struct pack_format format = {places[i].a_type, places[i].w_type,
		    CHANNEL(F32), 0, 0, 0, 0, 0};
		uint32_t zero = format.w_type == U4   ? 8
				: format.w_type == U8 ? 128
						      : 0;
		uint8_t *zeros = NULL;
		uint32_t n_other = 0;

		matrix_init(&matrix, &format, 64, 128);
		memset(matrix.codes, (int)zero, 64 * 128);
		matrix_pack(&matrix);
		zeros = must_alloc(matrix.sizes.packed_bytes, 1);
		memcpy(zeros, matrix.packed, matrix.sizes.packed_bytes);
		matrix.codes[places[i].n * 128 + places[i].k] =
		    (uint8_t)places[i].code;
		matrix_pack(&matrix);
		assert_int_equal(matrix.packed[places[i].byte] ^
				     zeros[places[i].byte],
		    places[i].bits);
		for (uint64_t j = 0; j < matrix.sizes.packed_bytes; j++)
			n_other +=
			    j != places[i].byte && matrix.packed[j] != zeros[j];
		assert_int_equal(n_other, 0);
		free(zeros);
		matrix_done(&matrix);
	}
}

static void
test_pack_formats__mx_words_hold_selectors_and_signs(void **state)
{
	struct matrix matrix;

	(void)state;
	matrix_init(&matrix, &formats[22], 64, 128);
	assert_int_equal(matrix.format->scale, HM_CONFIG_SCALE_MX);
	memset(matrix.codes, 0, 64 * 128);
	memset(matrix.scales, 127, (size_t)64 * 4);
	matrix.codes[1] = 0xf;           /* even row, byte 1 */
	matrix.codes[8 * 128 + 2] = 0xd; /* row 8, byte 2 */
	matrix_pack(&matrix);
	/* magnitudes 7 at bits 4..6 and 5 at 16 + 8; signs at 15 and 19 */
	assert_int_equal(matrix.packed[0], 0x70);
	assert_int_equal(matrix.packed[1], 0x80);
	assert_int_equal(matrix.packed[2], 0x08);
	assert_int_equal(matrix.packed[3], 0x05);
	matrix_done(&matrix);
}

/* ---- scales ---- */

static const struct pack_format mx_format = {E4M3, E2M1, GROUPS(32, E8M0), 2, 2,
    5, 32, 1};

static void
test_pack_formats__mx_rows_lie_in_a_window_of_twelve_exponents(void **state)
{
	struct matrix matrix;

	(void)state;
	matrix_init(&matrix, &mx_format, 8, 128);
	memset(matrix.codes, 7, (size_t)8 * 128);
	memset(matrix.codes + 96, 8, 32); /* group 3 of row 0: minus zeros */
	memset(matrix.scales, 120, (size_t)8 * 4);
	matrix.scales[0] = 109;
	matrix.scales[1] = 118;
	matrix.scales[3] = 254 - 20; /* too large for the window: no matter */
	matrix_pack(&matrix);
	/* the largest that counts, 2^(120 - 127), has e = 6 */
	assert_true(
	    (double)matrix.rowmul[0] == pack_reader_power(120 - 127 - 6));
	assert_int_equal(matrix.packed[4096], 0);
	assert_int_equal(matrix.packed[4096 + 64], 9);
	assert_int_equal(matrix.packed[4096 + 128], 11);
	assert_int_equal(matrix.packed[4096 + 192], 11);
	matrix.scales[0] = 108;
	assert_int_equal(humming_weight_pack(&matrix.source, matrix.packed,
			     matrix.rowmul, NULL),
	    HUMMING_E_INVALID);
	assert_non_null(strstr(humming_gemm_last_error(), "row 0"));
	assert_non_null(strstr(humming_gemm_last_error(), "mx=exact"));
	matrix.source.mx_exact = 1;
	matrix_pack(&matrix);
	matrix_done(&matrix);
}

static void
test_pack_formats__e8m0_lines_hold_relative_exponents(void **state)
{
	struct matrix matrix;

	(void)state;
	matrix_init(&matrix, &formats[8], 8, 128);
	assert_int_equal(matrix.format->scale, HM_CONFIG_SCALE_E8M0);
	memset(matrix.scales, 200, (size_t)8 * 4);
	matrix.scales[1] = 190;
	matrix.scales[2] = 80;
	matrix.scales[3] = 79; /* 2^-121 of the largest: 0 */
	matrix_pack(&matrix);
	assert_true(
	    (double)matrix.rowmul[0] == 64 * pack_reader_power(200 - 127));
	assert_int_equal(matrix.packed[4096], 127);
	assert_int_equal(matrix.packed[4096 + 64], 117);
	assert_int_equal(matrix.packed[4096 + 128], 7);
	assert_int_equal(matrix.packed[4096 + 192], 0);
	matrix.scales[9] = 255; /* NaN */
	assert_int_equal(humming_weight_pack(&matrix.source, matrix.packed,
			     matrix.rowmul, NULL),
	    HUMMING_E_INVALID);
	assert_non_null(strstr(humming_gemm_last_error(), "row 2, group 1"));
	matrix_done(&matrix);
}

/* Twin matrices with the same scales said in two ways. */
static void
expect_same_bytes(const struct pack_format *a, const struct pack_format *b)
{
	struct matrix first, second;
	uint8_t *scales = NULL;

	matrix_init(&first, a, 264, 400);
	matrix_init(&second, b, 264, 400);
	/* b has a scale for every row and group */
	scales = must_alloc((size_t)264 * second.n_groups, 4);
	for (uint32_t i = 0; i < 264 * second.n_groups; i++) {
		float value = (float)first.exact[i];

		memcpy(scales + (size_t)4 * i, &value, 4);
	}
	second.source.scales = scales;
	second.source.scale_type = F32;
	matrix_pack(&first);
	matrix_pack(&second);
	assert_int_equal(first.sizes.packed_bytes, second.sizes.packed_bytes);
	assert_memory_equal(first.packed, second.packed,
	    first.sizes.packed_bytes);
	assert_memory_equal(first.rowmul, second.rowmul,
	    first.sizes.rowmul_bytes);
	free(scales);
	matrix_done(&first);
	matrix_done(&second);
}

static void
test_pack_formats__blocks_are_groups_and_tensors_are_rows(void **state)
{
	static const struct pack_format pairs[][2] = {
	    {{E4M3, E4M3, BLOCKS(F32), 2, 3, 3, 128, 1},
		{E4M3, E4M3, GROUPS(128, F32), 2, 3, 3, 128, 1}},
	    {{BF16, E4M3, BLOCKS(BF16), 0, 3, 1, 128, 64},
		{BF16, E4M3, GROUPS(128, F32), 0, 3, 1, 128, 64}},
	    {{S8, U8, TENSOR(F32), 4, 1, 0, 0, 1},
		{S8, U8, CHANNEL(F32), 4, 1, 0, 0, 1}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
		expect_same_bytes(&pairs[i][0], &pairs[i][1]);
}

static void
test_pack_formats__every_layout_of_codes_gives_the_same_bytes(void **state)
{
	static const struct {
		uint32_t format, layout;
	} cases[] = {{0, HUMMING_CODES_NIBBLES}, {0, HUMMING_CODES_INT32},
	    {8, HUMMING_CODES_NIBBLES}, {8, HUMMING_CODES_INT32},
	    {5, HUMMING_CODES_INT32}, {12, HUMMING_CODES_INT32}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct pack_format *format = &formats[cases[i].format];
		uint32_t bits =
		    format->w_type == U4 || format->w_type == E2M1 ? 4 : 8;
		uint8_t *squeezed = must_alloc((size_t)72 * 208, 1);
		struct matrix matrix, twin;

		matrix_init(&matrix, format, 72, 208);
		matrix_init(&twin, format, 72, 208);
		for (uint32_t j = 0; j < 72 * 208; j++)
			squeezed[j * bits / 8] |=
			    (uint8_t)(matrix.codes[j] << j * bits % 8);
		twin.source.codes = squeezed;
		twin.source.code_layout = cases[i].layout;
		matrix_pack(&matrix);
		matrix_pack(&twin);
		assert_memory_equal(matrix.packed, twin.packed,
		    matrix.sizes.packed_bytes);
		free(squeezed);
		matrix_done(&matrix);
		matrix_done(&twin);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_pack_formats__every_lane_reads_the_plain_weights),
	    cmocka_unit_test(
		test_pack_formats__unpacking_gives_back_codes_and_scales),
	    cmocka_unit_test(
		test_pack_formats__chunks_have_the_size_that_kernels_expect),
	    cmocka_unit_test(
		test_pack_formats__plans_of_gemms_read_these_chunks),
	    cmocka_unit_test(
		test_pack_formats__rowmul_carries_the_factor_of_the_operand),
	    cmocka_unit_test(
		test_pack_formats__worked_examples_land_where_the_layout_says),
	    cmocka_unit_test(
		test_pack_formats__mx_words_hold_selectors_and_signs),
	    cmocka_unit_test(
		test_pack_formats__mx_rows_lie_in_a_window_of_twelve_exponents),
	    cmocka_unit_test(
		test_pack_formats__e8m0_lines_hold_relative_exponents),
	    cmocka_unit_test(
		test_pack_formats__blocks_are_groups_and_tensors_are_rows),
	    cmocka_unit_test(
		test_pack_formats__every_layout_of_codes_gives_the_same_bytes),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
