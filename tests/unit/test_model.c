/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_model.c - layers of the five models of CASES.md, sliced and not, and
 * who decides about quantization.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "jit/model.h"
#include "jit/spec.h"

static struct hm_model
load(const char *file, const char *quant, uint32_t tp, uint32_t ep)
{
	struct hm_model_options options = {tp, ep, quant};
	struct hm_model model;
	struct hm_errbuf errbuf = {""};
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", HM_TEST_DATA, file);
	if (hm_model_load(path, &options, &model, &errbuf) != HM_OK)
		fail_msg("%s", errbuf.text);
	return model;
}

struct layer {
	const char *name;
	const char *spec; /* canonical */
};

static void
expect_layers(const struct hm_model *model, const struct layer *layers,
    size_t n)
{
	assert_int_equal(model->n_layers, n);
	for (size_t i = 0; i < n; i++) {
		char text[HM_SPEC_MAX_CHARS + 1];

		assert_string_equal(model->layers[i].name, layers[i].name);
		assert_int_equal(hm_spec_print(&model->layers[i].request, text,
				     sizeof(text)),
		    HM_OK);
		assert_string_equal(text, layers[i].spec);
	}
}

#define EXPECT_LAYERS(model, layers)                                           \
	expect_layers(&(model), (layers), sizeof(layers) / sizeof((layers)[0]))

#define W4 "w=u4,group=128,"

static void
test_model__qwen3_has_four_fused_layers(void **state)
{
	static const struct layer whole[] = {
	    {"qkv_proj", W4 "n=10240,k=5120"},
	    {"o_proj", W4 "n=5120,k=8192"},
	    {"gate_up_proj", W4 "n=51200,k=5120"},
	    {"down_proj", W4 "n=5120,k=25600"},
	};
	static const struct layer sliced[] = {
	    {"qkv_proj", W4 "n=1280,k=5120"},
	    {"o_proj", W4 "n=5120,k=1024"},
	    {"gate_up_proj", W4 "n=6400,k=5120"},
	    {"down_proj", W4 "n=5120,k=3200"},
	};
	struct hm_model model = load("qwen3-32b.json", "w4a16", 0, 0);

	(void)state;
	assert_string_equal(model.name, "Qwen3ForCausalLM");
	EXPECT_LAYERS(model, whole);
	model = load("qwen3-32b.json", "w4a16", 8, 1);
	EXPECT_LAYERS(model, sliced);
}

static void
test_model__llama_replicates_keys_when_ranks_outnumber_them(void **state)
{
	static const struct layer sliced[] = {
	    {"qkv_proj", W4 "n=768,k=8192"}, /* (4 + 2) heads of 128 */
	    {"o_proj", W4 "n=8192,k=512"},
	    {"gate_up_proj", W4 "n=3584,k=8192"},
	    {"down_proj", W4 "n=8192,k=1792"},
	};
	struct hm_model model = load("llama-3.1-70b.json", "w4a16", 16, 1);

	(void)state;
	EXPECT_LAYERS(model, sliced);
}

#define BLOCK "a=e4m3,w=e4m3,block=128x128,act=128,"
#define QUANT "quant,a=e4m3,"

static void
test_model__deepseek_v3_keeps_its_blocks(void **state)
{
	static const struct layer layers[] = {
	    {"fused_qkv_a_proj", BLOCK "n=2112,k=7168"},
	    {"q_b_proj", BLOCK "n=3072,k=1536"},
	    {"kv_b_proj", BLOCK "n=4096,k=512"},
	    {"o_proj", BLOCK "n=7168,k=2048"},
	    {"gate_up_proj", BLOCK "n=4608,k=7168"},
	    {"down_proj", BLOCK "n=7168,k=2304"},
	    {"shared_experts.gate_up_proj", BLOCK "n=512,k=7168"},
	    {"shared_experts.down_proj", BLOCK "n=7168,k=256"},
	    {"experts.gate_up_proj",
		"moe-indexed," BLOCK "n=512,k=7168,experts=256,topk=8"},
	    {"experts.down_proj",
		"moe-indexed," BLOCK "n=7168,k=256,experts=256,topk=8"},
	    {"quant", QUANT "act=128,k=7168"},
	    {"quant", QUANT "act=128,k=1536"},
	    {"quant", QUANT "act=128,k=512"},
	    {"quant", QUANT "act=128,k=2048"},
	    {"quant", QUANT "act=128,k=2304"},
	    {"quant", QUANT "act=128,k=256"},
	};
	struct hm_model model = load("deepseek-v3.json", NULL, 8, 1);

	(void)state;
	EXPECT_LAYERS(model, layers);
}

#define MX "a=e4m3,w=e2m1,group=32,stype=e8m0,"

static void
test_model__deepseek_v4_has_fp4_experts_and_grouped_output(void **state)
{
	static const struct layer layers[] = {
	    {"fused_wqa_wkv", BLOCK "n=1536,k=4096"},
	    {"wq_b", BLOCK "n=8192,k=1024"},
	    {"wo_a", BLOCK "n=1024,k=4096"},
	    {"wo_b", BLOCK "n=4096,k=2048"},
	    {"indexer.wq_b", BLOCK "n=8192,k=1024"},
	    {"shared_experts.gate_up_proj", BLOCK "n=1024,k=4096"},
	    {"shared_experts.down_proj", BLOCK "n=4096,k=512"},
	    {"experts.gate_up_proj",
		"moe-grouped," MX "n=4096,k=4096,experts=64,topk=6"},
	    {"experts.down_proj",
		"moe-grouped," MX "n=4096,k=2048,experts=64,topk=6"},
	    {"quant", QUANT "act=128,k=4096"},
	    {"quant", QUANT "act=128,k=1024"},
	    {"quant", QUANT "act=128,k=2048"},
	    {"quant", QUANT "act=128,k=512"},
	    {"quant", QUANT "k=4096"},
	    {"quant", QUANT "k=2048"},
	};
	/* Four ranks share out the experts, whole. */
	struct hm_model model = load("deepseek-v4-flash.json", NULL, 4, 4);

	(void)state;
	EXPECT_LAYERS(model, layers);
}

static void
test_model__gpt_oss_attention_stays_wide(void **state)
{
	static const struct layer layers[] = {
	    {"experts.gate_up_proj",
		"moe-indexed,w=e2m1,group=32,stype=e8m0,bias=1,n=5760,k=2880,"
		"experts=128,topk=4"},
	    {"experts.down_proj",
		"moe-indexed,w=e2m1,group=32,stype=e8m0,bias=1,n=2880,k=2880,"
		"experts=128,topk=4"},
	};
	struct hm_model model = load("gpt-oss-120b.json", NULL, 1, 1);

	(void)state;
	EXPECT_LAYERS(model, layers);
}

static void
test_model__quant_settles_only_activations_when_quantized(void **state)
{
	struct hm_model model = load("gpt-oss-120b.json", "mxfp4a8", 1, 1);
	char text[256];

	(void)state;
	assert_int_equal(model.n_layers, 3); /* the last quantizes */
	(void)hm_spec_print(&model.layers[0].request, text, sizeof(text));
	assert_string_equal(text,
	    "moe-indexed," MX "bias=1,n=5760,k=2880,experts=128,topk=4");
	/* The weights stay what the checkpoint holds. */
	model = load("deepseek-v3.json", "w4a16", 1, 1);
	(void)hm_spec_print(&model.layers[0].request, text, sizeof(text));
	assert_string_equal(text, "w=e4m3,block=128x128,n=2112,k=7168");
}

static void
test_model__quant_by_class_overrides_the_checkpoint(void **state)
{
	static const struct layer layers[] = {
	    {"qkv_proj", "w=u4,group=64,bias=1,n=5120,k=2880"},
	    {"o_proj", "w=u4,group=64,bias=1,n=2880,k=4096"},
	    {"experts.gate_up_proj",
		"moe-indexed,w=u8,scale=channel,bias=1,n=5760,k=2880,"
		"experts=128,topk=4"},
	    {"experts.down_proj",
		"moe-indexed,w=u8,scale=channel,bias=1,n=2880,k=2880,"
		"experts=128,topk=4"},
	};
	struct hm_model model = load("gpt-oss-120b.json",
	    "experts=w8a16,dense=w4a16,group=64", 1, 1);

	(void)state;
	EXPECT_LAYERS(model, layers);
	model = load("gpt-oss-120b.json", "dense=w4a16,group=64,experts=w8a16",
	    1, 1);
	EXPECT_LAYERS(model, layers);
	model = load("qwen3-32b.json", "dense=w8a8", 1, 1);
	assert_int_equal(model.n_layers, 4 + 3);
	assert_int_equal(model.layers[0].request.a_type, HM_TYPE_E4M3);
}

/* A small model around the fields under test. */
static int
parse(const char *fields, const char *quant, struct hm_model *model,
    struct hm_errbuf *errbuf)
{
	struct hm_model_options options = {1, 1, quant};
	char text[2048];

	(void)snprintf(text, sizeof(text),
	    "{\"model_type\": \"llama\", \"hidden_size\": 1024,\n"
	    "\"intermediate_size\": 2048, \"num_attention_heads\": 8%s}",
	    fields);
	return hm_model_parse(text, strlen(text), "m.json", &options, model,
	    errbuf);
}

static void
expect_first(const char *fields, const char *quant, const char *spec)
{
	struct hm_model model;
	struct hm_errbuf errbuf = {""};
	char text[256];

	if (parse(fields, quant, &model, &errbuf) != HM_OK)
		fail_msg("%s", errbuf.text);
	(void)hm_spec_print(&model.layers[0].request, text, sizeof(text));
	assert_string_equal(text, spec);
}

#define QC(fields) ",\"quantization_config\": {" fields "}"

static void
test_model__checkpoint_formats_become_specs(void **state)
{
	(void)state;
	expect_first(QC("\"quant_method\": \"gptq\", \"bits\": 4, "
			"\"group_size\": 128, \"sym\": true"),
	    NULL, "w=u4,group=128,n=3072,k=1024");
	expect_first(QC("\"quant_method\": \"gptq\", \"bits\": 8, "
			"\"group_size\": -1, \"sym\": false"),
	    NULL, "w=u8,scale=channel,zp=int,n=3072,k=1024");
	expect_first(
	    QC("\"quant_method\": \"awq\", \"w_bit\": 4, "
	       "\"q_group_size\": 64, \"zero_point\": true") ",\"torch_dtype\":"
							     " \"float16\"",
	    NULL, "a=f16,w=u4,group=64,zp=int,n=3072,k=1024");
	expect_first(QC("\"quant_method\": \"fp8\", "
			"\"activation_scheme\": \"static\""),
	    NULL, "a=e4m3,w=e4m3,scale=tensor,act=tensor,n=3072,k=1024");
	expect_first(QC("\"quant_method\": \"fp8\", \"fmt\": \"e5m2\""), NULL,
	    "a=e5m2,w=e5m2,scale=tensor,n=3072,k=1024");
	expect_first(
	    QC("\"quant_method\": \"compressed-tensors\", \"config_groups\": "
	       "{\"group_0\": {\"weights\": {\"num_bits\": 4, \"type\": "
	       "\"int\", \"strategy\": \"group\", \"group_size\": 128}}}"),
	    NULL, "w=u4,group=128,n=3072,k=1024");
	expect_first(
	    QC("\"quant_method\": \"compressed-tensors\", \"config_groups\": "
	       "{\"group_0\": {\"weights\": {\"num_bits\": 8, \"type\": "
	       "\"float\", \"strategy\": \"channel\"}, \"input_activations\": "
	       "{\"num_bits\": 8, \"type\": \"float\", \"strategy\": "
	       "\"token\"}}}"),
	    NULL, "a=e4m3,w=e4m3,scale=channel,n=3072,k=1024");
}

static void
test_model__wide_type_of_the_model_is_the_default(void **state)
{
	(void)state;
	expect_first(",\"torch_dtype\": \"float16\"", "w4a16",
	    "a=f16,w=u4,group=128,n=3072,k=1024");
	expect_first(",\"dtype\": \"float16\"", "w4a16,a=bf16",
	    "w=u4,group=128,n=3072,k=1024");
	expect_first(",\"torch_dtype\": \"float16\"", "w4a8",
	    "a=e4m3,w=u4,c=f16,group=128,n=3072,k=1024");
	expect_first("", "w4a16", "w=u4,group=128,n=3072,k=1024");
}

/* Those that multiply. */
static size_t
count_layers(const struct hm_model *model)
{
	size_t n = 0;

	for (size_t i = 0; i < model->n_layers; i++)
		n += model->layers[i].request.operation != HM_OPERATION_QUANT;
	return n;
}

static void
test_model__modules_that_stay_wide_are_not_planned(void **state)
{
	static const struct {
		const char *pattern;
		size_t n_layers;
	} cases[] = {
	    {"lm_head", 4},
	    {"model.layers.*.self_attn", 2},
	    {"self_attn", 2},
	    {"mlp", 2},
	    {"model.layers.*.mlp.down_proj", 3},
	    {"model.layers.*.self_attn.k_proj", 3},
	    {"re:.*self_attn.*", 2},
	    {"re:model\\\\.layers\\\\..*o_proj$", 3},
	    {"model.layers.3.mlp", 4}, /* the other layers are quantized */
	    {"proj", 4},
	};
	struct hm_errbuf errbuf = {""};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct hm_model model;
		char fields[256];

		(void)snprintf(fields, sizeof(fields),
		    QC("\"quant_method\": \"fp8\", "
		       "\"modules_to_not_convert\": [\"%s\", 7]"),
		    cases[i].pattern);
		assert_int_equal(parse(fields, NULL, &model, &errbuf), HM_OK);
		if (count_layers(&model) != cases[i].n_layers)
			fail_msg("%s leaves %zu layers", cases[i].pattern,
			    count_layers(&model));
	}
}

/* What feeds 8-bit activations is planned with them, once for each width and
 * way; a calibrated scale of a tensor needs no search for it. */
static void
test_model__activations_are_quantized_once_for_each_width(void **state)
{
	static const struct layer token[] = {
	    {"qkv_proj", "a=s8,w=u4,c=f16,scale=channel,n=3072,k=1024"},
	    {"o_proj", "a=s8,w=u4,c=f16,scale=channel,n=1024,k=1024"},
	    {"gate_up_proj", "a=s8,w=u4,c=f16,scale=channel,n=4096,k=1024"},
	    {"down_proj", "a=s8,w=u4,c=f16,scale=channel,n=1024,k=2048"},
	    {"quant", "quant,a=s8,c=f16,k=1024"},
	    {"quant", "quant,a=s8,c=f16,k=2048"},
	};
	static const char *const without[] = {"w4a16", "w8a8,act=tensor",
	    "mxfp4a16"};
	struct hm_model model;
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(
	    parse(",\"torch_dtype\": \"float16\"", "w4a8i", &model, &errbuf),
	    HM_OK);
	EXPECT_LAYERS(model, token);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(parse("", without[i], &model, &errbuf), HM_OK);
		assert_int_equal(model.n_layers, 4);
	}
}

struct wrong {
	const char *text;
	const char *quant;
	int error;
	const char *says;
};

/* blamed: how the message begins. */
static void
expect_blamed(const char *blamed, const struct wrong *wrong, uint32_t tp,
    uint32_t ep)
{
	struct hm_model_options options = {tp, ep, wrong->quant};
	struct hm_model model;
	struct hm_errbuf errbuf = {""};
	int error;

	model.n_layers = 12345;
	error = hm_model_parse(wrong->text, strlen(wrong->text), "m.json",
	    &options, &model, &errbuf);
	if (error != wrong->error || model.n_layers != 12345 ||
	    strncmp(errbuf.text, blamed, strlen(blamed)) != 0 ||
	    strstr(errbuf.text, wrong->says) == NULL ||
	    strchr(errbuf.text, '\n') != NULL)
		fail_msg("%d: %s (wanted %s)", error, errbuf.text, wrong->says);
}

static void
expect_refused(const struct wrong *wrong, uint32_t tp, uint32_t ep)
{
	expect_blamed("m.json: ", wrong, tp, ep);
}

#define LLAMA                                                                  \
	"{\"model_type\": \"llama\", \"hidden_size\": 1024, "                  \
	"\"intermediate_size\": 2000, \"num_attention_heads\": 8"

static void
test_model__bad_models_are_refused_by_field(void **state)
{
	static const struct wrong wrongs[] = {
	    {"", NULL, HM_E_INVALID, "not JSON, line 1"},
	    {"{\n\"a\": 1,\n}", NULL, HM_E_INVALID, "not JSON, line 3"},
	    {"\x7f\x45\x4c\x46", NULL, HM_E_INVALID, "not JSON"},
	    {"[1]", "w4a16", HM_E_INVALID, "JSON object"},
	    {"{}", "w4a16", HM_E_INVALID, "model_type is missing"},
	    {"{\"model_type\": \"bert\"}", "w4a16", HM_E_UNSUPPORTED, "'bert'"},
	    {"{\"model_type\": \"llama\"}", "w4a16", HM_E_INVALID,
		"hidden_size is missing"},
	    {"{\"model_type\": \"llama\", \"hidden_size\": \"big\"}", "w4a16",
		HM_E_INVALID, "hidden_size: takes a whole number"},
	    {"{\"model_type\": \"llama\", \"hidden_size\": -1}", "w4a16",
		HM_E_INVALID, "hidden_size"},
	    {"{\"model_type\": \"llama\", \"hidden_size\": 1e9}", "w4a16",
		HM_E_INVALID, "hidden_size"},
	    {LLAMA "}", NULL, HM_E_INVALID, "takes --quant"},
	    {LLAMA "}", "experts=w4a16", HM_E_INVALID, "takes --quant"},
	    {LLAMA ", \"head_dim\": 0}", "w4a16", HM_E_INVALID, "head_dim"},
	    {LLAMA ", \"num_key_value_heads\": 0}", "w4a16", HM_E_INVALID,
		"num_key_value_heads"},
	    {LLAMA QC("\"quant_method\": \"bits\"") "}", NULL, HM_E_UNSUPPORTED,
		"quant_method 'bits'"},
	    {LLAMA QC("\"quant_method\": \"gptq\"") "}", NULL, HM_E_INVALID,
		"bits takes 1 to 8"},
	    {LLAMA QC("\"quant_method\": \"fp8\", "
		      "\"weight_block_size\": [128]") "}",
		NULL, HM_E_INVALID, "weight_block_size"},
	    {LLAMA QC("\"quant_method\": \"fp8\", "
		      "\"weight_block_size\": [128, 32]") "}",
		NULL, HM_E_INVALID, "block=128x32"},
	    {LLAMA QC("\"quant_method\": \"gptq\", \"bits\": 8") "}", "w4a8",
		HM_E_INVALID, "w=u8 does not fit a=e4m3"},
	    {"{\"model_type\": \"mixtral\", \"hidden_size\": 1024, "
	     "\"intermediate_size\": 2048, \"num_attention_heads\": 8, "
	     "\"num_local_experts\": 256128, \"num_experts_per_tok\": 2}",
		"w4a16", HM_E_INVALID, "experts.gate_up_proj: experts"},
	};
	static const struct wrong tp3 = {LLAMA "}", "w4a16", HM_E_INVALID,
	    "num_attention_heads = 8 is not divisible by 3 ranks"};
	static const struct wrong tp32 = {LLAMA "}", "w4a16", HM_E_INVALID,
	    "not divisible by 32 ranks"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++)
		expect_refused(&wrongs[i], 1, 1);
	expect_refused(&tp3, 3, 1);
	expect_refused(&tp32, 32, 1);
}

/* What was asked for is wrong, whatever the file says. */
static void
test_model__bad_options_are_not_blamed_on_the_file(void **state)
{
	static const struct wrong wrongs[] = {
	    {LLAMA "}", "w9a9", HM_E_INVALID, "spec 'w9a9'"},
	    {LLAMA "}", "", HM_E_INVALID, "empty"},
	    {LLAMA "}", "dense=", HM_E_INVALID, "empty"},
	    {LLAMA "}", "experts=w4a16,dense=zz", HM_E_INVALID, "'zz'"},
	    {"not JSON", "w9a9", HM_E_INVALID, "'w9a9'"},
	    {LLAMA "}", "w4a16,m=1", HM_E_INVALID, "m is the model's"},
	    {LLAMA "}", "w4a16,n=3", HM_E_INVALID, "n is the model's"},
	    {LLAMA "}", "w4a16,k=8", HM_E_INVALID, "k is the model's"},
	    {LLAMA "}", "w4a16,experts=8", HM_E_INVALID, "experts is the"},
	    {LLAMA "}", "w4a16,topk=8", HM_E_INVALID, "topk is the model's"},
	    {LLAMA "}", "dense=w4a16,n=3", HM_E_INVALID, "n is the model's"},
	    {LLAMA "}", "moe-indexed,w4a16", HM_E_INVALID, "an operation"},
	    {LLAMA "}", "gemm,w4a16", HM_E_INVALID, "an operation"},
	};
	static const struct wrong odd = {LLAMA "}", "w4a16", HM_E_INVALID,
	    "one must divide the other"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++)
		expect_blamed("--quant: ", &wrongs[i], 1, 1);
	expect_blamed("--tp 2 and --ep 3: ", &odd, 2, 3);
}

#define GROUP(bits)                                                            \
	"{\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": " bits        \
	", \"type\": \"int\", \"group_size\": 128}}"
#define CT(groups)                                                             \
	QC("\"quant_method\": \"compressed-tensors\", \"config_groups\": "     \
	   "{" groups "}")

static void
test_model__groups_of_one_mind_are_one(void **state)
{
	(void)state;
	expect_first(CT("\"weights_4\": " GROUP("4")), NULL,
	    "w=u4,group=128,n=3072,k=1024");
	expect_first(
	    CT("\"group_0\": " GROUP("4") ", \"group_1\": " GROUP("4")), NULL,
	    "w=u4,group=128,n=3072,k=1024");
	expect_first(
	    CT("\"group_0\": " GROUP("4") ", \"group_1\": " GROUP("8")),
	    "experts=w4a16,dense=w4a16,group=64",
	    "w=u4,group=64,n=3072,k=1024");
}

static void
test_model__senseless_quantization_is_refused_by_field(void **state)
{
	static const char *const values[] = {"[]", "\"x\"", "7", "true",
	    "[{\"quant_method\": \"fp8\"}]"};
	static const struct wrong wrongs[] = {
	    {LLAMA QC("\"quant_method\": 7") "}", NULL, HM_E_UNSUPPORTED,
		"quant_method '' is not known"},
	    {LLAMA QC("\"quant_method\": \"gptq\", \"bits\": \"4\"") "}", NULL,
		HM_E_INVALID, "bits is of the wrong type"},
	    {LLAMA QC("\"quant_method\": \"awq\", \"bits\": 4, "
		      "\"group_size\": \"128\"") "}",
		NULL, HM_E_INVALID, "group_size is of"},
	    {LLAMA QC("\"quant_method\": \"gptq\", \"bits\": 4, "
		      "\"sym\": \"no\"") "}",
		NULL, HM_E_INVALID, "sym is of"},
	    {LLAMA QC("\"quant_method\": \"fp8\", "
		      "\"modules_to_not_convert\": \"lm_head\"") "}",
		NULL, HM_E_INVALID, "modules_to_not_convert is of"},
	    {LLAMA QC("\"quant_method\": \"fp8\", "
		      "\"weight_block_size\": 128") "}",
		NULL, HM_E_INVALID, "weight_block_size is of"},
	    {LLAMA CT("") "}", NULL, HM_E_INVALID, "config_groups takes"},
	    {LLAMA CT("\"group_0\": 7") "}", NULL, HM_E_INVALID,
		"config_groups.group_0.weights"},
	    {LLAMA CT("\"a\": {\"weights\": []}") "}", NULL, HM_E_INVALID,
		"a: weights is of"},
	    {LLAMA CT("\"a\": {\"weights\": {\"num_bits\": 4, "
		      "\"group_size\": \"big\"}}") "}",
		NULL, HM_E_INVALID, "a: group_size is of"},
	    {LLAMA CT(
		 "\"group_0\": " GROUP("4") ", \"group_1\": " GROUP("8")) "}",
		NULL, HM_E_UNSUPPORTED, "group_0 and group_1 differ"},
	    {LLAMA CT("\"a\": {\"targets\": [\"re:.*mlp.*\"], \"weights\": "
		      "{\"num_bits\": 4}}") "}",
		NULL, HM_E_UNSUPPORTED, "config_groups.a.targets"},
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		const struct wrong wrong = {text, i % 2 != 0 ? "w4a16" : NULL,
		    HM_E_INVALID, "quantization_config: takes a JSON object"};

		(void)snprintf(text, sizeof(text),
		    LLAMA ", \"quantization_config\": %s}", values[i]);
		expect_refused(&wrong, 1, 1);
	}
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++)
		expect_refused(&wrongs[i], 1, 1);
}

#define GPTQ QC("\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128")

/* A stated field is in the request, or the request is refused. */
static void
test_model__stated_fields_are_honoured_or_refused(void **state)
{
	static const char *const refused[] = {"w4a16,group=64", "w4a16,w=u3",
	    "w4a16,zp=int", "w4a16,stype=f16"};

	(void)state;
	expect_first("", "w4a16,bias=1", "w=u4,group=128,bias=1,n=3072,k=1024");
	expect_first(GPTQ, "w4a16,bias=1,det=1",
	    "w=u4,group=128,bias=1,det=1,n=3072,k=1024");
	expect_first(GPTQ, "w4a16,group=128", "w=u4,group=128,n=3072,k=1024");
	expect_first(GPTQ, "w8a16", "w=u4,group=128,n=3072,k=1024");
	expect_first(GPTQ, "w4a16,a=f16", "a=f16,w=u4,group=128,n=3072,k=1024");
	expect_first(GPTQ, "w4a8,c=f16",
	    "a=e4m3,w=u4,c=f16,group=128,n=3072,k=1024");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		const struct wrong wrong = {LLAMA GPTQ "}", refused[i],
		    HM_E_INVALID, "is not what the checkpoint says"};

		expect_refused(&wrong, 1, 1);
	}
}

static void
test_model__unknown_methods_matter_only_where_not_overridden(void **state)
{
	struct hm_model model;
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(parse(QC("\"quant_method\": \"odd\""),
			     "experts=w4a16,dense=w4a16", &model, &errbuf),
	    HM_OK);
	assert_int_equal(model.n_layers, 4);
	assert_int_equal(parse(QC("\"quant_method\": \"quanto\", "
				  "\"weights\": \"int8\""),
			     "experts=w4a16,dense=w4a16", &model, &errbuf),
	    HM_OK);
	assert_int_equal(parse(QC("\"quant_method\": \"odd\""), "dense=w4a16",
			     &model, &errbuf),
	    HM_E_UNSUPPORTED);
}

/* Any prefix of a model is refused or read, never worse. */
static void
test_model__cut_files_are_refused(void **state)
{
	static char text[4096];
	char path[512];
	FILE *file;
	size_t n;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/deepseek-v4-flash.json",
	    HM_TEST_DATA);
	file = fopen(path, "re");
	assert_non_null(file);
	n = fread(text, 1, sizeof(text), file);
	(void)fclose(file);
	for (size_t i = 0; i < n - 2; i++) {
		struct hm_model_options options = {1, 1, NULL};
		struct hm_model model;
		struct hm_errbuf errbuf = {""};

		assert_int_equal(
		    hm_model_parse(text, i, "cut", &options, &model, &errbuf),
		    HM_E_INVALID);
	}
}

static void
test_model__folders_and_missing_files(void **state)
{
	struct hm_model_options options = {1, 1, "w4a16"};
	struct hm_model model;
	struct hm_errbuf errbuf = {""};
	char folder[] = "/tmp/test_model.XXXXXX";
	char path[64];
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(hm_model_load(folder, &options, &model, &errbuf),
	    HM_E_SYSTEM);
	assert_non_null(strstr(errbuf.text, "/config.json: cannot be read"));
	(void)snprintf(path, sizeof(path), "%s/config.json", folder);
	file = fopen(path, "we");
	assert_non_null(file);
	(void)fputs(LLAMA "}\n", file);
	(void)fclose(file);
	assert_int_equal(hm_model_load(folder, &options, &model, &errbuf),
	    HM_OK);
	assert_int_equal(model.n_layers, 4);
	(void)unlink(path);
	/* A FIFO nobody writes to must not hang. */
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_not_equal(hm_model_load(path, &options, &model, &errbuf),
	    HM_OK);
	(void)unlink(path);
	(void)rmdir(folder);
	assert_int_equal(hm_model_load(path, &options, &model, &errbuf),
	    HM_E_SYSTEM);
	assert_non_null(strstr(errbuf.text, path));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_model__qwen3_has_four_fused_layers),
	    cmocka_unit_test(
		test_model__llama_replicates_keys_when_ranks_outnumber_them),
	    cmocka_unit_test(test_model__deepseek_v3_keeps_its_blocks),
	    cmocka_unit_test(
		test_model__deepseek_v4_has_fp4_experts_and_grouped_output),
	    cmocka_unit_test(test_model__gpt_oss_attention_stays_wide),
	    cmocka_unit_test(
		test_model__quant_settles_only_activations_when_quantized),
	    cmocka_unit_test(
		test_model__quant_by_class_overrides_the_checkpoint),
	    cmocka_unit_test(test_model__checkpoint_formats_become_specs),
	    cmocka_unit_test(test_model__wide_type_of_the_model_is_the_default),
	    cmocka_unit_test(
		test_model__modules_that_stay_wide_are_not_planned),
	    cmocka_unit_test(
		test_model__activations_are_quantized_once_for_each_width),
	    cmocka_unit_test(test_model__bad_models_are_refused_by_field),
	    cmocka_unit_test(
		test_model__bad_options_are_not_blamed_on_the_file),
	    cmocka_unit_test(test_model__groups_of_one_mind_are_one),
	    cmocka_unit_test(
		test_model__senseless_quantization_is_refused_by_field),
	    cmocka_unit_test(test_model__stated_fields_are_honoured_or_refused),
	    cmocka_unit_test(
		test_model__unknown_methods_matter_only_where_not_overridden),
	    cmocka_unit_test(test_model__cut_files_are_refused),
	    cmocka_unit_test(test_model__folders_and_missing_files),
	};

	return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
