/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c - the committed corpus of a fuzz program as a TAP test.
 *
 * Every file whole, then everything that it begins with, then with one bit
 * turned at each place: what a network or a disk does to good input. A promise
 * that is broken ends the process, and prove then misses the rest of the plan.
 */
#include <sys/stat.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define REPLAY_MAX_BYTES 65536
/* Places that are cut and turned; whole files have no such limit. */
#define REPLAY_MAX_PLACES 512

static int
replay_is_seed(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static uint8_t *
replay_read(const char *folder, const char *name, size_t *n_out)
{
	static uint8_t bytes[REPLAY_MAX_BYTES];
	char path[4096];
	FILE *file = NULL;

	(void)snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "rbe");
	if (file == NULL)
		return NULL;
	*n_out = fread(bytes, 1, sizeof bytes, file);
	(void)fclose(file);
	return bytes;
}

/* A copy of exactly its size, so that a sanitizer sees a read past it. */
static void
replay_copy(const uint8_t *bytes, size_t n, size_t turned)
{
	uint8_t *copy = malloc(n == 0 ? 1 : n);

	if (copy == NULL)
		abort();
	if (n != 0)
		memcpy(copy, bytes, n);
	if (turned < n)
		copy[turned] ^= (uint8_t)(1u << turned % 8);
	fuzz_one(copy, n);
	free(copy);
}

static void
replay_seed(const uint8_t *bytes, size_t n)
{
	size_t n_places = n < REPLAY_MAX_PLACES ? n : REPLAY_MAX_PLACES;

	replay_copy(bytes, n, n);
	for (size_t i = 0; i < n_places; i++)
		replay_copy(bytes, i, i);
	for (size_t i = 0; i < n_places; i++)
		replay_copy(bytes, n, i);
}

int
main(int argc, char **argv)
{
	const char *folder = argc > 1 ? argv[1] : HM_FUZZ_CORPUS;
	struct dirent **seeds = NULL;
	uint8_t *bytes;
	size_t n = 0;
	int n_seeds;

	n_seeds = scandir(folder, &seeds, replay_is_seed, alphasort);
	if (n_seeds < 1) {
		(void)printf("1..1\nnot ok 1 - no corpus in %s\n", folder);
		return 1;
	}
	(void)printf("1..%d\n", n_seeds);
	for (int i = 0; i < n_seeds; i++) {
		bytes = replay_read(folder, seeds[i]->d_name, &n);
		if (bytes != NULL)
			replay_seed(bytes, n);
		(void)printf("%sok %d - %s\n", bytes != NULL ? "" : "not ",
		    i + 1, seeds[i]->d_name);
		(void)fflush(stdout);
		free(seeds[i]);
	}
	free((void *)seeds);
	return 0;
}
