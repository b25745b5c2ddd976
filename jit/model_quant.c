/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_quant.c - DESIGN.md section 5, last paragraph, as code.
 *
 * Everything ends as the text of a SPEC that hm_spec_parse judges, so that a
 * checkpoint that can never be right is refused by the same rules, in the same
 * words, as a request that a person typed.
 */
#include "jit/model_quant.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "jit/spec_fields.h"
#include "jit/type.h"

#define MAX_MODULE        128
#define MAX_BITS_OR_GROUP 65536

static const char *
quant_string(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "";
}

/* A whole number above zero of a field that may have two names, or 0. */
static uint32_t
quant_number(const json_t *object, const char *name, const char *other_name)
{
	const json_t *value = json_object_get(object, name);
	json_int_t number;

	if (value == NULL && other_name != NULL)
		value = json_object_get(object, other_name);
	number = json_integer_value(value);
	return number > 0 && number <= MAX_BITS_OR_GROUP ? (uint32_t)number : 0;
}

/* What fields may be, in whichever object of quantization_config; all may be
 * null. A field of another type is not the same as none. */
static const struct {
	const char *name;
	json_type type;
} quant_fields[] = {
    {"bits", JSON_INTEGER},
    {"w_bit", JSON_INTEGER},
    {"num_bits", JSON_INTEGER},
    {"group_size", JSON_INTEGER},
    {"q_group_size", JSON_INTEGER},
    {"sym", JSON_TRUE},
    {"symmetric", JSON_TRUE},
    {"zero_point", JSON_TRUE},
    {"fmt", JSON_STRING},
    {"activation_scheme", JSON_STRING},
    {"type", JSON_STRING},
    {"strategy", JSON_STRING},
    {"weight_block_size", JSON_ARRAY},
    {"modules_to_not_convert", JSON_ARRAY},
    {"ignore", JSON_ARRAY},
    {"targets", JSON_ARRAY},
    {"config_groups", JSON_OBJECT},
    {"weights", JSON_OBJECT},
    {"input_activations", JSON_OBJECT},
};

static int
quant_check_types(const json_t *object, const char *where,
    struct hm_errbuf *errbuf)
{
	for (size_t i = 0; i < sizeof(quant_fields) / sizeof(quant_fields[0]);
	     i++) {
		const json_t *value =
		    json_object_get(object, quant_fields[i].name);
		json_type type = value != NULL ? json_typeof(value) : JSON_NULL;

		if (type == JSON_FALSE)
			type = JSON_TRUE;
		if (type == JSON_NULL || type == quant_fields[i].type)
			continue;
		hm_errbuf_set(errbuf, "%s: %s is of the wrong type", where,
		    quant_fields[i].name);
		return HM_E_INVALID;
	}
	return HM_OK;
}

/* "group=128", or "scale=channel" for a size of -1. */
static void
quant_put_group(char *text, size_t size, uint32_t group)
{
	if (group > 0)
		(void)snprintf(text, size, "group=%u", group);
	else
		(void)snprintf(text, size, "scale=channel");
}

/* ---- one function per quant_method ---- */

/* FP8 checkpoints: blocks as DeepSeek's, else one scale per tensor. */
static int
quant_fp8(const json_t *config, struct hm_model_weights *weights,
    struct hm_errbuf *errbuf)
{
	const json_t *block = json_object_get(config, "weight_block_size");
	const char *fmt = quant_string(config, "fmt");
	json_int_t rows = json_integer_value(json_array_get(block, 0));
	json_int_t cols = json_integer_value(json_array_get(block, 1));

	if (strcmp(fmt, "e5m2") != 0)
		fmt = "e4m3";
	(void)snprintf(weights->act_type, sizeof(weights->act_type), "%s", fmt);
	if (!json_is_array(block)) {
		(void)snprintf(weights->text, sizeof(weights->text),
		    "w=%s,scale=tensor", fmt);
		(void)snprintf(weights->act, sizeof(weights->act), "%s",
		    strcmp(quant_string(config, "activation_scheme"),
			"static") == 0
			? "tensor"
			: "token");
		return HM_OK;
	}
	if (json_array_size(block) != 2 || rows < 1 || rows > 65536 ||
	    cols < 1 || cols > 65536) {
		hm_errbuf_set(errbuf,
		    "weight_block_size: takes two sizes, as in [128, 128]");
		return HM_E_INVALID;
	}
	(void)snprintf(weights->text, sizeof(weights->text), "w=%s,block=%dx%d",
	    fmt, (int)rows, (int)cols);
	(void)snprintf(weights->act, sizeof(weights->act), "%d", (int)cols);
	weights->blocked = true;
	return HM_OK;
}

static int
quant_mxfp4(const json_t *config, struct hm_model_weights *weights,
    struct hm_errbuf *errbuf)
{
	(void)config;
	(void)errbuf;
	(void)snprintf(weights->text, sizeof(weights->text),
	    "w=e2m1,group=32,stype=e8m0");
	(void)snprintf(weights->act, sizeof(weights->act), "token");
	return HM_OK;
}

/* GPTQ and AWQ: the same facts, other names. */
static int
quant_int(const json_t *config, struct hm_model_weights *weights,
    struct hm_errbuf *errbuf)
{
	const json_t *sym = json_object_get(config, "sym");
	uint32_t bits = quant_number(config, "bits", "w_bit");
	char group[32];
	bool zeros = json_is_true(json_object_get(config, "zero_point")) ||
		     json_is_false(sym);

	if (bits < 1 || bits > 8) {
		hm_errbuf_set(errbuf, "quantization_config: bits takes 1 to 8");
		return HM_E_INVALID;
	}
	quant_put_group(group, sizeof(group),
	    quant_number(config, "group_size", "q_group_size"));
	(void)snprintf(weights->text, sizeof(weights->text), "w=u%u,%s%s", bits,
	    group, zeros ? ",zp=int" : "");
	(void)snprintf(weights->act, sizeof(weights->act), "token");
	return HM_OK;
}

/* compressed-tensors: how the inputs of a group are quantized. */
static void
quant_compressed_inputs(const json_t *inputs, struct hm_model_weights *weights)
{
	bool is_float = strcmp(quant_string(inputs, "type"), "float") == 0;
	uint32_t bits = quant_number(inputs, "num_bits", NULL);
	const char *strategy = quant_string(inputs, "strategy");
	const char *type = is_float ? "e4m3" : "s8";

	(void)snprintf(weights->act, sizeof(weights->act), "token");
	if (!json_is_object(inputs) || bits > 8)
		return;
	if (bits == 4)
		type = is_float ? "e2m1" : "s4";
	(void)snprintf(weights->act_type, sizeof(weights->act_type), "%s",
	    type);
	if (strcmp(strategy, "tensor") == 0)
		(void)snprintf(weights->act, sizeof(weights->act), "tensor");
	if (quant_number(inputs, "group_size", NULL) > 0)
		(void)snprintf(weights->act, sizeof(weights->act), "%u",
		    quant_number(inputs, "group_size", NULL));
}

/* Whether a group is meant for the linear layers: by its class, or unsaid. */
static bool
quant_group_is_linear(const json_t *group)
{
	const json_t *targets = json_object_get(group, "targets");
	const json_t *target;
	size_t i;

	json_array_foreach(targets, i, target)
	{
		const char *name = json_string_value(target);

		if (name != NULL && strcmp(name, "Linear") == 0)
			return true;
	}
	return targets == NULL || json_is_null(targets);
}

static bool
quant_groups_agree(const json_t *a, const json_t *b)
{
	static const char *const parts[] = {"weights", "input_activations"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const json_t *of_a = json_object_get(a, parts[i]);
		const json_t *of_b = json_object_get(b, parts[i]);

		if (of_a != of_b &&
		    (of_a == NULL || of_b == NULL || !json_equal(of_a, of_b)))
			return false;
	}
	return true;
}

/* compressed-tensors: the group that speaks for all linear layers. Several
 * are one when they say the same; which layer is in which is not read. */
static int
quant_find_group(const json_t *config, const json_t **group_out,
    const char **name_out, struct hm_errbuf *errbuf)
{
	json_t *groups = json_object_get(config, "config_groups");
	const json_t *first = NULL;
	const char *first_name = "", *name;
	json_t *group;

	json_object_foreach(groups, name, group)
	{
		if (first != NULL && quant_groups_agree(first, group))
			continue;
		if (first != NULL) {
			hm_errbuf_set(errbuf,
			    "quantization_config: config_groups %.32s and "
			    "%.32s differ, takes one; --quant "
			    "experts=Q,dense=Q overrides them",
			    first_name, name);
			return HM_E_UNSUPPORTED;
		}
		first = group;
		first_name = name;
	}
	if (first == NULL) {
		hm_errbuf_set(errbuf,
		    "quantization_config: config_groups takes a group, as in "
		    "{\"group_0\": {\"weights\": {...}}}");
		return HM_E_INVALID;
	}
	if (json_object_size(groups) == 1 && !quant_group_is_linear(first)) {
		hm_errbuf_set(errbuf,
		    "quantization_config: config_groups.%.32s.targets takes "
		    "\"Linear\"; --quant experts=Q,dense=Q overrides it",
		    first_name);
		return HM_E_UNSUPPORTED;
	}
	*group_out = first;
	*name_out = first_name;
	return HM_OK;
}

static int
quant_compressed(const json_t *config, struct hm_model_weights *weights,
    struct hm_errbuf *errbuf)
{
	const json_t *group = NULL;
	const char *name = "";
	int error = quant_find_group(config, &group, &name, errbuf);
	const json_t *w = json_object_get(group, "weights");
	bool is_float = strcmp(quant_string(w, "type"), "float") == 0;
	uint32_t bits = quant_number(w, "num_bits", NULL);
	const char *strategy = quant_string(w, "strategy");
	char scale[32];

	if (error == HM_OK)
		error = quant_check_types(group, name, errbuf);
	if (error == HM_OK)
		error = quant_check_types(w, name, errbuf);
	if (error == HM_OK)
		error = quant_check_types(
		    json_object_get(group, "input_activations"), name, errbuf);
	if (error != HM_OK)
		return error;
	if (!json_is_object(w) || bits < 1 || bits > 8 ||
	    (is_float && bits != 4 && bits != 8)) {
		hm_errbuf_set(errbuf,
		    "quantization_config: config_groups.%.32s.weights takes "
		    "num_bits and type",
		    name);
		return HM_E_INVALID;
	}
	if (strcmp(strategy, "tensor") == 0)
		(void)snprintf(scale, sizeof(scale), "scale=tensor");
	else if (strcmp(strategy, "block") == 0)
		(void)snprintf(scale, sizeof(scale), "block=128x128");
	else
		quant_put_group(scale, sizeof(scale),
		    quant_number(w, "group_size", NULL));
	weights->blocked = strcmp(strategy, "block") == 0;
	quant_compressed_inputs(json_object_get(group, "input_activations"),
	    weights);
	if (is_float && bits == 4)
		(void)snprintf(weights->text, sizeof(weights->text),
		    "w=e2m1,%s,stype=e4m3,tensor=1", scale);
	else if (is_float)
		(void)snprintf(weights->text, sizeof(weights->text),
		    "w=e4m3,%s", scale);
	else
		(void)snprintf(weights->text, sizeof(weights->text),
		    "w=u%u,%s%s", bits, scale,
		    json_is_false(json_object_get(w, "symmetric")) ? ",zp=int"
								   : "");
	return HM_OK;
}

static const struct {
	const char *name;
	int (*read)(const json_t *config, struct hm_model_weights *weights,
	    struct hm_errbuf *errbuf);
} quant_methods[] = {
    {"fp8", quant_fp8},
    {"mxfp4", quant_mxfp4},
    {"gptq", quant_int},
    {"awq", quant_int},
    {"compressed-tensors", quant_compressed},
};

#define N_METHODS (sizeof(quant_methods) / sizeof(quant_methods[0]))

/* ---- --quant ---- */

/* Whether the text states a field by itself, not through a shorthand. */
static bool
quant_states(const char *spec, const char *field)
{
	size_t n = strlen(field);

	while (spec != NULL) {
		if (strncmp(spec, field, n) == 0 && spec[n] == '=')
			return true;
		spec = strchr(spec, ',');
		if (spec != NULL)
			spec++;
	}
	return false;
}

/* Where "experts=" or "dense=" begins at or behind an item's start, or NULL. */
static const char *
quant_next_class(const char *text, enum hm_model_class *class_out)
{
	while (text != NULL) {
		*class_out = HM_MODEL_EXPERTS;
		if (strncmp(text, "experts=", 8) == 0 &&
		    (text[8] < '0' || text[8] > '9'))
			return text;
		*class_out = HM_MODEL_DENSE;
		if (strncmp(text, "dense=", 6) == 0)
			return text;
		text = strchr(text, ',');
		if (text != NULL)
			text++;
	}
	return NULL;
}

/* What the model itself decides may not be asked for beside it. */
static int
quant_check_stated(const char *spec, struct hm_errbuf *errbuf)
{
	static const char *const fields[] = {"m", "n", "k", "experts", "topk"};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (!quant_states(spec, fields[i]))
			continue;
		hm_errbuf_set(errbuf,
		    "spec '%s': %s is the model's, takes no m, n, k, experts "
		    "or topk",
		    spec, fields[i]);
		return HM_E_INVALID;
	}
	for (const struct hm_spec_word *word = hm_spec_operations;
	     word->name != NULL; word++) {
		size_t n = strlen(word->name);

		if (strncmp(spec, word->name, n) != 0 ||
		    (spec[n] != ',' && spec[n] != '\0'))
			continue;
		hm_errbuf_set(errbuf,
		    "spec '%s': %s is an operation, which each layer of the "
		    "model has of its own",
		    spec, word->name);
		return HM_E_INVALID;
	}
	return HM_OK;
}

static int
quant_take(const char *text, size_t n, char target[HM_SPEC_MAX_CHARS + 1],
    struct hm_errbuf *errbuf)
{
	struct hm_request request;
	int error = HM_E_INVALID;

	if (n <= HM_SPEC_MAX_CHARS) {
		memcpy(target, text, n);
		target[n] = '\0';
		error = quant_check_stated(target, errbuf);
		if (error == HM_OK)
			error = hm_spec_parse(target, &request, errbuf);
	} else {
		hm_errbuf_set(errbuf, "takes at most %d characters",
		    HM_SPEC_MAX_CHARS);
	}
	if (error != HM_OK)
		hm_errbuf_prefix(errbuf, "--quant");
	return error;
}

/* "Q", or "experts=Q,dense=Q" in either order, one of them allowed. */
static int
quant_parse(struct hm_model_quant *quant, const char *text,
    struct hm_errbuf *errbuf)
{
	enum hm_model_class class = HM_MODEL_DENSE, next_class;
	const char *next;
	size_t n;
	int error;

	if (quant_next_class(text, &class) != text)
		return quant_take(text, strlen(text), quant->all, errbuf);
	for (;;) {
		text = strchr(text, '=') + 1;
		next = quant_next_class(text, &next_class);
		/* A comma stands before the next class. */
		n = next != NULL ? (size_t)(next - text) : strlen(text);
		if (next != NULL && n > 0)
			n--;
		error = quant_take(text, n, quant->own[class], errbuf);
		if (error != HM_OK || next == NULL)
			return error;
		text = next;
		class = next_class;
	}
}

/* ---- the two together ---- */

static void
quant_read_wide(struct hm_model_quant *quant, const json_t *config)
{
	const char *dtype = quant_string(config, "torch_dtype");

	if (dtype[0] == '\0')
		dtype = quant_string(config, "dtype");
	(void)snprintf(quant->wide, sizeof(quant->wide), "%s",
	    strcmp(dtype, "float16") == 0 ? "f16" : "bf16");
}

/* fp4 experts in an fp8 checkpoint keep its activations. */
static void
quant_read_experts(struct hm_model_quant *quant, const json_t *config)
{
	struct hm_model_weights *experts = &quant->weights[HM_MODEL_EXPERTS];
	const char *dtype = quant_string(config, "expert_dtype");

	if (strcmp(dtype, "fp4") == 0 || strcmp(dtype, "mxfp4") == 0) {
		(void)quant_mxfp4(config, experts, NULL);
		experts->blocked = false;
		quant->quantized = true;
	} else if (strcmp(dtype, "bf16") == 0 ||
		   strcmp(dtype, "bfloat16") == 0) {
		memset(experts, 0, sizeof(*experts));
	}
}

static int
quant_read_method(struct hm_model_quant *quant, const json_t *config,
    struct hm_errbuf *errbuf)
{
	const char *method = quant_string(config, "quant_method");
	struct hm_model_weights *dense = &quant->weights[HM_MODEL_DENSE];
	size_t i = 0;
	int error;

	if (!json_is_object(config)) {
		hm_errbuf_set(errbuf,
		    "quantization_config: takes a JSON object, or null");
		return HM_E_INVALID;
	}
	quant->quantized = true;
	quant->skipped = json_object_get(config, "modules_to_not_convert");
	if (!json_is_array(quant->skipped))
		quant->skipped = json_object_get(config, "ignore");
	while (i < N_METHODS && strcmp(quant_methods[i].name, method) != 0)
		i++;
	if (i == N_METHODS) {
		hm_errbuf_set(errbuf,
		    "quant_method '%.32s' is not known: takes fp8, mxfp4, "
		    "gptq, awq or compressed-tensors; --quant "
		    "experts=Q,dense=Q overrides it",
		    method);
		return HM_E_UNSUPPORTED;
	}
	/* Only now: what the fields of another method are is not known. */
	error = quant_check_types(config, "quantization_config", errbuf);
	if (error == HM_OK)
		error = quant_methods[i].read(config, dense, errbuf);
	quant->weights[HM_MODEL_EXPERTS] = *dense;
	return error;
}

int
hm_model_quant_ask(struct hm_model_quant *quant_out, const char *quant,
    struct hm_errbuf *errbuf)
{
	struct hm_model_quant asked;
	int error = HM_OK;

	memset(&asked, 0, sizeof(asked));
	if (quant != NULL)
		error = quant_parse(&asked, quant, errbuf);
	if (error == HM_OK)
		*quant_out = asked;
	return error;
}

int
hm_model_quant_read(struct hm_model_quant *quant, const json_t *config,
    struct hm_errbuf *errbuf)
{
	const json_t *method = json_object_get(config, "quantization_config");
	int error = HM_OK;

	quant_read_wide(quant, config);
	if (method != NULL && !json_is_null(method)) {
		error = quant_read_method(quant, method, errbuf);
		/* Of no interest when both classes are overridden. */
		if (error == HM_E_UNSUPPORTED &&
		    quant->own[HM_MODEL_DENSE][0] != '\0' &&
		    quant->own[HM_MODEL_EXPERTS][0] != '\0')
			error = HM_OK;
	}
	if (error == HM_OK)
		quant_read_experts(quant, config);
	return error;
}

/* A pattern as a glob. "re:.*lm_head$": of regular expressions only what such
 * lists use, ".*" and anchors. */
static void
quant_print_glob(const char *pattern, char *glob, size_t size)
{
	bool regular = strncmp(pattern, "re:", 3) == 0;
	size_t n = 0;

	if (regular)
		pattern += 3;
	for (; *pattern != '\0' && n + 1 < size; pattern++) {
		if (regular && strchr("^$\\", *pattern) != NULL)
			continue;
		if (regular && pattern[0] == '.' && pattern[1] == '*')
			continue;
		glob[n++] = *pattern;
	}
	glob[n] = '\0';
}

/* Whether a pattern of the checkpoint covers a module or what holds it. */
static bool
quant_pattern_covers(const char *pattern, const char *module)
{
	char plain[MAX_MODULE];
	char glob[MAX_MODULE + 8];

	quant_print_glob(pattern, plain, sizeof(plain));
	if (plain[0] == '\0')
		return false;
	for (int i = 0; i < 4; i++) {
		(void)snprintf(glob, sizeof(glob), "%s%s%s",
		    (i & 1) != 0 ? "*." : "", plain, (i & 2) != 0 ? ".*" : "");
		if (fnmatch(glob, module, 0) == 0)
			return true;
	}
	return false;
}

static bool
quant_is_skipped(const struct hm_model_quant *quant, const char *const *modules)
{
	size_t index;
	const json_t *item;

	json_array_foreach(quant->skipped, index, item)
	{
		const char *pattern = json_string_value(item);

		for (size_t i = 0; pattern != NULL && modules[i] != NULL; i++) {
			if (quant_pattern_covers(pattern, modules[i]))
				return true;
		}
	}
	return false;
}

/* A SPEC of --quant, its 16-bit types those of the model unless it says. */
static void
quant_print_asked(const struct hm_model_quant *quant, const char *spec,
    const struct hm_request *asked, char *text, size_t size)
{
	bool wide = hm_type_bits(asked->a_type) == 16;
	bool other = strcmp(quant->wide, "bf16") != 0;

	(void)snprintf(text, size, "%s%s%s%s", spec,
	    other && wide && !quant_states(spec, "a") ? ",a=" : "",
	    other && wide && !quant_states(spec, "a") ? quant->wide : "",
	    other && !wide && !quant_states(spec, "c") ? ",c=f16" : "");
}

/* The fields of --quant that are not about weights and activations: what a
 * checkpoint leaves open, too. */
static void
quant_append_stated(const char *spec, char *text, size_t size)
{
	static const char *const fields[] = {"c=", "bias=", "det=", "acc=",
	    "epi=", "q=", "mx=", "actlayout=", "sms="};
	const char *item = spec;

	while (item != NULL && *item != '\0') {
		int length = (int)strcspn(item, ",");
		size_t n = strlen(text);

		for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
			if (strncmp(item, fields[i], strlen(fields[i])) == 0)
				(void)snprintf(text + n, size - n, ",%.*s",
				    length, item);
		item = item[length] == ',' ? item + length + 1 : NULL;
	}
}

/* The checkpoint's weights with the activations that go with them. */
static void
quant_print_own(const struct hm_model_quant *quant,
    const struct hm_model_weights *weights, const char *spec,
    const struct hm_request *asked, char *text, size_t size)
{
	bool half = strcmp(quant->wide, "f16") == 0 && !quant_states(spec, "c");
	char a[HM_TYPE_CHARS], act[24] = "";
	uint32_t bits = weights->act_type[0] != '\0' ? 8 : 16;

	(void)snprintf(a, sizeof(a), "%s",
	    weights->act_type[0] != '\0' ? weights->act_type : quant->wide);
	(void)snprintf(act, sizeof(act), ",act=%s", weights->act);
	if (asked != NULL) {
		bits = hm_type_bits(asked->a_type);
		if (bits == 16 && !quant_states(spec, "a"))
			(void)snprintf(a, sizeof(a), "%s", quant->wide);
		else
			hm_type_print(asked->a_type, a);
		if (!weights->blocked && asked->act_scale == HM_ACT_SCALE_TOKEN)
			(void)snprintf(act, sizeof(act), ",act=token");
		if (!weights->blocked &&
		    asked->act_scale == HM_ACT_SCALE_TENSOR)
			(void)snprintf(act, sizeof(act), ",act=tensor");
		if (!weights->blocked && asked->act_scale == HM_ACT_SCALE_GROUP)
			(void)snprintf(act, sizeof(act), ",act=%u",
			    asked->act_group);
	}
	(void)snprintf(text, size, "%s,a=%s%s%s", weights->text, a,
	    bits == 16 ? "" : act, bits != 16 && half ? ",c=f16" : "");
	quant_append_stated(spec, text, size);
}

/* A field that --quant states by itself and that did not come to be: the
 * checkpoint says otherwise. */
static int
quant_check_kept(const char *spec, const struct hm_request *asked,
    const struct hm_request *request, struct hm_errbuf *errbuf)
{
	for (size_t i = 0; i < hm_spec_n_fields; i++) {
		const struct hm_spec_field *field = &hm_spec_fields[i];
		uint32_t wanted, got;

		memcpy(&wanted, (const char *)asked + field->offset,
		    sizeof(wanted));
		memcpy(&got, (const char *)request + field->offset,
		    sizeof(got));
		if (wanted == got || !quant_states(spec, field->name))
			continue;
		hm_errbuf_set(errbuf,
		    "--quant: spec '%s': %s is not what the checkpoint says; "
		    "experts=Q,dense=Q overrides it",
		    spec, field->name);
		return HM_E_INVALID;
	}
	return HM_OK;
}

int
hm_model_quant_request(const struct hm_model_quant *quant,
    const struct hm_model_place *place, struct hm_request *request_out,
    bool *planned_out, struct hm_errbuf *errbuf)
{
	const struct hm_model_weights *weights = &quant->weights[place->class];
	const char *own = quant->own[place->class];
	const char *spec = own[0] != '\0' ? own : quant->all;
	struct hm_request asked = {0}, request;
	char fields[2 * HM_SPEC_MAX_CHARS];
	char text[3 * HM_SPEC_MAX_CHARS];
	bool wide = quant->quantized
			? weights->text[0] == '\0' ||
			      quant_is_skipped(quant, place->modules)
			: quant->all[0] == '\0';
	int error = HM_OK;

	if (own[0] == '\0' && wide) {
		*planned_out = false;
		return HM_OK;
	}
	if (spec[0] != '\0')
		error = hm_spec_parse(spec, &asked, errbuf);
	if (error != HM_OK)
		return error;

	if (quant->quantized && own[0] == '\0')
		quant_print_own(quant, weights, spec,
		    spec[0] != '\0' ? &asked : NULL, fields, sizeof(fields));
	else
		quant_print_asked(quant, spec, &asked, fields, sizeof(fields));
	(void)snprintf(text, sizeof(text), "%s,%s", place->operation, fields);
	error = hm_spec_parse(text, &request, errbuf);
	if (error == HM_OK && spec[0] != '\0')
		error = quant_check_kept(spec, &asked, &request, errbuf);
	if (error != HM_OK)
		return error;
	*request_out = request;
	*planned_out = true;
	return HM_OK;
}
