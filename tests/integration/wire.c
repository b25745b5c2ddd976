/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.c - see wire.h.
 */
#include "tests/integration/wire.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "jit/config.h"
#include "jit/spec.h"
#include "proto/fd.h"

void
wire_connect(struct wire *wire, const struct harness *harness)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	memset(wire, 0, sizeof(*wire));
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s",
	    harness->socket);
	wire->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_true(wire->fd >= 0);
	assert_int_equal(connect(wire->fd, (const struct sockaddr *)&address,
			     sizeof(address)),
	    0);
	assert_int_equal(fcntl(wire->fd, F_SETFL, O_NONBLOCK), 0);
}

void
wire_say_hello(struct wire *wire, uint32_t capabilities)
{
	struct hm_hello hello = {.schema = HM_SCHEMA,
	    .capabilities = capabilities,
	    .kernel_abi = HM_KERNEL_ABI,
	    .pack_layout = HM_PACK_LAYOUT,
	    .program = "test"};
	uint8_t body[256];
	size_t n_body = 0;

	assert_int_equal(
	    hm_codec_pack_hello(&hello, body, sizeof(body), &n_body), HM_OK);
	assert_true(wire_send(wire, HM_FRAME_HELLO, body, n_body));
}

void
wire_open_as(struct wire *wire, const struct harness *harness,
    uint32_t capabilities)
{
	struct hm_welcome welcome;
	struct hm_frame frame;

	wire_connect(wire, harness);
	wire_say_hello(wire, capabilities);
	assert_true(wire_recv(wire, &frame, HARNESS_WAIT_MS));
	assert_int_equal(frame.type, HM_FRAME_WELCOME);
	assert_int_equal(
	    hm_codec_unpack_welcome(frame.body, frame.n_body, &welcome), HM_OK);
	assert_int_equal(welcome.schema, HM_SCHEMA);
}

void
wire_open(struct wire *wire, const struct harness *harness)
{
	wire_open_as(wire, harness, HM_CAPABILITY_FD);
}

void
wire_close(struct wire *wire)
{
	hm_fd_close(&wire->fd);
}

/* Send, waiting for room. */
static bool
wire_push(struct wire *wire, const struct hm_frame *frame)
{
	struct pollfd wait = {.fd = wire->fd, .events = POLLOUT};
	int error;

	while ((error = hm_frame_send(wire->fd, frame)) == HM_E_BUSY)
		assert_int_equal(poll(&wait, 1, HARNESS_WAIT_MS), 1);
	return error == HM_OK;
}

bool
wire_send(struct wire *wire, uint32_t type, const uint8_t *body, size_t n_body)
{
	struct hm_frame frame = {.type = type,
	    .request_id = ++wire->last_id,
	    .body = body,
	    .n_body = n_body,
	    .fd = -1};

	return wire_push(wire, &frame);
}

bool
wire_recv(struct wire *wire, struct hm_frame *frame_out, int wait_ms)
{
	struct pollfd wait = {.fd = wire->fd, .events = POLLIN};
	uint64_t until_ms = harness_now_ms() + (uint64_t)wait_ms;
	int error;

	for (;;) {
		uint64_t now_ms = harness_now_ms();

		error = hm_frame_recv(wire->fd, wire->buffer, frame_out);
		if (error == HM_OK)
			return true;
		if (error != HM_E_BUSY || now_ms >= until_ms)
			return false;
		(void)poll(&wait, 1, (int)(until_ms - now_ms));
	}
}

uint32_t
wire_send_get(struct wire *wire, const char *specs, const char *arch,
    uint32_t lane, uint32_t deadline_ms)
{
	struct hm_request requests[HM_MAX_GET_REQUESTS];
	struct hm_get get = {.deadline_ms = deadline_ms,
	    .lane = lane,
	    .requests = requests};
	struct hm_errbuf text = {""};
	uint8_t *body = malloc(HM_FRAME_MAX_BYTES);
	size_t n_body = 0;

	assert_non_null(body);
	while (*specs != '\0') {
		size_t length = strcspn(specs, " ");
		struct hm_request *request = &requests[get.n_requests++];
		char spec[256];

		(void)snprintf(spec, sizeof(spec), "%.*s", (int)length, specs);
		if (hm_spec_parse(spec, request, &text) != HM_OK ||
		    hm_target_parse(arch, &request->target, &text) != HM_OK)
			fail_msg("%s", text.text);
		specs += length + (specs[length] == ' ');
	}
	assert_int_equal(hm_codec_pack_get(&get, body,
			     HM_FRAME_MAX_BYTES - HM_FRAME_HEADER_BYTES,
			     &n_body),
	    HM_OK);
	assert_true(wire_send(wire, HM_FRAME_GET, body, n_body));
	free(body);
	return wire->last_id;
}

uint32_t
wire_send_compile(struct wire *wire, const struct wire_source *source)
{
	struct hm_compile compile = {.deadline_ms = source->deadline_ms,
	    .name = "test.cu",
	    .source_bytes = (uint32_t)strlen(source->text)};
	char options[1][HM_MAX_OPTION_CHARS] = {""};
	struct hm_errbuf text = {""};
	uint8_t body[4096];
	struct hm_frame frame = {.type = HM_FRAME_COMPILE,
	    .request_id = ++wire->last_id,
	    .body = body,
	    .fd = -1};

	assert_int_equal(hm_target_parse(source->arch, &compile.target, &text),
	    HM_OK);
	if (source->option != NULL) {
		(void)snprintf(options[0], sizeof(options[0]), "%s",
		    source->option);
		compile.n_options = 1;
		compile.options = options;
	}
	assert_int_equal(
	    hm_codec_pack_compile(&compile, body, sizeof(body), &frame.n_body),
	    HM_OK);
	assert_int_equal(
	    hm_fd_seal("source", source->text, strlen(source->text), &frame.fd),
	    HM_OK);
	assert_true(wire_push(wire, &frame));
	hm_fd_close(&frame.fd);
	return frame.request_id;
}

uint32_t
wire_send_admin(struct wire *wire, uint32_t command,
    const struct hm_digest *key)
{
	struct hm_admin admin = {.command = command};
	uint8_t body[64];
	size_t n_body = 0;

	if (key != NULL)
		admin.key = *key;
	assert_int_equal(
	    hm_codec_pack_admin(&admin, body, sizeof(body), &n_body), HM_OK);
	assert_true(wire_send(wire, HM_FRAME_ADMIN, body, n_body));
	return wire->last_id;
}

json_t *
wire_admin(struct wire *wire, uint32_t command, const struct hm_digest *key,
    int *error_out, char *line_out, size_t size)
{
	struct hm_refusal refusal;
	struct hm_frame frame;
	char *text = NULL;
	json_t *json;

	(void)wire_send_admin(wire, command, key);
	assert_true(wire_recv(wire, &frame, HARNESS_WAIT_MS));
	*error_out = HM_OK;
	if (frame.type == HM_FRAME_ERROR) {
		assert_int_equal(
		    hm_codec_unpack_refusal(frame.body, frame.n_body, &refusal),
		    HM_OK);
		*error_out = refusal.error;
		(void)snprintf(line_out, size, "%s", refusal.message);
		return NULL;
	}
	assert_int_equal(frame.type, HM_FRAME_TEXT);
	assert_int_equal(hm_codec_unpack_text(frame.body, frame.n_body, &text),
	    HM_OK);
	json = json_loads(text, 0, NULL);
	assert_non_null(json);
	free(text);
	return json;
}

uint32_t
wire_send_cancel(struct wire *wire, uint32_t request_id)
{
	uint8_t body[16];
	size_t n_body = 0;

	assert_int_equal(
	    hm_codec_pack_cancel(request_id, body, sizeof(body), &n_body),
	    HM_OK);
	assert_true(wire_send(wire, HM_FRAME_CANCEL, body, n_body));
	return wire->last_id;
}

static void
wire_append(struct wire_kernel *kernel, const void *bytes, size_t n_bytes)
{
	uint8_t *image = realloc(kernel->image, kernel->n_image + n_bytes + 1);

	assert_non_null(image);
	memcpy(image + kernel->n_image, bytes, n_bytes);
	kernel->image = image;
	kernel->n_image += n_bytes;
}

static void
wire_take_fd(struct wire_kernel *kernel, struct hm_frame *frame)
{
	const void *bytes = NULL;
	size_t n_bytes = 0;

	if (frame->fd == -1)
		return;
	assert_int_equal(
	    hm_fd_map_sealed(frame->fd, HM_MAX_IMAGE_BYTES, &bytes, &n_bytes),
	    HM_OK);
	wire_append(kernel, bytes, n_bytes);
	hm_fd_unmap(bytes, n_bytes);
	hm_fd_close(&frame->fd);
	kernel->came_by_fd = true;
}

/* What every good reply must be: whole, and what its checksum says. */
static void
wire_check(const struct wire_kernel *kernel)
{
	struct hm_checksum checksum;

	if (kernel->reply.status != HM_REPLY_HIT &&
	    kernel->reply.status != HM_REPLY_BUILT)
		return;
	assert_int_equal(kernel->n_image, kernel->reply.image_bytes);
	assert_true(kernel->n_image > 64);
	assert_memory_equal(kernel->image, "\177ELF", 4);
	hm_checksum_compute(kernel->image, kernel->n_image, &checksum);
	assert_true(hm_checksum_equal(&checksum, &kernel->reply.checksum));
}

bool
wire_recv_kernel(struct wire *wire, struct wire_kernel *kernel_out)
{
	struct wire_kernel kernel;
	struct hm_frame frame;

	memset(&kernel, 0, sizeof(kernel));
	while (wire_recv(wire, &frame, HARNESS_WAIT_MS)) {
		if (frame.type == HM_FRAME_PROGRESS) {
			kernel.n_progress++;
			continue;
		}
		if (frame.type == HM_FRAME_PART) {
			wire_append(&kernel, frame.raw, frame.n_raw);
			continue;
		}
		assert_int_equal(frame.type, HM_FRAME_KERNEL);
		assert_int_equal(hm_codec_unpack_kernel(frame.body,
				     frame.n_body, &kernel.reply),
		    HM_OK);
		if (frame.n_raw > 0)
			wire_append(&kernel, frame.raw, frame.n_raw);
		wire_take_fd(&kernel, &frame);
		wire_check(&kernel);
		*kernel_out = kernel;
		return true;
	}
	free(kernel.image);
	return false;
}

void
wire_kernel_done(struct wire_kernel *kernel)
{
	hm_kernel_reply_done(&kernel->reply);
	free(kernel->image);
	memset(kernel, 0, sizeof(*kernel));
}

void
wire_get(struct wire *wire, const char *spec, const char *arch,
    struct wire_kernel *kernel_out)
{
	(void)wire_send_get(wire, spec, arch, HM_LANE_INTERACTIVE, 0);
	assert_true(wire_recv_kernel(wire, kernel_out));
}

void
wire_compile(struct wire *wire, const struct wire_source *source,
    struct wire_kernel *kernel_out)
{
	(void)wire_send_compile(wire, source);
	assert_true(wire_recv_kernel(wire, kernel_out));
}

json_t *
wire_json(struct wire *wire, uint32_t type)
{
	struct hm_frame frame;
	char *text = NULL;
	json_t *json;

	assert_true(wire_send(wire, type, NULL, 0));
	do {
		assert_true(wire_recv(wire, &frame, HARNESS_WAIT_MS));
	} while (frame.type == HM_FRAME_PROGRESS);
	assert_int_equal(frame.type, HM_FRAME_TEXT);
	assert_int_equal(hm_codec_unpack_text(frame.body, frame.n_body, &text),
	    HM_OK);
	json = json_loads(text, 0, NULL);
	free(text);
	assert_non_null(json);
	return json;
}

uint64_t
wire_number(struct wire *wire, uint32_t type, const char *path)
{
	json_t *json = wire_json(wire, type);
	const json_t *at = json;
	uint64_t number;

	while (*path != '\0') {
		size_t length = strcspn(path, ".");
		char name[64];

		(void)snprintf(name, sizeof(name), "%.*s", (int)length, path);
		at = json_object_get(at, name);
		path += length + (path[length] == '.');
	}
	assert_true(json_is_integer(at));
	number = (uint64_t)json_integer_value(at);
	json_decref(json);
	return number;
}

void
wire_wait_number(struct wire *wire, uint32_t type, const char *path,
    uint64_t wanted)
{
	uint64_t until_ms = harness_now_ms() + HARNESS_WAIT_MS;

	while (wire_number(wire, type, path) != wanted) {
		if (harness_now_ms() > until_ms)
			fail_msg("%s never became %llu", path,
			    (unsigned long long)wanted);
	}
}

/* Ask until STATUS no longer says "starting"; what it said of the compiler. */
static bool
compiler_is_ready(struct wire *wire, char *said, size_t said_size)
{
	uint64_t until_ms = harness_now_ms() + HARNESS_WAIT_MS;
	bool is_starting = true;
	bool is_ready = false;

	while (is_starting && harness_now_ms() < until_ms) {
		json_t *json = wire_json(wire, HM_FRAME_STATUS);
		const char *readiness =
		    json_string_value(json_object_get(json, "readiness"));
		const char *degraded =
		    json_string_value(json_object_get(json, "degraded"));

		assert_non_null(readiness);
		assert_non_null(degraded);
		is_ready = strcmp(readiness, "ready") == 0;
		is_starting = strcmp(readiness, "starting") == 0;
		(void)snprintf(said, said_size,
		    "readiness \"%s\", degraded \"%s\"", readiness, degraded);
		json_decref(json);
	}
	if (is_starting)
		fail_msg("the compiler never left its start: %s", said);
	return is_ready;
}

void
wire_expect_compiler(struct wire *wire)
{
	char said[1024] = "";

	if (!compiler_is_ready(wire, said, sizeof(said)))
		fail_msg("no compiler (systemd/setup.sh installs one): %s",
		    said);
}

void
wire_expect_no_compiler(struct wire *wire)
{
	char said[1024] = "";

	if (compiler_is_ready(wire, said, sizeof(said)))
		fail_msg("a compiler, where none should be: %s", said);
}

void
wire_open_ready(struct wire *wire, const struct harness *harness)
{
	wire_open(wire, harness);
	wire_expect_compiler(wire);
}

char *
wire_slow_source(uint32_t n_statements, uint32_t salt)
{
	size_t size = 512 + (size_t)n_statements * 96;
	char *text = malloc(size);
	size_t used;

	assert_non_null(text);
	used = (size_t)snprintf(text, size,
	    "extern \"C\" __global__ void slow(float *p, int n)\n"
	    "{\n"
	    "\tfloat v[16];\n"
	    "\tfor (int i = 0; i < 16; i++)\n"
	    "\t\tv[i] = p[i] + %u;\n"
	    "\tfor (int i = 0; i < n; i++) {\n",
	    salt);
	for (uint32_t i = 0; i < n_statements; i++)
		used += (size_t)snprintf(text + used, size - used,
		    "\t\tif (v[%u] > %u) v[%u] = v[%u] * v[%u] + %u.f;\n",
		    i % 16, i, (i * 7 + 3) % 16, (i * 5 + 1) % 16, i % 16, i);
	(void)snprintf(text + used, size - used,
	    "\t}\n"
	    "\tfor (int i = 0; i < 16; i++)\n"
	    "\t\tp[i] = v[i];\n"
	    "}\n");
	return text;
}
