/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_report.c - the compiler's log, most of which a client wrote.
 *
 * Promises: texts end inside their room and are one line; the error of a log
 * with text is not empty.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "jit/report.h"

static void
report_check_line(const char *text, size_t room)
{
	size_t n = strnlen(text, room);

	fuzz_require(n < room);
	fuzz_require(memchr(text, '\n', n) == NULL);
}

void
fuzz_one(const uint8_t *data, size_t size)
{
	struct hm_report report;
	struct hm_errbuf errbuf = {.text = ""};
	char *log = fuzz_text(data, size);
	int error;

	(void)hm_report_parse(log, "k", &report);
	(void)hm_report_parse(log, NULL, &report);
	report_check_line(report.entries, sizeof report.entries);
	report_check_line(report.warning, sizeof report.warning);
	hm_report_first_error(log, &errbuf);
	report_check_line(errbuf.text, sizeof errbuf.text);
	error = hm_report_classify(log, HM_E_COMPILE);
	fuzz_require(error == HM_E_COMPILE || error == HM_E_UNSUPPORTED ||
		     error == HM_E_NOMEM);
	free(log);
}
