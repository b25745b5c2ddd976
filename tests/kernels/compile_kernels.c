/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_kernels.c - kernels of every format that a plan can lead to build
 * clean for every target that is claimed: all members of the main formats. No
 * GPU is needed.
 *
 * What is built is jit/plan_list's own list, how it is built and by which NVRTC
 * is what the worker does: jit/job's text and jit/toolchain. sm_90a and sm_80
 * are walked whole, the others with bf16 and groups of 128: they get kernel G,
 * as sm_80 does. Without an NVRTC the test fails, as tests/run.sh has installed
 * one.
 *
 * The gate of KERNELS.md 9, per kernel: it compiles; the log holds no C75xx but
 * C7519; no byte is spilled; the cubin is for the target, holds the entry
 * (hm_elf_check) and is within its size. Seconds and registers are printed, not
 * judged: the machine may be busy.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "jit/config.h"
#include "jit/emit.h"
#include "jit/job.h"
#include "jit/plan.h"
#include "jit/report.h"
#include "jit/source.h"
#include "jit/spec.h"
#include "jit/toolchain_nvrtc.h"
#include "jit/tune.h"
#include "proto/codec.h"
#include "proto/error.h"

#define N_THREADS       2
#define MAX_CONFIGS     1024
#define MAX_ITEMS       4096
#define MAX_HEADERS     (HM_SOURCE_MAX_CLOSURE + 2)
#define MAX_IMAGE_BYTES (1u << 20)
#define MAX_NAME        192

/* One kernel for one target. */
struct item {
	struct hm_target target;
	struct hm_config config;
};

/* What came out of one build; log is owned. */
struct build {
	int error;
	struct hm_errbuf why;
	struct hm_report report;
	char *log;
	void *image; /* borrowed: MAX_IMAGE_BYTES of the thread's */
	size_t n_image;
	double seconds;
};

/* What the threads share; everything from `next` on under the mutex. */
static struct {
	struct item items[MAX_ITEMS];
	size_t n_items;
	pthread_mutex_t mutex;
	size_t next;
	int n_tests, n_failed;
	bool broken; /* a thread could not begin */
} run = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- one build ---- */

/* The entry's closure and the generated headers, as the worker gives them. */
static int
program_fill(const struct hm_job *job, struct hm_toolchain_program *program,
    const char **names, const char **texts)
{
	const struct hm_source *files[HM_SOURCE_MAX_CLOSURE];
	size_t n_files = 0, n = 0;
	int error;

	error = hm_source_closure(job->source_name, files, &n_files);
	if (error != HM_OK)
		return error;
	for (size_t i = 0; i < n_files; i++) {
		if (strcmp(files[i]->name, job->source_name) == 0) {
			program->source = files[i]->text;
			continue;
		}
		names[n] = files[i]->name;
		texts[n++] = files[i]->text;
	}
	if (job->config != NULL) {
		names[n] = HM_EMIT_CONFIG_NAME;
		texts[n++] = job->config;
	}
	if (job->shape != NULL) {
		names[n] = HM_EMIT_WGMMA_NAME;
		texts[n++] = job->shape;
	}
	program->name = job->source_name;
	program->n_headers = n;
	program->header_names = names;
	program->header_texts = texts;
	return HM_OK;
}

static int
build_compile(struct build *build, struct hm_toolchain *toolchain,
    const struct hm_job *job)
{
	const char *names[MAX_HEADERS], *texts[MAX_HEADERS];
	const char *options[HM_MAX_OPTIONS];
	struct hm_toolchain_program program = {.options = options};
	struct hm_toolchain_output output = {.image = build->image,
	    .size = MAX_IMAGE_BYTES};
	int error;

	error = program_fill(job, &program, names, texts);
	if (error != HM_OK)
		return error;
	for (size_t i = 0; i < job->n_options; i++)
		options[program.n_options++] = job->options[i];
	error = hm_toolchain_compile(toolchain, &program, &output, &build->why);
	build->log = output.log;
	build->n_image = output.n_image;
	build->seconds = output.compile_us * 1e-6;
	if (error == HM_OK && build->log != NULL)
		(void)hm_report_parse(build->log, job->entry, &build->report);
	return error;
}

static void
build_run(struct build *build, struct hm_toolchain *toolchain,
    const struct item *item)
{
	struct hm_job job;

	build->error = hm_job_own(&item->config, &item->target, &job);
	if (build->error != HM_OK)
		return;
	build->error = build_compile(build, toolchain, &job);
	hm_job_done(&job);
}

/* ---- the gate ---- */

/* 32 KB, and 48 for the widest tiles (DESIGN.md 9). */
static size_t
size_limit(const struct hm_config *config)
{
	bool wide = config->tile_tokens > 128 || config->slices == 2 ||
		    config->token_tiles == 2 ||
		    (config->tile_tokens == 128 && config->promote != 0);

	return (wide ? 48u : 32u) * 1024u;
}

/* The first rule that a build breaks, or NULL; details in build->why. */
static const char *
gate(struct build *build, const struct item *item)
{
	const char *entry = hm_emit_entry(&item->config);

	if (build->error != HM_OK)
		return "does not compile";
	if (build->log == NULL || build->report.registers == 0)
		return "its log does not tell its registers";
	if (build->report.spill_bytes != 0)
		return "spills registers";
	if (build->report.warning[0] != '\0')
		return "wgmma pipeline is serialized (C75xx)";
	if (hm_elf_check(build->image, build->n_image, &item->target, entry,
		&build->why) != HM_OK)
		return "is not the ELF that was asked for";
	if (build->n_image > size_limit(&item->config))
		return "is too large";
	return NULL;
}

/* "e4m3 x u4 to bf16 f32 g128 act 1 promote 128", "bf16 to s8 by token". */
static int
describe_format(char *text, size_t size, const struct hm_config *config)
{
	static const char *const acts[] = {"bf16", "f16", "e4m3", "e5m2", "s8"};
	static const char *const weights[] = {"u4", "u8", "e2m1", "e4m3"};
	static const char *const scales[] = {"channel", "bf16", "f16", "f32",
	    "e8m0", "mx"};
	static const char *const zeros[] = {"", " zp int", " zp float"};

	if (config->family == HM_FAMILY_QUANT)
		return snprintf(text, size, " %s to %s by %s%s",
		    acts[config->out], acts[config->act],
		    config->act_scale == HM_CONFIG_ACT_SCALE_TOKEN ? "token"
								   : "group",
		    config->epi != 0 ? " silu" : "");
	return snprintf(text, size, " %s x %s to %s %s g%u%s act %u promote %u",
	    acts[config->act], weights[config->weight], acts[config->out],
	    scales[config->scale], config->group, zeros[config->zero],
	    config->act_scale, config->promote);
}

/* What kernels of one format differ by. */
static int
describe_member(char *text, size_t size, const struct hm_config *config)
{
	switch ((enum hm_family)config->family) {
	case HM_FAMILY_STREAM:
		return snprintf(text, size, " tiles %u ring %u warps %u/%u",
		    config->token_tiles, config->ring, config->warps,
		    config->warps_k);
	case HM_FAMILY_WGMMA:
		return snprintf(text, size,
		    " %ux%u threads %u stages %u halves %u steps %u%s",
		    128 * config->slices, config->tile_tokens, config->threads,
		    config->stages, config->halves, config->steps,
		    config->split_k ? " split" : "");
	case HM_FAMILY_MMA:
		return snprintf(text, size, " %ux%u stages %u warps %ux%ux%u",
		    config->tile_rows, config->tile_tokens, config->stages,
		    config->warps_n, config->warps_m, config->warps_k);
	case HM_FAMILY_PACK:
	case HM_FAMILY_QUANT:
		break;
	}
	return 0;
}

static void
describe(char *text, size_t size, const struct item *item)
{
	char arch[16];
	size_t at;

	hm_target_print(&item->target, arch);
	(void)snprintf(text, size, "%s: %s", arch,
	    hm_emit_entry(&item->config));
	at = strlen(text);
	(void)describe_format(text + at, size - at, &item->config);
	at = strlen(text);
	(void)describe_member(text + at, size - at, &item->config);
}

static void
report(struct build *build, const struct item *item)
{
	char text[MAX_NAME];
	const char *broken = gate(build, item);

	describe(text, sizeof(text), item);
	(void)pthread_mutex_lock(&run.mutex);
	run.n_tests++;
	if (broken != NULL)
		run.n_failed++;
	printf("%sok %d - %s: %s%s%.2f s, %zu bytes, %u registers\n",
	    broken != NULL ? "not " : "", run.n_tests, text,
	    broken != NULL ? broken : "", broken != NULL ? "; " : "",
	    build->seconds, build->n_image, build->report.registers);
	if (broken != NULL)
		fprintf(stderr, "# %s: %s: %s\n%s\n", text, broken,
		    build->why.text, build->log != NULL ? build->log : "");
	(void)pthread_mutex_unlock(&run.mutex);
}

/* ---- the threads ---- */

static const struct item *
run_take(void)
{
	const struct item *item = NULL;

	(void)pthread_mutex_lock(&run.mutex);
	if (run.next < run.n_items)
		item = &run.items[run.next++];
	(void)pthread_mutex_unlock(&run.mutex);
	return item;
}

/* An object of its own each: a toolchain is one thread's at a time. */
static void *
run_thread(void *arg)
{
	struct hm_toolchain *toolchain = NULL;
	void *image = malloc(MAX_IMAGE_BYTES);
	const struct item *item;

	(void)arg;
	if (image == NULL ||
	    hm_toolchain_open(NULL, &toolchain, NULL) != HM_OK) {
		(void)pthread_mutex_lock(&run.mutex);
		run.broken = true;
		(void)pthread_mutex_unlock(&run.mutex);
	}
	while (toolchain != NULL && (item = run_take()) != NULL) {
		struct build build = {.image = image};

		build_run(&build, toolchain, item);
		report(&build, item);
		free(build.log);
	}
	hm_toolchain_close(toolchain);
	free(image);
	return NULL;
}

/* False if a thread could not be started or could not begin. */
static bool
run_all(void)
{
	pthread_t threads[N_THREADS];
	int n = 0;

	while (n < N_THREADS &&
	       pthread_create(&threads[n], NULL, run_thread, NULL) == 0)
		n++;
	for (int i = 0; i < n; i++)
		(void)pthread_join(threads[i], NULL);
	return n == N_THREADS && !run.broken && run.next == run.n_items;
}

/* ---- what is built ---- */

static bool
is_full(const struct hm_target *target)
{
	return (target->cc == 90 && target->suffix == 'a') ||
	       (target->cc == 80 && target->suffix == 0);
}

/* False when the list does not fit. */
static bool
items_add(const struct hm_toolchain *toolchain, uint32_t cc, uint32_t suffix)
{
	static struct hm_config configs[MAX_CONFIGS];
	const struct hm_target target = {.cc = cc, .suffix = suffix};
	size_t n = hm_plan_all_configs(&target, configs, MAX_CONFIGS);
	bool full = is_full(&target);
	char arch[16];

	hm_target_print(&target, arch);
	if (hm_toolchain_check_arch(toolchain, arch, NULL) != HM_OK) {
		printf("# %s is unknown to this NVRTC\n", arch);
		return true;
	}
	if (n == 0 || n > MAX_CONFIGS)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!full && (configs[i].act != HM_CONFIG_ACT_BF16 ||
				 configs[i].group != 128 ||
				 configs[i].zero != HM_CONFIG_ZERO_NONE))
			continue;
		if (run.n_items == MAX_ITEMS)
			return false;
		run.items[run.n_items++] =
		    (struct item){.target = target, .config = configs[i]};
	}
	return true;
}

/* Every target of the table, with and without each of its letters. */
static bool
items_fill(const struct hm_toolchain *toolchain)
{
	bool complete = true;

	for (size_t i = 0; i < hm_tune_n_targets; i++) {
		const struct hm_tune_target *known = &hm_tune_targets[i];

		complete &= items_add(toolchain, known->cc, 0);
		for (const char *c = known->suffixes; *c != '\0'; c++)
			complete &=
			    items_add(toolchain, known->cc, (uint32_t)*c);
	}
	return complete;
}

/* NVRTC has been seen to crash in its own destructors. */
static void __attribute__((noreturn)) leave(int code)
{
	(void)fflush(stdout);
	_exit(code);
}

int
main(void)
{
	struct hm_toolchain *toolchain = NULL;
	struct hm_errbuf why = {.text = ""};

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	if (hm_toolchain_open(NULL, &toolchain, &why) != HM_OK) {
		printf("Bail out! %s\n", why.text);
		leave(1);
	}
	printf("# %s\n", hm_toolchain_version(toolchain));
	if (!items_fill(toolchain)) {
		printf("Bail out! a target without kernels, or too many\n");
		leave(1);
	}
	hm_toolchain_close(toolchain);
	printf("1..%zu\n", run.n_items);
	if (!run_all()) {
		printf("Bail out! not all threads could work\n");
		leave(1);
	}
	leave(run.n_failed == 0 ? 0 : 1);
}
