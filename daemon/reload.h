/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reload.h - read the configuration anew while serving (SIGHUP).
 */
#ifndef HM_DAEMON_RELOAD_H
#define HM_DAEMON_RELOAD_H

#include "daemon/core.h"
#include "daemon/options.h"

/**
 * File, environment and command line are put together as at the start. What
 * may change takes effect at once, for new work; what may not is named in the
 * log and stays. A configuration that is wrong is named in the log, and
 * everything stays.
 *
 * options   of the command line
 * settings  the live ones, which core->settings points to
 *
 * errbuf    why not, as in the log; or the keys that need a restart; may be
 *           NULL
 *
 * Returns HM_OK, HM_E_INVALID, HM_E_SYSTEM or HM_E_NOMEM; all are logged.
 */
int hm_reload(struct hm_core *core, const struct hm_options *options,
    struct hm_settings *settings, struct hm_errbuf *errbuf);

#endif
