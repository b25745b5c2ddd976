/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_bench_cold.c - from an empty cache: all kernels of a model; one kernel
 * that 64 clients want at once; one kernel beside an empty one. And then, warm,
 * a whole connection that fetches that model.
 *
 * Nothing is pinned while compilers run, who would take it over.
 */
#include "client/ctl_bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/deadline.h"
#include "client/request.h"
#include "proto/fd.h"
#include "proto/frame.h"

#define COLD_RATIO    1.3
#define COLD_SLACK_US 5e5
#define COMPILE_RATIO 12.0
#define WIDEST_RATIO  18.0
#define WARM_US       1000.0
#define WARM_SAMPLES  300u
#define WARM_BATCH    10u
#define OWN_SAMPLES   5u
/* About what a request and a reply take on the wire besides the image. */
#define WARM_REQUEST_BYTES 80u
#define WARM_REPLY_BYTES   1500u
/* Kernels that the model does not have. */
#define COLD_SPEC    "w4a16,group=32,m=16,n=8192,k=8192"
#define COMPILE_SPEC "w4a16,group=64,n=8192,k=8192"

/* The model's kernels: what is asked for, and what came. */
struct cold_model {
	size_t n;
	struct humming_kernel_request *requests; /* owned */
	struct humming_kernel **kernels;         /* owned, and each */
	double compile_us;                       /* of all */
	size_t image_bytes;
};

static void
cold_model_drop(struct cold_model *model)
{
	for (size_t i = 0; i < model->n && model->kernels != NULL; i++) {
		humming_kernel_unref(model->kernels[i]);
		model->kernels[i] = NULL;
	}
}

static void
cold_model_done(struct cold_model *model)
{
	cold_model_drop(model);
	free(model->requests);
	free(model->kernels);
}

static int
cold_model_init(struct hm_bench *bench, struct cold_model *model)
{
	struct hm_kernel_set set;
	int error;

	memset(model, 0, sizeof *model);
	hm_kernel_set_init(&set);
	error = hm_bench_model(bench, &set);
	if (error != HM_OK)
		goto out;
	model->n = set.n_items;
	model->requests = calloc(model->n, sizeof *model->requests);
	model->kernels = calloc(model->n, sizeof(struct humming_kernel *));
	if (model->requests == NULL || model->kernels == NULL)
		error = HM_E_NOMEM;
	for (size_t i = 0; i < model->n && error == HM_OK; i++)
		hm_request_export(&set.items[i].request, &model->requests[i]);
out:
	hm_kernel_set_done(&set);
	return error;
}

static int
cold_get_model(struct hm_bench *bench, struct humming_client *client,
    struct cold_model *model)
{
	int error;

	error = humming_client_get_kernels(client, model->requests, model->n,
	    model->kernels, NULL);
	if (error != HUMMING_OK)
		hm_errbuf_set(&bench->why, "%s",
		    humming_client_last_error(client));
	return error;
}

static int
cold_compare(const void *a, const void *b)
{
	double left = *(const double *)a;
	double right = *(const double *)b;

	return (left > right) - (left < right);
}

static void
cold_model_read(struct cold_model *model)
{
	struct humming_kernel_info info = {.struct_size = sizeof info};

	for (size_t i = 0; i < model->n; i++) {
		(void)humming_kernel_get_info(model->kernels[i], &info);
		model->compile_us += info.compile_us;
		model->image_bytes += info.image_bytes;
	}
}

/* --- the model ----------------------------------------------------------- */

static int
cold_row_model(struct hm_bench *bench, struct cold_model *model)
{
	struct humming_client *client = NULL;
	struct hm_bench_row *row;
	int64_t start_ns;
	double wall_us;
	double n_cores = (double)bench->n_compilers;
	int error;

	error = hm_bench_open(bench, &client);
	if (error != HM_OK)
		return error;
	start_ns = hm_deadline_now_ns();
	error = cold_get_model(bench, client, model);
	wall_us = (double)(hm_deadline_now_ns() - start_ns) / 1000.0;
	humming_client_close(client);
	if (error != HM_OK)
		return error;
	cold_model_read(model);
	row = hm_bench_row_new(bench, "cold-model");
	row->p50_us = wall_us;
	row->per_s = (double)model->n * 1e6 / wall_us;
	row->bare_p50_us = model->compile_us / n_cores;
	row->bare_per_s = (double)model->n * 1e6 / row->bare_p50_us;
	row->ratio = wall_us / row->bare_p50_us;
	hm_bench_row_at_most(row, row->ratio,
	    COLD_RATIO + COLD_SLACK_US / row->bare_p50_us, "");
	hm_bench_row_extra(row, "kernels", (double)model->n);
	hm_bench_row_extra(row, "cores", n_cores);
	hm_bench_row_extra(row, "compile_us", model->compile_us);
	hm_bench_row_extra(row, "bytes", (double)model->image_bytes);
	return HM_OK;
}

/* --- one key, 64 clients ------------------------------------------------- */

struct cold_client {
	const struct hm_bench_want *want; /* borrowed */
	struct humming_client *client;    /* owned */
	pthread_t thread;
	struct humming_kernel *kernel; /* owned */
	int64_t wait_ns;
	int error;
};

static void *
cold_client_run(void *arg)
{
	struct cold_client *client = arg;
	int64_t start_ns = hm_deadline_now_ns();

	client->error = humming_client_get_kernel(client->client,
	    &client->want->request, &client->kernel);
	client->wait_ns = hm_deadline_now_ns() - start_ns;
	return NULL;
}

/* All ask; each has its kernel, or why is set. */
static int
cold_ask_all(struct hm_bench *bench, struct cold_client *clients)
{
	size_t n = 0;
	int error = HM_OK;

	while (n < HM_BENCH_CLIENTS && pthread_create(&clients[n].thread, NULL,
					   cold_client_run, &clients[n]) == 0)
		n++;
	for (size_t i = 0; i < n; i++)
		(void)pthread_join(clients[i].thread, NULL);
	if (n < HM_BENCH_CLIENTS) {
		hm_errbuf_set(&bench->why, "cannot start %d threads",
		    HM_BENCH_CLIENTS);
		return HM_E_NOMEM;
	}
	for (size_t i = 0; i < n && error == HM_OK; i++) {
		error = clients[i].error;
		if (error != HM_OK)
			hm_errbuf_set(&bench->why, "%s",
			    humming_client_last_error(clients[i].client));
	}
	return error;
}

static int
cold_report_key(struct hm_bench *bench, const struct cold_client *clients,
    double n_builds)
{
	struct humming_kernel_info info = {.struct_size = sizeof info};
	struct hm_bench_samples waits;
	struct hm_bench_row *row;
	int error;

	error = hm_bench_samples_init(&waits, HM_BENCH_CLIENTS);
	if (error != HM_OK)
		return error;
	for (size_t i = 0; i < HM_BENCH_CLIENTS; i++)
		hm_bench_samples_add(&waits, clients[i].wait_ns);
	(void)humming_kernel_get_info(clients[0].kernel, &info);
	row = hm_bench_row_new(bench, "cold-key64");
	row->p50_us = hm_bench_samples_p50_us(&waits);
	row->per_s = HM_BENCH_CLIENTS * 1e6 / row->p50_us;
	row->bare_p50_us = info.compile_us;
	row->bare_per_s = HM_BENCH_CLIENTS * 1e6 / row->bare_p50_us;
	row->ratio = row->p50_us / row->bare_p50_us;
	hm_bench_row_at_most(row, n_builds, 1.0, " builds");
	hm_bench_row_extra(row, "clients", HM_BENCH_CLIENTS);
	hm_bench_row_extra(row, "builds", n_builds);
	hm_bench_samples_done(&waits);
	return HM_OK;
}

static int
cold_row_key(struct hm_bench *bench)
{
	struct cold_client *clients;
	struct hm_bench_want want;
	double before = 0.0, after = 0.0;
	int error;

	clients = calloc(HM_BENCH_CLIENTS, sizeof *clients);
	if (clients == NULL)
		return HM_E_NOMEM;
	error = hm_bench_want_spec(bench, COLD_SPEC, &want);
	for (size_t i = 0; i < HM_BENCH_CLIENTS && error == HM_OK; i++) {
		clients[i].want = &want;
		error = hm_bench_open(bench, &clients[i].client);
	}
	if (error == HM_OK)
		error = hm_bench_stat(bench, "builds", &before);
	if (error == HM_OK)
		error = cold_ask_all(bench, clients);
	if (error == HM_OK)
		error = hm_bench_stat(bench, "builds", &after);
	if (error == HM_OK)
		error = cold_report_key(bench, clients, after - before);
	for (size_t i = 0; i < HM_BENCH_CLIENTS; i++) {
		humming_kernel_unref(clients[i].kernel);
		humming_client_close(clients[i].client);
	}
	free(clients);
	return error;
}

/* --- one kernel ---------------------------------------------------------- */

/* How long the compiler took for it; it is in no cache yet. */
static int
cold_compile_once(struct hm_bench *bench, struct humming_client *client,
    const struct hm_bench_want *want, double *compile_us_out)
{
	struct humming_kernel_info info = {.struct_size = sizeof info};
	struct humming_kernel *kernel = NULL;
	int error;

	error = hm_bench_go_on(bench);
	if (error == HM_OK)
		error = hm_bench_get(bench, client, want, &kernel);
	if (error != HM_OK)
		return error;
	(void)humming_kernel_get_info(kernel, &info);
	*compile_us_out = info.compile_us;
	humming_kernel_unref(kernel);
	return HM_OK;
}

/* A kernel that the model does not have. */
static int
cold_compile_own(struct hm_bench *bench, struct humming_client *client,
    unsigned m, double *compile_us_out)
{
	struct hm_bench_want want;
	char spec[80];
	int error;

	(void)snprintf(spec, sizeof spec, COMPILE_SPEC ",m=%u", m);
	error = hm_bench_want_spec(bench, spec, &want);
	if (error != HM_OK)
		return error;
	return cold_compile_once(bench, client, &want, compile_us_out);
}

/* A kernel that does nothing; each is another one. */
static int
cold_compile_empty(struct hm_bench *bench, struct humming_client *client,
    unsigned number, double *compile_us_out)
{
	struct humming_source source;
	struct hm_bench_want want = {.source = &source};
	char text[80];

	(void)snprintf(text, sizeof text,
	    "extern \"C\" __global__ void empty%u() {}\n", number);
	hm_bench_source(text, &source);
	return cold_compile_once(bench, client, &want, compile_us_out);
}

/* One after the other, in turns, with the machine to themselves; sorted. */
static int
cold_compile_all(struct hm_bench *bench, struct humming_client *client,
    double own_us[OWN_SAMPLES], double empty_us[OWN_SAMPLES])
{
	/* From the smallest tile to the widest. */
	static const unsigned m[OWN_SAMPLES] = {1, 16, 64, 256, 8192};
	int error;

	/* The first source makes the daemon start another compiler in place of
	 * the one that is a client's from now on. */
	error = cold_compile_empty(bench, client, OWN_SAMPLES, &empty_us[0]);
	if (error == HM_OK)
		error = hm_bench_wait_compilers(bench);
	for (unsigned i = 0; i < OWN_SAMPLES && error == HM_OK; i++) {
		error = cold_compile_own(bench, client, m[i], &own_us[i]);
		if (error == HM_OK)
			error =
			    cold_compile_empty(bench, client, i, &empty_us[i]);
	}
	qsort(own_us, OWN_SAMPLES, sizeof own_us[0], cold_compare);
	qsort(empty_us, OWN_SAMPLES, sizeof empty_us[0], cold_compare);
	return error;
}

static void
cold_report_compile(struct hm_bench *bench, const char *name, double p50_us,
    double empty_us, double limit)
{
	struct hm_bench_row *row = hm_bench_row_new(bench, name);

	row->p50_us = p50_us;
	row->per_s = 1e6 / p50_us;
	row->bare_p50_us = empty_us;
	row->bare_per_s = 1e6 / empty_us;
	row->ratio = p50_us / empty_us;
	hm_bench_row_at_most(row, row->ratio, limit, "");
}

static int
cold_row_compile(struct hm_bench *bench)
{
	double own_us[OWN_SAMPLES] = {0.0};
	double empty_us[OWN_SAMPLES] = {0.0};
	struct humming_client *client = NULL;
	int error;

	error = hm_bench_open(bench, &client);
	if (error == HM_OK)
		error = cold_compile_all(bench, client, own_us, empty_us);
	humming_client_close(client);
	if (error != HM_OK)
		return error;
	cold_report_compile(bench, "compile", own_us[OWN_SAMPLES / 2],
	    empty_us[OWN_SAMPLES / 2], COMPILE_RATIO);
	cold_report_compile(bench, "compile-widest", own_us[OWN_SAMPLES - 1],
	    empty_us[OWN_SAMPLES / 2], WIDEST_RATIO);
	return HM_OK;
}

/* --- warm ---------------------------------------------------------------- */

static int
cold_warm_once(struct hm_bench *bench, struct cold_model *model)
{
	struct humming_client *client = NULL;
	int error;

	error = hm_bench_open(bench, &client);
	if (error == HM_OK)
		error = cold_get_model(bench, client, model);
	humming_client_close(client);
	cold_model_drop(model);
	return error;
}

/* Connect, one round trip in place of the greeting, then one for each kernel,
 * requests first, as they are all there at once. */
static int
cold_bare_once(struct hm_bench *bench, const struct hm_bench_bare *bare,
    size_t n)
{
	int fd = hm_bench_bare_connect(bare);
	bool is_whole =
	    fd != -1 && hm_bench_bare_send(fd, &bare->sizes, bare->buffer) &&
	    hm_bench_bare_recv(fd, &bare->sizes, bare->buffer, NULL);

	for (size_t i = 0; i < n && is_whole; i++)
		is_whole = hm_bench_bare_send(fd, &bare->sizes, bare->buffer);
	for (size_t i = 0; i < n && is_whole; i++)
		is_whole =
		    hm_bench_bare_recv(fd, &bare->sizes, bare->buffer, NULL);
	hm_fd_close(&fd);
	if (is_whole)
		return HM_OK;
	hm_errbuf_set(&bench->why, "the bare peer went away");
	return HM_E_SYSTEM;
}

static int
cold_measure_warm(struct hm_bench *bench, struct cold_model *model,
    const struct hm_bench_bare *bare, struct hm_bench_samples samples[2])
{
	int64_t start_ns;
	int error = HM_OK;

	for (unsigned i = 0; i < WARM_SAMPLES && error == HM_OK; i++) {
		if (i % WARM_BATCH == 0)
			error = hm_bench_go_on(bench);
		start_ns = hm_deadline_now_ns();
		if (error == HM_OK)
			error = cold_warm_once(bench, model);
		hm_bench_samples_add(&samples[0],
		    hm_deadline_now_ns() - start_ns);
		start_ns = hm_deadline_now_ns();
		if (error == HM_OK)
			error = cold_bare_once(bench, bare, model->n);
		hm_bench_samples_add(&samples[1],
		    hm_deadline_now_ns() - start_ns);
	}
	return error;
}

static void
cold_report_warm(struct hm_bench *bench, const struct cold_model *model,
    struct hm_bench_samples samples[2])
{
	struct hm_bench_row *row = hm_bench_row_new(bench, "warm-model");

	row->p50_us = hm_bench_samples_p50_us(&samples[0]);
	row->per_s = hm_bench_samples_per_s(&samples[0]);
	row->bare_p50_us = hm_bench_samples_p50_us(&samples[1]);
	row->bare_per_s = hm_bench_samples_per_s(&samples[1]);
	row->ratio = row->p50_us / row->bare_p50_us;
	hm_bench_row_at_most(row, row->p50_us, WARM_US, " us");
	hm_bench_row_extra(row, "kernels", (double)model->n);
	hm_bench_row_extra(row, "bytes", (double)model->image_bytes);
}

static int
cold_row_warm(struct hm_bench *bench, struct cold_model *model)
{
	const struct hm_bench_sizes sizes = {
	    .request_bytes = WARM_REQUEST_BYTES,
	    .reply_bytes = WARM_REPLY_BYTES + model->image_bytes / model->n,
	};
	struct hm_bench_bare bare = {.pid = -1, .fd = -1};
	struct hm_bench_samples samples[2] = {{.n = 0}, {.n = 0}};
	int error;

	error = hm_bench_samples_init(&samples[0], WARM_SAMPLES);
	if (error == HM_OK)
		error = hm_bench_samples_init(&samples[1], WARM_SAMPLES);
	if (error == HM_OK)
		error = hm_bench_bare_listen(bench, &sizes, &bare);
	if (error == HM_OK)
		error = hm_bench_pin(bench, 0, 0, 1);
	if (error == HM_OK)
		error = hm_bench_pin(bench, bench->daemon, 0, 1);
	if (error == HM_OK)
		error = hm_bench_pin(bench, bare.pid, 0, 1);
	if (error == HM_OK)
		error = cold_measure_warm(bench, model, &bare, samples);
	if (error == HM_OK)
		cold_report_warm(bench, model, samples);
	hm_bench_bare_done(&bare);
	hm_bench_samples_done(&samples[0]);
	hm_bench_samples_done(&samples[1]);
	return error;
}

int
hm_bench_cold(struct hm_bench *bench)
{
	struct cold_model model;
	int error;

	error = cold_model_init(bench, &model);
	if (error == HM_OK)
		error = cold_row_model(bench, &model);
	cold_model_drop(&model);
	if (error == HM_OK)
		error = cold_row_key(bench);
	if (error == HM_OK)
		error = cold_row_compile(bench);
	if (error == HM_OK)
		error = cold_row_warm(bench, &model);
	cold_model_done(&model);
	return error;
}
