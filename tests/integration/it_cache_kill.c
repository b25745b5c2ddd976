/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_cache_kill.c - a writer of the store is killed at random moments, many
 * times over; what it had acknowledged is there, and the store opens.
 *
 * The program starts itself: `it_cache_kill writer FOLDER CAP SEED FD` puts
 * entries SEED, SEED + 1, ... and writes to FD, after each flush, how many are
 * durable. Kills come at any time: while opening, writing, syncing, evicting.
 */
#include <sys/wait.h>

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <time.h>

#include "tests/unit/cache_fixture.h"

#define ROUNDS 60u
#define LARGE  (1024 * MIB)
#define SMALL  (4 * MIB)

static size_t
size_of(uint64_t seed)
{
	uint64_t state = seed;

	return 1 + fixture_random(&state) % 60000;
}

/* ---- the one that dies ---- */

/* Work over the whole store, now and then: a crash in the middle of it takes
 * nothing along. Pins stay, which makes no difference here. */
static void
care(struct hm_cache *cache, uint64_t seed, uint64_t *random)
{
	static const enum hm_cache_task_kind kinds[] = {HM_CACHE_COMPACT,
	    HM_CACHE_VERIFY, HM_CACHE_PIN, HM_CACHE_UNPIN};
	struct hm_cache_task task;
	struct hm_digest key;

	fixture_key(seed - 1, &key);
	if (fixture_random(random) % 3 == 0)
		(void)hm_cache_run(cache, kinds[fixture_random(random) % 4],
		    &key, &task);
}

static int
run_writer(char **argv)
{
	uint64_t seed = strtoull(argv[4], NULL, 10);
	int fd = (int)strtoul(argv[5], NULL, 10);
	const struct hm_cache_options options = {.directory = argv[2],
	    .cap_bytes = strtoull(argv[3], NULL, 10),
	    .hot_bytes = MIB};
	struct hm_cache *cache = NULL;
	struct hm_errbuf errbuf = {""};
	uint64_t random = seed;

	if (hm_cache_open(&options, &cache, &errbuf) != HM_OK) {
		(void)fprintf(stderr, "writer: %s\n", errbuf.text);
		return 1;
	}
	for (;;) {
		uint64_t n = 1 + fixture_random(&random) % 12;

		for (; n > 0; n--, seed++) {
			fixture_put(cache, seed, size_of(seed));
			/* Uses are written too. */
			if (seed > 5)
				(void)fixture_get(cache, seed - 5,
				    size_of(seed - 5));
		}
		hm_cache_flush(cache);
		care(cache, seed, &random);
		if (write(fd, &seed, sizeof(seed)) != (ssize_t)sizeof(seed))
			return 1;
	}
}

/* ---- the one that kills ---- */

/* Wait for the first sign of life, in every other round. */
static void
wait_for_ack(int fd, uint64_t round)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	if (round % 2 == 0)
		assert_int_equal(poll(&poll_fd, 1, 20000), 1);
}

/* Let a writer run for a random time and kill it; returns the first entry that
 * it did not acknowledge. */
static uint64_t
kill_one(const char *folder, uint64_t cap_bytes, uint64_t seed, uint64_t round)
{
	char cap_text[32], seed_text[32], fd_text[16], name[] = "it_cache_kill";
	char mode[] = "writer";
	char *folder_text = strdup(folder);
	char *argv[] = {name, mode, folder_text, cap_text, seed_text, fd_text,
	    NULL};
	uint64_t random = seed * 1000 + round, acked = seed, n;
	struct timespec pause = {.tv_sec = 0};
	int status, pipe_fds[2];
	pid_t pid;

	assert_int_equal(pipe2(pipe_fds, 0), 0);
	assert_int_equal(fcntl(pipe_fds[0], F_SETFD, FD_CLOEXEC), 0);
	(void)snprintf(cap_text, sizeof(cap_text), "%llu",
	    (unsigned long long)cap_bytes);
	(void)snprintf(seed_text, sizeof(seed_text), "%llu",
	    (unsigned long long)seed);
	(void)snprintf(fd_text, sizeof(fd_text), "%d", pipe_fds[1]);
	assert_int_equal(
	    posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
	(void)close(pipe_fds[1]);

	wait_for_ack(pipe_fds[0], round);
	pause.tv_nsec = (long)(fixture_random(&random) % 30000000);
	(void)ppoll(NULL, 0, &pause, NULL);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status)); /* it did not end by itself */
	while (read(pipe_fds[0], &n, sizeof(n)) == (ssize_t)sizeof(n))
		acked = n;
	(void)close(pipe_fds[0]);
	free(folder_text);
	return acked;
}

static void
it_cache_kill__acknowledged_entries_survive(void **state)
{
	char *folder = fixture_folder();
	uint64_t acked = 0, from;
	struct hm_cache *cache;
	struct hm_cache_stats stats;

	(void)state;
	for (uint64_t round = 0; round < ROUNDS; round++) {
		from = acked > 400 ? acked - 400 : 0;
		acked = kill_one(folder, LARGE, acked, round);
		cache = fixture_open(folder, LARGE, 0);
		hm_cache_get_stats(cache, &stats);
		assert_string_equal(stats.notice, "");
		assert_true(stats.store_entries >= acked);
		for (uint64_t i = from; i < acked; i++)
			assert_int_equal(fixture_get(cache, i, size_of(i)),
			    HM_CACHE_STORE);
		/* Those in flight: right or not there. */
		for (uint64_t i = acked; i < acked + 20; i++)
			(void)fixture_get(cache, i, size_of(i));
		hm_cache_close(cache);
	}
	assert_true(acked > ROUNDS);

	cache = fixture_open(folder, LARGE, 0);
	for (uint64_t i = 0; i < acked; i++)
		assert_int_equal(fixture_get(cache, i, size_of(i)),
		    HM_CACHE_STORE);
	hm_cache_get_stats(cache, &stats);
	assert_int_equal(stats.corrupt, 0);
	hm_cache_close(cache);
	fixture_remove(folder);
}

static void
it_cache_kill__while_evicting_entries_are_right_or_gone(void **state)
{
	char *folder = fixture_folder();
	uint64_t acked = 0;
	struct hm_cache *cache;
	struct hm_cache_stats stats;

	(void)state;
	for (uint64_t round = 0; round < ROUNDS; round++) {
		acked = kill_one(folder, SMALL, acked, round);
		cache = fixture_open(folder, SMALL, 0);
		hm_cache_get_stats(cache, &stats);
		assert_string_equal(stats.notice, "");
		assert_true(stats.store_bytes <= SMALL);
		for (uint64_t i = 0; i < acked + 20; i++) {
			enum hm_cache_tier tier =
			    fixture_get(cache, i, size_of(i));

			/* The latest are not what eviction takes. */
			if (i + 12 >= acked && i < acked)
				assert_int_equal(tier, HM_CACHE_STORE);
		}
		hm_cache_get_stats(cache, &stats);
		assert_int_equal(stats.corrupt, 0);
		hm_cache_close(cache);
	}
	assert_true(acked > ROUNDS);
	fixture_remove(folder);
}

static void
it_cache_kill__while_creating_leaves_a_usable_folder(void **state)
{
	(void)state;
	for (uint64_t round = 0; round < ROUNDS; round++) {
		char *folder = fixture_folder();
		uint64_t acked = kill_one(folder, SMALL, 0, 2 * round + 1);
		struct hm_cache *cache = fixture_open(folder, SMALL, 0);

		for (uint64_t i = 0; i < acked && i < 12; i++)
			(void)fixture_get(cache, i, size_of(i));
		fixture_put(cache, 1000000, 5000);
		hm_cache_flush(cache);
		assert_int_equal(fixture_get(cache, 1000000, 5000),
		    HM_CACHE_STORE);
		hm_cache_close(cache);
		fixture_remove(folder);
	}
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_cache_kill__acknowledged_entries_survive),
	    cmocka_unit_test(
		it_cache_kill__while_evicting_entries_are_right_or_gone),
	    cmocka_unit_test(
		it_cache_kill__while_creating_leaves_a_usable_folder),
	};

	if (argc == 6 && strcmp(argv[1], "writer") == 0)
		return run_writer(argv);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cache_kill", tests, NULL, NULL);
}
