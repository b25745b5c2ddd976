/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense_class.h - what bench_dense measures, what it must reach, and what others
 * have reached: the tables of issue 4 and of PEERS.md.
 */
#ifndef HM_TESTS_GPU_DENSE_CLASS_H
#define HM_TESTS_GPU_DENSE_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cublas.h"
#include "format.h"

/* Classes with one line of goals and musts; the best of its members counts. */
enum dense_limit {
	DENSE_W4A16,
	DENSE_W4A8,
	DENSE_W4A8_GROUP,
	DENSE_W8A8,
	DENSE_W8A16,
	DENSE_N_LIMITS,
	DENSE_NO_LIMIT = DENSE_N_LIMITS
};

#define DENSE_MAX_PEERS 2u

struct dense_class {
	const char *name;
	struct format format;
	enum dense_limit limit;
	/* Timed beside it; the first is what it is judged by. */
	enum cublas_kind peers[DENSE_MAX_PEERS];
	uint32_t n_peers;
	bool only_named; /* not measured unless asked for */
};

extern const struct dense_class dense_classes[];
extern const size_t dense_n_classes;

/* 8192 x 8192, then the real ones. */
struct dense_shape {
	const char *name;
	uint32_t n, k;
};
extern const struct dense_shape dense_shapes[];
extern const size_t dense_n_shapes;

/* M that are measured at a shape, ascending; returns how many. */
size_t dense_m_list(uint32_t shape, const uint32_t **m_out);

/* us at 8192 x 8192, with PDL but for the last; 0 = none stated. */
struct dense_goals {
	float goal, must, must_no_pdl;
};
struct dense_goals dense_goals(enum dense_limit limit, uint32_t n, uint32_t k,
    uint32_t m);

/* Best time in PEERS.md of a library of others for this class; 0 = none. */
float dense_recorded(const struct dense_class *class, uint32_t n, uint32_t k,
    uint32_t m);

#endif
