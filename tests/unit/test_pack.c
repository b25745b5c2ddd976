/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pack.c - the packer, the unpacker, and a scalar kernel that reads packed
 * bytes the way the GPU does, for u4 and 16-bit activations with and without
 * zero points; test_pack_formats.c has the other types.
 *
 * emulate_* below walks a chunk lane by lane with the formulas of KERNELS.md
 * 3.1 and the masks and rotations of 4.1, in plain C; it shares nothing with
 * client/pack.c, which walks row by row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <humming/gemm.h>

#include "jit/config.h"
#include "jit/emit.h"

#define MAX_TOKENS 3u

struct matrix {
	struct humming_weight_source source;
	struct humming_weight_sizes sizes;
	uint8_t *codes;
	uint16_t *scales;
	uint8_t *zero_codes;
	uint16_t *zeros;
	uint8_t *packed;
	float *rowmul;
	float *bias;
	uint32_t n_groups;
};

static uint32_t
random_next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

static float
float_of(uint32_t bits)
{
	float value = 0;

	memcpy(&value, &bits, sizeof value);
	return value;
}

/* 16-bit floats by the hardware's rules, written out again on purpose. */
static double
half_value(uint32_t type, uint16_t bits)
{
	int exponent = bits >> 10 & 31;
	double value = bits & 1023;

	if (type == HUMMING_TYPE_BF16)
		return (double)float_of((uint32_t)bits << 16);
	if (exponent > 0)
		value += 1024;
	else
		exponent = 1;
	value /= 1024.0 * 16384.0;
	for (int i = 1; i < exponent; i++)
		value *= 2;
	return (bits & 0x8000u) != 0 ? -value : value;
}

/* A positive scale around 2^-5 of the type, all fraction bits in use. */
static uint16_t
random_scale(uint32_t type, uint64_t *state)
{
	uint32_t r = random_next(state);

	if (type == HUMMING_TYPE_BF16)
		return (uint16_t)((120 + r % 5) << 7 | (r >> 8 & 127));
	return (uint16_t)((8 + r % 5) << 10 | (r >> 8 & 1023));
}

static void *
must_alloc(size_t n, size_t size)
{
	void *memory = calloc(n, size);

	assert_non_null(memory);
	return memory;
}

static void
matrix_done(struct matrix *matrix)
{
	free(matrix->codes);
	free(matrix->scales);
	free(matrix->zero_codes);
	free(matrix->zeros);
	free(matrix->packed);
	free(matrix->rowmul);
	free(matrix->bias);
}

/* Random codes, scales of alternating sign, zero points as asked for. */
static void
matrix_init(struct matrix *matrix, uint32_t n, uint32_t k, uint32_t a_type,
    uint32_t group, uint32_t zero)
{
	uint32_t groups = group != 0 ? (k + group - 1) / group : 1;
	uint64_t state = 7 + n * 131 + k * 17 + group + zero;
	size_t n_scales = (size_t)n * groups;

	memset(matrix, 0, sizeof *matrix);
	humming_weight_source_init(&matrix->source, sizeof matrix->source);
	matrix->n_groups = groups;
	matrix->codes = must_alloc((size_t)n * k, 1);
	matrix->scales = must_alloc(n_scales, 2);
	matrix->zero_codes = must_alloc(n_scales, 1);
	matrix->zeros = must_alloc(n_scales, 2);
	for (size_t i = 0; i < (size_t)n * k; i++)
		matrix->codes[i] = random_next(&state) & 15;
	for (size_t i = 0; i < n_scales; i++) {
		matrix->scales[i] = random_scale(a_type, &state);
		if (random_next(&state) % 4 == 0)
			matrix->scales[i] |= 0x8000u;
		matrix->zero_codes[i] = (uint8_t)(random_next(&state) & 15);
		matrix->zeros[i] = random_scale(a_type, &state);
	}
	matrix->source.n = n;
	matrix->source.k = k;
	matrix->source.a_type = a_type;
	matrix->source.group = group;
	matrix->source.zero = zero;
	matrix->source.codes = matrix->codes;
	matrix->source.scales = matrix->scales;
	if (zero == HUMMING_ZERO_INT)
		matrix->source.zeros = matrix->zero_codes;
	else if (zero == HUMMING_ZERO_FLOAT)
		matrix->source.zeros = matrix->zeros;
	matrix->sizes.struct_size = sizeof matrix->sizes;
	assert_int_equal(humming_weight_size(&matrix->source, &matrix->sizes),
	    HUMMING_OK);
	matrix->packed = must_alloc(matrix->sizes.packed_bytes, 1);
	matrix->rowmul = must_alloc(matrix->sizes.rowmul_bytes, 1);
	matrix->bias = must_alloc(matrix->sizes.bias_bytes, 1);
	memset(matrix->packed, 0xa5, matrix->sizes.packed_bytes);
}

static void
matrix_pack(struct matrix *matrix)
{
	assert_int_equal(humming_weight_pack(&matrix->source, matrix->packed,
			     matrix->rowmul, matrix->bias),
	    HUMMING_OK);
}

/* ---- the kernel, in scalars ---- */

/* What a lane works on. */
struct lane {
	const uint8_t *chunk; /* of 64 rows by 128 k */
	uint32_t half, row_tile, lane;
};

static uint32_t
load32(const uint8_t *bytes)
{
	uint32_t word = 0;

	memcpy(&word, bytes, sizeof word);
	return word;
}

/* Code of fragment register i, half h of a word, by masks and rotations. */
static uint32_t
emulate_code(uint32_t type, uint32_t word, uint32_t i, uint32_t h)
{
	uint32_t shift = 16 * h;

	if (type == HUMMING_TYPE_BF16) {
		if (i >= 2)
			word >>= 8;
		word &= (i & 1) == 0 ? 0x000f000fu : 0x00f000f0u;
		return word >> (shift + 4 * (i & 1)) & 15;
	}
	if (i >= 2)
		word = word >> 8 | word << 24;
	word &= (i & 1) == 0 ? 0x00780078u : 0x07800780u;
	return word >> (shift + 3 + 4 * (i & 1)) & 15;
}

/* r and z of the row g + 8 * odd for the k of the chunk. */
static void
emulate_terms(const struct matrix *matrix, const struct lane *lane,
    uint32_t odd, uint32_t k, double *scale_out, double *zero_out)
{
	uint32_t group = matrix->source.group;
	uint32_t g = lane->lane / 4;
	const uint8_t *line = lane->chunk + 4096;
	const uint8_t *zeros = line;
	uint16_t bits = 0;

	*scale_out = 1;
	*zero_out = 8;
	if (group == 0)
		return;
	zeros += (size_t)(128 / group) * 128;
	line +=
	    (size_t)(k / group) * 128 + lane->row_tile * 32 + g * 4 + 2 * odd;
	memcpy(&bits, line, sizeof bits);
	*scale_out = half_value(matrix->source.a_type, bits);
	if (matrix->source.zero == HUMMING_ZERO_INT)
		*zero_out = zeros[(size_t)(k / group) * 64 +
				  lane->row_tile * 16 + g * 2 + odd];
	if (matrix->source.zero == HUMMING_ZERO_FLOAT) {
		memcpy(&bits,
		    zeros + (size_t)(k / group) * 128 + lane->row_tile * 32 +
			g * 4 + 2 * odd,
		    sizeof bits);
		*zero_out = half_value(matrix->source.a_type, bits);
	}
}

/* One lane's share of a chunk: weights[row 0..63][k 0..127] of the operand,
 * that is with the factor 2^-6. */
static void
emulate_lane(const struct matrix *matrix, const struct lane *lane,
    double (*weights)[128])
{
	uint32_t g = lane->lane / 4;
	uint32_t t = lane->lane % 4;
	const uint8_t *codes = lane->chunk + lane->half * 2048 +
			       lane->row_tile * 512 + lane->lane * 16;

	for (uint32_t slot = 0; slot < 32; slot++) {
		uint32_t j = slot / 8;
		uint32_t i = slot / 2 % 4;
		uint32_t h = slot % 2;
		uint32_t row = 16 * lane->row_tile + g + 8 * (i & 1);
		uint32_t k =
		    64 * lane->half + 16 * j + 8 * (i >> 1) + 2 * t + h;
		double scale = 0;
		double zero = 0;

		emulate_terms(matrix, lane, i & 1, k, &scale, &zero);
		weights[row][k] = (emulate_code(matrix->source.a_type,
				       load32(codes + 4 * j), i, h) -
				      zero) *
				  scale / 64;
	}
}

/* Whole chunk, every lane of every row tile of both halves. */
static void
emulate_chunk(const struct matrix *matrix, uint32_t n_block, uint32_t k_block,
    double (*weights)[128])
{
	uint32_t k_blocks = (matrix->source.k + 127) / 128;
	uint32_t n_blocks = (matrix->source.n + 63) / 64;
	size_t chunk_bytes =
	    matrix->sizes.packed_bytes / ((size_t)n_blocks * k_blocks);
	struct lane lane = {0};

	lane.chunk = matrix->packed +
		     ((size_t)n_block * k_blocks + k_block) * chunk_bytes;
	for (lane.half = 0; lane.half < 2; lane.half++)
		for (lane.row_tile = 0; lane.row_tile < 4; lane.row_tile++)
			for (lane.lane = 0; lane.lane < 32; lane.lane++)
				emulate_lane(matrix, &lane, weights);
}

static void
emulate_gemm(const struct matrix *matrix, const uint16_t *a, double *c)
{
	static double weights[64][128];
	uint32_t n = matrix->source.n;
	uint32_t k = matrix->source.k;

	for (uint32_t block = 0; block < (n + 63) / 64 * ((k + 127) / 128);
	     block++) {
		uint32_t n_block = block / ((k + 127) / 128);
		uint32_t k_block = block % ((k + 127) / 128);

		emulate_chunk(matrix, n_block, k_block, weights);
		for (uint32_t i = 0; i < 64 * 128 * MAX_TOKENS; i++) {
			uint32_t m = i % MAX_TOKENS;
			uint32_t row = n_block * 64 + i / MAX_TOKENS / 128;
			uint32_t at = i / MAX_TOKENS % 128;
			uint32_t column = k_block * 128 + at;

			if (row >= n || column >= k)
				continue;
			c[m * n + row] += (double)matrix->rowmul[row] *
					  weights[row % 64][at] *
					  half_value(matrix->source.a_type,
					      a[m * k + column]);
		}
	}
}

/* ---- tests ---- */

struct shape {
	uint32_t n, k, a_type, group, zero;
};

/* Calls `check` for every legal combination of types on a few shapes. */
static void
for_all_shapes(void (*check)(const struct shape *shape))
{
	static const uint32_t sizes[][2] = {{64, 128}, {8, 8}, {72, 200},
	    {136, 1000}, {1000, 72}};
	static const uint32_t groups[] = {0, 32, 64, 128};
	struct shape shape = {0};

	for (uint32_t i = 0; i < 5 * 4 * 3 * 2; i++) {
		shape.n = sizes[i % 5][0];
		shape.k = sizes[i % 5][1];
		shape.group = groups[i / 5 % 4];
		shape.zero = i / 20 % 3;
		shape.a_type =
		    i / 60 == 0 ? HUMMING_TYPE_BF16 : HUMMING_TYPE_F16;
		if (shape.group != 0 || shape.zero == HUMMING_ZERO_NONE)
			check(&shape);
	}
}

static void
test_pack__worked_example_lands_where_kernels_md_says(void **state)
{
	/* n, k, byte, bit inside the byte: KERNELS.md 3.6 */
	static const uint32_t places[][4] = {{0, 0, 0, 0}, {0, 1, 2, 0},
	    {8, 0, 0, 4}, {0, 8, 1, 0}, {1, 0, 64, 0}, {0, 2, 16, 0},
	    {0, 16, 4, 0}, {16, 0, 512, 0}, {0, 64, 2048, 0}};
	struct matrix matrix;

	(void)state;
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		matrix_init(&matrix, 64, 128, HUMMING_TYPE_BF16, 128, 0);
		memset(matrix.codes, 0, 64 * 128);
		matrix.codes[places[i][0] * 128 + places[i][1]] = 15;
		matrix_pack(&matrix);
		assert_int_equal(matrix.packed[places[i][2]],
		    15u << places[i][3]);
		matrix.packed[places[i][2]] = 0;
		for (uint32_t j = 0; j < 4096; j++)
			assert_int_equal(matrix.packed[j], 0);
		matrix_done(&matrix);
	}
}

static void
test_pack__scale_lines_lie_where_kernels_md_says(void **state)
{
	struct matrix matrix;

	(void)state;
	matrix_init(&matrix, 128, 256, HUMMING_TYPE_BF16, 128, 0);
	for (uint32_t i = 0; i < 128 * 2; i++)
		matrix.scales[i] = 0x3f80;                 /* 1 */
	matrix.scales[(64 + 16 + 3) * 2 + 1] = 0x3f00;     /* 0.5, row g' */
	matrix.scales[(64 + 16 + 8 + 5) * 2 + 1] = 0x3e80; /* 0.25, g' + 8 */
	matrix_pack(&matrix);
	/* Row block 1, k block 1 is chunk 3; row tile 1. */
	assert_int_equal(matrix.sizes.packed_bytes, 4 * 4224);
	assert_int_equal(matrix.packed[3 * 4224 + 4096 + 32 + 3 * 4 + 1], 0x3f);
	assert_int_equal(matrix.packed[3 * 4224 + 4096 + 32 + 3 * 4], 0x00);
	assert_int_equal(matrix.packed[3 * 4224 + 4096 + 32 + 5 * 4 + 2 + 1],
	    0x3e);
	assert_int_equal(matrix.packed[3 * 4224 + 4096 + 32 + 5 * 4 + 2], 0x80);
	matrix_done(&matrix);
}

static void
test_pack__every_code_in_every_place_is_read_back_by_its_lane(void **state)
{
	static double weights[64][128];
	struct matrix matrix;

	(void)state;
	for (uint32_t c = 0; c < 32; c++) {
		matrix_init(&matrix, 64, 128,
		    c < 16 ? HUMMING_TYPE_BF16 : HUMMING_TYPE_F16, 0, 0);
		for (uint32_t i = 0; i < 64 * 128; i++)
			matrix.codes[i] =
			    (uint8_t)((c + i * 7 + i / 128 * 3) & 15);
		matrix_pack(&matrix);
		emulate_chunk(&matrix, 0, 0, weights);
		for (uint32_t i = 0; i < 64 * 128; i++)
			assert_true(weights[i / 128][i % 128] * 64 ==
				    matrix.codes[i] - 8.0);
		matrix_done(&matrix);
	}
}

static void
check_identity(const struct shape *shape)
{
	struct humming_weight_plain plain;
	struct matrix matrix;

	matrix_init(&matrix, shape->n, shape->k, shape->a_type, shape->group,
	    shape->zero);
	matrix_pack(&matrix);
	plain.codes = must_alloc((size_t)shape->n * shape->k, 1);
	plain.scales = must_alloc((size_t)shape->n * matrix.n_groups, 4);
	plain.zeros = must_alloc((size_t)shape->n * matrix.n_groups, 4);
	assert_int_equal(humming_weight_unpack(&matrix.source, matrix.packed,
			     matrix.rowmul, &plain),
	    HUMMING_OK);
	assert_memory_equal(plain.codes, matrix.codes,
	    (size_t)shape->n * shape->k);
	for (size_t i = 0; i < (size_t)shape->n * matrix.n_groups; i++) {
		assert_true((double)plain.scales[i] ==
			    half_value(shape->a_type, matrix.scales[i]));
		if (shape->zero == HUMMING_ZERO_INT)
			assert_true(
			    plain.zeros[i] == (float)matrix.zero_codes[i]);
		if (shape->zero == HUMMING_ZERO_FLOAT)
			assert_true((double)plain.zeros[i] ==
				    half_value(shape->a_type, matrix.zeros[i]));
	}
	free(plain.codes);
	free(plain.scales);
	free(plain.zeros);
	matrix_done(&matrix);
}

static void
test_pack__then_unpack_gives_back_codes_scales_and_zeros(void **state)
{
	(void)state;
	for_all_shapes(check_identity);
}

static void
check_emulation(const struct shape *shape)
{
	struct humming_gemm_reference_args args = {0};
	struct matrix matrix;
	uint64_t state = 99;
	size_t n_outputs = (size_t)MAX_TOKENS * shape->n;
	double *c = must_alloc(n_outputs, sizeof *c);
	double *reference = must_alloc(n_outputs, sizeof *reference);
	uint16_t *a = must_alloc((size_t)MAX_TOKENS * shape->k, 2);

	matrix_init(&matrix, shape->n, shape->k, shape->a_type, shape->group,
	    shape->zero);
	for (size_t i = 0; i < (size_t)MAX_TOKENS * shape->k; i++)
		a[i] = random_scale(shape->a_type, &state) |
		       (random_next(&state) % 2 != 0 ? 0x8000u : 0);
	matrix_pack(&matrix);
	emulate_gemm(&matrix, a, c);
	args.m = MAX_TOKENS;
	args.lda = shape->k;
	args.ldc = shape->n;
	args.a = a;
	args.c_out = reference;
	assert_int_equal(humming_gemm_reference(&matrix.source, &args),
	    HUMMING_OK);
	for (size_t i = 0; i < n_outputs; i++) {
		double size = reference[i] < 0 ? -reference[i] : reference[i];
		double error = c[i] - reference[i];

		/* Both sum in double; only the order differs. */
		assert_true(error <= 1e-10 * (size + 1) &&
			    error >= -1e-10 * (size + 1));
	}
	free(c);
	free(reference);
	free(a);
	matrix_done(&matrix);
}

static void
test_pack__read_as_the_kernels_do_equals_the_reference(void **state)
{
	(void)state;
	for_all_shapes(check_emulation);
}

static void
check_chunk_bytes(const struct shape *shape)
{
	struct hm_config config = {0};
	struct matrix matrix;

	matrix_init(&matrix, shape->n, shape->k, shape->a_type, shape->group,
	    shape->zero);
	config.family = HM_FAMILY_PACK;
	config.threads = HM_EMIT_PACK_THREADS;
	config.group = shape->group;
	config.zero = shape->zero;
	if (shape->a_type == HUMMING_TYPE_F16)
		config.act = HM_CONFIG_ACT_F16;
	if (shape->group != 0)
		config.scale = shape->a_type == HUMMING_TYPE_F16
				   ? HM_CONFIG_SCALE_F16
				   : HM_CONFIG_SCALE_BF16;
	assert_int_equal(matrix.sizes.packed_bytes,
	    (uint64_t)((shape->n + 63) / 64) * ((shape->k + 127) / 128) *
		hm_emit_chunk_bytes(&config));
	assert_int_equal(matrix.sizes.rowmul_bytes, (shape->n + 63) / 64 * 256);
	assert_int_equal(matrix.sizes.pack_layout, HM_PACK_LAYOUT);
	matrix_done(&matrix);
}

static void
test_pack__sizes_are_those_that_the_kernels_are_built_with(void **state)
{
	(void)state;
	for_all_shapes(check_chunk_bytes);
}

static void
test_pack__int32_codes_give_the_same_bytes(void **state)
{
	struct matrix matrix, twin;
	uint32_t *words = must_alloc(72 * 200 / 8, 4);

	(void)state;
	matrix_init(&matrix, 72, 200, HUMMING_TYPE_F16, 64, HUMMING_ZERO_INT);
	matrix_init(&twin, 72, 200, HUMMING_TYPE_F16, 64, HUMMING_ZERO_INT);
	for (uint32_t i = 0; i < 72 * 200; i++)
		words[i / 8] |= (uint32_t)matrix.codes[i] << 4 * (i % 8);
	twin.source.codes = words;
	twin.source.code_layout = HUMMING_CODES_INT32;
	matrix_pack(&matrix);
	matrix_pack(&twin);
	assert_memory_equal(matrix.packed, twin.packed,
	    matrix.sizes.packed_bytes);
	free(words);
	matrix_done(&matrix);
	matrix_done(&twin);
}

static void
test_pack__scales_are_relative_to_the_next_power_of_two(void **state)
{
	struct matrix matrix;

	(void)state;
	matrix_init(&matrix, 8, 256, HUMMING_TYPE_BF16, 128, 0);
	for (uint32_t i = 0; i < 16; i++)
		matrix.scales[i] = 0;
	matrix.scales[0] = 0x3e20; /* 0.15625 */
	matrix.scales[1] = 0xbe80; /* -0.25, the largest of row 0 */
	matrix.scales[3] = 0x3e81; /* just above 0.25 */
	matrix_pack(&matrix);
	assert_true(matrix.rowmul[0] == 0.25f * 64);
	assert_true(matrix.rowmul[1] == 0.5f * 64);
	assert_true(matrix.rowmul[2] == 1.0f * 64); /* a row of zeros */
	assert_true(matrix.rowmul[8] == 0.0f);      /* beyond n */
	assert_int_equal(load32(matrix.packed + 4096) & 0xffff, 0x3f20);
	assert_int_equal(load32(matrix.packed + 4224 + 4096) & 0xffff, 0xbf80);
	matrix_done(&matrix);
}

static void
test_pack__float_scales_are_rounded_once_to_the_type(void **state)
{
	struct humming_weight_plain plain;
	struct matrix matrix;
	float scales[8] = {0.3f, 0.3f, 0.3f, 0.3f, 0.3f, 0.3f, 0.3f, 0.3f};
	uint8_t codes[8 * 128];
	float back[8];

	(void)state;
	matrix_init(&matrix, 8, 128, HUMMING_TYPE_BF16, 128, 0);
	matrix.source.scales = scales;
	matrix.source.scale_type = HUMMING_TYPE_F32;
	matrix_pack(&matrix);
	plain.codes = codes;
	plain.scales = back;
	plain.zeros = NULL;
	assert_int_equal(humming_weight_unpack(&matrix.source, matrix.packed,
			     matrix.rowmul, &plain),
	    HUMMING_OK);
	/* 0.3 = 0x3e99999a; the nearest bf16 is 0x3e9a */
	assert_true(back[0] == float_of(0x3e9a0000u));
	/* A row scale stays a float. */
	matrix.source.group = 0;
	matrix_pack(&matrix);
	assert_true(matrix.rowmul[0] == 0.3f * 64);
	matrix_done(&matrix);
}

static void
test_pack__bias_is_copied_and_padded(void **state)
{
	struct matrix matrix;
	float bias[72];

	(void)state;
	matrix_init(&matrix, 72, 64, HUMMING_TYPE_BF16, 64, 0);
	for (uint32_t i = 0; i < 72; i++)
		bias[i] = (float)i;
	matrix_pack(&matrix);
	assert_true(matrix.bias[71] == 0.0f);
	matrix.source.bias = bias;
	matrix_pack(&matrix);
	assert_true(matrix.bias[71] == 71.0f && matrix.bias[72] == 0.0f);
	matrix_done(&matrix);
}

/* pack must fail with `error`, say why, and leave the buffers alone. */
static void
expect_refusal(struct matrix *matrix, int error)
{
	uint8_t before = matrix->packed[0];

	assert_int_equal(humming_weight_pack(&matrix->source, matrix->packed,
			     matrix->rowmul, NULL),
	    error);
	assert_int_equal(matrix->packed[0], before);
	assert_true(strlen(humming_gemm_last_error()) > 0);
}

static void
test_pack__data_that_cannot_be_right_is_refused(void **state)
{
	struct matrix matrix;

	(void)state;
	matrix_init(&matrix, 64, 128, HUMMING_TYPE_BF16, 128,
	    HUMMING_ZERO_FLOAT);
	matrix.codes[5000] = 16;
	expect_refusal(&matrix, HUMMING_E_INVALID);
	assert_non_null(strstr(humming_gemm_last_error(), "row 39"));
	matrix.codes[5000] = 15;
	matrix.scales[63] = 0x7f80; /* infinity */
	expect_refusal(&matrix, HUMMING_E_INVALID);
	matrix.scales[63] = 0x3f80;
	matrix.zeros[7] = 0x7fc0; /* NaN */
	expect_refusal(&matrix, HUMMING_E_INVALID);
	matrix.zeros[7] = 0;
	matrix.source.zeros = NULL;
	expect_refusal(&matrix, HUMMING_E_INVALID);
	matrix_done(&matrix);
}

static void
test_pack__formats_that_no_kernel_reads_are_refused(void **state)
{
	struct matrix matrix;

	(void)state;
	matrix_init(&matrix, 64, 128, HUMMING_TYPE_BF16, 128, 0);
	matrix.source.group = 96;
	expect_refusal(&matrix, HUMMING_E_UNSUPPORTED);
	matrix.source.group = 0;
	matrix.source.zero = HUMMING_ZERO_INT;
	expect_refusal(&matrix, HUMMING_E_UNSUPPORTED);
	matrix.source.zero = 0;
	matrix.source.w_type = HUMMING_TYPE_UINT(5);
	expect_refusal(&matrix, HUMMING_E_UNSUPPORTED);
	matrix.source.w_type = 0;
	matrix.source.a_type = HUMMING_TYPE_F32;
	expect_refusal(&matrix, HUMMING_E_UNSUPPORTED);
	matrix.source.a_type = 0;
	matrix.source.n = 60;
	expect_refusal(&matrix, HUMMING_E_INVALID);
	matrix.source.n = 64;
	matrix.source.k = 0;
	expect_refusal(&matrix, HUMMING_E_INVALID);
	matrix.source.k = 128;
	matrix.source.struct_size = 2;
	expect_refusal(&matrix, HUMMING_E_INVALID);
	matrix_done(&matrix);
}

static void
test_pack__a_larger_struct_is_read_only_when_its_tail_is_zero(void **state)
{
	struct {
		struct humming_weight_source source;
		uint64_t later;
	} newer;
	struct matrix matrix;

	(void)state;
	matrix_init(&matrix, 64, 128, HUMMING_TYPE_BF16, 128, 0);
	newer.source = matrix.source;
	newer.source.struct_size = sizeof newer;
	newer.later = 0;
	assert_int_equal(humming_weight_pack(&newer.source, matrix.packed,
			     matrix.rowmul, NULL),
	    HUMMING_OK);
	newer.later = 1;
	assert_int_equal(humming_weight_pack(&newer.source, matrix.packed,
			     matrix.rowmul, NULL),
	    HUMMING_E_INVALID);
	matrix_done(&matrix);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_pack__worked_example_lands_where_kernels_md_says),
	    cmocka_unit_test(test_pack__scale_lines_lie_where_kernels_md_says),
	    cmocka_unit_test(
		test_pack__every_code_in_every_place_is_read_back_by_its_lane),
	    cmocka_unit_test(
		test_pack__then_unpack_gives_back_codes_scales_and_zeros),
	    cmocka_unit_test(
		test_pack__read_as_the_kernels_do_equals_the_reference),
	    cmocka_unit_test(
		test_pack__sizes_are_those_that_the_kernels_are_built_with),
	    cmocka_unit_test(test_pack__int32_codes_give_the_same_bytes),
	    cmocka_unit_test(
		test_pack__scales_are_relative_to_the_next_power_of_two),
	    cmocka_unit_test(
		test_pack__float_scales_are_rounded_once_to_the_type),
	    cmocka_unit_test(test_pack__bias_is_copied_and_padded),
	    cmocka_unit_test(test_pack__data_that_cannot_be_right_is_refused),
	    cmocka_unit_test(
		test_pack__formats_that_no_kernel_reads_are_refused),
	    cmocka_unit_test(
		test_pack__a_larger_struct_is_read_only_when_its_tail_is_zero),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
