/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape_options.h - the options that bench_dense and tune share: which classes,
 * shapes and M.
 *
 *     --class NAME,...  --shape NxK,...|square|real  --m M,...
 *     --seconds S  --compile-only
 */
#ifndef HM_TESTS_GPU_SHAPE_OPTIONS_H
#define HM_TESTS_GPU_SHAPE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dense_class.h"

#define SHAPE_MAX_M       32u
#define SHAPE_MAX_SHAPES  32u
#define SHAPE_MAX_CLASSES 32u

struct shape_options {
	const struct dense_class *classes[SHAPE_MAX_CLASSES];
	size_t n_classes;
	bool any_class; /* some were named */
	struct dense_shape shapes[SHAPE_MAX_SHAPES];
	size_t n_shapes;
	uint32_t m[SHAPE_MAX_M]; /* none: the program's own */
	size_t n_m;
	double seconds;
	bool compile_only;
};

void shape_options_init(struct shape_options *options);

/* How many arguments were used: 0 = not one of these, -1 = a bad value. */
int shape_options_read(struct shape_options *options, const char *name,
    const char *value);

/* Where none was named: all classes that are measured by default, all shapes. */
void shape_options_default(struct shape_options *options);

#endif
