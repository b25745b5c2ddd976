/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_reference.c - what a GEMM must compute, in plain C and double precision.
 *
 *     C[m][n] = sum over k ascending of A[m][k] * W[n][k]   + bias[n]
 *     W[n][k] = (code[n][k] - z[n][k / group]) * s[n][k / group]
 *     z = 8 without zero points
 *
 * From the plain codes and the exact scales, never from packed bytes: a wrong
 * packer must show. Products of a 16-bit A, a code and a scale are exact in
 * double; sums round at 2^-53.
 */
#include "client/gemm_error.h"
#include "client/number.h"
#include "client/weight.h"

static void
reference_row(const struct hm_weight *weight, uint32_t n,
    const struct humming_gemm_reference_args *args)
{
	const struct humming_weight_source *source = &weight->source;
	double bias = source->bias != NULL ? (double)source->bias[n] : 0.0;

	for (uint32_t m = 0; m < args->m; m++)
		args->c_out[(size_t)m * args->ldc + n] = 0;
	for (uint32_t k = 0; k < source->k; k++) {
		uint32_t group = k / weight->group;
		double value = hm_weight_code(weight, n, k) -
			       hm_weight_zero(weight, n, group);

		value *= hm_weight_scale(weight, n, group);
		for (uint32_t m = 0; m < args->m; m++)
			args->c_out[(size_t)m * args->ldc + n] +=
			    value * hm_number_at(source->a_type, args->a,
					(size_t)m * args->lda + k);
	}
	for (uint32_t m = 0; m < args->m; m++)
		args->c_out[(size_t)m * args->ldc + n] += bias;
}

int
humming_gemm_reference(const struct humming_weight_source *source,
    const struct humming_gemm_reference_args *args)
{
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
	for (uint32_t n = 0; n < weight.source.n; n++)
		reference_row(&weight, n, args);
	return HM_OK;
}
