/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - the public kernel request to the house's own and back.
 */
#ifndef HM_CLIENT_REQUEST_H
#define HM_CLIENT_REQUEST_H

#include "proto/error.h"
#include "proto/request.h"
#include <humming/client.h>

/**
 * Read a kernel request and fill in the defaults that follow from its types.
 * What makes sense is jit/spec's to say, in the daemon. Returns HM_OK or
 * HM_E_INVALID (struct_size, no target).
 */
int hm_request_import(const struct humming_kernel_request *request,
    struct hm_request *request_out, struct hm_errbuf *errbuf);

/* The reverse, for the tools: a request of jit/spec as a public struct. */
void hm_request_export(const struct hm_request *request,
    struct humming_kernel_request *request_out);

#endif
