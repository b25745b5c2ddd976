/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune.c - does the plan choose well, and what would be better?
 *
 *     tune [--class NAME,...] [--shape NxK,...|square|real] [--m M,...]
 *          [--rows FILE] [--times FILE] [--seconds S] [--compile-only]
 *     tune --choice [--seed S] [--shapes COUNT] [--class NAME,...] [--m M,...]
 *
 * The first form times all candidates (candidates.h) of layers and prints, where
 * one is more than 3 % faster than the plan's choice, rows as they stand in
 * jit/tune_sm90a_rows.c, --rows into a file. Classes that share a line of that
 * table are weighed alike: the candidate with the least mean of time over best
 * time wins. --times writes every time, for refitting the model.
 *
 * --choice draws shapes at random from a printed seed, none of which is in the
 * tables, and fails where the plan's choice takes more than 1.1 times the best
 * candidate's time. A choice that seems to is timed again beside the best.
 * Without --class the classes take turns, one a shape.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "candidates.h"
#include "config_text.h"
#include "dense_class.h"
#include "jit/spec.h"
#include "plain.h"
#include "shape_options.h"

#define TUNE_GAIN   1.03 /* worth a row */
#define CHOICE_MOST 1.10f
#define CHOICE_MANY 20u
#define TUNE_PAUSE  10u /* ms */
/* Candidates up to so many percent of the best modelled time: a choice is held
 * against more of them than a table needs. */
#define TUNE_PERCENT   160u
#define CHOICE_PERCENT 300u

static const uint32_t tune_m[] = {1, 4, 8, 16, 32, 64, 128, 256, 512, 1024,
    2048, 4096, 8192};
static const uint32_t choice_m[] = {1, 4, 16, 64, 200, 512, 1024, 4096};

/* One class at one shape. */
struct job {
	const struct dense_class *class;
	uint32_t n, k;
};

/* What a line of the table would be about: all classes of the key at one M. */
struct merged {
	uint32_t class, bits, n, k, m;
	struct candidate items[CANDIDATES_MAX]; /* us: sum of time / best */
	uint32_t n_times[CANDIDATES_MAX];
	size_t n_items;
	uint32_t n_classes;
	float chosen;  /* sum of the plan's time / best */
	float best_us; /* of the last class */
};

struct tune {
	struct session session;
	struct shape_options options;
	bool choice;
	uint32_t percent; /* of the best modelled time, for candidates */
	uint32_t seed, n_random;
	const char *rows_path, *times_path;
	FILE *times;
	char target[16];
	struct job *jobs;
	size_t n_jobs;
	struct merged *merged;
	size_t n_merged;
	uint32_t n_choices, n_good;
	float worst;
	double sum;
};

/* ---- options ---- */

static bool
read_options(struct tune *tune, int argc, char **argv)
{
	shape_options_init(&tune->options);
	tune->n_random = CHOICE_MANY;
	tune->seed = (uint32_t)time(NULL);
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		int used = shape_options_read(&tune->options, argv[i], value);

		if (used < 0)
			return false;
		if (used > 0) {
			i += used - 1;
			continue;
		}
		if (strcmp(argv[i], "--choice") == 0) {
			tune->choice = true;
			continue;
		}
		if (value == NULL)
			return false;
		if (strcmp(argv[i], "--seed") == 0)
			tune->seed = (uint32_t)strtoul(value, NULL, 10);
		else if (strcmp(argv[i], "--shapes") == 0)
			tune->n_random = (uint32_t)strtoul(value, NULL, 10);
		else if (strcmp(argv[i], "--rows") == 0)
			tune->rows_path = value;
		else if (strcmp(argv[i], "--times") == 0)
			tune->times_path = value;
		else
			return false;
		i++;
	}
	tune->percent = tune->choice ? CHOICE_PERCENT : TUNE_PERCENT;
	return tune->n_random > 0;
}

/* ---- what to measure ---- */

static uint32_t
draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* Uniform on a logarithmic scale, a multiple of `step`. */
static uint32_t
draw_size(uint64_t *state, double least, double most, uint32_t step)
{
	double part = draw(state) % 65536 / 65536.0;
	double size = least * pow(most / least, part);

	return (uint32_t)(size / step) * step;
}

static bool
is_in_tables(uint32_t n, uint32_t k)
{
	for (size_t i = 0; i < hm_tune_n_rows; i++)
		if (hm_tune_rows[i].n == n && hm_tune_rows[i].k == k)
			return true;
	for (size_t i = 0; i < dense_n_shapes; i++)
		if (dense_shapes[i].n == n && dense_shapes[i].k == k)
			return true;
	return false;
}

static void
add_job(struct tune *tune, const struct dense_class *class, uint32_t n,
    uint32_t k)
{
	tune->jobs[tune->n_jobs++] = (struct job){class, n, k};
}

/* Random shapes: every class that was named, or one each in turn. */
static void
make_random_jobs(struct tune *tune)
{
	const struct shape_options *options = &tune->options;
	uint64_t state = tune->seed;

	(void)draw(&state);
	for (uint32_t i = 0; i < tune->n_random;) {
		uint32_t n = draw_size(&state, 768, 32768, 64);
		uint32_t k = draw_size(&state, 768, 20480, 128);

		if (is_in_tables(n, k))
			continue;
		if (!options->any_class)
			add_job(tune, options->classes[i % options->n_classes],
			    n, k);
		for (size_t j = 0; options->any_class && j < options->n_classes;
		     j++)
			add_job(tune, options->classes[j], n, k);
		i++;
	}
}

static void
make_jobs(struct tune *tune)
{
	const struct shape_options *options = &tune->options;
	size_t n = tune->choice ? tune->n_random : options->n_shapes;

	tune->jobs = plain_alloc(n * options->n_classes, sizeof *tune->jobs);
	if (tune->choice) {
		make_random_jobs(tune);
		return;
	}
	for (size_t j = 0; j < options->n_shapes; j++)
		for (size_t i = 0; i < options->n_classes; i++)
			add_job(tune, options->classes[i], options->shapes[j].n,
			    options->shapes[j].k);
}

static size_t
list_m(const struct tune *tune, const uint32_t **m_out)
{
	if (tune->options.n_m != 0) {
		*m_out = tune->options.m;
		return tune->options.n_m;
	}
	*m_out = tune->choice ? choice_m : tune_m;
	return tune->choice ? sizeof choice_m / sizeof choice_m[0]
			    : sizeof tune_m / sizeof tune_m[0];
}

/* ---- one M of one job ---- */

static void
describe(const struct candidate *item, char *text, size_t size)
{
	char kernel[96], launch[48];

	kernels_describe(&item->row.config, kernel, sizeof kernel);
	config_text_launch(&item->row, launch, sizeof launch);
	snprintf(text, size, "%s %s", kernel, launch);
}

static void
write_times(const struct tune *tune, const struct job *job, uint32_t m,
    const struct candidates *candidates)
{
	char text[160];

	for (size_t i = 0; tune->times != NULL && i < candidates->n; i++) {
		describe(&candidates->items[i], text, sizeof text);
		fprintf(tune->times, "%s %u %u %u %.2f%s %s\n",
		    job->class->name, job->n, job->k, m,
		    (double)candidates->items[i].us,
		    i == candidates->chosen ? " chosen" : "", text);
	}
}

static void
merge(struct tune *tune, const struct hm_plan_problem *problem, uint32_t m,
    const struct candidates *candidates, size_t best)
{
	struct merged key = {.class = hm_plan_class(&problem->format),
	    .bits = format_n_codes(problem->format.weight) == 16 ? 4 : 8,
	    .n = problem->n,
	    .k = problem->k,
	    .m = m};
	float least = candidates->items[best].us;
	struct merged *to = NULL;

	for (size_t i = 0; i < tune->n_merged && to == NULL; i++)
		if (tune->merged[i].class == key.class &&
		    tune->merged[i].bits == key.bits &&
		    tune->merged[i].n == key.n && tune->merged[i].k == key.k &&
		    tune->merged[i].m == key.m)
			to = &tune->merged[i];
	if (to == NULL) {
		to = &tune->merged[tune->n_merged++];
		*to = key;
	}
	to->n_classes++;
	to->best_us = least;
	to->chosen += candidates->items[candidates->chosen].us / least;
	for (size_t i = 0; i < candidates->n; i++) {
		const struct candidate *item = &candidates->items[i];
		size_t at = 0;

		if (item->us <= 0 || item->name.cluster == 0)
			continue;
		while (at < to->n_items &&
		       (to->items[at].name.member != item->name.member ||
			   to->items[at].name.cluster != item->name.cluster ||
			   to->items[at].name.share != item->name.share))
			at++;
		if (at == CANDIDATES_MAX)
			continue;
		if (at == to->n_items) {
			to->items[at] = *item;
			to->items[at].us = 0;
			to->n_items++;
		}
		to->items[at].us += item->us / least;
		to->n_times[at]++;
	}
}

/* Judge one choice; print it. */
static bool
judge(struct tune *tune, uint32_t m, const struct candidates *candidates,
    size_t best)
{
	const struct candidate *chosen = &candidates->items[candidates->chosen];
	float ratio = chosen->us / candidates->items[best].us;
	char text[160], better[160] = "";

	describe(chosen, text, sizeof text);
	if (candidates->chosen != best) {
		better[0] = '|';
		better[1] = ' ';
		describe(&candidates->items[best], better + 2,
		    sizeof better - 2);
	}
	printf("%6u %9.2f %9.2f %6.3f %3zu  %s %s\n", m, (double)chosen->us,
	    (double)candidates->items[best].us, (double)ratio, candidates->n,
	    text, better);
	tune->n_choices++;
	tune->n_good += ratio <= CHOICE_MOST;
	tune->sum += (double)ratio;
	tune->worst = ratio > tune->worst ? ratio : tune->worst;
	return ratio <= CHOICE_MOST;
}

static bool
run_m(struct tune *tune, const struct job *job, struct layer *layer,
    const struct hm_plan_problem *problem, const struct hm_plan *plan,
    uint32_t m)
{
	struct candidates candidates;
	size_t best = 0;

	candidates_list(problem, plan, m, tune->percent, &candidates);
	timing_pause(TUNE_PAUSE);
	candidates_time(&tune->session, layer, m, &candidates);
	best = candidates_best(&candidates);
	if (best == candidates.n ||
	    candidates.items[candidates.chosen].us <= 0) {
		printf("# M=%u: the plan's choice was not launched\n", m);
		return false;
	}
	if (candidates.items[candidates.chosen].us >
	    CHOICE_MOST * candidates.items[best].us) {
		candidates_confirm(&tune->session, layer, m, &candidates);
		best = candidates_best(&candidates);
	}
	write_times(tune, job, m, &candidates);
	merge(tune, problem, m, &candidates, best);
	return judge(tune, m, &candidates, best);
}

static void
run_job(struct tune *tune, const struct job *job)
{
	struct problem_spec spec = {.n = job->n,
	    .k = job->k,
	    .format = job->class->format,
	    .unchecked = true};
	struct hm_plan_problem problem;
	struct hm_plan plan;
	struct layer *layer = plain_alloc(1, sizeof *layer);
	const uint32_t *m = NULL;
	size_t n = list_m(tune, &m);
	char name[96];
	bool good = true;

	for (size_t i = 0; i < n; i++)
		spec.m_max = m[i] > spec.m_max ? m[i] : spec.m_max;
	snprintf(name, sizeof name, "%s %ux%u: within 10 %% of the best",
	    job->class->name, job->n, job->k);
	if (!candidates_problem(&tune->session, &spec, &problem) ||
	    !session_plan(&tune->session, &spec, &tune->session.target,
		&plan)) {
		session_result(&tune->session, false, name);
		free(layer);
		return;
	}
	layer_init(layer, &spec, tune->session.stream);
	printf("# %s %ux%u\n#    M    chosen      best  ratio of\n",
	    job->class->name, job->n, job->k);
	for (size_t i = 0; i < n && !session_is_late(&tune->session); i++)
		if (!run_m(tune, job, layer, &problem, &plan, m[i]))
			good = false;
	layer_done(layer);
	free(layer);
	/* Without --choice a slower choice is what is looked for. */
	if (tune->choice)
		session_result(&tune->session, good, name);
}

static void
want_job(struct tune *tune, const struct job *job)
{
	struct problem_spec spec = {.n = job->n,
	    .k = job->k,
	    .format = job->class->format};
	struct hm_plan_problem problem;
	struct candidates candidates;
	struct hm_plan plan;
	const uint32_t *m = NULL;
	size_t n = list_m(tune, &m);

	if (!candidates_problem(&tune->session, &spec, &problem) ||
	    !session_plan(&tune->session, &spec, &tune->session.target, &plan))
		return;
	for (size_t i = 0; i < n; i++) {
		candidates_list(&problem, &plan, m[i], tune->percent,
		    &candidates);
		for (size_t j = 0; j < candidates.n; j++)
			kernels_want(&candidates.items[j].row.config,
			    tune->target);
	}
}

/* ---- rows ---- */

static int
compare_merged(const void *left, const void *right)
{
	const struct merged *a = left, *b = right;
	const uint32_t x[] = {a->class, a->bits, a->n, a->k, a->m};
	const uint32_t y[] = {b->class, b->bits, b->n, b->k, b->m};

	for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}

/* The candidate of least mean; every class must have timed it. */
static const struct candidate *
merged_best(const struct merged *merged)
{
	const struct candidate *best = NULL;

	for (size_t i = 0; i < merged->n_items; i++)
		if (merged->n_times[i] >= merged->n_classes &&
		    (best == NULL || merged->items[i].us < best->us))
			best = &merged->items[i];
	return best;
}

static void
print_member(FILE *stream, uint32_t member)
{
	static const char *const names[] = {"DEEP", "WIDE", "PLAIN", "SETS"};

	if (HM_TUNE_IS_S(member))
		fprintf(stream, "HM_TUNE_S(HM_TUNE_STREAM_%s)",
		    names[member & 3]);
	else
		fprintf(stream, "HM_TUNE_H(%u, %u, %u)", member & 0xffff,
		    member >> 16 & 0xff, member >> 24 & 0x7f);
}

/* One row; the range begins behind the sample before it. */
static void
print_row(FILE *stream, const struct merged *merged, uint32_t m_lo,
    const struct candidate *best)
{
	static const char *const classes[] = {"WIDE", "ONE_LEVEL", "TWO_LEVEL"};
	double n = merged->n_classes;

	fprintf(stream, "    {HM_TUNE_%s, %u, %u, %u, %u, %u, ",
	    classes[merged->class % 3], merged->bits, merged->n, merged->k,
	    m_lo, merged->m);
	print_member(stream, best->name.member);
	fprintf(stream, ", %u, %u}, /* %.1f us, the model's %.1f */\n",
	    best->name.cluster, best->name.share,
	    (double)merged->best_us * (double)best->us / n,
	    (double)(merged->best_us * merged->chosen) / n);
}

static void
print_rows(struct tune *tune)
{
	FILE *file =
	    tune->rows_path != NULL ? fopen(tune->rows_path, "w") : NULL;
	uint32_t n = 0;

	qsort(tune->merged, tune->n_merged, sizeof *tune->merged,
	    compare_merged);
	for (size_t i = 0; i < tune->n_merged; i++) {
		const struct merged *merged = &tune->merged[i];
		const struct merged *before = i > 0 ? merged - 1 : NULL;
		const struct candidate *best = merged_best(merged);
		uint32_t m_lo = 1;

		if (before != NULL && before->class == merged->class &&
		    before->bits == merged->bits && before->n == merged->n &&
		    before->k == merged->k)
			m_lo = before->m + 1;
		if (best == NULL ||
		    (double)merged->chosen < TUNE_GAIN * (double)best->us)
			continue;
		n++;
		print_row(stdout, merged, m_lo, best);
		if (file != NULL)
			print_row(file, merged, m_lo, best);
	}
	if (tune->rows_path != NULL && (file == NULL || fclose(file) != 0))
		printf("# cannot write %s\n", tune->rows_path);
	printf("# %u rows of %zu sizes gain more than 3 %%\n", n,
	    tune->n_merged);
}

static void
run_all(struct tune *tune)
{
	const uint32_t *m = NULL;

	tune->merged =
	    plain_alloc(tune->n_jobs * list_m(tune, &m), sizeof *tune->merged);
	if (tune->times_path != NULL)
		tune->times = fopen(tune->times_path, "w");
	if (tune->times_path != NULL && tune->times == NULL)
		printf("# cannot write %s\n", tune->times_path);
	for (size_t i = 0; i < tune->n_jobs; i++) {
		if (session_is_late(&tune->session)) {
			session_result(&tune->session, false, "time limit");
			break;
		}
		run_job(tune, &tune->jobs[i]);
	}
	if (tune->times != NULL)
		(void)fclose(tune->times);
	if (!tune->choice)
		print_rows(tune);
	printf("# %u of %u choices within 10 %% of the best candidate, mean "
	       "%.3f, worst %.3f\n",
	    tune->n_good, tune->n_choices,
	    tune->n_choices > 0 ? tune->sum / tune->n_choices : 0,
	    (double)tune->worst);
}

int
main(int argc, char **argv)
{
	static struct tune tune;

	if (!read_options(&tune, argc, argv)) {
		fprintf(stderr,
		    "tune: usage: tune [--class NAME,...] "
		    "[--shape NxK,...|square|real] [--m M,...] [--rows FILE] "
		    "[--times FILE] [--seconds S] [--compile-only]\n"
		    "       tune --choice [--seed S] [--shapes COUNT] "
		    "[--class NAME,...] [--m M,...] [--seconds S]\n");
		return 2;
	}
	shape_options_default(&tune.options);
	if (!session_open(&tune.session, tune.options.compile_only,
		tune.options.seconds))
		return 0;
	hm_target_print(&tune.session.target, tune.target);
	if (tune.choice)
		printf("# seed %u\n", tune.seed);
	make_jobs(&tune);
	for (size_t i = 0; i < tune.n_jobs; i++)
		want_job(&tune, &tune.jobs[i]);
	session_result(&tune.session,
	    kernels_build(tune.session.driver, tune.session.info.smem_bytes) ==
		0,
	    "every kernel compiles");
	if (!tune.options.compile_only)
		run_all(&tune);
	session_end(&tune.session);
}
