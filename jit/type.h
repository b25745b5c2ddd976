/* SPDX-License-Identifier: Apache-2.0 */
/*
 * type.h - the names of numeric types: "bf16", "u4", "e2m1", ...
 *
 * proto/request.h says how a type is a number; here is its text and what its
 * bits are. Pure.
 */
#ifndef HM_JIT_TYPE_H
#define HM_JIT_TYPE_H

#include <stdbool.h>
#include <stdint.h>

/* Room for the name of any type and a NUL. */
#define HM_TYPE_CHARS 16

/**
 * Read a name: bf16 f16 f32 e8m0, u1..u8, s1..s8, or eXmY with X >= 1 and at
 * most 8 bits, the sign included.
 *
 * Any thread. Returns HM_OK or HM_E_INVALID (type_out untouched).
 */
int hm_type_parse(const char *text, uint32_t *type_out);

/* Name of a type, "?" for a number that hm_type_parse cannot give. */
void hm_type_print(uint32_t type, char text_out[HM_TYPE_CHARS]);

/* Whether hm_type_parse can give this number. */
bool hm_type_is_valid(uint32_t type);

/* uN or sN. */
bool hm_type_is_int(uint32_t type);

/* All bits, the sign included; 0 for a number that is no type. */
uint32_t hm_type_bits(uint32_t type);

#endif
