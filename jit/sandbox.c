/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.c - rlimits, no_new_privs, Landlock and seccomp, in this order.
 *
 * The parts overlap on purpose. Landlock denies files but tells a file that
 * exists (EACCES) from one that does not (ENOENT), so that seccomp answers
 * every system call with a file name by ENOENT before Landlock sees it;
 * Landlock stays for what a hole in the filter would let through, and each of
 * them stands alone on a kernel that lacks the other.
 *
 * The filter knows numbers, not paths: NVRTC 12.8 to 13.5 needs memory, the
 * channel, clocks and its own signals, which is the list below.
 */
#include "jit/sandbox.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/codec.h"

#define SANDBOX_MAX_FILES 16u
/* The daemon moves the soft limit before each job; this is the ceiling. */
#define SANDBOX_MAX_CPU_SECONDS 3600u

#define SANDBOX_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Put "part: why" with errno's text, unless an earlier part is there. */
static void
sandbox_note(struct hm_errbuf *missing, const char *part)
{
	if (missing->text[0] == 0)
		hm_errbuf_set(missing, "%s: %s", part, strerror(errno));
}

/* 0, 1 and 2 on /dev/null, so that no later descriptor gets these numbers. */
static int
sandbox_null_standard(void)
{
	int i = 0;

	if (close_range(0, 2, 0) == -1)
		return HM_E_SYSTEM;
	for (i = 0; i < 3; i++) {
		/* Inherited across no exec: close-on-exec as all of ours. */
		if (open("/dev/null", O_RDWR | O_CLOEXEC) != i)
			return HM_E_SYSTEM;
	}
	return HM_OK;
}

int
hm_sandbox_detach(int keep_fd)
{
	const pid_t parent = getppid();
	const unsigned kept = (unsigned)keep_fd;

	if (keep_fd < 3 || fcntl(keep_fd, F_GETFD) == -1)
		return HM_E_INVALID;
	/* The signal comes only for a death after the call: look again. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1)
		return HM_E_SYSTEM;
	if (getppid() != parent)
		return HM_E_UNAVAILABLE;
	if (kept > 3 && close_range(3, kept - 1, 0) == -1)
		return HM_E_SYSTEM;
	if (close_range(kept + 1, ~0u, 0) == -1)
		return HM_E_SYSTEM;
	if (fcntl(keep_fd, F_SETFD, FD_CLOEXEC) == -1 || chdir("/") == -1)
		return HM_E_SYSTEM;
	(void)umask(077);
	return sandbox_null_standard();
}

/* Address space in use, from /proc/self/statm; 0 when it cannot be read. */
static size_t
sandbox_used_bytes(void)
{
	const long page_bytes = sysconf(_SC_PAGESIZE);
	char text[128] = "";
	size_t n_pages = 0;
	size_t i = 0;
	int fd = -1;

	fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (fd == -1)
		return 0;
	if (read(fd, text, sizeof(text) - 1) > 0) {
		for (i = 0; text[i] >= '0' && text[i] <= '9'; i++)
			n_pages = n_pages * 10 + (size_t)(text[i] - '0');
	}
	(void)close(fd);
	return n_pages * (size_t)page_bytes;
}

/* Soft and hard, never above a hard limit that is there already. */
static bool
sandbox_limit(int resource, rlim_t value)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit) == -1)
		return false;
	if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > value)
		limit.rlim_max = value;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit((__rlimit_resource_t)resource, &limit) == 0;
}

static bool
sandbox_set_limits(const struct hm_sandbox *sandbox)
{
	const size_t used_bytes = sandbox_used_bytes();

	if (used_bytes == 0)
		return false;
	return sandbox_limit(RLIMIT_CORE, 0) &&
	       sandbox_limit(RLIMIT_AS, used_bytes + sandbox->extra_bytes) &&
	       sandbox_limit(RLIMIT_CPU, SANDBOX_MAX_CPU_SECONDS) &&
	       sandbox_limit(RLIMIT_FSIZE, sandbox->file_bytes) &&
	       sandbox_limit(RLIMIT_NOFILE, SANDBOX_MAX_FILES);
}

/* As the kernel has it now; the header of the build machine may be older. */
struct sandbox_ruleset {
	uint64_t handled_access_fs;
	uint64_t handled_access_net; /* ABI 4: bind, connect of TCP */
	uint64_t scoped;             /* ABI 6: abstract sockets, signals */
};

/* The rights that each Landlock ABI added, from linux/landlock.h of 6.12. */
static struct sandbox_ruleset
sandbox_rights(long abi)
{
	struct sandbox_ruleset rights = {.handled_access_fs = 0x1fff};

	if (abi >= 2)
		rights.handled_access_fs |= 1u << 13; /* refer */
	if (abi >= 3)
		rights.handled_access_fs |= 1u << 14; /* truncate */
	if (abi >= 4)
		rights.handled_access_net = 3;
	if (abi >= 5)
		rights.handled_access_fs |= 1u << 15; /* ioctl of devices */
	if (abi >= 6)
		rights.scoped = 3;
	return rights;
}

static size_t
sandbox_ruleset_bytes(long abi)
{
	if (abi >= 6)
		return sizeof(struct sandbox_ruleset);
	if (abi >= 4)
		return offsetof(struct sandbox_ruleset, scoped);
	return offsetof(struct sandbox_ruleset, handled_access_net);
}

/* Every right is handled and none is granted. */
static bool
sandbox_set_landlock(void)
{
	struct sandbox_ruleset rights;
	long abi = 0;
	long fd = -1;
	long rc = -1;

	abi = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0,
	    LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < 1)
		return false;
	rights = sandbox_rights(abi);
	fd = syscall(SYS_landlock_create_ruleset, &rights,
	    sandbox_ruleset_bytes(abi), 0u);
	if (fd == -1)
		return false;
	rc = syscall(SYS_landlock_restrict_self, (int)fd, 0u);
	(void)close((int)fd);
	return rc == 0;
}

#if defined(__x86_64__)
#define SANDBOX_AUDIT_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SANDBOX_AUDIT_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef SANDBOX_AUDIT_ARCH
static const int sandbox_allowed[] = {
#ifdef SYS_poll
    SYS_poll,
#endif
#ifdef SYS_time
    SYS_time,
#endif
    SYS_brk, SYS_clock_getres, SYS_clock_gettime, SYS_clock_nanosleep,
    SYS_close, SYS_exit, SYS_exit_group, SYS_fstat, SYS_futex, SYS_getcwd,
    SYS_getpid, SYS_getrandom, SYS_getrusage, SYS_gettid, SYS_gettimeofday,
    SYS_lseek, SYS_madvise, SYS_mremap, SYS_munmap, SYS_ppoll, SYS_pread64,
    SYS_read, SYS_recvmsg, SYS_restart_syscall, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_getaffinity,
    SYS_sched_yield, SYS_sendmsg, SYS_sigaltstack, SYS_sysinfo, SYS_write};

/* All that takes a file name to look at: nothing exists. */
static const int sandbox_nameless[] = {
#ifdef SYS_open
    SYS_access, SYS_chmod, SYS_chown, SYS_creat, SYS_lchown, SYS_link,
    SYS_lstat, SYS_mkdir, SYS_mknod, SYS_open, SYS_readlink, SYS_rename,
    SYS_rmdir, SYS_stat, SYS_symlink, SYS_unlink,
#endif
#ifdef SYS_renameat
    SYS_renameat,
#endif
    SYS_chdir, SYS_execve, SYS_execveat, SYS_faccessat, SYS_faccessat2,
    SYS_fchmodat, SYS_fchownat, SYS_getxattr, SYS_linkat, SYS_listxattr,
    SYS_mkdirat, SYS_mknodat, SYS_newfstatat, SYS_openat, SYS_openat2,
    SYS_readlinkat, SYS_renameat2, SYS_statfs, SYS_statx, SYS_symlinkat,
    SYS_truncate, SYS_unlinkat, SYS_utimensat};

/* A program is built here, two instructions for most system calls. */
struct sandbox_program {
	struct sock_filter code[256];
	unsigned short n_code;
};

static void
sandbox_emit(struct sandbox_program *program, unsigned code, uint32_t value,
    unsigned if_true, unsigned if_false)
{
	if (program->n_code >= SANDBOX_COUNT(program->code))
		return; /* the kernel refuses a program that does not return */
	program->code[program->n_code] =
	    (struct sock_filter){.code = (unsigned short)code,
		.jt = (unsigned char)if_true,
		.jf = (unsigned char)if_false,
		.k = value};
	program->n_code++;
}

static void
sandbox_load(struct sandbox_program *program, size_t offset)
{
	sandbox_emit(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void
sandbox_return(struct sandbox_program *program, uint32_t action)
{
	sandbox_emit(program, BPF_RET | BPF_K, action, 0, 0);
}

static void
sandbox_answer(struct sandbox_program *program, const int *calls,
    size_t n_calls, uint32_t action)
{
	size_t i = 0;

	for (i = 0; i < n_calls; i++) {
		sandbox_emit(program, BPF_JMP | BPF_JEQ | BPF_K,
		    (uint32_t)calls[i], 0, 1);
		sandbox_return(program, action);
	}
}

/* Low half of an argument; both architectures are little-endian. */
static size_t
sandbox_argument(unsigned index)
{
	return offsetof(struct seccomp_data, args) + index * sizeof(uint64_t);
}

/* Memory may be mapped, but none of it executed. */
static void
sandbox_allow_memory(struct sandbox_program *program, int call)
{
	sandbox_emit(program, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4);
	sandbox_load(program, sandbox_argument(2));
	sandbox_emit(program, BPF_JMP | BPF_JSET | BPF_K, 4u, 0, 1);
	sandbox_return(program, SECCOMP_RET_ERRNO | EPERM);
	sandbox_return(program, SECCOMP_RET_ALLOW);
}

/* abort() signals its own process, and there is no other for it. */
static void
sandbox_allow_abort(struct sandbox_program *program)
{
	sandbox_emit(program, BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 4);
	sandbox_load(program, sandbox_argument(0));
	sandbox_emit(program, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getpid(), 1,
	    0);
	sandbox_return(program, SECCOMP_RET_ERRNO | EPERM);
	sandbox_return(program, SECCOMP_RET_ALLOW);
}

/*
 * NVRTC lifts the soft limit of its own stack around a compile. Any limit may
 * be read (argument 2, the new limit, is NULL: both halves 0), and only that
 * one be set (resource in argument 1, this process as 0 in argument 0): the
 * soft CPU limit is the daemon's.
 */
static void
sandbox_allow_prlimit(struct sandbox_program *program)
{
	sandbox_emit(program, BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 10);
	sandbox_load(program, sandbox_argument(2));
	sandbox_emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2);
	sandbox_load(program, sandbox_argument(2) + sizeof(uint32_t));
	sandbox_emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 5, 0);
	sandbox_load(program, sandbox_argument(0));
	sandbox_emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2);
	sandbox_load(program, sandbox_argument(1));
	sandbox_emit(program, BPF_JMP | BPF_JEQ | BPF_K, RLIMIT_STACK, 1, 0);
	sandbox_return(program, SECCOMP_RET_ERRNO | EPERM);
	sandbox_return(program, SECCOMP_RET_ALLOW);
}

static void
sandbox_build(struct sandbox_program *program)
{
	sandbox_load(program, offsetof(struct seccomp_data, arch));
	sandbox_emit(program, BPF_JMP | BPF_JEQ | BPF_K, SANDBOX_AUDIT_ARCH, 1,
	    0);
	sandbox_return(program, SECCOMP_RET_KILL_PROCESS);
	sandbox_load(program, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
	/* The x32 numbers are a second way into the same calls. */
	sandbox_emit(program, BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1);
	sandbox_return(program, SECCOMP_RET_KILL_PROCESS);
#endif
	sandbox_answer(program, sandbox_allowed, SANDBOX_COUNT(sandbox_allowed),
	    SECCOMP_RET_ALLOW);
	sandbox_answer(program, sandbox_nameless,
	    SANDBOX_COUNT(sandbox_nameless), SECCOMP_RET_ERRNO | ENOENT);
	sandbox_allow_memory(program, SYS_mmap);
	sandbox_allow_memory(program, SYS_mprotect);
	sandbox_allow_abort(program);
	sandbox_allow_prlimit(program);
	sandbox_return(program, SECCOMP_RET_ERRNO | EPERM);
}

static bool
sandbox_set_seccomp(void)
{
	struct sandbox_program program = {.n_code = 0};
	struct sock_fprog filter = {.filter = program.code};

	sandbox_build(&program);
	filter.len = program.n_code;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0u, &filter) == 0;
}
#else
static bool
sandbox_set_seccomp(void)
{
	errno = ENOSYS; /* no list of numbers for this machine */
	return false;
}
#endif

uint32_t
hm_sandbox_install(const struct hm_sandbox *sandbox,
    struct hm_errbuf *missing_out)
{
	uint32_t bits = 0;

	missing_out->text[0] = 0;
	errno = 0;
	if (sandbox_set_limits(sandbox))
		bits |= HM_SANDBOX_RLIMITS;
	else
		sandbox_note(missing_out, "rlimits");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		bits |= HM_SANDBOX_NO_NEW_PRIVS;
	else
		sandbox_note(missing_out, "no_new_privs");
	if (sandbox_set_landlock())
		bits |= HM_SANDBOX_LANDLOCK;
	else
		sandbox_note(missing_out, "Landlock");
	if (sandbox_set_seccomp())
		bits |= HM_SANDBOX_SECCOMP;
	else
		sandbox_note(missing_out, "seccomp");
	return bits;
}
