/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c - the table over M for what this build can do.
 *
 * Decides which operations and targets are served, by which family; what may
 * be multiplied is plan_format.c's, the choice inside a family plan_sm90a.c's
 * and plan_generic.c's, what the compile tests build plan_list.c's. Invariant
 * of a table: rows start at 1, follow each other without gaps, differ from
 * their neighbours, and the last has no end.
 */
#include "jit/plan.h"

#include <stdio.h>
#include <string.h>

#include "jit/emit.h"
#include "jit/plan_impl.h"
#include "jit/spec.h"

#define DEFAULT_SIZE 8192u

void
hm_plan_add(struct hm_plan *plan, const struct hm_plan_row *row)
{
	struct hm_plan_row *last = &plan->rows[plan->n_rows];
	struct hm_plan_row same = *row;

	if (plan->n_rows > 0) {
		last--;
		same.m_lo = last->m_lo;
		same.m_hi = last->m_hi;
		if (memcmp(&same, last, sizeof(same)) == 0) {
			last->m_hi = row->m_hi;
			return;
		}
	}
	/* Measured rows may cut M finer than a table has room for: its last
	 * row, which is of a kernel for any M, then serves what follows. */
	if (plan->n_rows < HM_PLAN_MAX_ROWS)
		plan->rows[plan->n_rows++] = *row;
}

/* ---- targets ---- */

static const struct hm_tune_target *
plan_target_find(uint32_t cc)
{
	for (size_t i = 0; i < hm_tune_n_targets; i++) {
		if (hm_tune_targets[i].cc == cc)
			return &hm_tune_targets[i];
	}
	return NULL;
}

/* "sm_80 sm_86 ... sm_90a ... sm_100[af] ..." */
static void
plan_target_names(char *text, size_t size)
{
	size_t n = 0;

	text[0] = '\0';
	for (size_t i = 0; i < hm_tune_n_targets && n < size; i++) {
		const struct hm_tune_target *target = &hm_tune_targets[i];

		n += (size_t)snprintf(text + n, size - n, "%ssm_%u%s%s%s",
		    i > 0 ? " " : "", target->cc,
		    target->suffixes[0] != '\0' ? "[" : "", target->suffixes,
		    target->suffixes[0] != '\0' ? "]" : "");
	}
}

int
hm_plan_check_target(const struct hm_target *target, struct hm_errbuf *errbuf)
{
	const struct hm_tune_target *known = plan_target_find(target->cc);
	char name[16], names[256];

	if (target->cc == 0) {
		hm_errbuf_set(errbuf,
		    "architecture: none is given, takes a name such as sm_90a");
		return HM_E_INVALID;
	}
	hm_target_print(target, name);
	if (target->cc < 80) {
		hm_errbuf_set(errbuf,
		    "architecture %s: the kernels need sm_80 or newer", name);
		return HM_E_UNSUPPORTED;
	}
	if (known == NULL ||
	    (target->suffix != 0 &&
		strchr(known->suffixes, (int)target->suffix) == NULL)) {
		plan_target_names(names, sizeof(names));
		hm_errbuf_set(errbuf,
		    "architecture %s: this build has kernels for %s only", name,
		    names);
		return HM_E_UNSUPPORTED;
	}
	return HM_OK;
}

uint32_t
hm_plan_usual_sms(const struct hm_target *target)
{
	const struct hm_tune_target *known = plan_target_find(target->cc);

	return known != NULL ? known->sms[0] : 0;
}

size_t
hm_plan_sms_list(const struct hm_target *target, uint32_t *sms, size_t max)
{
	const struct hm_tune_target *known = plan_target_find(target->cc);
	size_t n = 0;

	while (known != NULL && n < max && n < HM_TUNE_MAX_SMS &&
	       known->sms[n] != 0) {
		sms[n] = known->sms[n];
		n++;
	}
	return n;
}

/* ---- what is built ---- */

static int
plan_check_operation(uint32_t operation, struct hm_errbuf *errbuf)
{
	static const char *const names[] = {
	    [HM_OPERATION_MOE_INDEXED] = "moe-indexed",
	    [HM_OPERATION_MOE_GROUPED] = "moe-grouped",
	    [HM_OPERATION_MOE_MASKED] = "moe-masked",
	    [HM_OPERATION_ALIGN] = "align",
	    [HM_OPERATION_COMBINE] = "combine",
	};

	if (operation == HM_OPERATION_GEMM || operation == HM_OPERATION_PACK ||
	    operation == HM_OPERATION_QUANT)
		return HM_OK;
	return hm_plan_refuse(errbuf, names[operation],
	    "dense gemm, pack and quant");
}

/* format_out: that of the operation quant is its whole configuration. */
static int
plan_check(const struct hm_request *full, struct hm_config *format_out,
    struct hm_errbuf *errbuf)
{
	int error;

	error = hm_spec_check(full, errbuf);
	if (error == HM_OK)
		error = plan_check_operation(full->operation, errbuf);
	if (error == HM_OK)
		error = full->operation == HM_OPERATION_QUANT
			    ? hm_plan_quant(full, format_out, errbuf)
			    : hm_plan_format(full, format_out, errbuf);
	if (error == HM_OK)
		error = hm_plan_check_target(&full->target, errbuf);
	if (error == HM_OK)
		error = hm_plan_check_format(format_out, &full->target, errbuf);
	return error;
}

struct hm_config
hm_plan_pack_config(const struct hm_config *format)
{
	return (struct hm_config){
	    .family = HM_FAMILY_PACK,
	    .act = format->act,
	    .weight = format->weight,
	    .scale = format->scale,
	    .group = format->group,
	    .zero = format->zero,
	    .threads = HM_EMIT_PACK_THREADS,
	};
}

/* One kernel, whatever the sizes. */
static void
plan_single(const struct hm_config *config, struct hm_plan *plan)
{
	struct hm_plan_row row = {
	    .m_lo = 1,
	    .config = *config,
	    .cluster = 1,
	};

	hm_plan_add(plan, &row);
}

static void
plan_gemm(const struct hm_request *full, const struct hm_config *format,
    struct hm_plan *plan)
{
	struct hm_plan_problem problem = {
	    .format = *format,
	    .n = full->n != 0 ? full->n : DEFAULT_SIZE,
	    .k = full->k != 0 ? full->k : DEFAULT_SIZE,
	    .sms =
		full->sms != 0 ? full->sms : hm_plan_usual_sms(&full->target),
	    .one_order = full->deterministic != 0,
	};

	if (hm_plan_is_hopper(&full->target))
		hm_plan_sm90a(&problem, plan);
	else
		hm_plan_generic(&problem, plan);
}

int
hm_plan_compute(const struct hm_request *request, struct hm_plan *plan_out,
    struct hm_errbuf *errbuf)
{
	struct hm_request full = *request;
	struct hm_config config, pack;
	int error;

	hm_spec_complete(&full);
	error = plan_check(&full, &config, errbuf);
	if (error != HM_OK)
		return error;

	memset(plan_out, 0, sizeof(*plan_out));
	if (full.operation == HM_OPERATION_PACK) {
		pack = hm_plan_pack_config(&config);
		plan_single(&pack, plan_out);
	} else if (full.operation == HM_OPERATION_QUANT) {
		plan_single(&config, plan_out);
	} else {
		plan_gemm(&full, &config, plan_out);
	}
	plan_out->rows[plan_out->n_rows - 1].m_hi = UINT32_MAX;
	return HM_OK;
}

const struct hm_plan_row *
hm_plan_find(const struct hm_plan *plan, uint32_t m)
{
	uint32_t i = 0;

	while (i + 1 < plan->n_rows && plan->rows[i].m_hi < m)
		i++;
	return &plan->rows[i];
}
