/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.c - a page of code by sd_notify(3)'s own description.
 */
#include "daemon/notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "proto/fd.h"

#define NOTIFY_TEXT_BYTES 640

/* Send assignments, one a line. MSG_DONTWAIT in flags: rather lose them than
 * wait for a manager that does not read. */
static int
notify_manager(const char *text, int flags, struct hm_errbuf *errbuf)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t n_address;
	size_t length;
	ssize_t sent;
	int fd;

	if (path == NULL || path[0] == '\0')
		return HM_OK;
	length = strlen(path);
	if ((path[0] != '/' && path[0] != '@') ||
	    length >= sizeof(address.sun_path)) {
		hm_errbuf_set(errbuf, "NOTIFY_SOCKET: cannot use '%s'", path);
		return HM_E_INVALID;
	}
	memcpy(address.sun_path, path, length);
	if (path[0] == '@')
		address.sun_path[0] = '\0'; /* Linux' abstract names */
	n_address =
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd == -1) {
		hm_errbuf_set(errbuf, "NOTIFY_SOCKET: %s", strerror(errno));
		return HM_E_SYSTEM;
	}
	sent = sendto(fd, text, strlen(text), MSG_NOSIGNAL | flags,
	    (const struct sockaddr *)&address, n_address);
	if (sent == -1)
		hm_errbuf_set(errbuf, "NOTIFY_SOCKET: %s: %s", path,
		    strerror(errno));
	hm_fd_close(&fd);
	return sent == -1 ? HM_E_SYSTEM : HM_OK;
}

/* A whole decimal number of the environment. */
static bool
notify_number(const char *name, uint64_t *number_out)
{
	const char *text = getenv(name);
	unsigned long long number;
	char *end = NULL;

	if (text == NULL || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno != 0 || *end != '\0')
		return false;
	*number_out = number;
	return true;
}

/* The descriptor that HUMMING_READY_FD names, or -1. */
static int
notify_ready_fd(void)
{
	uint64_t number = 0;

	if (!notify_number("HUMMING_READY_FD", &number) || number > 65535)
		return -1;
	return (int)number;
}

/* HUMMING_READY_FD's line, once. */
static int
notify_descriptor(struct hm_errbuf *errbuf)
{
	static const char line[] = "ready\n";
	int fd = notify_ready_fd();
	int error = HM_OK;

	if (fd != -1) {
		error = hm_fd_write_all(fd, line, sizeof(line) - 1);
		if (error != HM_OK)
			hm_errbuf_set(errbuf, "HUMMING_READY_FD=%d: %s", fd,
			    strerror(errno));
		hm_fd_close(&fd);
	}
	/* A worker must neither inherit nor believe it. */
	(void)unsetenv("HUMMING_READY_FD");
	return error;
}

int
hm_notify_ready(const char *status, struct hm_errbuf *errbuf)
{
	char text[NOTIFY_TEXT_BYTES];
	int error = notify_descriptor(errbuf);

	if (error != HM_OK)
		return error;
	if (status == NULL)
		return notify_manager("READY=1", 0, errbuf);
	(void)snprintf(text, sizeof(text), "READY=1\nSTATUS=%s", status);
	return notify_manager(text, 0, errbuf);
}

int
hm_notify_stopping(struct hm_errbuf *errbuf)
{
	return notify_manager("STOPPING=1", 0, errbuf);
}

int
hm_notify_reloading(struct hm_errbuf *errbuf)
{
	char text[80];

	(void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu",
	    (unsigned long long)hm_clock_us());
	return notify_manager(text, 0, errbuf);
}

int
hm_notify_status(const char *status, struct hm_errbuf *errbuf)
{
	char text[NOTIFY_TEXT_BYTES];

	(void)snprintf(text, sizeof(text), "STATUS=%s", status);
	return notify_manager(text, MSG_DONTWAIT, errbuf);
}

int
hm_notify_alive(struct hm_errbuf *errbuf)
{
	return notify_manager("WATCHDOG=1", MSG_DONTWAIT, errbuf);
}

uint64_t
hm_notify_watchdog_us(void)
{
	uint64_t interval_us = 0;
	uint64_t pid = 0;

	if (getenv("NOTIFY_SOCKET") == NULL ||
	    !notify_number("WATCHDOG_USEC", &interval_us))
		return 0;
	/* Inherited by accident: it is another process that is watched. */
	if (getenv("WATCHDOG_PID") != NULL &&
	    (!notify_number("WATCHDOG_PID", &pid) || pid != (uint64_t)getpid()))
		return 0;
	return interval_us;
}
