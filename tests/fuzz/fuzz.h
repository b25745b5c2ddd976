/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h - what every fuzz program has in common.
 *
 * fuzz_<decoder>.c defines fuzz_one; with clang it becomes the libFuzzer
 * program fuzz_<decoder> (libfuzzer.c), with any compiler the TAP program
 * fuzz_<decoder>_replay (replay.c), which runs the committed corpus.
 */
#ifndef HM_TESTS_FUZZ_H
#define HM_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Feed one input to the decoder under test and check what it promises.
 *
 * data   size bytes, only read; not NULL unless size is 0
 *
 * Ends the process by fuzz_require when a promise is broken.
 */
void fuzz_one(const uint8_t *data, size_t size);

/* Abort with the promise on stderr unless it holds. */
#define fuzz_require(promise) fuzz_require_at(promise, #promise, __LINE__)
void fuzz_require_at(bool holds, const char *promise, int line);

/* A NUL-terminated copy that ends where the bytes do, for decoders of text, so
 * that a sanitizer sees a read past it. The caller frees. */
char *fuzz_text(const uint8_t *data, size_t size);

#endif
