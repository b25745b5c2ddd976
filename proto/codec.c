/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.c - messages between clients and the daemon.
 *
 * Tables first (wire.h says how they are read), then a pack and an unpack
 * function for each message. Numbers of a kernel request pass as they are:
 * what they mean and which are legal is jit/spec's to say, with words.
 */
#include "proto/codec.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "hummingd.pb-c.h"
#include "proto/frame.h"
#include "proto/wire.h"

#define CODEC_CONFIG_BYTES ((size_t)4 * HM_MAX_CONFIG_WORDS)
/* A request: a tag of two bytes and five of a number for each word. */
#define CODEC_REQUEST_BYTES (7 * sizeof(struct hm_request) / 4)
/* Number of the list in message Get. */
#define GET_REQUESTS 3u

static const struct hm_wire_field hello_fields[] = {
    HM_ROW_ANY(Hello, hello, schema),
    HM_ROW_ANY(Hello, hello, capabilities),
    HM_ROW_ANY(Hello, hello, kernel_abi),
    HM_ROW_ANY(Hello, hello, pack_layout),
    HM_ROW_NAME(Hello, hello, program),
};
static const struct hm_wire_message hello_message =
    HM_WIRE_MESSAGE(hello, hello_fields);

static const struct hm_wire_field welcome_fields[] = {
    HM_ROW_ANY(Welcome, welcome, schema),
    HM_ROW_ANY(Welcome, welcome, capabilities),
    HM_ROW_ANY(Welcome, welcome, kernel_abi),
    HM_ROW_ANY(Welcome, welcome, pack_layout),
    HM_ROW_NAME(Welcome, welcome, version),
    HM_ROW_ANY(Welcome, welcome, max_requests),
    HM_ROW_ANY(Welcome, welcome, max_source_bytes),
};
static const struct hm_wire_message welcome_message =
    HM_WIRE_MESSAGE(welcome, welcome_fields);

static const struct hm_wire_field request_fields[] = {
    HM_ROW_NUMBER(HM_WIRE_U32, UINT32_MAX, Request, cc, request, target.cc),
    HM_ROW_NUMBER(HM_WIRE_U32, UINT32_MAX, Request, suffix, request,
	target.suffix),
    HM_ROW_ANY(Request, request, operation),
    HM_ROW_ANY(Request, request, a_type),
    HM_ROW_ANY(Request, request, w_type),
    HM_ROW_ANY(Request, request, c_type),
    HM_ROW_ANY(Request, request, scale_kind),
    HM_ROW_ANY(Request, request, group),
    HM_ROW_ANY(Request, request, block_rows),
    HM_ROW_ANY(Request, request, block_cols),
    HM_ROW_ANY(Request, request, scale_type),
    HM_ROW_ANY(Request, request, tensor_scale),
    HM_ROW_ANY(Request, request, zero),
    HM_ROW_ANY(Request, request, act_scale),
    HM_ROW_ANY(Request, request, act_group),
    HM_ROW_ANY(Request, request, act_layout),
    HM_ROW_ANY(Request, request, bias),
    HM_ROW_ANY(Request, request, deterministic),
    HM_ROW_ANY(Request, request, acc_type),
    HM_ROW_ANY(Request, request, epilogue),
    HM_ROW_ANY(Request, request, q_type),
    HM_ROW_ANY(Request, request, mx_exact),
    HM_ROW_ANY(Request, request, m),
    HM_ROW_ANY(Request, request, n),
    HM_ROW_ANY(Request, request, k),
    HM_ROW_ANY(Request, request, experts),
    HM_ROW_ANY(Request, request, topk),
    HM_ROW_ANY(Request, request, sms),
};
static const struct hm_wire_message request_message =
    HM_WIRE_MESSAGE(request, request_fields);

static const struct hm_wire_field get_fields[] = {
    HM_ROW_ANY(Get, get, deadline_ms),
    HM_ROW_U32(Get, get, lane, HM_LANE_PREWARM),
};
static const struct hm_wire_message get_message =
    HM_WIRE_MESSAGE(get, get_fields);

static const struct hm_wire_field compile_fields[] = {
    HM_ROW_ANY(Compile, compile, deadline_ms),
    HM_ROW_NUMBER(HM_WIRE_U32, UINT32_MAX, Compile, cc, compile, target.cc),
    HM_ROW_NUMBER(HM_WIRE_U32, UINT32_MAX, Compile, suffix, compile,
	target.suffix),
    HM_ROW_NAME(Compile, compile, name),
    HM_ROW_U32(Compile, compile, source_bytes, HM_MAX_SOURCE_BYTES),
};
static const struct hm_wire_message compile_message =
    HM_WIRE_MESSAGE(compile, compile_fields);

static const struct hm_wire_field meta_fields[] = {
    HM_ROW_NAME(Meta, meta, spec),
    HM_ROW_NAME(Meta, meta, arch),
    HM_ROW_NAME(Meta, meta, entry),
    HM_ROW_NAME(Meta, meta, compiler),
    HM_ROW_ANY(Meta, meta, registers),
    HM_ROW_ANY(Meta, meta, spill_bytes),
    HM_ROW_ANY(Meta, meta, smem_bytes),
    HM_ROW_ANY(Meta, meta, compile_us),
    HM_ROW_NAME(Meta, meta, entries),
};
static const struct hm_wire_message meta_message =
    HM_WIRE_MESSAGE(meta, meta_fields);

static const struct hm_wire_field range_fields[] = {
    HM_ROW_ANY(Range, range, m_lo),
    HM_ROW_ANY(Range, range, m_hi),
    HM_ROW_BYTES(Range, range, key, struct hm_digest),
    HM_ROW_ANY(Range, range, cluster),
    HM_ROW_ANY(Range, range, smem_bytes),
    HM_ROW_ANY(Range, range, band),
    HM_ROW_ANY(Range, range, prefetch),
    HM_ROW_ANY(Range, range, weight_policy),
    HM_ROW_ANY(Range, range, grid),
    HM_ROW_ANY(Range, range, split_tail),
};
static const struct hm_wire_message range_message =
    HM_WIRE_MESSAGE(range, range_fields);

static const struct hm_wire_field kernel_fields[] = {
    HM_ROW_U32(Kernel, kernel_reply, index, HM_MAX_GET_REQUESTS - 1),
    HM_ROW_ENUM(Kernel, kernel_reply, status, HM_REPLY_TRY_LOCAL),
    HM_ROW_U32(Kernel, kernel_reply, tier, HM_TIER_BUILT),
    HM_ROW_BYTES(Kernel, kernel_reply, key, struct hm_digest),
    HM_ROW_U32(Kernel, kernel_reply, image_bytes, HM_MAX_IMAGE_BYTES),
    HM_ROW_BYTES(Kernel, kernel_reply, checksum, struct hm_checksum),
    HM_ROW_ANY(Kernel, kernel_reply, kernel_abi),
    HM_ROW_ANY(Kernel, kernel_reply, pack_layout),
    HM_ROW_ANY(Kernel, kernel_reply, wait_us),
    HM_ROW_ERROR(Kernel, kernel_reply),
    HM_ROW_LINE(Kernel, kernel_reply, message),
    HM_ROW_STRING(HM_WIRE_LOG, HM_MAX_LOG_BYTES, Kernel, kernel_reply, log),
};
static const struct hm_wire_message kernel_message =
    HM_WIRE_MESSAGE(kernel, kernel_fields);

static const struct hm_wire_field progress_fields[] = {
    HM_ROW_U32(Progress, progress, index, HM_MAX_GET_REQUESTS - 1),
    HM_ROW_ANY(Progress, progress, queue_position),
    HM_ROW_ANY(Progress, progress, elapsed_ms),
};
static const struct hm_wire_message progress_message =
    HM_WIRE_MESSAGE(progress, progress_fields);

static const struct hm_wire_field refusal_fields[] = {
    HM_ROW_ERROR(Error, refusal),
    HM_ROW_LINE(Error, refusal, message),
};
static const struct hm_wire_message refusal_message =
    HM_WIRE_MESSAGE(error, refusal_fields);

static const struct hm_wire_field record_fields[] = {
    HM_ROW_U32(Record, record_reply, found, 2),
    HM_ROW_BYTES(Record, record_reply, key, struct hm_digest),
    HM_ROW_U32(Record, record_reply, record_bytes, HM_FRAME_MAX_BYTES),
};
static const struct hm_wire_message record_message =
    HM_WIRE_MESSAGE(record, record_fields);

static const struct hm_wire_field admin_fields[] = {
    HM_ROW_ENUM(Admin, admin, command, HM_ADMIN_RELOAD),
    HM_ROW_BYTES(Admin, admin, key, struct hm_digest),
};
static const struct hm_wire_message admin_message =
    HM_WIRE_MESSAGE(admin, admin_fields);

/* Messages of one field that are not a struct of ours. */
struct hm_codec_cancel {
	uint32_t request_id;
};
static const struct hm_wire_field cancel_fields[] = {
    HM_ROW_ANY(Cancel, codec_cancel, request_id),
};
static const struct hm_wire_message cancel_message =
    HM_WIRE_MESSAGE(cancel, cancel_fields);

struct hm_codec_explain {
	struct hm_digest key;
};
static const struct hm_wire_field explain_fields[] = {
    HM_ROW_BYTES(Explain, codec_explain, key, struct hm_digest),
};
static const struct hm_wire_message explain_message =
    HM_WIRE_MESSAGE(explain, explain_fields);

struct hm_codec_text {
	char *text;
};
static const struct hm_wire_field text_fields[] = {
    HM_ROW_STRING(HM_WIRE_LOG, HM_FRAME_MAX_BYTES, Text, codec_text, text),
};
static const struct hm_wire_message text_message =
    HM_WIRE_MESSAGE(text, text_fields);

const char *
hm_tier_name(uint32_t tier)
{
	static const char *const names[] = {
	    [HM_TIER_NONE] = "none",
	    [HM_TIER_HOT] = "hot",
	    [HM_TIER_STORE] = "store",
	    [HM_TIER_PACK] = "pack",
	    [HM_TIER_REMOTE] = "remote",
	    [HM_TIER_BUILT] = "built",
	};

	return tier <= HM_TIER_BUILT ? names[tier] : names[HM_TIER_NONE];
}

int
hm_codec_pack_hello(const struct hm_hello *hello, uint8_t *buffer, size_t size,
    size_t *n_out)
{
	return hm_wire_pack_plain(&hello_message, hello, buffer, size, n_out);
}

int
hm_codec_unpack_hello(const uint8_t *body, size_t n_body,
    struct hm_hello *hello_out)
{
	struct hm_hello hello = {0};
	int error;

	error = hm_wire_unpack_plain(&hello_message, body, n_body, &hello);
	if (error == HM_OK)
		*hello_out = hello;
	return error;
}

int
hm_codec_pack_welcome(const struct hm_welcome *welcome, uint8_t *buffer,
    size_t size, size_t *n_out)
{
	return hm_wire_pack_plain(&welcome_message, welcome, buffer, size,
	    n_out);
}

int
hm_codec_unpack_welcome(const uint8_t *body, size_t n_body,
    struct hm_welcome *welcome_out)
{
	struct hm_welcome welcome = {0};
	int error;

	error = hm_wire_unpack_plain(&welcome_message, body, n_body, &welcome);
	if (error == HM_OK)
		*welcome_out = welcome;
	return error;
}

int
hm_codec_pack_get(const struct hm_get *get, uint8_t *buffer, size_t size,
    size_t *n_out)
{
	uint8_t bytes[CODEC_REQUEST_BYTES];
	struct hm_wire_buffer nested = {.bytes = bytes, .size = sizeof bytes};
	struct hm_wire_buffer body = {.size = size};
	int error;

	body.bytes = buffer;
	if (get->n_requests == 0 || get->n_requests > HM_MAX_GET_REQUESTS)
		return HM_E_INVALID;
	error = hm_wire_put_numbers(&get_message, get, &body);
	for (uint32_t i = 0; i < get->n_requests && error == HM_OK; i++) {
		nested.n = 0;
		error = hm_wire_put_numbers(&request_message, &get->requests[i],
		    &nested);
		if (error == HM_OK)
			error =
			    hm_wire_put_nested(GET_REQUESTS, &nested, &body);
	}
	if (error == HM_OK)
		*n_out = body.n;
	return error;
}

/* First time: how many there are. */
static int
codec_count_requests(size_t wire_offset, const uint8_t *bytes, size_t n_bytes,
    void *plain)
{
	struct hm_get *get = plain;

	(void)wire_offset; /* there is one list, and nothing else */
	(void)bytes;
	(void)n_bytes;
	return ++get->n_requests > HM_MAX_GET_REQUESTS ? HM_E_PROTOCOL : HM_OK;
}

static int
codec_scan_request(size_t wire_offset, const uint8_t *bytes, size_t n_bytes,
    void *plain)
{
	struct hm_get *get = plain;

	(void)wire_offset;
	return hm_wire_scan(&request_message, bytes, n_bytes, NULL,
	    &get->requests[get->n_requests++]);
}

int
hm_codec_unpack_get(const uint8_t *body, size_t n_body, struct hm_get *get_out)
{
	struct hm_get get = {0};
	int error;

	error = hm_wire_scan(&get_message, body, n_body, codec_count_requests,
	    &get);
	if (error == HM_OK && get.n_requests == 0)
		error = HM_E_PROTOCOL;
	if (error != HM_OK)
		return error;
	get.requests = calloc(get.n_requests, sizeof *get.requests);
	if (get.requests == NULL)
		return HM_E_NOMEM;
	get.n_requests = 0;
	error =
	    hm_wire_scan(&get_message, body, n_body, codec_scan_request, &get);
	if (error == HM_OK)
		*get_out = get;
	else
		hm_get_done(&get);
	return error;
}

void
hm_get_done(struct hm_get *get)
{
	if (get == NULL)
		return;
	free(get->requests);
	*get = (struct hm_get){0};
}

int
hm_codec_pack_compile(const struct hm_compile *compile, uint8_t *buffer,
    size_t size, size_t *n_out)
{
	char *options[HM_MAX_OPTIONS];
	Humming__Compile wire;
	int error;

	error = hm_wire_lend(&compile_message, compile, &wire);
	if (error == HM_OK)
		error = hm_wire_lend_options(compile->options,
		    compile->n_options, options);
	if (error != HM_OK)
		return error;
	wire.n_options = compile->n_options;
	wire.options = options;
	return hm_wire_pack(&wire.base, buffer, size, n_out);
}

int
hm_codec_unpack_compile(const uint8_t *body, size_t n_body,
    struct hm_compile *compile_out)
{
	struct hm_compile compile = {0};
	const Humming__Compile *decoded;
	ProtobufCMessage *wire;
	int error;

	error = hm_wire_unpack(&compile_message, body, n_body, &wire);
	if (error != HM_OK)
		return error;
	decoded = (const Humming__Compile *)wire;
	error = hm_wire_copy(&compile_message, wire, &compile);
	if (error == HM_OK)
		error = hm_wire_copy_options(decoded->options,
		    decoded->n_options, &compile.n_options, &compile.options);
	hm_wire_free(wire);
	if (error == HM_OK)
		*compile_out = compile;
	else
		hm_compile_done(&compile);
	return error;
}

void
hm_compile_done(struct hm_compile *compile)
{
	if (compile == NULL)
		return;
	free(compile->options);
	*compile = (struct hm_compile){0};
}

int
hm_codec_pack_cancel(uint32_t request_id, uint8_t *buffer, size_t size,
    size_t *n_out)
{
	struct hm_codec_cancel cancel = {request_id};

	return hm_wire_pack_plain(&cancel_message, &cancel, buffer, size,
	    n_out);
}

int
hm_codec_unpack_cancel(const uint8_t *body, size_t n_body,
    uint32_t *request_id_out)
{
	struct hm_codec_cancel cancel = {0};
	int error;

	error = hm_wire_unpack_plain(&cancel_message, body, n_body, &cancel);
	if (error == HM_OK)
		*request_id_out = cancel.request_id;
	return error;
}

int
hm_codec_pack_explain(const struct hm_digest *key, uint8_t *buffer, size_t size,
    size_t *n_out)
{
	struct hm_codec_explain explain = {*key};

	return hm_wire_pack_plain(&explain_message, &explain, buffer, size,
	    n_out);
}

int
hm_codec_unpack_explain(const uint8_t *body, size_t n_body,
    struct hm_digest *key_out)
{
	struct hm_codec_explain explain = {0};
	int error;

	error = hm_wire_unpack_plain(&explain_message, body, n_body, &explain);
	if (error == HM_OK)
		*key_out = explain.key;
	return error;
}

int
hm_codec_pack_admin(const struct hm_admin *admin, uint8_t *buffer, size_t size,
    size_t *n_out)
{
	return hm_wire_pack_plain(&admin_message, admin, buffer, size, n_out);
}

int
hm_codec_unpack_admin(const uint8_t *body, size_t n_body,
    struct hm_admin *admin_out)
{
	struct hm_admin admin = {0};
	int error;

	error = hm_wire_unpack_plain(&admin_message, body, n_body, &admin);
	if (error == HM_OK)
		*admin_out = admin;
	return error;
}

/* The configuration's words as bytes, little-endian. */
static int
codec_meta_to_wire(const struct hm_meta *meta,
    uint8_t config[CODEC_CONFIG_BYTES], Humming__Meta *wire)
{
	if (meta->n_config_words > HM_MAX_CONFIG_WORDS)
		return HM_E_INVALID;
	for (size_t i = 0; i < (size_t)4 * meta->n_config_words; i++)
		config[i] =
		    (uint8_t)(meta->config_words[i / 4] >> (8 * (i % 4)));
	if (hm_wire_lend(&meta_message, meta, wire) != HM_OK)
		return HM_E_INVALID;
	wire->config.len = (size_t)4 * meta->n_config_words;
	wire->config.data = config;
	return HM_OK;
}

/* The one field of a meta that is in no table. */
static int
codec_scan_config(size_t wire_offset, const uint8_t *bytes, size_t n_bytes,
    void *plain)
{
	struct hm_meta *meta = plain;

	(void)wire_offset;
	if (n_bytes == 0 || n_bytes > CODEC_CONFIG_BYTES || n_bytes % 4 != 0)
		return HM_E_PROTOCOL;
	meta->n_config_words = (uint32_t)(n_bytes / 4);
	memcpy(meta->config_words, bytes, n_bytes);
	for (size_t i = 0; i < meta->n_config_words; i++)
		meta->config_words[i] = le32toh(meta->config_words[i]);
	return HM_OK;
}

int
hm_codec_pack_meta(const struct hm_meta *meta, uint8_t *buffer, size_t size,
    size_t *n_out)
{
	uint8_t config[CODEC_CONFIG_BYTES];
	Humming__Meta wire;
	int error;

	error = codec_meta_to_wire(meta, config, &wire);
	if (error != HM_OK)
		return error;
	return hm_wire_pack(&wire.base, buffer, size, n_out);
}

int
hm_codec_unpack_meta(const uint8_t *body, size_t n_body,
    struct hm_meta *meta_out)
{
	struct hm_meta meta = {0};
	int error;

	error =
	    hm_wire_scan(&meta_message, body, n_body, codec_scan_config, &meta);
	if (error == HM_OK)
		*meta_out = meta;
	return error;
}

int
hm_codec_pack_kernel(const struct hm_kernel_reply *reply, uint8_t *buffer,
    size_t size, size_t *n_out)
{
	Humming__Range ranges[HM_MAX_RANGES];
	Humming__Range *pointers[HM_MAX_RANGES];
	uint8_t config[CODEC_CONFIG_BYTES];
	Humming__Meta meta;
	Humming__Kernel wire;
	int error;

	if (reply->n_ranges > HM_MAX_RANGES)
		return HM_E_INVALID;
	error = hm_wire_lend(&kernel_message, reply, &wire);
	if (error == HM_OK)
		error = codec_meta_to_wire(&reply->meta, config, &meta);
	for (uint32_t i = 0; i < reply->n_ranges && error == HM_OK; i++) {
		error =
		    hm_wire_lend(&range_message, &reply->ranges[i], &ranges[i]);
		pointers[i] = &ranges[i];
	}
	if (error != HM_OK)
		return error;
	wire.meta = &meta;
	wire.n_ranges = reply->n_ranges;
	wire.ranges = pointers;
	return hm_wire_pack(&wire.base, buffer, size, n_out);
}

/* What is not in the table: the nested message and the list. */
static int
codec_scan_part(size_t wire_offset, const uint8_t *bytes, size_t n_bytes,
    void *plain)
{
	struct hm_kernel_reply *reply = plain;

	if (wire_offset == offsetof(Humming__Kernel, meta))
		return hm_wire_scan(&meta_message, bytes, n_bytes,
		    codec_scan_config, &reply->meta);
	if (reply->n_ranges == HM_MAX_RANGES)
		return HM_E_PROTOCOL;
	return hm_wire_scan(&range_message, bytes, n_bytes, NULL,
	    &reply->ranges[reply->n_ranges++]);
}

int
hm_codec_unpack_kernel(const uint8_t *body, size_t n_body,
    struct hm_kernel_reply *reply_out)
{
	struct hm_kernel_reply reply = {0};
	int error;

	error = hm_wire_scan(&kernel_message, body, n_body, codec_scan_part,
	    &reply);
	if (error == HM_OK)
		*reply_out = reply;
	else
		hm_kernel_reply_done(&reply);
	return error;
}

void
hm_kernel_reply_done(struct hm_kernel_reply *reply)
{
	if (reply == NULL)
		return;
	free(reply->log);
	reply->log = NULL;
}

int
hm_codec_pack_progress(const struct hm_progress *progress, uint8_t *buffer,
    size_t size, size_t *n_out)
{
	return hm_wire_pack_plain(&progress_message, progress, buffer, size,
	    n_out);
}

int
hm_codec_unpack_progress(const uint8_t *body, size_t n_body,
    struct hm_progress *progress_out)
{
	struct hm_progress progress = {0};
	int error;

	error =
	    hm_wire_unpack_plain(&progress_message, body, n_body, &progress);
	if (error == HM_OK)
		*progress_out = progress;
	return error;
}

int
hm_codec_pack_text(const char *text, uint8_t *buffer, size_t size,
    size_t *n_out)
{
	struct hm_codec_text plain = {0};

	memcpy(&plain.text, &text, sizeof plain.text);
	return hm_wire_pack_plain(&text_message, &plain, buffer, size, n_out);
}

int
hm_codec_unpack_text(const uint8_t *body, size_t n_body, char **text_out)
{
	struct hm_codec_text plain = {0};
	int error;

	error = hm_wire_unpack_plain(&text_message, body, n_body, &plain);
	if (error != HM_OK)
		return error;
	if (plain.text == NULL)
		plain.text = calloc(1, 1);
	if (plain.text == NULL)
		return HM_E_NOMEM;
	*text_out = plain.text;
	return HM_OK;
}

int
hm_codec_pack_refusal(const struct hm_refusal *refusal, uint8_t *buffer,
    size_t size, size_t *n_out)
{
	return hm_wire_pack_plain(&refusal_message, refusal, buffer, size,
	    n_out);
}

int
hm_codec_unpack_refusal(const uint8_t *body, size_t n_body,
    struct hm_refusal *refusal_out)
{
	struct hm_refusal refusal = {0};
	int error;

	error = hm_wire_unpack_plain(&refusal_message, body, n_body, &refusal);
	if (error == HM_OK)
		*refusal_out = refusal;
	return error;
}

int
hm_codec_pack_record_reply(const struct hm_record_reply *reply, uint8_t *buffer,
    size_t size, size_t *n_out)
{
	return hm_wire_pack_plain(&record_message, reply, buffer, size, n_out);
}

int
hm_codec_unpack_record_reply(const uint8_t *body, size_t n_body,
    struct hm_record_reply *reply_out)
{
	struct hm_record_reply reply = {0};
	int error;

	error = hm_wire_unpack_plain(&record_message, body, n_body, &reply);
	if (error == HM_OK)
		*reply_out = reply;
	return error;
}
