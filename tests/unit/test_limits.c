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
#define ALL      (HM_RIGHT_READ | HM_RIGHT_COMPILE | HM_RIGHT_ADMIN)

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

/* Three rights, three groups: each has what it names, and reads. */
static void
test_limits__groups_of_their_own__have_their_rights(void **state)
{
	const struct group *group = getgrgid(0);
	struct hm_settings settings;
	struct hm_limits *limits = NULL;
	const gid_t member[] = {7, 0};
	const gid_t others[] = {7, 54321};

	(void)state;
	assert_non_null(group);
	hm_config_init(&settings);
	settings.group[0] = '\0';
	(void)snprintf(settings.group_admin, sizeof(settings.group_admin), "%s",
	    group->gr_name);
	assert_int_equal(hm_limits_open(&settings, &limits), HM_OK);
	assert_int_equal(hm_limits_rights(limits, STRANGER, member, 2),
	    HM_RIGHT_READ | HM_RIGHT_ADMIN);
	assert_int_equal(hm_limits_rights(limits, STRANGER, others, 2),
	    HM_RIGHT_READ);
	/* A group for reading shuts everybody else out, but for us. */
	(void)snprintf(settings.group_admin, sizeof(settings.group_admin),
	    "no-such-group");
	(void)snprintf(settings.group_read, sizeof(settings.group_read), "%s",
	    group->gr_name);
	hm_limits_update(limits, &settings);
	assert_int_equal(hm_limits_rights(limits, STRANGER, member, 2),
	    HM_RIGHT_READ);
	assert_int_equal(hm_limits_rights(limits, STRANGER, others, 2), 0);
	assert_int_equal(hm_limits_rights(limits, 0, NULL, 0), ALL);
	assert_int_equal(hm_limits_rights(limits, geteuid(), NULL, 0), ALL);
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
		assert_int_equal(
		    hm_limits_take(limits, uid, HM_LIMITS_CONNECTIONS), HM_OK);
		assert_int_equal(
		    hm_limits_take(limits, uid, HM_LIMITS_CONNECTIONS), HM_OK);
		assert_int_equal(
		    hm_limits_take(limits, uid, HM_LIMITS_CONNECTIONS),
		    HM_E_BUSY);
	}
	hm_limits_give(limits, 120, HM_LIMITS_CONNECTIONS);
	assert_int_equal(hm_limits_take(limits, 120, HM_LIMITS_CONNECTIONS),
	    HM_OK);
	assert_int_equal(hm_limits_take(limits, 120, HM_LIMITS_CONNECTIONS),
	    HM_E_BUSY);
	for (uid_t uid = 100; uid < 150; uid++) {
		hm_limits_give(limits, uid, HM_LIMITS_CONNECTIONS);
		hm_limits_give(limits, uid, HM_LIMITS_CONNECTIONS);
	}
	assert_int_equal(hm_limits_take(limits, 149, HM_LIMITS_CONNECTIONS),
	    HM_OK);
	hm_limits_close(limits);
}

/* Each kind has its own limit, and a user is there as long as he has any. */
static void
test_limits__kinds__are_counted_apart(void **state)
{
	struct hm_settings settings;
	struct hm_limits *limits = NULL;

	(void)state;
	hm_config_init(&settings);
	settings.uid_in_flight = 2;
	settings.uid_queue = 1;
	assert_int_equal(hm_limits_open(&settings, &limits), HM_OK);
	assert_int_equal(hm_limits_take(limits, 5, HM_LIMITS_BUILDS), HM_OK);
	assert_int_equal(hm_limits_take(limits, 5, HM_LIMITS_BUILDS),
	    HM_E_BUSY);
	for (int i = 0; i < 2; i++)
		assert_int_equal(hm_limits_take(limits, 5, HM_LIMITS_WAITS),
		    HM_OK);
	assert_int_equal(hm_limits_take(limits, 5, HM_LIMITS_WAITS), HM_E_BUSY);
	assert_int_equal(hm_limits_take(limits, 6, HM_LIMITS_BUILDS), HM_OK);
	assert_int_equal(hm_limits_count(limits, 5, HM_LIMITS_WAITS), 2);
	assert_int_equal(hm_limits_count(limits, 7, HM_LIMITS_WAITS), 0);
	assert_int_equal(hm_limits_count_others(limits, 5, HM_LIMITS_BUILDS),
	    1);
	assert_int_equal(hm_limits_count_others(limits, 7, HM_LIMITS_BUILDS),
	    2);
	for (int i = 0; i < 3; i++) /* once too often is no harm */
		hm_limits_give(limits, 5, HM_LIMITS_WAITS);
	assert_int_equal(hm_limits_count(limits, 5, HM_LIMITS_BUILDS), 1);
	hm_limits_give(limits, 5, HM_LIMITS_BUILDS);
	assert_int_equal(hm_limits_count(limits, 5, HM_LIMITS_BUILDS), 0);
	hm_limits_close(limits);
}

/* A build and its source are taken together, or not at all. */
static void
test_limits__bytes__leave_half_to_the_others(void **state)
{
	const uint64_t mib = 1u << 20;
	struct hm_settings settings;
	struct hm_limits *limits = NULL;
	const char *why = NULL;
	uint32_t n = 0;

	(void)state;
	hm_config_init(&settings);
	assert_int_equal(hm_limits_open(&settings, &limits), HM_OK);
	while (hm_limits_take_build(limits, 5, mib, &why) == HM_OK)
		n++;
	assert_int_equal(n, HM_LIMITS_USER_KIB / 1024);
	assert_int_equal(hm_limits_take_build(limits, 5, mib, &why), HM_E_BUSY);
	assert_non_null(strstr(why, "bytes"));
	assert_int_equal(hm_limits_count(limits, 5, HM_LIMITS_BUILDS), n);
	assert_int_equal(hm_limits_take_build(limits, 6, mib, &why), HM_OK);
	/* One without a source takes none of it. */
	assert_int_equal(hm_limits_take_build(limits, 5, 0, &why), HM_OK);
	hm_limits_give_build(limits, 5, 0);
	for (; n > 0; n--)
		hm_limits_give_build(limits, 5, mib);
	assert_int_equal(hm_limits_count(limits, 5, HM_LIMITS_SOURCE_KIB), 0);
	assert_int_equal(
	    hm_limits_take_bytes(limits, 5, HM_LIMITS_UNREAD_KIB, 1), HM_OK);
	assert_int_equal(hm_limits_count(limits, 5, HM_LIMITS_UNREAD_KIB), 1);
	assert_int_equal(
	    hm_limits_take_bytes(limits, 5, HM_LIMITS_UNREAD_KIB, 32 * mib),
	    HM_E_BUSY);
	hm_limits_give_bytes(limits, 5, HM_LIMITS_UNREAD_KIB, 1);
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
	    cmocka_unit_test(
		test_limits__groups_of_their_own__have_their_rights),
	    cmocka_unit_test(test_limits__identify__tells_our_own_process),
	    cmocka_unit_test(test_limits__kinds__are_counted_apart),
	    cmocka_unit_test(test_limits__bytes__leave_half_to_the_others),
	    cmocka_unit_test(
		test_limits__connections__are_counted_for_each_uid),
	    cmocka_unit_test(
		test_limits__descriptors__are_scarce_only_in_the_reserve),
	};

	return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
