/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfuzzer.c - libFuzzer's entry.
 */
#include "fuzz.h"

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_one(data, size);
	return 0;
}
