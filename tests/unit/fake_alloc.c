/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_alloc.c - see fake_alloc.h. The names are the linker's choice.
 */
#include "fake_alloc.h"

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,
 * readability-identifier-naming): --wrap makes these names. */
void *__real_malloc(size_t n_bytes);
void *__real_calloc(size_t n, size_t n_bytes);
void *__real_realloc(void *memory, size_t n_bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t n_bytes);
void *__wrap_calloc(size_t n, size_t n_bytes);
void *__wrap_realloc(void *memory, size_t n_bytes);
void __wrap_free(void *memory);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,
 * readability-identifier-naming) */

static struct {
	size_t fail_at;
	size_t count;
	ptrdiff_t held_bytes;
	ptrdiff_t peak_bytes;
} fake_alloc;

void
fake_alloc_fail_at(size_t n)
{
	fake_alloc.fail_at = n;
	fake_alloc.count = 0;
	fake_alloc.held_bytes = 0;
	fake_alloc.peak_bytes = 0;
}

size_t
fake_alloc_count(void)
{
	return fake_alloc.count;
}

size_t
fake_alloc_peak_bytes(void)
{
	return (size_t)fake_alloc.peak_bytes;
}

static bool
fake_alloc_is_due(void)
{
	return ++fake_alloc.count == fake_alloc.fail_at;
}

static void *
fake_alloc_note(void *memory)
{
	fake_alloc.held_bytes += (ptrdiff_t)malloc_usable_size(memory);
	if (fake_alloc.held_bytes > fake_alloc.peak_bytes)
		fake_alloc.peak_bytes = fake_alloc.held_bytes;
	return memory;
}

void *
__wrap_malloc(size_t n_bytes)
{
	if (fake_alloc_is_due())
		return NULL;
	return fake_alloc_note(__real_malloc(n_bytes));
}

void *
__wrap_calloc(size_t n, size_t n_bytes)
{
	if (fake_alloc_is_due())
		return NULL;
	return fake_alloc_note(__real_calloc(n, n_bytes));
}

void *
__wrap_realloc(void *memory, size_t n_bytes)
{
	if (fake_alloc_is_due())
		return NULL;
	fake_alloc.held_bytes -= (ptrdiff_t)malloc_usable_size(memory);
	return fake_alloc_note(__real_realloc(memory, n_bytes));
}

void
__wrap_free(void *memory)
{
	fake_alloc.held_bytes -= (ptrdiff_t)malloc_usable_size(memory);
	__real_free(memory);
}
