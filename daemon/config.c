/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - the table of keys, and three readers that end in hm_config_set.
 *
 * One table gives a key its type, its place in struct hm_settings and its
 * range; file, environment and command line cannot differ in what they accept.
 * A key nobody knows is an error in the file (a typo must not be silent) and
 * is ignored in the environment, which belongs to other programs too.
 */
#include "daemon/config.h"

#include <sys/stat.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ini.h>

#include "daemon/log.h"
#include "proto/fd.h"

#define CONFIG_MAX_BYTES (1u << 20)

enum config_kind { CONFIG_TEXT, CONFIG_COUNT, CONFIG_BYTES, CONFIG_CHOICE };

struct config_key {
	const char *name;
	enum config_kind kind;
	size_t offset;
	uint64_t min; /* CONFIG_TEXT: not used */
	uint64_t max; /* CONFIG_TEXT: bytes of the member */
	const char *choices[6];
	bool is_fixed; /* from the start to the end of a daemon */
};

#define KIB        (UINT64_C(1) << 10)
#define MIB        (UINT64_C(1) << 20)
#define GIB        (UINT64_C(1) << 30)
#define AT(member) offsetof(struct hm_settings, member)
#define KEY(name, kind, member, min, max, is_fixed)                            \
	{                                                                      \
		name, kind, AT(member), min, max, {NULL}, is_fixed             \
	}
#define ROOM(member) sizeof(((struct hm_settings *)0)->member)
#define TEXT(name, member)                                                     \
	KEY(name, CONFIG_TEXT, member, 0, ROOM(member), false)
#define COUNT(name, member, min, max)                                          \
	KEY(name, CONFIG_COUNT, member, min, max, false)
#define BYTES(name, member, min, max)                                          \
	KEY(name, CONFIG_BYTES, member, min, max, false)
#define FIXED_TEXT(name, member)                                               \
	KEY(name, CONFIG_TEXT, member, 0, ROOM(member), true)
#define FIXED_BYTES(name, member, min, max)                                    \
	KEY(name, CONFIG_BYTES, member, min, max, true)

static const struct config_key config_keys[] = {
    FIXED_TEXT("socket", socket),
    FIXED_TEXT("store", store),
    TEXT("group", group),
    TEXT("group.admin", group_admin),
    TEXT("group.read", group_read),
    FIXED_BYTES("store.cap", store_cap_bytes, 16 * MIB, 1024 * GIB),
    BYTES("store.quota", store_quota_bytes, 0, 1024 * GIB),
    COUNT("store.ttl_s", store_ttl_s, 0, 1000000000),
    FIXED_BYTES("hot.bytes", hot_bytes, 0, 64 * GIB),
    COUNT("workers", workers, 0, 256),
    COUNT("worker.jobs", worker_jobs, 1, 1000000),
    BYTES("worker.memory", worker_memory_bytes, 128 * MIB, 1 * GIB),
    BYTES("worker.resident", worker_resident_bytes, 64 * MIB, 64 * GIB),
    TEXT("compiler.nvrtc", nvrtc),
    {"sandbox", CONFIG_CHOICE, AT(sandbox), 0, 0,
	{"required", "best-effort", NULL}, false},
    COUNT("limits.uid_connections", uid_connections, 1, 65536),
    COUNT("limits.uid_in_flight", uid_in_flight, 1, 10000000),
    COUNT("limits.uid_queue", uid_queue, 1, 1000000),
    COUNT("limits.in_flight", in_flight, 1, 65536),
    COUNT("limits.waiters", waiters, 1, 10000000),
    COUNT("limits.queue", queue, 1, 1000000),
    BYTES("limits.frame_bytes", frame_bytes, 4 * KIB, 64 * KIB),
    BYTES("limits.send_bytes", send_bytes, 64 * KIB, 1 * GIB),
    COUNT("limits.stall_ms", stall_ms, 100, 3600000),
    COUNT("limits.build_ms", build_ms, 100, 3600000),
    COUNT("limits.source_ms", source_ms, 100, 3600000),
    COUNT("limits.fd_reserve", fd_reserve, 8, 65536),
    COUNT("limits.idle_ms", idle_ms, 10, 1000000000),
    COUNT("limits.drain_ms", drain_ms, 0, 3600000),
    {"log.level", CONFIG_CHOICE, AT(log_level), 0, 0,
	{"err", "warning", "notice", "info", "debug", NULL}, false},
    TEXT("log.groups", log_groups),
};
#define N_CONFIG_KEYS (sizeof(config_keys) / sizeof(config_keys[0]))

void
hm_config_init(struct hm_settings *settings)
{
	memset(settings, 0, sizeof(*settings));
	(void)snprintf(settings->group, sizeof(settings->group), "humming");
	settings->store_cap_bytes = 4 * GIB;
	settings->hot_bytes = 128 * MIB;
	settings->worker_jobs = 500;
	settings->worker_resident_bytes = 512 * MIB;
	settings->worker_memory_bytes = 1 * GIB;
	settings->sandbox = HM_SANDBOX_REQUIRED;
	settings->uid_connections = 1024;
	settings->uid_in_flight = 16384;
	settings->uid_queue = 1024;
	settings->in_flight = 1024;
	settings->waiters = 65536;
	settings->queue = 4096;
	settings->frame_bytes = 64 * KIB;
	settings->send_bytes = 16 * MIB;
	settings->stall_ms = 30000;
	settings->build_ms = 30000;
	/* Less than the 30 s of a client, which is to hear the reason. */
	settings->source_ms = 15000;
	settings->fd_reserve = 64;
	settings->idle_ms = UINT64_C(30) * 60 * 1000;
	settings->drain_ms = 10000;
	settings->log_level = HM_LOG_NOTICE;
	(void)snprintf(settings->log_groups, sizeof(settings->log_groups),
	    "all");
}

uint64_t
hm_config_quota_bytes(const struct hm_settings *settings)
{
	return settings->store_quota_bytes != 0 ? settings->store_quota_bytes
						: settings->store_cap_bytes / 2;
}

static const struct config_key *
config_find(const char *name)
{
	for (size_t i = 0; i < N_CONFIG_KEYS; i++) {
		if (strcmp(config_keys[i].name, name) == 0)
			return &config_keys[i];
	}
	return NULL;
}

static void *
config_place(struct hm_settings *settings, const struct config_key *key)
{
	return (char *)settings + key->offset;
}

/* A whole decimal number, with K, M or G (powers of 1024) if with_unit. */
static bool
config_number(const char *text, bool with_unit, uint64_t *number_out)
{
	unsigned long long number;
	unsigned shift = 0;
	char *end = NULL;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno != 0)
		return false;
	if (with_unit && *end != '\0') {
		const char units[] = "KMG";
		const char *unit = strchr(units, toupper((unsigned char)*end));

		if (unit == NULL || *unit == '\0')
			return false;
		shift = 10u * (unsigned)(unit - units + 1);
		end++;
	}
	if (*end != '\0' || number > UINT64_MAX >> shift)
		return false;
	*number_out = (uint64_t)number << shift;
	return true;
}

static int
config_set_number(struct hm_settings *settings, const struct config_key *key,
    const char *value, struct hm_errbuf *errbuf)
{
	uint64_t number = 0;

	if (!config_number(value, key->kind == CONFIG_BYTES, &number) ||
	    number < key->min || number > key->max) {
		hm_errbuf_set(errbuf,
		    "%s takes a number from %llu to %llu%s, not '%s'",
		    key->name, (unsigned long long)key->min,
		    (unsigned long long)key->max,
		    key->kind == CONFIG_BYTES ? " (K, M, G allowed)" : "",
		    value);
		return HM_E_INVALID;
	}
	memcpy(config_place(settings, key), &number, sizeof(number));
	return HM_OK;
}

static int
config_set_choice(struct hm_settings *settings, const struct config_key *key,
    const char *value, struct hm_errbuf *errbuf)
{
	char list[80] = "";
	size_t used = 0;

	for (uint32_t i = 0; key->choices[i] != NULL; i++) {
		if (strcmp(key->choices[i], value) == 0) {
			memcpy(config_place(settings, key), &i, sizeof(i));
			return HM_OK;
		}
		used += (size_t)snprintf(list + used, sizeof(list) - used,
		    "%s%s", i == 0 ? "" : ", ", key->choices[i]);
	}
	hm_errbuf_set(errbuf, "%s takes one of %s, not '%s'", key->name, list,
	    value);
	return HM_E_INVALID;
}

int
hm_config_set(struct hm_settings *settings, const char *name, const char *value,
    struct hm_errbuf *errbuf)
{
	const struct config_key *key = config_find(name);

	if (key == NULL) {
		hm_errbuf_set(errbuf, "unknown key '%s'", name);
		return HM_E_INVALID;
	}
	switch (key->kind) {
	case CONFIG_COUNT:
	case CONFIG_BYTES:
		return config_set_number(settings, key, value, errbuf);
	case CONFIG_CHOICE:
		return config_set_choice(settings, key, value, errbuf);
	case CONFIG_TEXT:
		break;
	}
	if (strlen(value) >= key->max) {
		hm_errbuf_set(errbuf, "%s is longer than %llu characters",
		    key->name, (unsigned long long)key->max - 1);
		return HM_E_INVALID;
	}
	memcpy(config_place(settings, key), value, strlen(value) + 1);
	return HM_OK;
}

/* One file being read: inih's handler gets no line number, so we count. */
struct config_reader {
	struct hm_settings *settings;
	FILE *file; /* owned by hm_config_load */
	int line;
	int error_line; /* of the first bad key or line, 0 = none */
	struct hm_errbuf why;
};

/* The first thing that is wrong; nothing is read any more. */
static void
config_stop(struct config_reader *reader, const char *why)
{
	if (reader->error_line != 0)
		return;
	reader->error_line = reader->line;
	hm_errbuf_set(&reader->why, "%s", why);
}

static char *
config_read_line(char *text, int size, void *stream)
{
	struct config_reader *reader = stream;
	size_t length;

	if (reader->error_line != 0 || fgets(text, size, reader->file) == NULL)
		return NULL;
	reader->line++;
	length = strlen(text);
	if (length == 0)
		config_stop(reader, "a zero byte");
	else if (length + 1 == (size_t)size && text[length - 1] != '\n')
		config_stop(reader, "a line of more than 4000 characters");
	return reader->error_line != 0 ? NULL : text;
}

static int
config_on_pair(void *arg, const char *section, const char *name,
    const char *value)
{
	struct config_reader *reader = arg;
	char key[160];
	int length;

	if (reader->error_line != 0)
		return 0;
	length = snprintf(key, sizeof(key), "%s%s%s", section,
	    section[0] == '\0' ? "" : ".", name);
	if (length >= 0 && (size_t)length < sizeof(key) &&
	    hm_config_set(reader->settings, key, value, &reader->why) == HM_OK)
		return 1;
	reader->error_line = reader->line;
	return 0;
}

/* Only what can be a configuration: a device may have no end, and to open a
 * pipe may take for ever. */
static int
config_open(const char *path, FILE **file_out, struct hm_errbuf *errbuf)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	FILE *file = NULL;
	int error = HM_E_SYSTEM;

	if (fd == -1 || fstat(fd, &status) == -1)
		goto out;
	error = HM_E_INVALID;
	if (!S_ISREG(status.st_mode)) {
		hm_errbuf_set(errbuf, "%s: is no regular file", path);
		goto out;
	}
	if (status.st_size > CONFIG_MAX_BYTES) {
		hm_errbuf_set(errbuf, "%s: is larger than 1 MiB", path);
		goto out;
	}
	file = fdopen(fd, "r"); /* takes fd */
	error = file == NULL ? HM_E_SYSTEM : HM_OK;
out:
	if (error == HM_OK) {
		*file_out = file;
		return HM_OK;
	}
	if (error == HM_E_SYSTEM)
		hm_errbuf_set(errbuf, "%s: %s", path, strerror(errno));
	hm_fd_close(&fd);
	return error;
}

int
hm_config_load(struct hm_settings *settings, const char *path,
    struct hm_errbuf *errbuf)
{
	struct config_reader reader = {.settings = settings};
	int error, line;

	error = config_open(path, &reader.file, errbuf);
	if (error != HM_OK)
		return error;
	ini_allow_multiline = false;
	ini_max_line = HM_CONFIG_PATH_BYTES;
	line = ini_parse_stream(config_read_line, &reader, config_on_pair,
	    &reader);
	if (ferror(reader.file)) {
		hm_errbuf_set(errbuf, "%s: %s", path, strerror(errno));
		(void)fclose(reader.file);
		return HM_E_SYSTEM;
	}
	(void)fclose(reader.file);
	if (line == 0 && reader.error_line == 0)
		return HM_OK;
	if (line == 0 || line == reader.error_line)
		hm_errbuf_set(errbuf, "%s:%d: %s", path, reader.error_line,
		    reader.why.text);
	else
		hm_errbuf_set(errbuf,
		    "%s:%d: neither [section] nor key = value", path, line);
	return HM_E_INVALID;
}

int
hm_config_load_environment(struct hm_settings *settings,
    struct hm_errbuf *errbuf)
{
	char name[64];
	const char *value;
	int error;

	for (size_t i = 0; i < N_CONFIG_KEYS; i++) {
		int length = snprintf(name, sizeof(name), "HUMMING_%s",
		    config_keys[i].name);

		for (int at = 0; at < length; at++) {
			unsigned char c = (unsigned char)name[at];

			name[at] = isalnum(c) ? (char)toupper(c) : '_';
		}
		value = getenv(name);
		if (value == NULL || value[0] == '\0')
			continue;
		error =
		    hm_config_set(settings, config_keys[i].name, value, errbuf);
		if (error != HM_OK) {
			hm_errbuf_prefix(errbuf, "%s", name);
			return error;
		}
	}
	return HM_OK;
}

static bool
config_is_equal(const struct config_key *key, struct hm_settings *a,
    struct hm_settings *b)
{
	size_t n_bytes = sizeof(uint64_t);

	if (key->kind == CONFIG_TEXT)
		return strcmp(config_place(a, key), config_place(b, key)) == 0;
	if (key->kind == CONFIG_CHOICE)
		n_bytes = sizeof(uint32_t);
	return memcmp(config_place(a, key), config_place(b, key), n_bytes) == 0;
}

static void
config_list(struct hm_errbuf *list, const char *name)
{
	struct hm_errbuf before = *list;

	hm_errbuf_set(list, "%s%s%s", before.text,
	    before.text[0] == '\0' ? "" : ",", name);
}

void
hm_config_adopt(struct hm_settings *settings, struct hm_settings *next,
    struct hm_errbuf *changed_out, struct hm_errbuf *kept_out)
{
	for (size_t i = 0; i < N_CONFIG_KEYS; i++) {
		const struct config_key *key = &config_keys[i];
		size_t n_bytes = sizeof(uint64_t);

		if (config_is_equal(key, settings, next))
			continue;
		config_list(key->is_fixed ? kept_out : changed_out, key->name);
		if (key->is_fixed)
			continue;
		if (key->kind == CONFIG_TEXT)
			n_bytes = (size_t)key->max;
		if (key->kind == CONFIG_CHOICE)
			n_bytes = sizeof(uint32_t);
		memcpy(config_place(settings, key), config_place(next, key),
		    n_bytes);
	}
}
