/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_worker.c - a humming-worker that lies: the faults that the real one
 * cannot be made to show. Which one is the first word of the file "mode"
 * beside this program. Every job after a fault's is done alike.
 */
#include <sys/mman.h>

#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/codec.h"
#include "proto/frame.h"

#define CHANNEL 3

static char mode[32];
static uint8_t buffer[HM_FRAME_MAX_BYTES];

static int
is_mode(const char *name)
{
	return strcmp(mode, name) == 0;
}

static void
read_mode(void)
{
	char path[512] = "";
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 32);
	FILE *file;

	if (length <= 0)
		_exit(9);
	path[length] = '\0';
	memcpy(strrchr(path, '/'), "/mode", 6);
	file = fopen(path, "re");
	if (file == NULL || fscanf(file, "%31s", mode) != 1)
		_exit(9);
	(void)fclose(file);
}

static void
send_body(uint32_t type, uint32_t id, const uint8_t *body, size_t n_body)
{
	struct hm_frame frame = {.type = type,
	    .request_id = id,
	    .body = body,
	    .n_body = n_body,
	    .fd = -1};

	if (hm_frame_send(CHANNEL, &frame) != HM_OK)
		_exit(8);
}

static void
send_ready(void)
{
	struct hm_worker_ready ready = {.compiler = "fake 1.0",
	    .archs = "80,90",
	    .sandbox = 15};
	uint8_t body[2048];
	size_t n_body = 0;

	if (is_mode("no-sandbox"))
		ready.sandbox = 3;
	if (is_mode("unready")) {
		ready.error = HM_E_UNSUPPORTED;
		(void)snprintf(ready.message, sizeof(ready.message),
		    "libnvrtc.so.99 is not here");
	}
	if (hm_codec_pack_worker_ready(&ready, body, sizeof(body), &n_body) !=
	    HM_OK)
		_exit(7);
	send_body(HM_FRAME_WORKER_READY, 0, body, n_body);
}

/* The lie of this mode about one job. */
static void
do_job(uint32_t id, int fd)
{
	struct hm_job_result result = {.image_bytes = 4096};
	uint8_t body[2048];
	size_t n_body = 0;
	void *map;

	if (is_mode("exit"))
		_exit(1);
	if (is_mode("hang"))
		return;
	if (is_mode("noise")) {
		send_body(HM_FRAME_GET, id, NULL, 0);
		return;
	}
	if (is_mode("bad-body")) {
		memset(body, 0xff, 16);
		send_body(HM_FRAME_JOB_RESULT, id, body, 16);
		return;
	}
	if (is_mode("nothing"))
		result.image_bytes = 0;
	if (is_mode("huge"))
		result.image_bytes = HM_MAX_IMAGE_BYTES;
	if (is_mode("other-job"))
		id += 1;
	/* "zeros" writes none: an image that is no ELF. */
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		_exit(6);
	if (is_mode("half"))
		memcpy(map, "\177ELF\2\1\1\63", 8);
	if (!is_mode("keeps-map"))
		(void)munmap(map, 4096);
	if (hm_codec_pack_job_result(&result, body, sizeof(body), &n_body) !=
	    HM_OK)
		_exit(7);
	send_body(HM_FRAME_JOB_RESULT, id, body, n_body);
}

int
main(void)
{
	struct pollfd wait = {.fd = CHANNEL, .events = POLLIN};
	struct hm_frame frame;

	read_mode();
	if (is_mode("dies-at-start"))
		_exit(3);
	send_ready();
	while (poll(&wait, 1, -1) == 1) {
		if (hm_frame_recv(CHANNEL, buffer, &frame) != HM_OK)
			break;
		do_job(frame.request_id, frame.fd);
		(void)close(frame.fd);
	}
	return 0;
}
