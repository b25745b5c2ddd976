/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_codec.c - every message of the wire, its kind chosen by the first byte.
 *
 * Promises: a body is refused, or gives a struct that packs; what was packed
 * unpacks again, to a struct that packs into the same bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "proto/codec.h"

/* A message of 64 KiB never grows to twice that when it is packed again. */
#define CODEC_MAX_BYTES (128u << 10)

/* Unpack, and pack what came out into CODEC_MAX_BYTES. */
typedef int (*codec_repack_fn)(const uint8_t *body, size_t n_body,
    uint8_t *buffer, size_t *n_out);

static void
codec_not_owned(const void *plain)
{
	(void)plain;
}

/* The same function for every struct: C has no other way to say so. */
#define CODEC_REPACK(codec, type, done)                                        \
	static int repack_##codec(const uint8_t *body, size_t n_body,          \
	    uint8_t *buffer, size_t *n_out)                                    \
	{                                                                      \
		type plain;                                                    \
		int error;                                                     \
                                                                               \
		memset(&plain, 0x55, sizeof plain);                            \
		error = hm_codec_unpack_##codec(body, n_body, &plain);         \
		if (error != HM_OK)                                            \
			return error;                                          \
		fuzz_require(hm_codec_pack_##codec(&plain, buffer,             \
				 CODEC_MAX_BYTES, n_out) == HM_OK);            \
		done(&plain);                                                  \
		return HM_OK;                                                  \
	}

CODEC_REPACK(hello, struct hm_hello, codec_not_owned)
CODEC_REPACK(welcome, struct hm_welcome, codec_not_owned)
CODEC_REPACK(get, struct hm_get, hm_get_done)
CODEC_REPACK(compile, struct hm_compile, hm_compile_done)
CODEC_REPACK(explain, struct hm_digest, codec_not_owned)
CODEC_REPACK(meta, struct hm_meta, codec_not_owned)
CODEC_REPACK(kernel, struct hm_kernel_reply, hm_kernel_reply_done)
CODEC_REPACK(progress, struct hm_progress, codec_not_owned)
CODEC_REPACK(refusal, struct hm_refusal, codec_not_owned)
CODEC_REPACK(record_reply, struct hm_record_reply, codec_not_owned)
CODEC_REPACK(job, struct hm_job, hm_job_done)
CODEC_REPACK(job_result, struct hm_job_result, hm_job_result_done)
CODEC_REPACK(worker_ready, struct hm_worker_ready, codec_not_owned)

static int
repack_cancel(const uint8_t *body, size_t n_body, uint8_t *buffer,
    size_t *n_out)
{
	uint32_t id = 0;
	int error = hm_codec_unpack_cancel(body, n_body, &id);

	if (error != HM_OK)
		return error;
	fuzz_require(
	    hm_codec_pack_cancel(id, buffer, CODEC_MAX_BYTES, n_out) == HM_OK);
	return HM_OK;
}

static int
repack_text(const uint8_t *body, size_t n_body, uint8_t *buffer, size_t *n_out)
{
	char *text = NULL;
	int error = hm_codec_unpack_text(body, n_body, &text);

	if (error != HM_OK)
		return error;
	fuzz_require(hm_codec_pack_text(text != NULL ? text : "", buffer,
			 CODEC_MAX_BYTES, n_out) == HM_OK);
	free(text);
	return HM_OK;
}

/* In this order for ever: the corpus counts on it. */
static const codec_repack_fn codec_kinds[] = {repack_hello, repack_welcome,
    repack_get, repack_compile, repack_cancel, repack_explain, repack_meta,
    repack_kernel, repack_progress, repack_text, repack_refusal,
    repack_record_reply, repack_job, repack_job_result, repack_worker_ready};

void
fuzz_one(const uint8_t *data, size_t size)
{
	static uint8_t first[CODEC_MAX_BYTES];
	static uint8_t second[CODEC_MAX_BYTES];
	size_t n_first = 0;
	size_t n_second = 0;
	codec_repack_fn repack;

	if (size == 0)
		return;
	repack = codec_kinds[data[0] % (sizeof codec_kinds / sizeof(repack))];
	if (repack(data + 1, size - 1, first, &n_first) != HM_OK)
		return;
	fuzz_require(repack(first, n_first, second, &n_second) == HM_OK);
	fuzz_require(n_first == n_second);
	fuzz_require(memcmp(first, second, n_first) == 0);
}
