/* SPDX-License-Identifier: Apache-2.0 */
/*
 * problem.h - a GEMM to be checked: weights, activations and reference on the
 * GPU, and one run of a kernel on them.
 */
#ifndef HM_TESTS_GPU_PROBLEM_H
#define HM_TESTS_GPU_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include <humming/gemm.h>

#include "client/driver.h"
#include "client/gemm_call.h"
#include "device_ops.h"
#include "format.h"
#include "jit/launch.h"
#include "jit/plan.h"
#include "kernels.h"

/* Rows of poison before and after the output. */
#define PROBLEM_GUARD_ROWS 8u
/* Elements by which a padded leading dimension of C exceeds n; that of A
 * exceeds k by as many bytes, rounded up to 16, twice. */
#define PROBLEM_PAD 24u

struct problem_spec {
	uint32_t n, k;
	struct format format;
	uint32_t m_max;
	uint32_t inputs; /* enum ops_inputs; but for OPS_NORMAL the scales are
	                  * powers of two and zero points whole numbers */
	uint32_t slab;   /* 0: all n weight rows differ; else only this many (a
	                  * multiple of 64), which repeat: for sizes whose codes
	                  * the CPU would take seconds to pack */
	bool unchecked;  /* outputs are not compared: no reference */
};

struct problem {
	struct problem_spec spec;
	struct ops_weights plain; /* of the rows that differ */
	void *d_packed;
	float *d_rowmul, *d_bias;
	size_t packed_bytes;
	/* The same values twice: tight, with scales k-major; padded, with scales
	 * m-major. */
	struct ops_activations a, a_padded;
	struct ops_reference reference;
	uint16_t *d_c;     /* m_max + 2 guards rows of n + PROBLEM_PAD */
	uint16_t *d_kept;  /* the same size, for problem_keep */
	void *d_workspace; /* NULL until a launch wants one */
	struct hm_gemm_maps maps;
};

/**
 * Make one. Where m_max * n * k exceeds 6e10 the reference covers the tokens
 * 0..255 and 256 more, evenly spread to the last.
 *
 * Ends the process when the packer refuses or memory runs out.
 */
void problem_init(struct problem *problem, const struct problem_spec *spec,
    void *stream);
void problem_done(struct problem *problem);

struct run {
	const struct hm_driver *driver;
	const struct kernel *kernel;
	const struct hm_plan_row *row; /* launch arguments; its config is the
	                                * kernel's */
	uint32_t sms;
	uint32_t m;
	bool bias;
	bool padded; /* lda and ldc larger than k and n */
	bool pdl;
	void *stream;
};

/**
 * Poison the output and launch. What was written is described by output_out.
 *
 * Returns HM_OK, or why there was no launch, reason in hm_gemm_errbuf.
 */
int problem_run(struct problem *problem, const struct run *run,
    struct ops_output *output_out);

/* One launch, nothing else; what chains and benchmarks capture. */
struct problem_pointers {
	const struct ops_activations *a;
	const void *d_w;
	void *d_c;
	uint32_t ldc;
};
int problem_launch(struct problem *problem, const struct run *run,
    const struct problem_pointers *pointers);

/* Keep the output as it is / count outputs that differ from what was kept. */
void problem_keep(struct problem *problem, const struct ops_output *output,
    void *stream);
uint32_t problem_count_changed(struct problem *problem,
    const struct ops_output *output, void *stream);

/* The bound on the relative error (KERNELS.md 9). */
double problem_bound(const struct problem_spec *spec,
    const struct hm_config *config);

#endif
