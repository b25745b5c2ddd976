/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolchain_nvrtc.h - NVRTC, loaded at run time. The only user of it.
 *
 * A loaded NVRTC stays until the process ends, and the process must end by
 * _exit: NVRTC has been seen to crash in its own destructors.
 */
#ifndef HM_JIT_TOOLCHAIN_NVRTC_H
#define HM_JIT_TOOLCHAIN_NVRTC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

struct hm_toolchain; /* one thread at a time */

/* Everything that NVRTC sees of a program. All borrowed. */
struct hm_toolchain_program {
	const char *source;
	const char *name; /* in the log; NULL: "kernel.cu" */
	size_t n_headers;
	const char *const *header_names;
	const char *const *header_texts;
	size_t n_options;
	const char *const *options;
};

/* Where the result goes. The caller sets image and size and frees the log. */
struct hm_toolchain_output {
	void *image; /* room for size bytes */
	size_t size;
	size_t n_image;      /* bytes written; set on success */
	uint32_t compile_us; /* wall clock, the whole call; set on success */
	char *log;           /* set in any case; NUL-terminated; NULL = none */
};

/**
 * Find and load NVRTC 12.8 or newer with its builtins library.
 *
 * where   a folder or a libnvrtc file, and then nothing else is looked at;
 *         NULL: HUMMING_NVRTC in the same sense, else CUDA_HOME,
 *         /usr/local/cuda, the loader's path, the private prefixes
 *         (HUMMING_PREFIX, /opt/humming/nvrtc, XDG_DATA_HOME)
 * errbuf  on failure what was looked for and why the best candidate was refused
 *
 * Returns HM_OK, HM_E_UNAVAILABLE (none, or none that fits) or HM_E_NOMEM.
 */
int hm_toolchain_open(const char *where, struct hm_toolchain **toolchain_out,
    struct hm_errbuf *errbuf);

/* Frees the object; the libraries stay loaded. NULL is allowed. */
void hm_toolchain_close(struct hm_toolchain *toolchain);

/* "nvrtc 13.0 <build id> <bytes> <build id> <bytes>": the library, then its
 * builtins. Lives as long as the toolchain, as do the rest. */
const char *hm_toolchain_identity(const struct hm_toolchain *toolchain);
const char *hm_toolchain_version(const struct hm_toolchain *toolchain);

/* The architectures that NVRTC reports, as "75,80,90". */
const char *hm_toolchain_archs(const struct hm_toolchain *toolchain);

/**
 * Whether a target such as "sm_90a" can be meant for this NVRTC: the number is
 * one it reports. errbuf says what it knows.
 *
 * Returns HM_OK, HM_E_INVALID (not the name of a target) or HM_E_UNSUPPORTED.
 */
int hm_toolchain_check_arch(const struct hm_toolchain *toolchain,
    const char *arch, struct hm_errbuf *errbuf);

/**
 * Compile to a cubin. "-no-cache" is passed to an NVRTC that has a cache and
 * left out for one that has none and refuses the option.
 *
 * output   its image may be partly written on failure
 * errbuf   on failure one line that says why: the first error of the log if
 *          there is one
 *
 * Returns HM_OK, HM_E_COMPILE, HM_E_UNSUPPORTED (NVRTC refuses the target, or
 * the cubin is larger than its room), HM_E_INVALID (an option it refuses),
 * HM_E_NOMEM or HM_E_INTERNAL.
 */
int hm_toolchain_compile(struct hm_toolchain *toolchain,
    const struct hm_toolchain_program *program,
    struct hm_toolchain_output *output, struct hm_errbuf *errbuf);

#endif
