/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h - the parts of a running daemon, as the layers below server.c see
 * them. server.c makes, owns and closes every one; all pointers are borrowed.
 */
#ifndef HM_DAEMON_CORE_H
#define HM_DAEMON_CORE_H

#include <sys/queue.h>

#include <stdbool.h>
#include <stdint.h>

#include "daemon/metrics.h"
#include "proto/error.h"

struct event_base;
struct hm_admin_desk;
struct hm_cache;
struct hm_call;
struct hm_choices;
struct hm_flights;
struct hm_limits;
struct hm_pool;
struct hm_settings;
struct hm_source_memo;

struct hm_core {
	const struct hm_settings *settings;
	struct event_base *base;
	struct hm_cache *cache;
	struct hm_choices *choices;
	struct hm_flights *flights;
	struct hm_limits *limits;
	struct hm_pool *pool;
	struct hm_source_memo *sources;
	struct hm_admin_desk *admin;
	struct hm_metrics metrics;
	uint64_t started_us;
	/* compile.c's: requests that wait until a compiler says who it is. */
	LIST_HEAD(, hm_call) parked;
	uint64_t parked_bytes; /* of memory that these take */
	uint64_t n_waiting;    /* open asks of all calls */
	bool is_loaded;        /* the store has been opened, or not */
	bool is_draining;      /* hits are served, nothing new is built */
	/* A peer with the right to asked for the end, why in one word; or for
	 * the configuration to be read again: HM_OK, or why not in errbuf. */
	void (*on_stop)(void *arg, const char *why);
	int (*on_reload)(void *arg, struct hm_errbuf *errbuf);
	void *host_arg;
};

#endif
