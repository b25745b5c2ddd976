/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_source_memo.c - only the very same request is found again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/source_memo.h"

static struct hm_source_memo *memo;

static int
setup(void **state)
{
	(void)state;
	return hm_source_memo_open(&memo);
}

static int
teardown(void **state)
{
	(void)state;
	hm_source_memo_close(memo);
	return 0;
}

static struct hm_source_view
view_of(const char *body, const char *source)
{
	struct hm_source_view view = {.body = (const uint8_t *)body,
	    .n_body = strlen(body),
	    .source = (const uint8_t *)source,
	    .n_source = strlen(source),
	    .compiler = "nvrtc 13.0",
	    .uid = 7};

	return view;
}

static struct hm_recipe *
recipe_of(const struct hm_source_view *view)
{
	struct hm_compile compile = {.target = {.cc = 80}};
	const struct hm_recipe_source source = {.compile = &compile,
	    .source = view->source,
	    .n_source = view->n_source,
	    .compiler = view->compiler,
	    .uid = view->uid};
	struct hm_recipe *recipe = NULL;

	assert_int_equal(hm_recipe_new_source(&source, &recipe, NULL), HM_OK);
	return recipe;
}

static void
test_source_memo__same_request__is_found(void **state)
{
	struct hm_source_view view = view_of("body", "source");
	struct hm_recipe *recipe = recipe_of(&view);

	(void)state;
	assert_null(hm_source_memo_find(memo, &view));
	hm_source_memo_put(memo, &view, recipe);
	assert_ptr_equal(hm_source_memo_find(memo, &view), recipe);
	hm_recipe_unref(recipe);
	assert_non_null(hm_source_memo_find(memo, &view));
}

static void
test_source_memo__anything_differs__is_not_found(void **state)
{
	struct hm_source_view view = view_of("body", "source");
	struct hm_source_view other;
	struct hm_recipe *recipe = recipe_of(&view);

	(void)state;
	hm_source_memo_put(memo, &view, recipe);
	other = view_of("bodz", "source");
	assert_null(hm_source_memo_find(memo, &other));
	other = view_of("body", "sourcf");
	assert_null(hm_source_memo_find(memo, &other));
	other = view_of("body", "sourc");
	assert_null(hm_source_memo_find(memo, &other));
	other = view;
	other.uid = 8;
	assert_null(hm_source_memo_find(memo, &other));
	other = view;
	other.compiler = "nvrtc 13.1";
	assert_null(hm_source_memo_find(memo, &other));
	assert_ptr_equal(hm_source_memo_find(memo, &view), recipe);
	hm_recipe_unref(recipe);
}

static void
test_source_memo__large_or_uncacheable__is_not_kept(void **state)
{
	struct hm_source_view view = view_of("body", "__DATE__");
	struct hm_recipe *recipe = recipe_of(&view);
	char *text = malloc(20001);

	(void)state;
	hm_source_memo_put(memo, &view, recipe);
	assert_null(hm_source_memo_find(memo, &view));
	hm_recipe_unref(recipe);
	assert_non_null(text);
	memset(text, 'x', 20000);
	text[20000] = '\0';
	view = view_of("body", text);
	recipe = recipe_of(&view);
	hm_source_memo_put(memo, &view, recipe);
	assert_null(hm_source_memo_find(memo, &view));
	hm_recipe_unref(recipe);
	free(text);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_source_memo__same_request__is_found),
	    TEST(test_source_memo__anything_differs__is_not_found),
	    TEST(test_source_memo__large_or_uncacheable__is_not_kept),
	};

	return cmocka_run_group_tests_name("source_memo", tests, NULL, NULL);
}
