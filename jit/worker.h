/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.h - the life of a compile worker: one job at a time, from a channel.
 */
#ifndef HM_JIT_WORKER_H
#define HM_JIT_WORKER_H

/**
 * Detach from the parent, load NVRTC, close the sandbox, compile a probe, say
 * HM_FRAME_WORKER_READY, then answer each HM_FRAME_JOB by one
 * HM_FRAME_JOB_RESULT of the same request id until the channel closes.
 *
 * channel_fd  SOCK_SEQPACKET, frames of proto/frame.h; 3 or more
 * where       for hm_toolchain_open; NULL = search
 *
 * Without a usable NVRTC it says so in WORKER_READY and returns.
 *
 * Returns the exit status: 0, or 1 when the channel is no channel or brought
 * what no daemon sends. The caller must leave by _exit.
 */
int hm_worker_run(int channel_fd, const char *where);

#endif
