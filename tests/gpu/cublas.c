/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cublas.c - three functions of libcublas by dlopen, with declarations of our
 * own (cublas_api.h, CUDA 12 and 13).
 */
#include "cublas.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "device_ops.h"

#define CUBLAS_OP_N        0
#define CUBLAS_OP_T        1
#define CUBLAS_TYPE_BF16   14 /* cudaDataType CUDA_R_16BF */
#define CUBLAS_COMPUTE_F32 68
#define CUBLAS_ALGORITHM   (-1)
#define CUBLAS_WORKSPACE   (64u << 20)

static int (*cublas_create)(void **handle);
static int (*cublas_set_stream)(void *handle, void *stream);
static int (*cublas_set_workspace)(void *handle, void *memory, size_t size);
static int (*cublas_gemm)(void *handle, int op_a, int op_b, int m, int n, int k,
    const void *alpha, const void *a, int type_a, int lda, const void *b,
    int type_b, int ldb, const void *beta, void *c, int type_c, int ldc,
    int compute, int algorithm);
static void *cublas_handle;

static bool
cublas_find(void *library, const char *name, void *function_out)
{
	void *address = dlsym(library, name);

	memcpy(function_out, &address, sizeof address);
	return address != NULL;
}

bool
cublas_open(void *stream)
{
	static const char *const names[] = {
	    "libcublas.so.13",
	    "/usr/local/cuda/lib64/libcublas.so.13",
	    "libcublas.so.12",
	    "libcublas.so",
	};
	void *library = NULL;

	for (size_t i = 0; library == NULL && i < 4; i++)
		library = dlopen(names[i], RTLD_NOW);
	return library != NULL &&
	       cublas_find(library, "cublasCreate_v2", &cublas_create) &&
	       cublas_find(library, "cublasSetStream_v2", &cublas_set_stream) &&
	       cublas_find(library, "cublasSetWorkspace_v2",
		   &cublas_set_workspace) &&
	       cublas_find(library, "cublasGemmEx", &cublas_gemm) &&
	       cublas_create(&cublas_handle) == 0 &&
	       cublas_set_stream(cublas_handle, stream) == 0 &&
	       cublas_set_workspace(cublas_handle, ops_alloc(CUBLAS_WORKSPACE),
		   CUBLAS_WORKSPACE) == 0;
}

bool
cublas_enqueue(const struct cublas_gemm *gemm)
{
	const float one = 1, zero = 0;
	int m = (int)gemm->m, n = (int)gemm->n, k = (int)gemm->k;

	/* cuBLAS counts columns first: its C is our C transposed. */
	return cublas_gemm(cublas_handle, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k,
		   &one, gemm->d_w, CUBLAS_TYPE_BF16, k, gemm->d_a,
		   CUBLAS_TYPE_BF16, k, &zero, gemm->d_c, CUBLAS_TYPE_BF16, n,
		   CUBLAS_COMPUTE_F32, CUBLAS_ALGORITHM) == 0;
}
