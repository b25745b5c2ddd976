/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_toolchain_nvrtc.c - the real NVRTC in this process: found, named, used;
 * and what is said where there is none.
 */
#include <sys/stat.h>

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "jit/job.h"
#include "jit/toolchain_nvrtc.h"

static struct hm_toolchain *toolchain; /* opened once, for all tests */
static uint8_t image[65536];

static const char good_source[] =
    "#include \"value.h\"\n"
    "extern \"C\" __global__ void k(int *p) { *p = VALUE; }\n";

static int
open_toolchain(void **state)
{
	struct hm_errbuf errbuf = {""};

	(void)state;
	if (hm_toolchain_open(NULL, &toolchain, &errbuf) != HM_OK)
		fail_msg("%s", errbuf.text);
	return 0;
}

static int
close_toolchain(void **state)
{
	(void)state;
	hm_toolchain_close(toolchain);
	return 0;
}

/* Compile with the header value.h given in memory. */
static int
compile(const char *source, const char *arch_option, const char *other_option,
    struct hm_toolchain_output *output, struct hm_errbuf *errbuf)
{
	static const char *const names[] = {"value.h"};
	static const char *const texts[] = {"#define VALUE 4711\n"};
	const char *const options[] = {arch_option, "-no-cache",
	    "--ptxas-options=-v", other_option};
	const struct hm_toolchain_program program = {.source = source,
	    .n_headers = 1,
	    .header_names = names,
	    .header_texts = texts,
	    .n_options = other_option == NULL ? 3 : 4,
	    .options = options};

	memset(image, 0, sizeof(image));
	*output =
	    (struct hm_toolchain_output){.image = image, .size = sizeof(image)};
	return hm_toolchain_compile(toolchain, &program, output, errbuf);
}

static void
test_toolchain_nvrtc__identity_names_both_libraries(void **state)
{
	const char *identity = hm_toolchain_identity(toolchain);
	char version[16];
	char id[2][64];
	long bytes[2] = {0, 0};

	(void)state;
	assert_int_equal(sscanf(identity, "nvrtc %15s %63s %ld %63s %ld",
			     version, id[0], &bytes[0], id[1], &bytes[1]),
	    5);
	assert_string_equal(version, hm_toolchain_version(toolchain));
	assert_string_not_equal(id[0], id[1]);
	assert_true(bytes[0] > 20L << 20);
	assert_true(bytes[1] > 1L << 20);
}

static void
test_toolchain_nvrtc__second_open_is_the_same(void **state)
{
	struct hm_toolchain *other = NULL;

	(void)state;
	assert_int_equal(hm_toolchain_open(NULL, &other, NULL), HM_OK);
	assert_string_equal(hm_toolchain_identity(other),
	    hm_toolchain_identity(toolchain));
	assert_string_equal(hm_toolchain_archs(other),
	    hm_toolchain_archs(toolchain));
	hm_toolchain_close(other);
	hm_toolchain_close(NULL);
}

static void
test_toolchain_nvrtc__compiles_with_headers_in_memory(void **state)
{
	const struct hm_target target = {.cc = 80};
	struct hm_toolchain_output output;
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(compile(good_source, "--gpu-architecture=sm_80", NULL,
			     &output, &errbuf),
	    HM_OK);
	assert_int_equal(
	    hm_elf_check(image, output.n_image, &target, "k", &errbuf), HM_OK);
	assert_string_equal(errbuf.text, "");
	assert_non_null(strstr(output.log, "Compiling entry function 'k'"));
	assert_true(output.compile_us > 1000);
	free(output.log);
}

static void
test_toolchain_nvrtc__name_of_the_program_is_always_the_same(void **state)
{
	struct hm_toolchain_output output;
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(compile("#include \"value.h\"\n#include \"other.h\"\n",
			     "--gpu-architecture=sm_80", NULL, &output,
			     &errbuf),
	    HM_E_COMPILE);
	assert_memory_equal(errbuf.text, "kernel.cu(2): ", 14);
	free(output.log);
}

static void
test_toolchain_nvrtc__refused_option_is_in_the_message(void **state)
{
	struct hm_toolchain_output output;
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(compile(good_source, "--gpu-architecture=sm_80",
			     "--no-such-option", &output, &errbuf),
	    HM_E_INVALID);
	assert_non_null(strstr(errbuf.text, "--no-such-option"));
	free(output.log);
}

static void
test_toolchain_nvrtc__unknown_arch_is_unsupported(void **state)
{
	static const char *const options[] = {"--gpu-architecture=sm_77",
	    "--gpu-architecture=sm_80a"};
	struct hm_toolchain_output output;
	size_t i = 0;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct hm_errbuf errbuf = {""};

		assert_int_equal(
		    compile(good_source, options[i], NULL, &output, &errbuf),
		    HM_E_UNSUPPORTED);
		assert_non_null(
		    strstr(errbuf.text, strchr(options[i], '=') + 1));
		assert_non_null(strstr(errbuf.text, "sm_90"));
		free(output.log);
	}
}

static void
test_toolchain_nvrtc__architectures_are_checked_before(void **state)
{
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(hm_toolchain_check_arch(toolchain, "sm_80", NULL),
	    HM_OK);
	assert_int_equal(hm_toolchain_check_arch(toolchain, "sm_90a", NULL),
	    HM_OK);
	assert_int_equal(hm_toolchain_check_arch(toolchain, "sm_77", &errbuf),
	    HM_E_UNSUPPORTED);
	assert_non_null(strstr(errbuf.text, "sm_77"));
	assert_non_null(strstr(errbuf.text, "sm_80"));
	/* A part of a number that it knows is not one that it knows. */
	assert_int_equal(hm_toolchain_check_arch(toolchain, "sm_10", NULL),
	    HM_E_UNSUPPORTED);
	assert_int_equal(hm_toolchain_check_arch(toolchain, "90a", NULL),
	    HM_E_INVALID);
	assert_int_equal(hm_toolchain_check_arch(toolchain, "", NULL),
	    HM_E_INVALID);
	assert_int_equal(hm_toolchain_check_arch(toolchain, "compute_90", NULL),
	    HM_E_INVALID);
}

static void
test_toolchain_nvrtc__path_that_is_not_there_is_named(void **state)
{
	struct hm_toolchain *none = NULL;
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(hm_toolchain_open("/nothing/such", &none, &errbuf),
	    HM_E_UNAVAILABLE);
	assert_null(none);
	assert_non_null(strstr(errbuf.text, "/nothing/such is not there"));
	assert_non_null(strstr(errbuf.text, "12.8"));
}

static void
test_toolchain_nvrtc__folder_without_it_is_named(void **state)
{
	struct hm_toolchain *none = NULL;
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(hm_toolchain_open(HM_TEST_DATA, &none, &errbuf),
	    HM_E_UNAVAILABLE);
	assert_non_null(strstr(errbuf.text, "holds no libnvrtc"));
}

static void
test_toolchain_nvrtc__file_that_is_no_library_is_named(void **state)
{
	struct hm_toolchain *none = NULL;
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(hm_toolchain_open("/etc/passwd", &none, &errbuf),
	    HM_E_UNAVAILABLE);
	assert_non_null(strstr(errbuf.text, "/etc/passwd"));
	assert_int_equal(hm_toolchain_open("/proc/self/exe", &none, NULL),
	    HM_E_UNAVAILABLE);
}

static void
test_toolchain_nvrtc__old_version_is_refused_by_number(void **state)
{
	struct hm_toolchain *none = NULL;
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(
	    hm_toolchain_open(HM_FAKE_NVRTC_DIR "/11.8", &none, &errbuf),
	    HM_E_UNAVAILABLE);
	assert_non_null(strstr(errbuf.text, "version 11.8, 12.8 is needed"));
	assert_non_null(strstr(errbuf.text, "libnvrtc.so.11"));
}

static void
test_toolchain_nvrtc__missing_builtins_are_named(void **state)
{
	struct hm_toolchain *none = NULL;
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(
	    hm_toolchain_open(HM_FAKE_NVRTC_DIR "/99.0", &none, &errbuf),
	    HM_E_UNAVAILABLE);
	assert_non_null(strstr(errbuf.text, "libnvrtc-builtins.so.99.0"));
}

static void
test_toolchain_nvrtc__environment_names_a_place_alone(void **state)
{
	struct hm_toolchain *none = NULL;
	struct hm_errbuf errbuf = {""};
	char *before = getenv("HUMMING_NVRTC");

	(void)state;
	if (before != NULL)
		skip(); /* it is what this run works with */
	assert_int_equal(setenv("HUMMING_NVRTC", HM_FAKE_NVRTC_DIR "/11.8", 1),
	    0);
	assert_int_equal(hm_toolchain_open(NULL, &none, &errbuf),
	    HM_E_UNAVAILABLE);
	assert_non_null(strstr(errbuf.text, HM_FAKE_NVRTC_DIR "/11.8"));
	assert_int_equal(unsetenv("HUMMING_NVRTC"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_toolchain_nvrtc__identity_names_both_libraries),
	    cmocka_unit_test(test_toolchain_nvrtc__second_open_is_the_same),
	    cmocka_unit_test(
		test_toolchain_nvrtc__compiles_with_headers_in_memory),
	    cmocka_unit_test(
		test_toolchain_nvrtc__name_of_the_program_is_always_the_same),
	    cmocka_unit_test(
		test_toolchain_nvrtc__refused_option_is_in_the_message),
	    cmocka_unit_test(test_toolchain_nvrtc__unknown_arch_is_unsupported),
	    cmocka_unit_test(
		test_toolchain_nvrtc__architectures_are_checked_before),
	    cmocka_unit_test(
		test_toolchain_nvrtc__path_that_is_not_there_is_named),
	    cmocka_unit_test(test_toolchain_nvrtc__folder_without_it_is_named),
	    cmocka_unit_test(
		test_toolchain_nvrtc__file_that_is_no_library_is_named),
	    cmocka_unit_test(
		test_toolchain_nvrtc__old_version_is_refused_by_number),
	    cmocka_unit_test(test_toolchain_nvrtc__missing_builtins_are_named),
	    cmocka_unit_test(
		test_toolchain_nvrtc__environment_names_a_place_alone),
	};
	int n_failed = 0;

	n_failed = cmocka_run_group_tests_name("toolchain_nvrtc", tests,
	    open_toolchain, close_toolchain);
	(void)fflush(stdout);
	(void)fflush(stderr);
	_exit(n_failed); /* as a worker leaves: NVRTC may crash at exit */
}
