/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emit.h - from a configuration to the text that NVRTC sees.
 *
 * This module is the only writer of the two generated headers, config.h and
 * wgmma_shape.h, and of the option list. Everything here is a pure function:
 * the same configuration gives the same bytes in any process, on any machine,
 * at any time, because jit/key digests exactly these bytes.
 */
#ifndef HM_JIT_EMIT_H
#define HM_JIT_EMIT_H

#include <stddef.h>
#include <stdint.h>

#include "jit/config.h"

/* Buffers of these sizes hold the text of every valid configuration. */
#define HM_EMIT_CONFIG_BYTES 1024
#define HM_EMIT_WGMMA_BYTES  8192

/* Names under which the generated headers are given to the compiler. */
#define HM_EMIT_CONFIG_NAME "config.h"
#define HM_EMIT_WGMMA_NAME  "wgmma_shape.h"

/* Threads of a CTA of pack.cu, and of quant.cu. */
#define HM_EMIT_PACK_THREADS  256u
#define HM_EMIT_QUANT_THREADS 256u

#define HM_EMIT_N_OPTIONS    4
#define HM_EMIT_OPTION_BYTES 48

/* The NVRTC options of one build, in the order in which they are passed. */
struct hm_emit_options {
	char text[HM_EMIT_N_OPTIONS][HM_EMIT_OPTION_BYTES];
};

/**
 * Print config.h: one "#define HM_NAME value" a line, sorted by name.
 *
 * config   what to compile; only the fields of its family are looked at
 * text     receives the text and a final NUL; untouched on failure
 * size     bytes at text; HM_EMIT_CONFIG_BYTES always suffices
 *
 * Any thread. Returns HM_OK, HM_E_INVALID (no such family, or a value that no
 * kernel of the family accepts) or HM_E_NOMEM (size is too small).
 */
int hm_emit_config(const struct hm_config *config, char *text, size_t size);

/**
 * Print wgmma_shape.h: the wgmma of 64 rows by tile_tokens columns.
 *
 * config   of family HM_FAMILY_WGMMA; its tile_tokens and act are used
 * text     receives the text and a final NUL; untouched on failure
 * size     bytes at text; HM_EMIT_WGMMA_BYTES always suffices
 *
 * Any thread. Returns HM_OK, HM_E_INVALID (another family, or a bad tile) or
 * HM_E_NOMEM (size is too small).
 */
int hm_emit_wgmma(const struct hm_config *config, char *text, size_t size);

/**
 * Name of the kernel function, as cuModuleGetFunction wants it.
 *
 * Any thread. Returns static text, or NULL when there is no such family.
 */
const char *hm_emit_entry(const struct hm_config *config);

/**
 * Name of the source file in kernels/ that holds the entry.
 *
 * Any thread. Returns static text, or NULL when there is no such family.
 */
const char *hm_emit_source(const struct hm_config *config);

/**
 * Whether the entry includes wgmma_shape.h besides config.h.
 *
 * Any thread. Returns 1 or 0.
 */
int hm_emit_needs_wgmma(const struct hm_config *config);

/**
 * Bytes of one packed chunk (64 rows by 128 k): codes, scales, zero points,
 * padded to 128.
 *
 * Any thread. Returns 0 when the group or the zero point mode is not one that
 * the kernels know.
 */
uint32_t hm_emit_chunk_bytes(const struct hm_config *config);

/**
 * Bytes of one stage of the shared-memory ring.
 *
 * Kernel S and pack: one chunk. Kernels H and G: what the whole CTA loads
 * for one step along K. This is the value that config.h states and that the
 * device sources assert against their own sum. Quantization has no ring: 256,
 * the bytes of one group that it reads.
 *
 * Any thread. Returns 0 when the configuration is not valid.
 */
uint32_t hm_emit_stage_bytes(const struct hm_config *config);

/**
 * The NVRTC options for a target.
 *
 * target       as text, "sm_90a"; "sm_", digits, at most one letter a or f
 * options_out  set on success; untouched on failure
 *
 * Any thread. Returns HM_OK or HM_E_INVALID (not the name of a target).
 */
int hm_emit_options(const char *target, struct hm_emit_options *options_out);

#endif
