/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack.c - plain codes to the chunks that the kernels stream, and back.
 *
 * weight.h draws the layout. Two rules are decided here:
 *
 *   scales   s[n][g] = r[n][g] * P[n], P[n] the smallest power of two that is
 *            >= every |s| of the row (1 for a row of zeros), so |r| <= 1 and r
 *            is exact in the type of s but for underflow. r goes inline;
 *            rowmul[n] = 2^6 * P[n]. With one scale per row nothing is inline:
 *            rowmul[n] = 2^6 * s[n].
 *   padding  rows beyond N have r = 0, rowmul 0; columns beyond K the code that
 *            means zero (8, or the group's integer zero point), though the
 *            kernels read zeros of A there anyway
 *
 * Packing and unpacking find a code through the same pack_place, the only copy
 * of the fragment formula here; the tests walk the chunks the other way round,
 * lane by lane, as the kernels do.
 */
#include <string.h>

#include "client/gemm_error.h"
#include "client/number.h"
#include "client/sized.h"
#include "client/weight.h"

#define PACK_HALF_BYTES     2048u
#define PACK_ROW_TILE_BYTES 512u
#define PACK_LINE_BYTES     128u
#define PACK_F16_ROTATION   3u

/* Where a code lives: a word of a chunk, and a bit of the bf16 word. */
struct pack_place {
	uint32_t word_byte; /* from the start of the chunk */
	uint32_t bit;
};

/* row 0..63 and column 0..127 of a chunk; inverse of weight.h's formula. */
static struct pack_place
pack_place(uint32_t row, uint32_t column)
{
	uint32_t lane = (row & 7) * 4 + (column >> 1 & 3);
	uint32_t i = (row >> 3 & 1) + 2 * (column >> 3 & 1);
	uint32_t step = column >> 4 & 3;
	struct pack_place place = {0, 0};

	place.word_byte = (column >> 6) * PACK_HALF_BYTES +
			  (row >> 4) * PACK_ROW_TILE_BYTES + lane * 16 +
			  step * 4;
	place.bit = 16 * (column & 1) + 4 * i;
	return place;
}

/* Index of a row's element in a line of scales or zero points. */
static uint32_t
pack_line_index(uint32_t row)
{
	return (row >> 4) * 16 + (row & 7) * 2 + (row >> 3 & 1);
}

static uint32_t
pack_rotate_left(uint32_t word, uint32_t n)
{
	return word << n | word >> (32 - n);
}

/* Little-endian words, whatever the host. */
static void
pack_put(unsigned char *bytes, uint32_t value, uint32_t n_bytes)
{
	for (uint32_t i = 0; i < n_bytes; i++)
		bytes[i] = (unsigned char)(value >> 8 * i);
}

static uint32_t
pack_get(const unsigned char *bytes, uint32_t n_bytes)
{
	uint32_t value = 0;

	for (uint32_t i = 0; i < n_bytes; i++)
		value |= (uint32_t)bytes[i] << 8 * i;
	return value;
}

/* Code of zero, for what lies beyond N or K. */
static uint32_t
pack_padding_code(const struct hm_weight *weight, uint32_t n, uint32_t k)
{
	double zero = 8;

	if (n < weight->source.n && k / weight->group < weight->n_groups)
		zero = hm_weight_zero(weight, n, k / weight->group);
	if (weight->source.zero != HUMMING_ZERO_INT)
		return 8;
	return zero < 15 ? (uint32_t)zero : 15;
}

static void
pack_codes(const struct hm_weight *weight, uint32_t n_first, uint32_t k_first,
    unsigned char *chunk)
{
	uint32_t words[HM_WEIGHT_CODE_BYTES / 4];
	uint32_t turn =
	    weight->source.a_type == HUMMING_TYPE_F16 ? PACK_F16_ROTATION : 0;

	memset(words, 0, sizeof words);
	for (uint32_t row = 0; row < HM_WEIGHT_ROWS; row++) {
		for (uint32_t column = 0; column < HM_WEIGHT_COLUMNS;
		     column++) {
			struct pack_place place = pack_place(row, column);
			uint32_t n = n_first + row;
			uint32_t k = k_first + column;
			uint32_t code = 0;

			if (n < weight->source.n && k < weight->source.k)
				code = hm_weight_code(weight, n, k);
			else
				code = pack_padding_code(weight, n, k);
			words[place.word_byte / 4] |= code << place.bit;
		}
	}
	for (uint32_t i = 0; i < HM_WEIGHT_CODE_BYTES / 4; i++) {
		if (turn != 0)
			words[i] = pack_rotate_left(words[i], turn);
		pack_put(chunk + (size_t)4 * i, words[i], 4);
	}
}

/* The power of two that a row's scales are relative to. */
static double
pack_row_power(const struct hm_weight *weight, uint32_t n)
{
	double most = 0;

	for (uint32_t g = 0; g < weight->n_groups; g++) {
		double scale = hm_weight_scale(weight, n, g);

		if (scale < 0)
			scale = -scale;
		if (scale > most)
			most = scale;
	}
	return most > 0 ? hm_number_power(hm_number_ceil_exponent(most)) : 1;
}

/* Zero point of one row and group as the bits that its line holds. */
static uint32_t
pack_zero_bits(const struct hm_weight *weight, uint32_t n, uint32_t group)
{
	double zero = hm_weight_zero(weight, n, group);

	if (weight->source.zero == HUMMING_ZERO_INT)
		return (uint32_t)zero;
	return hm_number_encode16(weight->source.a_type, zero);
}

/* Scales and zero points of one group of 64 rows, whose factors are rowmul.
 * Rows beyond N and groups beyond K stay zero. */
static void
pack_line(const struct hm_weight *weight, uint32_t n_first, uint32_t group,
    const float *rowmul, unsigned char *lines)
{
	uint32_t zero_bytes = weight->zero_line_bytes / HM_WEIGHT_ROWS;
	uint32_t line = group % weight->line_groups;
	unsigned char *scales = lines + (size_t)line * PACK_LINE_BYTES;
	unsigned char *zeros = lines +
			       (size_t)weight->line_groups * PACK_LINE_BYTES +
			       (size_t)line * weight->zero_line_bytes;

	for (uint32_t row = 0; row < HM_WEIGHT_ROWS; row++) {
		uint32_t n = n_first + row;
		uint32_t index = pack_line_index(row);
		double power = (double)rowmul[row] / HM_WEIGHT_FACTOR;
		uint32_t bits = 0;

		if (n >= weight->source.n || group >= weight->n_groups)
			continue;
		bits = hm_number_encode16(weight->source.a_type,
		    hm_weight_scale(weight, n, group) / power);
		pack_put(scales + (size_t)2 * index, bits, 2);
		if (zero_bytes != 0)
			pack_put(zeros + (size_t)zero_bytes * index,
			    pack_zero_bits(weight, n, group), zero_bytes);
	}
}

static void
pack_lines(const struct hm_weight *weight, uint32_t n_first, uint32_t k_first,
    const float *rowmul, unsigned char *chunk)
{
	unsigned char *lines = chunk + HM_WEIGHT_CODE_BYTES;

	memset(lines, 0, weight->chunk_bytes - HM_WEIGHT_CODE_BYTES);
	for (uint32_t i = 0; i < weight->line_groups; i++)
		pack_line(weight, n_first, k_first / weight->group + i, rowmul,
		    lines);
}

static void
pack_rows(const struct hm_weight *weight, float *rowmul, float *bias)
{
	for (uint32_t n = 0; n < weight->n_blocks * HM_WEIGHT_ROWS; n++) {
		double factor = 0;
		float shift = 0;

		if (n < weight->source.n) {
			factor = weight->source.group != 0
				     ? pack_row_power(weight, n)
				     : hm_weight_scale(weight, n, 0);
			if (weight->source.bias != NULL)
				shift = weight->source.bias[n];
		}
		rowmul[n] = (float)(factor * HM_WEIGHT_FACTOR);
		if (bias != NULL)
			bias[n] = shift;
	}
}

static unsigned char *
pack_chunk(const struct hm_weight *weight, void *packed, uint32_t n_block,
    uint32_t k_block)
{
	size_t index = (size_t)n_block * weight->k_blocks + k_block;

	return (unsigned char *)packed + index * weight->chunk_bytes;
}

void
humming_weight_source_init(struct humming_weight_source *source,
    uint32_t struct_size)
{
	struct humming_weight_source defaults;

	if (source == NULL)
		return;
	hm_sized_init(source, struct_size);
	memset(&defaults, 0, sizeof defaults);
	defaults.w_type = HUMMING_TYPE_UINT(4);
	defaults.a_type = HUMMING_TYPE_BF16;
	(void)hm_sized_write(source, &defaults, sizeof defaults);
}

int
humming_weight_size(const struct humming_weight_source *source,
    struct humming_weight_sizes *sizes_out)
{
	struct hm_weight weight;
	struct humming_weight_sizes sizes;
	int error = hm_weight_describe(source, &weight);

	if (error != HM_OK)
		return error;
	memset(&sizes, 0, sizeof sizes);
	sizes.pack_layout = HM_WEIGHT_LAYOUT;
	sizes.packed_bytes =
	    (uint64_t)weight.n_blocks * weight.k_blocks * weight.chunk_bytes;
	sizes.rowmul_bytes =
	    (uint64_t)weight.n_blocks * HM_WEIGHT_ROWS * sizeof(float);
	sizes.bias_bytes = sizes.rowmul_bytes;
	return hm_sized_write(sizes_out, &sizes, sizeof sizes);
}

int
humming_weight_pack(const struct humming_weight_source *source,
    void *packed_out, float *rowmul_out, float *bias_out)
{
	struct hm_weight weight;
	int error = hm_weight_describe_full(source, &weight);

	if (error != HM_OK)
		return error;
	if (packed_out == NULL || rowmul_out == NULL) {
		hm_errbuf_set(hm_gemm_errbuf(), "pack: no buffer");
		return HM_E_INVALID;
	}
	pack_rows(&weight, rowmul_out, bias_out);
	for (uint32_t i = 0; i < weight.n_blocks; i++) {
		for (uint32_t j = 0; j < weight.k_blocks; j++) {
			unsigned char *chunk =
			    pack_chunk(&weight, packed_out, i, j);

			pack_codes(&weight, i * HM_WEIGHT_ROWS,
			    j * HM_WEIGHT_COLUMNS, chunk);
			pack_lines(&weight, i * HM_WEIGHT_ROWS,
			    j * HM_WEIGHT_COLUMNS,
			    rowmul_out + (size_t)i * HM_WEIGHT_ROWS, chunk);
		}
	}
	return HM_OK;
}

static void
unpack_codes(const struct hm_weight *weight, uint32_t n, const void *packed,
    uint8_t *codes)
{
	uint32_t turn =
	    weight->source.a_type == HUMMING_TYPE_F16 ? PACK_F16_ROTATION : 0;

	for (uint32_t k = 0; k < weight->source.k; k++) {
		struct pack_place place =
		    pack_place(n % HM_WEIGHT_ROWS, k % HM_WEIGHT_COLUMNS);
		const unsigned char *chunk = packed;
		uint32_t word = 0;

		chunk += ((size_t)(n / HM_WEIGHT_ROWS) * weight->k_blocks +
			     k / HM_WEIGHT_COLUMNS) *
			 weight->chunk_bytes;
		word = pack_get(chunk + place.word_byte, 4);
		if (turn != 0)
			word = pack_rotate_left(word, 32 - turn);
		codes[k] = (uint8_t)(word >> place.bit & 15);
	}
}

/* Scale and zero point of one row and group. */
static void
unpack_group(const struct hm_weight *weight, const unsigned char *lines,
    uint32_t index, double *scale_out, double *zero_out)
{
	const unsigned char *zeros = lines;
	uint32_t type = weight->source.a_type;

	zeros += (size_t)weight->line_groups * PACK_LINE_BYTES;
	/* index counts elements over all lines: 64 of them a line. */
	*scale_out = hm_number_decode16(type,
	    (uint16_t)pack_get(lines + 2 * (size_t)index, 2));
	*zero_out = 8;
	if (weight->source.zero == HUMMING_ZERO_INT)
		*zero_out = zeros[index];
	else if (weight->source.zero == HUMMING_ZERO_FLOAT)
		*zero_out = hm_number_decode16(type,
		    (uint16_t)pack_get(zeros + 2 * (size_t)index, 2));
}

static void
unpack_groups(const struct hm_weight *weight, uint32_t n, const void *packed,
    double power, const struct humming_weight_plain *plain)
{
	for (uint32_t g = 0; g < weight->n_groups; g++) {
		uint32_t k = g * weight->group;
		uint32_t line = k % HM_WEIGHT_COLUMNS / weight->group;
		size_t at = (size_t)n * weight->n_groups + g;
		const unsigned char *chunk = packed;
		double scale = 0;
		double zero = 0;

		chunk += ((size_t)(n / HM_WEIGHT_ROWS) * weight->k_blocks +
			     k / HM_WEIGHT_COLUMNS) *
			 weight->chunk_bytes;
		unpack_group(weight, chunk + HM_WEIGHT_CODE_BYTES,
		    line * HM_WEIGHT_ROWS + pack_line_index(n % HM_WEIGHT_ROWS),
		    &scale, &zero);
		plain->scales[at] = (float)(scale * power);
		if (weight->source.zero != HUMMING_ZERO_NONE)
			plain->zeros[at] = (float)zero;
	}
}

int
humming_weight_unpack(const struct humming_weight_source *source,
    const void *packed, const float *rowmul,
    const struct humming_weight_plain *plain_out)
{
	struct hm_weight weight;
	int error = hm_weight_describe(source, &weight);

	if (error != HM_OK)
		return error;
	if (packed == NULL || rowmul == NULL || plain_out == NULL ||
	    plain_out->codes == NULL || plain_out->scales == NULL ||
	    (weight.source.zero != HUMMING_ZERO_NONE &&
		plain_out->zeros == NULL)) {
		hm_errbuf_set(hm_gemm_errbuf(), "unpack: no buffer");
		return HM_E_INVALID;
	}
	for (uint32_t n = 0; n < weight.source.n; n++) {
		double power = (double)rowmul[n] / HM_WEIGHT_FACTOR;

		unpack_codes(&weight, n, packed,
		    plain_out->codes + (size_t)n * weight.source.k);
		if (weight.source.group == 0)
			plain_out->scales[n] = (float)power;
		else
			unpack_groups(&weight, n, packed, power, plain_out);
	}
	return HM_OK;
}
