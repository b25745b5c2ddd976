/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_error.c - one error text per thread, because packing and launching have
 * no connection to hang it on.
 */
#include "client/gemm_error.h"

#include <stdint.h>

#include <humming/gemm.h>

#define ERROR_ALIGNMENT 16u

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

int
hm_gemm_no_memory(const char *what)
{
	hm_errbuf_set(&gemm_errbuf, "%s: out of memory", what);
	return HM_E_NOMEM;
}

int
hm_gemm_check_pointer(const char *who, const char *name, const void *pointer)
{
	if (pointer != NULL && (uintptr_t)pointer % ERROR_ALIGNMENT == 0)
		return HM_OK;
	hm_errbuf_set(&gemm_errbuf, "%s: %s %s", who, name,
	    pointer == NULL ? "is NULL" : "is not 16-byte aligned");
	return HM_E_INVALID;
}
