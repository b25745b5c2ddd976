/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_spec.c - a SPEC as a person types it, and what is planned from it.
 *
 * Promises: a SPEC is refused with a reason, or it prints, and the print parses
 * to the same request; a plan covers every M from 1 on without a gap; each of
 * its rows launches where N and K are multiples of 8.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "jit/launch.h"
#include "jit/plan.h"
#include "jit/spec.h"

static void
spec_check_print(const struct hm_request *request)
{
	char text[HM_SPEC_MAX_CHARS + 1];
	char again[HM_SPEC_MAX_CHARS + 1];
	struct hm_request parsed;

	fuzz_require(hm_spec_print(request, text, sizeof text) == HM_OK);
	fuzz_require(hm_spec_parse(text, &parsed, NULL) == HM_OK);
	fuzz_require(memcmp(&parsed, request, sizeof parsed) == 0);
	fuzz_require(hm_spec_print(&parsed, again, sizeof again) == HM_OK);
	fuzz_require(strcmp(text, again) == 0);
}

static void
spec_check_row(const struct hm_request *request, const struct hm_plan_row *row)
{
	uint32_t n = request->n == 0 ? 8192 : request->n;
	uint32_t k = request->k == 0 ? 8192 : request->k;
	uint32_t sms = request->sms == 0 ? hm_plan_usual_sms(&request->target)
					 : request->sms;
	struct hm_launch launch;
	int error;

	error = hm_launch_compute(row, row->m_lo == 0 ? 1 : row->m_lo, n, k,
	    sms, &launch);
	/* Quantizing has no N. */
	if ((n % 8 != 0 && row->config.family != HM_FAMILY_QUANT) ||
	    k % 8 != 0) {
		fuzz_require(error == HM_E_INVALID);
		return;
	}
	fuzz_require(error == HM_OK);
	fuzz_require(launch.grid_x > 0 && launch.grid_y > 0);
	fuzz_require(launch.threads > 0 && launch.threads <= 1024);
	fuzz_require(launch.smem_bytes <= HM_LAUNCH_SM90_SMEM_BYTES);
}

static void
spec_check_plan(struct hm_request request, uint32_t cc, uint32_t suffix)
{
	static struct hm_plan plan;
	uint32_t next = 0;

	request.target.cc = cc;
	request.target.suffix = suffix;
	if (hm_plan_compute(&request, &plan, NULL) != HM_OK)
		return;
	fuzz_require(plan.n_rows > 0 && plan.n_rows <= HM_PLAN_MAX_ROWS);
	next = plan.rows[0].m_lo;
	fuzz_require(next <= 1);
	for (uint32_t i = 0; i < plan.n_rows; i++) {
		fuzz_require(plan.rows[i].m_lo == next);
		fuzz_require(plan.rows[i].m_hi >= plan.rows[i].m_lo);
		next = plan.rows[i].m_hi + 1;
		spec_check_row(&request, &plan.rows[i]);
	}
	fuzz_require(next == 0);
}

static void
spec_check_target(const char *text)
{
	struct hm_target target;
	struct hm_target again;
	char print[16];

	if (hm_target_parse(text, &target, NULL) != HM_OK)
		return;
	hm_target_print(&target, print);
	fuzz_require(hm_target_parse(print, &again, NULL) == HM_OK);
	fuzz_require(memcmp(&target, &again, sizeof target) == 0);
}

void
fuzz_one(const uint8_t *data, size_t size)
{
	struct hm_errbuf errbuf = {.text = ""};
	struct hm_request request;
	char *text = fuzz_text(data, size);

	spec_check_target(text);
	if (hm_spec_parse(text, &request, &errbuf) == HM_OK) {
		fuzz_require(hm_spec_check(&request, NULL) == HM_OK);
		spec_check_print(&request);
		spec_check_plan(request, 90, 'a');
		spec_check_plan(request, 80, 0);
	} else {
		fuzz_require(errbuf.text[0] != '\0');
	}
	free(text);
}
