/* SPDX-License-Identifier: Apache-2.0 */
/*
 * type.c - names of numeric types.
 *
 * Three names stand for wide floats and e8m0 for an exponent without a sign;
 * every other name spells its own bits, so there is no table of them.
 */
#include "jit/type.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "proto/error.h"
#include "proto/request.h"

static const struct {
	const char *name;
	uint32_t type;
} type_names[] = {
    {"bf16", HM_TYPE_BF16},
    {"f16", HM_TYPE_F16},
    {"f32", HM_TYPE_F32},
    {"e8m0", HM_TYPE_E8M0},
};

#define N_NAMES (sizeof(type_names) / sizeof(type_names[0]))

static bool
type_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A float of at most 8 bits with its sign; an exponent is what makes it one. */
static bool
type_is_small_float(uint32_t exponent_bits, uint32_t mantissa_bits)
{
	return exponent_bits >= 1 && exponent_bits <= 7 &&
	       1 + exponent_bits + mantissa_bits <= 8;
}

int
hm_type_parse(const char *text, uint32_t *type_out)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < N_NAMES; i++) {
		if (strcmp(text, type_names[i].name) != 0)
			continue;
		*type_out = type_names[i].type;
		return HM_OK;
	}
	if (n == 2 && (text[0] == 'u' || text[0] == 's') && text[1] >= '1' &&
	    text[1] <= '8') {
		uint32_t bits = (uint32_t)(text[1] - '0');

		*type_out =
		    text[0] == 'u' ? HM_TYPE_UINT(bits) : HM_TYPE_SINT(bits);
		return HM_OK;
	}
	if (n == 4 && text[0] == 'e' && text[2] == 'm' &&
	    type_is_digit(text[1]) && type_is_digit(text[3])) {
		uint32_t exponent_bits = (uint32_t)(text[1] - '0');
		uint32_t mantissa_bits = (uint32_t)(text[3] - '0');

		if (!type_is_small_float(exponent_bits, mantissa_bits))
			return HM_E_INVALID;
		*type_out =
		    HM_TYPE(HM_KIND_FLOAT, exponent_bits, mantissa_bits);
		return HM_OK;
	}
	return HM_E_INVALID;
}

void
hm_type_print(uint32_t type, char text_out[HM_TYPE_CHARS])
{
	uint32_t exponent_bits = HM_TYPE_EXPONENT(type);
	uint32_t mantissa_bits = HM_TYPE_MANTISSA(type);

	for (size_t i = 0; i < N_NAMES; i++) {
		if (type != type_names[i].type)
			continue;
		(void)snprintf(text_out, HM_TYPE_CHARS, "%s",
		    type_names[i].name);
		return;
	}
	if (hm_type_is_int(type))
		(void)snprintf(text_out, HM_TYPE_CHARS, "%c%u",
		    HM_TYPE_KIND(type) == HM_KIND_UINT ? 'u' : 's',
		    mantissa_bits);
	else if (hm_type_is_valid(type))
		(void)snprintf(text_out, HM_TYPE_CHARS, "e%um%u", exponent_bits,
		    mantissa_bits);
	else
		(void)snprintf(text_out, HM_TYPE_CHARS, "?");
}

bool
hm_type_is_valid(uint32_t type)
{
	for (size_t i = 0; i < N_NAMES; i++) {
		if (type == type_names[i].type)
			return true;
	}
	if (hm_type_is_int(type))
		return true;
	return HM_TYPE_KIND(type) == HM_KIND_FLOAT &&
	       type_is_small_float(HM_TYPE_EXPONENT(type),
		   HM_TYPE_MANTISSA(type));
}

bool
hm_type_is_int(uint32_t type)
{
	uint32_t kind = HM_TYPE_KIND(type);

	return (kind == HM_KIND_UINT || kind == HM_KIND_SINT) &&
	       HM_TYPE_EXPONENT(type) == 0 && HM_TYPE_MANTISSA(type) >= 1 &&
	       HM_TYPE_MANTISSA(type) <= 8;
}

uint32_t
hm_type_bits(uint32_t type)
{
	if (!hm_type_is_valid(type))
		return 0;
	if (HM_TYPE_KIND(type) == HM_KIND_FLOAT)
		return 1 + HM_TYPE_EXPONENT(type) + HM_TYPE_MANTISSA(type);
	return HM_TYPE_EXPONENT(type) + HM_TYPE_MANTISSA(type);
}
