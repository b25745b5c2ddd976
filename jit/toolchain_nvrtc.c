/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolchain_nvrtc.c - NVRTC, loaded at run time.
 *
 * No header of CUDA is needed to build this: the dozen functions used have had
 * the same prototypes since NVRTC 11.1 and are declared below.
 *
 * libnvrtc has no RUNPATH and opens its builtins library by bare name at the
 * first compile. Where CUDA is not in the loader's cache (wheels, containers,
 * our sandbox) that fails, however libnvrtc itself was found. So the builtins
 * are loaded by full path before anything is compiled; ld.so then finds them
 * by their soname. libnvrtc comes first only because its version is part of
 * the name of the right builtins.
 */
#include "jit/toolchain_nvrtc.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jit/report.h"
#include "jit/spec.h"
#include "jit/toolchain_find.h"
#include "jit/toolchain_identity.h"
#include "proto/codec.h"

#define TOOLCHAIN_MIN_MAJOR   12
#define TOOLCHAIN_MIN_MINOR   8
#define TOOLCHAIN_MAX_OPTIONS (HM_MAX_OPTIONS + 8u)
#define TOOLCHAIN_MAX_ARCHS   64

/* nvrtcResult, as far as we tell one from another. */
enum toolchain_rc {
	TOOLCHAIN_RC_SUCCESS = 0,
	TOOLCHAIN_RC_OUT_OF_MEMORY = 1,
	TOOLCHAIN_RC_INVALID_OPTION = 5,
	TOOLCHAIN_RC_COMPILATION = 6
};

/* An opaque nvrtcProgram. */
typedef int (*toolchain_version_fn)(int *major, int *minor);
typedef int (*toolchain_count_fn)(int *n_archs);
typedef int (*toolchain_archs_fn)(int *archs);
typedef int (*toolchain_create_fn)(void **program, const char *source,
    const char *name, int n_headers, const char *const *headers,
    const char *const *names);
typedef int (*toolchain_destroy_fn)(void **program);
typedef int (*toolchain_compile_fn)(void *program, int n_options,
    const char *const *options);
typedef int (*toolchain_size_fn)(void *program, size_t *size);
typedef int (*toolchain_bytes_fn)(void *program, char *bytes);
typedef const char *(*toolchain_text_fn)(int rc);

struct toolchain_api {
	toolchain_version_fn version;
	toolchain_count_fn n_archs;
	toolchain_archs_fn archs;
	toolchain_create_fn create;
	toolchain_destroy_fn destroy;
	toolchain_compile_fn compile;
	toolchain_size_fn log_size;
	toolchain_bytes_fn log;
	toolchain_size_fn cubin_size;
	toolchain_bytes_fn cubin;
	toolchain_text_fn error_text;
};

struct hm_toolchain {
	void *library; /* never dlclosed once in use */
	void *builtins;
	struct toolchain_api api;
	int major;
	int minor;
	bool refuses_no_cache; /* learned at the first compile */
	char version[16];
	char identity[256];
	char archs[256];
};

#define TOOLCHAIN_COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct toolchain_symbol {
	const char *name;
	size_t offset;
};

#define TOOLCHAIN_SYMBOL(name, member)                                         \
	{                                                                      \
		name, offsetof(struct toolchain_api, member)                   \
	}

static const struct toolchain_symbol toolchain_symbols[] = {
    TOOLCHAIN_SYMBOL("nvrtcVersion", version),
    TOOLCHAIN_SYMBOL("nvrtcGetNumSupportedArchs", n_archs),
    TOOLCHAIN_SYMBOL("nvrtcGetSupportedArchs", archs),
    TOOLCHAIN_SYMBOL("nvrtcCreateProgram", create),
    TOOLCHAIN_SYMBOL("nvrtcDestroyProgram", destroy),
    TOOLCHAIN_SYMBOL("nvrtcCompileProgram", compile),
    TOOLCHAIN_SYMBOL("nvrtcGetProgramLogSize", log_size),
    TOOLCHAIN_SYMBOL("nvrtcGetProgramLog", log),
    TOOLCHAIN_SYMBOL("nvrtcGetCUBINSize", cubin_size),
    TOOLCHAIN_SYMBOL("nvrtcGetCUBIN", cubin),
    TOOLCHAIN_SYMBOL("nvrtcGetErrorString", error_text),
};

static int
toolchain_find_symbols(void *library, struct toolchain_api *api,
    struct hm_errbuf *errbuf)
{
	size_t i = 0;

	for (i = 0; i < TOOLCHAIN_COUNT(toolchain_symbols); i++) {
		void *symbol = dlsym(library, toolchain_symbols[i].name);

		if (symbol == NULL) {
			hm_errbuf_set(errbuf, "it has no %s",
			    toolchain_symbols[i].name);
			return HM_E_UNAVAILABLE;
		}
		/* ISO C has no cast from an object to a function. */
		memcpy((char *)api + toolchain_symbols[i].offset, &symbol,
		    sizeof(symbol));
	}
	return HM_OK;
}

/* The builtins that lie beside this file, NULL if none do. */
static void *
toolchain_open_beside(const char *file, const char *name)
{
	const char *slash = strrchr(file, '/');
	const int n_folder = slash == NULL ? 0 : (int)(slash + 1 - file);
	char path[PATH_MAX];

	if (n_folder == 0 || snprintf(path, sizeof(path), "%.*s%s", n_folder,
				 file, name) >= (int)sizeof(path))
		return NULL;
	return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

/*
 * The builtins of exactly this version: beside the library as it was named,
 * beside the file that a link leads to, or wherever the loader finds them.
 */
static int
toolchain_load_builtins(struct hm_toolchain *toolchain,
    struct hm_errbuf *errbuf)
{
	const char *file = hm_toolchain_identity_path(toolchain->library);
	char real[PATH_MAX];
	char name[64];

	(void)snprintf(name, sizeof(name), "libnvrtc-builtins.so.%d.%d",
	    toolchain->major, toolchain->minor);
	if (file != NULL)
		toolchain->builtins = toolchain_open_beside(file, name);
	if (toolchain->builtins == NULL && file != NULL &&
	    realpath(file, real) != NULL)
		toolchain->builtins = toolchain_open_beside(real, name);
	if (toolchain->builtins == NULL)
		toolchain->builtins = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
	if (toolchain->builtins == NULL) {
		hm_errbuf_set(errbuf, "it needs %s, which does not load", name);
		return HM_E_UNAVAILABLE;
	}
	return HM_OK;
}

static int
toolchain_read_archs(struct hm_toolchain *toolchain)
{
	int archs[TOOLCHAIN_MAX_ARCHS];
	int n_archs = 0;
	int n_text = 0;
	int i = 0;

	if (toolchain->api.n_archs(&n_archs) != TOOLCHAIN_RC_SUCCESS ||
	    n_archs < 1 || n_archs > TOOLCHAIN_MAX_ARCHS ||
	    toolchain->api.archs(archs) != TOOLCHAIN_RC_SUCCESS)
		return HM_E_UNAVAILABLE;
	for (i = 0; i < n_archs && n_text < (int)sizeof(toolchain->archs); i++)
		n_text += snprintf(toolchain->archs + n_text,
		    sizeof(toolchain->archs) - (size_t)n_text, "%s%d",
		    i == 0 ? "" : ",", archs[i]);
	return HM_OK;
}

static int
toolchain_set_identity(struct hm_toolchain *toolchain)
{
	char library[HM_TOOLCHAIN_IDENTITY_CHARS];
	char builtins[HM_TOOLCHAIN_IDENTITY_CHARS];
	int error = HM_OK;

	error = hm_toolchain_identity_text(toolchain->library, library,
	    sizeof(library));
	if (error == HM_OK)
		error = hm_toolchain_identity_text(toolchain->builtins,
		    builtins, sizeof(builtins));
	if (error != HM_OK)
		return error;
	(void)snprintf(toolchain->version, sizeof(toolchain->version), "%d.%d",
	    toolchain->major, toolchain->minor);
	(void)snprintf(toolchain->identity, sizeof(toolchain->identity),
	    "nvrtc %s %s %s", toolchain->version, library, builtins);
	return HM_OK;
}

static int
toolchain_check_version(struct hm_toolchain *toolchain,
    struct hm_errbuf *errbuf)
{
	if (toolchain->api.version(&toolchain->major, &toolchain->minor) !=
	    TOOLCHAIN_RC_SUCCESS) {
		hm_errbuf_set(errbuf, "it does not tell its version");
		return HM_E_UNAVAILABLE;
	}
	if (toolchain->major < TOOLCHAIN_MIN_MAJOR ||
	    (toolchain->major == TOOLCHAIN_MIN_MAJOR &&
		toolchain->minor < TOOLCHAIN_MIN_MINOR)) {
		hm_errbuf_set(errbuf, "it is version %d.%d, %d.%d is needed",
		    toolchain->major, toolchain->minor, TOOLCHAIN_MIN_MAJOR,
		    TOOLCHAIN_MIN_MINOR);
		return HM_E_UNAVAILABLE;
	}
	return HM_OK;
}

/*
 * Load one libnvrtc, by path or by name. A file that is not there is no
 * reason (errbuf keeps what an earlier candidate left), one that does not do
 * is.
 */
static int
toolchain_try(void *arg, const char *file, struct hm_errbuf *errbuf)
{
	struct hm_toolchain *toolchain = arg;
	struct hm_errbuf why = {.text = ""};
	int error = HM_OK;

	toolchain->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (toolchain->library == NULL) {
		if (strchr(file, '/') != NULL)
			hm_errbuf_set(errbuf, "%s", dlerror());
		return HM_E_UNAVAILABLE;
	}
	error =
	    toolchain_find_symbols(toolchain->library, &toolchain->api, &why);
	if (error == HM_OK)
		error = toolchain_check_version(toolchain, &why);
	if (error == HM_OK)
		error = toolchain_load_builtins(toolchain, &why);
	if (error == HM_OK)
		error = toolchain_read_archs(toolchain);
	if (error == HM_OK)
		error = toolchain_set_identity(toolchain);
	if (error == HM_OK)
		return HM_OK;
	hm_errbuf_set(errbuf, "%s: %s", file,
	    why.text[0] == 0 ? "it does not answer" : why.text);
	if (toolchain->builtins != NULL)
		(void)dlclose(toolchain->builtins);
	(void)dlclose(toolchain->library);
	memset(toolchain, 0, sizeof(*toolchain));
	return error;
}

int
hm_toolchain_open(const char *where, struct hm_toolchain **toolchain_out,
    struct hm_errbuf *errbuf)
{
	struct hm_toolchain *toolchain = NULL;
	struct hm_errbuf why = {.text = ""};
	int error = HM_OK;

	toolchain = calloc(1, sizeof(*toolchain));
	if (toolchain == NULL)
		return HM_E_NOMEM;
	error = hm_toolchain_find(where, toolchain_try, toolchain, &why);
	if (error != HM_OK) {
		hm_errbuf_set(errbuf,
		    "no NVRTC (%d.%d or newer)%s%s; set CUDA_HOME or "
		    "HUMMING_NVRTC, or run systemd/setup.sh",
		    TOOLCHAIN_MIN_MAJOR, TOOLCHAIN_MIN_MINOR,
		    why.text[0] == 0 ? "" : ": ", why.text);
		goto out;
	}
	*toolchain_out = toolchain;
	toolchain = NULL;
out:
	free(toolchain);
	return error;
}

void
hm_toolchain_close(struct hm_toolchain *toolchain)
{
	free(toolchain);
}

const char *
hm_toolchain_identity(const struct hm_toolchain *toolchain)
{
	return toolchain->identity;
}

const char *
hm_toolchain_version(const struct hm_toolchain *toolchain)
{
	return toolchain->version;
}

const char *
hm_toolchain_archs(const struct hm_toolchain *toolchain)
{
	return toolchain->archs;
}

/* "NVRTC 13.0 does not know sm_77; it knows sm_75, sm_80, ..." */
static void
toolchain_refuse_arch(const struct hm_toolchain *toolchain, const char *arch,
    struct hm_errbuf *errbuf)
{
	char known[HM_MAX_OPTION_CHARS * 2] = "";
	const char *at = toolchain->archs;
	size_t n_known = 0;

	while (*at != 0 && n_known < sizeof(known)) {
		const size_t n_number = strcspn(at, ",");

		n_known += (size_t)snprintf(known + n_known,
		    sizeof(known) - n_known, "%ssm_%.*s",
		    n_known == 0 ? "" : " ", (int)n_number, at);
		at += n_number + (at[n_number] == ',');
	}
	hm_errbuf_set(errbuf,
	    "NVRTC %s does not know %s; it knows %s (with a or f behind where "
	    "the GPU has it)",
	    toolchain->version, arch, known);
}

int
hm_toolchain_check_arch(const struct hm_toolchain *toolchain, const char *arch,
    struct hm_errbuf *errbuf)
{
	const char *at = toolchain->archs;
	struct hm_target target;
	char number[16];

	if (strncmp(arch, "sm_", 3) != 0 ||
	    hm_target_parse(arch, &target, NULL) != HM_OK) {
		hm_errbuf_set(errbuf, "%s is no architecture such as sm_90a",
		    arch);
		return HM_E_INVALID;
	}
	(void)snprintf(number, sizeof(number), "%u", target.cc);
	while (*at != 0) {
		const size_t n_number = strcspn(at, ",");

		if (n_number == strlen(number) &&
		    memcmp(at, number, n_number) == 0)
			return HM_OK;
		at += n_number + (at[n_number] == ',');
	}
	toolchain_refuse_arch(toolchain, arch, errbuf);
	return HM_E_UNSUPPORTED;
}

static uint64_t
toolchain_now_us(void)
{
	struct timespec now = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* The log of a program, or NULL: none, or no memory for it. */
static char *
toolchain_take_log(struct hm_toolchain *toolchain, void *program)
{
	size_t n_log = 0;
	char *log = NULL;

	if (toolchain->api.log_size(program, &n_log) != TOOLCHAIN_RC_SUCCESS ||
	    n_log < 2)
		return NULL;
	log = malloc(n_log + 1);
	if (log == NULL)
		return NULL;
	if (toolchain->api.log(program, log) != TOOLCHAIN_RC_SUCCESS) {
		free(log);
		return NULL;
	}
	log[n_log] = 0;
	return log;
}

static int
toolchain_error(const struct hm_toolchain *toolchain, int rc,
    struct hm_errbuf *errbuf)
{
	if (rc == TOOLCHAIN_RC_SUCCESS)
		return HM_OK;
	hm_errbuf_set(errbuf, "NVRTC %s: %s", toolchain->version,
	    toolchain->api.error_text(rc));
	switch (rc) {
	case TOOLCHAIN_RC_OUT_OF_MEMORY:
		return HM_E_NOMEM;
	case TOOLCHAIN_RC_INVALID_OPTION:
		return HM_E_INVALID;
	case TOOLCHAIN_RC_COMPILATION:
		return HM_E_COMPILE;
	}
	return HM_E_INTERNAL;
}

static int
toolchain_take_image(struct hm_toolchain *toolchain, void *program,
    struct hm_toolchain_output *output, struct hm_errbuf *errbuf)
{
	size_t n_image = 0;
	int error = HM_OK;

	error = toolchain_error(toolchain,
	    toolchain->api.cubin_size(program, &n_image), errbuf);
	if (error != HM_OK)
		return error;
	if (n_image == 0) {
		hm_errbuf_set(errbuf, "NVRTC %s gave no cubin",
		    toolchain->version);
		return HM_E_INTERNAL;
	}
	if (n_image > output->size) {
		hm_errbuf_set(errbuf,
		    "the cubin has %zu bytes, at most %zu are taken", n_image,
		    output->size);
		return HM_E_UNSUPPORTED;
	}
	error = toolchain_error(toolchain,
	    toolchain->api.cubin(program, output->image), errbuf);
	if (error == HM_OK)
		output->n_image = n_image;
	return error;
}

static bool
toolchain_is_no_cache(const char *option)
{
	return strcmp(option, "-no-cache") == 0 ||
	       strcmp(option, "--no-cache") == 0;
}

/* Returns the count. */
static int
toolchain_put_options(const struct hm_toolchain *toolchain,
    const struct hm_toolchain_program *program,
    const char *options_out[TOOLCHAIN_MAX_OPTIONS])
{
	int n_options = 0;
	size_t i = 0;

	for (i = 0; i < program->n_options && i < TOOLCHAIN_MAX_OPTIONS; i++) {
		if (toolchain->refuses_no_cache &&
		    toolchain_is_no_cache(program->options[i]))
			continue;
		options_out[n_options] = program->options[i];
		n_options++;
	}
	return n_options;
}

/* One program from its creation to its end. */
static int
toolchain_run(struct hm_toolchain *toolchain,
    const struct hm_toolchain_program *program,
    struct hm_toolchain_output *output, struct hm_errbuf *errbuf)
{
	const char *options[TOOLCHAIN_MAX_OPTIONS];
	/* The same for all, as a name may end up in the cubin. */
	const char *name = program->name == NULL ? "kernel.cu" : program->name;
	const int n_options =
	    toolchain_put_options(toolchain, program, options);
	void *handle = NULL;
	int rc = 0;
	int error = HM_OK;

	rc = toolchain->api.create(&handle, program->source, name,
	    (int)program->n_headers, program->header_texts,
	    program->header_names);
	error = toolchain_error(toolchain, rc, errbuf);
	if (error != HM_OK)
		return error;
	rc = toolchain->api.compile(handle, n_options, options);
	error = toolchain_error(toolchain, rc, errbuf);
	output->log = toolchain_take_log(toolchain, handle);
	if (error == HM_OK)
		error = toolchain_take_image(toolchain, handle, output, errbuf);
	(void)toolchain->api.destroy(&handle);
	return error;
}

/* Put the log into a line; returns the error that it is in our terms. */
static int
toolchain_explain(const struct hm_toolchain *toolchain,
    const struct hm_toolchain_program *program, const char *log, int error,
    struct hm_errbuf *errbuf)
{
	static const char arch_option[] = "--gpu-architecture=";
	size_t i = 0;

	if (log == NULL || (error != HM_E_INVALID && error != HM_E_COMPILE))
		return error;
	hm_report_first_error(log, errbuf);
	error = hm_report_classify(log, error);
	for (i = 0; error == HM_E_UNSUPPORTED && i < program->n_options; i++) {
		if (strncmp(program->options[i], arch_option,
			sizeof(arch_option) - 1) == 0)
			toolchain_refuse_arch(toolchain,
			    program->options[i] + sizeof(arch_option) - 1,
			    errbuf);
	}
	return error;
}

int
hm_toolchain_compile(struct hm_toolchain *toolchain,
    const struct hm_toolchain_program *program,
    struct hm_toolchain_output *output, struct hm_errbuf *errbuf)
{
	const uint64_t start_us = toolchain_now_us();
	int error = HM_OK;

	output->log = NULL;
	if (program->n_options > TOOLCHAIN_MAX_OPTIONS) {
		hm_errbuf_set(errbuf, "too many options");
		return HM_E_INVALID;
	}
	error = toolchain_run(toolchain, program, output, errbuf);
	if (error == HM_E_INVALID && !toolchain->refuses_no_cache &&
	    output->log != NULL && strstr(output->log, "no-cache") != NULL) {
		/* 12.8 has neither the cache nor the option. */
		toolchain->refuses_no_cache = true;
		free(output->log);
		output->log = NULL;
		hm_errbuf_set(errbuf, "%s", "");
		error = toolchain_run(toolchain, program, output, errbuf);
	}
	error =
	    toolchain_explain(toolchain, program, output->log, error, errbuf);
	if (error == HM_OK)
		output->compile_us = (uint32_t)(toolchain_now_us() - start_us);
	return error;
}
