/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - hummingd's command line, and the order in which everything that
 * can be set is put together.
 */
#ifndef HM_DAEMON_OPTIONS_H
#define HM_DAEMON_OPTIONS_H

#include <stdbool.h>

#include "daemon/config.h"
#include "proto/error.h"

enum hm_options_action {
	HM_OPTIONS_RUN = 0,
	HM_OPTIONS_CHECK = 1, /* -n */
	HM_OPTIONS_HELP = 2,
	HM_OPTIONS_VERSION = 3
};

struct hm_options {
	enum hm_options_action action;
	const char *config; /* -c; NULL = the usual file, if it is there */
	const char *socket; /* all borrowed from argv */
	const char *store;
	unsigned verbose;
	bool is_private;
	bool is_foreground;
};

extern const char hm_options_usage[];

/**
 * Parse argv. Options may stand anywhere; there are no operands.
 *
 * Returns HM_OK; HM_E_INVALID for wrong usage, HM_E_UNSUPPORTED for an option
 * that this build cannot honour, one line in errbuf.
 */
int hm_options_parse(int argc, char **argv, struct hm_options *options_out,
    struct hm_errbuf *errbuf);

/**
 * Defaults, then file, then environment, then options; then the paths that are
 * still open. A private daemon reads a file only if -c names one: the usual
 * file belongs to the system's daemon.
 *
 * Returns HM_OK, or what hm_config_load and hm_paths_resolve return.
 */
int hm_options_apply(const struct hm_options *options,
    struct hm_settings *settings_out, struct hm_errbuf *errbuf);

/**
 * What -n looks at beyond that: names of things that a daemon would do without
 * or find later. Changes nothing.
 *
 * Returns HM_OK or HM_E_INVALID, the key in errbuf.
 */
int hm_options_verify(const struct hm_settings *settings,
    struct hm_errbuf *errbuf);

#endif
