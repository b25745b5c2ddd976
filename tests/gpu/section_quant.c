/* SPDX-License-Identifier: Apache-2.0 */
/*
 * section_quant.c - the quantization kernel against the library's reference,
 * over guard bytes, and how fast it is.
 *
 * Without an epilogue the bits are the same. With silu-mul the kernel's
 * exponential is an approximation: there scales differ by at most 2^-15 of
 * themselves, codes by one step, and few of them do.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/gemm_error.h"
#include "client/number.h"
#include "client/quant.h"
#include "device_ops.h"
#include "jit/launch.h"
#include "jit/spec.h"
#include "kernels.h"
#include "sections.h"

/* In every buffer before a run; also between and behind what is written. */
#define QUANT_POISON      0xa5
#define QUANT_GUARD_BYTES 256u

#define QUANT_SCALE_BOUND 0x1p-15f
/* One code in so many may differ: the rounding boundaries of s8 are 2^-7 apart,
 * y is off by 2^-16. */
#define QUANT_FEW 128u

/* Launches in a timed graph. */
#define QUANT_N_TIMED 20u

/* What tokens are made of; they take turns. */
enum quant_kind {
	QUANT_ORDINARY = 0,
	QUANT_WIDE = 1,
	QUANT_ZEROS = 2,
	QUANT_TINY = 3,
	QUANT_ANY = 4,
	QUANT_INFINITE = 5,
	QUANT_NAN = 6,
	QUANT_N_KINDS = 7
};

/* A matrix on both sides. Results: q, guard, scales, guard. */
struct quant_case {
	struct session *session;
	const struct kernel *kernel;
	struct humming_kernel_request request;
	struct hm_quant_format format;
	struct humming_quant_args host, device;
	bool pdl;
	size_t n_x, n_result, at_scale;
	unsigned char *expected; /* from the reference */
	unsigned char *result;   /* from the GPU */
};

static void *
quant_alloc(size_t n_bytes)
{
	void *memory = aligned_alloc(16, (n_bytes + 15) / 16 * 16);

	if (memory != NULL)
		return memory;
	printf("Bail out! no memory\n");
	fflush(stdout);
	_exit(3);
}

static uint32_t
quant_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

static uint16_t
quant_value(uint32_t type, uint32_t kind, uint64_t *state)
{
	uint32_t r = quant_random(state);
	int range = kind == QUANT_WIDE ? 12 : kind == QUANT_ANY ? 200 : 3;
	int least = -range / 2;
	double value = 0;

	if (kind == QUANT_TINY)
		least = type == HUMMING_TYPE_F16 ? -27 : -135;
	if (kind == QUANT_ZEROS || (r >> 12 & 15) == 0)
		return (uint16_t)(r & 0x8000u);
	value = (1 + (r & 0xfff) / 4096.0) *
		hm_number_power(
		    (int)(quant_random(state) % (uint32_t)range) + least);
	return hm_number_encode16(type, (r >> 16 & 1) != 0 ? -value : value);
}

static void
quant_fill(const struct quant_case *c, uint16_t *x, uint32_t columns)
{
	const struct humming_quant_args *host = &c->host;
	uint32_t type = c->format.c_type;
	uint64_t state = host->m * 31 + host->k;

	for (uint32_t token = 0; token < host->m; token++) {
		uint16_t *row = x + (size_t)token * host->ldx;
		uint32_t kind = (token + host->m / 2) % QUANT_N_KINDS;

		for (uint32_t i = 0; i < columns; i++)
			row[i] = quant_value(type, kind, &state);
		if (kind == QUANT_INFINITE)
			row[host->k / 2] =
			    type == HUMMING_TYPE_F16 ? 0xfc00 : 0xff80;
		if (kind == QUANT_NAN)
			row[host->k - 1] = 0xffc1;
	}
}

/* Device memory where every pointer of the host's arguments has a twin. */
static void
quant_upload(struct quant_case *c)
{
	unsigned char *d_result = ops_alloc(c->n_result);
	void *d_x = ops_alloc(c->n_x);

	ops_copy_in(d_x, c->host.x, c->n_x);
	ops_copy_in(d_result, c->expected, c->n_result);
	c->device = c->host;
	c->device.x = d_x;
	c->device.q = d_result;
	c->device.scale = (float *)(void *)(d_result + c->at_scale);
}

/* Strides with room between tokens; scales k-major for even m, else m-major. */
static void
quant_prepare(struct quant_case *c, uint32_t m, uint32_t k)
{
	struct humming_quant_args *host = &c->host;
	uint32_t columns = c->format.silu_mul ? 2 * k : k;
	uint32_t n_groups = (k + HM_QUANT_GROUP - 1) / HM_QUANT_GROUP;
	size_t n_scales = (size_t)(m + 1) * (n_groups + 1);
	uint16_t *x = NULL;

	host->struct_size = sizeof *host;
	host->m = m;
	host->k = k;
	host->ldx = columns + m % 3 * 8;
	host->ldq = k + m % 2 * 8;
	host->scale_step = m % 2 != 0 ? 1 : n_groups + 1;
	host->scale_group_step = m % 2 != 0 ? m + 1 : 1;
	c->pdl = m % 2 != 0;
	c->n_x = (size_t)m * host->ldx * sizeof *x;
	c->at_scale =
	    ((size_t)m * host->ldq + QUANT_GUARD_BYTES + 15) / 16 * 16;
	c->n_result =
	    c->at_scale + n_scales * sizeof *host->scale + QUANT_GUARD_BYTES;
	x = quant_alloc(c->n_x);
	memset(x, 0, c->n_x);
	quant_fill(c, x, columns);
	c->expected = quant_alloc(c->n_result);
	c->result = quant_alloc(c->n_result);
	memset(c->expected, QUANT_POISON, c->n_result);
	host->x = x;
	host->q = c->expected;
	host->scale = (float *)(void *)(c->expected + c->at_scale);
	quant_upload(c);
}

static void
quant_done(struct quant_case *c)
{
	void *memory = NULL;

	memcpy(&memory, &c->host.x, sizeof memory);
	free(memory);
	memcpy(&memory, &c->device.x, sizeof memory);
	ops_free(memory);
	ops_free(c->device.q);
	free(c->expected);
	free(c->result);
}

static bool
quant_run(const struct quant_case *c)
{
	struct session *session = c->session;
	struct hm_plan_row row = {.m_lo = 1, .cluster = 1};
	struct humming_quant_args checked;
	struct hm_quant_call call;
	struct hm_launch launch;

	memset(&call, 0, sizeof call);
	row.config = c->kernel->config;
	if (c->kernel->function == NULL ||
	    hm_launch_compute(&row, c->device.m, c->device.k, c->device.k,
		session->info.sms, &launch) != HM_OK ||
	    hm_quant_check(&c->format, &c->device, &checked) != HM_OK)
		return false;
	call.driver = session->driver;
	call.function = c->kernel->function;
	call.launch.block_threads = launch.threads;
	call.launch.grid_x = launch.grid_x;
	call.launch.dynamic_smem_bytes = launch.smem_bytes;
	call.launch.pdl = c->pdl;
	return hm_quant_call(&call, &checked, session->stream) == HM_OK;
}

/* ---- comparison ---- */

/* Codes of a type in the order of their values. */
static int
quant_order(uint32_t type, uint8_t code)
{
	if (type == HUMMING_TYPE_SINT(8))
		return code < 128 ? code : code - 256;
	return code < 128 ? code : 128 - code;
}

static bool
quant_same_scale(float expected, float result)
{
	if (memcmp(&expected, &result, sizeof result) == 0)
		return true;
	return isfinite(expected) &&
	       fabsf(expected - result) <= QUANT_SCALE_BOUND * expected;
}

/* Of one token: what is wrong. Adds to n_off the codes that are one step off.
 * Scales that agree are made equal, so that the bytes may be compared. */
static size_t
quant_compare_token(struct quant_case *c, uint32_t token, size_t *n_off)
{
	const struct humming_quant_args *host = &c->host;
	const uint8_t *expected =
	    (const uint8_t *)host->q + (size_t)token * host->ldq;
	uint8_t *result = c->result + (size_t)token * host->ldq;
	float *scales = (float *)(void *)(c->result + c->at_scale);
	uint32_t part =
	    c->format.act_scale == HUMMING_ACT_GROUP ? HM_QUANT_GROUP : host->k;
	size_t n_wrong = 0;

	for (uint32_t k = 0; k < host->k; k++) {
		size_t at = (size_t)token * host->scale_step +
			    (size_t)(k / part) * host->scale_group_step;
		int off = quant_order(c->format.a_type, expected[k]) -
			  quant_order(c->format.a_type, result[k]);

		if (!quant_same_scale(host->scale[at], scales[at]))
			n_wrong++;
		scales[at] = host->scale[at];
		if (off < -1 || off > 1)
			n_wrong++;
		*n_off += off != 0;
		result[k] = expected[k];
	}
	return n_wrong;
}

/* How much is wrong; everything when there was no launch. */
static size_t
quant_compare(struct quant_case *c)
{
	size_t n_wrong = 0, n_off = 0;

	if (humming_quant_reference(&c->request, &c->host) != HUMMING_OK ||
	    !quant_run(c)) {
		printf("# no launch: %s%s\n", c->kernel->why,
		    humming_gemm_last_error());
		return c->n_result;
	}
	ops_wait(c->session->stream, "quant");
	ops_copy_out(c->result, c->device.q, c->n_result);
	for (uint32_t token = 0; c->format.silu_mul && token < c->host.m;
	     token++)
		n_wrong += quant_compare_token(c, token, &n_off);
	if (n_off > 4 + (size_t)c->host.m * c->host.k / QUANT_FEW)
		n_wrong += n_off;
	for (size_t i = 0; i < c->n_result; i++)
		n_wrong += c->result[i] != c->expected[i];
	return n_wrong;
}

/* ---- what is run ---- */

/* The index-th format, or false. */
static bool
quant_format(uint32_t index, struct humming_kernel_request *request,
    struct hm_config *config)
{
	static const uint32_t made[] = {HUMMING_TYPE_E4M3, HUMMING_TYPE_E5M2,
	    HUMMING_TYPE_SINT(8)};
	uint32_t act = index / 8, out = index / 4 % 2;
	bool grouped = index / 2 % 2 != 0, silu_mul = index % 2 != 0;

	if (act >= COUNT(made))
		return false;
	request->struct_size = sizeof *request;
	request->operation = HUMMING_OPERATION_QUANT;
	request->a_type = made[act];
	request->c_type = out != 0 ? HUMMING_TYPE_F16 : HUMMING_TYPE_BF16;
	request->act_scale = grouped ? HUMMING_ACT_GROUP : HUMMING_ACT_TOKEN;
	request->epilogue =
	    silu_mul ? HUMMING_EPILOGUE_SILU_MUL : HUMMING_EPILOGUE_NONE;
	*config = (struct hm_config){
	    .family = HM_FAMILY_QUANT,
	    .act = HM_CONFIG_ACT_E4M3 + act,
	    .out = out,
	    .act_scale =
		grouped ? HM_CONFIG_ACT_SCALE_GROUP : HM_CONFIG_ACT_SCALE_TOKEN,
	    .epi = silu_mul ? HM_CONFIG_EPI_SILU_MUL : HM_CONFIG_EPI_NONE,
	    .threads = 256,
	};
	return true;
}

static void
quant_describe(const struct hm_config *config, char *text, size_t size)
{
	static const char *const made[] = {"e4m3", "e5m2", "s8"};

	snprintf(text, size, "%s of %s per %s%s",
	    made[config->act - HM_CONFIG_ACT_E4M3],
	    config->out == HM_CONFIG_ACT_F16 ? "f16" : "bf16",
	    config->act_scale == HM_CONFIG_ACT_SCALE_GROUP ? "128" : "token",
	    config->epi == HM_CONFIG_EPI_SILU_MUL ? ", silu-mul" : "");
}

static bool
quant_case_init(struct quant_case *c, struct session *session, uint32_t index)
{
	struct hm_config config;
	char target[16];

	memset(c, 0, sizeof *c);
	c->session = session;
	if (!quant_format(index, &c->request, &config))
		return false;
	hm_target_print(&session->target, target);
	if (session->wanting)
		kernels_want(&config, target);
	else
		c->kernel = kernels_find(&config, target);
	return hm_quant_describe(&c->request, &c->format) == HM_OK;
}

static void
check_quant(struct session *session, uint32_t index)
{
	static const uint32_t shapes[][2] = {{1, 8}, {7, 136}, {14, 1000},
	    {16, 5120}, {9, 12296}, {2, 16392}, {7, 28672}, {1, 65536},
	    {300, 2048}};
	size_t n_wrong = 0, n_bytes = 0;
	struct quant_case c;
	char format[64], name[160];

	for (size_t i = 0; i < COUNT(shapes); i++) {
		if (!quant_case_init(&c, session, index) || session->wanting)
			return;
		quant_prepare(&c, shapes[i][0], shapes[i][1]);
		n_wrong += quant_compare(&c);
		n_bytes += c.n_result;
		quant_done(&c);
	}
	quant_describe(&c.kernel->config, format, sizeof format);
	snprintf(name, sizeof name, "quant to %s: %zu of %zu bytes wrong",
	    format, n_wrong, n_bytes);
	session_result(session, n_wrong == 0, name);
}

/* Launches one behind the other, with and without programmatic launch. */
static void
time_quant(struct session *session, uint32_t index, uint32_t m, uint32_t k)
{
	float best_ms[2] = {1e9f, 1e9f};
	struct quant_case c;
	char format[64];
	bool good = true;
	double bytes = 0;

	if (!quant_case_init(&c, session, index) || session->wanting)
		return;
	quant_prepare(&c, m, k);
	for (int pdl = 0; pdl < 2; pdl++) {
		void *graph = NULL;

		c.pdl = pdl != 0;
		ops_capture_begin(session->stream);
		for (uint32_t i = 0; i < QUANT_N_TIMED; i++)
			good = good && quant_run(&c);
		graph = ops_capture_end(session->stream);
		for (uint32_t i = 0; good && i < 10; i++) {
			float ms =
			    ops_graph_time(graph, session->stream, "quant");

			best_ms[pdl] = ms < best_ms[pdl] ? ms : best_ms[pdl];
		}
		ops_graph_free(graph);
	}
	bytes = (double)m * k * (c.format.silu_mul ? 5 : 3) * QUANT_N_TIMED;
	quant_describe(&c.kernel->config, format, sizeof format);
	if (good)
		printf("# quant to %s, m %u k %u: %.2f us, with PDL %.2f us, "
		       "%.0f GB/s\n",
		    format, m, k, (double)best_ms[0] * 1e3 / QUANT_N_TIMED,
		    (double)best_ms[1] * 1e3 / QUANT_N_TIMED,
		    bytes / (double)best_ms[1] * 1e-6);
	quant_done(&c);
}

void
section_quant(struct session *session)
{
	/* e4m3 of bf16: per token and per 128, each with silu-mul; s8 */
	static const uint32_t timed[] = {0, 1, 2, 3, 16};
	static const uint32_t shapes[][2] = {{1, 5120}, {16, 5120}, {1, 28672},
	    {512, 8192}, {8192, 8192}, {2048, 28672}};
	struct quant_case c;

	for (uint32_t i = 0; quant_case_init(&c, session, i); i++)
		check_quant(session, i);
	for (size_t i = 0; i < COUNT(timed) * COUNT(shapes); i++)
		time_quant(session, timed[i / COUNT(shapes)],
		    shapes[i % COUNT(shapes)][0], shapes[i % COUNT(shapes)][1]);
}
