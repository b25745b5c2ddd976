/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c - formats a line in memory and writes it with one call.
 *
 * The log is the one thing of the daemon that is global: it must work in
 * every callback and says nothing about any object. Only the loop thread logs.
 */
#include "daemon/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOG_LINE_BYTES 2048

static const char *const log_group_names[] = {"server", "conn", "cache", "pool",
    "build"};
#define N_LOG_GROUPS (sizeof(log_group_names) / sizeof(log_group_names[0]))
static const char *const log_level_names[] = {"err", "warning", "notice",
    "info", "debug"};
/* sd-daemon(3): the numbers of syslog. */
static const int log_priorities[] = {3, 4, 5, 6, 7};

static struct {
	uint32_t level;
	uint32_t usual_level; /* what the toggle goes back to */
	uint32_t groups;      /* bit per enum hm_log_group */
	bool managed;         /* the journal adds time and name */
	int fd;
} log_state = {HM_LOG_NOTICE, HM_LOG_NOTICE, UINT32_MAX, false, STDERR_FILENO};

static int
log_parse_groups(const char *text, uint32_t *groups_out,
    struct hm_errbuf *errbuf)
{
	uint32_t groups = 0;

	while (*text != '\0') {
		size_t length = strcspn(text, ",");
		uint32_t found = 0;

		if (length == 3 && strncmp(text, "all", length) == 0)
			found = UINT32_MAX;
		for (size_t i = 0; i < N_LOG_GROUPS; i++) {
			if (strlen(log_group_names[i]) == length &&
			    strncmp(text, log_group_names[i], length) == 0)
				found = 1u << i;
		}
		if (found == 0) {
			hm_errbuf_set(errbuf,
			    "log.groups: no group '%.*s' (all, server, conn, "
			    "cache, pool, build)",
			    (int)length, text);
			return HM_E_INVALID;
		}
		groups |= found;
		text += length + (text[length] == ',');
	}
	*groups_out = groups;
	return HM_OK;
}

int
hm_log_open(const struct hm_log_options *options, struct hm_errbuf *errbuf)
{
	uint32_t groups = 0;
	int error = log_parse_groups(options->groups, &groups, errbuf);

	if (error != HM_OK)
		return error;
	log_state.level = options->level;
	log_state.usual_level = options->level;
	log_state.groups = groups;
	log_state.managed =
	    !options->plain && (getenv("JOURNAL_STREAM") != NULL ||
				   getenv("INVOCATION_ID") != NULL);
	log_state.fd = options->fd;
	return HM_OK;
}

int
hm_log_reopen(uint32_t level, const char *groups, struct hm_errbuf *errbuf)
{
	int error = log_parse_groups(groups, &log_state.groups, errbuf);

	if (error != HM_OK)
		return error;
	log_state.level = level;
	log_state.usual_level = level;
	return HM_OK;
}

void
hm_log_toggle_debug(void)
{
	log_state.level = log_state.level == HM_LOG_DEBUG
			      ? log_state.usual_level
			      : HM_LOG_DEBUG;
}

bool
hm_log_enabled(enum hm_log_group group, enum hm_log_level level)
{
	if ((uint32_t)level > log_state.level)
		return false;
	return level <= HM_LOG_NOTICE ||
	       (log_state.groups >> (uint32_t)group & 1u) != 0;
}

const char *
hm_log_quote(struct hm_log_text *buffer, const char *text)
{
	size_t used = 0;

	for (; *text != '\0' && used + 3 < sizeof(buffer->text); text++) {
		if (*text == '"' || *text == '\\')
			buffer->text[used++] = '\\';
		buffer->text[used++] = *text;
	}
	buffer->text[used] = '\0';
	return buffer->text;
}

/* Append text with control characters escaped; returns the new length. */
static size_t
log_append(char line[LOG_LINE_BYTES], size_t used, const char *text)
{
	for (; *text != '\0' && used + 5 < LOG_LINE_BYTES; text++) {
		unsigned char c = (unsigned char)*text;

		if (c >= 0x20 && c != 0x7f)
			line[used++] = *text;
		else
			used += (size_t)snprintf(line + used,
			    LOG_LINE_BYTES - used, "\\x%02x", c);
	}
	return used;
}

static size_t
log_prefix(char line[LOG_LINE_BYTES], enum hm_log_level level)
{
	struct timespec now;
	struct tm parts;
	size_t used;

	if (log_state.managed)
		return (size_t)snprintf(line, LOG_LINE_BYTES, "<%d>",
		    log_priorities[level]);
	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)localtime_r(&now.tv_sec, &parts);
	used = strftime(line, LOG_LINE_BYTES, "%Y-%m-%dT%H:%M:%S", &parts);
	used += (size_t)snprintf(line + used, LOG_LINE_BYTES - used,
	    ".%03ld hummingd[%ld] %s ", now.tv_nsec / 1000000, (long)getpid(),
	    log_level_names[level]);
	return used;
}

void
hm_log(enum hm_log_group group, enum hm_log_level level, const char *format,
    ...)
{
	int saved_errno = errno;
	char line[LOG_LINE_BYTES];
	char text[LOG_LINE_BYTES - 128];
	va_list arguments;
	ssize_t written;
	size_t used;

	if (!hm_log_enabled(group, level))
		return;
	va_start(arguments, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is, above */
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	used = log_prefix(line, level);
	used = log_append(line, used, log_group_names[group]);
	used = log_append(line, used, ": ");
	used = log_append(line, used, text);
	line[used++] = '\n';
	/* A log that cannot be written has nowhere to say so. */
	written = write(log_state.fd, line, used);
	(void)written;
	errno = saved_errno;
}
