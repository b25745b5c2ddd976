/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replica.c - how long a worker's start takes with its kernels from hummingd.
 *
 *     humming-replica --model JSON [--quant Q] [--bin DIR] [--repeat N]
 *
 * Starts a private daemon with an empty store, then processes that do what an
 * autoscaled replica does: exec, cuInit, context, connect, every kernel of the
 * model for every M fetched and loaded, weights of one layer copied, first GEMM
 * done. The first finds nothing compiled (cold), the others everything (warm).
 * In turn with the warm ones run processes that stop after the context: what
 * the driver takes on this machine whatever we do.
 *
 * TAP and a table on stdout; without a GPU "1..0 # SKIP". Exit 0: right and in
 * time. The limits: cold 2 s in all; warm the driver's own time + 100 ms, with
 * 50 ms as the goal (DESIGN.md section 9).
 *
 * Parent and children share one memory file: what the child shall do, packed
 * weights and activations, its times and its output, which the parent checks
 * against the double-precision reference.
 */
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <humming/client.h>
#include <humming/gemm.h>

#include "client/driver.h"
#include "client/number.h"
#include "client/request.h"
#include "jit/model.h"
#include "proto/error.h"

#define REPLICA_FD         3 /* the memory file, in a child */
#define REPLICA_TOKENS     4u
#define REPLICA_GROUP      128u
#define REPLICA_MOST_RUNS  32u
#define REPLICA_WARM_MS    100.0
#define REPLICA_WARM_GOAL  50.0
#define REPLICA_COLD_MS    2000.0
#define REPLICA_ERROR      3e-3
#define REPLICA_HEAD_BYTES 65536u

enum phase {
	PHASE_EXEC,    /* from before posix_spawn to main */
	PHASE_INIT,    /* libcuda loaded, cuInit */
	PHASE_CONTEXT, /* device, primary context */
	PHASE_CONNECT, /* to hummingd */
	PHASE_KERNELS, /* fetched and loaded */
	PHASE_WEIGHTS, /* allocated and copied to the GPU */
	PHASE_GEMM,    /* launched, done, copied back */
	PHASE_AGAIN, /* kernels fetched once more, now loaded: not in the sum */
	N_PHASES
};

static const char *const phase_names[N_PHASES] = {"exec", "cuInit", "context",
    "connect", "kernels (fetch + load)", "weights (copy)", "first GEMM",
    "fetch alone, again"};

/* Head of the memory file; buffers follow at their offsets. */
struct shared {
	double begin_ms; /* set by the parent just before the spawn */
	bool only_context;
	char socket[256];
	uint32_t n_layers;
	struct hm_request layers[HM_MODEL_MAX_LAYERS];
	uint32_t gemm_layer; /* the one whose GEMM runs */
	size_t at_packed, n_packed, at_rowmul, n_rowmul;
	size_t at_a, n_a, at_c, n_c, n_all;
	/* set by the child */
	double ms[N_PHASES];
	bool done;
	char why[256];
};
_Static_assert(sizeof(struct shared) <= REPLICA_HEAD_BYTES, "head");

static double
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static unsigned char *
shared_at(struct shared *shared, size_t offset)
{
	return (unsigned char *)shared + offset;
}

/* ---- the child ---- */

struct child {
	struct shared *shared;
	double last_ms;
	const struct hm_driver *driver;
	struct humming_device *device;
	struct humming_client *client;
	struct humming_kernel_request requests[HM_MODEL_MAX_LAYERS];
	struct humming_gemm *gemms[HM_MODEL_MAX_LAYERS];
	uint64_t w, rowmul, a, c; /* device memory */
};

static void
child_mark(struct child *child, enum phase phase)
{
	double now = now_ms();

	child->shared->ms[phase] = now - child->last_ms;
	child->last_ms = now;
}

static int
child_fail(struct child *child, const char *what, const char *why)
{
	(void)snprintf(child->shared->why, sizeof child->shared->why, "%s: %s",
	    what, why);
	return 1;
}

static int
child_context(struct child *child)
{
	struct hm_errbuf errbuf = {""};

	if (hm_driver_get(&child->driver, &errbuf) != HM_OK)
		return child_fail(child, "driver", errbuf.text);
	child_mark(child, PHASE_INIT);
	if (humming_device_open(0, &child->device) != HUMMING_OK ||
	    humming_device_make_current(child->device) != HUMMING_OK)
		return child_fail(child, "context", humming_gemm_last_error());
	child_mark(child, PHASE_CONTEXT);
	return 0;
}

static int
child_kernels(struct child *child)
{
	struct humming_client_options options;
	const struct shared *shared = child->shared;

	humming_client_options_init(&options, sizeof options);
	options.socket_path = shared->socket;
	if (humming_client_open(&options, &child->client) != HUMMING_OK)
		return child_fail(child, "connect",
		    humming_client_last_error(NULL));
	child_mark(child, PHASE_CONNECT);
	for (uint32_t i = 0; i < shared->n_layers; i++) {
		hm_request_export(&shared->layers[i], &child->requests[i]);
		(void)humming_device_request(child->device,
		    &child->requests[i]);
	}
	if (humming_gemm_open_many(child->device, child->client,
		child->requests, shared->n_layers, child->gemms) != HUMMING_OK)
		return child_fail(child, "kernels", humming_gemm_last_error());
	child_mark(child, PHASE_KERNELS);
	return 0;
}

static int
child_upload(struct child *child, uint64_t *address, size_t offset,
    size_t n_bytes)
{
	if (child->driver->memory_alloc(address, n_bytes) == 0 &&
	    child->driver->copy_to_device(*address,
		shared_at(child->shared, offset), n_bytes) == 0)
		return 0;
	return child_fail(child, "GPU memory", "cannot be had or written");
}

static int
child_weights(struct child *child)
{
	const struct shared *shared = child->shared;

	if (child_upload(child, &child->w, shared->at_packed,
		shared->n_packed) != 0 ||
	    child_upload(child, &child->rowmul, shared->at_rowmul,
		shared->n_rowmul) != 0 ||
	    child_upload(child, &child->a, shared->at_a, shared->n_a) != 0 ||
	    child_upload(child, &child->c, shared->at_c, shared->n_c) != 0)
		return 1;
	child_mark(child, PHASE_WEIGHTS);
	return 0;
}

static void *
device_pointer(uint64_t address)
{
	void *pointer = NULL;

	memcpy(&pointer, &address, sizeof pointer);
	return pointer;
}

static int
child_gemm(struct child *child)
{
	struct shared *shared = child->shared;
	struct humming_gemm_args args;

	humming_gemm_args_init(&args, sizeof args);
	args.m = REPLICA_TOKENS;
	args.a = device_pointer(child->a);
	args.w = device_pointer(child->w);
	args.rowmul = device_pointer(child->rowmul);
	args.c = device_pointer(child->c);
	if (humming_gemm_launch(child->gemms[shared->gemm_layer], &args,
		NULL) != HUMMING_OK)
		return child_fail(child, "launch", humming_gemm_last_error());
	if (child->driver->stream_synchronize(NULL) != 0 ||
	    child->driver->copy_to_host(shared_at(shared, shared->at_c),
		child->c, shared->n_c) != 0)
		return child_fail(child, "GEMM", "the GPU reports a failure");
	child_mark(child, PHASE_GEMM);
	return 0;
}

/* The same kernels again: loaded already, so that this is the fetch alone. */
static int
child_again(struct child *child)
{
	struct humming_gemm *gemms[HM_MODEL_MAX_LAYERS];
	uint32_t n = child->shared->n_layers;

	child->last_ms = now_ms();
	if (humming_gemm_open_many(child->device, child->client,
		child->requests, n, gemms) != HUMMING_OK)
		return child_fail(child, "kernels again",
		    humming_gemm_last_error());
	child_mark(child, PHASE_AGAIN);
	for (uint32_t i = 0; i < n; i++)
		humming_gemm_close(gemms[i]);
	return 0;
}

static int
child_main(double main_ms)
{
	struct child child;
	struct stat stat;

	memset(&child, 0, sizeof child);
	if (fstat(REPLICA_FD, &stat) != 0)
		return 1;
	child.shared = mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_WRITE,
	    MAP_SHARED, REPLICA_FD, 0);
	if (child.shared == MAP_FAILED)
		return 1;
	child.shared->ms[PHASE_EXEC] = main_ms - child.shared->begin_ms;
	child.last_ms = main_ms;
	if (child_context(&child) != 0)
		return 1;
	if (!child.shared->only_context &&
	    (child_kernels(&child) != 0 || child_weights(&child) != 0 ||
		child_gemm(&child) != 0 || child_again(&child) != 0))
		return 1;
	child.shared->done = true;
	/* As a replica would: nothing is torn down but by the driver. */
	return 0;
}

/* ---- the parent: the problem ---- */

struct replica {
	const char *bin; /* folder of the programs, or NULL: beside this one */
	const char *model;
	const char *quant;
	uint32_t repeat;
	struct shared *shared;
	int fd;
	double *expected; /* owned */
	struct humming_weight_source source;
	char folder[64]; /* socket, store, log */
	pid_t daemon;    /* 0 = none */
	double ready_ms; /* from spawning the daemon until it listened */
	double context_ms[REPLICA_MOST_RUNS][N_PHASES];
	double warm_ms[REPLICA_MOST_RUNS][N_PHASES];
	double cold_ms[N_PHASES];
	uint32_t n_tests, n_failed;
};

static int
replica_fail(const char *what, const char *why)
{
	printf("Bail out! %s: %s\n", what, why);
	return 1;
}

static uint32_t
replica_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* The layers by distinct n and k; the smallest is the one that will run. */
static int
replica_read_model(struct replica *replica, struct shared *shared)
{
	struct hm_model_options options = {.quant = replica->quant};
	struct hm_errbuf errbuf = {""};
	struct hm_model model;
	size_t least = SIZE_MAX;

	if (hm_model_load(replica->model, &options, &model, &errbuf) != HM_OK)
		return replica_fail("model", errbuf.text);
	for (size_t i = 0; i < model.n_layers; i++) {
		const struct hm_request *layer = &model.layers[i].request;
		size_t size = (size_t)layer->n * layer->k;
		uint32_t j = 0;

		while (j < shared->n_layers &&
		       (shared->layers[j].n != layer->n ||
			   shared->layers[j].k != layer->k))
			j++;
		if (j < shared->n_layers)
			continue;
		shared->layers[shared->n_layers++] = *layer;
		if (size < least)
			shared->gemm_layer = j;
		least = size < least ? size : least;
	}
	if (shared->layers[shared->gemm_layer].a_type != HM_TYPE_BF16 ||
	    shared->layers[shared->gemm_layer].group != REPLICA_GROUP)
		return replica_fail("model", "needs bf16 and groups of 128");
	return 0;
}

static size_t
replica_place(struct shared *shared, size_t n_bytes)
{
	size_t at = shared->n_all;

	shared->n_all += (n_bytes + 4095) / 4096 * 4096;
	return at;
}

/* The memory file, its head from a local copy. */
static int
replica_share(struct replica *replica, struct shared *head)
{
	const struct hm_request *layer = &head->layers[head->gemm_layer];
	struct humming_weight_sizes sizes = {.struct_size = sizeof sizes};

	humming_weight_source_init(&replica->source, sizeof replica->source);
	replica->source.n = layer->n;
	replica->source.k = layer->k;
	replica->source.group = REPLICA_GROUP;
	if (humming_weight_size(&replica->source, &sizes) != HUMMING_OK)
		return replica_fail("weights", humming_gemm_last_error());
	head->n_all = REPLICA_HEAD_BYTES;
	head->n_packed = sizes.packed_bytes;
	head->n_rowmul = sizes.rowmul_bytes;
	head->n_a = (size_t)REPLICA_TOKENS * layer->k * 2;
	head->n_c = (size_t)REPLICA_TOKENS * layer->n * 2;
	head->at_packed = replica_place(head, head->n_packed);
	head->at_rowmul = replica_place(head, head->n_rowmul);
	head->at_a = replica_place(head, head->n_a);
	head->at_c = replica_place(head, head->n_c);
	replica->fd = memfd_create("replica", MFD_CLOEXEC);
	if (replica->fd == -1 ||
	    ftruncate(replica->fd, (off_t)head->n_all) != 0)
		return replica_fail("memory file", "cannot be made");
	replica->shared = mmap(NULL, head->n_all, PROT_READ | PROT_WRITE,
	    MAP_SHARED, replica->fd, 0);
	if (replica->shared == MAP_FAILED)
		return replica_fail("memory file", "cannot be mapped");
	memcpy(replica->shared, head, sizeof *head);
	return 0;
}

/* Random weights, packed, and activations. */
static int
replica_fill(struct replica *replica)
{
	struct shared *shared = replica->shared;
	size_t n_codes = (size_t)replica->source.n * replica->source.k;
	size_t n_scales = n_codes / REPLICA_GROUP;
	uint8_t *codes = malloc(n_codes);
	uint16_t *scales = malloc(n_scales * sizeof *scales);
	uint16_t *a = (uint16_t *)(void *)shared_at(shared, shared->at_a);
	uint64_t state = 1;
	int error = HUMMING_E_NOMEM;

	if (codes != NULL && scales != NULL) {
		for (size_t i = 0; i < n_codes; i++)
			codes[i] = (uint8_t)(replica_random(&state) & 15);
		for (size_t i = 0; i < n_scales; i++)
			scales[i] = hm_number_encode16(HUMMING_TYPE_BF16,
			    (1 + replica_random(&state) % 256) / 16384.0);
		for (size_t i = 0; i < shared->n_a / 2; i++)
			a[i] = hm_number_encode16(HUMMING_TYPE_BF16,
			    replica_random(&state) % 65536 / 32768.0 - 1);
		replica->source.codes = codes;
		replica->source.scales = scales;
		error = humming_weight_pack(&replica->source,
		    shared_at(shared, shared->at_packed),
		    (float *)(void *)shared_at(shared, shared->at_rowmul),
		    NULL);
	}
	if (error == HUMMING_OK) {
		struct humming_gemm_reference_args args = {.m = REPLICA_TOKENS,
		    .lda = replica->source.k,
		    .ldc = replica->source.n,
		    .a = a,
		    .c_out = replica->expected};

		error = humming_gemm_reference(&replica->source, &args);
	}
	free(codes);
	free(scales);
	return error == HUMMING_OK
		   ? 0
		   : replica_fail("weights", humming_strerror(error));
}

static int
replica_prepare(struct replica *replica)
{
	static struct shared head;
	const struct hm_request *layer = NULL;

	if (replica_read_model(replica, &head) != 0)
		return 1;
	layer = &head.layers[head.gemm_layer];
	replica->expected = malloc(
	    (size_t)REPLICA_TOKENS * layer->n * sizeof *replica->expected);
	if (replica->expected == NULL)
		return replica_fail("memory",
		    humming_strerror(HUMMING_E_NOMEM));
	(void)snprintf(head.socket, sizeof head.socket, "%s/socket",
	    replica->folder);
	if (replica_share(replica, &head) != 0)
		return 1;
	return replica_fill(replica);
}

/* Square of the relative error of the child's output. */
static double
replica_error(const struct replica *replica)
{
	struct shared *shared = replica->shared;
	const uint16_t *c =
	    (const uint16_t *)(void *)shared_at(shared, shared->at_c);
	double error = 0, size = 0;

	for (size_t i = 0; i < shared->n_c / 2; i++) {
		double value = hm_number_decode16(HUMMING_TYPE_BF16, c[i]);
		double off = value - replica->expected[i];

		if (!hm_number_is_finite(value))
			return 1e9;
		error += off * off;
		size += replica->expected[i] * replica->expected[i];
	}
	return error / size;
}

/* ---- the parent: processes ---- */

static void
replica_path(const struct replica *replica, const char *name, char *path,
    size_t size)
{
	char self[512];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	char *slash = NULL;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash != NULL)
		*slash = '\0';
	(void)snprintf(path, size, "%s/%s",
	    replica->bin != NULL ? replica->bin : self, name);
}

static int
replica_spawn(const char *path, char *const *argv, int fd, pid_t *pid_out)
{
	posix_spawn_file_actions_t actions;
	extern char **environ;
	int result = 0;

	if (posix_spawn_file_actions_init(&actions) != 0)
		return 1;
	result = posix_spawn_file_actions_adddup2(&actions, fd, REPLICA_FD);
	if (result == 0)
		result =
		    posix_spawn(pid_out, path, &actions, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	return result;
}

/* One process to its end. Fails when it did not do what it should. */
static int
replica_run(struct replica *replica, bool only_context, double ms[N_PHASES])
{
	struct shared *shared = replica->shared;
	char path[600];
	char name[] = "humming-replica", child[] = "--child";
	char *const argv[] = {name, child, NULL};
	int status = 0;
	pid_t pid = 0;

	memset(shared_at(shared, shared->at_c), 0xff, shared->n_c);
	memset(shared->ms, 0, sizeof shared->ms);
	shared->done = false;
	shared->why[0] = '\0';
	shared->only_context = only_context;
	replica_path(replica, name, path, sizeof path);
	shared->begin_ms = now_ms();
	if (replica_spawn(path, argv, replica->fd, &pid) != 0)
		return replica_fail(path, "cannot be started");
	while (waitpid(pid, &status, 0) == -1)
		continue;
	memcpy(ms, shared->ms, sizeof shared->ms);
	if (status != 0 || !shared->done)
		return replica_fail("replica",
		    shared->why[0] != '\0' ? shared->why : "died");
	if (!only_context &&
	    replica_error(replica) > REPLICA_ERROR * REPLICA_ERROR)
		return replica_fail("first GEMM", "the result is wrong");
	return 0;
}

static int
replica_start_daemon(struct replica *replica)
{
	char path[600], socket[300], store[300], log[300];
	char name[] = "hummingd", o1[] = "-f", o2[] = "--private";
	char o3[] = "--socket", o4[] = "--store";
	char *const argv[] = {name, o1, o2, o3, socket, o4, store, NULL};
	int ends[2] = {-1, -1};
	double begin = now_ms();
	struct pollfd ready;
	char text[16];

	replica_path(replica, name, path, sizeof path);
	(void)snprintf(socket, sizeof socket, "%s/socket", replica->folder);
	(void)snprintf(store, sizeof store, "%s/store", replica->folder);
	(void)snprintf(log, sizeof log, "%s/log", replica->folder);
	if (pipe2(ends, O_CLOEXEC) != 0 ||
	    setenv("HUMMING_READY_FD", "3", 1) != 0 ||
	    replica_spawn(path, argv, ends[1], &replica->daemon) != 0)
		return replica_fail(path, "cannot be started");
	(void)unsetenv("HUMMING_READY_FD");
	(void)close(ends[1]);
	ready = (struct pollfd){.fd = ends[0], .events = POLLIN};
	if (poll(&ready, 1, 10000) != 1 || read(ends[0], text, 16) < 1)
		return replica_fail("hummingd", "is not ready after 10 s");
	(void)close(ends[0]);
	replica->ready_ms = now_ms() - begin;
	return 0;
}

/* Asks it to stop, as `hummingctl stop` does, and removes what it left. */
static void
replica_stop_daemon(struct replica *replica)
{
	static const char *const names[] = {"/bin/rm"};
	struct humming_client_options options;
	struct humming_client *client = NULL;
	char rm[] = "rm", flags[] = "-rf", folder[64];
	char *const argv[] = {rm, flags, folder, NULL};
	pid_t pid = 0;

	humming_client_options_init(&options, sizeof options);
	options.socket_path = replica->shared->socket;
	if (replica->daemon > 0 &&
	    humming_client_open(&options, &client) == HUMMING_OK) {
		(void)humming_client_stop(client);
		humming_client_close(client);
		(void)waitpid(replica->daemon, NULL, 0);
	}
	(void)snprintf(folder, sizeof folder, "%s", replica->folder);
	if (replica_spawn(names[0], argv, replica->fd, &pid) == 0)
		(void)waitpid(pid, NULL, 0);
}

/* ---- the parent: results ---- */

static double
sum_to(const double ms[N_PHASES], enum phase first, enum phase last)
{
	double sum = 0;

	for (int i = (int)first; i <= (int)last; i++)
		sum += ms[i];
	return sum;
}

static int
compare_doubles(const void *a, const void *b)
{
	double x = 0, y = 0;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

/* Median over runs of the phases first..last together. */
static double
median(double (*runs)[N_PHASES], uint32_t n, enum phase first, enum phase last)
{
	double sums[REPLICA_MOST_RUNS];

	for (uint32_t i = 0; i < n; i++)
		sums[i] = sum_to(runs[i], first, last);
	qsort(sums, n, sizeof sums[0], compare_doubles);
	return sums[n / 2];
}

static void
print_phase(struct replica *replica, const char *name, enum phase first,
    enum phase last)
{
	uint32_t n = replica->repeat;

	printf("# %-24s", name);
	if (last <= PHASE_CONTEXT)
		printf(" %12.1f", median(replica->context_ms, n, first, last));
	else
		printf(" %12s", "");
	printf(" %12.1f %12.1f\n", median(replica->warm_ms, n, first, last),
	    sum_to(replica->cold_ms, first, last));
}

static void
replica_result(struct replica *replica, bool ok, const char *text)
{
	replica->n_tests++;
	replica->n_failed += !ok;
	printf("%sok %u - %s\n", ok ? "" : "not ", replica->n_tests, text);
}

static void
replica_report(struct replica *replica)
{
	uint32_t n = replica->repeat;
	double driver =
	    median(replica->context_ms, n, PHASE_INIT, PHASE_CONTEXT);
	double warm = median(replica->warm_ms, n, PHASE_EXEC, PHASE_GEMM);
	double cold = sum_to(replica->cold_ms, PHASE_EXEC, PHASE_GEMM);
	char text[160];

	printf("# ms, median of %u      %12s %12s %12s\n", n, "context only",
	    "warm", "cold (once)");
	for (int i = 0; i < N_PHASES; i++)
		print_phase(replica, phase_names[i], (enum phase)i,
		    (enum phase)i);
	print_phase(replica, "exec to first GEMM", PHASE_EXEC, PHASE_GEMM);
	printf("# hummingd listened after %.1f ms\n", replica->ready_ms);
	(void)snprintf(text, sizeof text,
	    "warm: %.1f ms, driver alone %.1f ms, %.1f ms more (at most %.0f, "
	    "goal %.0f)",
	    warm, driver, warm - driver, REPLICA_WARM_MS, REPLICA_WARM_GOAL);
	replica_result(replica, warm - driver <= REPLICA_WARM_MS, text);
	(void)snprintf(text, sizeof text, "cold: %.1f ms in all (at most %.0f)",
	    cold, REPLICA_COLD_MS);
	replica_result(replica, cold <= REPLICA_COLD_MS, text);
}

static int
replica_measure(struct replica *replica)
{
	double discarded[N_PHASES];

	/* The first process on a GPU also wakes it up. */
	if (replica_run(replica, true, discarded) != 0 ||
	    replica_start_daemon(replica) != 0 ||
	    replica_run(replica, false, replica->cold_ms) != 0)
		return 1;
	replica_result(replica, true, "cold: the first GEMM is right");
	for (uint32_t i = 0; i < replica->repeat; i++)
		if (replica_run(replica, true, replica->context_ms[i]) != 0 ||
		    replica_run(replica, false, replica->warm_ms[i]) != 0)
			return 1;
	replica_result(replica, true, "warm: every first GEMM is right");
	replica_report(replica);
	return 0;
}

static bool
replica_read_options(struct replica *replica, int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--model") == 0)
			replica->model = argv[i + 1];
		else if (strcmp(argv[i], "--quant") == 0)
			replica->quant = argv[i + 1];
		else if (strcmp(argv[i], "--bin") == 0)
			replica->bin = argv[i + 1];
		else if (strcmp(argv[i], "--repeat") == 0)
			replica->repeat =
			    (uint32_t)strtoul(argv[i + 1], NULL, 10);
		else
			return false;
	}
	return argc % 2 == 1 && replica->model != NULL && replica->repeat > 0 &&
	       replica->repeat <= REPLICA_MOST_RUNS;
}

int
main(int argc, char **argv)
{
	double main_ms = now_ms();
	static struct replica replica;
	const struct hm_driver *driver = NULL;
	struct hm_errbuf errbuf = {""};
	int failed = 0;

	if (argc == 2 && strcmp(argv[1], "--child") == 0)
		_exit(child_main(main_ms));
	replica.quant = "w4a16";
	replica.repeat = 7;
	if (!replica_read_options(&replica, argc, argv)) {
		fprintf(stderr,
		    "humming-replica: usage: humming-replica --model JSON "
		    "[--quant Q] [--bin DIR] [--repeat N]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (hm_driver_get(&driver, &errbuf) != HM_OK) {
		printf("1..0 # SKIP no GPU: %s\n", errbuf.text);
		return 0;
	}
	(void)snprintf(replica.folder, sizeof replica.folder,
	    "/tmp/humming-replica-XXXXXX");
	if (mkdtemp(replica.folder) == NULL)
		return replica_fail(replica.folder, "cannot be made");
	failed = replica_prepare(&replica);
	if (!failed) {
		failed = replica_measure(&replica);
		replica_stop_daemon(&replica);
	}
	free(replica.expected);
	printf("1..%u\n", replica.n_tests);
	return failed || replica.n_failed != 0;
}
