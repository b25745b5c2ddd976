/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_daemon.h - a daemon that misbehaves on purpose: what the real one cannot
 * be made to do to a client. Listens on a socket in a folder of its own and
 * hands each connection to the test's function, on a thread.
 */
#ifndef HM_TESTS_FAKE_DAEMON_H
#define HM_TESTS_FAKE_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/codec.h"
#include "proto/frame.h"

/* Serve one connection; number counts from 0. The caller closes fd. */
typedef void (*fake_serve_fn)(int fd, unsigned number, void *payload);

struct fake_daemon;

struct fake_daemon *fake_daemon_new(fake_serve_fn serve, void *payload);
void fake_daemon_free(struct fake_daemon *daemon);
const char *fake_daemon_path(const struct fake_daemon *daemon);
unsigned fake_daemon_connections(const struct fake_daemon *daemon);

/* One frame, within ten seconds; false at the end of the connection. */
bool fake_recv(int fd, uint8_t *buffer, struct hm_frame *frame_out);
void fake_send(int fd, const struct hm_frame *frame);

/* Read HELLO, say WELCOME; the fields may be changed by the caller. */
void fake_welcome_init(struct hm_welcome *welcome);
void fake_greet(int fd, const struct hm_welcome *welcome);

/* Greet as usual and read one request into buffer. */
bool fake_greet_and_recv(int fd, uint8_t *buffer, struct hm_frame *frame_out);

/* A reply that says BUILT for these bytes, with everything in its place. */
void fake_reply_init(struct hm_kernel_reply *reply, uint32_t index,
    const void *image, size_t n_image);

/* A KERNEL frame; the raw bytes and the descriptor go with it. */
void fake_send_kernel(int fd, uint32_t id, const struct hm_kernel_reply *reply,
    const void *raw, size_t n_raw, int image_fd);

/* The same with protobuf bytes behind the body, which override what the packer
 * would refuse. carrier holds id, raw bytes and descriptor. */
void fake_send_patched(int fd, const struct hm_frame *carrier,
    const struct hm_kernel_reply *reply, const uint8_t *patch, size_t n_patch);

#endif
