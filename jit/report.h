/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - what the compiler's log says about a kernel.
 *
 * With --ptxas-options=-v ptxas prints registers, spills and shared memory of
 * every kernel, so they are known without a GPU. The log of a client's source
 * is that client's text: nothing read here decides anything for others.
 */
#ifndef HM_JIT_REPORT_H
#define HM_JIT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/error.h"

struct hm_report {
	uint32_t n_entries;   /* kernels that the log names */
	uint32_t registers;   /* a thread's */
	uint32_t spill_bytes; /* stores and loads, a thread's */
	uint32_t smem_bytes;  /* static, a CTA's */
	char entries[512];    /* by comma; cut between two names */
	/* The first warning that costs speed (C75xx but C7519, or spills), one
	 * line; empty if there is none. */
	char warning[512];
};

/**
 * Read a log.
 *
 * log         NUL-terminated
 * entry       whose numbers are wanted; NULL: the largest of all entries
 * report_out  always filled; numbers are 0 where the log says nothing
 *
 * Any thread. Returns whether the log names the entry (NULL: any entry).
 */
bool hm_report_parse(const char *log, const char *entry,
    struct hm_report *report_out);

/**
 * The first line of a log that reports an error: of the front end, of NVRTC
 * itself, of ptxas, of LLVM. If there is none, the first line of all.
 *
 * error_out  replaced; empty only if the log is
 */
void hm_report_first_error(const char *log, struct hm_errbuf *error_out);

/**
 * What kind of failure a log tells of, where NVRTC's result code is too coarse.
 *
 * error    what the result code says; returned if the log adds nothing
 *
 * Returns HM_E_UNSUPPORTED (the target is refused), HM_E_NOMEM (the front end
 * met its limit) or error.
 */
int hm_report_classify(const char *log, int error);

#endif
