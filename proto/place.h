/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h - where a user's own daemon listens (DESIGN.md section 6): one rule
 * for the daemon and for those who look for it.
 */
#ifndef HM_PROTO_PLACE_H
#define HM_PROTO_PLACE_H

#include <stdbool.h>

#define HM_PLACE_CHARS 108 /* sun_path, with its NUL */

struct hm_place {
	char folder[HM_PLACE_CHARS];
	char socket[HM_PLACE_CHARS]; /* in folder */
};

/* An absolute path of the environment, or NULL. A set-user-id program is not
 * steered by its caller. */
const char *hm_place_environment(const char *name);

/* A real folder (no link), ours, and nobody else may write in it. */
bool hm_place_is_private(const char *folder);

/* $XDG_RUNTIME_DIR/humming. false: no runtime folder that is private, or its
 * name is too long for a socket's. Makes nothing, as all here. */
bool hm_place_runtime(struct hm_place *place_out);

/* ${TMPDIR:-/tmp}/humming-UID. false: TMPDIR is too long. */
bool hm_place_temporary(struct hm_place *place_out);

/* The first of the two that there is: where a daemon started now listens. */
bool hm_place_find(struct hm_place *place_out);

#endif
