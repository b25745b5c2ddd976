/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - GPU, plans, TAP.
 */
#include "session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jit/spec.h"

#define SESSION_DEFAULT_SMS 132u
#define SESSION_HOPPER      90u

static bool
session_open_gpu(struct session *session)
{
	int error = humming_device_open(0, &session->device);
	size_t available = 0;

	if (error != HUMMING_OK) {
		printf("1..0 # SKIP no GPU: %s\n", humming_gemm_last_error());
		return false;
	}
	session->info.struct_size = sizeof session->info;
	(void)humming_device_get_info(session->device, &session->info);
	if (session->info.target_cc != SESSION_HOPPER) {
		printf("1..0 # SKIP %s: these programs are built for sm_90\n",
		    session->info.name);
		return false;
	}
	ops_open(); /* the runtime's context, which the driver then uses */
	session->stream = ops_stream();
	available = ops_free_bytes();
	printf("# %s, %u SMs, driver %u, %.1f GB free\n", session->info.name,
	    session->info.sms, session->info.driver_version,
	    1e-9 * (double)available);
	return true;
}

bool
session_open(struct session *session, bool compile_only, double seconds)
{
	struct hm_errbuf errbuf = {""};

	memset(session, 0, sizeof *session);
	setvbuf(stdout, NULL, _IOLBF, 0);
	session->end_s = kernels_seconds() + seconds;
	session->info.sms = SESSION_DEFAULT_SMS;
	session->info.target_cc = SESSION_HOPPER;
	session->info.target_suffix = 'a';
	if (!compile_only) {
		if (hm_driver_get(&session->driver, &errbuf) != HM_OK) {
			printf("1..0 # SKIP no GPU: %s\n", errbuf.text);
			return false;
		}
		if (!session_open_gpu(session))
			return false;
	}
	session->target.cc = session->info.target_cc;
	session->target.suffix = session->info.target_suffix;
	if (kernels_open(&errbuf) != HM_OK) {
		printf("1..0 # SKIP %s\n", errbuf.text);
		return false;
	}
	return true;
}

void
session_end(struct session *session)
{
	printf("1..%u\n# %u tests, %u failed, %u skipped\n", session->n_tests,
	    session->n_tests, session->n_failed, session->n_skipped);
	fflush(stdout);
	_exit(session->n_failed != 0); /* see kernels.c */
}

void
session_result(struct session *session, bool ok, const char *name)
{
	session->n_tests++;
	if (!ok)
		session->n_failed++;
	printf("%sok %u - %s\n", ok ? "" : "not ", session->n_tests, name);
}

void
session_skip(struct session *session, const char *name, const char *why)
{
	session->n_tests++;
	session->n_skipped++;
	printf("ok %u - %s # SKIP %s\n", session->n_tests, name, why);
}

bool
session_is_late(const struct session *session)
{
	return kernels_seconds() > session->end_s;
}

bool
session_plan_text(const struct session *session, const char *text,
    const struct hm_target *target, struct hm_plan *plan_out)
{
	struct hm_errbuf errbuf = {""};
	struct hm_request request;
	int error = hm_spec_parse(text, &request, &errbuf);

	if (error == HM_OK) {
		request.target = *target;
		request.sms = session->info.sms;
		error = hm_plan_compute(&request, plan_out, &errbuf);
	}
	if (error != HM_OK)
		printf("# no plan for %s: %s\n", text, errbuf.text);
	return error == HM_OK;
}

bool
session_plan(const struct session *session, const struct problem_spec *spec,
    const struct hm_target *target, struct hm_plan *plan_out)
{
	char text[256];

	format_spec_text(&spec->format, spec->n, spec->k, text, sizeof text);
	return session_plan_text(session, text, target, plan_out);
}

void
session_describe(const struct problem_spec *spec, char *text, size_t size)
{
	char format[96];

	format_describe(&spec->format, format, sizeof format);
	snprintf(text, size, "%s %ux%u", format, spec->n, spec->k);
}
