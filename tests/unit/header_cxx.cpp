/* SPDX-License-Identifier: Apache-2.0 */
/*
 * header_cxx.cpp - the public headers as C++ sees them; compiled, never run.
 */
#include <humming/client.h>

#include <humming/gemm.h>

extern "C" int header_cxx();

extern "C" int
header_cxx()
{
	humming_kernel_request request;

	humming_kernel_request_init(&request, sizeof request);
	request.w_type = HUMMING_TYPE_UINT(4);
	request.c_type = HUMMING_TYPE_BF16;
	return request.target_cc == 0 ? HUMMING_OK : HUMMING_E_INVALID;
}
