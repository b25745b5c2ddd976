/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_demo.c - one GEMM the whole way: kernels from hummingd, packed weights,
 * a launch, and the result against the double-precision reference.
 *
 *     humming-gemm-demo [--socket PATH] [--m M] [--n N] [--k K]
 *     humming-gemm-demo --arch | --help
 *
 * Prints one line. --arch prints the GPU's target, for scripts. Exit 0: right;
 * 1: wrong, or no GPU, or no daemon; 2: usage. What a worker would do, but for
 * the driver's own memory calls, which a worker has from its framework.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <humming/client.h>
#include <humming/gemm.h>

#include "client/driver.h"
#include "client/number.h"
#include "proto/error.h"
#include "proto/fd.h"

/* Relative error, squared: (3e-3)^2, KERNELS.md section 9. */
#define DEMO_BOUND 3e-3
#define DEMO_GROUP 128u

static const char demo_usage[] =
    "usage: humming-gemm-demo [--socket PATH] [--m M] [--n N] [--k K]\n"
    "       humming-gemm-demo --arch\n"
    "\n"
    "One w4a16 GEMM on the first GPU: kernels from hummingd, packed weights, "
    "a\n"
    "launch, and the result against the CPU's. Needs a GPU.\n"
    "\n"
    "  --socket PATH      the daemon's socket; default: as hummingctl's\n"
    "  --m M              tokens, up to 1048576 (16)\n"
    "  --n N, --k K       outputs and inputs of the layer (5120)\n"
    "  --arch             only print the GPU's architecture\n"
    "\n"
    "Exit code: 0 right, 1 wrong or no GPU or no daemon, 2 wrong usage.\n"
    "\n"
    "example: humming-gemm-demo --m 1 --n 8192 --k 8192\n";

struct demo_options {
	const char *socket_path;
	uint32_t m, n, k;
	bool arch;
	bool help;
};

/* Host side. All owned. */
struct demo_data {
	uint8_t *codes;
	uint16_t *scales;
	void *packed;
	float *rowmul;
	uint16_t *a, *c;
	double *expected;
	struct humming_weight_source source;
	struct humming_weight_sizes sizes;
};

/* Device side; 0 = none. */
struct demo_memory {
	uint64_t w, rowmul, a, c;
};

static int
demo_fail(const char *what, const char *why)
{
	fprintf(stderr, "humming-gemm-demo: %s: %s\n", what, why);
	return 1;
}

static double
demo_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static uint32_t
demo_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

static void
demo_data_done(struct demo_data *data)
{
	free(data->codes);
	free(data->scales);
	free(data->packed);
	free(data->rowmul);
	free(data->a);
	free(data->c);
	free(data->expected);
}

static int
demo_data_alloc(struct demo_data *data, const struct demo_options *options)
{
	struct humming_weight_source *source = &data->source;
	size_t n_scales =
	    (size_t)options->n * ((options->k + DEMO_GROUP - 1) / DEMO_GROUP);

	humming_weight_source_init(source, sizeof *source);
	source->n = options->n;
	source->k = options->k;
	source->group = DEMO_GROUP;
	data->sizes.struct_size = sizeof data->sizes;
	if (humming_weight_size(source, &data->sizes) != HUMMING_OK)
		return demo_fail("sizes", humming_gemm_last_error());
	data->codes = malloc((size_t)options->n * options->k);
	data->scales = malloc(n_scales * sizeof *data->scales);
	data->packed = malloc(data->sizes.packed_bytes);
	data->rowmul = malloc(data->sizes.rowmul_bytes);
	data->a = malloc((size_t)options->m * options->k * sizeof *data->a);
	data->c = malloc((size_t)options->m * options->n * sizeof *data->c);
	data->expected =
	    malloc((size_t)options->m * options->n * sizeof *data->expected);
	if (data->codes == NULL || data->scales == NULL ||
	    data->packed == NULL || data->rowmul == NULL || data->a == NULL ||
	    data->c == NULL || data->expected == NULL)
		return demo_fail("sizes", humming_strerror(HUMMING_E_NOMEM));
	source->codes = data->codes;
	source->scales = data->scales;
	return 0;
}

/* Random codes, scales around 2^-6, activations in -1..1; packed. */
static int
demo_data_fill(struct demo_data *data, const struct demo_options *options)
{
	size_t n_scales =
	    (size_t)options->n * ((options->k + DEMO_GROUP - 1) / DEMO_GROUP);
	uint64_t state = 1;

	for (size_t i = 0; i < (size_t)options->n * options->k; i++)
		data->codes[i] = (uint8_t)(demo_random(&state) & 15);
	for (size_t i = 0; i < n_scales; i++)
		data->scales[i] = hm_number_encode16(HUMMING_TYPE_BF16,
		    (1 + demo_random(&state) % 256) / 16384.0);
	for (size_t i = 0; i < (size_t)options->m * options->k; i++)
		data->a[i] = hm_number_encode16(HUMMING_TYPE_BF16,
		    demo_random(&state) % 65536 / 32768.0 - 1);
	/* A NaN, so that an output nobody wrote shows. */
	memset(data->c, 0xff,
	    (size_t)options->m * options->n * sizeof *data->c);
	if (humming_weight_pack(&data->source, data->packed, data->rowmul,
		NULL) != HUMMING_OK)
		return demo_fail("pack", humming_gemm_last_error());
	return 0;
}

/* Room on the GPU for n_bytes, filled from `from`. */
static int
demo_upload(const struct hm_driver *driver, uint64_t *address, const void *from,
    size_t n_bytes)
{
	if (driver->memory_alloc(address, n_bytes) == 0 &&
	    driver->copy_to_device(*address, from, n_bytes) == 0)
		return 0;
	return demo_fail("GPU memory", "cannot be had or written");
}

static int
demo_upload_all(const struct hm_driver *driver,
    const struct demo_options *options, const struct demo_data *data,
    struct demo_memory *memory)
{
	int failed = demo_upload(driver, &memory->w, data->packed,
	    data->sizes.packed_bytes);

	if (!failed)
		failed = demo_upload(driver, &memory->rowmul, data->rowmul,
		    data->sizes.rowmul_bytes);
	if (!failed)
		failed = demo_upload(driver, &memory->a, data->a,
		    (size_t)options->m * options->k * sizeof *data->a);
	if (!failed)
		failed = demo_upload(driver, &memory->c, data->c,
		    (size_t)options->m * options->n * sizeof *data->c);
	return failed;
}

static void *
demo_pointer(uint64_t address)
{
	void *pointer = NULL;

	memcpy(&pointer, &address, sizeof pointer);
	return pointer;
}

static int
demo_launch(const struct hm_driver *driver, struct humming_gemm *gemm,
    const struct demo_options *options, const struct demo_memory *memory,
    struct demo_data *data)
{
	struct humming_gemm_args args;

	humming_gemm_args_init(&args, sizeof args);
	args.m = options->m;
	args.a = demo_pointer(memory->a);
	args.w = demo_pointer(memory->w);
	args.rowmul = demo_pointer(memory->rowmul);
	args.c = demo_pointer(memory->c);
	if (humming_gemm_launch(gemm, &args, NULL) != HUMMING_OK)
		return demo_fail("launch", humming_gemm_last_error());
	if (driver->stream_synchronize(NULL) != 0 ||
	    driver->copy_to_host(data->c, memory->c,
		(size_t)options->m * options->n * sizeof *data->c) != 0)
		return demo_fail("GEMM", "the GPU reports a failure");
	return 0;
}

/* Square of the relative error; NaN outputs count as wrong. */
static double
demo_error(const struct demo_options *options, const struct demo_data *data)
{
	double error = 0, size = 0;

	for (size_t i = 0; i < (size_t)options->m * options->n; i++) {
		double value =
		    hm_number_decode16(HUMMING_TYPE_BF16, data->c[i]);
		double off = value - data->expected[i];

		if (!hm_number_is_finite(value))
			return 1e9;
		error += off * off;
		size += data->expected[i] * data->expected[i];
	}
	return size > 0 ? error / size : 1e9;
}

/* Square root of a small number, by Newton: the library needs no libm. */
static double
demo_root(double square)
{
	double root = square > 1 ? square : 1;

	for (int i = 0; i < 60; i++)
		root = (root + square / root) / 2;
	return root;
}

static int
demo_judge(const struct humming_device_info *info,
    const struct demo_options *options, struct demo_data *data,
    const double times[3])
{
	struct humming_gemm_reference_args args = {0};
	double error = 0;

	args.m = options->m;
	args.lda = options->k;
	args.ldc = options->n;
	args.a = data->a;
	args.c_out = data->expected;
	if (humming_gemm_reference(&data->source, &args) != HUMMING_OK)
		return demo_fail("reference", humming_gemm_last_error());
	error = demo_root(demo_error(options, data));
	printf("%s: w4a16 gemm m=%u n=%u k=%u: error %.1e of %.0e allowed; "
	       "kernels fetched and loaded in %.1f ms, first GEMM in %.1f ms\n",
	    info->name, options->m, options->n, options->k, error, DEMO_BOUND,
	    times[1] - times[0], times[2] - times[1]);
	if (error <= DEMO_BOUND)
		return 0;
	return demo_fail("GEMM", "the result is wrong");
}

static int
demo_open_gemm(struct humming_client *client, struct humming_device *device,
    const struct demo_options *options, struct humming_gemm **gemm_out)
{
	struct humming_kernel_request request;

	humming_kernel_request_init(&request, sizeof request);
	request.a_type = HUMMING_TYPE_BF16;
	request.w_type = HUMMING_TYPE_UINT(4);
	request.scale_kind = HUMMING_SCALE_GROUP;
	request.group = DEMO_GROUP;
	request.n = options->n;
	request.k = options->k;
	if (humming_gemm_open(device, client, &request, gemm_out) != HUMMING_OK)
		return demo_fail("kernels", humming_gemm_last_error());
	return 0;
}

static int
demo_run(const struct hm_driver *driver, struct humming_device *device,
    const struct demo_options *options)
{
	struct humming_client_options client_options;
	struct humming_client *client = NULL;
	struct humming_gemm *gemm = NULL;
	struct humming_device_info info;
	struct demo_memory memory = {0};
	struct demo_data data;
	double times[3] = {0};
	int failed = 0;

	memset(&data, 0, sizeof data);
	memset(&info, 0, sizeof info);
	info.struct_size = sizeof info;
	(void)humming_device_get_info(device, &info);
	humming_client_options_init(&client_options, sizeof client_options);
	client_options.socket_path = options->socket_path;
	failed = demo_data_alloc(&data, options);
	if (!failed)
		failed = demo_data_fill(&data, options);
	if (!failed && humming_device_make_current(device) != HUMMING_OK)
		failed = demo_fail("context", humming_gemm_last_error());
	if (!failed)
		failed = demo_upload_all(driver, options, &data, &memory);
	times[0] = demo_ms();
	if (!failed &&
	    humming_client_open(&client_options, &client) != HUMMING_OK)
		failed = demo_fail("hummingd", humming_client_last_error(NULL));
	if (!failed)
		failed = demo_open_gemm(client, device, options, &gemm);
	times[1] = demo_ms();
	if (!failed)
		failed = demo_launch(driver, gemm, options, &memory, &data);
	times[2] = demo_ms();
	if (!failed)
		failed = demo_judge(&info, options, &data, times);

	humming_gemm_close(gemm);
	humming_client_close(client);
	(void)driver->memory_free(memory.w); /* 0 is ignored */
	(void)driver->memory_free(memory.rowmul);
	(void)driver->memory_free(memory.a);
	(void)driver->memory_free(memory.c);
	demo_data_done(&data);
	return failed;
}

static bool
demo_read_number(const char *text, uint32_t *number_out)
{
	char *end = NULL;
	unsigned long number = strtoul(text, &end, 10);

	if (end == text || *end != '\0' || number == 0 || number > 1u << 20)
		return false;
	*number_out = (uint32_t)number;
	return true;
}

static bool
demo_read_options(struct demo_options *options, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";
		bool good = true;

		if (strcmp(argv[i], "--arch") == 0) {
			options->arch = true;
			continue;
		}
		if (strcmp(argv[i], "--help") == 0 ||
		    strcmp(argv[i], "-h") == 0) {
			options->help = true;
			continue;
		}
		if (strcmp(argv[i], "--socket") == 0)
			options->socket_path = value;
		else if (strcmp(argv[i], "--m") == 0)
			good = demo_read_number(value, &options->m);
		else if (strcmp(argv[i], "--n") == 0)
			good = demo_read_number(value, &options->n);
		else if (strcmp(argv[i], "--k") == 0)
			good = demo_read_number(value, &options->k);
		else
			good = false;
		if (!good || *value == '\0')
			return false;
		i++;
	}
	return true;
}

int
main(int argc, char **argv)
{
	struct demo_options options = {.m = 16, .n = 5120, .k = 5120};
	struct humming_device *device = NULL;
	struct humming_device_info info;
	const struct hm_driver *driver = NULL;
	struct hm_errbuf errbuf = {""};
	int failed = 0;

	if (hm_fd_reserve_stdio() != HM_OK) {
		fprintf(stderr,
		    "humming-gemm-demo: cannot open /dev/null: %s\n",
		    strerror(errno));
		return 1;
	}
	if (!demo_read_options(&options, argc, argv)) {
		fprintf(stderr,
		    "humming-gemm-demo: wrong usage (see 'humming-gemm-demo "
		    "--help')\n");
		return 2;
	}
	if (options.help) {
		printf("%s", demo_usage);
		return 0;
	}
	if (hm_driver_get(&driver, &errbuf) != HM_OK)
		return demo_fail("no GPU", errbuf.text);
	if (humming_device_open(0, &device) != HUMMING_OK)
		return demo_fail("no GPU", humming_gemm_last_error());
	memset(&info, 0, sizeof info);
	info.struct_size = sizeof info;
	(void)humming_device_get_info(device, &info);
	if (options.arch)
		printf("sm_%u%s\n", info.target_cc,
		    info.target_suffix != 0 ? "a" : "");
	else
		failed = demo_run(driver, device, &options);
	humming_device_close(device);
	return failed;
}
