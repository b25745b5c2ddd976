/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.h - the text form of a kernel request: one parser, one printer, and the
 * rules that say which combinations make sense (DESIGN.md section 5).
 *
 * hm_spec_check says what can ever be right; whether this build has a kernel
 * for it is jit/plan's answer (HM_E_UNSUPPORTED).
 */
#ifndef HM_JIT_SPEC_H
#define HM_JIT_SPEC_H

#include <stddef.h>

#include "proto/error.h"
#include "proto/request.h"

#define HM_SPEC_MAX_CHARS 255

/* All zero, with the defaults of the gemm operation filled in. */
void hm_spec_init(struct hm_request *request);

/**
 * Put the default in place of every 0 that stands for one: operation gemm; a
 * bf16; c as a when that has 16 bits, else bf16; stype as c; act token for
 * 8- and 4-bit activations; acc f32. An sN weight becomes the uN it is packed
 * as. What is set stays; sizes and sms that are not given stay 0.
 *
 * All functions of jit/ that take a request do this on a copy of their own.
 */
void hm_spec_complete(struct hm_request *request);

/**
 * Parse a SPEC such as "w4a16,m=1,n=8192,k=8192" or
 * "moe-indexed,mxfp4a8,experts=256". Checks with hm_spec_check.
 *
 * An operation stands first, a shorthand first or behind the operation; fields
 * follow in any order, each once, and override what a shorthand says.
 *
 * request_out  defaults filled in; target is not part of a SPEC and stays 0;
 *              untouched on failure
 * errbuf       on failure one line that names the field and what it takes
 *
 * Returns HM_OK or HM_E_INVALID.
 */
int hm_spec_parse(const char *text, struct hm_request *request_out,
    struct hm_errbuf *errbuf);

/**
 * Print the canonical form: DESIGN.md's field order, defaults left out, sN
 * weights as uN. parse(print(x)) equals x, print(parse(print(x))) is the same
 * text. HM_SPEC_MAX_CHARS + 1 bytes hold every legal request.
 *
 * Returns HM_OK or HM_E_INVALID (size too small, or a number without a name).
 */
int hm_spec_print(const struct hm_request *request, char *text, size_t size);

/**
 * Refuse what can never be right: an INT6 weight on fp8 activations, a scale
 * kind that contradicts itself, a zero point on a float type, ... Of the target
 * only the form is looked at.
 * Returns HM_OK, or HM_E_INVALID with the reason in errbuf.
 */
int hm_spec_check(const struct hm_request *request, struct hm_errbuf *errbuf);

/* "sm_90a" (also "90a") to numbers and back. Parse only checks the form: two or
 * three digits, optional 'a' or 'f'. HM_OK or HM_E_INVALID. */
int hm_target_parse(const char *text, struct hm_target *target_out,
    struct hm_errbuf *errbuf);
void hm_target_print(const struct hm_target *target, char text_out[16]);

#endif
