/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer.h - a GEMM to be timed: a problem with copies of its weights in more
 * memory than L2 has, so that every launch of a graph reads them from HBM.
 */
#ifndef HM_TESTS_GPU_LAYER_H
#define HM_TESTS_GPU_LAYER_H

#include <stddef.h>
#include <stdint.h>

#include "problem.h"
#include "timing.h"

/* Weights of one graph's launches, all copies: over four times L2. */
#define LAYER_COLD_BYTES 270e6
#define LAYER_MAX_COPIES 256u
/* Rows of the weights that differ. */
#define LAYER_SLAB 512u

/* HBM in bytes per second and the tensor cores in operations per second, for
 * floors (KERNELS.md 1: best that anything reached on an H200). */
#define LAYER_HBM    4231e9
#define LAYER_TENSOR 790e12 /* 16-bit operands */
#define LAYER_NARROW 1480e12

struct layer {
	struct problem problem;
	void *d_copies[LAYER_MAX_COPIES];
	size_t n_copies;
	void *d_plain; /* what the plain kernel in front writes to */
};

/* spec without slab. */
void layer_init(struct layer *layer, const struct problem_spec *spec,
    void *stream);
void layer_done(struct layer *layer);

/* Bytes that a GEMM of m tokens must move: weights, activations and their
 * scales, output. */
double layer_bytes(const struct layer *layer, uint32_t m);
/* The larger of bytes over HBM and operations over the tensor cores. */
double layer_floor_us(const struct layer *layer, uint32_t m);

enum layer_mode {
	LAYER_PDL,    /* each may start before its predecessor has ended */
	LAYER_NO_PDL, /* plain launches */
	LAYER_BEHIND, /* with the PDL attribute, each behind a plain kernel that
	               * triggers nothing early; that kernel's time included */
	LAYER_ALONE   /* that kernel */
};

/* Capture n launches, one copy of the weights after the other. No graph when
 * there is no launch, the reason in hm_gemm_errbuf. run->pdl is not looked at. */
struct timed_graph layer_capture(struct layer *layer, const struct run *run,
    enum layer_mode mode, uint32_t n_launches);

#endif
