/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sandbox.c - what a process may still do once it is inside.
 *
 * The sandbox cannot be undone, so each attempt runs in a process of its own:
 * this program, started again as "test_sandbox NAME". It leaves with 0 if the
 * attempt ended as it must.
 */
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "jit/sandbox.h"
#include "proto/codec.h"

#define EXTRA_BYTES ((size_t)256 << 20)
#define FILE_BYTES  ((size_t)1 << 20)
/* What an attempt leaves with when there was no sandbox to try. */
#define EXIT_OPEN 77

/* A failed call with this errno. */
static bool
fails_with(long rc, int wanted)
{
	return rc == -1 && errno == wanted;
}

static bool
try_file_names(void)
{
	struct stat status;

	/* The same answer for what is there and for what is not. */
	return fails_with(open("/etc/passwd", O_RDONLY), ENOENT) &&
	       fails_with(open("/nothing/such", O_RDONLY), ENOENT) &&
	       fails_with(open("/", O_RDONLY | O_DIRECTORY), ENOENT) &&
	       fails_with(open("/tmp/hm-x", O_WRONLY | O_CREAT, 0600),
		   ENOENT) &&
	       fails_with(stat("/etc/passwd", &status), ENOENT) &&
	       fails_with(lstat("/nothing/such", &status), ENOENT) &&
	       fails_with(access("/etc/passwd", F_OK), ENOENT) &&
	       fails_with(readlink("/proc/self/exe", (char[8]){""}, 8),
		   ENOENT) &&
	       fails_with(unlink("/tmp/hm-x"), ENOENT) &&
	       fails_with(rename("/tmp/hm-x", "/tmp/hm-y"), ENOENT) &&
	       fails_with(mkdir("/tmp/hm-x", 0700), ENOENT) &&
	       fails_with(truncate("/etc/passwd", 0), ENOENT) &&
	       fails_with(syscall(SYS_statx, AT_FDCWD, "/", 0, 0, NULL),
		   ENOENT) &&
	       fails_with(syscall(SYS_openat2, AT_FDCWD, "/", NULL, 0),
		   ENOENT) &&
	       fails_with(execl("/bin/true", "true", (char *)NULL), ENOENT);
}

static bool
try_processes(void)
{
	return fails_with(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), EPERM) &&
	       fails_with(syscall(SYS_clone3, NULL, 0), EPERM) &&
	       fails_with(kill(getppid(), 0), EPERM) &&
	       fails_with(syscall(SYS_tgkill, getppid(), getppid(), 0),
		   EPERM) &&
	       fails_with(syscall(SYS_ptrace, 0, 0, 0, 0), EPERM) &&
	       fails_with(unshare(CLONE_NEWUSER), EPERM) &&
	       fails_with(syscall(SYS_pidfd_open, getppid(), 0), EPERM) &&
	       fails_with(syscall(SYS_process_vm_readv, getppid(), NULL, 0,
			      NULL, 0, 0),
		   EPERM);
}

static bool
try_network(void)
{
	return fails_with(socket(AF_INET, SOCK_STREAM, 0), EPERM) &&
	       fails_with(socket(AF_UNIX, SOCK_DGRAM, 0), EPERM) &&
	       fails_with(connect(1, NULL, 0), EPERM) &&
	       fails_with(bind(1, NULL, 0), EPERM) &&
	       fails_with(syscall(SYS_io_uring_setup, 1, NULL), EPERM) &&
	       fails_with(syscall(SYS_memfd_create, "x", 0), EPERM) &&
	       fails_with(syscall(SYS_bpf, 0, NULL, 0), EPERM);
}

static bool
try_memory(void)
{
	void *small = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (small == MAP_FAILED || mprotect(small, 4096, PROT_READ) == -1)
		return false;
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0) != MAP_FAILED ||
	    errno != EPERM)
		return false;
	if (!fails_with(mprotect(small, 4096, PROT_READ | PROT_EXEC), EPERM))
		return false;
	return mmap(NULL, 2 * EXTRA_BYTES, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
	       errno == ENOMEM;
}

/* NVRTC raises its stack limit, the daemon's limits are not for it. */
static bool
try_limits(void)
{
	struct rlimit limit;
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

	if (getrlimit(RLIMIT_STACK, &limit) == -1)
		return false;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_STACK, &limit) == -1)
		return false;
	if (getrlimit(RLIMIT_CORE, &limit) == -1 || limit.rlim_max != 0)
		return false;
	if (getrlimit(RLIMIT_FSIZE, &limit) == -1 ||
	    limit.rlim_max != FILE_BYTES)
		return false;
	if (getrlimit(RLIMIT_CPU, &limit) == -1)
		return false;
	return fails_with(setrlimit(RLIMIT_CPU, &limit), EPERM) &&
	       fails_with(setrlimit(RLIMIT_AS, &none), EPERM) &&
	       fails_with(
		   syscall(SYS_prlimit64, getppid(), RLIMIT_STACK, &none, NULL),
		   EPERM);
}

/* What a compile needs still works. */
static bool
try_needed(void)
{
	struct timespec now;
	char folder[64];
	sigset_t none;
	void *block = NULL;

	(void)sigemptyset(&none);
	block = malloc(1 << 20);
	if (block == NULL)
		return false;
	free(block);
	return clock_gettime(CLOCK_MONOTONIC, &now) == 0 &&
	       sigprocmask(SIG_SETMASK, &none, NULL) == 0 &&
	       getcwd(folder, sizeof(folder)) != NULL && sched_yield() == 0 &&
	       write(1, "", 0) == 0 && lseek(0, 0, SEEK_CUR) == 0;
}

static bool
try_wrong_number(void)
{
	/* A number of x32: kills, which the caller of this program expects. */
	(void)syscall(0x40000000 | SYS_getpid);
	return false;
}

static bool
try_abort(void)
{
	abort();
}

static const struct attempt {
	const char *name;
	bool (*run)(void);
	int signal; /* that ends it; 0 = it exits */
} attempts[] = {
    {"file names", try_file_names, 0},
    {"processes", try_processes, 0},
    {"network", try_network, 0},
    {"memory", try_memory, 0},
    {"limits", try_limits, 0},
    {"needed", try_needed, 0},
    {"abort", try_abort, SIGABRT},
#ifdef __x86_64__
    {"wrong number", try_wrong_number, SIGSYS},
#endif
};
#define N_ATTEMPTS (sizeof(attempts) / sizeof(attempts[0]))

/* In a process of its own. */
static int
attempt_main(const char *name)
{
	const struct hm_sandbox sandbox = {.extra_bytes = EXTRA_BYTES,
	    .file_bytes = FILE_BYTES};
	struct hm_errbuf missing = {"x"};
	uint32_t bits = 0;
	size_t i = 0;

	/* 0 to 2 first, as the sanitizers' handlers would write there. */
	if (open("/dev/null", O_RDWR) == -1)
		return 2;
	bits = hm_sandbox_install(&sandbox, &missing);
	if ((bits & HM_SANDBOX_SECCOMP) == 0)
		return EXIT_OPEN;
	if ((bits & HM_SANDBOX_RLIMITS) == 0 ||
	    (bits & HM_SANDBOX_NO_NEW_PRIVS) == 0)
		return 3;
	if ((bits & HM_SANDBOX_LANDLOCK) != 0 && missing.text[0] != 0)
		return 4;
	for (i = 0; i < N_ATTEMPTS; i++) {
		if (strcmp(attempts[i].name, name) == 0)
			return attempts[i].run() ? 0 : 1;
	}
	return 5;
}

/* Also in a process of its own: 3 stays, all else goes. */
static int
detach_main(void)
{
	struct stat status;
	struct stat null;
	char folder[64];
	int i = 0;

	/* The second call gives another number than the first.
	 * NOLINTNEXTLINE(misc-redundant-expression) */
	if (open("/", O_RDONLY) != 4 || open("/", O_RDONLY) != 5)
		return 2;
	if (hm_sandbox_detach(9) != HM_E_INVALID ||
	    hm_sandbox_detach(2) != HM_E_INVALID)
		return 3;
	if (hm_sandbox_detach(3) != HM_OK)
		return 4;
	if (stat("/dev/null", &null) == -1)
		return 5;
	for (i = 0; i < 3; i++) {
		if (fstat(i, &status) == -1 || status.st_rdev != null.st_rdev)
			return 6;
	}
	for (i = 4; i < 64; i++) {
		if (fcntl(i, F_GETFD) != -1)
			return 7;
	}
	if (fcntl(3, F_GETFD) != FD_CLOEXEC)
		return 8;
	if (getcwd(folder, sizeof(folder)) == NULL || strcmp(folder, "/") != 0)
		return 9;
	return 0;
}

/* Start this program again, /dev/null on 0 and 3; the status of waitpid. */
static int
run_self(const char *argument)
{
	char self[] = "/proc/self/exe";
	char name[32] = "";
	char *argv[] = {self, name, NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid = 0;
	int status = -1;

	(void)snprintf(name, sizeof(name), "%s", argument);
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	assert_int_equal(posix_spawn_file_actions_addopen(&actions, 0,
			     "/dev/null", O_RDWR, 0),
	    0);
	assert_int_equal(posix_spawn_file_actions_addopen(&actions, 3,
			     "/dev/null", O_RDWR, 0),
	    0);
	assert_int_equal(posix_spawn(&pid, self, &actions, NULL, argv, environ),
	    0);
	(void)posix_spawn_file_actions_destroy(&actions);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void
expect_held(const char *name)
{
	const int status = run_self(name);
	size_t i = 0;

	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_OPEN)
		skip();
	for (i = 0; strcmp(attempts[i].name, name) != 0; i++)
		assert_true(i + 1 < N_ATTEMPTS);
	if (attempts[i].signal == 0) {
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	} else {
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), attempts[i].signal);
	}
}

static void
test_sandbox__file_names_name_nothing(void **state)
{
	(void)state;
	expect_held("file names");
}

static void
test_sandbox__other_processes_are_out_of_reach(void **state)
{
	(void)state;
	expect_held("processes");
}

static void
test_sandbox__nothing_new_can_be_opened(void **state)
{
	(void)state;
	expect_held("network");
}

static void
test_sandbox__memory_is_bounded_and_not_executable(void **state)
{
	(void)state;
	expect_held("memory");
}

static void
test_sandbox__limits_cannot_be_lifted_but_the_stack(void **state)
{
	(void)state;
	expect_held("limits");
}

static void
test_sandbox__what_a_compile_needs_works(void **state)
{
	(void)state;
	expect_held("needed");
}

static void
test_sandbox__abort_ends_the_process(void **state)
{
	(void)state;
	expect_held("abort");
}

static void
test_sandbox__foreign_system_call_kills(void **state)
{
	(void)state;
#ifdef __x86_64__
	expect_held("wrong number");
#else
	skip();
#endif
}

static void
test_sandbox__detach_keeps_one_descriptor(void **state)
{
	const int status = run_self("detach");

	(void)state;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_sandbox__file_names_name_nothing),
	    cmocka_unit_test(test_sandbox__other_processes_are_out_of_reach),
	    cmocka_unit_test(test_sandbox__nothing_new_can_be_opened),
	    cmocka_unit_test(
		test_sandbox__memory_is_bounded_and_not_executable),
	    cmocka_unit_test(
		test_sandbox__limits_cannot_be_lifted_but_the_stack),
	    cmocka_unit_test(test_sandbox__what_a_compile_needs_works),
	    cmocka_unit_test(test_sandbox__abort_ends_the_process),
	    cmocka_unit_test(test_sandbox__foreign_system_call_kills),
	    cmocka_unit_test(test_sandbox__detach_keeps_one_descriptor),
	};

	/* Past the exit handlers, which a sandbox does not let work. */
	if (argc == 2 && strcmp(argv[1], "detach") == 0)
		_exit(detach_main());
	if (argc == 2)
		_exit(attempt_main(argv[1]));
	return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
