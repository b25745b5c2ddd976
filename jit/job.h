/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - what a worker is asked to do, made from a configuration or from a
 * client's source; used by the daemon, free of NVRTC.
 */
#ifndef HM_JIT_JOB_H
#define HM_JIT_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "jit/config.h"
#include "proto/codec.h"
#include "proto/error.h"
#include "proto/request.h"

/* Upper bound of a result: the memory file that goes with a job. */
#define HM_JOB_RESULT_BYTES (16u << 20)

/**
 * The job that builds one of our own kernels. job_out is zeroed first; free
 * with hm_job_done. Returns HM_OK, HM_E_NOMEM, HM_E_INTERNAL.
 */
int hm_job_own(const struct hm_config *config, const struct hm_target *target,
    struct hm_job *job_out);

/**
 * Check a client's options against the allow-list (-D, --std, -use_fast_math,
 * --maxrregcount, -ftz, -prec-div, -prec-sqrt, -fmad, with one or two dashes)
 * and write them normalised.
 *
 * normalised_out  n_options strings
 *
 * Returns HM_OK or HM_E_DENIED, the offending option in errbuf.
 */
int hm_options_check(uint32_t n_options, char (*options)[HM_MAX_OPTION_CHARS],
    char (*normalised_out)[HM_MAX_OPTION_CHARS], struct hm_errbuf *errbuf);

/* A source with __DATE__ or __TIME__ (or __TIMESTAMP__) is never cached. */
bool hm_source_is_cacheable(const void *source, size_t n_source);

/**
 * Check what a worker gave back: a CUDA ELF for exactly this target that holds
 * the entry (NULL: any). Untrusted bytes: every offset is checked.
 * Returns HM_OK or HM_E_CORRUPT with the reason.
 */
int hm_elf_check(const void *image, size_t n_image,
    const struct hm_target *target, const char *entry,
    struct hm_errbuf *errbuf);

#endif
