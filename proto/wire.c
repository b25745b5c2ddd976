/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.c - the two loops over a table, and protobuf-c kept on a short lead.
 *
 * A body from a peer meets, in this order: the size of a frame, an allocator
 * with a budget (protobuf-c allocates for whatever a body claims to hold), the
 * requirement that the body has the length our own packer would give it, and
 * the table. Only then is anything allocated for the caller.
 */
#include "proto/wire.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hummingd.pb-c.h"
#include "proto/frame.h"

/* What one body may make protobuf-c hold at a time. A body of 256 empty
 * requests (512 bytes) needs about 60 KiB, a long text its own length. */
#define WIRE_BUDGET_BYTES(n_body) ((size_t)96 * 1024 + 4 * (n_body))

/* Any message without a list, while it is being packed. */
union wire_any {
	ProtobufCMessage base;
	Humming__Hello hello;
	Humming__Welcome welcome;
	Humming__Cancel cancel;
	Humming__Explain explain;
	Humming__Admin admin;
	Humming__Progress progress;
	Humming__Text text;
	Humming__Error error;
	Humming__Record record;
	Humming__JobResult job_result;
	Humming__WorkerReady worker_ready;
};

/* What a protobuf-c unpack may still allocate; each block knows its size. */
struct wire_budget {
	size_t left_bytes;
	bool out_of_memory;
};

union wire_block {
	size_t n_bytes;
	max_align_t align;
};

static void *
wire_alloc(void *arg, size_t n_bytes)
{
	struct wire_budget *budget = arg;
	union wire_block *block;

	if (budget->left_bytes < sizeof *block ||
	    n_bytes > budget->left_bytes - sizeof *block)
		return NULL;
	block = malloc(sizeof *block + n_bytes);
	if (block == NULL) {
		budget->out_of_memory = true;
		return NULL;
	}
	block->n_bytes = n_bytes;
	budget->left_bytes -= sizeof *block + n_bytes;
	return block + 1;
}

static void
wire_free(void *arg, void *pointer)
{
	struct wire_budget *budget = arg;
	union wire_block *block = pointer;

	if (block == NULL)
		return;
	block--;
	budget->left_bytes += sizeof *block + block->n_bytes;
	free(block);
}

static bool
wire_is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

/* Control characters that a kind of field may not hold. */
static bool
wire_is_refused(enum hm_wire_kind kind, char c)
{
	if (kind == HM_WIRE_TEXT && (c == '\n' || c == '\t'))
		return false;
	return (kind == HM_WIRE_NAME || kind == HM_WIRE_TEXT) &&
	       wire_is_control(c);
}

/* What arrives for a character: a terminal must not obey a peer. */
static char
wire_clean(enum hm_wire_kind kind, char c)
{
	if (kind == HM_WIRE_LOG && (c == '\n' || c == '\t'))
		return c;
	if (kind != HM_WIRE_LINE && kind != HM_WIRE_LOG)
		return c;
	if (wire_is_control(c))
		return '?';
	return c;
}

/*
 * Length of a text that is legal in such a field, n_max at most; false when it
 * is longer or holds what the field may not.
 */
static bool
wire_measure(enum hm_wire_kind kind, const char *text, size_t n_max,
    size_t *n_out)
{
	size_t n = 0;

	for (; n <= n_max && text[n] != '\0'; n++) {
		if (wire_is_refused(kind, text[n]))
			return false;
	}
	*n_out = n;
	return n <= n_max;
}

/* Copy n characters of text, cleaned, and end them. */
static void
wire_copy(enum hm_wire_kind kind, const char *text, size_t n, char *copy_out)
{
	memcpy(copy_out, text, n);
	copy_out[n] = '\0';
	if (kind != HM_WIRE_LINE && kind != HM_WIRE_LOG)
		return; /* refused what would have to be cleaned */
	for (size_t i = 0; i < n; i++)
		copy_out[i] = wire_clean(kind, copy_out[i]);
}

static const void *
wire_at(const void *base, size_t offset)
{
	return (const char *)base + offset;
}

static void *
wire_at_out(void *base, size_t offset)
{
	return (char *)base + offset;
}

static bool
wire_is_number(enum hm_wire_kind kind)
{
	return kind == HM_WIRE_U32 || kind == HM_WIRE_ENUM ||
	       kind == HM_WIRE_ERROR;
}

static bool
wire_is_owned(enum hm_wire_kind kind)
{
	return kind == HM_WIRE_TEXT || kind == HM_WIRE_LOG;
}

/* Longest text, without its NUL, of a field. */
static size_t
wire_text_limit(const struct hm_wire_field *field)
{
	return wire_is_owned(field->kind) ? field->limit : field->limit - 1;
}

/* The generated struct borrows text and bytes of ours. memcpy of a pointer,
 * because generated members have no const. */
static bool
wire_lend(const struct hm_wire_field *field, const void *plain, void *wire)
{
	const char *text = plain;
	size_t n;

	if (field->kind == HM_WIRE_BYTES) {
		ProtobufCBinaryData *data = wire;

		data->len = field->limit;
		memcpy(&data->data, &plain, sizeof data->data);
		return true;
	}
	if (wire_is_owned(field->kind))
		memcpy(&text, plain, sizeof text);
	if (text == NULL)
		return true;
	if (!wire_measure(field->kind, text, wire_text_limit(field), &n))
		return false;
	memcpy(wire, &text, sizeof text);
	return true;
}

/* Initialise a generated struct and let it borrow from plain. */
int
hm_wire_lend(const struct hm_wire_message *message, const void *plain,
    void *wire)
{
	protobuf_c_message_init(message->descriptor, wire);
	for (size_t i = 0; i < message->n_fields; i++) {
		const struct hm_wire_field *field = &message->fields[i];
		const void *from = wire_at(plain, field->plain);
		void *to = wire_at_out(wire, field->wire);
		bool is_legal;

		if (wire_is_number(field->kind))
			is_legal = hm_wire_take_number(field, from, to);
		else
			is_legal = wire_lend(field, from, to);
		if (!is_legal)
			return HM_E_INVALID;
	}
	return HM_OK;
}

static int
wire_copy_bytes(const struct hm_wire_field *field, const void *wire,
    void *plain)
{
	const ProtobufCBinaryData *data = wire;

	if (data->len != field->limit)
		return HM_E_PROTOCOL;
	memcpy(plain, data->data, data->len);
	return HM_OK;
}

/*
 * False: none of n characters is below 0x20, none is 0x7f. Eight at a time, by
 * the carries of a subtraction from each byte of a word; only bytes below 0x80
 * count, so what is not ASCII passes.
 */
static bool
wire_may_hold_control(const char *text, size_t n)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t found = 0;
	uint64_t word, del;

	for (size_t i = 0; i < n; i += sizeof word) {
		word = ones * 'a'; /* what pads the last ones */
		memcpy(&word, text + i,
		    n - i < sizeof word ? n - i : sizeof word);
		del = word ^ ones * 0x7f;
		found |= ((word - ones * 0x20) & ~word) | ((del - ones) & ~del);
	}
	return (found & ones * 0x80) != 0;
}

/* Into the array, or into new memory; an empty owned text stays NULL. */
int
hm_wire_take_text(const struct hm_wire_field *field, const char *text, size_t n,
    void *plain)
{
	char *copy = plain;

	if (n > wire_text_limit(field))
		return HM_E_PROTOCOL;
	if (wire_may_hold_control(text, n)) {
		if (memchr(text, '\0', n) != NULL)
			return HM_E_PROTOCOL;
		for (size_t i = 0; i < n; i++) {
			if (wire_is_refused(field->kind, text[i]))
				return HM_E_PROTOCOL;
		}
	}
	if (wire_is_owned(field->kind)) {
		if (n == 0)
			return HM_OK;
		copy = malloc(n + 1);
		if (copy == NULL)
			return HM_E_NOMEM;
		memcpy(plain, &copy, sizeof copy);
	}
	wire_copy(field->kind, text, n, copy);
	return HM_OK;
}

static int
wire_copy_text(const struct hm_wire_field *field, const void *wire, void *plain)
{
	const char *text;

	memcpy(&text, wire, sizeof text);
	return hm_wire_take_text(field, text,
	    strnlen(text, wire_text_limit(field) + 1), plain);
}

/* Fill a zeroed plain struct. On failure it may own texts already. */
int
hm_wire_copy(const struct hm_wire_message *message, const void *wire,
    void *plain)
{
	int error = HM_OK;

	for (size_t i = 0; i < message->n_fields && error == HM_OK; i++) {
		const struct hm_wire_field *field = &message->fields[i];
		const void *from = wire_at(wire, field->wire);
		void *to = wire_at_out(plain, field->plain);

		if (field->kind == HM_WIRE_BYTES)
			error = wire_copy_bytes(field, from, to);
		else if (!wire_is_number(field->kind))
			error = wire_copy_text(field, from, to);
		else if (!hm_wire_take_number(field, from, to))
			error = HM_E_PROTOCOL;
	}
	return error;
}

/* Size first: protobuf-c packs without asking for the room. */
int
hm_wire_pack(const ProtobufCMessage *wire, uint8_t *buffer, size_t size,
    size_t *n_out)
{
	size_t n = protobuf_c_message_get_packed_size(wire);

	if (n > size)
		return HM_E_INVALID;
	*n_out = protobuf_c_message_pack(wire, buffer);
	return HM_OK;
}

void
hm_wire_free(ProtobufCMessage *wire)
{
	struct wire_budget budget = {0};
	ProtobufCAllocator allocator = {wire_alloc, wire_free, &budget};

	protobuf_c_message_free_unpacked(wire, &allocator);
}

/*
 * Decode a body. Requiring the length that our own packer would produce costs
 * a microsecond and refuses what protobuf-c would silently drop: the tail of a
 * string behind a NUL, all but the last of a repeated scalar, bits of a varint
 * that do not fit, padding. Unknown fields are kept and counted, so bodies of
 * a later schema pass.
 */
int
hm_wire_unpack(const struct hm_wire_message *message, const uint8_t *body,
    size_t n_body, ProtobufCMessage **wire_out)
{
	static const uint8_t nothing[1];
	struct wire_budget budget = {0};
	ProtobufCAllocator allocator = {wire_alloc, wire_free, &budget};
	ProtobufCMessage *wire;

	if (n_body > HM_FRAME_MAX_BYTES)
		return HM_E_PROTOCOL;
	budget.left_bytes = WIRE_BUDGET_BYTES(n_body);
	wire = protobuf_c_message_unpack(message->descriptor, &allocator,
	    n_body, n_body == 0 ? nothing : body);
	if (wire == NULL)
		return budget.out_of_memory ? HM_E_NOMEM : HM_E_PROTOCOL;
	if (protobuf_c_message_get_packed_size(wire) != n_body) {
		hm_wire_free(wire);
		return HM_E_PROTOCOL;
	}
	*wire_out = wire;
	return HM_OK;
}

/* A message that is nothing but its table. */
int
hm_wire_pack_plain(const struct hm_wire_message *message, const void *plain,
    uint8_t *buffer, size_t size, size_t *n_out)
{
	union wire_any wire;
	int error;

	error = hm_wire_lend(message, plain, &wire);
	if (error != HM_OK)
		return error;
	return hm_wire_pack(&wire.base, buffer, size, n_out);
}

int
hm_wire_unpack_plain(const struct hm_wire_message *message, const uint8_t *body,
    size_t n_body, void *plain)
{
	ProtobufCMessage *wire;
	int error;

	error = hm_wire_unpack(message, body, n_body, &wire);
	if (error != HM_OK)
		return error;
	error = hm_wire_copy(message, wire, plain);
	hm_wire_free(wire);
	return error;
}

/* Options: n texts of a fixed array, like so many HM_WIRE_NAME fields. */
int
hm_wire_lend_options(char (*options)[HM_MAX_OPTION_CHARS], uint32_t n,
    char **wire)
{
	size_t n_chars;

	if (n > HM_MAX_OPTIONS || (n > 0 && options == NULL))
		return HM_E_INVALID;
	for (uint32_t i = 0; i < n; i++) {
		if (!wire_measure(HM_WIRE_NAME, options[i],
			HM_MAX_OPTION_CHARS - 1, &n_chars))
			return HM_E_INVALID;
		wire[i] = options[i];
	}
	return HM_OK;
}

int
hm_wire_copy_options(char *const *wire, size_t n, uint32_t *n_out,
    char (**options_out)[HM_MAX_OPTION_CHARS])
{
	char(*options)[HM_MAX_OPTION_CHARS];
	size_t n_chars;

	if (n > HM_MAX_OPTIONS)
		return HM_E_PROTOCOL;
	if (n == 0)
		return HM_OK;
	options = calloc(n, sizeof *options);
	if (options == NULL)
		return HM_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!wire_measure(HM_WIRE_NAME, wire[i],
			HM_MAX_OPTION_CHARS - 1, &n_chars)) {
			free(options);
			return HM_E_PROTOCOL;
		}
		wire_copy(HM_WIRE_NAME, wire[i], n_chars, options[i]);
	}
	*n_out = (uint32_t)n;
	*options_out = options;
	return HM_OK;
}
