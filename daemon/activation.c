/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activation.c - believes only what is meant for this process and is the kind
 * of socket that we serve.
 */
#include "daemon/activation.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACTIVATION_FIRST_FD 3 /* SD_LISTEN_FDS_START */

static bool
activation_number(const char *name, unsigned long *number_out)
{
	const char *text = getenv(name);
	unsigned long number;
	char *end = NULL;

	if (text == NULL || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	number = strtoul(text, &end, 10);
	if (errno != 0 || *end != '\0')
		return false;
	*number_out = number;
	return true;
}

static bool
activation_has(int fd, int option, int wanted)
{
	int value = 0;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 &&
	       value == wanted;
}

static int
activation_name(int fd, char *path_out, size_t size, struct hm_errbuf *errbuf)
{
	struct sockaddr_un address;
	socklen_t n_address = sizeof(address);
	size_t length;

	memset(&address, 0, sizeof(address));
	if (getsockname(fd, (struct sockaddr *)&address, &n_address) != 0) {
		hm_errbuf_set(errbuf, "LISTEN_FDS: %s", strerror(errno));
		return HM_E_SYSTEM;
	}
	length = n_address > offsetof(struct sockaddr_un, sun_path)
		     ? n_address - offsetof(struct sockaddr_un, sun_path)
		     : 0;
	if (length > 0 && address.sun_path[0] == '\0')
		address.sun_path[0] = '@'; /* Linux' abstract names */
	(void)snprintf(path_out, size, "%.*s", (int)length, address.sun_path);
	return HM_OK;
}

static int
activation_prepare(int fd, struct hm_errbuf *errbuf)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags == -1 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
	    fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
		hm_errbuf_set(errbuf, "LISTEN_FDS: %s", strerror(errno));
		return HM_E_SYSTEM;
	}
	return HM_OK;
}

int
hm_activation_take(char *path_out, size_t size, int *fd_out,
    struct hm_errbuf *errbuf)
{
	const int fd = ACTIVATION_FIRST_FD;
	unsigned long n_fds = 0;
	unsigned long pid = 0;
	bool is_ours = activation_number("LISTEN_PID", &pid) &&
		       pid == (unsigned long)getpid() &&
		       activation_number("LISTEN_FDS", &n_fds) && n_fds > 0;
	int error;

	(void)unsetenv("LISTEN_PID");
	(void)unsetenv("LISTEN_FDS");
	(void)unsetenv("LISTEN_FDNAMES");
	if (!is_ours) {
		*fd_out = -1;
		return HM_OK;
	}
	if (n_fds != 1) {
		hm_errbuf_set(errbuf,
		    "LISTEN_FDS=%lu: hummingd takes one socket, and its socket "
		    "unit must name no other",
		    n_fds);
		return HM_E_INVALID;
	}
	if (!activation_has(fd, SO_DOMAIN, AF_UNIX) ||
	    !activation_has(fd, SO_TYPE, SOCK_SEQPACKET) ||
	    !activation_has(fd, SO_ACCEPTCONN, 1)) {
		hm_errbuf_set(errbuf,
		    "LISTEN_FDS: not a listening Unix socket of packets "
		    "(ListenSequentialPacket=, Accept=no)");
		return HM_E_INVALID;
	}
	error = activation_name(fd, path_out, size, errbuf);
	if (error == HM_OK)
		error = activation_prepare(fd, errbuf);
	if (error == HM_OK)
		*fd_out = fd;
	return error;
}
