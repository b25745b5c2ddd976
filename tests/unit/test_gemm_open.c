/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gemm_open.c - fetching what gemms and packers need: how often is asked,
 * for what, and what happens when the daemon's table is another one than ours.
 * The daemon is fake_daemon.c with the real plan, the driver fake_cuda.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <humming/gemm.h>

#include "jit/emit.h"
#include "jit/key.h"
#include "jit/launch.h"
#include "jit/plan.h"
#include "jit/spec.h"

#include "fake_cuda.h"
#include "fake_daemon.h"

/* A daemon that plans; written by the test before it starts. */
struct planner {
	uint32_t sms;        /* 0 = those of the request, else another plan */
	uint32_t missing_m;  /* refuse the kernel of this m, where asked so */
	uint32_t kernel_abi; /* 0 = ours */
	atomic_uint n_gets;  /* packets */
	atomic_uint n_wants; /* requests in them */
	struct hm_request last;
};

struct fixture {
	struct planner planner;
	struct fake_daemon *daemon;
	struct humming_client *client;
	struct humming_device *device;
	int context;
};

static _Alignas(16) unsigned char memory[256];

/* On the daemon's thread, where cmocka's checks must not be used. */
static void
planner_require(int error)
{
	if (error == HM_OK)
		return;
	fprintf(stderr, "planner: %s\n", hm_strerror(error));
	abort();
}

static void
planner_fill_range(const struct hm_request *request,
    const struct hm_plan_row *row, struct hm_range *range)
{
	struct hm_record record;

	hm_record_init(&record);
	planner_require(
	    hm_key_own(&row->config, &request->target, &record, &range->key));
	hm_record_done(&record);
	range->m_lo = row->m_lo;
	range->m_hi = row->m_hi;
	range->cluster = row->cluster;
	range->band = row->band;
	range->prefetch = row->prefetch;
	range->weight_policy = row->weight_policy;
	range->split_tail = row->split_tail;
}

/* The image is the configuration: test_gemm_open__ tests look at it. */
static void
planner_answer(struct planner *planner, int fd, uint32_t id, uint32_t index,
    const struct hm_request *request)
{
	struct hm_request asked = *request;
	struct hm_kernel_reply reply;
	const struct hm_plan_row *row;
	struct hm_plan plan;

	if (planner->sms != 0)
		asked.sms = planner->sms;
	planner_require(hm_plan_compute(&asked, &plan, NULL));
	row = hm_plan_find(&plan, request->m);
	fake_reply_init(&reply, index, &row->config, sizeof row->config);
	if (planner->kernel_abi != 0)
		reply.kernel_abi = planner->kernel_abi;
	if (request->n != 0 && request->k != 0)
		reply.n_ranges = plan.n_rows;
	for (uint32_t i = 0; i < reply.n_ranges; i++)
		planner_fill_range(request, &plan.rows[i], &reply.ranges[i]);
	if (reply.n_ranges != 0)
		reply.key = reply.ranges[row - plan.rows].key;
	memcpy(reply.meta.config_words, &row->config, sizeof row->config);
	if (planner->missing_m != 0 && request->m == planner->missing_m) {
		reply.status = HM_REPLY_UNSUPPORTED;
		reply.image_bytes = 0;
		(void)snprintf(reply.message, sizeof reply.message,
		    "no such kernel");
	}
	fake_send_kernel(fd, id, &reply, &row->config, reply.image_bytes, -1);
}

static void
planner_serve(int fd, unsigned number, void *payload)
{
	struct planner *planner = payload;
	uint8_t *buffer = malloc(HM_FRAME_MAX_BYTES);
	struct hm_frame frame;
	struct hm_get get;
	bool more;

	(void)number;
	more = buffer != NULL && fake_greet_and_recv(fd, buffer, &frame);
	for (; more; more = fake_recv(fd, buffer, &frame)) {
		if (hm_codec_unpack_get(frame.body, frame.n_body, &get) !=
		    HM_OK)
			break;
		atomic_fetch_add(&planner->n_gets, 1);
		atomic_fetch_add(&planner->n_wants, get.n_requests);
		planner->last = get.requests[get.n_requests - 1];
		for (uint32_t i = 0; i < get.n_requests; i++)
			planner_answer(planner, fd, frame.request_id, i,
			    &get.requests[i]);
		hm_get_done(&get);
	}
	free(buffer);
}

static int
setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);
	struct humming_client_options options;

	assert_non_null(fixture);
	memset(&fake_cuda, 0, sizeof fake_cuda);
	fake_cuda.major = 9;
	fake_cuda.context = &fixture->context;
	assert_int_equal(humming_device_open(0, &fixture->device), HUMMING_OK);
	fixture->daemon = fake_daemon_new(planner_serve, &fixture->planner);
	humming_client_options_init(&options, sizeof options);
	options.socket_path = fake_daemon_path(fixture->daemon);
	assert_int_equal(humming_client_open(&options, &fixture->client),
	    HUMMING_OK);
	*state = fixture;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *fixture = *state;

	humming_client_close(fixture->client);
	fake_daemon_free(fixture->daemon);
	humming_device_close(fixture->device);
	free(fixture);
	return 0;
}

static struct humming_kernel_request
make_request(uint32_t n, uint32_t k)
{
	struct humming_kernel_request request;

	humming_kernel_request_init(&request, sizeof request);
	request.w_type = HUMMING_TYPE_UINT(4);
	request.scale_kind = HUMMING_SCALE_GROUP;
	request.group = 128;
	request.n = n;
	request.k = k;
	return request;
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

static struct hm_plan
plan_for(uint32_t n, uint32_t k, uint32_t sms)
{
	struct hm_errbuf why = {.text = ""};
	struct hm_request request;
	struct hm_plan plan;

	assert_int_equal(hm_spec_parse("w4a16", &request, &why), HM_OK);
	request.target = (struct hm_target){.cc = 90, .suffix = 'a'};
	request.n = n;
	request.k = k;
	request.sms = sms;
	assert_int_equal(hm_plan_compute(&request, &plan, &why), HM_OK);
	return plan;
}

/* The kernel launched for m is that of the plan for so many SMs. */
static void
expect_kernel(struct humming_gemm *gemm, uint32_t m, uint32_t n, uint32_t k,
    uint32_t sms)
{
	struct hm_plan plan = plan_for(n, k, sms);

	assert_int_equal(launch(gemm, m), HUMMING_OK);
	assert_memory_equal(fake_cuda.launched, &hm_plan_find(&plan, m)->config,
	    sizeof(struct hm_config));
}

static const uint32_t all_m[] = {1, 2, 4, 5, 8, 9, 16, 33, 64, 100, 128, 200,
    256, 300, 512, 700, 1024, 3000, 8192, 30000};
#define N_M (sizeof all_m / sizeof all_m[0])

static void
test_gemm_open__a_model_takes_one_round_trip(void **state)
{
	static const uint32_t shapes[][2] = {{10240, 5120}, {5120, 8192},
	    {51200, 5120}, {5120, 25600}};
	struct fixture *fixture = *state;
	struct humming_kernel_request requests[4];
	struct humming_gemm *gemms[4];

	for (size_t i = 0; i < 4; i++)
		requests[i] = make_request(shapes[i][0], shapes[i][1]);
	assert_int_equal(humming_gemm_open_many(fixture->device,
			     fixture->client, requests, 4, gemms),
	    HUMMING_OK);
	assert_int_equal(atomic_load(&fixture->planner.n_gets), 1);
	assert_in_range(fake_cuda.n_loaded, 2, 16);
	for (size_t i = 0; i < 4 * N_M; i++)
		expect_kernel(gemms[i / N_M], all_m[i % N_M],
		    shapes[i / N_M][0], shapes[i / N_M][1], 132);
	for (size_t i = 0; i < 4; i++)
		humming_gemm_close(gemms[i]);
	assert_int_equal(fake_cuda.n_loaded, fake_cuda.n_unloaded);
}

/* So many SMs that the plan has a kernel which that of the device's lacks. */
static uint32_t
other_sms(void)
{
	struct hm_plan ours = plan_for(8192, 8192, 132);

	for (uint32_t sms = 4; sms < 200; sms++) {
		struct hm_plan plan = plan_for(8192, 8192, sms);

		for (uint32_t i = 0; i < plan.n_rows; i++) {
			uint32_t j = 0;

			while (
			    j < ours.n_rows &&
			    memcmp(&ours.rows[j].config, &plan.rows[i].config,
				sizeof plan.rows[i].config) != 0)
				j++;
			if (j == ours.n_rows)
				return sms;
		}
	}
	fail_msg("all plans have the same kernels");
	return 0;
}

/* As a daemon of another release would have: what its table names is fetched,
 * what we guessed is not launched. */
static void
test_gemm_open__another_table_takes_two_and_counts(void **state)
{
	struct fixture *fixture = *state;
	struct humming_kernel_request request = make_request(8192, 8192);
	struct humming_gemm *gemm = NULL;

	fixture->planner.sms = other_sms();
	assert_int_equal(humming_gemm_open(fixture->device, fixture->client,
			     &request, &gemm),
	    HUMMING_OK);
	assert_int_equal(atomic_load(&fixture->planner.n_gets), 2);
	for (size_t i = 0; i < N_M; i++)
		expect_kernel(gemm, all_m[i], 8192, 8192, fixture->planner.sms);
	humming_gemm_close(gemm);
}

static void
test_gemm_open__a_bound_on_m_asks_for_less(void **state)
{
	struct fixture *fixture = *state;
	struct humming_kernel_request request = make_request(8192, 8192);
	struct humming_gemm *gemm = NULL;

	request.m = 2;
	assert_int_equal(humming_gemm_open(fixture->device, fixture->client,
			     &request, &gemm),
	    HUMMING_OK);
	assert_int_equal(atomic_load(&fixture->planner.n_wants), 1);
	assert_int_equal(fake_cuda.n_loaded, 1);
	assert_int_equal(launch(gemm, 2), HUMMING_OK);
	assert_int_equal(launch(gemm, 64), HUMMING_E_UNSUPPORTED);
	humming_gemm_close(gemm);
}

static void
test_gemm_open__one_missing_kernel_fails_all_with_its_reason(void **state)
{
	struct fixture *fixture = *state;
	struct humming_kernel_request requests[2] = {make_request(8192, 8192),
	    make_request(8192, 8192)};
	struct humming_gemm *gemms[2] = {NULL, NULL};

	fixture->planner.missing_m = 9; /* the first of kernel H */
	assert_int_equal(humming_gemm_open_many(fixture->device,
			     fixture->client, requests, 2, gemms),
	    HUMMING_E_UNSUPPORTED);
	assert_string_equal(humming_gemm_last_error(), "no such kernel");
	assert_null(gemms[0]);
	assert_null(gemms[1]);
	assert_int_equal(fake_cuda.n_loaded, fake_cuda.n_unloaded);
}

static void
test_gemm_open__senseless_arguments_are_refused(void **state)
{
	struct fixture *fixture = *state;
	struct humming_kernel_request request = make_request(0, 8192);
	struct humming_gemm *gemm = NULL;

	assert_int_equal(humming_gemm_open(fixture->device, fixture->client,
			     &request, &gemm),
	    HUMMING_E_INVALID);
	assert_int_equal(humming_gemm_open_many(fixture->device,
			     fixture->client, &request, 0, &gemm),
	    HUMMING_E_INVALID);
	assert_int_equal(
	    humming_gemm_open(fixture->device, NULL, &request, &gemm),
	    HUMMING_E_INVALID);
	assert_null(gemm);
}

/* ---- packers ---- */

static struct humming_weight_source
make_source(uint32_t n, uint32_t k)
{
	struct humming_weight_source source;

	humming_weight_source_init(&source, sizeof source);
	source.n = n;
	source.k = k;
	source.a_type = HUMMING_TYPE_F16;
	source.group = 64;
	source.zero = HUMMING_ZERO_INT;
	source.code_layout = HUMMING_CODES_INT32;
	source.scale_type = HUMMING_TYPE_F32;
	source.codes = memory;
	source.scales = memory + 16;
	source.zeros = memory + 32;
	return source;
}

static struct humming_packer_args
make_args(void)
{
	struct humming_packer_args args;

	humming_packer_args_init(&args, sizeof args);
	args.packed = memory + 48;
	args.rowmul = (float *)(void *)(memory + 64);
	return args;
}

static struct humming_packer *
open_packer(struct fixture *fixture)
{
	struct humming_weight_source source = make_source(8, 8);
	struct humming_packer *packer = NULL;

	fake_cuda.is_pack = 1;
	assert_int_equal(humming_packer_open(fixture->device, fixture->client,
			     &source, &packer),
	    HUMMING_OK);
	return packer;
}

static void
test_packer__one_kernel_is_asked_for_and_packs_all_sizes(void **state)
{
	struct fixture *fixture = *state;
	struct humming_packer *packer = open_packer(fixture);
	struct humming_packer_args args = make_args();
	struct humming_weight_source source = make_source(1000, 2008);

	assert_int_equal(atomic_load(&fixture->planner.n_wants), 1);
	assert_int_equal(fixture->planner.last.operation, HM_OPERATION_PACK);
	assert_int_equal(fixture->planner.last.group, 64);
	assert_int_equal(fixture->planner.last.zero, HM_ZERO_INT);
	assert_int_equal(fixture->planner.last.target.cc, 90);
	assert_int_equal(humming_packer_launch(packer, &source, &args, fixture),
	    HUMMING_OK);
	assert_int_equal(fake_cuda.launch.grid_x, 16); /* rows / 64 */
	assert_int_equal(fake_cuda.launch.grid_y, 8);
	assert_int_equal(fake_cuda.launch.block_x, 256);
	assert_int_equal(fake_cuda.launch.smem_bytes, 0);
	assert_int_equal(fake_cuda.launch.n_attributes, 0);
	assert_ptr_equal(fake_cuda.launch.stream, fixture);
	assert_int_equal(fake_cuda.pack_params.codes, (uintptr_t)memory);
	assert_int_equal(fake_cuda.pack_params.zeros, (uintptr_t)memory + 32);
	assert_int_equal(fake_cuda.pack_params.rowmul, (uintptr_t)memory + 64);
	assert_int_equal(fake_cuda.pack_params.bias, 0);
	assert_int_equal(fake_cuda.pack_params.n, 1000);
	assert_int_equal(fake_cuda.pack_params.k, 2008);
	assert_int_equal(fake_cuda.pack_params.code_pairs, 1);
	assert_int_equal(fake_cuda.pack_params.scale_rows, 1);
	assert_int_equal(fake_cuda.pack_params.scale_type, HM_PACK_F32);
	humming_packer_close(packer);
	assert_int_equal(fake_cuda.n_unloaded, 1);
}

static void
test_packer__what_the_kernel_cannot_check_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct humming_packer *packer = open_packer(fixture);
	struct humming_weight_source good = make_source(64, 128), source;
	struct humming_packer_args args = make_args();

	source = good;
	source.group = 128; /* another format */
	assert_int_equal(humming_packer_launch(packer, &source, &args, NULL),
	    HUMMING_E_INVALID);
	source = good;
	source.n = 100;
	assert_int_equal(humming_packer_launch(packer, &source, &args, NULL),
	    HUMMING_E_INVALID);
	source = good;
	source.zeros = NULL;
	assert_int_equal(humming_packer_launch(packer, &source, &args, NULL),
	    HUMMING_E_INVALID);
	source = good;
	source.codes = memory + 8;
	assert_int_equal(humming_packer_launch(packer, &source, &args, NULL),
	    HUMMING_E_INVALID);
	assert_non_null(strstr(humming_gemm_last_error(), "codes"));
	args.packed = NULL;
	assert_int_equal(humming_packer_launch(packer, &good, &args, NULL),
	    HUMMING_E_INVALID);
	args = make_args();
	args.reserved = 1;
	assert_int_equal(humming_packer_launch(packer, &good, &args, NULL),
	    HUMMING_E_INVALID);
	args = make_args();
	assert_int_equal(humming_packer_launch(NULL, &good, &args, NULL),
	    HUMMING_E_INVALID);
	assert_int_equal(fake_cuda.n_launches, 0);
	humming_packer_close(packer);
}

/* What is asked of the daemon for weights, and given to the kernel. */
static void
expect_packer(struct fixture *fixture,
    const struct humming_weight_source *source, const struct hm_request *wanted,
    uint32_t scale_type, uint32_t scale_rows)
{
	const struct hm_request *last = &fixture->planner.last;
	struct humming_weight_sizes sizes = {.struct_size = sizeof sizes};
	struct humming_packer_args args = make_args();
	struct humming_packer *packer = NULL;
	struct hm_config config;

	fake_cuda.is_pack = 1;
	assert_int_equal(humming_packer_open(fixture->device, fixture->client,
			     source, &packer),
	    HUMMING_OK);
	assert_int_equal(last->a_type, wanted->a_type);
	assert_int_equal(last->w_type, wanted->w_type);
	assert_int_equal(last->scale_kind, wanted->scale_kind);
	assert_int_equal(last->group, wanted->group);
	assert_int_equal(last->scale_type, wanted->scale_type);
	assert_int_equal(last->mx_exact, wanted->mx_exact);
	assert_int_equal(humming_packer_launch(packer, source, &args, NULL),
	    HUMMING_OK);
	assert_int_equal(fake_cuda.pack_params.scale_type, scale_type);
	assert_int_equal(fake_cuda.pack_params.scale_rows, scale_rows);
	assert_int_equal(fake_cuda.pack_params.code_pairs,
	    source->code_layout == HUMMING_CODES_NIBBLES);
	/* the image is the configuration: it writes chunks of our size */
	memcpy(&config, fake_cuda.launched, sizeof config);
	assert_int_equal(humming_weight_size(source, &sizes), HUMMING_OK);
	assert_int_equal(sizes.packed_bytes, (uint64_t)((source->n + 63) / 64) *
						 ((source->k + 127) / 128) *
						 hm_emit_chunk_bytes(&config));
	humming_packer_close(packer);
}

static struct humming_weight_source
make_plain_source(uint32_t a_type, uint32_t w_type, uint32_t scale_type)
{
	struct humming_weight_source source = make_source(200, 256);

	source.zero = HUMMING_ZERO_NONE;
	source.group = 0;
	source.code_layout = HUMMING_CODES_BYTES;
	source.a_type = a_type;
	source.w_type = w_type;
	source.scale_type = scale_type;
	return source;
}

static void
test_packer__kernels_are_asked_for_by_what_chunks_hold(void **state)
{
	struct humming_weight_source source = make_plain_source(
	    HUMMING_TYPE_E4M3, HUMMING_TYPE_E4M3, HUMMING_TYPE_BF16);
	struct hm_request wanted = {.a_type = HM_TYPE_E4M3,
	    .w_type = HM_TYPE_E4M3,
	    .scale_kind = HM_SCALE_GROUP,
	    .group = 128,
	    .scale_type = HM_TYPE_F32};

	source.scale_kind = HUMMING_SCALE_BLOCK;
	expect_packer(*state, &source, &wanted, HM_PACK_BF16, 128);
	source = make_plain_source(HUMMING_TYPE_SINT(8), HUMMING_TYPE_UINT(8),
	    HUMMING_TYPE_F32);
	source.scale_kind = HUMMING_SCALE_TENSOR;
	wanted = (struct hm_request){.a_type = HM_TYPE_SINT(8),
	    .w_type = HM_TYPE_UINT(8),
	    .scale_kind = HM_SCALE_CHANNEL,
	    .scale_type = HM_TYPE_BF16}; /* the default: there are no lines */
	expect_packer(*state, &source, &wanted, HM_PACK_F32, 200);
	source = make_plain_source(HUMMING_TYPE_E4M3, HUMMING_TYPE_E2M1,
	    HUMMING_TYPE_E8M0);
	source.group = 32;
	source.code_layout = HUMMING_CODES_NIBBLES;
	wanted = (struct hm_request){.a_type = HM_TYPE_E4M3,
	    .w_type = HM_TYPE_E2M1,
	    .scale_kind = HM_SCALE_GROUP,
	    .group = 32,
	    .scale_type = HM_TYPE_E8M0};
	expect_packer(*state, &source, &wanted, HM_PACK_E8M0, 1);
	source.mx_exact = 1;
	wanted.mx_exact = 1;
	expect_packer(*state, &source, &wanted, HM_PACK_E8M0, 1);
}

static void
test_packer__one_serves_all_that_make_the_same_chunks(void **state)
{
	struct fixture *fixture = *state;
	struct humming_weight_source source = make_plain_source(
	    HUMMING_TYPE_E4M3, HUMMING_TYPE_E4M3, HUMMING_TYPE_F32);
	struct humming_packer_args args = make_args();
	struct humming_packer *packer = NULL;

	fake_cuda.is_pack = 1;
	source.scale_kind = HUMMING_SCALE_BLOCK;
	assert_int_equal(humming_packer_open(fixture->device, fixture->client,
			     &source, &packer),
	    HUMMING_OK);
	source.scale_kind = HUMMING_SCALE_GROUP;
	source.group = 128;
	assert_int_equal(humming_packer_launch(packer, &source, &args, NULL),
	    HUMMING_OK);
	assert_int_equal(fake_cuda.pack_params.scale_rows, 1);
	source.scale_type = HUMMING_TYPE_BF16; /* other lines */
	assert_int_equal(humming_packer_launch(packer, &source, &args, NULL),
	    HUMMING_E_INVALID);
	source.scale_type = HUMMING_TYPE_F32;
	source.w_type = HUMMING_TYPE_UINT(4);
	assert_int_equal(humming_packer_launch(packer, &source, &args, NULL),
	    HUMMING_E_INVALID);
	assert_non_null(strstr(humming_gemm_last_error(), "other types"));
	humming_packer_close(packer);
}

static void
test_packer__formats_without_a_kernel_are_not_asked_for(void **state)
{
	struct fixture *fixture = *state;
	struct humming_weight_source source = make_source(64, 128);
	struct humming_packer *packer = NULL;

	source.group = 48;
	assert_int_equal(humming_packer_open(fixture->device, fixture->client,
			     &source, &packer),
	    HUMMING_E_UNSUPPORTED);
	assert_null(packer);
	assert_int_equal(atomic_load(&fixture->planner.n_gets), 0);
	humming_packer_close(NULL);
}

static void
test_packer__a_kernel_of_another_release_is_not_loaded(void **state)
{
	struct fixture *fixture = *state;
	struct humming_weight_source source = make_source(64, 128);
	struct humming_packer *packer = NULL;

	fake_cuda.is_pack = 1;
	fixture->planner.kernel_abi = 4711;
	assert_int_equal(humming_packer_open(fixture->device, fixture->client,
			     &source, &packer),
	    HUMMING_E_VERSION);
	assert_null(packer);
	assert_non_null(strstr(humming_gemm_last_error(), "4711"));
	assert_int_equal(fake_cuda.n_loaded, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_gemm_open__a_model_takes_one_round_trip),
	    TEST(test_gemm_open__another_table_takes_two_and_counts),
	    TEST(test_gemm_open__a_bound_on_m_asks_for_less),
	    TEST(test_gemm_open__one_missing_kernel_fails_all_with_its_reason),
	    TEST(test_gemm_open__senseless_arguments_are_refused),
	    TEST(test_packer__one_kernel_is_asked_for_and_packs_all_sizes),
	    TEST(test_packer__what_the_kernel_cannot_check_is_refused),
	    TEST(test_packer__kernels_are_asked_for_by_what_chunks_hold),
	    TEST(test_packer__one_serves_all_that_make_the_same_chunks),
	    TEST(test_packer__formats_without_a_kernel_are_not_asked_for),
	    TEST(test_packer__a_kernel_of_another_release_is_not_loaded),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
