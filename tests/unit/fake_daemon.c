/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_daemon.c - see fake_daemon.h.
 */
#include "tests/unit/fake_daemon.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jit/config.h"

#define WAIT_MS 10000

struct fake_daemon {
	char folder[32];
	char path[64];
	int listen_fd;
	int stop_fd;
	pthread_t thread;
	fake_serve_fn serve;
	void *payload;
	atomic_uint n_connections;
};

static void
fake_require(bool holds, const char *what)
{
	if (holds)
		return;
	(void)fprintf(stderr, "fake daemon: %s\n", what);
	_exit(99);
}

static void *
fake_main(void *argument)
{
	struct fake_daemon *daemon = argument;
	struct pollfd wait[2] = {{.fd = daemon->listen_fd, .events = POLLIN},
	    {.fd = daemon->stop_fd, .events = POLLIN}};
	unsigned number;
	int fd;

	while (poll(wait, 2, -1) > 0 && wait[1].revents == 0) {
		fd = accept4(daemon->listen_fd, NULL, NULL,
		    SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd == -1)
			continue;
		number = atomic_fetch_add(&daemon->n_connections, 1);
		daemon->serve(fd, number, daemon->payload);
		(void)close(fd);
	}
	return NULL;
}

struct fake_daemon *
fake_daemon_new(fake_serve_fn serve, void *payload)
{
	struct fake_daemon *daemon = calloc(1, sizeof *daemon);
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	fake_require(daemon != NULL, "calloc");
	daemon->serve = serve;
	daemon->payload = payload;
	(void)snprintf(daemon->folder, sizeof daemon->folder,
	    "/tmp/hm-fake-XXXXXX");
	fake_require(mkdtemp(daemon->folder) != NULL, "mkdtemp");
	(void)snprintf(daemon->path, sizeof daemon->path, "%s/s",
	    daemon->folder);
	memcpy(address.sun_path, daemon->path, strlen(daemon->path) + 1);
	daemon->listen_fd =
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	daemon->stop_fd = eventfd(0, EFD_CLOEXEC);
	fake_require(daemon->listen_fd != -1 && daemon->stop_fd != -1, "fds");
	fake_require(bind(daemon->listen_fd, (struct sockaddr *)&address,
			 sizeof address) == 0 &&
			 listen(daemon->listen_fd, 16) == 0,
	    "listen");
	fake_require(pthread_create(&daemon->thread, NULL, fake_main, daemon) ==
			 0,
	    "thread");
	return daemon;
}

void
fake_daemon_free(struct fake_daemon *daemon)
{
	uint64_t one = 1;

	fake_require(write(daemon->stop_fd, &one, sizeof one) == sizeof one,
	    "stop");
	(void)pthread_join(daemon->thread, NULL);
	(void)close(daemon->listen_fd);
	(void)close(daemon->stop_fd);
	(void)unlink(daemon->path);
	(void)rmdir(daemon->folder);
	free(daemon);
}

const char *
fake_daemon_path(const struct fake_daemon *daemon)
{
	return daemon->path;
}

unsigned
fake_daemon_connections(const struct fake_daemon *daemon)
{
	return atomic_load(&daemon->n_connections);
}

bool
fake_recv(int fd, uint8_t *buffer, struct hm_frame *frame_out)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	fake_require(poll(&wait, 1, WAIT_MS) == 1, "nothing was sent");
	return hm_frame_recv(fd, buffer, frame_out) == HM_OK;
}

void
fake_send(int fd, const struct hm_frame *frame)
{
	struct pollfd wait = {.fd = fd, .events = POLLOUT};

	/* A client that has given up is no failure of the fake's. */
	while (hm_frame_send(fd, frame) == HM_E_BUSY)
		fake_require(poll(&wait, 1, WAIT_MS) == 1, "nobody reads");
}

void
fake_welcome_init(struct hm_welcome *welcome)
{
	memset(welcome, 0, sizeof *welcome);
	welcome->schema = HM_SCHEMA;
	welcome->kernel_abi = HM_KERNEL_ABI;
	welcome->pack_layout = HM_PACK_LAYOUT;
	welcome->max_requests = HM_MAX_GET_REQUESTS;
	welcome->max_source_bytes = HM_MAX_SOURCE_BYTES;
	(void)snprintf(welcome->version, sizeof welcome->version, "9.9.9");
}

void
fake_greet(int fd, const struct hm_welcome *welcome)
{
	static const struct hm_frame empty = {.fd = -1};
	struct hm_frame frame = empty, reply = empty;
	uint8_t *buffer = malloc(HM_FRAME_MAX_BYTES);
	uint8_t body[256];

	fake_require(buffer != NULL, "malloc");
	if (fake_recv(fd, buffer, &frame)) {
		reply.type = HM_FRAME_WELCOME;
		reply.request_id = frame.request_id;
		reply.body = body;
		fake_require(hm_codec_pack_welcome(welcome, body, sizeof body,
				 &reply.n_body) == HM_OK,
		    "welcome");
		fake_send(fd, &reply);
	}
	free(buffer);
}

bool
fake_greet_and_recv(int fd, uint8_t *buffer, struct hm_frame *frame_out)
{
	struct hm_welcome welcome;

	fake_welcome_init(&welcome);
	fake_greet(fd, &welcome);
	return fake_recv(fd, buffer, frame_out);
}

void
fake_reply_init(struct hm_kernel_reply *reply, uint32_t index,
    const void *image, size_t n_image)
{
	memset(reply, 0, sizeof *reply);
	reply->index = index;
	reply->status = HM_REPLY_BUILT;
	reply->tier = HM_TIER_BUILT;
	reply->image_bytes = (uint32_t)n_image;
	reply->kernel_abi = HM_KERNEL_ABI;
	reply->pack_layout = HM_PACK_LAYOUT;
	hm_digest_compute(image, n_image, &reply->key);
	hm_checksum_compute(image, n_image, &reply->checksum);
	reply->meta.n_config_words = sizeof(struct hm_config) / 4;
	reply->meta.registers = 77;
	(void)snprintf(reply->meta.entry, sizeof reply->meta.entry,
	    "hm_gemm_test");
	(void)snprintf(reply->meta.spec, sizeof reply->meta.spec, "w=u4");
	(void)snprintf(reply->meta.arch, sizeof reply->meta.arch, "sm_90a");
}

void
fake_send_patched(int fd, const struct hm_frame *carrier,
    const struct hm_kernel_reply *reply, const uint8_t *patch, size_t n_patch)
{
	struct hm_frame frame = *carrier;
	uint8_t body[16384];

	frame.type = HM_FRAME_KERNEL;
	fake_require(hm_codec_pack_kernel(reply, body, sizeof body - n_patch,
			 &frame.n_body) == HM_OK,
	    "kernel");
	if (n_patch != 0)
		memcpy(body + frame.n_body, patch, n_patch);
	frame.n_body += n_patch;
	frame.body = body;
	fake_send(fd, &frame);
}

void
fake_send_kernel(int fd, uint32_t id, const struct hm_kernel_reply *reply,
    const void *raw, size_t n_raw, int image_fd)
{
	struct hm_frame frame = {
	    .request_id = id,
	    .raw = raw,
	    .n_raw = n_raw,
	    .fd = image_fd,
	};

	fake_send_patched(fd, &frame, reply, NULL, 0);
}
