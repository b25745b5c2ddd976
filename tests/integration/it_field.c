/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_field.c - reports from the field (tests/FAILURES.md) that no other story
 * tells: a restart storm, forked workers, mixed GPUs, a long prewarm, a leaking
 * compiler, an idle time that ends in the middle of work.
 */
#include <sys/syscall.h>
#include <sys/wait.h>

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/include/humming/client.h"
#include "jit/job.h"
#include "jit/spec.h"
#include "tests/integration/wire.h"

#define N_STORM    200u
#define STORM_MS   30000u
#define N_PREWARM  100u
#define SPEC_BYTES 64u

static struct harness harness;

static int
setup(void **state)
{
	(void)state;
	harness_init(&harness);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	harness_done(&harness);
	return 0;
}

/* --- a restart storm (42, 25) -------------------------------------------- */

struct stormer {
	pthread_t thread;
	struct humming_client *client;
	uint32_t m;
	int error;
};

/* m = 1 is built in a moment, 4096 in some tenths of a second. */
static int
field_get(struct humming_client *client, uint32_t m)
{
	struct humming_kernel_request request;
	struct humming_kernel *kernel = NULL;
	int error;

	humming_kernel_request_init(&request, sizeof(request));
	request.target_cc = 80;
	request.a_type = HUMMING_TYPE_BF16;
	request.w_type = HUMMING_TYPE_UINT(4);
	request.scale_kind = HUMMING_SCALE_GROUP;
	request.group = 128;
	request.m = m;
	request.n = request.k = 8192;
	error = humming_client_get_kernel(client, &request, &kernel);
	humming_kernel_unref(kernel);
	return error;
}

static void *
storm_main(void *argument)
{
	struct stormer *stormer = argument;

	stormer->error = field_get(stormer->client, stormer->m);
	return NULL;
}

/* All lose the daemon at once, come back at once, and are served from its
 * store: nobody fails, nobody builds, nobody else touches the store. */
static void
test_field__restart_under_200_clients__all_are_served(void **state)
{
	static struct stormer stormers[N_STORM];
	struct humming_client_options options;
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_close(&wire);
	humming_client_options_init(&options, sizeof(options));
	options.socket_path = harness.socket;
	options.timeout_ms = STORM_MS;
	for (size_t i = 0; i < N_STORM; i++) {
		assert_int_equal(
		    humming_client_open(&options, &stormers[i].client),
		    HUMMING_OK);
		stormers[i].m = 1;
		assert_int_equal(field_get(stormers[i].client, 1), HUMMING_OK);
	}
	wire_open(&wire, &harness);
	wire_wait_number(&wire, HM_FRAME_STATUS, "tiers.store.entries", 1);
	wire_close(&wire);
	harness_kill(&harness);
	for (size_t i = 0; i < N_STORM; i++)
		assert_int_equal(pthread_create(&stormers[i].thread, NULL,
				     storm_main, &stormers[i]),
		    0);
	harness_start(&harness);
	for (size_t i = 0; i < N_STORM; i++) {
		assert_int_equal(pthread_join(stormers[i].thread, NULL), 0);
		assert_int_equal(stormers[i].error, HUMMING_OK);
		humming_client_close(stormers[i].client);
	}
	wire_open(&wire, &harness);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "builds"), 0);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "hits.store"), 1);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "hits.hot"),
	    N_STORM - 1);
	wire_close(&wire);
}

/* The daemon goes in the middle of a build that somebody waits for: the client
 * comes back to the next one, asks again and gets its kernel. */
static void
test_field__restart_in_mid_build__waiting_client_gets_it(void **state)
{
	struct stormer waiting = {.m = 4096};
	struct humming_client_options options;
	struct wire wire;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	humming_client_options_init(&options, sizeof(options));
	options.socket_path = harness.socket;
	options.timeout_ms = STORM_MS;
	assert_int_equal(humming_client_open(&options, &waiting.client),
	    HUMMING_OK);
	assert_int_equal(
	    pthread_create(&waiting.thread, NULL, storm_main, &waiting), 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.busy", 1);
	wire_close(&wire);
	harness_kill(&harness);
	harness_start(&harness);
	assert_int_equal(pthread_join(waiting.thread, NULL), 0);
	assert_int_equal(waiting.error, HUMMING_OK);
	wire_open(&wire, &harness);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "builds"), 1);
	wire_close(&wire);
	humming_client_close(waiting.client);
}

/* --- a worker that forks ------------------------------------------------- */

/* In the child: the parent's connection is refused, its kernels stay good, a
 * connection of one's own works. 0 = all is as it should be. */
static int
in_child(struct humming_client *parents, struct humming_kernel *kernel)
{
	struct humming_client_options options;
	struct humming_client *own = NULL;
	const void *image = NULL;
	size_t n_image = 0;

	if (field_get(parents, 1) != HUMMING_E_INVALID ||
	    humming_client_ping(parents) != HUMMING_E_INVALID)
		return 1;
	if (humming_kernel_image(kernel, &image, &n_image) != HUMMING_OK ||
	    memcmp(image, "\177ELF", 4) != 0)
		return 2;
	humming_client_options_init(&options, sizeof(options));
	options.socket_path = harness.socket;
	options.timeout_ms = STORM_MS;
	if (humming_client_open(&options, &own) != HUMMING_OK ||
	    field_get(own, 1) != HUMMING_OK)
		return 3;
	humming_client_close(own);
	humming_kernel_unref(kernel);
	humming_client_close(parents);
	return 0;
}

static void
test_field__forked_children__have_connections_of_their_own(void **state)
{
	struct humming_client_options options;
	struct humming_client *client = NULL;
	struct humming_kernel *kernel = NULL;
	struct humming_source source = {.struct_size = sizeof(source),
	    .target_cc = 80,
	    .text = "__device__ int t[50000] = {1};\n"
		    "extern \"C\" __global__ void f(int *p) { *p = t[*p]; }\n"};
	pid_t pids[8];
	int status;

	(void)state;
	harness_start(&harness);
	humming_client_options_init(&options, sizeof(options));
	options.socket_path = harness.socket;
	options.timeout_ms = STORM_MS;
	assert_int_equal(humming_client_open(&options, &client), HUMMING_OK);
	/* Mapped from the daemon's memory file, which a child maps too. */
	source.text_bytes = strlen(source.text);
	assert_int_equal(humming_client_compile(client, &source, &kernel),
	    HUMMING_OK);
	for (size_t i = 0; i < 8; i++) {
		pids[i] = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (pids[i] == 0)
			_exit(in_child(client, kernel));
		assert_true(pids[i] > 0);
		/* While they do that, the parent's goes on. */
		assert_int_equal(field_get(client, 1), HUMMING_OK);
	}
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(humming_client_ping(client), HUMMING_OK);
	humming_kernel_unref(kernel);
	humming_client_close(client);
}

/* --- mixed GPUs in one node (18, 19) ------------------------------------- */

/* Each client says what its own device is, and gets a cubin for just that: no
 * PTX that an older driver would have to translate, no arch of device 0. */
static void
test_field__mixed_gpus__each_gets_a_cubin_of_its_own(void **state)
{
	static const char *const archs[] = {"sm_80", "sm_86", "sm_90a"};
	enum { N = sizeof(archs) / sizeof(archs[0]) };
	static struct wire wires[N];
	struct wire_kernel kernels[N];

	(void)state;
	harness_start(&harness);
	for (size_t i = 0; i < N; i++)
		wire_open(&wires[i], &harness);
	wire_expect_compiler(&wires[0]);
	for (size_t i = 0; i < N; i++)
		(void)wire_send_get(&wires[i], "w4a16,m=1,n=8192,k=8192",
		    archs[i], HM_LANE_INTERACTIVE, 0);
	for (size_t i = 0; i < N; i++) {
		const struct hm_kernel_reply *reply = &kernels[i].reply;
		struct hm_target target;

		assert_true(wire_recv_kernel(&wires[i], &kernels[i]));
		assert_int_equal(reply->error, HM_OK);
		assert_string_equal(reply->meta.arch, archs[i]);
		assert_int_equal(hm_target_parse(archs[i], &target, NULL),
		    HM_OK);
		assert_int_equal(hm_elf_check(kernels[i].image,
				     kernels[i].n_image, &target,
				     reply->meta.entry, NULL),
		    HM_OK);
		assert_null(memmem(kernels[i].image, kernels[i].n_image,
		    ".target sm_", 11));
		for (size_t j = 0; j < i; j++)
			assert_false(hm_digest_equal(&reply->key,
			    &kernels[j].reply.key));
	}
	for (size_t i = 0; i < N; i++) {
		wire_kernel_done(&kernels[i]);
		wire_close(&wires[i]);
	}
}

/* --- a compile during serving (10) --------------------------------------- */

/* The specs of so many kernels that no two share a key, by blanks. */
static void
many_specs(char *text, size_t size, uint32_t n)
{
	static const uint32_t groups[] = {32, 64, 128};
	static const char *const zeros[] = {"", ",zp=int", ",zp=float"};
	static const char *const acts[] = {"", ",a=f16"};
	static const uint32_t ms[] = {1, 64, 256, 1024, 4096, 8192};
	size_t used = 0;

	for (uint32_t i = 0; i < n; i++)
		used += (size_t)snprintf(text + used, size - used,
		    "%sw4a16,m=%u,group=%u%s%s", i == 0 ? "" : " ",
		    ms[i / 18 % 6], groups[i % 3], zeros[i / 3 % 3],
		    acts[i / 9 % 2]);
}

/* A hundred kernels wait in the second lane; one that somebody needs now starts
 * as soon as a worker is free. */
static void
test_field__hundred_prewarm_jobs__interactive_is_next(void **state)
{
	static char specs[N_PREWARM * SPEC_BYTES];
	struct wire_kernel kernel;
	struct wire behind;
	struct wire wire;
	uint64_t before;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=2";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_open(&behind, &harness);
	many_specs(specs, sizeof(specs), N_PREWARM);
	(void)wire_send_get(&behind, specs, "sm_80", HM_LANE_PREWARM, 0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.busy", 2);
	assert_in_range(wire_number(&wire, HM_FRAME_STATUS, "workers.queued"),
	    40, N_PREWARM);
	before = wire_number(&wire, HM_FRAME_STATS, "builds");
	wire_get(&wire, "w4a16,m=1,n=8192,k=8192", "sm_86", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	/* Ours, the two that ran when it came, and the other worker's next. */
	assert_in_range(wire_number(&wire, HM_FRAME_STATS, "builds"), 1,
	    before + 4);
	wire_close(&behind);
	wire_close(&wire);
}

/* --- a compiler that leaks (34) ------------------------------------------ */

static void
test_field__worker_grown_too_large__is_replaced(void **state)
{
	static const char *const specs[] = {"w4a16,m=1", "w4a16,m=1,group=64"};
	pid_t before = 0, pid = 0;
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	/* Less than NVRTC takes for a single kernel. */
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness.environment[1] = "HUMMING_WORKER_RESIDENT=64M";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	for (size_t i = 0; i < 2; i++) {
		wire_wait_number(&wire, HM_FRAME_STATUS, "workers.idle", 1);
		assert_int_equal(harness_workers(&harness, &pid, 1), 1);
		assert_true(pid != before);
		before = pid;
		wire_get(&wire, specs[i], "sm_80", &kernel);
		assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
		wire_kernel_done(&kernel);
	}
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.idle", 1);
	assert_int_equal(harness_workers(&harness, &pid, 1), 1);
	assert_true(pid != before);
	wire_close(&wire);
}

/* --- idle, but not without work (26) ------------------------------------- */

/* The only client has left; what it asked for is still built and stored before
 * the daemon takes itself for idle. */
static void
test_field__idle_time_over_in_mid_build__work_is_finished(void **state)
{
	struct wire wire;

	(void)state;
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness.environment[1] = "HUMMING_LIMITS_IDLE_MS=10";
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	(void)wire_send_get(&wire, "w4a16,m=4096", "sm_80", HM_LANE_INTERACTIVE,
	    0);
	wire_wait_number(&wire, HM_FRAME_STATUS, "workers.busy", 1);
	wire_close(&wire);
	assert_int_equal(harness_wait(&harness), 0);
	harness.environment[1] = NULL;
	harness_start(&harness);
	wire_open(&wire, &harness);
	wire_wait_number(&wire, HM_FRAME_STATUS, "tiers.store.entries", 1);
	wire_close(&wire);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_field__restart_under_200_clients__all_are_served),
	    TEST(test_field__restart_in_mid_build__waiting_client_gets_it),
	    TEST(test_field__forked_children__have_connections_of_their_own),
	    TEST(test_field__mixed_gpus__each_gets_a_cubin_of_its_own),
	    TEST(test_field__hundred_prewarm_jobs__interactive_is_next),
	    TEST(test_field__worker_grown_too_large__is_replaced),
	    TEST(test_field__idle_time_over_in_mid_build__work_is_finished),
	};

	return cmocka_run_group_tests_name("field", tests, NULL, NULL);
}
