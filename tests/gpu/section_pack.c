/* SPDX-License-Identifier: Apache-2.0 */
/*
 * section_pack.c - the packing kernel against the library's packer, byte for
 * byte, over guard bytes, and how fast it is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "client/gemm_error.h"
#include "client/number.h"
#include "client/pack_call.h"
#include "jit/launch.h"
#include "jit/plan_impl.h"
#include "jit/spec.h"
#include "plain.h"
#include "sections.h"

/* Poison behind every buffer, and in it before a run. */
#define PACK_GUARD_BYTES 256u
#define PACK_POISON      0xa5
#define PACK_N_SOURCES   6u

/* A source on both sides, and what the two packers made of it. */
struct pack {
	struct session *session;
	struct humming_weight_source host, device;
	struct humming_weight_sizes sizes;
	unsigned char *expected; /* packed, guard, rowmul, guard, bias, guard */
	unsigned char *d_result; /* the same; device memory */
	uint32_t *d_problems;
	size_t n_result, at_rowmul, at_bias;
};

static void *
pack_alloc(size_t n_bytes)
{
	void *memory = malloc(n_bytes);

	if (memory != NULL)
		return memory;
	printf("Bail out! no memory\n");
	fflush(stdout);
	_exit(3);
}

static uint32_t
pack_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

static size_t
pack_type_bytes(uint32_t type)
{
	return type == HUMMING_TYPE_F32 ? 4 : type == HUMMING_TYPE_E8M0 ? 1 : 2;
}

/* Scales of a wide span, some zero, some negative, some subnormal. */
static void
pack_fill_floats(unsigned char *bytes, uint32_t type, size_t n, uint64_t *state)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t r = pack_random(state);
		double value = (1 + r % 4096 / 4096.0) *
			       hm_number_power(-(int)(r >> 12 & 15));
		float single = 0;
		uint16_t half = 0;

		if ((r >> 16 & 31) == 0)
			value = 0;
		if ((r >> 21 & 15) == 0)
			value = -value;
		if ((r >> 25 & 15) == 0)
			value *= hm_number_power(
			    type == HUMMING_TYPE_F16 ? -12 : -120);
		single = (float)value;
		half = hm_number_encode16(type, value);
		if (type == HUMMING_TYPE_F32)
			memcpy(bytes + 4 * i, &single, 4);
		else
			memcpy(bytes + 2 * i, &half, 2);
	}
}

static const void *
pack_upload(const void *from, size_t n_bytes)
{
	void *d_memory = ops_alloc(n_bytes);

	ops_copy_in(d_memory, from, n_bytes);
	return d_memory;
}

/* Plain data for `host`, whose form is set, and a copy of it on the GPU. */
static void
pack_fill(struct pack *pack)
{
	struct humming_weight_source *host = &pack->host;
	size_t n_codes = (size_t)host->n * host->k;
	size_t n_groups =
	    (size_t)host->n *
	    (host->group != 0 ? (host->k + host->group - 1) / host->group : 1);
	size_t code_bytes =
	    host->code_layout == HUMMING_CODES_INT32 ? n_codes / 2 : n_codes;
	size_t zero_bytes = host->zero == HUMMING_ZERO_INT
				? n_groups
				: n_groups * pack_type_bytes(host->zero_type);
	unsigned char *codes = pack_alloc(code_bytes);
	unsigned char *scales = pack_alloc(n_groups * 4);
	unsigned char *zeros = pack_alloc(n_groups * 4);
	float *bias = pack_alloc(host->n * sizeof *bias);
	uint64_t state = host->n + host->k * 3 + host->group + host->zero;

	for (size_t i = 0; i < code_bytes; i++)
		codes[i] = (unsigned char)(pack_random(&state) &
					   (code_bytes == n_codes ? 15 : 255));
	pack_fill_floats(scales, host->scale_type, n_groups, &state);
	if (host->zero == HUMMING_ZERO_INT)
		for (size_t i = 0; i < n_groups; i++)
			zeros[i] = (unsigned char)(pack_random(&state) % 20);
	else
		pack_fill_floats(zeros, host->zero_type, n_groups, &state);
	for (uint32_t i = 0; i < host->n; i++)
		bias[i] = (float)(pack_random(&state) % 1000) / 16 - 30;
	host->codes = codes;
	host->scales = scales;
	host->zeros = host->zero != HUMMING_ZERO_NONE ? zeros : NULL;
	host->bias = bias;
	pack->device = *host;
	pack->device.codes = pack_upload(codes, code_bytes);
	pack->device.scales =
	    pack_upload(scales, n_groups * pack_type_bytes(host->scale_type));
	pack->device.zeros =
	    host->zeros != NULL ? pack_upload(zeros, zero_bytes) : NULL;
	pack->device.bias = pack_upload(bias, host->n * sizeof *bias);
}

/* The same of any format, from plain.c; pairs: two codes a byte. */
static void
pack_fill_plain(struct pack *pack, const struct problem_spec *spec, bool pairs)
{
	struct plain plain;
	size_t code_bytes = (size_t)spec->n * spec->k;
	size_t scale_rows = spec->n;

	plain_init(&plain, &spec->format, spec->n, spec->k, OPS_NORMAL);
	plain_source(&plain, &pack->host);
	if (pairs && format_n_codes(spec->format.weight) == 16) {
		pack->host.code_layout = HUMMING_CODES_NIBBLES;
		code_bytes /= 2;
		for (size_t i = 0; i < code_bytes; i++)
			plain.codes[i] = (uint8_t)(plain.codes[2 * i] |
						   plain.codes[2 * i + 1] << 4);
	}
	if (spec->format.scales == FORMAT_BLOCKS)
		scale_rows = (spec->n + FORMAT_BLOCK - 1) / FORMAT_BLOCK;
	else if (spec->format.scales == FORMAT_TENSOR)
		scale_rows = 1;
	pack->device = pack->host;
	pack->device.codes = pack_upload(plain.codes, code_bytes);
	pack->device.scales = pack_upload(plain.scales,
	    scale_rows * plain.n_groups *
		pack_type_bytes(pack->host.scale_type));
	pack->device.bias = pack_upload(plain.bias, spec->n * sizeof(float));
	/* What the source points to is freed with it. */
	plain.codes = NULL;
	plain.scales = NULL;
	plain.bias = NULL;
	plain_done(&plain);
}

/* The CPU's result between poison, and room for the GPU's. */
static bool
pack_expect(struct pack *pack)
{
	uint32_t nothing = 0;

	pack->sizes.struct_size = sizeof pack->sizes;
	if (humming_weight_size(&pack->host, &pack->sizes) != HUMMING_OK)
		return false;
	pack->at_rowmul = pack->sizes.packed_bytes + PACK_GUARD_BYTES;
	pack->at_bias =
	    pack->at_rowmul + pack->sizes.rowmul_bytes + PACK_GUARD_BYTES;
	pack->n_result =
	    pack->at_bias + pack->sizes.bias_bytes + PACK_GUARD_BYTES;
	pack->expected = pack_alloc(pack->n_result);
	memset(pack->expected, PACK_POISON, pack->n_result);
	pack->d_result = ops_alloc(pack->n_result);
	ops_copy_in(pack->d_result, pack->expected, pack->n_result);
	pack->d_problems = ops_alloc(sizeof nothing);
	ops_copy_in(pack->d_problems, &nothing, sizeof nothing);
	return humming_weight_pack(&pack->host, pack->expected,
		   (float *)(void *)(pack->expected + pack->at_rowmul),
		   (float *)(void *)(pack->expected + pack->at_bias)) ==
	       HUMMING_OK;
}

static void
pack_free(const void *d_memory)
{
	void *memory = NULL;

	memcpy(&memory, &d_memory, sizeof memory);
	if (memory != NULL)
		ops_free(memory);
}

static void
pack_free_host(const void *from)
{
	void *memory = NULL;

	memcpy(&memory, &from, sizeof memory);
	free(memory);
}

static void
pack_done(struct pack *pack)
{
	pack_free_host(pack->host.codes);
	pack_free_host(pack->host.scales);
	pack_free_host(pack->host.zeros);
	pack_free_host(pack->host.bias);
	free(pack->expected);
	pack_free(pack->device.codes);
	pack_free(pack->device.scales);
	pack_free(pack->device.zeros);
	pack_free(pack->device.bias);
	pack_free(pack->d_result);
	pack_free(pack->d_problems);
}

static bool
pack_config(const struct session *session, const struct problem_spec *spec,
    struct hm_config *config_out)
{
	struct hm_plan plan;

	if (!session_plan(session, spec, &session->target, &plan))
		return false;
	*config_out = hm_plan_pack_config(&plan.rows[0].config);
	return true;
}

static bool
pack_launch(struct pack *pack, const struct kernel *kernel)
{
	struct session *session = pack->session;
	struct hm_plan_row row = {.m_lo = 1, .cluster = 1};
	struct humming_packer_args args = {.struct_size = sizeof args};
	struct hm_pack_call call;
	struct hm_launch launch;

	memset(&call, 0, sizeof call);
	row.config = kernel->config;
	if (kernel->function == NULL ||
	    hm_weight_describe(&pack->device, &call.weight) != HM_OK ||
	    hm_launch_compute(&row, 1, pack->host.n, pack->host.k,
		session->info.sms, &launch) != HM_OK)
		return false;
	call.driver = session->driver;
	call.function = kernel->function;
	call.launch.block_threads = launch.threads;
	call.launch.grid_x = launch.grid_x;
	call.launch.grid_y = launch.grid_y;
	args.packed = pack->d_result;
	args.rowmul = (float *)(void *)(pack->d_result + pack->at_rowmul);
	args.bias = (float *)(void *)(pack->d_result + pack->at_bias);
	args.problems = pack->d_problems;
	return hm_pack_call(&call, &args, session->stream) == HM_OK;
}

/* Bytes that differ, guards included; all of them when there was no launch. */
static size_t
pack_compare(struct pack *pack, const struct kernel *kernel)
{
	unsigned char *result = pack_alloc(pack->n_result);
	uint32_t problems = 0;
	size_t n = 0;

	if (!pack_launch(pack, kernel)) {
		printf("# no launch: %s%s\n", kernel->why,
		    hm_gemm_errbuf()->text);
		free(result);
		return pack->n_result;
	}
	ops_wait(pack->session->stream, "pack");
	ops_copy_out(result, pack->d_result, pack->n_result);
	ops_copy_out(&problems, pack->d_problems, sizeof problems);
	for (size_t i = 0; i < pack->n_result; i++)
		n += result[i] != pack->expected[i];
	free(result);
	return n + problems;
}

/* How a checkpoint may hold the same format. */
static void
pack_set_source(struct pack *pack, const struct problem_spec *spec,
    uint32_t index)
{
	static const uint32_t types[] = {HUMMING_TYPE_BF16, HUMMING_TYPE_F16,
	    HUMMING_TYPE_F32};
	struct humming_weight_source *host = &pack->host;

	humming_weight_source_init(host, sizeof *host);
	host->n = spec->n;
	host->k = spec->k;
	host->a_type = format_a_type(&spec->format);
	host->group = spec->format.group;
	host->zero = spec->format.zero;
	host->code_layout =
	    index % 2 != 0 ? HUMMING_CODES_INT32 : HUMMING_CODES_BYTES;
	host->scale_type = types[index % 3];
	host->zero_type = types[(index + 1) % 3];
}

/* The index-th source of a format; those of u4 beside 16-bit activations vary in
 * how a checkpoint may hold them. */
static bool
pack_source(struct pack *pack, const struct problem_spec *spec, bool first,
    uint32_t index)
{
	if (first) {
		pack_set_source(pack, spec, index);
		pack_fill(pack);
	} else {
		pack_fill_plain(pack, spec, index % 2 != 0);
	}
	return pack_expect(pack);
}

/* All sources of one format and shape. */
static void
check_pack(struct session *session, const struct problem_spec *spec, bool first,
    uint32_t n_sources)
{
	struct hm_config config;
	const struct kernel *kernel = NULL;
	char target[16], shape[128], name[224];
	size_t n_bytes = 0, n_wrong = 0;

	hm_target_print(&session->target, target);
	session_describe(spec, shape, sizeof shape);
	if (!pack_config(session, spec, &config)) {
		if (!session->wanting)
			session_result(session, false, shape);
		return;
	}
	if (session->wanting) {
		kernels_want(&config, target);
		return;
	}
	kernel = kernels_find(&config, target);
	for (uint32_t i = 0; i < n_sources; i++) {
		struct pack pack;

		memset(&pack, 0, sizeof pack);
		pack.session = session;
		if (pack_source(&pack, spec, first, i))
			n_wrong += pack_compare(&pack, kernel);
		else
			n_wrong++;
		n_bytes += pack.n_result;
		pack_done(&pack);
	}
	snprintf(name, sizeof name,
	    "pack %s, %u sources: %zu of %zu bytes differ", shape, n_sources,
	    n_wrong, n_bytes);
	session_result(session, n_wrong == 0, name);
}

/* A layer of some size: bytes read and written per second. */
static void
time_pack(struct session *session, struct problem_spec spec)
{
	struct hm_config config;
	struct pack pack;
	char target[16];
	void *graph = NULL;
	float best_ms = 1e9f;
	double bytes = 0;
	bool good = true;

	if (session->wanting || !pack_config(session, &spec, &config))
		return;
	hm_target_print(&session->target, target);
	memset(&pack, 0, sizeof pack);
	pack.session = session;
	pack_set_source(&pack, &spec, 3); /* words, bf16 scales */
	pack_fill(&pack);
	good = pack_expect(&pack);
	ops_capture_begin(session->stream);
	good = good && pack_launch(&pack, kernels_find(&config, target));
	graph = ops_capture_end(session->stream);
	for (uint32_t i = 0; good && i < 10; i++) {
		float ms = ops_graph_time(graph, session->stream, "pack");

		best_ms = ms < best_ms ? ms : best_ms;
	}
	bytes = (double)spec.n * spec.k / 2 + (double)pack.sizes.packed_bytes;
	if (good)
		printf("# pack g%u %ux%u from words: %.1f us, %.0f GB/s\n",
		    spec.format.group, spec.n, spec.k, (double)best_ms * 1e3,
		    bytes / (double)best_ms * 1e-6);
	ops_graph_free(graph);
	pack_done(&pack);
}

void
section_pack_small(struct session *session)
{
	static const size_t formats[] = {0, 10, 19};

	for (size_t i = 0; i < COUNT(formats); i++) {
		struct problem_spec spec = check_format(formats[i]);

		spec.n = 200;
		spec.k = 328;
		check_pack(session, &spec, true, 2);
	}
	for (size_t i = FORMAT_N_FIRST; i < format_count(); i += 7) {
		struct problem_spec spec = check_format(i);

		spec.n = 200;
		spec.k = 336;
		check_pack(session, &spec, false, 1);
	}
}

void
section_pack(struct session *session)
{
	static const uint32_t shapes[][2] = {{256, 1024}, {8, 8}, {72, 200},
	    {1000, 992}};
	const struct problem_spec layer = {.n = 8192,
	    .k = 8192,
	    .format = {.group = 128}};

	for (size_t i = 0; i < format_count() * COUNT(shapes); i++) {
		struct problem_spec spec = check_format(i / COUNT(shapes));
		uint32_t step = format_k_step(&spec.format);
		bool first = i / COUNT(shapes) < FORMAT_N_FIRST;

		if (session->thin && i % COUNT(shapes) == 3)
			continue;

		spec.n = shapes[i % COUNT(shapes)][0];
		spec.k =
		    (shapes[i % COUNT(shapes)][1] + step - 1) / step * step;
		check_pack(session, &spec, first, first ? PACK_N_SOURCES : 2);
	}
	if (!session->thin)
		check_pack(session, &layer, true, 1);
	time_pack(session, layer);
}
