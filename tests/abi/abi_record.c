/* SPDX-License-Identifier: Apache-2.0 */
/*
 * abi_record.c - writes the fixture of this release: what its library says to
 * a daemon, and what a daemon of this release answers.
 *
 *   abi_record FOLDER      makes FOLDER/client.hex and FOLDER/daemon.hex
 *
 * The library is the real one; the answers are packed by the real codec around
 * a tiny image. See README.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/humming/client.h"
#include "tests/abi/fixture.h"
#include "tests/unit/fake_daemon.h"

struct record {
	FILE *client;
	FILE *daemon;
};

static const char record_image[] = "\177ELF: any bytes will do for a library";

static void
record_welcome(struct record *record, int fd, uint32_t id)
{
	uint8_t body[256];
	struct hm_frame frame = {.type = HM_FRAME_WELCOME,
	    .request_id = id,
	    .body = body,
	    .fd = -1};
	struct hm_welcome welcome;

	fake_welcome_init(&welcome);
	(void)snprintf(welcome.version, sizeof(welcome.version), HM_VERSION);
	if (hm_codec_pack_welcome(&welcome, body, sizeof(body),
		&frame.n_body) != HM_OK)
		exit(1);
	fixture_write(record->daemon, "WELCOME", &frame);
	fake_send(fd, &frame);
}

static void
record_kernel(struct record *record, int fd, uint32_t id)
{
	static uint8_t body[16384];
	struct hm_frame frame = {.type = HM_FRAME_KERNEL,
	    .request_id = id,
	    .body = body,
	    .raw = (const uint8_t *)record_image,
	    .n_raw = sizeof(record_image),
	    .fd = -1};
	struct hm_kernel_reply reply;

	fake_reply_init(&reply, 0, record_image, sizeof(record_image));
	if (hm_codec_pack_kernel(&reply, body, sizeof(body), &frame.n_body) !=
	    HM_OK)
		exit(1);
	fixture_write(record->daemon, "KERNEL", &frame);
	fake_send(fd, &frame);
}

static void
record_serve(int fd, unsigned number, void *payload)
{
	static uint8_t buffer[HM_FRAME_MAX_BYTES];
	struct record *record = payload;
	struct hm_frame frame = {.fd = -1};

	(void)number;
	if (!fake_recv(fd, buffer, &frame))
		exit(1);
	fixture_write(record->client, "HELLO", &frame);
	record_welcome(record, fd, frame.request_id);
	if (!fake_recv(fd, buffer, &frame))
		exit(1);
	fixture_write(record->client, "GET", &frame);
	record_kernel(record, fd, frame.request_id);
}

static void
record_request_init(struct humming_kernel_request *request)
{
	humming_kernel_request_init(request, sizeof(*request));
	request->target_cc = 90;
	request->target_suffix = 'a';
	request->a_type = HUMMING_TYPE_BF16;
	request->w_type = HUMMING_TYPE_UINT(4);
	request->scale_kind = HUMMING_SCALE_GROUP;
	request->group = 128;
	request->m = 1;
	request->n = 8192;
	request->k = 8192;
}

static FILE *
record_open(const char *folder, const char *name)
{
	char path[600];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "we");
	if (file == NULL) {
		(void)fprintf(stderr, "abi_record: %s: cannot be written\n",
		    path);
		exit(1);
	}
	(void)fprintf(file,
	    "# SPDX-License-Identifier: Apache-2.0\n"
	    "# Recorded by abi_record of hummingd " HM_VERSION
	    ", schema %u. Never edit.\n",
	    HM_SCHEMA);
	return file;
}

int
main(int argc, char **argv)
{
	struct humming_client_options options;
	struct humming_kernel_request request;
	struct humming_client *client = NULL;
	struct humming_kernel *kernel = NULL;
	struct fake_daemon *daemon;
	struct record record;
	int error;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: abi_record FOLDER\n");
		return 2;
	}
	record.client = record_open(argv[1], "client.hex");
	record.daemon = record_open(argv[1], "daemon.hex");
	daemon = fake_daemon_new(record_serve, &record);
	humming_client_options_init(&options, sizeof(options));
	options.socket_path = fake_daemon_path(daemon);
	record_request_init(&request);
	error = humming_client_open(&options, &client);
	if (error == HUMMING_OK)
		error = humming_client_get_kernel(client, &request, &kernel);
	if (error != HUMMING_OK)
		(void)fprintf(stderr, "abi_record: %s\n",
		    humming_client_last_error(client));
	humming_kernel_unref(kernel);
	humming_client_close(client);
	fake_daemon_free(daemon);
	if (fclose(record.client) != 0 || fclose(record.daemon) != 0)
		return 1;
	return error == HUMMING_OK ? 0 : 1;
}
