/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chaos_storm.c - many threads use the library while the daemon and its workers
 * are killed, stopped, restarted and run out of disk: every answer is right, or
 * an honest error within its deadline, and all is well when the storm is over.
 *
 * HM_CHAOS_STORM_MS sets how long it blows (2000). As root the store lies on a
 * small file system of its own, which is filled to the brim and emptied again.
 */
#include <sys/mount.h>
#include <sys/stat.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/include/humming/client.h"
#include "proto/digest.h"
#include "proto/fd.h"
#include "tests/chaos/chaos.h"

#define N_THREADS   12u
#define N_KEYS      4096u /* that the table of images has room for */
#define N_SOURCES   96u
#define MAX_WORKERS 8u
/* What a loaded machine may add to a deadline. */
#define SLACK_MS    5000u
#define LOWEST_CODE 13

/* One user of the library. */
struct user {
	pthread_t thread;
	uint64_t seed;
	uint64_t n_codes[LOWEST_CODE + 1]; /* by -error */
	uint64_t max_late_ms;
	char said[LOWEST_CODE + 1][160]; /* with each code, the last time */
	char fault[512];                 /* what was wrong; "" = nothing */
};

/* The first image seen of each key: all others must be equal. */
struct image {
	char key[65];
	struct hm_checksum checksum;
};

static struct harness harness;
static struct user users[N_THREADS];
static struct image images[N_KEYS];
static size_t n_images;
static pthread_mutex_t images_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_over;
/* A kernel on its way from one thread to another. */
static _Atomic(struct humming_kernel *) shared;
static bool has_disk;

static uint64_t
user_random(struct user *user, uint64_t n)
{
	user->seed ^= user->seed >> 12;
	user->seed ^= user->seed << 25;
	user->seed ^= user->seed >> 27;
	return (user->seed * 0x2545f4914f6cdd1du >> 16) % n;
}

/* --- what a user sees ---------------------------------------------------- */

static void
user_check_image(struct user *user, const struct humming_kernel *kernel)
{
	struct humming_kernel_info info = {.struct_size = sizeof info};
	struct hm_checksum checksum;
	const void *bytes = NULL;
	size_t n_bytes = 0, i = 0;

	if (humming_kernel_get_info(kernel, &info) != HUMMING_OK ||
	    humming_kernel_image(kernel, &bytes, &n_bytes) != HUMMING_OK ||
	    n_bytes < 64 || memcmp(bytes, "\177ELF", 4) != 0) {
		(void)snprintf(user->fault, sizeof user->fault, "no image");
		return;
	}
	hm_checksum_compute(bytes, n_bytes, &checksum);
	(void)pthread_mutex_lock(&images_lock);
	while (i < n_images && strcmp(images[i].key, info.key) != 0)
		i++;
	if (i == n_images && n_images < N_KEYS) {
		(void)snprintf(images[i].key, sizeof images[i].key, "%s",
		    info.key);
		images[i].checksum = checksum;
		n_images++;
	}
	if (i < N_KEYS && !hm_checksum_equal(&images[i].checksum, &checksum))
		(void)snprintf(user->fault, sizeof user->fault,
		    "%s: other bytes than before", info.key);
	(void)pthread_mutex_unlock(&images_lock);
}

/* Look at it, pass it on, and drop what another thread passed. */
static void
user_take(struct user *user, struct humming_kernel *kernel)
{
	if (kernel == NULL)
		return;
	user_check_image(user, kernel);
	kernel = atomic_exchange(&shared, kernel);
	if (kernel != NULL)
		user_check_image(user, kernel);
	humming_kernel_unref(kernel);
}

static int
user_get(struct user *user, struct humming_client *client)
{
	struct humming_kernel_request requests[3];
	struct humming_kernel *kernels[3] = {NULL};
	size_t n = 1 + user_random(user, 3);
	int error;

	for (size_t i = 0; i < n; i++) {
		struct humming_kernel_request *request = &requests[i];

		humming_kernel_request_init(request, sizeof *request);
		request->target_cc = user_random(user, 2) == 0 ? 80 : 86;
		request->a_type = HUMMING_TYPE_BF16;
		request->w_type = HUMMING_TYPE_UINT(4);
		request->scale_kind = HUMMING_SCALE_GROUP;
		request->group = 128;
		request->m = 1;
		request->n = 1024 + 8 * (uint32_t)user_random(user, 512);
		request->k = 8192;
	}
	error = humming_client_get_kernels(client, requests, n, kernels, NULL);
	for (size_t i = 0; i < n; i++)
		user_take(user, kernels[i]);
	return error;
}

static int
user_compile(struct user *user, struct humming_client *client, bool is_broken)
{
	static const char good[] =
	    "__device__ int t[N % 3 == 0 ? 20000 : 8] = {N, 1};\n"
	    "extern \"C\" __global__ void f(int *p) { *p = t[*p]; }\n";
	static const char broken[] = "broken\n";
	char option[32];
	const char *const options[] = {option};
	struct humming_source source = {.struct_size = sizeof source,
	    .target_cc = 80,
	    .n_options = 1,
	    .options = options,
	    .text = is_broken ? broken : good};
	struct humming_kernel *kernel = NULL;
	int error;

	(void)snprintf(option, sizeof option, "-DN=%u",
	    (unsigned)user_random(user, N_SOURCES));
	source.text_bytes = strlen(source.text);
	error = humming_client_compile(client, &source, &kernel);
	user_take(user, kernel);
	return error;
}

static int
user_call(struct user *user, struct humming_client *client, bool *is_broken)
{
	char *json = NULL;
	int error;

	*is_broken = false;
	switch (user_random(user, 8)) {
	case 0:
		return humming_client_ping(client);
	case 1:
		error = humming_client_stats(client, &json);
		humming_free(json);
		return error;
	case 2:
		*is_broken = true;
		return user_compile(user, client, true);
	case 3:
	case 4:
		return user_compile(user, client, false);
	default:
		return user_get(user, client);
	}
}

/* INTERNAL is a worker that was killed twice with the same job; COMPILE is only
 * for what is broken. */
static bool
is_honest(int error, bool is_broken)
{
	switch (error) {
	case HUMMING_OK:
		return !is_broken;
	case HUMMING_E_COMPILE:
		return is_broken;
	case HUMMING_E_UNAVAILABLE:
	case HUMMING_E_TIMEOUT:
	case HUMMING_E_BUSY:
	case HUMMING_E_INTERNAL:
	case HUMMING_E_UNSUPPORTED: /* no compiler: its probe was killed */
		return true;
	default:
		return false;
	}
}

/* Note how a call ended. */
static void
user_note(struct user *user, int error, bool is_honest_code, uint64_t took_ms,
    uint32_t timeout_ms, const char *text)
{
	if (took_ms > timeout_ms && took_ms - timeout_ms > user->max_late_ms)
		user->max_late_ms = took_ms - timeout_ms;
	if (error <= 0 && error >= -LOWEST_CODE) {
		user->n_codes[-error]++;
		(void)snprintf(user->said[-error], sizeof user->said[0], "%s",
		    text);
	}
	if (!is_honest_code)
		(void)snprintf(user->fault, sizeof user->fault,
		    "code %d: %.400s", error, text);
	else if (took_ms > timeout_ms + SLACK_MS)
		(void)snprintf(user->fault, sizeof user->fault,
		    "%llu ms with a deadline of %u",
		    (unsigned long long)took_ms, timeout_ms);
}

/* A few calls over one connection. */
static void
user_session(struct user *user)
{
	static const uint32_t timeouts[] = {20, 300, 2000, 5000};
	struct humming_client_options options;
	struct humming_client *client = NULL;
	uint64_t begun_ms = harness_now_ms();
	bool is_broken = false;
	int error;

	humming_client_options_init(&options, sizeof options);
	options.socket_path = harness.socket;
	options.timeout_ms = timeouts[user_random(user, 4)];
	options.prewarm = user_random(user, 4) == 0;
	error = humming_client_open(&options, &client);
	user_note(user, error, is_honest(error, false),
	    harness_now_ms() - begun_ms, options.timeout_ms,
	    humming_client_last_error(NULL));
	if (error != HUMMING_OK) {
		(void)poll(NULL, 0, 2);
		return;
	}
	for (uint64_t n = user_random(user, 20); n > 0; n--) {
		if (user->fault[0] != '\0' || atomic_load(&is_over))
			break;
		begun_ms = harness_now_ms();
		error = user_call(user, client, &is_broken);
		user_note(user, error, is_honest(error, is_broken),
		    harness_now_ms() - begun_ms, options.timeout_ms,
		    humming_client_last_error(client));
	}
	humming_client_close(client);
}

static void *
user_main(void *argument)
{
	struct user *user = argument;

	while (!atomic_load(&is_over) && user->fault[0] == '\0')
		user_session(user);
	return NULL;
}

/* --- the storm ----------------------------------------------------------- */

static void
stop_for(pid_t pid, uint64_t ms)
{
	(void)kill(pid, SIGSTOP);
	(void)poll(NULL, 0, (int)ms);
	(void)kill(pid, SIGCONT);
}

/* One file that takes all the room there is, or none. */
static void
fill_disk(bool is_full)
{
	static uint8_t fill[65536];
	char path[160];
	int fd;

	if (!has_disk)
		return;
	(void)snprintf(path, sizeof(path), "%s/lock", harness.store);
	/* The store's own lock file: no stranger in its folder. */
	fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
	if (fd == -1)
		return;
	if (!is_full)
		assert_int_equal(ftruncate(fd, 64), 0);
	while (is_full && write(fd, fill, sizeof fill) > 0)
		continue;
	hm_fd_close(&fd);
}

static void
blow_once(void)
{
	pid_t pids[MAX_WORKERS];
	size_t n = harness_workers(&harness, pids, MAX_WORKERS);
	pid_t worker = n > 0 ? pids[chaos_random(n)] : 0;

	switch (chaos_random(9)) {
	case 0:
	case 1:
		if (worker != 0)
			(void)kill(worker, SIGKILL);
		break;
	case 2:
		if (worker != 0)
			stop_for(worker, chaos_random(200));
		break;
	case 3:
		stop_for(harness.pid, chaos_random(300));
		break;
	case 4:
		harness_kill(&harness);
		(void)poll(NULL, 0, (int)chaos_random(50));
		harness_start(&harness);
		break;
	case 5:
		assert_int_equal(harness_stop(&harness), 0);
		harness_start(&harness);
		break;
	case 6:
		fill_disk(true);
		break;
	case 7:
		fill_disk(false);
		break;
	default:
		(void)poll(NULL, 0, (int)chaos_random(100));
		break;
	}
	(void)poll(NULL, 0, (int)chaos_random(60));
}

/* A file system of our own, in a mount namespace of ours: nobody has to clean
 * up. */
static void
mount_disk(void)
{
	assert_int_equal(mkdir(harness.store, 0700), 0);
	has_disk =
	    geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("none", harness.store, "tmpfs", 0, "size=6m,mode=700") == 0;
}

static int
setup(void **state)
{
	(void)state;
	harness_init(&harness);
	mount_disk();
	harness.environment[0] = "HUMMING_STORE_CAP=16M";
	harness.environment[1] = "HUMMING_HOT_BYTES=256K";
	harness.environment[2] = "HUMMING_WORKERS=2";
	harness.environment[3] = "HUMMING_LIMITS_BUILD_MS=3000";
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	if (harness.pid != 0) {
		harness_signal(&harness, SIGCONT);
		assert_int_equal(harness_stop(&harness), 0);
	}
	if (has_disk)
		(void)umount(harness.store);
	harness_done(&harness);
	return 0;
}

static size_t
count_own_fds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(folder);
	while (readdir(folder) != NULL)
		n++;
	(void)closedir(folder);
	return n;
}

static void
print_codes(void)
{
	uint64_t late_ms = 0;

	for (int code = 0; code <= LOWEST_CODE; code++) {
		const char *said = "";
		uint64_t n = 0;

		for (size_t u = 0; u < N_THREADS; u++) {
			n += users[u].n_codes[code];
			if (users[u].n_codes[code] != 0)
				said = users[u].said[code];
		}
		if (n != 0)
			print_message("%llu x %s (%s)\n", (unsigned long long)n,
			    humming_strerror(-code), said);
	}
	for (size_t u = 0; u < N_THREADS; u++) {
		if (users[u].max_late_ms > late_ms)
			late_ms = users[u].max_late_ms;
	}
	print_message("%zu keys; latest return %llu ms behind its deadline; "
		      "full disk: %s\n",
	    n_images, (unsigned long long)late_ms, has_disk ? "yes" : "no");
}

static void
test_chaos__storm__answers_are_right_or_honest(void **state)
{
	uint64_t n_ms = harness_number("HM_CHAOS_STORM_MS", 2000);
	size_t n_fds = count_own_fds();
	uint64_t n_blows = 0, until_ms;
	struct wire wire;

	(void)state;
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	wire_close(&wire);
	for (size_t u = 0; u < N_THREADS; u++) {
		users[u].seed =
		    (u + 1) * 0x9e3779b97f4a7c15u + chaos_random(1000);
		assert_int_equal(pthread_create(&users[u].thread, NULL,
				     user_main, &users[u]),
		    0);
	}
	until_ms = harness_now_ms() + n_ms;
	for (; harness_now_ms() < until_ms; n_blows++)
		blow_once();
	fill_disk(false);
	atomic_store(&is_over, true);
	for (size_t u = 0; u < N_THREADS; u++)
		assert_int_equal(pthread_join(users[u].thread, NULL), 0);
	humming_kernel_unref(atomic_exchange(&shared, NULL));
	print_message("%llu blows\n", (unsigned long long)n_blows);
	print_codes();
	for (size_t u = 0; u < N_THREADS; u++) {
		if (users[u].fault[0] != '\0')
			fail_msg("user %zu: %s", u, users[u].fault);
	}
	assert_int_equal(count_own_fds(), n_fds);
	assert_true(users[0].n_codes[0] > 0);
}

/* Afterwards a fresh daemon on the same store serves all, and says that nothing
 * is wrong with it. */
static void
test_chaos__after_the_storm__all_is_well(void **state)
{
	struct user user = {.seed = 7};
	struct humming_client_options options;
	struct humming_client *client = NULL;
	struct wire wire;
	json_t *status;

	(void)state;
	assert_int_equal(harness_stop(&harness), 0);
	harness_start(&harness);
	wire_open_ready(&wire, &harness);
	humming_client_options_init(&options, sizeof options);
	options.socket_path = harness.socket;
	assert_int_equal(humming_client_open(&options, &client), HUMMING_OK);
	for (int i = 0; i < 12; i++) {
		assert_int_equal(user_get(&user, client), HUMMING_OK);
		assert_int_equal(user_compile(&user, client, false),
		    HUMMING_OK);
		assert_string_equal(user.fault, "");
	}
	humming_kernel_unref(atomic_exchange(&shared, NULL));
	humming_client_close(client);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "corrupt"), 0);
	status = wire_json(&wire, HM_FRAME_STATUS);
	assert_string_equal(
	    json_string_value(json_object_get(status, "degraded")), "");
	json_decref(status);
	wire_close(&wire);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_chaos__storm__answers_are_right_or_honest),
	    cmocka_unit_test(test_chaos__after_the_storm__all_is_well),
	};

	return cmocka_run_group_tests_name("chaos_storm", tests, setup,
	    teardown);
}
