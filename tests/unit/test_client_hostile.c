/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client_hostile.c - every call of the library against a daemon that
 * misbehaves in every way at every step of the protocol: it comes back within
 * its deadline with an honest code, hands out nothing that was not verified,
 * keeps no descriptor, and works again as soon as the daemon does.
 *
 * HM_TEST_MUTATIONS sets how many damaged answers each call gets (15).
 */
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <humming/client.h>

#include "client/deadline.h"
#include "client/link.h"
#include "proto/fd.h"
#include "tests/unit/fake_daemon.h"

#define IMAGE_BYTES 5000u
#define BIG_BYTES   100000u /* a source or an image of a packet of its own */
#define PART_BYTES  (48u << 10)
#define BATCH       3u
/* Long enough for an honest exchange on a busy machine, and short. */
#define SHORT_MS 30u
#define LONG_MS  10000u
/* What a busy machine may add. */
#define SLACK_MS 3000
#define ANY      1 /* no code of ours: whatever is honest */

/* Where the script begins to misbehave. */
enum step {
	STEP_ACCEPT,  /* before it reads HELLO */
	STEP_WELCOME, /* instead of WELCOME */
	STEP_ANSWER,  /* instead of the answer */
	STEP_MIDDLE,  /* after a part of the answer */
	N_STEPS
};

enum deed {
	DEED_CLOSE,
	DEED_STALL,
	DEED_EMPTY,   /* a packet of no bytes, then the end */
	DEED_GARBAGE, /* bytes that are no frame */
	DEED_HUGE,    /* a packet larger than any frame */
	DEED_HALF,    /* half of the right packet */
	DEED_NO_BODY, /* the right header alone */
	DEED_OTHER_FRAME_VERSION,
	DEED_WRONG_ID,
	DEED_NO_ID,
	DEED_WRONG_TYPES,    /* all types there are */
	DEED_DESCRIPTOR,     /* the right packet and a descriptor with it */
	DEED_DESCRIPTORS,    /* two of them */
	DEED_BAD_REFUSAL,    /* an error that is none of ours */
	DEED_FLOOD_OLD,      /* answers to HELLO, without end */
	DEED_FLOOD_PROGRESS, /* it is still being built, for ever */
	DEED_FLOOD_RIGHT,    /* the right packet, without end */
	DEED_MUTATED,        /* the right packet with some bits turned */
	N_DEEDS
};

/* One packet, ready to be sent with or without damage. */
struct packet {
	uint8_t bytes[HM_FRAME_MAX_BYTES + 4096];
	size_t n;
};

struct script {
	enum step step;
	enum deed deed;
	unsigned bad_connection; /* its number; one before it dies, later ones
	                          * are honest */
	atomic_bool is_over;     /* what stalls and floods ends */
	uint64_t seed;
	uint8_t image[BIG_BYTES];
	struct packet packet;
	uint8_t buffer[HM_FRAME_MAX_BYTES];
};

static struct script script;

static uint64_t
next_random(uint64_t n)
{
	script.seed ^= script.seed >> 12;
	script.seed ^= script.seed << 25;
	script.seed ^= script.seed >> 27;
	return (script.seed * 0x2545f4914f6cdd1du >> 16) % n;
}

static size_t
count_fds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(folder);
	while (readdir(folder) != NULL)
		n++;
	(void)closedir(folder);
	return n;
}

/* --- the daemon's side: packets ------------------------------------------ */

static void
packet_make(struct packet *packet, const struct hm_frame *frame)
{
	uint8_t *at = packet->bytes;
	const uint32_t words[4] = {HM_FRAME_MAGIC,
	    HM_FRAME_VERSION | frame->type << 16, frame->request_id,
	    (uint32_t)frame->n_body};

	for (size_t i = 0; i < sizeof words; i++)
		at[i] = (uint8_t)(words[i / 4] >> 8 * (i % 4));
	at += HM_FRAME_HEADER_BYTES;
	if (frame->n_body != 0)
		memcpy(at, frame->body, frame->n_body);
	if (frame->n_raw != 0)
		memcpy(at + frame->n_body, frame->raw, frame->n_raw);
	packet->n = HM_FRAME_HEADER_BYTES + frame->n_body + frame->n_raw;
}

/* Send bytes with n_fds descriptors. False: the client is gone, or
 * the test is over. */
static bool
packet_send(int fd, const void *bytes, size_t n_bytes, unsigned n_fds)
{
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr header;
	} control;
	struct iovec iov = {.iov_len = n_bytes};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	const int fds[2] = {STDERR_FILENO, STDERR_FILENO};
	ssize_t n;

	memcpy(&iov.iov_base, &bytes, sizeof iov.iov_base);
	if (n_fds != 0) {
		memset(&control, 0, sizeof control);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, n_fds * sizeof(int));
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
	}
	for (;;) {
		n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0 || errno == EMSGSIZE)
			return true;
		if (errno != EAGAIN || atomic_load(&script.is_over))
			return false;
		(void)poll(&wait, 1, 5);
	}
}

/* Until the client goes or the test says so. */
static void
stall(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLRDHUP};

	while (!atomic_load(&script.is_over) && poll(&wait, 1, 2) != 1)
		continue;
}

static void
flood(int fd, const struct packet *packet)
{
	while (!atomic_load(&script.is_over) &&
	       packet_send(fd, packet->bytes, packet->n, 0))
		continue;
}

/* --- the daemon's side: deeds -------------------------------------------- */

static void
do_wrong_types(int fd, struct packet *packet)
{
	uint8_t right = packet->bytes[6];

	for (unsigned type = 0; type < 256; type++) {
		packet->bytes[6] = (uint8_t)type;
		if (type == right || type == HM_FRAME_PROGRESS ||
		    type == HM_FRAME_PART || type == HM_FRAME_ERROR)
			continue;
		if (!packet_send(fd, packet->bytes, packet->n, 0))
			return;
	}
}

static void
do_bad_refusal(int fd, uint32_t id)
{
	/* error: 4711 as protobuf says it; the packer would refuse. */
	static const uint8_t body[] = {0x08, 0xe7, 0x24};
	const struct hm_frame frame = {.type = HM_FRAME_ERROR,
	    .request_id = id,
	    .body = body,
	    .n_body = sizeof body};
	struct packet packet;

	packet_make(&packet, &frame);
	(void)packet_send(fd, packet.bytes, packet.n, 0);
}

static void
do_flood_progress(int fd, uint32_t id)
{
	struct hm_progress progress = {.queue_position = 3};
	struct hm_frame frame = {.type = HM_FRAME_PROGRESS, .request_id = id};
	struct packet packet;
	uint8_t body[64];

	if (hm_codec_pack_progress(&progress, body, sizeof body,
		&frame.n_body) != HM_OK)
		return;
	frame.body = body;
	packet_make(&packet, &frame);
	flood(fd, &packet);
}

static void
do_mutated(int fd, struct packet *packet)
{
	/* Mostly where a bit means something: header and body. */
	size_t range = packet->n < 256 ? packet->n : 256;

	for (uint64_t n = 1 + next_random(4); n > 0; n--) {
		size_t at = next_random(8) == 0 ? next_random(packet->n)
						: next_random(range);

		packet->bytes[at] ^= (uint8_t)(1u << next_random(8));
	}
	(void)packet_send(fd, packet->bytes, packet->n, 0);
	/* What was made of it may be something to wait for. */
	stall(fd);
}

/* Single packets that cannot be right. */
static void
do_one_packet(int fd, enum deed deed, struct packet *packet)
{
	switch (deed) {
	case DEED_EMPTY:
		packet->n = 0;
		break;
	case DEED_GARBAGE:
		memset(packet->bytes, 0x5a, packet->n);
		break;
	case DEED_HUGE:
		packet->n = HM_FRAME_MAX_BYTES + 1;
		break;
	case DEED_HALF:
		packet->n /= 2;
		break;
	case DEED_NO_BODY:
		packet->n = HM_FRAME_HEADER_BYTES;
		memset(packet->bytes + 12, 0, 4);
		break;
	case DEED_OTHER_FRAME_VERSION:
		packet->bytes[4] ^= 0x40;
		break;
	case DEED_WRONG_ID:
		packet->bytes[8] ^= 0x40;
		break;
	case DEED_NO_ID:
		memset(packet->bytes + 8, 0, 4);
		break;
	default:
		break;
	}
	(void)packet_send(fd, packet->bytes, packet->n,
	    deed == DEED_DESCRIPTOR    ? 1
	    : deed == DEED_DESCRIPTORS ? 2
				       : 0);
	if (deed != DEED_EMPTY)
		stall(fd);
}

/* Misbehave in the place of this packet. */
static void
misbehave(int fd, struct packet *packet)
{
	uint32_t id = packet->bytes[8];

	switch (script.deed) {
	case DEED_CLOSE:
		break;
	case DEED_STALL:
		stall(fd);
		break;
	case DEED_WRONG_TYPES:
		do_wrong_types(fd, packet);
		stall(fd);
		break;
	case DEED_BAD_REFUSAL:
		do_bad_refusal(fd, id);
		stall(fd);
		break;
	case DEED_FLOOD_OLD:
		packet->bytes[8] = 1; /* HELLO's */
		flood(fd, packet);
		break;
	case DEED_FLOOD_PROGRESS:
		do_flood_progress(fd, id);
		break;
	case DEED_FLOOD_RIGHT:
		flood(fd, packet);
		break;
	case DEED_MUTATED:
		do_mutated(fd, packet);
		break;
	default:
		do_one_packet(fd, script.deed, packet);
		break;
	}
}

/* --- the daemon's side: honest answers ----------------------------------- */

/* The script's turn has come: it misbehaves instead of sending this. */
static bool
answer_or_misbehave(int fd, const struct hm_frame *frame, bool is_bad)
{
	packet_make(&script.packet, frame);
	if (!is_bad)
		return packet_send(fd, script.packet.bytes, script.packet.n, 0);
	misbehave(fd, &script.packet);
	return false;
}

static bool
send_kernel(int fd, uint32_t id, uint32_t index, bool is_source, bool is_bad)
{
	struct hm_frame frame = {.type = HM_FRAME_KERNEL,
	    .request_id = id,
	    .raw = script.image,
	    .n_raw = IMAGE_BYTES};
	struct hm_kernel_reply reply;
	uint8_t body[16384];

	fake_reply_init(&reply, index, script.image, IMAGE_BYTES);
	if (is_source)
		reply.meta.n_config_words = 0;
	if (hm_codec_pack_kernel(&reply, body, sizeof body, &frame.n_body) !=
	    HM_OK)
		return false;
	frame.body = body;
	return answer_or_misbehave(fd, &frame, is_bad);
}

/* In parts, of which the last or the kernel behind them is the script's. */
static bool
send_parts(int fd, uint32_t id, bool is_bad)
{
	struct hm_frame frame = {.type = HM_FRAME_PART,
	    .request_id = id,
	    .raw = script.image,
	    .n_raw = PART_BYTES};
	struct hm_kernel_reply reply;
	uint8_t body[16384];

	if (!answer_or_misbehave(fd, &frame, false))
		return false;
	frame.raw += PART_BYTES;
	if (!answer_or_misbehave(fd, &frame, is_bad && script.seed % 2 == 0))
		return false;
	frame.raw += PART_BYTES;
	frame.n_raw = BIG_BYTES - 2 * PART_BYTES;
	if (!answer_or_misbehave(fd, &frame, false))
		return false;
	fake_reply_init(&reply, 0, script.image, BIG_BYTES);
	reply.meta.n_config_words = 0;
	if (hm_codec_pack_kernel(&reply, body, sizeof body, &frame.n_body) !=
	    HM_OK)
		return false;
	frame.type = HM_FRAME_KERNEL;
	frame.body = body;
	frame.n_raw = 0;
	return answer_or_misbehave(fd, &frame, is_bad);
}

static bool
send_get(int fd, const struct hm_frame *request, bool is_bad)
{
	bool is_middle = script.step == STEP_MIDDLE;
	struct hm_get get;
	uint32_t n;

	if (hm_codec_unpack_get(request->body, request->n_body, &get) != HM_OK)
		return false;
	n = get.n_requests;
	hm_get_done(&get);
	/* Backwards: an answer says which request it is for. */
	for (uint32_t i = n; i-- > 0;) {
		bool is_turn = is_middle ? i == 0 : i == n - 1;

		if (!send_kernel(fd, request->request_id, i, false,
			is_bad && is_turn))
			return false;
	}
	return true;
}

static bool
send_text(int fd, const struct hm_frame *request, bool is_bad)
{
	struct hm_frame frame = {.type = HM_FRAME_TEXT,
	    .request_id = request->request_id};
	uint8_t body[64];

	if (hm_codec_pack_text("{}", body, sizeof body, &frame.n_body) != HM_OK)
		return false;
	frame.body = body;
	/* STOP is answered, then obeyed. */
	return answer_or_misbehave(fd, &frame, is_bad) &&
	       request->type != HM_FRAME_STOP;
}

/* Something before the answer, then the answer. */
static bool
serve_request(int fd, const struct hm_frame *request, bool is_bad)
{
	struct hm_progress progress = {.queue_position = 1};
	struct hm_frame frame = {.type = HM_FRAME_PROGRESS,
	    .request_id = request->request_id};
	uint8_t body[64];

	if (request->type == HM_FRAME_CANCEL)
		return true;
	if (script.step == STEP_MIDDLE && request->type != HM_FRAME_STOP) {
		if (hm_codec_pack_progress(&progress, body, sizeof body,
			&frame.n_body) != HM_OK)
			return false;
		frame.body = body;
		if (!answer_or_misbehave(fd, &frame, false))
			return false;
	}
	switch (request->type) {
	case HM_FRAME_GET:
		return send_get(fd, request, is_bad);
	case HM_FRAME_COMPILE:
		return script.step == STEP_MIDDLE
			   ? send_parts(fd, request->request_id, is_bad)
			   : send_kernel(fd, request->request_id, 0, true,
				 is_bad);
	default:
		return send_text(fd, request, is_bad);
	}
}

static bool
serve_hello(int fd, bool is_bad)
{
	struct hm_frame frame = {.type = HM_FRAME_WELCOME, .request_id = 1};
	struct hm_welcome welcome;
	struct hm_frame hello;
	uint8_t body[256];

	if (is_bad && script.step == STEP_ACCEPT) {
		packet_make(&script.packet, &frame);
		misbehave(fd, &script.packet);
		return false;
	}
	if (!fake_recv(fd, script.buffer, &hello))
		return false;
	hm_fd_close(&hello.fd);
	fake_welcome_init(&welcome);
	if (hm_codec_pack_welcome(&welcome, body, sizeof body, &frame.n_body) !=
	    HM_OK)
		return false;
	frame.body = body;
	return answer_or_misbehave(fd, &frame,
	    is_bad && script.step == STEP_WELCOME);
}

static void
serve_script(int fd, unsigned number, void *payload)
{
	bool is_bad = number == script.bad_connection;
	bool is_late = script.step >= STEP_ANSWER;
	struct hm_frame request;
	bool goes_on;

	(void)payload;
	if (!serve_hello(fd, is_bad))
		return;
	do {
		if (!fake_recv(fd, script.buffer, &request))
			return;
		hm_fd_close(&request.fd);
		/* So that the client comes back to the bad one. */
		if (number < script.bad_connection)
			return;
		goes_on = serve_request(fd, &request, is_bad && is_late);
	} while (goes_on);
}

/* --- the client's side --------------------------------------------------- */

/* A call of the library; the code it gave. */
typedef int (*call_fn)(struct humming_client *client);

static int
call_ping(struct humming_client *client)
{
	return humming_client_ping(client);
}

static int
call_status(struct humming_client *client)
{
	char *json = NULL;
	int error = humming_client_status(client, &json);

	assert_true((error == HUMMING_OK) == (json != NULL));
	humming_free(json);
	return error;
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

/* Whatever else a daemon says of a kernel must not hurt who asks. */
static void
use_kernel(const struct humming_kernel *kernel)
{
	static const uint32_t sizes[] = {1, 64, 8192};
	struct humming_launch launch = {.struct_size = sizeof launch};
	struct humming_kernel_info info = {.struct_size = sizeof info};
	struct humming_range range;
	const void *image = NULL;
	size_t n_image = 0;

	assert_int_equal(humming_kernel_image(kernel, &image, &n_image),
	    HUMMING_OK);
	assert_true(n_image == IMAGE_BYTES || n_image == BIG_BYTES);
	assert_memory_equal(image, script.image, n_image);
	assert_int_equal(humming_kernel_get_info(kernel, &info), HUMMING_OK);
	for (uint32_t i = 0; i < info.n_ranges; i++)
		assert_int_equal(humming_kernel_range(kernel, i, &range),
		    HUMMING_OK);
	for (size_t i = 0; i < 9; i++)
		(void)humming_kernel_launch(kernel, sizes[i % 3],
		    i < 3 ? 8192 : 8, 8192, &launch);
}

static int
call_get(struct humming_client *client)
{
	struct humming_kernel_request request;
	struct humming_kernel *kernel = NULL;
	int error;

	make_request(&request);
	error = humming_client_get_kernel(client, &request, &kernel);
	assert_true((error == HUMMING_OK) == (kernel != NULL));
	if (kernel != NULL)
		use_kernel(kernel);
	humming_kernel_unref(kernel);
	return error;
}

static int
call_batch(struct humming_client *client)
{
	struct humming_kernel_request requests[BATCH];
	struct humming_kernel *kernels[BATCH];
	int errors[BATCH];
	int error;

	for (uint32_t i = 0; i < BATCH; i++) {
		make_request(&requests[i]);
		requests[i].m = i + 1;
	}
	error = humming_client_get_kernels(client, requests, BATCH, kernels,
	    errors);
	for (uint32_t i = 0; i < BATCH; i++) {
		assert_true((errors[i] == HUMMING_OK) == (kernels[i] != NULL));
		assert_true(error != HUMMING_OK || errors[i] == HUMMING_OK);
		if (kernels[i] != NULL)
			use_kernel(kernels[i]);
		humming_kernel_unref(kernels[i]);
	}
	return error;
}

static int
compile_bytes(struct humming_client *client, size_t n_bytes)
{
	static char text[BIG_BYTES];
	struct humming_source source = {.struct_size = sizeof source,
	    .target_cc = 80,
	    .text = text,
	    .text_bytes = n_bytes};
	struct humming_kernel *kernel = NULL;
	int error;

	memset(text, ' ', sizeof text);
	error = humming_client_compile(client, &source, &kernel);
	assert_true((error == HUMMING_OK) == (kernel != NULL));
	if (kernel != NULL)
		use_kernel(kernel);
	humming_kernel_unref(kernel);
	return error;
}

static int
call_compile(struct humming_client *client)
{
	return compile_bytes(client, 100);
}

static int
call_compile_by_file(struct humming_client *client)
{
	return compile_bytes(client, BIG_BYTES);
}

static int
call_stop(struct humming_client *client)
{
	return humming_client_stop(client);
}

static const struct {
	const char *name;
	call_fn call;
} calls[] = {
    {"ping", call_ping},
    {"status", call_status},
    {"get", call_get},
    {"batch", call_batch},
    {"compile", call_compile},
    {"compile by file", call_compile_by_file},
    {"stop", call_stop},
};
#define N_CALLS (sizeof calls / sizeof calls[0])

/* What each deed must lead to, in the place of WELCOME (at a reconnect) and in
 * the place of an answer. */
static const struct {
	const char *name;
	int at_welcome, at_answer;
} deeds[N_DEEDS] = {
    [DEED_CLOSE] = {"close", HUMMING_OK, HUMMING_OK},
    [DEED_STALL] = {"stall", HUMMING_E_TIMEOUT, HUMMING_E_TIMEOUT},
    [DEED_EMPTY] = {"empty packet", HUMMING_OK, HUMMING_OK},
    [DEED_GARBAGE] = {"garbage", HUMMING_E_PROTOCOL, HUMMING_E_PROTOCOL},
    [DEED_HUGE] = {"huge packet", HUMMING_E_PROTOCOL, HUMMING_E_PROTOCOL},
    [DEED_HALF] = {"half a packet", HUMMING_E_PROTOCOL, HUMMING_E_PROTOCOL},
    [DEED_NO_BODY] = {"no body", ANY, ANY},
    [DEED_OTHER_FRAME_VERSION] = {"frame version", HUMMING_E_VERSION,
	HUMMING_E_VERSION},
    [DEED_WRONG_ID] = {"wrong id", HUMMING_E_PROTOCOL, HUMMING_E_PROTOCOL},
    [DEED_NO_ID] = {"no id", HUMMING_E_PROTOCOL, HUMMING_E_PROTOCOL},
    [DEED_WRONG_TYPES] = {"wrong types", HUMMING_E_PROTOCOL,
	HUMMING_E_PROTOCOL},
    [DEED_DESCRIPTOR] = {"descriptor", HUMMING_E_PROTOCOL, HUMMING_E_PROTOCOL},
    [DEED_DESCRIPTORS] = {"descriptors", HUMMING_E_PROTOCOL,
	HUMMING_E_PROTOCOL},
    [DEED_BAD_REFUSAL] = {"bad refusal", HUMMING_E_PROTOCOL,
	HUMMING_E_PROTOCOL},
    [DEED_FLOOD_OLD] = {"flood of old answers", ANY, HUMMING_E_TIMEOUT},
    [DEED_FLOOD_PROGRESS] = {"flood of progress", HUMMING_E_PROTOCOL,
	HUMMING_E_TIMEOUT},
    [DEED_FLOOD_RIGHT] = {"flood of answers", ANY, ANY},
    [DEED_MUTATED] = {"mutated", ANY, ANY},
};

/* Its thread gets none of our signals. */
static struct fake_daemon *
new_daemon(fake_serve_fn serve, void *payload)
{
	struct fake_daemon *daemon;
	sigset_t all, before;

	(void)sigfillset(&all);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
	daemon = fake_daemon_new(serve, payload);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
	return daemon;
}

static int
open_client(const struct fake_daemon *daemon, uint32_t timeout_ms,
    struct humming_client **client_out)
{
	struct humming_client_options options;

	humming_client_options_init(&options, sizeof options);
	options.socket_path = fake_daemon_path(daemon);
	options.timeout_ms = timeout_ms;
	return humming_client_open(&options, client_out);
}

static void
script_begin(enum step step, enum deed deed)
{
	script.step = step;
	script.deed = deed;
	script.bad_connection = step < STEP_ANSWER ? 1 : 0;
	script.packet.n = 0;
	atomic_store(&script.is_over, false);
	for (size_t i = 0; i < sizeof script.image; i++)
		script.image[i] = (uint8_t)(i * 7 + i / 256);
}

/* Every code that says what happened, and none that blames the caller. */
static bool
is_honest(int error)
{
	switch (error) {
	case HUMMING_OK:
	case HUMMING_E_TIMEOUT:
	case HUMMING_E_UNAVAILABLE:
	case HUMMING_E_PROTOCOL:
	case HUMMING_E_VERSION:
	case HUMMING_E_CORRUPT:
		return true;
	default:
		return false;
	}
}

/* Only what ends by its deadline gets a short one. */
static uint32_t
deadline_for(int expected)
{
	return expected == HUMMING_E_TIMEOUT || expected == ANY ? SHORT_MS
								: LONG_MS;
}

static void
expect_end(const char *name, int error, int expected, int64_t took_ms,
    const struct humming_client *client)
{
	const char *text = humming_client_last_error(client);

	if (took_ms > deadline_for(expected) + SLACK_MS)
		fail_msg("%s, %s, step %d: took %lld ms", name,
		    deeds[script.deed].name, script.step, (long long)took_ms);
	if (expected == ANY ? !is_honest(error) && script.deed != DEED_MUTATED
			    : error != expected)
		fail_msg("%s, %s, step %d: %d (%s), not %d", name,
		    deeds[script.deed].name, script.step, error, text,
		    expected);
	assert_true((error == HUMMING_OK) == (text[0] == '\0'));
	assert_null(strchr(text, '\n'));
}

/* A script, and a client that it has greeted: a busy machine may take longer
 * for that than a short deadline. */
static struct fake_daemon *
begin_one(enum step step, enum deed deed, uint32_t timeout_ms,
    struct humming_client **client_out)
{
	struct fake_daemon *daemon = NULL;
	int error = HUMMING_E_TIMEOUT;

	for (int i = 0; i < 100 && error == HUMMING_E_TIMEOUT; i++) {
		if (daemon != NULL)
			fake_daemon_free(daemon);
		script_begin(step, deed);
		daemon = new_daemon(serve_script, NULL);
		error = open_client(daemon, timeout_ms, client_out);
	}
	assert_int_equal(error, HUMMING_OK);
	return daemon;
}

/* One call meets one deed; the next one finds an honest daemon. */
static void
run_one(size_t which, enum step step, enum deed deed)
{
	int expected =
	    step < STEP_ANSWER ? deeds[deed].at_welcome : deeds[deed].at_answer;
	struct humming_client *client = NULL;
	struct fake_daemon *daemon;
	int64_t start_ms;
	int error;

	/* A daemon that goes is what stop wants, a flood may be its answer. */
	if (calls[which].call == call_stop)
		expected = ANY;
	daemon = begin_one(step, deed, deadline_for(expected), &client);
	start_ms = hm_deadline_now_ms();
	error = calls[which].call(client);
	expect_end(calls[which].name, error, expected,
	    hm_deadline_now_ms() - start_ms, client);
	atomic_store(&script.is_over, true);
	/* Where it was slow before, it may be so once more. */
	for (int i = 0; i < 50; i++) {
		error = humming_client_ping(client);
		if (error == HUMMING_OK)
			break;
		assert_true(is_honest(error));
	}
	assert_int_equal(error, HUMMING_OK);
	humming_client_close(client);
	fake_daemon_free(daemon);
}

static void
test_client_hostile__every_deed_at_every_step_ends_in_time(void **state)
{
	size_t before = count_fds();

	(void)state;
	for (size_t which = 0; which < N_CALLS; which++) {
		for (enum step step = 0; step < N_STEPS; step++) {
			for (enum deed deed = 0; deed < DEED_MUTATED; deed++) {
				script.seed = 88172645463325252u + deed;
				/* Before HELLO: what needs no answer. */
				if (step != STEP_ACCEPT || deed <= DEED_STALL)
					run_one(which, step, deed);
			}
		}
	}
	assert_int_equal(count_fds(), before);
}

static void
test_client_hostile__damaged_answers_are_seen_or_harmless(void **state)
{
	const char *text = getenv("HM_TEST_MUTATIONS");
	unsigned long n = text != NULL ? strtoul(text, NULL, 10) : 15;
	size_t before = count_fds();

	(void)state;
	for (unsigned long i = 0; i < n; i++) {
		for (size_t which = 0; which < N_CALLS; which++) {
			script.seed =
			    (i * N_CALLS + which + 1) * 0x9e3779b97f4a7c15u;
			(void)next_random(2);
			run_one(which, i % 2 == 0 ? STEP_ANSWER : STEP_MIDDLE,
			    DEED_MUTATED);
		}
	}
	assert_int_equal(count_fds(), before);
}

/* The same when the connection is made for the first time. */
static void
test_client_hostile__open_ends_in_time(void **state)
{
	size_t before = count_fds();

	(void)state;
	for (enum step step = STEP_ACCEPT; step <= STEP_WELCOME; step++) {
		for (enum deed deed = 0; deed < DEED_FLOOD_RIGHT; deed++) {
			struct humming_client *client = NULL;
			struct fake_daemon *daemon;
			int64_t start_ms;
			int error, expected;

			if (step == STEP_ACCEPT && deed > DEED_STALL)
				continue;
			script_begin(step, deed);
			script.bad_connection = 0;
			daemon = new_daemon(serve_script, NULL);
			start_ms = hm_deadline_now_ms();
			expected = deeds[deed].at_welcome == HUMMING_OK
				       ? HUMMING_E_UNAVAILABLE
				       : deeds[deed].at_welcome;
			error = open_client(daemon, deadline_for(expected),
			    &client);
			expect_end("open", error, expected,
			    hm_deadline_now_ms() - start_ms, NULL);
			atomic_store(&script.is_over, true);
			humming_client_close(client);
			fake_daemon_free(daemon);
		}
	}
	assert_int_equal(count_fds(), before);
}

/* --- what takes more than one packet ------------------------------------- */

/* Greets, takes the request, perhaps says that it has begun, and dies. */
static void
serve_death(int fd, unsigned number, void *payload)
{
	struct hm_progress progress = {.queue_position = 0};
	struct hm_frame frame = {.type = HM_FRAME_PROGRESS, .fd = -1};
	struct hm_frame request;
	uint8_t body[64];

	(void)number;
	if (!fake_greet_and_recv(fd, script.buffer, &request))
		return;
	hm_fd_close(&request.fd);
	if (!*(const bool *)payload || hm_codec_pack_progress(&progress, body,
					   sizeof body, &frame.n_body) != HM_OK)
		return;
	frame.body = body;
	frame.request_id = request.request_id;
	fake_send(fd, &frame);
}

/* Perhaps it is what we ask that kills it: that comes to an end even for a
 * caller without a deadline, and in few tries. */
static void
test_client_hostile__request_that_kills_is_given_up(void **state)
{
	struct humming_client *client = NULL;
	struct fake_daemon *daemon;

	(void)state;
	for (int i = 0; i < 2; i++) {
		bool has_begun = i == 1;

		daemon = new_daemon(serve_death, &has_begun);
		assert_int_equal(open_client(daemon, UINT32_MAX, &client),
		    HUMMING_OK);
		assert_int_equal(call_get(client), HUMMING_E_UNAVAILABLE);
		assert_in_range(fake_daemon_connections(daemon), 2,
		    HM_LINK_MAX_LOST);
		humming_client_close(client);
		fake_daemon_free(daemon);
	}
}

/* The first connection is a daemon of our release; it goes in the middle of a
 * request, and another release has its place. */
static void
serve_replaced(int fd, unsigned number, void *payload)
{
	struct hm_welcome welcome;
	struct hm_frame request;

	fake_welcome_init(&welcome);
	if (number != 0)
		((uint32_t *)&welcome)[*(const size_t *)payload] += 1;
	fake_greet(fd, &welcome);
	if (fake_recv(fd, script.buffer, &request))
		hm_fd_close(&request.fd);
}

static void
test_client_hostile__replaced_by_another_release_is_named(void **state)
{
	static const size_t fields[] = {offsetof(struct hm_welcome, schema) /
					    sizeof(uint32_t),
	    offsetof(struct hm_welcome, kernel_abi) / sizeof(uint32_t),
	    offsetof(struct hm_welcome, pack_layout) / sizeof(uint32_t)};
	struct humming_client *client = NULL;
	struct fake_daemon *daemon;

	(void)state;
	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
		size_t field = fields[i];

		daemon = new_daemon(serve_replaced, &field);
		assert_int_equal(open_client(daemon, LONG_MS, &client),
		    HUMMING_OK);
		assert_int_equal(call_get(client), HUMMING_E_VERSION);
		assert_non_null(
		    strstr(humming_client_last_error(client), "9.9.9"));
		assert_int_equal(fake_daemon_connections(daemon), 2);
		humming_client_close(client);
		fake_daemon_free(daemon);
	}
}

/* A file that is not what a kernel may come in, by number. */
static int
make_bad_file(unsigned number)
{
	static const int seals[] = {F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL,
	    F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_SEAL,
	    F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SEAL,
	    F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK, 0};
	size_t n_bytes = number == 6   ? HM_MAX_IMAGE_BYTES + 1u
			 : number == 7 ? BIG_BYTES - 1
				       : BIG_BYTES;
	int ends[2];
	int fd = -1;

	if (number == 8)
		return open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (number == 9)
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (number == 10 && pipe2(ends, O_CLOEXEC) == 0) {
		hm_fd_close(&ends[1]);
		return ends[0];
	}
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd == -1 || ftruncate(fd, (off_t)n_bytes) != 0 ||
	    pwrite(fd, script.image, BIG_BYTES - 1, 0) != BIG_BYTES - 1 ||
	    (number == 5 && ftruncate(fd, 0) != 0) ||
	    fcntl(fd, F_ADD_SEALS,
		number < 5 ? seals[number]
			   : F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK |
				 F_SEAL_SEAL) != 0)
		hm_fd_close(&fd);
	return fd;
}
#define N_BAD_FILES 11u

static void
serve_bad_file(int fd, unsigned number, void *payload)
{
	struct hm_kernel_reply reply;
	struct hm_frame request;
	int image_fd;

	(void)number;
	if (!fake_greet_and_recv(fd, script.buffer, &request))
		return;
	hm_fd_close(&request.fd);
	image_fd = make_bad_file(*(const unsigned *)payload);
	if (image_fd == -1)
		return;
	script.image[BIG_BYTES - 1] = 0;
	fake_reply_init(&reply, 0, script.image, BIG_BYTES);
	fake_send_kernel(fd, request.request_id, &reply, NULL, 0, image_fd);
	hm_fd_close(&image_fd);
	stall(fd);
}

static void
test_client_hostile__files_that_could_change_are_refused(void **state)
{
	size_t before = count_fds();
	struct humming_client *client = NULL;
	struct fake_daemon *daemon;

	(void)state;
	for (unsigned number = 0; number < N_BAD_FILES; number++) {
		script_begin(STEP_ANSWER, DEED_STALL);
		daemon = new_daemon(serve_bad_file, &number);
		assert_int_equal(open_client(daemon, LONG_MS, &client),
		    HUMMING_OK);
		if (call_get(client) != HUMMING_E_PROTOCOL)
			fail_msg("file %u: %s", number,
			    humming_client_last_error(client));
		humming_client_close(client);
		fake_daemon_free(daemon);
	}
	assert_int_equal(count_fds(), before);
}

static void
on_alarm(int number)
{
	(void)number;
}

/* A caller with a timer of its own: no call is cut short by it, and none
 * waits anew each time. (The handler stays: one more may be on its way.) */
static void
test_client_hostile__signals_neither_cut_nor_prolong(void **state)
{
	const struct itimerval often = {{0, 300}, {0, 300}}, never = {{0}, {0}};
	const struct sigaction action = {.sa_handler = on_alarm};

	(void)state;
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	for (size_t which = 0; which < N_CALLS; which++) {
		run_one(which, STEP_ANSWER, DEED_STALL);
		run_one(which, STEP_WELCOME, DEED_STALL);
		run_one(which, STEP_ANSWER, DEED_CLOSE);
		run_one(which, STEP_MIDDLE, DEED_CLOSE);
	}
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_client_hostile__every_deed_at_every_step_ends_in_time),
	    cmocka_unit_test(
		test_client_hostile__damaged_answers_are_seen_or_harmless),
	    cmocka_unit_test(test_client_hostile__open_ends_in_time),
	    cmocka_unit_test(
		test_client_hostile__request_that_kills_is_given_up),
	    cmocka_unit_test(
		test_client_hostile__replaced_by_another_release_is_named),
	    cmocka_unit_test(
		test_client_hostile__files_that_could_change_are_refused),
	    cmocka_unit_test(
		test_client_hostile__signals_neither_cut_nor_prolong),
	};

	return cmocka_run_group_tests_name("client_hostile", tests, NULL, NULL);
}
