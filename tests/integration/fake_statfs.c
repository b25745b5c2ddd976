/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_statfs.c - preloaded into hummingd: every folder lies on the kind of
 * file system that FAKE_STATFS_MAGIC says, as no test can mount a real NFS.
 */
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("default"))) int
fstatfs(int fd, struct statfs *status)
{
	const char *magic = getenv("FAKE_STATFS_MAGIC");
	int rc = (int)syscall(SYS_fstatfs, fd, status);

	if (rc == 0 && magic != NULL)
		status->f_type = (__fsword_t)strtol(magic, NULL, 16);
	return rc;
}
