/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sized.h - structs of the public headers that begin with their own size.
 *
 * A caller built against an older header hands in a shorter struct, one built
 * against a newer header a longer one. Shorter reads as zeros, that is as
 * defaults; longer is fine as long as what we do not know is zero.
 */
#ifndef HM_CLIENT_SIZED_H
#define HM_CLIENT_SIZED_H

#include <stddef.h>

#include "proto/error.h"

/**
 * Copy a caller's struct into ours of n_to bytes.
 *
 * to    struct_size of it becomes n_to
 * from  its first member is a uint32_t struct_size
 *
 * Returns HM_OK or HM_E_INVALID (NULL, a size below 4 or above 64 KiB, or a
 * tail beyond n_to that is not zero; to is untouched).
 */
int hm_sized_read(void *to, size_t n_to, const void *from);

/**
 * Copy our struct of n_from bytes into a caller's, as much as it holds.
 * to->struct_size is the caller's and stays.
 *
 * Returns HM_OK or HM_E_INVALID (NULL, or a size below 4).
 */
int hm_sized_write(void *to, const void *from, size_t n_from);

/* Zero a caller's struct of n_to bytes and set its struct_size. */
void hm_sized_init(void *to, size_t n_to);

#endif
