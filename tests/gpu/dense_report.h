/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense_report.h - what bench_dense measured, judged and printed.
 */
#ifndef HM_TESTS_GPU_DENSE_REPORT_H
#define HM_TESTS_GPU_DENSE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dense_class.h"

struct dense_row {
	const struct dense_class *class;
	uint32_t n, k, m;
	const char *config; /* as given by --config; "" = the plan's own */
	/* us of one launch; 0 = not measured */
	float pdl, no_pdl;
	float behind; /* behind a plain kernel, without that kernel's time */
	float hot;    /* with PDL, without pauses */
	float peers[DENSE_MAX_PEERS];
	float quant; /* the quantization of its activations, alone */
	double bytes, work, floor_us;
	double error, bound; /* |C - ref| / |ref| after the timing */
	bool right;          /* within it, and nothing unwritten */
	uint32_t tiles;      /* that the launch has */
	uint32_t sms;
	char kernel[160];
};

struct dense_rows {
	struct dense_row *rows; /* owned */
	size_t n;
};

/* One row, and what its columns are. */
void dense_print_head(const struct dense_class *class, uint32_t n, uint32_t k);
void dense_print_row(const struct dense_row *row);

/**
 * Judge all rows against the table and rules and print, for every class,
 * a line per shape with one entry per M and each requirement that is missed.
 *
 * Returns how many requirements are missed; how many there are in n_out.
 */
uint32_t dense_print_summary(const struct dense_rows *rows, uint32_t *n_out);

/* All rows as JSON. False when the file cannot be written. */
bool dense_write_json(const struct dense_rows *rows, const char *path);

#endif
