/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_bench_bare.c - packets of the same sizes between two processes that do
 * nothing else: what a Unix socket costs before any of our code runs.
 *
 * The peer is this program again, with the socket as descriptor 3: a connected
 * one is answered in a blocking loop, which is the fastest there is for one
 * client; a listening one by epoll, the least that many clients need.
 */
#include "client/ctl_bench.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/fd.h"
#include "proto/frame.h"

#define PEER_FD     3
#define PEER_EVENTS 64

union bare_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

/* --- the peer ------------------------------------------------------------ */

struct bare_peer {
	size_t reply_bytes;
	int file_fd; /* goes with each reply; -1 = none */
	uint8_t request[HM_FRAME_MAX_BYTES];
	uint8_t reply[HM_FRAME_MAX_BYTES];
};

static bool
peer_reply(const struct bare_peer *peer, int fd)
{
	union bare_control control = {.bytes = {0}};
	struct iovec iov = {.iov_len = peer->reply_bytes};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	const uint8_t *bytes = peer->reply;
	struct cmsghdr *header;

	memcpy(&iov.iov_base, &bytes, sizeof iov.iov_base);
	if (peer->file_fd != -1) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof control.bytes;
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &peer->file_fd, sizeof(int));
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL) ==
	       (ssize_t)peer->reply_bytes;
}

static bool
peer_turn(struct bare_peer *peer, int fd)
{
	return recv(fd, peer->request, sizeof peer->request, 0) > 0 &&
	       peer_reply(peer, fd);
}

/* Until whoever started us ends us, or has ended. */
static int
peer_serve(struct bare_peer *peer, int epoll_fd)
{
	struct epoll_event events[PEER_EVENTS];
	struct epoll_event event = {.events = EPOLLIN};
	int n;

	event.data.fd = PEER_FD;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, PEER_FD, &event) == -1)
		return HM_CTL_FAILED;
	while ((n = epoll_wait(epoll_fd, events, PEER_EVENTS, -1)) > 0 ||
	       errno == EINTR) {
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (fd != PEER_FD) {
				if (!peer_turn(peer, fd))
					hm_fd_close(&fd);
				continue;
			}
			event.data.fd =
			    accept4(PEER_FD, NULL, NULL, SOCK_CLOEXEC);
			if (event.data.fd != -1)
				(void)epoll_ctl(epoll_fd, EPOLL_CTL_ADD,
				    event.data.fd, &event);
		}
	}
	return HM_CTL_FAILED;
}

static int
peer_run(struct bare_peer *peer, bool is_listener)
{
	int epoll_fd, code;

	if (!is_listener) {
		while (peer_turn(peer, PEER_FD))
			;
		return HM_CTL_OK;
	}
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd == -1)
		return HM_CTL_FAILED;
	code = peer_serve(peer, epoll_fd);
	hm_fd_close(&epoll_fd);
	return code;
}

static bool
peer_number(const char *text, size_t most, size_t *value_out)
{
	size_t value = 0;

	for (; *text >= '0' && *text <= '9' && value <= most; text++)
		value = value * 10 + (size_t)(*text - '0');
	*value_out = value;
	return *text == '\0' && value <= most;
}

int
hm_bench_peer(const struct hm_ctl *ctl)
{
	struct bare_peer *peer;
	size_t file_bytes = 0, parent = 0;
	int is_listener = 0;
	socklen_t n = sizeof is_listener;
	int code = HM_CTL_FAILED;

	peer = calloc(1, sizeof *peer);
	if (peer == NULL)
		return hm_ctl_fail(ctl, "out of memory");
	peer->file_fd = -1;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!peer_number(ctl->operands[1], sizeof peer->reply,
		&peer->reply_bytes) ||
	    !peer_number(ctl->operands[2], HM_MAX_IMAGE_BYTES, &file_bytes) ||
	    !peer_number(ctl->operands[3], INT_MAX, &parent) ||
	    getsockopt(PEER_FD, SOL_SOCKET, SO_ACCEPTCONN, &is_listener, &n) ==
		-1)
		code = hm_ctl_usage(ctl, "takes one of hit, herd and cold");
	else if (getppid() != (pid_t)parent) /* it died before the prctl */
		code = HM_CTL_FAILED;
	else if (file_bytes == 0 ||
		 (hm_fd_memory("hm-bench", file_bytes, &peer->file_fd) ==
			 HM_OK &&
		     hm_fd_seal_existing(peer->file_fd, file_bytes) == HM_OK))
		code = peer_run(peer, is_listener != 0);
	hm_fd_close(&peer->file_fd);
	free(peer);
	return code;
}

/* --- our end ------------------------------------------------------------- */

static int
bare_spawn(struct hm_bench *bench, struct hm_bench_bare *bare, int fd)
{
	char self[4096];
	char command[] = "bench", peer[] = "peer";
	char reply[24], file[24], parent[24];
	char *arguments[] = {self, command, peer, reply, file, parent, NULL};
	struct hm_bench_program program = {.arguments = arguments,
	    .fd = fd,
	    .log_fd = STDERR_FILENO};
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	if (n <= 0) {
		hm_errbuf_set(&bench->why, "/proc/self/exe: %s",
		    strerror(errno));
		return HM_E_SYSTEM;
	}
	self[n] = '\0';
	(void)snprintf(reply, sizeof reply, "%zu", bare->sizes.reply_bytes);
	(void)snprintf(file, sizeof file, "%zu", bare->sizes.file_bytes);
	(void)snprintf(parent, sizeof parent, "%ld", (long)getpid());
	return hm_bench_spawn(&program, &bare->pid, &bench->why);
}

uint8_t *
hm_bench_packet(void)
{
	uint8_t *packet = aligned_alloc(HM_TRANSPORT_ALIGN, HM_FRAME_MAX_BYTES);

	if (packet != NULL)
		memset(packet, 0, HM_FRAME_MAX_BYTES);
	return packet;
}

static int
bare_init(struct hm_bench_bare *bare, const struct hm_bench_sizes *sizes)
{
	memset(bare, 0, sizeof *bare);
	bare->sizes = *sizes;
	bare->pid = -1;
	bare->fd = -1;
	bare->buffer = hm_bench_packet();
	return bare->buffer != NULL ? HM_OK : HM_E_NOMEM;
}

int
hm_bench_bare_pair(struct hm_bench *bench, const struct hm_bench_sizes *sizes,
    struct hm_bench_bare *bare_out)
{
	int ends[2];
	int error;

	error = bare_init(bare_out, sizes);
	if (error != HM_OK)
		return error;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == -1) {
		hm_errbuf_set(&bench->why, "socketpair: %s", strerror(errno));
		return HM_E_SYSTEM;
	}
	bare_out->fd = ends[0];
	error = bare_spawn(bench, bare_out, ends[1]);
	hm_fd_close(&ends[1]);
	return error;
}

int
hm_bench_bare_listen(struct hm_bench *bench, const struct hm_bench_sizes *sizes,
    struct hm_bench_bare *bare_out)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int error, fd;

	error = bare_init(bare_out, sizes);
	if (error != HM_OK)
		return error;
	(void)snprintf(bare_out->path, sizeof bare_out->path, "%s/bare.sock",
	    bench->folder);
	memcpy(address.sun_path, bare_out->path, sizeof bare_out->path);
	(void)unlink(bare_out->path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd == -1 ||
	    bind(fd, (const struct sockaddr *)&address, sizeof address) == -1 ||
	    listen(fd, HM_BENCH_CLIENTS) == -1) {
		hm_errbuf_set(&bench->why, "%s: %s", bare_out->path,
		    strerror(errno));
		error = HM_E_SYSTEM;
	} else {
		error = bare_spawn(bench, bare_out, fd);
	}
	hm_fd_close(&fd);
	return error;
}

void
hm_bench_bare_done(struct hm_bench_bare *bare)
{
	hm_fd_close(&bare->fd);
	hm_bench_end(&bare->pid);
	free(bare->buffer);
	bare->buffer = NULL;
}

int
hm_bench_bare_connect(const struct hm_bench_bare *bare)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, bare->path, sizeof bare->path);
	if (fd != -1 && connect(fd, (const struct sockaddr *)&address,
			    sizeof address) == -1)
		hm_fd_close(&fd);
	return fd;
}

bool
hm_bench_bare_send(int fd, const struct hm_bench_sizes *sizes,
    const uint8_t *buffer)
{
	return send(fd, buffer, sizes->request_bytes, MSG_NOSIGNAL) ==
	       (ssize_t)sizes->request_bytes;
}

/* NOLINTBEGIN(readability-non-const-parameter): recvmsg writes there. */
/* The descriptor that comes with a packet, or -1. */
static int
bare_recv_file(int fd, uint8_t *buffer)
/* NOLINTEND(readability-non-const-parameter) */
{
	union bare_control control;
	struct iovec iov = {.iov_base = buffer, .iov_len = HM_FRAME_MAX_BYTES};
	struct msghdr message = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.bytes,
	    .msg_controllen = sizeof control.bytes};
	const struct cmsghdr *header;
	int file_fd = -1;

	if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) <= 0)
		return -1;
	header = CMSG_FIRSTHDR(&message);
	if (header != NULL && header->cmsg_type == SCM_RIGHTS)
		memcpy(&file_fd, CMSG_DATA(header), sizeof file_fd);
	return file_fd;
}

bool
hm_bench_bare_recv(int fd, const struct hm_bench_sizes *sizes, uint8_t *buffer,
    struct hm_checksum *checksum_out)
{
	ssize_t n;
	void *map;
	int file_fd;

	if (sizes->file_bytes == 0) {
		n = recv(fd, buffer, HM_FRAME_MAX_BYTES, 0);
		if (n > 0 && checksum_out != NULL)
			hm_checksum_compute(buffer, (size_t)n, checksum_out);
		return n > 0;
	}
	file_fd = bare_recv_file(fd, buffer);
	if (file_fd == -1)
		return false;
	map = mmap(NULL, sizes->file_bytes, PROT_READ, MAP_SHARED, file_fd, 0);
	hm_fd_close(&file_fd);
	if (map == MAP_FAILED)
		return false;
	if (checksum_out != NULL)
		hm_checksum_compute(map, sizes->file_bytes, checksum_out);
	(void)munmap(map, sizes->file_bytes);
	return true;
}
