/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight_entry.h - from a finished build to what the cache keeps of it.
 */
#ifndef HM_DAEMON_FLIGHT_ENTRY_H
#define HM_DAEMON_FLIGHT_ENTRY_H

#include "cache/cache.h"
#include "daemon/pool.h"
#include "daemon/recipe.h"

/**
 * An entry of a recipe's key: image, meta and full record; its tenant is who
 * sent the source, or everybody for kernels of ours.
 *
 * from       HM_POOL_DONE with an image
 * entry_out  one reference for the caller
 *
 * Returns HM_OK, HM_E_INVALID, HM_E_NOMEM or HM_E_SYSTEM.
 */
int hm_flight_entry_new(const struct hm_recipe *recipe,
    const struct hm_pool_result *from, struct hm_entry **entry_out);

#endif
