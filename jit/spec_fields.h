/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_fields.h - the fields of a SPEC as data: shared by the parser and the
 * printer in spec.c and by the rules in spec_check.c, nobody else.
 */
#ifndef HM_JIT_SPEC_FIELDS_H
#define HM_JIT_SPEC_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/request.h"

/* A word and the number that stands for it in a request. */
struct hm_spec_word {
	const char *name; /* NULL ends a list */
	uint32_t value;
};

enum hm_spec_form {
	HM_SPEC_TYPE,   /* the name of a numeric type */
	HM_SPEC_NUMBER, /* decimal, up to most */
	HM_SPEC_WORD,   /* one of words */
	HM_SPEC_GROUP,  /* a power of two; sets the kind of scale too */
	HM_SPEC_SCALE,  /* one of words; sets the kind of scale */
	HM_SPEC_BLOCK,  /* RxC; sets the kind of scale too */
	HM_SPEC_ACT     /* one of words, or a group size */
};

struct hm_spec_field {
	const char *name;
	size_t offset; /* of the uint32_t in struct hm_request */
	const struct hm_spec_word *words;
	const char *takes; /* for messages */
	enum hm_spec_form form;
	uint32_t most;
};

/* In canonical order; all but the operation, which has no '='. */
extern const struct hm_spec_field hm_spec_fields[];
extern const size_t hm_spec_n_fields;
extern const struct hm_spec_word hm_spec_operations[];

struct hm_spec_shorthand {
	const char *name;
	const char *fields;
};

extern const struct hm_spec_shorthand hm_spec_shorthands[]; /* NULL name ends */

/* Largest sizes that a request may name. */
#define HM_SPEC_MAX_SIZE    (1u << 24)
#define HM_SPEC_MAX_EXPERTS 65536u
#define HM_SPEC_MAX_TOPK    1024u
#define HM_SPEC_MAX_SMS     4096u
#define HM_SPEC_MAX_GROUP   65536u

#endif
