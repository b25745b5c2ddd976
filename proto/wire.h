/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - messages as tables; private to codec.c and codec_job.c.
 *
 * A table says which member of a generated struct goes with which member of
 * ours, and what is legal there. One loop over it packs, another unpacks, so
 * a limit is written once and holds both ways: what a pack function accepts,
 * the other side's unpack function accepts as well. Lists and nested messages
 * are the few lines of code around the tables.
 */
#ifndef HM_PROTO_WIRE_H
#define HM_PROTO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/codec.h"

enum hm_wire_kind {
	HM_WIRE_U32,   /* at most `limit` */
	HM_WIRE_ENUM,  /* 1 to `limit` */
	HM_WIRE_ERROR, /* a value of enum hm_error */
	HM_WIRE_NAME,  /* char array of `limit` bytes, no control characters */
	HM_WIRE_LINE,  /* the same, but control characters arrive as '?' */
	HM_WIRE_TEXT,  /* owned, at most `limit` bytes; \n and \t are allowed */
	HM_WIRE_LOG,   /* the same, but control characters arrive as '?' */
	HM_WIRE_BYTES  /* exactly `limit` bytes */
};

struct hm_wire_field {
	enum hm_wire_kind kind;
	uint32_t limit;
	size_t wire;  /* offset in the generated struct */
	size_t plain; /* offset in ours */
};

struct hm_wire_message {
	const ProtobufCMessageDescriptor *descriptor;
	const struct hm_wire_field *fields;
	size_t n_fields;
};

/* An offset that does not compile when the member has another type. */
/* NOLINTBEGIN(bugprone-macro-parentheses): type is a type */
#define HM_WIRE_OFFSET(type, member, expected)                                 \
	_Generic(((type *)NULL)->member, expected : offsetof(type, member))
/* NOLINTEND(bugprone-macro-parentheses) */

/* Rows of a table. w and p are the members of Humming__Wire and hm_plain. */
#define HM_ROW(kind, limit, Wire, w, w_type, plain, p, p_type)                 \
	{                                                                      \
		kind, limit, HM_WIRE_OFFSET(Humming__##Wire, w, w_type),       \
		    HM_WIRE_OFFSET(struct hm_##plain, p, p_type)               \
	}
#define HM_ROW_NUMBER(kind, limit, Wire, w, plain, p)                          \
	HM_ROW(kind, limit, Wire, w, uint32_t, plain, p, uint32_t)
#define HM_ROW_U32(Wire, plain, member, limit)                                 \
	HM_ROW_NUMBER(HM_WIRE_U32, limit, Wire, member, plain, member)
#define HM_ROW_ANY(Wire, plain, member)                                        \
	HM_ROW_U32(Wire, plain, member, UINT32_MAX)
#define HM_ROW_ENUM(Wire, plain, member, limit)                                \
	HM_ROW_NUMBER(HM_WIRE_ENUM, limit, Wire, member, plain, member)
#define HM_ROW_ERROR(Wire, plain)                                              \
	HM_ROW(HM_WIRE_ERROR, 0, Wire, error, int32_t, plain, error, int32_t)
#define HM_ROW_STRING(kind, limit, Wire, plain, member)                        \
	HM_ROW(kind, limit, Wire, member, char *, plain, member, char *)
#define HM_ROW_NAME(Wire, plain, member)                                       \
	HM_ROW_STRING(HM_WIRE_NAME,                                            \
	    sizeof(((struct hm_##plain *)NULL)->member), Wire, plain, member)
#define HM_ROW_LINE(Wire, plain, member)                                       \
	HM_ROW_STRING(HM_WIRE_LINE,                                            \
	    sizeof(((struct hm_##plain *)NULL)->member), Wire, plain, member)
#define HM_ROW_BYTES(Wire, plain, member, type)                                \
	HM_ROW(HM_WIRE_BYTES, sizeof(type), Wire, member, ProtobufCBinaryData, \
	    plain, member, type)
#define HM_WIRE_MESSAGE(wire, table)                                           \
	{                                                                      \
		&humming__##wire##__descriptor, table,                         \
		    sizeof(table) / sizeof(table)[0]                           \
	}

/* Copy a number into its place if it is legal there. */
static inline bool
hm_wire_take_number(const struct hm_wire_field *field, const void *from,
    void *to)
{
	uint32_t value;

	memcpy(&value, from, sizeof value);
	if (field->kind == HM_WIRE_U32 && value > field->limit)
		return false;
	if (field->kind == HM_WIRE_ENUM && (value == 0 || value > field->limit))
		return false;
	/* Negative codes in two's complement: 0 - value is their number. */
	if (field->kind == HM_WIRE_ERROR &&
	    0 - value > (uint32_t)-HM_E_INTERNAL)
		return false;
	memcpy(to, &value, sizeof value);
	return true;
}

/* Initialise a generated struct and let it borrow text and bytes from plain.
 * Returns HM_OK or HM_E_INVALID. */
int hm_wire_lend(const struct hm_wire_message *message, const void *plain,
    void *wire);

/* Fill a zeroed plain struct; after a failure it may own texts already.
 * Returns HM_OK, HM_E_PROTOCOL or HM_E_NOMEM. */
int hm_wire_copy(const struct hm_wire_message *message, const void *wire,
    void *plain);

/* n options as n texts of a generated struct, and back. Codes as above. */
int hm_wire_lend_options(char (*options)[HM_MAX_OPTION_CHARS], uint32_t n,
    char **wire);
int hm_wire_copy_options(char *const *wire, size_t n, uint32_t *n_out,
    char (**options_out)[HM_MAX_OPTION_CHARS]);

/* Returns HM_OK, or HM_E_INVALID when it does not fit. */
int hm_wire_pack(const ProtobufCMessage *wire, uint8_t *buffer, size_t size,
    size_t *n_out);

/* A decoded body; free with hm_wire_free. Returns HM_OK, HM_E_PROTOCOL,
 * HM_E_NOMEM. */
int hm_wire_unpack(const struct hm_wire_message *message, const uint8_t *body,
    size_t n_body, ProtobufCMessage **wire_out);
void hm_wire_free(ProtobufCMessage *wire);

/* A field that is known but in no table (a list, a nested message), by its
 * offset in the generated struct. HM_OK, HM_E_PROTOCOL or HM_E_NOMEM. */
typedef int (*hm_wire_other_fn)(size_t wire_offset, const uint8_t *bytes,
    size_t n_bytes, void *plain);

/* wire_direct.c: fill a zeroed plain struct straight from a body. Rows stand in
 * the order of their fields' numbers; a message has fewer than 64 fields. After
 * a failure it may own texts already. HM_OK, HM_E_PROTOCOL or HM_E_NOMEM. */
int hm_wire_scan(const struct hm_wire_message *message, const uint8_t *body,
    size_t n_body, hm_wire_other_fn on_other, void *plain);

/* Where a body is put; n bytes of it are there. */
struct hm_wire_buffer {
	uint8_t *bytes; /* borrowed */
	size_t size, n;
};

/* wire_direct.c: append a message whose table has numbers only, in the order of
 * their fields; or a message that has been put elsewhere, as a field. Return
 * HM_OK, or HM_E_INVALID (not legal, or it does not fit). */
int hm_wire_put_numbers(const struct hm_wire_message *message,
    const void *plain, struct hm_wire_buffer *to);
int hm_wire_put_nested(uint32_t number, const struct hm_wire_buffer *nested,
    struct hm_wire_buffer *to);

/* One text that need not end in a NUL but may hold none, into its place; what
 * is not legal there is HM_E_PROTOCOL. */
int hm_wire_take_text(const struct hm_wire_field *field, const char *text,
    size_t n, void *plain);

/* A message that is nothing but its table. */
int hm_wire_pack_plain(const struct hm_wire_message *message, const void *plain,
    uint8_t *buffer, size_t size, size_t *n_out);
int hm_wire_unpack_plain(const struct hm_wire_message *message,
    const uint8_t *body, size_t n_body, void *plain);

#endif
