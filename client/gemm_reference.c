/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_reference.c - what a GEMM must compute, in plain C and double precision.
 *
 *     C[m][n] = sum over k ascending of A[m][k] * W[n][k]   + bias[n]
 *     W[n][k] = w[n][k] * s[n][k / group]    w = code - zero point, or a float
 *     A[m][k] = a[m][k], times a_scale[m][k / 128] for 8-bit activations
 *
 * From the plain codes and the exact scales, never from packed bytes: a wrong
 * packer must show. Products of a value of A, a code and a scale of at most 16
 * bits are exact in double, float scales round them at 2^-53 as sums do.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "client/gemm_error.h"
#include "client/number.h"
#include "client/weight.h"

#define REFERENCE_ACT_GROUP 128u

/* What the loops need, as double: [m][k] activations with their scales, and
 * one row of weights. */
struct reference_operands {
	double *activations; /* owned, like the row */
	double *row;
};

static void
reference_decode(const struct hm_weight *weight,
    const struct humming_gemm_reference_args *args, double *activations)
{
	uint32_t type = weight->source.a_type;
	uint32_t k = weight->source.k;
	bool scaled = hm_number_bytes(type) == 1 && args->a_scale != NULL;

	for (uint32_t m = 0; m < args->m; m++) {
		for (uint32_t i = 0; i < k; i++) {
			double value = hm_number_at(type, args->a,
			    (size_t)m * args->lda + i);

			if (scaled)
				value *=
				    (double)args->a_scale
					[(size_t)m * args->a_scale_step +
					    (size_t)(i / REFERENCE_ACT_GROUP) *
						args->a_scale_group_step];
			activations[(size_t)m * k + i] = value;
		}
	}
}

static void
reference_row(const struct hm_weight *weight, uint32_t n,
    const struct humming_gemm_reference_args *args,
    const struct reference_operands *operands)
{
	const struct humming_weight_source *source = &weight->source;
	double bias = source->bias != NULL ? (double)source->bias[n] : 0.0;

	for (uint32_t k = 0; k < source->k; k++)
		operands->row[k] =
		    hm_weight_value(weight, n, k) *
		    hm_weight_scale(weight, n, k / weight->group);
	for (uint32_t m = 0; m < args->m; m++) {
		const double *a = operands->activations + (size_t)m * source->k;
		double sum = 0;

		for (uint32_t k = 0; k < source->k; k++)
			sum += a[k] * operands->row[k];
		args->c_out[(size_t)m * args->ldc + n] = sum + bias;
	}
}

int
humming_gemm_reference(const struct humming_weight_source *source,
    const struct humming_gemm_reference_args *args)
{
	struct reference_operands operands = {NULL, NULL};
	struct hm_weight weight;
	int error = hm_weight_describe_full(source, &weight);

	if (error != HM_OK)
		return error;
	if (args == NULL || args->lda < weight.source.k ||
	    args->ldc < weight.source.n ||
	    (args->m != 0 && (args->a == NULL || args->c_out == NULL))) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "reference: a or c is missing, lda < k or ldc < n");
		return HM_E_INVALID;
	}
	if (args->m == 0)
		return HM_OK;
	operands.activations =
	    calloc((size_t)args->m * weight.source.k, sizeof(double));
	operands.row = calloc(weight.source.k, sizeof(double));
	if (operands.activations == NULL || operands.row == NULL) {
		hm_errbuf_set(hm_gemm_errbuf(),
		    "reference: no memory for %u x %u activations", args->m,
		    weight.source.k);
		error = HM_E_NOMEM;
	} else {
		reference_decode(&weight, args, operands.activations);
		for (uint32_t n = 0; n < weight.source.n; n++)
			reference_row(&weight, n, args, &operands);
	}
	free(operands.activations);
	free(operands.row);
	return error;
}
