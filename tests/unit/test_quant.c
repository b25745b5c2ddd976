/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_quant.c - quantization of activations: the reference against values
 * known by hand and a search through all codes, what is refused, and what
 * reaches daemon and driver. The daemon is fake_daemon.c with the real plan,
 * the driver fake_cuda.c; tests/kernels/host_quant compares the kernel.
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

#include "client/number.h"
#include "jit/plan.h"

#include "fake_cuda.h"
#include "fake_daemon.h"

#define MAX_COLUMNS 512u

static const uint32_t made[] = {HUMMING_TYPE_E4M3, HUMMING_TYPE_E5M2,
    HUMMING_TYPE_SINT(8)};

/* ---- the reference ---- */

/* One matrix on the CPU; x is what the test fills in. */
struct matrix {
	struct humming_kernel_request request;
	struct humming_quant_args args;
	_Alignas(16) uint16_t x[2 * MAX_COLUMNS];
	_Alignas(16) uint8_t q[MAX_COLUMNS];
	_Alignas(16) float scale[16];
};

static void
matrix_init(struct matrix *matrix, uint32_t a_type, uint32_t k)
{
	memset(matrix, 0, sizeof *matrix);
	humming_kernel_request_init(&matrix->request, sizeof matrix->request);
	matrix->request.a_type = a_type;
	humming_quant_args_init(&matrix->args, sizeof matrix->args);
	matrix->args.m = 1;
	matrix->args.k = k;
	matrix->args.x = matrix->x;
	matrix->args.q = matrix->q;
	matrix->args.scale = matrix->scale;
	memset(matrix->q, 0xa5, sizeof matrix->q);
	memset(matrix->scale, 0xa5, sizeof matrix->scale);
}

static void
matrix_set(struct matrix *matrix, uint32_t at, double value)
{
	uint32_t type = matrix->request.c_type != 0 ? matrix->request.c_type
						    : HUMMING_TYPE_BF16;

	matrix->x[at] = hm_number_encode16(type, value);
}

static void
matrix_run(struct matrix *matrix)
{
	assert_int_equal(
	    humming_quant_reference(&matrix->request, &matrix->args),
	    HUMMING_OK);
}

static uint32_t
bits_of(float value)
{
	uint32_t bits = 0;

	memcpy(&bits, &value, sizeof bits);
	return bits;
}

static float
most_of(uint32_t a_type)
{
	if (a_type == HUMMING_TYPE_SINT(8))
		return 127;
	return a_type == HUMMING_TYPE_E4M3 ? 448 : 57344;
}

static void
test_quant_reference__known_values_have_their_codes(void **state)
{
	static const double values[8] = {448, 1, -1, 17, 19, 0.5, 0.001, -0.0};
	static const uint8_t codes[8] = {0x7e, 0x38, 0xb8, 0x58, 0x5a, 0x30,
	    0x01, 0x80}; /* 17 and 19 are ties; 2^-9 is the smallest */
	static const double whole[8] = {127, 2.5, 3.5, -0.5, -127, 1.25, -3,
	    0.75};
	static const int8_t integers[8] = {127, 2, 4, 0, -127, 1, -3, 1};
	struct matrix matrix;

	(void)state;
	matrix_init(&matrix, HUMMING_TYPE_E4M3, 8);
	for (uint32_t i = 0; i < 8; i++)
		matrix_set(&matrix, i, values[i]);
	matrix_run(&matrix);
	assert_int_equal(bits_of(matrix.scale[0]), bits_of(1));
	assert_memory_equal(matrix.q, codes, 8);
	assert_int_equal(matrix.q[8], 0xa5);
	assert_int_equal(bits_of(matrix.scale[1]), 0xa5a5a5a5);

	matrix_init(&matrix, HUMMING_TYPE_SINT(8), 8);
	matrix.request.c_type = HUMMING_TYPE_F16;
	for (uint32_t i = 0; i < 8; i++)
		matrix_set(&matrix, i, whole[i]);
	matrix_run(&matrix);
	assert_int_equal(bits_of(matrix.scale[0]), bits_of(1));
	assert_memory_equal(matrix.q, integers, 8);
}

/* The code nearest to a value, of two the even one, by trying all. */
static uint8_t
nearest_code(uint32_t a_type, double value)
{
	uint8_t best = 0;
	double best_off = 1e300;

	for (uint32_t code = 0; code < 256; code++) {
		double off = hm_number_decode8(a_type, (uint8_t)code) - value;

		off = off < 0 ? -off : off;
		if (off > best_off || off != off ||
		    (a_type == HUMMING_TYPE_SINT(8) && code == 128))
			continue;
		if (off < best_off || (code & 1) == 0)
			best = (uint8_t)code;
		best_off = off;
	}
	return best;
}

/* Every bf16 of size up to `most`, seven at a time behind one that sets the
 * scale to 1. */
static void
test_quant_reference__every_value_goes_to_the_nearest_code(void **state)
{
	struct matrix matrix;

	(void)state;
	for (size_t t = 0; t < sizeof made / sizeof made[0]; t++)
		for (uint32_t bits = 0x3000; bits < 0x4800; bits += 7) {
			matrix_init(&matrix, made[t], 8);
			matrix_set(&matrix, 0, (double)most_of(made[t]));
			for (uint32_t i = 1; i < 8; i++)
				matrix.x[i] =
				    (uint16_t)((bits + i - 1) | (i & 1) << 15);
			if (hm_number_decode16(HUMMING_TYPE_BF16,
				(uint16_t)(bits + 6)) >
			    (double)most_of(made[t]))
				break;
			matrix_run(&matrix);
			for (uint32_t i = 1; i < 8; i++) {
				double value = hm_number_decode16(
				    HUMMING_TYPE_BF16, matrix.x[i]);
				double got =
				    hm_number_decode8(made[t], matrix.q[i]);

				if (got != hm_number_decode8(made[t],
					       nearest_code(made[t], value)))
					fail_msg("type %zu: %a to %a", t, value,
					    got);
			}
		}
}

static void
test_quant_reference__scale_is_the_largest_divided(void **state)
{
	struct matrix matrix;

	(void)state;
	for (size_t t = 0; t < sizeof made / sizeof made[0]; t++) {
		matrix_init(&matrix, made[t], 24);
		matrix_set(&matrix, 3, 0.25);
		matrix_set(&matrix, 17, -3);
		matrix_run(&matrix);
		assert_int_equal(bits_of(matrix.scale[0]),
		    bits_of(3.0F / most_of(made[t])));
		assert_true(hm_number_decode8(made[t], matrix.q[17]) ==
			    (double)-most_of(made[t]));
		assert_int_equal(matrix.q[0], 0);
	}
}

static void
test_quant_reference__nothing_but_zeros_has_scale_one(void **state)
{
	struct matrix matrix;

	(void)state;
	for (size_t t = 0; t < sizeof made / sizeof made[0]; t++) {
		matrix_init(&matrix, made[t], 8);
		matrix_run(&matrix);
		assert_int_equal(bits_of(matrix.scale[0]), bits_of(1));
		for (uint32_t i = 0; i < 8; i++)
			assert_int_equal(matrix.q[i], 0);
	}
}

/* 1 / scale would be infinite without the floor. */
static void
test_quant_reference__the_smallest_numbers_meet_the_floor(void **state)
{
	struct matrix matrix;

	(void)state;
	matrix_init(&matrix, HUMMING_TYPE_E4M3, 8);
	matrix.x[5] = 0x0001; /* 2^-133 */
	matrix_run(&matrix);
	assert_int_equal(bits_of(matrix.scale[0]), 0x00800000); /* 2^-126 */
	assert_int_equal(matrix.q[5], 4); /* 2^-7 = 4 * 2^-9 */
	assert_int_equal(matrix.q[4], 0);
}

static void
test_quant_reference__nan_and_infinity_show_in_the_scale(void **state)
{
	static const uint16_t bad[] = {0x7f80, 0xff80, 0x7fc0, 0xff81};
	static const uint32_t scales[] = {0x7f800000, 0x7f800000, 0x7fffffff,
	    0x7fffffff};
	struct matrix matrix;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		matrix_init(&matrix, HUMMING_TYPE_E4M3, 8);
		matrix_set(&matrix, 0, 5);
		matrix.x[7] = bad[i];
		matrix_run(&matrix);
		assert_int_equal(bits_of(matrix.scale[0]), scales[i]);
		for (uint32_t k = 0; k < 8; k++)
			assert_int_equal(matrix.q[k], 0);
	}
}

/* Three tokens of 136: two groups, the second has eight columns. */
static void
test_quant_reference__groups_have_scales_of_their_own(void **state)
{
	struct matrix matrix;

	(void)state;
	for (uint32_t layout = 0; layout < 2; layout++) {
		matrix_init(&matrix, HUMMING_TYPE_E4M3, 136);
		matrix.request.act_scale = HUMMING_ACT_GROUP;
		matrix.request.act_layout = layout;
		matrix.args.m = 3;
		for (uint32_t m = 0; m < 3; m++) {
			matrix_set(&matrix, m * 136 + 127, 448 << m);
			matrix_set(&matrix, m * 136 + 128, 7 << m);
		}
		matrix_run(&matrix);
		for (uint32_t m = 0; m < 3; m++) {
			uint32_t at = layout != 0 ? m : 2 * m;
			uint32_t next = layout != 0 ? 3 : 1;

			assert_int_equal(bits_of(matrix.scale[at]),
			    bits_of((float)(1 << m)));
			assert_int_equal(bits_of(matrix.scale[at + next]),
			    bits_of((float)(1 << m) / 64));
			assert_int_equal(matrix.q[m * 136 + 127], 0x7e);
			assert_int_equal(matrix.q[m * 136 + 128], 0x7e);
			assert_int_equal(matrix.q[m * 136 + 126], 0);
		}
		assert_int_equal(bits_of(matrix.scale[6]), 0xa5a5a5a5);
	}
}

/* The values are those of another exponential, Python's. */
static void
test_quant_reference__silu_mul_multiplies_gate_and_up(void **state)
{
	static const double gates[] = {1, -2, 10, -30, 0.125, 3e38, -3e38};
	static const double values[] = {0.7310585786300049, -0.2384058440442351,
	    9.999546021312975, -2.8072868906517896e-12, 0.06640117167171954,
	    3e38, 0};
	struct matrix matrix;

	(void)state;
	for (size_t i = 0; i < sizeof gates / sizeof gates[0]; i++) {
		double y = 0, off = 0;

		matrix_init(&matrix, HUMMING_TYPE_SINT(8), 8);
		matrix.request.epilogue = HUMMING_EPILOGUE_SILU_MUL;
		matrix_set(&matrix, 2, gates[i]);
		matrix_set(&matrix, 8 + 2, -0.5);
		matrix_set(&matrix, 8 + 3, 1e30); /* its gate is zero */
		matrix_run(&matrix);
		if (values[i] == 0) {
			assert_int_equal(bits_of(matrix.scale[0]), bits_of(1));
			continue;
		}
		assert_int_equal((int8_t)matrix.q[2],
		    values[i] < 0 ? 127 : -127);
		y = (double)matrix.scale[0] * 254;
		off = (values[i] < 0 ? -values[i] : values[i]) / y - 1;
		if (i == 5) /* 3e38 is rounded to bf16 */
			off /= 1e4;
		assert_true(off < 2e-7 && off > -2e-7);
	}
}

static void
test_quant_reference__padding_between_tokens_stays(void **state)
{
	struct matrix matrix;

	(void)state;
	matrix_init(&matrix, HUMMING_TYPE_E5M2, 16);
	matrix.args.m = 2;
	matrix.args.ldx = 24;
	matrix.args.ldq = 32;
	matrix.args.scale_step = 3;
	matrix_set(&matrix, 20, 1e30); /* between */
	matrix_set(&matrix, 24, 57344);
	matrix_run(&matrix);
	assert_int_equal(bits_of(matrix.scale[0]), bits_of(1));
	assert_int_equal(bits_of(matrix.scale[3]), bits_of(1));
	assert_int_equal(bits_of(matrix.scale[1]), 0xa5a5a5a5);
	assert_int_equal(matrix.q[0], 0);
	assert_int_equal(matrix.q[32], 0x7b);
	assert_int_equal(matrix.q[16], 0xa5);
	assert_int_equal(matrix.q[48], 0xa5);
}

/* ---- what is refused ---- */

static void
expect_refused(const struct matrix *matrix, int error, const char *word)
{
	assert_int_equal(
	    humming_quant_reference(&matrix->request, &matrix->args), error);
	if (strstr(humming_gemm_last_error(), word) == NULL)
		fail_msg("'%s' does not say %s", humming_gemm_last_error(),
		    word);
}

static void
test_quant__formats_without_a_kernel_are_refused(void **state)
{
	struct matrix good, bad;

	(void)state;
	matrix_init(&good, HUMMING_TYPE_E4M3, 8);
	bad = good;
	bad.request.a_type = HUMMING_TYPE_E2M1;
	expect_refused(&bad, HUMMING_E_UNSUPPORTED, "a_type");
	bad = good;
	bad.request.c_type = HUMMING_TYPE_F32;
	expect_refused(&bad, HUMMING_E_UNSUPPORTED, "c_type");
	bad = good;
	bad.request.act_scale = HUMMING_ACT_TENSOR;
	expect_refused(&bad, HUMMING_E_UNSUPPORTED, "act_scale");
	bad = good;
	bad.request.act_scale = HUMMING_ACT_GROUP;
	bad.request.act_group = 64;
	expect_refused(&bad, HUMMING_E_UNSUPPORTED, "act_group");
	bad = good;
	bad.request.epilogue = 2; /* swiglu-oai */
	expect_refused(&bad, HUMMING_E_UNSUPPORTED, "epilogue");
	bad = good;
	bad.request.act_layout = 2;
	expect_refused(&bad, HUMMING_E_UNSUPPORTED, "act_layout");
	bad = good;
	bad.request.struct_size = 2;
	expect_refused(&bad, HUMMING_E_INVALID, "request");
}

static void
test_quant__what_the_kernel_cannot_check_is_refused(void **state)
{
	struct matrix matrix;
	struct humming_quant_args good;

	(void)state;
	matrix_init(&matrix, HUMMING_TYPE_E4M3, 16);
	good = matrix.args;
	matrix.args.k = 12;
	expect_refused(&matrix, HUMMING_E_INVALID, "k = 12");
	matrix.args = good;
	matrix.args.k = 0;
	expect_refused(&matrix, HUMMING_E_INVALID, "k = 0");
	matrix.args = good;
	matrix.args.x = NULL;
	expect_refused(&matrix, HUMMING_E_INVALID, "x is NULL");
	matrix.args = good;
	matrix.args.q = matrix.q + 8;
	expect_refused(&matrix, HUMMING_E_INVALID, "q is not 16-byte");
	matrix.args = good;
	matrix.args.scale = NULL;
	expect_refused(&matrix, HUMMING_E_INVALID, "scale is NULL");
	matrix.args = good;
	matrix.args.ldx = 20;
	expect_refused(&matrix, HUMMING_E_INVALID, "ldx = 20");
	matrix.args = good;
	matrix.args.ldq = 8;
	expect_refused(&matrix, HUMMING_E_INVALID, "ldq = 8");
	matrix.args = good;
	matrix.args.reserved = 1;
	expect_refused(&matrix, HUMMING_E_INVALID, "reserved");
	matrix.args = good;
	matrix.request.epilogue = HUMMING_EPILOGUE_SILU_MUL;
	matrix.args.ldx = 24; /* gate and up are 32 */
	expect_refused(&matrix, HUMMING_E_INVALID, "at least 32");
	matrix.args.m = 0;
	assert_int_equal(humming_quant_reference(&matrix.request, &matrix.args),
	    HUMMING_OK);
}

/* ---- the kernel ---- */

struct fixture {
	atomic_uint n_wants;
	struct hm_request last;
	struct fake_daemon *daemon;
	struct humming_client *client;
	struct humming_device *device;
	int context;
};

/* On the daemon's thread, where cmocka's checks must not be used. */
static void
serve_kernel(struct fixture *fixture, int fd, uint32_t id,
    const struct hm_get *get)
{
	struct hm_kernel_reply reply;
	struct hm_errbuf why = {.text = ""};
	struct hm_config none = {.family = 0};
	const struct hm_config *config = &none;
	struct hm_plan plan;
	int error = hm_plan_compute(&get->requests[0], &plan, &why);

	atomic_fetch_add(&fixture->n_wants, get->n_requests);
	fixture->last = get->requests[0];
	if (error == HM_OK)
		config = &plan.rows[0].config;
	fake_reply_init(&reply, 0, config, sizeof *config);
	memcpy(reply.meta.config_words, config, sizeof *config);
	if (error != HM_OK) {
		reply.status = HM_REPLY_UNSUPPORTED;
		reply.image_bytes = 0;
		(void)snprintf(reply.message, sizeof reply.message, "%.100s",
		    why.text);
	}
	fake_send_kernel(fd, id, &reply, config, reply.image_bytes, -1);
}

static void
serve(int fd, unsigned number, void *payload)
{
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
		serve_kernel(payload, fd, frame.request_id, &get);
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
	fake_cuda.is_quant = 1;
	fake_cuda.context = &fixture->context;
	assert_int_equal(humming_device_open(0, &fixture->device), HUMMING_OK);
	fixture->daemon = fake_daemon_new(serve, fixture);
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

static struct humming_quant *
open_quant(struct fixture *fixture, struct matrix *matrix)
{
	struct humming_quant *quant = NULL;

	assert_int_equal(humming_quant_open(fixture->device, fixture->client,
			     &matrix->request, &quant),
	    HUMMING_OK);
	return quant;
}

static void
test_quant_open__one_kernel_is_asked_for_and_serves_all_sizes(void **state)
{
	struct fixture *fixture = *state;
	struct humming_quant *quant = NULL;
	struct matrix matrix;

	matrix_init(&matrix, HUMMING_TYPE_E5M2, 1000);
	matrix.request.w_type = HUMMING_TYPE_UINT(4); /* a gemm's */
	matrix.request.n = 4096;
	matrix.request.epilogue = HUMMING_EPILOGUE_SILU_MUL;
	quant = open_quant(fixture, &matrix);
	assert_int_equal(atomic_load(&fixture->n_wants), 1);
	assert_int_equal(fixture->last.operation, HM_OPERATION_QUANT);
	assert_int_equal(fixture->last.a_type, HM_TYPE_E5M2);
	assert_int_equal(fixture->last.c_type, HM_TYPE_BF16);
	assert_int_equal(fixture->last.act_scale, HM_ACT_SCALE_TOKEN);
	assert_int_equal(fixture->last.epilogue, HM_EPILOGUE_SILU_MUL);
	assert_int_equal(fixture->last.w_type, 0);
	assert_int_equal(fixture->last.n, 0);
	assert_int_equal(fixture->last.target.cc, 90);
	assert_int_equal(fixture->last.target.suffix, 'a');
	matrix.args.m = 77;
	assert_int_equal(humming_quant_launch(quant, &matrix.args, fixture),
	    HUMMING_OK);
	assert_int_equal(fake_cuda.launch.grid_x, 77);
	assert_int_equal(fake_cuda.launch.grid_y, 1);
	assert_int_equal(fake_cuda.launch.block_x, 256);
	assert_int_equal(fake_cuda.launch.smem_bytes, 0);
	assert_ptr_equal(fake_cuda.launch.stream, fixture);
	assert_int_equal(fake_cuda.launch.n_attributes, 1);
	assert_int_equal(fake_cuda.attributes[0].id, HM_CUDA_LAUNCH_PDL);
	assert_int_equal(fake_cuda.attributes[0].value.allowed, 1);
	assert_int_equal(fake_cuda.quant_params.x, (uintptr_t)matrix.x);
	assert_int_equal(fake_cuda.quant_params.q, (uintptr_t)matrix.q);
	assert_int_equal(fake_cuda.quant_params.scale, (uintptr_t)matrix.scale);
	assert_int_equal(fake_cuda.quant_params.m, 77);
	assert_int_equal(fake_cuda.quant_params.k, 1000);
	assert_int_equal(fake_cuda.quant_params.ldx, 2000);
	assert_int_equal(fake_cuda.quant_params.ldq, 1000);
	assert_int_equal(fake_cuda.quant_params.scale_step, 1);
	humming_quant_close(quant);
	assert_int_equal(fake_cuda.n_unloaded, 1);
}

static void
test_quant_launch__groups_share_ctas(void **state)
{
	struct fixture *fixture = *state;
	struct humming_quant *quant = NULL;
	struct matrix matrix;

	matrix_init(&matrix, HUMMING_TYPE_SINT(8), 1000);
	matrix.request.c_type = HUMMING_TYPE_F16;
	matrix.request.act_scale = HUMMING_ACT_GROUP;
	matrix.request.act_layout = 1;
	quant = open_quant(fixture, &matrix);
	assert_int_equal(fixture->last.act_scale, HM_ACT_SCALE_GROUP);
	assert_int_equal(fixture->last.act_group, 128);
	matrix.args.m = 5; /* 40 pairs, 32 a CTA */
	assert_int_equal(humming_quant_launch(quant, &matrix.args, NULL),
	    HUMMING_OK);
	assert_int_equal(fake_cuda.launch.grid_x, 2);
	assert_int_equal(fake_cuda.quant_params.scale_step, 1);
	assert_int_equal(fake_cuda.quant_params.scale_group_step, 5);
	matrix.args.scale_group_step = 8;
	assert_int_equal(humming_quant_launch(quant, &matrix.args, NULL),
	    HUMMING_OK);
	assert_int_equal(fake_cuda.quant_params.scale_group_step, 8);
	humming_quant_close(quant);
}

static void
test_quant_launch__nothing_is_launched_for_nothing_or_nonsense(void **state)
{
	struct fixture *fixture = *state;
	struct humming_quant *quant = NULL;
	struct matrix matrix;

	matrix_init(&matrix, HUMMING_TYPE_E4M3, 64);
	quant = open_quant(fixture, &matrix);
	matrix.args.m = 0;
	assert_int_equal(humming_quant_launch(quant, &matrix.args, NULL),
	    HUMMING_OK);
	matrix.args.m = 1;
	matrix.args.q = matrix.q + 1;
	assert_int_equal(humming_quant_launch(quant, &matrix.args, NULL),
	    HUMMING_E_INVALID);
	matrix.args.q = matrix.q;
	assert_int_equal(humming_quant_launch(NULL, &matrix.args, NULL),
	    HUMMING_E_INVALID);
	assert_int_equal(humming_quant_launch(quant, NULL, NULL),
	    HUMMING_E_INVALID);
	assert_int_equal(fake_cuda.n_launches, 0);
	humming_quant_close(quant);
}

/* fp8 came with sm_89; integers are made everywhere. */
static void
test_quant_open__an_old_gpu_makes_integers_only(void **state)
{
	struct fixture *fixture = *state;
	struct humming_quant *quant = NULL;
	struct matrix matrix;

	matrix_init(&matrix, HUMMING_TYPE_E4M3, 64);
	matrix.request.target_cc = 80;
	assert_int_equal(humming_quant_open(fixture->device, fixture->client,
			     &matrix.request, &quant),
	    HUMMING_E_UNSUPPORTED);
	assert_null(quant);
	assert_non_null(strstr(humming_gemm_last_error(), "sm_89"));
	assert_int_equal(fixture->last.target.cc, 80);
	matrix.request.a_type = HUMMING_TYPE_SINT(8);
	quant = open_quant(fixture, &matrix);
	assert_int_equal(humming_quant_launch(quant, &matrix.args, NULL),
	    HUMMING_OK);
	assert_int_equal(fake_cuda.launch.n_attributes, 0); /* no PDL there */
	humming_quant_close(quant);
}

static void
test_quant_open__senseless_arguments_are_refused(void **state)
{
	struct fixture *fixture = *state;
	struct humming_quant *quant = NULL;
	struct matrix matrix;

	matrix_init(&matrix, HUMMING_TYPE_BF16, 64);
	assert_int_equal(humming_quant_open(fixture->device, fixture->client,
			     &matrix.request, &quant),
	    HUMMING_E_UNSUPPORTED);
	matrix.request.a_type = HUMMING_TYPE_E4M3;
	assert_int_equal(
	    humming_quant_open(NULL, fixture->client, &matrix.request, &quant),
	    HUMMING_E_INVALID);
	assert_int_equal(humming_quant_open(fixture->device, fixture->client,
			     &matrix.request, NULL),
	    HUMMING_E_INVALID);
	assert_null(quant);
	assert_int_equal(atomic_load(&fixture->n_wants), 0);
	humming_quant_close(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_quant_reference__known_values_have_their_codes),
	    cmocka_unit_test(
		test_quant_reference__every_value_goes_to_the_nearest_code),
	    cmocka_unit_test(
		test_quant_reference__scale_is_the_largest_divided),
	    cmocka_unit_test(
		test_quant_reference__nothing_but_zeros_has_scale_one),
	    cmocka_unit_test(
		test_quant_reference__the_smallest_numbers_meet_the_floor),
	    cmocka_unit_test(
		test_quant_reference__nan_and_infinity_show_in_the_scale),
	    cmocka_unit_test(
		test_quant_reference__groups_have_scales_of_their_own),
	    cmocka_unit_test(
		test_quant_reference__silu_mul_multiplies_gate_and_up),
	    cmocka_unit_test(
		test_quant_reference__padding_between_tokens_stays),
	    cmocka_unit_test(test_quant__formats_without_a_kernel_are_refused),
	    cmocka_unit_test(
		test_quant__what_the_kernel_cannot_check_is_refused),
	    TEST(test_quant_open__one_kernel_is_asked_for_and_serves_all_sizes),
	    TEST(test_quant_launch__groups_share_ctas),
	    TEST(
		test_quant_launch__nothing_is_launched_for_nothing_or_nonsense),
	    TEST(test_quant_open__an_old_gpu_makes_integers_only),
	    TEST(test_quant_open__senseless_arguments_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
