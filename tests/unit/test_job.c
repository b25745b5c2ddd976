/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_job.c - the door for options of clients, and what our own jobs carry.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jit/emit.h"
#include "jit/job.h"
#include "jit/plan.h"

/* Check one option; the normal form, or NULL when it is denied. */
static const char *
normal(const char *option)
{
	static char normalised[1][HM_MAX_OPTION_CHARS];
	char options[1][HM_MAX_OPTION_CHARS] = {""};
	struct hm_errbuf errbuf = {""};

	memcpy(normalised[0], "untouched", 10);
	(void)snprintf(options[0], sizeof(options[0]), "%s", option);
	if (hm_options_check(1, options, normalised, &errbuf) == HM_OK) {
		assert_string_equal(errbuf.text, "");
		return normalised[0];
	}
	assert_string_equal(normalised[0], "untouched");
	assert_non_null(strstr(errbuf.text, "is not allowed"));
	return NULL;
}

static void
test_job__allowed_options_get_one_form(void **state)
{
	static const char *const pairs[][2] = {{"-DX", "-DX"},
	    {"-DX=1", "-DX=1"}, {"-D_a9=b c,\"d\"", "-D_a9=b c,\"d\""},
	    {"-DX=", "-DX="}, {"--define-macro=X=1", "-DX=1"},
	    {"-define-macro=X", "-DX"}, {"-std=c++17", "--std=c++17"},
	    {"--std=c++20", "--std=c++20"},
	    {"-use_fast_math", "--use_fast_math"},
	    {"--use_fast_math", "--use_fast_math"},
	    {"-maxrregcount=064", "--maxrregcount=64"},
	    {"--maxrregcount=255", "--maxrregcount=255"},
	    {"-ftz=true", "--ftz=true"},
	    {"-prec-div=false", "--prec-div=false"},
	    {"--prec-sqrt=true", "--prec-sqrt=true"},
	    {"-fmad=false", "--fmad=false"}};
	size_t i = 0;

	(void)state;
	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		const char *form = normal(pairs[i][0]);

		assert_non_null(form);
		assert_string_equal(form, pairs[i][1]);
		/* The worker checks once more what the daemon has checked. */
		form = normal(pairs[i][1]);
		assert_non_null(form);
		assert_string_equal(form, pairs[i][1]);
	}
}

static void
test_job__everything_else_is_denied(void **state)
{
	static const char *const options[] = {"", "-", "--", "X", "-I/etc",
	    "-I", "--include-path=/etc", "-include", "-include=/etc/passwd",
	    "--pre-include=x", "-lineinfo", "--generate-line-info", "-G",
	    "--device-debug", "--time=-", "-time=/tmp/x",
	    "--fdevice-time-trace=/tmp/x", "-pch", "--pch-dir=/tmp",
	    "--create-pch=x", "--use-pch=x", "-no-cache", "@/etc/passwd",
	    "--options-file=x", "--gpu-architecture=sm_80", "-arch=sm_80",
	    "--ptxas-options=-v", "-Xptxas=-v", "-dlto", "-rdc=true", "-D",
	    "-D=1", "-D1X", "-DX(a)=a", "-D X", "--D=X", "--DX", "-D-I/etc",
	    "-DX=1\n", "-DX=\x7f", "-DT=__TIME__", "-DT=__DATE__", "--std",
	    "--std=", "--std=c++98", "--std=c++17 -I/etc", "-use_fast_math=1",
	    "--use_fast_mathx", "--maxrregcount",
	    "--maxrregcount=", "--maxrregcount=0", "--maxrregcount=256",
	    "--maxrregcount=-1", "--maxrregcount=1e2",
	    "--maxrregcount=4294967297", "--ftz", "--ftz=", "--ftz=1",
	    "--ftz=true,", "---ftz=true", "-ftz=True"};
	size_t i = 0;

	(void)state;
	for (i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		assert_null(normal(options[i]));
}

static void
test_job__definition_that_grows_too_long_is_denied(void **state)
{
	char option[HM_MAX_OPTION_CHARS];

	(void)state;
	memset(option, 'x', sizeof(option));
	memcpy(option, "-D", 2);
	option[sizeof(option) - 1] = 0;
	assert_non_null(normal(option));
	memset(option, 'x', sizeof(option));
	memcpy(option, "-D", 2);
	/* normal() would end it: a string without an end. */
	assert_int_equal(hm_options_check(1, &option, &option, NULL),
	    HM_E_DENIED);
}

static void
test_job__one_bad_option_leaves_all_untouched(void **state)
{
	char options[2][HM_MAX_OPTION_CHARS] = {"-ftz=true", "-I/etc"};
	char normalised[2][HM_MAX_OPTION_CHARS] = {"a", "b"};
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(hm_options_check(2, options, normalised, &errbuf),
	    HM_E_DENIED);
	assert_string_equal(normalised[0], "a");
	assert_non_null(strstr(errbuf.text, "-I/etc"));
	assert_null(strstr(errbuf.text, "-ftz=true"));
}

static void
test_job__both_arrays_may_be_the_same(void **state)
{
	char options[2][HM_MAX_OPTION_CHARS] = {"-ftz=true", "-std=c++17"};

	(void)state;
	assert_int_equal(hm_options_check(2, options, options, NULL), HM_OK);
	assert_string_equal(options[0], "--ftz=true");
	assert_string_equal(options[1], "--std=c++17");
}

static void
test_job__dates_make_a_source_uncacheable(void **state)
{
	static const char *const dated[] = {"__DATE__", "x __TIME__ y",
	    "__TIMESTAMP__", "___DATE__", "__DA\\\nTE__", "_\\\n\\\r\n_TIME__",
	    "// __DATE__"};
	static const char *const plain[] = {"", "_", "__DATE_", "__DATE",
	    "DATE__", "__date__", "__DA TE__", "__DA\nTE__", "__DA\\TE__",
	    "__FILE__ __LINE__"};
	size_t i = 0;

	(void)state;
	for (i = 0; i < sizeof(dated) / sizeof(dated[0]); i++)
		assert_false(
		    hm_source_is_cacheable(dated[i], strlen(dated[i])));
	for (i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		assert_true(hm_source_is_cacheable(plain[i], strlen(plain[i])));
	assert_true(hm_source_is_cacheable("__DATE__", 7));
}

/* A megabyte of what could make the search slow ends at once. */
static void
test_job__search_for_dates_is_linear(void **state)
{
	const size_t n = HM_MAX_SOURCE_BYTES;
	char *source = malloc(n);
	size_t i = 0;

	(void)state;
	assert_non_null(source);
	for (i = 0; i + 1 < n; i += 2) {
		source[i] = '\\';
		source[i + 1] = '\n';
	}
	assert_true(hm_source_is_cacheable(source, n));
	memset(source, '_', n);
	assert_true(hm_source_is_cacheable(source, n));
	free(source);
}

static void
test_job__own_job_carries_everything_generated(void **state)
{
	static struct hm_config configs[2048];
	static const struct hm_target targets[] = {{.cc = 80},
	    {.cc = 90, .suffix = 'a'}};
	size_t n_shapes = 0;
	size_t t = 0;
	size_t i = 0;

	(void)state;
	for (t = 0; t < 2; t++) {
		size_t n = hm_plan_all_configs(&targets[t], configs, 2048);

		assert_in_range(n, 1, 2048);
		for (i = 0; i < n; i++) {
			struct hm_job job;

			assert_int_equal(
			    hm_job_own(&configs[i], &targets[t], &job), HM_OK);
			assert_int_equal(job.kind, HM_JOB_OWN);
			assert_string_equal(job.arch,
			    t == 0 ? "sm_80" : "sm_90a");
			assert_string_equal(job.entry,
			    hm_emit_entry(&configs[i]));
			assert_string_equal(job.source_name,
			    hm_emit_source(&configs[i]));
			assert_non_null(strstr(job.config, "#define HM_"));
			assert_int_equal(job.shape != NULL,
			    hm_emit_needs_wgmma(&configs[i]));
			assert_int_equal(job.n_options, HM_EMIT_N_OPTIONS);
			assert_int_equal(job.result_bytes, HM_JOB_RESULT_BYTES);
			n_shapes += job.shape != NULL;
			hm_job_done(&job);
		}
	}
	assert_true(n_shapes > 0);
}

static void
test_job__impossible_configuration_is_an_internal_error(void **state)
{
	const struct hm_config config = {.family = 99};
	const struct hm_target target = {.cc = 80};
	struct hm_job job;

	(void)state;
	assert_int_equal(hm_job_own(&config, &target, &job), HM_E_INTERNAL);
	hm_job_done(&job);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_job__allowed_options_get_one_form),
	    cmocka_unit_test(test_job__everything_else_is_denied),
	    cmocka_unit_test(
		test_job__definition_that_grows_too_long_is_denied),
	    cmocka_unit_test(test_job__one_bad_option_leaves_all_untouched),
	    cmocka_unit_test(test_job__both_arrays_may_be_the_same),
	    cmocka_unit_test(test_job__dates_make_a_source_uncacheable),
	    cmocka_unit_test(test_job__search_for_dates_is_linear),
	    cmocka_unit_test(test_job__own_job_carries_everything_generated),
	    cmocka_unit_test(
		test_job__impossible_configuration_is_an_internal_error),
	};

	return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
