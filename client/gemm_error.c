/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_error.c - one error text per thread, because packing and launching have
 * no connection to hang it on.
 */
#include "client/gemm_error.h"

#include <humming/gemm.h>

static _Thread_local struct hm_errbuf gemm_errbuf;

struct hm_errbuf *
hm_gemm_errbuf(void)
{
	return &gemm_errbuf;
}

const char *
humming_gemm_last_error(void)
{
	return gemm_errbuf.text;
}
