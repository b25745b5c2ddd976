/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_foreign.h - is this database another program's? Damage is moved aside,
 * a neighbour's data is left alone.
 */
#ifndef HM_CACHE_STORE_FOREIGN_H
#define HM_CACHE_STORE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Whether fd is an LMDB file that has something in it, but no database with one
 * of our names, n_names of them. Looks at the header and one page only; what
 * is damaged there, or cannot be read, is not foreign.
 */
bool hm_store_is_foreign(int fd, const char *const *names, size_t n_names);

#endif
