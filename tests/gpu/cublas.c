/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cublas.c - three functions of libcublas and eight of libcublasLt by dlopen,
 * with declarations of our own (cublas_api.h and cublasLt.h, CUDA 12 and 13).
 *
 * Both count columns first: their C is our C transposed, so the weights are
 * their A, transposed, and m is our n. cuBLASLt's first choice is taken, as
 * torch does.
 */
#include "cublas.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "device_ops.h"

#define CUBLAS_OP_N      0
#define CUBLAS_OP_T      1
#define CUBLAS_ALGORITHM (-1)
#define CUBLAS_WORKSPACE (64u << 20)

/* cudaDataType and cublasComputeType_t */
#define CUBLAS_R_32F       0
#define CUBLAS_R_8I        3
#define CUBLAS_R_32I       10
#define CUBLAS_R_16BF      14
#define CUBLAS_R_8F_E4M3   28
#define CUBLAS_COMPUTE_F32 68
#define CUBLAS_COMPUTE_I32 72

/* cublasLtMatmulDescAttributes_t, cublasLtMatmulPreferenceAttributes_t */
#define LT_DESC_TRANSA        3
#define LT_DESC_A_SCALE       17
#define LT_DESC_B_SCALE       18
#define LT_DESC_FAST_ACCUM    25
#define LT_PREF_MAX_WORKSPACE 1

/* cublasLtMatmulHeuristicResult_t */
struct lt_choice {
	uint64_t algorithm[8];
	size_t workspace;
	int status;
	float waves;
	int reserved[4];
};

static struct {
	int (*create)(void **handle);
	int (*set_stream)(void *handle, void *stream);
	int (*set_workspace)(void *handle, void *memory, size_t size);
	int (*gemm)(void *handle, int op_a, int op_b, int m, int n, int k,
	    const void *alpha, const void *a, int type_a, int lda,
	    const void *b, int type_b, int ldb, const void *beta, void *c,
	    int type_c, int ldc, int compute, int algorithm);
	void *handle;
} cublas;

static struct {
	int (*create)(void **handle);
	int (*desc_create)(void **desc, int compute, int scale_type);
	int (*desc_set)(void *desc, int attribute, const void *value,
	    size_t size);
	int (*layout_create)(void **layout, int type, uint64_t rows,
	    uint64_t columns, int64_t ld);
	int (*pref_create)(void **pref);
	int (*pref_set)(void *pref, int attribute, const void *value,
	    size_t size);
	int (*choose)(void *handle, void *desc, void *a, void *b, void *c,
	    void *d, void *pref, int n_wanted, struct lt_choice *choices,
	    int *n_out);
	int (*matmul)(void *handle, void *desc, const void *alpha,
	    const void *a, void *a_layout, const void *b, void *b_layout,
	    const void *beta, const void *c, void *c_layout, void *d,
	    void *d_layout, const void *algorithm, void *workspace,
	    size_t workspace_bytes, void *stream);
	void *handle, *pref, *d_workspace, *d_one, *stream;
} lt;

/* What cuBLASLt wants to know of a GEMM; the last one is kept. */
static struct lt_plan {
	enum cublas_kind kind;
	uint32_t m, n, k;
	bool good;
	void *desc, *a, *b, *c;
	struct lt_choice choice;
} lt_last;

static void *
library_open(const char *const names[4])
{
	void *library = NULL;

	for (size_t i = 0; library == NULL && i < 4; i++)
		library = dlopen(names[i], RTLD_NOW);
	return library;
}

static bool
library_find(void *library, const char *name, void *function_out)
{
	void *address = dlsym(library, name);

	memcpy(function_out, &address, sizeof address);
	return address != NULL;
}

static bool
lt_open(void *stream)
{
	static const char *const names[4] = {
	    "libcublasLt.so.13",
	    "/usr/local/cuda/lib64/libcublasLt.so.13",
	    "libcublasLt.so.12",
	    "libcublasLt.so",
	};
	const size_t workspace_bytes = CUBLAS_WORKSPACE;
	const float one = 1;
	void *library = library_open(names);

	if (library == NULL ||
	    !library_find(library, "cublasLtCreate", &lt.create) ||
	    !library_find(library, "cublasLtMatmulDescCreate",
		&lt.desc_create) ||
	    !library_find(library, "cublasLtMatmulDescSetAttribute",
		&lt.desc_set) ||
	    !library_find(library, "cublasLtMatrixLayoutCreate",
		&lt.layout_create) ||
	    !library_find(library, "cublasLtMatmulPreferenceCreate",
		&lt.pref_create) ||
	    !library_find(library, "cublasLtMatmulPreferenceSetAttribute",
		&lt.pref_set) ||
	    !library_find(library, "cublasLtMatmulAlgoGetHeuristic",
		&lt.choose) ||
	    !library_find(library, "cublasLtMatmul", &lt.matmul) ||
	    lt.create(&lt.handle) != 0 || lt.pref_create(&lt.pref) != 0 ||
	    lt.pref_set(lt.pref, LT_PREF_MAX_WORKSPACE, &workspace_bytes,
		sizeof workspace_bytes) != 0)
		return false;
	lt.stream = stream;
	lt.d_workspace = ops_alloc(CUBLAS_WORKSPACE);
	lt.d_one = ops_alloc(sizeof one);
	ops_copy_in(lt.d_one, &one, sizeof one);
	return true;
}

bool
cublas_open(void *stream)
{
	static const char *const names[4] = {
	    "libcublas.so.13",
	    "/usr/local/cuda/lib64/libcublas.so.13",
	    "libcublas.so.12",
	    "libcublas.so",
	};
	void *library = library_open(names);

	return library != NULL &&
	       library_find(library, "cublasCreate_v2", &cublas.create) &&
	       library_find(library, "cublasSetStream_v2",
		   &cublas.set_stream) &&
	       library_find(library, "cublasSetWorkspace_v2",
		   &cublas.set_workspace) &&
	       library_find(library, "cublasGemmEx", &cublas.gemm) &&
	       cublas.create(&cublas.handle) == 0 &&
	       cublas.set_stream(cublas.handle, stream) == 0 &&
	       cublas.set_workspace(cublas.handle, ops_alloc(CUBLAS_WORKSPACE),
		   CUBLAS_WORKSPACE) == 0 &&
	       lt_open(stream);
}

const char *
cublas_name(enum cublas_kind kind)
{
	static const char *const names[] = {"cuBLAS bf16", "cuBLASLt fp8 fast",
	    "cuBLASLt fp8", "cuBLASLt int8"};

	return names[kind];
}

static bool
cublas_enqueue_bf16(const struct cublas_gemm *gemm)
{
	const float one = 1, zero = 0;
	int m = (int)gemm->m, n = (int)gemm->n, k = (int)gemm->k;

	return cublas.gemm(cublas.handle, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k,
		   &one, gemm->d_w, CUBLAS_R_16BF, k, gemm->d_a, CUBLAS_R_16BF,
		   k, &zero, gemm->d_c, CUBLAS_R_16BF, n, CUBLAS_COMPUTE_F32,
		   CUBLAS_ALGORITHM) == 0;
}

/* Descriptors are few and small: they are kept until the process ends. */
static bool
lt_make(const struct cublas_gemm *gemm, struct lt_plan *plan)
{
	bool s8 = gemm->kind == CUBLAS_S8;
	int type = s8 ? CUBLAS_R_8I : CUBLAS_R_8F_E4M3;
	const int32_t transposed = CUBLAS_OP_T;
	const int8_t fast = gemm->kind == CUBLAS_FP8_FAST ? 1 : 0;
	int n_choices = 0;

	if (lt.desc_create(&plan->desc,
		s8 ? CUBLAS_COMPUTE_I32 : CUBLAS_COMPUTE_F32,
		s8 ? CUBLAS_R_32I : CUBLAS_R_32F) != 0 ||
	    lt.desc_set(plan->desc, LT_DESC_TRANSA, &transposed,
		sizeof transposed) != 0)
		return false;
	if (!s8 && (lt.desc_set(plan->desc, LT_DESC_FAST_ACCUM, &fast,
			sizeof fast) != 0 ||
		       lt.desc_set(plan->desc, LT_DESC_A_SCALE, &lt.d_one,
			   sizeof lt.d_one) != 0 ||
		       lt.desc_set(plan->desc, LT_DESC_B_SCALE, &lt.d_one,
			   sizeof lt.d_one) != 0))
		return false;
	return lt.layout_create(&plan->a, type, gemm->k, gemm->n, gemm->k) ==
		   0 &&
	       lt.layout_create(&plan->b, type, gemm->k, gemm->m, gemm->k) ==
		   0 &&
	       lt.layout_create(&plan->c, s8 ? CUBLAS_R_32I : CUBLAS_R_16BF,
		   gemm->n, gemm->m, gemm->n) == 0 &&
	       lt.choose(lt.handle, plan->desc, plan->a, plan->b, plan->c,
		   plan->c, lt.pref, 1, &plan->choice, &n_choices) == 0 &&
	       n_choices == 1 && plan->choice.status == 0;
}

static bool
lt_enqueue(const struct cublas_gemm *gemm)
{
	const float one = 1, zero = 0;
	const int32_t int_one = 1, int_zero = 0;
	bool s8 = gemm->kind == CUBLAS_S8;

	if (lt_last.kind != gemm->kind || lt_last.m != gemm->m ||
	    lt_last.n != gemm->n || lt_last.k != gemm->k) {
		memset(&lt_last, 0, sizeof lt_last);
		lt_last.good = lt_make(gemm, &lt_last);
		lt_last.kind = gemm->kind;
		lt_last.m = gemm->m;
		lt_last.n = gemm->n;
		lt_last.k = gemm->k;
	}
	return lt_last.good &&
	       lt.matmul(lt.handle, lt_last.desc,
		   s8 ? (const void *)&int_one : (const void *)&one, gemm->d_w,
		   lt_last.a, gemm->d_a, lt_last.b,
		   s8 ? (const void *)&int_zero : (const void *)&zero,
		   gemm->d_c, lt_last.c, gemm->d_c, lt_last.c,
		   lt_last.choice.algorithm, lt.d_workspace, CUBLAS_WORKSPACE,
		   lt.stream) == 0;
}

bool
cublas_enqueue(const struct cublas_gemm *gemm)
{
	return gemm->kind == CUBLAS_BF16 ? cublas_enqueue_bf16(gemm)
					 : lt_enqueue(gemm);
}
