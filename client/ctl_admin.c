/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_admin.c - verify, evict, pin, unpin, drain, reload: one ADMIN frame each,
 * answered with JSON, which is printed as it is or as a sentence.
 */
#include "client/ctl.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/deadline.h"
#include "client/link.h"
#include "proto/codec.h"
#include "proto/fd.h"

#define ADMIN_TURN_MS 20

/* One command: what is asked, and what came back. */
struct admin_call {
	struct hm_admin admin;
	struct hm_link link;
	int64_t deadline;
	char *text; /* owned */
	json_t *json;
};

/* 64 hexadecimal digits, of either case, and nothing else. */
static bool
admin_parse_key(const char *text, struct hm_digest *key_out)
{
	struct hm_digest key = {{0}};

	if (strlen(text) != HM_DIGEST_HEX_CHARS)
		return false;
	for (size_t i = 0; i < HM_DIGEST_HEX_CHARS; i++) {
		unsigned char c = (unsigned char)text[i];
		const char digits[] = "0123456789abcdef";
		const char *digit = strchr(digits, tolower(c));

		if (!isxdigit(c) || digit == NULL)
			return false;
		key.bytes[i / 2] =
		    (uint8_t)(key.bytes[i / 2] << 4 | (digit - digits));
	}
	*key_out = key;
	return true;
}

/* The operand, a key as get prints it. */
static int
admin_read_key(const struct hm_ctl *ctl, struct hm_digest *key_out)
{
	if (ctl->n_operands != 1)
		return hm_ctl_usage(ctl,
		    ctl->n_operands == 0 ? "needs a KEY" : "takes one KEY");
	if (!admin_parse_key(ctl->operands[0], key_out))
		return hm_ctl_fail(ctl,
		    "'%.80s' is no key: those are 64 hexadecimal digits, as "
		    "get and plan print them",
		    ctl->operands[0]);
	return HM_CTL_OK;
}

static int
admin_take(struct admin_call *call, const struct hm_frame *reply,
    struct hm_errbuf *why)
{
	json_error_t ignored;
	int error = HM_E_PROTOCOL;

	if (reply->type == HM_FRAME_TEXT)
		error = hm_codec_unpack_text(reply->body, reply->n_body,
		    &call->text);
	if (error == HM_OK) {
		call->json = json_loads(call->text, 0, &ignored);
		if (!json_is_object(call->json))
			error = HM_E_PROTOCOL;
	}
	if (error != HM_OK)
		hm_link_fail(&call->link, error, why);
	return error;
}

static void
admin_done(struct admin_call *call)
{
	hm_link_done(&call->link);
	json_decref(call->json);
	free(call->text);
}

/* The daemon does one of these at a time; who finds it at work waits. */
static int
admin_wait_turn(struct admin_call *call, struct hm_frame *request,
    struct hm_frame *reply_out, struct hm_errbuf *why)
{
	int error;

	for (;;) {
		error = hm_link_exchange(&call->link, request, call->deadline,
		    reply_out, why);
		if (error != HM_E_BUSY ||
		    hm_deadline_left_ms(call->deadline) <= ADMIN_TURN_MS)
			return error;
		hm_deadline_pause(call->deadline, ADMIN_TURN_MS);
	}
}

/* Ask; the call has its answer, or the line is written. */
static int
admin_ask(const struct hm_ctl *ctl, struct admin_call *call)
{
	struct hm_frame request = {.type = HM_FRAME_ADMIN, .fd = -1};
	struct hm_errbuf why = {.text = ""};
	struct hm_frame reply;
	uint8_t body[64];
	int code, error;

	call->deadline = hm_ctl_deadline(ctl, false);
	code = hm_ctl_open(ctl, false, call->deadline, &call->link);
	if (code != HM_CTL_OK)
		return code;
	if ((call->link.transport.welcome.capabilities & HM_CAPABILITY_ADMIN) ==
	    0) {
		(void)hm_ctl_fail(ctl, "hummingd %s does not know this yet",
		    call->link.transport.welcome.version);
		hm_link_done(&call->link);
		return HM_CTL_FAILED;
	}
	error = hm_codec_pack_admin(&call->admin, body, sizeof body,
	    &request.n_body);
	request.body = body;
	if (error == HM_OK)
		error = admin_wait_turn(call, &request, &reply, &why);
	if (error == HM_OK)
		error = admin_take(call, &reply, &why);
	if (error == HM_OK)
		return HM_CTL_OK;
	admin_done(call);
	(void)hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
	return HM_CTL_FAILED;
}

static long long
admin_number(const struct admin_call *call, const char *name)
{
	return (long long)json_integer_value(json_object_get(call->json, name));
}

int
hm_ctl_verify(const struct hm_ctl *ctl)
{
	struct admin_call call = {.admin = {.command = HM_ADMIN_VERIFY}};
	int code = admin_ask(ctl, &call);
	long long n_damaged;

	if (code != HM_CTL_OK)
		return code;
	n_damaged = admin_number(&call, "damaged");
	if (ctl->json)
		(void)printf("%s\n", call.text);
	else
		(void)printf(
		    "%lld kernels checked (%lld bytes), %lld damaged\n",
		    admin_number(&call, "checked"),
		    admin_number(&call, "bytes"), n_damaged);
	if (n_damaged > 0)
		code = hm_ctl_fail(ctl,
		    "%lld stored kernels were damaged and are deleted; look at "
		    "the disk",
		    n_damaged);
	admin_done(&call);
	return code;
}

int
hm_ctl_evict(const struct hm_ctl *ctl)
{
	const bool is_all = (ctl->given & HM_CTL_ALL) != 0;
	struct admin_call call = {
	    .admin = {.command = is_all ? HM_ADMIN_EVICT_ALL : HM_ADMIN_EVICT}};
	int code = HM_CTL_OK;
	long long n_evicted;

	if (is_all && ctl->n_operands != 0)
		return hm_ctl_usage(ctl, "takes a KEY or --all, not both");
	if (!is_all)
		code = admin_read_key(ctl, &call.admin.key);
	if (code == HM_CTL_OK)
		code = admin_ask(ctl, &call);
	if (code != HM_CTL_OK)
		return code;
	n_evicted = admin_number(&call, "evicted");
	if (!is_all && n_evicted == 0)
		code = hm_ctl_fail(ctl, "no kernel is stored under this key");
	else if (ctl->json)
		(void)printf("%s\n", call.text);
	else
		(void)printf("%lld kernels evicted\n", n_evicted);
	admin_done(&call);
	return code;
}

static int
admin_pin(const struct hm_ctl *ctl, uint32_t command, const char *done)
{
	struct admin_call call = {.admin = {.command = command}};
	int code = admin_read_key(ctl, &call.admin.key);

	if (code == HM_CTL_OK)
		code = admin_ask(ctl, &call);
	if (code != HM_CTL_OK)
		return code;
	(void)printf("%s\n", ctl->json ? call.text : done);
	admin_done(&call);
	return HM_CTL_OK;
}

int
hm_ctl_pin(const struct hm_ctl *ctl)
{
	return admin_pin(ctl, HM_ADMIN_PIN, "pinned");
}

int
hm_ctl_unpin(const struct hm_ctl *ctl)
{
	return admin_pin(ctl, HM_ADMIN_UNPIN, "unpinned");
}

int
hm_ctl_drain(const struct hm_ctl *ctl)
{
	struct admin_call call = {.admin = {.command = HM_ADMIN_DRAIN}};
	struct hm_frame frame;
	int code = admin_ask(ctl, &call);
	int error;

	if (code != HM_CTL_OK)
		return code;
	/* Everything that still comes, up to the end of the connection. */
	do {
		error = hm_transport_recv(&call.link.transport, call.deadline,
		    &frame);
		if (error == HM_OK)
			hm_fd_close(&frame.fd);
	} while (error == HM_OK);
	if (error == HM_E_TIMEOUT)
		code = hm_ctl_fail(ctl, "%s: still finishing its work",
		    call.link.path);
	else if (ctl->json)
		(void)printf("{\"drained\":true}\n");
	else
		(void)printf("hummingd at %s has finished and left\n",
		    call.link.path);
	admin_done(&call);
	return code;
}

int
hm_ctl_reload(const struct hm_ctl *ctl)
{
	struct admin_call call = {.admin = {.command = HM_ADMIN_RELOAD}};
	int code = admin_ask(ctl, &call);
	const char *kept;

	if (code != HM_CTL_OK)
		return code;
	kept = json_string_value(json_object_get(call.json, "needs_restart"));
	if (ctl->json)
		(void)printf("%s\n", call.text);
	else if (kept != NULL && kept[0] != '\0')
		(void)printf("configuration read again; these need a restart: "
			     "%s\n",
		    kept);
	else
		(void)printf("configuration read again\n");
	admin_done(&call);
	return HM_CTL_OK;
}
