/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_elf.c - a cubin as a worker gives it, after it has read a stranger's
 * source.
 *
 * Promises: no byte outside the image is read, and a name that stands nowhere
 * in the image is never found in it.
 */
#include "fuzz.h"
#include "jit/job.h"

void
fuzz_one(const uint8_t *data, size_t size)
{
	static const struct hm_target targets[] = {{.cc = 80},
	    {.cc = 90, .suffix = 'a'}, {.cc = 100, .suffix = 'f'}};

	for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
		(void)hm_elf_check(data, size, &targets[i], "k", NULL);
		(void)hm_elf_check(data, size, &targets[i], NULL, NULL);
		fuzz_require(hm_elf_check(data, size, &targets[i],
				 "a_name_that_no_seed_has", NULL) != HM_OK);
	}
}
