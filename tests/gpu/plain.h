/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain.h - a quantized matrix as a checkpoint holds it, of any format, made at
 * random on the CPU, and its packed form from the library's packer.
 */
#ifndef HM_TESTS_GPU_PLAIN_H
#define HM_TESTS_GPU_PLAIN_H

#include <stddef.h>
#include <stdint.h>

#include <humming/gemm.h>

#include "device_ops.h"
#include "format.h"

struct plain {
	struct format format;
	uint32_t n, k, n_groups;
	uint32_t inputs;       /* enum ops_inputs */
	uint8_t *codes;        /* [n][k] */
	unsigned char *scales; /* of the source's type and form */
	uint8_t *zero_codes;   /* [n][n_groups] */
	uint16_t *zeros;       /* the same, of the activations' type */
	float *bias;           /* [n] */
	float *scale_values;   /* [n][n_groups], what they are worth */
	float *zero_values;    /* the same */
};

/**
 * Make one. But for OPS_NORMAL scales are 1, zero points whole and codes such
 * that sums are exact in fp32.
 *
 * Ends the process when memory runs out.
 */
void plain_init(struct plain *plain, const struct format *format, uint32_t n,
    uint32_t k, uint32_t inputs);
void plain_done(struct plain *plain);

/* The source that describes it; borrows its memory. */
void plain_source(const struct plain *plain,
    struct humming_weight_source *source_out);

/* What the library makes of it. */
struct plain_packed {
	struct humming_weight_sizes sizes;
	void *packed; /* all three owned */
	float *rowmul, *bias;
};

/* Ends the process when the packer refuses. */
void plain_pack(const struct plain *plain, struct plain_packed *packed_out);
void plain_packed_done(struct plain_packed *packed);

/* calloc that ends the process. */
void *plain_alloc(size_t n, size_t size);

#endif
