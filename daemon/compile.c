/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.c - COMPILE: a client's own source, with one ask.
 *
 * The key of a source holds the compiler's identity, so that a request which
 * comes before any worker is ready is parked until one says who it is.
 */
#include "daemon/compile.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/answer.h"
#include "daemon/call.h"
#include "daemon/clock.h"
#include "daemon/config.h"
#include "daemon/pool.h"
#include "daemon/recipe.h"
#include "daemon/source_memo.h"
#include "proto/codec.h"
#include "proto/fd.h"

/* Of all parked requests together. */
#define COMPILE_MAX_PARKED_BYTES (64u << 20)
#define COMPILE_SANDBOX                                                        \
	(HM_SANDBOX_NO_NEW_PRIVS | HM_SANDBOX_RLIMITS | HM_SANDBOX_LANDLOCK |  \
	    HM_SANDBOX_SECCOMP)

/* A request that waits for a compiler: its body, then its source. */
struct hm_parked {
	size_t n_body;
	size_t n_source;
	uint8_t bytes[];
};

static struct hm_source_view
compile_view_of(const struct hm_call *call, const struct hm_parked *parked)
{
	/* NOLINTBEGIN(clang-analyzer-core.NullDereference): what is in the list
	 * of parked calls has a parked request; it cannot see that. */
	struct hm_source_view view = {
	    .body = parked->bytes,
	    .n_body = parked->n_body,
	    .source = parked->bytes + parked->n_body,
	    .n_source = parked->n_source,
	    .compiler = hm_pool_compiler(call->core->pool),
	    .uid = call->session->peer.uid,
	};
	/* NOLINTEND(clang-analyzer-core.NullDereference) */

	return view;
}

/* Keep the request; the call goes on in hm_compile_resume_parked. */
static int
compile_park(struct hm_call *call, const struct hm_source_view *view)
{
	size_t n_bytes = view->n_body + view->n_source;
	struct hm_parked *parked;

	if (call->core->parked_bytes + n_bytes > COMPILE_MAX_PARKED_BYTES)
		return HM_E_BUSY;
	parked = malloc(sizeof(*parked) + n_bytes);
	if (parked == NULL)
		return HM_E_NOMEM;
	parked->n_body = view->n_body;
	parked->n_source = view->n_source;
	memcpy(parked->bytes, view->body, view->n_body);
	memcpy(parked->bytes + view->n_body, view->source, view->n_source);
	call->parked = parked;
	call->n_parked_bytes = n_bytes;
	call->core->parked_bytes += n_bytes;
	LIST_INSERT_HEAD(&call->core->parked, call, parked_link);
	return HM_OK;
}

/* The recipe, remembered for the next time. */
static int
compile_make_recipe(struct hm_call *call, const struct hm_source_view *view,
    const struct hm_compile *compile, struct hm_errbuf *errbuf)
{
	const struct hm_core *core = call->core;
	const struct hm_recipe_source source = {
	    .compile = compile,
	    .source = view->source,
	    .n_source = view->n_source,
	    .compiler = view->compiler,
	    .uid = view->uid,
	};
	int error;

	if (hm_pool_state(core->pool) == HM_POOL_UNAVAILABLE) {
		hm_errbuf_set(errbuf, "no compiler: %s",
		    hm_pool_message(core->pool));
		/* One that was here may come back. */
		return hm_pool_compiler(core->pool)[0] != '\0'
			   ? HM_E_UNAVAILABLE
			   : HM_E_UNSUPPORTED;
	}
	error = hm_recipe_new_source(&source, &call->asks[0].recipe, errbuf);
	if (error == HM_OK)
		hm_source_memo_put(core->sources, view, call->asks[0].recipe);
	return error;
}

/* A compiler is known, or known not to be there: answer, or wait for a build.
 * The call may be gone afterwards. */
static void
compile_go(struct hm_call *call, const struct hm_source_view *view,
    const struct hm_compile *compile)
{
	struct hm_ask *ask = &call->asks[0];
	struct hm_errbuf text = {""};
	struct hm_answer to;
	int error;

	error = compile_make_recipe(call, view, compile, &text);
	hm_ask_describe(ask, &to);
	if (error == HM_OK) {
		to.packed = &ask->recipe->packed;
		error = ask->recipe->is_cacheable ? hm_answer_from_cache(&to)
						  : HM_E_UNAVAILABLE;
	}
	if (error == HM_E_UNAVAILABLE) {
		hm_ask_join(ask);
		return;
	}
	if (error != HM_OK)
		hm_answer_error(&to, error, text.text);
	hm_ask_close(ask);
}

/* Answer what was asked for in the very same words before, and is stored. */
static bool
compile_from_memo(struct hm_answer *to, const struct hm_source_view *view)
{
	struct hm_core *core = to->core;
	struct hm_recipe *recipe;

	if (hm_pool_state(core->pool) != HM_POOL_READY)
		return false;
	recipe = hm_source_memo_find(core->sources, view);
	if (recipe == NULL)
		return false;
	to->recipe = recipe;
	to->packed = &recipe->packed;
	return hm_answer_from_cache(to) == HM_OK;
}

/* What needs a call: decode, then answer or wait. */
static int
compile_start(const struct hm_answer *to, const struct hm_source_view *view)
{
	struct hm_compile compile;
	struct hm_call *call;
	int error;

	error = hm_codec_unpack_compile(view->body, view->n_body, &compile);
	if (error != HM_OK)
		return error;
	if (compile.source_bytes != view->n_source) {
		error = HM_E_PROTOCOL;
		goto out;
	}
	call = hm_call_new(to->core, to->session, to->request_id, 1);
	if (call == NULL) {
		error = HM_E_NOMEM;
		goto out;
	}
	call->received_us = to->received_us;
	call->n_asks = 1;
	call->asks[0].call = call;
	hm_ask_open(&call->asks[0]);
	hm_call_arm(call, compile.deadline_ms);
	if (hm_ask_refuse(&call->asks[0]))
		goto out;
	if (hm_pool_state(to->core->pool) != HM_POOL_STARTING) {
		compile_go(call, view, &compile);
	} else if ((error = compile_park(call, view)) != HM_OK) {
		hm_answer_error(to, error,
		    "too many sources wait for the compiler's start");
		hm_ask_close(&call->asks[0]);
		error = HM_OK;
	}
out:
	hm_compile_done(&compile);
	return error;
}

int
hm_compile_handle(struct hm_core *core, struct hm_session *session,
    const struct hm_frame *frame)
{
	struct hm_answer to = {.core = core,
	    .session = session,
	    .request_id = frame->request_id,
	    .received_us = hm_clock_us()};
	struct hm_source_view view = {.body = frame->body,
	    .n_body = frame->n_body,
	    .source = frame->raw,
	    .n_source = frame->n_raw,
	    .compiler = hm_pool_compiler(core->pool),
	    .uid = session->peer.uid};
	const void *map = NULL;
	int error = HM_OK;

	if ((session->peer.rights & HM_RIGHT_COMPILE) == 0) {
		hm_answer_error(&to, HM_E_DENIED,
		    "compiling sources needs root, the daemon's own user or "
		    "its group (group in hummingd.conf)");
		return HM_OK;
	}
	if (frame->fd != -1) {
		error = hm_fd_map_sealed(frame->fd, HM_MAX_SOURCE_BYTES, &map,
		    &view.n_source);
		if (error != HM_OK)
			return error;
		view.source = map;
	}
	if (view.n_source == 0)
		error = HM_E_PROTOCOL;
	else if (!compile_from_memo(&to, &view))
		error = compile_start(&to, &view);
	if (map != NULL)
		hm_fd_unmap(map, view.n_source);
	return error;
}

void
hm_compile_resume_parked(struct hm_core *core)
{
	struct hm_call *call;

	if (hm_pool_state(core->pool) == HM_POOL_STARTING)
		return;
	while ((call = LIST_FIRST(&core->parked)) != NULL) {
		struct hm_parked *parked = call->parked;
		struct hm_source_view view = compile_view_of(call, parked);
		struct hm_compile compile;

		LIST_REMOVE(call, parked_link);
		core->parked_bytes -= call->n_parked_bytes;
		call->parked = NULL;
		if (hm_codec_unpack_compile(view.body, view.n_body, &compile) ==
		    HM_OK) {
			compile_go(call, &view, &compile);
			hm_compile_done(&compile);
		} else {
			/* It did when it came: only memory can be short. */
			hm_session_kill(call->session, HM_E_NOMEM,
			    "no memory to decode");
		}
		free(parked);
	}
}

bool
hm_compile_is_forbidden(const struct hm_core *core, struct hm_errbuf *text_out)
{
	uint32_t missing = COMPILE_SANDBOX & ~hm_pool_sandbox(core->pool);
	const char *what = "its limits";

	if (missing == 0 || core->settings->sandbox != HM_SANDBOX_REQUIRED)
		return false;
	if ((missing & HM_SANDBOX_SECCOMP) != 0)
		what = "seccomp";
	if ((missing & HM_SANDBOX_LANDLOCK) != 0)
		what = "Landlock";
	hm_errbuf_set(text_out,
	    "this machine cannot sandbox a compiler (%s is missing); "
	    "sandbox = best-effort allows it",
	    what);
	return true;
}
