/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label.h - the caller's name for a source, in what the compiler says of it.
 *
 * Every source is compiled under one fixed name, so that its name reaches
 * neither key nor cubin; messages start with that name.
 */
#ifndef HM_CLIENT_LABEL_H
#define HM_CLIENT_LABEL_H

#include <stddef.h>

/**
 * Put name in place of the fixed one wherever a line of text begins with it.
 *
 * text    NUL-terminated, not NULL
 * result  a new string, the caller frees it; NULL when out of memory
 *
 * Any thread.
 */
char *hm_label_lines(const char *text, const char *name);

/* The same for one line, into a buffer of size bytes; cut when too long. */
void hm_label_line(const char *line, const char *name, char *out, size_t size);

#endif
