/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_error.h - the text behind humming_gemm_last_error.
 */
#ifndef HM_CLIENT_GEMM_ERROR_H
#define HM_CLIENT_GEMM_ERROR_H

#include "proto/error.h"

/* The calling thread's buffer. Filled on failure only. Never NULL. */
struct hm_errbuf *hm_gemm_errbuf(void);

#endif
