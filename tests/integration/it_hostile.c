/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_hostile.c - sources that hurt a compiler, sent to the real daemon, one by
 * one and all at once: each ends in a limit with an error that says which, and
 * everybody else is served meanwhile.
 *
 * The times of hits that are printed beside each other, undisturbed and
 * disturbed, are for people: no test goes by them.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/integration/wire.h"

/* A source may be so long. */
#define SOURCE_BYTES (1u << 20)
#define N_HONEST     32
#define N_TIMES      4096

static struct harness harness;

static int
setup(void **state)
{
	harness_init(&harness);
	harness.environment[0] = "HUMMING_WORKERS=2";
	harness.environment[1] = "HUMMING_LIMITS_SOURCE_MS=6000";
	*state = &harness;
	return 0;
}

static int
teardown(void **state)
{
	harness_done(*state);
	return 0;
}

/* ---- the sources ---- */

/* A text that grows; cut at what a source may hold. */
struct text {
	size_t n;
	char bytes[SOURCE_BYTES + 1];
};

static void __attribute__((format(printf, 2, 3)))
add(struct text *text, const char *format, ...)
{
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(text->bytes + text->n, sizeof(text->bytes) - text->n,
	    format, arguments);
	va_end(arguments);
	assert_in_range(n, 0, sizeof(text->bytes) - text->n - 1);
	text->n += (size_t)n;
}

static void
make_template_bomb(struct text *text)
{
	add(text,
	    "template <int D, int I> struct B { static const int v =\n"
	    "B<D - 1, 2 * I>::v + B<D - 1, 2 * I + 1>::v; };\n"
	    "template <int I> struct B<0, I> { static const int v = I; };\n"
	    "__global__ void k(int *p) { *p = B<24, 0>::v; }\n");
}

static void
make_macro_bomb(struct text *text)
{
	add(text, "#define M0 1+\n");
	for (int i = 1; i <= 10; i++) {
		add(text, "#define M%d", i);
		for (int j = 0; j < 10; j++)
			add(text, " M%d", i - 1);
		add(text, "\n");
	}
	add(text, "__global__ void k(int *p) { *p = M10 0; }\n");
}

static void
make_big_array(struct text *text)
{
	add(text, "__device__ int big[1 << 28] = {1, 2, 3};\n"
		  "__global__ void k(int *p) { *p = big[*p]; }\n");
}

static void
make_parentheses(struct text *text)
{
	const size_t n_deep = 500000;

	add(text, "__global__ void k(int *p) { *p = ");
	memset(text->bytes + text->n, '(', n_deep);
	text->n += n_deep;
	add(text, "1");
	memset(text->bytes + text->n, ')', n_deep);
	text->n += n_deep;
	add(text, "; }\n");
}

static void
make_ptxas_bomb(struct text *text)
{
	add(text, "__global__ void k(int *p, int n) {\n");
	for (int i = 0; i < 400; i++)
		add(text, "int v%d = p[%d];\n", i, i);
	add(text, "for (int i = 0; i < n; i++) {\n");
	for (int i = 0; i < 4000; i++)
		add(text,
		    "if (v%d > v%d) v%d += v%d * p[v%d]; else v%d ^= %d;\n",
		    i * 7 % 400, i * 13 % 400, i % 400, i * 31 % 400,
		    i * 11 % 400, i * 3 % 400, i);
	add(text, "}\n");
	for (int i = 0; i < 400; i++)
		add(text, "p[%d] = v%d;\n", i, i);
	add(text, "}\n");
}

static void
make_else_ifs(struct text *text)
{
	add(text, "__global__ void k(int *p) { int x = *p, y = 0;\n"
		  "if (x == -1) y = 1;\n");
	for (int i = 0; i < 45000; i++)
		add(text, "else if(x==%d)y=%d;", i * 3, i % 9);
	add(text, "*p = y; }\n");
}

static void
make_long_sum(struct text *text)
{
	add(text, "__global__ void k(int *p) { *p = 0");
	for (int i = 0; i < 150000; i++)
		add(text, "+p[%d]", i % 10);
	add(text, "; }\n");
}

static void
make_wide_switch(struct text *text)
{
	add(text, "__global__ void k(int *p) { int r = 0; switch (*p) {\n");
	for (int i = 0; i < 55000; i++)
		add(text, "case %d:r+=%d;", i, i % 10);
	add(text, "} *p = r; }\n");
}

static void
make_deep_recursion(struct text *text)
{
	add(text, "template <int N> struct R { static const int v =\n"
		  "1 + R<N - 1>::v; };\n"
		  "template <> struct R<0> { static const int v = 0; };\n"
		  "__global__ void k(int *p) { *p = R<100000>::v; }\n");
}

static void
make_constexpr_loop(struct text *text)
{
	add(text, "constexpr long long f() { long long s = 0;\n"
		  "for (long long i = 0; i < 100000000000; i++) s += i;\n"
		  "return s; }\n"
		  "constexpr long long v = f();\n"
		  "__global__ void k(long long *p) { *p = v; }\n");
}

static void
make_host_file(struct text *text)
{
	add(text, "#include \"/etc/passwd\"\n"
		  "__global__ void k(int *p) { *p = 1; }\n");
}

/* The text of a file as a string of the cubin. */
static void
make_stolen_file(struct text *text)
{
	add(text,
	    "#define S(...) S2(__VA_ARGS__)\n#define S2(...) #__VA_ARGS__\n"
	    "__device__ const char t[] = S(\n#include \"/etc/passwd\"\n);\n"
	    "__global__ void k(char *p) { *p = t[0]; }\n");
}

static void
make_device_node(struct text *text)
{
	add(text, "#include \"/dev/zero\"\n"
		  "__global__ void k(int *p) { *p = 1; }\n");
}

static void
make_parent_folder(struct text *text)
{
	add(text, "#include \"../../../../etc/passwd\"\n"
		  "__global__ void k(int *p) { *p = 1; }\n");
}

static void
make_self_include(struct text *text)
{
	add(text, "#include __FILE__\n"
		  "__global__ void k(int *p) { *p = 1; }\n");
}

static void
make_garbage(struct text *text)
{
	for (unsigned i = 0; i < 60000; i++)
		add(text, "%c", (int)(32 + i * 2654435761u % 95));
}

/* An endless log, one error a line. */
static void
make_log_flood(struct text *text)
{
	for (int i = 0; i < 20000; i++)
		add(text, "#warning \"%d this is said again and again\"\n", i);
	add(text, "__global__ void k(int *p) { *p = nothing; }\n");
}

static const struct hostile {
	const char *name;
	void (*make)(struct text *text);
} hostiles[] = {
    {"template bomb", make_template_bomb},
    {"macro bomb", make_macro_bomb},
    {"big array", make_big_array},
    {"parentheses", make_parentheses},
    {"ptxas bomb", make_ptxas_bomb},
    {"else-ifs", make_else_ifs},
    {"long sum", make_long_sum},
    {"wide switch", make_wide_switch},
    {"deep recursion", make_deep_recursion},
    {"constexpr loop", make_constexpr_loop},
    {"file of the host", make_host_file},
    {"file as a string", make_stolen_file},
    {"device node", make_device_node},
    {"parent folder", make_parent_folder},
    {"self include", make_self_include},
    {"garbage", make_garbage},
    {"log flood", make_log_flood},
};
#define N_HOSTILES (sizeof(hostiles) / sizeof(hostiles[0]))
/* Which NVRTC may also manage, on a fast machine. */
#define MAY_BE_BUILT "else-ifs long sum wide switch"

/* ---- honest hits ---- */

struct times {
	size_t n;
	uint32_t us[N_TIMES];
};

static int
compare_us(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static uint32_t
quantile(struct times *times, unsigned percent)
{
	if (times->n == 0)
		return 0;
	qsort(times->us, times->n, sizeof(times->us[0]), compare_us);
	return times->us[(times->n - 1) * percent / 100];
}

static uint64_t
now_us(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void
hit(struct wire *wire, struct times *times)
{
	struct wire_kernel kernel;
	uint64_t start_us = now_us();

	wire_get(wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_HIT);
	assert_int_equal(kernel.reply.tier, HM_TIER_HOT);
	if (times->n < N_TIMES)
		times->us[times->n++] = (uint32_t)(now_us() - start_us);
	wire_kernel_done(&kernel);
}

/* The kernel that is hit is there, and the daemon is warm. */
static void
warm_up(struct wire *wire)
{
	struct wire_kernel kernel;

	wire_open_ready(wire, &harness);
	wire_get(wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
}

/* ---- one by one ---- */

static void
send_hostile(struct wire *wire, const struct hostile *hostile)
{
	struct text *text = calloc(1, sizeof(*text));
	struct wire_source source = {.arch = "sm_90a"};

	assert_non_null(text);
	source.text = text->bytes;
	hostile->make(text);
	(void)wire_send_compile(wire, &source);
	free(text);
}

/* An error of a known class, in words; nothing of the host in it. */
static void
expect_held(const struct hostile *hostile, const struct wire_kernel *kernel,
    uint64_t took_ms)
{
	const char *message = kernel->reply.message;

	print_message("# %s: %s after %llu ms: %.100s\n", hostile->name,
	    hm_strerror(kernel->reply.error), (unsigned long long)took_ms,
	    message);
	if (kernel->reply.error == HM_OK &&
	    strstr(MAY_BE_BUILT, hostile->name) != NULL)
		return;
	assert_int_equal(kernel->reply.status, HM_REPLY_FAILED);
	assert_true(kernel->reply.error == HM_E_COMPILE ||
		    kernel->reply.error == HM_E_TIMEOUT ||
		    kernel->reply.error == HM_E_NOMEM ||
		    kernel->reply.error == HM_E_INTERNAL);
	assert_true(message[0] != '\0');
	if (kernel->reply.error == HM_E_TIMEOUT)
		assert_non_null(strstr(message, "limits.source_ms"));
	if (kernel->reply.error == HM_E_INTERNAL)
		assert_non_null(strstr(message, "signal"));
	assert_null(strstr(message, "root:"));
	if (kernel->reply.log != NULL) {
		assert_null(strstr(kernel->reply.log, "root:"));
		assert_true(strlen(kernel->reply.log) <= HM_MAX_LOG_BYTES);
	}
}

static void
test_hostile__one_by_one__ends_in_its_limit_hits_go_on(void **state)
{
	static struct times times;
	struct wire_kernel kernel;
	struct wire honest;
	struct wire wire;

	(void)state;
	harness_start(&harness);
	warm_up(&honest);
	wire_open(&wire, &harness);
	for (size_t i = 0; i < N_HOSTILES; i++) {
		struct pollfd wait = {.fd = wire.fd, .events = POLLIN};
		uint64_t start_ms = harness_now_ms();

		send_hostile(&wire, &hostiles[i]);
		while (poll(&wait, 1, 10) == 0)
			hit(&honest, &times);
		assert_true(wire_recv_kernel(&wire, &kernel));
		expect_held(&hostiles[i], &kernel, harness_now_ms() - start_ms);
		/* Twice its limit and one more try, at the very most. */
		assert_true(harness_now_ms() - start_ms < 20000);
		wire_kernel_done(&kernel);
	}
	print_message("# %zu hits meanwhile, p99 %u us\n", times.n,
	    quantile(&times, 99));
	/* The daemon has all its workers, and builds. */
	wire_wait_number(&honest, HM_FRAME_STATUS, "workers.idle", 2);
	wire_get(&honest, "w4a16,m=1", "sm_89", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	wire_close(&wire);
	wire_close(&honest);
}

/* What fails the same way again is not tried again. */
static void
test_hostile__the_same_again__is_remembered(void **state)
{
	struct wire_kernel kernel;
	struct wire honest;
	struct wire wire;
	uint64_t n_failures;
	uint64_t start_ms;

	(void)state;
	harness_start(&harness);
	warm_up(&honest);
	wire_open(&wire, &harness);
	for (size_t i = 0; i < 3; i++) {
		send_hostile(&wire, &hostiles[i]);
		assert_true(wire_recv_kernel(&wire, &kernel));
		assert_int_not_equal(kernel.reply.error, HM_OK);
		wire_kernel_done(&kernel);
	}
	n_failures = wire_number(&honest, HM_FRAME_STATS, "build_failures");
	assert_int_equal(n_failures, 3);
	start_ms = harness_now_ms();
	for (size_t i = 0; i < 30; i++) {
		send_hostile(&wire, &hostiles[i % 3]);
		assert_true(wire_recv_kernel(&wire, &kernel));
		assert_int_not_equal(kernel.reply.error, HM_OK);
		wire_kernel_done(&kernel);
	}
	assert_true(harness_now_ms() - start_ms < 5000);
	assert_int_equal(wire_number(&honest, HM_FRAME_STATS, "build_failures"),
	    n_failures);
	wire_close(&wire);
	wire_close(&honest);
}

/* With less memory for a build a greedy source ends sooner, and a kernel of
 * ours is built all the same. */
static void
test_hostile__less_memory__is_enough_for_us(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	harness.environment[1] = "HUMMING_LIMITS_SOURCE_MS=120000";
	harness.environment[2] = "HUMMING_WORKER_MEMORY=192M";
	harness_start(&harness);
	warm_up(&wire);
	for (size_t i = 0; i < N_HOSTILES; i++) {
		if (strcmp(hostiles[i].name, "big array") != 0 &&
		    strcmp(hostiles[i].name, "template bomb") != 0)
			continue;
		send_hostile(&wire, &hostiles[i]);
		assert_true(wire_recv_kernel(&wire, &kernel));
		assert_int_equal(kernel.reply.status, HM_REPLY_FAILED);
		assert_int_not_equal(kernel.reply.error, HM_E_TIMEOUT);
		wire_kernel_done(&kernel);
	}
	wire_get(&wire, "w4a16,m=4096", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

/* ---- all at once ---- */

static void
test_hostile__all_at_once__honest_clients_are_served(void **state)
{
	static struct wire honest[N_HONEST];
	static struct wire hostile;
	static struct times before, during;
	struct wire_kernel kernel;
	size_t n_ended = 0;
	bool has_asked = false, is_built = false;

	(void)state;
	harness_start(&harness);
	warm_up(&honest[0]);
	for (size_t i = 1; i < N_HONEST; i++)
		wire_open(&honest[i], &harness);
	/* At the same pace as later, or the two would not compare. */
	for (size_t i = 0; i < 400; i++) {
		hit(&honest[i % N_HONEST], &before);
		(void)poll(NULL, 0, 5);
	}
	wire_open(&hostile, &harness);
	for (size_t i = 0; i < N_HOSTILES; i++)
		send_hostile(&hostile, &hostiles[i]);
	wire_wait_number(&honest[0], HM_FRAME_STATUS, "workers.building", 2);
	/* Queued prewarm, then an honest build that is not to wait for it. */
	(void)wire_send_get(&honest[1],
	    "w4a16,m=1,group=64 w4a16,m=1,group=32 w4a16,m=4096", "sm_80",
	    HM_LANE_PREWARM, 0);
	(void)wire_send_get(&honest[2], "w4a16,m=1", "sm_89",
	    HM_LANE_INTERACTIVE, 0);
	has_asked = true;
	for (size_t i = 0; n_ended < N_HOSTILES; i++) {
		struct pollfd wait[2] = {{.fd = hostile.fd, .events = POLLIN},
		    {.fd = honest[2].fd, .events = has_asked ? POLLIN : 0}};

		hit(&honest[3 + i % (N_HONEST - 3)], &during);
		if (poll(wait, 2, 5) <= 0)
			continue;
		if ((wait[1].revents & POLLIN) != 0 && !is_built) {
			assert_true(wire_recv_kernel(&honest[2], &kernel));
			assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
			wire_kernel_done(&kernel);
			is_built = true;
			has_asked = false;
			/* No prewarm was before it; hostile ones still wait. */
			assert_true(n_ended < N_HOSTILES);
		}
		if ((wait[0].revents & POLLIN) != 0) {
			assert_true(wire_recv_kernel(&hostile, &kernel));
			if (strcmp(kernel.reply.message, "") == 0)
				assert_int_equal(kernel.reply.error, HM_OK);
			wire_kernel_done(&kernel);
			n_ended++;
		}
	}
	assert_true(is_built);
	for (int i = 0; i < 3; i++) {
		assert_true(wire_recv_kernel(&honest[1], &kernel));
		assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
		wire_kernel_done(&kernel);
	}
	print_message("# hits of %d clients: p50 %u us, p99 %u us undisturbed; "
		      "p50 %u us, p99 %u us (%zu) beside hostile sources\n",
	    N_HONEST, quantile(&before, 50), quantile(&before, 99),
	    quantile(&during, 50), quantile(&during, 99), during.n);
	wire_close(&hostile);
	for (size_t i = 0; i < N_HONEST; i++)
		wire_close(&honest[i]);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_hostile__one_by_one__ends_in_its_limit_hits_go_on),
	    TEST(test_hostile__the_same_again__is_remembered),
	    TEST(test_hostile__less_memory__is_enough_for_us),
	    TEST(test_hostile__all_at_once__honest_clients_are_served),
	};

	return cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
}
