/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.h - the kernels under test: asked for, compiled in parallel by NVRTC
 * from the sources in kernels/, loaded.
 *
 * First every kernel that a program will need is wanted, then all are built at
 * once, then they are found. The daemon's compiler process is not used: NVRTC
 * is called here, in one thread a core, with the text of jit/emit.
 */
#ifndef HM_TESTS_GPU_KERNELS_H
#define HM_TESTS_GPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/driver.h"
#include "jit/config.h"
#include "jit/report.h"
#include "proto/error.h"

struct kernel {
	struct hm_config config;
	char target[16]; /* "sm_90a"; or "compute_80": PTX for the driver */
	/* after kernels_build */
	void *function; /* NULL: see why */
	size_t image_bytes;
	double compile_ms;
	struct hm_report report;
	char why[512]; /* it could not be built or loaded */
};

/* Load NVRTC and read the sources. HM_OK or an error with its reason. */
int kernels_open(struct hm_errbuf *errbuf);

/* Have a kernel built. Wanting one twice is wanting it once. */
void kernels_want(const struct hm_config *config, const char *target);

/**
 * Compile and load all that were wanted since the last build.
 *
 * driver      NULL: compile only
 * smem_bytes  what a CTA may have
 *
 * Prints one comment line with counts and seconds. Returns how many failed.
 */
uint32_t kernels_build(const struct hm_driver *driver, uint32_t smem_bytes);

/* A kernel that was wanted and built, good or bad; NULL if it never was. */
const struct kernel *kernels_find(const struct hm_config *config,
    const char *target);

size_t kernels_count(void);
const struct kernel *kernels_at(size_t index);

/* "H 16x128 s12 h2 st4 split" and so on, for one line of output. */
void kernels_describe(const struct hm_config *config, char *text, size_t size);

double kernels_seconds(void); /* a monotonic clock */

#endif
