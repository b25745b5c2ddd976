/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_bench.c - how fast the kernels are on the GPU of this machine.
 *
 *     gemm_bench [--shape NxK] [--m M,M,...] [--act bf16|f16] [--group G]
 *                [--zero none|int|float] [--config K=V,...]... [--pause MS]
 *                [--passes P] [--cublas] [--seconds S] [--compile-only]
 *
 * Method (KERNELS.md 9): a CUDA graph of 20 to 64 launches that rotates over
 * copies of the weights of more than 270 MB, so that L2 is cold for weights and
 * hot for activations; median of 11 replays after 2. With and without the PDL
 * attribute in turn, replay by replay, because a card that has worked longer is
 * slower. The output is compared with the reference after the timing.
 *
 * --config replaces fields of the plan's row and may be given several times:
 *     family=S|H|G  tiles ring warps warps_k  tokens slices stages halves steps
 *     split  rows warps_n warps_m  cluster band prefetch policy
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/gemm_error.h"
#include "cublas.h"
#include "jit/spec.h"
#include "problem.h"
#include "session.h"

#define BENCH_MAX_M       32u
#define BENCH_MAX_CONFIGS 16u
#define BENCH_REPLAYS     11u
#define BENCH_WARM_UP     2u
#define BENCH_COLD_BYTES  270e6
#define BENCH_MAX_COPIES  256u

struct options {
	struct problem_spec spec;
	uint32_t m[BENCH_MAX_M];
	size_t n_m;
	const char *configs[BENCH_MAX_CONFIGS]; /* "" = the plan's own */
	size_t n_configs;
	uint32_t pause_ms, passes;
	double seconds;
	bool cublas, compile_only;
};

struct bench {
	struct session session;
	struct options options;
	struct hm_plan plan;
	struct problem problem;
	void *d_copies[BENCH_MAX_COPIES];
	size_t n_copies;
	void *d_dense[8]; /* bf16 weights for cuBLAS; their values are noise */
	size_t n_dense;
};

/* ---- options ---- */

static bool
read_m_list(struct options *options, const char *text)
{
	char *end = NULL;

	options->n_m = 0;
	while (*text != '\0' && options->n_m < BENCH_MAX_M) {
		options->m[options->n_m++] = (uint32_t)strtoul(text, &end, 10);
		if (end == text || options->m[options->n_m - 1] == 0)
			return false;
		text = *end == ',' ? end + 1 : end;
		if (*end != ',' && *end != '\0')
			return false;
	}
	return options->n_m > 0;
}

static bool
read_shape(struct options *options, const char *text)
{
	char *end = NULL;

	options->spec.n = (uint32_t)strtoul(text, &end, 10);
	if (*end != 'x')
		return false;
	options->spec.k = (uint32_t)strtoul(end + 1, &end, 10);
	return *end == '\0';
}

static bool
read_zero(struct options *options, const char *text)
{
	static const char *const names[] = {"none", "int", "float"};

	for (uint32_t i = 0; i < 3; i++) {
		if (strcmp(text, names[i]) != 0)
			continue;
		options->spec.zero = i;
		return true;
	}
	return false;
}

/* An option with a value. */
static bool
read_valued(struct options *options, const char *name, const char *value)
{
	if (strcmp(name, "--shape") == 0)
		return read_shape(options, value);
	if (strcmp(name, "--m") == 0)
		return read_m_list(options, value);
	if (strcmp(name, "--zero") == 0)
		return read_zero(options, value);
	if (strcmp(name, "--act") == 0) {
		options->spec.act = strcmp(value, "f16") == 0;
		return options->spec.act != 0 || strcmp(value, "bf16") == 0;
	}
	if (strcmp(name, "--config") == 0 &&
	    options->n_configs < BENCH_MAX_CONFIGS) {
		options->configs[options->n_configs++] = value;
		return true;
	}
	if (strcmp(name, "--group") == 0)
		options->spec.group = (uint32_t)strtoul(value, NULL, 10);
	else if (strcmp(name, "--pause") == 0)
		options->pause_ms = (uint32_t)strtoul(value, NULL, 10);
	else if (strcmp(name, "--passes") == 0)
		options->passes = (uint32_t)strtoul(value, NULL, 10);
	else if (strcmp(name, "--seconds") == 0)
		options->seconds = strtod(value, NULL);
	else
		return false;
	return true;
}

static bool
read_options(struct options *options, int argc, char **argv)
{
	memset(options, 0, sizeof *options);
	options->spec.n = 8192;
	options->spec.k = 8192;
	options->spec.group = 128;
	options->passes = 1;
	options->seconds = 3600;
	(void)read_m_list(options,
	    "1,2,4,8,16,32,64,128,256,512,1024,4096,8192");
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--cublas") == 0)
			options->cublas = true;
		else if (strcmp(argv[i], "--compile-only") == 0)
			options->compile_only = true;
		else if (i + 1 >= argc ||
			 !read_valued(options, argv[i], argv[i + 1]))
			return false;
		else
			i++;
	}
	if (options->n_configs == 0)
		options->configs[options->n_configs++] = "";
	for (size_t i = 0; i < options->n_m; i++)
		if (options->m[i] > options->spec.m_max)
			options->spec.m_max = options->m[i];
	return true;
}

/* ---- configurations ---- */

static bool
config_set(struct hm_plan_row *row, const char *key, size_t n_key,
    const char *value)
{
	struct hm_config *config = &row->config;
	const struct {
		const char *key;
		uint32_t *field;
	} fields[] = {
	    {"tiles", &config->token_tiles},
	    {"ring", &config->ring},
	    {"warps", &config->warps},
	    {"warps_k", &config->warps_k},
	    {"ctas", &config->ctas_per_sm},
	    {"tokens", &config->tile_tokens},
	    {"slices", &config->slices},
	    {"stages", &config->stages},
	    {"halves", &config->halves},
	    {"steps", &config->steps},
	    {"split", &config->split_k},
	    {"rows", &config->tile_rows},
	    {"warps_n", &config->warps_n},
	    {"warps_m", &config->warps_m},
	    {"cluster", &row->cluster},
	    {"band", &row->band},
	    {"prefetch", &row->prefetch},
	    {"policy", &row->weight_policy},
	};

	if (n_key == 6 && strncmp(key, "family", 6) == 0) {
		config->family = *value == 'S'   ? HM_FAMILY_STREAM
				 : *value == 'H' ? HM_FAMILY_WGMMA
						 : HM_FAMILY_MMA;
		return true;
	}
	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
		if (strlen(fields[i].key) != n_key ||
		    strncmp(fields[i].key, key, n_key) != 0)
			continue;
		*fields[i].field = (uint32_t)strtoul(value, NULL, 10);
		return true;
	}
	return false;
}

/* The plan's row for m with a "key=value,..." text applied. */
static bool
make_row(const struct bench *bench, uint32_t m, const char *text,
    struct hm_plan_row *row_out)
{
	struct hm_plan_row row = *hm_plan_find(&bench->plan, m);
	struct hm_config *config = &row.config;

	while (*text != '\0') {
		const char *equals = strchr(text, '=');
		const char *comma = strchr(text, ',');

		if (equals == NULL ||
		    !config_set(&row, text, (size_t)(equals - text),
			equals + 1)) {
			printf("# not a configuration: %s\n", text);
			return false;
		}
		text = comma != NULL ? comma + 1 : text + strlen(text);
	}
	if (config->family == HM_FAMILY_STREAM)
		config->threads = 32 * config->warps;
	else if (config->family == HM_FAMILY_WGMMA)
		config->threads = 384;
	else
		config->threads =
		    32 * config->warps_n * config->warps_m * config->warps_k;
	*row_out = row;
	return true;
}

/* ---- timing ---- */

static void
sleep_ms(uint32_t ms)
{
	struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&time, NULL);
}

static int
compare_floats(const void *a, const void *b)
{
	float x = 0, y = 0;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

struct timing {
	float us[BENCH_REPLAYS]; /* of one launch, ascending */
};

static uint32_t
count_launches(const struct bench *bench, uint32_t m)
{
	double work = 2.0 * m * bench->options.spec.n * bench->options.spec.k;

	return work < 2e10 ? 64 : work < 1e11 ? 40 : 20;
}

/* A captured graph of one kernel. NULL and a note when it cannot be. */
static void *
capture(struct bench *bench, struct run *run, uint32_t n_launches)
{
	struct problem *problem = &bench->problem;
	struct problem_pointers pointers = {0};
	int error = HM_OK;
	void *graph = NULL;

	pointers.d_a = problem->a.d_a;
	pointers.d_c =
	    problem->d_c + (size_t)PROBLEM_GUARD_ROWS * problem->spec.n;
	pointers.lda = problem->spec.k;
	pointers.ldc = problem->spec.n;
	ops_capture_begin(run->stream);
	for (uint32_t i = 0; i < n_launches && error == HM_OK; i++) {
		pointers.d_w = bench->d_copies[i % bench->n_copies];
		error = problem_launch(problem, run, &pointers);
	}
	graph = ops_capture_end(run->stream);
	if (error == HM_OK)
		return graph;
	printf("# M=%u: no launch: %s\n", run->m, hm_gemm_errbuf()->text);
	ops_graph_free(graph);
	return NULL;
}

/* Replay n graphs in turn. */
static void
replay(const struct bench *bench, void *const *graphs, size_t n,
    uint32_t n_launches, struct timing *timings)
{
	for (uint32_t i = 0; i < BENCH_WARM_UP + BENCH_REPLAYS; i++) {
		for (size_t j = 0; j < n; j++) {
			float ms = ops_graph_time(graphs[j],
			    bench->session.stream, "benchmark");

			if (i >= BENCH_WARM_UP)
				timings[j].us[i - BENCH_WARM_UP] =
				    1e3f * ms / (float)n_launches;
		}
	}
	for (size_t j = 0; j < n; j++)
		qsort(timings[j].us, BENCH_REPLAYS, sizeof(float),
		    compare_floats);
}

static float
median(const struct timing *timing)
{
	return timing->us[BENCH_REPLAYS / 2];
}

static float
time_cublas(struct bench *bench, uint32_t m)
{
	struct cublas_gemm gemm = {0};
	struct timing timing;
	uint32_t n_launches = count_launches(bench, m);
	void *graph = NULL;
	bool good = true;

	gemm.m = m;
	gemm.n = bench->options.spec.n;
	gemm.k = bench->options.spec.k;
	gemm.d_a = bench->problem.a.d_a;
	gemm.d_c = bench->problem.d_kept;
	ops_capture_begin(bench->session.stream);
	for (uint32_t i = 0; i < n_launches && good; i++) {
		gemm.d_w = bench->d_dense[i % bench->n_dense];
		good = cublas_enqueue(&gemm);
	}
	graph = ops_capture_end(bench->session.stream);
	if (good)
		replay(bench, &graph, 1, n_launches, &timing);
	ops_graph_free(graph);
	return good ? median(&timing) : 0;
}

static void
print_row(struct bench *bench, const struct run *run,
    const struct timing *timings, const struct ops_measure *measure)
{
	char text[128];
	float best = median(&timings[0]) < median(&timings[1])
			 ? median(&timings[0])
			 : median(&timings[1]);
	double work =
	    2.0 * run->m * bench->options.spec.n * bench->options.spec.k;
	float cublas = 0;

	if (bench->options.cublas)
		cublas = time_cublas(bench, run->m);
	kernels_describe(&run->kernel->config, text, sizeof text);
	printf("%6u %9.2f %9.2f %9.2f %8.0f %8.1f %9.2f  %.2e%s  %s ck=%u "
	       "pre=%u band=%u\n",
	    run->m, (double)median(&timings[1]), (double)median(&timings[0]),
	    (double)timings[0].us[0],
	    (double)bench->problem.packed_bytes / (double)best * 1e-3,
	    work / (double)best * 1e-6, (double)cublas, measure->whole,
	    measure->n_unwritten != 0 ||
		    measure->whole > problem_bound(&run->kernel->config)
		? " WRONG"
		: "",
	    text, run->row->cluster, run->row->prefetch, run->row->band);
}

/* timings[0] with PDL, [1] without. */
static bool
bench_one(struct bench *bench, uint32_t m, const char *text)
{
	struct hm_plan_row row;
	struct run run = {0};
	struct timing timings[2];
	struct ops_output output;
	struct ops_measure measure;
	uint32_t n_launches = count_launches(bench, m);
	void *graphs[2] = {NULL, NULL};
	char target[16];

	if (!make_row(bench, m, text, &row))
		return false;
	hm_target_print(&bench->session.target, target);
	run.driver = bench->session.driver;
	run.kernel = kernels_find(&row.config, target);
	run.row = &row;
	run.sms = bench->session.info.sms;
	run.m = m;
	run.stream = bench->session.stream;
	if (run.kernel == NULL || run.kernel->function == NULL) {
		printf("# M=%u: no kernel: %s\n", m,
		    run.kernel != NULL ? run.kernel->why : "?");
		return false;
	}
	if (problem_run(&bench->problem, &run, &output) != HM_OK) {
		printf("# M=%u: no launch: %s\n", m, hm_gemm_errbuf()->text);
		return false;
	}
	ops_wait(run.stream, "first run");
	for (int pdl = 1; pdl >= 0; pdl--) {
		run.pdl = pdl != 0;
		graphs[1 - pdl] = capture(bench, &run, n_launches);
		if (graphs[1 - pdl] == NULL)
			return false;
	}
	replay(bench, graphs, 2, n_launches, timings);
	ops_compare(&output, &bench->problem.reference, &measure, run.stream);
	print_row(bench, &run, timings, &measure);
	ops_graph_free(graphs[0]);
	ops_graph_free(graphs[1]);
	return measure.n_unwritten == 0 &&
	       measure.whole <= problem_bound(&run.kernel->config);
}

static void
make_copies(struct bench *bench)
{
	size_t n_bytes = bench->problem.packed_bytes;
	size_t dense_bytes =
	    (size_t)bench->options.spec.n * bench->options.spec.k * 2;

	bench->n_copies = (size_t)(BENCH_COLD_BYTES / (double)n_bytes) + 2;
	if (bench->n_copies > BENCH_MAX_COPIES)
		bench->n_copies = BENCH_MAX_COPIES;
	for (size_t i = 0; i < bench->n_copies; i++) {
		bench->d_copies[i] = ops_alloc(n_bytes);
		ops_copy(bench->d_copies[i], bench->problem.d_packed, n_bytes);
	}
	if (bench->options.cublas && !cublas_open(bench->session.stream)) {
		printf("# no cuBLAS\n");
		bench->options.cublas = false;
	}
	if (!bench->options.cublas)
		return;
	bench->n_dense = (size_t)(BENCH_COLD_BYTES / (double)dense_bytes) + 2;
	if (bench->n_dense > 8)
		bench->n_dense = 8;
	for (size_t i = 0; i < bench->n_dense; i++) {
		struct ops_activations dense = {0};

		dense.d_a = ops_alloc(dense_bytes);
		dense.m = bench->options.spec.n;
		dense.k = bench->options.spec.k;
		dense.ld = bench->options.spec.k;
		dense.seed = 5 + (uint32_t)i;
		ops_fill(&dense, bench->session.stream);
		bench->d_dense[i] = dense.d_a;
	}
}

static void
want_all(struct bench *bench)
{
	const struct options *options = &bench->options;
	struct hm_plan_row row;
	char target[16];

	hm_target_print(&bench->session.target, target);
	for (size_t i = 0; i < options->n_m * options->n_configs; i++)
		if (make_row(bench, options->m[i / options->n_configs],
			options->configs[i % options->n_configs], &row))
			kernels_want(&row.config, target);
}

static void
bench_all(struct bench *bench)
{
	const struct options *options = &bench->options;
	size_t n = options->n_m * options->n_configs;
	char name[64];
	bool good = true;

	session_describe(&options->spec, name, sizeof name);
	printf("# %s, %u ms pause, us of one launch\n"
	       "#    M    no PDL       PDL   PDL min     GB/s   TFLOPS    "
	       "cuBLAS  error     kernel\n",
	    name, options->pause_ms);
	for (size_t i = 0; i < n * options->passes; i++) {
		if (session_is_late(&bench->session)) {
			printf("# time limit\n");
			break;
		}
		if (options->pause_ms != 0)
			sleep_ms(options->pause_ms);
		if (!bench_one(bench, options->m[i % n / options->n_configs],
			options->configs[i % options->n_configs]))
			good = false;
	}
	session_result(&bench->session, good, "outputs after timing are right");
}

int
main(int argc, char **argv)
{
	static struct bench bench;

	if (!read_options(&bench.options, argc, argv)) {
		fprintf(stderr,
		    "gemm_bench: usage: gemm_bench [--shape NxK] [--m M,...] "
		    "[--act bf16|f16] [--group G] [--zero none|int|float] "
		    "[--config K=V,...] [--pause MS] [--passes P] [--cublas] "
		    "[--seconds S] [--compile-only]\n");
		return 2;
	}
	if (!session_open(&bench.session, bench.options.compile_only,
		bench.options.seconds))
		return 0;
	if (!session_plan(&bench.session, &bench.options.spec,
		&bench.session.target, &bench.plan)) {
		session_result(&bench.session, false, "a plan");
		session_end(&bench.session);
	}
	want_all(&bench);
	session_result(&bench.session,
	    kernels_build(bench.session.driver,
		bench.session.info.smem_bytes) == 0,
	    "every kernel compiles");
	if (!bench.options.compile_only) {
		problem_init(&bench.problem, &bench.options.spec,
		    bench.session.stream);
		make_copies(&bench);
		bench_all(&bench);
	}
	session_end(&bench.session);
}
