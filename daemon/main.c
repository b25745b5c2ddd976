/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - hummingd: options in, exit status out.
 *
 * Always in the foreground; whoever wants it elsewhere has a service manager.
 * 0 after a drain, 1 when it cannot run, 2 for wrong usage; both failures are
 * one line on stderr. stdout stays empty but for --help, --version and -n.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/options.h"
#include "daemon/server.h"
#include "proto/fd.h"

enum { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static int
main_fail(int status, int error, const struct hm_errbuf *why)
{
	(void)fprintf(stderr, "hummingd: %s\n",
	    why->text[0] == '\0' ? hm_strerror(error) : why->text);
	return status;
}

/* A peer that goes away and a file that may not grow are error codes, never
 * signals. */
static void
main_ignore_signals(void)
{
	struct sigaction ignore;

	memset(&ignore, 0, sizeof(ignore));
	ignore.sa_handler = SIG_IGN;
	(void)sigaction(SIGPIPE, &ignore, NULL);
	(void)sigaction(SIGXFSZ, &ignore, NULL);
}

static int
main_check(const struct hm_settings *settings)
{
	struct hm_errbuf why = {""};
	int error = hm_options_verify(settings, &why);

	if (error != HM_OK)
		return main_fail(EXIT_FAILED, error, &why);
	(void)puts("hummingd: the configuration is good");
	return EXIT_FINE;
}

static int
main_serve(const struct hm_options *options, struct hm_settings *settings)
{
	struct hm_server *server = NULL;
	struct hm_errbuf why = {""};
	int error = hm_server_open(options, settings, &server, &why);

	if (error != HM_OK)
		return main_fail(EXIT_FAILED, error, &why);
	error = hm_server_run(server, &why);
	hm_server_close(server);
	if (error != HM_OK)
		return main_fail(EXIT_FAILED, error, &why);
	hm_log(HM_LOG_SERVER, HM_LOG_NOTICE, "stopped");
	return EXIT_FINE;
}

int
main(int argc, char **argv)
{
	static struct hm_settings settings;
	struct hm_log_options log = {.fd = STDERR_FILENO};
	struct hm_options options;
	struct hm_errbuf why = {""};
	int error;

	/* Else the log could go into the store. */
	error = hm_fd_reserve_stdio();
	if (error != HM_OK) {
		hm_errbuf_set(&why, "/dev/null: %s", strerror(errno));
		return main_fail(EXIT_FAILED, error, &why);
	}
	error = hm_options_parse(argc, argv, &options, &why);
	if (error != HM_OK)
		return main_fail(error == HM_E_UNSUPPORTED ? EXIT_FAILED
							   : EXIT_USAGE,
		    error, &why);
	if (options.action == HM_OPTIONS_HELP) {
		(void)fputs(hm_options_usage, stdout);
		return EXIT_FINE;
	}
	if (options.action == HM_OPTIONS_VERSION) {
		(void)puts("hummingd " HM_VERSION);
		return EXIT_FINE;
	}
	error = hm_options_apply(&options, &settings, &why);
	if (error == HM_OK) {
		log.level = settings.log_level;
		log.groups = settings.log_groups;
		log.plain = settings.is_foreground;
		error = hm_log_open(&log, &why);
	}
	if (error != HM_OK)
		return main_fail(EXIT_FAILED, error, &why);
	if (options.action == HM_OPTIONS_CHECK)
		return main_check(&settings);
	main_ignore_signals();
	return main_serve(&options, &settings);
}
