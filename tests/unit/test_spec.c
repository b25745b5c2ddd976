/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_spec.c - the grammar of DESIGN.md section 5 word by word, its printer as
 * the inverse of its parser, and what can never be right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "jit/spec.h"
#include "jit/type.h"

#define TEXT_BYTES (HM_SPEC_MAX_CHARS + 1)

static struct hm_request
parsed(const char *text)
{
	struct hm_request request;
	struct hm_errbuf errbuf = {""};

	if (hm_spec_parse(text, &request, &errbuf) != HM_OK)
		fail_msg("%s", errbuf.text);
	return request;
}

static void
expect_canonical(const char *text, const char *canonical)
{
	struct hm_request request = parsed(text), again;
	char printed[TEXT_BYTES];

	assert_int_equal(hm_spec_print(&request, printed, sizeof(printed)),
	    HM_OK);
	assert_string_equal(printed, canonical);
	again = parsed(canonical);
	assert_memory_equal(&again, &request, sizeof(again));
}

static void
test_spec__shorthands_have_canonical_forms(void **state)
{
	static const char *const forms[][2] = {
	    {"w4a16", "w=u4,group=128"},
	    {"w8a16", "w=u8,scale=channel"},
	    {"w4a8", "a=e4m3,w=u4,group=128"},
	    {"w4a8i", "a=s8,w=u4,scale=channel"},
	    {"w8a8", "a=e4m3,w=e4m3,scale=channel"},
	    {"w8a8i", "a=s8,w=u8,scale=channel"},
	    {"w4a4", "a=s4,w=u4,scale=channel"},
	    {"mxfp4a16", "w=e2m1,group=32,stype=e8m0"},
	    {"mxfp4a8", "a=e4m3,w=e2m1,group=32,stype=e8m0"},
	    {"nvfp4a16", "w=e2m1,group=16,stype=e4m3,tensor=1"},
	    {"nvfp4a4", "a=e2m1,w=e2m1,group=16,stype=e4m3,tensor=1,act=16"},
	    {"fp8block", "a=e4m3,w=e4m3,block=128x128,act=128"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		expect_canonical(forms[i][0], forms[i][1]);
}

static void
test_spec__fields_print_in_table_order_without_defaults(void **state)
{
	(void)state;
	expect_canonical("w4a16,m=1,n=8192,k=8192",
	    "w=u4,group=128,m=1,n=8192,k=8192");
	expect_canonical("gemm,w4a16", "w=u4,group=128");
	expect_canonical("k=64,m=3,w=u4,n=8,group=32,a=bf16",
	    "w=u4,group=32,m=3,n=8,k=64");
	expect_canonical(
	    "moe-indexed,mxfp4a8,sms=78,topk=6,experts=256,mx=exact,bias=1,"
	    "epi=swiglu-oai,q=e4m3,det=1,acc=f16,c=f16,act=128,actlayout=m",
	    "moe-indexed,a=e4m3,w=e2m1,c=f16,group=32,stype=e8m0,act=128,"
	    "actlayout=m,bias=1,det=1,acc=f16,epi=swiglu-oai,q=e4m3,mx=exact,"
	    "experts=256,topk=6,sms=78");
	expect_canonical("w4a16,tensor=0,zp=none,bias=0,det=0,acc=f32,epi=none,"
			 "c=bf16,stype=bf16,m=0",
	    "w=u4,group=128");
	expect_canonical("quant,a=s8,act=tensor", "quant,a=s8,act=tensor");
	expect_canonical("quant,epi=silu-mul,act=128,actlayout=m,c=f16,a=e5m2",
	    "quant,a=e5m2,c=f16,act=128,actlayout=m,epi=silu-mul");
	expect_canonical("w8a8,acc=precise",
	    "a=e4m3,w=e4m3,scale=channel,acc=precise");
	expect_canonical("w8a8,acc=f32", "a=e4m3,w=e4m3,scale=channel");
	expect_canonical("pack,w4a16", "pack,w=u4,group=128");
	expect_canonical("align,experts=8,topk=2", "align,experts=8,topk=2");
	expect_canonical("combine", "combine");
}

static void
test_spec__stated_fields_override_a_shorthand(void **state)
{
	struct hm_request request;

	(void)state;
	expect_canonical("w4a16,scale=channel", "w=u4,scale=channel");
	expect_canonical("w4a16,block=64x64", "w=u4,block=64x64");
	expect_canonical("w8a16,group=64", "w=u8,group=64");
	expect_canonical("w4a16,zp=float", "w=u4,group=128,zp=float");
	expect_canonical("w4a16,w=e3m2", "w=e3m2,group=128");
	/* What the shorthand says of 8-bit activations goes with them. */
	expect_canonical("fp8block,a=bf16", "w=e4m3,block=128x128");
	request = parsed("w4a8,a=f16");
	assert_int_equal(request.act_scale, HM_ACT_SCALE_NONE);
}

static void
test_spec__output_and_scales_follow_the_activations(void **state)
{
	struct hm_request request = parsed("w4a16,a=f16");

	(void)state;
	assert_int_equal(request.c_type, HM_TYPE_F16);
	assert_int_equal(request.scale_type, HM_TYPE_F16);
	expect_canonical("w4a16,a=f16", "a=f16,w=u4,group=128");
	expect_canonical("w4a16,a=f16,c=bf16", "a=f16,w=u4,c=bf16,group=128");
	request = parsed("w4a8");
	assert_int_equal(request.c_type, HM_TYPE_BF16);
	assert_int_equal(request.act_scale, HM_ACT_SCALE_TOKEN);
	request = parsed("w4a8,c=f16");
	assert_int_equal(request.scale_type, HM_TYPE_F16);
}

static void
test_spec__two_complement_weights_become_offset_binary(void **state)
{
	(void)state;
	for (uint32_t bits = 1; bits <= 8; bits++) {
		char text[64], other[64];

		(void)snprintf(text, sizeof(text), "w=s%u,group=64", bits);
		(void)snprintf(other, sizeof(other), "w=u%u,group=64", bits);
		expect_canonical(text, other);
	}
}

static void
test_spec__every_small_type_has_one_name(void **state)
{
	uint32_t n = 0;

	(void)state;
	for (uint32_t type = 0; type < 5u << 16; type++) {
		char text[HM_TYPE_CHARS];
		uint32_t back = 0;

		hm_type_print(type, text);
		if (!hm_type_is_valid(type)) {
			assert_string_equal(text, "?");
			assert_int_equal(hm_type_bits(type), 0);
			continue;
		}
		assert_int_equal(hm_type_parse(text, &back), HM_OK);
		assert_int_equal(back, type);
		n++;
	}
	/* bf16 f16 f32 e8m0, u and s of 1..8, e1m0..e1m6 .. e7m0. */
	assert_int_equal(n, 4 + 16 + 28);
}

struct wrong {
	const char *text;
	const char *says; /* a part of the message */
};

static void
expect_refused(const struct wrong *wrong)
{
	struct hm_request request;
	struct hm_errbuf errbuf = {""};

	memset(&request, 0x5a, sizeof(request));
	if (hm_spec_parse(wrong->text, &request, &errbuf) != HM_E_INVALID)
		fail_msg("'%s' was taken", wrong->text);
	assert_int_equal(((unsigned char *)&request)[0], 0x5a);
	if (strncmp(errbuf.text, "spec '", 6) != 0 ||
	    strstr(errbuf.text, wrong->says) == NULL ||
	    strchr(errbuf.text, '\n') != NULL)
		fail_msg("'%s' says: %s", wrong->text, errbuf.text);
}

static void
test_spec__bad_text_is_refused_by_field_and_value(void **state)
{
	static const struct wrong wrongs[] = {
	    {"", "'': is empty, takes a shorthand"},
	    {"w4a16,", "empty"},
	    {",w4a16", "empty"},
	    {"w6a8", "'w6a8'"},
	    {"W4A16", "unknown operation or shorthand"},
	    {"w4a16 ,m=1", "unknown operation or shorthand"},
	    {"w4a16,foo=1", "unknown field foo"},
	    {"w4a16,=1", "unknown field"},
	    {"w4a16,m", "'m'"},
	    {"w4a16,m=", "m=:"},
	    {"w4a16,m=-1", "m=-1"},
	    {"w4a16,m=1x", "m=1x"},
	    {"w4a16,m= 1", "m= 1"},
	    {"w4a16,n=99999999999999999999", "n=99999999999999999999"},
	    {"w4a16,k=16777217", "k=16777217"},
	    {"w4a16,m=1,m=2", "m is given twice"},
	    {"w4a16,w8a16", "w8a16 must stand first"},
	    {"m=1,w4a16", "w4a16 must stand first"},
	    {"w4a16,gemm,gemm", "gemm must stand first"},
	    {"gemm,gemm,w4a16", "gemm must stand first"},
	    {"w4a16,group=64,scale=channel", "scale stands beside group"},
	    {"w4a16,block=64x64,group=64", "group stands beside block"},
	    {"w4a16,group=0", "group=0"},
	    {"w4a16,mx=fused", "mx: takes scales of stype=e8m0"},
	    {"nvfp4a16,mx=fused", "mx: takes scales of stype=e8m0"},
	    {"w4a16,group=100", "group=100"},
	    {"w4a16,group=8", "group=8"},
	    {"w4a16,scale=row", "scale=row"},
	    {"w4a16,block=128", "block=128"},
	    {"w4a16,block=128x64", "block=128x64"},
	    {"w4a16,block=32x32", "block=32x32"},
	    {"w4a16,w=u0", "w=u0"},
	    {"w4a16,w=u9", "w=u9"},
	    {"w4a16,w=e4m4", "w=e4m4"},
	    {"w4a16,w=e0m3", "w=e0m3"},
	    {"w4a16,w=bf16", "w=bf16"},
	    {"w4a16,w=e8m0", "w=e8m0"},
	    {"w4a16,a=f32", "a=f32"},
	    {"w4a16,a=u8", "a=u8"},
	    {"w4a16,c=f32", "c=f32"},
	    {"w4a16,stype=e2m1", "stype=e2m1"},
	    {"w4a16,acc=bf16", "acc=bf16: takes f32, f16 or precise"},
	    {"w4a16,a=precise", "a=precise"},
	    {"w4a16,tensor=2", "tensor=2"},
	    {"w4a16,bias=2", "bias=2"},
	    {"w4a16,zp=1", "zp=1"},
	    {"w4a8,act=row", "act=row"},
	    {"w4a8,act=0", "act=0"},
	    {"w4a8,act=100", "act=100"},
	    {"w4a16,epi=gelu", "epi=gelu"},
	    {"gemm", "w is missing"},
	    {"w=u4", "takes exactly one of group, scale, block"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++)
		expect_refused(&wrongs[i]);
}

static void
test_spec__contradictions_are_refused_with_a_reason(void **state)
{
	static const struct wrong wrongs[] = {
	    {"a=e4m3,w=u6,group=128", "w=u6 does not fit a=e4m3"},
	    {"w4a8,w=u8", "w=u8 does not fit a=e4m3"},
	    {"w4a8,w=s6", "w=s6 does not fit a=e4m3"},
	    {"w4a8,a=e5m2,w=u5", "w=u5 does not fit a=e5m2"},
	    {"w4a4,w=u5", "w=u5 does not fit a=s4"},
	    {"nvfp4a4,w=u4", "w=u4 does not fit a=e2m1"},
	    {"nvfp4a4,w=e3m2", "w=e3m2 does not fit a=e2m1"},
	    {"w4a8,w=e6m1", "w=e6m1 does not fit a=e4m3"},
	    {"w4a8i,w=e3m2", "w=e3m2 does not fit a=s8"},
	    {"w4a16,a=f16,w=e6m1", "w=e6m1 does not fit a=f16"},
	    {"w4a16,zp=int,w=s4", "zp=int: takes unsigned"},
	    {"mxfp4a16,zp=float", "zp=float: takes unsigned"},
	    {"w4a16,act=token", "act: takes 8- or 4-bit activations"},
	    {"w4a16,actlayout=m", "act: takes 8- or 4-bit activations"},
	    {"w4a8,actlayout=m", "actlayout=m"},
	    {"w4a16,q=e4m3", "q: takes an epilogue"},
	    {"w4a16,epi=silu-mul,q=e5m2", "q=e5m2"},
	    {"w4a16,epi=silu-mul,n=7", "n=7"},
	    {"w=s6,a=e4m3,group=128", "w=s6 does not fit a=e4m3"},
	    {"w=u6,a=e4m3,group=128", "w=u6 does not fit a=e4m3"},
	    {"w4a16,mx=exact", "mx=exact"},
	    {"mxfp4a16,mx=exact", "mx=exact"},
	    {"w4a8,mx=exact", "mx=exact"},
	    {"w4a16,stype=s8", "stype=s8"},
	    {"w4a8i,stype=s8", "stype=s8"},
	    {"w4a16,acc=f16", "acc=f16"},
	    {"w8a8i,acc=f16", "acc=f16"},
	    {"w8a8i,acc=precise", "acc=precise: takes fp8 activations"},
	    {"w4a16,acc=precise", "acc=precise: takes fp8 activations"},
	    {"quant,a=e4m3,q=e4m3", "q: takes an epilogue"},
	    {"quant,a=e4m3,epi=silu-mul,q=s8", "q: takes an epilogue"},
	    {"combine,epi=silu-mul", "epi"},
	    {"w4a16,scale=tensor,tensor=1", "tensor=1"},
	    {"w4a16,experts=8", "experts and topk"},
	    {"moe-masked,w4a16,experts=4,topk=5", "topk=5"},
	    {"quant", "a=bf16: quant takes"},
	    {"quant,a=s8,w=u4", "w: takes an operation with weights"},
	    {"align,group=128", "group, scale or block"},
	    {"pack,w4a16,epi=silu-mul", "epi"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++)
		expect_refused(&wrongs[i]);
}

/* KERNELS.md 4.7 and CASES.md: these must stay legal. */
static void
test_spec__all_cases_of_the_matrix_are_legal(void **state)
{
	static const char *const specs[] = {
	    "w4a16,scale=channel",
	    "w4a16",
	    "w4a16,a=f16,group=64,zp=int",
	    "w4a16,a=f16,zp=float",
	    "w=u8,group=64,zp=int",
	    "w=u5,group=128",
	    "w=u7,group=128",
	    "w=u1,group=64",
	    "w=u2,group=64",
	    "w=e4m3,scale=channel",
	    "w=e4m3,block=128x128,stype=f32",
	    "nvfp4a16",
	    "mxfp4a16",
	    "w=e3m2,scale=channel",
	    "w=e2m3,scale=channel",
	    "w8a8",
	    "fp8block",
	    "w4a8",
	    "w4a8,zp=int",
	    "w4a8,w=u5",
	    "w4a8,a=e5m2",
	    "w4a8,w=e5m2",
	    "mxfp4a8",
	    "mxfp4a8,mx=exact",
	    "w8a8i",
	    "w4a8i,group=64,stype=s8",
	    "mxfp4a8,a=s8",
	    "w4a4,w=u3,group=64",
	    "w4a4",
	    "a=e5m2,w=u4,scale=channel",
	    "w4a16,bias=1",
	    "w=u3,group=64,det=1",
	    "moe-indexed,w4a16,experts=19,topk=3",
	    "moe-grouped,mxfp4a8,act=128,actlayout=m",
	    "moe-masked,w=u4,block=64x64,bias=1",
	    "w=e7m0,group=16",
	    "w4a16,a=f16,acc=f16",
	    "w8a8,acc=precise",
	    "moe-indexed,mxfp4a8,acc=precise",
	    "w4a8,a=e5m2,acc=precise",
	    "quant,a=e4m3,epi=silu-mul",
	    "quant,a=s8,epi=swiglu-oai,k=24",
	    "w4a16,group=256",
	    "w=u4,scale=tensor",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		(void)parsed(specs[i]);
}

static uint32_t
draw(uint64_t *seed, uint32_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)((*seed >> 33) % below);
}

static uint32_t
draw_type(uint64_t *seed)
{
	static const uint32_t types[] = {0, HM_TYPE_BF16, HM_TYPE_F16,
	    HM_TYPE_F32, HM_TYPE_E4M3, HM_TYPE_E5M2, HM_TYPE_E2M1, HM_TYPE_E8M0,
	    HM_TYPE_SINT(8), HM_TYPE_SINT(4)};

	switch (draw(seed, 3)) {
	case 0:
		return HM_TYPE(1 + draw(seed, 2), 0, 1 + draw(seed, 8));
	case 1:
		return HM_TYPE(HM_KIND_FLOAT, 1 + draw(seed, 7), draw(seed, 7));
	default:
		return types[draw(seed, 10)];
	}
}

/* Members at random: most are nonsense, and enough are not. */
static struct hm_request
draw_request(uint64_t *seed)
{
	static const uint32_t a_types[] = {HM_TYPE_BF16, HM_TYPE_F16,
	    HM_TYPE_E4M3, HM_TYPE_E5M2, HM_TYPE_SINT(8), HM_TYPE_SINT(4),
	    HM_TYPE_E2M1};
	struct hm_request request = {
	    .operation = draw(seed, 6),
	    .a_type = a_types[draw(seed, 7)],
	    .w_type = draw_type(seed),
	    .c_type = draw(seed, 2) ? HM_TYPE_F16 : 0,
	    .scale_kind = 1 + draw(seed, 4),
	    .scale_type = draw(seed, 2) ? draw_type(seed) : 0,
	    .tensor_scale = draw(seed, 2),
	    .zero = draw(seed, 8) < 6 ? 0 : draw(seed, 3),
	    .act_scale = draw(seed, 4),
	    .bias = draw(seed, 2),
	    .deterministic = draw(seed, 2),
	    .acc_type = draw(seed, 4)   ? 0
			: draw(seed, 2) ? HM_ACC_PRECISE
					: HM_TYPE_F16,
	    .epilogue = draw(seed, 4) ? 0 : draw(seed, 3),
	    .mx_exact = draw(seed, 8) == 0,
	    .m = draw(seed, 9000),
	    .n = 8 * draw(seed, 9000),
	    .k = 8 * draw(seed, 9000),
	    .sms = draw(seed, 200),
	};

	if (request.scale_kind == HM_SCALE_GROUP)
		request.group = 8u << draw(seed, 7);
	if (request.scale_kind == HM_SCALE_BLOCK)
		request.block_rows = request.block_cols = 64u << draw(seed, 2);
	if (request.act_scale == HM_ACT_SCALE_GROUP) {
		request.act_group = 16u << draw(seed, 6);
		request.act_layout = draw(seed, 2);
	}
	if (request.epilogue != 0 && draw(seed, 2))
		request.q_type = draw(seed, 2) ? HM_TYPE_E4M3 : HM_TYPE_SINT(8);
	if (request.operation > HM_OPERATION_GEMM)
		request.experts = draw(seed, 300);
	return request;
}

static void
test_spec__printing_and_parsing_are_inverse(void **state)
{
	uint64_t seed = 20261201;
	uint32_t n_legal = 0, n_drawn = 0;

	(void)state;
	for (; n_legal < 3000 && n_drawn < 2000000; n_drawn++) {
		struct hm_request request = draw_request(&seed), full, back;
		char text[TEXT_BYTES], again[TEXT_BYTES];

		if (hm_spec_check(&request, NULL) != HM_OK)
			continue;
		n_legal++;
		full = request;
		hm_spec_complete(&full);
		assert_int_equal(hm_spec_print(&request, text, sizeof(text)),
		    HM_OK);
		back = parsed(text);
		if (memcmp(&back, &full, sizeof(back)) != 0)
			fail_msg("not the same after parsing: %s", text);
		assert_int_equal(hm_spec_print(&back, again, sizeof(again)),
		    HM_OK);
		assert_string_equal(again, text);
	}
	assert_int_equal(n_legal, 3000);
}

/* Pieces of SPECs in any order: taken or refused, never worse. */
static void
test_spec__shuffled_pieces_never_break_it(void **state)
{
	static const char *const pieces[] = {"w4a16", "gemm", ",", "=", "m",
	    "group=", "128", "x", "block=", "scale=channel", "w=", "u4", "e",
	    "mxfp4a8", "act=", "a=e4m3", "\x7f", "\xff", "99999999999", "-"};
	uint64_t seed = 7;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		char text[TEXT_BYTES] = "";
		size_t n = 0;
		struct hm_request request;
		struct hm_errbuf errbuf = {""};

		for (uint32_t j = draw(&seed, 12); j > 0; j--)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s",
			    pieces[draw(&seed, 20)]);
		if (hm_spec_parse(text, &request, &errbuf) == HM_OK)
			assert_int_equal(hm_spec_check(&request, NULL), HM_OK);
		else
			assert_true(errbuf.text[0] != '\0');
	}
}

static void
test_spec__lengths_are_limited(void **state)
{
	char text[HM_SPEC_MAX_CHARS + 3], small[16];
	struct hm_request request = parsed("w4a16");
	struct hm_errbuf errbuf = {""};

	(void)state;
	memset(text, 'm', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(hm_spec_parse(text, &request, &errbuf), HM_E_INVALID);
	assert_non_null(strstr(errbuf.text, "at most 255 characters"));
	text[HM_SPEC_MAX_CHARS] = '\0';
	assert_int_equal(hm_spec_parse(text, &request, NULL), HM_E_INVALID);

	assert_int_equal(hm_spec_print(&request, small, 14), HM_E_INVALID);
	assert_int_equal(hm_spec_print(&request, small, 15), HM_OK);
	assert_string_equal(small, "w=u4,group=128");
}

static void
test_spec__numbers_without_names_are_not_printed(void **state)
{
	char text[TEXT_BYTES] = "untouched";
	struct hm_request request = parsed("w4a16");

	(void)state;
	request.w_type = 0x00ffffff;
	assert_int_equal(hm_spec_print(&request, text, sizeof(text)),
	    HM_E_INVALID);
	request = parsed("w4a16");
	request.operation = 99;
	assert_int_equal(hm_spec_print(&request, text, sizeof(text)),
	    HM_E_INVALID);
	request = parsed("w4a16");
	request.epilogue = 99;
	assert_int_equal(hm_spec_print(&request, text, sizeof(text)),
	    HM_E_INVALID);
	assert_string_equal(text, "untouched");
}

static void
test_spec__a_request_of_zeros_means_defaults(void **state)
{
	struct hm_request request, wire = {0};

	(void)state;
	hm_spec_init(&request);
	assert_int_equal(request.operation, HM_OPERATION_GEMM);
	assert_int_equal(request.a_type, HM_TYPE_BF16);
	assert_int_equal(request.acc_type, HM_TYPE_F32);
	wire.w_type = HM_TYPE_SINT(4);
	wire.scale_kind = HM_SCALE_GROUP;
	wire.group = 128;
	assert_int_equal(hm_spec_check(&wire, NULL), HM_OK);
	hm_spec_complete(&wire);
	request = parsed("w4a16");
	assert_memory_equal(&wire, &request, sizeof(wire));
}

static void
test_spec__targets_parse_and_print(void **state)
{
	static const char *const good[] = {"sm_90a", "sm_80", "sm_100f",
	    "sm_121", "sm_75"};
	static const char *const bad[] = {"", "sm_", "sm_9", "sm_9a", "sm_1000",
	    "sm_90b", "sm_90aa", "sm_090", "compute_90", "sm_90 ", "SM_90",
	    "gfx942", "native"};
	struct hm_target target;
	struct hm_errbuf errbuf;
	char text[16];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(hm_target_parse(good[i], &target, NULL),
		    HM_OK);
		hm_target_print(&target, text);
		assert_string_equal(text, good[i]);
		assert_int_equal(hm_target_parse(good[i] + 3, &target, NULL),
		    HM_OK);
		hm_target_print(&target, text);
		assert_string_equal(text, good[i]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(hm_target_parse(bad[i], &target, &errbuf),
		    HM_E_INVALID);
		assert_non_null(strstr(errbuf.text, bad[i]));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_spec__shorthands_have_canonical_forms),
	    cmocka_unit_test(
		test_spec__fields_print_in_table_order_without_defaults),
	    cmocka_unit_test(test_spec__stated_fields_override_a_shorthand),
	    cmocka_unit_test(
		test_spec__output_and_scales_follow_the_activations),
	    cmocka_unit_test(
		test_spec__two_complement_weights_become_offset_binary),
	    cmocka_unit_test(test_spec__every_small_type_has_one_name),
	    cmocka_unit_test(test_spec__bad_text_is_refused_by_field_and_value),
	    cmocka_unit_test(
		test_spec__contradictions_are_refused_with_a_reason),
	    cmocka_unit_test(test_spec__all_cases_of_the_matrix_are_legal),
	    cmocka_unit_test(test_spec__printing_and_parsing_are_inverse),
	    cmocka_unit_test(test_spec__shuffled_pieces_never_break_it),
	    cmocka_unit_test(test_spec__lengths_are_limited),
	    cmocka_unit_test(test_spec__numbers_without_names_are_not_printed),
	    cmocka_unit_test(test_spec__a_request_of_zeros_means_defaults),
	    cmocka_unit_test(test_spec__targets_parse_and_print),
	};

	return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
