/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - everything that can be set, and where the value came from.
 *
 * Built-in defaults, then hummingd.conf (INI), then the environment, then the
 * command line: the last one to name a key wins. Every key has the same name
 * in all of them: `store.cap` is "cap" in section [store] (or "store.cap"
 * above the first section), HUMMING_STORE_CAP in the environment. The table of
 * keys is in config.c and, for people, in hummingd.conf(5).
 */
#ifndef HM_DAEMON_CONFIG_H
#define HM_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

#define HM_CONFIG_PATH_BYTES 4096
#define HM_CONFIG_FILE       "/etc/hummingd.conf"

enum hm_sandbox_policy {
	HM_SANDBOX_REQUIRED = 0, /* client sources need the whole sandbox */
	HM_SANDBOX_BEST_EFFORT = 1
};

struct hm_settings {
	/* Where. Empty socket and store: hm_paths_resolve fills them in. */
	char socket[HM_CONFIG_PATH_BYTES];
	char store[HM_CONFIG_PATH_BYTES];
	char group[64];       /* whose members compile sources */
	char group_admin[64]; /* ... administer; "" = as group */
	char group_read[64];  /* ... ask for anything at all; "" = everybody */
	uint64_t store_cap_bytes;
	uint64_t store_quota_bytes; /* of one user; 0 = half of the cap */
	uint64_t store_ttl_s;       /* of a kernel; 0 = for ever */
	uint64_t hot_bytes;
	/* Compilers. */
	uint64_t workers; /* 0 = one per core */
	uint64_t worker_jobs;
	uint64_t worker_resident_bytes;
	uint64_t worker_memory_bytes; /* that a job may map */
	char nvrtc[HM_CONFIG_PATH_BYTES];
	uint32_t sandbox; /* enum hm_sandbox_policy */
	/* Limits. */
	uint64_t uid_connections;
	uint64_t uid_in_flight; /* kernels that one user waits for */
	uint64_t uid_queue;     /* builds that one user has under way */
	uint64_t in_flight;     /* requests of one connection */
	uint64_t waiters;       /* kernels that all clients wait for */
	uint64_t queue;         /* builds that wait */
	uint64_t frame_bytes;
	uint64_t send_bytes; /* waiting for one slow reader */
	uint64_t stall_ms;   /* a reader that takes nothing for so long */
	uint64_t build_ms;
	uint64_t source_ms; /* as build_ms, for a source of a client */
	uint64_t fd_reserve;
	uint64_t idle_ms; /* a private daemon leaves after so long */
	uint64_t drain_ms;
	/* Log. */
	uint32_t log_level; /* enum hm_log_level */
	char log_groups[128];
	/* Command line only. */
	bool is_private;
	bool is_foreground; /* -f: plain log even under a service manager */
	/* Of the start: socket is one that a service manager has opened. */
	bool is_activated;
};

/* Built-in defaults. */
void hm_config_init(struct hm_settings *settings);

/**
 * Set one key from text.
 *
 * name     "store.cap"
 * errbuf   on failure one line that names the key and what it takes
 *
 * Returns HM_OK or HM_E_INVALID (no such key, or a value it does not take).
 */
int hm_config_set(struct hm_settings *settings, const char *name,
    const char *value, struct hm_errbuf *errbuf);

/**
 * Read an INI file.
 *
 * Returns HM_OK; HM_E_SYSTEM (cannot be read); HM_E_INVALID with
 * "path:line: why" in errbuf, or "path: why" (no regular file, over 1 MiB).
 */
int hm_config_load(struct hm_settings *settings, const char *path,
    struct hm_errbuf *errbuf);

/**
 * Take over from next, which is complete, what may change while a daemon runs.
 *
 * changed_out  names of the keys that changed, by comma; "" = none
 * kept_out     of those that differ, but stay as they are until a restart
 */
void hm_config_adopt(struct hm_settings *settings, struct hm_settings *next,
    struct hm_errbuf *changed_out, struct hm_errbuf *kept_out);

/* What the store keeps of one user: store.quota, else half of store.cap. */
uint64_t hm_config_quota_bytes(const struct hm_settings *settings);

/* Take HUMMING_ variables over. HM_OK or HM_E_INVALID, the variable in errbuf.
 * Variables that are no key of ours (HUMMING_TIMEOUT, ...) are left alone. */
int hm_config_load_environment(struct hm_settings *settings,
    struct hm_errbuf *errbuf);

#endif
