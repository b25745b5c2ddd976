/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_kernels.c - every kernel of the family builds clean for every target
 * it claims. No GPU is needed.
 *
 * NVRTC is looked for where the worker looks: $HUMMING_NVRTC, $CUDA_HOME,
 * /usr/local/cuda, the loader's path. Without it the test is skipped, loudly.
 * The gate of KERNELS.md 9, per kernel: it compiles; the log holds no C75xx but
 * C7519; no byte is spilled; the cubin holds the entry, is for the target and
 * within its size. Seconds and registers are printed, not judged: the machine
 * may be busy.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jit/emit.h"
#include "proto/error.h"

#define MAX_SOURCES 32
#define MAX_LINE    512

typedef struct nvrtc_program_opaque *nvrtc_program;

/* The part of NVRTC that a build needs; its functions return 0 on success. */
struct nvrtc {
	void *library;
	int (*create)(nvrtc_program *, const char *, const char *, int,
	    const char *const *, const char *const *);
	int (*compile)(nvrtc_program, int, const char *const *);
	int (*destroy)(nvrtc_program *);
	int (*log_size)(nvrtc_program, size_t *);
	int (*log)(nvrtc_program, char *);
	int (*cubin_size)(nvrtc_program, size_t *);
	int (*cubin)(nvrtc_program, char *);
	int (*n_archs)(int *);
	int (*archs)(int *);
};

/* The device sources, and two places at the end for the generated headers. */
struct sources {
	int n_files;
	char *names[MAX_SOURCES];
	char *texts[MAX_SOURCES];
};

/* What came out of one build. */
struct build {
	int status;
	char *log;
	char *cubin;
	size_t n_cubin;
	double seconds;
};

static int n_tests, n_failed;
static struct nvrtc nvrtc;
static struct sources sources;

/* ---- NVRTC ---- */

static bool
nvrtc_open_from(const char *folder)
{
	static const char *const names[] = {
	    "libnvrtc.so",
	    "libnvrtc.so.13",
	    "libnvrtc.so.12",
	};
	char path[MAX_LINE];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s%s%s", folder,
		    folder[0] == '\0' ? "" : "/", names[i]);
		nvrtc.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (nvrtc.library != NULL)
			return true;
	}
	return false;
}

/* dlsym returns an object pointer; memcpy is the portable way across. */
static bool
nvrtc_symbol(const char *name, void *function, size_t size)
{
	void *symbol = dlsym(nvrtc.library, name);

	memcpy(function, &symbol, size);
	return symbol != NULL;
}

#define SYMBOL(name, member)                                                   \
	nvrtc_symbol(name, &nvrtc.member, sizeof(nvrtc.member))

static bool
nvrtc_open(void)
{
	const char *named = getenv("HUMMING_NVRTC");
	const char *home = getenv("CUDA_HOME");
	char folder[MAX_LINE] = "";

	if (home != NULL)
		snprintf(folder, sizeof(folder), "%s/lib64", home);
	if (!(named != NULL && nvrtc_open_from(named)) &&
	    !(home != NULL && nvrtc_open_from(folder)) &&
	    !nvrtc_open_from("/usr/local/cuda/lib64") && !nvrtc_open_from(""))
		return false;
	return SYMBOL("nvrtcCreateProgram", create) &&
	       SYMBOL("nvrtcCompileProgram", compile) &&
	       SYMBOL("nvrtcDestroyProgram", destroy) &&
	       SYMBOL("nvrtcGetProgramLogSize", log_size) &&
	       SYMBOL("nvrtcGetProgramLog", log) &&
	       SYMBOL("nvrtcGetCUBINSize", cubin_size) &&
	       SYMBOL("nvrtcGetCUBIN", cubin) &&
	       SYMBOL("nvrtcGetNumSupportedArchs", n_archs) &&
	       SYMBOL("nvrtcGetSupportedArchs", archs);
}

/* "sm_90a" -> 90 */
static int
target_number(const char *target)
{
	int number = 0;

	for (const char *c = target + 3; *c >= '0' && *c <= '9'; c++)
		number = number * 10 + (*c - '0');
	return number;
}

static bool
target_is_known(const char *target)
{
	int archs[64], n_archs = 0;

	if (nvrtc.n_archs(&n_archs) != 0 || n_archs > 64 ||
	    nvrtc.archs(archs) != 0)
		return false;
	for (int i = 0; i < n_archs; i++)
		if (archs[i] == target_number(target))
			return true;
	return false;
}

/* ---- sources ---- */

static char *
file_read(const char *folder, const char *name)
{
	char path[MAX_LINE];
	char *text = NULL;
	FILE *file;
	long size;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "rb");
	if (file == NULL)
		return NULL;
	if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 &&
	    fseek(file, 0, SEEK_SET) == 0 &&
	    (text = malloc((size_t)size + 1)) != NULL) {
		text[fread(text, 1, (size_t)size, file)] = '\0';
	}
	fclose(file);
	return text;
}

static bool
name_ends(const char *name, const char *end)
{
	size_t n_name = strlen(name), n_end = strlen(end);

	return n_name > n_end && strcmp(name + n_name - n_end, end) == 0;
}

static bool
sources_add(const char *folder, const char *name)
{
	int at = sources.n_files;

	if (at == MAX_SOURCES - 2)
		return false;
	sources.names[at] = strdup(name);
	sources.texts[at] = file_read(folder, name);
	if (sources.names[at] == NULL || sources.texts[at] == NULL)
		return false;
	sources.n_files++;
	return true;
}

static bool
sources_load(const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	bool complete = dir != NULL;

	while (dir != NULL && (entry = readdir(dir)) != NULL)
		if (name_ends(entry->d_name, ".cu") ||
		    name_ends(entry->d_name, ".cuh"))
			complete &= sources_add(folder, entry->d_name);
	if (dir != NULL)
		closedir(dir);
	return complete;
}

static const char *
sources_find(const char *name)
{
	for (int i = 0; i < sources.n_files; i++)
		if (strcmp(sources.names[i], name) == 0)
			return sources.texts[i];
	return NULL;
}

static void
sources_free(void)
{
	for (int i = 0; i < sources.n_files; i++) {
		free(sources.names[i]);
		free(sources.texts[i]);
	}
}

/* ---- one build ---- */

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void
build_fetch(struct build *build, nvrtc_program program)
{
	size_t size = 0;

	if (nvrtc.log_size(program, &size) == 0 && size > 0) {
		build->log = calloc(1, size + 1);
		if (build->log != NULL)
			nvrtc.log(program, build->log);
	}
	if (build->status != 0 || nvrtc.cubin_size(program, &size) != 0)
		return;
	build->cubin = malloc(size);
	build->n_cubin = size;
	if (build->cubin != NULL)
		nvrtc.cubin(program, build->cubin);
}

static void
build_run(struct build *build, const struct hm_config *config,
    const char *target)
{
	static char config_text[HM_EMIT_CONFIG_BYTES];
	static char shape_text[HM_EMIT_WGMMA_BYTES];
	const char *names[MAX_SOURCES], *texts[MAX_SOURCES];
	const char *options[HM_EMIT_N_OPTIONS];
	struct hm_emit_options list;
	nvrtc_program program = NULL;
	int n = sources.n_files;

	memset(build, 0, sizeof(*build));
	build->status = -1;
	for (int i = 0; i < n; i++) {
		names[i] = sources.names[i];
		texts[i] = sources.texts[i];
	}
	if (hm_emit_config(config, config_text, sizeof(config_text)) != HM_OK ||
	    hm_emit_options(target, &list) != HM_OK)
		return;
	names[n] = HM_EMIT_CONFIG_NAME;
	texts[n++] = config_text;
	if (hm_emit_needs_wgmma(config)) {
		if (hm_emit_wgmma(config, shape_text, sizeof(shape_text)) !=
		    HM_OK)
			return;
		names[n] = HM_EMIT_WGMMA_NAME;
		texts[n++] = shape_text;
	}
	for (int i = 0; i < HM_EMIT_N_OPTIONS; i++)
		options[i] = list.text[i];
	if (nvrtc.create(&program, sources_find(hm_emit_source(config)),
		hm_emit_source(config), n, texts, names) != 0)
		return;
	build->seconds = now_s();
	build->status = nvrtc.compile(program, HM_EMIT_N_OPTIONS, options);
	build->seconds = now_s() - build->seconds;
	build_fetch(build, program);
	nvrtc.destroy(&program);
}

static void
build_done(struct build *build)
{
	free(build->log);
	free(build->cubin);
}

/* ---- the gate ---- */

/* The number in front of `after`, or -1: "12 bytes spill stores". */
static long
log_number(const char *log, const char *after)
{
	const char *at = strstr(log, after);
	long value = 0, unit = 1;

	if (at == NULL)
		return -1;
	for (; at > log && at[-1] >= '0' && at[-1] <= '9'; at--, unit *= 10)
		value += (at[-1] - '0') * unit;
	return value;
}

/* C75xx: the compiler serialized the wgmma pipeline. C7519 is harmless. */
static bool
log_has_pipeline_warning(const char *log)
{
	for (const char *at = strstr(log, "C75"); at != NULL;
	     at = strstr(at + 1, "C75"))
		if (strncmp(at, "C7519", 5) != 0)
			return true;
	return false;
}

static bool
cubin_is_for(const struct build *build, const char *target)
{
	Elf64_Ehdr header;
	uint32_t number;

	if (build->cubin == NULL || build->n_cubin < sizeof(header))
		return false;
	memcpy(&header, build->cubin, sizeof(header));
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_machine != 190) /* EM_CUDA */
		return false;
	/* ABI 8 (CUDA 13) keeps the architecture in bits 8-15, ABI 7 in 0-7. */
	number = header.e_ident[EI_ABIVERSION] >= 8 ? header.e_flags >> 8 & 0xff
						    : header.e_flags & 0xff;
	return number == (uint32_t)target_number(target);
}

static bool
cubin_has_entry(const struct build *build, const char *entry)
{
	char section[MAX_LINE];
	int n = snprintf(section, sizeof(section), ".text.%s", entry);

	return build->cubin != NULL && n > 0 &&
	       memmem(build->cubin, build->n_cubin, section, (size_t)n + 1) !=
		   NULL;
}

/* 32 KB, and 48 for the widest tiles (DESIGN.md 9). */
static size_t
size_limit(const struct hm_config *config)
{
	bool wide = config->tile_tokens > 128 || config->slices == 2 ||
		    config->token_tiles == 2;

	return (wide ? 48u : 32u) * 1024u;
}

/* The first rule that a build breaks, or NULL. */
static const char *
gate(const struct build *build, const struct hm_config *config,
    const char *target)
{
	if (build->status != 0 || build->log == NULL)
		return "does not compile";
	if (log_has_pipeline_warning(build->log))
		return "wgmma pipeline is serialized (C75xx)";
	if (log_number(build->log, " bytes spill stores") != 0 ||
	    log_number(build->log, " bytes spill loads") != 0)
		return "spills registers";
	if (!cubin_has_entry(build, hm_emit_entry(config)))
		return "has no entry";
	if (!cubin_is_for(build, target))
		return "is for another architecture";
	if (build->n_cubin > size_limit(config))
		return "is too large";
	return NULL;
}

static void
describe(char *text, size_t size, const struct hm_config *config)
{
	static const char *const zero_names[] = {"", " zp int", " zp float"};
	const char *act = config->act == HM_CONFIG_ACT_BF16 ? "bf16" : "f16";
	const char *zp = zero_names[config->zero];

	if (config->family == HM_FAMILY_STREAM)
		snprintf(text, size, "S %s g%u%s tiles %u ring %u warps %u/%u",
		    act, config->group, zp, config->token_tiles, config->ring,
		    config->warps, config->warps_k);
	else if (config->family == HM_FAMILY_WGMMA)
		snprintf(text, size,
		    "H %s g%u%s %ux%u stages %u halves %u steps %u%s", act,
		    config->group, zp, 128 * config->slices,
		    config->tile_tokens, config->stages, config->halves,
		    config->steps, config->split_k ? " split" : "");
	else if (config->family == HM_FAMILY_PACK)
		snprintf(text, size, "pack %s g%u%s", act, config->group, zp);
	else
		snprintf(text, size,
		    "G %s g%u%s %ux%u stages %u warps %ux%ux%u", act,
		    config->group, zp, config->tile_rows, config->tile_tokens,
		    config->stages, config->warps_n, config->warps_m,
		    config->warps_k);
}

static void
check(const struct hm_config *config, const char *target)
{
	char text[MAX_LINE];
	struct build build;
	const char *broken;

	describe(text, sizeof(text), config);
	build_run(&build, config, target);
	broken = gate(&build, config, target);
	n_tests++;
	if (broken != NULL)
		n_failed++;
	printf("%sok %d - %s %s: %s%s%.2f s, %zu bytes, %ld registers\n",
	    broken != NULL ? "not " : "", n_tests, target, text,
	    broken != NULL ? broken : "", broken != NULL ? "; " : "",
	    build.seconds, build.n_cubin,
	    build.log != NULL ? log_number(build.log, " registers") : -1);
	if (broken != NULL && build.log != NULL)
		fprintf(stderr, "%s\n", build.log);
	build_done(&build);
}

/* ---- what is built ---- */

struct scales {
	uint32_t act, group, zero;
};

static struct hm_config
stream(struct scales s, uint32_t tiles, uint32_t ring, uint32_t warps,
    uint32_t warps_k)
{
	return (struct hm_config){
	    .family = HM_FAMILY_STREAM,
	    .act = s.act,
	    .group = s.group,
	    .zero = s.zero,
	    .threads = warps * 32,
	    .token_tiles = tiles,
	    .ring = ring,
	    .warps = warps,
	    .warps_k = warps_k,
	    .ctas_per_sm = 1,
	};
}

/* tokens, slices, stages, halves, steps, split_k */
static struct hm_config
wgmma(struct scales s, const uint32_t *shape)
{
	return (struct hm_config){
	    .family = HM_FAMILY_WGMMA,
	    .act = s.act,
	    .group = s.group,
	    .zero = s.zero,
	    .threads = 384,
	    .tile_tokens = shape[0],
	    .slices = shape[1],
	    .stages = shape[2],
	    .halves = shape[3],
	    .steps = shape[4],
	    .split_k = shape[5],
	};
}

/* tokens, rows, stages, warps along n, m, k */
static struct hm_config
mma(struct scales s, const uint32_t *shape)
{
	return (struct hm_config){
	    .family = HM_FAMILY_MMA,
	    .act = s.act,
	    .group = s.group,
	    .zero = s.zero,
	    .threads = shape[3] * shape[4] * shape[5] * 32,
	    .tile_tokens = shape[0],
	    .tile_rows = shape[1],
	    .stages = shape[2],
	    .warps_n = shape[3],
	    .warps_m = shape[4],
	    .warps_k = shape[5],
	};
}

/* KERNELS_MEASURED.md, best configurations. */
static const uint32_t wgmma_shapes[][6] = {
    {16, 1, 12, 2, 4, 1},
    {32, 1, 12, 2, 4, 1},
    {64, 1, 9, 2, 4, 1},
    {96, 1, 6, 2, 4, 1},
    {128, 1, 5, 2, 4, 1},
    {128, 2, 8, 1, 2, 1},
    {152, 2, 6, 1, 1, 0},
    {128, 2, 6, 1, 1, 0},
    {256, 1, 4, 1, 1, 0},
    {168, 2, 6, 1, 1, 0},
};

static const uint32_t mma_shapes[][6] = {
    {16, 64, 6, 4, 1, 2},
    {32, 64, 4, 4, 1, 2},
    {64, 128, 4, 4, 2, 1},
    {128, 128, 4, 4, 2, 1},
};

#define N_ROWS(table) (sizeof(table) / sizeof((table)[0]))

static void
check_sm_90a(struct scales s, bool all_shapes)
{
	struct hm_config config = stream(s, 1, 3, 8, 8);

	check(&config, "sm_90a");
	if (all_shapes) {
		config = stream(s, 1, 2, 16, 16);
		check(&config, "sm_90a");
		config = stream(s, 1, 2, 8, 4);
		check(&config, "sm_90a");
		config = stream(s, 2, 2, 8, 8);
		check(&config, "sm_90a");
	}
	for (size_t i = all_shapes ? 0 : 4; i < N_ROWS(wgmma_shapes); i++) {
		config = wgmma(s, wgmma_shapes[i]);
		check(&config, "sm_90a");
	}
}

static void
check_mma(struct scales s, const char *target, bool all_shapes)
{
	for (size_t i = 0; i < N_ROWS(mma_shapes); i++) {
		struct hm_config config = mma(s, mma_shapes[i]);

		if (all_shapes || i % 3 == 0) /* the smallest, the largest */
			check(&config, target);
	}
}

static void
check_pack(struct scales s, const char *target)
{
	const struct hm_config config = {
	    .family = HM_FAMILY_PACK,
	    .act = s.act,
	    .group = s.group,
	    .zero = s.zero,
	    .threads = HM_EMIT_PACK_THREADS,
	};

	check(&config, target);
}

static void
check_all(void)
{
	static const char *const targets[] = {"sm_80", "sm_86", "sm_87",
	    "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f",
	    "sm_103", "sm_103a", "sm_110", "sm_110a", "sm_120", "sm_120a",
	    "sm_120f", "sm_121", "sm_121a"};
	static const uint32_t groups[] = {128, 64, 32, 0};
	const struct scales usual = {HM_CONFIG_ACT_BF16, 128, 0};

	for (size_t i = 0; i < N_ROWS(targets); i++) {
		if (!target_is_known(targets[i])) {
			printf("# %s is unknown to this NVRTC\n", targets[i]);
			continue;
		}
		check_mma(usual, targets[i], i == 0);
		check_pack(usual, targets[i]);
	}
	check_sm_90a(usual, true);
	for (size_t i = 0; i < N_ROWS(groups); i++)
		for (uint32_t act = 0; act <= 1; act++)
			for (uint32_t zero = 0; zero <= 2; zero++) {
				const struct scales s = {act, groups[i], zero};

				if (groups[i] == 0 && zero != 0)
					continue;
				check_sm_90a(s, false);
				check_mma(s, "sm_80", false);
				check_pack(s, "sm_80");
				check_pack(s, "sm_90a");
			}
}

int
main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!nvrtc_open()) {
		printf(
		    "1..0 # SKIP no NVRTC: set CUDA_HOME or HUMMING_NVRTC\n");
		return 0;
	}
	if (!sources_load(HM_KERNEL_DIR)) {
		printf("Bail out! cannot read %s: %s\n", HM_KERNEL_DIR,
		    strerror(errno));
		return 1;
	}
	check_all();
	printf("1..%d\n", n_tests);
	sources_free();
	return n_failed == 0 ? 0 : 1;
}
