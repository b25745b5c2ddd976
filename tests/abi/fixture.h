/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixture.h - packets of an earlier release, as hexadecimal text.
 *
 * A fixture is a file of lines "NAME HEX", one packet each, '#' for comments;
 * tests/abi/README.md says how to record one.
 */
#ifndef HM_TESTS_FIXTURE_H
#define HM_TESTS_FIXTURE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/frame.h"

struct fixture_packet {
	uint8_t bytes[HM_FRAME_MAX_BYTES];
	size_t n_bytes;
};

/* The packet of a name; asserts that the file has one. */
void fixture_read(const char *folder, const char *file, const char *name,
    struct fixture_packet *packet_out);

void fixture_write(FILE *to, const char *name, const struct hm_frame *frame);

/* Another request id, so that an answer belongs to the question at hand. */
void fixture_set_id(struct fixture_packet *packet, uint32_t request_id);

/* The packet as a frame, its header not looked at: for what only an earlier
 * release may have understood. */
void fixture_body(const struct fixture_packet *packet, const uint8_t **body_out,
    size_t *n_body_out);

#endif
