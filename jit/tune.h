/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune.h - what jit/plan chooses from: const tables, one file per family of
 * targets, filled from measurements.
 *
 * A row here times a weight format is one kernel, so a row costs every model a
 * compile: add one only for a measured gain.
 */
#ifndef HM_JIT_TUNE_H
#define HM_JIT_TUNE_H

#include <stddef.h>
#include <stdint.h>

/* Kernel S. All have one token tile: M <= 8. */
struct hm_tune_stream {
	uint32_t ring;
	uint32_t warps;
	uint32_t warps_k;
};

enum hm_tune_stream_row {
	HM_TUNE_STREAM_DEEP = 0,  /* M <= 2 */
	HM_TUNE_STREAM_WIDE = 1,  /* M <= 4, or few row groups */
	HM_TUNE_STREAM_PLAIN = 2, /* M <= 8, or a cluster */
	HM_TUNE_STREAM_SETS = 3,  /* short K: two row groups at a time */
	HM_TUNE_N_STREAM = 4
};

extern const struct hm_tune_stream hm_tune_stream[HM_TUNE_N_STREAM];

/* Kernel H. */
struct hm_tune_wgmma {
	uint32_t tile_tokens;
	uint32_t slices;
	uint32_t stages; /* at most; fewer where chunks are larger */
	uint32_t halves;
	uint32_t steps;
	uint32_t split_k;
	uint32_t prefetch;    /* 0 = all stages */
	uint32_t evict_first; /* when one pass over M reads the weights once */
	uint32_t step_ns;     /* for 128 k of one tile, measured */
};

/* By tile_tokens; the first is also what M <= 8 falls back to. */
extern const struct hm_tune_wgmma hm_tune_wgmma[];
extern const size_t hm_tune_n_wgmma;

/* Kernel G. */
struct hm_tune_mma {
	uint32_t tile_tokens;
	uint32_t tile_rows;
	uint32_t stages;
	uint32_t warps_n;
	uint32_t warps_m;
	uint32_t warps_k;
};

enum hm_tune_mma_row {
	HM_TUNE_MMA_16 = 0, /* splits K between its warps */
	HM_TUNE_MMA_32 = 1,
	HM_TUNE_MMA_64 = 2,
	HM_TUNE_MMA_128 = 3,
	HM_TUNE_N_MMA = 4
};

extern const struct hm_tune_mma hm_tune_mma[HM_TUNE_N_MMA];

#define HM_TUNE_MAX_SMS 6

struct hm_tune_target {
	uint32_t cc;
	const char *suffixes;          /* letters that exist besides none */
	uint32_t sms[HM_TUNE_MAX_SMS]; /* most usual first, then 0 */
};

extern const struct hm_tune_target hm_tune_targets[];
extern const size_t hm_tune_n_targets;

#endif
