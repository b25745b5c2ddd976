/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - the connection of <humming/client.h>: options, deadlines, last
 * errors; what is said over the wire is link's, call's and fetch's.
 */
#include <humming/client.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/call.h"
#include "client/deadline.h"
#include "client/fetch.h"
#include "client/link.h"
#include "client/request.h"
#include "client/sized.h"
#include "proto/codec.h"

#define DEFAULT_TIMEOUT_MS 30000u

struct humming_client {
	pid_t pid; /* who opened it: a forked child may not use it */
	uint32_t timeout_ms;
	uint32_t lane;
	struct hm_link link;
	struct hm_errbuf error; /* of the last call */
	char *log;              /* owned; of the last compile */
};

/* Why the thread's last open failed: there is no connection to keep it. */
static _Thread_local struct hm_errbuf client_open_error;

uint32_t
humming_version(void)
{
	unsigned major = 0, minor = 0, patch = 0;

	/* HM_VERSION is CMake's, and always three numbers.
	 * NOLINTNEXTLINE(cert-err34-c) */
	(void)sscanf(HM_VERSION, "%u.%u.%u", &major, &minor, &patch);
	return major << 16 | minor << 8 | patch;
}

const char *
humming_strerror(int error)
{
	return hm_strerror(error);
}

int
humming_error_is_retryable(int error)
{
	return error == HUMMING_E_UNAVAILABLE || error == HUMMING_E_TIMEOUT ||
	       error == HUMMING_E_BUSY;
}

void
humming_client_options_init(struct humming_client_options *options,
    uint32_t struct_size)
{
	hm_sized_init(options, struct_size);
}

void
humming_kernel_request_init(struct humming_kernel_request *request,
    uint32_t struct_size)
{
	hm_sized_init(request, struct_size);
}

/* HUMMING_TIMEOUT, in seconds, stands in for a timeout that is not given. */
static int
client_default_timeout(uint32_t *timeout_ms_out, struct hm_errbuf *errbuf)
{
	const char *text = secure_getenv("HUMMING_TIMEOUT");

	if (text == NULL || text[0] == '\0') {
		*timeout_ms_out = DEFAULT_TIMEOUT_MS;
		return HM_OK;
	}
	if (!hm_deadline_read(text, timeout_ms_out)) {
		hm_errbuf_set(errbuf,
		    "HUMMING_TIMEOUT: takes seconds above 0, up to %u, as in "
		    "0.5; not '%s'",
		    HM_DEADLINE_MAX_S, text);
		return HM_E_INVALID;
	}
	return HM_OK;
}

/* A caller's options, checked, with the defaults filled in. */
static int
client_import_options(const struct humming_client_options *options,
    struct humming_client_options *ours, struct hm_errbuf *errbuf)
{
	memset(ours, 0, sizeof *ours);
	if (options != NULL &&
	    hm_sized_read(ours, sizeof *ours, options) != HM_OK) {
		hm_errbuf_set(errbuf,
		    "options: struct_size %u or an unknown tail (call "
		    "humming_client_options_init first)",
		    options->struct_size);
		return HM_E_INVALID;
	}
	if (ours->autostart > 1 || ours->prewarm > 1) {
		hm_errbuf_set(errbuf, "options: a flag that is not 0 or 1");
		return HM_E_INVALID;
	}
	if (ours->timeout_ms == 0)
		return client_default_timeout(&ours->timeout_ms, errbuf);
	return HM_OK;
}

int
humming_client_open(const struct humming_client_options *options,
    struct humming_client **client_out)
{
	struct hm_errbuf *errbuf = &client_open_error;
	struct humming_client_options ours;
	struct humming_client *client = NULL;
	int error;

	hm_errbuf_clear(errbuf);
	if (client_out == NULL)
		return HUMMING_E_INVALID;
	error = client_import_options(options, &ours, errbuf);
	if (error != HM_OK)
		return error;
	client = calloc(1, sizeof *client);
	if (client == NULL)
		return HUMMING_E_NOMEM;
	client->pid = getpid();
	client->timeout_ms = ours.timeout_ms;
	client->lane =
	    ours.prewarm != 0 ? HM_LANE_PREWARM : HM_LANE_INTERACTIVE;
	error = hm_link_init(&client->link, ours.socket_path,
	    ours.autostart != 0, errbuf);
	if (error == HM_OK)
		error = hm_link_open(&client->link,
		    hm_deadline_in(client->timeout_ms), errbuf);
	if (error != HM_OK) {
		humming_client_close(client);
		return error;
	}
	*client_out = client;
	return HUMMING_OK;
}

void
humming_client_close(struct humming_client *client)
{
	if (client == NULL)
		return;
	/* A child's copy of the descriptor is its own to close. */
	hm_link_done(&client->link);
	free(client->log);
	free(client);
}

const char *
humming_client_last_error(const struct humming_client *client)
{
	return client != NULL ? client->error.text : client_open_error.text;
}

const char *
humming_client_compile_log(const struct humming_client *client)
{
	return client != NULL && client->log != NULL ? client->log : "";
}

/* Every call begins here: forget the last one, refuse a forked child. */
static int
client_begin(struct humming_client *client, int64_t *deadline_out)
{
	if (client == NULL)
		return HUMMING_E_INVALID;
	hm_errbuf_clear(&client->error);
	free(client->log);
	client->log = NULL;
	if (client->pid != getpid()) {
		hm_errbuf_set(&client->error,
		    "this connection is the parent process's: open another");
		return HUMMING_E_INVALID;
	}
	*deadline_out = hm_deadline_in(client->timeout_ms);
	return HUMMING_OK;
}

/* ... and ends here: success leaves no text, failure never none. */
static int
client_end(struct humming_client *client, int error)
{
	if (error == HM_OK)
		hm_errbuf_clear(&client->error);
	else if (client->error.text[0] == '\0')
		hm_errbuf_set(&client->error, "%s", hm_strerror(error));
	return error;
}

/* Where the results of a fetch go. */
struct client_results {
	struct humming_client *client;
	struct humming_kernel **kernels;
	int *errors; /* NULL = not wanted */
	int first_error;
};

static void
client_on_result(void *payload, const struct hm_fetch_result *result)
{
	struct client_results *results = payload;
	struct humming_client *client = results->client;

	results->kernels[result->index] = result->kernel;
	if (results->errors != NULL)
		results->errors[result->index] = result->error;
	if (result->error == HM_OK || results->first_error != HM_OK)
		return;
	results->first_error = result->error;
	hm_errbuf_set(&client->error, "%s",
	    result->message != NULL ? result->message : "");
	if (result->log != NULL) {
		free(client->log);
		client->log = strdup(result->log);
	}
}

static int
client_fetch(struct humming_client *client, struct hm_fetch *fetch,
    struct client_results *results, int64_t deadline)
{
	struct hm_errbuf why = {.text = ""};
	int error;

	fetch->lane = client->lane;
	fetch->on_result = client_on_result;
	fetch->payload = results;
	error = hm_fetch_run(&client->link, fetch, deadline, &why);
	return error != HM_OK && results->first_error == HM_OK
		   ? error
		   : results->first_error;
}

int
humming_client_get_kernels(struct humming_client *client,
    const struct humming_kernel_request *requests, size_t n,
    struct humming_kernel **kernels_out, int *errors_out)
{
	struct client_results results = {.client = client,
	    .kernels = kernels_out};
	struct hm_fetch fetch = {.n_requests = n};
	const uint8_t *next = (const uint8_t *)requests;
	struct hm_request *ours;
	int64_t deadline;
	int error;

	results.errors = errors_out;
	error = client_begin(client, &deadline);
	if (error != HUMMING_OK)
		return error;
	if (n == 0)
		return client_end(client, HUMMING_OK);
	if (requests == NULL || kernels_out == NULL || n > UINT32_MAX)
		return client_end(client, HUMMING_E_INVALID);
	for (size_t i = 0; i < n; i++)
		kernels_out[i] = NULL;
	ours = calloc(n, sizeof *ours);
	if (ours == NULL)
		return client_end(client, HUMMING_E_NOMEM);
	for (size_t i = 0; i < n && error == HM_OK; i++) {
		error = hm_request_import(
		    (const struct humming_kernel_request *)(const void *)next,
		    &ours[i], &client->error);
		next += requests->struct_size;
	}
	if (error == HM_OK) {
		fetch.requests = ours;
		error = client_fetch(client, &fetch, &results, deadline);
	}
	free(ours);
	return client_end(client, error);
}

int
humming_client_get_kernel(struct humming_client *client,
    const struct humming_kernel_request *request,
    struct humming_kernel **kernel_out)
{
	struct humming_kernel *kernel = NULL;
	int error;

	if (kernel_out == NULL)
		return HUMMING_E_INVALID;
	error = humming_client_get_kernels(client, request, 1, &kernel, NULL);
	if (error == HUMMING_OK)
		*kernel_out = kernel;
	return error;
}

/* A label for messages: what does not fit is cut. */
static void
client_copy_name(char *name_out, size_t size, const char *name)
{
	(void)snprintf(name_out, size, "%.*s", (int)(size - 1),
	    name != NULL && name[0] != '\0' ? name : "source");
}

/* The wire carries no control characters, and a line of a message neither. */
static bool
client_is_unclean(const char *text)
{
	for (; text != NULL && *text != '\0'; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return true;
	}
	return false;
}

static int
client_import_source(const struct humming_source *source,
    struct hm_compile *compile, struct hm_errbuf *errbuf)
{
	size_t length;

	if (source->target_cc == 0 || source->text == NULL ||
	    source->text_bytes == 0 ||
	    source->text_bytes > HM_MAX_SOURCE_BYTES ||
	    source->n_options > HM_MAX_OPTIONS ||
	    (source->n_options != 0 && source->options == NULL)) {
		hm_errbuf_set(errbuf,
		    "source: needs a target, 1 to %u bytes of text and at "
		    "most %u options",
		    HM_MAX_SOURCE_BYTES, HM_MAX_OPTIONS);
		return HM_E_INVALID;
	}
	if (client_is_unclean(source->name)) {
		hm_errbuf_set(errbuf,
		    "source: its name '%.80s' holds a control character",
		    source->name);
		return HM_E_INVALID;
	}
	compile->target.cc = source->target_cc;
	compile->target.suffix = source->target_suffix;
	compile->source_bytes = (uint32_t)source->text_bytes;
	client_copy_name(compile->name, sizeof compile->name, source->name);
	compile->options =
	    calloc(source->n_options + 1, sizeof *compile->options);
	if (compile->options == NULL)
		return HM_E_NOMEM;
	for (uint32_t i = 0; i < source->n_options; i++) {
		length = source->options[i] != NULL ? strlen(source->options[i])
						    : HM_MAX_OPTION_CHARS;
		if (length >= HM_MAX_OPTION_CHARS) {
			hm_errbuf_set(errbuf,
			    "source: option %u is longer than %u characters", i,
			    HM_MAX_OPTION_CHARS - 1);
			return HM_E_INVALID;
		}
		if (client_is_unclean(source->options[i])) {
			hm_errbuf_set(errbuf,
			    "source: option '%.80s' holds a control character",
			    source->options[i]);
			return HM_E_INVALID;
		}
		memcpy(compile->options[i], source->options[i], length + 1);
		compile->n_options++;
	}
	return HM_OK;
}

int
humming_client_compile(struct humming_client *client,
    const struct humming_source *source, struct humming_kernel **kernel_out)
{
	struct humming_kernel *kernel = NULL;
	struct client_results results = {.client = client, .kernels = &kernel};
	struct hm_compile compile = {.n_options = 0};
	struct hm_fetch fetch = {.n_requests = 1, .compile = &compile};
	struct humming_source ours;
	int64_t deadline;
	int error;

	error = client_begin(client, &deadline);
	if (error != HUMMING_OK)
		return error;
	if (source == NULL || kernel_out == NULL ||
	    hm_sized_read(&ours, sizeof ours, source) != HM_OK)
		return client_end(client, HUMMING_E_INVALID);
	error = client_import_source(&ours, &compile, &client->error);
	if (error == HM_OK) {
		fetch.source = ours.text;
		error = client_fetch(client, &fetch, &results, deadline);
	}
	hm_compile_done(&compile);
	if (error == HM_OK)
		*kernel_out = kernel;
	return client_end(client, error);
}

static int
client_text(struct humming_client *client, uint32_t frame_type, bool wanted,
    char **text_out)
{
	int64_t deadline;
	int error;

	error = client_begin(client, &deadline);
	if (error != HUMMING_OK)
		return error;
	if (wanted && text_out == NULL)
		return client_end(client, HUMMING_E_INVALID);
	return client_end(client, hm_call_text(&client->link, frame_type,
				      deadline, text_out, &client->error));
}

int
humming_client_stats(struct humming_client *client, char **json_out)
{
	return client_text(client, HM_FRAME_STATS, true, json_out);
}

int
humming_client_status(struct humming_client *client, char **json_out)
{
	return client_text(client, HM_FRAME_STATUS, true, json_out);
}

int
humming_client_ping(struct humming_client *client)
{
	return client_text(client, HM_FRAME_PING, false, NULL);
}

int
humming_client_stop(struct humming_client *client)
{
	int64_t deadline;
	int error;

	error = client_begin(client, &deadline);
	if (error != HUMMING_OK)
		return error;
	return client_end(client,
	    hm_call_stop(&client->link, deadline, &client->error));
}

void
humming_free(void *memory)
{
	free(memory);
}
