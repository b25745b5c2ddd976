/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadline.h - points in time after which a call must have returned.
 *
 * Milliseconds of CLOCK_MONOTONIC; a deadline is made once, at the door, and
 * handed down, so that retries never add up.
 */
#ifndef HM_CLIENT_DEADLINE_H
#define HM_CLIENT_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#define HM_DEADLINE_NONE  INT64_MAX
#define HM_DEADLINE_MAX_S 4000000u /* about 46 days: 32 bits of ms */

/* Seconds that a person gave as a plain decimal number ("30", "0.5"), above 0
 * and up to HM_DEADLINE_MAX_S, whatever the locale; rounded up to ms. False for
 * anything else. */
bool hm_deadline_read(const char *text, uint32_t *ms_out);

/* Now, by the monotonic clock. */
int64_t hm_deadline_now_ns(void);
int64_t hm_deadline_now_us(void);
int64_t hm_deadline_now_ms(void);

/* timeout_ms from now; UINT32_MAX = HM_DEADLINE_NONE. */
int64_t hm_deadline_in(uint32_t timeout_ms);

/* The earlier of a deadline and timeout_ms from now. */
int64_t hm_deadline_within(int64_t deadline, uint32_t timeout_ms);

/* For poll: -1 = none, 0 = over, else milliseconds left. */
int hm_deadline_left_ms(int64_t deadline);

/* For the wire, where 0 stands for none and 1 for all but over. */
uint32_t hm_deadline_wire_ms(int64_t deadline);

/* Sleep for this long or until the deadline. */
void hm_deadline_pause(int64_t deadline, uint32_t pause_ms);

#endif
