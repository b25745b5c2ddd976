/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixture.c - see fixture.h.
 */
#include "tests/abi/fixture.h"

#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t
fixture_parse(const char *hex, uint8_t *bytes)
{
	size_t n = 0;
	unsigned value = 0;

	for (; sscanf(hex, "%2x", &value) == 1; hex += 2) {
		assert_true(n < HM_FRAME_MAX_BYTES);
		bytes[n++] = (uint8_t)value;
	}
	return n;
}

void
fixture_read(const char *folder, const char *file, const char *name,
    struct fixture_packet *packet_out)
{
	char path[600];
	char *line = NULL;
	size_t room = 0;
	size_t n_name = strlen(name);
	FILE *from;

	packet_out->n_bytes = 0;
	(void)snprintf(path, sizeof(path), "%s/%s", folder, file);
	from = fopen(path, "re");
	if (from == NULL)
		fail_msg("cannot open %s", path);
	while (getline(&line, &room, from) > 0) {
		if (strncmp(line, name, n_name) == 0 && line[n_name] == ' ')
			packet_out->n_bytes =
			    fixture_parse(line + n_name + 1, packet_out->bytes);
	}
	free(line);
	(void)fclose(from);
	if (packet_out->n_bytes < HM_FRAME_HEADER_BYTES)
		fail_msg("%s has no packet %s", path, name);
}

static void
fixture_print(FILE *to, const uint8_t *bytes, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++)
		(void)fprintf(to, "%02x", bytes[i]);
}

/* Little-endian. */
static void
fixture_print_word(FILE *to, uint32_t word)
{
	for (unsigned i = 0; i < sizeof(word); i++)
		(void)fprintf(to, "%02x", word >> 8 * i & 0xff);
}

void
fixture_write(FILE *to, const char *name, const struct hm_frame *frame)
{
	(void)fprintf(to, "%s ", name);
	fixture_print_word(to, HM_FRAME_MAGIC);
	fixture_print_word(to,
	    HM_FRAME_VERSION | frame->type << 16 | frame->flags << 24);
	fixture_print_word(to, frame->request_id);
	fixture_print_word(to, (uint32_t)frame->n_body);
	fixture_print(to, frame->body, frame->n_body);
	fixture_print(to, frame->raw, frame->n_raw);
	(void)fputc('\n', to);
}

void
fixture_set_id(struct fixture_packet *packet, uint32_t request_id)
{
	request_id = htole32(request_id);
	memcpy(packet->bytes + 8, &request_id, sizeof(request_id));
}

void
fixture_body(const struct fixture_packet *packet, const uint8_t **body_out,
    size_t *n_body_out)
{
	uint32_t n_body;

	memcpy(&n_body, packet->bytes + 12, sizeof(n_body));
	n_body = le32toh(n_body);
	assert_true(n_body <= packet->n_bytes - HM_FRAME_HEADER_BYTES);
	*body_out = packet->bytes + HM_FRAME_HEADER_BYTES;
	*n_body_out = n_body;
}
