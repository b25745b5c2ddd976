/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - the one set of error codes, and the text that travels with them.
 *
 * Every fallible function of the house returns HM_OK or one of the negative
 * codes below; their values are those of enum humming_error in the public
 * header, and a test keeps the two equal. Detail meant for a person goes into
 * an optional struct hm_errbuf, filled once, at the place that knows.
 */
#ifndef HM_PROTO_ERROR_H
#define HM_PROTO_ERROR_H

enum hm_error {
	HM_OK = 0,
	HM_E_INVALID = -1, /* the caller's argument or a file is wrong */
	HM_E_NOMEM = -2,
	HM_E_SYSTEM = -3,      /* a system call failed, errno kept */
	HM_E_UNAVAILABLE = -4, /* no daemon, or it went away */
	HM_E_TIMEOUT = -5,
	HM_E_BUSY = -6, /* a limit is reached; try again */
	HM_E_DENIED = -7,
	HM_E_PROTOCOL = -8,     /* malformed bytes from the peer */
	HM_E_VERSION = -9,      /* schema, kernel ABI or pack layout differ */
	HM_E_UNSUPPORTED = -10, /* legal, but not something we can do here */
	HM_E_COMPILE = -11,
	HM_E_CORRUPT = -12, /* a checksum does not match */
	HM_E_INTERNAL = -13
};

/* Text for a person: one line, no newline at its end. */
struct hm_errbuf {
	char text[512];
};

/**
 * Describe an error in words.
 *
 * error    a value of enum hm_error; anything else gets a generic text
 *
 * Any thread. Returns static text, never NULL.
 */
const char *hm_strerror(int error);

/**
 * Fill an error buffer, replacing what it held.
 *
 * errbuf   NULL is allowed and ignored
 * format   as for printf; control characters in the result become '?', so
 *          that bytes of a client or a file never break a log line
 *
 * Keeps errno. Any thread, one errbuf per thread.
 */
void hm_errbuf_set(struct hm_errbuf *errbuf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Forget the text; NULL is allowed and ignored. */
void hm_errbuf_clear(struct hm_errbuf *errbuf);

/**
 * Put context in front of what an error buffer already says, as
 * "context: text". NULL and an empty buffer are allowed.
 */
void hm_errbuf_prefix(struct hm_errbuf *errbuf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
