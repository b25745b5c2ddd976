/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.h - an immutable, counted kernel: the image that a daemon sent,
 * checked once, and what is known of it.
 */
#ifndef HM_CLIENT_KERNEL_H
#define HM_CLIENT_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/codec.h"
#include "proto/error.h"
#include "proto/request.h"
#include <humming/client.h>

/* Bytes of a cubin in memory of our own, or in a map of a sealed file. */
struct hm_image {
	const void *bytes; /* owned; NULL = none */
	size_t n_bytes;
	bool mapped;
};

/* Zeroed structs are allowed. */
void hm_image_done(struct hm_image *image);

/**
 * A kernel with one reference, out of a reply that says HIT or BUILT.
 *
 * reply    its log is taken over
 * request  what was asked for; NULL = a client's source
 * image    taken over on success
 * wait_us  as this client saw it
 *
 * Returns HM_OK; HM_E_CORRUPT (the checksum does not match); HM_E_VERSION
 * (kernel ABI or pack layout, both numbers named); HM_E_PROTOCOL (sizes or
 * names that cannot be); HM_E_NOMEM.
 */
int hm_kernel_new(struct hm_kernel_reply *reply,
    const struct hm_request *request, struct hm_image *image, uint32_t wait_us,
    struct humming_kernel **kernel_out, struct hm_errbuf *errbuf);

#endif
