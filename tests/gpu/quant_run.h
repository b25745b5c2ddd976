/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_run.h - the quantization kernel in front of a GEMM: which one a format
 * needs, and one launch of it.
 */
#ifndef HM_TESTS_GPU_QUANT_RUN_H
#define HM_TESTS_GPU_QUANT_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels.h"
#include "problem.h"
#include "session.h"

/* The configuration that makes a format's activations from 16-bit ones of its
 * output's type; false and a note when the plan has none. */
bool quant_config(const struct session *session, const struct format *format,
    struct hm_config *config_out);

struct quant_run {
	const struct hm_driver *driver;
	const struct kernel *kernel; /* of quant_config */
	uint32_t sms;
	const void *d_x;                 /* [m][q->k], tight */
	const struct ops_activations *q; /* where its values and scales go */
	uint32_t m;
	bool pdl;
	void *stream;
};

/* One launch. Returns HM_OK, or why there was none, reason in
 * hm_gemm_errbuf. */
int quant_launch(const struct quant_run *run);

#endif
