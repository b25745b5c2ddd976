/* SPDX-License-Identifier: Apache-2.0 */
/*
 * problem.c - weights are made and packed on the CPU by the library's packer,
 * activations and reference on the GPU.
 *
 * Codes are uniform over 0..15. Group scales are 2^-5 * (0.25..1) times a
 * factor of the row; one in 64 is zero, one in 64 a thousand times smaller, one
 * in 16 negative (KERNELS.md 9: spans, zero groups). Outputs then stay near 10
 * for every k used here, inside f16.
 */
#include "problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/gemm_error.h"
#include "client/number.h"

/* Multiply-adds of a reference over all tokens: about 0.1 s. */
#define PROBLEM_MOST_WORK 6e10
#define PROBLEM_SPREAD    256u

/* Host side of a set of weights, while it is made. */
struct plain {
	uint8_t *codes;
	uint16_t *scales; /* groups: of the activation's type */
	float *row_scales;
	uint8_t *zero_codes;
	uint16_t *zeros;
	float *bias;
	float *scale_values,
	    *zero_values; /* as the GPU's reference wants them */
	uint32_t n_groups;
};

static uint32_t
problem_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

static void *
problem_alloc(size_t n, size_t size)
{
	void *memory = calloc(n != 0 ? n : 1, size);

	if (memory == NULL) {
		printf("Bail out! no memory\n");
		fflush(stdout);
		_exit(3);
	}
	return memory;
}

static uint32_t
problem_type(const struct problem_spec *spec)
{
	return spec->act == HM_CONFIG_ACT_F16 ? HUMMING_TYPE_F16
					      : HUMMING_TYPE_BF16;
}

static double
plain_random_scale(uint64_t *state, double row_factor)
{
	uint32_t r = problem_random(state);
	double scale = (0.25 + 0.75 * (r % 1024) / 1024.0) / 32 * row_factor;

	if (r >> 10 & 0xf)
		return r >> 14 & 0x3f ? scale : scale / 1024;
	return (r >> 14 & 3) != 0 ? -scale : 0;
}

/* One group's scale and zero point, in every form that somebody wants. */
static void
plain_set_group(struct plain *plain, const struct problem_spec *spec, size_t at,
    uint64_t *state, double row_factor)
{
	uint32_t type = problem_type(spec);
	bool whole = spec->inputs != OPS_NORMAL;
	double scale = whole ? 1 : plain_random_scale(state, row_factor);
	double zero = 8;

	if (spec->group == 0) {
		plain->row_scales[at] = (float)scale;
		scale = (double)plain->row_scales[at];
	} else {
		plain->scales[at] = hm_number_encode16(type, scale);
		scale = hm_number_decode16(type, plain->scales[at]);
	}
	if (spec->zero == HM_CONFIG_ZERO_INT) {
		plain->zero_codes[at] = problem_random(state) & 15;
		zero = plain->zero_codes[at];
	} else if (spec->zero == HM_CONFIG_ZERO_FLOAT) {
		zero = whole
			   ? problem_random(state) % 16
			   : 7.5 + (problem_random(state) % 4096) / 1024.0 - 2;
		plain->zeros[at] = hm_number_encode16(type, zero);
		zero = hm_number_decode16(type, plain->zeros[at]);
	}
	plain->scale_values[at] = (float)scale;
	plain->zero_values[at] = (float)zero;
}

static void
plain_init(struct plain *plain, const struct problem_spec *spec)
{
	uint32_t groups =
	    spec->group != 0 ? (spec->k + spec->group - 1) / spec->group : 1;
	size_t n_scales = (size_t)spec->n * groups;
	size_t n_codes = (size_t)spec->n * spec->k;
	uint64_t state = 12345 + spec->n * 3 + spec->k + spec->group * 7 +
			 spec->zero * 5 + spec->act;

	plain->n_groups = groups;
	plain->codes = problem_alloc(n_codes, 1);
	plain->scales = problem_alloc(n_scales, 2);
	plain->row_scales = problem_alloc(n_scales, 4);
	plain->zero_codes = problem_alloc(n_scales, 1);
	plain->zeros = problem_alloc(n_scales, 2);
	plain->bias = problem_alloc(spec->n, 4);
	plain->scale_values = problem_alloc(n_scales, 4);
	plain->zero_values = problem_alloc(n_scales, 4);
	for (size_t i = 0; i < n_codes; i += 4) { /* k is a multiple of 8 */
		uint32_t r = problem_random(&state);

		for (uint32_t j = 0; j < 4; j++)
			plain->codes[i + j] = r >> (4 + 4 * j) & 15;
	}
	for (uint32_t n = 0; n < spec->n; n++) {
		double row_factor =
		    hm_number_power(-(int)(problem_random(&state) % 3));

		for (uint32_t g = 0; g < groups; g++)
			plain_set_group(plain, spec, (size_t)n * groups + g,
			    &state, row_factor);
		plain->bias[n] =
		    spec->inputs != OPS_NORMAL
			? (float)(problem_random(&state) % 64) - 32
			: (float)(problem_random(&state) % 4096) / 512 - 4;
	}
}

static void
plain_done(struct plain *plain)
{
	free(plain->codes);
	free(plain->scales);
	free(plain->row_scales);
	free(plain->zero_codes);
	free(plain->zeros);
	free(plain->bias);
	free(plain->scale_values);
	free(plain->zero_values);
}

static void *
problem_upload(const void *from, size_t n_bytes)
{
	void *d_memory = ops_alloc(n_bytes);

	ops_copy_in(d_memory, from, n_bytes);
	return d_memory;
}

static void
problem_pack(struct problem *problem, const struct plain *plain)
{
	const struct problem_spec *spec = &problem->spec;
	struct humming_weight_source source;
	struct humming_weight_sizes sizes = {.struct_size = sizeof sizes};
	void *packed = NULL;
	float *rowmul = NULL;
	float *bias = NULL;
	int error = HM_OK;

	humming_weight_source_init(&source, sizeof source);
	source.n = spec->n;
	source.k = spec->k;
	source.a_type = problem_type(spec);
	source.group = spec->group;
	source.zero = spec->zero;
	source.codes = plain->codes;
	source.scales = plain->scales;
	if (spec->group == 0) {
		source.scale_type = HUMMING_TYPE_F32;
		source.scales = plain->row_scales;
	}
	if (spec->zero == HM_CONFIG_ZERO_INT)
		source.zeros = plain->zero_codes;
	else if (spec->zero == HM_CONFIG_ZERO_FLOAT)
		source.zeros = plain->zeros;
	source.bias = plain->bias;
	error = humming_weight_size(&source, &sizes);
	packed = problem_alloc(sizes.packed_bytes, 1);
	rowmul = problem_alloc(sizes.rowmul_bytes, 1);
	bias = problem_alloc(sizes.bias_bytes, 1);
	if (error == HM_OK)
		error = humming_weight_pack(&source, packed, rowmul, bias);
	if (error != HM_OK) {
		printf("Bail out! packer: %s\n", humming_gemm_last_error());
		fflush(stdout);
		_exit(3);
	}
	problem->packed_bytes = sizes.packed_bytes;
	problem->d_packed = problem_upload(packed, sizes.packed_bytes);
	problem->d_rowmul = problem_upload(rowmul, sizes.rowmul_bytes);
	problem->d_bias = problem_upload(bias, sizes.bias_bytes);
	free(packed);
	free(rowmul);
	free(bias);
}

static void
problem_make_activations(struct problem *problem, void *stream)
{
	const struct problem_spec *spec = &problem->spec;
	struct ops_activations a = {0};

	a.m = spec->m_max;
	a.k = spec->k;
	a.ld = spec->k;
	a.is_f16 = spec->act == HM_CONFIG_ACT_F16;
	a.inputs = spec->inputs;
	a.seed = 77;
	a.d_a = ops_alloc((size_t)a.m * a.ld * 2);
	ops_fill(&a, stream);
	problem->a = a;
	a.ld = spec->k + PROBLEM_PAD;
	a.d_a = ops_alloc((size_t)a.m * a.ld * 2);
	ops_fill(&a, stream);
	problem->a_padded = a;
}

static void
problem_make_reference(struct problem *problem, void *stream)
{
	const struct problem_spec *spec = &problem->spec;
	struct ops_reference *reference = &problem->reference;
	double work = (double)spec->m_max * spec->n * spec->k;
	uint32_t tokens[2 * PROBLEM_SPREAD];
	size_t n_sums = 0;

	reference->n_tokens = spec->m_max;
	if (work > PROBLEM_MOST_WORK && spec->m_max > 2 * PROBLEM_SPREAD) {
		for (uint32_t i = 0; i < PROBLEM_SPREAD; i++) {
			tokens[i] = i;
			tokens[PROBLEM_SPREAD + i] =
			    PROBLEM_SPREAD +
			    (uint32_t)((uint64_t)i *
				       (spec->m_max - 1 - PROBLEM_SPREAD) /
				       (PROBLEM_SPREAD - 1));
		}
		reference->n_tokens = 2 * PROBLEM_SPREAD;
		reference->d_tokens = problem_upload(tokens, sizeof tokens);
	}
	n_sums = (size_t)reference->n_tokens * spec->n;
	reference->d_sums = ops_alloc(n_sums * sizeof(double));
	reference->d_squares = ops_alloc(n_sums * sizeof(float));
	ops_compute_reference(&problem->plain, &problem->a, reference, stream);
}

void
problem_init(struct problem *problem, const struct problem_spec *spec,
    void *stream)
{
	struct plain plain;
	size_t n_scales = 0;
	size_t n_outputs = ((size_t)spec->m_max + 2 * PROBLEM_GUARD_ROWS) *
			   (spec->n + PROBLEM_PAD);

	memset(problem, 0, sizeof *problem);
	problem->spec = *spec;
	plain_init(&plain, spec);
	problem_pack(problem, &plain);
	n_scales = (size_t)spec->n * plain.n_groups;
	problem->plain.d_codes =
	    problem_upload(plain.codes, (size_t)spec->n * spec->k);
	problem->plain.d_scales =
	    problem_upload(plain.scale_values, n_scales * sizeof(float));
	problem->plain.d_zeros =
	    problem_upload(plain.zero_values, n_scales * sizeof(float));
	problem->plain.n = spec->n;
	problem->plain.k = spec->k;
	problem->plain.group = spec->group != 0 ? spec->group : spec->k;
	plain_done(&plain);
	problem_make_activations(problem, stream);
	problem_make_reference(problem, stream);
	problem->d_c = ops_alloc(n_outputs * 2);
	problem->d_kept = ops_alloc(n_outputs * 2);
}

/* Device memory that some structs name as const. */
static void
problem_free(const void *d_memory)
{
	void *memory = NULL;

	memcpy(&memory, &d_memory, sizeof memory);
	if (memory != NULL)
		ops_free(memory);
}

void
problem_done(struct problem *problem)
{
	problem_free(problem->plain.d_codes);
	problem_free(problem->plain.d_scales);
	problem_free(problem->plain.d_zeros);
	problem_free(problem->d_packed);
	problem_free(problem->d_rowmul);
	problem_free(problem->d_bias);
	problem_free(problem->a.d_a);
	problem_free(problem->a_padded.d_a);
	problem_free(problem->reference.d_tokens);
	problem_free(problem->reference.d_sums);
	problem_free(problem->reference.d_squares);
	problem_free(problem->d_c);
	problem_free(problem->d_kept);
}

static struct humming_launch
problem_convert(const struct hm_launch *from, bool pdl)
{
	struct humming_launch to = {.struct_size = sizeof to};

	to.block_threads = from->threads;
	to.grid_x = from->grid_x;
	to.grid_y = from->grid_y;
	to.cluster_size = from->cluster;
	to.dynamic_smem_bytes = from->smem_bytes;
	to.tile_tokens = from->tile_tokens;
	to.tile_rows = from->tile_rows;
	to.band = from->band;
	to.prefetch = from->prefetch;
	to.row_groups = from->row_groups;
	to.weight_policy = from->weight_policy;
	to.pdl = pdl;
	return to;
}

int
problem_launch(struct problem *problem, const struct run *run,
    const struct problem_pointers *pointers)
{
	const struct problem_spec *spec = &problem->spec;
	struct hm_plan_row row = *run->row;
	struct hm_gemm_call call = {0};
	struct humming_gemm_args args = {.struct_size = sizeof args};
	struct hm_launch launch;
	int error = HM_OK;

	row.config = run->kernel->config;
	error = hm_launch_compute(&row, run->m, spec->n, spec->k, run->sms,
	    &launch);
	if (error != HM_OK) {
		hm_errbuf_set(hm_gemm_errbuf(), "jit/launch refuses");
		return error;
	}
	call.driver = run->driver;
	call.function = run->kernel->function;
	call.a_type = problem_type(spec);
	call.n = spec->n;
	call.k = spec->k;
	call.launch = problem_convert(&launch, run->pdl);
	call.maps = &problem->maps;
	args.m = run->m;
	args.lda = pointers->lda;
	args.ldc = pointers->ldc;
	args.a = pointers->d_a;
	args.w = pointers->d_w;
	args.rowmul = problem->d_rowmul;
	args.bias = run->bias ? problem->d_bias : NULL;
	args.c = pointers->d_c;
	error = hm_gemm_check(&args, spec->n, spec->k, &args);
	if (error == HM_OK)
		error = hm_gemm_call(&call, &args, run->stream);
	return error;
}

int
problem_run(struct problem *problem, const struct run *run,
    struct ops_output *output_out)
{
	const struct problem_spec *spec = &problem->spec;
	const struct ops_activations *a =
	    run->padded ? &problem->a_padded : &problem->a;
	uint32_t ldc = run->padded ? spec->n + PROBLEM_PAD : spec->n;
	struct problem_pointers pointers = {0};
	struct ops_output output = {0};

	output.d_c = problem->d_c + (size_t)PROBLEM_GUARD_ROWS * ldc;
	output.d_bias = run->bias ? problem->d_bias : NULL;
	output.m = run->m;
	output.n = spec->n;
	output.ld = ldc;
	output.guard_rows = PROBLEM_GUARD_ROWS;
	output.is_f16 = spec->act == HM_CONFIG_ACT_F16;
	pointers.d_a = a->d_a;
	pointers.d_w = problem->d_packed;
	pointers.d_c = problem->d_c + (size_t)PROBLEM_GUARD_ROWS * ldc;
	pointers.lda = a->ld;
	pointers.ldc = ldc;
	ops_poison(problem->d_c,
	    ((size_t)run->m + 2 * PROBLEM_GUARD_ROWS) * ldc, run->stream);
	*output_out = output;
	return problem_launch(problem, run, &pointers);
}

static size_t
problem_output_elements(const struct ops_output *output)
{
	return ((size_t)output->m + 2 * PROBLEM_GUARD_ROWS) * output->ld;
}

void
problem_keep(struct problem *problem, const struct ops_output *output,
    void *stream)
{
	ops_wait(stream, "gemm");
	ops_copy(problem->d_kept, problem->d_c,
	    problem_output_elements(output) * 2);
}

uint32_t
problem_count_changed(struct problem *problem, const struct ops_output *output,
    void *stream)
{
	return ops_count_different(problem->d_kept, problem->d_c,
	    problem_output_elements(output), stream);
}

/*
 * KERNELS.md 9: bf16 2e-3 where the weights are exact integers in the tensor
 * cores (kernel S), 3e-3 where scales are folded into them with one rounding
 * (H, G), 6e-4 for f16. A float zero point costs kernel S the same rounding.
 */
double
problem_bound(const struct hm_config *config)
{
	if (config->act == HM_CONFIG_ACT_F16)
		return 6e-4;
	if (config->family == HM_FAMILY_STREAM &&
	    config->zero != HM_CONFIG_ZERO_FLOAT)
		return 2e-3;
	return 3e-3;
}
