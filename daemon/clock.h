/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - the one clock of the daemon: monotonic microseconds.
 */
#ifndef HM_DAEMON_CLOCK_H
#define HM_DAEMON_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t
hm_clock_us(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

#endif
