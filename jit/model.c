/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.c - the linear layers of a model, as requests.
 *
 * One function per kind of attention, one for the MLP, one for the experts; an
 * architecture is a row that names its functions. Sizes are those a rank sees:
 * what serving engines fuse is fused, what tensor parallelism slices is sliced,
 * what it replicates (low-rank projections down) is whole. Problems are kept in
 * the reader and reported once, so that sizes can be read without a check each.
 */
#include "jit/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "jit/model_quant.h"
#include "jit/spec.h"

#define MAX_FILE_BYTES (4u << 20)
#define MAX_SIZE       (1 << 24)

struct model_reader {
	const json_t *config; /* borrowed; of the text part of the model */
	struct hm_model_quant quant;
	uint32_t tp;     /* ranks that slice a layer */
	uint32_t ep;     /* ranks that share out the experts */
	uint32_t moe_tp; /* ranks that slice an expert */
	struct hm_model *model;
	struct hm_errbuf *errbuf;
	int error; /* the first one */
};

static void __attribute__((format(printf, 3, 4)))
model_fail(struct model_reader *reader, int error, const char *format, ...)
{
	char text[256];
	va_list args;

	if (reader->error != HM_OK)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	hm_errbuf_set(reader->errbuf, "%s", text);
	reader->error = error;
}

/* ---- reading fields ---- */

/* 0 when it is not there or null. */
static uint32_t
model_optional(struct model_reader *reader, const char *name)
{
	const json_t *value = json_object_get(reader->config, name);
	json_int_t number = json_integer_value(value);

	if (value == NULL || json_is_null(value))
		return 0;
	if (!json_is_integer(value) || number < 0 || number > MAX_SIZE) {
		model_fail(reader, HM_E_INVALID,
		    "%s: takes a whole number up to %d", name, MAX_SIZE);
		return 0;
	}
	return (uint32_t)number;
}

/* The same of a field that is above 0 where it is there. */
static uint32_t
model_optional_size(struct model_reader *reader, const char *name)
{
	const json_t *value = json_object_get(reader->config, name);
	uint32_t number = model_optional(reader, name);

	if (number == 0 && json_is_integer(value))
		model_fail(reader, HM_E_INVALID, "%s: takes a number above 0",
		    name);
	return number;
}

/* Never 0, so that what follows can divide. */
static uint32_t
model_number(struct model_reader *reader, const char *name)
{
	uint32_t number = model_optional(reader, name);

	if (number == 0)
		model_fail(reader, HM_E_INVALID,
		    "field %s is missing, or not above 0", name);
	return number != 0 ? number : 1;
}

static bool
model_flag(const struct model_reader *reader, const char *name)
{
	return json_is_true(json_object_get(reader->config, name));
}

/* One rank's part of a size. */
static uint32_t
model_slice(struct model_reader *reader, const char *name, uint32_t size,
    uint32_t ranks)
{
	if (size % ranks != 0)
		model_fail(reader, HM_E_INVALID,
		    "%s = %u is not divisible by %u ranks", name, size, ranks);
	return size / ranks > 0 ? size / ranks : 1;
}

static uint32_t
model_size(struct model_reader *reader, uint64_t size)
{
	if (size > MAX_SIZE)
		model_fail(reader, HM_E_INVALID,
		    "a layer of this model has %llu rows or columns: takes at "
		    "most %d",
		    (unsigned long long)size, MAX_SIZE);
	return size > MAX_SIZE ? 1 : (uint32_t)size;
}

/* ---- adding layers ---- */

/* Returns the request to fill in further; NULL: not planned, or an error. */
static struct hm_request *
model_add(struct model_reader *reader, const struct hm_model_place *place,
    uint64_t n, uint64_t k)
{
	struct hm_model *model = reader->model;
	struct hm_model_layer *layer = &model->layers[model->n_layers];
	bool planned = false;
	int error;

	if (reader->error != HM_OK)
		return NULL;
	if (model->n_layers == HM_MODEL_MAX_LAYERS) {
		model_fail(reader, HM_E_INTERNAL, "more layers than %d",
		    HM_MODEL_MAX_LAYERS);
		return NULL;
	}
	error = hm_model_quant_request(&reader->quant, place, &layer->request,
	    &planned, reader->errbuf);
	if (error != HM_OK)
		reader->error = error;
	if (error != HM_OK || !planned)
		return NULL;
	(void)snprintf(layer->name, sizeof(layer->name), "%s", place->name);
	layer->request.n = model_size(reader, n);
	layer->request.k = model_size(reader, k);
	model->n_layers++;
	return &layer->request;
}

static void
model_add_dense(struct model_reader *reader, const struct hm_model_place *place,
    uint64_t n, uint64_t k, bool bias)
{
	struct hm_request *request = model_add(reader, place, n, k);

	if (request != NULL)
		request->bias |= bias;
}

/* ---- attention ---- */

#define ATTENTION "model.layers.N.self_attn."

/* Heads of keys and values on a rank: sliced, or replicated when fewer. */
static uint32_t
model_kv_heads(struct model_reader *reader, uint32_t heads)
{
	uint32_t kv_heads = model_optional_size(reader, "num_key_value_heads");

	if (kv_heads == 0)
		kv_heads = heads;
	if (kv_heads < reader->tp && reader->tp % kv_heads == 0)
		return 1;
	return model_slice(reader, "num_key_value_heads", kv_heads, reader->tp);
}

static void
model_grouped_attention(struct model_reader *reader)
{
	static const struct hm_model_place qkv = {"qkv_proj", "gemm",
	    HM_MODEL_DENSE,
	    {ATTENTION "q_proj", ATTENTION "k_proj", ATTENTION "v_proj"}};
	static const struct hm_model_place o = {"o_proj", "gemm",
	    HM_MODEL_DENSE, {ATTENTION "o_proj"}};
	uint32_t hidden = model_number(reader, "hidden_size");
	uint32_t heads = model_number(reader, "num_attention_heads");
	uint32_t head_dim = model_optional_size(reader, "head_dim");
	uint64_t q_heads =
	    model_slice(reader, "num_attention_heads", heads, reader->tp);
	uint64_t kv_heads = model_kv_heads(reader, heads);
	bool bias = model_flag(reader, "attention_bias");

	if (head_dim == 0)
		head_dim = model_slice(reader, "hidden_size", hidden, heads);
	model_add_dense(reader, &qkv, (q_heads + 2 * kv_heads) * head_dim,
	    hidden, bias);
	model_add_dense(reader, &o, hidden, q_heads * head_dim, bias);
}

/* DeepSeek's latent attention: low rank down (whole), up by heads (sliced). */
static void
model_latent_attention(struct model_reader *reader)
{
	static const struct hm_model_place down = {"fused_qkv_a_proj", "gemm",
	    HM_MODEL_DENSE,
	    {ATTENTION "q_a_proj", ATTENTION "kv_a_proj_with_mqa"}};
	static const struct hm_model_place q_up = {"q_b_proj", "gemm",
	    HM_MODEL_DENSE, {ATTENTION "q_b_proj"}};
	static const struct hm_model_place q = {"q_proj", "gemm",
	    HM_MODEL_DENSE, {ATTENTION "q_proj"}};
	static const struct hm_model_place kv_down = {"kv_a_proj", "gemm",
	    HM_MODEL_DENSE, {ATTENTION "kv_a_proj_with_mqa"}};
	static const struct hm_model_place kv_up = {"kv_b_proj", "gemm",
	    HM_MODEL_DENSE, {ATTENTION "kv_b_proj"}};
	static const struct hm_model_place o = {"o_proj", "gemm",
	    HM_MODEL_DENSE, {ATTENTION "o_proj"}};
	uint32_t hidden = model_number(reader, "hidden_size");
	uint64_t heads = model_slice(reader, "num_attention_heads",
	    model_number(reader, "num_attention_heads"), reader->tp);
	uint32_t q_rank = model_optional(reader, "q_lora_rank");
	uint64_t kv_rank = model_number(reader, "kv_lora_rank");
	uint64_t nope = model_number(reader, "qk_nope_head_dim");
	uint64_t rope = model_number(reader, "qk_rope_head_dim");
	uint64_t v = model_number(reader, "v_head_dim");

	if (q_rank != 0) {
		model_add_dense(reader, &down, q_rank + kv_rank + rope, hidden,
		    false);
		model_add_dense(reader, &q_up, heads * (nope + rope), q_rank,
		    false);
	} else {
		model_add_dense(reader, &q, heads * (nope + rope), hidden,
		    false);
		model_add_dense(reader, &kv_down, kv_rank + rope, hidden,
		    false);
	}
	model_add_dense(reader, &kv_up, heads * (nope + v), kv_rank, false);
	model_add_dense(reader, &o, hidden, heads * v, false);
}

#define ATTN "model.layers.N.attn."

/* DeepSeek-V4: one latent head of keys, output in groups of low rank. wo_a is
 * a GEMM per group, of the same shape; groups are spread over the ranks. */
static void
model_sparse_attention(struct model_reader *reader)
{
	static const struct hm_model_place down = {"fused_wqa_wkv", "gemm",
	    HM_MODEL_DENSE, {ATTN "wq_a", ATTN "wkv"}};
	static const struct hm_model_place q_up = {"wq_b", "gemm",
	    HM_MODEL_DENSE, {ATTN "wq_b"}};
	static const struct hm_model_place o_down = {"wo_a", "gemm",
	    HM_MODEL_DENSE, {ATTN "wo_a"}};
	static const struct hm_model_place o_up = {"wo_b", "gemm",
	    HM_MODEL_DENSE, {ATTN "wo_b"}};
	static const struct hm_model_place index = {"indexer.wq_b", "gemm",
	    HM_MODEL_DENSE, {ATTN "indexer.wq_b"}};
	uint32_t hidden = model_number(reader, "hidden_size");
	uint32_t all_heads = model_number(reader, "num_attention_heads");
	uint64_t heads =
	    model_slice(reader, "num_attention_heads", all_heads, reader->tp);
	uint64_t head_dim = model_number(reader, "head_dim");
	uint64_t kv_heads = model_number(reader, "num_key_value_heads");
	uint32_t q_rank = model_number(reader, "q_lora_rank");
	uint64_t o_rank = model_number(reader, "o_lora_rank");
	uint32_t all_groups = model_number(reader, "o_groups");
	uint64_t groups =
	    model_slice(reader, "o_groups", all_groups, reader->tp);
	uint64_t index_heads = model_optional(reader, "index_n_heads");

	model_add_dense(reader, &down, q_rank + kv_heads * head_dim, hidden,
	    false);
	model_add_dense(reader, &q_up, heads * head_dim, q_rank, false);
	model_add_dense(reader, &o_down, o_rank,
	    model_slice(reader, "num_attention_heads", all_heads, all_groups) *
		head_dim,
	    false);
	model_add_dense(reader, &o_up, hidden, groups * o_rank, false);
	if (index_heads != 0)
		model_add_dense(reader, &index,
		    index_heads * model_number(reader, "index_head_dim"),
		    q_rank, false);
}

/* ---- MLP and experts ---- */

static void
model_mlp(struct model_reader *reader)
{
	static const struct hm_model_place up = {"gate_up_proj", "gemm",
	    HM_MODEL_DENSE,
	    {"model.layers.N.mlp.gate_proj", "model.layers.N.mlp.up_proj"}};
	static const struct hm_model_place down = {"down_proj", "gemm",
	    HM_MODEL_DENSE, {"model.layers.N.mlp.down_proj"}};
	uint32_t hidden = model_number(reader, "hidden_size");
	uint64_t inner = model_slice(reader, "intermediate_size",
	    model_number(reader, "intermediate_size"), reader->tp);
	bool bias = model_flag(reader, "mlp_bias");

	model_add_dense(reader, &up, 2 * inner, hidden, bias);
	model_add_dense(reader, &down, hidden, inner, bias);
}

static void
model_add_experts(struct model_reader *reader, const char *name, uint64_t n,
    uint64_t k, bool bias)
{
	const struct hm_model_place place = {name,
	    reader->ep > 1 ? "moe-grouped" : "moe-indexed", HM_MODEL_EXPERTS,
	    {"model.layers.N.mlp.experts"}};
	struct hm_request *request = model_add(reader, &place, n, k);
	uint32_t experts = model_optional(reader, "n_routed_experts");

	if (experts == 0)
		experts = model_optional(reader, "num_local_experts");
	if (experts == 0)
		experts = model_number(reader, "num_experts");
	experts =
	    model_slice(reader, "the number of experts", experts, reader->ep);
	if (request == NULL)
		return;
	request->experts = experts;
	request->topk = model_number(reader, "num_experts_per_tok");
	if (request->topk > experts)
		request->topk = experts;
	request->bias = bias;
}

static void
model_experts(struct model_reader *reader, const char *inner_name, bool bias)
{
	uint32_t hidden = model_number(reader, "hidden_size");
	uint64_t inner = model_slice(reader, inner_name,
	    model_number(reader, inner_name), reader->moe_tp);

	model_add_experts(reader, "experts.gate_up_proj", 2 * inner, hidden,
	    bias);
	model_add_experts(reader, "experts.down_proj", hidden, inner, bias);
}

#define SHARED "model.layers.N.mlp.shared_experts."

/* Experts that every token passes: one dense MLP of their joint width. */
static void
model_shared_experts(struct model_reader *reader)
{
	static const struct hm_model_place up = {"shared_experts.gate_up_proj",
	    "gemm", HM_MODEL_DENSE, {SHARED "gate_proj", SHARED "up_proj"}};
	static const struct hm_model_place down = {"shared_experts.down_proj",
	    "gemm", HM_MODEL_DENSE, {SHARED "down_proj"}};
	uint32_t n_shared = model_optional(reader, "n_shared_experts");
	uint32_t hidden = model_number(reader, "hidden_size");
	uint64_t inner;

	if (n_shared == 0)
		return;
	inner = (uint64_t)n_shared *
		model_slice(reader, "moe_intermediate_size",
		    model_number(reader, "moe_intermediate_size"), reader->tp);
	model_add_dense(reader, &up, 2 * inner, hidden, false);
	model_add_dense(reader, &down, hidden, inner, false);
}

/* ---- architectures ---- */

static void
model_read_dense(struct model_reader *reader)
{
	model_grouped_attention(reader);
	model_mlp(reader);
}

static void
model_read_moe(struct model_reader *reader)
{
	model_grouped_attention(reader);
	model_experts(reader, "moe_intermediate_size", false);
}

static void
model_read_mixtral(struct model_reader *reader)
{
	model_grouped_attention(reader);
	model_experts(reader, "intermediate_size", false);
}

static void
model_read_gpt_oss(struct model_reader *reader)
{
	model_grouped_attention(reader);
	model_experts(reader, "intermediate_size", true);
}

static void
model_read_deepseek_v3(struct model_reader *reader)
{
	model_latent_attention(reader);
	if (model_optional(reader, "first_k_dense_replace") > 0)
		model_mlp(reader);
	model_shared_experts(reader);
	model_experts(reader, "moe_intermediate_size", false);
}

static void
model_read_deepseek_v4(struct model_reader *reader)
{
	model_sparse_attention(reader);
	model_shared_experts(reader);
	model_experts(reader, "moe_intermediate_size", false);
}

static const struct {
	const char *model_type;
	void (*read)(struct model_reader *reader);
} model_types[] = {
    {"llama", model_read_dense},
    {"mistral", model_read_dense},
    {"qwen2", model_read_dense},
    {"qwen3", model_read_dense},
    {"qwen3_moe", model_read_moe},
    {"mixtral", model_read_mixtral},
    {"gpt_oss", model_read_gpt_oss},
    {"deepseek_v2", model_read_deepseek_v3},
    {"deepseek_v3", model_read_deepseek_v3},
    {"deepseek_v4", model_read_deepseek_v4},
};

#define N_MODEL_TYPES (sizeof(model_types) / sizeof(model_types[0]))

static void
model_read_layers(struct model_reader *reader)
{
	const char *type =
	    json_string_value(json_object_get(reader->config, "model_type"));

	if (type == NULL) {
		model_fail(reader, HM_E_INVALID, "field model_type is missing");
		return;
	}
	for (size_t i = 0; i < N_MODEL_TYPES; i++) {
		if (strcmp(model_types[i].model_type, type) == 0) {
			model_types[i].read(reader);
			return;
		}
	}
	model_fail(reader, HM_E_UNSUPPORTED,
	    "model_type '%.32s' is not known: takes llama, mistral, qwen2, "
	    "qwen3, qwen3_moe, mixtral, gpt_oss, deepseek_v2, deepseek_v3 or "
	    "deepseek_v4",
	    type);
}

static void
model_read_name(struct model_reader *reader, const json_t *root)
{
	const char *name = json_string_value(
	    json_array_get(json_object_get(root, "architectures"), 0));

	if (name == NULL)
		name = json_string_value(json_object_get(root, "model_type"));
	(void)snprintf(reader->model->name, sizeof(reader->model->name), "%s",
	    name != NULL ? name : "");
}

/* Expert parallelism first shares out whole experts over the ranks; only what
 * is left of tensor parallelism slices one. */
static void
model_read_degrees(struct model_reader *reader,
    const struct hm_model_options *options)
{
	reader->tp =
	    options->tensor_parallel > 0 ? options->tensor_parallel : 1;
	reader->ep =
	    options->expert_parallel > 0 ? options->expert_parallel : 1;
	if (reader->tp % reader->ep != 0 && reader->ep % reader->tp != 0)
		model_fail(reader, HM_E_INVALID,
		    "--tp %u and --ep %u: one must divide the other",
		    reader->tp, reader->ep);
	reader->moe_tp = reader->tp > reader->ep ? reader->tp / reader->ep : 1;
}

/* ---- quantization of the activations ---- */

/* The quant operation that feeds a layer; false: none of ours does. One scale
 * for all tokens is a calibrated constant, applied where values are made. */
static bool
model_feeds(const struct hm_request *request, struct hm_request *quant_out)
{
	if (request->act_scale != HM_ACT_SCALE_TOKEN &&
	    request->act_scale != HM_ACT_SCALE_GROUP)
		return false;
	*quant_out = (struct hm_request){
	    .operation = HM_OPERATION_QUANT,
	    .a_type = request->a_type,
	    .c_type = request->c_type,
	    .act_scale = request->act_scale,
	    .act_group = request->act_group,
	    .k = request->k,
	};
	hm_spec_complete(quant_out);
	return true;
}

static bool
model_has_request(const struct hm_model *model, size_t first,
    const struct hm_request *request)
{
	for (size_t i = first; i < model->n_layers; i++) {
		if (memcmp(&model->layers[i].request, request,
			sizeof(*request)) == 0)
			return true;
	}
	return false;
}

/* One layer "quant" for each width and way of it, behind the others. */
static void
model_add_quant(struct model_reader *reader)
{
	struct hm_model *model = reader->model;
	size_t n_layers = model->n_layers;
	struct hm_request request;

	for (size_t i = 0; i < n_layers && reader->error == HM_OK; i++) {
		struct hm_model_layer *layer = &model->layers[model->n_layers];

		if (!model_feeds(&model->layers[i].request, &request) ||
		    model_has_request(model, n_layers, &request))
			continue;
		if (model->n_layers == HM_MODEL_MAX_LAYERS) {
			model_fail(reader, HM_E_INTERNAL, "more layers than %d",
			    HM_MODEL_MAX_LAYERS);
			return;
		}
		(void)snprintf(layer->name, sizeof(layer->name), "quant");
		layer->request = request;
		model->n_layers++;
	}
}

static void
model_read(struct model_reader *reader, const json_t *root)
{
	const json_t *config = json_object_get(root, "text_config");

	reader->config = json_is_object(config) ? config : root;
	if (!json_is_object(root)) {
		model_fail(reader, HM_E_INVALID,
		    "takes a JSON object, a model's config.json");
		return;
	}
	model_read_name(reader, root);
	reader->error = hm_model_quant_read(&reader->quant,
	    json_object_get(root, "quantization_config") != NULL
		? root
		: reader->config,
	    reader->errbuf);
	if (reader->error == HM_OK)
		model_read_layers(reader);
	if (reader->error == HM_OK && reader->model->n_layers == 0)
		model_fail(reader, HM_E_INVALID,
		    "nothing is quantized in this checkpoint: takes --quant, "
		    "such as --quant w4a16");
	model_add_quant(reader);
}

/* What a file asks for may be more than a request may hold. */
static int
model_check(const struct hm_model *model, struct hm_errbuf *errbuf)
{
	size_t i = 0;

	for (i = 0; i < model->n_layers; i++) {
		const struct hm_model_layer *layer = &model->layers[i];

		if (hm_spec_check(&layer->request, errbuf) != HM_OK) {
			hm_errbuf_prefix(errbuf, "%s", layer->name);
			return HM_E_INVALID;
		}
	}
	return HM_OK;
}

int
hm_model_parse(const char *text, size_t n_text, const char *label,
    const struct hm_model_options *options, struct hm_model *model_out,
    struct hm_errbuf *errbuf)
{
	struct hm_model model;
	struct model_reader reader = {.model = &model, .errbuf = errbuf};
	json_error_t problem;
	json_t *root;

	/* What was asked for is no fault of the file. */
	model_read_degrees(&reader, options);
	if (reader.error == HM_OK)
		reader.error =
		    hm_model_quant_ask(&reader.quant, options->quant, errbuf);
	if (reader.error != HM_OK)
		return reader.error;
	memset(&model, 0, sizeof(model));
	root = json_loadb(text, n_text, 0, &problem);
	if (root == NULL) {
		hm_errbuf_set(errbuf, "%s: not JSON, line %d: %s", label,
		    problem.line, problem.text);
		return HM_E_INVALID;
	}
	model_read(&reader, root);
	json_decref(root);
	if (reader.error == HM_OK)
		reader.error = model_check(&model, errbuf);
	if (reader.error != HM_OK) {
		hm_errbuf_prefix(errbuf, "%s", label);
		return reader.error;
	}
	*model_out = model;
	return HM_OK;
}

/* ---- the file ---- */

/* All of a file, at most MAX_FILE_BYTES; the caller frees. errno kept. */
static int
model_read_file(int fd, char **text_out, size_t *n_out)
{
	char *text = malloc(MAX_FILE_BYTES + 1);
	size_t n = 0;
	ssize_t got = 1;

	if (text == NULL)
		return HM_E_NOMEM;
	while (got > 0 && n <= MAX_FILE_BYTES) {
		got = read(fd, text + n, MAX_FILE_BYTES + 1 - n);
		if (got > 0)
			n += (size_t)got;
		else if (got < 0 && errno == EINTR)
			got = 1;
	}
	if (got < 0 || n > MAX_FILE_BYTES) {
		if (got >= 0)
			errno = EFBIG;
		free(text);
		return HM_E_SYSTEM;
	}
	*text_out = text;
	*n_out = n;
	return HM_OK;
}

int
hm_model_load(const char *path, const struct hm_model_options *options,
    struct hm_model *model_out, struct hm_errbuf *errbuf)
{
	char inside[4096 + 16];
	struct stat status;
	char *text = NULL;
	size_t n = 0;
	int error = HM_E_SYSTEM;
	int fd = -1;

	if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
		if (strlen(path) >= 4096) {
			errno = ENAMETOOLONG;
			goto out;
		}
		(void)snprintf(inside, sizeof(inside), "%s/config.json", path);
		path = inside;
	}
	/* Not blocking: a FIFO without a writer is an error, not a hang. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd == -1)
		goto out;
	error = model_read_file(fd, &text, &n);
out:
	if (error == HM_E_SYSTEM)
		hm_errbuf_set(errbuf, "%s: cannot be read: %s", path,
		    strerrordesc_np(errno));
	if (fd != -1)
		(void)close(fd);
	if (error == HM_OK)
		error =
		    hm_model_parse(text, n, path, options, model_out, errbuf);
	free(text);
	return error;
}
