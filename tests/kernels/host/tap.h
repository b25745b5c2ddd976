/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tap.h - Test Anything Protocol in thirty lines, for the C++ host tests.
 *
 * A test is a function that calls tap_check for each fact. tap_run prints one
 * line for it, with the first fact that failed.
 */
#pragma once
#include <cstdio>

static int tap_tests, tap_failed_tests;
static long tap_facts, tap_failed_facts;

/* One fact; text and the numbers say which, should it be the first to fail. */
static inline void
tap_check(bool ok, const char *text, long x = 0, long y = 0, long z = 0)
{
	tap_facts++;
	if (ok)
		return;
	if (tap_failed_facts++ == 0)
		std::printf("# failed: %s (%ld, %ld, %ld)\n", text, x, y, z);
}

static inline void
tap_run(const char *name, void (*test)())
{
	tap_facts = tap_failed_facts = 0;
	test();
	tap_tests++;
	if (tap_failed_facts != 0 || tap_facts == 0)
		tap_failed_tests++;
	std::printf("%sok %d - %s # %ld facts, %ld failed\n",
	    tap_failed_facts != 0 || tap_facts == 0 ? "not " : "", tap_tests,
	    name, tap_facts, tap_failed_facts);
}

static inline int
tap_done()
{
	std::printf("1..%d\n", tap_tests);
	return tap_failed_tests != 0;
}
