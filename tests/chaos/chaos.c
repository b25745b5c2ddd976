/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chaos.c - see chaos.h.
 */
#include "tests/chaos/chaos.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char chaos_small[] =
    "extern \"C\" __global__ void f(int *p) { p[threadIdx.x] = N; }\n";
static const char chaos_large[] =
    "__device__ int table[50000] = {N, 1};\n"
    "extern \"C\" __global__ void f(int *p) { *p = table[*p]; }\n";

/* xorshift64*: Vigna, An experimental exploration of Marsaglia's xorshift
 * generators, scrambled. */
uint64_t
chaos_random(uint64_t n)
{
	static uint64_t state;

	if (state == 0) {
		state = harness_number("HM_CHAOS_SEED", 1);
		print_message("seed %llu\n", (unsigned long long)state);
		state = state * 0x9e3779b97f4a7c15u | 1u;
	}
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1du >> 16) % n;
}

void
chaos_send(struct wire *wire, uint32_t i)
{
	char option[32];
	const struct wire_source source = {.text = i % 4 == 3 ? chaos_large
							      : chaos_small,
	    .arch = "sm_80",
	    .option = option};

	(void)snprintf(option, sizeof(option), "-DN=%u", i);
	(void)wire_send_compile(wire, &source);
}

uint64_t
chaos_anonymous_bytes(pid_t pid)
{
	char path[64];
	char text[8192];
	unsigned long long kib = 0;
	const char *line;

	(void)snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	harness_read(path, text, sizeof(text));
	line = strstr(text, "RssAnon:");
	assert_non_null(line);
	assert_int_equal(sscanf(line, "RssAnon: %llu", &kib), 1);
	return (uint64_t)kib * 1024;
}
