/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fd.c - memory files, written once and then sealed.
 *
 * A sealed file is the only kind of foreign memory we ever map: its bytes and
 * its size cannot change any more, so a map of it can neither differ between
 * two reads nor fault. The checks therefore ask for the seals first and for
 * the size second.
 */
#include "proto/fd.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* linux/memfd.h since 6.3, not yet in glibc 2.36: never executable. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

#define FD_SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

/* memfd_create(2): 249 bytes without the NUL. */
#define FD_NAME_LIMIT_CHARS 249u

void
hm_fd_close(int *fd)
{
	int saved_errno = errno;

	if (*fd == -1)
		return;
	(void)close(*fd);
	*fd = -1;
	errno = saved_errno;
}

int
hm_fd_reserve_stdio(void)
{
	int fd;

	for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
		if (fcntl(i, F_GETFD) != -1)
			continue;
		/* The lowest that is free, which is i. */
		fd = open("/dev/null", i == STDIN_FILENO ? O_WRONLY : O_RDONLY);
		if (fd == -1)
			return HM_E_SYSTEM;
	}
	return HM_OK;
}

int
hm_fd_write_all(int fd, const void *bytes, size_t n_bytes)
{
	const uint8_t *at = bytes;
	size_t left = n_bytes;
	ssize_t n;

	while (left > 0) {
		n = write(fd, at, left);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return HM_E_SYSTEM;
		at += n;
		left -= (size_t)n;
	}
	return HM_OK;
}

/* Kernels before 6.3 refuse the no-exec flag with EINVAL. */
static int
fd_memory_create(const char *name)
{
	const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd;

	fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
	if (fd == -1 && errno == EINVAL)
		fd = memfd_create(name, flags);
	return fd;
}

int
hm_fd_memory(const char *name, size_t n_bytes, int *fd_out)
{
	int fd;

	if (name == NULL || n_bytes == 0 || n_bytes > INT64_MAX ||
	    strnlen(name, FD_NAME_LIMIT_CHARS + 1) > FD_NAME_LIMIT_CHARS)
		return HM_E_INVALID;

	fd = fd_memory_create(name);
	if (fd == -1)
		return HM_E_SYSTEM;
	if (ftruncate(fd, (off_t)n_bytes) == -1) {
		hm_fd_close(&fd);
		return HM_E_SYSTEM;
	}
	*fd_out = fd;
	return HM_OK;
}

int
hm_fd_seal(const char *name, const void *bytes, size_t n_bytes, int *fd_out)
{
	int error;
	int fd = -1;

	if (bytes == NULL)
		return HM_E_INVALID;
	error = hm_fd_memory(name, n_bytes, &fd);
	if (error != HM_OK)
		goto out;
	error = hm_fd_write_all(fd, bytes, n_bytes);
	if (error != HM_OK)
		goto out;

	/* Last, because the seals also forbid our own writes. */
	if (fcntl(fd, F_ADD_SEALS, FD_SEALS) == -1) {
		error = HM_E_SYSTEM;
		goto out;
	}

	*fd_out = fd;
	fd = -1;
out:
	hm_fd_close(&fd);
	return error;
}

int
hm_fd_seal_existing(int fd, size_t n_bytes)
{
	struct stat status;

	if (n_bytes == 0 || n_bytes > INT64_MAX)
		return HM_E_INVALID;
	if (ftruncate(fd, (off_t)n_bytes) == -1)
		return HM_E_SYSTEM;
	if (fcntl(fd, F_ADD_SEALS, FD_SEALS) == -1)
		return errno == EBUSY ? HM_E_BUSY : HM_E_SYSTEM;

	/* Another holder may have resized it between our cut and our seal. */
	if (fstat(fd, &status) == -1)
		return HM_E_SYSTEM;
	return (uint64_t)status.st_size == n_bytes ? HM_OK : HM_E_BUSY;
}

int
hm_fd_map_sealed(int fd, size_t limit_bytes, const void **bytes_out,
    size_t *n_bytes_out)
{
	struct stat status;
	uint64_t n_bytes;
	void *bytes;
	int seals;

	seals = fcntl(fd, F_GET_SEALS);
	if (seals == -1) /* EINVAL: a file that cannot have seals */
		return errno == EINVAL ? HM_E_PROTOCOL : HM_E_SYSTEM;
	if ((seals & FD_SEALS) != FD_SEALS)
		return HM_E_PROTOCOL;
	if (fstat(fd, &status) == -1)
		return HM_E_SYSTEM;
	n_bytes = (uint64_t)status.st_size;
	if (n_bytes == 0 || n_bytes > limit_bytes)
		return HM_E_PROTOCOL;

	bytes = mmap(NULL, (size_t)n_bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		return HM_E_SYSTEM;
	*bytes_out = bytes;
	*n_bytes_out = (size_t)n_bytes;
	return HM_OK;
}

void
hm_fd_unmap(const void *bytes, size_t n_bytes)
{
	void *address;

	if (bytes == NULL)
		return;
	/* munmap takes no const; a cast would need a warning switched off. */
	memcpy(&address, &bytes, sizeof address);
	(void)munmap(address, n_bytes);
}
