/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cublas.h - GEMMs of cuBLAS and cuBLASLt, found at run time, to measure beside
 * ours.
 */
#ifndef HM_TESTS_GPU_CUBLAS_H
#define HM_TESTS_GPU_CUBLAS_H

#include <stdbool.h>
#include <stdint.h>

/* Load the libraries and make handles. False when there are none. */
bool cublas_open(void *stream);

enum cublas_kind {
	CUBLAS_BF16,     /* bf16 in and out, fp32 sums: cuBLAS */
	CUBLAS_FP8_FAST, /* e4m3 in, bf16 out, fast accumulation: cuBLASLt */
	CUBLAS_FP8,      /* the same without */
	CUBLAS_S8        /* s8 in, s32 out: cuBLASLt */
};
const char *cublas_name(enum cublas_kind kind);

/* C[m][n] = A[m][k] * W[n][k]^T on the opened stream; may be captured. The
 * scales of fp8 are one per matrix and 1. */
struct cublas_gemm {
	enum cublas_kind kind;
	uint32_t m, n, k;
	const void *d_a, *d_w;
	void *d_c; /* m * n elements of up to 4 bytes */
};

/* False when the library has no algorithm for it. */
bool cublas_enqueue(const struct cublas_gemm *gemm);

#endif
