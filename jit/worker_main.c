/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_main.c - the program humming-worker: a worker on descriptor 3, or,
 * for a person with a debugger, one compile in the open.
 *
 * Both ways end by _exit, because NVRTC may crash in its destructors.
 */
#include <sys/socket.h>

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jit/report.h"
#include "jit/source.h"
#include "jit/toolchain_nvrtc.h"
#include "jit/worker.h"
#include "proto/codec.h"
#include "proto/fd.h"

#define MAIN_CHANNEL_FD  3
#define MAIN_IMAGE_BYTES (64u << 20)
#define MAIN_MAX_HEADERS 64u
#define MAIN_MAX_DEFINES 32u
#define MAIN_EXIT_USAGE  2

static const char main_help[] =
    "usage: humming-worker [--nvrtc DIR_OR_FILE]\n"
    "       humming-worker --job FILE.cu [--arch sm_90a] [-DNAME[=VALUE]]...\n"
    "                      [-o CUBIN] [--nvrtc DIR_OR_FILE]\n"
    "\n"
    "The first form is started by hummingd, its channel on descriptor 3.\n"
    "The second compiles one file in this process without a sandbox, for use\n"
    "under a debugger, and prints the compiler's log and a report. Quoted\n"
    "includes are found among hummingd's own sources, then in this folder.\n"
    "\n"
    "  --nvrtc PATH   NVRTC library, or a folder with it (also HUMMING_NVRTC)\n"
    "  --version      print the version\n"
    "  --help         print this\n";

struct main_options {
	const char *job;
	const char *arch;
	const char *nvrtc;
	const char *output;
	char defines[MAIN_MAX_DEFINES][HM_MAX_OPTION_CHARS];
	size_t n_defines;
};

/* Returns 0 or MAIN_EXIT_USAGE, having said why on stderr. */
static int
main_usage(const char *what, const char *which)
{
	(void)fprintf(stderr, "humming-worker: %s%s; see --help\n", what,
	    which);
	return MAIN_EXIT_USAGE;
}

static int
main_add_define(struct main_options *options, const char *text)
{
	if (options->n_defines == MAIN_MAX_DEFINES ||
	    snprintf(options->defines[options->n_defines], HM_MAX_OPTION_CHARS,
		"-D%s", text) >= (int)HM_MAX_OPTION_CHARS)
		return main_usage("too many or too long: -D", text);
	options->n_defines++;
	return 0;
}

/* A whole file as text; NULL with errno, or with 0 if it is too large. */
static char *
main_read(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t n_text = 0;

	if (file == NULL)
		return NULL;
	text = calloc(1, HM_MAX_SOURCE_BYTES + 2);
	if (text != NULL)
		n_text = fread(text, 1, HM_MAX_SOURCE_BYTES + 1, file);
	if (ferror(file) || n_text > HM_MAX_SOURCE_BYTES) {
		if (!ferror(file))
			errno = EFBIG;
		free(text);
		text = NULL;
	}
	(void)fclose(file);
	return text;
}

static int
main_write(const char *path, const void *bytes, size_t n_bytes)
{
	FILE *file = fopen(path, "we");
	bool written = false;

	if (file != NULL) {
		written = fwrite(bytes, 1, n_bytes, file) == n_bytes;
		written = fclose(file) == 0 && written;
	}
	if (!written)
		(void)fprintf(stderr, "humming-worker: %s: %s\n", path,
		    strerror(errno));
	return written ? 0 : 1;
}

static int
main_compile(struct hm_toolchain *toolchain, const struct main_options *from,
    const char *source, struct hm_toolchain_output *output,
    struct hm_errbuf *errbuf)
{
	const char *names[MAIN_MAX_HEADERS];
	const char *texts[MAIN_MAX_HEADERS];
	const char *options[MAIN_MAX_DEFINES + 4];
	struct hm_toolchain_program program = {.source = source,
	    .name = from->job,
	    .header_names = names,
	    .header_texts = texts,
	    .options = options};
	char arch[HM_MAX_OPTION_CHARS];
	size_t i = 0;

	for (i = 0; i < hm_source_count() && i < MAIN_MAX_HEADERS; i++) {
		names[i] = hm_source_at(i)->name;
		texts[i] = hm_source_at(i)->text;
	}
	program.n_headers = i;
	(void)snprintf(arch, sizeof(arch), "--gpu-architecture=%s", from->arch);
	options[0] = arch;
	options[1] = "--std=c++17";
	options[2] = "-no-cache";
	options[3] = "--ptxas-options=-v";
	for (i = 0; i < from->n_defines; i++)
		options[4 + i] = from->defines[i];
	program.n_options = 4 + from->n_defines;
	return hm_toolchain_compile(toolchain, &program, output, errbuf);
}

static void
main_print_report(const struct main_options *options,
    const struct hm_toolchain_output *output)
{
	struct hm_report report;

	(void)hm_report_parse(output->log == NULL ? "" : output->log, NULL,
	    &report);
	(void)printf("%s: %zu bytes, %u registers, %u bytes spilled, "
		     "%u bytes of shared memory, %u.%u ms, kernels: %s\n",
	    options->arch, output->n_image, report.registers,
	    report.spill_bytes, report.smem_bytes, output->compile_us / 1000,
	    output->compile_us / 100 % 10, report.entries);
	if (report.warning[0] != 0)
		(void)printf("warning: %s\n", report.warning);
}

/* One compile in the open. Returns the exit status. */
static int
main_job(const struct main_options *options)
{
	struct hm_toolchain_output output = {.image = malloc(MAIN_IMAGE_BYTES),
	    .size = MAIN_IMAGE_BYTES};
	struct hm_toolchain *toolchain = NULL;
	struct hm_errbuf errbuf = {.text = ""};
	char *source = main_read(options->job);
	int error = HM_E_SYSTEM;
	int status = 1;

	if (source == NULL || output.image == NULL) {
		hm_errbuf_set(&errbuf, "%s", strerror(errno));
		goto out;
	}
	error = hm_toolchain_open(options->nvrtc, &toolchain, &errbuf);
	if (error == HM_OK)
		error =
		    main_compile(toolchain, options, source, &output, &errbuf);
	if (output.log != NULL)
		(void)printf("%s\n", output.log);
	if (error != HM_OK)
		goto out;
	main_print_report(options, &output);
	if (options->output == NULL)
		status = 0;
	else
		status =
		    main_write(options->output, output.image, output.n_image);
out:
	if (error != HM_OK)
		(void)fprintf(stderr, "humming-worker: %s: %s\n", options->job,
		    errbuf.text);
	hm_toolchain_close(toolchain);
	free(output.log);
	free(output.image);
	free(source);
	return status;
}

/* The channel is checked while there still is a stderr to say it on. */
static int
main_channel(const struct main_options *options)
{
	int type = 0;
	socklen_t n_type = sizeof(type);

	if (getsockopt(MAIN_CHANNEL_FD, SOL_SOCKET, SO_TYPE, &type, &n_type) ==
		-1 ||
	    type != SOCK_SEQPACKET)
		return main_usage("descriptor 3 is not hummingd's channel", "");
	return hm_worker_run(MAIN_CHANNEL_FD, options->nvrtc);
}

/* Fills options; returns -1 to go on, else the exit status. */
static int
main_parse(int argc, char **argv, struct main_options *options)
{
	static const struct option names[] = {
	    {"job", required_argument, NULL, 'j'},
	    {"arch", required_argument, NULL, 'a'},
	    {"nvrtc", required_argument, NULL, 'n'},
	    {"output", required_argument, NULL, 'o'},
	    {"help", no_argument, NULL, 'h'},
	    {"version", no_argument, NULL, 'v'},
	    {NULL, 0, NULL, 0},
	};
	int option = 0;

	opterr = 0;
	while (
	    (option = getopt_long(argc, argv, ":D:o:h", names, NULL)) != -1) {
		switch (option) {
		case 'j':
			options->job = optarg;
			break;
		case 'a':
			options->arch = optarg;
			break;
		case 'n':
			options->nvrtc = optarg;
			break;
		case 'o':
			options->output = optarg;
			break;
		case 'D':
			if (main_add_define(options, optarg) != 0)
				return MAIN_EXIT_USAGE;
			break;
		case 'h':
			(void)fputs(main_help, stdout);
			return 0;
		case 'v':
			(void)printf("humming-worker %s\n", HM_VERSION);
			return 0;
		case ':':
			return main_usage("no value for ", argv[optind - 1]);
		default:
			return main_usage("unknown option ", argv[optind - 1]);
		}
	}
	if (optind < argc)
		return main_usage("unexpected operand ", argv[optind]);
	return -1;
}

int
main(int argc, char **argv)
{
	static struct main_options options = {.arch = "sm_90a"};
	char *nvrtc = NULL;
	int status = 0;

	if (hm_fd_reserve_stdio() != HM_OK)
		_exit(EXIT_FAILURE);
	status = main_parse(argc, argv, &options);
	if (status == -1) {
		/* A worker leaves this folder before it looks for NVRTC. */
		if (options.nvrtc == NULL)
			options.nvrtc = getenv("HUMMING_NVRTC");
		if (options.nvrtc != NULL && options.nvrtc[0] != 0)
			nvrtc = realpath(options.nvrtc, NULL);
		if (nvrtc != NULL)
			options.nvrtc = nvrtc;
		status = options.job != NULL ? main_job(&options)
					     : main_channel(&options);
	}
	(void)fflush(stdout);
	_exit(status);
}
