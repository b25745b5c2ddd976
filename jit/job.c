/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.c - what a worker is asked to do, and what clients may ask of it.
 *
 * The allow-list below is the only door for options of clients. It is a table:
 * what is not in it is refused, however NVRTC might read it. Each option has
 * one normal form, so that two spellings of a request share a key.
 */
#include "jit/job.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/emit.h"
#include "jit/spec.h"

#define JOB_MAX_REGISTERS 255u

enum job_value {
	JOB_VALUE_NONE,
	JOB_VALUE_BOOL,
	JOB_VALUE_STANDARD,
	JOB_VALUE_REGISTERS
};

struct job_option {
	const char *name; /* behind one dash or two */
	enum job_value value;
};

static const struct job_option job_options[] = {
    {"std", JOB_VALUE_STANDARD},
    {"use_fast_math", JOB_VALUE_NONE},
    {"maxrregcount", JOB_VALUE_REGISTERS},
    {"ftz", JOB_VALUE_BOOL},
    {"prec-div", JOB_VALUE_BOOL},
    {"prec-sqrt", JOB_VALUE_BOOL},
    {"fmad", JOB_VALUE_BOOL},
};

static const char *const job_standards[] = {"c++03", "c++11", "c++14", "c++17",
    "c++20"};

static const char *const job_date_macros[] = {"__DATE__", "__TIME__",
    "__TIMESTAMP__"};

#define JOB_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A copy of text, NULL when there is no memory. */
static char *
job_copy_text(const char *text)
{
	const size_t n_bytes = strlen(text) + 1;
	char *copy = malloc(n_bytes);

	if (copy != NULL)
		memcpy(copy, text, n_bytes);
	return copy;
}

static int
job_put_texts(const struct hm_config *config, struct hm_job *job)
{
	char config_text[HM_EMIT_CONFIG_BYTES];
	char shape_text[HM_EMIT_WGMMA_BYTES];

	if (hm_emit_config(config, config_text, sizeof(config_text)) != HM_OK)
		return HM_E_INTERNAL;
	job->config = job_copy_text(config_text);
	if (job->config == NULL)
		return HM_E_NOMEM;
	if (!hm_emit_needs_wgmma(config))
		return HM_OK;
	if (hm_emit_wgmma(config, shape_text, sizeof(shape_text)) != HM_OK)
		return HM_E_INTERNAL;
	job->shape = job_copy_text(shape_text);
	return job->shape == NULL ? HM_E_NOMEM : HM_OK;
}

static int
job_put_options(struct hm_job *job)
{
	struct hm_emit_options options;
	uint32_t i = 0;

	if (hm_emit_options(job->arch, &options) != HM_OK)
		return HM_E_INTERNAL;
	job->options = calloc(HM_EMIT_N_OPTIONS, sizeof(*job->options));
	if (job->options == NULL)
		return HM_E_NOMEM;
	for (i = 0; i < HM_EMIT_N_OPTIONS; i++)
		(void)snprintf(job->options[i], sizeof(job->options[i]), "%s",
		    options.text[i]);
	job->n_options = HM_EMIT_N_OPTIONS;
	return HM_OK;
}

int
hm_job_own(const struct hm_config *config, const struct hm_target *target,
    struct hm_job *job_out)
{
	const char *source = hm_emit_source(config);
	const char *entry = hm_emit_entry(config);
	struct hm_job job = {0};
	int error = HM_OK;

	memset(job_out, 0, sizeof(*job_out));
	if (source == NULL || entry == NULL)
		return HM_E_INTERNAL;
	job.kind = HM_JOB_OWN;
	job.result_bytes = HM_JOB_RESULT_BYTES;
	hm_target_print(target, job.arch);
	(void)snprintf(job.source_name, sizeof(job.source_name), "%s", source);
	(void)snprintf(job.entry, sizeof(job.entry), "%s", entry);
	error = job_put_texts(config, &job);
	if (error == HM_OK)
		error = job_put_options(&job);
	if (error != HM_OK)
		goto out;
	*job_out = job;
	memset(&job, 0, sizeof(job));
out:
	hm_job_done(&job);
	return error;
}

static bool
job_is_one_of(const char *text, const char *const *list, size_t n_list)
{
	size_t i = 0;

	for (i = 0; i < n_list; i++) {
		if (strcmp(text, list[i]) == 0)
			return true;
	}
	return false;
}

/*
 * -DNAME or -DNAME=value, as one word. The value is text for the preprocessor
 * only, but a date in it would make a cached result wrong.
 */
static bool
job_check_define(const char *definition, char *normal_out)
{
	const char *at = definition;

	if (!isalpha((unsigned char)*at) && *at != '_')
		return false;
	while (isalnum((unsigned char)*at) || *at == '_')
		at++;
	if (*at != 0 && *at != '=')
		return false;
	for (; *at != 0; at++) {
		if (!isprint((unsigned char)*at))
			return false;
	}
	if (!hm_source_is_cacheable(definition, strlen(definition)))
		return false;
	return snprintf(normal_out, HM_MAX_OPTION_CHARS, "-D%s", definition) <
	       (int)HM_MAX_OPTION_CHARS;
}

/* Decimal without a sign, 1 to JOB_MAX_REGISTERS; 0 for anything else. */
static uint32_t
job_read_registers(const char *text)
{
	uint32_t value = 0;

	if (*text == 0)
		return 0;
	for (; *text != 0; text++) {
		if (*text < '0' || *text > '9')
			return 0;
		value = value * 10 + (uint32_t)(*text - '0');
		if (value > JOB_MAX_REGISTERS)
			return 0;
	}
	return value;
}

/* value is what stands behind '=', or NULL when there is none. */
static bool
job_check_value(const struct job_option *option, const char *value,
    char *normal_out)
{
	static const char *const truths[] = {"true", "false"};
	uint32_t registers = 0;

	if (option->value == JOB_VALUE_NONE) {
		(void)snprintf(normal_out, HM_MAX_OPTION_CHARS, "--%s",
		    option->name);
		return value == NULL;
	}
	if (value == NULL)
		return false;
	if (option->value == JOB_VALUE_REGISTERS) {
		registers = job_read_registers(value);
		(void)snprintf(normal_out, HM_MAX_OPTION_CHARS, "--%s=%u",
		    option->name, registers);
		return registers != 0;
	}
	if (option->value == JOB_VALUE_BOOL &&
	    !job_is_one_of(value, truths, JOB_COUNT(truths)))
		return false;
	if (option->value == JOB_VALUE_STANDARD &&
	    !job_is_one_of(value, job_standards, JOB_COUNT(job_standards)))
		return false;
	(void)snprintf(normal_out, HM_MAX_OPTION_CHARS, "--%s=%s", option->name,
	    value);
	return true;
}

static bool
job_check_option(const char *option, char *normal_out)
{
	static const char long_define[] = "define-macro=";
	const char *name = option;
	size_t i = 0;

	if (*name != '-')
		return false;
	name++;
	if (*name == 'D')
		return job_check_define(name + 1, normal_out);
	if (*name == '-')
		name++;
	if (strncmp(name, long_define, sizeof(long_define) - 1) == 0)
		return job_check_define(name + sizeof(long_define) - 1,
		    normal_out);
	for (i = 0; i < JOB_COUNT(job_options); i++) {
		const char *rest = name + strlen(job_options[i].name);

		if (strncmp(name, job_options[i].name,
			strlen(job_options[i].name)) != 0)
			continue;
		if (*rest == 0)
			return job_check_value(&job_options[i], NULL,
			    normal_out);
		if (*rest == '=')
			return job_check_value(&job_options[i], rest + 1,
			    normal_out);
	}
	return false;
}

/* NULL when all are allowed, else the first that is not. */
static const char *
job_find_denied(uint32_t n_options, char (*options)[HM_MAX_OPTION_CHARS])
{
	char normal[HM_MAX_OPTION_CHARS];
	uint32_t i = 0;

	for (i = 0; i < n_options; i++) {
		if (memchr(options[i], 0, HM_MAX_OPTION_CHARS) == NULL ||
		    !job_check_option(options[i], normal))
			return options[i];
	}
	return NULL;
}

int
hm_options_check(uint32_t n_options, char (*options)[HM_MAX_OPTION_CHARS],
    char (*normalised_out)[HM_MAX_OPTION_CHARS], struct hm_errbuf *errbuf)
{
	char normal[HM_MAX_OPTION_CHARS];
	const char *denied = NULL;
	uint32_t i = 0;

	if (n_options > HM_MAX_OPTIONS) {
		hm_errbuf_set(errbuf, "more than %u options", HM_MAX_OPTIONS);
		return HM_E_DENIED;
	}
	denied = job_find_denied(n_options, options);
	if (denied != NULL) {
		hm_errbuf_set(errbuf,
		    "option %.80s is not allowed; these are: -DNAME[=value] "
		    "(no date or time), --std=c++NN, --use_fast_math, "
		    "--maxrregcount=N, and --ftz, --prec-div, --prec-sqrt, "
		    "--fmad with =true or =false",
		    denied);
		return HM_E_DENIED;
	}
	/* Apart from the check, as both arrays may be the same. */
	for (i = 0; i < n_options; i++) {
		(void)job_check_option(options[i], normal);
		(void)snprintf(normalised_out[i], HM_MAX_OPTION_CHARS, "%s",
		    normal);
	}
	return HM_OK;
}

/* Bytes of a line splice at this place; the preprocessor joins such lines. */
static size_t
job_splice(const char *at, size_t n_left)
{
	if (n_left >= 2 && at[0] == '\\' && at[1] == '\n')
		return 2;
	if (n_left >= 3 && at[0] == '\\' && at[1] == '\r' && at[2] == '\n')
		return 3;
	return 0;
}

/*
 * Whether text is in the source once lines are joined. A candidate starts with
 * the first character of text itself, so a run of splices is walked a bounded
 * number of times.
 */
static bool
job_holds(const char *source, size_t n_source, const char *text)
{
	const char *first;
	size_t i = 0;

	for (i = 0; i < n_source; i++) {
		size_t at;
		size_t n_same = 0;

		/* Most of a source is skipped here, at memory's speed. */
		first = memchr(source + i, text[0], n_source - i);
		if (first == NULL)
			return false;
		i = (size_t)(first - source);
		at = i;
		while (at < n_source && source[at] == text[n_same]) {
			size_t n_splice = 0;

			at++;
			n_same++;
			if (text[n_same] == 0)
				return true;
			do {
				n_splice =
				    job_splice(source + at, n_source - at);
				at += n_splice;
			} while (n_splice != 0);
		}
	}
	return false;
}

bool
hm_source_is_cacheable(const void *source, size_t n_source)
{
	size_t i = 0;

	for (i = 0; i < JOB_COUNT(job_date_macros); i++) {
		if (job_holds(source, n_source, job_date_macros[i]))
			return false;
	}
	return true;
}
