/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawned_worker.c - the real humming-worker, driven as the daemon drives it.
 */
#include "spawned_worker.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/fd.h"

/* No job of ours may take longer, on a busy machine either. */
#define SPAWNED_WAIT_MS      60000
#define SPAWNED_RESULT_BYTES ((size_t)1 << 20)
/* What goes beside a job's body in one packet. */
#define SPAWNED_RAW_BYTES ((size_t)40 << 10)

void
spawned_worker_spawn(struct spawned_worker *worker, char **environment)
{
	char path[] = HM_BIN_DIR "/humming-worker";
	char *argv[] = {path, NULL};
	posix_spawn_file_actions_t actions;
	int pair[2] = {-1, -1};

	memset(worker, 0, sizeof(*worker));
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	assert_int_equal(posix_spawn_file_actions_adddup2(&actions, pair[1], 3),
	    0);
	assert_int_equal(posix_spawn(&worker->pid, path, &actions, NULL, argv,
			     environment == NULL ? environ : environment),
	    0);
	assert_int_equal(posix_spawn_file_actions_destroy(&actions), 0);
	(void)close(pair[1]);
	worker->fd = pair[0];
}

static void
spawned_worker_reap(struct spawned_worker *worker)
{
	if (worker->pid != 0)
		assert_int_equal(
		    wait4(worker->pid, &worker->status, 0, &worker->usage),
		    worker->pid);
	worker->pid = 0;
}

/* HM_OK, or HM_E_UNAVAILABLE when the worker has died; then it is reaped. */
static int
spawned_worker_recv(struct spawned_worker *worker, struct hm_frame *frame_out)
{
	struct pollfd channel = {.fd = worker->fd, .events = POLLIN};
	int error = HM_E_BUSY;

	while (error == HM_E_BUSY) {
		if (poll(&channel, 1, SPAWNED_WAIT_MS) != 1) {
			(void)kill(worker->pid, SIGKILL);
			spawned_worker_reap(worker);
			fail_msg("the worker does not answer");
		}
		error = hm_frame_recv(worker->fd, worker->packet, frame_out);
	}
	if (error == HM_E_UNAVAILABLE)
		spawned_worker_reap(worker);
	else
		assert_int_equal(error, HM_OK);
	return error;
}

void
spawned_worker_wait_ready(struct spawned_worker *worker)
{
	struct hm_frame frame;

	assert_int_equal(spawned_worker_recv(worker, &frame), HM_OK);
	assert_int_equal(frame.type, HM_FRAME_WORKER_READY);
	assert_int_equal(frame.fd, -1);
	assert_int_equal(hm_codec_unpack_worker_ready(frame.body, frame.n_body,
			     &worker->ready),
	    HM_OK);
}

void
spawned_worker_start(struct spawned_worker *worker, char **environment)
{
	spawned_worker_spawn(worker, environment);
	spawned_worker_wait_ready(worker);
}

void
spawned_worker_limit_cpu(const struct spawned_worker *worker, rlim_t seconds)
{
	struct rlimit limit;

	assert_int_equal(prlimit(worker->pid, RLIMIT_CPU, NULL, &limit), 0);
	limit.rlim_cur = seconds;
	assert_int_equal(prlimit(worker->pid, RLIMIT_CPU, &limit, NULL), 0);
}

int
spawned_worker_submit(struct spawned_worker *worker, const struct hm_job *job,
    const void *raw, size_t n_raw, int fd, struct hm_job_result *result_out)
{
	static uint8_t body[HM_FRAME_MAX_BYTES];
	struct hm_frame frame = {.type = HM_FRAME_JOB,
	    .body = body,
	    .raw = raw,
	    .n_raw = n_raw,
	    .fd = fd};

	frame.request_id = ++worker->last_id;
	assert_int_equal(
	    hm_codec_pack_job(job, body, sizeof(body), &frame.n_body), HM_OK);
	assert_int_equal(hm_frame_send(worker->fd, &frame), HM_OK);
	if (spawned_worker_recv(worker, &frame) != HM_OK)
		return 0;
	assert_int_equal(frame.type, HM_FRAME_JOB_RESULT);
	assert_int_equal(frame.request_id, worker->last_id);
	assert_int_equal(
	    hm_codec_unpack_job_result(frame.body, frame.n_body, result_out),
	    HM_OK);
	return 1;
}

void
spawned_worker_compile(struct spawned_worker *worker, struct spawned_job *job)
{
	const size_t n_source = strlen(job->source);
	const bool in_packet = n_source <= SPAWNED_RAW_BYTES;
	struct hm_job wire = {.kind = HM_JOB_CLIENT,
	    .source_name = "test.cu",
	    .n_options = job->n_options,
	    .options = job->options,
	    .source_bytes = (uint32_t)n_source};
	void *map = NULL;
	int fd = -1;

	if (job->result_bytes == 0)
		job->result_bytes = SPAWNED_RESULT_BYTES;
	wire.result_bytes = (uint32_t)job->result_bytes;
	memcpy(wire.arch, job->arch, strlen(job->arch) + 1);
	assert_int_equal(hm_fd_memory("result", job->result_bytes, &fd), HM_OK);
	if (!in_packet)
		assert_int_equal(hm_fd_write_all(fd, job->source, n_source),
		    HM_OK);
	job->answered =
	    spawned_worker_submit(worker, &wire, in_packet ? job->source : NULL,
		in_packet ? n_source : 0, fd, &job->result);
	map = mmap(NULL, job->result_bytes, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	job->image = malloc(job->result_bytes);
	assert_non_null(job->image);
	memcpy(job->image, map, job->result_bytes);
	(void)munmap(map, job->result_bytes);
	(void)close(fd);
}

void
spawned_job_done(struct spawned_job *job)
{
	hm_job_result_done(&job->result);
	free(job->image);
	job->image = NULL;
}

void
spawned_worker_stop(struct spawned_worker *worker)
{
	struct pollfd end = {.fd = worker->fd, .events = POLLIN};

	if (worker->fd != -1) {
		(void)shutdown(worker->fd, SHUT_WR);
		/* Hung up once the worker's end is gone, with the worker. */
		if (poll(&end, 1, 10000) != 1 && worker->pid != 0)
			(void)kill(worker->pid, SIGKILL);
		(void)close(worker->fd);
	}
	worker->fd = -1;
	spawned_worker_reap(worker);
}
