/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadline.c - see deadline.h. poll() is the only thing that sleeps here: it
 * takes milliseconds and touches no signal.
 */
#include "client/deadline.h"

#include <limits.h>
#include <poll.h>
#include <string.h>
#include <time.h>

int64_t
hm_deadline_now_ns(void)
{
	struct timespec now;

	/* Cannot fail: the clock exists and the pointer is ours. */
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t
hm_deadline_now_us(void)
{
	return hm_deadline_now_ns() / 1000;
}

int64_t
hm_deadline_now_ms(void)
{
	return hm_deadline_now_us() / 1000;
}

int64_t
hm_deadline_in(uint32_t timeout_ms)
{
	if (timeout_ms == UINT32_MAX)
		return HM_DEADLINE_NONE;
	return hm_deadline_now_ms() + timeout_ms;
}

int64_t
hm_deadline_within(int64_t deadline, uint32_t timeout_ms)
{
	int64_t other = hm_deadline_in(timeout_ms);

	return deadline < other ? deadline : other;
}

int
hm_deadline_left_ms(int64_t deadline)
{
	int64_t left;

	if (deadline == HM_DEADLINE_NONE)
		return -1;
	left = deadline - hm_deadline_now_ms();
	if (left <= 0)
		return 0;
	return left > INT_MAX ? INT_MAX : (int)left;
}

uint32_t
hm_deadline_wire_ms(int64_t deadline)
{
	int left = hm_deadline_left_ms(deadline);

	if (left < 0)
		return 0;
	return left == 0 ? 1 : (uint32_t)left;
}

void
hm_deadline_pause(int64_t deadline, uint32_t pause_ms)
{
	int64_t end = hm_deadline_within(deadline, pause_ms);
	int left;

	while ((left = hm_deadline_left_ms(end)) > 0)
		(void)poll(NULL, 0, left);
}

bool
hm_deadline_read(const char *text, uint32_t *ms_out)
{
	uint64_t ms = 0, unit = 1000;
	bool point = false, rest = false;

	if (*text == '\0' || strspn(text, ".") == strlen(text))
		return false;
	for (; *text != '\0'; text++) {
		uint64_t digit = (uint64_t)(*text - '0');

		if (*text == '.' && !point) {
			point = true;
		} else if (*text < '0' || *text > '9') {
			return false;
		} else if (!point) {
			ms = ms * 10 + digit * unit;
		} else {
			unit /= 10;
			ms += digit * unit;
			rest = rest || (unit == 0 && digit != 0);
		}
		if (ms > HM_DEADLINE_MAX_S * UINT64_C(1000))
			return false;
	}
	ms += rest ? 1 : 0;
	if (ms == 0 || ms > HM_DEADLINE_MAX_S * UINT64_C(1000))
		return false;
	*ms_out = (uint32_t)ms;
	return true;
}
