/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.h - what a worker gives up before it reads a stranger's source.
 *
 * NVRTC opens any file that a source names and puts its text into the cubin,
 * and it can be made to eat all memory. So a worker loads its libraries first
 * and then closes the world: no file, no socket but its channel, no process,
 * a bounded address space. One way: nothing here can be undone.
 *
 * For a process with a single thread.
 */
#ifndef HM_JIT_SANDBOX_H
#define HM_JIT_SANDBOX_H

#include <stddef.h>
#include <stdint.h>

#include "proto/error.h"

struct hm_sandbox {
	size_t extra_bytes; /* address space over what is in use now */
	size_t file_bytes;  /* largest file that may be written */
};

/**
 * Leave everything of the parent but one descriptor: 0, 1 and 2 become
 * /dev/null, keep_fd (3 or more) stays, all others are closed; the working
 * folder is /, new files are private, no core is written, and the process dies
 * with its parent.
 *
 * Returns HM_OK, HM_E_INVALID (keep_fd is not open), HM_E_UNAVAILABLE (the
 * parent has gone meanwhile) or HM_E_SYSTEM.
 */
int hm_sandbox_detach(int keep_fd);

/**
 * Install every part that the kernel has: rlimits, no_new_privs, Landlock
 * without a rule, the seccomp allow-list.
 *
 * missing_out  the first part that could not be had, and why; empty if none
 *
 * Returns the HM_SANDBOX_ bits (proto/codec.h) of the parts in force.
 */
uint32_t hm_sandbox_install(const struct hm_sandbox *sandbox,
    struct hm_errbuf *missing_out);

#endif
