/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer.c - copies of weights, floors, graphs.
 */
#include "layer.h"

#include <string.h>

#define LAYER_PLAIN_BYTES (1u << 20)

void
layer_init(struct layer *layer, const struct problem_spec *spec, void *stream)
{
	struct problem_spec slabbed = *spec;
	size_t n_bytes = 0;

	memset(layer, 0, sizeof *layer);
	slabbed.slab = LAYER_SLAB;
	problem_init(&layer->problem, &slabbed, stream);
	n_bytes = layer->problem.packed_bytes;
	layer->n_copies = (size_t)(LAYER_COLD_BYTES / (double)n_bytes) + 2;
	if (layer->n_copies > LAYER_MAX_COPIES)
		layer->n_copies = LAYER_MAX_COPIES;
	for (size_t i = 0; i < layer->n_copies; i++) {
		layer->d_copies[i] = ops_alloc(n_bytes);
		ops_copy(layer->d_copies[i], layer->problem.d_packed, n_bytes);
	}
	layer->d_plain = ops_alloc(LAYER_PLAIN_BYTES);
	/* The first launch loads code, which a capture may forbid. */
	ops_plain(layer->d_plain, LAYER_PLAIN_BYTES, stream);
	ops_wait(stream, "plain kernel");
}

void
layer_done(struct layer *layer)
{
	for (size_t i = 0; i < layer->n_copies; i++)
		ops_free(layer->d_copies[i]);
	ops_free(layer->d_plain);
	problem_done(&layer->problem);
}

double
layer_bytes(const struct layer *layer, uint32_t m)
{
	const struct problem_spec *spec = &layer->problem.spec;
	double token =
	    (double)spec->k * format_act_bytes(&spec->format) + 2.0 * spec->n;

	if (spec->format.act_scales == FORMAT_ACT_GROUP)
		token += 4.0 * spec->k / FORMAT_BLOCK;
	return (double)layer->problem.packed_bytes + m * token;
}

double
layer_floor_us(const struct layer *layer, uint32_t m)
{
	const struct problem_spec *spec = &layer->problem.spec;
	double bytes_us = 1e6 * layer_bytes(layer, m) / LAYER_HBM;
	double work = 2.0 * m * spec->n * spec->k;
	double work_us =
	    1e6 * work /
	    (format_is_narrow(&spec->format) ? LAYER_NARROW : LAYER_TENSOR);

	return bytes_us > work_us ? bytes_us : work_us;
}

static int
layer_enqueue(struct layer *layer, const struct run *run, enum layer_mode mode,
    uint32_t index)
{
	struct problem *problem = &layer->problem;
	struct problem_pointers pointers = {
	    .a = &problem->a,
	    .d_w = layer->d_copies[index % layer->n_copies],
	    .d_c = problem->d_c + (size_t)PROBLEM_GUARD_ROWS * problem->spec.n,
	    .ldc = problem->spec.n,
	};

	if (mode == LAYER_BEHIND || mode == LAYER_ALONE)
		ops_plain(layer->d_plain, LAYER_PLAIN_BYTES, run->stream);
	return mode != LAYER_ALONE ? problem_launch(problem, run, &pointers)
				   : HM_OK;
}

struct timed_graph
layer_capture(struct layer *layer, const struct run *run, enum layer_mode mode,
    uint32_t n_launches)
{
	struct timed_graph timed = {.n_launches = n_launches};
	struct run with = *run;
	int error = HM_OK;

	with.pdl = mode != LAYER_NO_PDL;
	ops_capture_begin(run->stream);
	for (uint32_t i = 0; i < n_launches && error == HM_OK; i++)
		error = layer_enqueue(layer, &with, mode, i);
	timed.graph = ops_capture_end(run->stream);
	if (error == HM_OK)
		return timed;
	timing_free(&timed, 1);
	return timed;
}
