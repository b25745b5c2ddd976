/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_alloc.h - an allocator that fails when told to, and keeps count.
 *
 * Takes the place of malloc, calloc, realloc and free in a whole test program
 * by the linker's --wrap; hm_fake_alloc() of this folder's CMakeLists.txt sets
 * that up. One thread.
 */
#ifndef HM_TESTS_FAKE_ALLOC_H
#define HM_TESTS_FAKE_ALLOC_H

#include <stddef.h>

/* The n-th allocation from now returns NULL; 0 = none fails. */
void fake_alloc_fail_at(size_t n);

/* Allocations since fake_alloc_fail_at, the failed one included. */
size_t fake_alloc_count(void);

/* Most bytes held at a time, beyond what was held at fake_alloc_fail_at. */
size_t fake_alloc_peak_bytes(void);

#endif
