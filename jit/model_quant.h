/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_quant.h - which SPEC a layer of a model gets: what its config.json says
 * of the weights, what --quant adds or overrides. Used by model.c alone.
 */
#ifndef HM_JIT_MODEL_QUANT_H
#define HM_JIT_MODEL_QUANT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "jit/spec.h"
#include "proto/error.h"
#include "proto/request.h"

enum hm_model_class {
	HM_MODEL_DENSE = 0, /* attention, dense and shared MLP */
	HM_MODEL_EXPERTS = 1,
	HM_MODEL_N_CLASSES = 2
};

/* A linear layer: what it is called here and in the checkpoint. */
struct hm_model_place {
	const char *name;
	const char *operation; /* as in a SPEC: "gemm", "moe-indexed" */
	enum hm_model_class class;
	/* The checkpoint's modules, NULL at the end; N = the layer's number. */
	const char *modules[4];
};

/* The weights of a class in the checkpoint, and what goes with them. */
struct hm_model_weights {
	char text[64];    /* fields of a SPEC; "" = 16 bits in the checkpoint */
	char act_type[8]; /* "e4m3"; "" = the model's 16-bit type */
	char act[16];     /* scale of such activations: "token", "128" */
	bool blocked;     /* act follows the block, whatever --quant says */
};

struct hm_model_quant {
	struct hm_model_weights weights[HM_MODEL_N_CLASSES];
	/* From --quant; "" = not given. */
	char all[HM_SPEC_MAX_CHARS + 1];
	char own[HM_MODEL_N_CLASSES][HM_SPEC_MAX_CHARS + 1];
	const json_t *skipped; /* borrowed array of module names, or NULL */
	bool quantized;        /* the checkpoint says something */
	char wide[8];          /* the model's 16-bit type: "bf16" or "f16" */
};

/**
 * Read --quant alone. What the model decides (sizes, experts, the operation) is
 * refused in it.
 *
 * quant_out  set whole on success
 * quant      NULL = none
 *
 * Returns HM_OK, or HM_E_INVALID with the reason in errbuf, "--quant" first.
 */
int hm_model_quant_ask(struct hm_model_quant *quant_out, const char *quant,
    struct hm_errbuf *errbuf);

/**
 * Add quantization_config, expert_dtype and torch_dtype of a model.
 *
 * quant   of hm_model_quant_ask; of no use on failure
 * config  the whole config.json; borrowed until the quant is no longer used
 *
 * Returns HM_OK, HM_E_INVALID or HM_E_UNSUPPORTED (a method or a form of one
 * that we do not know and that --quant does not override), reason in errbuf.
 */
int hm_model_quant_read(struct hm_model_quant *quant, const json_t *config,
    struct hm_errbuf *errbuf);

/**
 * The request of one layer, without sizes.
 *
 * planned_out  false: the layer stays 16-bit, request_out is untouched
 *
 * Returns HM_OK, or HM_E_INVALID with the reason in errbuf.
 */
int hm_model_quant_request(const struct hm_model_quant *quant,
    const struct hm_model_place *place, struct hm_request *request_out,
    bool *planned_out, struct hm_errbuf *errbuf);

#endif
