/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chaos.h - what the chaos programs share: numbers that look random, and
 * kernels without end.
 *
 * HM_CHAOS_SEED starts another sequence (1); a failure prints what it was.
 */
#ifndef HM_TESTS_CHAOS_H
#define HM_TESTS_CHAOS_H

#include <stdint.h>

#include "tests/integration/wire.h"

/* A number below n > 0. */
uint64_t chaos_random(uint64_t n);

/* Ask for kernel number i: a source of a client, small or (one in four) with
 * an image of 200 KB. Each number has a key of its own. */
void chaos_send(struct wire *wire, uint32_t i);

/* Resident memory that is not a file's, from /proc: also of a process that
 * does not answer. */
uint64_t chaos_anonymous_bytes(pid_t pid);

#endif
