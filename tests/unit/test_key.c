/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_key.c - what changes a key and what never does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jit/emit.h"
#include "jit/key.h"
#include "jit/plan.h"
#include "jit/spec.h"

#define MAX_CONFIGS 1024

static struct hm_target
target_of(const char *text)
{
	struct hm_target target;

	assert_int_equal(hm_target_parse(text, &target, NULL), HM_OK);
	return target;
}

static struct hm_digest
key_of(const struct hm_config *config, const char *target_text)
{
	struct hm_target target = target_of(target_text);
	struct hm_record record;
	struct hm_digest key;

	hm_record_init(&record);
	assert_int_equal(hm_key_own(config, &target, &record, &key), HM_OK);
	hm_record_done(&record);
	return key;
}

static struct hm_config
config_of(const char *spec, const char *target, uint32_t m)
{
	struct hm_request request;
	struct hm_plan plan;

	assert_int_equal(hm_spec_parse(spec, &request, NULL), HM_OK);
	request.target = target_of(target);
	assert_int_equal(hm_plan_compute(&request, &plan, NULL), HM_OK);
	return hm_plan_find(&plan, m)->config;
}

/* Names of the fields of a record, by space. */
static void
print_names(const struct hm_record *record, char *text, size_t size)
{
	const char *name;
	const void *value;
	size_t offset = 0, n_name, n_value, n = 0;

	while (hm_record_next(record->bytes, record->n_bytes, &offset, &name,
		   &n_name, &value, &n_value) == HM_OK)
		n += (size_t)snprintf(text + n, size - n, "%s%.*s",
		    n > 0 ? "," : "", (int)n_name, name);
}

static void
expect_names(const char *spec, const char *target_text, uint32_t m,
    const char *names)
{
	struct hm_config config = config_of(spec, target_text, m);
	struct hm_target target = target_of(target_text);
	struct hm_record record;
	struct hm_digest key, again;
	char text[1024] = "";

	hm_record_init(&record);
	assert_int_equal(hm_key_own(&config, &target, &record, &key), HM_OK);
	print_names(&record, text, sizeof(text));
	assert_string_equal(text, names);
	hm_digest_compute(record.bytes, record.n_bytes, &again);
	assert_true(hm_digest_equal(&key, &again));
	hm_record_done(&record);
}

/* Golden: a change here makes every kernel of every node be built again. */
static void
test_key__record_has_golden_fields(void **state)
{
	(void)state;
	expect_names("w4a16", "sm_90a", 1,
	    "schema,kind,kernel_abi,pack_layout,target,output,entry,config.h,"
	    "option,option,option,option,source dequant.cuh,"
	    "source epilogue.cuh,source gemm_stream.cu,source layout.cuh,"
	    "source mma.cuh,source pipeline.cuh,source prelude.cuh,"
	    "source ptx.cuh,source scheduler.cuh");
	expect_names("w4a16", "sm_90a", 64,
	    "schema,kind,kernel_abi,pack_layout,target,output,entry,config.h,"
	    "wgmma_shape.h,option,option,option,option,source dequant.cuh,"
	    "source epilogue.cuh,source gemm_wgmma.cu,source layout.cuh,"
	    "source pipeline.cuh,source prelude.cuh,source ptx.cuh,"
	    "source scheduler.cuh,source wgmma_roles.cuh,"
	    "source wgmma_sums.cuh");
	expect_names("w4a16", "sm_80", 64,
	    "schema,kind,kernel_abi,pack_layout,target,output,entry,config.h,"
	    "option,option,option,option,source dequant.cuh,"
	    "source epilogue.cuh,source gemm_mma.cu,source layout.cuh,"
	    "source mma.cuh,source pipeline.cuh,source prelude.cuh,"
	    "source ptx.cuh,source scheduler.cuh");
}

static void
test_key__different_configs_never_share_a_key(void **state)
{
	static const char *const targets[] = {"sm_90a", "sm_80", "sm_120"};
	static struct hm_config configs[MAX_CONFIGS];
	static struct hm_digest keys[3 * MAX_CONFIGS];
	size_t n_keys = 0;

	(void)state;
	for (size_t t = 0; t < 3; t++) {
		struct hm_target target = target_of(targets[t]);
		size_t n = hm_plan_all_configs(&target, configs, MAX_CONFIGS);

		for (size_t i = 0; i < n; i++)
			keys[n_keys++] = key_of(&configs[i], targets[t]);
	}
	for (size_t i = 0; i < n_keys; i++) {
		for (size_t j = 0; j < i; j++)
			assert_false(hm_digest_equal(&keys[i], &keys[j]));
	}
}

/* Every field that a family uses, changed alone. */
static void
expect_field_counts(const struct hm_config *config, const char *target,
    size_t offset, uint32_t value)
{
	struct hm_config other = *config;
	struct hm_digest key = key_of(config, target), other_key;

	memcpy((char *)&other + offset, &value, sizeof(value));
	if (other.family == HM_FAMILY_STREAM)
		other.threads = other.warps * 32;
	if (other.family == HM_FAMILY_MMA)
		other.threads =
		    32 * other.warps_n * other.warps_m * other.warps_k;
	other_key = key_of(&other, target);
	if (hm_digest_equal(&key, &other_key))
		fail_msg("the field at %zu is not in the key", offset);
}

#define FIELD(name) offsetof(struct hm_config, name)

static void
test_key__every_field_of_a_config_counts(void **state)
{
	static const struct {
		const char *spec, *target;
		size_t offset;
		uint32_t m, value;
	} changes[] = {
	    {"w8a8", "sm_90a", FIELD(act), 1, HM_CONFIG_ACT_E5M2},
	    {"w8a8", "sm_90a", FIELD(out), 1, HM_CONFIG_ACT_F16},
	    {"w8a8", "sm_90a", FIELD(weight), 1, HM_CONFIG_WEIGHT_E2M1},
	    {"w8a8", "sm_90a", FIELD(act_scale), 1, HM_CONFIG_ACT_SCALE_GROUP},
	    {"w4a16", "sm_90a", FIELD(group), 1, 64},
	    {"w4a16", "sm_90a", FIELD(zero), 1, HM_CONFIG_ZERO_INT},
	    {"w4a16", "sm_90a", FIELD(token_tiles), 1, 2},
	    {"w4a16", "sm_90a", FIELD(ring), 1, 2},
	    {"w4a16", "sm_90a", FIELD(warps), 1, 16},
	    {"w4a16", "sm_90a", FIELD(warps_k), 1, 4},
	    {"w4a16", "sm_90a", FIELD(ctas_per_sm), 1, 2},
	    {"w8a8", "sm_90a", FIELD(act), 96, HM_CONFIG_ACT_E5M2},
	    {"w8a8", "sm_90a", FIELD(out), 96, HM_CONFIG_ACT_F16},
	    {"w8a8", "sm_90a", FIELD(weight), 96, HM_CONFIG_WEIGHT_E2M1},
	    {"w8a8", "sm_90a", FIELD(promote), 96, 512},
	    {"w4a8", "sm_90a", FIELD(scale), 96, HM_CONFIG_SCALE_F16},
	    {"w4a8", "sm_90a", FIELD(act_scale), 96, HM_CONFIG_ACT_SCALE_GROUP},
	    {"w4a16", "sm_90a", FIELD(threads), 96, 640},
	    {"w4a16", "sm_90a", FIELD(group), 96, 64},
	    {"w4a16", "sm_90a", FIELD(zero), 96, HM_CONFIG_ZERO_FLOAT},
	    {"w4a16", "sm_90a", FIELD(tile_tokens), 96, 48},
	    {"w4a16", "sm_90a", FIELD(stages), 96, 4},
	    {"w4a16", "sm_90a", FIELD(slices), 96, 2},
	    {"w4a16", "sm_90a", FIELD(halves), 96, 1},
	    {"w4a16", "sm_90a", FIELD(steps), 96, 2},
	    {"w4a16", "sm_90a", FIELD(split_k), 96, 0},
	    {"w4a16", "sm_80", FIELD(tile_tokens), 64, 32},
	    {"w4a16", "sm_80", FIELD(tile_rows), 64, 64},
	    {"w4a16", "sm_80", FIELD(stages), 64, 3},
	    {"w4a16", "sm_80", FIELD(warps_n), 64, 2},
	    {"w4a16", "sm_80", FIELD(warps_m), 64, 2},
	    {"w4a16", "sm_80", FIELD(warps_k), 64, 2},
	    {"quant,a=e4m3", "sm_90a", FIELD(act), 1, HM_CONFIG_ACT_S8},
	    {"quant,a=e4m3", "sm_90a", FIELD(out), 1, HM_CONFIG_ACT_F16},
	    {"quant,a=e4m3", "sm_90a", FIELD(epi), 1, 1},
	    {"quant,a=e4m3", "sm_90a", FIELD(act_scale), 1,
		HM_CONFIG_ACT_SCALE_GROUP},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct hm_config config =
		    config_of(changes[i].spec, changes[i].target, changes[i].m);

		/* Four steps in a group want both halves: not alone, then. */
		if (changes[i].offset == FIELD(halves))
			config.steps = 2;
		expect_field_counts(&config, changes[i].target,
		    changes[i].offset, changes[i].value);
	}
}

static void
test_key__target_and_its_suffix_count(void **state)
{
	static const char *const targets[] = {"sm_80", "sm_86", "sm_100",
	    "sm_100a", "sm_100f", "sm_120", "sm_120a", "sm_120f"};
	struct hm_config config = config_of("w4a16", "sm_80", 64);
	struct hm_digest keys[8];

	(void)state;
	for (size_t i = 0; i < 8; i++) {
		keys[i] = key_of(&config, targets[i]);
		for (size_t j = 0; j < i; j++)
			assert_false(hm_digest_equal(&keys[i], &keys[j]));
	}
}

/* What is a launch argument is not in the key: models share kernels. */
static void
test_key__sizes_and_sms_never_count(void **state)
{
	static const char *const specs[] = {"w4a16,n=8192,k=8192",
	    "w4a16,n=7168,k=7168,m=5", "w4a16,n=8192,k=8192,sms=114",
	    "w4a16,bias=1", "w4a16,stype=bf16,n=8200,k=8008"};
	struct hm_config config = config_of(specs[0], "sm_90a", 1);
	struct hm_digest key = key_of(&config, "sm_90a");

	(void)state;
	for (size_t i = 1; i < 5; i++) {
		struct hm_config other = config_of(specs[i], "sm_90a", 1);
		struct hm_digest other_key = key_of(&other, "sm_90a");

		assert_true(hm_digest_equal(&key, &other_key));
	}
}

/* A copy of the embedded table with one digest changed. */
static struct hm_digest
key_with_changed_source(const struct hm_config *config, const char *name)
{
	struct hm_source table[HM_SOURCE_MAX_CLOSURE];
	struct hm_target target = target_of("sm_90a");
	struct hm_record record;
	struct hm_digest key;
	size_t n = hm_source_count(), n_changed = 0;

	assert_true(n <= HM_SOURCE_MAX_CLOSURE);
	for (size_t i = 0; i < n; i++) {
		table[i] = *hm_source_at(i);
		if (strcmp(table[i].name, name) == 0) {
			table[i].sha256 = "0000";
			n_changed++;
		}
	}
	assert_int_equal(n_changed, 1);
	hm_record_init(&record);
	assert_int_equal(
	    hm_key_own_from(table, n, config, &target, &record, &key), HM_OK);
	hm_record_done(&record);
	return key;
}

static void
test_key__only_included_sources_count(void **state)
{
	struct hm_config config = config_of("w4a16", "sm_90a", 1);
	struct hm_digest key = key_of(&config, "sm_90a"), other;

	(void)state;
	other = key_with_changed_source(&config, "gemm_wgmma.cu");
	assert_true(hm_digest_equal(&key, &other));
	other = key_with_changed_source(&config, "gemm_mma.cu");
	assert_true(hm_digest_equal(&key, &other));
	other = key_with_changed_source(&config, "gemm_stream.cu");
	assert_false(hm_digest_equal(&key, &other));
	other = key_with_changed_source(&config, "ptx.cuh");
	assert_false(hm_digest_equal(&key, &other));
}

static void
test_key__failures_leave_the_key(void **state)
{
	static const struct hm_source table[] = {
	    {"gemm_stream.cu", "#include \"gone.cuh\"", 19, ""}};
	struct hm_config config = config_of("w4a16", "sm_90a", 1);
	struct hm_target target = target_of("sm_90a");
	struct hm_record record;
	struct hm_digest key;

	(void)state;
	memset(&key, 0x5a, sizeof(key));
	hm_record_init(&record);
	assert_int_equal(
	    hm_key_own_from(table, 1, &config, &target, &record, &key),
	    HM_E_INTERNAL);
	hm_record_done(&record);
	config.ring = 99;
	hm_record_init(&record);
	assert_int_equal(hm_key_own(&config, &target, &record, &key),
	    HM_E_INVALID);
	hm_record_done(&record);
	config.family = 0;
	hm_record_init(&record);
	assert_int_equal(hm_key_own(&config, &target, &record, &key),
	    HM_E_INVALID);
	hm_record_done(&record);
	assert_int_equal(key.bytes[0], 0x5a);
}

static struct hm_digest
client_key(const struct hm_key_source *source)
{
	struct hm_record record;
	struct hm_digest key;

	hm_record_init(&record);
	assert_int_equal(hm_key_client(source, &record, &key), HM_OK);
	hm_record_done(&record);
	return key;
}

static void
test_key__client_sources_count_all_that_decides_the_code(void **state)
{
	static const char *const options[] = {"-DX=1", "-DY=2"};
	static const char *const turned[] = {"-DY=2", "-DX=1"};
	struct hm_key_source base = {"int x;", 6, target_of("sm_80"),
	    "nvrtc 13.0", 2, options};
	struct hm_key_source others[6];
	struct hm_digest key = client_key(&base), other;
	struct hm_record record;
	char names[256] = "";

	(void)state;
	for (size_t i = 0; i < 6; i++)
		others[i] = base;
	others[0].source = "int y;";
	others[1].n_source = 5;
	others[2].target = target_of("sm_90");
	others[3].compiler = "nvrtc 13.1";
	others[4].n_options = 1;
	others[5].options = turned;
	for (size_t i = 0; i < 6; i++) {
		other = client_key(&others[i]);
		assert_false(hm_digest_equal(&key, &other));
	}
	other = client_key(&base);
	assert_true(hm_digest_equal(&key, &other));

	hm_record_init(&record);
	assert_int_equal(hm_key_client(&base, &record, &other), HM_OK);
	print_names(&record, names, sizeof(names));
	hm_record_done(&record);
	assert_string_equal(names,
	    "schema,kind,compiler,target,output,option,option,source");
	base.compiler = NULL;
	hm_record_init(&record);
	assert_int_equal(hm_key_client(&base, &record, &other), HM_E_INVALID);
	hm_record_done(&record);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_key__record_has_golden_fields),
	    cmocka_unit_test(test_key__different_configs_never_share_a_key),
	    cmocka_unit_test(test_key__every_field_of_a_config_counts),
	    cmocka_unit_test(test_key__target_and_its_suffix_count),
	    cmocka_unit_test(test_key__sizes_and_sms_never_count),
	    cmocka_unit_test(test_key__only_included_sources_count),
	    cmocka_unit_test(test_key__failures_leave_the_key),
	    cmocka_unit_test(
		test_key__client_sources_count_all_that_decides_the_code),
	};

	return cmocka_run_group_tests_name("key", tests, NULL, NULL);
}
