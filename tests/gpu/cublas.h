/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cublas.h - a bf16 GEMM of cuBLAS, found at run time, to measure beside ours.
 */
#ifndef HM_TESTS_GPU_CUBLAS_H
#define HM_TESTS_GPU_CUBLAS_H

#include <stdbool.h>
#include <stdint.h>

/* Load the library and make a handle. False when there is none. */
bool cublas_open(void *stream);

/* C[m][n] = A[m][k] * W[n][k]^T, bf16, fp32 sums, on the opened stream; may be
 * captured. */
struct cublas_gemm {
	uint32_t m, n, k;
	const void *d_a, *d_w;
	void *d_c;
};
bool cublas_enqueue(const struct cublas_gemm *gemm);

#endif
