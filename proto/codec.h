/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.h - plain structs to protobuf bodies and back.
 *
 * An unpack function checks every length, count and enum value before it
 * allocates or copies anything for the caller, and gives a whole,
 * NUL-terminated, valid struct or an error; what protobuf-c allocates on the
 * way is bounded by the size of the body. Single-line texts with a control
 * character are refused, except `message`, `log` and the text of
 * hm_codec_pack_text, where it arrives as '?' (the last two keep \n and \t).
 * Numbers of a struct hm_request and struct hm_target pass as they are:
 * jit/spec says which are legal.
 *
 * Structs with pointers own them: free with the matching _done, which accepts
 * a zeroed struct. An empty owned text arrives as NULL.
 *
 * A pack function writes into the caller's buffer of `size` bytes. It returns
 * HM_OK or HM_E_INVALID: does not fit, or holds what unpack would refuse.
 *
 * All unpack functions return HM_OK, HM_E_PROTOCOL or HM_E_NOMEM and leave
 * *_out untouched on failure. Any thread.
 */
#ifndef HM_PROTO_CODEC_H
#define HM_PROTO_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "proto/codec_job.h"
#include "proto/digest.h"
#include "proto/error.h"
#include "proto/limits.h"
#include "proto/request.h"

#define HM_SCHEMA 1u

#define HM_CAPABILITY_FD    1u
#define HM_CAPABILITY_ADMIN 2u /* of a daemon: answers ADMIN */

struct hm_hello {
	uint32_t schema;
	uint32_t capabilities;
	uint32_t kernel_abi;
	uint32_t pack_layout;
	char program[64];
};

struct hm_welcome {
	uint32_t schema;
	uint32_t capabilities;
	uint32_t kernel_abi;
	uint32_t pack_layout;
	char version[32];
	uint32_t max_requests;
	uint32_t max_source_bytes;
};

enum hm_lane { HM_LANE_INTERACTIVE = 0, HM_LANE_PREWARM = 1 };

struct hm_get {
	uint32_t deadline_ms; /* from now; 0 = none */
	uint32_t lane;        /* enum hm_lane */
	uint32_t n_requests;
	struct hm_request *requests; /* owned */
};

struct hm_compile {
	uint32_t deadline_ms;
	struct hm_target target;
	char name[64];
	uint32_t n_options;
	char (*options)[HM_MAX_OPTION_CHARS]; /* owned */
	uint32_t source_bytes;
};

enum hm_admin_command {
	HM_ADMIN_VERIFY = 1,    /* every stored value */
	HM_ADMIN_EVICT = 2,     /* one key */
	HM_ADMIN_EVICT_ALL = 3, /* all that is not pinned */
	HM_ADMIN_PIN = 4,
	HM_ADMIN_UNPIN = 5,
	HM_ADMIN_DRAIN = 6, /* finish what runs, then leave */
	HM_ADMIN_RELOAD = 7 /* read the configuration again */
};

struct hm_admin {
	uint32_t command; /* enum hm_admin_command */
	struct hm_digest key;
};

struct hm_meta {
	char spec[256];
	char arch[16];
	char entry[128];
	char compiler[256];
	uint32_t registers;
	uint32_t spill_bytes;
	uint32_t smem_bytes;
	uint32_t compile_us;
	/* struct hm_config as an array of words; 0 for client sources */
	uint32_t n_config_words;
	uint32_t config_words[HM_MAX_CONFIG_WORDS];
	char entries[512];
};

struct hm_range {
	uint32_t m_lo; /* first M of this row */
	uint32_t m_hi; /* last M, inclusive */
	struct hm_digest key;
	uint32_t cluster;
	uint32_t smem_bytes;
	uint32_t band;
	uint32_t prefetch;
	uint32_t weight_policy;
	uint32_t grid;
	uint32_t split_tail;
};

enum hm_reply_status {
	HM_REPLY_HIT = 1,
	HM_REPLY_BUILT = 2, /* also for one who joined another's build */
	HM_REPLY_FAILED = 3,
	HM_REPLY_BUSY = 4,
	HM_REPLY_DENIED = 5,
	HM_REPLY_UNSUPPORTED = 6,
	HM_REPLY_TRY_LOCAL = 7
};

enum hm_reply_tier {
	HM_TIER_NONE = 0,
	HM_TIER_HOT = 1,
	HM_TIER_STORE = 2,
	HM_TIER_PACK = 3,
	HM_TIER_REMOTE = 4,
	HM_TIER_BUILT = 5
};

/* "hot", "store", "pack", "remote", "built"; "none" for anything else. */
const char *hm_tier_name(uint32_t tier);

struct hm_kernel_reply {
	uint32_t index;
	uint32_t status; /* enum hm_reply_status */
	uint32_t tier;   /* enum hm_reply_tier */
	struct hm_digest key;
	uint32_t image_bytes;
	struct hm_checksum checksum;
	struct hm_meta meta;
	uint32_t n_ranges;
	struct hm_range ranges[HM_MAX_RANGES];
	uint32_t kernel_abi;
	uint32_t pack_layout;
	uint32_t wait_us;
	int32_t error; /* enum hm_error, when status says not ok */
	char message[512];
	char *log; /* owned, NUL-terminated; NULL = none */
};

struct hm_progress {
	uint32_t index;
	uint32_t queue_position;
	uint32_t elapsed_ms;
};

struct hm_refusal { /* body of HM_FRAME_ERROR */
	int32_t error;
	char message[512];
};

struct hm_record_reply {
	uint32_t found; /* 0 nothing, 1 this key, 2 the nearest of its kind */
	struct hm_digest key;
	uint32_t record_bytes;
};

int hm_codec_pack_hello(const struct hm_hello *hello, uint8_t *buffer,
    size_t size, size_t *n_out);
int hm_codec_unpack_hello(const uint8_t *body, size_t n_body,
    struct hm_hello *hello_out);
int hm_codec_pack_welcome(const struct hm_welcome *welcome, uint8_t *buffer,
    size_t size, size_t *n_out);
int hm_codec_unpack_welcome(const uint8_t *body, size_t n_body,
    struct hm_welcome *welcome_out);
int hm_codec_pack_get(const struct hm_get *get, uint8_t *buffer, size_t size,
    size_t *n_out);
int hm_codec_unpack_get(const uint8_t *body, size_t n_body,
    struct hm_get *get_out);
void hm_get_done(struct hm_get *get);
int hm_codec_pack_compile(const struct hm_compile *compile, uint8_t *buffer,
    size_t size, size_t *n_out);
int hm_codec_unpack_compile(const uint8_t *body, size_t n_body,
    struct hm_compile *compile_out);
void hm_compile_done(struct hm_compile *compile);
int hm_codec_pack_cancel(uint32_t request_id, uint8_t *buffer, size_t size,
    size_t *n_out);
int hm_codec_unpack_cancel(const uint8_t *body, size_t n_body,
    uint32_t *request_id_out);
int hm_codec_pack_explain(const struct hm_digest *key, uint8_t *buffer,
    size_t size, size_t *n_out);
int hm_codec_unpack_explain(const uint8_t *body, size_t n_body,
    struct hm_digest *key_out);
int hm_codec_pack_admin(const struct hm_admin *admin, uint8_t *buffer,
    size_t size, size_t *n_out);
int hm_codec_unpack_admin(const uint8_t *body, size_t n_body,
    struct hm_admin *admin_out);
/* Meta alone is also what the cache stores beside an image. */
int hm_codec_pack_meta(const struct hm_meta *meta, uint8_t *buffer, size_t size,
    size_t *n_out);
int hm_codec_unpack_meta(const uint8_t *body, size_t n_body,
    struct hm_meta *meta_out);
int hm_codec_pack_kernel(const struct hm_kernel_reply *reply, uint8_t *buffer,
    size_t size, size_t *n_out);
int hm_codec_unpack_kernel(const uint8_t *body, size_t n_body,
    struct hm_kernel_reply *reply_out);
void hm_kernel_reply_done(struct hm_kernel_reply *reply);
int hm_codec_pack_progress(const struct hm_progress *progress, uint8_t *buffer,
    size_t size, size_t *n_out);
int hm_codec_unpack_progress(const uint8_t *body, size_t n_body,
    struct hm_progress *progress_out);
/* Text may fill a packet: unpack allocates, the caller frees. */
int hm_codec_pack_text(const char *text, uint8_t *buffer, size_t size,
    size_t *n_out);
int hm_codec_unpack_text(const uint8_t *body, size_t n_body, char **text_out);
int hm_codec_pack_refusal(const struct hm_refusal *refusal, uint8_t *buffer,
    size_t size, size_t *n_out);
int hm_codec_unpack_refusal(const uint8_t *body, size_t n_body,
    struct hm_refusal *refusal_out);
int hm_codec_pack_record_reply(const struct hm_record_reply *reply,
    uint8_t *buffer, size_t size, size_t *n_out);
int hm_codec_unpack_record_reply(const uint8_t *body, size_t n_body,
    struct hm_record_reply *reply_out);

#endif
