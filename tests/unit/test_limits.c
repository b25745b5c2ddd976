/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_limits.c - who may what, and how many connections.
 */
#include <sys/socket.h>

#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/limits.h"

#define STRANGER 54321
#define ALL      (HM_RIGHT_READ | HM_RIGHT_COMPILE)

static struct hm_limits *
open_limits(const char *group, uint64_t uid_connections)
{
	struct hm_settings settings;
	struct hm_limits *limits = NULL;

	hm_config_init(&settings);
	(void)snprintf(settings.group, sizeof(settings.group), "%s", group);
	settings.uid_connections = uid_connections;
	assert_int_equal(hm_limits_open(&settings, &limits), HM_OK);
	return limits;
}

static void
test_limits__rights__come_from_uid_and_group(void **state)
{
	const struct group *group = getgrgid(0);
	struct hm_limits *limits;
	const gid_t others[] = {7, 54321};
	const gid_t member[] = {7, 0};

	(void)state;
	assert_non_null(group);
	limits = open_limits(group->gr_name, 1);
	assert_int_equal(hm_limits_rights(limits, 0, NULL, 0), ALL);
	assert_int_equal(hm_limits_rights(limits, geteuid(), NULL, 0), ALL);
	assert_int_equal(hm_limits_rights(limits, STRANGER, others, 2),
	    HM_RIGHT_READ);
	assert_int_equal(hm_limits_rights(limits, STRANGER, member, 2), ALL);
	hm_limits_close(limits);
}

static void
test_limits__group_is_not_there__helps_nobody(void **state)
{
	struct hm_limits *limits = open_limits("no-such-group", 1);
	const gid_t groups[] = {0, 65534, 1};

	(void)state;
	assert_int_equal(hm_limits_rights(limits, STRANGER, groups, 3),
	    HM_RIGHT_READ);
	hm_limits_close(limits);
}

static void
test_limits__identify__tells_our_own_process(void **state)
{
	struct hm_limits *limits = open_limits("", 1);
	struct hm_peer peer = {.pid = 0};
	int ends[2];

	(void)state;
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(hm_limits_identify(limits, ends[0], &peer), HM_OK);
	assert_int_equal(peer.pid, getpid());
	assert_int_equal(peer.uid, geteuid());
	assert_int_equal(peer.rights, ALL);
	(void)close(ends[0]);
	(void)close(ends[1]);
	assert_int_equal(hm_limits_identify(limits, STDIN_FILENO, &peer),
	    HM_E_SYSTEM);
	hm_limits_close(limits);
}

static void
test_limits__connections__are_counted_for_each_uid(void **state)
{
	struct hm_limits *limits = open_limits("", 2);

	(void)state;
	for (uid_t uid = 100; uid < 150; uid++) {
		assert_int_equal(hm_limits_admit(limits, uid), HM_OK);
		assert_int_equal(hm_limits_admit(limits, uid), HM_OK);
		assert_int_equal(hm_limits_admit(limits, uid), HM_E_BUSY);
	}
	hm_limits_release(limits, 120);
	assert_int_equal(hm_limits_admit(limits, 120), HM_OK);
	assert_int_equal(hm_limits_admit(limits, 120), HM_E_BUSY);
	for (uid_t uid = 100; uid < 150; uid++) {
		hm_limits_release(limits, uid);
		hm_limits_release(limits, uid);
	}
	assert_int_equal(hm_limits_admit(limits, 149), HM_OK);
	hm_limits_close(limits);
}

static void
test_limits__descriptors__are_scarce_only_in_the_reserve(void **state)
{
	struct hm_limits *limits = open_limits("", 1);

	(void)state;
	assert_false(hm_limits_is_scarce(limits, 10));
	assert_true(hm_limits_is_scarce(limits, 1 << 20));
	hm_limits_close(limits);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_limits__rights__come_from_uid_and_group),
	    cmocka_unit_test(test_limits__group_is_not_there__helps_nobody),
	    cmocka_unit_test(test_limits__identify__tells_our_own_process),
	    cmocka_unit_test(
		test_limits__connections__are_counted_for_each_uid),
	    cmocka_unit_test(
		test_limits__descriptors__are_scarce_only_in_the_reserve),
	};

	return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
