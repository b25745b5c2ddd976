/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_source.c - the embedded table is what kernels/ holds, and a closure is
 * exactly what an entry includes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "jit/source.h"
#include "proto/digest.h"

static void
test_source__table_is_sorted_terminated_and_digested(void **state)
{
	(void)state;
	assert_true(hm_source_count() > 0);
	for (size_t i = 0; i < hm_source_count(); i++) {
		const struct hm_source *source = hm_source_at(i);
		char hex[HM_DIGEST_HEX_CHARS + 1];
		struct hm_digest digest;

		assert_int_equal(strlen(source->text), source->n_text);
		hm_digest_compute(source->text, source->n_text, &digest);
		hm_digest_to_hex(&digest, hex);
		assert_string_equal(source->sha256, hex);
		if (i > 0)
			assert_true(strcmp(hm_source_at(i - 1)->name,
					source->name) < 0);
	}
	assert_null(hm_source_at(hm_source_count()));
}

static void
test_source__table_holds_the_files_byte_for_byte(void **state)
{
	static char text[1 << 20];

	(void)state;
	for (size_t i = 0; i < hm_source_count(); i++) {
		const struct hm_source *source = hm_source_at(i);
		char path[512];
		FILE *file;
		size_t n;

		(void)snprintf(path, sizeof(path), "%s/../../kernels/%s",
		    HM_TEST_DATA, source->name);
		file = fopen(path, "re");
		assert_non_null(file);
		n = fread(text, 1, sizeof(text), file);
		(void)fclose(file);
		assert_int_equal(n, source->n_text);
		assert_memory_equal(text, source->text, n);
	}
}

static bool
holds(const struct hm_source *const *files, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(files[i]->name, name) == 0)
			return true;
	}
	return false;
}

static void
test_source__entries_close_over_what_they_include(void **state)
{
	static const char *const entries[] = {"gemm_stream.cu", "gemm_wgmma.cu",
	    "gemm_mma.cu"};
	const struct hm_source *files[HM_SOURCE_MAX_CLOSURE];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		size_t n = 0;

		assert_int_equal(hm_source_closure(entries[i], files, &n),
		    HM_OK);
		for (size_t j = 0; j < 3; j++)
			assert_int_equal(holds(files, n, entries[j]), i == j);
		assert_true(holds(files, n, "prelude.cuh"));
		assert_true(holds(files, n, "dequant.cuh"));
		for (size_t j = 1; j < n; j++)
			assert_true(
			    strcmp(files[j - 1]->name, files[j]->name) < 0);
	}
}

#define FILE_OF(name, text)                                                    \
	{                                                                      \
		name, text, sizeof(text) - 1, ""                               \
	}

static void
test_source__closure_follows_includes_of_includes_once(void **state)
{
	static const struct hm_source table[] = {
	    FILE_OF("a.cuh", "#include \"config.h\"\nint a;\n"),
	    FILE_OF("b.cuh", "# include \"a.cuh\"\n#include \"c.cuh\"\n"),
	    FILE_OF("c.cuh", "#include \"b.cuh\" // a circle\n"),
	    FILE_OF("d.cuh", "int d; /* nobody's */"),
	    FILE_OF("x.cu", "int x;\n\t#\tinclude \"c.cuh\"\n"
			    "  #include \"wgmma_shape.h\"\n"
			    "const char *s = \"#include \\\"d.cuh\\\"\";\n"
			    "#include \"a.cuh\""),
	};
	const struct hm_source *files[HM_SOURCE_MAX_CLOSURE];
	size_t n = 0;

	(void)state;
	assert_int_equal(hm_source_closure_of(table, 5, "x.cu", files, &n),
	    HM_OK);
	assert_int_equal(n, 4);
	assert_ptr_equal(files[0], &table[0]);
	assert_ptr_equal(files[1], &table[1]);
	assert_ptr_equal(files[2], &table[2]);
	assert_ptr_equal(files[3], &table[4]);
	assert_int_equal(hm_source_closure_of(table, 5, "a.cuh", files, &n),
	    HM_OK);
	assert_int_equal(n, 1);
}

static void
test_source__closure_names_what_is_missing(void **state)
{
	static const struct hm_source table[] = {
	    FILE_OF("x.cu", "#include \"y.cuh\"\n"),
	    FILE_OF("y.cuh", "#include \"nowhere.cuh\"\n"),
	};
	const struct hm_source *files[HM_SOURCE_MAX_CLOSURE];
	size_t n = 77;

	(void)state;
	assert_int_equal(hm_source_closure_of(table, 2, "x.cu", files, &n),
	    HM_E_INTERNAL);
	assert_int_equal(hm_source_closure_of(table, 2, "z.cu", files, &n),
	    HM_E_INVALID);
	assert_int_equal(n, 77);
}

/* 40 files, each including the next: more than a closure holds. */
static void
test_source__closure_is_bounded(void **state)
{
	static char names[40][32], texts[40][48];
	struct hm_source table[40];
	const struct hm_source *files[HM_SOURCE_MAX_CLOSURE];
	size_t n = 0;

	(void)state;
	for (int i = 0; i < 40; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "f%02d.cuh", i);
		(void)snprintf(texts[i], sizeof(texts[i]),
		    i < 39 ? "#include \"f%02d.cuh\"\n" : "int i%d;\n", i + 1);
		table[i] = (struct hm_source){names[i], texts[i],
		    strlen(texts[i]), ""};
	}
	assert_int_equal(hm_source_closure_of(table, 40, "f00.cuh", files, &n),
	    HM_E_INTERNAL);
	assert_int_equal(hm_source_closure_of(table, 40, "f08.cuh", files, &n),
	    HM_OK);
	assert_int_equal(n, 32);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_source__table_is_sorted_terminated_and_digested),
	    cmocka_unit_test(test_source__table_holds_the_files_byte_for_byte),
	    cmocka_unit_test(test_source__entries_close_over_what_they_include),
	    cmocka_unit_test(
		test_source__closure_follows_includes_of_includes_once),
	    cmocka_unit_test(test_source__closure_names_what_is_missing),
	    cmocka_unit_test(test_source__closure_is_bounded),
	};

	return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
