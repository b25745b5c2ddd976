/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.c - codes in words, and error buffers that are safe to print.
 *
 * Text is formatted into a local buffer first, so that an argument may point
 * into the error buffer that is being replaced.
 */
#include "proto/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const error_texts[] = {
    [-HM_OK] = "success",
    [-HM_E_INVALID] = "invalid argument",
    [-HM_E_NOMEM] = "out of memory",
    [-HM_E_SYSTEM] = "system call failed",
    [-HM_E_UNAVAILABLE] = "hummingd is not available",
    [-HM_E_TIMEOUT] = "deadline passed",
    [-HM_E_BUSY] = "busy, try again",
    [-HM_E_DENIED] = "permission denied",
    [-HM_E_PROTOCOL] = "malformed message",
    [-HM_E_VERSION] = "incompatible version",
    [-HM_E_UNSUPPORTED] = "not supported here",
    [-HM_E_COMPILE] = "compilation failed",
    [-HM_E_CORRUPT] = "checksum does not match",
    [-HM_E_INTERNAL] = "internal error",
};

const char *
hm_strerror(int error)
{
	const int n_texts = (int)(sizeof error_texts / sizeof error_texts[0]);

	if (error > 0 || error <= -n_texts)
		return "unknown error";
	return error_texts[-error];
}

/* Bytes from 0x80 up stay: they may be UTF-8. */
static void
error_clean(char *text)
{
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c == 0x7f)
			*text = '?';
	}
}

/* Append what fits; the rest of a long story is cut. */
static void
error_append(struct hm_errbuf *errbuf, const char *text)
{
	size_t n_held = strlen(errbuf->text);
	size_t n_text = strnlen(text, sizeof errbuf->text - 1 - n_held);

	memcpy(errbuf->text + n_held, text, n_text);
	errbuf->text[n_held + n_text] = '\0';
}

void
hm_errbuf_set(struct hm_errbuf *errbuf, const char *format, ...)
{
	int saved_errno = errno;
	struct hm_errbuf text = {""};
	va_list arguments;

	if (errbuf == NULL)
		return;
	va_start(arguments, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is, above */
	(void)vsnprintf(text.text, sizeof text.text, format, arguments);
	va_end(arguments);
	error_clean(text.text);
	*errbuf = text;
	errno = saved_errno;
}

void
hm_errbuf_clear(struct hm_errbuf *errbuf)
{
	if (errbuf != NULL)
		errbuf->text[0] = '\0';
}

void
hm_errbuf_prefix(struct hm_errbuf *errbuf, const char *format, ...)
{
	int saved_errno = errno;
	struct hm_errbuf text = {""};
	va_list arguments;

	if (errbuf == NULL)
		return;
	va_start(arguments, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is, above */
	(void)vsnprintf(text.text, sizeof text.text, format, arguments);
	va_end(arguments);
	error_clean(text.text);
	if (errbuf->text[0] != '\0') {
		error_append(&text, ": ");
		error_append(&text, errbuf->text);
	}
	*errbuf = text;
	errno = saved_errno;
}
