/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client_kernel.c - kernels once they are here: counted, described,
 * launched as the plan says.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/kernel.h"
#include "jit/key.h"
#include "jit/launch.h"
#include "jit/plan.h"
#include "jit/spec.h"

static const uint8_t image_bytes[100] = {1, 2, 3};

/* A kernel for the plan's row of m, with the whole table, as the daemon would
 * send it. */
static struct humming_kernel *
make_kernel(struct hm_request *request, uint32_t m, struct hm_plan *plan)
{
	struct hm_kernel_reply *reply = calloc(1, sizeof *reply);
	struct humming_kernel *kernel = NULL;
	const struct hm_plan_row *row;
	struct hm_errbuf why = {.text = ""};
	struct hm_image image = {.n_bytes = sizeof image_bytes};
	struct hm_record record;
	void *copy = malloc(sizeof image_bytes);

	assert_non_null(copy);
	assert_non_null(reply);
	memcpy(copy, image_bytes, sizeof image_bytes);
	image.bytes = copy;
	request->m = m;
	assert_int_equal(hm_plan_compute(request, plan, &why), HM_OK);
	reply->status = HM_REPLY_HIT;
	reply->tier = HM_TIER_STORE;
	reply->image_bytes = sizeof image_bytes;
	hm_checksum_compute(image_bytes, sizeof image_bytes, &reply->checksum);
	reply->kernel_abi = HM_KERNEL_ABI;
	reply->pack_layout = HM_PACK_LAYOUT;
	reply->n_ranges = plan->n_rows;
	for (uint32_t i = 0; i < plan->n_rows; i++) {
		row = &plan->rows[i];
		hm_record_init(&record);
		assert_int_equal(hm_key_own(&row->config, &request->target,
				     &record, &reply->ranges[i].key),
		    HM_OK);
		hm_record_done(&record);
		reply->ranges[i].m_lo = row->m_lo;
		reply->ranges[i].m_hi = row->m_hi;
		reply->ranges[i].cluster = row->cluster;
		reply->ranges[i].band = row->band;
		reply->ranges[i].prefetch = row->prefetch;
		reply->ranges[i].weight_policy = row->weight_policy;
		reply->ranges[i].split_tail = row->split_tail;
		if (row == hm_plan_find(plan, m))
			reply->key = reply->ranges[i].key;
	}
	row = hm_plan_find(plan, m);
	reply->meta.n_config_words = sizeof row->config / sizeof(uint32_t);
	memcpy(reply->meta.config_words, &row->config, sizeof row->config);
	(void)snprintf(reply->meta.entry, sizeof reply->meta.entry, "e");
	assert_int_equal(
	    hm_kernel_new(reply, request, &image, 5, &kernel, &why), HM_OK);
	assert_null(image.bytes);
	free(reply);
	return kernel;
}

static void
w4a16(struct hm_request *request, uint32_t n, uint32_t k)
{
	struct hm_errbuf why = {.text = ""};

	assert_int_equal(hm_spec_parse("w4a16", request, &why), HM_OK);
	request->target = (struct hm_target){.cc = 90, .suffix = 'a'};
	request->n = n;
	request->k = k;
}

static void
check_launch(const struct humming_kernel *kernel, const struct hm_plan *plan,
    const struct hm_request *request, uint32_t m)
{
	struct humming_launch launch = {.struct_size = sizeof launch};
	struct hm_launch expected;

	assert_int_equal(hm_launch_compute(hm_plan_find(plan, m), m, request->n,
			     request->k, hm_plan_usual_sms(&request->target),
			     &expected),
	    HM_OK);
	assert_int_equal(
	    humming_kernel_launch(kernel, m, request->n, request->k, &launch),
	    HUMMING_OK);
	assert_int_equal(launch.struct_size, sizeof launch);
	assert_int_equal(launch.grid_x, expected.grid_x);
	assert_int_equal(launch.grid_y, expected.grid_y);
	assert_int_equal(launch.block_threads, expected.threads);
	assert_int_equal(launch.cluster_size, expected.cluster);
	assert_int_equal(launch.dynamic_smem_bytes, expected.smem_bytes);
	assert_int_equal(launch.tile_tokens, expected.tile_tokens);
	assert_int_equal(launch.row_groups, expected.row_groups);
	assert_int_equal(launch.band, expected.band);
	assert_int_equal(launch.prefetch, expected.prefetch);
	assert_int_equal(launch.split_tiles, expected.split_tiles);
	assert_int_equal(launch.workspace_bytes, expected.workspace_bytes);
	assert_int_equal(launch.kernel_abi, HM_KERNEL_ABI);
}

static void
test_client_kernel__launch_is_the_plans(void **state)
{
	static const uint32_t ms[] = {1, 8, 16, 17, 64, 256, 1024, 8192};
	struct humming_launch launch = {.struct_size = sizeof launch};
	struct humming_kernel *kernel;
	struct hm_request request, other;
	struct hm_plan plan, other_plan;
	struct hm_errbuf why = {.text = ""};

	(void)state;
	for (size_t i = 0; i < sizeof ms / sizeof ms[0]; i++) {
		w4a16(&request, 8192, 8192);
		kernel = make_kernel(&request, ms[i], &plan);
		check_launch(kernel, &plan, &request, ms[i]);
		/* Sizes it was not fetched for, where it is still the one. */
		w4a16(&other, 5120, 25600);
		assert_int_equal(hm_plan_compute(&other, &other_plan, &why),
		    HM_OK);
		if (memcmp(&hm_plan_find(&plan, ms[i])->config,
			&hm_plan_find(&other_plan, ms[i])->config,
			sizeof(struct hm_config)) == 0)
			check_launch(kernel, &other_plan, &other, ms[i]);
		else
			assert_int_equal(humming_kernel_launch(kernel, ms[i],
					     5120, 25600, &launch),
			    HUMMING_E_INVALID);
		assert_int_equal(
		    humming_kernel_launch(kernel, ms[i], 8191, 8192, &launch),
		    HUMMING_E_INVALID);
		humming_kernel_unref(kernel);
	}
}

static void
test_client_kernel__m_of_another_kernel_is_invalid(void **state)
{
	struct humming_launch launch = {.struct_size = sizeof launch};
	struct humming_kernel *kernel;
	struct humming_range range;
	struct hm_request request;
	struct hm_plan plan;
	uint32_t index = 0;

	(void)state;
	w4a16(&request, 8192, 8192);
	kernel = make_kernel(&request, 1, &plan);
	assert_int_equal(
	    humming_kernel_launch(kernel, 8192, 8192, 8192, &launch),
	    HUMMING_E_INVALID);
	while (humming_kernel_range(kernel, index, &range) == HUMMING_OK) {
		assert_int_equal(range.m_lo, plan.rows[index].m_lo);
		assert_int_equal(range.m_hi, plan.rows[index].m_hi);
		assert_int_equal(strlen(range.key), 64);
		index++;
	}
	assert_int_equal(index, plan.n_rows);
	humming_kernel_unref(kernel);
}

/* An older caller's info struct is filled as far as it goes. */
static void
test_client_kernel__info_fills_what_fits(void **state)
{
	struct humming_kernel_info info;
	struct humming_kernel *kernel;
	struct hm_request request;
	struct hm_plan plan;

	(void)state;
	w4a16(&request, 8192, 8192);
	kernel = make_kernel(&request, 1, &plan);
	memset(&info, 0x55, sizeof info);
	info.struct_size = offsetof(struct humming_kernel_info, key);
	assert_int_equal(humming_kernel_get_info(kernel, &info), HUMMING_OK);
	assert_int_equal(info.image_bytes, sizeof image_bytes);
	assert_int_equal(info.wait_us, 5);
	assert_int_equal((uintptr_t)info.key & 0xff, 0x55);
	info.struct_size = sizeof info;
	assert_int_equal(humming_kernel_get_info(kernel, &info), HUMMING_OK);
	assert_string_equal(info.tier, "store");
	assert_string_equal(info.log, "");
	assert_string_equal(humming_kernel_entry(kernel), "e");
	humming_kernel_unref(kernel);
}

static void *
ref_and_unref(void *argument)
{
	struct humming_kernel *kernel = argument;

	for (unsigned i = 0; i < 20000; i++)
		humming_kernel_unref(humming_kernel_ref(kernel));
	humming_kernel_unref(kernel);
	return NULL;
}

/* The last reference frees: which the leak check of asan sees. */
static void
test_client_kernel__references_may_be_counted_by_any_thread(void **state)
{
	struct humming_kernel *kernel;
	struct hm_request request;
	struct hm_plan plan;
	pthread_t threads[4];
	const void *image;
	size_t n_image;

	(void)state;
	w4a16(&request, 8192, 8192);
	kernel = make_kernel(&request, 1, &plan);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
				     ref_and_unref, humming_kernel_ref(kernel)),
		    0);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(humming_kernel_image(kernel, &image, &n_image),
	    HUMMING_OK);
	assert_memory_equal(image, image_bytes, n_image);
	humming_kernel_unref(kernel);
	humming_kernel_unref(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_client_kernel__launch_is_the_plans),
	    cmocka_unit_test(
		test_client_kernel__m_of_another_kernel_is_invalid),
	    cmocka_unit_test(test_client_kernel__info_fills_what_fits),
	    cmocka_unit_test(
		test_client_kernel__references_may_be_counted_by_any_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
