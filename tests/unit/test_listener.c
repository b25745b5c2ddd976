/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_listener.c - one socket, one owner, and what a dead one leaves.
 */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/listener.h"

static char folder[64];
static char path[96];

static int
setup(void **state)
{
	(void)state;
	(void)snprintf(folder, sizeof(folder), "/tmp/hm-listener-XXXXXX");
	if (mkdtemp(folder) == NULL)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/socket", folder);
	return 0;
}

static int
teardown(void **state)
{
	char lock[128];

	(void)state;
	(void)snprintf(lock, sizeof(lock), "%s.lock", path);
	(void)unlink(path);
	(void)unlink(lock);
	return rmdir(folder);
}

static int
open_listener(struct hm_listener *listener, mode_t mode, struct hm_errbuf *why)
{
	int error;

	hm_listener_init(listener);
	error = hm_listener_lock(listener, path, why);
	if (error == HM_OK)
		error = hm_listener_open(listener, mode, why);
	return error;
}

static void
test_listener__open__has_its_mode_and_is_listening(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct hm_listener listener;
	struct hm_errbuf why = {""};
	struct stat status;
	int fd;

	(void)state;
	assert_int_equal(open_listener(&listener, 0666, &why), HM_OK);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0666);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(
	    connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	(void)close(fd);
	hm_listener_stop(&listener);
	assert_int_not_equal(stat(path, &status), 0);
	hm_listener_close(&listener);
}

static void
test_listener__taken__second_is_busy_and_first_lives(void **state)
{
	struct hm_listener first;
	struct hm_listener second;
	struct hm_errbuf why = {""};
	char pid[32];

	(void)state;
	assert_int_equal(open_listener(&first, 0600, &why), HM_OK);
	assert_int_equal(open_listener(&second, 0600, &why), HM_E_BUSY);
	(void)snprintf(pid, sizeof(pid), "pid %ld", (long)getpid());
	assert_non_null(strstr(why.text, pid));
	assert_non_null(strstr(why.text, path));
	hm_listener_close(&second);
	assert_int_equal(access(path, F_OK), 0);
	/* Stopped is not gone: the store is still being put away. */
	hm_listener_stop(&first);
	assert_int_equal(open_listener(&second, 0600, &why), HM_E_BUSY);
	hm_listener_close(&second);
	hm_listener_close(&first);
	assert_int_equal(open_listener(&second, 0600, &why), HM_OK);
	hm_listener_close(&second);
}

static void
test_listener__no_socket_of_that_name__is_left_alone(void **state)
{
	struct hm_listener listener;
	struct hm_errbuf why = {""};
	FILE *file = fopen(path, "we");
	char lock[128];

	(void)state;
	assert_non_null(file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(open_listener(&listener, 0600, &why), HM_E_INVALID);
	hm_listener_close(&listener);
	assert_int_equal(access(path, F_OK), 0);
	/* Nor is a lock left beside it. */
	(void)snprintf(lock, sizeof(lock), "%s.lock", path);
	assert_int_not_equal(access(lock, F_OK), 0);
}

/* A start that is refused after the lock leaves none; one that was there
 * before stays. */
static void
test_listener__refused_start__leaves_no_lock(void **state)
{
	struct hm_listener listener;
	struct hm_errbuf why = {""};
	char lock[128];

	(void)state;
	(void)snprintf(lock, sizeof(lock), "%s.lock", path);
	hm_listener_init(&listener);
	assert_int_equal(hm_listener_lock(&listener, path, &why), HM_OK);
	assert_int_equal(access(lock, F_OK), 0);
	hm_listener_close(&listener);
	assert_int_not_equal(access(lock, F_OK), 0);
	assert_int_equal(open_listener(&listener, 0600, &why), HM_OK);
	hm_listener_close(&listener);
	assert_int_equal(access(lock, F_OK), 0);
	hm_listener_init(&listener);
	assert_int_equal(hm_listener_lock(&listener, path, &why), HM_OK);
	hm_listener_close(&listener);
	assert_int_equal(access(lock, F_OK), 0);
}

/* A service manager listens without our lock; only what nobody answers at is
 * a leftover. */
static void
test_listener__somebody_listens__is_no_leftover(void **state)
{
	static const int types[] = {SOCK_SEQPACKET, SOCK_STREAM};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct hm_listener listener;
	struct hm_errbuf why = {""};
	int fd;

	(void)state;
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	for (size_t i = 0; i < 2; i++) {
		fd = socket(AF_UNIX, types[i] | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(fd, (const struct sockaddr *)&address,
				     sizeof(address)),
		    0);
		assert_int_equal(listen(fd, 1), 0);
		assert_int_equal(open_listener(&listener, 0600, &why),
		    HM_E_BUSY);
		assert_non_null(strstr(why.text, path));
		hm_listener_close(&listener);
		assert_int_equal(access(path, F_OK), 0);
		(void)close(fd);
		assert_int_equal(open_listener(&listener, 0600, &why), HM_OK);
		hm_listener_close(&listener);
	}
}

static void
test_listener__folder_not_there__is_named(void **state)
{
	struct hm_listener listener;
	struct hm_errbuf why = {""};

	(void)state;
	hm_listener_init(&listener);
	assert_int_equal(hm_listener_lock(&listener, "/nowhere/s", &why),
	    HM_E_SYSTEM);
	assert_non_null(strstr(why.text, "/nowhere/s"));
	hm_listener_close(&listener);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_listener__open__has_its_mode_and_is_listening),
	    TEST(test_listener__taken__second_is_busy_and_first_lives),
	    TEST(test_listener__no_socket_of_that_name__is_left_alone),
	    TEST(test_listener__refused_start__leaves_no_lock),
	    TEST(test_listener__somebody_listens__is_no_leftover),
	    TEST(test_listener__folder_not_there__is_named),
	};

	return cmocka_run_group_tests_name("listener", tests, NULL, NULL);
}
