/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_impl.h - what gemm.c and gemm_open.c share, nobody else: reading a
 * request, and the table over M that comes with a kernel.
 *
 * All return HM_OK or an error with its reason in hm_gemm_errbuf.
 */
#ifndef HM_CLIENT_GEMM_IMPL_H
#define HM_CLIENT_GEMM_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include <humming/gemm.h>

/* Rows of a table: HM_MAX_RANGES of the wire, HM_PLAN_MAX_ROWS of a plan. */
#define HM_GEMM_MAX_RANGES 32u

/* A caller's request with the device's target in it. INVALID without n, k. */
int hm_gemm_read_request(const struct humming_device *device,
    const struct humming_kernel_request *request,
    struct humming_kernel_request *full_out);

/* Rows of a kernel's table that begin at or below m_most (0 = all). INVALID
 * when the kernel came without a table. */
int hm_gemm_count_ranges(const struct humming_kernel *kernel, uint32_t m_most,
    uint32_t *n_out);

int hm_gemm_range_at(const struct humming_kernel *kernel, uint32_t index,
    struct humming_range *range_out);

/* The kernel among n that has this key, or NULL; NULLs among them are skipped.
 * Borrowed. */
struct humming_kernel *hm_gemm_find_kernel(
    struct humming_kernel *const *kernels, size_t n, const char *key);

#endif
