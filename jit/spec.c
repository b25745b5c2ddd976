/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.c - SPEC text to request and back, both driven by spec_fields.c.
 *
 * Invariant: a field is printed exactly when clearing it and completing the
 * request would not bring its value back; so parse(print(x)) is x, and no
 * default is written down a second time here.
 */
#include "jit/spec.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "jit/spec_fields.h"
#include "jit/type.h"

struct spec_parser {
	struct hm_request request;
	uint64_t given; /* fields stated by themselves, a bit for each row */
	bool operation_given;
	bool shorthand_given;
	struct hm_errbuf *errbuf; /* borrowed, may be NULL */
};

/* The three ways to state the scales of the weights are one field. */
static bool
spec_is_scale(const struct hm_spec_field *field)
{
	return field->form == HM_SPEC_GROUP || field->form == HM_SPEC_SCALE ||
	       field->form == HM_SPEC_BLOCK;
}

static const struct hm_spec_field *
spec_field_find(const char *name)
{
	for (size_t i = 0; i < hm_spec_n_fields; i++) {
		if (strcmp(hm_spec_fields[i].name, name) == 0)
			return &hm_spec_fields[i];
	}
	return NULL;
}

static const struct hm_spec_word *
spec_word_find(const struct hm_spec_word *words, const char *name)
{
	for (; words->name != NULL; words++) {
		if (strcmp(words->name, name) == 0)
			return words;
	}
	return NULL;
}

static const char *
spec_word_name(const struct hm_spec_word *words, uint32_t value)
{
	for (; words->name != NULL; words++) {
		if (words->value == value)
			return words->name;
	}
	return NULL;
}

static uint32_t
spec_get(const struct hm_request *request, const struct hm_spec_field *field)
{
	uint32_t value;

	memcpy(&value, (const char *)request + field->offset, sizeof(value));
	return value;
}

static void
spec_set(struct hm_request *request, const struct hm_spec_field *field,
    uint32_t value)
{
	memcpy((char *)request + field->offset, &value, sizeof(value));
}

/* Plain decimal digits; *text_io is moved behind them. */
static bool
spec_number(const char **text_io, uint32_t most, uint32_t *value_out)
{
	const char *text = *text_io;
	uint64_t value = 0;

	if (*text < '0' || *text > '9')
		return false;
	for (; *text >= '0' && *text <= '9'; text++) {
		value = value * 10 + (uint64_t)(*text - '0');
		if (value > most)
			return false;
	}
	*text_io = text;
	*value_out = (uint32_t)value;
	return true;
}

static bool
spec_whole_number(const char *text, uint32_t most, uint32_t *value_out)
{
	uint32_t value;

	if (!spec_number(&text, most, &value) || *text != '\0')
		return false;
	*value_out = value;
	return true;
}

static bool
spec_block(const char *text, struct hm_request *request)
{
	uint32_t rows, cols;

	if (!spec_number(&text, HM_SPEC_MAX_GROUP, &rows) || *text++ != 'x' ||
	    !spec_whole_number(text, HM_SPEC_MAX_GROUP, &cols))
		return false;
	request->block_rows = rows;
	request->block_cols = cols;
	return true;
}

static void
spec_clear_scale(struct hm_request *request)
{
	request->scale_kind = 0;
	request->group = 0;
	request->block_rows = 0;
	request->block_cols = 0;
}

/* act=token, act=tensor, or the group size itself. */
static bool
spec_assign_act(struct hm_request *request, const struct hm_spec_field *field,
    const char *value)
{
	const struct hm_spec_word *word = spec_word_find(field->words, value);
	uint32_t group = 0;

	if (word == NULL && !spec_whole_number(value, field->most, &group))
		return false;
	request->act_scale =
	    word != NULL ? word->value : (uint32_t)HM_ACT_SCALE_GROUP;
	request->act_group = group;
	return word != NULL || group != 0;
}

/* One field's value into the request; false when the text is not one. */
static bool
spec_assign(struct hm_request *request, const struct hm_spec_field *field,
    const char *value)
{
	const struct hm_spec_word *word;
	uint32_t number = 0;

	switch (field->form) {
	case HM_SPEC_TYPE:
		if (hm_type_parse(value, &number) != HM_OK)
			return false;
		break;
	case HM_SPEC_NUMBER:
		if (!spec_whole_number(value, field->most, &number))
			return false;
		break;
	case HM_SPEC_WORD:
	case HM_SPEC_SCALE:
		word = spec_word_find(field->words, value);
		if (word == NULL)
			return false;
		if (field->form == HM_SPEC_SCALE)
			spec_clear_scale(request);
		number = word->value;
		break;
	case HM_SPEC_GROUP:
		if (!spec_whole_number(value, field->most, &number))
			return false;
		spec_clear_scale(request);
		request->scale_kind = HM_SCALE_GROUP;
		break;
	case HM_SPEC_BLOCK:
		spec_clear_scale(request);
		request->scale_kind = HM_SCALE_BLOCK;
		return spec_block(value, request);
	case HM_SPEC_ACT:
		return spec_assign_act(request, field, value);
	}
	spec_set(request, field, number);
	return true;
}

/* One field; stated: by the caller, not by a shorthand. */
static int
spec_take_field(struct spec_parser *parser, const char *name, const char *value,
    bool stated)
{
	const struct hm_spec_field *field = spec_field_find(name);
	uint64_t bit;

	if (field == NULL) {
		hm_errbuf_set(parser->errbuf,
		    "unknown field %s (takes a w c group scale block stype "
		    "tensor zp act actlayout bias det acc epi q mx m n k "
		    "experts topk sms)",
		    name);
		return HM_E_INVALID;
	}
	bit = UINT64_C(1) << (field - hm_spec_fields);
	if (stated && (parser->given & bit) != 0) {
		hm_errbuf_set(parser->errbuf, "%s is given twice", name);
		return HM_E_INVALID;
	}
	for (size_t i = 0; stated && i < hm_spec_n_fields; i++) {
		if (!spec_is_scale(field) || (parser->given >> i & 1) == 0 ||
		    !spec_is_scale(&hm_spec_fields[i]))
			continue;
		hm_errbuf_set(parser->errbuf,
		    "%s stands beside %s: takes exactly one of group, scale, "
		    "block",
		    name, hm_spec_fields[i].name);
		return HM_E_INVALID;
	}
	if (!spec_assign(&parser->request, field, value)) {
		hm_errbuf_set(parser->errbuf, "%s=%s: %s", name, value,
		    field->takes);
		return HM_E_INVALID;
	}
	if (stated)
		parser->given |= bit;
	return HM_OK;
}

/* Cut the next item off a list: its text, and its value behind a '=' or NULL.
 * False at the end. */
static bool
spec_next_item(const char **list_io, char item[HM_SPEC_MAX_CHARS + 1],
    const char **value_out)
{
	size_t n;
	char *equals;

	if (*list_io == NULL)
		return false;
	n = strcspn(*list_io, ",");
	memcpy(item, *list_io, n); /* the whole fits, so do its parts */
	item[n] = '\0';
	*list_io = (*list_io)[n] == ',' ? *list_io + n + 1 : NULL;
	equals = strchr(item, '=');
	if (equals != NULL)
		*equals++ = '\0';
	*value_out = equals;
	return true;
}

/* The fields that a shorthand stands for. */
static int
spec_take_shorthand(struct spec_parser *parser, const char *fields)
{
	char item[HM_SPEC_MAX_CHARS + 1];
	const char *value;
	int error = HM_OK;

	while (error == HM_OK && spec_next_item(&fields, item, &value))
		error = spec_take_field(parser, item, value, false);
	return error;
}

/* A word without '=': the operation or a shorthand. */
static int
spec_take_word(struct spec_parser *parser, const char *name)
{
	const struct hm_spec_word *word =
	    spec_word_find(hm_spec_operations, name);
	const struct hm_spec_shorthand *shorthand = hm_spec_shorthands;

	while (shorthand->name != NULL && strcmp(shorthand->name, name) != 0)
		shorthand++;
	if (word == NULL && shorthand->name == NULL) {
		hm_errbuf_set(parser->errbuf,
		    "unknown operation or shorthand '%s' (takes gemm, "
		    "moe-indexed, moe-grouped, moe-masked, quant, pack, align, "
		    "combine; w4a16 w8a16 w4a8 w4a8i w8a8 w8a8i w4a4 mxfp4a16 "
		    "mxfp4a8 nvfp4a16 nvfp4a4 fp8block; or field=value)",
		    name);
		return HM_E_INVALID;
	}
	if (parser->given != 0 || parser->shorthand_given ||
	    (word != NULL && parser->operation_given)) {
		hm_errbuf_set(parser->errbuf,
		    "%s must stand first, a shorthand at most behind an "
		    "operation",
		    name);
		return HM_E_INVALID;
	}
	if (word != NULL) {
		parser->operation_given = true;
		parser->request.operation = word->value;
		return HM_OK;
	}
	parser->shorthand_given = true;
	return spec_take_shorthand(parser, shorthand->fields);
}

static int
spec_take_list(struct spec_parser *parser, const char *list)
{
	char item[HM_SPEC_MAX_CHARS + 1];
	const char *value;
	int error = HM_OK;

	while (error == HM_OK && spec_next_item(&list, item, &value)) {
		if (value != NULL) {
			error = spec_take_field(parser, item, value, true);
		} else if (item[0] != '\0') {
			error = spec_take_word(parser, item);
		} else {
			hm_errbuf_set(parser->errbuf, "an item is empty");
			error = HM_E_INVALID;
		}
	}
	return error;
}

/* What a shorthand says of the activations goes when a=bf16 overrides it. */
static void
spec_drop_act(struct spec_parser *parser)
{
	const struct hm_spec_field *act = spec_field_find("act");
	struct hm_request *request = &parser->request;

	if (act == NULL || (parser->given >> (act - hm_spec_fields) & 1) != 0 ||
	    hm_type_bits(request->a_type) != 16)
		return;
	request->act_scale = HM_ACT_SCALE_NONE;
	request->act_group = 0;
}

/* mx=fused is the number 0, which hm_spec_check cannot tell from nothing. */
static int
spec_check_mx(const struct spec_parser *parser)
{
	const struct hm_spec_field *mx = spec_field_find("mx");

	if (mx == NULL || (parser->given >> (mx - hm_spec_fields) & 1) == 0 ||
	    parser->request.scale_type == HM_TYPE_E8M0)
		return HM_OK;
	hm_errbuf_set(parser->errbuf,
	    "mx: takes scales of stype=e8m0, as mxfp4a16 has");
	return HM_E_INVALID;
}

void
hm_spec_init(struct hm_request *request)
{
	memset(request, 0, sizeof(*request));
	hm_spec_complete(request);
}

int
hm_spec_parse(const char *text, struct hm_request *request_out,
    struct hm_errbuf *errbuf)
{
	struct spec_parser parser;
	int error = HM_E_INVALID;

	if (strlen(text) > HM_SPEC_MAX_CHARS) {
		hm_errbuf_set(errbuf,
		    "spec '%.32s...': takes at most %d characters", text,
		    HM_SPEC_MAX_CHARS);
		return HM_E_INVALID;
	}
	if (text[0] == '\0') {
		hm_errbuf_set(errbuf,
		    "spec '': is empty, takes a shorthand or fields, as in "
		    "w4a16,m=1,n=8192,k=8192");
		return HM_E_INVALID;
	}
	memset(&parser, 0, sizeof(parser));
	parser.errbuf = errbuf;
	error = spec_take_list(&parser, text);
	if (error != HM_OK)
		goto out;
	spec_drop_act(&parser);
	error = hm_spec_check(&parser.request, errbuf);
	hm_spec_complete(&parser.request);
	if (error == HM_OK)
		error = spec_check_mx(&parser);
	if (error != HM_OK)
		goto out;

	*request_out = parser.request;
out:
	if (error != HM_OK)
		hm_errbuf_prefix(errbuf, "spec '%s'", text);
	return error;
}

/* Whether completing would bring the field's value back once it is cleared. */
static bool
spec_is_default(const struct hm_request *request,
    const struct hm_spec_field *field)
{
	struct hm_request cleared = *request;

	spec_set(&cleared, field, 0);
	hm_spec_complete(&cleared);
	return spec_get(&cleared, field) == spec_get(request, field);
}

/* The value's text; 0 = the field is left out, negative = no text for it. */
static int
spec_value(const struct hm_request *request, const struct hm_spec_field *field,
    char *text, size_t size)
{
	uint32_t value = spec_get(request, field);
	char type[HM_TYPE_CHARS];
	const char *word;

	switch (field->form) {
	case HM_SPEC_GROUP:
		if (request->scale_kind != HM_SCALE_GROUP)
			return 0;
		break;
	case HM_SPEC_BLOCK:
		if (request->scale_kind != HM_SCALE_BLOCK)
			return 0;
		return snprintf(text, size, "%ux%u", request->block_rows,
		    request->block_cols);
	case HM_SPEC_SCALE:
		if (value == 0 || value == HM_SCALE_GROUP ||
		    value == HM_SCALE_BLOCK)
			return 0;
		word = spec_word_name(field->words, value);
		return word != NULL ? snprintf(text, size, "%s", word) : -1;
	case HM_SPEC_ACT:
		if (spec_is_default(request, field))
			return 0;
		if (value == HM_ACT_SCALE_GROUP)
			return snprintf(text, size, "%u", request->act_group);
		word = spec_word_name(field->words, value);
		return word != NULL ? snprintf(text, size, "%s", word) : -1;
	case HM_SPEC_WORD:
		if (spec_is_default(request, field))
			return 0;
		word = spec_word_name(field->words, value);
		return word != NULL ? snprintf(text, size, "%s", word) : -1;
	case HM_SPEC_TYPE:
		if (spec_is_default(request, field))
			return 0;
		hm_type_print(value, type);
		return type[0] != '?' ? snprintf(text, size, "%s", type) : -1;
	case HM_SPEC_NUMBER:
		if (spec_is_default(request, field))
			return 0;
		break;
	}
	return snprintf(text, size, "%u", value);
}

int
hm_spec_print(const struct hm_request *request, char *text, size_t size)
{
	struct hm_request full = *request;
	char line[2 * HM_SPEC_MAX_CHARS] = "";
	char value[32];
	const char *operation;
	size_t n = 0;
	int length;

	hm_spec_complete(&full);
	operation = spec_word_name(hm_spec_operations, full.operation);
	if (operation == NULL)
		return HM_E_INVALID;
	if (full.operation != HM_OPERATION_GEMM)
		n = (size_t)snprintf(line, sizeof(line), "%s", operation);
	for (size_t i = 0; i < hm_spec_n_fields; i++) {
		length =
		    spec_value(&full, &hm_spec_fields[i], value, sizeof(value));
		if (length < 0)
			return HM_E_INVALID;
		if (length == 0)
			continue;
		/* 23 fields of at most 9 + 1 + 21 characters always fit. */
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%s=%s",
		    n > 0 ? "," : "", hm_spec_fields[i].name, value);
	}
	if (n + 1 > size)
		return HM_E_INVALID;
	memcpy(text, line, n + 1);
	return HM_OK;
}

int
hm_target_parse(const char *text, struct hm_target *target_out,
    struct hm_errbuf *errbuf)
{
	const char *digits = strncmp(text, "sm_", 3) == 0 ? text + 3 : text;
	const char *rest = digits;
	uint32_t cc = 0, suffix = 0;

	if (!spec_number(&rest, 999, &cc) || cc < 10 || digits[0] == '0')
		goto invalid;
	if (*rest == 'a' || *rest == 'f')
		suffix = (uint32_t)*rest++;
	if (*rest != '\0')
		goto invalid;

	target_out->cc = cc;
	target_out->suffix = suffix;
	return HM_OK;
invalid:
	hm_errbuf_set(errbuf,
	    "architecture '%.64s': takes a name such as sm_90a, sm_80 or "
	    "sm_120",
	    text);
	return HM_E_INVALID;
}

void
hm_target_print(const struct hm_target *target, char text_out[16])
{
	char suffix[2] = {(char)(target->suffix & 0x7fu), '\0'};

	(void)snprintf(text_out, 16, "sm_%u%s", target->cc % 100000u, suffix);
}
