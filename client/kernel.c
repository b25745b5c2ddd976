/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.c - see kernel.h and <humming/client.h>.
 *
 * Nothing here changes after hm_kernel_new but the count, so that any thread
 * may read. The image's checksum is verified there, once: a damaged cubin can
 * crash the driver of the process that loads it.
 */
#include "client/kernel.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/sized.h"
#include "jit/launch.h"
#include "jit/plan.h"
#include "proto/digest.h"
#include "proto/fd.h"

#define CONFIG_WORDS (sizeof(struct hm_config) / sizeof(uint32_t))

_Static_assert(CONFIG_WORDS <= HM_MAX_CONFIG_WORDS,
    "a configuration fits the wire");

struct humming_kernel {
	atomic_uint n_refs;
	bool is_source; /* of a client; has no plan */
	uint32_t wait_us;
	struct hm_request request; /* zero for a source */
	struct hm_config config;   /* zero for a source */
	struct hm_image image;
	char key[HM_DIGEST_HEX_CHARS + 1];
	struct hm_kernel_reply reply; /* owned log inside */
};

void
hm_image_done(struct hm_image *image)
{
	if (image->bytes == NULL)
		return;
	if (image->mapped) {
		hm_fd_unmap(image->bytes, image->n_bytes);
	} else {
		/* Allocated by us; const only for its readers. */
		free((void *)(uintptr_t)image->bytes);
	}
	memset(image, 0, sizeof *image);
}

/* Launching a kernel of another release would read weights or parameters that
 * are not there. Client sources have neither. */
static int
kernel_check_version(const struct hm_kernel_reply *reply,
    struct hm_errbuf *errbuf)
{
	if (reply->kernel_abi != HM_KERNEL_ABI) {
		hm_errbuf_set(errbuf,
		    "the kernel has ABI %u, this library knows %u",
		    reply->kernel_abi, HM_KERNEL_ABI);
		return HM_E_VERSION;
	}
	if (reply->pack_layout != HM_PACK_LAYOUT) {
		hm_errbuf_set(errbuf,
		    "the kernel reads pack layout %u, this library packs %u",
		    reply->pack_layout, HM_PACK_LAYOUT);
		return HM_E_VERSION;
	}
	if (reply->meta.n_config_words != CONFIG_WORDS) {
		hm_errbuf_set(errbuf,
		    "the kernel's configuration has %u words, this library "
		    "knows %zu",
		    reply->meta.n_config_words, CONFIG_WORDS);
		return HM_E_VERSION;
	}
	return HM_OK;
}

static int
kernel_check(const struct hm_kernel_reply *reply, bool is_source,
    const struct hm_image *image, struct hm_errbuf *errbuf)
{
	struct hm_checksum checksum;
	int error;

	if (!is_source) {
		error = kernel_check_version(reply, errbuf);
		if (error != HM_OK)
			return error;
		if (reply->meta.entry[0] == '\0')
			return HM_E_PROTOCOL;
	}
	if (image->bytes == NULL || image->n_bytes != reply->image_bytes)
		return HM_E_PROTOCOL;
	hm_checksum_compute(image->bytes, image->n_bytes, &checksum);
	if (!hm_checksum_equal(&checksum, &reply->checksum)) {
		hm_errbuf_set(errbuf,
		    "the kernel's %zu bytes do not match their checksum",
		    image->n_bytes);
		return HM_E_CORRUPT;
	}
	return HM_OK;
}

int
hm_kernel_new(struct hm_kernel_reply *reply, const struct hm_request *request,
    struct hm_image *image, uint32_t wait_us,
    struct humming_kernel **kernel_out, struct hm_errbuf *errbuf)
{
	struct humming_kernel *kernel;
	int error;

	error = kernel_check(reply, request == NULL, image, errbuf);
	if (error != HM_OK)
		return error;
	kernel = malloc(sizeof *kernel); /* every member is set below */
	if (kernel == NULL)
		return HM_E_NOMEM;
	atomic_init(&kernel->n_refs, 1);
	kernel->wait_us = wait_us;
	kernel->is_source = request == NULL;
	memset(&kernel->request, 0, sizeof kernel->request);
	memset(&kernel->config, 0, sizeof kernel->config);
	if (request != NULL) {
		kernel->request = *request;
		memcpy(&kernel->config, reply->meta.config_words,
		    sizeof kernel->config);
	}
	kernel->reply = *reply;
	reply->log = NULL;
	kernel->image = *image;
	memset(image, 0, sizeof *image);
	hm_digest_to_hex(&kernel->reply.key, kernel->key);
	*kernel_out = kernel;
	return HM_OK;
}

struct humming_kernel *
humming_kernel_ref(struct humming_kernel *kernel)
{
	if (kernel != NULL)
		(void)atomic_fetch_add_explicit(&kernel->n_refs, 1,
		    memory_order_relaxed);
	return kernel;
}

void
humming_kernel_unref(struct humming_kernel *kernel)
{
	/* acq_rel: whoever frees has seen what all others did with it. */
	if (kernel == NULL || atomic_fetch_sub_explicit(&kernel->n_refs, 1,
				  memory_order_acq_rel) != 1)
		return;
	hm_image_done(&kernel->image);
	hm_kernel_reply_done(&kernel->reply);
	free(kernel);
}

int
humming_kernel_image(const struct humming_kernel *kernel,
    const void **image_out, size_t *size_bytes_out)
{
	if (kernel == NULL || image_out == NULL || size_bytes_out == NULL)
		return HUMMING_E_INVALID;
	*image_out = kernel->image.bytes;
	*size_bytes_out = kernel->image.n_bytes;
	return HUMMING_OK;
}

const char *
humming_kernel_entry(const struct humming_kernel *kernel)
{
	return kernel != NULL ? kernel->reply.meta.entry : "";
}

int
humming_kernel_get_info(const struct humming_kernel *kernel,
    struct humming_kernel_info *info)
{
	const struct hm_kernel_reply *reply;
	struct humming_kernel_info ours;

	if (kernel == NULL || info == NULL)
		return HUMMING_E_INVALID;
	reply = &kernel->reply;
	ours = (struct humming_kernel_info){
	    .registers = reply->meta.registers,
	    .spill_bytes = reply->meta.spill_bytes,
	    .smem_bytes = reply->meta.smem_bytes,
	    .compile_us = reply->meta.compile_us,
	    .wait_us = kernel->wait_us,
	    .image_bytes = reply->image_bytes,
	    .kernel_abi = reply->kernel_abi,
	    .pack_layout = reply->pack_layout,
	    .n_ranges = reply->n_ranges,
	    .key = kernel->key,
	    .spec = reply->meta.spec,
	    .arch = reply->meta.arch,
	    .tier = hm_tier_name(reply->tier),
	    .entry = reply->meta.entry,
	    .entries = reply->meta.entries,
	    .compiler = reply->meta.compiler,
	    .log = reply->log != NULL ? reply->log : "",
	};
	return hm_sized_write(info, &ours, sizeof ours);
}

int
humming_kernel_range(const struct humming_kernel *kernel, uint32_t index,
    struct humming_range *range_out)
{
	const struct hm_range *range;

	if (kernel == NULL || range_out == NULL ||
	    index >= kernel->reply.n_ranges)
		return HUMMING_E_INVALID;
	range = &kernel->reply.ranges[index];
	range_out->m_lo = range->m_lo;
	range_out->m_hi = range->m_hi;
	hm_digest_to_hex(&range->key, range_out->key);
	return HUMMING_OK;
}

static bool
kernel_has_config(const struct humming_kernel *kernel,
    const struct hm_config *config)
{
	/* Words without padding: equal bytes are equal configurations. */
	return memcmp(&kernel->config, config, sizeof *config) == 0;
}

/* The row of the reply's table, which is the daemon's word. */
static int
kernel_find_range(const struct humming_kernel *kernel, uint32_t m,
    struct hm_plan_row *row_out)
{
	const struct hm_kernel_reply *reply = &kernel->reply;
	const struct hm_range *range;

	for (uint32_t i = 0; i < reply->n_ranges; i++) {
		range = &reply->ranges[i];
		if (m < range->m_lo || m > range->m_hi ||
		    !hm_digest_equal(&range->key, &reply->key))
			continue;
		*row_out = (struct hm_plan_row){
		    .m_lo = range->m_lo,
		    .m_hi = range->m_hi,
		    .config = kernel->config,
		    .cluster = range->cluster,
		    .band = range->band,
		    .prefetch = range->prefetch,
		    .weight_policy = range->weight_policy,
		    .split_tail = range->split_tail,
		};
		return HM_OK;
	}
	return HM_E_INVALID;
}

/* For sizes that the kernel was not asked for: our own plan, where it leads to
 * this very configuration. */
static int
kernel_find_row(const struct humming_kernel *kernel,
    const struct hm_request *request, struct hm_plan_row *row_out)
{
	const struct hm_plan_row *row;
	struct hm_plan plan;
	int error;

	error = hm_plan_compute(request, &plan, NULL);
	if (error != HM_OK)
		return error;
	row = hm_plan_find(&plan, request->m);
	if (!kernel_has_config(kernel, &row->config))
		return HM_E_INVALID;
	*row_out = *row;
	return HM_OK;
}

int
humming_kernel_launch(const struct humming_kernel *kernel, uint32_t m,
    uint32_t n, uint32_t k, struct humming_launch *launch_out)
{
	struct humming_launch ours;
	struct hm_request request;
	struct hm_plan_row row;
	struct hm_launch launch;
	int error;

	if (kernel == NULL || launch_out == NULL)
		return HUMMING_E_INVALID;
	if (kernel->is_source)
		return HUMMING_E_UNSUPPORTED;
	if (m == 0 || n == 0 || n % 8 != 0 || k == 0 || k % 8 != 0)
		return HUMMING_E_INVALID;
	request = kernel->request;
	if (request.sms == 0)
		request.sms = hm_plan_usual_sms(&request.target);
	if (n == request.n && k == request.k && kernel->reply.n_ranges != 0) {
		error = kernel_find_range(kernel, m, &row);
	} else {
		request.m = m;
		request.n = n;
		request.k = k;
		error = kernel_find_row(kernel, &request, &row);
	}
	if (error == HM_OK)
		error = hm_launch_compute(&row, m, n, k, request.sms, &launch);
	if (error != HM_OK)
		return error;
	ours = (struct humming_launch){
	    .block_threads = launch.threads,
	    .grid_x = launch.grid_x,
	    .grid_y = launch.grid_y,
	    .cluster_size = launch.cluster,
	    .dynamic_smem_bytes = launch.smem_bytes,
	    .tile_tokens = launch.tile_tokens,
	    .tile_rows = launch.tile_rows,
	    .band = launch.band,
	    .prefetch = launch.prefetch,
	    .row_groups = launch.row_groups,
	    .weight_policy = launch.weight_policy,
	    .pdl = request.target.cc >= 90,
	    .kernel_abi = kernel->reply.kernel_abi,
	    .pack_layout = kernel->reply.pack_layout,
	    .workspace_bytes = launch.workspace_bytes,
	    .split_tiles = launch.split_tiles,
	};
	return hm_sized_write(launch_out, &ours, sizeof ours);
}
