/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_refuse.c - what hummingd does not do, and the one line it says instead.
 */
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "jit/config.h"
#include "proto/fd.h"
#include "tests/integration/wire.h"

#define NOBODY 65534

static struct harness harness;

static int
setup(void **state)
{
	harness_init(&harness);
	*state = &harness;
	return 0;
}

static int
teardown(void **state)
{
	harness_done(*state);
	return 0;
}

/* Exit status 1 and exactly one line that names both words. */
static void
expect_line(const char *const *options, const char *word, const char *reason)
{
	char text[2048];

	assert_int_equal(harness_fail(&harness, options, text, sizeof(text)),
	    1);
	assert_int_equal(strncmp(text, "hummingd: ", 10), 0);
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	if (strstr(text, word) == NULL || strstr(text, reason) == NULL)
		fail_msg("not '%s', '%s': %s", word, reason, text);
}

static void
write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* What status says of the store: a word of it, or "" for nothing. */
static void
expect_degraded(struct wire *wire, const char *word)
{
	json_t *status = wire_json(wire, HM_FRAME_STATUS);
	const char *text =
	    json_string_value(json_object_get(status, "degraded"));

	if (strstr(text, word) == NULL ||
	    (word[0] == '\0') != (text[0] == '\0'))
		fail_msg("degraded: '%s', not '%s'", text, word);
	json_decref(status);
}

static void
test_refuse__foreign_store__is_left_alone(void **state)
{
	char path[160];
	char text[64];

	(void)state;
	assert_int_equal(mkdir(harness.store, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/thesis.tex", harness.store);
	write_file(path, "all I have\n");
	expect_line(NULL, harness.store, "thesis.tex");
	harness_read(path, text, sizeof(text));
	assert_string_equal(text, "all I have\n");
	assert_int_not_equal(access(harness.socket, F_OK), 0);
}

/* Not only files of other names: what LMDB programs call theirs, too. */
static void
test_refuse__foreign_data_file__is_left_alone(void **state)
{
	char path[160];
	char text[64];

	(void)state;
	assert_int_equal(mkdir(harness.store, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/data.mdb", harness.store);
	write_file(path, "all I have\n");
	expect_line(NULL, harness.store, "not ours");
	harness_read(path, text, sizeof(text));
	assert_string_equal(text, "all I have\n");
	assert_int_equal(unlink(path), 0);
	/* Nothing of ours is beside it. */
	assert_int_equal(rmdir(harness.store), 0);
}

/* The reason is that of the one who refused, not of a later look. */
static void
test_refuse__folder_cannot_be_made__says_why(void **state)
{
	static const char folder[] = "/sys/hm-it-no-such-folder";
	const char *options[] = {"--private", "--socket", harness.socket,
	    "--store", "/sys/hm-it-no-such-folder/store", NULL};
	const char *reason;

	(void)state;
	if (mkdir(folder, 0700) == 0) {
		(void)rmdir(folder);
		skip();
	}
	reason = strerror(errno);
	expect_line(options, folder, reason);
	options[2] = "/sys/hm-it-no-such-folder/socket";
	options[4] = harness.store;
	expect_line(options, folder, reason);
}

static void
test_refuse__configuration_is_no_file__is_named(void **state)
{
	const char *options[] = {"-n", "-c", harness.folder, NULL};

	(void)state;
	expect_line(options, harness.folder, "no regular file");
	options[2] = "/dev/zero";
	expect_line(options, "/dev/zero", "no regular file");
}

/* Started without 0, 1 and 2, nothing that is opened gets their numbers: the
 * log would go into it. */
static void
test_refuse__closed_stdio__is_not_taken_for_a_file(void **state)
{
	char path[160];
	char target[160];
	ssize_t length;

	(void)state;
	harness.has_no_stdio = true;
	harness_start(&harness);
	for (int fd = 0; fd <= 2; fd++) {
		(void)snprintf(path, sizeof(path), "/proc/%ld/fd/%d",
		    (long)harness.pid, fd);
		length = readlink(path, target, sizeof(target) - 1);
		assert_true(length > 0);
		target[length] = '\0';
		assert_string_equal(target, "/dev/null");
	}
	assert_int_equal(harness_stop(&harness), 0);
}

static void
test_refuse__store_open_to_others__is_not_trusted(void **state)
{
	(void)state;
	assert_int_equal(mkdir(harness.store, 0700), 0);
	assert_int_equal(chmod(harness.store, 0777), 0);
	expect_line(NULL, harness.store, "writ");
}

static void
test_refuse__store_is_a_file__is_named(void **state)
{
	(void)state;
	write_file(harness.store, "");
	expect_line(NULL, harness.store, "director");
}

static void
test_refuse__second_daemon__on_the_same_socket(void **state)
{
	struct harness second;
	struct wire wire;
	char other[160];
	const char *options[] = {"--private", "--socket", NULL, "--store",
	    other, NULL};

	(void)state;
	harness_start(&harness);
	second = harness;
	second.pid = 0;
	(void)snprintf(second.log, sizeof(second.log), "%s/second",
	    harness.folder);
	(void)snprintf(other, sizeof(other), "%s/other", harness.folder);
	options[2] = harness.socket;
	{
		char text[2048];

		assert_int_equal(
		    harness_fail(&second, options, text, sizeof(text)), 1);
		assert_non_null(strstr(text, "another hummingd"));
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	}
	wire_open(&wire, &harness); /* the first one lives on */
	(void)wire_number(&wire, HM_FRAME_STATS, "builds");
	wire_close(&wire);
}

static void
test_refuse__second_daemon__on_the_same_store(void **state)
{
	struct harness second;
	struct wire wire;
	char other[160];
	char text[2048];
	const char *options[] = {"--private", "--socket", other, "--store",
	    harness.store, NULL};

	(void)state;
	harness_start(&harness);
	second = harness;
	second.pid = 0;
	(void)snprintf(second.log, sizeof(second.log), "%s/second",
	    harness.folder);
	(void)snprintf(other, sizeof(other), "%s/other", harness.folder);
	assert_int_equal(harness_fail(&second, options, text, sizeof(text)), 1);
	assert_non_null(strstr(text, harness.store));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	/* The second one has left no lock of its own socket. */
	(void)snprintf(text, sizeof(text), "%s.lock", other);
	assert_int_not_equal(access(text, F_OK), 0);
	wire_open(&wire, &harness);
	(void)wire_number(&wire, HM_FRAME_STATS, "builds");
	wire_close(&wire);
}

static void
test_refuse__socket_path_is_no_socket__is_left_alone(void **state)
{
	(void)state;
	write_file(harness.socket, "precious");
	expect_line(NULL, harness.socket, "no socket");
	assert_int_equal(access(harness.socket, F_OK), 0);
}

static void
test_refuse__bad_configuration__names_file_and_line(void **state)
{
	char path[160];
	const char *options[] = {"-n", "-c", path, NULL};

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/conf", harness.folder);
	write_file(path, "# fine\nworkers = 2\n[limits]\nqeue = 7\n");
	expect_line(options, "conf:4:", "unknown key 'limits.qeue'");
	write_file(path, "workers = many\n");
	expect_line(options, "conf:1:", "'many'");
	write_file(path, "workers = 2\nnonsense\n");
	expect_line(options, "conf:2:", "key = value");
}

static void
test_refuse__packs__say_so(void **state)
{
	const char *options[] = {"--pack", "x.pack", NULL};

	(void)state;
	expect_line(options, "x.pack", "not supported");
}

static void
test_refuse__wrong_usage__exits_2(void **state)
{
	static const char *const wrong[][3] = {{"--bogus", NULL},
	    {"operand", NULL}, {"--socket", NULL}};
	char text[2048];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(
		    harness_fail(&harness, wrong[i], text, sizeof(text)), 2);
		assert_non_null(strstr(text, "--help"));
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	}
}

/*
 * What this program does when it is started as "it_refuse --nobody SOCKET":
 * it becomes nobody and asks. Its exit status tells; 0 = refused as it should.
 */
static int
as_nobody(const char *socket)
{
	const struct wire_source source = {
	    .text = "extern \"C\" __global__ void f(int *p) { *p = 1; }\n",
	    .arch = "sm_80",
	};
	static struct wire wire;
	struct wire_kernel kernel;
	struct hm_refusal refusal;
	struct hm_frame frame;

	if (setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
	    setresuid(NOBODY, NOBODY, NOBODY) != 0)
		return 10;
	(void)snprintf(harness.socket, sizeof(harness.socket), "%s", socket);
	wire_open(&wire, &harness);
	(void)wire_send_compile(&wire, &source);
	if (!wire_recv_kernel(&wire, &kernel))
		return 11;
	if (kernel.reply.status != HM_REPLY_DENIED ||
	    kernel.reply.error != HM_E_DENIED)
		return 12;
	if (strstr(kernel.reply.message, "group") == NULL)
		return 13;
	wire_kernel_done(&kernel);
	if (!wire_send(&wire, HM_FRAME_STOP, NULL, 0) ||
	    !wire_recv(&wire, &frame, 5000) || frame.type != HM_FRAME_ERROR ||
	    hm_codec_unpack_refusal(frame.body, frame.n_body, &refusal) !=
		HM_OK ||
	    refusal.error != HM_E_DENIED)
		return 14;
	/* Reading is for everybody. */
	(void)wire_number(&wire, HM_FRAME_STATS, "builds");
	wire_expect_compiler(&wire);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	if (kernel.reply.status != HM_REPLY_BUILT)
		return 15;
	wire_kernel_done(&kernel);
	wire_close(&wire);
	return 0;
}

static void
test_refuse__user_without_rights__reads_only(void **state)
{
	char program[] = "/proc/self/exe";
	char option[] = "--nobody";
	char *const arguments[] = {program, option, harness.socket, NULL};
	int status = 0;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	harness.is_system = true;
	assert_int_equal(chmod(harness.folder, 0755), 0);
	harness_start(&harness);
	assert_int_equal(
	    posix_spawn(&pid, program, NULL, NULL, arguments, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(harness_stop(&harness), 0);
}

static void
test_refuse__stop_of_a_system_daemon__is_denied(void **state)
{
	struct hm_refusal refusal;
	struct hm_frame frame;
	struct wire wire;

	(void)state;
	harness.is_system = true;
	harness_start(&harness);
	wire_open(&wire, &harness);
	assert_true(wire_send(&wire, HM_FRAME_STOP, NULL, 0));
	assert_true(wire_recv(&wire, &frame, 5000));
	assert_int_equal(frame.type, HM_FRAME_ERROR);
	assert_int_equal(
	    hm_codec_unpack_refusal(frame.body, frame.n_body, &refusal), HM_OK);
	assert_int_equal(refusal.error, HM_E_DENIED);
	wire_close(&wire);
}

static void
test_refuse__too_many_connections__next_is_told(void **state)
{
	struct wire wires[4];
	struct wire extra;
	struct hm_frame frame;
	struct hm_refusal refusal;

	(void)state;
	harness.environment[0] = "HUMMING_LIMITS_UID_CONNECTIONS=4";
	harness_start(&harness);
	for (size_t i = 0; i < 4; i++)
		wire_open(&wires[i], &harness);
	wire_connect(&extra, &harness);
	assert_true(wire_recv(&extra, &frame, 5000));
	assert_int_equal(frame.type, HM_FRAME_ERROR);
	assert_int_equal(
	    hm_codec_unpack_refusal(frame.body, frame.n_body, &refusal), HM_OK);
	assert_int_equal(refusal.error, HM_E_BUSY);
	wire_close(&extra);
	wire_close(&wires[0]);
	/* Its place is free as soon as its end has been seen. */
	(void)wire_number(&wires[1], HM_FRAME_STATS, "builds");
	wire_open(&wires[0], &harness);
	for (size_t i = 0; i < 4; i++)
		wire_close(&wires[i]);
}

/* Few descriptors: the reserve stays free, builds go on, nobody is lost. */
static void
test_refuse__few_descriptors__accepting_pauses_and_resumes(void **state)
{
	static struct wire wires[40];
	struct hm_frame frame;
	struct wire_kernel kernel;

	(void)state;
	harness.environment[0] = "HUMMING_LIMITS_FD_RESERVE=24";
	harness.environment[1] = "HUMMING_WORKERS=1";
	harness.max_files = 64;
	harness_start(&harness);
	for (size_t i = 0; i < 40; i++)
		wire_connect(&wires[i], &harness);
	for (size_t i = 0; i < 40; i++)
		wire_say_hello(&wires[i], HM_CAPABILITY_FD);
	assert_true(wire_recv(&wires[0], &frame, 5000));
	assert_int_equal(frame.type, HM_FRAME_WELCOME);
	/* 40 and a worker's few: all 40 clients would make it 54 and more. */
	assert_true(harness_count_fds(&harness) <= 50);
	wire_expect_compiler(&wires[0]);
	wire_get(&wires[0], "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	/* As places become free, all the others get their turn. */
	for (size_t i = 1; i < 40; i++) {
		wire_close(&wires[i - 1]);
		assert_true(wire_recv(&wires[i], &frame, 5000));
		assert_int_equal(frame.type, HM_FRAME_WELCOME);
	}
	wire_close(&wires[39]);
}

/* A store on a file system without a free byte: it serves without, says so, and
 * begins to keep kernels when there is room. */
static void
test_refuse__full_disk__is_served_without_a_store(void **state)
{
	static uint8_t fill[65536];
	char path[160];
	struct wire_kernel kernel;
	struct wire wire;
	int fd;

	(void)state;
	assert_int_equal(mkdir(harness.store, 0700), 0);
	/* In a mount namespace of ours, so that nobody has to clean up. */
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", harness.store, "tmpfs", 0, "size=1m,mode=700") != 0)
		skip();
	(void)snprintf(path, sizeof(path), "%s/lock", harness.store);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	while (write(fd, fill, sizeof(fill)) > 0)
		;
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness_start(&harness);
	wire_open(&wire, &harness);
	expect_degraded(&wire, "No space left");
	wire_expect_compiler(&wire);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.tier, HM_TIER_HOT);
	wire_kernel_done(&kernel);
	expect_degraded(&wire, "No space left");
	/* Nobody asks for anything: it finds out, and stores what it missed. */
	assert_int_equal(ftruncate(fd, 0), 0);
	(void)close(fd);
	wire_wait_number(&wire, HM_FRAME_STATUS, "tiers.store.entries", 1);
	expect_degraded(&wire, "");
	wire_close(&wire);
	assert_int_equal(harness_stop(&harness), 0);
	assert_int_equal(umount(harness.store), 0);
}

/* Where no lock can be made there is no store, but there is a daemon. */
static void
test_refuse__read_only_disk__is_served_without_a_store(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	assert_int_equal(mkdir(harness.store, 0700), 0);
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", harness.store, "tmpfs", MS_RDONLY, "mode=700") != 0)
		skip();
	harness.environment[0] = "HUMMING_WORKERS=1";
	harness_start(&harness);
	wire_open(&wire, &harness);
	wire_expect_compiler(&wire);
	expect_degraded(&wire, "Read-only file system");
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
	wire_kernel_done(&kernel);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.tier, HM_TIER_HOT);
	wire_kernel_done(&kernel);
	wire_close(&wire);
	assert_int_equal(harness_stop(&harness), 0);
	assert_int_equal(umount(harness.store), 0);
}

/* Files that may not grow any more are errors, not the end. */
static void
test_refuse__file_size_limit__is_survived(void **state)
{
	const struct rlimit few = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
	struct rlimit before;
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	if (before.rlim_max != RLIM_INFINITY)
		skip();
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
	harness_start(&harness);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	wire_open(&wire, &harness);
	wire_expect_compiler(&wire);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_not_equal(kernel.reply.error, HM_OK);
	assert_non_null(strstr(kernel.reply.message, "File too large"));
	wire_kernel_done(&kernel);
	expect_degraded(&wire, "File too large");
	wire_close(&wire);
}

/* Kernels that are kept hot by descriptor never take those of connections. */
static void
test_refuse__few_descriptors__hot_kernels_leave_some(void **state)
{
	enum { N_KERNELS = 60, N_CLIENTS = 12 };
	static const char text[] =
	    "__device__ int table[10000] = {N, 1};\n"
	    "extern \"C\" __global__ void f(int *p) { *p = table[*p]; }\n";
	static struct wire wires[N_CLIENTS];
	char option[32] = "";
	const struct wire_source source = {.text = text,
	    .arch = "sm_80",
	    .option = option};
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	harness.environment[0] = "HUMMING_LIMITS_FD_RESERVE=16";
	harness.environment[1] = "HUMMING_WORKERS=1";
	harness.max_files = 96;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < N_KERNELS; i++) {
			(void)snprintf(option, sizeof(option), "-DN=%d", i);
			wire_compile(&wire, &source, &kernel);
			assert_int_equal(kernel.reply.error, HM_OK);
			assert_int_equal(kernel.reply.status,
			    round == 0 ? HM_REPLY_BUILT : HM_REPLY_HIT);
			wire_kernel_done(&kernel);
		}
	}
	for (size_t i = 0; i < N_CLIENTS; i++)
		wire_open(&wires[i], &harness);
	assert_true(harness_count_fds(&harness) <= 96 - 16 + 2);
	for (size_t i = 0; i < N_CLIENTS; i++)
		wire_close(&wires[i]);
	wire_close(&wire);
}

static void
test_refuse__no_compiler__stored_kernels_are_served(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;
	json_t *json;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	wire_kernel_done(&kernel);
	wire_close(&wire);
	assert_int_equal(harness_stop(&harness), 0);
	harness.environment[0] = "HUMMING_COMPILER_NVRTC=/nowhere";
	harness_start(&harness);
	wire_open(&wire, &harness);
	wire_expect_no_compiler(&wire);
	wire_get(&wire, "w4a16,m=1", "sm_80", &kernel);
	assert_int_equal(kernel.reply.tier, HM_TIER_STORE);
	wire_kernel_done(&kernel);
	wire_get(&wire, "w4a16,m=1", "sm_89", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_UNSUPPORTED);
	assert_int_equal(kernel.reply.error, HM_E_UNSUPPORTED);
	assert_int_equal(strncmp(kernel.reply.message, "no compiler: ", 13), 0);
	wire_kernel_done(&kernel);
	json = wire_json(&wire, HM_FRAME_STATUS);
	assert_non_null(
	    strstr(json_string_value(json_object_get(json, "degraded")),
		"no compiler"));
	json_decref(json);
	wire_close(&wire);
}

/* Workers that are killed at every start until the daemon gives them up. */
static bool
compilers_are_given_up(struct wire *wire)
{
	const uint64_t end = harness_now_ms() + 20000;
	pid_t pids[16];

	while (harness_now_ms() < end) {
		size_t n = harness_workers(&harness, pids, 16);
		json_t *json;
		const char *degraded;
		bool is_given_up;

		for (size_t i = 0; i < n; i++)
			(void)kill(pids[i], SIGKILL);
		json = wire_json(wire, HM_FRAME_STATUS);
		degraded = json_string_value(json_object_get(json, "degraded"));
		is_given_up =
		    degraded != NULL && strstr(degraded, "no compiler") != NULL;
		json_decref(json);
		if (is_given_up)
			return true;
		(void)poll(NULL, 0, 5);
	}
	return false;
}

static void
test_refuse__compiler_lost__says_build_it_locally(void **state)
{
	struct wire_kernel kernel;
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	assert_true(compilers_are_given_up(&wire));
	wire_get(&wire, "w4a16,m=1", "sm_89", &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_TRY_LOCAL);
	assert_int_equal(kernel.reply.error, HM_E_UNAVAILABLE);
	assert_int_equal(strncmp(kernel.reply.message, "no compiler: ", 13), 0);
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

int
main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_refuse__foreign_store__is_left_alone),
	    TEST(test_refuse__foreign_data_file__is_left_alone),
	    TEST(test_refuse__folder_cannot_be_made__says_why),
	    TEST(test_refuse__configuration_is_no_file__is_named),
	    TEST(test_refuse__closed_stdio__is_not_taken_for_a_file),
	    TEST(test_refuse__store_open_to_others__is_not_trusted),
	    TEST(test_refuse__store_is_a_file__is_named),
	    TEST(test_refuse__second_daemon__on_the_same_socket),
	    TEST(test_refuse__second_daemon__on_the_same_store),
	    TEST(test_refuse__socket_path_is_no_socket__is_left_alone),
	    TEST(test_refuse__bad_configuration__names_file_and_line),
	    TEST(test_refuse__packs__say_so),
	    TEST(test_refuse__wrong_usage__exits_2),
	    TEST(test_refuse__user_without_rights__reads_only),
	    TEST(test_refuse__stop_of_a_system_daemon__is_denied),
	    TEST(test_refuse__too_many_connections__next_is_told),
	    TEST(test_refuse__few_descriptors__accepting_pauses_and_resumes),
	    TEST(test_refuse__full_disk__is_served_without_a_store),
	    TEST(test_refuse__read_only_disk__is_served_without_a_store),
	    TEST(test_refuse__file_size_limit__is_survived),
	    TEST(test_refuse__few_descriptors__hot_kernels_leave_some),
	    TEST(test_refuse__no_compiler__stored_kernels_are_served),
	    TEST(test_refuse__compiler_lost__says_build_it_locally),
	};

	if (argc == 3 && strcmp(argv[1], "--nobody") == 0)
		return as_nobody(argv[2]);
	return cmocka_run_group_tests_name("refuse", tests, NULL, NULL);
}
