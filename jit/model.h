/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - from a Hugging Face config.json to the requests it leads to.
 *
 * Pure but for hm_model_load, which reads one file. What is derived and how is
 * DESIGN.md section 5's last paragraph.
 */
#ifndef HM_JIT_MODEL_H
#define HM_JIT_MODEL_H

#include <stddef.h>

#include "proto/error.h"
#include "proto/request.h"

#define HM_MODEL_MAX_LAYERS 32

struct hm_model_options {
	uint32_t tensor_parallel; /* 0 = 1 */
	uint32_t expert_parallel; /* 0 = 1 */
	const char *quant; /* SPEC shorthand or "experts=Q,dense=Q"; NULL = the
	                    * checkpoint's own */
};

/* One linear layer type of the model, after slicing; or, behind them and named
 * "quant", what quantizes the 8-bit activations of a width k (n = 0). */
struct hm_model_layer {
	char name
	    [32]; /* "qkv_proj", "o_proj", "gate_up_proj", "down_proj", ...*/
	struct hm_request request; /* types, n, k; target and m are 0 */
};

struct hm_model {
	char name[64]; /* architecture */
	size_t n_layers;
	struct hm_model_layer layers[HM_MODEL_MAX_LAYERS];
};

/**
 * path     config.json, or a folder that holds one
 *
 * Returns HM_OK; HM_E_INVALID (not JSON, fields missing or senseless, sizes
 * not divisible by the parallel degrees, no quantization given nor found, an
 * option that contradicts itself or the model); HM_E_UNSUPPORTED (an
 * architecture or a quantization we do not know); HM_E_SYSTEM (cannot be
 * read); reason in errbuf, with the path unless the options are to blame.
 */
int hm_model_load(const char *path, const struct hm_model_options *options,
    struct hm_model *model_out, struct hm_errbuf *errbuf);

/* The same from text; label stands for the path in messages. */
int hm_model_parse(const char *text, size_t n_text, const char *label,
    const struct hm_model_options *options, struct hm_model *model_out,
    struct hm_errbuf *errbuf);

#endif
