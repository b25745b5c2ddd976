/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolchain_find.c - the places where an NVRTC may lie, in order.
 *
 * Decides the order only; whether a file will do is the caller's answer, and
 * the first that does ends the search.
 */
#include "jit/toolchain_find.h"

#include <sys/stat.h>

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIND_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Who answers for a file: what hm_toolchain_find was called with. */
struct find {
	hm_toolchain_try_fn try_file;
	void *arg;
};

/* Below a CUDA folder, or a folder that a wheel was unpacked into. */
static const char *const find_folders[] = {"", "/lib64",
#if defined(__aarch64__)
    "/targets/sbsa-linux/lib",
#else
    "/targets/x86_64-linux/lib",
#endif
    "/lib", "/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib"};

/* The major version of "libnvrtc.so.13"; 0 for libnvrtc.so; -1 for others. */
static int
find_file_major(const char *name)
{
	static const char stem[] = "libnvrtc.so";
	int major = 0;

	if (strncmp(name, stem, sizeof(stem) - 1) != 0)
		return -1;
	name += sizeof(stem) - 1;
	if (*name == 0)
		return 0;
	if (*name != '.')
		return -1;
	for (name++; *name >= '0' && *name <= '9' && major < 1000; name++)
		major = major * 10 + (*name - '0');
	return *name == 0 ? major : -1;
}

/* The libnvrtc of the highest major version in a folder. */
static int
find_try_folder(const struct find *find, const char *folder,
    struct hm_errbuf *errbuf)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry = NULL;
	char path[PATH_MAX];
	char suffix[16] = "";
	int best = -1;

	if (dir == NULL)
		return HM_E_UNAVAILABLE;
	while ((entry = readdir(dir)) != NULL) {
		const int major = find_file_major(entry->d_name);

		if (major > best)
			best = major;
	}
	(void)closedir(dir);
	if (best == -1)
		return HM_E_UNAVAILABLE;
	if (best > 0)
		(void)snprintf(suffix, sizeof(suffix), ".%d", best);
	if (snprintf(path, sizeof(path), "%s/libnvrtc.so%s", folder, suffix) >=
	    (int)sizeof(path))
		return HM_E_UNAVAILABLE;
	return find->try_file(find->arg, path, errbuf);
}

/* prefix NULL or empty: nothing to look at. */
static int
find_try_prefix(const struct find *find, const char *prefix,
    struct hm_errbuf *errbuf)
{
	char folder[PATH_MAX];
	size_t i = 0;

	if (prefix == NULL || prefix[0] == 0)
		return HM_E_UNAVAILABLE;
	for (i = 0; i < FIND_COUNT(find_folders); i++) {
		if (snprintf(folder, sizeof(folder), "%s%s", prefix,
			find_folders[i]) >= (int)sizeof(folder))
			return HM_E_UNAVAILABLE;
		if (find_try_folder(find, folder, errbuf) == HM_OK)
			return HM_OK;
	}
	return HM_E_UNAVAILABLE;
}

static int
find_try_named(const struct find *find, const char *where,
    struct hm_errbuf *errbuf)
{
	struct stat status;

	if (stat(where, &status) == -1) {
		hm_errbuf_set(errbuf, "%s is not there", where);
		return HM_E_UNAVAILABLE;
	}
	if (!S_ISDIR(status.st_mode))
		return find->try_file(find->arg, where, errbuf);
	hm_errbuf_set(errbuf, "%s holds no libnvrtc", where);
	return find_try_prefix(find, where, errbuf);
}

/* What systemd/setup.sh made for this user. */
static int
find_try_home(const struct find *find, struct hm_errbuf *errbuf)
{
	const char *data = getenv("XDG_DATA_HOME");
	const char *home = getenv("HOME");
	char prefix[PATH_MAX];
	int n_prefix = 0;

	if (data != NULL && data[0] == '/')
		n_prefix =
		    snprintf(prefix, sizeof(prefix), "%s/humming/nvrtc", data);
	else if (home != NULL && home[0] == '/')
		n_prefix = snprintf(prefix, sizeof(prefix),
		    "%s/.local/share/humming/nvrtc", home);
	else
		return HM_E_UNAVAILABLE;
	if (n_prefix >= (int)sizeof(prefix))
		return HM_E_UNAVAILABLE;
	return find_try_prefix(find, prefix, errbuf);
}

static int
find_search(const struct find *find, struct hm_errbuf *errbuf)
{
	static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12",
	    "libnvrtc.so"};
	size_t i = 0;

	if (find_try_prefix(find, getenv("CUDA_HOME"), errbuf) == HM_OK ||
	    find_try_prefix(find, "/usr/local/cuda", errbuf) == HM_OK)
		return HM_OK;
	for (i = 0; i < FIND_COUNT(names); i++) {
		if (find->try_file(find->arg, names[i], errbuf) == HM_OK)
			return HM_OK;
	}
	if (find_try_prefix(find, getenv("HUMMING_PREFIX"), errbuf) == HM_OK ||
	    find_try_prefix(find, "/opt/humming/nvrtc", errbuf) == HM_OK)
		return HM_OK;
	return find_try_home(find, errbuf);
}

int
hm_toolchain_find(const char *where, hm_toolchain_try_fn try_file, void *arg,
    struct hm_errbuf *errbuf)
{
	const struct find find = {.try_file = try_file, .arg = arg};

	if (where == NULL)
		where = getenv("HUMMING_NVRTC");
	if (where != NULL && where[0] != 0)
		return find_try_named(&find, where, errbuf);
	return find_search(&find, errbuf);
}
