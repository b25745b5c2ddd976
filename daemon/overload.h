/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overload.h - how long a build that comes now will take, as things go.
 */
#ifndef HM_DAEMON_OVERLOAD_H
#define HM_DAEMON_OVERLOAD_H

#include <sys/types.h>

#include <stdint.h>

#include "daemon/core.h"

/**
 * Until the end of one more build of uid: those that come before it under the
 * rule of turns (flight.h), shared by the workers, and its own.
 *
 * n_builds   that are queued or run
 * build_us   what one takes; 0 = nobody knows yet, and so is the answer
 */
uint64_t hm_overload_wait_us(const struct hm_core *core, uid_t uid,
    uint32_t n_builds, uint64_t build_us);

#endif
