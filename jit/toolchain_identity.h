/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolchain_identity.h - which file a loaded library is: path, build id, size.
 */
#ifndef HM_JIT_TOOLCHAIN_IDENTITY_H
#define HM_JIT_TOOLCHAIN_IDENTITY_H

#include <stddef.h>

/* Room for every text that hm_toolchain_identity_text writes. */
#define HM_TOOLCHAIN_IDENTITY_CHARS 72

/* The file that a dlopen handle was loaded from; NULL when unknown. Lives as
 * long as the library stays loaded. */
const char *hm_toolchain_identity_path(void *library);

/**
 * "<build id> <bytes>" of a loaded library; "-" for a build id that it does
 * not have.
 *
 * Returns HM_OK or HM_E_UNAVAILABLE (its file is unknown or gone).
 */
int hm_toolchain_identity_text(void *library, char *text_out, size_t size);

#endif
