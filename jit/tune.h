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

/* What the members of a target are measured by: the tensor cores' rate and what
 * happens to their sums. */
enum hm_tune_class {
	HM_TUNE_WIDE = 0,      /* 16-bit activations */
	HM_TUNE_ONE_LEVEL = 1, /* 8-bit: one sum over K */
	HM_TUNE_TWO_LEVEL = 2, /* 8-bit: added to fp32 sums along K */
	HM_TUNE_N_CLASSES = 3
};

/* Kernel S. All have one token tile: M <= 8. */
struct hm_tune_stream {
	uint32_t ring;
	uint32_t warps;
	uint32_t warps_k;
};

enum hm_tune_stream_row {
	HM_TUNE_STREAM_DEEP = 0,  /* M <= 3 or 4, s8: 8 */
	HM_TUNE_STREAM_WIDE = 1,  /* M <= 4 and few row groups */
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
	uint32_t sets;        /* pairs of warpgroups that take stages in turn */
	uint32_t prefetch;    /* 0 = all stages */
	uint32_t evict_first; /* when one pass over M reads the weights once */
	uint32_t step_ns;     /* for 128 k of one tile, measured */
};

/* What a GEMM takes besides its steps, for all members. */
struct hm_tune_costs {
	/* Kernel S: start and end; the sum of a cluster of 2, twice that of 4;
	 * GB/s at which the chip and one SM stream weights, and all CTAs fetch
	 * activations from L2. */
	uint32_t stream_ns, stream_cluster_ns;
	uint32_t stream_gbs, stream_sm_gbs, stream_act_gbs;
	/* The chip's pace where arithmetic sets it: weights of 4 bits that
	 * become fp8 and then f16, beside fp8 activations. */
	uint32_t stream_widen_gbs;
	/* Kernel H, whole chip: reads of memory and of L2. */
	uint32_t hbm_gbs, l2_gbs;
	/* GB/s at which one CTA of kernel H streams weights. */
	uint32_t tile_sm_gbs;
	/* Start and end of a CTA of kernel H with a tile of its own; the sum
	 * of a cluster of 2, twice that of 4. */
	uint32_t split_ns, cluster_ns;
	/* Start of a persistent CTA, the end of each of its tiles that the next
	 * does not hide, and pieces of tiles handed over: ns, and GB/s of one
	 * CTA; 0 = tiles are never shared. */
	uint32_t persistent_ns, tile_ns, share_ns, share_gbs;
};

/* The members of a class by tile_tokens; the first is also what M <= 8 falls
 * back to. At most 11: with kernel S and the quantization of the activations
 * they are the 16 kernels that a model may need. */
struct hm_tune_table {
	const struct hm_tune_wgmma *rows;
	size_t n_rows;
	const struct hm_tune_costs *costs;
	uint32_t tensor_tops; /* rate of the tensor cores under load */
	/* Of step_ns, by whether activations are integers and by enum
	 * hm_config_weight: some operands take longer to make than those that
	 * were measured. */
	uint32_t percent[2][4];
};

extern const struct hm_tune_table hm_tune_sm90a[HM_TUNE_N_CLASSES];

/* A member as a number: of H by its tile, of S by enum hm_tune_stream_row. */
#define HM_TUNE_H(tokens, slices, split)                                       \
	((uint32_t)(tokens) | (uint32_t)(slices) << 16 |                       \
	    (uint32_t)(split) << 24)
#define HM_TUNE_S(row)       (UINT32_C(0x80000000) | (uint32_t)(row))
#define HM_TUNE_IS_S(member) (((member)&UINT32_C(0x80000000)) != 0)

/**
 * What was measured to be best for one N and K, and wins over the model of
 * times there. tests/gpu/tune prints such rows as they stand in
 * tune_sm90a_rows.c.
 */
struct hm_tune_row {
	uint32_t class;       /* enum hm_tune_class */
	uint32_t weight_bits; /* 4 or 8 */
	uint32_t n, k;
	uint32_t m_lo, m_hi; /* inclusive */
	uint32_t member;     /* HM_TUNE_S or HM_TUNE_H, of that class */
	uint32_t cluster;
	uint32_t share; /* 1: a persistent member shares its last tiles */
};

/* By class, weight_bits, n, k, m_lo; on devices with so many SMs. */
#define HM_TUNE_ROWS_SMS 132u
extern const struct hm_tune_row hm_tune_rows[];
extern const size_t hm_tune_n_rows;

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
