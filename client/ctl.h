/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl.h - what the files of hummingctl share.
 *
 * A command is a const entry of a table (ctl_main.c) and one function, which
 * gets the parsed command line and returns the exit code. Whatever fails is
 * said once, by hm_ctl_fail or hm_ctl_usage, in one line on stderr.
 */
#ifndef HM_CLIENT_CTL_H
#define HM_CLIENT_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link.h"
#include "jit/kernel_set.h"
#include "jit/model.h"
#include "proto/error.h"
#include "proto/request.h"

#define HM_CTL_MAX_TARGETS 16
#define HM_CTL_MAX_DEFINES 64

enum hm_ctl_exit {
	HM_CTL_OK = 0,
	HM_CTL_FAILED = 1, /* tried, and it did not work */
	HM_CTL_USAGE = 2   /* not a command line of ours */
};

/* Options that a command may allow; --socket, --timeout, --help it always
 * does. */
#define HM_CTL_ARCH   1u
#define HM_CTL_OUTPUT 2u
#define HM_CTL_JSON   4u
#define HM_CTL_WATCH  8u
#define HM_CTL_MODEL  16u /* --model --tp --ep --quant --max-m */
#define HM_CTL_JOBS   32u
#define HM_CTL_DEFINE 64u
#define HM_CTL_ALL    128u

/* A parsed command line; pointers are into argv and the environment. */
struct hm_ctl {
	const char *command;
	uint32_t given; /* HM_CTL_ bits of the options that were there */
	bool help;
	bool version;
	const char *socket_path; /* NULL = the usual places */
	uint32_t timeout_ms;     /* 0 = not given */
	const char *arch;        /* one or more by comma; NULL = the GPU's */
	const char *output;
	bool json;
	bool watch;
	const char *model;
	struct hm_model_options model_options;
	const char
	    *of_model; /* --tp, --ep or --quant that was there, or NULL */
	bool max_m_given;
	uint32_t max_m;
	uint32_t jobs; /* 0 = not given */
	size_t n_defines;
	const char *defines[HM_CTL_MAX_DEFINES];
	size_t n_operands;
	char **operands;
};

/* Read argv. HM_CTL_OK, or HM_CTL_USAGE or HM_CTL_FAILED with the line already
 * written. */
int hm_ctl_parse(int argc, char **argv, struct hm_ctl *ctl_out);

/* "hummingctl: COMMAND: ..." on stderr. Return their exit code. */
int hm_ctl_fail(const struct hm_ctl *ctl, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int hm_ctl_usage(const struct hm_ctl *ctl, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The whole text, from an hm_errbuf or else the code's own. */
const char *hm_ctl_why(int error, const struct hm_errbuf *errbuf);

/* --- daemon (ctl_daemon.c) ----------------------------------------------- */

/* --timeout, HUMMING_TIMEOUT, or 30 s (none when `patient`); made once. */
int64_t hm_ctl_deadline(const struct hm_ctl *ctl, bool patient);

/* Open a link; HM_CTL_OK or HM_CTL_FAILED with the line written. */
int hm_ctl_open(const struct hm_ctl *ctl, bool autostart, int64_t deadline,
    struct hm_link *link);

/* --- what is wanted (ctl_want.c) ----------------------------------------- */

/* The targets of --arch, or the GPU's. HM_CTL_OK, or with the line written. */
int hm_ctl_targets(const struct hm_ctl *ctl,
    struct hm_target targets_out[HM_CTL_MAX_TARGETS], size_t *n_out);

/* The same, and this build has kernels for each. */
int hm_ctl_kernel_targets(const struct hm_ctl *ctl,
    struct hm_target targets_out[HM_CTL_MAX_TARGETS], size_t *n_out);

/* The kernels of --model or of the SPECs, for each target. set is initialised
 * by the caller. HM_CTL_OK, or with the line written. */
int hm_ctl_collect(const struct hm_ctl *ctl, struct hm_kernel_set *set);

/* --- files (ctl_file.c) -------------------------------------------------- */

/* A regular file is replaced at once or not at all; anything else (a pipe, a
 * device) is written to. HM_OK or HM_E_SYSTEM. */
int hm_ctl_write_file(const char *path, const void *bytes, size_t n_bytes,
    struct hm_errbuf *errbuf);

/* text_out is NUL-terminated and the caller's to free. HM_OK, HM_E_INVALID
 * (empty, or larger than the limit), HM_E_NOMEM, HM_E_SYSTEM. */
int hm_ctl_read_file(const char *path, size_t limit_bytes, char **text_out,
    size_t *n_out, struct hm_errbuf *errbuf);

/* --- commands ------------------------------------------------------------ */

int hm_ctl_ping(const struct hm_ctl *ctl);
int hm_ctl_stop(const struct hm_ctl *ctl);
int hm_ctl_status(const struct hm_ctl *ctl);
int hm_ctl_stats(const struct hm_ctl *ctl);
int hm_ctl_get(const struct hm_ctl *ctl);
int hm_ctl_compile(const struct hm_ctl *ctl);
int hm_ctl_plan(const struct hm_ctl *ctl);
int hm_ctl_prewarm(const struct hm_ctl *ctl);
int hm_ctl_explain(const struct hm_ctl *ctl);
int hm_ctl_verify(const struct hm_ctl *ctl);
int hm_ctl_evict(const struct hm_ctl *ctl);
int hm_ctl_pin(const struct hm_ctl *ctl);
int hm_ctl_unpin(const struct hm_ctl *ctl);
int hm_ctl_drain(const struct hm_ctl *ctl);
int hm_ctl_reload(const struct hm_ctl *ctl);
int hm_ctl_doctor(const struct hm_ctl *ctl);
int hm_ctl_bench(const struct hm_ctl *ctl);

#endif
