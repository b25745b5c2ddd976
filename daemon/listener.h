/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listener.h - the one socket, and the lock that makes it ours.
 *
 * `<socket>.lock` is locked before the name is touched: a socket that is there
 * although nobody holds the lock is a leftover and is removed; one whose lock
 * is held belongs to a living daemon. The lock's file stays, but for a start
 * that is refused and has made it: whoever locks one makes sure that it still
 * has its name, or two daemons could each lock a file of that name.
 */
#ifndef HM_DAEMON_LISTENER_H
#define HM_DAEMON_LISTENER_H

#include <sys/types.h>

#include <stdbool.h>

#include "proto/error.h"

struct hm_listener {
	int fd;          /* owned; -1 = closed */
	int lock_fd;     /* owned; -1 = not ours */
	bool is_adopted; /* the service manager's too: its name stays */
	bool was_open;   /* it has listened */
	bool made_lock;  /* its file was not there before */
	char path[108];
};

void hm_listener_init(struct hm_listener *listener);

/**
 * Use the socket that a service manager has opened for us, if there is one.
 *
 * path_out  its name, of size bytes; untouched if there is none
 *
 * Returns HM_OK, also when there is none (fd is still -1), or as
 * hm_activation_take. An adopted socket needs neither lock nor open: while it
 * listens, no other daemon takes it for a leftover.
 */
int hm_listener_adopt(struct hm_listener *listener, char *path_out, size_t size,
    struct hm_errbuf *errbuf);

/* Take the lock of a path. HM_OK; HM_E_BUSY (another daemon has it);
 * HM_E_SYSTEM; one line in errbuf. */
int hm_listener_lock(struct hm_listener *listener, const char *path,
    struct hm_errbuf *errbuf);

/**
 * Bind and listen; the lock must be ours.
 *
 * mode     of the socket: 0666, or 0600 for a private daemon
 *
 * Returns HM_OK; HM_E_INVALID (there is something of that name which is no
 * socket); HM_E_BUSY (somebody without the lock listens there, as a service
 * manager does for a daemon that is not running); HM_E_SYSTEM; one line in
 * errbuf.
 */
int hm_listener_open(struct hm_listener *listener, mode_t mode,
    struct hm_errbuf *errbuf);

/* Stop listening and remove the name, but keep the lock. Of an adopted socket
 * the name stays, and whoever connects now is served by the next daemon. */
void hm_listener_stop(struct hm_listener *listener);

/* Everything. A listener that was never opened is fine. */
void hm_listener_close(struct hm_listener *listener);

#endif
