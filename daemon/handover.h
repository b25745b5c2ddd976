/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handover.h - a job out to a worker, its image back: what crosses between the
 * daemon and a process that it does not believe.
 *
 * The image comes back in a memory file that we made and passed along. It is
 * cut and sealed before anything in it is looked at; sealing fails while the
 * worker still maps it for writing, so what is checked can no longer change.
 */
#ifndef HM_DAEMON_HANDOVER_H
#define HM_DAEMON_HANDOVER_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/recipe.h"
#include "proto/codec.h"
#include "proto/error.h"

struct hm_handover {
	int channel; /* borrowed */
	uint32_t job_id;
	uint8_t *buffer; /* of HM_FRAME_MAX_BYTES, for packing */
};

/**
 * Send the job that builds a recipe.
 *
 * result_fd_out   the memory file for the image; owned by the caller
 *
 * Returns HM_OK, HM_E_UNAVAILABLE (the worker is gone), HM_E_NOMEM,
 * HM_E_SYSTEM, HM_E_INTERNAL.
 */
int hm_handover_send(const struct hm_handover *handover,
    const struct hm_recipe *recipe, int *result_fd_out);

/**
 * Seal and map what a worker says it has written.
 *
 * image_out   the map; give it back with hm_fd_unmap
 *
 * Returns HM_OK; HM_E_PROTOCOL (a size that cannot be); HM_E_BUSY (the worker
 * can still write it); HM_E_SYSTEM.
 */
int hm_handover_take(int result_fd, const struct hm_job_result *result,
    const void **image_out, size_t *n_image_out);

#endif
