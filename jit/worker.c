/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.c - the life of a compile worker.
 *
 *   start -> detach -> load NVRTC -> sandbox -> probe -> READY -> jobs -> end
 *                          |                       |
 *                          +-- READY with error ---+--> end
 *
 * The daemon is believed, the source of a client is not: its options are
 * checked a second time, it gets no header at all, and it meets NVRTC only
 * behind the sandbox. Nothing of one job is kept for the next but what NVRTC
 * keeps by itself, which is why a worker that has seen a client's source is
 * not given our own kernels any more (daemon/pool).
 */
#include "jit/worker.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jit/emit.h"
#include "jit/job.h"
#include "jit/report.h"
#include "jit/sandbox.h"
#include "jit/source.h"
#include "jit/toolchain_nvrtc.h"
#include "proto/codec.h"
#include "proto/fd.h"
#include "proto/frame.h"

/* Address space for a compile, over the loaded libraries (STACK.md 6). */
#define WORKER_EXTRA_BYTES ((size_t)1 << 30)
#define WORKER_MAX_HEADERS (HM_SOURCE_MAX_CLOSURE + 2)
#define WORKER_MAX_OPTIONS (HM_MAX_OPTIONS + 4)
#define WORKER_PROBE_BYTES (256u << 10)
#define WORKER_PROBE_ARCH  "sm_80"

static const char worker_probe_source[] =
    "extern \"C\" __global__ void hm_probe(int *p)\n"
    "{\n"
    "\tp[threadIdx.x] = (int)blockIdx.x;\n"
    "}\n";

struct worker {
	int channel_fd; /* borrowed */
	int statm_fd;   /* owned; /proc/self/statm, -1 if there is none */
	struct hm_toolchain *toolchain; /* owned */
	uint8_t
	    packet[HM_FRAME_MAX_BYTES];   /* what a received frame points to */
	uint8_t body[HM_FRAME_MAX_BYTES]; /* what a sent frame points to */
};

/* Everything that a job's program points to. */
struct worker_program {
	struct hm_toolchain_program program;
	const char *header_names[WORKER_MAX_HEADERS];
	const char *header_texts[WORKER_MAX_HEADERS];
	const char *options[WORKER_MAX_OPTIONS];
	char arch_option[48];
	char client_options[HM_MAX_OPTIONS][HM_MAX_OPTION_CHARS];
	char *source; /* owned copy of a client's source, or NULL */
};

/* The memory file of a job, mapped. */
struct worker_result {
	uint8_t *bytes;
	size_t n_bytes;
};

/* Second field of statm: pages resident now; else the largest ever. */
static uint32_t
worker_resident_kib(const struct worker *worker)
{
	const size_t page_kib = (size_t)sysconf(_SC_PAGESIZE) / 1024;
	struct rusage usage = {0};
	char text[128] = "";
	const char *at = text;
	size_t n_pages = 0;

	if (worker->statm_fd != -1 &&
	    pread(worker->statm_fd, text, sizeof(text) - 1, 0) > 0)
		at = strchr(text, ' ');
	if (at == NULL || *at != ' ') {
		(void)getrusage(RUSAGE_SELF, &usage);
		return (uint32_t)usage.ru_maxrss;
	}
	for (at++; *at >= '0' && *at <= '9'; at++)
		n_pages = n_pages * 10 + (size_t)(*at - '0');
	return (uint32_t)(n_pages * page_kib);
}

/* Block until the channel is readable or writable. */
static int
worker_wait(const struct worker *worker, short events)
{
	struct pollfd channel = {.fd = worker->channel_fd, .events = events};

	return poll(&channel, 1, -1) == 1 ? HM_OK : HM_E_SYSTEM;
}

static int
worker_send(struct worker *worker, uint32_t type, uint32_t request_id,
    size_t n_body)
{
	const struct hm_frame frame = {.type = type,
	    .request_id = request_id,
	    .body = worker->body,
	    .n_body = n_body,
	    .fd = -1};
	int error = HM_OK;

	for (;;) {
		error = hm_frame_send(worker->channel_fd, &frame);
		if (error != HM_E_BUSY)
			return error;
		error = worker_wait(worker, POLLOUT);
		if (error != HM_OK)
			return error;
	}
}

static int
worker_recv(struct worker *worker, struct hm_frame *frame_out)
{
	int error = HM_OK;

	for (;;) {
		error = hm_frame_recv(worker->channel_fd, worker->packet,
		    frame_out);
		if (error != HM_E_BUSY)
			return error;
		error = worker_wait(worker, POLLIN);
		if (error != HM_OK)
			return error;
	}
}

static void
worker_add_option(struct worker_program *in, const char *option)
{
	if (in->program.n_options < WORKER_MAX_OPTIONS) {
		in->options[in->program.n_options] = option;
		in->program.n_options++;
	}
}

static void
worker_add_header(struct worker_program *in, const char *name, const char *text)
{
	if (in->program.n_headers < WORKER_MAX_HEADERS) {
		in->header_names[in->program.n_headers] = name;
		in->header_texts[in->program.n_headers] = text;
		in->program.n_headers++;
	}
}

/* The options that every compile of a client's source and the probe have. */
static void
worker_add_base_options(struct worker_program *in, const char *arch)
{
	(void)snprintf(in->arch_option, sizeof(in->arch_option),
	    "--gpu-architecture=%s", arch);
	worker_add_option(in, in->arch_option);
	worker_add_option(in, "-no-cache");
	worker_add_option(in, "--ptxas-options=-v");
}

/* Our own kernel: the entry's closure, and the generated headers. */
static int
worker_prepare_own(const struct hm_job *job, struct worker_program *in,
    struct hm_errbuf *errbuf)
{
	const struct hm_source *files[HM_SOURCE_MAX_CLOSURE];
	size_t n_files = 0;
	bool no_cache = false;
	size_t i = 0;

	if (hm_source_closure(job->source_name, files, &n_files) != HM_OK) {
		hm_errbuf_set(errbuf, "there is no kernel source %s",
		    job->source_name);
		return HM_E_INVALID;
	}
	for (i = 0; i < n_files; i++) {
		if (strcmp(files[i]->name, job->source_name) == 0)
			in->program.source = files[i]->text;
		else
			worker_add_header(in, files[i]->name, files[i]->text);
	}
	if (job->config != NULL)
		worker_add_header(in, HM_EMIT_CONFIG_NAME, job->config);
	if (job->shape != NULL)
		worker_add_header(in, HM_EMIT_WGMMA_NAME, job->shape);
	for (i = 0; i < job->n_options; i++) {
		no_cache = no_cache ||
			   strcmp(job->options[i], "-no-cache") == 0 ||
			   strcmp(job->options[i], "--no-cache") == 0;
		worker_add_option(in, job->options[i]);
	}
	if (!no_cache)
		worker_add_option(in, "-no-cache");
	return HM_OK;
}

/* The source is copied, as it may lie where the cubin goes. */
static int
worker_prepare_client(const struct hm_job *job, const struct hm_frame *frame,
    const struct worker_result *result, struct worker_program *in,
    struct hm_errbuf *errbuf)
{
	const bool in_packet = frame->n_raw != 0;
	const void *bytes = in_packet ? frame->raw : result->bytes;
	const size_t n_source = in_packet ? frame->n_raw : job->source_bytes;
	uint32_t i = 0;
	int error = HM_OK;

	if (n_source > HM_MAX_SOURCE_BYTES || n_source > result->n_bytes) {
		hm_errbuf_set(errbuf, "the source has more than %u bytes",
		    HM_MAX_SOURCE_BYTES);
		return HM_E_INVALID;
	}
	if (n_source != 0 && memchr(bytes, 0, n_source) != NULL) {
		hm_errbuf_set(errbuf, "the source holds a NUL byte");
		return HM_E_COMPILE;
	}
	error = hm_options_check(job->n_options, job->options,
	    in->client_options, errbuf);
	if (error != HM_OK)
		return error;
	in->source = malloc(n_source + 1);
	if (in->source == NULL)
		return HM_E_NOMEM;
	if (n_source != 0)
		memcpy(in->source, bytes, n_source);
	in->source[n_source] = 0;
	in->program.source = in->source;
	worker_add_base_options(in, job->arch);
	for (i = 0; i < job->n_options; i++)
		worker_add_option(in, in->client_options[i]);
	return HM_OK;
}

static int
worker_prepare(const struct hm_job *job, const struct hm_frame *frame,
    const struct worker_result *result, struct worker_program *in,
    struct hm_errbuf *errbuf)
{
	in->program.header_names = in->header_names;
	in->program.header_texts = in->header_texts;
	in->program.options = in->options;
	switch (job->kind) {
	case HM_JOB_OWN:
		return worker_prepare_own(job, in, errbuf);
	case HM_JOB_CLIENT:
		return worker_prepare_client(job, frame, result, in, errbuf);
	case HM_JOB_PROBE:
		in->program.source = worker_probe_source;
		worker_add_base_options(in, job->arch);
		return HM_OK;
	}
	hm_errbuf_set(errbuf, "unknown kind of job");
	return HM_E_INVALID;
}

/* Cut at the end of a line where that is possible, and say so. */
static void
worker_cut_log(char *log)
{
	static const char notice[] = "humming-worker: log cut at 16 KiB\n";
	const size_t n_kept = HM_MAX_LOG_BYTES - (sizeof(notice) - 1) - 1;
	char *end = NULL;

	if (strlen(log) <= HM_MAX_LOG_BYTES)
		return;
	log[n_kept] = 0;
	end = strrchr(log, '\n');
	if (end == NULL) {
		end = log + n_kept;
		*end = '\n';
	}
	memcpy(end + 1, notice, sizeof(notice));
}

/* What the log says goes into the reply, the log last, as it is cut. */
static void
worker_put_log(const struct hm_job *job, char *log, int error,
    struct hm_job_result *reply, struct hm_errbuf *errbuf)
{
	const char *entry = job->entry[0] == 0 ? NULL : job->entry;
	struct hm_report report;

	if (log == NULL)
		return;
	(void)hm_report_parse(log, entry, &report);
	if (error == HM_OK) {
		reply->registers = report.registers;
		reply->spill_bytes = report.spill_bytes;
		reply->smem_bytes = report.smem_bytes;
		memcpy(reply->entries, report.entries, sizeof(report.entries));
		hm_errbuf_set(errbuf, "%s", report.warning);
	}
	worker_cut_log(log);
	reply->log = log;
}

static int
worker_compile(struct worker *worker, const struct hm_job *job,
    const struct hm_frame *frame, const struct worker_result *result,
    struct hm_job_result *reply, struct hm_errbuf *errbuf)
{
	struct hm_toolchain_output output = {.image = result->bytes,
	    .size = result->n_bytes};
	struct worker_program *in = NULL;
	int error = HM_OK;

	error = hm_toolchain_check_arch(worker->toolchain, job->arch, errbuf);
	if (error != HM_OK)
		return error;
	in = calloc(1, sizeof(*in));
	if (in == NULL)
		return HM_E_NOMEM;
	error = worker_prepare(job, frame, result, in, errbuf);
	if (error != HM_OK)
		goto out;
	error = hm_toolchain_compile(worker->toolchain, &in->program, &output,
	    errbuf);
	worker_put_log(job, output.log, error, reply, errbuf);
	reply->image_bytes = (uint32_t)output.n_image;
	reply->compile_us = output.compile_us;
out:
	free(in->source);
	free(in);
	return error;
}

/* The whole memory file has to be there: a map beyond its end would fault. */
static int
worker_map(int fd, size_t n_bytes, struct worker_result *result_out,
    struct hm_errbuf *errbuf)
{
	void *bytes = NULL;

	if (fd == -1 || n_bytes == 0 || n_bytes > HM_MAX_IMAGE_BYTES ||
	    lseek(fd, 0, SEEK_END) < (off_t)n_bytes) {
		hm_errbuf_set(errbuf, "the job has no memory file of %zu bytes",
		    n_bytes);
		return HM_E_INVALID;
	}
	bytes = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED) {
		hm_errbuf_set(errbuf, "cannot map the job's memory file");
		return HM_E_NOMEM;
	}
	result_out->bytes = bytes;
	result_out->n_bytes = n_bytes;
	return HM_OK;
}

/* Fills the reply; the map is gone when it returns. */
static void
worker_do(struct worker *worker, const struct hm_job *job,
    const struct hm_frame *frame, struct hm_job_result *reply)
{
	struct worker_result result = {0};
	struct hm_errbuf errbuf = {.text = ""};
	int error = HM_OK;

	error = worker_map(frame->fd, job->result_bytes, &result, &errbuf);
	if (error == HM_OK) {
		error =
		    worker_compile(worker, job, frame, &result, reply, &errbuf);
		(void)munmap(result.bytes, result.n_bytes);
	}
	if (error != HM_OK && errbuf.text[0] == 0)
		hm_errbuf_set(&errbuf, "%s", hm_strerror(error));
	reply->error = error;
	memcpy(reply->message, errbuf.text, sizeof(errbuf.text));
	reply->resident_kib = worker_resident_kib(worker);
}

static int
worker_on_job(struct worker *worker, const struct hm_frame *frame)
{
	struct hm_job job = {0};
	struct hm_job_result reply = {0};
	size_t n_body = 0;
	int error = HM_OK;

	error = hm_codec_unpack_job(frame->body, frame->n_body, &job);
	if (error != HM_OK)
		return error;
	worker_do(worker, &job, frame, &reply);
	error = hm_codec_pack_job_result(&reply, worker->body,
	    sizeof(worker->body) - HM_FRAME_HEADER_BYTES, &n_body);
	if (error == HM_OK)
		error = worker_send(worker, HM_FRAME_JOB_RESULT,
		    frame->request_id, n_body);
	hm_job_result_done(&reply);
	hm_job_done(&job);
	return error;
}

/* Returns what ended the loop: HM_E_UNAVAILABLE when the daemon closed. */
static int
worker_loop(struct worker *worker)
{
	struct hm_frame frame;
	int error = HM_OK;

	while (error == HM_OK) {
		error = worker_recv(worker, &frame);
		if (error != HM_OK)
			break;
		if (frame.type == HM_FRAME_JOB)
			error = worker_on_job(worker, &frame);
		else
			error = HM_E_PROTOCOL;
		hm_fd_close(&frame.fd);
	}
	return error;
}

/* Compile something behind the sandbox: shows that the rest will work. */
static int
worker_probe(struct worker *worker, struct hm_errbuf *errbuf)
{
	const struct hm_job job = {.kind = HM_JOB_PROBE,
	    .arch = WORKER_PROBE_ARCH,
	    .entry = "hm_probe"};
	const struct hm_frame frame = {.fd = -1};
	struct worker_result result = {.n_bytes = WORKER_PROBE_BYTES};
	struct hm_job_result reply = {0};
	int error = HM_E_NOMEM;

	result.bytes = malloc(result.n_bytes);
	if (result.bytes != NULL)
		error = worker_compile(worker, &job, &frame, &result, &reply,
		    errbuf);
	free(result.bytes);
	hm_job_result_done(&reply);
	if (error != HM_OK)
		hm_errbuf_prefix(errbuf, "the compiler's probe failed");
	return error;
}

/* Everything up to the first job; errors go into ready, not up. */
static void
worker_start(struct worker *worker, const char *where,
    struct hm_worker_ready *ready)
{
	const struct hm_sandbox sandbox = {.extra_bytes = WORKER_EXTRA_BYTES,
	    .file_bytes = HM_JOB_RESULT_BYTES};
	struct hm_errbuf errbuf = {.text = ""};
	struct hm_errbuf missing = {.text = ""};

	ready->error = hm_toolchain_open(where, &worker->toolchain, &errbuf);
	if (ready->error == HM_OK) {
		(void)snprintf(ready->compiler, sizeof(ready->compiler), "%s",
		    hm_toolchain_identity(worker->toolchain));
		(void)snprintf(ready->archs, sizeof(ready->archs), "%s",
		    hm_toolchain_archs(worker->toolchain));
		worker->statm_fd =
		    open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
		ready->sandbox = hm_sandbox_install(&sandbox, &missing);
		ready->error = worker_probe(worker, &errbuf);
	}
	if (ready->error == HM_OK && missing.text[0] != 0)
		hm_errbuf_set(&errbuf, "the sandbox is not whole: %s",
		    missing.text);
	memcpy(ready->message, errbuf.text, sizeof(errbuf.text));
}

int
hm_worker_run(int channel_fd, const char *where)
{
	/* Too large for a stack, and there is one a process. */
	static struct worker worker = {.statm_fd = -1};
	struct hm_worker_ready ready = {0};
	size_t n_body = 0;
	int error = HM_OK;

	if (hm_sandbox_detach(channel_fd) != HM_OK)
		return 1;
	worker.channel_fd = channel_fd;
	worker_start(&worker, where, &ready);
	error = hm_codec_pack_worker_ready(&ready, worker.body,
	    sizeof(worker.body) - HM_FRAME_HEADER_BYTES, &n_body);
	if (error == HM_OK)
		error = worker_send(&worker, HM_FRAME_WORKER_READY, 0, n_body);
	if (error == HM_OK && ready.error == HM_OK)
		error = worker_loop(&worker);
	hm_fd_close(&worker.statm_fd);
	hm_toolchain_close(worker.toolchain);
	return error == HM_OK || error == HM_E_UNAVAILABLE ? 0 : 1;
}
