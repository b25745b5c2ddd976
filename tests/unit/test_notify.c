/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_notify.c - the two ways to say ready, and who asks for neither.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/notify.h"

static int
teardown(void **state)
{
	(void)state;
	(void)unsetenv("HUMMING_READY_FD");
	(void)unsetenv("WATCHDOG_USEC");
	(void)unsetenv("WATCHDOG_PID");
	return unsetenv("NOTIFY_SOCKET");
}

static void
test_notify__nobody_asks__nothing_happens(void **state)
{
	struct hm_errbuf why = {""};

	(void)state;
	assert_int_equal(hm_notify_ready(NULL, &why), HM_OK);
	assert_int_equal(hm_notify_stopping(&why), HM_OK);
}

static void
test_notify__descriptor__gets_a_line_and_is_closed(void **state)
{
	struct hm_errbuf why = {""};
	char text[32] = "";
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	(void)snprintf(text, sizeof(text), "%d", ends[1]);
	assert_int_equal(setenv("HUMMING_READY_FD", text, 1), 0);
	assert_int_equal(hm_notify_ready(NULL, &why), HM_OK);
	memset(text, 0, sizeof(text));
	assert_int_equal(read(ends[0], text, sizeof(text)), 6);
	assert_string_equal(text, "ready\n");
	assert_int_equal(read(ends[0], text, sizeof(text)), 0);
	assert_null(getenv("HUMMING_READY_FD"));
	(void)close(ends[0]);
}

static void
test_notify__service_manager__is_told_both(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct hm_errbuf why = {""};
	char text[32] = "";
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)state;
	(void)snprintf(address.sun_path, sizeof(address.sun_path),
	    "/tmp/hm-notify-%ld", (long)getpid());
	assert_int_equal(
	    bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(setenv("NOTIFY_SOCKET", address.sun_path, 1), 0);
	assert_int_equal(hm_notify_ready(NULL, &why), HM_OK);
	assert_int_equal(hm_notify_stopping(&why), HM_OK);
	assert_int_equal(recv(fd, text, sizeof(text) - 1, 0), 7);
	assert_string_equal(text, "READY=1");
	memset(text, 0, sizeof(text));
	assert_int_equal(recv(fd, text, sizeof(text) - 1, 0), 10);
	assert_string_equal(text, "STOPPING=1");
	(void)close(fd);
	(void)unlink(address.sun_path);
	assert_int_equal(hm_notify_ready(NULL, &why), HM_E_SYSTEM);
	assert_non_null(strstr(why.text, "NOTIFY_SOCKET"));
}

/* The rest of the protocol, and who is watched. */
static void
test_notify__reload_status_and_life__are_said(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct hm_errbuf why = {""};
	char text[128] = "";
	char pid[32];
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)state;
	(void)snprintf(address.sun_path, sizeof(address.sun_path),
	    "/tmp/hm-notify-%ld", (long)getpid());
	assert_int_equal(
	    bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(setenv("WATCHDOG_USEC", "3000000", 1), 0);
	assert_int_equal(hm_notify_watchdog_us(), 0); /* no manager */
	assert_int_equal(setenv("NOTIFY_SOCKET", address.sun_path, 1), 0);
	assert_int_equal(hm_notify_watchdog_us(), 3000000);
	assert_int_equal(setenv("WATCHDOG_PID", "1", 1), 0);
	assert_int_equal(hm_notify_watchdog_us(), 0);
	(void)snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	assert_int_equal(setenv("WATCHDOG_PID", pid, 1), 0);
	assert_int_equal(hm_notify_watchdog_us(), 3000000);
	assert_int_equal(setenv("WATCHDOG_USEC", "soon", 1), 0);
	assert_int_equal(hm_notify_watchdog_us(), 0);

	assert_int_equal(hm_notify_reloading(&why), HM_OK);
	assert_true(recv(fd, text, sizeof(text) - 1, 0) > 0);
	assert_ptr_equal(strstr(text, "RELOADING=1\nMONOTONIC_USEC="), text);
	assert_int_equal(hm_notify_ready("well", &why), HM_OK);
	memset(text, 0, sizeof(text));
	assert_true(recv(fd, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "READY=1\nSTATUS=well");
	assert_int_equal(hm_notify_status("so", &why), HM_OK);
	memset(text, 0, sizeof(text));
	assert_true(recv(fd, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "STATUS=so");
	assert_int_equal(hm_notify_alive(&why), HM_OK);
	memset(text, 0, sizeof(text));
	assert_true(recv(fd, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "WATCHDOG=1");
	(void)close(fd);
	(void)unlink(address.sun_path);
}

static void
test_notify__senseless_variable__is_an_error_or_ignored(void **state)
{
	struct hm_errbuf why = {""};

	(void)state;
	assert_int_equal(setenv("NOTIFY_SOCKET", "relative", 1), 0);
	assert_int_equal(hm_notify_ready(NULL, &why), HM_E_INVALID);
	assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
	assert_int_equal(setenv("HUMMING_READY_FD", "7x", 1), 0);
	assert_int_equal(hm_notify_ready(NULL, &why), HM_OK);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(test_notify__nobody_asks__nothing_happens,
		teardown),
	    cmocka_unit_test_teardown(
		test_notify__descriptor__gets_a_line_and_is_closed, teardown),
	    cmocka_unit_test_teardown(
		test_notify__service_manager__is_told_both, teardown),
	    cmocka_unit_test_teardown(
		test_notify__reload_status_and_life__are_said, teardown),
	    cmocka_unit_test_teardown(
		test_notify__senseless_variable__is_an_error_or_ignored,
		teardown),
	};

	return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
