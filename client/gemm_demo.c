/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_demo.c - one GEMM the whole way: kernels from hummingd, packed weights,
 * a launch, and the result against the double-precision reference.
 *
 *     humming-gemm-demo [--socket PATH] [--m M] [--n N] [--k K] [SPEC]
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
#include "client/gemm_demo_data.h"
#include "client/request.h"
#include "jit/spec.h"
#include "proto/error.h"
#include "proto/fd.h"

/* Relative errors that KERNELS.md section 9 allows: of a 16-bit output, and of
 * the 14 bits in which tensor cores add fp8 products by default. */
#define DEMO_BOUND      3e-3
#define DEMO_FAST_BOUND 1e-2

static const char demo_usage[] =
    "usage: humming-gemm-demo [--socket PATH] [--m M] [--n N] [--k K] [SPEC]\n"
    "       humming-gemm-demo --arch\n"
    "\n"
    "One GEMM on the first GPU: kernels from hummingd, packed weights, a "
    "launch,\n"
    "and the result against the CPU's. Needs a GPU.\n"
    "\n"
    "  SPEC               what to compute, as hummingctl get takes it (w4a16);"
    "\n"
    "                     its m, n and k are used where no option gives them\n"
    "  --socket PATH      the daemon's socket; default: as hummingctl's\n"
    "  --m M              tokens, up to 1048576 (16)\n"
    "  --n N, --k K       outputs and inputs of the layer (5120)\n"
    "  --arch             only print the GPU's architecture\n"
    "\n"
    "Exit code: 0 right, 1 wrong or no GPU or no daemon, 2 wrong usage.\n"
    "\n"
    "example: humming-gemm-demo --m 1 --n 8192 --k 8192 mxfp4a8\n";

struct demo_options {
	const char *socket_path;
	const char *spec;
	uint32_t m, n, k; /* 0 = not given */
	bool arch;
	bool help;
};

/* Device side; 0 = none. */
struct demo_memory {
	uint64_t w, rowmul, bias, a, a_scale, c;
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
demo_upload_all(const struct hm_driver *driver, const struct hm_demo_data *data,
    struct demo_memory *memory)
{
	int failed = demo_upload(driver, &memory->w, data->packed,
	    data->sizes.packed_bytes);

	if (!failed)
		failed = demo_upload(driver, &memory->rowmul, data->rowmul,
		    data->sizes.rowmul_bytes);
	if (!failed && data->source.bias != NULL)
		failed = demo_upload(driver, &memory->bias, data->packed_bias,
		    data->sizes.bias_bytes);
	if (!failed)
		failed =
		    demo_upload(driver, &memory->a, data->a, data->a_bytes);
	if (!failed && data->a_scale_bytes != 0)
		failed = demo_upload(driver, &memory->a_scale, data->a_scale,
		    data->a_scale_bytes);
	if (!failed)
		failed = demo_upload(driver, &memory->c, data->c,
		    (size_t)data->m * data->source.n * sizeof *data->c);
	return failed;
}

static void
demo_free_all(const struct hm_driver *driver, const struct demo_memory *memory)
{
	(void)driver->memory_free(memory->w); /* 0 is ignored */
	(void)driver->memory_free(memory->rowmul);
	(void)driver->memory_free(memory->bias);
	(void)driver->memory_free(memory->a);
	(void)driver->memory_free(memory->a_scale);
	(void)driver->memory_free(memory->c);
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
    const struct demo_memory *memory, struct hm_demo_data *data)
{
	struct humming_gemm_args args;

	humming_gemm_args_init(&args, sizeof args);
	args.m = data->m;
	args.a = demo_pointer(memory->a);
	args.w = demo_pointer(memory->w);
	args.rowmul = demo_pointer(memory->rowmul);
	args.bias = demo_pointer(memory->bias);
	args.a_scale = demo_pointer(memory->a_scale);
	args.a_scale_step = data->a_scale_step;
	args.a_scale_group_step = data->a_scale_group_step;
	args.c = demo_pointer(memory->c);
	if (humming_gemm_launch(gemm, &args, NULL) != HUMMING_OK)
		return demo_fail("launch", humming_gemm_last_error());
	if (driver->stream_synchronize(NULL) != 0 ||
	    driver->copy_to_host(data->c, memory->c,
		(size_t)data->m * data->source.n * sizeof *data->c) != 0)
		return demo_fail("GEMM", "the GPU reports a failure");
	return 0;
}

static double
demo_bound(const struct hm_request *request)
{
	bool fp8 =
	    request->a_type == HM_TYPE_E4M3 || request->a_type == HM_TYPE_E5M2;

	return fp8 && request->acc_type != HM_ACC_PRECISE ? DEMO_FAST_BOUND
							  : DEMO_BOUND;
}

static int
demo_judge(const struct hm_request *request, const char *gpu,
    struct hm_demo_data *data, const double times[3])
{
	char spec[HM_SPEC_MAX_CHARS + 1] = "?";
	double bound = demo_bound(request);
	double error = 0;

	if (hm_demo_data_judge(data, &error) != HUMMING_OK)
		return demo_fail("reference", humming_gemm_last_error());
	(void)hm_spec_print(request, spec, sizeof spec);
	printf("%s: %s: error %.1e of %.0e allowed; kernels fetched and loaded "
	       "in %.1f ms, first GEMM in %.1f ms\n",
	    gpu, spec, error, bound, times[1] - times[0], times[2] - times[1]);
	if (error <= bound)
		return 0;
	return demo_fail("GEMM", "the result is wrong");
}

static int
demo_open_gemm(struct humming_client *client, struct humming_device *device,
    const struct hm_request *request, struct humming_gemm **gemm_out)
{
	struct humming_kernel_request wanted;

	hm_request_export(request, &wanted);
	wanted.m = 0; /* all M */
	if (humming_gemm_open(device, client, &wanted, gemm_out) != HUMMING_OK)
		return demo_fail("kernels", humming_gemm_last_error());
	return 0;
}

static int
demo_run(const struct hm_driver *driver, struct humming_device *device,
    const char *socket_path, const struct hm_request *request)
{
	struct humming_client_options client_options;
	struct humming_client *client = NULL;
	struct humming_gemm *gemm = NULL;
	struct humming_device_info info;
	struct demo_memory memory = {0};
	struct hm_demo_data data;
	double times[3] = {0};
	int failed = 0;
	int error = hm_demo_data_init(&data, request);

	memset(&info, 0, sizeof info);
	info.struct_size = sizeof info;
	(void)humming_device_get_info(device, &info);
	humming_client_options_init(&client_options, sizeof client_options);
	client_options.socket_path = socket_path;
	if (error != HUMMING_OK)
		failed = demo_fail("operands", error == HUMMING_E_NOMEM
						   ? humming_strerror(error)
						   : humming_gemm_last_error());
	if (!failed && humming_device_make_current(device) != HUMMING_OK)
		failed = demo_fail("context", humming_gemm_last_error());
	if (!failed)
		failed = demo_upload_all(driver, &data, &memory);
	times[0] = demo_ms();
	if (!failed &&
	    humming_client_open(&client_options, &client) != HUMMING_OK)
		failed = demo_fail("hummingd", humming_client_last_error(NULL));
	if (!failed)
		failed = demo_open_gemm(client, device, request, &gemm);
	times[1] = demo_ms();
	if (!failed)
		failed = demo_launch(driver, gemm, &memory, &data);
	times[2] = demo_ms();
	if (!failed)
		failed = demo_judge(request, info.name, &data, times);

	humming_gemm_close(gemm);
	humming_client_close(client);
	demo_free_all(driver, &memory);
	hm_demo_data_done(&data);
	return failed;
}

/* Sizes come from the options, else from the SPEC, else they are ours. */
static int
demo_read_request(const struct demo_options *options,
    struct hm_request *request_out)
{
	struct hm_errbuf why = {""};
	struct hm_request request;

	if (hm_spec_parse(options->spec, &request, &why) != HM_OK ||
	    request.operation != HM_OPERATION_GEMM) {
		fprintf(stderr, "humming-gemm-demo: SPEC '%s': %s\n",
		    options->spec,
		    why.text[0] != '\0' ? why.text : "takes a plain gemm");
		return HM_E_INVALID;
	}
	if (options->m != 0 || request.m == 0)
		request.m = options->m != 0 ? options->m : 16;
	if (options->n != 0 || request.n == 0)
		request.n = options->n != 0 ? options->n : 5120;
	if (options->k != 0 || request.k == 0)
		request.k = options->k != 0 ? options->k : 5120;
	*request_out = request;
	return HM_OK;
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
		if (argv[i][0] != '-' && options->spec == NULL) {
			options->spec = argv[i];
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
	if (options->spec == NULL)
		options->spec = "w4a16";
	return true;
}

int
main(int argc, char **argv)
{
	struct demo_options options = {0};
	struct hm_request request;
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
	if (demo_read_request(&options, &request) != HM_OK)
		return 2;
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
		failed =
		    demo_run(driver, device, options.socket_path, &request);
	humming_device_close(device);
	return failed;
}
