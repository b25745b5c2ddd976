/* SPDX-License-Identifier: Apache-2.0 */
/*
 * abi_replay.c - a library and a daemon of different releases either work
 * together or part by name, with both numbers; they never take one thing for
 * another. Earlier releases are the fixtures tests/abi/schema-N.
 */
#include <sys/socket.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/include/humming/client.h"
#include "jit/config.h"
#include "tests/abi/fixture.h"
#include "tests/integration/wire.h"
#include "tests/unit/fake_daemon.h"

/* One row per release whose bytes were recorded; README.md says when. */
static const struct release {
	uint32_t schema;
	const char *folder;
} releases[] = {
    {1, HM_ABI_FOLDER "/schema-1"},
};
#define N_RELEASES (sizeof(releases) / sizeof(releases[0]))

static struct harness harness;

static int
setup(void **state)
{
	(void)state;
	harness_init(&harness);
	harness.environment[0] = "HUMMING_WORKERS=1";
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	harness_done(&harness);
	return 0;
}

/* Whether a text has a number as a word of its own. */
static bool
names(const char *text, uint32_t number)
{
	char word[16];
	const char *at = text;
	int n_word = snprintf(word, sizeof(word), "%u", number);

	while ((at = strstr(at, word)) != NULL) {
		bool begins =
		    at == text || strchr("0123456789.", at[-1]) == NULL;

		at += n_word;
		if (begins && (*at < '0' || *at > '9') &&
		    !(at[0] == '.' && at[1] >= '0' && at[1] <= '9'))
			return true;
	}
	return false;
}

static void
send_packet(struct wire *wire, const struct fixture_packet *packet)
{
	assert_int_equal(
	    send(wire->fd, packet->bytes, packet->n_bytes, MSG_NOSIGNAL),
	    (ssize_t)packet->n_bytes);
}

/* A refusal that names both; then the connection ends. */
static void
expect_refusal(struct wire *wire, const struct hm_frame *frame, uint32_t ours,
    uint32_t theirs)
{
	struct hm_refusal refusal;
	struct hm_frame none;

	assert_int_equal(frame->type, HM_FRAME_ERROR);
	assert_int_equal(
	    hm_codec_unpack_refusal(frame->body, frame->n_body, &refusal),
	    HM_OK);
	assert_int_equal(refusal.error, HM_E_VERSION);
	if (!names(refusal.message, ours) || !names(refusal.message, theirs))
		fail_msg("'%s' does not name %u and %u", refusal.message, ours,
		    theirs);
	assert_false(wire_recv(wire, &none, HARNESS_WAIT_MS));
}

/* ---- an earlier library, this daemon ---- */

static void
ask_as(const struct release *release)
{
	static struct fixture_packet packet;
	static struct wire wire;
	struct wire_kernel kernel;
	struct hm_welcome welcome;
	struct hm_frame frame;

	wire_connect(&wire, &harness);
	fixture_read(release->folder, "client.hex", "HELLO", &packet);
	send_packet(&wire, &packet);
	assert_true(wire_recv(&wire, &frame, HARNESS_WAIT_MS));
	if (frame.type != HM_FRAME_WELCOME) {
		expect_refusal(&wire, &frame, HM_SCHEMA, release->schema);
		wire_close(&wire);
		return;
	}
	assert_int_equal(
	    hm_codec_unpack_welcome(frame.body, frame.n_body, &welcome), HM_OK);
	assert_int_equal(welcome.schema, release->schema);
	fixture_read(release->folder, "client.hex", "GET", &packet);
	send_packet(&wire, &packet);
	assert_true(wire_recv_kernel(&wire, &kernel));
	/* A machine without a compiler says so, and nothing else. */
	if (kernel.reply.status == HM_REPLY_BUILT ||
	    kernel.reply.status == HM_REPLY_HIT) {
		assert_string_equal(kernel.reply.meta.arch, "sm_90a");
		assert_non_null(strstr(kernel.reply.meta.spec, "w=u4"));
		assert_non_null(strstr(kernel.reply.meta.spec, "k=8192"));
	} else {
		assert_int_equal(kernel.reply.error, HM_E_UNAVAILABLE);
	}
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

static void
test_abi__earlier_library__is_served_or_refused_by_name(void **state)
{
	(void)state;
	harness_start(&harness);
	for (size_t i = 0; i < N_RELEASES; i++)
		ask_as(&releases[i]);
}

/* ---- a later library, this daemon ---- */

static void
say_hello(const struct hm_hello *hello, uint32_t ours, uint32_t theirs)
{
	static struct wire wire;
	struct hm_frame frame;
	uint8_t body[256];
	size_t n_body = 0;

	wire_connect(&wire, &harness);
	assert_int_equal(
	    hm_codec_pack_hello(hello, body, sizeof(body), &n_body), HM_OK);
	assert_true(wire_send(&wire, HM_FRAME_HELLO, body, n_body));
	assert_true(wire_recv(&wire, &frame, HARNESS_WAIT_MS));
	expect_refusal(&wire, &frame, ours, theirs);
	wire_close(&wire);
}

static void
test_abi__other_library__is_refused_with_both_numbers(void **state)
{
	const struct hm_hello usual = {.schema = HM_SCHEMA,
	    .kernel_abi = HM_KERNEL_ABI,
	    .pack_layout = HM_PACK_LAYOUT,
	    .program = "test"};
	struct hm_hello hello;

	(void)state;
	harness_start(&harness);
	hello = usual;
	hello.schema = 4711;
	say_hello(&hello, HM_SCHEMA, 4711);
	hello = usual;
	hello.kernel_abi = 4711;
	say_hello(&hello, HM_KERNEL_ABI, 4711);
	hello = usual;
	hello.pack_layout = 4711;
	say_hello(&hello, HM_PACK_LAYOUT, 4711);
}

/* Frames that this daemon cannot read: it says so in frames of its own. */
static void
test_abi__other_frames__are_refused_with_both_numbers(void **state)
{
	static const uint8_t packet[24] = {'H', 'U', 'M', 'M', 9, 0, 1, 0, 1};
	static struct wire wire;
	struct hm_frame frame;

	(void)state;
	harness_start(&harness);
	wire_connect(&wire, &harness);
	assert_int_equal(send(wire.fd, packet, sizeof(packet), MSG_NOSIGNAL),
	    sizeof(packet));
	assert_true(wire_recv(&wire, &frame, HARNESS_WAIT_MS));
	expect_refusal(&wire, &frame, HM_FRAME_VERSION, 9);
	wire_close(&wire);
}

/* ---- an earlier daemon, this library ---- */

static void
send_as_daemon(int fd, const struct release *release, const char *name,
    uint32_t request_id)
{
	static struct fixture_packet packet;

	fixture_read(release->folder, "daemon.hex", name, &packet);
	fixture_set_id(&packet, request_id);
	/* A library that has gone has refused. */
	if (send(fd, packet.bytes, packet.n_bytes, MSG_NOSIGNAL) == -1)
		assert_true(errno == EPIPE || errno == ECONNRESET);
}

static void
serve_as(int fd, unsigned number, void *payload)
{
	static uint8_t buffer[HM_FRAME_MAX_BYTES];
	const struct release *const *release = payload;
	struct hm_frame frame = {.fd = -1};

	(void)number;
	if (!fake_recv(fd, buffer, &frame))
		return;
	send_as_daemon(fd, *release, "WELCOME", frame.request_id);
	if (!fake_recv(fd, buffer, &frame))
		return;
	send_as_daemon(fd, *release, "KERNEL", frame.request_id);
}

/* What is fetched is, byte for byte, what the packet carries. */
static void
check_kernel(const struct release *release, const struct humming_kernel *kernel)
{
	static struct fixture_packet packet;
	const uint8_t *body = NULL;
	const void *image = NULL;
	size_t n_body = 0;
	size_t n_image = 0;

	fixture_read(release->folder, "daemon.hex", "KERNEL", &packet);
	fixture_body(&packet, &body, &n_body);
	assert_int_equal(humming_kernel_image(kernel, &image, &n_image),
	    HUMMING_OK);
	assert_int_equal(n_image,
	    packet.n_bytes - HM_FRAME_HEADER_BYTES - n_body);
	assert_memory_equal(image, body + n_body, n_image);
}

static void
fetch_from(const struct release *release)
{
	struct humming_client_options options;
	struct humming_kernel_request request;
	struct humming_client *client = NULL;
	struct humming_kernel *kernel = NULL;
	struct fake_daemon *daemon = fake_daemon_new(serve_as, &release);
	int error;

	humming_client_options_init(&options, sizeof(options));
	options.socket_path = fake_daemon_path(daemon);
	humming_kernel_request_init(&request, sizeof(request));
	request.target_cc = 90;
	request.target_suffix = 'a';
	request.a_type = HUMMING_TYPE_BF16;
	request.w_type = HUMMING_TYPE_UINT(4);
	request.scale_kind = HUMMING_SCALE_GROUP;
	request.group = 128;
	request.m = 1;
	error = humming_client_open(&options, &client);
	if (error == HUMMING_OK)
		error = humming_client_get_kernel(client, &request, &kernel);
	if (error == HUMMING_OK) {
		check_kernel(release, kernel);
	} else {
		const char *why = humming_client_last_error(client);

		assert_int_equal(error, HUMMING_E_VERSION);
		assert_true(names(why, release->schema));
		assert_true(names(why, HM_SCHEMA));
	}
	humming_kernel_unref(kernel);
	humming_client_close(client);
	fake_daemon_free(daemon);
}

static void
test_abi__earlier_daemon__is_used_or_refused_by_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_RELEASES; i++)
		fetch_from(&releases[i]);
}

/* Whoever changes the schema records the bytes of the one before. */
static void
test_abi__every_schema_so_far__has_a_fixture(void **state)
{
	uint32_t n_found = 0;

	(void)state;
	for (uint32_t schema = 1; schema <= HM_SCHEMA; schema++) {
		for (size_t i = 0; i < N_RELEASES; i++)
			n_found += releases[i].schema == schema;
	}
	assert_int_equal(n_found, HM_SCHEMA);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_abi__earlier_library__is_served_or_refused_by_name),
	    TEST(test_abi__other_library__is_refused_with_both_numbers),
	    TEST(test_abi__other_frames__are_refused_with_both_numbers),
	    cmocka_unit_test(
		test_abi__earlier_daemon__is_used_or_refused_by_name),
	    cmocka_unit_test(test_abi__every_schema_so_far__has_a_fixture),
	};

	return cmocka_run_group_tests_name("abi", tests, NULL, NULL);
}
