/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overload.c - users take turns: before a user's next build come all of his
 * own, and of each other user as many as that and one more, if he has so many.
 */
#include "daemon/overload.h"

#include "daemon/limits.h"
#include "daemon/pool.h"

uint64_t
hm_overload_wait_us(const struct hm_core *core, uid_t uid, uint32_t n_builds,
    uint64_t build_us)
{
	uint64_t n_own = hm_limits_count(core->limits, uid, HM_LIMITS_BUILDS);
	uint64_t n_others =
	    hm_limits_count_others(core->limits, uid, HM_LIMITS_BUILDS);
	uint64_t n_before = n_own + n_others * (n_own + 1);
	struct hm_pool_counts counts;

	if (n_before > n_builds)
		n_before = n_builds;
	hm_pool_get_counts(core->pool, &counts);
	if (counts.n_wanted == 0)
		counts.n_wanted = 1;
	return (n_before / counts.n_wanted + 1) * build_us;
}
