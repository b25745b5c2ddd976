/* SPDX-License-Identifier: Apache-2.0 */
/*
 * it_serve.c - a kernel is built once, is hot, survives a restart; every way an
 * image can travel; what the daemon says about itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jit/config.h"
#include "jit/key.h"
#include "tests/integration/wire.h"

#define SPEC "w4a16,m=1,n=8192,k=8192"

static int
setup(void **state)
{
	static struct harness harness;

	harness_init(&harness);
	harness_start(&harness);
	*state = &harness;
	return 0;
}

static int
teardown(void **state)
{
	harness_done(*state);
	return 0;
}

static void
expect_tier(struct wire *wire, const char *arch, uint32_t tier,
    struct wire_kernel *kernel)
{
	wire_get(wire, SPEC, arch, kernel);
	assert_int_equal(kernel->reply.tier, tier);
	assert_int_equal(kernel->reply.status,
	    tier == HM_TIER_BUILT ? HM_REPLY_BUILT : HM_REPLY_HIT);
	assert_string_equal(kernel->reply.meta.arch, arch);
	assert_string_equal(kernel->reply.meta.spec,
	    "w=u4,group=128,m=1,n=8192,k=8192");
	assert_true(kernel->reply.meta.registers > 0);
	assert_true(kernel->reply.meta.compile_us > 0);
	assert_int_equal(kernel->reply.meta.n_config_words,
	    sizeof(struct hm_config) / 4);
	assert_int_equal(kernel->reply.kernel_abi, HM_KERNEL_ABI);
	assert_int_equal(kernel->reply.pack_layout, HM_PACK_LAYOUT);
}

static void
test_serve__each_target__is_built_then_hot_then_stored(void **state)
{
	static const char *const archs[] = {"sm_90a", "sm_80", "sm_89",
	    "sm_100", "sm_120"};
	const size_t n_archs = sizeof(archs) / sizeof(archs[0]);
	struct harness *harness = *state;
	struct wire_kernel built[5];
	struct wire_kernel again;
	struct wire wire;

	wire_open_ready(&wire, harness);
	for (size_t i = 0; i < n_archs; i++) {
		expect_tier(&wire, archs[i], HM_TIER_BUILT, &built[i]);
		expect_tier(&wire, archs[i], HM_TIER_HOT, &again);
		assert_int_equal(again.n_image, built[i].n_image);
		assert_memory_equal(again.image, built[i].image, again.n_image);
		wire_kernel_done(&again);
	}
	wire_close(&wire);
	assert_int_equal(harness_stop(harness), 0);
	harness_start(harness);
	wire_open(&wire, harness);
	for (size_t i = 0; i < n_archs; i++) {
		expect_tier(&wire, archs[i], HM_TIER_STORE, &again);
		assert_int_equal(again.n_image, built[i].n_image);
		assert_memory_equal(again.image, built[i].image, again.n_image);
		wire_kernel_done(&again);
		wire_kernel_done(&built[i]);
	}
	expect_tier(&wire, archs[0], HM_TIER_HOT, &again);
	wire_kernel_done(&again);
	wire_close(&wire);
}

/* The table over M: gapless from 1, holds this kernel's key at this M. */
static void
test_serve__n_and_k_given__ranges_cover_every_m(void **state)
{
	struct wire_kernel kernel;
	const struct hm_range *range;
	struct wire wire;
	uint32_t next_m = 1;
	bool found = false;

	wire_open_ready(&wire, *state);
	wire_get(&wire, "w4a16,m=64,n=4096,k=4096", "sm_90a", &kernel);
	assert_true(kernel.reply.n_ranges > 0);
	for (uint32_t i = 0; i < kernel.reply.n_ranges; i++) {
		range = &kernel.reply.ranges[i];
		assert_int_equal(range->m_lo, next_m);
		assert_true(range->m_hi >= range->m_lo);
		assert_true(range->grid > 0 && range->smem_bytes > 0);
		if (range->m_lo <= 64 && 64 <= range->m_hi) {
			found = true;
			assert_true(
			    hm_digest_equal(&range->key, &kernel.reply.key));
		}
		next_m = range->m_hi + 1;
	}
	assert_true(found);
	assert_int_equal(next_m, 0); /* after UINT32_MAX */
	wire_kernel_done(&kernel);
	/* Whichever it is: without N and K there is no table. */
	wire_get(&wire, "w4a16,m=64", "sm_90a", &kernel);
	assert_int_equal(kernel.reply.error, HM_OK);
	assert_int_equal(kernel.reply.n_ranges, 0);
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

static void
test_serve__a_batch__gets_one_reply_for_each_request(void **state)
{
	static const char specs[] =
	    "w4a16,m=1,n=4096,k=4096 w4a16,m=1,n=2048,k=2048 "
	    "w4a16,m=4096,n=4096,k=4096 w4a16,group=64,m=1 "
	    "w4a16,m=1,n=4096,k=4096 w4a4,m=1";
	struct wire_kernel kernel;
	bool seen[6] = {false};
	struct wire wire;

	wire_open_ready(&wire, *state);
	(void)wire_send_get(&wire, specs, "sm_90a", HM_LANE_INTERACTIVE, 0);
	for (size_t i = 0; i < 6; i++) {
		assert_true(wire_recv_kernel(&wire, &kernel));
		assert_true(kernel.reply.index < 6);
		assert_false(seen[kernel.reply.index]);
		seen[kernel.reply.index] = true;
		if (kernel.reply.index == 5)
			assert_int_equal(kernel.reply.status,
			    HM_REPLY_UNSUPPORTED);
		else
			assert_true(kernel.reply.status == HM_REPLY_BUILT ||
				    kernel.reply.status == HM_REPLY_HIT);
		wire_kernel_done(&kernel);
	}
	wire_close(&wire);
}

static const char big_source[] =
    "__device__ int table[50000] = {1, 2, 3};\n"
    "extern \"C\" __global__ void big(int *p) { *p = table[*p]; }\n";

static void
test_serve__big_image__comes_by_descriptor_or_in_parts(void **state)
{
	const struct wire_source source = {.text = big_source, .arch = "sm_80"};
	struct wire_kernel by_fd;
	struct wire_kernel in_parts;
	struct wire wire;

	wire_open_ready(&wire, *state);
	wire_compile(&wire, &source, &by_fd);
	assert_int_equal(by_fd.reply.tier, HM_TIER_BUILT);
	assert_true(by_fd.n_image > 200000);
	assert_true(by_fd.came_by_fd);
	wire_close(&wire);
	wire_open_as(&wire, *state, 0);
	wire_compile(&wire, &source, &in_parts);
	assert_int_equal(in_parts.reply.tier, HM_TIER_HOT);
	assert_false(in_parts.came_by_fd);
	assert_int_equal(in_parts.n_image, by_fd.n_image);
	assert_memory_equal(in_parts.image, by_fd.image, by_fd.n_image);
	wire_kernel_done(&by_fd);
	wire_kernel_done(&in_parts);
	wire_close(&wire);
}

/* A client that has not read its descriptor gets the next image inline. */
static void
test_serve__descriptor_outstanding__next_image_comes_inline(void **state)
{
	const struct wire_source source = {.text = big_source, .arch = "sm_80"};
	struct wire_kernel kernel;
	uint32_t n_by_fd = 0;
	struct wire wire;
	struct wire other;

	wire_open_ready(&wire, *state);
	wire_compile(&wire, &source, &kernel);
	wire_kernel_done(&kernel);
	(void)wire_send_compile(&wire, &source);
	(void)wire_send_compile(&wire, &source);
	/* Both are answered when a later client has its answer. */
	wire_open(&other, *state);
	(void)wire_number(&other, HM_FRAME_STATS, "builds");
	for (int i = 0; i < 2; i++) {
		assert_true(wire_recv_kernel(&wire, &kernel));
		assert_int_equal(kernel.reply.status, HM_REPLY_HIT);
		n_by_fd += kernel.came_by_fd;
		wire_kernel_done(&kernel);
	}
	assert_true(n_by_fd >= 1);
	wire_close(&other);
	wire_close(&wire);
}

static void
test_serve__source_of_ours__is_compiled_once_and_named(void **state)
{
	const struct wire_source source = {
	    .text = "extern \"C\" __global__ void scale(float *p)\n"
		    "{ p[threadIdx.x] *= FACTOR; }\n",
	    .arch = "sm_90",
	    .option = "-DFACTOR=3.0f",
	};
	struct wire_source other = source;
	struct wire_kernel kernel;
	struct wire wire;
	uint64_t builds;

	wire_open_ready(&wire, *state);
	wire_compile(&wire, &source, &kernel);
	assert_int_equal(kernel.reply.tier, HM_TIER_BUILT);
	assert_string_equal(kernel.reply.meta.entry, "scale");
	wire_kernel_done(&kernel);
	wire_compile(&wire, &source, &kernel);
	assert_int_equal(kernel.reply.tier, HM_TIER_HOT);
	wire_kernel_done(&kernel);
	builds = wire_number(&wire, HM_FRAME_STATS, "builds");
	other.option = "-DFACTOR=4.0f";
	wire_compile(&wire, &other, &kernel);
	assert_int_equal(kernel.reply.tier, HM_TIER_BUILT);
	wire_kernel_done(&kernel);
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "builds"),
	    builds + 1);
	wire_close(&wire);
}

static void
test_serve__source_with_a_date__is_never_cached(void **state)
{
	const struct wire_source source = {
	    .text = "__device__ const char *when = __DATE__;\n"
		    "extern \"C\" __global__ void stamp(char *p)\n"
		    "{ *p = when[0]; }\n",
	    .arch = "sm_90",
	};
	struct wire_kernel kernel;
	struct wire wire;

	wire_open_ready(&wire, *state);
	for (int i = 0; i < 2; i++) {
		wire_compile(&wire, &source, &kernel);
		assert_int_equal(kernel.reply.tier, HM_TIER_BUILT);
		wire_kernel_done(&kernel);
	}
	wire_close(&wire);
}

static void
test_serve__source_with_an_error__is_remembered(void **state)
{
	const struct wire_source source = {.text = "int main( {}\n",
	    .arch = "sm_90"};
	struct wire_kernel kernel;
	struct wire wire;

	wire_open_ready(&wire, *state);
	for (int i = 0; i < 2; i++) {
		wire_compile(&wire, &source, &kernel);
		assert_int_equal(kernel.reply.status, HM_REPLY_FAILED);
		assert_int_equal(kernel.reply.error, HM_E_COMPILE);
		assert_non_null(strstr(kernel.reply.message, "(1): error"));
		assert_null(strchr(kernel.reply.message, '\n'));
		assert_non_null(kernel.reply.log);
		assert_non_null(strstr(kernel.reply.log, "error"));
		wire_kernel_done(&kernel);
	}
	assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "build_failures"),
	    1);
	wire_close(&wire);
}

static void
test_serve__unknown_target__is_refused_by_name(void **state)
{
	const struct wire_source source = {.text = big_source,
	    .arch = "sm_199"};
	struct wire_kernel kernel;
	struct wire wire;

	wire_open_ready(&wire, *state);
	wire_compile(&wire, &source, &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_UNSUPPORTED);
	assert_non_null(strstr(kernel.reply.message, "sm_199"));
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

static void
test_serve__forbidden_option__is_denied_by_name(void **state)
{
	const struct wire_source source = {.text = big_source,
	    .arch = "sm_90",
	    .option = "-I/etc"};
	struct wire_kernel kernel;
	struct wire wire;

	wire_open_ready(&wire, *state);
	wire_compile(&wire, &source, &kernel);
	assert_int_equal(kernel.reply.status, HM_REPLY_DENIED);
	assert_int_equal(kernel.reply.error, HM_E_DENIED);
	assert_non_null(strstr(kernel.reply.message, "-I/etc"));
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

static void
test_serve__stats_and_status__have_every_field(void **state)
{
	static const char *const stats[] = {"hits.hot", "hits.store",
	    "hits.pack", "hits.remote", "builds", "build_failures", "joined",
	    "busy", "corrupt", "evicted", "bytes", "entries", "rss_bytes",
	    "latency_us.hot.p50", "latency_us.hot.p99", "latency_us.store.p50",
	    "latency_us.built.p99"};
	static const char *const status[] = {"version", "pid", "uid", "private",
	    "socket", "store", "compiler", "sandbox", "targets", "tiers",
	    "workers", "readiness", "degraded", "uptime_s"};
	struct harness *harness = *state;
	struct wire wire;
	json_t *json;

	wire_open(&wire, harness);
	for (size_t i = 0; i < sizeof(stats) / sizeof(stats[0]); i++)
		(void)wire_number(&wire, HM_FRAME_STATS, stats[i]);
	json = wire_json(&wire, HM_FRAME_STATUS);
	for (size_t i = 0; i < sizeof(status) / sizeof(status[0]); i++) {
		if (json_object_get(json, status[i]) == NULL)
			fail_msg("status lacks %s", status[i]);
	}
	assert_int_equal(json_integer_value(json_object_get(json, "pid")),
	    harness->pid);
	assert_string_equal(json_string_value(json_object_get(json, "socket")),
	    harness->socket);
	json_decref(json);
	wire_close(&wire);
}

static void
test_serve__after_builds__no_compiler_is_mapped(void **state)
{
	struct harness *harness = *state;
	struct wire_kernel kernel;
	struct wire wire;

	wire_open_ready(&wire, harness);
	wire_get(&wire, "w4a16,m=32,group=64", "sm_80", &kernel);
	wire_kernel_done(&kernel);
	assert_true(harness_maps(harness, "hummingd"));
	assert_false(harness_maps(harness, "nvrtc"));
	assert_false(harness_maps(harness, "libcuda"));
	assert_false(harness_maps(harness, "grpc"));
	wire_close(&wire);
}

static void
explain(struct wire *wire, const struct hm_record *record,
    const struct hm_digest *key, struct hm_record_reply *reply_out)
{
	uint8_t body[64];
	struct hm_frame frame = {.type = HM_FRAME_EXPLAIN,
	    .request_id = ++wire->last_id,
	    .body = body,
	    .raw = record->bytes,
	    .n_raw = record->n_bytes,
	    .fd = -1};

	assert_int_equal(
	    hm_codec_pack_explain(key, body, sizeof(body), &frame.n_body),
	    HM_OK);
	assert_int_equal(hm_frame_send(wire->fd, &frame), HM_OK);
	assert_true(wire_recv(wire, &frame, HARNESS_WAIT_MS));
	assert_int_equal(frame.type, HM_FRAME_RECORD);
	assert_int_equal(
	    hm_codec_unpack_record_reply(frame.body, frame.n_body, reply_out),
	    HM_OK);
	assert_int_equal(frame.n_raw, reply_out->record_bytes);
}

static void
test_serve__explain__finds_the_key_or_the_nearest(void **state)
{
	const struct hm_target target = {.cc = 80};
	struct hm_config config;
	struct hm_record record;
	struct hm_record_reply reply;
	struct wire_kernel kernel;
	struct hm_digest key;
	struct wire wire;

	wire_open_ready(&wire, *state);
	wire_get(&wire, "w4a16,m=16,group=32", "sm_80", &kernel);
	memcpy(&config, kernel.reply.meta.config_words, sizeof(config));
	hm_record_init(&record);
	assert_int_equal(hm_key_own(&config, &target, &record, &key), HM_OK);
	assert_true(hm_digest_equal(&key, &kernel.reply.key));
	explain(&wire, &record, &key, &reply);
	assert_int_equal(reply.found, 1);
	assert_int_equal(reply.record_bytes, record.n_bytes);
	hm_record_put_u32(&record, "another", 1);
	hm_digest_compute(record.bytes, record.n_bytes, &key);
	explain(&wire, &record, &key, &reply);
	assert_int_equal(reply.found, 2);
	assert_true(hm_digest_equal(&reply.key, &kernel.reply.key));
	hm_record_done(&record);
	wire_kernel_done(&kernel);
	wire_close(&wire);
}

/* The same kernel many times in one request: each reply knows its place, also
 * when its body is one that was sent before. */
static void
test_serve__a_large_batch_of_hits__has_every_index_once(void **state)
{
	enum { N_REQUESTS = 200 };
	static const char one[] = "w4a16,m=1,n=4096,k=4096";
	char *specs = malloc(N_REQUESTS * sizeof(one) + 1);
	struct wire_kernel first;
	struct wire_kernel kernel;
	struct wire wire;

	assert_non_null(specs);
	specs[0] = '\0';
	for (size_t i = 0; i < N_REQUESTS; i++)
		(void)snprintf(specs + i * sizeof(one), sizeof(one) + 1, "%s ",
		    one);
	wire_open_ready(&wire, *state);
	wire_get(&wire, one, "sm_80", &first);
	for (int round = 0; round < 3; round++) {
		bool seen[N_REQUESTS] = {false};

		(void)wire_send_get(&wire, specs, "sm_80", HM_LANE_INTERACTIVE,
		    0);
		for (size_t i = 0; i < N_REQUESTS; i++) {
			assert_true(wire_recv_kernel(&wire, &kernel));
			assert_int_equal(kernel.reply.tier, HM_TIER_HOT);
			assert_in_range(kernel.reply.index, 0, N_REQUESTS - 1);
			assert_false(seen[kernel.reply.index]);
			seen[kernel.reply.index] = true;
			assert_int_equal(kernel.reply.n_ranges,
			    first.reply.n_ranges);
			assert_string_equal(kernel.reply.meta.spec,
			    first.reply.meta.spec);
			assert_int_equal(kernel.n_image, first.n_image);
			wire_kernel_done(&kernel);
		}
	}
	free(specs);
	wire_kernel_done(&first);
	wire_close(&wire);
}

/* What was built is counted as kept at once, not when a disk has it. */
static void
test_serve__stats_after_builds__count_every_entry(void **state)
{
	static const char *const archs[] = {"sm_80", "sm_89", "sm_100",
	    "sm_120"};
	struct wire_kernel kernel;
	struct wire wire;

	wire_open_ready(&wire, *state);
	for (uint64_t i = 0; i < 4; i++) {
		wire_get(&wire, "w4a16,m=1", archs[i], &kernel);
		assert_int_equal(kernel.reply.status, HM_REPLY_BUILT);
		wire_kernel_done(&kernel);
		assert_int_equal(wire_number(&wire, HM_FRAME_STATS, "entries"),
		    i + 1);
	}
	wire_close(&wire);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_serve__each_target__is_built_then_hot_then_stored),
	    TEST(test_serve__n_and_k_given__ranges_cover_every_m),
	    TEST(test_serve__a_batch__gets_one_reply_for_each_request),
	    TEST(test_serve__a_large_batch_of_hits__has_every_index_once),
	    TEST(test_serve__stats_after_builds__count_every_entry),
	    TEST(test_serve__big_image__comes_by_descriptor_or_in_parts),
	    TEST(test_serve__descriptor_outstanding__next_image_comes_inline),
	    TEST(test_serve__source_of_ours__is_compiled_once_and_named),
	    TEST(test_serve__source_with_a_date__is_never_cached),
	    TEST(test_serve__source_with_an_error__is_remembered),
	    TEST(test_serve__unknown_target__is_refused_by_name),
	    TEST(test_serve__forbidden_option__is_denied_by_name),
	    TEST(test_serve__stats_and_status__have_every_field),
	    TEST(test_serve__after_builds__no_compiler_is_mapped),
	    TEST(test_serve__explain__finds_the_key_or_the_nearest),
	};

	return cmocka_run_group_tests_name("serve", tests, NULL, NULL);
}
