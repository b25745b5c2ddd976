/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_worker.c - the real humming-worker: what it answers, what it may not
 * see, and what holds it when a source tries to hurt it (STACK.md section 6).
 */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

#include "jit/job.h"
#include "jit/plan.h"
#include "proto/fd.h"
#include "spawned_worker.h"

/* Limits of one hostile job here: small, so that all of them end soon. */
#define HOSTILE_CPU_SECONDS 2
#define HOSTILE_MAX_KIB     (1400L * 1024)

static const char good_source[] =
    "extern \"C\" __global__ void twice(float *p, int n)\n"
    "{\n"
    "\t__shared__ float s[64];\n"
    "\ts[threadIdx.x] = p[threadIdx.x];\n"
    "\t__syncthreads();\n"
    "\tp[threadIdx.x] = 2.0f * s[n];\n"
    "}\n";

/* One worker for the tests that leave it alive; hostile ones start theirs. */
static struct spawned_worker shared;

static const struct hm_target sm_90a = {.cc = 90, .suffix = 'a'};

static int
start_shared(void **state)
{
	(void)state;
	spawned_worker_start(&shared, NULL);
	return 0;
}

static int
stop_shared(void **state)
{
	(void)state;
	spawned_worker_stop(&shared);
	return 0;
}

static bool
holds(const void *bytes, size_t n_bytes, const char *text)
{
	return memmem(bytes, n_bytes, text, strlen(text)) != NULL;
}

static bool
says(const char *text, const char *part)
{
	return text != NULL && strstr(text, part) != NULL;
}

/* Compile on the shared worker, which must answer. */
static void
compile(struct spawned_job *job)
{
	spawned_worker_compile(&shared, job);
	assert_true(job->answered);
}

static void
test_worker__start_says_what_it_has(void **state)
{
	uint32_t wanted =
	    HM_SANDBOX_NO_NEW_PRIVS | HM_SANDBOX_RLIMITS | HM_SANDBOX_SECCOMP;

	(void)state;
	if (syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, 1u) >= 1)
		wanted |= HM_SANDBOX_LANDLOCK;
	print_message("# %s: %s\n", shared.ready.compiler, shared.ready.archs);
	assert_int_equal(shared.ready.error, HM_OK);
	assert_int_equal(shared.ready.sandbox, wanted);
	assert_memory_equal(shared.ready.compiler, "nvrtc 1", 7);
	assert_true(says(shared.ready.archs, "80,"));
	assert_true(says(shared.ready.archs, "90,"));
}

static void
test_worker__good_source_gives_a_checked_cubin(void **state)
{
	struct spawned_job job = {.arch = "sm_90a", .source = good_source};
	struct hm_errbuf errbuf = {""};

	(void)state;
	compile(&job);
	assert_string_equal(job.result.message, "");
	assert_int_equal(job.result.error, HM_OK);
	assert_int_equal(hm_elf_check(job.image, job.result.image_bytes,
			     &sm_90a, "twice", &errbuf),
	    HM_OK);
	assert_string_equal(job.result.entries, "twice");
	assert_in_range(job.result.registers, 4, 64);
	assert_int_equal(job.result.spill_bytes, 0);
	assert_int_equal(job.result.smem_bytes, 256);
	assert_in_range(job.result.compile_us, 1000, 60000000);
	assert_in_range(job.result.resident_kib, 10000, 200000);
	assert_true(says(job.result.log, "Used"));
	print_message("# trivial kernel: %u us, %u bytes, %u KiB resident\n",
	    job.result.compile_us, job.result.image_bytes,
	    job.result.resident_kib);
	spawned_job_done(&job);
}

static void
test_worker__same_source_gives_same_bytes_in_any_process(void **state)
{
	struct spawned_worker other;
	struct spawned_job jobs[3];
	size_t i = 0;

	(void)state;
	spawned_worker_start(&other, NULL);
	for (i = 0; i < 3; i++) {
		jobs[i] = (struct spawned_job){.arch = "sm_90a",
		    .source = good_source};
		spawned_worker_compile(i < 2 ? &shared : &other, &jobs[i]);
		assert_int_equal(jobs[i].result.error, HM_OK);
		assert_int_equal(jobs[i].result.image_bytes,
		    jobs[0].result.image_bytes);
		assert_memory_equal(jobs[i].image, jobs[0].image,
		    jobs[0].result.image_bytes);
	}
	for (i = 0; i < 3; i++)
		spawned_job_done(&jobs[i]);
	spawned_worker_stop(&other);
	assert_string_equal(shared.ready.compiler, other.ready.compiler);
}

static void
test_worker__options_reach_the_compiler(void **state)
{
	char options[2][HM_MAX_OPTION_CHARS] = {"-DNAME=renamed",
	    "--maxrregcount=32"};
	struct spawned_job job = {.arch = "sm_80",
	    .source = "extern \"C\" __global__ void NAME(int *p) { *p = 1; }",
	    .n_options = 2,
	    .options = options};

	(void)state;
	compile(&job);
	assert_int_equal(job.result.error, HM_OK);
	assert_string_equal(job.result.entries, "renamed");
	spawned_job_done(&job);
}

static void
test_worker__refused_option_is_named(void **state)
{
	char options[1][HM_MAX_OPTION_CHARS] = {"-I/etc"};
	struct spawned_job job = {.arch = "sm_80",
	    .source = good_source,
	    .n_options = 1,
	    .options = options};

	(void)state;
	compile(&job);
	assert_int_equal(job.result.error, HM_E_DENIED);
	assert_true(says(job.result.message, "-I/etc"));
	spawned_job_done(&job);
}

static void
test_worker__broken_source_gives_the_first_error_and_the_log(void **state)
{
	struct spawned_job job = {.arch = "sm_90a",
	    .source = "#warning careful\n"
		      "__global__ void k(int *p) { *p = nothing_such; }\n"};

	(void)state;
	compile(&job);
	assert_int_equal(job.result.error, HM_E_COMPILE);
	assert_int_equal(job.result.image_bytes, 0);
	assert_memory_equal(job.result.message, "kernel.cu(2): error:", 20);
	assert_true(says(job.result.message, "nothing_such"));
	assert_true(says(job.result.log, "careful"));
	assert_true(says(job.result.log, "1 error detected"));
	spawned_job_done(&job);
}

static void
test_worker__bad_assembly_gives_the_error_of_ptxas(void **state)
{
	struct spawned_job job = {.arch = "sm_90",
	    .source = "__global__ void k() { asm volatile(\"bogus.x;\"); }"};

	(void)state;
	compile(&job);
	assert_int_equal(job.result.error, HM_E_COMPILE);
	assert_true(says(job.result.message, "ptxas"));
	spawned_job_done(&job);
}

static void
test_worker__log_flood_is_cut(void **state)
{
	static char source[200000];
	struct spawned_job job = {.arch = "sm_90a", .source = source};
	size_t n = 0;

	(void)state;
	while (n < sizeof(source) - 40)
		n += (size_t)snprintf(source + n, sizeof(source) - n,
		    "#warning a line of the flood\n");
	compile(&job);
	assert_int_equal(job.result.error, HM_OK);
	assert_in_range(strlen(job.result.log), HM_MAX_LOG_BYTES / 2,
	    HM_MAX_LOG_BYTES);
	assert_string_equal(strrchr(job.result.log, ':'),
	    ": log cut at 16 KiB\n");
	assert_true(says(job.result.log, "\nhumming-worker: log cut"));
	spawned_job_done(&job);
}

static void
test_worker__unknown_arch_is_named_with_the_known_ones(void **state)
{
	static const char *const archs[] = {"sm_77", "sm_80a", "sm_999"};
	size_t i = 0;

	(void)state;
	for (i = 0; i < 3; i++) {
		struct spawned_job job = {.arch = archs[i],
		    .source = good_source};

		compile(&job);
		assert_int_equal(job.result.error, HM_E_UNSUPPORTED);
		assert_true(says(job.result.message, archs[i]));
		assert_true(says(job.result.message, "sm_90 sm_100"));
		assert_null(strchr(job.result.message, '\n'));
		spawned_job_done(&job);
	}
}

static void
test_worker__arch_that_is_an_option_is_invalid(void **state)
{
	struct spawned_job job = {.arch = "sm_80 -I/", .source = good_source};

	(void)state;
	compile(&job);
	assert_int_equal(job.result.error, HM_E_INVALID);
	spawned_job_done(&job);
}

static void
test_worker__large_source_comes_in_the_memory_file(void **state)
{
	static char source[900000];
	struct spawned_job job = {.arch = "sm_90a", .source = source};
	const size_t n_good = sizeof(good_source) - 1;

	(void)state;
	memset(source, '\n', sizeof(source) - 1);
	memcpy(source + sizeof(source) - 1 - n_good, good_source, n_good);
	compile(&job);
	assert_int_equal(job.result.error, HM_OK);
	assert_string_equal(job.result.entries, "twice");
	spawned_job_done(&job);
}

static void
test_worker__nul_byte_in_a_source_is_an_error(void **state)
{
	static const char source[] = "__global__ void k() {}\0 hidden";
	struct hm_job job = {.kind = HM_JOB_CLIENT,
	    .arch = "sm_90a",
	    .result_bytes = 65536,
	    .source_bytes = sizeof(source)};
	struct hm_job_result result = {0};
	int fd = -1;

	(void)state;
	assert_int_equal(hm_fd_memory("result", 65536, &fd), HM_OK);
	assert_true(spawned_worker_submit(&shared, &job, source, sizeof(source),
	    fd, &result));
	assert_int_equal(result.error, HM_E_COMPILE);
	assert_true(says(result.message, "NUL"));
	hm_job_result_done(&result);
	(void)close(fd);
}

static void
test_worker__cubin_larger_than_its_file_is_an_error(void **state)
{
	struct spawned_job job = {.arch = "sm_90a",
	    .source = good_source,
	    .result_bytes = 1024};

	(void)state;
	compile(&job);
	assert_int_equal(job.result.error, HM_E_UNSUPPORTED);
	assert_true(says(job.result.message, "at most 1024"));
	spawned_job_done(&job);
}

static void
test_worker__job_without_its_memory_file_is_an_error(void **state)
{
	struct hm_job job = {.kind = HM_JOB_CLIENT,
	    .arch = "sm_90a",
	    .result_bytes = 65536};
	struct hm_job_result result = {0};
	int fd = -1;

	(void)state;
	assert_true(spawned_worker_submit(&shared, &job, good_source,
	    sizeof(good_source) - 1, -1, &result));
	assert_int_equal(result.error, HM_E_INVALID);
	hm_job_result_done(&result);
	/* Half of what the job says: a write to the rest would be SIGBUS. */
	assert_int_equal(hm_fd_memory("result", 32768, &fd), HM_OK);
	assert_true(spawned_worker_submit(&shared, &job, good_source,
	    sizeof(good_source) - 1, fd, &result));
	assert_int_equal(result.error, HM_E_INVALID);
	hm_job_result_done(&result);
	(void)close(fd);
}

static void
test_worker__memory_file_can_be_sealed_after_the_reply(void **state)
{
	struct hm_job job = {.kind = HM_JOB_CLIENT,
	    .arch = "sm_90a",
	    .result_bytes = 65536,
	    .source_bytes = sizeof(good_source) - 1};
	struct hm_job_result result = {0};
	int fd = -1;

	(void)state;
	assert_int_equal(hm_fd_memory("result", 65536, &fd), HM_OK);
	assert_true(spawned_worker_submit(&shared, &job, good_source,
	    sizeof(good_source) - 1, fd, &result));
	assert_int_equal(result.error, HM_OK);
	assert_int_equal(hm_fd_seal_existing(fd, result.image_bytes), HM_OK);
	hm_job_result_done(&result);
	(void)close(fd);
}

static void
test_worker__our_own_kernel_is_built_from_embedded_sources(void **state)
{
	struct hm_config config;
	const struct hm_target target = {.cc = 80};
	struct hm_job_result result = {0};
	struct hm_errbuf errbuf = {""};
	struct hm_job job;
	const void *image = NULL;
	size_t n_image = 0;
	int fd = -1;

	(void)state;
	assert_true(hm_plan_all_configs(&target, &config, 1) > 0);
	assert_int_equal(hm_job_own(&config, &target, &job), HM_OK);
	assert_int_equal(hm_fd_memory("result", job.result_bytes, &fd), HM_OK);
	assert_true(spawned_worker_submit(&shared, &job, NULL, 0, fd, &result));
	if (result.error != HM_OK)
		print_message("# %s\n%s\n", result.message, result.log);
	assert_int_equal(result.error, HM_OK);
	assert_string_equal(result.entries, job.entry);
	assert_in_range(result.registers, 32, 255);
	assert_int_equal(hm_fd_seal_existing(fd, result.image_bytes), HM_OK);
	assert_int_equal(
	    hm_fd_map_sealed(fd, HM_JOB_RESULT_BYTES, &image, &n_image), HM_OK);
	assert_int_equal(
	    hm_elf_check(image, n_image, &target, job.entry, &errbuf), HM_OK);
	print_message("# kernel G: %u us, %zu bytes, %u registers, %u KiB\n",
	    result.compile_us, n_image, result.registers, result.resident_kib);
	hm_fd_unmap(image, n_image);
	hm_job_result_done(&result);
	hm_job_done(&job);
	(void)close(fd);
}

/* A folder with a file that everybody may read, and a FIFO. */
struct secrets {
	char folder[64];
	char file[96];
	char fifo[96];
};

#define SECRET "hm_secret_6f1c0a"

static void
secrets_make(struct secrets *secrets)
{
	int fd = -1;

	(void)snprintf(secrets->folder, sizeof(secrets->folder),
	    "/tmp/hm-worker-XXXXXX");
	assert_non_null(mkdtemp(secrets->folder));
	assert_int_equal(chmod(secrets->folder, 0755), 0);
	(void)snprintf(secrets->file, sizeof(secrets->file), "%s/secret",
	    secrets->folder);
	(void)snprintf(secrets->fifo, sizeof(secrets->fifo), "%s/fifo",
	    secrets->folder);
	fd = open(secrets->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_not_equal(fd, -1);
	assert_int_equal(hm_fd_write_all(fd, SECRET "\n", sizeof(SECRET)),
	    HM_OK);
	(void)close(fd);
	assert_int_equal(mkfifo(secrets->fifo, 0644), 0);
}

static void
secrets_drop(const struct secrets *secrets)
{
	(void)unlink(secrets->file);
	(void)unlink(secrets->fifo);
	(void)rmdir(secrets->folder);
}

/* Nothing of the secret may come back, in whatever way the job ended. */
static void
expect_no_leak(const struct spawned_job *job, const char *text)
{
	assert_false(holds(job->image, job->result_bytes, text));
	assert_false(says(job->result.log, text));
	assert_false(says(job->result.message, text));
}

static void
test_worker__include_of_a_host_file_finds_nothing(void **state)
{
	static const struct {
		const char *before, *after;
	} forms[] = {{"#include \"", "\"\n"}, {"#include <", ">\n"},
	    {"#include \"../../../../..", "\"\n"},
	    {"#define S_(...) #__VA_ARGS__\n"
	     "#define S(...) S_(__VA_ARGS__)\n"
	     "__device__ const char *text = S(\n#include \"",
		"\"\n);\n__global__ void k(const char **p) { *p = text; }\n"}};
	struct secrets secrets;
	char source[512];
	size_t i = 0;

	(void)state;
	secrets_make(&secrets);
	for (i = 0; i < 8; i++) {
		const char *path = i < 4 ? secrets.file : "/etc/passwd";
		struct spawned_job job = {.arch = "sm_90a", .source = source};

		(void)snprintf(source, sizeof(source), "%s%s%s",
		    forms[i % 4].before, path, forms[i % 4].after);
		compile(&job);
		expect_no_leak(&job, SECRET);
		expect_no_leak(&job, "root:");
		assert_int_equal(job.result.error, HM_E_COMPILE);
		assert_true(says(job.result.message, "cannot open"));
		assert_false(says(job.result.log, "ermission"));
		spawned_job_done(&job);
	}
	secrets_drop(&secrets);
}

static void
test_worker__has_include_tells_nothing(void **state)
{
	static const char *const forms[] = {"/etc/passwd", "/etc/shadow",
	    "/proc/self/maps", "/", ".", "etc/passwd", "/nothing/such", NULL};
	struct secrets secrets;
	char source[512];
	size_t i = 0;

	(void)state;
	secrets_make(&secrets);
	for (i = 0; i < 8; i++) {
		const char *path = forms[i] == NULL ? secrets.file : forms[i];
		struct spawned_job job = {.arch = "sm_90a", .source = source};

		(void)snprintf(source, sizeof(source),
		    "#if __has_include(\"%s\") || __has_include(<%s>)\n"
		    "#error it exists\n"
		    "#endif\n",
		    path, path);
		compile(&job);
		assert_int_equal(job.result.error, HM_OK);
		spawned_job_done(&job);
	}
	secrets_drop(&secrets);
}

static void
test_worker__include_of_a_fifo_does_not_hang(void **state)
{
	struct secrets secrets;
	char source[512];
	struct spawned_job job = {.arch = "sm_90a", .source = source};

	(void)state;
	secrets_make(&secrets);
	(void)snprintf(source, sizeof(source), "#include \"%s\"\n",
	    secrets.fifo);
	compile(&job);
	assert_int_equal(job.result.error, HM_E_COMPILE);
	assert_true(says(job.result.message, "cannot open"));
	spawned_job_done(&job);
	secrets_drop(&secrets);
}

static void
test_worker__our_own_sources_are_not_for_clients(void **state)
{
	struct spawned_job job = {.arch = "sm_90a",
	    .source = "#include \"prelude.cuh\"\n"};

	(void)state;
	compile(&job);
	assert_int_equal(job.result.error, HM_E_COMPILE);
	assert_true(says(job.result.message, "cannot open"));
	spawned_job_done(&job);
}

/* The number in "Name:\t1" of the worker's /proc status; -1 if none. */
static int
status_number(const char *name)
{
	char path[64];
	char line[256];
	int value = -1;
	FILE *file = NULL;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)shared.pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, name, strlen(name)) == 0 &&
		    line[strlen(name)] == ':')
			value = line[strlen(name) + 2] - '0';
	}
	(void)fclose(file);
	return value;
}

static void
test_worker__limits_are_in_force(void **state)
{
	static const struct {
		int resource;
		rlim_t least, most;
	} limits[] = {{RLIMIT_CORE, 0, 0}, {RLIMIT_NOFILE, 8, 32},
	    {RLIMIT_FSIZE, 1, HM_JOB_RESULT_BYTES}, {RLIMIT_CPU, 1, 7200},
	    {RLIMIT_AS, (rlim_t)1 << 30, (rlim_t)3 << 29}};
	size_t i = 0;

	(void)state;
	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct rlimit limit;

		assert_int_equal(prlimit(shared.pid,
				     (__rlimit_resource_t)limits[i].resource,
				     NULL, &limit),
		    0);
		assert_in_range(limit.rlim_max, limits[i].least,
		    limits[i].most);
	}
	assert_int_equal(status_number("NoNewPrivs"), 1);
	assert_int_equal(status_number("Seccomp"), 2);
}

static void
test_worker__holds_no_descriptor_of_its_parent(void **state)
{
	struct spawned_worker worker;
	char path[64];
	char target[256];
	int leak[2] = {-1, -1};
	unsigned n_null = 0;
	unsigned n_others = 0;
	unsigned fd = 0;

	(void)state;
	assert_int_equal(pipe(leak), 0); /* on purpose without O_CLOEXEC */
	spawned_worker_start(&worker, NULL);
	for (fd = 0; fd < 256; fd++) {
		ssize_t n = 0;

		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%u",
		    (int)worker.pid, fd);
		n = readlink(path, target, sizeof(target) - 1);
		if (n == -1)
			continue;
		target[n] = 0;
		if (strcmp(target, "/dev/null") == 0)
			n_null++;
		else if (!says(target, "socket:") && !says(target, "/statm"))
			n_others++;
	}
	assert_int_equal(n_null, 3);
	assert_int_equal(n_others, 0);
	(void)close(leak[0]);
	(void)close(leak[1]);
	spawned_worker_stop(&worker);
	assert_int_equal(worker.status, 0);
}

static void
test_worker__packet_that_is_no_job_ends_it(void **state)
{
	static const char text[] = "this is not a frame of ours at all";
	struct spawned_worker worker;

	(void)state;
	spawned_worker_start(&worker, NULL);
	assert_int_equal(send(worker.fd, text, sizeof(text), MSG_NOSIGNAL),
	    sizeof(text));
	spawned_worker_stop(&worker);
	assert_true(WIFEXITED(worker.status));
	assert_int_equal(WEXITSTATUS(worker.status), 1);
}

static void
test_worker__missing_nvrtc_is_said_and_it_leaves(void **state)
{
	char nvrtc[] = "HUMMING_NVRTC=/nothing/such";
	char *environment[] = {nvrtc, NULL};
	struct spawned_worker worker;

	(void)state;
	spawned_worker_start(&worker, environment);
	assert_int_equal(worker.ready.error, HM_E_UNAVAILABLE);
	assert_true(says(worker.ready.message, "/nothing/such"));
	assert_string_equal(worker.ready.compiler, "");
	spawned_worker_stop(&worker);
	assert_int_equal(worker.status, 0);
}

/*
 * A source that may make NVRTC fail, abort, overflow its stack or run for
 * ever: an error or a death, within the limits, is what is asked for.
 */
static void
expect_held(const char *name, const char *source)
{
	struct spawned_worker worker;
	struct spawned_job job = {.arch = "sm_90a", .source = source};
	struct timespec start;
	struct timespec end;

	spawned_worker_start(&worker, NULL);
	assert_int_equal(worker.ready.error, HM_OK);
	spawned_worker_limit_cpu(&worker, HOSTILE_CPU_SECONDS);
	(void)clock_gettime(CLOCK_MONOTONIC, &start);
	spawned_worker_compile(&worker, &job);
	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	if (job.answered)
		assert_int_not_equal(job.result.error, HM_OK);
	spawned_worker_stop(&worker);
	print_message("# %s: %s %s, %ld ms, %ld MiB\n", name,
	    job.answered ? "error" : strsignal(WTERMSIG(worker.status)),
	    job.answered ? job.result.message : "",
	    (end.tv_sec - start.tv_sec) * 1000 +
		(end.tv_nsec - start.tv_nsec) / 1000000,
	    worker.usage.ru_maxrss / 1024);
	if (!job.answered)
		assert_true(WIFSIGNALED(worker.status));
	assert_in_range(worker.usage.ru_maxrss, 1, HOSTILE_MAX_KIB);
	assert_in_range(worker.usage.ru_utime.tv_sec +
			    worker.usage.ru_stime.tv_sec,
	    0, HOSTILE_CPU_SECONDS + 1);
	spawned_job_done(&job);
}

static void
test_worker__template_bomb_is_held(void **state)
{
	(void)state;
	expect_held("template bomb",
	    "template <int D, int I> struct B { static const int v =\n"
	    "B<D - 1, 2 * I>::v + B<D - 1, 2 * I + 1>::v; };\n"
	    "template <int I> struct B<0, I> { static const int v = I; };\n"
	    "__global__ void k(int *p) { *p = B<24, 0>::v; }\n");
}

static void
test_worker__macro_bomb_is_held(void **state)
{
	static char source[4096];
	size_t n = 0;
	int i = 0;

	(void)state;
	n = (size_t)snprintf(source, sizeof(source), "#define M0 1+\n");
	for (i = 1; i <= 10; i++)
		n += (size_t)snprintf(source + n, sizeof(source) - n,
		    "#define M%d M%d M%d M%d M%d M%d M%d M%d M%d M%d M%d\n", i,
		    i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1,
		    i - 1, i - 1);
	(void)snprintf(source + n, sizeof(source) - n,
	    "__global__ void k(int *p) { *p = M10 0; }\n");
	expect_held("macro bomb", source);
}

static void
test_worker__big_array_is_held(void **state)
{
	(void)state;
	expect_held("big array",
	    "__device__ int big[1 << 28] = {1, 2, 3};\n"
	    "__global__ void k(int *p) { *p = big[*p]; }\n");
}

static void
test_worker__deep_parentheses_are_held(void **state)
{
	static char source[1 << 20];
	static const char head[] = "__global__ void k(int *p) { *p = ";
	const size_t n_deep = 500000;

	(void)state;
	memset(source, 0, sizeof(source));
	memcpy(source, head, sizeof(head) - 1);
	memset(source + sizeof(head) - 1, '(', n_deep);
	source[sizeof(head) - 1 + n_deep] = '1';
	memset(source + sizeof(head) + n_deep, ')', n_deep);
	/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): zeroed above. */
	memcpy(source + sizeof(head) + 2 * n_deep, "; }", 3);
	expect_held("deep parentheses", source);
}

static void
test_worker__endless_ptxas_is_held(void **state)
{
	static char source[1 << 19];
	size_t n = 0;
	unsigned i = 0;

	(void)state;
	n = (size_t)snprintf(source, sizeof(source),
	    "__global__ void k(int *p, int n) {\n");
	for (i = 0; i < 400; i++)
		n += (size_t)snprintf(source + n, sizeof(source) - n,
		    "int v%u = p[%u];\n", i, i);
	n += (size_t)snprintf(source + n, sizeof(source) - n,
	    "for (int i = 0; i < n; i++) {\n");
	for (i = 0; i < 4000; i++)
		n += (size_t)snprintf(source + n, sizeof(source) - n,
		    "if (v%u > v%u) v%u += v%u * p[v%u]; else v%u ^= %u;\n",
		    i * 7 % 400, i * 13 % 400, i % 400, i * 31 % 400,
		    i * 11 % 400, i * 3 % 400, i);
	n += (size_t)snprintf(source + n, sizeof(source) - n, "}\n");
	for (i = 0; i < 400; i++)
		n += (size_t)snprintf(source + n, sizeof(source) - n,
		    "p[%u] = v%u;\n", i, i);
	(void)snprintf(source + n, sizeof(source) - n, "}\n");
	expect_held("endless ptxas", source);
}

/*
 * As "test_worker orphan", this program starts a worker on its own descriptor
 * 3 and leaves when its standard input closes.
 */
static int
orphan_main(void)
{
	char path[] = HM_BIN_DIR "/humming-worker";
	char *argv[] = {path, NULL};
	char *environment[] = {NULL};
	char byte = 0;
	pid_t pid = 0;

	if (posix_spawn(&pid, path, NULL, NULL, argv, environment) != 0)
		return 1;
	(void)close(3);
	while (read(0, &byte, 1) > 0)
		continue;
	return 0;
}

static void
test_worker__dies_with_its_parent(void **state)
{
	char self[] = "/proc/self/exe";
	char mode[] = "orphan";
	char *argv[] = {self, mode, NULL};
	char *environment[] = {NULL};
	posix_spawn_file_actions_t actions;
	struct spawned_worker worker = {.fd = -1};
	struct pollfd end = {.events = POLLIN};
	struct hm_frame frame;
	int pair[2] = {-1, -1};
	int leash[2] = {-1, -1};

	(void)state;
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(pipe2(leash, O_CLOEXEC), 0);
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	assert_int_equal(posix_spawn_file_actions_adddup2(&actions, pair[1], 3),
	    0);
	assert_int_equal(
	    posix_spawn_file_actions_adddup2(&actions, leash[0], 0), 0);
	assert_int_equal(
	    posix_spawn(&worker.pid, self, &actions, NULL, argv, environment),
	    0);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(pair[1]);
	(void)close(leash[0]);
	worker.fd = pair[0];
	spawned_worker_wait_ready(&worker);
	(void)close(leash[1]);
	/* Our end stays open: only its death can end the channel. */
	end.fd = worker.fd;
	assert_int_equal(poll(&end, 1, 10000), 1);
	assert_int_equal(hm_frame_recv(worker.fd, worker.packet, &frame),
	    HM_E_UNAVAILABLE);
	spawned_worker_stop(&worker);
	assert_int_equal(worker.status, 0);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_worker__start_says_what_it_has),
	    cmocka_unit_test(test_worker__good_source_gives_a_checked_cubin),
	    cmocka_unit_test(
		test_worker__same_source_gives_same_bytes_in_any_process),
	    cmocka_unit_test(test_worker__options_reach_the_compiler),
	    cmocka_unit_test(test_worker__refused_option_is_named),
	    cmocka_unit_test(
		test_worker__broken_source_gives_the_first_error_and_the_log),
	    cmocka_unit_test(
		test_worker__bad_assembly_gives_the_error_of_ptxas),
	    cmocka_unit_test(test_worker__log_flood_is_cut),
	    cmocka_unit_test(
		test_worker__unknown_arch_is_named_with_the_known_ones),
	    cmocka_unit_test(test_worker__arch_that_is_an_option_is_invalid),
	    cmocka_unit_test(
		test_worker__large_source_comes_in_the_memory_file),
	    cmocka_unit_test(test_worker__nul_byte_in_a_source_is_an_error),
	    cmocka_unit_test(
		test_worker__cubin_larger_than_its_file_is_an_error),
	    cmocka_unit_test(
		test_worker__job_without_its_memory_file_is_an_error),
	    cmocka_unit_test(
		test_worker__memory_file_can_be_sealed_after_the_reply),
	    cmocka_unit_test(
		test_worker__our_own_kernel_is_built_from_embedded_sources),
	    cmocka_unit_test(test_worker__include_of_a_host_file_finds_nothing),
	    cmocka_unit_test(test_worker__has_include_tells_nothing),
	    cmocka_unit_test(test_worker__include_of_a_fifo_does_not_hang),
	    cmocka_unit_test(test_worker__our_own_sources_are_not_for_clients),
	    cmocka_unit_test(test_worker__limits_are_in_force),
	    cmocka_unit_test(test_worker__holds_no_descriptor_of_its_parent),
	    cmocka_unit_test(test_worker__packet_that_is_no_job_ends_it),
	    cmocka_unit_test(test_worker__missing_nvrtc_is_said_and_it_leaves),
	    cmocka_unit_test(test_worker__template_bomb_is_held),
	    cmocka_unit_test(test_worker__macro_bomb_is_held),
	    cmocka_unit_test(test_worker__big_array_is_held),
	    cmocka_unit_test(test_worker__deep_parentheses_are_held),
	    cmocka_unit_test(test_worker__endless_ptxas_is_held),
	    cmocka_unit_test(test_worker__dies_with_its_parent),
	};

	if (argc == 2 && strcmp(argv[1], "orphan") == 0)
		return orphan_main();
	return cmocka_run_group_tests_name("worker", tests, start_shared,
	    stop_shared);
}
