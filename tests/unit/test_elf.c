/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_elf.c - real cubins pass for their own target only, and no damage makes
 * the check read outside the image (run under the address sanitizer).
 */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jit/job.h"
#include "jit/spec.h"
#include "spawned_worker.h"

#define ENTRY       "hm_entry"
#define N_MUTATIONS 20000u

static const char source[] =
    "__device__ __noinline__ int helper(int x) { return x * x + 1; }\n"
    "extern \"C\" __global__ void hm_entry(int *p)\n"
    "{\n"
    "\textern __shared__ int s[];\n"
    "\ts[threadIdx.x] = helper(p[0]);\n"
    "\tp[1] = s[p[2]];\n"
    "}\n";

static const char *const archs[] = {"sm_80", "sm_86", "sm_89", "sm_90",
    "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_120", "sm_120a", "sm_120f"};
#define N_ARCHS (sizeof(archs) / sizeof(archs[0]))

/* One cubin per architecture that the NVRTC of this machine knows. */
static struct spawned_job cubins[N_ARCHS];

/* The cubin of sm_90a, which every NVRTC that we take can make. */
static const uint8_t *image;
static size_t n_image;
static const struct hm_target sm_90a = {.cc = 90, .suffix = 'a'};

static int
make_cubins(void **state)
{
	static struct spawned_worker worker;
	size_t i = 0;

	(void)state;
	spawned_worker_start(&worker, NULL);
	for (i = 0; i < N_ARCHS; i++) {
		cubins[i].arch = archs[i];
		cubins[i].source = source;
		spawned_worker_compile(&worker, &cubins[i]);
		assert_true(cubins[i].answered);
		if (cubins[i].result.error == HM_E_UNSUPPORTED)
			continue;
		assert_int_equal(cubins[i].result.error, HM_OK);
		if (strcmp(archs[i], "sm_90a") == 0) {
			image = cubins[i].image;
			n_image = cubins[i].result.image_bytes;
		}
	}
	spawned_worker_stop(&worker);
	assert_non_null(image);
	return 0;
}

static int
free_cubins(void **state)
{
	size_t i = 0;

	(void)state;
	for (i = 0; i < N_ARCHS; i++)
		spawned_job_done(&cubins[i]);
	return 0;
}

static int
check(const void *bytes, size_t n_bytes)
{
	struct hm_errbuf errbuf = {""};
	const int error = hm_elf_check(bytes, n_bytes, &sm_90a, ENTRY, &errbuf);

	if (error != HM_OK) {
		assert_int_equal(error, HM_E_CORRUPT);
		assert_string_not_equal(errbuf.text, "");
	}
	return error;
}

/* A copy in a block of exactly its size, so that one byte over is seen. */
static uint8_t *
copy_image(size_t n_bytes)
{
	uint8_t *copy = malloc(n_bytes == 0 ? 1 : n_bytes);

	assert_non_null(copy);
	memcpy(copy, image, n_bytes);
	return copy;
}

static void
test_elf__cubin_passes_for_its_own_target_only(void **state)
{
	struct hm_target target;
	unsigned n_tried = 0;
	size_t i = 0;
	size_t j = 0;

	(void)state;
	for (i = 0; i < N_ARCHS; i++) {
		if (cubins[i].result.error != HM_OK)
			continue;
		for (j = 0; j < N_ARCHS; j++) {
			assert_int_equal(
			    hm_target_parse(archs[j], &target, NULL), HM_OK);
			assert_int_equal(hm_elf_check(cubins[i].image,
					     cubins[i].result.image_bytes,
					     &target, ENTRY, NULL),
			    i == j ? HM_OK : HM_E_CORRUPT);
			n_tried++;
		}
	}
	assert_in_range(n_tried, 8 * N_ARCHS, N_ARCHS * N_ARCHS);
}

static void
test_elf__refusal_names_the_target(void **state)
{
	const struct hm_target target = {.cc = 80};
	struct hm_errbuf errbuf = {""};

	(void)state;
	assert_int_equal(hm_elf_check(image, n_image, &target, ENTRY, &errbuf),
	    HM_E_CORRUPT);
	assert_non_null(strstr(errbuf.text, "sm_80"));
}

static void
test_elf__entry_is_a_kernel_of_that_whole_name(void **state)
{
	static const char *const wrong[] = {"", "hm_entr", "hm_entry2",
	    "helper", "_Z6helperi", "$hm_entry$_Z6helperi"};
	struct hm_errbuf errbuf = {""};
	size_t i = 0;

	(void)state;
	assert_int_equal(hm_elf_check(image, n_image, &sm_90a, NULL, &errbuf),
	    HM_OK);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(
		    hm_elf_check(image, n_image, &sm_90a, wrong[i], &errbuf),
		    HM_E_CORRUPT);
	assert_non_null(strstr(errbuf.text, "_Z6helperi"));
}

/* The layout that NVRTC 12.8 gives up to sm_90a, from a newer cubin. */
static void
test_elf__older_layout_is_read_too(void **state)
{
	static const uint32_t flags[] = {0x5a0d5a, 0x5a055a, 0x500550};
	static const int wanted[] = {HM_OK, HM_E_CORRUPT, HM_E_CORRUPT};
	static const char name[] = ".note.nv.tkinfo";
	uint8_t *copy = copy_image(n_image);
	uint8_t *note = NULL;
	Elf64_Ehdr header;
	size_t i = 0;

	(void)state;
	note = memmem(copy, n_image, name, sizeof(name));
	if (note != NULL)
		note[1] = 'x'; /* 12.8 has no such note there */
	for (i = 0; i < 3; i++) {
		memcpy(&header, copy, sizeof(header));
		header.e_ident[EI_OSABI] = 0x33;
		header.e_ident[EI_ABIVERSION] = 7;
		header.e_flags = flags[i];
		memcpy(copy, &header, sizeof(header));
		assert_int_equal(check(copy, n_image), wanted[i]);
	}
	free(copy);
}

static void
test_elf__other_elf_is_refused(void **state)
{
	static const size_t offsets[] = {0, EI_CLASS, EI_DATA, EI_OSABI,
	    offsetof(Elf64_Ehdr, e_machine), offsetof(Elf64_Ehdr, e_ehsize),
	    offsetof(Elf64_Ehdr, e_shentsize),
	    offsetof(Elf64_Ehdr, e_phentsize)};
	uint8_t *copy = copy_image(n_image);
	size_t i = 0;

	(void)state;
	for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		copy[offsets[i]] ^= 0x11;
		assert_int_equal(check(copy, n_image), HM_E_CORRUPT);
		copy[offsets[i]] ^= 0x11;
	}
	assert_int_equal(check(copy, n_image), HM_OK);
	/* Both places where a layout may have its SM. */
	copy[offsetof(Elf64_Ehdr, e_flags)] = 80;
	copy[offsetof(Elf64_Ehdr, e_flags) + 1] = 80;
	assert_int_equal(check(copy, n_image), HM_E_CORRUPT);
	free(copy);
	assert_int_equal(check(NULL, 0), HM_E_CORRUPT);
}

static void
test_elf__every_truncation_is_refused(void **state)
{
	size_t n = 0;

	(void)state;
	for (n = 0; n < n_image; n++) {
		uint8_t *copy = copy_image(n);

		assert_int_equal(check(copy, n), HM_E_CORRUPT);
		free(copy);
	}
}

/* Put a value over one field of the header or of every section header. */
static void
expect_survival(size_t offset, size_t n_field, uint64_t value)
{
	Elf64_Ehdr header;
	uint8_t *copy = copy_image(n_image);
	size_t i = 0;

	memcpy(copy + offset, &value, n_field);
	(void)check(copy, n_image);
	memcpy(copy, image, n_image);
	memcpy(&header, image, sizeof(header));
	for (i = 0; i < header.e_shnum; i++) {
		uint8_t *section = copy + header.e_shoff + i * 64;

		if (offset + n_field <= 64)
			memcpy(section + offset, &value, n_field);
		(void)check(copy, n_image);
		memcpy(copy, image, n_image);
	}
	free(copy);
}

static void
test_elf__extreme_fields_are_survived(void **state)
{
	static const uint64_t values[] = {0, 1, 0x7fffffff, 0xffffffff,
	    0xffffffffffffffc0, 0xffffffffffffffff, 0x8000000000000000};
	size_t offset = 0;
	size_t i = 0;

	(void)state;
	for (offset = 0; offset < 64; offset += 4) {
		for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			if (offset % 8 == 0)
				expect_survival(offset, 8, values[i]);
			expect_survival(offset, 4, values[i]);
			expect_survival(offset, 2, values[i]);
		}
	}
}

static uint32_t
next_random(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

/* Half of the damage goes where the check reads: headers and tables. */
static void
test_elf__random_damage_is_survived(void **state)
{
	uint32_t seed = 0x2545f491;
	uint8_t *copy = copy_image(n_image);
	Elf64_Ehdr header;
	unsigned n_refused = 0;
	unsigned i = 0;

	(void)state;
	memcpy(&header, image, sizeof(header));
	for (i = 0; i < N_MUTATIONS; i++) {
		unsigned n_bytes = 1 + next_random(&seed) % 8;

		while (n_bytes-- > 0) {
			size_t at = next_random(&seed) % n_image;

			if (next_random(&seed) % 2 == 0)
				at = (header.e_shoff +
					 next_random(&seed) %
					     (64u * header.e_shnum)) %
				     n_image;
			copy[at] = (uint8_t)next_random(&seed);
		}
		n_refused += check(copy, n_image) != HM_OK;
		memcpy(copy, image, n_image);
	}
	free(copy);
	assert_in_range(n_refused, N_MUTATIONS / 10, N_MUTATIONS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_elf__cubin_passes_for_its_own_target_only),
	    cmocka_unit_test(test_elf__refusal_names_the_target),
	    cmocka_unit_test(test_elf__entry_is_a_kernel_of_that_whole_name),
	    cmocka_unit_test(test_elf__older_layout_is_read_too),
	    cmocka_unit_test(test_elf__other_elf_is_refused),
	    cmocka_unit_test(test_elf__every_truncation_is_refused),
	    cmocka_unit_test(test_elf__extreme_fields_are_survived),
	    cmocka_unit_test(test_elf__random_damage_is_survived),
	};

	return cmocka_run_group_tests_name("elf", tests, make_cubins,
	    free_cubins);
}
