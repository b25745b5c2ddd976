/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - getopt_long with messages of our own: exactly one line each.
 */
#include "daemon/options.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <unistd.h>

#include "daemon/limits.h"
#include "daemon/log.h"
#include "daemon/paths.h"

const char hm_options_usage[] =
    "usage: hummingd [-f] [-h] [-n] [-v]... [-c FILE] [--socket PATH]\n"
    "                [--store DIR] [--pack FILE]... [--private] [--version]\n"
    "\n"
    "  -f             log plainly to stderr, also under a service manager\n"
    "  -n             check the configuration and exit\n"
    "  -v             say more; twice: debug\n"
    "  -c FILE        configuration (default " HM_CONFIG_FILE ", if there)\n"
    "  --socket PATH  where to listen\n"
    "  --store DIR    where kernels are kept\n"
    "  --pack FILE    a read-only pack of kernels (not in this release)\n"
    "  --private      for one user: leaves when idle, obeys `stop`\n"
    "  --version, -h, --help\n"
    "\n"
    "hummingd(8) has the details, hummingd.conf(5) every setting.\n";

enum {
	OPTION_SOCKET = 256,
	OPTION_STORE,
	OPTION_PACK,
	OPTION_PRIVATE,
	OPTION_VERSION,
	OPTION_HELP
};

static const struct option options_long[] = {
    {"socket", required_argument, NULL, OPTION_SOCKET},
    {"store", required_argument, NULL, OPTION_STORE},
    {"pack", required_argument, NULL, OPTION_PACK},
    {"private", no_argument, NULL, OPTION_PRIVATE},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static int
options_take(int option, struct hm_options *options, struct hm_errbuf *errbuf)
{
	switch (option) {
	case 'f':
		options->is_foreground = true;
		break;
	case 'n':
		options->action = HM_OPTIONS_CHECK;
		break;
	case 'v':
		options->verbose++;
		break;
	case 'c':
		options->config = optarg;
		break;
	case OPTION_SOCKET:
		options->socket = optarg;
		break;
	case OPTION_STORE:
		options->store = optarg;
		break;
	case OPTION_PRIVATE:
		options->is_private = true;
		break;
	case OPTION_VERSION:
		options->action = HM_OPTIONS_VERSION;
		break;
	case 'h':
	case OPTION_HELP:
		options->action = HM_OPTIONS_HELP;
		break;
	case OPTION_PACK:
		hm_errbuf_set(errbuf,
		    "--pack %s: packs are not supported by this release",
		    optarg);
		return HM_E_UNSUPPORTED;
	case ':':
	default:
		return HM_E_INVALID;
	}
	return HM_OK;
}

int
hm_options_parse(int argc, char **argv, struct hm_options *options_out,
    struct hm_errbuf *errbuf)
{
	struct hm_options options = {.action = HM_OPTIONS_RUN};
	int error;
	int option;

	opterr = 0;
	optind = 0; /* glibc: start anew, tests parse more than once */
	for (;;) {
		int at = optind == 0 ? 1 : optind;

		option = getopt_long(argc, argv, ":fnvc:h", options_long, NULL);
		if (option == -1)
			break;
		error = options_take(option, &options, errbuf);
		if (error == HM_E_INVALID)
			hm_errbuf_set(errbuf, "%s '%s'; try 'hummingd --help'",
			    option == ':' ? "a value is missing after"
					  : "wrong option",
			    argv[option == ':' ? optind - 1 : at]);
		if (error != HM_OK)
			return error;
	}
	if (optind < argc) {
		hm_errbuf_set(errbuf,
		    "unexpected operand '%s'; try 'hummingd --help'",
		    argv[optind]);
		return HM_E_INVALID;
	}
	*options_out = options;
	return HM_OK;
}

static int
options_load_file(const struct hm_options *options,
    struct hm_settings *settings, struct hm_errbuf *errbuf)
{
	if (options->config != NULL)
		return hm_config_load(settings, options->config, errbuf);
	if (options->is_private || access(HM_CONFIG_FILE, F_OK) != 0)
		return HM_OK;
	return hm_config_load(settings, HM_CONFIG_FILE, errbuf);
}

int
hm_options_apply(const struct hm_options *options,
    struct hm_settings *settings_out, struct hm_errbuf *errbuf)
{
	int error;

	hm_config_init(settings_out);
	error = options_load_file(options, settings_out, errbuf);
	if (error == HM_OK)
		error = hm_config_load_environment(settings_out, errbuf);
	if (error == HM_OK && options->socket != NULL)
		error = hm_config_set(settings_out, "socket", options->socket,
		    errbuf);
	if (error == HM_OK && options->store != NULL)
		error = hm_config_set(settings_out, "store", options->store,
		    errbuf);
	if (error != HM_OK)
		return error;
	settings_out->is_private = options->is_private;
	settings_out->is_foreground = options->is_foreground;
	for (unsigned i = 0; i < options->verbose; i++) {
		if (settings_out->log_level < HM_LOG_DEBUG)
			settings_out->log_level++;
	}
	return hm_paths_resolve(settings_out, errbuf);
}

int
hm_options_verify(const struct hm_settings *settings, struct hm_errbuf *errbuf)
{
	const struct {
		const char *key, *name;
	} groups[] = {{"group", settings->group},
	    {"group.admin", settings->group_admin},
	    {"group.read", settings->group_read}};
	struct hm_settings usual;

	if (settings->nvrtc[0] != '\0' && access(settings->nvrtc, F_OK) != 0) {
		hm_errbuf_set(errbuf, "compiler.nvrtc: %s: %s", settings->nvrtc,
		    strerror(errno));
		return HM_E_INVALID;
	}
	if (settings->store_quota_bytes > settings->store_cap_bytes) {
		hm_errbuf_set(errbuf,
		    "store.quota: %llu bytes are more than store.cap",
		    (unsigned long long)settings->store_quota_bytes);
		return HM_E_INVALID;
	}
	/* The usual group need not be there: then only root and the daemon's
	 * own user have its rights. */
	hm_config_init(&usual);
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		if (groups[i].name[0] == '\0' ||
		    strcmp(groups[i].name, usual.group) == 0 ||
		    hm_limits_has_group(groups[i].name))
			continue;
		hm_errbuf_set(errbuf, "%s: there is no group '%s'",
		    groups[i].key, groups[i].name);
		return HM_E_INVALID;
	}
	return HM_OK;
}
