/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weight_field.c - the table of bit layouts, and one reader and writer for all.
 *
 * A row of the table is what the dequantization of kernels/dequant.cuh reads:
 * its rotations and masks, in its order. Codes that the kernels want in another
 * form are XORed first (u is the code, offset binary):
 *
 *     u4 for s8    u ^ 8: two's complement of u - 8
 *     u8 for s8    u ^ 128
 *     u4 for fp8   sign and index: u ^ 8 for u >= 8, that is (0, u - 8), else
 *                  u ^ 15, that is (1, 7 - u) (KERNELS.md 4.3)
 */
#include "client/weight_field.h"

#include <stddef.h>

#include "jit/config.h"

/* Types of activations that share a layout. */
enum field_class { FIELD_BF16, FIELD_F16, FIELD_FP8, FIELD_S8 };

struct field_row {
	uint32_t weight;
	enum field_class class;
	bool mx;
	struct hm_field field;
};

static const struct field_row field_rows[] = {
    {HM_CONFIG_WEIGHT_U4, FIELD_BF16, false,
	{4, 16, 8, 6, {0, 0}, {0, 1, 2, 3},
	    {{{0, 0x000f000f}}, {{28, 0x000f000f}}, {{24, 0x000f000f}},
		{{20, 0x000f000f}}}}},
    {HM_CONFIG_WEIGHT_U4, FIELD_F16, false,
	{4, 16, 8, 6, {0, 0}, {3, 4, 5, 6},
	    {{{0, 0x00780078}}, {{28, 0x00780078}}, {{24, 0x00780078}},
		{{20, 0x00780078}}}}},
    {HM_CONFIG_WEIGHT_U4, FIELD_S8, false,
	{4, 8, 8, -4, {8, 8}, {4, 5, 6, 7},
	    {{{0, 0xf0f0f0f0}}, {{4, 0xf0f0f0f0}}}}},
    {HM_CONFIG_WEIGHT_U4, FIELD_FP8, false,
	{4, 8, 8, 9, {15, 8}, {0, 1, 2, 7},
	    {{{0, 0x87878787}}, {{4, 0x87878787}}}}},
    {HM_CONFIG_WEIGHT_U8, FIELD_BF16, false,
	{8, 16, 128, 6, {0, 0}, {0, 1, 2, 3, 4, 5, 6, 7},
	    {{{0, 0x00ff00ff}}, {{24, 0x00ff00ff}}}}},
    {HM_CONFIG_WEIGHT_U8, FIELD_F16, false,
	{8, 16, 128, 6, {0, 0}, {3, 4, 5, 6, 7, 8, 9, 10},
	    {{{0, 0x07f807f8}}, {{24, 0x07f807f8}}}}},
    {HM_CONFIG_WEIGHT_U8, FIELD_S8, false,
	{8, 8, 128, 0, {128, 128}, {0, 1, 2, 3, 4, 5, 6, 7},
	    {{{0, 0xffffffff}}}}},
    {HM_CONFIG_WEIGHT_E2M1, FIELD_BF16, false,
	{4, 16, 0, 6, {0, 0}, {6, 7, 8, 15},
	    {{{0, 0x81c081c0}}, {{4, 0x81c081c0}},
		{{6, 0x80c080c0}, {14, 0x01000100}}, {{10, 0x81c081c0}}}}},
    {HM_CONFIG_WEIGHT_E2M1, FIELD_F16, false,
	{4, 16, 0, 6, {0, 0}, {9, 10, 11, 15},
	    {{{0, 0x8e008e00}}, {{3, 0x8e008e00}},
		{{6, 0x0e000e00}, {1, 0x80008000}},
		{{9, 0x0e000e00}, {2, 0x80008000}}}}},
    {HM_CONFIG_WEIGHT_E2M1, FIELD_FP8, false,
	{4, 8, 0, 6, {0, 0}, {2, 3, 4, 7},
	    {{{2, 0x9c9c9c9c}}, {{0, 0x98989898}, {4, 0x04040404}}}}},
    /* Magnitudes are selectors of prmt, a byte's every four bits. */
    {HM_CONFIG_WEIGHT_E2M1, FIELD_FP8, true,
	{4, 8, 0, 0, {0, 0}, {0, 1, 2, 7},
	    {{{0, 0x80808087}, {4, 0x00000700}, {8, 0x00070000},
		 {12, 0x07000000}},
		{{4, 0x80808080}, {16, 0x00000007}, {20, 0x00000700},
		    {24, 0x00070000}, {28, 0x07000000}}}}},
    {HM_CONFIG_WEIGHT_E4M3, FIELD_BF16, false,
	{8, 16, 0, 6, {0, 0}, {4, 5, 6, 7, 8, 9, 10, 15},
	    {{{0, 0x87f087f0}}, {{8, 0x07700770}, {4, 0x80808080}}}}},
    /* Pairs of bytes for cvt.f16x2.e4m3x2. */
    {HM_CONFIG_WEIGHT_E4M3, FIELD_F16, false,
	{8, 16, 0, 6, {0, 0}, {0, 1, 2, 3, 4, 5, 6, 7},
	    {{{0, 0x000000ff}, {8, 0x00ff0000}},
		{{16, 0x000000ff}, {24, 0x00ff0000}}}}},
    {HM_CONFIG_WEIGHT_E4M3, FIELD_FP8, false,
	{8, 8, 0, 0, {0, 0}, {0, 1, 2, 3, 4, 5, 6, 7}, {{{0, 0xffffffff}}}}},
};

static enum field_class
field_class(uint32_t act)
{
	switch (act) {
	case HM_CONFIG_ACT_BF16:
		return FIELD_BF16;
	case HM_CONFIG_ACT_F16:
		return FIELD_F16;
	case HM_CONFIG_ACT_S8:
		return FIELD_S8;
	default: /* e4m3 and e5m2 */
		return FIELD_FP8;
	}
}

const struct hm_field *
hm_field_find(uint32_t weight, uint32_t act, bool mx)
{
	size_t n = sizeof field_rows / sizeof field_rows[0];

	for (size_t i = 0; i < n; i++) {
		const struct field_row *row = &field_rows[i];

		if (row->weight == weight && row->class == field_class(act) &&
		    row->mx == mx)
			return &row->field;
	}
	return NULL;
}

struct hm_field_place
hm_field_locate(const struct hm_field *field, uint32_t row, uint32_t column)
{
	/* W = 2^w of the header, 2^s slots: a matrix has millions of these. */
	uint32_t w = field->value_bits == 16 ? 1 : 2;
	uint32_t s = field->bits == 8 ? 2 - w : 3 - w;
	uint32_t unit = 128 * field->bits; /* bytes of a row tile and half */
	uint32_t k = column & 63;
	uint32_t i = (row >> 3 & 1) + 2 * (k >> (2 + w) & 1);
	uint32_t in_register = 4 * (k >> (3 + w)) + i;
	uint32_t lane = (row & 7) * 4 + (k >> w & 3);
	uint32_t word = in_register >> s;

	return (struct hm_field_place){
	    .byte = (4 * (column >> 6) + (row >> 4)) * unit +
		    (word >> 2) * 512 + lane * 16 + (word & 3) * 4,
	    .slot = in_register & ((1u << s) - 1),
	    .value = k & ((1u << w) - 1),
	};
}

static uint32_t
field_rotate_left(uint32_t word, uint32_t n)
{
	return n != 0 ? word << n | word >> (32 - n) : word;
}

uint32_t
hm_field_put(const struct hm_field *field, const struct hm_field_place *place,
    uint32_t code)
{
	uint32_t in_register = 0;
	uint32_t word = 0;

	code ^= field->flips[code >> (field->bits - 1) & 1];
	for (uint32_t b = 0; b < field->bits; b++)
		in_register |=
		    (code >> b & 1)
		    << (place->value * field->value_bits + field->places[b]);
	for (uint32_t i = 0; i < HM_FIELD_PARTS; i++) {
		const struct hm_field_part *part =
		    &field->parts[place->slot][i];

		word |= field_rotate_left(in_register & part->mask,
		    (32 - part->rotation) % 32);
	}
	return word;
}

uint32_t
hm_field_get(const struct hm_field *field, const struct hm_field_place *place,
    uint32_t word)
{
	uint32_t in_register = 0;
	uint32_t code = 0;
	uint32_t high = 0;

	for (uint32_t i = 0; i < HM_FIELD_PARTS; i++) {
		const struct hm_field_part *part =
		    &field->parts[place->slot][i];

		in_register |=
		    field_rotate_left(word, part->rotation) & part->mask;
	}
	for (uint32_t b = 0; b < field->bits; b++)
		code |= (in_register >> (place->value * field->value_bits +
					    field->places[b]) &
			    1)
			<< b;
	/* Both flips treat the highest bit alike. */
	high = (code ^ field->flips[0]) >> (field->bits - 1) & 1;
	return code ^ field->flips[high];
}
