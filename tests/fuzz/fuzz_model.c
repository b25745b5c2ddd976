/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_model.c - a model's config.json, which comes from a stranger's folder.
 *
 * Promises: it is refused with a reason, or every layer is a request that
 * hm_spec_check takes, with a name and with N and K.
 */
#include <string.h>

#include "fuzz.h"
#include "jit/model.h"
#include "jit/spec.h"

void
fuzz_one(const uint8_t *data, size_t size)
{
	static const struct hm_model_options options[] = {{.quant = NULL},
	    {.quant = "w4a16", .tensor_parallel = 2},
	    {.quant = "experts=mxfp4a8,dense=fp8block", .expert_parallel = 4}};
	static struct hm_model model;
	struct hm_errbuf errbuf = {.text = ""};

	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
		if (hm_model_parse((const char *)data, size, "config.json",
			&options[i], &model, &errbuf) != HM_OK) {
			fuzz_require(errbuf.text[0] != '\0');
			continue;
		}
		fuzz_require(model.n_layers > 0);
		fuzz_require(model.n_layers <= HM_MODEL_MAX_LAYERS);
		for (size_t l = 0; l < model.n_layers; l++) {
			const struct hm_request *request =
			    &model.layers[l].request;

			fuzz_require(model.layers[l].name[0] != '\0');
			/* What quantizes has a width alone. */
			fuzz_require(
			    (request->n > 0) !=
			    (request->operation == HM_OPERATION_QUANT));
			fuzz_require(request->k > 0);
			fuzz_require(hm_spec_check(request, NULL) == HM_OK);
		}
	}
}
