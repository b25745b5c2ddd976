/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolchain_find.h - the places where an NVRTC may lie, in order.
 */
#ifndef HM_JIT_TOOLCHAIN_FIND_H
#define HM_JIT_TOOLCHAIN_FIND_H

#include "proto/error.h"

/* Whether a libnvrtc, given by path or by bare name, will do: HM_OK ends the
 * search, anything else goes on; a reason worth showing goes into errbuf. */
typedef int (*hm_toolchain_try_fn)(void *arg, const char *file,
    struct hm_errbuf *errbuf);

/**
 * Offer one libnvrtc after the other to try_file.
 *
 * where     a folder or a libnvrtc file, and then nothing else is looked at;
 *           NULL: HUMMING_NVRTC in the same sense, else CUDA_HOME,
 *           /usr/local/cuda, the loader's path, the private prefixes
 *           (HUMMING_PREFIX, /opt/humming/nvrtc, XDG_DATA_HOME)
 * try_file  called with arg
 * errbuf    on failure what try_file last had to say, or what is not there
 *
 * Reads the environment: one thread. Returns HM_OK, or HM_E_UNAVAILABLE or
 * what try_file returned last.
 */
int hm_toolchain_find(const char *where, hm_toolchain_try_fn try_file,
    void *arg, struct hm_errbuf *errbuf);

#endif
