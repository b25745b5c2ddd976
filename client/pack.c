/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack.c - plain codes to the chunks that the kernels stream, and back.
 *
 * weight.h and weight_field.h draw the layout. Decided here:
 *
 *   scales   s[n][g] = r[n][g] * P[n], P[n] the smallest power of two that is
 *            >= every |s| of the row (1 for a row of zeros), so |r| <= 1 and r
 *            is exact in the type of s but for underflow. r goes inline;
 *            rowmul[n] = 2^factor * P[n]. With one scale per row nothing is
 *            inline: rowmul[n] = 2^factor * s[n].
 *   e8m0     r = 2^(byte - 127), byte 0 = 0 for what is below 2^-120
 *   mx       r = 2^(byte - 5), byte 0 to 11: what a table of e4m3 operands can
 *            absorb. P is 2^-6 times the largest scale of the row's groups that
 *            are not all zero; a row whose such groups span more is refused. A
 *            group of zeros gets the nearest byte.
 *   padding  rows beyond N have r = 0, rowmul 0; columns beyond K the code that
 *            means zero (or the group's integer zero point), though the
 *            kernels read zeros of A there anyway
 *
 * Packing and unpacking find a code through the same hm_field_locate; the tests
 * walk the chunks the other way round, lane by lane, as the kernels do.
 */
#include <limits.h>
#include <string.h>

#include "client/gemm_error.h"
#include "client/number.h"
#include "client/sized.h"
#include "client/weight.h"

/* Smallest exponent of an e8m0 r that is kept, and its bias. */
#define PACK_E8M0_LEAST (-120)
#define PACK_E8M0_BIAS  127
/* Exponents of an mx r. */
#define PACK_MX_LEAST (-5)
#define PACK_MX_MOST  6
/* slots * values * codes of any field */
#define PACK_TABLE 1024u

/* What every code sets in its word, by slot, value and code: computed once a
 * matrix. */
struct pack_table {
	uint32_t n_values;
	uint32_t words[PACK_TABLE];
};

/* Index of a row's element in a line of scales or zero points. */
static uint32_t
pack_line_index(uint32_t row)
{
	return (row >> 4) * 16 + (row & 7) * 2 + (row >> 3 & 1);
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

static uint32_t
pack_table_index(const struct hm_field *field, const struct pack_table *table,
    const struct hm_field_place *place, uint32_t code)
{
	return (place->slot * table->n_values + place->value) << field->bits |
	       code;
}

static void
pack_table_init(const struct hm_field *field, struct pack_table *table)
{
	uint32_t n_slots = field->value_bits / field->bits;
	uint32_t n_codes = 1u << field->bits;
	struct hm_field_place place = {0, 0, 0};

	table->n_values = 32 / field->value_bits;
	for (place.slot = 0; place.slot < n_slots; place.slot++)
		for (place.value = 0; place.value < table->n_values;
		     place.value++)
			for (uint32_t code = 0; code < n_codes; code++)
				table->words[pack_table_index(field, table,
				    &place, code)] =
				    hm_field_put(field, &place, code);
}

/* Code of zero, for what lies beyond N or K. */
static uint32_t
pack_padding_code(const struct hm_weight *weight, uint32_t n, uint32_t k)
{
	double zero = 0;

	if (weight->source.zero != HUMMING_ZERO_INT || n >= weight->source.n ||
	    k / weight->group >= weight->n_groups)
		return weight->field->zero;
	zero = hm_weight_zero(weight, n, k / weight->group);
	return zero < 15 ? (uint32_t)zero : 15;
}

static void
pack_codes(const struct hm_weight *weight, const struct pack_table *table,
    uint32_t n_first, uint32_t k_first, unsigned char *chunk)
{
	const struct hm_field *field = weight->field;
	uint32_t words[HM_WEIGHT_ROWS * HM_WEIGHT_COLUMNS / 4];

	memset(words, 0, sizeof words);
	for (uint32_t row = 0; row < HM_WEIGHT_ROWS; row++) {
		for (uint32_t column = 0; column < HM_WEIGHT_COLUMNS;
		     column++) {
			struct hm_field_place place =
			    hm_field_locate(field, row, column);
			uint32_t n = n_first + row;
			uint32_t k = k_first + column;
			uint32_t code = 0;

			if (n < weight->source.n && k < weight->source.k)
				code = hm_weight_code(weight, n, k);
			else
				code = pack_padding_code(weight, n, k);
			words[place.byte / 4] |= table->words[pack_table_index(
			    field, table, &place, code)];
		}
	}
	for (uint32_t i = 0; i < weight->code_bytes / 4; i++)
		pack_put(chunk + (size_t)4 * i, words[i], 4);
}

/* Whether every code of a group is a zero of a float type. */
static bool
pack_is_zero_group(const struct hm_weight *weight, uint32_t n, uint32_t group)
{
	uint32_t magnitude = (1u << (weight->field->bits - 1)) - 1;
	uint32_t k = group * weight->group;

	for (uint32_t i = 0; i < weight->group && k + i < weight->source.k; i++)
		if ((hm_weight_code(weight, n, k + i) & magnitude) != 0)
			return false;
	return true;
}

/* log2 of P[n]; INT_MIN for an mx row that does not fit. */
static int
pack_row_exponent(const struct hm_weight *weight, uint32_t n)
{
	int most = INT_MIN;
	int least = INT_MAX;

	for (uint32_t g = 0; g < weight->n_groups; g++) {
		double scale = hm_weight_scale(weight, n, g);
		int exponent = 0;

		if (scale < 0)
			scale = -scale;
		if (scale <= 0 || (weight->scale == HM_CONFIG_SCALE_MX &&
				      pack_is_zero_group(weight, n, g)))
			continue;
		exponent = hm_number_ceil_exponent(scale);
		most = exponent > most ? exponent : most;
		least = exponent < least ? exponent : least;
	}
	if (most == INT_MIN)
		return 0;
	if (weight->scale != HM_CONFIG_SCALE_MX)
		return most;
	return most - least > PACK_MX_MOST - PACK_MX_LEAST
		   ? INT_MIN
		   : most - PACK_MX_MOST;
}

static int
pack_check_windows(const struct hm_weight *weight)
{
	if (weight->scale != HM_CONFIG_SCALE_MX)
		return HM_OK;
	for (uint32_t n = 0; n < weight->source.n; n++) {
		if (pack_row_exponent(weight, n) != INT_MIN)
			continue;
		hm_errbuf_set(hm_gemm_errbuf(),
		    "pack: the scales of row %u span more than 2^%d: it takes "
		    "mx=exact (mx_exact)",
		    n, PACK_MX_MOST - PACK_MX_LEAST);
		return HM_E_INVALID;
	}
	return HM_OK;
}

/* r of one row and group as the bits that its line holds; P = 2^exponent. */
static uint32_t
pack_scale_bits(const struct hm_weight *weight, uint32_t n, uint32_t group,
    int exponent)
{
	double scale = hm_weight_scale(weight, n, group);
	double r = scale / hm_number_power(exponent);
	float single = (float)r;
	uint32_t bits = 0;
	int e = 0;

	switch (weight->scale) {
	case HM_CONFIG_SCALE_NONE:
		return 0;
	case HM_CONFIG_SCALE_BF16:
		return hm_number_encode16(HUMMING_TYPE_BF16, r);
	case HM_CONFIG_SCALE_F16:
		return hm_number_encode16(HUMMING_TYPE_F16, r);
	case HM_CONFIG_SCALE_F32:
		memcpy(&bits, &single, sizeof bits);
		return bits;
	case HM_CONFIG_SCALE_E8M0:
		e = hm_number_ceil_exponent(scale) - exponent;
		return e < PACK_E8M0_LEAST ? 0 : (uint32_t)(e + PACK_E8M0_BIAS);
	case HM_CONFIG_SCALE_MX:
		e = hm_number_ceil_exponent(scale) - exponent;
		e = e < PACK_MX_LEAST ? PACK_MX_LEAST : e;
		e = e > PACK_MX_MOST ? PACK_MX_MOST : e;
		return (uint32_t)(e - PACK_MX_LEAST);
	}
	return 0;
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

/* Scales and zero points of one group of 64 rows with P = 2^exponents[row].
 * Rows beyond N and groups beyond K stay zero. */
static void
pack_line(const struct hm_weight *weight, uint32_t n_first, uint32_t group,
    const int *exponents, unsigned char *lines)
{
	uint32_t line = group % weight->line_groups * HM_WEIGHT_ROWS;
	unsigned char *zeros = lines + (size_t)weight->line_groups *
					   HM_WEIGHT_ROWS * weight->scale_bytes;

	for (uint32_t row = 0; row < HM_WEIGHT_ROWS; row++) {
		uint32_t n = n_first + row;
		size_t index = line + pack_line_index(row);

		if (n >= weight->source.n || group >= weight->n_groups)
			continue;
		pack_put(lines + weight->scale_bytes * index,
		    pack_scale_bits(weight, n, group, exponents[row]),
		    weight->scale_bytes);
		if (weight->zero_bytes != 0)
			pack_put(zeros + weight->zero_bytes * index,
			    pack_zero_bits(weight, n, group),
			    weight->zero_bytes);
	}
}

static void
pack_lines(const struct hm_weight *weight, uint32_t n_first, uint32_t k_first,
    const int *exponents, unsigned char *chunk)
{
	unsigned char *lines = chunk + weight->code_bytes;

	memset(lines, 0, weight->chunk_bytes - weight->code_bytes);
	for (uint32_t i = 0; i < weight->line_groups; i++)
		pack_line(weight, n_first, k_first / weight->group + i,
		    exponents, lines);
}

/* What 64 rows have: exponents of P for their lines, factors, the bias (or
 * NULL). */
static void
pack_rows(const struct hm_weight *weight, uint32_t n_first, int *exponents,
    float *rowmul, float *bias)
{
	for (uint32_t row = 0; row < HM_WEIGHT_ROWS; row++) {
		uint32_t n = n_first + row;
		double factor = 0;
		float shift = 0;

		exponents[row] = 0;
		if (n < weight->source.n) {
			exponents[row] = pack_row_exponent(weight, n);
			factor = weight->scale != HM_CONFIG_SCALE_NONE
				     ? hm_number_power(exponents[row])
				     : hm_weight_scale(weight, n, 0);
			if (weight->source.bias != NULL)
				shift = weight->source.bias[n];
		}
		rowmul[row] =
		    (float)(factor * hm_number_power(weight->field->factor));
		if (bias != NULL)
			bias[row] = shift;
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
	sizes.pack_layout = HM_PACK_LAYOUT;
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
	struct pack_table table;
	struct hm_weight weight;
	int exponents[HM_WEIGHT_ROWS];
	int error = hm_weight_describe_full(source, &weight);

	if (error == HM_OK)
		error = pack_check_windows(&weight);
	if (error != HM_OK)
		return error;
	if (packed_out == NULL || rowmul_out == NULL) {
		hm_errbuf_set(hm_gemm_errbuf(), "pack: no buffer");
		return HM_E_INVALID;
	}
	pack_table_init(weight.field, &table);
	for (uint32_t i = 0; i < weight.n_blocks; i++) {
		uint32_t n_first = i * HM_WEIGHT_ROWS;

		pack_rows(&weight, n_first, exponents, rowmul_out + n_first,
		    bias_out != NULL ? bias_out + n_first : NULL);
		for (uint32_t j = 0; j < weight.k_blocks; j++) {
			unsigned char *chunk =
			    pack_chunk(&weight, packed_out, i, j);

			pack_codes(&weight, &table, n_first,
			    j * HM_WEIGHT_COLUMNS, chunk);
			pack_lines(&weight, n_first, j * HM_WEIGHT_COLUMNS,
			    exponents, chunk);
		}
	}
	return HM_OK;
}

/* Chunk of a row and column. */
static const unsigned char *
unpack_chunk(const struct hm_weight *weight, const void *packed, uint32_t n,
    uint32_t k)
{
	const unsigned char *chunks = packed;

	return chunks + ((size_t)(n / HM_WEIGHT_ROWS) * weight->k_blocks +
			    k / HM_WEIGHT_COLUMNS) *
			    weight->chunk_bytes;
}

static void
unpack_codes(const struct hm_weight *weight, uint32_t n, const void *packed,
    uint8_t *codes)
{
	for (uint32_t k = 0; k < weight->source.k; k++) {
		struct hm_field_place place = hm_field_locate(weight->field,
		    n % HM_WEIGHT_ROWS, k % HM_WEIGHT_COLUMNS);
		const unsigned char *chunk = unpack_chunk(weight, packed, n, k);

		codes[k] = (uint8_t)hm_field_get(weight->field, &place,
		    pack_get(chunk + place.byte, 4));
	}
}

/* r from the bits of its line. */
static double
unpack_scale(enum hm_config_scale scale, uint32_t bits)
{
	float single = 0;

	switch (scale) {
	case HM_CONFIG_SCALE_NONE:
		return 1;
	case HM_CONFIG_SCALE_BF16:
		return hm_number_decode16(HUMMING_TYPE_BF16, (uint16_t)bits);
	case HM_CONFIG_SCALE_F16:
		return hm_number_decode16(HUMMING_TYPE_F16, (uint16_t)bits);
	case HM_CONFIG_SCALE_F32:
		memcpy(&single, &bits, sizeof single);
		return (double)single;
	case HM_CONFIG_SCALE_E8M0:
		return bits != 0 ? hm_number_power((int)bits - PACK_E8M0_BIAS)
				 : 0;
	case HM_CONFIG_SCALE_MX:
		return hm_number_power((int)bits + PACK_MX_LEAST);
	}
	return 0;
}

/* Scale and zero point of one row and group; index counts elements over all
 * lines: 64 of them a line. */
static void
unpack_group(const struct hm_weight *weight, const unsigned char *lines,
    size_t index, double *scale_out, double *zero_out)
{
	const unsigned char *zeros = lines + (size_t)weight->line_groups *
						 HM_WEIGHT_ROWS *
						 weight->scale_bytes;

	*scale_out = unpack_scale(weight->scale,
	    pack_get(lines + weight->scale_bytes * index, weight->scale_bytes));
	*zero_out = weight->field->zero;
	if (weight->source.zero == HUMMING_ZERO_INT)
		*zero_out = zeros[index];
	else if (weight->source.zero == HUMMING_ZERO_FLOAT)
		*zero_out = hm_number_decode16(weight->source.a_type,
		    (uint16_t)pack_get(zeros + 2 * index, 2));
}

static void
unpack_groups(const struct hm_weight *weight, uint32_t n, const void *packed,
    double power, const struct humming_weight_plain *plain)
{
	for (uint32_t g = 0; g < weight->n_groups; g++) {
		uint32_t k = g * weight->group;
		uint32_t line = k % HM_WEIGHT_COLUMNS / weight->group;
		size_t at = (size_t)n * weight->n_groups + g;
		double scale = 0;
		double zero = 0;

		unpack_group(weight,
		    unpack_chunk(weight, packed, n, k) + weight->code_bytes,
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
		double power =
		    (double)rowmul[n] * hm_number_power(-weight.field->factor);

		unpack_codes(&weight, n, packed,
		    plain_out->codes + (size_t)n * weight.source.k);
		if (weight.scale == HM_CONFIG_SCALE_NONE)
			plain_out->scales[n] = (float)power;
		else
			unpack_groups(&weight, n, packed, power, plain_out);
	}
	return HM_OK;
}
