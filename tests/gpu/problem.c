/* SPDX-License-Identifier: Apache-2.0 */
/*
 * problem.c - weights are made and packed on the CPU by the library's packer
 * (plain.c), activations and reference on the GPU.
 *
 * A slab of rows that repeats: the pack has whole chunks of 64 rows by 128 k
 * one after the other, row blocks outermost, so that copies of a packed slab
 * behind each other are the pack of the repeated matrix.
 */
#include "problem.h"

#include <stdio.h>
#include <string.h>

#include "client/gemm_error.h"
#include "plain.h"

/* Multiply-adds of a reference over all tokens: about 0.1 s. */
#define PROBLEM_MOST_WORK 6e10
#define PROBLEM_SPREAD    256u
/* Rows of a chunk of the pack. */
#define PROBLEM_ROW_BLOCK 64u
/* An fp32 tile of 256 x 256 for each of 240 CTAs. */
#define PROBLEM_WORKSPACE (60u << 20)

static void *
problem_upload(const void *from, size_t n_bytes)
{
	void *d_memory = ops_alloc(n_bytes);

	ops_copy_in(d_memory, from, n_bytes);
	return d_memory;
}

static uint32_t
problem_rows(const struct problem_spec *spec)
{
	return spec->slab != 0 && spec->slab < spec->n ? spec->slab : spec->n;
}

/* `from` again and again until n_bytes are full. */
static void *
problem_repeat(const void *from, size_t from_bytes, size_t n_bytes)
{
	unsigned char *d_memory = ops_alloc(n_bytes);

	ops_copy_in(d_memory, from,
	    from_bytes < n_bytes ? from_bytes : n_bytes);
	for (size_t at = from_bytes; at < n_bytes; at += from_bytes)
		ops_copy(d_memory + at, d_memory,
		    n_bytes - at < from_bytes ? n_bytes - at : from_bytes);
	return d_memory;
}

static void
problem_pack(struct problem *problem, const struct plain *plain)
{
	const struct problem_spec *spec = &problem->spec;
	uint32_t blocks = (spec->n + PROBLEM_ROW_BLOCK - 1) / PROBLEM_ROW_BLOCK;
	uint32_t slab_blocks =
	    (plain->n + PROBLEM_ROW_BLOCK - 1) / PROBLEM_ROW_BLOCK;
	struct plain_packed packed;
	size_t row_bytes = (size_t)blocks * PROBLEM_ROW_BLOCK * sizeof(float);

	plain_pack(plain, &packed);
	problem->packed_bytes =
	    (size_t)packed.sizes.packed_bytes / slab_blocks * blocks;
	problem->d_packed = problem_repeat(packed.packed,
	    packed.sizes.packed_bytes, problem->packed_bytes);
	problem->d_rowmul =
	    problem_repeat(packed.rowmul, packed.sizes.rowmul_bytes, row_bytes);
	problem->d_bias =
	    problem_repeat(packed.bias, packed.sizes.bias_bytes, row_bytes);
	plain_packed_done(&packed);
}

static void
problem_upload_plain(struct problem *problem, const struct plain *plain)
{
	struct ops_weights *weights = &problem->plain;
	size_t n_scales = (size_t)plain->n * plain->n_groups;
	double values[256] = {0};

	for (uint32_t i = 0; i < format_n_codes(plain->format.weight); i++)
		values[i] = format_code_value(plain->format.weight, i);
	weights->d_values = problem_upload(values, sizeof values);
	weights->d_codes =
	    problem_upload(plain->codes, (size_t)plain->n * plain->k);
	weights->d_scales =
	    problem_upload(plain->scale_values, n_scales * sizeof(float));
	weights->d_zeros =
	    problem_upload(plain->zero_values, n_scales * sizeof(float));
	weights->n = plain->n;
	weights->k = plain->k;
	weights->group =
	    plain->format.group != 0 ? plain->format.group : plain->k;
}

/* Tight rows with scales k-major, or padded ones with scales m-major. */
static struct ops_activations
problem_make_activations(const struct problem_spec *spec, bool padded,
    void *stream)
{
	struct ops_activations a = {0};
	uint32_t element = format_act_bytes(&spec->format);
	uint32_t n_groups = 1;

	a.m = spec->m_max;
	a.k = spec->k;
	a.ld = spec->k + (padded ? 2 * PROBLEM_PAD / element : 0);
	a.type = spec->format.act;
	a.inputs = spec->inputs;
	a.seed = 77;
	a.d_a = ops_alloc((size_t)a.m * a.ld * element);
	ops_fill(&a, stream);
	if (!format_is_narrow(&spec->format))
		return a;
	if (spec->format.act_scales == FORMAT_ACT_GROUP)
		n_groups = (spec->k + OPS_SCALE_GROUP - 1) / OPS_SCALE_GROUP;
	if (spec->format.act_scales == FORMAT_ACT_TOKEN)
		a.scale_step = 1;
	if (spec->format.act_scales == FORMAT_ACT_GROUP) {
		/* Columns of their own alignment and rows beyond the last. */
		a.scale_step = padded ? 1 : n_groups;
		a.scale_group_step = padded ? (a.m + 7) / 4 * 4 : 1;
	}
	a.d_scales = ops_alloc(((size_t)a.m + 8) * n_groups * sizeof(float));
	ops_fill_scales(&a, n_groups, stream);
	return a;
}

static void
problem_make_reference(struct problem *problem, void *stream)
{
	const struct problem_spec *spec = &problem->spec;
	struct ops_reference *reference = &problem->reference;
	uint32_t rows = problem_rows(spec);
	double work = (double)spec->m_max * rows * spec->k;
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
	reference->n = rows;
	n_sums = (size_t)reference->n_tokens * rows;
	reference->d_sums = ops_alloc(n_sums * sizeof(double));
	reference->d_squares = ops_alloc(n_sums * sizeof(float));
	ops_compute_reference(&problem->plain, &problem->a, reference, stream);
}

void
problem_init(struct problem *problem, const struct problem_spec *spec,
    void *stream)
{
	struct plain plain;
	size_t n_outputs = ((size_t)spec->m_max + 2 * PROBLEM_GUARD_ROWS) *
			   (spec->n + PROBLEM_PAD);

	memset(problem, 0, sizeof *problem);
	problem->spec = *spec;
	plain_init(&plain, &spec->format, problem_rows(spec), spec->k,
	    spec->inputs);
	problem_pack(problem, &plain);
	problem_upload_plain(problem, &plain);
	plain_done(&plain);
	problem->a = problem_make_activations(spec, false, stream);
	problem->a_padded = problem_make_activations(spec, true, stream);
	if (!spec->unchecked)
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
	problem_free(problem->plain.d_values);
	problem_free(problem->plain.d_scales);
	problem_free(problem->plain.d_zeros);
	problem_free(problem->d_packed);
	problem_free(problem->d_rowmul);
	problem_free(problem->d_bias);
	problem_free(problem->a.d_a);
	problem_free(problem->a.d_scales);
	problem_free(problem->a_padded.d_a);
	problem_free(problem->a_padded.d_scales);
	problem_free(problem->d_workspace);
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
	to.split_tiles = from->split_tiles;
	to.workspace_bytes = from->workspace_bytes;
	to.pdl = pdl;
	return to;
}

/* Where graphs that were captured before go on to find it: never moved. */
static void *
problem_workspace(struct problem *problem, uint64_t n_bytes)
{
	if (n_bytes == 0 || n_bytes > PROBLEM_WORKSPACE)
		return NULL;
	if (problem->d_workspace == NULL) {
		problem->d_workspace = ops_alloc(PROBLEM_WORKSPACE);
		ops_clear(problem->d_workspace, PROBLEM_WORKSPACE);
	}
	return problem->d_workspace;
}

int
problem_launch(struct problem *problem, const struct run *run,
    const struct problem_pointers *pointers)
{
	static const uint32_t act_scales[] = {HUMMING_ACT_TOKEN,
	    HUMMING_ACT_TENSOR, HUMMING_ACT_GROUP};
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
	call.a_type = format_a_type(&spec->format);
	call.c_type = format_c_type(&spec->format);
	if (format_is_narrow(&spec->format))
		call.act_scale = act_scales[spec->format.act_scales % 3];
	call.n = spec->n;
	call.k = spec->k;
	call.launch = problem_convert(&launch, run->pdl);
	call.maps = &problem->maps;
	args.m = run->m;
	args.lda = pointers->a->ld;
	args.ldc = pointers->ldc;
	args.a = pointers->a->d_a;
	args.a_scale = pointers->a->d_scales;
	args.a_scale_step = pointers->a->scale_step;
	args.a_scale_group_step = pointers->a->scale_group_step;
	args.workspace = problem_workspace(problem, launch.workspace_bytes);
	args.w = pointers->d_w;
	args.rowmul = problem->d_rowmul;
	args.bias = run->bias ? problem->d_bias : NULL;
	args.c = pointers->d_c;
	error = hm_gemm_check(&call, &args, &args);
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
	output.is_f16 = format_out_is_f16(&spec->format);
	pointers.a = a;
	pointers.d_w = problem->d_packed;
	pointers.d_c = problem->d_c + (size_t)PROBLEM_GUARD_ROWS * ldc;
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
 * KERNELS.md 9. 16-bit activations: bf16 2e-3 where the weights are exact
 * integers in the tensor cores (kernel S), 3e-3 where scales are folded into
 * them with one rounding (H, G), 6e-4 for f16. A float zero point costs kernel S
 * the same rounding, and so does the packer where group scales are f32. 8-bit
 * ones: nothing is rounded but the output, 2e-3 in bf16 and 6e-4 in f16; but the
 * tensor cores keep sums of fp8 products to about 14 bits, which costs kernel H
 * 1e-2 without promotion, and with it what is added up between two: 2e-3,
 * whatever the output.
 */
double
problem_bound(const struct problem_spec *spec, const struct hm_config *config)
{
	bool rounded =
	    config->zero == HM_CONFIG_ZERO_FLOAT ||
	    (config->scale == HM_CONFIG_SCALE_BF16 &&
		format_scale_type(&spec->format) == HUMMING_TYPE_F32);
	bool fp8 = config->act == HM_CONFIG_ACT_E4M3 ||
		   config->act == HM_CONFIG_ACT_E5M2;

	if (fp8 && config->family == HM_FAMILY_WGMMA)
		return config->promote != 0 ? 2e-3 : 1e-2;
	if (config->out == HM_CONFIG_ACT_F16)
		return 6e-4;
	if (config->act >= HM_CONFIG_ACT_E4M3)
		return 2e-3;
	return config->family == HM_FAMILY_STREAM && !rounded ? 2e-3 : 3e-3;
}
