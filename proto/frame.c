/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.c - one packet, one frame, at most one descriptor.
 *
 * Nothing here allocates or raises SIGPIPE, and only hm_frame_recv_wait blocks.
 * Whatever descriptors a packet brings are either handed to the caller (exactly
 * one, in a good frame) or closed before the receive returns.
 */
#include "proto/frame.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "proto/fd.h"

/* Room for more than one, so that a second descriptor is seen and closed by us
 * rather than only reported as MSG_CTRUNC. */
#define FRAME_MAX_FDS 4

union frame_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(FRAME_MAX_FDS * sizeof(int))];
};

struct frame_fds {
	int fds[FRAME_MAX_FDS];
	size_t n;
};

static void
frame_store(uint8_t *bytes, size_t n_bytes, uint32_t value)
{
	for (size_t i = 0; i < n_bytes; i++)
		bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t
frame_load(const uint8_t *bytes, size_t n_bytes)
{
	uint32_t value = 0;

	for (size_t i = 0; i < n_bytes; i++)
		value |= (uint32_t)bytes[i] << (8 * i);
	return value;
}

static bool
frame_is_sendable(const struct hm_frame *frame)
{
	const size_t room = HM_FRAME_MAX_BYTES - HM_FRAME_HEADER_BYTES;

	if (frame->type > UINT8_MAX || frame->flags > UINT8_MAX)
		return false;
	if ((frame->body == NULL && frame->n_body != 0) ||
	    (frame->raw == NULL && frame->n_raw != 0))
		return false;
	return frame->n_body <= room && frame->n_raw <= room - frame->n_body;
}

static int
frame_send_error(int error_number)
{
	switch (error_number) {
	case EAGAIN:
		return HM_E_BUSY;
	case ETOOMANYREFS:
		return HM_E_UNSUPPORTED;
	case EPIPE:
	case ECONNRESET:
	case ECONNREFUSED:
	case ENOTCONN:
		return HM_E_UNAVAILABLE;
	}
	return HM_E_SYSTEM;
}

static void
frame_attach_fd(struct msghdr *message, union frame_control *control, int fd)
{
	struct cmsghdr *header;

	memset(control, 0, sizeof *control);
	message->msg_control = control->bytes;
	message->msg_controllen = CMSG_SPACE(sizeof fd);
	header = CMSG_FIRSTHDR(message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(header), &fd, sizeof fd);
}

/* sendmsg reads only, but struct iovec has no const. */
static void
frame_set_iovec(struct iovec *iov, const uint8_t *bytes, size_t n_bytes)
{
	memcpy(&iov->iov_base, &bytes, sizeof iov->iov_base);
	iov->iov_len = n_bytes;
}

int
hm_frame_send(int socket_fd, const struct hm_frame *frame)
{
	uint8_t header[HM_FRAME_HEADER_BYTES];
	union frame_control control;
	struct iovec iov[3];
	struct msghdr message = {.msg_iov = iov};
	ssize_t n;

	if (!frame_is_sendable(frame))
		return HM_E_INVALID;
	frame_store(header, 4, HM_FRAME_MAGIC);
	frame_store(header + 4, 2, HM_FRAME_VERSION);
	frame_store(header + 6, 1, frame->type);
	frame_store(header + 7, 1, frame->flags);
	frame_store(header + 8, 4, frame->request_id);
	frame_store(header + 12, 4, (uint32_t)frame->n_body);
	frame_set_iovec(&iov[0], header, sizeof header);
	frame_set_iovec(&iov[1], frame->body, frame->n_body);
	frame_set_iovec(&iov[2], frame->raw, frame->n_raw);
	message.msg_iovlen = frame->n_raw != 0 ? 3 : 2;
	if (frame->fd != -1)
		frame_attach_fd(&message, &control, frame->fd);

	do
		n = sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n == -1 && errno == EINTR);
	return n == -1 ? frame_send_error(errno) : HM_OK;
}

int
hm_frame_parse(const uint8_t *packet, size_t n_packet,
    struct hm_frame *frame_out)
{
	size_t n_body;

	if (n_packet < HM_FRAME_HEADER_BYTES || n_packet > HM_FRAME_MAX_BYTES)
		return HM_E_PROTOCOL;
	if (frame_load(packet, 4) != HM_FRAME_MAGIC)
		return HM_E_PROTOCOL;
	if (frame_load(packet + 4, 2) != HM_FRAME_VERSION)
		return HM_E_VERSION;
	n_body = frame_load(packet + 12, 4);
	if (n_body > n_packet - HM_FRAME_HEADER_BYTES)
		return HM_E_PROTOCOL;

	*frame_out = (struct hm_frame){
	    .type = frame_load(packet + 6, 1),
	    .flags = frame_load(packet + 7, 1),
	    .request_id = frame_load(packet + 8, 4),
	    .body = packet + HM_FRAME_HEADER_BYTES,
	    .n_body = n_body,
	    .raw = packet + HM_FRAME_HEADER_BYTES + n_body,
	    .n_raw = n_packet - HM_FRAME_HEADER_BYTES - n_body,
	    .fd = -1,
	};
	return HM_OK;
}

/* Every descriptor that came, whatever else is wrong with the packet. */
static void
frame_collect_fds(struct msghdr *message, struct frame_fds *fds_out)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	size_t n_bytes;

	fds_out->n = 0;
	for (; header != NULL; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET ||
		    header->cmsg_type != SCM_RIGHTS)
			continue;
		/* One such header a packet, no larger than our buffer. */
		n_bytes = header->cmsg_len - CMSG_LEN(0);
		memcpy(fds_out->fds, CMSG_DATA(header), n_bytes);
		fds_out->n = n_bytes / sizeof fds_out->fds[0];
	}
}

/*
 * What the flags of a received packet say. Control data that was cut although
 * no descriptor arrived means that our own table was full, not that the peer
 * sent too many.
 */
static int
frame_check_message(const struct msghdr *message, const struct frame_fds *fds)
{
	if ((message->msg_flags & MSG_TRUNC) != 0 || fds->n > 1)
		return HM_E_PROTOCOL;
	if ((message->msg_flags & MSG_CTRUNC) == 0)
		return HM_OK;
	if (fds->n > 0)
		return HM_E_PROTOCOL;
	errno = EMFILE;
	return HM_E_SYSTEM;
}

/* EINTR only gets here from a wait, which must not begin anew. */
static int
frame_recv_error(int error_number)
{
	if (error_number == EAGAIN || error_number == EINTR)
		return HM_E_BUSY;
	if (error_number == ECONNRESET || error_number == ENOTCONN)
		return HM_E_UNAVAILABLE;
	return HM_E_SYSTEM;
}

static int
frame_recv(int socket_fd, int flags, uint8_t *buffer,
    struct hm_frame *frame_out)
{
	union frame_control control;
	struct iovec iov = {buffer, HM_FRAME_MAX_BYTES};
	struct msghdr message = {
	    .msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.bytes,
	    .msg_controllen = sizeof control.bytes,
	};
	struct frame_fds fds;
	ssize_t n;
	int error;

	do
		n = recvmsg(socket_fd, &message, flags | MSG_CMSG_CLOEXEC);
	while (n == -1 && errno == EINTR && (flags & MSG_DONTWAIT) != 0);
	if (n == -1)
		return frame_recv_error(errno);

	/* Also for an empty packet, which looks like end of file. */
	frame_collect_fds(&message, &fds);
	error = n == 0 ? HM_E_UNAVAILABLE : frame_check_message(&message, &fds);
	if (error == HM_OK)
		error = hm_frame_parse(buffer, (size_t)n, frame_out);
	if (error == HM_OK) {
		frame_out->fd = fds.n == 1 ? fds.fds[0] : -1;
		return HM_OK;
	}
	for (size_t i = 0; i < fds.n; i++)
		hm_fd_close(&fds.fds[i]);
	return error;
}

int
hm_frame_recv(int socket_fd, uint8_t *buffer, struct hm_frame *frame_out)
{
	return frame_recv(socket_fd, MSG_DONTWAIT, buffer, frame_out);
}

int
hm_frame_recv_wait(int socket_fd, uint8_t *buffer, struct hm_frame *frame_out)
{
	return frame_recv(socket_fd, 0, buffer, frame_out);
}
