/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_bench_hit.c - one client, one kernel that is hot, again and again.
 *
 * Hits and bare round trips take turns in short batches, so that all see the
 * same machine. A hit is the whole call of the library, up to the kernel's
 * unref. It includes the checksum of the kernel's bytes, which is no part of
 * the hand-off and is told apart: what it costs is measured on the bare socket,
 * too, as reading the pages of a file makes them dearer to map and to unmap.
 */
#include "client/ctl_bench.h"

#include <unistd.h>

#include "client/deadline.h"

#define HIT_BATCH   100u
#define HIT_SAMPLES 20000u
#define HIT_WARM_UP 5u                  /* batches */
#define HIT_MAX_NS  INT64_C(2000000000) /* of one row */
#define HIT_RATIO   1.5

/* One row in the making. */
struct hit_run {
	struct hm_bench *bench;
	const struct hm_bench_want *want;
	struct humming_client *client;               /* owned */
	struct hm_bench_bare bare;                   /* owned */
	struct hm_bench_samples hit, plain, checked; /* owned */
};

static int
hit_once(struct hit_run *run)
{
	struct humming_kernel *kernel = NULL;
	int64_t start_ns = hm_deadline_now_ns();
	int error;

	error = hm_bench_get(run->bench, run->client, run->want, &kernel);
	humming_kernel_unref(kernel);
	hm_bench_samples_add(&run->hit, hm_deadline_now_ns() - start_ns);
	return error;
}

static int
hit_bare_once(struct hit_run *run, struct hm_bench_samples *samples)
{
	const struct hm_bench_bare *bare = &run->bare;
	bool is_checked = samples == &run->checked;
	int64_t start_ns = hm_deadline_now_ns();
	struct hm_checksum checksum;

	if (!hm_bench_bare_send(bare->fd, &bare->sizes, bare->buffer) ||
	    !hm_bench_bare_recv(bare->fd, &bare->sizes, bare->buffer,
		is_checked ? &checksum : NULL)) {
		hm_errbuf_set(&run->bench->why, "the bare peer went away");
		return HM_E_SYSTEM;
	}
	hm_bench_samples_add(samples, hm_deadline_now_ns() - start_ns);
	return HM_OK;
}

/* One turn of each kind. */
static int
hit_batch(struct hit_run *run)
{
	int error = hm_bench_go_on(run->bench);

	for (unsigned i = 0; i < HIT_BATCH && error == HM_OK; i++)
		error = hit_once(run);
	for (unsigned i = 0; i < HIT_BATCH && error == HM_OK; i++)
		error = hit_bare_once(run, &run->plain);
	for (unsigned i = 0; i < HIT_BATCH && error == HM_OK; i++)
		error = hit_bare_once(run, &run->checked);
	return error;
}

static int
hit_measure(struct hit_run *run)
{
	int64_t end_ns;
	int error = HM_OK;

	for (unsigned i = 0; i < HIT_WARM_UP && error == HM_OK; i++)
		error = hit_batch(run);
	hm_bench_samples_clear(&run->hit);
	hm_bench_samples_clear(&run->plain);
	hm_bench_samples_clear(&run->checked);
	end_ns = hm_deadline_now_ns() + HIT_MAX_NS;
	while (error == HM_OK && run->hit.n < HIT_SAMPLES &&
	       hm_deadline_now_ns() < end_ns)
		error = hit_batch(run);
	return error;
}

static int
hit_init(struct hit_run *run)
{
	struct hm_bench *bench = run->bench;
	int error;

	error = hm_bench_samples_init(&run->hit, HIT_SAMPLES);
	if (error == HM_OK)
		error = hm_bench_samples_init(&run->plain, HIT_SAMPLES);
	if (error == HM_OK)
		error = hm_bench_samples_init(&run->checked, HIT_SAMPLES);
	if (error == HM_OK)
		error = hm_bench_open(bench, &run->client);
	if (error == HM_OK)
		error =
		    hm_bench_bare_pair(bench, &run->want->sizes, &run->bare);
	return error;
}

static void
hit_done(struct hit_run *run)
{
	humming_client_close(run->client);
	hm_bench_bare_done(&run->bare);
	hm_bench_samples_done(&run->hit);
	hm_bench_samples_done(&run->plain);
	hm_bench_samples_done(&run->checked);
}

static void
hit_report(struct hit_run *run, const char *name)
{
	struct hm_bench_row *row = hm_bench_row_new(run->bench, name);
	const struct hm_bench_sizes *sizes = &run->want->sizes;
	double whole_us = hm_bench_samples_p50_us(&run->hit);
	double bare_us = hm_bench_samples_p50_us(&run->plain);
	double checksum_us = hm_bench_samples_p50_us(&run->checked) - bare_us;

	row->p50_us = whole_us - checksum_us;
	row->per_s = hm_bench_samples_per_s(&run->hit);
	row->bare_p50_us = bare_us;
	row->bare_per_s = hm_bench_samples_per_s(&run->plain);
	row->ratio = row->p50_us / bare_us;
	hm_bench_row_at_most(row, row->ratio, HIT_RATIO, "");
	hm_bench_row_extra(row, "request_bytes", (double)sizes->request_bytes);
	hm_bench_row_extra(row, "reply_bytes", (double)sizes->reply_bytes);
	hm_bench_row_extra(row, "file_bytes", (double)sizes->file_bytes);
	hm_bench_row_extra(row, "checksum_us", checksum_us);
	hm_bench_row_extra(row, "whole_p50_us", whole_us);
}

/* A row, with the daemon and the peer on our first core and us on core `at`. */
static int
hit_row(struct hm_bench *bench, const struct hm_bench_want *want,
    const char *name, size_t at)
{
	struct hit_run run = {.bench = bench, .want = want};
	int error;

	run.bare.pid = -1;
	run.bare.fd = -1;
	error = hit_init(&run);
	if (error == HM_OK)
		error = hm_bench_pin(bench, bench->daemon, 0, 1);
	if (error == HM_OK)
		error = hm_bench_pin(bench, run.bare.pid, 0, 1);
	if (error == HM_OK)
		error = hm_bench_pin(bench, 0, at, 1);
	if (error == HM_OK)
		error = hit_measure(&run);
	if (error == HM_OK)
		hit_report(&run, name);
	hit_done(&run);
	return error;
}

int
hm_bench_hit(struct hm_bench *bench)
{
	struct hm_bench_want inlined, passed;
	struct humming_source source;
	int error;

	error = hm_bench_want_spec(bench, HM_BENCH_SPEC, &inlined);
	hm_bench_want_large(&source, &passed);
	if (error == HM_OK)
		error = hm_bench_prepare(bench, &inlined);
	if (error == HM_OK)
		error = hm_bench_prepare(bench, &passed);
	if (error == HM_OK)
		error = hit_row(bench, &inlined, "inline20k", 0);
	if (error == HM_OK)
		error = hit_row(bench, &passed, "fd200k", 0);
	/* The woken core's own latency is in both sides of these. */
	if (error == HM_OK && bench->n_cores == 2)
		error = hit_row(bench, &inlined, "inline20k-2-cores", 1);
	if (error == HM_OK && bench->n_cores == 2)
		error = hit_row(bench, &passed, "fd200k-2-cores", 1);
	return error;
}
