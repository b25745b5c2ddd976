/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_dense.c - how fast the dense GEMMs are on the GPU of this machine, beside
 * cuBLAS and cuBLASLt, and whether they are as fast as they must be.
 *
 *     bench_dense [--class NAME,...] [--shape NxK,...|square|real] [--m M,...]
 *                 [--config K=V,...]... [--pause MS] [--no-peers]
 *                 [--json FILE] [--seconds S] [--compile-only]
 *
 * Method (KERNELS.md 9): timing.h and layer.h. Replayed for each row: ours with
 * PDL; the library's GEMMs; ours without PDL; ours behind a plain kernel; that
 * kernel alone, whose time is taken off; the quantization of the activations. In
 * turn, after a pause; but where the floor is above 40 us and power decides, ours
 * with PDL, the library's and, if there is a requirement for it, ours without PDL
 * one after the other, each after a pause, then the rest in turn. Then ours with
 * PDL again and again, without a pause, for "hot". The output is compared with
 * the reference after the timing.
 *
 * --config replaces fields of the plan's row (config_text.h); "plan" is the
 * plan's own row. Rows of other configurations are not judged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gemm_error.h"
#include "config_text.h"
#include "cublas.h"
#include "dense_report.h"
#include "jit/spec.h"
#include "layer.h"
#include "plain.h"
#include "quant_run.h"
#include "session.h"
#include "shape_options.h"

#define BENCH_MAX_CONFIGS 32u
#define BENCH_PAUSE_MS    150u
/* Kernels whose floor is longer keep the tensor cores busy until power decides
 * about their clock. */
#define BENCH_POWER_US 40.0
/* "hot": longer where power decides. */
#define BENCH_HOT_MS       10.0
#define BENCH_HOT_LARGE_MS 80.0
#define BENCH_LARGE_M      256u
#define BENCH_NO_ERROR     1e30

struct options {
	struct shape_options shapes;
	const char *configs[BENCH_MAX_CONFIGS]; /* "" = the plan's own */
	size_t n_configs;
	uint32_t pause_ms;
	const char *json;
	bool no_peers;
};

/* One shape of one class while it is measured. */
struct bench {
	struct session session;
	struct options options;
	char target[16];
	const struct dense_class *class;
	struct hm_plan plan;
	struct hm_config quant_config;
	struct layer layer;
	/* For the library: activations, weights [copy], output; of random
	 * values of the peer's type. */
	void *d_peer_a[DENSE_MAX_PEERS];
	void *d_peer_w[DENSE_MAX_PEERS][8];
	size_t n_peer_w[DENSE_MAX_PEERS];
	void *d_peer_c;
	void *d_quant_x;
	struct dense_rows rows;
	bool good;
};

/* What is compared first; then what is stated beside it. */
enum {
	GRAPH_PDL,
	GRAPH_PEER,
	GRAPH_NO_PDL,
	GRAPH_PEER_2,
	GRAPH_BEHIND,
	GRAPH_ALONE,
	GRAPH_QUANT,
	N_GRAPHS
};
static const size_t peer_graphs[DENSE_MAX_PEERS] = {GRAPH_PEER, GRAPH_PEER_2};

/* ---- options ---- */

static bool
read_valued(struct options *options, const char *name, const char *value)
{
	if (strcmp(name, "--config") == 0 &&
	    options->n_configs < BENCH_MAX_CONFIGS)
		options->configs[options->n_configs++] =
		    strcmp(value, "plan") == 0 ? "" : value;
	else if (strcmp(name, "--pause") == 0)
		options->pause_ms = (uint32_t)strtoul(value, NULL, 10);
	else if (strcmp(name, "--json") == 0)
		options->json = value;
	else
		return false;
	return true;
}

static bool
read_options(struct options *options, int argc, char **argv)
{
	memset(options, 0, sizeof *options);
	shape_options_init(&options->shapes);
	options->pause_ms = BENCH_PAUSE_MS;
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		int used = shape_options_read(&options->shapes, argv[i], value);

		if (used < 0)
			return false;
		if (used > 0) {
			i += used - 1;
		} else if (strcmp(argv[i], "--no-peers") == 0) {
			options->no_peers = true;
		} else if (value != NULL &&
			   read_valued(options, argv[i], value)) {
			i++;
		} else {
			return false;
		}
	}
	shape_options_default(&options->shapes);
	if (options->n_configs == 0)
		options->configs[options->n_configs++] = "";
	return true;
}

/* The M of a shape of the options. */
static size_t
list_m(const struct options *options, const struct dense_shape *shape,
    const uint32_t **m_out)
{
	*m_out = options->shapes.m;
	if (options->shapes.n_m != 0)
		return options->shapes.n_m;
	return dense_m_list(
	    shape->n == dense_shapes[0].n && shape->k == dense_shapes[0].k ? 0
									   : 1,
	    m_out);
}

/* ---- graphs ---- */

static struct timed_graph
capture_peer(struct bench *bench, uint32_t peer, uint32_t m,
    uint32_t n_launches)
{
	struct timed_graph timed = {.n_launches = n_launches};
	struct cublas_gemm gemm = {.kind = bench->class->peers[peer],
	    .m = m,
	    .n = bench->layer.problem.spec.n,
	    .k = bench->layer.problem.spec.k,
	    .d_a = bench->d_peer_a[peer],
	    .d_c = bench->d_peer_c};
	bool good = true;

	if (bench->options.no_peers || peer >= bench->class->n_peers)
		return timed;
	/* The first call of a size may load code, which a capture forbids. */
	gemm.d_w = bench->d_peer_w[peer][0];
	if (!cublas_enqueue(&gemm))
		return timed;
	ops_wait(bench->session.stream, "the library's GEMM");
	ops_capture_begin(bench->session.stream);
	for (uint32_t i = 0; i < n_launches && good; i++) {
		gemm.d_w = bench->d_peer_w[peer][i % bench->n_peer_w[peer]];
		good = cublas_enqueue(&gemm);
	}
	timed.graph = ops_capture_end(bench->session.stream);
	if (!good)
		timing_free(&timed, 1);
	return timed;
}

static struct timed_graph
capture_quant(struct bench *bench, uint32_t m)
{
	struct timed_graph timed = {
	    .n_launches = timing_launches(20, TIMING_FULL)};
	struct quant_run run = {0};
	int error = HM_OK;

	if (!format_is_narrow(&bench->class->format))
		return timed;
	run.driver = bench->session.driver;
	run.kernel = kernels_find(&bench->quant_config, bench->target);
	run.sms = bench->session.info.sms;
	run.d_x = bench->d_quant_x;
	/* Not into the activations that are measured and compared. */
	run.q = &bench->layer.problem.a_padded;
	run.m = m;
	run.pdl = true;
	run.stream = bench->session.stream;
	if (run.kernel == NULL || run.kernel->function == NULL ||
	    quant_launch(&run) != HM_OK)
		return timed;
	ops_wait(run.stream, "quantization");
	ops_capture_begin(run.stream);
	for (uint32_t i = 0; i < timed.n_launches && error == HM_OK; i++)
		error = quant_launch(&run);
	timed.graph = ops_capture_end(run.stream);
	if (error != HM_OK)
		timing_free(&timed, 1);
	return timed;
}

static bool
capture_all(struct bench *bench, const struct run *run,
    struct timed_graph *graphs)
{
	uint32_t n =
	    timing_launches(layer_floor_us(&bench->layer, run->m), TIMING_FULL);
	static const struct {
		size_t graph;
		enum layer_mode mode;
	} ours[] = {{GRAPH_PDL, LAYER_PDL}, {GRAPH_NO_PDL, LAYER_NO_PDL},
	    {GRAPH_BEHIND, LAYER_BEHIND}, {GRAPH_ALONE, LAYER_ALONE}};

	memset(graphs, 0, N_GRAPHS * sizeof *graphs);
	for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
		struct timed_graph *graph = &graphs[ours[i].graph];

		*graph = layer_capture(&bench->layer, run, ours[i].mode, n);
		if (graph->graph == NULL)
			return false;
	}
	graphs[GRAPH_QUANT] = capture_quant(bench, run->m);
	for (uint32_t i = 0; i < DENSE_MAX_PEERS; i++)
		graphs[peer_graphs[i]] = capture_peer(bench, i, run->m, n);
	return true;
}

/* ---- rows ---- */

static bool
make_row(const struct bench *bench, uint32_t m, const char *text,
    struct hm_plan_row *row_out)
{
	*row_out = *hm_plan_find(&bench->plan, m);
	return config_text_apply(text, row_out);
}

/* Tiles of the launch: those of kernel H, or row groups of kernel S. */
static uint32_t
count_tiles(const struct hm_plan_row *row, uint32_t m, uint32_t n)
{
	const struct hm_config *config = &row->config;
	uint32_t rows =
	    config->family == HM_FAMILY_STREAM ? 64 : 128 * config->slices;

	if (config->family == HM_FAMILY_STREAM)
		return (n + rows - 1) / rows;
	return (n + rows - 1) / rows *
	       ((m + config->tile_tokens - 1) / config->tile_tokens);
}

static void
fill_row(const struct bench *bench, const struct run *run,
    const struct timed_graph *graphs, struct dense_row *row)
{
	const struct problem_spec *spec = &bench->layer.problem.spec;
	char kernel[96], launch[48];

	kernels_describe(&run->kernel->config, kernel, sizeof kernel);
	config_text_launch(run->row, launch, sizeof launch);
	snprintf(row->kernel, sizeof row->kernel, "%s %s", kernel, launch);
	row->class = bench->class;
	row->n = spec->n;
	row->k = spec->k;
	row->m = run->m;
	row->pdl = timing_median(&graphs[GRAPH_PDL]);
	row->no_pdl = timing_median(&graphs[GRAPH_NO_PDL]);
	row->behind = timing_median(&graphs[GRAPH_BEHIND]) -
		      timing_median(&graphs[GRAPH_ALONE]);
	row->quant = timing_median(&graphs[GRAPH_QUANT]);
	for (uint32_t i = 0; i < DENSE_MAX_PEERS; i++)
		row->peers[i] = timing_median(&graphs[peer_graphs[i]]);
	row->hot = timing_hot(&graphs[GRAPH_PDL],
	    run->m >= BENCH_LARGE_M ? BENCH_HOT_LARGE_MS : BENCH_HOT_MS,
	    run->stream);
	row->bytes = layer_bytes(&bench->layer, run->m);
	row->work = 2.0 * run->m * spec->n * spec->k;
	row->floor_us = layer_floor_us(&bench->layer, run->m);
	row->tiles = count_tiles(run->row, run->m, spec->n);
	row->sms = run->sms;
}

/* All in turn after a pause; or, where power decides, what a requirement is
 * about one after the other, each after a pause, then the rest. */
static void
replay_all(const struct bench *bench, const struct run *run,
    struct timed_graph *graphs)
{
	const struct problem_spec *spec = &bench->layer.problem.spec;
	const struct dense_goals goals =
	    dense_goals(bench->class->limit, spec->n, spec->k, run->m);
	size_t n_paused =
	    goals.must_no_pdl > 0 ? GRAPH_NO_PDL + 1 : GRAPH_PEER + 1;

	if (layer_floor_us(&bench->layer, run->m) < BENCH_POWER_US)
		n_paused = 0;
	/* The first is not to be hotter than the others by the row before. */
	timing_pause(bench->options.pause_ms);
	timing_replay_paused(graphs, n_paused, bench->options.pause_ms,
	    run->stream);
	timing_replay(graphs + n_paused, N_GRAPHS - n_paused, TIMING_FULL,
	    run->stream);
}

static bool
measure(struct bench *bench, const struct run *run, struct dense_row *row)
{
	struct timed_graph graphs[N_GRAPHS];
	struct ops_measure error;
	struct ops_output output;
	bool good = false;

	if (run->kernel == NULL || run->kernel->function == NULL) {
		printf("# M=%u: no kernel: %s\n", run->m,
		    run->kernel != NULL ? run->kernel->why : "?");
		return false;
	}
	if (problem_run(&bench->layer.problem, run, &output) != HM_OK) {
		printf("# M=%u: no launch: %s\n", run->m,
		    hm_gemm_errbuf()->text);
		return false;
	}
	ops_wait(run->stream, "first run");
	good = capture_all(bench, run, graphs);
	if (good) {
		replay_all(bench, run, graphs);
		fill_row(bench, run, graphs, row);
	} else {
		printf("# M=%u: no graph: %s\n", run->m,
		    hm_gemm_errbuf()->text);
	}
	timing_free(graphs, N_GRAPHS);
	if (!good)
		return false;
	ops_compare(&output, &bench->layer.problem.reference, &error,
	    run->stream);
	/* NaN is no number for JSON. */
	row->error =
	    error.whole < BENCH_NO_ERROR ? error.whole : BENCH_NO_ERROR;
	row->bound =
	    problem_bound(&bench->layer.problem.spec, &run->kernel->config);
	/* Few outputs scatter (check.c). */
	row->right = error.n_unwritten == 0 && error.n_outside == 0 &&
		     error.whole <= row->bound;
	dense_print_row(row);
	return row->right;
}

static void
bench_one(struct bench *bench, uint32_t m, const char *config)
{
	struct dense_row *row = &bench->rows.rows[bench->rows.n];
	struct hm_plan_row plan_row;
	struct run run = {0};

	memset(row, 0, sizeof *row);
	row->config = config;
	if (!make_row(bench, m, config, &plan_row)) {
		bench->good = false;
		return;
	}
	run.driver = bench->session.driver;
	run.kernel = kernels_find(&plan_row.config, bench->target);
	run.row = &plan_row;
	run.sms = bench->session.info.sms;
	run.m = m;
	run.stream = bench->session.stream;
	run.pdl = true;
	if (!measure(bench, &run, row))
		bench->good = false;
	if (row->class != NULL)
		bench->rows.n++;
}

/* ---- one class at one shape ---- */

static void *
random_matrix(uint32_t rows, uint32_t k, uint32_t type, uint32_t seed,
    void *stream)
{
	struct ops_activations matrix = {.m = rows,
	    .k = k,
	    .ld = k,
	    .type = type,
	    .seed = seed};

	matrix.d_a = ops_alloc((size_t)rows * k * (type < OPS_E4M3 ? 2 : 1));
	ops_fill(&matrix, stream);
	return matrix.d_a;
}

static uint32_t
peer_type(enum cublas_kind kind)
{
	return kind == CUBLAS_BF16 ? OPS_BF16
	       : kind == CUBLAS_S8 ? OPS_S8
				   : OPS_E4M3;
}

static void
peers_init(struct bench *bench)
{
	const struct problem_spec *spec = &bench->layer.problem.spec;
	size_t elements = (size_t)spec->n * spec->k;

	bench->d_peer_c = ops_alloc((size_t)spec->m_max * spec->n * 4);
	for (uint32_t i = 0;
	     i < bench->class->n_peers && !bench->options.no_peers; i++) {
		uint32_t type = peer_type(bench->class->peers[i]);
		double bytes = (double)elements * (type < OPS_E4M3 ? 2 : 1);

		bench->d_peer_a[i] = random_matrix(spec->m_max, spec->k, type,
		    3, bench->session.stream);
		bench->n_peer_w[i] = (size_t)(LAYER_COLD_BYTES / bytes) + 2;
		if (bench->n_peer_w[i] > 8)
			bench->n_peer_w[i] = 8;
		for (size_t j = 0; j < bench->n_peer_w[i]; j++)
			bench->d_peer_w[i][j] = random_matrix(spec->n, spec->k,
			    type, 5 + (uint32_t)j, bench->session.stream);
	}
}

static void
peers_done(struct bench *bench)
{
	ops_free(bench->d_peer_c);
	for (uint32_t i = 0;
	     i < bench->class->n_peers && !bench->options.no_peers; i++) {
		ops_free(bench->d_peer_a[i]);
		for (size_t j = 0; j < bench->n_peer_w[i]; j++)
			ops_free(bench->d_peer_w[i][j]);
	}
}

static struct problem_spec
make_spec(const struct options *options, const struct dense_class *class,
    const struct dense_shape *shape)
{
	struct problem_spec spec = {.n = shape->n,
	    .k = shape->k,
	    .format = class->format};
	const uint32_t *m = NULL;
	size_t n = list_m(options, shape, &m);

	for (size_t i = 0; i < n; i++)
		spec.m_max = m[i] > spec.m_max ? m[i] : spec.m_max;
	return spec;
}

static void
bench_shape(struct bench *bench, const struct dense_class *class,
    const struct dense_shape *shape)
{
	const struct options *options = &bench->options;
	const struct problem_spec spec = make_spec(options, class, shape);
	void *stream = bench->session.stream;
	const uint32_t *m = NULL;
	size_t n = list_m(options, shape, &m);

	bench->class = class;
	if (!session_plan(&bench->session, &spec, &bench->session.target,
		&bench->plan)) {
		bench->good = false;
		return;
	}
	if (format_is_narrow(&class->format))
		(void)quant_config(&bench->session, &class->format,
		    &bench->quant_config);
	layer_init(&bench->layer, &spec, stream);
	peers_init(bench);
	bench->d_quant_x =
	    format_is_narrow(&class->format)
		? random_matrix(spec.m_max, spec.k, OPS_BF16, 9, stream)
		: NULL;
	dense_print_head(class, shape->n, shape->k);
	for (size_t i = 0; i < n * options->n_configs; i++) {
		if (session_is_late(&bench->session)) {
			printf("# time limit\n");
			bench->good = false;
			break;
		}
		bench_one(bench, m[i / options->n_configs],
		    options->configs[i % options->n_configs]);
	}
	if (bench->d_quant_x != NULL)
		ops_free(bench->d_quant_x);
	peers_done(bench);
	layer_done(&bench->layer);
}

/* Every kernel of every row; room for the rows. */
static void
want_shape(struct bench *bench, const struct dense_class *class,
    const struct dense_shape *shape)
{
	const struct options *options = &bench->options;
	const struct problem_spec spec = make_spec(options, class, shape);
	struct hm_plan_row row;
	const uint32_t *m = NULL;
	size_t n = list_m(options, shape, &m);

	bench->rows.n += n * options->n_configs;
	if (format_is_narrow(&class->format) &&
	    quant_config(&bench->session, &class->format, &bench->quant_config))
		kernels_want(&bench->quant_config, bench->target);
	if (!session_plan(&bench->session, &spec, &bench->session.target,
		&bench->plan))
		return;
	for (size_t i = 0; i < n * options->n_configs; i++)
		if (make_row(bench, m[i / options->n_configs],
			options->configs[i % options->n_configs], &row))
			kernels_want(&row.config, bench->target);
}

static void
for_all(struct bench *bench,
    void (*function)(struct bench *bench, const struct dense_class *class,
	const struct dense_shape *shape))
{
	const struct shape_options *options = &bench->options.shapes;

	for (size_t i = 0; i < options->n_classes; i++)
		for (size_t j = 0; j < options->n_shapes; j++)
			function(bench, options->classes[i],
			    &options->shapes[j]);
}

static void
bench_all(struct bench *bench)
{
	uint32_t n = 0, n_missed = 0;
	char text[96];

	if (!bench->options.no_peers && !cublas_open(bench->session.stream)) {
		printf("# no cuBLAS and cuBLASLt: ours alone\n");
		bench->options.no_peers = true;
	}
	bench->good = true;
	for_all(bench, bench_shape);
	n_missed = dense_print_summary(&bench->rows, &n);
	if (bench->options.json != NULL &&
	    !dense_write_json(&bench->rows, bench->options.json)) {
		printf("# cannot write %s\n", bench->options.json);
		bench->good = false;
	}
	snprintf(text, sizeof text, "%zu rows, outputs after timing are right",
	    bench->rows.n);
	session_result(&bench->session, bench->good, text);
	printf("# %u of %u requirements met\n", n - n_missed, n);
}

int
main(int argc, char **argv)
{
	static struct bench bench;

	if (!read_options(&bench.options, argc, argv)) {
		fprintf(stderr,
		    "bench_dense: usage: bench_dense [--class NAME,...] "
		    "[--shape NxK,...|square|real] [--m M,...] "
		    "[--config K=V,...|plan]... [--pause MS] [--no-peers] "
		    "[--json FILE] [--seconds S] [--compile-only]\n"
		    "  keys: " CONFIG_TEXT_KEYS "\n");
		return 2;
	}
	if (!session_open(&bench.session, bench.options.shapes.compile_only,
		bench.options.shapes.seconds))
		return 0;
	hm_target_print(&bench.session.target, bench.target);
	for_all(&bench, want_shape);
	bench.rows.rows = plain_alloc(bench.rows.n, sizeof *bench.rows.rows);
	bench.rows.n = 0;
	session_result(&bench.session,
	    kernels_build(bench.session.driver,
		bench.session.info.smem_bytes) == 0,
	    "every kernel compiles");
	if (!bench.options.shapes.compile_only)
		bench_all(&bench);
	session_end(&bench.session);
}
