/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_options.c - argv to struct hm_ctl.
 *
 * One pass of getopt_long, which permutes: options may stand anywhere, the
 * first operand is the command. What a command does not take is refused
 * afterwards, by its table entry.
 */
#include "client/ctl.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/deadline.h"

enum option_code {
	OPTION_SOCKET = 256,
	OPTION_TIMEOUT,
	OPTION_VERSION,
	OPTION_ARCH,
	OPTION_JSON,
	OPTION_WATCH,
	OPTION_MODEL,
	OPTION_TP,
	OPTION_EP,
	OPTION_QUANT,
	OPTION_MAX_M,
	OPTION_JOBS,
	OPTION_ALL
};

static const struct option options_long[] = {
    {"socket", required_argument, NULL, OPTION_SOCKET},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"arch", required_argument, NULL, OPTION_ARCH},
    {"output", required_argument, NULL, 'o'},
    {"json", no_argument, NULL, OPTION_JSON},
    {"watch", no_argument, NULL, OPTION_WATCH},
    {"model", required_argument, NULL, OPTION_MODEL},
    {"tp", required_argument, NULL, OPTION_TP},
    {"ep", required_argument, NULL, OPTION_EP},
    {"quant", required_argument, NULL, OPTION_QUANT},
    {"max-m", required_argument, NULL, OPTION_MAX_M},
    {"jobs", required_argument, NULL, OPTION_JOBS},
    {"all", no_argument, NULL, OPTION_ALL},
    {NULL, 0, NULL, 0},
};

/* One line, whatever the text holds. */
static void
options_say(const struct hm_ctl *ctl, const char *text, const char *tail)
{
	struct hm_errbuf line;

	hm_errbuf_set(&line, "%s%s%s%s",
	    ctl->command != NULL ? ctl->command : "",
	    ctl->command != NULL ? ": " : "", text, tail);
	(void)fflush(stdout);
	(void)fprintf(stderr, "hummingctl: %s\n", line.text);
}

int
hm_ctl_fail(const struct hm_ctl *ctl, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	options_say(ctl, text, "");
	return HM_CTL_FAILED;
}

int
hm_ctl_usage(const struct hm_ctl *ctl, const char *format, ...)
{
	char text[300], tail[64];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	(void)snprintf(tail, sizeof tail, " (see 'hummingctl%s%.20s --help')",
	    ctl->command != NULL ? " " : "",
	    ctl->command != NULL ? ctl->command : "");
	options_say(ctl, text, tail);
	return HM_CTL_USAGE;
}

const char *
hm_ctl_why(int error, const struct hm_errbuf *errbuf)
{
	return errbuf->text[0] != '\0' ? errbuf->text : hm_strerror(error);
}

/* A positive number up to `most`; getopt's NULL is none. */
static bool
options_number(const char *text, uint32_t most, uint32_t *value_out)
{
	uint64_t value = 0;

	if (text == NULL)
		return false;
	for (const char *digit = text; *digit != '\0'; digit++) {
		if (*digit < '0' || *digit > '9')
			return false;
		value = value * 10 + (uint64_t)(*digit - '0');
		if (value > most)
			return false;
	}
	if (value == 0)
		return false;
	*value_out = (uint32_t)value;
	return true;
}

static const char *
options_name(int code)
{
	const struct option *option = options_long;

	while (option->name != NULL && option->val != code)
		option++;
	return option->name;
}

static int
options_take_number(const struct hm_ctl *ctl, const char *name, uint32_t most,
    uint32_t *value_out)
{
	if (options_number(optarg, most, value_out))
		return HM_CTL_OK;
	return hm_ctl_usage(ctl, "--%s takes a number from 1 to %u, not '%s'",
	    name, most, optarg);
}

static int
options_take_define(struct hm_ctl *ctl)
{
	if (ctl->n_defines == HM_CTL_MAX_DEFINES)
		return hm_ctl_usage(ctl, "more than %d definitions",
		    HM_CTL_MAX_DEFINES);
	ctl->defines[ctl->n_defines++] = optarg;
	ctl->given |= HM_CTL_DEFINE;
	return HM_CTL_OK;
}

/* Options that shape a model's plan. */
static int
options_take_model(struct hm_ctl *ctl, int code)
{
	ctl->given |= HM_CTL_MODEL;
	if (code == OPTION_TP || code == OPTION_EP || code == OPTION_QUANT)
		ctl->of_model = options_name(code);
	switch (code) {
	case OPTION_MODEL:
		ctl->model = optarg;
		return HM_CTL_OK;
	case OPTION_TP:
		return options_take_number(ctl, "tp", 1024,
		    &ctl->model_options.tensor_parallel);
	case OPTION_EP:
		return options_take_number(ctl, "ep", 1024,
		    &ctl->model_options.expert_parallel);
	case OPTION_QUANT:
		ctl->model_options.quant = optarg;
		return HM_CTL_OK;
	default:
		ctl->max_m_given = true;
		return options_take_number(ctl, "max-m", 1u << 20, &ctl->max_m);
	}
}

static int
options_take(struct hm_ctl *ctl, int code)
{
	if (optarg != NULL && optarg[0] == '\0')
		return code < OPTION_SOCKET
			   ? hm_ctl_usage(ctl,
				 "option -%c takes a value that is not empty",
				 code)
			   : hm_ctl_usage(ctl,
				 "option --%s takes a value that is not empty",
				 options_name(code));
	switch (code) {
	case 'h':
		ctl->help = true;
		return HM_CTL_OK;
	case OPTION_VERSION:
		ctl->version = true;
		return HM_CTL_OK;
	case OPTION_SOCKET:
		ctl->socket_path = optarg;
		return HM_CTL_OK;
	case OPTION_TIMEOUT:
		if (hm_deadline_read(optarg, &ctl->timeout_ms))
			return HM_CTL_OK;
		return hm_ctl_usage(ctl,
		    "--timeout takes seconds above 0, up to %u, as in 0.5; "
		    "not '%s'",
		    HM_DEADLINE_MAX_S, optarg);
	case OPTION_ARCH:
		ctl->given |= HM_CTL_ARCH;
		ctl->arch = optarg;
		return HM_CTL_OK;
	case 'o':
		ctl->given |= HM_CTL_OUTPUT;
		ctl->output = optarg;
		return HM_CTL_OK;
	case 'D':
		return options_take_define(ctl);
	case OPTION_JSON:
		ctl->given |= HM_CTL_JSON;
		ctl->json = true;
		return HM_CTL_OK;
	case OPTION_WATCH:
		ctl->given |= HM_CTL_WATCH;
		ctl->watch = true;
		return HM_CTL_OK;
	case OPTION_ALL:
		ctl->given |= HM_CTL_ALL;
		return HM_CTL_OK;
	case OPTION_JOBS:
		ctl->given |= HM_CTL_JOBS;
		return options_take_number(ctl, "jobs", 4096, &ctl->jobs);
	default:
		return options_take_model(ctl, code);
	}
}

/* getopt_long takes any beginning of a name that is unique today. HM_CTL_OK if
 * the name stands there whole. */
static int
options_check_whole(const struct hm_ctl *ctl, int index, char **argv)
{
	/* The value may be a word of its own. */
	const char *word = optarg != NULL && optarg == argv[optind - 1]
			       ? argv[optind - 2]
			       : argv[optind - 1];
	const char *name = options_long[index].name;

	if (strcspn(word + 2, "=") == strlen(name))
		return HM_CTL_OK;
	return hm_ctl_usage(ctl, "unknown option %s: is --%s meant?", word,
	    name);
}

/* What getopt_long did not take, as it stands on the command line. */
static int
options_refuse(const struct hm_ctl *ctl, int code, char **argv)
{
	const char *word = argv[optind - 1];

	if (code == ':')
		return hm_ctl_usage(ctl, "option %s needs a value", word);
	if (optopt == 0)
		return hm_ctl_usage(ctl, "unknown option %s", word);
	/* The code of one that is known: --json=1. */
	if (optopt >= OPTION_SOCKET || optopt == 'h')
		return hm_ctl_usage(ctl, "option %s takes no value", word);
	return hm_ctl_usage(ctl, "unknown option -%c", optopt);
}

int
hm_ctl_parse(int argc, char **argv, struct hm_ctl *ctl_out)
{
	struct hm_ctl ctl = {.max_m = 8192};
	const char *timeout = getenv("HUMMING_TIMEOUT");
	int code, exit_code, index = -1;

	/* POSIX's order (options first) is not our contract. */
	(void)unsetenv("POSIXLY_CORRECT");
	opterr = 0;
	while ((code = getopt_long(argc, argv, ":o:D:h", options_long,
		    &index)) != -1) {
		exit_code = HM_CTL_OK;
		if (code == '?' || code == ':')
			exit_code = options_refuse(&ctl, code, argv);
		else if (index != -1)
			exit_code = options_check_whole(&ctl, index, argv);
		if (exit_code == HM_CTL_OK)
			exit_code = options_take(&ctl, code);
		if (exit_code != HM_CTL_OK)
			return exit_code;
		index = -1;
	}
	if (optind < argc) {
		ctl.command = argv[optind++];
		ctl.operands = argv + optind;
		ctl.n_operands = (size_t)(argc - optind);
	}
	for (size_t i = 0; i < ctl.n_operands; i++) {
		if (ctl.operands[i][0] == '\0')
			return hm_ctl_usage(&ctl, "an operand is empty");
	}
	if (ctl.timeout_ms == 0 && timeout != NULL && timeout[0] != '\0' &&
	    !hm_deadline_read(timeout, &ctl.timeout_ms))
		return hm_ctl_fail(&ctl,
		    "HUMMING_TIMEOUT: takes seconds above 0, up to %u, as in "
		    "0.5; not '%s'",
		    HM_DEADLINE_MAX_S, timeout);
	*ctl_out = ctl;
	return HM_CTL_OK;
}
