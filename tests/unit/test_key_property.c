/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_key_property.c - every accepted option changes the key, and nothing else
 * does: random lists of options, sources and requests, where two keys must be
 * equal exactly when all that the compiler is given is equal.
 *
 * HM_TEST_ROUNDS sets how many random cases each property gets (1000).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jit/emit.h"
#include "jit/job.h"
#include "jit/key.h"
#include "jit/plan.h"
#include "jit/spec.h"

#define MAX_LIST 6u
#define N_WORDS  (sizeof(struct hm_config) / sizeof(uint32_t))

/* Everything that hm_options_check lets through, in all its spellings. Those in
 * one row of values mean different things. */
static const char *const accepted[] = {"-DX", "-DX=1", "-DX=2", "-DY=1",
    "-DX=", "-D_=\"a b\"", "--define-macro=Z=1", "--std=c++11", "--std=c++14",
    "--std=c++17", "--std=c++20", "-std=c++17", "--use_fast_math",
    "-use_fast_math", "--maxrregcount=32", "--maxrregcount=255",
    "-maxrregcount=032", "--ftz=true", "--ftz=false", "-ftz=true",
    "--prec-div=true", "--prec-div=false", "--prec-sqrt=true",
    "--prec-sqrt=false", "--fmad=true", "--fmad=false"};
#define N_ACCEPTED (sizeof accepted / sizeof accepted[0])

/* What a client asks for, before and after the daemon has looked at it. */
struct ask {
	char text[8];
	uint32_t n;
	char options[MAX_LIST][HM_MAX_OPTION_CHARS];
	char normal[MAX_LIST][HM_MAX_OPTION_CHARS];
	struct hm_target target;
	const char *compiler;
};

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t
next_random(uint32_t n)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (uint32_t)((state * 0x2545f4914f6cdd1du >> 32) % n);
}

static unsigned long
n_rounds(void)
{
	const char *text = getenv("HM_TEST_ROUNDS");

	return text != NULL ? strtoul(text, NULL, 10) : 1000;
}

static struct hm_digest
ask_key(struct ask *ask)
{
	const char *list[MAX_LIST];
	struct hm_key_source source = {.source = ask->text,
	    .n_source = strlen(ask->text),
	    .target = ask->target,
	    .compiler = ask->compiler,
	    .n_options = ask->n,
	    .options = list};
	struct hm_errbuf why = {""};
	struct hm_record record;
	struct hm_digest key;

	if (hm_options_check(ask->n, ask->options, ask->normal, &why) != HM_OK)
		fail_msg("%s", why.text);
	for (uint32_t i = 0; i < ask->n; i++)
		list[i] = ask->normal[i];
	hm_record_init(&record);
	assert_int_equal(hm_key_client(&source, &record, &key), HM_OK);
	hm_record_done(&record);
	return key;
}

static void
ask_set(struct ask *ask, uint32_t i, const char *option)
{
	(void)snprintf(ask->options[i], sizeof ask->options[i], "%s", option);
}

static void
ask_draw(struct ask *ask)
{
	static const char *const compilers[] = {"nvrtc 13.0 a b",
	    "nvrtc 13.0 a c"};
	static const struct hm_target targets[] = {{.cc = 80},
	    {.cc = 90, .suffix = 'a'}, {.cc = 90}};

	memset(ask, 0, sizeof *ask);
	(void)snprintf(ask->text, sizeof ask->text, "%u", next_random(3));
	ask->n = next_random(MAX_LIST + 1);
	for (uint32_t i = 0; i < ask->n; i++)
		ask_set(ask, i, accepted[next_random(N_ACCEPTED)]);
	ask->target = targets[next_random(3)];
	ask->compiler = compilers[next_random(2)];
}

static bool
ask_is_same(const struct ask *a, const struct ask *b)
{
	if (strcmp(a->text, b->text) != 0 || a->n != b->n ||
	    a->target.cc != b->target.cc ||
	    a->target.suffix != b->target.suffix ||
	    strcmp(a->compiler, b->compiler) != 0)
		return false;
	for (uint32_t i = 0; i < a->n; i++) {
		if (strcmp(a->normal[i], b->normal[i]) != 0)
			return false;
	}
	return true;
}

/* With it, without it, and at every place of a list: always another key. */
static void
test_key_property__every_accepted_option_changes_the_key(void **unused)
{
	struct ask with, without;
	struct hm_digest key, other;

	(void)unused;
	for (size_t o = 0; o < N_ACCEPTED; o++) {
		for (int round = 0; round < 50; round++) {
			ask_draw(&without);
			without.n %= MAX_LIST;
			with = without;
			ask_set(&with, with.n++, accepted[o]);
			key = ask_key(&with);
			other = ask_key(&without);
			if (hm_digest_equal(&key, &other))
				fail_msg("%s is not in the key", accepted[o]);
		}
	}
}

static void
test_key_property__keys_are_equal_when_all_that_counts_is(void **unused)
{
	static struct ask a, b;
	struct hm_digest key_a, key_b;
	unsigned long n_same = 0;

	(void)unused;
	for (unsigned long i = 0; i < n_rounds(); i++) {
		ask_draw(&a);
		/* Often the same but for one thing, or in another spelling. */
		b = a;
		switch (next_random(4)) {
		case 0:
			ask_draw(&b);
			break;
		case 1:
			if (b.n > 0)
				ask_set(&b, next_random(b.n),
				    accepted[next_random(N_ACCEPTED)]);
			break;
		case 2:
			b.text[0] = (char)('0' + next_random(3));
			break;
		default:
			break;
		}
		key_a = ask_key(&a);
		key_b = ask_key(&b);
		n_same += ask_is_same(&a, &b);
		assert_int_equal(hm_digest_equal(&key_a, &key_b),
		    ask_is_same(&a, &b));
	}
	assert_true(n_same > 0);
}

/* --- our own kernels ----------------------------------------------------- */

static const char *const specs[] = {"w4a16", "w4a16,a=f16", "w8a16",
    "w4a16,group=64", "w4a16,zp=int", "w4a16,scale=channel", "w4a8", "w8a8",
    "mxfp4a16", "fp8block", "w4a16,det=1", "pack,w4a16", "w4a8i", "w8a8i"};
static const char *const targets[] = {"sm_90a", "sm_80", "sm_86", "sm_120a"};

/* One kernel of a random request; false when this build has none. */
static bool
draw_config(struct hm_request *request, struct hm_config *config_out)
{
	struct hm_plan plan;

	assert_int_equal(
	    hm_spec_parse(specs[next_random(sizeof specs / sizeof specs[0])],
		request, NULL),
	    HM_OK);
	assert_int_equal(
	    hm_target_parse(targets[next_random(4)], &request->target, NULL),
	    HM_OK);
	request->n = 8 * (1 + next_random(2048));
	request->k = 128 * (1 + next_random(128));
	request->sms = next_random(3) == 0 ? 0 : 1 + next_random(160);
	request->bias = next_random(2);
	if (hm_plan_compute(request, &plan, NULL) != HM_OK)
		return false;
	*config_out = plan.rows[next_random(plan.n_rows)].config;
	return true;
}

static struct hm_digest
config_key(const struct hm_config *config, const struct hm_target *target)
{
	struct hm_record record;
	struct hm_digest key;

	hm_record_init(&record);
	assert_int_equal(hm_key_own(config, target, &record, &key), HM_OK);
	hm_record_done(&record);
	return key;
}

/* What the compiler is given for a configuration, apart from the sources. */
static void
config_text(const struct hm_config *config, char *text, size_t size)
{
	assert_int_equal(hm_emit_config(config, text, size), HM_OK);
}

/* Sizes, SMs and bias of the request play no part: equal keys are equal
 * configurations on equal targets, whatever they were asked for. */
static void
test_key_property__own_keys_are_config_and_target(void **unused)
{
	static char text_a[HM_EMIT_CONFIG_BYTES], text_b[HM_EMIT_CONFIG_BYTES];
	struct hm_config a, b;
	struct hm_request asked_a, asked_b;
	struct hm_digest key_a, key_b;
	unsigned long n_same = 0, n_other = 0;

	(void)unused;
	for (unsigned long i = 0; i < n_rounds(); i++) {
		bool is_same;

		if (!draw_config(&asked_a, &a) || !draw_config(&asked_b, &b))
			continue;
		if (next_random(4) == 0)
			asked_b.target = asked_a.target;
		if (next_random(4) == 0)
			b = a;
		config_text(&a, text_a, sizeof text_a);
		config_text(&b, text_b, sizeof text_b);
		is_same = strcmp(text_a, text_b) == 0 && a.family == b.family &&
			  asked_a.target.cc == asked_b.target.cc &&
			  asked_a.target.suffix == asked_b.target.suffix;
		key_a = config_key(&a, &asked_a.target);
		key_b = config_key(&b, &asked_b.target);
		assert_int_equal(hm_digest_equal(&key_a, &key_b), is_same);
		n_same += is_same;
		n_other += !is_same;
	}
	assert_true(n_same > 0 && n_other > 0);
}

/* A word of a configuration that changes what is emitted changes the key; one
 * that does not, of another family, leaves it. */
static void
test_key_property__every_emitted_word_counts(void **unused)
{
	static char text[HM_EMIT_CONFIG_BYTES], changed[HM_EMIT_CONFIG_BYTES];
	uint32_t words[N_WORDS];
	struct hm_config config, other;
	struct hm_request asked;
	struct hm_digest key, other_key;
	unsigned long n_changed = 0;

	(void)unused;
	for (unsigned long i = 0; i < n_rounds(); i++) {
		if (!draw_config(&asked, &config))
			continue;
		memcpy(words, &config, sizeof words);
		words[next_random(N_WORDS)] = next_random(9);
		memcpy(&other, words, sizeof other);
		/* Most are no configuration that a kernel has. */
		if (hm_emit_config(&other, changed, sizeof changed) != HM_OK ||
		    other.family != config.family)
			continue;
		config_text(&config, text, sizeof text);
		key = config_key(&config, &asked.target);
		other_key = config_key(&other, &asked.target);
		assert_int_equal(hm_digest_equal(&key, &other_key),
		    strcmp(text, changed) == 0);
		n_changed += strcmp(text, changed) != 0;
	}
	assert_true(n_changed > 0);
}

/* One byte of any source that an entry includes, however deeply. */
static void
test_key_property__every_included_source_counts(void **unused)
{
	struct hm_source table[HM_SOURCE_MAX_CLOSURE];
	const struct hm_source *closure[HM_SOURCE_MAX_CLOSURE];
	struct hm_request asked;
	struct hm_config config;
	struct hm_digest key, other;

	(void)unused;
	for (int round = 0; round < 40; round++) {
		size_t n = hm_source_count(), n_closure = 0;

		if (!draw_config(&asked, &config))
			continue;
		assert_true(n <= HM_SOURCE_MAX_CLOSURE);
		for (size_t i = 0; i < n; i++)
			table[i] = *hm_source_at(i);
		assert_int_equal(hm_source_closure_of(table, n,
				     hm_emit_source(&config), closure,
				     &n_closure),
		    HM_OK);
		key = config_key(&config, &asked.target);
		for (size_t i = 0; i < n; i++) {
			const char *right = table[i].sha256;
			bool is_included = false;
			struct hm_record record;

			for (size_t c = 0; c < n_closure; c++)
				is_included |= closure[c] == &table[i];
			table[i].sha256 = "of one byte more";
			hm_record_init(&record);
			assert_int_equal(hm_key_own_from(table, n, &config,
					     &asked.target, &record, &other),
			    HM_OK);
			hm_record_done(&record);
			table[i].sha256 = right;
			assert_int_equal(hm_digest_equal(&key, &other),
			    !is_included);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		test_key_property__every_accepted_option_changes_the_key),
	    cmocka_unit_test(
		test_key_property__keys_are_equal_when_all_that_counts_is),
	    cmocka_unit_test(test_key_property__own_keys_are_config_and_target),
	    cmocka_unit_test(test_key_property__every_emitted_word_counts),
	    cmocka_unit_test(test_key_property__every_included_source_counts),
	};

	return cmocka_run_group_tests_name("key_property", tests, NULL, NULL);
}
