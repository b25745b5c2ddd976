/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gemm.c - devices, and gemms made of real kernels objects with the real
 * plan's table, on a driver that only remembers (fake_cuda.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <humming/gemm.h>

#include "client/kernel.h"
#include "jit/key.h"
#include "jit/launch.h"
#include "jit/plan.h"
#include "jit/spec.h"

#include "fake_alloc.h"
#include "fake_cuda.h"

#define N 8192u
#define K 8192u

/* Everything that a gemm for N x K needs: one kernel per row of the plan. */
struct fixture {
	struct humming_device *device;
	struct hm_request request;
	struct humming_kernel_request public_request;
	struct hm_plan plan;
	struct humming_kernel *kernels[HM_PLAN_MAX_ROWS];
	uint32_t kernel_abi;
	int context;
};

static _Alignas(16) unsigned char memory[256];

static void
reply_fill_range(const struct fixture *fixture, const struct hm_plan_row *row,
    struct hm_range *range)
{
	struct hm_record record;

	hm_record_init(&record);
	assert_int_equal(hm_key_own(&row->config, &fixture->request.target,
			     &record, &range->key),
	    HM_OK);
	hm_record_done(&record);
	range->m_lo = row->m_lo;
	range->m_hi = row->m_hi;
	range->cluster = row->cluster;
	range->band = row->band;
	range->prefetch = row->prefetch;
	range->weight_policy = row->weight_policy;
	range->split_tail = row->split_tail;
}

/* The kernel of a row, as the daemon would answer; its image is its row. */
static struct humming_kernel *
make_kernel(struct fixture *fixture, uint32_t index)
{
	struct hm_kernel_reply *reply = calloc(1, sizeof *reply);
	const struct hm_plan_row *row = &fixture->plan.rows[index];
	struct humming_kernel *kernel = NULL;
	struct hm_errbuf why = {.text = ""};
	struct hm_image image = {.n_bytes = sizeof index};
	uint32_t *bytes = malloc(sizeof index);

	assert_non_null(reply);
	assert_non_null(bytes);
	*bytes = index;
	image.bytes = bytes;
	reply->status = HM_REPLY_HIT;
	reply->tier = HM_TIER_HOT;
	reply->image_bytes = sizeof index;
	hm_checksum_compute(bytes, sizeof index, &reply->checksum);
	reply->kernel_abi = HM_KERNEL_ABI;
	reply->pack_layout = HM_PACK_LAYOUT;
	reply->n_ranges = fixture->plan.n_rows;
	for (uint32_t i = 0; i < reply->n_ranges; i++)
		reply_fill_range(fixture, &fixture->plan.rows[i],
		    &reply->ranges[i]);
	reply->key = reply->ranges[index].key;
	reply->meta.n_config_words = sizeof row->config / sizeof(uint32_t);
	memcpy(reply->meta.config_words, &row->config, sizeof row->config);
	(void)snprintf(reply->meta.entry, sizeof reply->meta.entry, "entry");
	assert_int_equal(
	    hm_kernel_new(reply, &fixture->request, &image, 0, &kernel, &why),
	    HM_OK);
	free(reply);
	return kernel;
}

static int
setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);
	struct hm_errbuf why = {.text = ""};

	assert_non_null(fixture);
	memset(&fake_cuda, 0, sizeof fake_cuda);
	fake_cuda.major = 9;
	fake_cuda.context = &fixture->context;
	assert_int_equal(humming_device_open(0, &fixture->device), HUMMING_OK);
	assert_int_equal(hm_spec_parse("w4a16", &fixture->request, &why),
	    HM_OK);
	fixture->request.target = (struct hm_target){.cc = 90, .suffix = 'a'};
	fixture->request.n = N;
	fixture->request.k = K;
	fixture->request.sms = 132;
	assert_int_equal(
	    hm_plan_compute(&fixture->request, &fixture->plan, &why), HM_OK);
	for (uint32_t i = 0; i < fixture->plan.n_rows; i++)
		fixture->kernels[i] = make_kernel(fixture, i);
	humming_kernel_request_init(&fixture->public_request,
	    sizeof fixture->public_request);
	fixture->public_request.a_type = HUMMING_TYPE_BF16;
	fixture->public_request.n = N;
	fixture->public_request.k = K;
	*state = fixture;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *fixture = *state;

	for (uint32_t i = 0; i < HM_PLAN_MAX_ROWS; i++)
		humming_kernel_unref(fixture->kernels[i]);
	humming_device_close(fixture->device);
	free(fixture);
	return 0;
}

static struct humming_gemm *
open_gemm(struct fixture *fixture)
{
	struct humming_gemm *gemm = NULL;

	assert_int_equal(humming_gemm_open_kernels(fixture->device,
			     &fixture->public_request, fixture->kernels,
			     fixture->plan.n_rows, &gemm),
	    HUMMING_OK);
	return gemm;
}

static int
launch(struct humming_gemm *gemm, uint32_t m)
{
	struct humming_gemm_args args;

	humming_gemm_args_init(&args, sizeof args);
	args.m = m;
	args.a = memory;
	args.w = memory + 16;
	args.rowmul = (const float *)(const void *)(memory + 32);
	args.c = memory + 48;
	return humming_gemm_launch(gemm, &args, NULL);
}

/* Rows of the plan with distinct configurations. */
static uint32_t
count_distinct(const struct hm_plan *plan)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < plan->n_rows; i++) {
		uint32_t j = 0;

		while (j < i &&
		       memcmp(&plan->rows[j].config, &plan->rows[i].config,
			   sizeof plan->rows[i].config) != 0)
			j++;
		n += j == i;
	}
	return n;
}

static void
test_gemm__device_tells_what_a_request_needs(void **state)
{
	struct fixture *fixture = *state;
	struct humming_device_info info = {.struct_size = sizeof info};
	struct humming_kernel_request request;

	assert_int_equal(humming_device_get_info(fixture->device, &info),
	    HUMMING_OK);
	assert_string_equal(info.name, "Fake H200");
	assert_int_equal(info.driver_version, 13000);
	humming_kernel_request_init(&request, sizeof request);
	request.n = 8;
	assert_int_equal(humming_device_request(fixture->device, &request),
	    HUMMING_OK);
	assert_int_equal(request.target_cc, 90);
	assert_int_equal(request.target_suffix, 'a');
	assert_int_equal(request.sms, 132);
	assert_int_equal(request.n, 8);
}

static void
test_gemm__devices_that_are_not_there_or_too_old_are_refused(void **state)
{
	struct humming_device *device = NULL;

	(void)state;
	assert_int_equal(humming_device_open(7, &device), HUMMING_E_INVALID);
	fake_cuda.major = 7;
	fake_cuda.minor = 5;
	assert_int_equal(humming_device_open(0, &device),
	    HUMMING_E_UNSUPPORTED);
	assert_non_null(strstr(humming_gemm_last_error(), "7.5"));
	fake_cuda.context = NULL;
	assert_int_equal(humming_device_open(HUMMING_DEVICE_CURRENT, &device),
	    HUMMING_E_UNAVAILABLE);
	assert_null(device);
}

static void
test_gemm__contexts_are_made_only_when_asked_for(void **state)
{
	struct humming_device *device = NULL;

	(void)state;
	fake_cuda.context = NULL;
	assert_int_equal(humming_device_open(0, &device), HUMMING_OK);
	assert_int_equal(fake_cuda.n_retained, 0);
	assert_int_equal(humming_device_make_current(device), HUMMING_OK);
	assert_int_equal(humming_device_make_current(device), HUMMING_OK);
	assert_non_null(fake_cuda.context);
	humming_device_close(device);
	assert_int_equal(fake_cuda.n_retained, fake_cuda.n_released);
}

static void
test_gemm__every_m_goes_to_its_kernel_with_the_plans_grid(void **state)
{
	static const uint32_t ms[] = {1, 2, 3, 8, 9, 16, 17, 64, 128, 129, 256,
	    300, 1024, 4096, 8192, 20000};
	struct fixture *fixture = *state;
	struct humming_gemm *gemm = open_gemm(fixture);

	assert_int_equal(fake_cuda.dynamic_smem, 232448 - 256);
	for (size_t i = 0; i < sizeof ms / sizeof ms[0]; i++) {
		const struct hm_plan_row *row =
		    hm_plan_find(&fixture->plan, ms[i]);
		struct hm_launch expected;
		uint32_t image = 0;

		assert_int_equal(launch(gemm, ms[i]), HUMMING_OK);
		assert_int_equal(
		    hm_launch_compute(row, ms[i], N, K, 132, &expected), HM_OK);
		memcpy(&image, fake_cuda.launched, sizeof image);
		assert_memory_equal(&fixture->plan.rows[image].config,
		    &row->config, sizeof row->config);
		assert_int_equal(fake_cuda.launch.grid_x, expected.grid_x);
		assert_int_equal(fake_cuda.launch.block_x, expected.threads);
		assert_int_equal(fake_cuda.launch.smem_bytes,
		    expected.smem_bytes);
		assert_int_equal(fake_cuda.launch.n_attributes,
		    expected.cluster > 1 ? 2 : 1);
		assert_int_equal(fake_cuda.params.m, ms[i]);
		assert_int_equal(fake_cuda.params.row_groups,
		    expected.row_groups);
		assert_int_equal(fake_cuda.params.prefetch, expected.prefetch);
		assert_int_equal(fake_cuda.params.a_map.words[0] != 0,
		    expected.tile_tokens != 0);
	}
	humming_gemm_close(gemm);
}

static void
test_gemm__kernels_are_loaded_once_and_unloaded_with_the_last(void **state)
{
	struct fixture *fixture = *state;
	uint32_t distinct = count_distinct(&fixture->plan);
	struct humming_gemm *first = open_gemm(fixture);
	struct humming_gemm *second = open_gemm(fixture);

	assert_int_equal(fake_cuda.n_loaded, distinct);
	humming_gemm_close(first);
	assert_int_equal(fake_cuda.n_unloaded, 0);
	assert_int_equal(launch(second, 5), HUMMING_OK);
	humming_gemm_close(second);
	assert_int_equal(fake_cuda.n_unloaded, distinct);
	/* another context has modules of its own */
	first = open_gemm(fixture);
	fake_cuda.context = &fixture->kernel_abi;
	second = open_gemm(fixture);
	assert_int_equal(fake_cuda.n_loaded, 3 * distinct);
	humming_gemm_close(first);
	humming_gemm_close(second);
}

static void
test_gemm__kernels_outlive_the_callers_references(void **state)
{
	struct fixture *fixture = *state;
	struct humming_gemm *gemm = open_gemm(fixture);

	for (uint32_t i = 0; i < fixture->plan.n_rows; i++) {
		humming_kernel_unref(fixture->kernels[i]);
		fixture->kernels[i] = NULL;
	}
	assert_int_equal(launch(gemm, 1), HUMMING_OK);
	assert_int_equal(launch(gemm, 4096), HUMMING_OK);
	humming_gemm_close(gemm);
}

static void
test_gemm__no_tokens_is_no_launch(void **state)
{
	struct humming_gemm *gemm = open_gemm(*state);

	assert_int_equal(launch(gemm, 0), HUMMING_OK);
	assert_int_equal(fake_cuda.n_launches, 0);
	humming_gemm_close(gemm);
}

static void
test_gemm__an_m_whose_kernel_was_not_given_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct humming_gemm *gemm = NULL;

	/* only the first kernel */
	assert_int_equal(humming_gemm_open_kernels(fixture->device,
			     &fixture->public_request, fixture->kernels, 1,
			     &gemm),
	    HUMMING_OK);
	assert_int_equal(launch(gemm, 1), HUMMING_OK);
	assert_int_equal(launch(gemm, 4096), HUMMING_E_UNSUPPORTED);
	assert_non_null(strstr(humming_gemm_last_error(), "4096"));
	humming_gemm_close(gemm);
	/* the request's m bounds the table */
	fixture->public_request.m = 8;
	gemm = open_gemm(fixture);
	assert_int_equal(launch(gemm, 8), HUMMING_OK);
	assert_int_equal(launch(gemm, 4096), HUMMING_E_UNSUPPORTED);
	humming_gemm_close(gemm);
}

static void
expect_no_gemm(struct fixture *fixture, int error)
{
	struct humming_gemm *gemm = NULL;

	assert_int_equal(humming_gemm_open_kernels(fixture->device,
			     &fixture->public_request, fixture->kernels,
			     fixture->plan.n_rows, &gemm),
	    error);
	assert_null(gemm);
	assert_true(strlen(humming_gemm_last_error()) > 0);
	assert_int_equal(fake_cuda.n_loaded, fake_cuda.n_unloaded);
}

static void
test_gemm__what_cannot_be_opened_leaves_nothing_loaded(void **state)
{
	struct fixture *fixture = *state;

	fake_cuda.context = NULL;
	expect_no_gemm(fixture, HUMMING_E_INVALID);
	fake_cuda.context = &fixture->context;
	fake_cuda.load_result = 209;
	expect_no_gemm(fixture, HUMMING_E_UNSUPPORTED);
	fake_cuda.load_result = 200;
	expect_no_gemm(fixture, HUMMING_E_CORRUPT);
	assert_non_null(strstr(humming_gemm_last_error(), "cuModuleLoadData"));
	fake_cuda.load_result = 0;
	fixture->public_request.n = 0;
	expect_no_gemm(fixture, HUMMING_E_INVALID);
}

/* Wherever memory ends: NOMEM, a text that says so, nothing left behind (asan
 * looks for the rest). */
static void
test_gemm__no_memory_is_said_and_leaves_nothing_loaded(void **state)
{
	struct fixture *fixture = *state;
	struct humming_device *device = NULL;
	struct humming_gemm *gemm = NULL;
	size_t n_failures = 0;
	int error = HUMMING_OK;

	fake_alloc_fail_at(1);
	error = humming_device_open(0, &device);
	fake_alloc_fail_at(0);
	assert_int_equal(error, HUMMING_E_NOMEM);
	assert_string_equal(humming_gemm_last_error(), "device: out of memory");
	assert_null(device);
	for (size_t i = 1; gemm == NULL; i++) {
		fake_alloc_fail_at(i);
		error = humming_gemm_open_kernels(fixture->device,
		    &fixture->public_request, fixture->kernels,
		    fixture->plan.n_rows, &gemm);
		fake_alloc_fail_at(0);
		if (error == HUMMING_OK)
			continue;
		n_failures++;
		assert_int_equal(error, HUMMING_E_NOMEM);
		assert_string_equal(humming_gemm_last_error(),
		    "module: out of memory");
		assert_null(gemm);
		assert_int_equal(fake_cuda.n_loaded, fake_cuda.n_unloaded);
		assert_int_equal(fake_cuda.n_allocated, fake_cuda.n_freed);
	}
	assert_int_equal(n_failures, fake_cuda.n_loaded - fake_cuda.n_unloaded);
	humming_gemm_close(gemm);
}

/* The kernels again, of a plan whose persistent rows share their last tiles
 * (or none does). */
static void
share_tails(struct fixture *fixture, uint32_t split_tail)
{
	for (uint32_t i = 0; i < fixture->plan.n_rows; i++) {
		struct hm_plan_row *row = &fixture->plan.rows[i];

		row->split_tail = row->config.family == HM_FAMILY_WGMMA &&
					  row->config.split_k == 0
				      ? split_tail
				      : 0;
	}
	for (uint32_t i = 0; i < fixture->plan.n_rows; i++) {
		humming_kernel_unref(fixture->kernels[i]);
		fixture->kernels[i] = make_kernel(fixture, i);
	}
}

static uint64_t
largest_workspace(const struct fixture *fixture, uint32_t m_most)
{
	struct hm_launch launch;
	uint64_t most = 0;

	for (uint32_t m = 1; m <= m_most; m++) {
		assert_int_equal(
		    hm_launch_compute(hm_plan_find(&fixture->plan, m), m, N, K,
			132, &launch),
		    HM_OK);
		if (launch.workspace_bytes > most)
			most = launch.workspace_bytes;
	}
	return most;
}

static void
test_gemm__a_workspace_is_there_when_some_m_wants_one(void **state)
{
	struct fixture *fixture = *state;
	struct humming_gemm *gemm = NULL;
	uint64_t most = 0;

	share_tails(fixture, 1);
	most = largest_workspace(fixture, 20000);
	assert_true(most > 4096);
	gemm = open_gemm(fixture);
	assert_int_equal(humming_gemm_workspace_bytes(gemm), most);
	assert_int_equal(fake_cuda.n_allocated, 1);
	assert_int_equal(fake_cuda.allocated_bytes, most);
	assert_int_equal(fake_cuda.set_address, FAKE_CUDA_MEMORY);
	assert_int_equal(fake_cuda.set_words, 1024);
	assert_int_equal(fake_cuda.n_synchronized, 1);
	for (uint32_t m = 1; m < 20000; m += 37) {
		struct hm_launch expected;

		assert_int_equal(launch(gemm, m), HUMMING_OK);
		assert_int_equal(
		    hm_launch_compute(hm_plan_find(&fixture->plan, m), m, N, K,
			132, &expected),
		    HM_OK);
		assert_int_equal(fake_cuda.params.split_tiles,
		    expected.split_tiles);
		assert_int_equal(fake_cuda.params.workspace,
		    expected.split_tiles != 0 ? FAKE_CUDA_MEMORY : 0);
	}
	assert_int_equal(fake_cuda.n_allocated, 1);
	humming_gemm_close(gemm);
	assert_int_equal(fake_cuda.n_freed, 1);
}

/* Two rows: the first, then a persistent one for all that is more than one tile
 * of tokens, with as many tiles for two of them as there are SMs. Returns the
 * tokens of a tile. */
static uint32_t
share_from_three_tiles_on(struct fixture *fixture)
{
	struct hm_plan *plan = &fixture->plan;
	uint32_t from = 0, tokens = 0;

	while (from < plan->n_rows && plan->rows[from].split_tail == 0)
		from++;
	assert_true(from > 0 && from < plan->n_rows);
	tokens = plan->rows[from].config.tile_tokens;
	plan->rows[1] = plan->rows[from];
	plan->rows[0].m_hi = tokens;
	plan->rows[1].m_lo = tokens + 1;
	plan->rows[1].m_hi = UINT32_MAX;
	plan->n_rows = 2;
	fixture->request.n = 66 * 128 * plan->rows[1].config.slices;
	fixture->public_request.n = fixture->request.n;
	for (uint32_t i = 0; i < 2; i++) {
		humming_kernel_unref(fixture->kernels[i]);
		fixture->kernels[i] = make_kernel(fixture, i);
	}
	return tokens;
}

/* What the workspace was not made for would be written beyond it. */
static void
test_gemm__an_m_that_wants_a_larger_workspace_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct humming_gemm *gemm = NULL;
	uint32_t tokens = 0;

	share_tails(fixture, 1);
	tokens = share_from_three_tiles_on(fixture);
	fixture->public_request.m = 2 * tokens;
	gemm = open_gemm(fixture);
	assert_int_equal(humming_gemm_workspace_bytes(gemm), 0);
	assert_int_equal(launch(gemm, 2 * tokens), HUMMING_OK);
	assert_int_equal(launch(gemm, 2 * tokens + 1), HUMMING_E_INVALID);
	assert_non_null(strstr(humming_gemm_last_error(), "workspace"));
	assert_int_equal(launch(gemm, 2 * tokens), HUMMING_OK);
	humming_gemm_close(gemm);
	fixture->public_request.m = 2 * tokens + 1;
	gemm = open_gemm(fixture);
	assert_int_equal(launch(gemm, 2 * tokens + 1), HUMMING_OK);
	humming_gemm_close(gemm);
}

/* However few M of a range are asked for, the one that wants it is found. */
static void
test_gemm__a_bound_on_m_allocates_what_its_tokens_want(void **state)
{
	struct fixture *fixture = *state;

	share_tails(fixture, 1);
	for (uint32_t m = 1; m < 1500; m += 7) {
		struct humming_gemm *gemm = NULL;

		fixture->public_request.m = m;
		gemm = open_gemm(fixture);
		assert_int_equal(humming_gemm_workspace_bytes(gemm),
		    largest_workspace(fixture, m));
		humming_gemm_close(gemm);
	}
}

static void
test_gemm__without_shared_tiles_nothing_is_allocated(void **state)
{
	struct fixture *fixture = *state;
	struct humming_gemm *gemm = NULL;

	share_tails(fixture, 0);
	gemm = open_gemm(fixture);
	assert_int_equal(humming_gemm_workspace_bytes(gemm), 0);
	humming_gemm_close(gemm);
	share_tails(fixture, 1);
	fixture->public_request.m = 1; /* the rows beyond are not loaded */
	gemm = open_gemm(fixture);
	assert_int_equal(humming_gemm_workspace_bytes(gemm), 0);
	humming_gemm_close(gemm);
	assert_int_equal(fake_cuda.n_allocated, 0);
	assert_int_equal(fake_cuda.n_freed, 0);
	assert_int_equal(humming_gemm_workspace_bytes(NULL), 0);
}

static void
test_gemm__no_room_for_a_workspace_leaves_nothing_loaded(void **state)
{
	struct fixture *fixture = *state;

	share_tails(fixture, 1);
	fake_cuda.no_memory = 1;
	expect_no_gemm(fixture, HUMMING_E_NOMEM);
	assert_non_null(strstr(humming_gemm_last_error(), "cuMemAlloc"));
	assert_int_equal(fake_cuda.n_freed, 0);
}

static void
test_gemm__8_bit_activations_bring_their_scales(void **state)
{
	struct fixture *fixture = *state;
	struct humming_gemm *gemm = NULL;
	struct humming_gemm_args args;

	fixture->public_request.a_type = HUMMING_TYPE_E4M3;
	gemm = open_gemm(fixture);
	/* without a scale */
	assert_int_equal(launch(gemm, 4), HUMMING_E_INVALID);
	assert_non_null(strstr(humming_gemm_last_error(), "a_scale is NULL"));
	humming_gemm_args_init(&args, sizeof args);
	args.m = 4;
	args.a = memory;
	args.w = memory + 16;
	args.rowmul = (const float *)(const void *)(memory + 32);
	args.c = memory + 48;
	args.a_scale = (const float *)(const void *)(memory + 64);
	assert_int_equal(humming_gemm_launch(gemm, &args, NULL), HUMMING_OK);
	assert_int_equal(fake_cuda.params.a_scale, (uintptr_t)memory + 64);
	assert_int_equal(fake_cuda.params.a_scale_step, 1);
	/* as a worker that was built before there were scales */
	args.struct_size =
	    (uint32_t)offsetof(struct humming_gemm_args, a_scale);
	assert_int_equal(humming_gemm_launch(gemm, &args, NULL),
	    HUMMING_E_INVALID);
	humming_gemm_close(gemm);
	fixture->public_request.k = 136;
	expect_no_gemm(fixture, HUMMING_E_INVALID);
	assert_non_null(strstr(humming_gemm_last_error(), "multiple of 16"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		test_gemm__device_tells_what_a_request_needs, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__devices_that_are_not_there_or_too_old_are_refused,
		setup, teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__contexts_are_made_only_when_asked_for, setup,
		teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__every_m_goes_to_its_kernel_with_the_plans_grid,
		setup, teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__kernels_are_loaded_once_and_unloaded_with_the_last,
		setup, teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__kernels_outlive_the_callers_references, setup,
		teardown),
	    cmocka_unit_test_setup_teardown(test_gemm__no_tokens_is_no_launch,
		setup, teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__an_m_whose_kernel_was_not_given_is_refused, setup,
		teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__what_cannot_be_opened_leaves_nothing_loaded, setup,
		teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__a_workspace_is_there_when_some_m_wants_one, setup,
		teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__no_memory_is_said_and_leaves_nothing_loaded, setup,
		teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__an_m_that_wants_a_larger_workspace_is_refused, setup,
		teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__a_bound_on_m_allocates_what_its_tokens_want, setup,
		teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__without_shared_tiles_nothing_is_allocated, setup,
		teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__no_room_for_a_workspace_leaves_nothing_loaded, setup,
		teardown),
	    cmocka_unit_test_setup_teardown(
		test_gemm__8_bit_activations_bring_their_scales, setup,
		teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
