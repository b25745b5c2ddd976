/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weight_field.h - where the bits of a code lie among the packed codes.
 *
 * The codes of a chunk (64 rows by 128 k) are
 *
 *     [half 0..1][row tile 0..3][piece][lane 0..31][16 bytes]
 *
 * with one piece of four words a lane for codes of 4 bits, two for 8 bits. A
 * half is 64 k, a row tile 16 rows. Lane (g, t) = (lane / 4, lane % 4) owns,
 * per half, the registers 4 * j + i of the A fragments of its k steps j
 * (KERNELS.md 3.1): W = 2 values each for 16-bit activations and k steps of
 * 16, W = 4 for 8-bit ones and steps of 32, value v of which is
 *
 *     row  g + 8 * (i & 1)
 *     k    8 * W * j + 4 * W * (i >> 1) + W * t + v
 *
 * As many registers share a word as it holds codes of: the slots of the word.
 * A kernel gets the register of a slot as
 *
 *     sum over the slot's parts of  rotate_left(word, rotation) & mask
 *
 * and finds bit b of a code at bit places[b] of the value's 16 or 8 bits. The
 * table in weight_field.c is that of KERNELS.md 4; packing is its inverse.
 */
#ifndef HM_CLIENT_WEIGHT_FIELD_H
#define HM_CLIENT_WEIGHT_FIELD_H

#include <stdbool.h>
#include <stdint.h>

#define HM_FIELD_SLOTS 4u
#define HM_FIELD_PARTS 5u

struct hm_field_part {
	uint32_t rotation; /* to the left */
	uint32_t mask;     /* 0 ends a list */
};

struct hm_field {
	uint32_t bits;       /* of a code: 4 or 8 */
	uint32_t value_bits; /* of a value in its register: 16 or 8 */
	uint32_t zero;       /* the code that means zero */
	int factor;          /* rowmul carries 2^factor back: the operand is
	                      * the value times 2^-factor */
	uint32_t flips[2];   /* a code is XORed with one of these before it is
	                      * placed, by its highest bit */
	uint8_t places[8];   /* of the bits of a code inside a value */
	struct hm_field_part parts[HM_FIELD_SLOTS][HM_FIELD_PARTS];
};

/* Where one weight lives. */
struct hm_field_place {
	uint32_t byte;  /* of its word, from the start of the chunk */
	uint32_t slot;  /* of the word */
	uint32_t value; /* of the register: 0..1 or 0..3 */
};

/**
 * The format of a pair of types.
 *
 * weight, act  enum hm_config_weight and hm_config_act; both fp8 types of act
 *              have one format
 * mx           the scales are folded into the operands (HM_CONFIG_SCALE_MX)
 *
 * Returns static data, or NULL when no kernel multiplies these.
 */
const struct hm_field *hm_field_find(uint32_t weight, uint32_t act, bool mx);

/* row 0..63 and column 0..127 of a chunk. */
struct hm_field_place hm_field_locate(const struct hm_field *field,
    uint32_t row, uint32_t column);

/* The bits that a code sets in its word. */
uint32_t hm_field_put(const struct hm_field *field,
    const struct hm_field_place *place, uint32_t code);

/* The code back from its word. */
uint32_t hm_field_get(const struct hm_field *field,
    const struct hm_field_place *place, uint32_t word);

#endif
