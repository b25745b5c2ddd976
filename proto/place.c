/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.c - see place.h.
 *
 * A folder under the temporary directory can be made by anybody who is faster,
 * and a runtime folder that others may write lets them put theirs into it.
 */
#include "proto/place.h"

#include <sys/stat.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PLACE_SOCKET "hummingd.sock"

const char *
hm_place_environment(const char *name)
{
	const char *value = secure_getenv(name);

	return value != NULL && value[0] == '/' ? value : NULL;
}

bool
hm_place_is_private(const char *folder)
{
	struct stat status;

	return lstat(folder, &status) == 0 && S_ISDIR(status.st_mode) &&
	       status.st_uid == geteuid() && (status.st_mode & 022) == 0;
}

/* The folder above/name and the socket in it, if both names fit. */
static bool
place_set(struct hm_place *place_out, const char *above, const char *name)
{
	struct hm_place place;
	int n;

	n = snprintf(place.socket, sizeof(place.socket), "%s/%s/" PLACE_SOCKET,
	    above, name);
	if (n < 0 || (size_t)n >= sizeof(place.socket))
		return false;
	(void)snprintf(place.folder, sizeof(place.folder), "%.*s",
	    n - (int)sizeof(PLACE_SOCKET), place.socket);
	*place_out = place;
	return true;
}

bool
hm_place_runtime(struct hm_place *place_out)
{
	const char *runtime = hm_place_environment("XDG_RUNTIME_DIR");

	return runtime != NULL && hm_place_is_private(runtime) &&
	       place_set(place_out, runtime, "humming");
}

bool
hm_place_temporary(struct hm_place *place_out)
{
	const char *temporary = hm_place_environment("TMPDIR");
	char name[32];

	(void)snprintf(name, sizeof(name), "humming-%lu",
	    (unsigned long)geteuid());
	return place_set(place_out, temporary == NULL ? "/tmp" : temporary,
	    name);
}

bool
hm_place_find(struct hm_place *place_out)
{
	return hm_place_runtime(place_out) || hm_place_temporary(place_out);
}
