/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activation.h - the listening socket that a service manager has opened for
 * us, by sd_listen_fds(3)'s own description.
 */
#ifndef HM_DAEMON_ACTIVATION_H
#define HM_DAEMON_ACTIVATION_H

#include <stddef.h>

#include "proto/error.h"

/**
 * Take the socket over, and remove LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES
 * from the environment, so that it is taken once.
 *
 * path_out  its name, of size bytes; an abstract one begins with '@'
 * fd_out    -1: nobody has opened one for this process. Else the caller's:
 *           close-on-exec and non-blocking.
 *
 * Returns HM_OK; HM_E_INVALID (more than one, or not a listening Unix socket
 * of type SOCK_SEQPACKET) or HM_E_SYSTEM, one line in errbuf. Before any other
 * thread.
 */
int hm_activation_take(char *path_out, size_t size, int *fd_out,
    struct hm_errbuf *errbuf);

#endif
