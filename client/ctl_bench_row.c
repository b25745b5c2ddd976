/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_bench_row.c - samples, rows, and how they are printed.
 */
#include "client/ctl_bench.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl_row.h"
#include "client/ctl_table.h"

int
hm_bench_samples_init(struct hm_bench_samples *samples, size_t n_room)
{
	memset(samples, 0, sizeof *samples);
	samples->ns = calloc(n_room, sizeof *samples->ns);
	if (samples->ns == NULL)
		return HM_E_NOMEM;
	samples->n_room = n_room;
	return HM_OK;
}

void
hm_bench_samples_done(struct hm_bench_samples *samples)
{
	free(samples->ns);
	memset(samples, 0, sizeof *samples);
}

void
hm_bench_samples_clear(struct hm_bench_samples *samples)
{
	samples->n = 0;
	samples->sum_ns = 0;
	samples->n_all = 0;
}

void
hm_bench_samples_add(struct hm_bench_samples *samples, int64_t ns)
{
	if (ns < 0)
		ns = 0;
	if (samples->n < samples->n_room)
		samples->ns[samples->n++] =
		    ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
	samples->sum_ns += (uint64_t)ns;
	samples->n_all++;
}

static int
row_compare(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a;
	uint32_t right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

double
hm_bench_samples_p50_us(struct hm_bench_samples *samples)
{
	const size_t middle = samples->n / 2;

	if (samples->n == 0)
		return 0.0;
	qsort(samples->ns, samples->n, sizeof *samples->ns, row_compare);
	return (double)samples->ns[middle] / 1000.0;
}

double
hm_bench_samples_per_s(const struct hm_bench_samples *samples)
{
	if (samples->sum_ns == 0)
		return 0.0;
	return (double)samples->n_all * 1e9 / (double)samples->sum_ns;
}

struct hm_bench_row *
hm_bench_row_new(struct hm_bench *bench, const char *name)
{
	struct hm_bench_row *row = &bench->rows[bench->n_rows++];

	memset(row, 0, sizeof *row);
	row->name = name;
	return row;
}

void
hm_bench_row_extra(struct hm_bench_row *row, const char *name, double value)
{
	row->extras[row->n_extras++] = (struct hm_bench_extra){name, value};
}

static void
row_judge(struct hm_bench_row *row, const char *relation, double limit,
    double excess, const char *unit)
{
	(void)snprintf(row->target, sizeof row->target, "%s %g%s", relation,
	    limit, unit);
	if (excess <= 0.0)
		(void)snprintf(row->verdict, sizeof row->verdict, "met");
	else
		(void)snprintf(row->verdict, sizeof row->verdict,
		    "missed by %.3g%s", excess, unit);
}

void
hm_bench_row_at_most(struct hm_bench_row *row, double value, double limit,
    const char *unit)
{
	row_judge(row, "<=", limit, value - limit, unit);
}

void
hm_bench_row_at_least(struct hm_bench_row *row, double value, double limit,
    const char *unit)
{
	row_judge(row, ">=", limit, limit - value, unit);
}

static json_t *
row_json(const struct hm_bench_row *row)
{
	json_t *object;

	object = json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:s, s:s}", "name",
	    row->name, "p50_us", row->p50_us, "per_s", row->per_s,
	    "bare_p50_us", row->bare_p50_us, "bare_per_s", row->bare_per_s,
	    "ratio", row->ratio, "target", row->target, "verdict",
	    row->verdict);
	for (size_t i = 0; object != NULL && i < row->n_extras; i++)
		(void)json_object_set_new(object, row->extras[i].name,
		    json_real(row->extras[i].value));
	return object;
}

static int
row_print_json(const struct hm_bench *bench)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < bench->n_rows; i++) {
		if (json_array_append_new(rows, row_json(&bench->rows[i])) !=
		    0) {
			json_decref(rows);
			return HM_E_NOMEM;
		}
	}
	return hm_ctl_json_print(json_pack("{s:o}", "rows", rows));
}

/* "inline20k: bytes 21344, checksum_p50_us 1.9" below the table. */
static void
row_print_extras(const struct hm_bench_row *row)
{
	if (row->n_extras == 0)
		return;
	(void)printf("%s:", row->name);
	for (size_t i = 0; i < row->n_extras; i++)
		(void)printf("%s %s %.6g", i == 0 ? "" : ",",
		    row->extras[i].name, row->extras[i].value);
	(void)putchar('\n');
}

static void
row_print_table(const struct hm_bench *bench)
{
	static const char *const titles[] = {"NAME", "P50 US", "BARE P50 US",
	    "RATIO", "PER S", "BARE PER S", "TARGET", "VERDICT"};
	const size_t n = sizeof titles / sizeof titles[0];
	struct hm_ctl_table table;

	hm_ctl_table_init(&table, n);
	for (size_t i = 0; i < n; i++)
		hm_ctl_table_add(&table, "%s", titles[i]);
	for (size_t i = 0; i < bench->n_rows; i++) {
		const struct hm_bench_row *row = &bench->rows[i];

		hm_ctl_table_add(&table, "%s", row->name);
		hm_ctl_table_add(&table, "%.1f", row->p50_us);
		hm_ctl_table_add(&table, "%.1f", row->bare_p50_us);
		hm_ctl_table_add(&table, "%.2f", row->ratio);
		hm_ctl_table_add(&table, "%.0f", row->per_s);
		hm_ctl_table_add(&table, "%.0f", row->bare_per_s);
		hm_ctl_table_add(&table, "%s", row->target);
		hm_ctl_table_add(&table, "%s", row->verdict);
	}
	hm_ctl_table_print(&table, stdout);
	hm_ctl_table_done(&table);
	for (size_t i = 0; i < bench->n_rows; i++)
		row_print_extras(&bench->rows[i]);
}

int
hm_bench_print(const struct hm_bench *bench)
{
	if (!bench->ctl->json)
		row_print_table(bench);
	else if (row_print_json(bench) != HM_OK)
		return hm_ctl_fail(bench->ctl, "out of memory");
	return HM_CTL_OK;
}
