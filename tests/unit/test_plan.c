/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_plan.c - the table over M: whole for every shape and SM count, few
 * kernels in all, the measured choices where there are measurements, and one
 * clear line where this build has no kernel.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "jit/config.h"
#include "jit/emit.h"
#include "jit/launch.h"
#include "jit/plan.h"
#include "jit/spec.h"

#define MAX_CONFIGS 2048

/* N, K of Qwen3-32B, Llama-3-70B, gpt-oss and DeepSeek layers, also sliced,
 * the shapes of KERNELS_MEASURED.md, and some at the edges. */
static const uint32_t shapes[][2] = {{10240, 5120}, {5120, 8192}, {51200, 5120},
    {5120, 25600}, {1280, 5120}, {5120, 1024}, {6400, 5120}, {5120, 3200},
    {8192, 8192}, {57344, 8192}, {8192, 28672}, {1280, 8192}, {8192, 1024},
    {7168, 8192}, {8192, 3584}, {5120, 2880}, {2880, 4096}, {5760, 2880},
    {2880, 2880}, {2112, 7168}, {24576, 1536}, {32768, 512}, {7168, 16384},
    {36864, 7168}, {7168, 18432}, {1536, 4096}, {8192, 1024}, {4096, 8192},
    {32768, 1024}, {1024, 4096}, {8, 8}, {64, 128}, {72, 136}, {8, 131072},
    {262144, 8}, {152064, 5120}, {16777216, 16}, {16, 16777216}};

#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static const char *const targets[] = {"sm_80", "sm_86", "sm_87", "sm_89",
    "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_103a",
    "sm_103f", "sm_110", "sm_110a", "sm_110f", "sm_120", "sm_120a", "sm_120f",
    "sm_121", "sm_121a", "sm_121f"};

#define N_TARGETS (sizeof(targets) / sizeof(targets[0]))

static struct hm_request
request_of(const char *spec, const char *target)
{
	struct hm_request request;
	struct hm_errbuf errbuf = {""};

	if (hm_spec_parse(spec, &request, &errbuf) != HM_OK ||
	    hm_target_parse(target, &request.target, &errbuf) != HM_OK)
		fail_msg("%s", errbuf.text);
	return request;
}

static struct hm_plan
plan_of(const struct hm_request *request)
{
	struct hm_plan plan;
	struct hm_errbuf errbuf = {""};

	if (hm_plan_compute(request, &plan, &errbuf) != HM_OK)
		fail_msg("%s", errbuf.text);
	return plan;
}

static bool
same_config(const struct hm_config *a, const struct hm_config *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static bool
among(const struct hm_config *config, const struct hm_config *configs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (same_config(config, &configs[i]))
			return true;
	}
	return false;
}

static void
expect_launches(const struct hm_plan_row *row, const struct hm_request *request,
    uint32_t sms)
{
	uint32_t m_hi = row->m_hi == UINT32_MAX ? 100000 : row->m_hi;
	const uint32_t ms[] = {row->m_lo, (row->m_lo + m_hi) / 2, m_hi};
	struct hm_launch launch;

	for (size_t i = 0; i < 3; i++) {
		if (hm_launch_compute(row, ms[i], request->n, request->k, sms,
			&launch) != HM_OK)
			fail_msg("no launch for m=%u n=%u k=%u sms=%u", ms[i],
			    request->n, request->k, sms);
		assert_true(launch.grid_x > 0 && launch.grid_y > 0);
		assert_int_equal(launch.cluster, row->cluster);
		assert_int_equal(launch.grid_x % launch.cluster, 0);
	}
}

static void
expect_whole(const struct hm_plan *plan, const struct hm_request *request,
    uint32_t sms)
{
	uint32_t next = 1;

	assert_in_range(plan->n_rows, 1, HM_PLAN_MAX_ROWS);
	for (uint32_t i = 0; i < plan->n_rows; i++) {
		const struct hm_plan_row *row = &plan->rows[i];

		assert_int_equal(row->m_lo, next);
		assert_true(row->m_hi >= row->m_lo);
		assert_ptr_equal(hm_plan_find(plan, row->m_lo), row);
		assert_ptr_equal(hm_plan_find(plan, row->m_hi), row);
		expect_launches(row, request, sms);
		next = row->m_hi + 1; /* 0 behind the last */
	}
	assert_int_equal(next, 0);
	assert_ptr_equal(hm_plan_find(plan, 0), &plan->rows[0]);
}

static void
test_plan__tables_are_whole_for_all_shapes_targets_and_sms(void **state)
{
	static const uint32_t more_sms[] = {1, 7, 264};

	(void)state;
	for (size_t t = 0; t < N_TARGETS; t++) {
		struct hm_request request = request_of("w4a16", targets[t]);
		uint32_t sms[16];
		size_t n = hm_plan_sms_list(&request.target, sms, 13);

		assert_true(n > 0);
		assert_int_equal(sms[0], hm_plan_usual_sms(&request.target));
		memcpy(&sms[n], more_sms, sizeof(more_sms));
		for (size_t i = 0; i < (n + 3) * N_SHAPES; i++) {
			struct hm_plan plan;

			request.n = shapes[i % N_SHAPES][0];
			request.k = shapes[i % N_SHAPES][1];
			request.sms = sms[i / N_SHAPES];
			plan = plan_of(&request);
			expect_whole(&plan, &request, request.sms);
		}
	}
}

/* The larger the lines of scales and zero points, the less fits: groups of 32
 * with float zero points make kernel S with 16 warps too large at 8 tokens. */
static void
test_plan__rows_fit_with_every_weight_format(void **state)
{
	static const char *const scales[] = {"scale=channel", "group=128",
	    "group=128,zp=int", "group=128,zp=float", "group=64",
	    "group=64,zp=int", "group=64,zp=float", "group=32",
	    "group=32,zp=int", "group=32,zp=float"};
	static const uint32_t ns[] = {8, 64, 1024, 1536, 4096, 4224, 8192,
	    51200};

	(void)state;
	for (size_t i = 0; i < 10 * 2 * 8; i++) {
		char spec[64];
		struct hm_request request;

		(void)snprintf(spec, sizeof(spec), "w4a16,a=%s,%s",
		    i / 8 % 2 != 0 ? "f16" : "bf16", scales[i / 16]);
		request = request_of(spec, "sm_90a");
		request.n = ns[i % 8];
		for (uint32_t k = 8; k <= 40960; k += k < 1024 ? 120 : 2040) {
			struct hm_plan plan;

			request.k = k;
			plan = plan_of(&request);
			expect_whole(&plan, &request, 132);
		}
	}
}

/* A multiple of 16, which every format takes; integers have an end. */
static uint32_t
k_of(const char *spec, uint32_t k)
{
	if (strncmp(spec, "w4a8i", 5) == 0 || strncmp(spec, "w8a8i", 5) == 0)
		k = k < 65536 ? k : 65536;
	return (k + 15) / 16 * 16;
}

struct format {
	const char *spec;
	uint32_t act, out, weight, scale, group, zero, act_scale, promote;
};

/* Contract of the kernels: which fields a request becomes. */
static const struct format formats[] = {
    {"w4a16", 0, 0, 0, 1, 128, 0, 0, 0},
    {"w4a16,stype=f32", 0, 0, 0, 1, 128, 0, 0, 0},
    {"w4a16,a=f16,stype=f32,zp=int", 1, 1, 0, 2, 128, 1, 0, 0},
    {"w4a16,scale=tensor,stype=f32", 0, 0, 0, 0, 0, 0, 0, 0},
    {"w4a16,group=32,stype=e8m0", 0, 0, 0, 4, 32, 0, 0, 0},
    {"w4a16,block=128x128,stype=f32", 0, 0, 0, 1, 128, 0, 0, 0},
    {"w8a16", 0, 0, 1, 0, 0, 0, 0, 0},
    {"w8a16,a=f16,group=64", 1, 1, 1, 2, 64, 0, 0, 0},
    {"mxfp4a16", 0, 0, 2, 4, 32, 0, 0, 0},
    {"mxfp4a16,a=f16", 1, 1, 2, 4, 32, 0, 0, 0},
    {"w=e2m1,scale=channel", 0, 0, 2, 0, 0, 0, 0, 0},
    {"w=e4m3,scale=channel", 0, 0, 3, 0, 0, 0, 0, 0},
    {"fp8block,a=bf16,stype=f32", 0, 0, 3, 1, 128, 0, 0, 0},
    {"w4a8", 2, 0, 0, 1, 128, 0, 1, 128},
    {"w4a8,c=f16,group=64", 2, 1, 0, 2, 64, 0, 1, 64},
    {"w4a8,a=e5m2,stype=f32,group=32", 3, 0, 0, 3, 32, 0, 1, 32},
    {"w4a8,act=128", 2, 0, 0, 1, 128, 0, 2, 128},
    {"w4a8,acc=precise", 2, 0, 0, 1, 128, 0, 1, 128},
    {"w4a8,scale=channel", 2, 0, 0, 0, 0, 0, 1, 0},
    {"w4a8,scale=channel,act=tensor", 2, 0, 0, 0, 0, 0, 1, 0},
    {"w4a8,scale=channel,acc=precise", 2, 0, 0, 0, 0, 0, 1, 512},
    {"w4a8,scale=channel,act=128,actlayout=m", 2, 0, 0, 0, 0, 0, 2, 128},
    {"w4a8,group=32,stype=e8m0", 2, 0, 0, 4, 32, 0, 1, 32},
    {"w4a8,block=128x128", 2, 0, 0, 3, 128, 0, 1, 128},
    {"w8a8", 2, 0, 3, 0, 0, 0, 1, 0},
    {"w8a8,scale=tensor,stype=f32,act=tensor", 2, 0, 3, 0, 0, 0, 1, 0},
    {"w8a8,a=e5m2,c=f16", 3, 1, 3, 0, 0, 0, 1, 0},
    {"fp8block", 2, 0, 3, 3, 128, 0, 2, 128},
    {"fp8block,act=token,stype=f32", 2, 0, 3, 3, 128, 0, 1, 128},
    {"w=e4m3,a=e4m3,group=32,stype=e8m0", 2, 0, 3, 4, 32, 0, 1, 32},
    {"mxfp4a8", 2, 0, 2, 5, 32, 0, 1, 0},
    {"mxfp4a8,mx=exact", 2, 0, 2, 4, 32, 0, 1, 32},
    {"mxfp4a8,acc=precise", 2, 0, 2, 5, 32, 0, 1, 512},
    {"w4a8,w=e2m1", 2, 0, 2, 1, 128, 0, 1, 128},
    {"w4a8i", 4, 0, 0, 0, 0, 0, 1, 0},
    {"w4a8i,group=128", 4, 0, 0, 1, 128, 0, 1, 128},
    {"w8a8i,c=f16", 4, 1, 1, 0, 0, 0, 1, 0},
    {"w8a8i,act=128", 4, 0, 1, 0, 0, 0, 2, 128},
    {"w8a8i,block=128x128,act=128", 4, 0, 1, 3, 128, 0, 2, 128},
};

#define N_FORMATS (sizeof(formats) / sizeof(formats[0]))

static bool
is_format(const struct hm_config *config, const struct format *format)
{
	bool packs = config->family == HM_FAMILY_PACK;
	bool promotes = config->family == HM_FAMILY_WGMMA;

	return config->act == format->act &&
	       config->out == (packs ? 0 : format->out) &&
	       config->weight == format->weight &&
	       config->scale == format->scale &&
	       config->group == format->group && config->zero == format->zero &&
	       config->act_scale == (packs ? 0 : format->act_scale) &&
	       config->promote == (promotes ? format->promote : 0);
}

static void
test_plan__a_request_becomes_a_format(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_FORMATS * N_SHAPES; i++) {
		const struct format *format = &formats[i / N_SHAPES];
		struct hm_request request = request_of(format->spec, "sm_90a");
		struct hm_plan plan;
		char text[HM_EMIT_CONFIG_BYTES];

		request.n = shapes[i % N_SHAPES][0];
		request.k = k_of(format->spec, shapes[i % N_SHAPES][1]);
		plan = plan_of(&request);
		expect_whole(&plan, &request, 132);
		for (uint32_t r = 0; r < plan.n_rows; r++) {
			if (!is_format(&plan.rows[r].config, format) ||
			    hm_emit_config(&plan.rows[r].config, text,
				sizeof(text)) != HM_OK)
				fail_msg("%s: another format", format->spec);
		}
		request.operation = HM_OPERATION_PACK;
		plan = plan_of(&request);
		assert_int_equal(plan.n_rows, 1);
		if (!is_format(&plan.rows[0].config, format) ||
		    hm_emit_config(&plan.rows[0].config, text, sizeof(text)) !=
			HM_OK)
			fail_msg("pack,%s: another format", format->spec);
	}
}

static void
test_plan__quant_is_one_kernel_for_all_sizes(void **state)
{
	static const struct {
		const char *spec;
		uint32_t act, out, act_scale, epi;
	} quants[] = {
	    {"quant,a=e4m3", 2, 0, 1, 0},
	    {"quant,a=e5m2,c=f16,act=128", 3, 1, 2, 0},
	    {"quant,a=s8,epi=silu-mul", 4, 0, 1, 1},
	};

	(void)state;
	for (size_t i = 0; i < 3 * N_SHAPES; i++) {
		struct hm_request request =
		    request_of(quants[i / N_SHAPES].spec, "sm_90a");
		const struct hm_config *config;
		struct hm_plan plan;
		char text[HM_EMIT_CONFIG_BYTES];

		request.k = shapes[i % N_SHAPES][1] % 65536;
		if (request.k == 0)
			continue;
		plan = plan_of(&request);
		expect_whole(&plan, &request, 132);
		assert_int_equal(plan.n_rows, 1);
		config = &plan.rows[0].config;
		assert_int_equal(config->family, HM_FAMILY_QUANT);
		assert_int_equal(config->act, quants[i / N_SHAPES].act);
		assert_int_equal(config->out, quants[i / N_SHAPES].out);
		assert_int_equal(config->act_scale,
		    quants[i / N_SHAPES].act_scale);
		assert_int_equal(config->epi, quants[i / N_SHAPES].epi);
		assert_int_equal(hm_emit_config(config, text, sizeof(text)),
		    HM_OK);
	}
	/* int8 needs no conversion that older devices lack. */
	for (size_t t = 0; t < N_TARGETS; t++) {
		struct hm_request request =
		    request_of("quant,a=s8", targets[t]);

		assert_int_equal(plan_of(&request).n_rows, 1);
	}
}

/* Adds what is new; returns how many there are. */
static size_t
collect(struct hm_config *configs, size_t n, const struct hm_plan *plan)
{
	for (uint32_t i = 0; i < plan->n_rows; i++) {
		if (among(&plan->rows[i].config, configs, n))
			continue;
		assert_true(n < MAX_CONFIGS);
		configs[n++] = plan->rows[i].config;
	}
	return n;
}

/* All shapes and all usual SM counts of a target, one weight format. */
static size_t
count_kernels(const char *spec, const char *target)
{
	struct hm_config configs[MAX_CONFIGS];
	struct hm_request request = request_of(spec, target);
	uint32_t sms[16];
	size_t n_sms = hm_plan_sms_list(&request.target, sms, 16);
	size_t n = 0;

	for (size_t i = 0; i < n_sms * N_SHAPES; i++) {
		struct hm_plan plan;

		request.n = shapes[i % N_SHAPES][0];
		request.k = k_of(spec, shapes[i % N_SHAPES][1]);
		request.sms = sms[i / N_SHAPES];
		plan = plan_of(&request);
		n = collect(configs, n, &plan);
	}
	return n;
}

static void
test_plan__a_weight_format_needs_few_kernels_in_all(void **state)
{
	static const char *const specs[] = {"w4a16", "w4a16,scale=channel",
	    "w4a16,a=f16,group=64,zp=int", "w4a16,group=32,zp=float"};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		assert_in_range(count_kernels(specs[i], "sm_80"), 2, 4);
		assert_in_range(count_kernels(specs[i], "sm_120a"), 2, 4);
	}
	/* One of 16 is the quantization of the activations. */
	for (size_t i = 0; i < N_FORMATS; i++)
		assert_in_range(count_kernels(formats[i].spec, "sm_90a"), 2,
		    15);
}

struct measured {
	const char *spec;
	uint32_t n, k, m;
	uint32_t family;
	uint32_t first, second; /* S: ring, warps; H: tokens, slices */
	uint32_t cluster;
};

/* prototypes/configs.txt, KERNELS_MEASURED.md sections 3, 4 and 7, and what was
 * measured of these kernels since. */
static void
test_plan__measured_shapes_get_the_measured_members(void **state)
{
	static const struct measured rows[] = {
	    {"w4a16", 8192, 8192, 1, HM_FAMILY_STREAM, 3, 8, 1},
	    {"w4a16", 8192, 8192, 2, HM_FAMILY_STREAM, 3, 8, 1},
	    {"w4a16", 8192, 8192, 4, HM_FAMILY_STREAM, 3, 8, 1},
	    {"w4a16", 8192, 8192, 8, HM_FAMILY_STREAM, 2, 8, 1},
	    {"w4a16", 8192, 8192, 13, HM_FAMILY_WGMMA, 16, 1, 2},
	    {"w4a16", 8192, 8192, 16, HM_FAMILY_WGMMA, 16, 1, 2},
	    {"w4a16", 8192, 8192, 32, HM_FAMILY_WGMMA, 32, 1, 2},
	    {"w4a16", 8192, 8192, 64, HM_FAMILY_WGMMA, 64, 1, 2},
	    {"w4a16", 8192, 8192, 96, HM_FAMILY_WGMMA, 96, 1, 2},
	    {"w4a16", 8192, 8192, 128, HM_FAMILY_WGMMA, 128, 1, 2},
	    {"w4a16", 8192, 8192, 256, HM_FAMILY_WGMMA, 256, 1, 2},
	    {"w4a16", 8192, 8192, 1024, HM_FAMILY_WGMMA, 256, 1, 1},
	    {"w4a16", 8192, 8192, 2048, HM_FAMILY_WGMMA, 256, 1, 1},
	    {"w4a16", 8192, 8192, 4096, HM_FAMILY_WGMMA, 256, 1, 1},
	    {"w4a16", 8192, 8192, 8192, HM_FAMILY_WGMMA, 256, 1, 1},
	    {"w4a16", 4096, 8192, 1, HM_FAMILY_STREAM, 2, 16, 1},
	    {"w4a16", 4096, 8192, 4, HM_FAMILY_STREAM, 2, 16, 1},
	    {"w4a16", 4096, 8192, 8, HM_FAMILY_STREAM, 2, 8, 2},
	    {"w4a16", 32768, 1024, 1, HM_FAMILY_STREAM, 2, 8, 1},
	    {"w4a16", 32768, 1024, 8, HM_FAMILY_STREAM, 2, 8, 1},
	    {"w4a16", 1024, 4096, 1, HM_FAMILY_STREAM, 2, 8, 4},
	    {"w4a16", 1024, 4096, 8, HM_FAMILY_STREAM, 2, 8, 4},
	    {"w4a8i", 8192, 8192, 1, HM_FAMILY_STREAM, 3, 8, 1},
	    {"w4a8i", 8192, 8192, 64, HM_FAMILY_WGMMA, 64, 1, 2},
	    {"w4a8i", 8192, 8192, 1024, HM_FAMILY_WGMMA, 256, 1, 1},
	    {"w8a8", 8192, 8192, 1, HM_FAMILY_STREAM, 3, 8, 1},
	    {"w8a8", 8192, 8192, 16, HM_FAMILY_WGMMA, 16, 1, 2},
	    {"w8a8", 8192, 8192, 256, HM_FAMILY_WGMMA, 256, 1, 2},
	    {"w8a8i", 8192, 8192, 1024, HM_FAMILY_WGMMA, 256, 1, 1},
	    {"w4a8", 8192, 8192, 128, HM_FAMILY_WGMMA, 128, 1, 2},
	    {"w4a8", 8192, 8192, 8192, HM_FAMILY_WGMMA, 192, 1, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct measured *want = &rows[i];
		struct hm_request request = request_of(want->spec, "sm_90a");
		struct hm_plan plan;
		const struct hm_plan_row *row;
		bool stream = want->family == HM_FAMILY_STREAM;

		request.n = want->n;
		request.k = want->k;
		plan = plan_of(&request);
		row = hm_plan_find(&plan, want->m);
		if (row->config.family != want->family ||
		    row->cluster != want->cluster ||
		    (stream ? row->config.ring : row->config.tile_tokens) !=
			want->first ||
		    (stream ? row->config.warps : row->config.slices) !=
			want->second)
			fail_msg("%s: other member for m=%u n=%u k=%u",
			    want->spec, want->m, want->n, want->k);
	}
}

static void
test_plan__launch_arguments_are_the_measured_ones(void **state)
{
	struct hm_request request = request_of("w4a16", "sm_90a");
	struct hm_plan plan = plan_of(&request); /* n = k = 8192 */
	static const uint32_t prefetch[][2] = {{16, 4}, {32, 4}, {64, 1},
	    {96, 1}, {128, 1}, {256, 4}, {4096, 4}};

	(void)state;
	for (size_t i = 0; i < 7; i++)
		assert_int_equal(hm_plan_find(&plan, prefetch[i][0])->prefetch,
		    prefetch[i][1]);
	assert_int_equal(hm_plan_find(&plan, 1)->weight_policy, 1);
	assert_int_equal(hm_plan_find(&plan, 64)->weight_policy, 1);
	assert_int_equal(hm_plan_find(&plan, 256)->weight_policy, 0);
	assert_int_equal(hm_plan_find(&plan, 1024)->band, 64);
	assert_int_equal(hm_plan_find(&plan, 4096)->band, 16);
	assert_int_equal(hm_plan_find(&plan, 8192)->band, 16);
}

static void
test_plan__pack_is_one_kernel_for_all_sizes(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_TARGETS * N_SHAPES; i++) {
		struct hm_request request = request_of(
		    "pack,w4a16,a=f16,group=64,zp=int", targets[i / N_SHAPES]);
		struct hm_plan plan;
		struct hm_launch launch;

		request.n = shapes[i % N_SHAPES][0];
		request.k = shapes[i % N_SHAPES][1];
		plan = plan_of(&request);
		expect_whole(&plan, &request, 132);
		assert_int_equal(plan.n_rows, 1);
		assert_int_equal(plan.rows[0].config.family, HM_FAMILY_PACK);
		assert_int_equal(plan.rows[0].config.act, HM_CONFIG_ACT_F16);
		assert_int_equal(plan.rows[0].config.group, 64);
		assert_int_equal(plan.rows[0].config.zero, HM_CONFIG_ZERO_INT);
		assert_int_equal(hm_launch_compute(&plan.rows[0], 1, request.n,
				     request.k, 132, &launch),
		    HM_OK);
		assert_int_equal(launch.grid_x, (request.n + 63) / 64);
		assert_in_range(launch.grid_y, 1, 8);
		assert_int_equal(launch.smem_bytes, 0);
	}
}

/* Clusters that wait for each other cost a second wave (23 us for 12.5). */
static void
test_plan__clusters_of_kernel_h_all_run_at_once(void **state)
{
	struct hm_request request = request_of("w4a16", "sm_90a");
	uint32_t n_fours = 0;

	(void)state;
	for (size_t i = 0; i < N_SHAPES; i++) {
		struct hm_plan plan;

		request.n = shapes[i][0];
		request.k = shapes[i][1];
		plan = plan_of(&request);
		for (uint32_t r = 0; r < plan.n_rows; r++) {
			struct hm_plan_row *row = &plan.rows[r];
			struct hm_launch launch;

			assert_true(row->cluster == 1 || row->cluster == 2 ||
				    row->cluster == 4);
			if (row->cluster == 1 || row->m_hi == UINT32_MAX)
				continue;
			assert_int_equal(hm_launch_compute(row, row->m_hi,
					     request.n, request.k, 132,
					     &launch),
			    HM_OK);
			n_fours += row->cluster == 4;
			assert_true(launch.grid_x / row->cluster <=
				    (row->cluster == 4 ? 30u : 66u));
		}
	}
	assert_true(n_fours > 0);
}

static void
test_plan__deterministic_tables_sum_in_one_order(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_TARGETS * N_SHAPES; i++) {
		struct hm_request request =
		    request_of("w4a16,det=1", targets[i / N_SHAPES]);
		struct hm_plan plan;

		request.n = shapes[i % N_SHAPES][0];
		request.k = shapes[i % N_SHAPES][1];
		plan = plan_of(&request);
		expect_whole(&plan, &request,
		    hm_plan_usual_sms(&request.target));
		for (uint32_t r = 0; r < plan.n_rows; r++) {
			assert_int_equal(plan.rows[r].cluster, 1);
			assert_int_equal(plan.rows[r].split_tail, 0);
			/* Two sets of warpgroups have two sums. */
			assert_true(plan.rows[r].config.threads <= 384);
			assert_int_not_equal(plan.rows[r].config.family,
			    HM_FAMILY_STREAM);
			assert_true(plan.rows[r].config.warps_k <= 1);
		}
	}
}

static void
test_plan__bias_and_m_change_nothing(void **state)
{
	struct hm_request request =
	    request_of("w4a16,n=5120,k=25600", "sm_90a");
	struct hm_plan plan = plan_of(&request), other;

	(void)state;
	request.bias = 1;
	request.m = 777;
	other = plan_of(&request);
	assert_memory_equal(&other, &plan, sizeof(plan));
	request.sms = 132;
	other = plan_of(&request);
	assert_memory_equal(&other, &plan, sizeof(plan));
	request.sms = 78;
	other = plan_of(&request);
	assert_memory_not_equal(&other, &plan, sizeof(plan));
}

static void
test_plan__unknown_sizes_stand_for_8192(void **state)
{
	struct hm_request request = request_of("w4a16", "sm_90a");
	struct hm_plan plan = plan_of(&request), other;

	(void)state;
	request.n = request.k = 8192;
	other = plan_of(&request);
	assert_memory_equal(&other, &plan, sizeof(plan));
}

/* Lists hold a configuration once, and each can be built. */
static size_t
list_of(const struct hm_target *target, struct hm_config *all)
{
	size_t n = hm_plan_all_configs(target, all, MAX_CONFIGS);
	char text[HM_EMIT_CONFIG_BYTES];

	assert_in_range(n, 20, MAX_CONFIGS);
	assert_int_equal(hm_plan_all_configs(target, NULL, 0), n);
	for (size_t i = 0; i < n; i++) {
		assert_false(among(&all[i], all, i));
		assert_int_equal(hm_emit_config(&all[i], text, sizeof(text)),
		    HM_OK);
	}
	return n;
}

static void
expect_all_listed(struct hm_request request, const struct hm_config *all,
    size_t n)
{
	for (size_t i = 0; i < N_SHAPES; i++) {
		struct hm_plan plan;

		request.n = shapes[i][0];
		request.k = (shapes[i][1] + 15) / 16 * 16;
		if (request.a_type == HM_TYPE_SINT(8) && request.k > 65536)
			request.k = 65536;
		plan = plan_of(&request);
		for (uint32_t r = 0; r < plan.n_rows; r++)
			assert_true(among(&plan.rows[r].config, all, n));
	}
}

static void
test_plan__lists_hold_every_choice_of_the_main_formats(void **state)
{
	static const char *const everywhere[] = {"w4a16",
	    "w4a16,group=32,zp=float", "w4a16,a=f16,zp=int",
	    "w4a16,scale=channel", "w4a16,a=f16", "w4a16,a=f16,det=1",
	    "pack,w4a16,group=32"};
	static const char *const hopper[] = {"w8a16", "mxfp4a16", "w4a8",
	    "w4a8,scale=channel", "w4a8,w=e2m1,scale=channel", "w4a8i", "w8a8",
	    "w8a8i", "mxfp4a8", "fp8block", "pack,fp8block", "pack,mxfp4a8",
	    "quant,a=e4m3", "quant,a=e5m2,act=128,c=f16,epi=silu-mul"};
	static struct hm_config all[MAX_CONFIGS];

	(void)state;
	for (size_t t = 0; t < N_TARGETS; t++) {
		struct hm_target target;
		size_t n;

		assert_int_equal(hm_target_parse(targets[t], &target, NULL),
		    HM_OK);
		n = list_of(&target, all);
		for (size_t i = 0; i < 7; i++)
			expect_all_listed(request_of(everywhere[i], targets[t]),
			    all, n);
		for (size_t i = 0; i < 14 && strcmp(targets[t], "sm_90a") == 0;
		     i++)
			expect_all_listed(request_of(hopper[i], targets[t]),
			    all, n);
	}
}

/* Of every format at least a member of each kernel is compiled. */
static void
test_plan__lists_hold_a_member_of_every_kind(void **state)
{
	static struct hm_config all[MAX_CONFIGS];
	struct hm_target target = {.cc = 90, .suffix = 'a'};
	size_t n = list_of(&target, all);
	uint32_t seen[6][5][4][6] = {0}; /* family, act, weight, scale */

	(void)state;
	for (size_t i = 0; i < n; i++)
		seen[all[i].family][all[i].act][all[i].weight][all[i].scale]++;
	for (size_t i = 0; i < N_FORMATS; i++) {
		const struct format *format = &formats[i];
		uint32_t act = format->act;

		/* Scale types are paired with one of the fp8 types. */
		if (act == HM_CONFIG_ACT_E4M3 || act == HM_CONFIG_ACT_E5M2)
			act = seen[HM_FAMILY_WGMMA][HM_CONFIG_ACT_E4M3]
				  [format->weight][format->scale] != 0
				  ? HM_CONFIG_ACT_E4M3
				  : HM_CONFIG_ACT_E5M2;
		for (uint32_t family = HM_FAMILY_STREAM;
		     family <= HM_FAMILY_PACK; family++) {
			if (family == HM_FAMILY_MMA)
				continue;
			if (seen[family][act][format->weight][format->scale] ==
			    0)
				fail_msg("%s: family %u is not listed",
				    format->spec, family);
		}
	}
}

static void
test_plan__hopper_kernels_are_for_sm90a_alone(void **state)
{
	(void)state;
	for (size_t t = 0; t < N_TARGETS; t++) {
		struct hm_request request = request_of("w4a16", targets[t]);
		struct hm_plan plan = plan_of(&request);
		bool hopper = strcmp(targets[t], "sm_90a") == 0;

		for (uint32_t r = 0; r < plan.n_rows; r++)
			assert_true((plan.rows[r].config.family !=
					HM_FAMILY_MMA) == hopper);
	}
}

static void
test_plan__long_sums_of_integers_need_scales_along_k(void **state)
{
	static const char *const specs[] = {"w4a8i,k=131056", "w8a8i,k=131056",
	    "w4a8i,group=128,k=262144", "w8a8i,act=128,k=262144",
	    "w8a8,k=262144", "pack,w8a8i,k=262144"};

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		struct hm_request request = request_of(specs[i], "sm_90a");

		assert_true(plan_of(&request).n_rows > 0);
	}
}

struct refusal {
	const char *spec, *target;
	int error;
	const char *says;
};

static const struct refusal refusals[] = {
    {"moe-indexed,w4a16", "sm_90a", HM_E_UNSUPPORTED, "moe-indexed"},
    {"moe-grouped,mxfp4a8", "sm_90a", HM_E_UNSUPPORTED, "moe-grouped"},
    {"moe-masked,w4a16", "sm_80", HM_E_UNSUPPORTED, "moe-masked"},
    {"quant,a=e4m3", "sm_80", HM_E_UNSUPPORTED,
	"quant to a=e4m3 on sm_80: this build has kernels for sm_89"},
    {"quant,a=s4", "sm_90a", HM_E_UNSUPPORTED, "quant to a=s4"},
    {"quant,a=s8,act=tensor", "sm_90a", HM_E_UNSUPPORTED, "act=tensor"},
    {"quant,a=s8,act=64", "sm_90a", HM_E_UNSUPPORTED, "act=64"},
    {"quant,a=s8,epi=swiglu-oai", "sm_90a", HM_E_UNSUPPORTED, "epi=swiglu-oai"},
    {"quant,a=s8,k=12", "sm_90a", HM_E_UNSUPPORTED, "k=12"},
    {"align", "sm_80", HM_E_UNSUPPORTED, "align"},
    {"combine", "sm_80", HM_E_UNSUPPORTED, "combine"},
    {"w8a16", "sm_80", HM_E_UNSUPPORTED,
	"w=u8 on sm_80: this build has kernels for sm_90a only"},
    {"w4a16,w=e2m1", "sm_120a", HM_E_UNSUPPORTED, "w=e2m1 on sm_120a"},
    {"w4a16,group=32,stype=e8m0", "sm_90", HM_E_UNSUPPORTED,
	"stype=e8m0 on sm_90:"},
    {"w4a8", "sm_89", HM_E_UNSUPPORTED, "a=e4m3 on sm_89"},
    {"pack,w8a8i", "sm_80", HM_E_UNSUPPORTED, "a=s8 on sm_80"},
    {"w4a4", "sm_90a", HM_E_UNSUPPORTED, "a=s4"},
    {"nvfp4a4", "sm_90a", HM_E_UNSUPPORTED, "a=e2m1"},
    {"w4a16,w=u5", "sm_90a", HM_E_UNSUPPORTED, "w=u5"},
    {"w8a8,w=e5m2", "sm_90a", HM_E_UNSUPPORTED, "w=e5m2"},
    {"w4a8,w=u5", "sm_90a", HM_E_UNSUPPORTED, "w=u5"},
    {"w4a8i,w=e2m1", "sm_90a", HM_E_UNSUPPORTED, "a=s8 with w=e2m1"},
    {"mxfp4a8,a=s8", "sm_90a", HM_E_UNSUPPORTED, "a=s8 with w=e2m1"},
    {"w4a8i,group=32,stype=e8m0", "sm_90a", HM_E_UNSUPPORTED,
	"stype=e8m0 with a=s8"},
    {"mxfp4a8,group=64", "sm_90a", HM_E_UNSUPPORTED, "group=32"},
    {"mxfp4a16,scale=channel", "sm_90a", HM_E_UNSUPPORTED, "group=32"},
    {"w8a8,block=64x64", "sm_90a", HM_E_UNSUPPORTED, "block=64x64"},
    {"w4a8,group=256", "sm_90a", HM_E_UNSUPPORTED, "group=256"},
    {"w4a8,stype=e4m3", "sm_90a", HM_E_UNSUPPORTED, "stype=e4m3"},
    {"w4a8i,group=64,stype=s8", "sm_90a", HM_E_UNSUPPORTED, "stype=s8"},
    {"w4a8,zp=int", "sm_90a", HM_E_UNSUPPORTED, "zp=int"},
    {"w8a16,group=64,zp=float", "sm_90a", HM_E_UNSUPPORTED, "zp=float"},
    {"w4a16,group=32,stype=e8m0,zp=int", "sm_90a", HM_E_UNSUPPORTED, "zp=int"},
    {"w4a16,block=128x128,zp=int", "sm_90a", HM_E_UNSUPPORTED,
	"zp with a block"},
    {"w4a8,act=64", "sm_90a", HM_E_UNSUPPORTED, "act=64"},
    {"w4a8,group=64,act=128", "sm_90a", HM_E_UNSUPPORTED,
	"act=128 with group=64"},
    {"mxfp4a8,act=128", "sm_90a", HM_E_UNSUPPORTED, "act=128 with group=32"},
    {"w4a8,acc=f16", "sm_90a", HM_E_UNSUPPORTED, "acc=f16"},
    {"w4a8i,k=131072", "sm_90a", HM_E_UNSUPPORTED,
	"k=131072 with a=s8 and no scales along k"},
    {"w8a8i,k=131088", "sm_90a", HM_E_UNSUPPORTED, "32 bits"},
    {"w8a8,k=8200", "sm_90a", HM_E_UNSUPPORTED,
	"k=8200: this build has kernels for multiples of 16"},
    {"w4a16,c=f16", "sm_90a", HM_E_UNSUPPORTED, "c=f16"},
    {"w4a16,group=256", "sm_90a", HM_E_UNSUPPORTED, "group=256"},
    {"w4a16,group=16", "sm_90a", HM_E_UNSUPPORTED, "group=16"},
    {"w4a16,stype=f16", "sm_90a", HM_E_UNSUPPORTED, "stype=f16"},
    {"w4a16,scale=channel,stype=e4m3", "sm_90a", HM_E_UNSUPPORTED,
	"stype=e4m3"},
    {"w4a16,scale=channel,zp=int", "sm_90a", HM_E_UNSUPPORTED, "zp"},
    {"w4a16,tensor=1", "sm_90a", HM_E_UNSUPPORTED, "tensor=1"},
    {"w4a16,epi=silu-mul", "sm_90a", HM_E_UNSUPPORTED, "epi"},
    {"w4a16,a=f16,acc=f16", "sm_90a", HM_E_UNSUPPORTED, "acc=f16"},
    {"w4a16,n=100", "sm_90a", HM_E_UNSUPPORTED, "n=100"},
    {"w4a16,k=4100", "sm_90a", HM_E_UNSUPPORTED, "k=4100"},
    {"w4a16", "sm_75", HM_E_UNSUPPORTED, "sm_80 or newer"},
    {"w4a16", "sm_61", HM_E_UNSUPPORTED, "sm_80 or newer"},
    {"w4a16", "sm_99", HM_E_UNSUPPORTED,
	"sm_99: this build has kernels for sm_80 "},
    {"w4a16", "sm_88", HM_E_UNSUPPORTED, "sm_88: this build has"},
    {"w4a16", "sm_90f", HM_E_UNSUPPORTED, "sm_90f: this build has"},
    {"w4a16", "sm_80a", HM_E_UNSUPPORTED, "sm_80a: this build has"},
    {"w4a16", "sm_999", HM_E_UNSUPPORTED, "sm_90[a]"},
};

static void
test_plan__what_is_not_built_is_refused_in_one_line(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct hm_request request =
		    request_of(refusals[i].spec, refusals[i].target);
		struct hm_plan plan;
		struct hm_errbuf errbuf = {""};

		plan.n_rows = 12345;
		assert_int_equal(hm_plan_compute(&request, &plan, &errbuf),
		    refusals[i].error);
		assert_int_equal(plan.n_rows, 12345);
		if (strstr(errbuf.text, refusals[i].says) == NULL ||
		    strchr(errbuf.text, '\n') != NULL)
			fail_msg("%s on %s says: %s", refusals[i].spec,
			    refusals[i].target, errbuf.text);
	}
}

static void
test_plan__illegal_requests_are_invalid(void **state)
{
	struct hm_request request = request_of("w4a16", "sm_90a");
	struct hm_request bad = request;
	struct hm_plan plan;
	struct hm_errbuf errbuf = {""};

	(void)state;
	bad.target.cc = 0;
	assert_int_equal(hm_plan_compute(&bad, &plan, &errbuf), HM_E_INVALID);
	assert_non_null(strstr(errbuf.text, "architecture"));
	bad = request;
	bad.a_type = HM_TYPE_E4M3;
	bad.w_type = HM_TYPE_UINT(6);
	assert_int_equal(hm_plan_compute(&bad, &plan, &errbuf), HM_E_INVALID);
	assert_non_null(strstr(errbuf.text, "w=u6"));
	bad = request;
	bad.operation = 99;
	assert_int_equal(hm_plan_compute(&bad, &plan, NULL), HM_E_INVALID);
	bad = request;
	bad.n = UINT32_MAX - 7;
	assert_int_equal(hm_plan_compute(&bad, &plan, NULL), HM_E_INVALID);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_plan__tables_are_whole_for_all_shapes_targets_and_sms),
	    cmocka_unit_test(test_plan__rows_fit_with_every_weight_format),
	    cmocka_unit_test(test_plan__a_request_becomes_a_format),
	    cmocka_unit_test(test_plan__pack_is_one_kernel_for_all_sizes),
	    cmocka_unit_test(test_plan__quant_is_one_kernel_for_all_sizes),
	    cmocka_unit_test(
		test_plan__a_weight_format_needs_few_kernels_in_all),
	    cmocka_unit_test(
		test_plan__measured_shapes_get_the_measured_members),
	    cmocka_unit_test(test_plan__launch_arguments_are_the_measured_ones),
	    cmocka_unit_test(test_plan__clusters_of_kernel_h_all_run_at_once),
	    cmocka_unit_test(test_plan__deterministic_tables_sum_in_one_order),
	    cmocka_unit_test(test_plan__bias_and_m_change_nothing),
	    cmocka_unit_test(test_plan__unknown_sizes_stand_for_8192),
	    cmocka_unit_test(
		test_plan__lists_hold_every_choice_of_the_main_formats),
	    cmocka_unit_test(test_plan__lists_hold_a_member_of_every_kind),
	    cmocka_unit_test(test_plan__hopper_kernels_are_for_sm90a_alone),
	    cmocka_unit_test(
		test_plan__long_sums_of_integers_need_scales_along_k),
	    cmocka_unit_test(
		test_plan__what_is_not_built_is_refused_in_one_line),
	    cmocka_unit_test(test_plan__illegal_requests_are_invalid),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
