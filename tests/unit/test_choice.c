/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_choice.c - what is remembered of requests is what they come to, and is
 * bounded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/choice.h"
#include "jit/spec.h"

static struct hm_choices *choices;

static int
setup(void **state)
{
	(void)state;
	return hm_choices_open(&choices);
}

static int
teardown(void **state)
{
	(void)state;
	hm_choices_close(choices);
	return 0;
}

static struct hm_choice *
get(const char *spec, int expected)
{
	struct hm_request request;
	struct hm_choice *choice = NULL;
	struct hm_errbuf why = {""};

	assert_int_equal(hm_spec_parse(spec, &request, &why), HM_OK);
	assert_int_equal(hm_target_parse("sm_90a", &request.target, &why),
	    HM_OK);
	assert_int_equal(hm_choices_get(choices, &request, &choice, &why),
	    expected);
	if (expected != HM_OK)
		assert_string_not_equal(why.text, "");
	return choice;
}

static void
test_choice__same_request__is_remembered(void **state)
{
	struct hm_choice *first = get("w4a16,m=1,n=8192,k=8192", HM_OK);
	struct hm_choice *again = get("w4a16,m=1,n=8192,k=8192", HM_OK);

	(void)state;
	assert_ptr_equal(first, again);
	assert_string_equal(first->spec, "w=u4,group=128,m=1,n=8192,k=8192");
	assert_true(first->n_ranges > 0);
	hm_choice_unref(first);
	hm_choice_unref(again);
}

static void
test_choice__other_sizes__share_the_recipe(void **state)
{
	struct hm_choice *a = get("w4a16,m=1,n=8192,k=8192", HM_OK);
	struct hm_choice *b = get("w4a16,m=1,n=8192,k=4096", HM_OK);
	struct hm_choice *c = get("w4a16,m=1,group=64", HM_OK);

	(void)state;
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(a->recipe, b->recipe);
	assert_ptr_not_equal(a->recipe, c->recipe);
	assert_false(hm_digest_equal(&a->recipe->key, &c->recipe->key));
	assert_int_equal(c->n_ranges, 0);
	hm_choice_unref(a);
	hm_choice_unref(b);
	hm_choice_unref(c);
}

static void
test_choice__what_cannot_be__is_refused_and_not_kept(void **state)
{
	(void)state;
	assert_null(get("w4a4,m=1", HM_E_UNSUPPORTED));
	assert_null(get("w4a4,m=1", HM_E_UNSUPPORTED));
}

/* More requests than there are places: every one is still answered rightly. */
static void
test_choice__more_than_fit__are_made_again(void **state)
{
	char spec[64];
	struct hm_choice *kept = get("w4a16,m=1,n=8,k=128", HM_OK);

	(void)state;
	for (uint32_t i = 0; i < 6000; i++) {
		struct hm_choice *choice;

		(void)snprintf(spec, sizeof(spec), "w4a16,m=1,n=%u,k=128",
		    8 * (i % 3000 + 1));
		choice = get(spec, HM_OK);
		assert_int_equal(choice->request.n, 8 * (i % 3000 + 1));
		hm_choice_unref(choice);
	}
	assert_int_equal(kept->request.n, 8);
	hm_choice_unref(kept);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_choice__same_request__is_remembered),
	    TEST(test_choice__other_sizes__share_the_recipe),
	    TEST(test_choice__what_cannot_be__is_refused_and_not_kept),
	    TEST(test_choice__more_than_fit__are_made_again),
	};

	return cmocka_run_group_tests_name("choice", tests, NULL, NULL);
}
