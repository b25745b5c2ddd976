/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_kernel_set.c - the rows of `hummingctl plan`: every layer, every M and
 * every usual SM count covered, each kernel once, each request leading back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jit/kernel_set.h"
#include "jit/key.h"
#include "jit/model.h"
#include "jit/plan.h"
#include "jit/spec.h"

static struct hm_digest
key_of(const struct hm_request *request)
{
	struct hm_plan plan;
	struct hm_record record;
	struct hm_digest key;

	assert_int_equal(hm_plan_compute(request, &plan, NULL), HM_OK);
	hm_record_init(&record);
	assert_int_equal(hm_key_own(&hm_plan_find(&plan, request->m)->config,
			     &request->target, &record, &key),
	    HM_OK);
	hm_record_done(&record);
	return key;
}

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

static void
add(struct hm_kernel_set *set, const char *layer, const char *spec,
    const char *target, uint32_t max_m)
{
	struct hm_request request = request_of(spec, target);
	struct hm_errbuf errbuf = {""};

	if (hm_kernel_set_add(set, layer, &request, max_m, &errbuf) != HM_OK)
		fail_msg("%s", errbuf.text);
}

static bool
use_is_found_by_key(const struct hm_kernel_item *item,
    const struct hm_kernel_use *use, uint32_t m)
{
	struct hm_request request = item->request;
	struct hm_digest key;

	request.n = use->n;
	request.k = use->k;
	request.sms = use->sms;
	request.m = m;
	key = key_of(&request);
	return hm_digest_equal(&key, &item->key);
}

/* Each item once; its request, and both ends of its uses, have its key. */
static void
expect_leads_back(const struct hm_kernel_set *set)
{
	for (size_t i = 0; i < set->n_items; i++) {
		const struct hm_kernel_item *item = &set->items[i];
		struct hm_digest key = key_of(&item->request);

		assert_true(hm_digest_equal(&key, &item->key));
		assert_true(item->n_uses > 0);
		assert_true(item->request.m > 0);
		for (size_t j = 0; j < i; j++)
			assert_false(
			    hm_digest_equal(&set->items[j].key, &item->key));
		for (size_t u = 0; u < item->n_uses; u++) {
			const struct hm_kernel_use *use = &item->uses[u];

			assert_true(use_is_found_by_key(item, use, use->m_lo));
			assert_true(use_is_found_by_key(item, use, use->m_hi));
			/* Maximal: what lies before and behind is another. */
			assert_true(use->m_lo == 1 || !use_is_found_by_key(item,
							  use, use->m_lo - 1));
			assert_true(
			    use->m_hi == HM_PLAN_MAX_M ||
			    !use_is_found_by_key(item, use, use->m_hi + 1));
		}
	}
}

/* How often the uses of a layer with this SM count hold an M. */
static uint32_t
count_uses(const struct hm_kernel_set *set, const char *layer, uint32_t sms,
    uint32_t m)
{
	uint32_t n = 0;

	for (size_t i = 0; i < set->n_items; i++) {
		for (size_t u = 0; u < set->items[i].n_uses; u++) {
			const struct hm_kernel_use *use =
			    &set->items[i].uses[u];

			n += strcmp(use->layer, layer) == 0 &&
			     use->sms == sms && use->m_lo <= m &&
			     m <= use->m_hi;
		}
	}
	return n;
}

static bool
has_key(const struct hm_kernel_set *set, const struct hm_digest *key)
{
	for (size_t i = 0; i < set->n_items; i++) {
		if (hm_digest_equal(&set->items[i].key, key))
			return true;
	}
	return false;
}

/* Whatever a device with a usual SM count asks for is in the set. */
static void
expect_serves(const struct hm_kernel_set *set, struct hm_request request)
{
	uint32_t sms[16];
	size_t n = hm_plan_sms_list(&request.target, sms, 16);

	for (size_t i = 0; i < n; i++) {
		struct hm_plan plan;

		request.sms = sms[i];
		assert_int_equal(hm_plan_compute(&request, &plan, NULL), HM_OK);
		for (uint32_t r = 0; r < plan.n_rows; r++) {
			struct hm_digest key;

			request.m = plan.rows[r].m_lo;
			key = key_of(&request);
			assert_true(has_key(set, &key));
		}
	}
}

static size_t
count_family(const struct hm_kernel_set *set, uint32_t family)
{
	size_t n = 0;

	for (size_t i = 0; i < set->n_items; i++)
		n += set->items[i].config.family == family;
	return n;
}

/* Those that quantize share a name: each M has a use for every width. */
static uint32_t
count_widths(const struct hm_model *model, const char *name)
{
	uint32_t n = 0;

	for (size_t i = 0; i < model->n_layers; i++)
		n += strcmp(model->layers[i].name, name) == 0;
	return n;
}

/* What the usual count needs is asked for without a count. */
static void
expect_usual_first(const struct hm_kernel_set *set, uint32_t sms)
{
	for (size_t i = 0; i < set->n_items; i++) {
		const struct hm_kernel_item *item = &set->items[i];
		bool usual = false;

		for (size_t u = 0; u < item->n_uses; u++)
			usual |= item->uses[u].sms == sms;
		assert_int_equal(item->request.sms == 0, usual);
	}
}

static void
expect_model(const char *path, const char *quant, uint32_t tp,
    const char *target)
{
	struct hm_model_options options = {tp, 1, quant};
	struct hm_model model;
	struct hm_kernel_set set;
	struct hm_errbuf errbuf = {""};
	uint32_t sms = 0;

	hm_kernel_set_init(&set);
	if (hm_model_load(path, &options, &model, &errbuf) != HM_OK)
		fail_msg("%s", errbuf.text);
	for (size_t i = 0; i < model.n_layers; i++) {
		struct hm_request *request = &model.layers[i].request;

		assert_int_equal(
		    hm_target_parse(target, &request->target, NULL), HM_OK);
		sms = hm_plan_usual_sms(&request->target);
		assert_int_equal(hm_kernel_set_add(&set, model.layers[i].name,
				     request, 0, &errbuf),
		    HM_OK);
	}
	assert_in_range(set.n_items, 1, 16); /* DESIGN.md section 9 */
	if (model.layers[0].request.act_scale != 0)
		assert_int_equal(count_family(&set, HM_FAMILY_QUANT), 1);
	expect_leads_back(&set);
	expect_usual_first(&set, sms);
	for (size_t i = 0; i < model.n_layers; i++) {
		expect_serves(&set, model.layers[i].request);
		for (uint32_t m = 1; m <= HM_PLAN_MAX_M; m++)
			assert_int_equal(
			    count_uses(&set, model.layers[i].name, sms, m),
			    count_widths(&model, model.layers[i].name));
	}
	hm_kernel_set_done(&set);
	assert_int_equal(set.n_items, 0);
}

static void
test_kernel_set__dense_models_need_few_kernels_for_everything(void **state)
{
	static const char *const models[] = {HM_TEST_DATA "/qwen3-32b.json",
	    HM_TEST_DATA "/llama-3.1-70b.json"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		expect_model(models[i], "w4a16", 1, "sm_90a");
		expect_model(models[i], "w4a16", 8, "sm_90a");
		expect_model(models[i], "w4a16,scale=channel", 2, "sm_90a");
		expect_model(models[i], "w4a16", 1, "sm_80");
		expect_model(models[i], "w4a16,zp=int", 4, "sm_120");
	}
}

static void
test_kernel_set__no_quantization_needs_more_than_16_kernels(void **state)
{
	static const char *const models[] = {HM_TEST_DATA "/qwen3-32b.json",
	    HM_TEST_DATA "/llama-3.1-70b.json"};
	static const char *const quants[] = {"w8a16", "w4a8", "w4a8i", "w8a8",
	    "w8a8i", "mxfp4a16", "mxfp4a8", "fp8block", "mxfp4a8,mx=exact",
	    "w8a8,acc=precise", "w4a8i,act=128"};

	(void)state;
	for (size_t i = 0; i < 2 * 11; i++)
		expect_model(models[i / 11], quants[i % 11], 1, "sm_90a");
}

static void
test_kernel_set__layers_share_kernels(void **state)
{
	struct hm_kernel_set set;
	size_t n;

	(void)state;
	hm_kernel_set_init(&set);
	add(&set, "one", "w4a16,n=8192,k=8192", "sm_90a", 0);
	n = set.n_items;
	add(&set, "two", "w4a16,n=8192,k=8192", "sm_90a", 0);
	assert_int_equal(set.n_items, n);
	assert_int_equal(count_uses(&set, "two", 132, 1), 1);
	add(&set, "three", "w4a16,n=8192,k=8192", "sm_80", 0);
	assert_int_equal(set.n_items, n + 4);
	expect_leads_back(&set);
	hm_kernel_set_done(&set);
}

static void
test_kernel_set__a_given_m_is_one_kernel(void **state)
{
	struct hm_kernel_set set;

	(void)state;
	hm_kernel_set_init(&set);
	add(&set, "spec", "w4a16,m=1,n=8192,k=8192", "sm_90a", 0);
	assert_int_equal(set.n_items, 1);
	assert_int_equal(set.items[0].n_uses, 1);
	assert_int_equal(set.items[0].uses[0].m_lo, 1);
	assert_int_equal(set.items[0].uses[0].m_hi, 1);
	assert_int_equal(set.items[0].request.m, 1);
	assert_int_equal(set.items[0].request.sms, 0);
	/* Behind the planned range, too. */
	add(&set, "spec", "w4a16,m=20000,n=8192,k=8192", "sm_80", 0);
	assert_int_equal(set.n_items, 2);
	assert_int_equal(set.items[1].uses[0].m_hi, 20000);
	hm_kernel_set_done(&set);
}

static void
test_kernel_set__given_sms_are_the_only_ones(void **state)
{
	struct hm_kernel_set set;

	(void)state;
	hm_kernel_set_init(&set);
	add(&set, "spec", "w4a16,n=8192,k=8192,sms=78", "sm_90a", 0);
	for (size_t i = 0; i < set.n_items; i++) {
		assert_int_equal(set.items[i].request.sms, 78);
		for (size_t u = 0; u < set.items[i].n_uses; u++)
			assert_int_equal(set.items[i].uses[u].sms, 78);
	}
	for (uint32_t m = 1; m <= HM_PLAN_MAX_M; m++)
		assert_int_equal(count_uses(&set, "spec", 78, m), 1);
	hm_kernel_set_done(&set);
}

static void
test_kernel_set__max_m_ends_the_uses(void **state)
{
	struct hm_kernel_set set;

	(void)state;
	hm_kernel_set_init(&set);
	add(&set, "a layer with a name of more than 31 characters",
	    "w4a16,n=8192,k=8192", "sm_90a", 100);
	assert_int_equal(
	    count_uses(&set, "a layer with a name of more tha", 132, 100), 1);
	assert_int_equal(
	    count_uses(&set, "a layer with a name of more tha", 132, 101), 0);
	hm_kernel_set_done(&set);
}

static void
test_kernel_set__refusals_pass_through_and_keep_the_set(void **state)
{
	struct hm_kernel_set set;
	struct hm_request request = request_of("moe-indexed,w4a16", "sm_90a");
	struct hm_errbuf errbuf = {""};
	size_t n;

	(void)state;
	hm_kernel_set_init(&set);
	add(&set, "one", "w4a16,n=8192,k=8192", "sm_90a", 0);
	n = set.n_items;
	assert_int_equal(hm_kernel_set_add(&set, "two", &request, 0, &errbuf),
	    HM_E_UNSUPPORTED);
	assert_non_null(strstr(errbuf.text, "moe-indexed"));
	request = request_of("w4a16", "sm_99");
	assert_int_equal(hm_kernel_set_add(&set, "two", &request, 0, &errbuf),
	    HM_E_UNSUPPORTED);
	assert_non_null(strstr(errbuf.text, "sm_99"));
	assert_int_equal(set.n_items, n);
	hm_kernel_set_done(&set);
	hm_kernel_set_done(&set); /* again is nothing */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_kernel_set__dense_models_need_few_kernels_for_everything),
	    cmocka_unit_test(
		test_kernel_set__no_quantization_needs_more_than_16_kernels),
	    cmocka_unit_test(test_kernel_set__layers_share_kernels),
	    cmocka_unit_test(test_kernel_set__a_given_m_is_one_kernel),
	    cmocka_unit_test(test_kernel_set__given_sms_are_the_only_ones),
	    cmocka_unit_test(test_kernel_set__max_m_ends_the_uses),
	    cmocka_unit_test(
		test_kernel_set__refusals_pass_through_and_keep_the_set),
	};

	return cmocka_run_group_tests_name("kernel_set", tests, NULL, NULL);
}
