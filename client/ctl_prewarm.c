/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_prewarm.c - prewarm: have every kernel of a plan built, and wait for it.
 *
 * Requests go to the daemon's second lane over one connection. A daemon that is
 * at a limit (BUSY) is asked again: nobody waits for these but us. Progress is
 * a bar on a terminal's stderr, else a line per kernel on stdout, and neither
 * with --json on a pipe.
 */
#include "client/ctl.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl_row.h"
#include "client/deadline.h"
#include "client/fetch.h"
#include "jit/spec.h"

#define BUSY_PAUSE_MS 100u
#define BAR_CHARS     30u

struct prewarm {
	const struct hm_ctl *ctl;
	size_t n;
	struct hm_request *requests;     /* owned */
	struct humming_kernel **kernels; /* owned, and each */
	size_t *map;                     /* owned; of this round -> request */
	struct hm_request *round;        /* owned; what is still wanted */
	bool *busy;                      /* owned; ask again */
	size_t n_ready;
	size_t n_failed;
	struct hm_errbuf why; /* of the first failure */
	bool bar;
	int64_t start_us;
};

static int
prewarm_init(struct prewarm *prewarm, const struct hm_ctl *ctl,
    const struct hm_kernel_set *set)
{
	size_t n = set->n_items;

	memset(prewarm, 0, sizeof *prewarm);
	prewarm->ctl = ctl;
	prewarm->n = n;
	prewarm->bar = isatty(STDERR_FILENO) == 1;
	prewarm->start_us = hm_deadline_now_us();
	prewarm->requests = calloc(n + 1, sizeof *prewarm->requests);
	prewarm->kernels = calloc(n + 1, sizeof(struct humming_kernel *));
	prewarm->map = calloc(n + 1, sizeof *prewarm->map);
	prewarm->round = calloc(n + 1, sizeof *prewarm->round);
	prewarm->busy = calloc(n + 1, sizeof *prewarm->busy);
	if (prewarm->requests == NULL || prewarm->kernels == NULL ||
	    prewarm->map == NULL || prewarm->round == NULL ||
	    prewarm->busy == NULL)
		return HM_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		prewarm->requests[i] = set->items[i].request;
		prewarm->busy[i] = true;
	}
	return HM_OK;
}

static void
prewarm_done(struct prewarm *prewarm)
{
	for (size_t i = 0; prewarm->kernels != NULL && i < prewarm->n; i++)
		humming_kernel_unref(prewarm->kernels[i]);
	free(prewarm->requests);
	free(prewarm->kernels);
	free(prewarm->map);
	free(prewarm->round);
	free(prewarm->busy);
}

static void
prewarm_bar(const struct prewarm *prewarm, const char *spec)
{
	size_t n_done = prewarm->n_ready + prewarm->n_failed;
	unsigned n_full = (unsigned)(n_done * BAR_CHARS / prewarm->n);

	(void)fprintf(stderr, "\r\033[K[");
	for (unsigned i = 0; i < BAR_CHARS; i++)
		(void)fputc(i < n_full ? '#' : '.', stderr);
	(void)fprintf(stderr, "] %zu/%zu %.40s", n_done, prewarm->n, spec);
	(void)fflush(stderr);
}

/* One more is ready, or never will be. */
static void
prewarm_report(const struct prewarm *prewarm, const char *spec,
    const struct hm_fetch_result *result)
{
	struct humming_kernel_info info = {.struct_size = sizeof info};

	if (prewarm->bar) {
		prewarm_bar(prewarm, spec);
		return;
	}
	if (prewarm->ctl->json)
		return;
	if (result->error != HM_OK) {
		(void)printf("%zu/%zu done: failed %s\n",
		    prewarm->n_ready + prewarm->n_failed, prewarm->n, spec);
	} else {
		(void)humming_kernel_get_info(result->kernel, &info);
		(void)printf("%zu/%zu done: %s %s %s\n",
		    prewarm->n_ready + prewarm->n_failed, prewarm->n, info.tier,
		    info.arch, info.spec);
	}
	(void)fflush(stdout);
}

static void
prewarm_on_result(void *payload, const struct hm_fetch_result *result)
{
	struct prewarm *prewarm = payload;
	size_t index = prewarm->map[result->index];
	char spec[HM_SPEC_MAX_CHARS + 1] = "";

	prewarm->busy[index] = result->error == HM_E_BUSY;
	if (prewarm->busy[index])
		return;
	(void)hm_spec_print(&prewarm->requests[index], spec, sizeof spec);
	prewarm->kernels[index] = result->kernel;
	if (result->error == HM_OK) {
		prewarm->n_ready++;
	} else if (prewarm->n_failed++ == 0) {
		hm_errbuf_set(&prewarm->why, "%s",
		    result->message != NULL ? result->message
					    : hm_strerror(result->error));
	}
	prewarm_report(prewarm, spec, result);
}

/* Ask for whatever is still wanted; once more while the daemon is busy. */
static void
prewarm_fetch(struct prewarm *prewarm, struct hm_link *link, int64_t deadline)
{
	struct hm_fetch fetch = {
	    .requests = prewarm->round,
	    .lane = HM_LANE_PREWARM,
	    .window = prewarm->ctl->jobs,
	    .on_result = prewarm_on_result,
	    .payload = prewarm,
	};
	struct hm_errbuf why = {.text = ""};

	for (;;) {
		fetch.n_requests = 0;
		for (size_t i = 0; i < prewarm->n; i++) {
			if (!prewarm->busy[i])
				continue;
			prewarm->map[fetch.n_requests] = i;
			prewarm->round[fetch.n_requests++] =
			    prewarm->requests[i];
		}
		if (fetch.n_requests == 0)
			return;
		if (hm_deadline_left_ms(deadline) == 0) {
			prewarm->n_failed += fetch.n_requests;
			hm_errbuf_set(&prewarm->why,
			    "hummingd stayed at its limits until the deadline");
			return;
		}
		(void)hm_fetch_run(link, &fetch, deadline, &why);
		if (prewarm->n_ready + prewarm->n_failed < prewarm->n)
			hm_deadline_pause(deadline, BUSY_PAUSE_MS);
	}
}

static json_t *
prewarm_json(const struct prewarm *prewarm)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < prewarm->n; i++) {
		if (prewarm->kernels[i] != NULL)
			(void)json_array_append_new(rows,
			    hm_ctl_row_json(prewarm->kernels[i]));
	}
	return rows;
}

static void
prewarm_print_table(const struct prewarm *prewarm)
{
	struct humming_kernel_info info = {.struct_size = sizeof info};
	struct hm_ctl_table table;
	uint64_t bytes = 0, compile_us = 0;
	size_t n_built = 0;

	hm_ctl_row_titles(&table);
	for (size_t i = 0; i < prewarm->n; i++) {
		if (prewarm->kernels[i] == NULL)
			continue;
		hm_ctl_row_add(&table, prewarm->kernels[i]);
		(void)humming_kernel_get_info(prewarm->kernels[i], &info);
		bytes += info.image_bytes;
		if (strcmp(info.tier, "built") == 0) {
			n_built++;
			compile_us += info.compile_us;
		}
	}
	hm_ctl_table_print(&table, stdout);
	hm_ctl_table_done(&table);
	(void)printf("%zu kernel%s ready, %zu of them built in %.1f ms of "
		     "compiling, %llu bytes, after %.1f ms\n",
	    prewarm->n_ready, prewarm->n_ready == 1 ? "" : "s", n_built,
	    (double)compile_us / 1000.0, (unsigned long long)bytes,
	    (double)(hm_deadline_now_us() - prewarm->start_us) / 1000.0);
}

static int
prewarm_finish(const struct prewarm *prewarm)
{
	if (prewarm->bar)
		(void)fputs("\r\033[K", stderr);
	if (!prewarm->ctl->json)
		prewarm_print_table(prewarm);
	else if (hm_ctl_json_print(prewarm_json(prewarm)) != HM_OK)
		return hm_ctl_fail(prewarm->ctl, "out of memory");
	if (prewarm->n_failed == 0)
		return HM_CTL_OK;
	return hm_ctl_fail(prewarm->ctl, "%zu of %zu kernel%s failed: %s",
	    prewarm->n_failed, prewarm->n, prewarm->n == 1 ? "" : "s",
	    prewarm->why.text);
}

int
hm_ctl_prewarm(const struct hm_ctl *ctl)
{
	int64_t deadline = hm_ctl_deadline(ctl, true);
	struct hm_kernel_set set;
	struct prewarm prewarm;
	struct hm_link link;
	int code;

	hm_kernel_set_init(&set);
	code = hm_ctl_collect(ctl, &set);
	if (code != HM_CTL_OK) {
		hm_kernel_set_done(&set);
		return code;
	}
	if (prewarm_init(&prewarm, ctl, &set) != HM_OK)
		code = hm_ctl_fail(ctl, "out of memory");
	else
		code = hm_ctl_open(ctl, true, deadline, &link);
	if (code == HM_CTL_OK) {
		prewarm_fetch(&prewarm, &link, deadline);
		hm_link_done(&link);
		code = prewarm_finish(&prewarm);
	}
	prewarm_done(&prewarm);
	hm_kernel_set_done(&set);
	return code;
}
