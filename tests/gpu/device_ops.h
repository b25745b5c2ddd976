/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_ops.h - what the GPU programs need besides the kernels under test:
 * memory, streams and graphs, inputs, poison, a reference and a comparison, all
 * on the GPU. Implemented with the CUDA runtime in device_ops.cu.
 *
 * Every function that returns nothing prints "Bail out!" and ends the process
 * when CUDA reports an error: after one nothing that follows means anything.
 * Pointers named d_* are device memory.
 */
#ifndef HM_TESTS_GPU_DEVICE_OPS_H
#define HM_TESTS_GPU_DEVICE_OPS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Make device 0's primary context current. */
void ops_open(void);

void *ops_alloc(size_t n_bytes);
void ops_free(void *d_memory);
void ops_copy_in(void *d_to, const void *from, size_t n_bytes);
void ops_copy_out(void *to, const void *d_from, size_t n_bytes);
void ops_copy(void *d_to, const void *d_from, size_t n_bytes);
void ops_clear(void *d_memory, size_t n_bytes);
size_t ops_free_bytes(void);

void *ops_stream(void);
/* Wait, at most 20 s; `what` is named when the stream hangs or fails. */
void ops_wait(void *stream, const char *what);

void ops_capture_begin(void *stream);
void *ops_capture_end(void *stream);
void ops_graph_launch(void *graph, void *stream);
void ops_graph_free(void *graph);
/* Milliseconds of one launch of the graph, by events. */
float ops_graph_time(void *graph, void *stream, const char *what);

enum ops_inputs {
	OPS_NORMAL = 0,   /* about N(0, 1) times what suits the type */
	OPS_INTEGERS = 1, /* -4..4; fp8: -2..2, whose sums stay short */
	OPS_ONE_HOT = 2   /* token m: one 1, at k = (m * 37 + 11) % K */
};

/* The numbers of enum hm_config_act. */
enum ops_type {
	OPS_BF16 = 0,
	OPS_F16 = 1,
	OPS_E4M3 = 2,
	OPS_E5M2 = 3,
	OPS_S8 = 4
};

/* Elements along K that share a scale, where there is one per group. */
#define OPS_SCALE_GROUP 128u

/* Activations [m][ld]; columns beyond k are NaN (s8: -128). The value at (m, k)
 * depends on seed, m and k alone. */
struct ops_activations {
	void *d_a;
	uint32_t m, k, ld; /* elements */
	uint32_t type;     /* enum ops_type */
	uint32_t inputs;   /* enum ops_inputs */
	uint32_t seed;
	/* Of (m, k): d_scales[m * scale_step + k / 128 * scale_group_step];
	 * NULL = 1. */
	float *d_scales;
	uint32_t scale_step, scale_group_step;
};
void ops_fill(const struct ops_activations *a, void *stream);

/**
 * Scales that bring values back to about N(0, 1): a quarter to one of it; for
 * inputs that are not OPS_NORMAL powers of two. The scale of (m, group) depends
 * on seed, m and group alone, and a step of 0 is index 0.
 *
 * n_groups  how many to fill along K: 1 without groups
 */
void ops_fill_scales(const struct ops_activations *a, uint32_t n_groups,
    void *stream);

/* All bits one: a NaN in both types. n 16-bit elements. */
void ops_poison(void *d_c, size_t n, void *stream);

/* A kernel of a few CTAs that writes n_bytes (a multiple of 16 KB) and ends
 * without having triggered what depends on it: the predecessor that most GEMMs
 * have in other people's programs. */
void ops_plain(void *d_memory, size_t n_bytes, void *stream);

/* Plain weights on the GPU: (value[code] - zero) * scale. */
struct ops_weights {
	const uint8_t *d_codes; /* [n][k] */
	const double *d_values; /* [256] */
	const float *d_scales;  /* [n][groups] */
	const float *d_zeros;   /* the same */
	uint32_t n, k, group;   /* group = k for row scales */
};

/**
 * C without bias, in double precision, for n_tokens of the activations' rows.
 *
 * d_tokens   which rows, ascending, or NULL = 0, 1, 2, ...
 * n          weight rows; an output that has more repeats them
 * d_sums     double [n_tokens][n]
 * d_squares  float [n_tokens][n]: sum over k of (a * w)^2, the size that the
 *            sum has when nothing cancels
 */
struct ops_reference {
	const uint32_t *d_tokens;
	uint32_t n_tokens;
	uint32_t n;
	double *d_sums;
	float *d_squares;
};
void ops_compute_reference(const struct ops_weights *w,
    const struct ops_activations *a, const struct ops_reference *reference,
    void *stream);

/* Where a kernel wrote: rows of ld elements, guard_rows of poison before and
 * after. */
struct ops_output {
	const void *d_c;     /* first row, after the guard */
	const float *d_bias; /* [n], what the kernel had to add; NULL = 0 */
	uint32_t m, n, ld;
	uint32_t guard_rows;
	uint32_t is_f16;
};

struct ops_measure {
	double whole;       /* |C - ref| / |ref|, Frobenius */
	double worst_token; /* the same over one token's outputs */
	double worst_row;   /* over one weight row's outputs; 0 if m < 8 */
	double worst_element;
	uint32_t n_compared;  /* tokens */
	uint32_t n_unwritten; /* not finite inside */
	uint32_t n_outside;   /* poison overwritten outside */
};

/**
 * Compare an output with a reference.
 *
 * The denominator of a token, a row or an element is the larger of |ref| and
 * the size without cancellation, so that a sum that happens to be nearly zero
 * does not count as an error of the kernel.
 */
void ops_compare(const struct ops_output *c,
    const struct ops_reference *reference, struct ops_measure *measure_out,
    void *stream);

/* Write the reference, rounded, where a kernel would have: what a perfect kernel
 * gives. */
void ops_write_reference(const struct ops_output *c,
    const struct ops_reference *reference, void *stream);

/* How many outputs differ from the reference rounded to the type (ties to
 * even): bit for bit. */
uint32_t ops_count_inexact(const struct ops_output *c,
    const struct ops_reference *reference, void *stream);

/* How many of n 16-bit elements differ. */
uint32_t ops_count_different(const void *d_a, const void *d_b, size_t n,
    void *stream);

#ifdef __cplusplus
}
#endif

#endif
