/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.c - a page of code by sd_notify(3)'s own description.
 */
#include "daemon/notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/fd.h"

/* Send one assignment to the service manager. */
static int
notify_manager(const char *text, struct hm_errbuf *errbuf)
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
	sent = sendto(fd, text, strlen(text), MSG_NOSIGNAL,
	    (const struct sockaddr *)&address, n_address);
	if (sent == -1)
		hm_errbuf_set(errbuf, "NOTIFY_SOCKET: %s: %s", path,
		    strerror(errno));
	hm_fd_close(&fd);
	return sent == -1 ? HM_E_SYSTEM : HM_OK;
}

/* The descriptor that HUMMING_READY_FD names, or -1. */
static int
notify_ready_fd(void)
{
	const char *text = getenv("HUMMING_READY_FD");
	char *end = NULL;
	unsigned long number;

	if (text == NULL || text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	number = strtoul(text, &end, 10);
	if (errno != 0 || *end != '\0' || number > 65535)
		return -1;
	return (int)number;
}

int
hm_notify_ready(struct hm_errbuf *errbuf)
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
	if (error != HM_OK)
		return error;
	return notify_manager("READY=1", errbuf);
}

int
hm_notify_stopping(struct hm_errbuf *errbuf)
{
	return notify_manager("STOPPING=1", errbuf);
}
