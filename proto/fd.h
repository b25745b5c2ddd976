/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fd.h - descriptors with exactly one owner, and sealed memory files.
 *
 * Whatever is created here is close-on-exec. A function given a descriptor
 * never closes it unless its name says take.
 */
#ifndef HM_PROTO_FD_H
#define HM_PROTO_FD_H

#include <stddef.h>

#include "proto/error.h"

/* Close *fd unless it is -1, and set it to -1. Keeps errno. */
void hm_fd_close(int *fd);

/**
 * Take the place of those of 0, 1 and 2 that are closed, so that no socket or
 * file opened later gets their number. They fail as closed ones do: 0 cannot be
 * read, 1 and 2 cannot be written. First thing in main, as it looks before it
 * opens. Returns HM_OK or HM_E_SYSTEM.
 */
int hm_fd_reserve_stdio(void);

/* The whole buffer, whatever the kernel takes at once. HM_OK, HM_E_SYSTEM. */
int hm_fd_write_all(int fd, const void *bytes, size_t n_bytes);

/**
 * Create a memory file that can still be written and sealed.
 *
 * name     label shown by the kernel, need not be unique
 * n_bytes  its size from the start (zeros), not 0
 *
 * Returns HM_OK (the caller owns *fd_out), HM_E_INVALID or HM_E_SYSTEM.
 */
int hm_fd_memory(const char *name, size_t n_bytes, int *fd_out);

/**
 * Put bytes into a new memory file that nobody can change afterwards.
 *
 * bytes    content of n_bytes > 0 bytes, only read
 * fd_out   set on success; the caller owns it; untouched on failure
 *
 * Any thread. Returns HM_OK, HM_E_INVALID or HM_E_SYSTEM (errno kept).
 */
int hm_fd_seal(const char *name, const void *bytes, size_t n_bytes,
    int *fd_out);

/**
 * Cut an existing memory file to n_bytes and seal it against writing, growing,
 * shrinking and further sealing.
 *
 * Returns HM_OK; HM_E_BUSY when somebody still maps it for writing or resizes
 * it; HM_E_INVALID (n_bytes is 0); HM_E_SYSTEM.
 */
int hm_fd_seal_existing(int fd, size_t n_bytes);

/**
 * Map a sealed memory file for reading.
 *
 * limit_bytes  refuse anything larger
 * bytes_out    the map; give it back with hm_fd_unmap
 *
 * The seals and the size are checked first, so the map can neither change nor
 * fault. Returns HM_OK, HM_E_PROTOCOL (not sealed, empty, or too large) or
 * HM_E_SYSTEM.
 */
int hm_fd_map_sealed(int fd, size_t limit_bytes, const void **bytes_out,
    size_t *n_bytes_out);
void hm_fd_unmap(const void *bytes, size_t n_bytes);

#endif
