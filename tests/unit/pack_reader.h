/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack_reader.h - packed weights read the way the GPU does, for tests.
 *
 * The masks, rotations and tables of KERNELS.md 4, written out in plain C, lane
 * by lane: they share nothing with client/weight_field.c, which writes from a
 * table.
 */
#ifndef HM_TESTS_PACK_READER_H
#define HM_TESTS_PACK_READER_H

#include <stdint.h>

#include <humming/gemm.h>

#define BF16 HUMMING_TYPE_BF16
#define F16  HUMMING_TYPE_F16
#define F32  HUMMING_TYPE_F32
#define E4M3 HUMMING_TYPE_E4M3
#define E5M2 HUMMING_TYPE_E5M2
#define E2M1 HUMMING_TYPE_E2M1
#define E8M0 HUMMING_TYPE_E8M0
#define S8   HUMMING_TYPE_SINT(8)
#define U4   HUMMING_TYPE_UINT(4)
#define U8   HUMMING_TYPE_UINT(8)

struct pack_format {
	uint32_t a_type, w_type;
	uint32_t scale_kind, group, scale_type, mx_exact;
	/* what the kernels are built with */
	uint32_t act, weight, scale, line_group;
	double factor; /* of rowmul */
};

/* 2^exponent. */
double pack_reader_power(int exponent);

/* What a code means, from the type's definition. */
double pack_reader_value(uint32_t w_type, uint32_t code);

/* The operand of the tensor cores times the scale of its line, for every row
 * and k of a chunk: the weight without the row's rowmul. */
void pack_reader_chunk(const struct pack_format *format, const uint8_t *chunk,
    double (*weights)[128]);

#endif
