/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_error.h - the text behind humming_gemm_last_error, and the refusals that
 * several modules of the GPU part say.
 */
#ifndef HM_CLIENT_GEMM_ERROR_H
#define HM_CLIENT_GEMM_ERROR_H

#include "proto/error.h"

/* The calling thread's buffer. Filled on failure only. Never NULL. */
struct hm_errbuf *hm_gemm_errbuf(void);

/* Says that there is no memory for `what`. Returns HM_E_NOMEM. */
int hm_gemm_no_memory(const char *what);

/* Device memory that kernels access 16 bytes at a time: HM_OK, or HM_E_INVALID
 * for NULL and what is not aligned, with a text "WHO: NAME ...". */
int hm_gemm_check_pointer(const char *who, const char *name,
    const void *pointer);

#endif
