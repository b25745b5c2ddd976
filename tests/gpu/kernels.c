/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.c - NVRTC by dlopen, one compile a thread.
 *
 * NVRTC's functions may be called from many threads, each with a program of its
 * own (NVRTC guide, "Thread safety"). Programs that use this end by _exit:
 * NVRTC has been seen to crash in its destructors (jit/toolchain_nvrtc.h).
 */
#include "kernels.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/gemm_call.h"
#include "client/gemm_error.h"
#include "jit/emit.h"

#define KERNELS_MAX         4096
#define KERNELS_MAX_FILES   32
#define KERNELS_MAX_THREADS 32
#define KERNELS_FILE_BYTES  (256 * 1024)

struct nvrtc {
	int (*create)(void **program, const char *source, const char *name,
	    int n_headers, const char *const *headers,
	    const char *const *names);
	int (
	    *compile)(void *program, int n_options, const char *const *options);
	int (*destroy)(void **program);
	int (*cubin_size)(void *program, size_t *size);
	int (*cubin)(void *program, char *bytes);
	int (*ptx_size)(void *program, size_t *size);
	int (*ptx)(void *program, char *bytes);
	int (*log_size)(void *program, size_t *size);
	int (*log)(void *program, char *text);
};

struct file {
	char name[64];
	char *text; /* owned, for the life of the process */
};

/* A kernel and its image until it is loaded. */
struct entry {
	struct kernel kernel;
	void *image; /* owned */
};

static struct nvrtc nvrtc;
static struct file files[KERNELS_MAX_FILES];
static size_t n_files;
static struct entry *entries[KERNELS_MAX];
static size_t n_entries, n_built;
static atomic_size_t next_entry;

double
kernels_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *
nvrtc_library(void)
{
	static const char *const names[] = {
	    "libnvrtc.so.13",
	    "/usr/local/cuda/lib64/libnvrtc.so.13",
	    "libnvrtc.so",
	    "/usr/local/cuda/lib64/libnvrtc.so",
	    "libnvrtc.so.12",
	};
	const char *named = getenv("HUMMING_NVRTC");
	void *library = named != NULL ? dlopen(named, RTLD_NOW) : NULL;

	for (size_t i = 0;
	     library == NULL && i < sizeof names / sizeof names[0]; i++)
		library = dlopen(names[i], RTLD_NOW);
	return library;
}

static int
nvrtc_open(struct hm_errbuf *errbuf)
{
	const struct {
		const char *name;
		size_t offset;
	} symbols[] = {
	    {"nvrtcCreateProgram", offsetof(struct nvrtc, create)},
	    {"nvrtcCompileProgram", offsetof(struct nvrtc, compile)},
	    {"nvrtcDestroyProgram", offsetof(struct nvrtc, destroy)},
	    {"nvrtcGetCUBINSize", offsetof(struct nvrtc, cubin_size)},
	    {"nvrtcGetCUBIN", offsetof(struct nvrtc, cubin)},
	    {"nvrtcGetPTXSize", offsetof(struct nvrtc, ptx_size)},
	    {"nvrtcGetPTX", offsetof(struct nvrtc, ptx)},
	    {"nvrtcGetProgramLogSize", offsetof(struct nvrtc, log_size)},
	    {"nvrtcGetProgramLog", offsetof(struct nvrtc, log)},
	};
	void *library = nvrtc_library();

	if (library == NULL) {
		hm_errbuf_set(errbuf, "no libnvrtc.so (HUMMING_NVRTC=FILE)");
		return HM_E_UNAVAILABLE;
	}
	for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
		void *address = dlsym(library, symbols[i].name);

		if (address == NULL) {
			hm_errbuf_set(errbuf, "NVRTC has no %s",
			    symbols[i].name);
			return HM_E_UNAVAILABLE;
		}
		memcpy((char *)&nvrtc + symbols[i].offset, &address,
		    sizeof address);
	}
	return HM_OK;
}

static int
file_read(const char *folder, const char *name)
{
	struct file *file = &files[n_files];
	char path[1024];
	FILE *stream = NULL;
	size_t n = 0;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	snprintf(file->name, sizeof file->name, "%s", name);
	stream = fopen(path, "rb");
	file->text = calloc(1, KERNELS_FILE_BYTES);
	if (stream != NULL && file->text != NULL)
		n = fread(file->text, 1, KERNELS_FILE_BYTES - 1, stream);
	if (stream != NULL)
		fclose(stream);
	n_files++;
	return n > 0 ? HM_OK : HM_E_SYSTEM;
}

static int
files_open(struct hm_errbuf *errbuf)
{
	const char *folder = getenv("HM_KERNELS");
	struct dirent *item = NULL;
	DIR *listing = NULL;
	int error = HM_OK;

	if (folder == NULL)
		folder = HM_KERNELS_DIR;
	listing = opendir(folder);
	while (listing != NULL && error == HM_OK &&
	       n_files < KERNELS_MAX_FILES && (item = readdir(listing)) != NULL)
		if (strstr(item->d_name, ".cu") != NULL)
			error = file_read(folder, item->d_name);
	if (listing != NULL)
		closedir(listing);
	if (error == HM_OK && n_files > 0)
		return HM_OK;
	hm_errbuf_set(errbuf, "cannot read the kernels in %s", folder);
	return HM_E_SYSTEM;
}

int
kernels_open(struct hm_errbuf *errbuf)
{
	int error = nvrtc_open(errbuf);

	return error == HM_OK ? files_open(errbuf) : error;
}

static struct entry *
entry_find(const struct hm_config *config, const char *target)
{
	for (size_t i = 0; i < n_entries; i++)
		if (memcmp(&entries[i]->kernel.config, config,
			sizeof *config) == 0 &&
		    strcmp(entries[i]->kernel.target, target) == 0)
			return entries[i];
	return NULL;
}

void
kernels_want(const struct hm_config *config, const char *target)
{
	struct entry *entry = NULL;

	if (entry_find(config, target) != NULL || n_entries == KERNELS_MAX)
		return;
	entry = calloc(1, sizeof *entry);
	if (entry == NULL)
		return;
	entry->kernel.config = *config;
	snprintf(entry->kernel.target, sizeof entry->kernel.target, "%s",
	    target);
	entries[n_entries++] = entry;
}

const struct kernel *
kernels_find(const struct hm_config *config, const char *target)
{
	struct entry *entry = entry_find(config, target);

	return entry != NULL ? &entry->kernel : NULL;
}

size_t
kernels_count(void)
{
	return n_entries;
}

const struct kernel *
kernels_at(size_t index)
{
	return &entries[index]->kernel;
}

static bool
is_ptx(const struct kernel *kernel)
{
	return strncmp(kernel->target, "compute_", 8) == 0;
}

/* Every file of kernels/ as a header, and the generated ones. */
static void *
program_create(const struct hm_config *config, const char *config_text,
    const char *wgmma_text)
{
	const char *names[KERNELS_MAX_FILES + 2];
	const char *texts[KERNELS_MAX_FILES + 2];
	const char *source = NULL;
	void *program = NULL;
	int n = 0;

	for (size_t i = 0; i < n_files; i++) {
		names[n] = files[i].name;
		texts[n++] = files[i].text;
		if (strcmp(files[i].name, hm_emit_source(config)) == 0)
			source = files[i].text;
	}
	names[n] = HM_EMIT_CONFIG_NAME;
	texts[n++] = config_text;
	names[n] = HM_EMIT_WGMMA_NAME;
	texts[n++] = wgmma_text;
	if (source == NULL || nvrtc.create(&program, source,
				  hm_emit_source(config), n, texts, names) != 0)
		return NULL;
	return program;
}

static void
program_read_log(void *program, struct kernel *kernel, bool failed)
{
	struct hm_errbuf first = {""};
	char *log = NULL;
	size_t n = 0;

	if (nvrtc.log_size(program, &n) != 0 || n == 0)
		return;
	log = calloc(1, n + 1);
	if (log != NULL && nvrtc.log(program, log) == 0) {
		(void)hm_report_parse(log, NULL, &kernel->report);
		hm_report_first_error(log, &first);
		if (failed)
			snprintf(kernel->why, sizeof kernel->why, "%s",
			    first.text);
	}
	free(log);
}

static void
program_read_image(void *program, struct entry *entry)
{
	bool ptx = is_ptx(&entry->kernel);
	size_t n = 0;
	int result =
	    ptx ? nvrtc.ptx_size(program, &n) : nvrtc.cubin_size(program, &n);

	if (result == 0)
		entry->image = calloc(1, n + 1);
	if (entry->image != NULL)
		result = ptx ? nvrtc.ptx(program, entry->image)
			     : nvrtc.cubin(program, entry->image);
	if (result == 0 && entry->image != NULL)
		entry->kernel.image_bytes = n;
	else
		snprintf(entry->kernel.why, sizeof entry->kernel.why,
		    "NVRTC gives no image");
}

static void
entry_compile(struct entry *entry)
{
	struct kernel *kernel = &entry->kernel;
	struct hm_emit_options options;
	const char *option_list[HM_EMIT_N_OPTIONS + 1];
	int n_options = HM_EMIT_N_OPTIONS;
	char architecture[64];
	char config_text[HM_EMIT_CONFIG_BYTES];
	char wgmma_text[HM_EMIT_WGMMA_BYTES] = "";
	void *program = NULL;
	double begin = kernels_seconds();
	int result = 0;

	if (hm_emit_config(&kernel->config, config_text, sizeof config_text) !=
		HM_OK ||
	    (hm_emit_needs_wgmma(&kernel->config) &&
		hm_emit_wgmma(&kernel->config, wgmma_text, sizeof wgmma_text) !=
		    HM_OK) ||
	    hm_emit_options(is_ptx(kernel) ? "sm_80" : kernel->target,
		&options) != HM_OK)
		snprintf(kernel->why, sizeof kernel->why, "jit/emit refuses");
	else
		program =
		    program_create(&kernel->config, config_text, wgmma_text);
	if (program == NULL)
		return;
	for (size_t i = 0; i < HM_EMIT_N_OPTIONS; i++)
		option_list[i] = options.text[i];
	/* The first option is the architecture; a virtual one gives PTX. */
	snprintf(architecture, sizeof architecture, "--gpu-architecture=%s",
	    kernel->target);
	option_list[0] = architecture;
	result = nvrtc.compile(program, n_options, option_list);
	program_read_log(program, kernel, result != 0);
	if (result == 0)
		program_read_image(program, entry);
	(void)nvrtc.destroy(&program);
	kernel->compile_ms = 1e3 * (kernels_seconds() - begin);
}

static void *
compile_thread(void *unused)
{
	size_t i = 0;

	(void)unused;
	while ((i = atomic_fetch_add(&next_entry, 1)) < n_entries)
		entry_compile(entries[i]);
	return NULL;
}

static void
compile_all(void)
{
	pthread_t threads[KERNELS_MAX_THREADS];
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	size_t n = 0;

	atomic_store(&next_entry, n_built);
	while (n < KERNELS_MAX_THREADS && n < (size_t)cores &&
	       n < n_entries - n_built &&
	       pthread_create(&threads[n], NULL, compile_thread, NULL) == 0)
		n++;
	for (size_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void
entry_load(struct entry *entry, const struct hm_driver *driver,
    uint32_t smem_bytes)
{
	struct kernel *kernel = &entry->kernel;
	void *module = NULL;

	if (entry->image == NULL || driver == NULL)
		return;
	if (hm_gemm_load(driver, entry->image, hm_emit_entry(&kernel->config),
		smem_bytes, &module, &kernel->function) != HM_OK)
		snprintf(kernel->why, sizeof kernel->why, "%s",
		    hm_gemm_errbuf()->text);
	free(entry->image);
	entry->image = NULL;
}

uint32_t
kernels_build(const struct hm_driver *driver, uint32_t smem_bytes)
{
	double begin = kernels_seconds();
	double compiled = 0;
	uint32_t n_failed = 0;
	size_t first = n_built;

	if (n_entries == n_built)
		return 0;
	compile_all();
	compiled = kernels_seconds();
	for (size_t i = n_built; i < n_entries; i++) {
		struct kernel *kernel = &entries[i]->kernel;
		char text[128];

		entry_load(entries[i], driver, smem_bytes);
		if (kernel->why[0] == '\0' && kernel->image_bytes != 0)
			continue;
		n_failed++;
		kernels_describe(&kernel->config, text, sizeof text);
		printf("# no kernel: %s %s: %s\n", text, kernel->target,
		    kernel->why);
	}
	n_built = n_entries;
	printf("# %zu kernels compiled in %.1f s, loaded in %.1f s\n",
	    n_built - first, compiled - begin, kernels_seconds() - compiled);
	fflush(stdout);
	return n_failed;
}

static const char *
describe_format(const struct hm_config *config, char *text, size_t size)
{
	static const char *const acts[] = {"bf16", "f16", "e4m3", "e5m2", "s8"};
	static const char *const weights[] = {"u4", "u8", "e2m1", "e4m3"};
	static const char *const scales[] = {"", ":bf16", ":f16", ":f32",
	    ":e8m0", ":mx"};
	static const char *const zeros[] = {"", " zp=int", " zp=float"};
	char promote[16] = "";

	if (config->promote != 0)
		snprintf(promote, sizeof promote, " p%u", config->promote);
	snprintf(text, size, "%s %s%s g%u%s%s%s%s", acts[config->act % 5],
	    weights[config->weight % 4],
	    config->act > 1 && config->out == HM_CONFIG_ACT_F16 ? " c=f16" : "",
	    config->group, scales[config->scale % 6], zeros[config->zero % 3],
	    config->act_scale == HM_CONFIG_ACT_SCALE_GROUP ? " act=128" : "",
	    promote);
	return text;
}

void
kernels_describe(const struct hm_config *config, char *text, size_t size)
{
	char format[64];

	(void)describe_format(config, format, sizeof format);
	switch ((enum hm_family)config->family) {
	case HM_FAMILY_STREAM:
		snprintf(text, size, "S tiles=%u ring=%u warps=%u/%u %s",
		    config->token_tiles, config->ring, config->warps,
		    config->warps_k, format);
		return;
	case HM_FAMILY_WGMMA:
		snprintf(text, size,
		    "H %ux%u stages=%u halves=%u steps=%u%s%s %s",
		    config->tile_tokens, 128 * config->slices, config->stages,
		    config->halves, config->steps,
		    config->split_k != 0 ? " split" : "",
		    config->threads > 384 ? " 2 sets" : "", format);
		return;
	case HM_FAMILY_MMA:
		snprintf(text, size, "G %ux%u stages=%u warps=%u.%u.%u %s",
		    config->tile_tokens, config->tile_rows, config->stages,
		    config->warps_n, config->warps_m, config->warps_k, format);
		return;
	case HM_FAMILY_PACK:
		snprintf(text, size, "pack %s", format);
		return;
	case HM_FAMILY_QUANT:
		snprintf(text, size, "quant %s%s", format,
		    config->epi != 0 ? " silu-mul" : "");
		return;
	}
	snprintf(text, size, "family %u", config->family);
}
