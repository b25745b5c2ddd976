/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - one line per event: a fixed phrase, then key=value.
 *
 *   2026-03-01T12:00:00.123 hummingd[7] warning pool: worker died pid=9 ...
 *
 * Under a service manager (JOURNAL_STREAM or INVOCATION_ID is set) time and
 * name are the journal's and a line starts with its syslog priority: "<4>pool:
 * worker died ...". Control characters are written as \xNN, so that text from
 * a client never makes a line of its own. The logger keeps errno.
 *
 * The function that decides what to do about a failure logs it, once: err = we
 * gave up on something; warning = we carry on degraded; notice = life cycle;
 * info = one line per request; debug = everything else.
 */
#ifndef HM_DAEMON_LOG_H
#define HM_DAEMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

enum hm_log_level {
	HM_LOG_ERR = 0,
	HM_LOG_WARNING = 1,
	HM_LOG_NOTICE = 2,
	HM_LOG_INFO = 3,
	HM_LOG_DEBUG = 4
};

enum hm_log_group {
	HM_LOG_SERVER = 0,
	HM_LOG_CONN = 1,
	HM_LOG_CACHE = 2,
	HM_LOG_POOL = 3,
	HM_LOG_BUILD = 4
};

struct hm_log_options {
	uint32_t level;     /* enum hm_log_level */
	const char *groups; /* "all", or names by comma: info and debug lines
	                     * of other groups are left out */
	bool plain;         /* never the service manager's form */
	int fd;             /* where to; not owned */
};

/* HM_OK, or HM_E_INVALID with the unknown group in errbuf. */
int hm_log_open(const struct hm_log_options *options, struct hm_errbuf *errbuf);

/* The same while it is open: where to and in which form stay. */
int hm_log_reopen(uint32_t level, const char *groups, struct hm_errbuf *errbuf);

/* SIGUSR2: debug on, and back to the level of before. */
void hm_log_toggle_debug(void);

bool hm_log_enabled(enum hm_log_group group, enum hm_log_level level);

/* Text of a client between the quotes of a value: quotes and backslashes get a
 * backslash, what is too long is cut. Lives as long as buffer. */
struct hm_log_text {
	char text[320];
};
const char *hm_log_quote(struct hm_log_text *buffer, const char *text);

void hm_log(enum hm_log_group group, enum hm_log_level level,
    const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
