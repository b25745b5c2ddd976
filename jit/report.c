/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.c - what the compiler's log says about a kernel.
 *
 * A kernel's part of the log, NVRTC 12.8 to 13.5:
 *
 *   ptxas info    : Compiling entry function 'NAME' for 'sm_90a'
 *   ptxas info    : Function properties for NAME
 *   ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes ...
 *   ptxas info    : Used 14 registers, used 1 barriers, 256 bytes smem
 *   ptxas info    : Function properties for _Z1fi      <- called, not inlined
 *
 * It lasts until the next "Compiling entry function"; spills of functions that
 * the kernel calls are the kernel's.
 */
#include "jit/report.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* A line of the log: borrowed, without its newline. */
struct report_line {
	const char *text;
	size_t n_text;
};

/* False at the end of the text. */
static bool
report_next_line(const char **at, struct report_line *line_out)
{
	if (**at == 0)
		return false;
	line_out->text = *at;
	line_out->n_text = strcspn(*at, "\n");
	*at += line_out->n_text;
	if (**at == '\n')
		(*at)++;
	return true;
}

static const char *
report_find(const struct report_line *line, const char *text)
{
	return memmem(line->text, line->n_text, text, strlen(text));
}

/* The decimal number that ends right before text; 0 when there is none. */
static uint32_t
report_number_before(const struct report_line *line, const char *text)
{
	const char *end = report_find(line, text);
	const char *at = end;
	uint32_t value = 0;

	if (end == NULL)
		return 0;
	while (at > line->text && isdigit((unsigned char)at[-1]))
		at--;
	for (; at < end; at++) {
		if (value > UINT32_MAX / 10 - 1)
			return UINT32_MAX;
		value = value * 10 + (uint32_t)(*at - '0');
	}
	return value;
}

static void
report_add_entry(struct hm_report *report, const char *name, size_t n_name)
{
	const size_t n_held = strlen(report->entries);
	const char *comma = n_held == 0 ? "" : ",";

	report->n_entries++;
	if (n_held + strlen(comma) + n_name < sizeof(report->entries))
		(void)snprintf(report->entries + n_held,
		    sizeof(report->entries) - n_held, "%s%.*s", comma,
		    (int)n_name, name);
}

/* The name between the quotes of "Compiling entry function 'NAME'". */
static bool
report_entry_of(const struct report_line *line, struct report_line *name_out)
{
	static const char words[] = "Compiling entry function '";
	const char *name = report_find(line, words);
	const char *end = NULL;

	if (name == NULL)
		return false;
	name += sizeof(words) - 1;
	end = memchr(name, '\'', (size_t)(line->text + line->n_text - name));
	if (end == NULL)
		return false;
	name_out->text = name;
	name_out->n_text = (size_t)(end - name);
	return true;
}

/*
 * C7519 tells of a wgmma that waits for registers, which our kernels do on
 * purpose; the rest of C75xx means that the pipeline was serialised.
 */
static bool
report_is_slow(const struct report_line *line)
{
	const char *code = report_find(line, "(C75");

	return code != NULL &&
	       (size_t)(line->text + line->n_text - code) >= 7 &&
	       isdigit((unsigned char)code[4]) &&
	       isdigit((unsigned char)code[5]) && code[6] == ')' &&
	       strncmp(code, "(C7519)", 7) != 0;
}

static uint32_t
report_max(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* The numbers of one entry go into the report's, which hold the maxima. */
static void
report_merge(struct hm_report *report, const struct hm_report *one)
{
	report->registers = report_max(report->registers, one->registers);
	report->spill_bytes = report_max(report->spill_bytes, one->spill_bytes);
	report->smem_bytes = report_max(report->smem_bytes, one->smem_bytes);
}

static void
report_read_numbers(const struct report_line *line, struct hm_report *one)
{
	one->registers = report_max(one->registers,
	    report_number_before(line, " registers"));
	one->smem_bytes = report_max(one->smem_bytes,
	    report_number_before(line, " bytes smem"));
	one->spill_bytes += report_number_before(line, " bytes spill stores");
	one->spill_bytes += report_number_before(line, " bytes spill loads");
}

bool
hm_report_parse(const char *log, const char *entry,
    struct hm_report *report_out)
{
	struct hm_report report = {0};
	struct hm_report one = {0};
	struct report_line line = {0};
	struct report_line name = {0};
	const char *at = log;
	bool wanted = false;
	bool found = false;

	while (report_next_line(&at, &line)) {
		if (report_is_slow(&line) && report.warning[0] == 0)
			(void)snprintf(report.warning, sizeof(report.warning),
			    "%.*s", (int)line.n_text, line.text);
		if (report_entry_of(&line, &name)) {
			report_merge(&report, &one);
			memset(&one, 0, sizeof(one));
			report_add_entry(&report, name.text, name.n_text);
			wanted =
			    entry == NULL ||
			    (strlen(entry) == name.n_text &&
				memcmp(entry, name.text, name.n_text) == 0);
			found = found || wanted;
		} else if (wanted) {
			report_read_numbers(&line, &one);
		}
	}
	report_merge(&report, &one);
	if (report.warning[0] == 0 && report.spill_bytes != 0)
		(void)snprintf(report.warning, sizeof(report.warning),
		    "%u bytes of registers are spilled", report.spill_bytes);
	*report_out = report;
	return found;
}

static bool
report_is_error(const struct report_line *line)
{
	static const char *const marks[] = {": error", "; error", "; fatal",
	    " error: ", "catastrophic error", "ptxas error", "ptxas fatal",
	    "LLVM ERROR", "Command-line error"};
	size_t i = 0;

	for (i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (report_find(line, marks[i]) != NULL)
			return true;
	}
	return false;
}

void
hm_report_first_error(const char *log, struct hm_errbuf *error_out)
{
	struct report_line first = {.text = "", .n_text = 0};
	struct report_line line = {0};
	const char *at = log;

	while (report_next_line(&at, &line)) {
		if (report_is_error(&line)) {
			first = line;
			break;
		}
		if (first.n_text == 0)
			first = line;
	}
	hm_errbuf_set(error_out, "%.*s", (int)first.n_text, first.text);
}

int
hm_report_classify(const char *log, int error)
{
	/* A number that it does not know ("sm_77") is refused by NVRTC, a
	 * letter that the number does not have ("sm_80a") by its front end;
	 * both before the source is read, so at the start of the log. */
	static const char *const refusals[] = {
	    "nvrtc: error: invalid value for --gpu-architecture",
	    "Command-line error: invalid or no value specified with --nv_arch"};
	size_t i = 0;

	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		if (strncmp(log, refusals[i], strlen(refusals[i])) == 0)
			return HM_E_UNSUPPORTED;
	}
	if (strstr(log, "catastrophic error: out of memory") != NULL)
		return HM_E_NOMEM;
	return error;
}
