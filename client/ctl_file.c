/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_file.c - whole files in, whole files out.
 */
#include "client/ctl.h"

#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/fd.h"

static int
file_error(const char *path, struct hm_errbuf *errbuf)
{
	hm_errbuf_set(errbuf, "%s: %s", path, strerror(errno));
	return HM_E_SYSTEM;
}

/* The mode that open(path, 0666) would have given. */
static mode_t
file_mode(void)
{
	mode_t mask = umask(0);

	(void)umask(mask);
	return 0666 & ~mask;
}

/* Beside the target, then over it: a reader sees the old file or the new. */
static int
file_replace(const char *path, const void *bytes, size_t n_bytes,
    struct hm_errbuf *errbuf)
{
	char *temporary = NULL;
	int error = HM_OK;
	int fd;

	if (asprintf(&temporary, "%s.XXXXXX", path) == -1)
		return HM_E_NOMEM;
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd == -1) {
		error = file_error(path, errbuf);
		free(temporary);
		return error;
	}
	if (hm_fd_write_all(fd, bytes, n_bytes) != HM_OK ||
	    fchmod(fd, file_mode()) == -1 || fsync(fd) == -1 ||
	    rename(temporary, path) == -1) {
		error = file_error(path, errbuf);
		(void)unlink(temporary);
	}
	hm_fd_close(&fd);
	free(temporary);
	return error;
}

int
hm_ctl_write_file(const char *path, const void *bytes, size_t n_bytes,
    struct hm_errbuf *errbuf)
{
	struct stat status;
	int error = HM_OK;
	int fd;

	if (stat(path, &status) == -1 || S_ISREG(status.st_mode))
		return file_replace(path, bytes, n_bytes, errbuf);
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd == -1)
		return file_error(path, errbuf);
	if (hm_fd_write_all(fd, bytes, n_bytes) != HM_OK)
		error = file_error(path, errbuf);
	hm_fd_close(&fd);
	return error;
}

int
hm_ctl_read_file(const char *path, size_t limit_bytes, char **text_out,
    size_t *n_out, struct hm_errbuf *errbuf)
{
	FILE *file;
	char *text;
	size_t n;
	int error = HM_OK;

	file = fopen(path, "re");
	if (file == NULL)
		return file_error(path, errbuf);
	text = malloc(limit_bytes + 2);
	if (text == NULL) {
		(void)fclose(file);
		return HM_E_NOMEM;
	}
	n = fread(text, 1, limit_bytes + 1, file);
	if (ferror(file) != 0) {
		error = file_error(path, errbuf);
	} else if (n == 0 || n > limit_bytes) {
		if (n == 0)
			hm_errbuf_set(errbuf, "%s: is empty", path);
		else
			hm_errbuf_set(errbuf, "%s: is larger than %zu bytes",
			    path, limit_bytes);
		error = HM_E_INVALID;
	}
	(void)fclose(file);
	if (error != HM_OK) {
		free(text);
		return error;
	}
	text[n] = '\0';
	*text_out = text;
	*n_out = n;
	return HM_OK;
}
