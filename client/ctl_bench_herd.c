/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_bench_herd.c - 64 clients at once, each asking for one hot kernel again
 * and again, beside 64 that do the same with a bare peer.
 *
 * A client is a thread with a connection of its own to each. All of them, and
 * whoever answers, share two cores; turns of hits and of bare round trips
 * follow each other, and between two turns everybody waits.
 */
#include "client/ctl_bench.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "client/deadline.h"
#include "proto/fd.h"
#include "proto/frame.h"

#define HERD_ROUNDS  12
#define HERD_TURN_MS 150
#define HERD_SAMPLES 20000u
#define HERD_RATIO   0.5

struct herd;

struct herd_client {
	struct herd *herd; /* borrowed */
	pthread_t thread;
	struct humming_client *client;      /* owned */
	int fd;                             /* owned; to the bare peer */
	uint8_t *buffer;                    /* owned; a packet */
	struct hm_bench_samples hit, plain; /* owned */
	int error;
};

struct herd {
	struct hm_bench *bench;
	struct hm_bench_want want;
	struct hm_bench_bare bare; /* owned */
	atomic_bool is_over;       /* the turn at hand has ended */
	pthread_mutex_t lock;      /* of the next five */
	pthread_cond_t changed;
	unsigned turn;            /* counts them */
	unsigned n_active;        /* clients that have not finished it */
	bool is_bare;             /* its kind */
	bool is_done;             /* no turn any more */
	int64_t hit_ns, plain_ns; /* of all turns */
	struct herd_client clients[HM_BENCH_CLIENTS];
};

static int
herd_hit_once(struct herd_client *client)
{
	struct humming_kernel *kernel = NULL;
	int64_t start_ns = hm_deadline_now_ns();
	int error;

	error = humming_client_get_kernel(client->client,
	    &client->herd->want.request, &kernel);
	humming_kernel_unref(kernel);
	if (error == HUMMING_OK)
		hm_bench_samples_add(&client->hit,
		    hm_deadline_now_ns() - start_ns);
	return error;
}

static int
herd_bare_once(struct herd_client *client)
{
	const struct hm_bench_sizes *sizes = &client->herd->want.sizes;
	int64_t start_ns = hm_deadline_now_ns();

	if (!hm_bench_bare_send(client->fd, sizes, client->buffer) ||
	    !hm_bench_bare_recv(client->fd, sizes, client->buffer, NULL))
		return HM_E_SYSTEM;
	hm_bench_samples_add(&client->plain, hm_deadline_now_ns() - start_ns);
	return HM_OK;
}

/* Wait for the turn after *turn_io. false: there is none. */
static bool
herd_await(struct herd *herd, unsigned *turn_io, bool *is_bare_out)
{
	bool is_done;

	(void)pthread_mutex_lock(&herd->lock);
	while (!herd->is_done && herd->turn == *turn_io)
		(void)pthread_cond_wait(&herd->changed, &herd->lock);
	is_done = herd->is_done;
	*turn_io = herd->turn;
	*is_bare_out = herd->is_bare;
	(void)pthread_mutex_unlock(&herd->lock);
	return !is_done;
}

static void
herd_finish(struct herd *herd)
{
	(void)pthread_mutex_lock(&herd->lock);
	if (--herd->n_active == 0)
		(void)pthread_cond_broadcast(&herd->changed);
	(void)pthread_mutex_unlock(&herd->lock);
}

static void *
herd_client_run(void *arg)
{
	struct herd_client *client = arg;
	struct herd *herd = client->herd;
	unsigned turn = 0;
	bool is_bare;

	while (herd_await(herd, &turn, &is_bare)) {
		while (client->error == HM_OK && !atomic_load(&herd->is_over))
			client->error = is_bare ? herd_bare_once(client)
						: herd_hit_once(client);
		herd_finish(herd);
	}
	return NULL;
}

static void
herd_announce(struct herd *herd, bool is_bare, bool is_done)
{
	(void)pthread_mutex_lock(&herd->lock);
	atomic_store(&herd->is_over, false);
	herd->is_bare = is_bare;
	herd->is_done = is_done;
	herd->n_active = HM_BENCH_CLIENTS;
	herd->turn++;
	(void)pthread_cond_broadcast(&herd->changed);
	(void)pthread_mutex_unlock(&herd->lock);
}

/* One turn of all clients; how long it took. */
static int64_t
herd_turn(struct herd *herd, bool is_bare)
{
	int64_t start_ns = hm_deadline_now_ns();

	herd_announce(herd, is_bare, false);
	(void)poll(NULL, 0, HERD_TURN_MS);
	atomic_store(&herd->is_over, true);
	(void)pthread_mutex_lock(&herd->lock);
	while (herd->n_active != 0)
		(void)pthread_cond_wait(&herd->changed, &herd->lock);
	(void)pthread_mutex_unlock(&herd->lock);
	return hm_deadline_now_ns() - start_ns;
}

static int
herd_check(struct herd *herd)
{
	struct hm_bench *bench = herd->bench;

	for (size_t i = 0; i < HM_BENCH_CLIENTS; i++) {
		if (herd->clients[i].error == HM_OK)
			continue;
		hm_errbuf_set(&bench->why, "client %zu of %d: %s", i + 1,
		    HM_BENCH_CLIENTS, hm_strerror(herd->clients[i].error));
		return herd->clients[i].error;
	}
	return hm_bench_go_on(bench);
}

static int
herd_measure(struct herd *herd)
{
	int error = HM_OK;

	for (int i = 0; i < HERD_ROUNDS && error == HM_OK; i++) {
		herd->hit_ns += herd_turn(herd, false);
		herd->plain_ns += herd_turn(herd, true);
		error = herd_check(herd);
	}
	return error;
}

/* Everything of a client but its thread. */
static int
herd_client_init(struct herd *herd, struct herd_client *client)
{
	int error;

	client->herd = herd;
	client->buffer = hm_bench_packet();
	if (client->buffer == NULL)
		return HM_E_NOMEM;
	error = hm_bench_samples_init(&client->hit, HERD_SAMPLES);
	if (error == HM_OK)
		error = hm_bench_samples_init(&client->plain, HERD_SAMPLES);
	if (error == HM_OK)
		error = hm_bench_open(herd->bench, &client->client);
	if (error != HM_OK)
		return error;
	client->fd = hm_bench_bare_connect(&herd->bare);
	if (client->fd != -1)
		return HM_OK;
	hm_errbuf_set(&herd->bench->why, "cannot connect to the bare peer");
	return HM_E_SYSTEM;
}

static void
herd_client_done(struct herd_client *client)
{
	humming_client_close(client->client);
	hm_fd_close(&client->fd);
	free(client->buffer);
	hm_bench_samples_done(&client->hit);
	hm_bench_samples_done(&client->plain);
}

/* Start the threads, measure, and see them off. */
static int
herd_run_threads(struct herd *herd)
{
	size_t n = 0;
	int error = HM_OK;

	while (n < HM_BENCH_CLIENTS &&
	       pthread_create(&herd->clients[n].thread, NULL, herd_client_run,
		   &herd->clients[n]) == 0)
		n++;
	if (n == HM_BENCH_CLIENTS) {
		error = herd_measure(herd);
	} else {
		hm_errbuf_set(&herd->bench->why, "cannot start %d threads",
		    HM_BENCH_CLIENTS);
		error = HM_E_NOMEM;
	}
	herd_announce(herd, false, true);
	for (size_t i = 0; i < n; i++)
		(void)pthread_join(herd->clients[i].thread, NULL);
	return error;
}

/* Build the kernel, start the peer, open all connections. */
static int
herd_init(struct herd *herd)
{
	struct hm_bench *bench = herd->bench;
	int error;

	error = hm_bench_want_spec(bench, HM_BENCH_SPEC, &herd->want);
	if (error == HM_OK)
		error = hm_bench_prepare(bench, &herd->want);
	if (error == HM_OK)
		error =
		    hm_bench_bare_listen(bench, &herd->want.sizes, &herd->bare);
	for (size_t i = 0; i < HM_BENCH_CLIENTS && error == HM_OK; i++)
		error = herd_client_init(herd, &herd->clients[i]);
	/* Threads take over what their maker is pinned to. */
	if (error == HM_OK)
		error = hm_bench_pin(bench, 0, 0, 2);
	if (error == HM_OK)
		error = hm_bench_pin(bench, bench->daemon, 0, 2);
	if (error == HM_OK)
		error = hm_bench_pin(bench, herd->bare.pid, 0, 2);
	return error;
}

/* The middle of the clients' own medians: they all do the same. */
static void
herd_report(struct herd *herd)
{
	struct hm_bench_row *row = hm_bench_row_new(herd->bench, "herd64");
	uint64_t n_hits = 0, n_plain = 0;
	double hit_us = 0.0, plain_us = 0.0;

	for (size_t i = 0; i < HM_BENCH_CLIENTS; i++) {
		struct herd_client *client = &herd->clients[i];

		n_hits += client->hit.n_all;
		n_plain += client->plain.n_all;
		hit_us += hm_bench_samples_p50_us(&client->hit);
		plain_us += hm_bench_samples_p50_us(&client->plain);
	}
	row->p50_us = hit_us / HM_BENCH_CLIENTS;
	row->bare_p50_us = plain_us / HM_BENCH_CLIENTS;
	row->per_s = (double)n_hits * 1e9 / (double)herd->hit_ns;
	row->bare_per_s = (double)n_plain * 1e9 / (double)herd->plain_ns;
	row->ratio = row->per_s / row->bare_per_s;
	hm_bench_row_at_least(row, row->ratio, HERD_RATIO, "");
	hm_bench_row_extra(row, "clients", HM_BENCH_CLIENTS);
	hm_bench_row_extra(row, "cores", (double)herd->bench->n_cores);
	hm_bench_row_extra(row, "request_bytes",
	    (double)herd->want.sizes.request_bytes);
	hm_bench_row_extra(row, "reply_bytes",
	    (double)herd->want.sizes.reply_bytes);
}

int
hm_bench_herd(struct hm_bench *bench)
{
	struct herd *herd = calloc(1, sizeof *herd);
	int error;

	if (herd == NULL)
		return HM_E_NOMEM;
	herd->bench = bench;
	herd->bare.pid = -1;
	herd->bare.fd = -1;
	for (size_t i = 0; i < HM_BENCH_CLIENTS; i++)
		herd->clients[i].fd = -1;
	(void)pthread_mutex_init(&herd->lock, NULL);
	(void)pthread_cond_init(&herd->changed, NULL);
	error = herd_init(herd);
	if (error == HM_OK)
		error = herd_run_threads(herd);
	if (error == HM_OK)
		herd_report(herd);
	for (size_t i = 0; i < HM_BENCH_CLIENTS; i++)
		herd_client_done(&herd->clients[i]);
	hm_bench_bare_done(&herd->bare);
	(void)pthread_cond_destroy(&herd->changed);
	(void)pthread_mutex_destroy(&herd->lock);
	free(herd);
	return error;
}
