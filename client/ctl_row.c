/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_row.c - see ctl_row.h.
 */
#include "client/ctl_row.h"

#include "proto/error.h"

/* Enough for microseconds in milliseconds; more only prints noise. */
#define REAL_DIGITS 9

static void
row_info(const struct humming_kernel *kernel, struct humming_kernel_info *info)
{
	info->struct_size = sizeof *info;
	(void)humming_kernel_get_info(kernel, info);
}

json_t *
hm_ctl_row_json(const struct humming_kernel *kernel)
{
	struct humming_kernel_info info;

	row_info(kernel, &info);
	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:f, "
			 "s:I, s:s}",
	    "key", info.key, "spec", info.spec, "arch", info.arch, "tier",
	    info.tier, "bytes", (json_int_t)info.image_bytes, "entry",
	    info.entry, "registers", (json_int_t)info.registers, "spill_bytes",
	    (json_int_t)info.spill_bytes, "smem_bytes",
	    (json_int_t)info.smem_bytes, "compile_ms",
	    (double)info.compile_us / 1000.0, "wait_us",
	    (json_int_t)info.wait_us, "compiler", info.compiler);
}

void
hm_ctl_row_titles(struct hm_ctl_table *table)
{
	static const char *const titles[] = {"spec", "arch", "tier", "bytes",
	    "registers", "compile ms", "wait us", "key"};

	hm_ctl_table_init(table, sizeof titles / sizeof titles[0]);
	for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++)
		hm_ctl_table_add(table, "%s", titles[i]);
}

void
hm_ctl_row_add(struct hm_ctl_table *table, const struct humming_kernel *kernel)
{
	struct humming_kernel_info info;

	row_info(kernel, &info);
	hm_ctl_table_add(table, "%s", info.spec);
	hm_ctl_table_add(table, "%s", info.arch);
	hm_ctl_table_add(table, "%s", info.tier);
	hm_ctl_table_add(table, "%u", info.image_bytes);
	hm_ctl_table_add(table, "%u", info.registers);
	hm_ctl_table_add(table, "%.1f", (double)info.compile_us / 1000.0);
	hm_ctl_table_add(table, "%u", info.wait_us);
	hm_ctl_table_add(table, "%.12s", info.key);
}

void
hm_ctl_row_print(const struct humming_kernel *kernel)
{
	struct humming_kernel_info info;

	row_info(kernel, &info);
	(void)printf("%s%s%s: %s from %s, %u bytes, %u registers, %u bytes "
		     "spilled, compiled in %.1f ms, waited %u us, key %s\n",
	    info.spec, info.spec[0] != '\0' ? " for " : "", info.arch,
	    info.entry, info.tier, info.image_bytes, info.registers,
	    info.spill_bytes, (double)info.compile_us / 1000.0, info.wait_us,
	    info.key);
}

int
hm_ctl_json_print(json_t *json)
{
	int error = HM_OK;

	if (json == NULL)
		return HM_E_NOMEM;
	if (json_dumpf(json, stdout,
		JSON_INDENT(2) | JSON_REAL_PRECISION(REAL_DIGITS)) == 0)
		(void)putchar('\n');
	else if (ferror(stdout) == 0)
		error = HM_E_NOMEM;
	json_decref(json);
	return error;
}
