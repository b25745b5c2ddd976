/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_config.c - hummingd.conf as an operator may leave it.
 *
 * Promises: a file is refused with its place and a reason, or gives settings
 * whose texts end inside their room; reading it twice changes nothing more.
 */
#include <sys/mman.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config.h"
#include "fuzz.h"

static void
config_check(const struct hm_settings *settings)
{
	fuzz_require(strnlen(settings->socket, sizeof settings->socket) <
		     sizeof settings->socket);
	fuzz_require(strnlen(settings->store, sizeof settings->store) <
		     sizeof settings->store);
	fuzz_require(strnlen(settings->nvrtc, sizeof settings->nvrtc) <
		     sizeof settings->nvrtc);
	fuzz_require(strnlen(settings->group, sizeof settings->group) <
		     sizeof settings->group);
	fuzz_require(
	    strnlen(settings->log_groups, sizeof settings->log_groups) <
	    sizeof settings->log_groups);
}

void
fuzz_one(const uint8_t *data, size_t size)
{
	static struct hm_settings settings;
	static struct hm_settings again;
	struct hm_errbuf errbuf = {.text = ""};
	char path[64];
	int fd = memfd_create("hummingd.conf", MFD_CLOEXEC);

	fuzz_require(fd != -1);
	fuzz_require(write(fd, data, size) == (ssize_t)size);
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);

	memset(&settings, 0, sizeof settings);
	hm_config_init(&settings);
	if (hm_config_load(&settings, path, &errbuf) == HM_OK) {
		config_check(&settings);
		/* With the padding, for the comparison. */
		memcpy(&again, &settings, sizeof again);
		fuzz_require(hm_config_load(&again, path, NULL) == HM_OK);
		/* NOLINTNEXTLINE(bugprone-*,cert-*): of zeroed memory. */
		fuzz_require(memcmp(&again, &settings, sizeof again) == 0);
	} else {
		fuzz_require(strstr(errbuf.text, path) != NULL);
	}
	(void)close(fd);
}
