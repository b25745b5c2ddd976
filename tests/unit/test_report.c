/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_report.c - logs as NVRTC 12.8 and 13.x print them, and as nobody does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jit/report.h"

static const char two_kernels[] =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'k2' for 'sm_90a'\n"
    "ptxas info    : Function properties for k2\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes "
    "spill loads\n"
    "ptxas info    : Used 14 registers, used 1 barriers, 256 bytes smem\n"
    "ptxas info    : Compile time = 3.123 ms\n"
    "ptxas info    : Function properties for _Z1fi\n"
    "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes "
    "spill loads\n"
    "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
    "ptxas info    : Function properties for k\n"
    "ptxas         .     488 bytes stack frame, 956 bytes spill stores, 1120 "
    "bytes spill loads\n"
    "ptxas info    : Used 24 registers, used 1 barriers, 488 bytes cumulative "
    "stack size, 64 bytes smem, 400 bytes cmem[0]\n"
    "ptxas info    : Compile time = 23.264 ms\n";

static void
test_report__numbers_are_those_of_the_entry(void **state)
{
	struct hm_report report;

	(void)state;
	assert_true(hm_report_parse(two_kernels, "k", &report));
	assert_int_equal(report.n_entries, 2);
	assert_string_equal(report.entries, "k2,k");
	assert_int_equal(report.registers, 24);
	assert_int_equal(report.spill_bytes, 956 + 1120);
	assert_int_equal(report.smem_bytes, 64);
	assert_string_equal(report.warning,
	    "2076 bytes of registers are spilled");
}

static void
test_report__called_functions_count_for_their_kernel(void **state)
{
	struct hm_report report;

	(void)state;
	assert_true(hm_report_parse(two_kernels, "k2", &report));
	assert_int_equal(report.registers, 14);
	assert_int_equal(report.spill_bytes, 16);
	assert_int_equal(report.smem_bytes, 256);
}

static void
test_report__no_entry_takes_the_largest(void **state)
{
	struct hm_report report;

	(void)state;
	assert_true(hm_report_parse(two_kernels, NULL, &report));
	assert_int_equal(report.registers, 24);
	assert_int_equal(report.spill_bytes, 2076);
	assert_int_equal(report.smem_bytes, 256);
}

static void
test_report__unknown_entry_is_not_found(void **state)
{
	struct hm_report report;

	(void)state;
	assert_false(hm_report_parse(two_kernels, "k3", &report));
	assert_int_equal(report.registers, 0);
	assert_string_equal(report.entries, "k2,k");
	assert_false(hm_report_parse("", NULL, &report));
	assert_string_equal(report.entries, "");
	assert_string_equal(report.warning, "");
}

static void
test_report__serialised_wgmma_is_a_warning(void **state)
{
	struct hm_report report;

	(void)state;
	(void)hm_report_parse(
	    "ptxas info    : (C7519) Potential Performance Loss: of no harm\n"
	    "ptxas info    : (C75) not a code\n"
	    "ptxas info    : (C7510) Potential Performance Loss: "
	    "wgmma.mma_async "
	    "instructions are serialized\n"
	    "ptxas info    : (C7508) a second one\n",
	    NULL, &report);
	assert_string_equal(report.warning, "ptxas info    : (C7510) Potential "
					    "Performance Loss: wgmma.mma_async "
					    "instructions are serialized");
}

static void
test_report__c7519_alone_is_no_warning(void **state)
{
	struct hm_report report;

	(void)state;
	(void)hm_report_parse("ptxas info    : (C7519) Potential\n(C75", NULL,
	    &report);
	assert_string_equal(report.warning, "");
}

static void
test_report__many_entries_are_cut_between_names(void **state)
{
	static char log[40000];
	struct hm_report report;
	size_t n = 0;
	unsigned i = 0;

	(void)state;
	for (i = 0; i < 300; i++)
		n += (size_t)snprintf(log + n, sizeof(log) - n,
		    "ptxas info    : Compiling entry function 'kernel_%03u' "
		    "for 'sm_90a'\n",
		    i);
	assert_true(hm_report_parse(log, NULL, &report));
	assert_int_equal(report.n_entries, 300);
	assert_int_equal(strlen(report.entries) % 11, 10);
	assert_in_range(strlen(report.entries), 490, 511);
}

static void
test_report__absurd_numbers_are_survived(void **state)
{
	struct hm_report report;

	(void)state;
	assert_true(hm_report_parse(
	    "ptxas info : Compiling entry function 'k' for 'sm_90a'\n"
	    " registers\n"
	    "99999999999999999999999999 registers, 7 bytes smem\n"
	    "Compiling entry function 'unfinished\n",
	    "k", &report));
	assert_int_equal(report.registers, UINT32_MAX);
	assert_int_equal(report.smem_bytes, 7);
	assert_int_equal(report.n_entries, 1);
}

static void
test_report__first_error_of_every_speaker(void **state)
{
	static const struct {
		const char *log, *error;
	} logs[] = {
	    {"kernel.cu(1): warning #1105-D: #warning directive: careful\n"
	     "  #warning careful\n\n"
	     "kernel.cu(2): error: identifier \"x\" is undefined\n"
	     "kernel.cu(3): error: another\n",
		"kernel.cu(2): error: identifier \"x\" is undefined"},
	    {"kernel.cu(1): catastrophic error: cannot open source file "
	     "\"nope.h\"\n  #include\n",
		"kernel.cu(1): catastrophic error: cannot open source file "
		"\"nope.h\""},
	    {"ptxas application ptx input, line 26; error   : Unknown modifier "
	     "'.x'\nptxas fatal   : Ptx assembly aborted due to errors\n",
		"ptxas application ptx input, line 26; error   : Unknown "
		"modifier '.x'"},
	    {"ptxas application ptx input, line 21; fatal   : Parsing error "
	     "near '.include'\nptxas fatal   : Ptx assembly aborted due to "
	     "errors\n",
		"ptxas application ptx input, line 21; fatal   : Parsing error "
		"near '.include'"},
	    {"ptxas info    : 0 bytes gmem\nptxas error   : Entry function 'f' "
	     "uses too much shared data\nptxas fatal   : aborted\n",
		"ptxas error   : Entry function 'f' uses too much shared data"},
	    {"\nptxas fatal   : Unresolved extern function 'f'\n",
		"ptxas fatal   : Unresolved extern function 'f'"},
	    {"nvrtc: error: unrecognized option -x found\n",
		"nvrtc: error: unrecognized option -x found"},
	    {"\n\nsomething else\nmore\n", "something else"},
	    {"", ""},
	};
	size_t i = 0;

	(void)state;
	for (i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
		struct hm_errbuf error = {"before"};

		hm_report_first_error(logs[i].log, &error);
		assert_string_equal(error.text, logs[i].error);
	}
}

static void
test_report__log_tells_the_kind_of_failure(void **state)
{
	static const struct {
		const char *log;
		int error;
	} logs[] = {
	    {"nvrtc: error: invalid value for --gpu-architecture (-arch)\n",
		HM_E_UNSUPPORTED},
	    {"Command-line error: invalid or no value specified with --nv_arch "
	     "flag\n",
		HM_E_UNSUPPORTED},
	    {"kernel.cu(2): catastrophic error: out of memory\n", HM_E_NOMEM},
	    {"kernel.cu(1): error: #error directive: invalid value for "
	     "--gpu-architecture\n",
		HM_E_COMPILE},
	    {"", HM_E_COMPILE},
	};
	size_t i = 0;

	(void)state;
	for (i = 0; i < sizeof(logs) / sizeof(logs[0]); i++)
		assert_int_equal(hm_report_classify(logs[i].log, HM_E_COMPILE),
		    logs[i].error);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_report__numbers_are_those_of_the_entry),
	    cmocka_unit_test(
		test_report__called_functions_count_for_their_kernel),
	    cmocka_unit_test(test_report__no_entry_takes_the_largest),
	    cmocka_unit_test(test_report__unknown_entry_is_not_found),
	    cmocka_unit_test(test_report__serialised_wgmma_is_a_warning),
	    cmocka_unit_test(test_report__c7519_alone_is_no_warning),
	    cmocka_unit_test(test_report__many_entries_are_cut_between_names),
	    cmocka_unit_test(test_report__absurd_numbers_are_survived),
	    cmocka_unit_test(test_report__first_error_of_every_speaker),
	    cmocka_unit_test(test_report__log_tells_the_kind_of_failure),
	};

	return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
