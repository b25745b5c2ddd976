/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c - what this build can do, and the table over M for it.
 *
 * Decides what is supported and which family serves a target; the choice
 * inside a family is plan_sm90a.c's and plan_generic.c's. Invariant of a
 * table: rows start at 1, follow each other without gaps, differ from their
 * neighbours, and the last has no end.
 */
#include "jit/plan.h"

#include <stdio.h>
#include <string.h>

#include "jit/emit.h"
#include "jit/plan_impl.h"
#include "jit/spec.h"
#include "jit/type.h"

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

static bool
plan_is_hopper(const struct hm_target *target)
{
	return target->cc == 90 && target->suffix == 'a';
}

/* ---- what is built ---- */

static int
plan_refuse(struct hm_errbuf *errbuf, const char *what, const char *takes)
{
	hm_errbuf_set(errbuf, "%s: this build has kernels for %s only", what,
	    takes);
	return HM_E_UNSUPPORTED;
}

static int
plan_refuse_type(struct hm_errbuf *errbuf, const char *field, uint32_t type,
    const char *takes)
{
	char what[32], name[HM_TYPE_CHARS];

	hm_type_print(type, name);
	(void)snprintf(what, sizeof(what), "%s=%s", field, name);
	return plan_refuse(errbuf, what, takes);
}

static int
plan_check_operation(uint32_t operation, struct hm_errbuf *errbuf)
{
	static const char *const names[] = {
	    [HM_OPERATION_MOE_INDEXED] = "moe-indexed",
	    [HM_OPERATION_MOE_GROUPED] = "moe-grouped",
	    [HM_OPERATION_MOE_MASKED] = "moe-masked",
	    [HM_OPERATION_QUANT] = "quant",
	    [HM_OPERATION_ALIGN] = "align",
	    [HM_OPERATION_COMBINE] = "combine",
	};

	if (operation == HM_OPERATION_GEMM || operation == HM_OPERATION_PACK)
		return HM_OK;
	return plan_refuse(errbuf, names[operation], "dense gemm and pack");
}

static int
plan_check_types(const struct hm_request *request, struct hm_errbuf *errbuf)
{
	if (request->a_type != HM_TYPE_BF16 && request->a_type != HM_TYPE_F16)
		return plan_refuse_type(errbuf, "a", request->a_type,
		    "a=bf16 and a=f16");
	if (request->w_type != HM_TYPE_UINT(4))
		return plan_refuse_type(errbuf, "w", request->w_type, "w=u4");
	if (request->c_type != request->a_type)
		return plan_refuse_type(errbuf, "c", request->c_type,
		    "an output of the type of a");
	if (request->acc_type != HM_TYPE_F32)
		return plan_refuse(errbuf, "acc=f16", "acc=f32");
	if (request->epilogue != HM_EPILOGUE_NONE)
		return plan_refuse(errbuf, "epi", "epi=none");
	return HM_OK;
}

static int
plan_check_scales(const struct hm_request *request, struct hm_errbuf *errbuf)
{
	bool grouped = request->scale_kind == HM_SCALE_GROUP;
	char what[32];

	if (!grouped && request->scale_kind != HM_SCALE_CHANNEL)
		return plan_refuse(errbuf,
		    request->scale_kind == HM_SCALE_BLOCK ? "block"
							  : "scale=tensor",
		    "group=32, 64, 128 and scale=channel");
	if (grouped && request->group != 32 && request->group != 64 &&
	    request->group != 128) {
		(void)snprintf(what, sizeof(what), "group=%u", request->group);
		return plan_refuse(errbuf, what,
		    "group=32, 64, 128 and scale=channel");
	}
	if (grouped && request->scale_type != request->a_type)
		return plan_refuse_type(errbuf, "stype", request->scale_type,
		    "group scales of the type of a");
	if (!grouped && request->scale_type != HM_TYPE_F32 &&
	    request->scale_type != HM_TYPE_BF16 &&
	    request->scale_type != HM_TYPE_F16)
		return plan_refuse_type(errbuf, "stype", request->scale_type,
		    "channel scales of f32, bf16 or f16");
	if (request->tensor_scale != 0)
		return plan_refuse(errbuf, "tensor=1", "tensor=0");
	if (!grouped && request->zero != HM_ZERO_NONE)
		return plan_refuse(errbuf, "zp with scale=channel",
		    "zero points with a group");
	return HM_OK;
}

/* The kernels copy 16 bytes at a time along N and K. */
static int
plan_check_sizes(const struct hm_request *request, struct hm_errbuf *errbuf)
{
	char what[32];

	if (request->n % 8 == 0 && request->k % 8 == 0)
		return HM_OK;
	(void)snprintf(what, sizeof(what), "%s=%u",
	    request->n % 8 != 0 ? "n" : "k",
	    request->n % 8 != 0 ? request->n : request->k);
	return plan_refuse(errbuf, what, "multiples of 8");
}

static int
plan_check(const struct hm_request *request, struct hm_errbuf *errbuf)
{
	int error;

	error = hm_spec_check(request, errbuf);
	if (error == HM_OK)
		error = plan_check_operation(request->operation, errbuf);
	if (error == HM_OK)
		error = plan_check_types(request, errbuf);
	if (error == HM_OK)
		error = plan_check_scales(request, errbuf);
	if (error == HM_OK)
		error = plan_check_sizes(request, errbuf);
	if (error == HM_OK)
		error = hm_plan_check_target(&request->target, errbuf);
	return error;
}

static uint32_t
plan_zero(uint32_t zero)
{
	if (zero == HM_ZERO_INT)
		return HM_CONFIG_ZERO_INT;
	return zero == HM_ZERO_FLOAT ? HM_CONFIG_ZERO_FLOAT
				     : HM_CONFIG_ZERO_NONE;
}

static struct hm_plan_problem
plan_problem(const struct hm_request *request)
{
	return (struct hm_plan_problem){
	    .act = request->a_type == HM_TYPE_F16 ? HM_CONFIG_ACT_F16
						  : HM_CONFIG_ACT_BF16,
	    .group = request->group,
	    .zero = plan_zero(request->zero),
	    .n = request->n != 0 ? request->n : DEFAULT_SIZE,
	    .k = request->k != 0 ? request->k : DEFAULT_SIZE,
	    .sms = request->sms != 0 ? request->sms
				     : hm_plan_usual_sms(&request->target),
	    .one_order = request->deterministic != 0,
	};
}

static struct hm_config
plan_pack_config(const struct hm_plan_problem *problem)
{
	return (struct hm_config){
	    .family = HM_FAMILY_PACK,
	    .act = problem->act,
	    .group = problem->group,
	    .zero = problem->zero,
	    .threads = HM_EMIT_PACK_THREADS,
	};
}

/* One kernel, whatever the sizes. */
static void
plan_pack(const struct hm_plan_problem *problem, struct hm_plan *plan)
{
	struct hm_plan_row row = {
	    .m_lo = 1,
	    .config = plan_pack_config(problem),
	    .cluster = 1,
	};

	hm_plan_add(plan, &row);
}

int
hm_plan_compute(const struct hm_request *request, struct hm_plan *plan_out,
    struct hm_errbuf *errbuf)
{
	struct hm_request full = *request;
	struct hm_plan_problem problem;
	int error;

	hm_spec_complete(&full);
	error = plan_check(&full, errbuf);
	if (error != HM_OK)
		return error;

	problem = plan_problem(&full);
	memset(plan_out, 0, sizeof(*plan_out));
	if (full.operation == HM_OPERATION_PACK)
		plan_pack(&problem, plan_out);
	else if (plan_is_hopper(&full.target))
		hm_plan_sm90a(&problem, plan_out);
	else
		hm_plan_generic(&problem, plan_out);
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

/* ---- every kernel there is ---- */

struct plan_list {
	struct hm_config *configs;
	size_t n, max;
};

static void
plan_list_add(struct plan_list *list, struct hm_config config)
{
	if (list->n < list->max)
		list->configs[list->n] = config;
	list->n++;
}

static void
plan_list_gemm(struct plan_list *list, const struct hm_target *target,
    const struct hm_plan_problem *problem)
{
	if (!plan_is_hopper(target)) {
		for (size_t i = 0; i < HM_TUNE_N_MMA; i++)
			plan_list_add(list,
			    hm_plan_mma_config(problem, &hm_tune_mma[i]));
		return;
	}
	for (size_t i = 0; i < HM_TUNE_N_STREAM; i++)
		plan_list_add(list,
		    hm_plan_stream_config(problem, &hm_tune_stream[i]));
	for (size_t i = 0; i < hm_tune_n_wgmma; i++)
		plan_list_add(list,
		    hm_plan_wgmma_config(problem, &hm_tune_wgmma[i]));
}

static void
plan_list_format(struct plan_list *list, const struct hm_target *target,
    const struct hm_plan_problem *problem)
{
	plan_list_gemm(list, target, problem);
	plan_list_add(list, plan_pack_config(problem));
}

size_t
hm_plan_all_configs(const struct hm_target *target, struct hm_config *configs,
    size_t max)
{
	static const uint32_t groups[] = {0, 32, 64, 128};
	struct plan_list list = {configs, 0, max};

	if (hm_plan_check_target(target, NULL) != HM_OK)
		return 0;
	for (uint32_t act = 0; act < 2; act++) {
		for (size_t g = 0; g < 4; g++) {
			uint32_t n_zeros = groups[g] == 0 ? 1 : 3;

			for (uint32_t zero = 0; zero < n_zeros; zero++)
				plan_list_format(&list, target,
				    &(struct hm_plan_problem){.act = act,
					.group = groups[g],
					.zero = zero});
		}
	}
	return list.n;
}
