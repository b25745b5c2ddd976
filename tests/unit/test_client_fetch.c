/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client_fetch.c - what the library makes of answers: right ones in every
 * form, and those of a daemon that dies, lies or stalls.
 */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <humming/client.h>

#include "client/deadline.h"
#include "jit/config.h"
#include "proto/fd.h"
#include "tests/unit/fake_daemon.h"

#define IMAGE_BYTES 5000u
#define BIG_BYTES   200000u
#define SHORT_MS    300u
#define LONG_MS     8000u

/* A test's script: what the fake daemon does with a connection. */
struct script {
	fake_serve_fn answer; /* after the request has come */
	uint32_t number;      /* whatever the script wants */
	uint8_t image[BIG_BYTES];
	struct hm_frame request;
	uint8_t buffer[HM_FRAME_MAX_BYTES];
};

static struct script script;

static void
serve_script(int fd, unsigned number, void *payload)
{
	(void)payload;
	if (!fake_greet_and_recv(fd, script.buffer, &script.request))
		return;
	hm_fd_close(&script.request.fd);
	script.answer(fd, number, &script);
}

static int
count_fds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(folder);
	while (readdir(folder) != NULL)
		n++;
	(void)closedir(folder);
	return n;
}

static struct humming_client *
open_client(const struct fake_daemon *daemon, uint32_t timeout_ms)
{
	struct humming_client_options options;
	struct humming_client *client = NULL;

	humming_client_options_init(&options, sizeof options);
	options.socket_path = fake_daemon_path(daemon);
	options.timeout_ms = timeout_ms;
	assert_int_equal(humming_client_open(&options, &client), HUMMING_OK);
	return client;
}

static void
make_request(struct humming_kernel_request *request)
{
	humming_kernel_request_init(request, sizeof *request);
	request->target_cc = 90;
	request->target_suffix = 'a';
	request->a_type = HUMMING_TYPE_BF16;
	request->w_type = HUMMING_TYPE_UINT(4);
	request->scale_kind = HUMMING_SCALE_GROUP;
	request->group = 128;
	request->m = 1;
	request->n = request->k = 8192;
}

/* Run one get against a script; the kernel, if any, is checked and dropped. */
static int
get_with(fake_serve_fn answer, uint32_t timeout_ms, char *error_out)
{
	struct fake_daemon *daemon;
	struct humming_client *client;
	struct humming_kernel_request request;
	struct humming_kernel *kernel = NULL;
	const void *image;
	size_t n_image;
	int error;

	script.answer = answer;
	for (size_t i = 0; i < sizeof script.image; i++)
		script.image[i] = (uint8_t)(i * 7 + i / 256);
	daemon = fake_daemon_new(serve_script, NULL);
	client = open_client(daemon, timeout_ms);
	make_request(&request);
	error = humming_client_get_kernel(client, &request, &kernel);
	if (error_out != NULL)
		(void)snprintf(error_out, 512, "%s",
		    humming_client_last_error(client));
	assert_true((error == HUMMING_OK) == (kernel != NULL));
	if (kernel != NULL) {
		assert_int_equal(humming_kernel_image(kernel, &image, &n_image),
		    HUMMING_OK);
		assert_memory_equal(image, script.image, n_image);
	}
	humming_kernel_unref(kernel);
	humming_client_close(client);
	fake_daemon_free(daemon);
	return error;
}

/* --- right answers ------------------------------------------------------- */

static void
answer_inline(int fd, unsigned number, void *payload)
{
	struct hm_kernel_reply reply;

	(void)number;
	(void)payload;
	fake_reply_init(&reply, 0, script.image, IMAGE_BYTES);
	fake_send_kernel(fd, script.request.request_id, &reply, script.image,
	    IMAGE_BYTES, -1);
}

static void
test_client_fetch__inline_image_is_got(void **state)
{
	(void)state;
	assert_int_equal(get_with(answer_inline, LONG_MS, NULL), HUMMING_OK);
}

static void
answer_sealed(int fd, unsigned number, void *payload)
{
	struct hm_kernel_reply reply;
	int image_fd = -1;

	(void)number;
	(void)payload;
	if (hm_fd_seal("test", script.image, BIG_BYTES, &image_fd) != HM_OK)
		return;
	fake_reply_init(&reply, 0, script.image, BIG_BYTES);
	fake_send_kernel(fd, script.request.request_id, &reply, NULL, 0,
	    image_fd);
	hm_fd_close(&image_fd);
}

static void
test_client_fetch__sealed_file_is_mapped(void **state)
{
	int before = count_fds();

	(void)state;
	assert_int_equal(get_with(answer_sealed, LONG_MS, NULL), HUMMING_OK);
	assert_int_equal(count_fds(), before);
}

/* Parts, of which a connection sends script.number less on its first run. */
static void
send_parts(int fd, uint32_t n_frames)
{
	struct hm_frame part = {.type = HM_FRAME_PART,
	    .request_id = script.request.request_id,
	    .fd = -1};
	struct hm_kernel_reply reply;
	size_t size = 48u << 10;

	for (size_t at = 0; at < BIG_BYTES; at += size) {
		if (n_frames-- == 0)
			return;
		part.raw = script.image + at;
		part.n_raw = BIG_BYTES - at < size ? BIG_BYTES - at : size;
		fake_send(fd, &part);
	}
	if (n_frames == 0)
		return;
	fake_reply_init(&reply, 0, script.image, BIG_BYTES);
	fake_send_kernel(fd, part.request_id, &reply, NULL, 0, -1);
}

static void
answer_parts_cut(int fd, unsigned number, void *payload)
{
	(void)payload;
	send_parts(fd, number == 0 ? script.number : 100);
}

static void
test_client_fetch__killed_after_each_frame_asks_again(void **state)
{
	int before = count_fds();

	(void)state;
	/* 5 parts and the kernel: cut before each of them. */
	for (script.number = 0; script.number <= 5; script.number++)
		assert_int_equal(get_with(answer_parts_cut, LONG_MS, NULL),
		    HUMMING_OK);
	script.number = 100;
	assert_int_equal(get_with(answer_parts_cut, LONG_MS, NULL), HUMMING_OK);
	assert_int_equal(count_fds(), before);
}

/* --- batches ------------------------------------------------------------- */

/* The last first; script.number is refused by its index. */
static void
answer_batch(int fd, unsigned number, void *payload)
{
	struct hm_kernel_reply reply;
	struct hm_get get;

	(void)number;
	(void)payload;
	do {
		if (hm_codec_unpack_get(script.request.body,
			script.request.n_body, &get) != HM_OK)
			return;
		for (uint32_t i = get.n_requests; i-- > 0;) {
			fake_reply_init(&reply, i, script.image, IMAGE_BYTES);
			if (get.requests[i].m == script.number) {
				reply.status = HM_REPLY_UNSUPPORTED;
				reply.image_bytes = 0;
				(void)snprintf(reply.message,
				    sizeof reply.message, "no such kernel");
			}
			fake_send_kernel(fd, script.request.request_id, &reply,
			    script.image, reply.image_bytes, -1);
		}
		hm_get_done(&get);
	} while (fake_recv(fd, script.buffer, &script.request));
}

static void
test_client_fetch__batch_of_many_packets_comes_whole(void **state)
{
	enum { N = 300 };
	struct humming_kernel_request requests[N];
	struct humming_kernel *kernels[N];
	struct fake_daemon *daemon;
	struct humming_client *client;
	int errors[N];

	(void)state;
	script.answer = answer_batch;
	script.number = 290;
	daemon = fake_daemon_new(serve_script, NULL);
	client = open_client(daemon, LONG_MS);
	for (uint32_t i = 0; i < N; i++) {
		make_request(&requests[i]);
		requests[i].m = i + 1;
	}
	assert_int_equal(
	    humming_client_get_kernels(client, requests, N, kernels, errors),
	    HUMMING_E_UNSUPPORTED);
	assert_string_equal(humming_client_last_error(client),
	    "no such kernel");
	for (uint32_t i = 0; i < N; i++) {
		assert_int_equal(errors[i],
		    i + 1 == 290 ? HUMMING_E_UNSUPPORTED : HUMMING_OK);
		assert_true((kernels[i] != NULL) == (i + 1 != 290));
		humming_kernel_unref(kernels[i]);
	}
	humming_client_close(client);
	fake_daemon_free(daemon);
}

/* --- lies ---------------------------------------------------------------- */

static void
answer_damaged(int fd, unsigned number, void *payload)
{
	struct hm_kernel_reply reply;
	uint8_t image[IMAGE_BYTES];

	(void)number;
	(void)payload;
	fake_reply_init(&reply, 0, script.image, IMAGE_BYTES);
	memcpy(image, script.image, IMAGE_BYTES);
	image[script.number] ^= 1;
	fake_send_kernel(fd, script.request.request_id, &reply, image,
	    IMAGE_BYTES, -1);
}

static void
test_client_fetch__one_wrong_bit_is_corrupt(void **state)
{
	(void)state;
	script.number = 0;
	assert_int_equal(get_with(answer_damaged, LONG_MS, NULL),
	    HUMMING_E_CORRUPT);
	script.number = IMAGE_BYTES - 1;
	assert_int_equal(get_with(answer_damaged, LONG_MS, NULL),
	    HUMMING_E_CORRUPT);
}

static void
answer_unsealed(int fd, unsigned number, void *payload)
{
	struct hm_kernel_reply reply;
	int image_fd = -1;

	(void)number;
	(void)payload;
	if (hm_fd_memory("test", BIG_BYTES, &image_fd) != HM_OK ||
	    hm_fd_write_all(image_fd, script.image, BIG_BYTES) != HM_OK)
		return;
	fake_reply_init(&reply, 0, script.image, BIG_BYTES);
	fake_send_kernel(fd, script.request.request_id, &reply, NULL, 0,
	    image_fd);
	hm_fd_close(&image_fd);
}

static void
test_client_fetch__unsealed_file_is_refused(void **state)
{
	int before = count_fds();

	(void)state;
	assert_int_equal(get_with(answer_unsealed, LONG_MS, NULL),
	    HUMMING_E_PROTOCOL);
	assert_int_equal(count_fds(), before);
}

/* Sizes that contradict each other, by script.number. */
static void
answer_sizes(int fd, unsigned number, void *payload)
{
	/* Field 5, image_bytes, as varints: 0, 2^32 - 1, one less. */
	static const uint8_t patches[3][6] = {{0x28, 0},
	    {0x28, 0xff, 0xff, 0xff, 0xff, 0x0f}, {0x28, 0x87, 0x27}};
	static const size_t n_patches[3] = {2, 6, 3};
	struct hm_frame frame = {.request_id = script.request.request_id,
	    .raw = script.image,
	    .n_raw = IMAGE_BYTES,
	    .fd = -1};
	const uint8_t *patch = NULL;
	struct hm_kernel_reply reply;
	size_t n_patch = 0;

	(void)number;
	(void)payload;
	if (script.number < 3) {
		patch = patches[script.number];
		n_patch = n_patches[script.number];
	}
	/* 3: neither raw bytes nor a file; 4: both; 5: a file of another
	 * size. */
	if (script.number == 3 || script.number == 5)
		frame.n_raw = 0;
	if (script.number == 4)
		(void)hm_fd_seal("test", script.image, IMAGE_BYTES, &frame.fd);
	if (script.number == 5)
		(void)hm_fd_seal("test", script.image, BIG_BYTES, &frame.fd);
	fake_reply_init(&reply, 0, script.image, IMAGE_BYTES);
	fake_send_patched(fd, &frame, &reply, patch, n_patch);
	hm_fd_close(&frame.fd);
}

static void
test_client_fetch__lying_sizes_are_refused(void **state)
{
	int before = count_fds();

	(void)state;
	for (script.number = 0; script.number <= 5; script.number++)
		assert_int_equal(get_with(answer_sizes, LONG_MS, NULL),
		    HUMMING_E_PROTOCOL);
	assert_int_equal(count_fds(), before);
}

/* Ids, indices and frames that were not asked for, by script.number. */
static void
answer_misplaced(int fd, unsigned number, void *payload)
{
	static const uint8_t status_99[] = {0x10, 99};
	struct hm_frame frame = {.type = HM_FRAME_WELCOME,
	    .request_id = script.request.request_id,
	    .fd = -1};
	struct hm_kernel_reply reply;
	size_t n_patch = 0;

	(void)number;
	(void)payload;
	fake_reply_init(&reply, 0, script.image, IMAGE_BYTES);
	switch (script.number) {
	case 0: /* an id that was never given out */
		frame.request_id += 1;
		break;
	case 1:
		frame.request_id = 0;
		break;
	case 2: /* a request that is not in the batch */
		reply.index = 1;
		break;
	case 3: /* a type that is no answer */
		fake_send(fd, &frame);
		break;
	case 4: /* a status that is none */
		n_patch = sizeof status_99;
		break;
	default: /* not a frame at all */
		(void)send(fd, "garbage", 7, MSG_NOSIGNAL);
		break;
	}
	frame.raw = script.image;
	frame.n_raw = IMAGE_BYTES;
	fake_send_patched(fd, &frame, &reply, status_99, n_patch);
}

static void
test_client_fetch__misplaced_answers_are_refused(void **state)
{
	(void)state;
	for (script.number = 0; script.number <= 5; script.number++)
		assert_int_equal(get_with(answer_misplaced, LONG_MS, NULL),
		    HUMMING_E_PROTOCOL);
}

/* A KERNEL packet cut to script.number bytes. */
static void
answer_cut_packet(int fd, unsigned number, void *payload)
{
	struct hm_kernel_reply reply;
	uint8_t *packet = malloc(HM_FRAME_MAX_BYTES);
	int pair[2];
	ssize_t n;

	(void)number;
	(void)payload;
	if (packet == NULL ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return;
	fake_reply_init(&reply, 0, script.image, IMAGE_BYTES);
	fake_send_kernel(pair[0], script.request.request_id, &reply,
	    script.image, IMAGE_BYTES, -1);
	n = recv(pair[1], packet, HM_FRAME_MAX_BYTES, 0);
	if (n > (ssize_t)script.number)
		n = script.number;
	(void)send(fd, packet, (size_t)n, MSG_NOSIGNAL);
	free(packet);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

static void
test_client_fetch__cut_packets_are_refused(void **state)
{
	(void)state;
	for (script.number = 1; script.number < 400; script.number += 3)
		assert_int_equal(get_with(answer_cut_packet, LONG_MS, NULL),
		    HUMMING_E_PROTOCOL);
}

static void
answer_other_abi(int fd, unsigned number, void *payload)
{
	struct hm_kernel_reply reply;

	(void)number;
	(void)payload;
	fake_reply_init(&reply, 0, script.image, IMAGE_BYTES);
	if (script.number == 0)
		reply.kernel_abi = 4711;
	else
		reply.pack_layout = 4711;
	fake_send_kernel(fd, script.request.request_id, &reply, script.image,
	    IMAGE_BYTES, -1);
}

static void
test_client_fetch__other_abi_is_named(void **state)
{
	char why[512], ours[16];

	(void)state;
	for (script.number = 0; script.number <= 1; script.number++) {
		(void)snprintf(ours, sizeof ours, " %u",
		    script.number == 0 ? HM_KERNEL_ABI : HM_PACK_LAYOUT);
		assert_int_equal(get_with(answer_other_abi, LONG_MS, why),
		    HUMMING_E_VERSION);
		assert_non_null(strstr(why, "4711"));
		assert_non_null(strstr(why, ours));
	}
}

/* --- silence, death, floods ---------------------------------------------- */

static void
answer_nothing(int fd, unsigned number, void *payload)
{
	uint8_t *buffer = malloc(HM_FRAME_MAX_BYTES);
	struct hm_frame frame;

	(void)number;
	(void)payload;
	/* Until the client goes: CANCEL comes, then the end. */
	while (buffer != NULL && fake_recv(fd, buffer, &frame))
		hm_fd_close(&frame.fd);
	free(buffer);
}

static void
test_client_fetch__silence_ends_at_the_deadline(void **state)
{
	int64_t start = hm_deadline_now_ms();
	int64_t took;

	(void)state;
	assert_int_equal(get_with(answer_nothing, SHORT_MS, NULL),
	    HUMMING_E_TIMEOUT);
	took = hm_deadline_now_ms() - start;
	assert_true(took >= SHORT_MS);
	assert_true(took < SHORT_MS + 2000);
}

static void
answer_progress(int fd, unsigned number, void *payload)
{
	struct hm_frame frame = {.type = HM_FRAME_PROGRESS,
	    .request_id = script.request.request_id,
	    .fd = -1};
	struct hm_progress progress = {.queue_position = 3};
	uint8_t body[64];

	(void)number;
	(void)payload;
	if (hm_codec_pack_progress(&progress, body, sizeof body,
		&frame.n_body) != HM_OK)
		return;
	frame.body = body;
	for (;;) {
		int error = hm_frame_send(fd, &frame);

		if (error != HM_OK && error != HM_E_BUSY)
			break;
	}
}

static void
test_client_fetch__flood_of_progress_ends_at_the_deadline(void **state)
{
	int64_t start = hm_deadline_now_ms();

	(void)state;
	assert_int_equal(get_with(answer_progress, SHORT_MS, NULL),
	    HUMMING_E_TIMEOUT);
	assert_true(hm_deadline_now_ms() - start < SHORT_MS + 2000);
}

static void
answer_death(int fd, unsigned number, void *payload)
{
	(void)fd;
	(void)number;
	(void)payload;
}

static void
test_client_fetch__dying_daemon_ends_at_the_deadline(void **state)
{
	int64_t start = hm_deadline_now_ms();
	int error;

	(void)state;
	error = get_with(answer_death, SHORT_MS, NULL);
	assert_true(
	    error == HUMMING_E_TIMEOUT || error == HUMMING_E_UNAVAILABLE);
	assert_true(hm_deadline_now_ms() - start < SHORT_MS + 2000);
}

/* The first request is answered only after its deadline, before the second's
 * own answer. */
static void
answer_late(int fd, unsigned number, void *payload)
{
	uint32_t first = script.request.request_id;
	struct hm_kernel_reply reply;

	(void)number;
	(void)payload;
	fake_reply_init(&reply, 0, script.image, IMAGE_BYTES);
	do {
		if (!fake_recv(fd, script.buffer, &script.request))
			return;
	} while (script.request.type != HM_FRAME_GET);
	fake_send_kernel(fd, first, &reply, script.image, IMAGE_BYTES, -1);
	fake_send_kernel(fd, script.request.request_id, &reply, script.image,
	    IMAGE_BYTES, -1);
	answer_nothing(fd, number, payload);
}

static void
test_client_fetch__late_answer_is_not_the_next_ones(void **state)
{
	struct humming_kernel_request request;
	struct humming_kernel *kernel = NULL;
	struct fake_daemon *daemon;
	struct humming_client *client;

	(void)state;
	script.answer = answer_late;
	daemon = fake_daemon_new(serve_script, NULL);
	client = open_client(daemon, SHORT_MS);
	make_request(&request);
	assert_int_equal(humming_client_get_kernel(client, &request, &kernel),
	    HUMMING_E_TIMEOUT);
	assert_int_equal(humming_client_get_kernel(client, &request, &kernel),
	    HUMMING_OK);
	assert_int_equal(fake_daemon_connections(daemon), 1);
	humming_kernel_unref(kernel);
	humming_client_close(client);
	fake_daemon_free(daemon);
}

static void
answer_refusal(int fd, unsigned number, void *payload)
{
	struct hm_frame frame = {.type = HM_FRAME_ERROR,
	    .request_id = script.request.request_id,
	    .fd = -1};
	struct hm_refusal refusal = {.error = HM_E_BUSY,
	    .message = "too many\nrequests"};
	uint8_t body[600];

	(void)number;
	(void)payload;
	if (hm_codec_pack_refusal(&refusal, body, sizeof body, &frame.n_body) !=
	    HM_OK)
		return;
	frame.body = body;
	fake_send(fd, &frame);
}

static void
test_client_fetch__refusal_is_one_line(void **state)
{
	char why[512];

	(void)state;
	assert_int_equal(get_with(answer_refusal, LONG_MS, why),
	    HUMMING_E_BUSY);
	assert_string_equal(why, "too many?requests");
}

/* --- the connection ------------------------------------------------------ */

static void
test_client_fetch__ping_with_a_descriptor_is_refused(void **state)
{
	int before = count_fds();
	struct fake_daemon *daemon;
	struct humming_client *client;

	(void)state;
	script.answer = answer_sealed; /* KERNEL with a file, to a ping */
	daemon = fake_daemon_new(serve_script, NULL);
	client = open_client(daemon, LONG_MS);
	assert_int_equal(humming_client_ping(client), HUMMING_E_PROTOCOL);
	humming_client_close(client);
	fake_daemon_free(daemon);
	assert_int_equal(count_fds(), before);
}

static void
serve_other_version(int fd, unsigned number, void *payload)
{
	struct hm_welcome welcome;
	uint32_t which = *(uint32_t *)payload;

	(void)number;
	fake_welcome_init(&welcome);
	if (which == 0)
		welcome.kernel_abi = 4711;
	else if (which == 1)
		welcome.pack_layout = 4711;
	else
		welcome.schema = 4711;
	fake_greet(fd, &welcome);
}

static void
test_client_fetch__other_release_is_refused_by_name(void **state)
{
	static const char *const names[] = {"kernel ABI", "pack layout",
	    "schema"};
	struct humming_client_options options;
	struct humming_client *client = NULL;
	struct fake_daemon *daemon;

	(void)state;
	for (uint32_t which = 0; which < 3; which++) {
		daemon = fake_daemon_new(serve_other_version, &which);
		humming_client_options_init(&options, sizeof options);
		options.socket_path = fake_daemon_path(daemon);
		assert_int_equal(humming_client_open(&options, &client),
		    HUMMING_E_VERSION);
		assert_null(client);
		assert_non_null(
		    strstr(humming_client_last_error(NULL), names[which]));
		assert_non_null(
		    strstr(humming_client_last_error(NULL), "4711"));
		fake_daemon_free(daemon);
	}
}

/* By script.number: closes at once, says nothing, sends garbage. */
static void
serve_no_welcome(int fd, unsigned number, void *payload)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	(void)number;
	(void)payload;
	if (script.number == 0)
		return;
	if (script.number == 2)
		(void)send(fd, "garbage", 7, MSG_NOSIGNAL);
	/* HELLO stays unread; POLLRDHUP comes when the client has gone. */
	wait.events = POLLRDHUP;
	(void)poll(&wait, 1, 10000);
}

static void
test_client_fetch__no_welcome_fails_in_time(void **state)
{
	static const int expected[] = {HUMMING_E_UNAVAILABLE, HUMMING_E_TIMEOUT,
	    HUMMING_E_PROTOCOL};
	struct humming_client_options options;
	struct humming_client *client = NULL;
	struct fake_daemon *daemon;
	int64_t start;

	(void)state;
	for (script.number = 0; script.number < 3; script.number++) {
		daemon = fake_daemon_new(serve_no_welcome, NULL);
		humming_client_options_init(&options, sizeof options);
		options.socket_path = fake_daemon_path(daemon);
		options.timeout_ms = SHORT_MS;
		start = hm_deadline_now_ms();
		assert_int_equal(humming_client_open(&options, &client),
		    expected[script.number]);
		assert_true(hm_deadline_now_ms() - start < SHORT_MS + 2000);
		assert_true(humming_client_last_error(NULL)[0] != '\0');
		fake_daemon_free(daemon);
	}
}

static void
test_client_fetch__forked_child_is_refused(void **state)
{
	struct fake_daemon *daemon;
	struct humming_client *client;
	int status;
	pid_t pid;

	(void)state;
	script.answer = answer_nothing;
	daemon = fake_daemon_new(serve_script, NULL);
	client = open_client(daemon, SHORT_MS);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		int error = humming_client_ping(client);

		/* Its copy of the descriptor; the parent's stays open. */
		humming_client_close(client);
		_exit(error == HUMMING_E_INVALID ? 0 : 1);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	humming_client_close(client);
	fake_daemon_free(daemon);
}

static void
test_client_fetch__nobody_there_fails_at_once(void **state)
{
	struct humming_client_options options;
	struct humming_client *client = NULL;
	int64_t start = hm_deadline_now_ms();

	(void)state;
	humming_client_options_init(&options, sizeof options);
	options.socket_path = "/nonexistent/hummingd.sock";
	assert_int_equal(humming_client_open(&options, &client),
	    HUMMING_E_UNAVAILABLE);
	assert_true(hm_deadline_now_ms() - start < 1000);
	assert_non_null(strstr(humming_client_last_error(NULL),
	    "/nonexistent/hummingd.sock"));
	assert_int_equal(humming_error_is_retryable(HUMMING_E_UNAVAILABLE), 1);
	assert_int_equal(humming_error_is_retryable(HUMMING_E_COMPILE), 0);
}

/* --- sources ------------------------------------------------------------- */

/* Sends back what came as the image, inline or by file. */
static void
serve_echo_source(int fd, unsigned number, void *payload)
{
	struct hm_compile compile;
	struct hm_kernel_reply reply;
	const void *bytes;
	size_t n_bytes;
	bool mapped;

	(void)number;
	(void)payload;
	if (!fake_greet_and_recv(fd, script.buffer, &script.request) ||
	    hm_codec_unpack_compile(script.request.body, script.request.n_body,
		&compile) != HM_OK)
		return;
	mapped = script.request.fd != -1;
	bytes = script.request.raw;
	n_bytes = script.request.n_raw;
	if (mapped && hm_fd_map_sealed(script.request.fd, HM_MAX_SOURCE_BYTES,
			  &bytes, &n_bytes) != HM_OK)
		return;
	script.number = (uint32_t)n_bytes;
	fake_reply_init(&reply, 0, bytes, 100);
	reply.meta.n_config_words = 0;
	reply.kernel_abi = 0;
	reply.log = strdup(compile.n_options == 1 ? compile.options[0] : "?");
	fake_send_kernel(fd, script.request.request_id, &reply, bytes, 100, -1);
	hm_kernel_reply_done(&reply);
	hm_compile_done(&compile);
	if (mapped)
		hm_fd_unmap(bytes, n_bytes);
	hm_fd_close(&script.request.fd);
}

static void
test_client_fetch__source_goes_inline_or_by_file(void **state)
{
	static const size_t sizes[] = {100, HM_FRAME_INLINE_BYTES,
	    HM_FRAME_INLINE_BYTES + 1, HM_MAX_SOURCE_BYTES};
	static const char *const options[] = {"-DX=1"};
	struct humming_source source = {.struct_size = sizeof source};
	struct humming_kernel_info info = {.struct_size = sizeof info};
	struct humming_launch launch = {.struct_size = sizeof launch};
	char *text = malloc(HM_MAX_SOURCE_BYTES + 1);
	struct humming_kernel *kernel = NULL;
	struct fake_daemon *daemon;
	struct humming_client *client;
	int before = count_fds();

	(void)state;
	assert_non_null(text);
	memset(text, 'x', HM_MAX_SOURCE_BYTES + 1);
	source.target_cc = 90;
	source.n_options = 1;
	source.options = options;
	source.text = text;
	for (size_t i = 0; i < 4; i++) {
		daemon = fake_daemon_new(serve_echo_source, NULL);
		client = open_client(daemon, LONG_MS);
		source.text_bytes = sizes[i];
		assert_int_equal(
		    humming_client_compile(client, &source, &kernel),
		    HUMMING_OK);
		assert_int_equal(script.number, sizes[i]);
		assert_int_equal(humming_kernel_get_info(kernel, &info),
		    HUMMING_OK);
		assert_string_equal(info.log, "-DX=1");
		assert_int_equal(
		    humming_kernel_launch(kernel, 1, 8192, 8192, &launch),
		    HUMMING_E_UNSUPPORTED);
		humming_kernel_unref(kernel);
		humming_client_close(client);
		fake_daemon_free(daemon);
	}
	assert_int_equal(count_fds(), before);
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_client_fetch__inline_image_is_got),
	    cmocka_unit_test(test_client_fetch__sealed_file_is_mapped),
	    cmocka_unit_test(
		test_client_fetch__killed_after_each_frame_asks_again),
	    cmocka_unit_test(
		test_client_fetch__batch_of_many_packets_comes_whole),
	    cmocka_unit_test(test_client_fetch__one_wrong_bit_is_corrupt),
	    cmocka_unit_test(test_client_fetch__unsealed_file_is_refused),
	    cmocka_unit_test(test_client_fetch__lying_sizes_are_refused),
	    cmocka_unit_test(test_client_fetch__misplaced_answers_are_refused),
	    cmocka_unit_test(test_client_fetch__cut_packets_are_refused),
	    cmocka_unit_test(test_client_fetch__other_abi_is_named),
	    cmocka_unit_test(test_client_fetch__silence_ends_at_the_deadline),
	    cmocka_unit_test(
		test_client_fetch__flood_of_progress_ends_at_the_deadline),
	    cmocka_unit_test(
		test_client_fetch__dying_daemon_ends_at_the_deadline),
	    cmocka_unit_test(
		test_client_fetch__late_answer_is_not_the_next_ones),
	    cmocka_unit_test(test_client_fetch__refusal_is_one_line),
	    cmocka_unit_test(
		test_client_fetch__ping_with_a_descriptor_is_refused),
	    cmocka_unit_test(
		test_client_fetch__other_release_is_refused_by_name),
	    cmocka_unit_test(test_client_fetch__no_welcome_fails_in_time),
	    cmocka_unit_test(test_client_fetch__forked_child_is_refused),
	    cmocka_unit_test(test_client_fetch__nobody_there_fails_at_once),
	    cmocka_unit_test(test_client_fetch__source_goes_inline_or_by_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
