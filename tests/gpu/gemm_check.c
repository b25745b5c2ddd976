/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_check.c - are the kernels right on the GPU of this machine?
 *
 *     gemm_check [--seconds S] [--thin] [--compile-only] [SECTION...]
 *
 * TAP on stdout. --thin: of the formats beyond W4A16 a third of the members and
 * fewer shapes, in half the time. Sections (default: all, in this order):
 *
 *     reference  the GPU's double-precision reference against the CPU's
 *     cases      the rows of CASES.md that these types cover
 *     pack       the packing kernel against the CPU's packer, byte for byte
 *     quant      the quantization of activations against the CPU's
 *     plan       every format, odd shapes, every M: what the plan chooses
 *     tiles      every member of the family at the edges of its tile, with
 *                every kind of launch argument
 *     exact      integer problems, bit for bit
 *     repeat     20 runs, the same bits
 *     split      the last tiles shared along K: bounds, and 20 runs
 *     batch      det=1: a token's bits do not depend on M
 *     chain      dependent GEMMs in a captured graph, with PDL
 *     generic    kernel G built for plain sm_90
 *     ptx        kernel G built as compute_80 PTX, finished by the driver
 *     large      8192 x 8192 and a layer of Qwen3-32B
 *
 * and, only when named, for compute-sanitizer:
 *
 *     sanitize   every member once or twice on a small problem
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "sections.h"
#include "session.h"

static const struct section {
	const char *name;
	void (*function)(struct session *session);
	bool only_named;
} sections[] = {
    {"reference", section_reference, false},
    {"cases", section_cases, false},
    {"pack", section_pack, false},
    {"quant", section_quant, false},
    {"plan", section_plan, false},
    {"tiles", section_tiles, false},
    {"exact", section_exact, false},
    {"repeat", section_repeat, false},
    {"split", section_split, false},
    {"batch", section_batch, false},
    {"chain", section_chain, false},
    {"generic", section_generic, false},
    {"ptx", section_ptx, false},
    {"large", section_large, false},
    {"sanitize", section_sanitize, true},
};

struct arguments {
	double seconds;
	bool compile_only, thin;
	bool chosen[COUNT(sections)];
};

static bool
arguments_choose(struct arguments *arguments, const char *name)
{
	for (size_t i = 0; i < COUNT(sections); i++) {
		if (strcmp(name, sections[i].name) != 0)
			continue;
		arguments->chosen[i] = true;
		return true;
	}
	return false;
}

static bool
arguments_read(struct arguments *arguments, int argc, char **argv)
{
	bool any = false;

	memset(arguments, 0, sizeof *arguments);
	arguments->seconds = 3600;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--compile-only") == 0)
			arguments->compile_only = true;
		else if (strcmp(argv[i], "--thin") == 0)
			arguments->thin = true;
		else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
			arguments->seconds = strtod(argv[++i], NULL);
		else if (arguments_choose(arguments, argv[i]))
			any = true;
		else
			return false;
	}
	for (size_t i = 0; !any && i < COUNT(sections); i++)
		arguments->chosen[i] = !sections[i].only_named;
	return true;
}

/* Kernels whose build is not clean: spills, or a broken wgmma pipeline. */
static void
print_warnings(void)
{
	char text[128];

	for (size_t i = 0; i < kernels_count(); i++) {
		const struct kernel *kernel = kernels_at(i);

		if (kernel->report.warning[0] == '\0')
			continue;
		kernels_describe(&kernel->config, text, sizeof text);
		printf("# warning: %s %s: %s\n", text, kernel->target,
		    kernel->report.warning);
	}
}

static void
run_section(struct session *session, const struct section *section)
{
	uint32_t n_before = session->n_tests;
	double begin = kernels_seconds();

	section->function(session);
	printf("# section %s: %u tests in %.1f s\n", section->name,
	    session->n_tests - n_before, kernels_seconds() - begin);
}

int
main(int argc, char **argv)
{
	struct arguments arguments;
	struct session session;
	uint32_t n_failed = 0;

	if (!arguments_read(&arguments, argc, argv)) {
		fprintf(stderr,
		    "gemm_check: usage: gemm_check [--seconds S] [--thin] "
		    "[--compile-only] [reference|cases|pack|quant|plan|tiles|"
		    "exact|repeat|split|batch|chain|generic|ptx|large|"
		    "sanitize]...\n");
		return 2;
	}
	if (!session_open(&session, arguments.compile_only, arguments.seconds))
		return 0;
	session.thin = arguments.thin;
	session.wanting = true;
	for (size_t i = 0; i < COUNT(sections); i++)
		if (arguments.chosen[i])
			sections[i].function(&session);
	session.wanting = false;
	n_failed = kernels_build(session.driver, session.info.smem_bytes);
	print_warnings();
	session_result(&session, n_failed == 0, "every kernel compiles");
	for (size_t i = 0; !arguments.compile_only && i < COUNT(sections); i++)
		if (arguments.chosen[i])
			run_section(&session, &sections[i]);
	session_end(&session);
}
