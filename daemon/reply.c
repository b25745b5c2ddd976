/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply.c - inline, by descriptor, or in parts (DESIGN.md section 3).
 *
 * Packing a reply with a table of 16 rows costs as much as the rest of a hit
 * (measured: 5 of 10 us), hence the memory of packed bodies.
 */
#include "daemon/reply.h"

#include <stdlib.h>
#include <string.h>

#include "jit/config.h"
#include "proto/frame.h"

#define REPLY_PART_BYTES 49152u
/* Field 1 of message Kernel as a varint: its tag, and at most so much. */
#define REPLY_INDEX_TAG   0x08u
#define REPLY_INDEX_BYTES 6u
#define REPLY_BODY_BYTES                                                       \
	(HM_FRAME_MAX_BYTES - HM_FRAME_HEADER_BYTES - HM_FRAME_INLINE_BYTES -  \
	    REPLY_INDEX_BYTES)

static void
reply_send_parts(struct hm_session *session, uint32_t request_id,
    struct hm_entry *entry)
{
	const struct hm_frame frame = {.type = HM_FRAME_PART,
	    .request_id = request_id,
	    .fd = -1};
	struct hm_payload payload = {.entry = entry};

	while (payload.offset < entry->n_image) {
		payload.n_bytes = entry->n_image - payload.offset;
		if (payload.n_bytes > REPLY_PART_BYTES)
			payload.n_bytes = REPLY_PART_BYTES;
		hm_session_send(session, &frame, &payload);
		payload.offset += payload.n_bytes;
	}
}

/* The reply's frame and the image, by the way that fits. */
static void
reply_send_image(struct hm_session *session, struct hm_frame *frame,
    struct hm_entry *entry)
{
	struct hm_payload payload = {.entry = entry};

	if (entry->n_image <= HM_FRAME_INLINE_BYTES) {
		payload.n_bytes = entry->n_image;
		hm_session_send(session, frame, &payload);
		return;
	}
	frame->fd = entry->fd;
	if (entry->fd != -1 && hm_session_pass_fd(session, frame))
		return;
	frame->fd = -1;
	reply_send_parts(session, frame->request_id, entry);
	hm_session_send(session, frame, NULL);
}

/* Without memory for it the next reply is packed anew, nothing else. */
static void
reply_keep(struct hm_packed *packed, const struct hm_frame *frame,
    const struct hm_entry *entry)
{
	free(packed->bytes);
	packed->bytes = malloc(frame->n_body);
	if (packed->bytes == NULL)
		return;
	memcpy(packed->bytes, frame->body, frame->n_body);
	packed->n_bytes = frame->n_body;
	packed->serial = entry->serial;
}

/*
 * Send a body that says nothing of its index. That is a field of its own, in
 * front: protobuf's fields may stand in any order, and 0 is left out.
 */
static void
reply_send_indexed(struct hm_session *session, const struct hm_frame *frame,
    uint32_t index, struct hm_entry *entry)
{
	uint8_t body[REPLY_BODY_BYTES + REPLY_INDEX_BYTES];
	struct hm_frame whole = *frame;
	size_t n = 0;

	if (index != 0) {
		body[n++] = REPLY_INDEX_TAG;
		for (; index >= 0x80; index >>= 7)
			body[n++] = (uint8_t)(index | 0x80);
		body[n++] = (uint8_t)index;
		memcpy(body + n, frame->body, frame->n_body);
		whole.body = body;
		whole.n_body += n;
	}
	reply_send_image(session, &whole, entry);
}

void
hm_reply_send(struct hm_session *session, uint32_t request_id,
    struct hm_kernel_reply *reply, struct hm_entry *entry,
    struct hm_packed *packed)
{
	uint8_t body[REPLY_BODY_BYTES];
	struct hm_frame frame = {.type = HM_FRAME_KERNEL,
	    .request_id = request_id,
	    .body = body,
	    .fd = -1};
	uint32_t index = packed != NULL ? reply->index : 0;

	reply->kernel_abi = HM_KERNEL_ABI;
	reply->pack_layout = HM_PACK_LAYOUT;
	if (entry != NULL) {
		reply->image_bytes = (uint32_t)entry->n_image;
		reply->checksum = entry->checksum;
	}
	if (packed != NULL)
		reply->index = 0;
	if (hm_codec_pack_kernel(reply, body, sizeof(body), &frame.n_body) !=
	    HM_OK) {
		hm_session_kill(session, HM_E_INTERNAL, "cannot pack a reply");
		return;
	}
	if (entry == NULL) {
		hm_session_send(session, &frame, NULL);
		return;
	}
	if (packed != NULL)
		reply_keep(packed, &frame, entry);
	reply_send_indexed(session, &frame, index, entry);
}

bool
hm_reply_send_packed(struct hm_session *session,
    const struct hm_reply_place *place, const struct hm_packed *packed,
    struct hm_entry *entry)
{
	struct hm_frame frame = {.type = HM_FRAME_KERNEL,
	    .request_id = place->request_id,
	    .body = packed->bytes,
	    .n_body = packed->n_bytes,
	    .fd = -1};

	if (packed->bytes == NULL || packed->serial != entry->serial)
		return false;
	reply_send_indexed(session, &frame, place->index, entry);
	return true;
}
