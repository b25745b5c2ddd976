/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_bench.c - bench: a daemon of its own, one kind of measurement, a table.
 */
#include "client/ctl_bench.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/deadline.h"

static const struct bench_kind {
	const char *name;
	int (*run)(struct hm_bench *bench);
} bench_kinds[] = {
    {"hit", hm_bench_hit},
    {"herd", hm_bench_herd},
    {"cold", hm_bench_cold},
};

static const struct bench_kind *
bench_find(const char *name)
{
	for (size_t i = 0; i < sizeof bench_kinds / sizeof bench_kinds[0];
	     i++) {
		if (strcmp(bench_kinds[i].name, name) == 0)
			return &bench_kinds[i];
	}
	return NULL;
}

/* The first two cores that we may run on. */
static int
bench_find_cores(struct hm_bench *bench)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set) == -1) {
		hm_errbuf_set(&bench->why, "cannot ask which cores are ours");
		return HM_E_SYSTEM;
	}
	for (size_t core = 0; core < CPU_SETSIZE && bench->n_cores < 2;
	     core++) {
		if (CPU_ISSET(core, &set))
			bench->cores[bench->n_cores++] = core;
	}
	return HM_OK;
}

/* Held back until the daemon is gone, and then let through. One that is ignored
 * stays so: held back it would count as pending. */
static void
bench_hold_signals(int how)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action;
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		if (sigaction(numbers[i], NULL, &action) == 0 &&
		    action.sa_handler != SIG_IGN)
			(void)sigaddset(&set, numbers[i]);
	}
	(void)pthread_sigmask(how, &set, NULL);
}

static int
bench_run(struct hm_bench *bench, const struct bench_kind *kind)
{
	int error;

	error = bench_find_cores(bench);
	if (error == HM_OK)
		error = hm_bench_host_start(bench);
	if (error == HM_OK)
		error = kind->run(bench);
	hm_bench_host_stop(bench);
	return error;
}

int
hm_ctl_bench(const struct hm_ctl *ctl)
{
	const struct bench_kind *kind;
	struct hm_bench *bench;
	int code = HM_CTL_OK;
	int error;

	if (ctl->n_operands == 4 && strcmp(ctl->operands[0], "peer") == 0)
		return hm_bench_peer(ctl);
	if (ctl->n_operands != 1)
		return hm_ctl_usage(ctl, "takes one of hit, herd and cold");
	kind = bench_find(ctl->operands[0]);
	if (kind == NULL)
		return hm_ctl_usage(ctl,
		    "takes one of hit, herd and cold, not '%s'",
		    ctl->operands[0]);
	bench = calloc(1, sizeof *bench); /* a link holds a packet: 64 KiB */
	if (bench == NULL)
		return hm_ctl_fail(ctl, "out of memory");
	bench->ctl = ctl;
	bench->daemon = -1;
	bench->timeout_ms = ctl->timeout_ms != 0 ? ctl->timeout_ms : UINT32_MAX;
	bench->deadline = hm_ctl_deadline(ctl, true);
	hm_transport_init(&bench->link.transport);

	bench_hold_signals(SIG_BLOCK);
	error = bench_run(bench, kind);
	bench_hold_signals(SIG_UNBLOCK); /* one that waited ends us here */
	code = error == HM_OK
		   ? hm_bench_print(bench)
		   : hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &bench->why));
	free(bench);
	return code;
}
