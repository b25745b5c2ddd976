/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense_report.c - the rules of issue 4 and the three forms of a result.
 *
 * Where several classes share a line of the table ("the best of fp8 and
 * int8") the fastest of those that were measured counts. A time with PDL is
 * judged by the musts with PDL; the lower of both ways is not taken.
 */
#include "dense_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* W4A16 against cuBLAS bf16 at 8192 x 8192. */
#define RATIO_SMALL_M 3.25f /* M <= 16 */
#define RATIO_ONE     3.8f  /* M = 1 */
/* Against the library's GEMM in the same process. */
#define RATIO_MIDDLE 1.03f /* 256 < M < 4096 */
#define RATIO_REAL   1.05f /* real shapes */
/* Real shapes: over the floor where tiles fill the SMs, else of the best time
 * that others were measured at. */
#define REAL_FLOOR    1.2
#define REAL_FLOOR_US 3.0
#define REAL_RECORDED 0.9

/* ---- judging ---- */

struct judge {
	uint32_t n, n_missed;
};

/* One requirement: `got` is at most `most`. */
static void
judge_at_most(struct judge *judge, const struct dense_row *row, double got,
    double most, const char *format, ...)
{
	va_list arguments;
	char text[96];

	judge->n++;
	if (got <= most)
		return;
	judge->n_missed++;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	printf("# missed: %-13s %ux%u M=%u: %.2f us, %s %.2f\n",
	    row->class->name, row->n, row->k, row->m, got, text, most);
}

/* Is no other measured class of the same line faster at this size? */
static bool
is_best_of_line(const struct dense_rows *rows, const struct dense_row *row)
{
	for (size_t i = 0; i < rows->n; i++) {
		const struct dense_row *other = &rows->rows[i];

		if (other->config[0] == '\0' && other->pdl > 0 &&
		    other->class->limit == row->class->limit &&
		    other->n == row->n && other->k == row->k &&
		    other->m == row->m &&
		    (other->pdl < row->pdl ||
			(other->pdl <= row->pdl && other < row)))
			return false;
	}
	return true;
}

static void
judge_square(struct judge *judge, const struct dense_rows *rows,
    const struct dense_row *row)
{
	const struct dense_goals goals =
	    dense_goals(row->class->limit, row->n, row->k, row->m);
	float peer = row->peers[0];
	enum dense_limit limit = row->class->limit;

	if (goals.must <= 0 || !is_best_of_line(rows, row))
		return;
	judge_at_most(judge, row, (double)row->pdl, (double)goals.must, "must");
	if (goals.must_no_pdl > 0)
		judge_at_most(judge, row, (double)row->no_pdl,
		    (double)goals.must_no_pdl, "without PDL must");
	if (peer <= 0 || (limit != DENSE_W4A16 && limit != DENSE_W8A16 &&
			     limit != DENSE_W8A8))
		return;
	judge_at_most(judge, row, (double)row->pdl,
	    (double)(row->m > 256 && row->m < 4096 ? peer * RATIO_MIDDLE
						   : peer),
	    "%s %.2f allows", cublas_name(row->class->peers[0]), (double)peer);
	if (limit == DENSE_W4A16 && row->m <= 16)
		judge_at_most(judge, row, (double)row->pdl,
		    (double)(peer / (row->m == 1 ? RATIO_ONE : RATIO_SMALL_M)),
		    "a share of %s %.2f allows",
		    cublas_name(row->class->peers[0]), (double)peer);
}

static void
judge_real(struct judge *judge, const struct dense_rows *rows,
    const struct dense_row *row)
{
	float recorded = dense_recorded(row->class, row->n, row->k, row->m);
	float peer = row->peers[0];

	if (row->class->limit == DENSE_NO_LIMIT || !is_best_of_line(rows, row))
		return;
	if (row->tiles >= row->sms)
		judge_at_most(judge, row, (double)row->pdl,
		    REAL_FLOOR * row->floor_us + REAL_FLOOR_US,
		    "floor %.2f allows", row->floor_us);
	else if (recorded > 0)
		judge_at_most(judge, row, (double)row->pdl,
		    REAL_RECORDED * (double)recorded, "others' %.2f allows",
		    (double)recorded);
	if (peer > 0)
		judge_at_most(judge, row, (double)row->pdl,
		    (double)(peer * RATIO_REAL), "%s %.2f allows",
		    cublas_name(row->class->peers[0]), (double)peer);
}

static bool
is_square(const struct dense_row *row)
{
	return row->n == dense_shapes[0].n && row->k == dense_shapes[0].k;
}

/* ---- tables ---- */

void
dense_print_head(const struct dense_class *class, uint32_t n, uint32_t k)
{
	char format[96];

	format_describe(&class->format, format, sizeof format);
	printf("# %s (%s) %ux%u, us of one launch; behind a plain kernel; hot: "
	       "back to back; then %s%s%s\n"
	       "#    M      PDL   no PDL   behind      hot    GB/s  TFLOPS "
	       "%%floor   peer 1   peer 2    quant  must met   error  kernel\n",
	    class->name, format, n, k, cublas_name(class->peers[0]),
	    class->n_peers > 1 ? ", " : "",
	    class->n_peers > 1 ? cublas_name(class->peers[1]) : "");
}

static const char *
met_text(float us, float must)
{
	return must <= 0 ? "-" : us <= must ? "yes" : "NO";
}

void
dense_print_row(const struct dense_row *row)
{
	const struct dense_goals goals =
	    dense_goals(row->class->limit, row->n, row->k, row->m);
	double us = (double)row->pdl;

	printf("%6u %8.2f %8.2f %8.2f %8.2f %7.0f %7.1f %6.1f %8.2f %8.2f "
	       "%8.2f %5.1f %-3s %.1e%s %s\n",
	    row->m, us, (double)row->no_pdl, (double)row->behind,
	    (double)row->hot, us > 0 ? row->bytes / us * 1e-3 : 0,
	    us > 0 ? row->work / us * 1e-6 : 0,
	    us > 0 ? 100 * row->floor_us / us : 0, (double)row->peers[0],
	    (double)row->peers[1], (double)row->quant, (double)goals.must,
	    met_text(row->pdl, goals.must), row->error,
	    row->right ? "" : " WRONG", row->kernel);
}

/* One class at one shape: entries "M:us/must" or "M:us/floor". */
static void
print_line(const struct dense_rows *rows, const struct dense_class *class,
    const struct dense_shape *shape)
{
	bool any = false;

	for (size_t i = 0; i < rows->n; i++) {
		const struct dense_row *row = &rows->rows[i];
		struct dense_goals goals;

		if (row->class != class || row->n != shape->n ||
		    row->k != shape->k)
			continue;
		if (!any)
			printf("# %-13s %5ux%-5u", class->name, shape->n,
			    shape->k);
		any = true;
		goals = dense_goals(class->limit, row->n, row->k, row->m);
		printf(" %u:%.1f/%.1f%s", row->m, (double)row->pdl,
		    goals.must > 0 ? (double)goals.must : row->floor_us,
		    goals.must > 0 && row->pdl > goals.must ? "!" : "");
	}
	if (any)
		printf("\n");
}

uint32_t
dense_print_summary(const struct dense_rows *rows, uint32_t *n_out)
{
	struct judge judge = {0, 0};

	printf("# M:us with PDL/must (8192x8192), /floor (real shapes); ! = a "
	       "must of this class alone is missed\n");
	for (size_t i = 0; i < dense_n_classes * dense_n_shapes; i++)
		print_line(rows, &dense_classes[i / dense_n_shapes],
		    &dense_shapes[i % dense_n_shapes]);
	for (size_t i = 0; i < rows->n; i++) {
		const struct dense_row *row = &rows->rows[i];

		if (row->pdl <= 0 || row->config[0] != '\0')
			continue;
		if (is_square(row))
			judge_square(&judge, rows, row);
		else
			judge_real(&judge, rows, row);
	}
	*n_out = judge.n;
	return judge.n_missed;
}

/* ---- JSON ---- */

static void
write_row(FILE *stream, const struct dense_row *row)
{
	const struct dense_goals goals =
	    dense_goals(row->class->limit, row->n, row->k, row->m);
	double us = (double)row->pdl;

	fprintf(stream,
	    "  {\"class\": \"%s\", \"n\": %u, \"k\": %u, \"m\": %u, "
	    "\"config\": \"%s\", \"kernel\": \"%s\",\n   \"pdl_us\": %.3f, "
	    "\"no_pdl_us\": %.3f, \"behind_plain_us\": %.3f, "
	    "\"back_to_back_us\": %.3f, \"quant_us\": %.3f,\n"
	    "   \"gb_per_s\": %.1f, \"tflops\": %.2f, \"floor_us\": %.3f, "
	    "\"percent_of_floor\": %.2f,\n",
	    row->class->name, row->n, row->k, row->m, row->config, row->kernel,
	    us, (double)row->no_pdl, (double)row->behind, (double)row->hot,
	    (double)row->quant, us > 0 ? row->bytes / us * 1e-3 : 0,
	    us > 0 ? row->work / us * 1e-6 : 0, row->floor_us,
	    us > 0 ? 100 * row->floor_us / us : 0);
	for (uint32_t i = 0; i < row->class->n_peers; i++)
		fprintf(stream, "%s\"%s us\": %.3f, ", i == 0 ? "   " : "",
		    cublas_name(row->class->peers[i]), (double)row->peers[i]);
	fprintf(stream,
	    "\"recorded_us\": %.1f, \"goal_us\": %.1f, \"must_us\": %.1f,\n"
	    "   \"error\": %.3e, \"bound\": %.1e, \"right\": %s}",
	    (double)dense_recorded(row->class, row->n, row->k, row->m),
	    (double)goals.goal, (double)goals.must, row->error, row->bound,
	    row->right ? "true" : "false");
}

bool
dense_write_json(const struct dense_rows *rows, const char *path)
{
	FILE *stream = fopen(path, "w");
	bool good = stream != NULL;

	if (!good)
		return false;
	fprintf(stream, "{\"rows\": [\n");
	for (size_t i = 0; i < rows->n; i++) {
		write_row(stream, &rows->rows[i]);
		fprintf(stream, "%s\n", i + 1 < rows->n ? "," : "");
	}
	fprintf(stream, "]}\n");
	good = ferror(stream) == 0;
	return fclose(stream) == 0 && good;
}
