/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client_alloc.c - memory runs out at each place of a fetch: it ends with
 * NOMEM, every request has its result, nothing leaks (asan looks) and no
 * descriptor stays open.
 */
#include <sys/socket.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/call.h"
#include "client/deadline.h"
#include "client/fetch.h"
#include "client/kernel.h"
#include "fake_alloc.h"
#include "proto/fd.h"
#include "tests/unit/fake_daemon.h"

#define IMAGE_BYTES 60000u
#define N_REQUESTS  3u
#define FIRST_ID    2u /* HELLO has 1 */

enum form { FORM_INLINE, FORM_SEALED, FORM_PARTS };

static uint8_t image[IMAGE_BYTES];
static struct hm_link link_under_test;

/* What came of one run. */
struct outcome {
	unsigned n_results;
	unsigned n_kernels;
	int error; /* the first failure */
};

static void
on_result(void *payload, const struct hm_fetch_result *result)
{
	struct outcome *outcome = payload;

	outcome->n_results++;
	outcome->n_kernels += result->kernel != NULL;
	if (outcome->error == HM_OK)
		outcome->error = result->error;
	humming_kernel_unref(result->kernel);
}

/* All answers, sent before they are asked for: no second thread, whose
 * allocations would be counted too. */
static void
send_answers(int fd, enum form form)
{
	size_t n_image = form == FORM_INLINE ? 5000 : IMAGE_BYTES;
	struct hm_frame part = {.type = HM_FRAME_PART,
	    .request_id = FIRST_ID,
	    .raw = image,
	    .n_raw = IMAGE_BYTES / 2,
	    .fd = -1};
	struct hm_kernel_reply reply;
	int image_fd = -1;

	for (uint32_t i = 0; i < N_REQUESTS; i++) {
		fake_reply_init(&reply, i, image, n_image);
		if (form == FORM_SEALED)
			assert_int_equal(
			    hm_fd_seal("test", image, n_image, &image_fd),
			    HM_OK);
		for (unsigned j = 0; form == FORM_PARTS && j < 2; j++)
			fake_send(fd, &part);
		fake_send_kernel(fd, FIRST_ID, &reply, image,
		    form == FORM_INLINE ? n_image : 0, image_fd);
		hm_fd_close(&image_fd);
	}
}

/* One run whose fail_at-th allocation fails; gives how many there were. */
static size_t
run_once(enum form form, size_t fail_at, struct outcome *outcome)
{
	struct hm_request requests[N_REQUESTS] = {{.m = 1}};
	struct hm_fetch fetch = {
	    .requests = requests,
	    .n_requests = N_REQUESTS,
	    .on_result = on_result,
	    .payload = outcome,
	};
	struct hm_errbuf why = {.text = ""};
	size_t n_allocations;
	int pair[2];
	int error;

	memset(outcome, 0, sizeof *outcome);
	assert_int_equal(socketpair(AF_UNIX,
			     SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			     pair),
	    0);
	memset(&link_under_test, 0, sizeof link_under_test);
	hm_transport_init(&link_under_test.transport);
	link_under_test.transport.fd = pair[0];
	link_under_test.last_id = FIRST_ID - 1;
	send_answers(pair[1], form);

	fake_alloc_fail_at(fail_at);
	error =
	    hm_fetch_run(&link_under_test, &fetch, hm_deadline_in(5000), &why);
	n_allocations = fake_alloc_count();
	fake_alloc_fail_at(0);
	assert_int_equal(error, outcome->error);
	assert_int_equal(outcome->n_results, N_REQUESTS);
	hm_link_done(&link_under_test);
	(void)close(pair[1]);
	return n_allocations;
}

static void
walk(enum form form)
{
	struct outcome outcome;
	size_t n_allocations;

	(void)run_once(form, 0, &outcome);
	assert_int_equal(outcome.error, HM_OK);
	assert_int_equal(outcome.n_kernels, N_REQUESTS);
	n_allocations = run_once(form, SIZE_MAX, &outcome);
	assert_true(n_allocations > N_REQUESTS);
	for (size_t i = 1; i <= n_allocations; i++) {
		(void)run_once(form, i, &outcome);
		assert_int_equal(outcome.error, HM_E_NOMEM);
	}
}

static void
test_client_alloc__inline_fetch_without_memory_fails_whole(void **state)
{
	(void)state;
	walk(FORM_INLINE);
}

static void
test_client_alloc__sealed_fetch_without_memory_fails_whole(void **state)
{
	(void)state;
	walk(FORM_SEALED);
}

static void
test_client_alloc__fetch_in_parts_without_memory_fails_whole(void **state)
{
	(void)state;
	walk(FORM_PARTS);
}

/* --- small questions ----------------------------------------------------- */

/* A question whose answer is there already; its code, and whether something
 * came of it. */
typedef int (*ask_fn)(int peer, bool *came_out);

static int
ask_status(int peer, bool *came_out)
{
	struct hm_frame frame = {.type = HM_FRAME_TEXT,
	    .request_id = FIRST_ID,
	    .fd = -1};
	struct hm_errbuf why = {.text = ""};
	uint8_t body[64];
	char *text = NULL;
	int error;

	assert_int_equal(
	    hm_codec_pack_text("{}", body, sizeof body, &frame.n_body), HM_OK);
	frame.body = body;
	fake_send(peer, &frame);
	error = hm_call_text(&link_under_test, HM_FRAME_STATUS,
	    hm_deadline_in(5000), &text, &why);
	*came_out = text != NULL;
	free(text);
	return error;
}

static int
ask_explain(int peer, bool *came_out)
{
	struct hm_record_reply reply = {.found = 1, .record_bytes = 100};
	struct hm_frame frame = {.type = HM_FRAME_RECORD,
	    .request_id = FIRST_ID,
	    .raw = image,
	    .n_raw = 100,
	    .fd = -1};
	struct hm_record record = {.bytes = image, .n_bytes = 100};
	struct hm_errbuf why = {.text = ""};
	uint8_t body[64];
	void *stored = NULL;
	int error;

	assert_int_equal(hm_codec_pack_record_reply(&reply, body, sizeof body,
			     &frame.n_body),
	    HM_OK);
	frame.body = body;
	fake_send(peer, &frame);
	error = hm_call_explain(&link_under_test, &record, hm_deadline_in(5000),
	    &reply, &stored, &why);
	*came_out = stored != NULL;
	free(stored);
	return error;
}

static size_t
ask_once(ask_fn ask, size_t fail_at, int expected)
{
	size_t n_allocations;
	int pair[2];
	bool came = false;

	assert_int_equal(socketpair(AF_UNIX,
			     SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			     pair),
	    0);
	memset(&link_under_test, 0, sizeof link_under_test);
	hm_transport_init(&link_under_test.transport);
	link_under_test.transport.fd = pair[0];
	link_under_test.last_id = FIRST_ID - 1;
	fake_alloc_fail_at(fail_at);
	assert_int_equal(ask(pair[1], &came), expected);
	n_allocations = fake_alloc_count();
	fake_alloc_fail_at(0);
	assert_int_equal(came, expected == HM_OK);
	hm_link_done(&link_under_test);
	(void)close(pair[1]);
	return n_allocations;
}

static void
test_client_alloc__questions_without_memory_say_so(void **state)
{
	static const ask_fn asks[] = {ask_status, ask_explain};

	(void)state;
	for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
		size_t n = ask_once(asks[i], SIZE_MAX, HM_OK);

		assert_true(n > 0);
		for (size_t at = 1; at <= n; at++)
			(void)ask_once(asks[i], at, HM_E_NOMEM);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_client_alloc__inline_fetch_without_memory_fails_whole),
	    cmocka_unit_test(
		test_client_alloc__sealed_fetch_without_memory_fails_whole),
	    cmocka_unit_test(
		test_client_alloc__fetch_in_parts_without_memory_fails_whole),
	    cmocka_unit_test(
		test_client_alloc__questions_without_memory_say_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
