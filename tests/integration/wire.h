/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - a client of a page: frames and codec, no library, no retries.
 */
#ifndef HM_TESTS_WIRE_H
#define HM_TESTS_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "proto/codec.h"
#include "proto/frame.h"
#include "tests/integration/harness.h"

struct wire {
	int fd;
	uint32_t last_id;
	uint8_t buffer[HM_FRAME_MAX_BYTES];
};

/* A reply with its image, whichever way that came. */
struct wire_kernel {
	struct hm_kernel_reply reply;
	uint32_t n_progress; /* PROGRESS frames before it */
	bool came_by_fd;
	uint8_t *image;
	size_t n_image;
};

/* One source that takes about so long; salt makes it another one. */
struct wire_source {
	const char *text;
	const char *arch;
	const char *option; /* NULL = none */
	uint32_t deadline_ms;
};

/* Connect only; send HELLO only; both, and wait for WELCOME. */
void wire_connect(struct wire *wire, const struct harness *harness);
void wire_say_hello(struct wire *wire, uint32_t capabilities);
void wire_open(struct wire *wire, const struct harness *harness);
void wire_open_as(struct wire *wire, const struct harness *harness,
    uint32_t capabilities);
void wire_close(struct wire *wire);

/* false = the peer is gone. */
bool wire_send(struct wire *wire, uint32_t type, const uint8_t *body,
    size_t n_body);
/* Next frame, or false after the time or at the peer's end. The descriptor is
 * the caller's. */
bool wire_recv(struct wire *wire, struct hm_frame *frame_out, int wait_ms);

/* A GET of one kernel; returns its request id. spec may be a list by blanks. */
uint32_t wire_send_get(struct wire *wire, const char *specs, const char *arch,
    uint32_t lane, uint32_t deadline_ms);
uint32_t wire_send_compile(struct wire *wire, const struct wire_source *source);
uint32_t wire_send_cancel(struct wire *wire, uint32_t request_id);

/* An ADMIN command; key NULL = none. */
uint32_t wire_send_admin(struct wire *wire, uint32_t command,
    const struct hm_digest *key);
/* The same and its answer: JSON for the caller to decref, or NULL with the
 * error and the line of the refusal (of size bytes). */
json_t *wire_admin(struct wire *wire, uint32_t command,
    const struct hm_digest *key, int *error_out, char *line_out, size_t size);

/* The next KERNEL, PARTs put together, PROGRESS counted. false: none came. */
bool wire_recv_kernel(struct wire *wire, struct wire_kernel *kernel_out);
void wire_kernel_done(struct wire_kernel *kernel);

/* Send and receive; asserts that something comes back. */
void wire_get(struct wire *wire, const char *spec, const char *arch,
    struct wire_kernel *kernel_out);
void wire_compile(struct wire *wire, const struct wire_source *source,
    struct wire_kernel *kernel_out);

/* JSON of STATUS or STATS; the caller decrefs. */
json_t *wire_json(struct wire *wire, uint32_t type);
/* A number of it by path, "hits.hot". */
uint64_t wire_number(struct wire *wire, uint32_t type, const char *path);

/* Ask until a number has a value; asserts that it does in time. */
void wire_wait_number(struct wire *wire, uint32_t type, const char *path,
    uint64_t wanted);

/* Wait until a compiler is ready, or known not to be there; asserts which. */
void wire_expect_compiler(struct wire *wire);
void wire_expect_no_compiler(struct wire *wire);
/* wire_open, then wire_expect_compiler. */
void wire_open_ready(struct wire *wire, const struct harness *harness);

/* CUDA C that keeps a compiler busy: n statements that depend on each other.
 * The caller frees it. */
char *wire_slow_source(uint32_t n_statements, uint32_t salt);

#endif
