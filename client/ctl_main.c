/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_main.c - hummingctl: the table of commands, and help.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/ctl.h"
#include "proto/fd.h"

struct ctl_command {
	const char *name;
	const char *arguments;
	const char *summary; /* one line of the tool's --help */
	const char *help;    /* the rest of the command's own */
	uint32_t allowed;    /* HM_CTL_ bits */
	bool operands;       /* whether it takes any */
	int (*exec)(const struct hm_ctl *ctl);
};

#define HELP_ARCH                                                              \
	"  --arch A           architecture: sm_90a, sm_80, ...; default: the " \
	"GPU's\n"
#define HELP_ARCHS "  --arch A,B,...     architectures; default: the GPU's\n"
#define HELP_MODEL                                                             \
	"  --model JSON|DIR   config.json of a model, or the folder of one\n"  \
	"  --tp N, --ep N     tensor and expert parallel degree (1)\n"         \
	"  --quant Q          quantization where the checkpoint leaves it "    \
	"open:\n"                                                              \
	"                     a SPEC, or experts=Q,dense=Q; sizes, experts\n"  \
	"                     and the operation are the model's\n"             \
	"  --max-m M          largest number of tokens (8192)\n"
#define HELP_MAX_M "                     (--max-m also with SPECs)\n"
#define HELP_JSON  "  --json             JSON instead of text\n"

static const struct ctl_command ctl_commands[] = {
    {"ping", "", "is a daemon there?",
	"Prints the daemon's version and its time to answer.\n"
	"\n"
	"example: hummingctl ping --timeout 1\n",
	0, false, hm_ctl_ping},
    {"stop", "", "stop the private daemon",
	"Returns when it has left. A node's own hummingd (not started with\n"
	"--private) is not stopped this way.\n"
	"\n"
	"example: hummingctl stop\n",
	0, false, hm_ctl_stop},
    {"status", "[--json]", "version, compiler, workers, readiness",
	HELP_JSON "\n"
		  "example: hummingctl status --json\n",
	HM_CTL_JSON, false, hm_ctl_status},
    {"stats", "[--json] [--watch]", "hits, builds, latencies",
	HELP_JSON "  --watch            again every second, until interrupted\n"
		  "\n"
		  "example: hummingctl stats --watch\n",
	HM_CTL_JSON | HM_CTL_WATCH, false, hm_ctl_stats},
    {"get", "(SPEC | --model JSON|DIR) [--arch A] [-o FILE] [--json]",
	"get one kernel: from the cache, or built",
	HELP_ARCH
	"                     (several by comma with --model)\n"
	"  -o, --output FILE  write the cubin to FILE; one SPEC "
	"only\n" HELP_MODEL HELP_JSON "\n"
	"With --model instead of a SPEC: all kernels of a model in one round\n"
	"trip; --tp, --ep, --quant and --max-m then shape it, as in plan.\n"
	"\n"
	"A SPEC is a shorthand and fields by comma: w4a16,m=1,n=8192,k=8192\n"
	"\n"
	"examples: hummingctl get w4a16,m=1,n=8192,k=8192 --arch sm_90a "
	"--json\n"
	"          hummingctl get w4a16,group=64,m=256 --arch sm_80 -o "
	"k.cubin\n",
	HM_CTL_ARCH | HM_CTL_OUTPUT | HM_CTL_JSON | HM_CTL_MODEL, true,
	hm_ctl_get},
    {"compile", "FILE.cu [--arch A] [-D NAME[=VALUE]]... [-o FILE] [--json]",
	"compile any CUDA C source",
	HELP_ARCH
	"  -D NAME[=VALUE]    define a macro\n"
	"  -o, --output FILE  write the cubin to FILE\n" HELP_JSON "\n"
	"A source that does not compile: its first error on stderr, the whole\n"
	"log on stdout.\n"
	"\n"
	"example: hummingctl compile axpy.cu --arch sm_90a -DN=4 -o "
	"axpy.cubin\n",
	HM_CTL_ARCH | HM_CTL_OUTPUT | HM_CTL_JSON | HM_CTL_DEFINE, true,
	hm_ctl_compile},
    {"plan", "(--model JSON|DIR | SPEC...) [--arch A,B,...] [--json]",
	"list the kernels that a model needs",
	HELP_MODEL HELP_MAX_M HELP_ARCHS HELP_JSON
	"\n"
	"Asks no daemon. Lists exactly what prewarm builds. bias=1 may stand "
	"in\n"
	"a SPEC, but is an argument of the launch: it leads to no other "
	"kernel.\n"
	"\n"
	"examples: hummingctl plan --model config.json --quant w4a16 --arch "
	"sm_90a\n"
	"          hummingctl plan w4a16,n=8192,k=8192 --arch sm_80 --json\n",
	HM_CTL_ARCH | HM_CTL_JSON | HM_CTL_MODEL, true, hm_ctl_plan},
    {"prewarm",
	"(--model JSON|DIR | SPEC...) [--arch A,B,...] [--jobs N] [--json]",
	"build the kernels that a model needs",
	HELP_MODEL HELP_MAX_M HELP_ARCHS
	"  --jobs N           requests in flight (all)\n" HELP_JSON "\n"
	"Returns when all are ready; no deadline unless --timeout is given.\n"
	"\n"
	"example: hummingctl prewarm --model config.json --quant w4a16 --arch "
	"sm_90a,sm_80\n",
	HM_CTL_ARCH | HM_CTL_JSON | HM_CTL_MODEL | HM_CTL_JOBS, true,
	hm_ctl_prewarm},
    {"explain", "SPEC [--arch A] [--json]",
	"is a kernel stored, and if not, why not",
	HELP_ARCH HELP_JSON
	"\n"
	"Compares the kernel's full record with the nearest stored one.\n"
	"\n"
	"example: hummingctl explain w4a16,m=1,n=8192,k=8192 --arch sm_90a\n",
	HM_CTL_ARCH | HM_CTL_JSON, true, hm_ctl_explain},
    {"verify", "[--json]", "check every stored kernel",
	HELP_JSON "\n"
		  "Reads all values against their checksums while the daemon "
		  "serves; the\n"
		  "damaged are deleted, and are built anew when they are next "
		  "asked for.\n"
		  "Exit code 1 if there were any.\n"
		  "\n"
		  "example: hummingctl verify --timeout 600\n",
	HM_CTL_JSON, false, hm_ctl_verify},
    {"evict", "(KEY | --all) [--json]", "delete stored kernels",
	"  --all              everything that is not pinned\n" HELP_JSON "\n"
	"KEY is what get and plan print: 64 hexadecimal digits.\n"
	"\n"
	"example: hummingctl evict --all\n",
	HM_CTL_JSON | HM_CTL_ALL, true, hm_ctl_evict},
    {"pin", "KEY [--json]", "keep a stored kernel whatever comes",
	HELP_JSON
	"\n"
	"A pinned kernel is never evicted and does not grow too old.\n"
	"\n"
	"example: hummingctl pin $(hummingctl get w4a16,m=1 --arch sm_90a "
	"--json | jq -r .key)\n",
	HM_CTL_JSON, true, hm_ctl_pin},
    {"unpin", "KEY [--json]", "let it go like any other",
	HELP_JSON "\n"
		  "example: hummingctl unpin 0123...\n",
	HM_CTL_JSON, true, hm_ctl_unpin},
    {"drain", "[--json]", "finish what runs, then leave",
	HELP_JSON
	"\n"
	"Running builds are finished, queued ones refused; returns when the\n"
	"daemon has left. Under a service manager it stays so until it is\n"
	"started again.\n"
	"\n"
	"example: hummingctl drain\n",
	HM_CTL_JSON, false, hm_ctl_drain},
    {"reload", "[--json]", "read the configuration again",
	HELP_JSON "\n"
		  "example: hummingctl reload\n",
	HM_CTL_JSON, false, hm_ctl_reload},
    {"doctor", "[--json]", "what is wrong here, if anything",
	HELP_JSON
	"\n"
	"Looks at socket, version, compiler, sandbox, store and your rights.\n"
	"Exit code 1 if anything does not work.\n"
	"\n"
	"example: hummingctl doctor\n",
	HM_CTL_JSON, false, hm_ctl_doctor},
    {"bench", "hit|herd|cold [--json]",
	"measure a daemon of its own beside a bare socket",
	HELP_JSON
	"\n"
	"hit    one client: 20 KB in the packet, 200 KB by descriptor\n"
	"herd   64 clients on two cores\n"
	"cold   an empty cache: a model's kernels, one kernel for 64 clients;\n"
	"       then all kernels of that model, warm\n"
	"\n"
	"Starts a daemon in a folder of its own, pins both ends to cores, and\n"
	"ends it. Needs no GPU. No deadline unless --timeout is given.\n"
	"\n"
	"example: hummingctl bench hit\n",
	HM_CTL_JSON, true, hm_ctl_bench},
};

#define N_COMMANDS (sizeof ctl_commands / sizeof ctl_commands[0])

/* By the bit of an option, how it is called. */
static const struct {
	uint32_t bit;
	const char *name;
} ctl_option_names[] = {
    {HM_CTL_ARCH, "--arch"},
    {HM_CTL_OUTPUT, "-o"},
    {HM_CTL_JSON, "--json"},
    {HM_CTL_WATCH, "--watch"},
    {HM_CTL_MODEL, "--model, --tp, --ep, --quant or --max-m"},
    {HM_CTL_JOBS, "--jobs"},
    {HM_CTL_DEFINE, "-D"},
    {HM_CTL_ALL, "--all"},
};

static const struct ctl_command *
ctl_find(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (strcmp(ctl_commands[i].name, name) == 0)
			return &ctl_commands[i];
	}
	return NULL;
}

static void
ctl_print_help(void)
{
	(void)puts("usage: hummingctl COMMAND [OPTION]...\n"
		   "\n"
		   "Ask hummingd for compiled GEMM kernels.\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		(void)printf("  %-9s %s\n", ctl_commands[i].name,
		    ctl_commands[i].summary);
	(void)puts(
	    "\n"
	    "Every command takes, before or after its operands:\n"
	    "  --socket PATH      the daemon's socket; else HUMMING_SOCKET, "
	    "else the usual places\n"
	    "  --timeout SECONDS  deadline of the whole command; else "
	    "HUMMING_TIMEOUT, else 30\n"
	    "  --help, -h         what it does, with examples\n"
	    "Without a command: --help (this text), --version\n"
	    "\n"
	    "get, compile and prewarm start a private daemon when no socket is "
	    "named and none\n"
	    "answers. Exit code: 0 done, 1 failed, 2 wrong usage; the reason "
	    "in one line on\n"
	    "stderr.\n"
	    "\n"
	    "examples: hummingctl get w4a16,m=1,n=8192,k=8192 --arch sm_90a\n"
	    "          hummingctl prewarm --model config.json --quant w4a16 "
	    "--arch sm_90a");
}

static void
ctl_print_command(const struct ctl_command *command)
{
	(void)printf("usage: hummingctl %s%s%s [--socket PATH] [--timeout "
		     "SECONDS]\n\n%s\n",
	    command->name, command->arguments[0] != '\0' ? " " : "",
	    command->arguments, command->help);
}

static int
ctl_run(const struct hm_ctl *ctl, const struct ctl_command *command)
{
	uint32_t foreign = ctl->given & ~command->allowed;

	if (ctl->help) {
		ctl_print_command(command);
		return HM_CTL_OK;
	}
	for (size_t i = 0;
	     i < sizeof ctl_option_names / sizeof ctl_option_names[0]; i++) {
		if ((foreign & ctl_option_names[i].bit) != 0)
			return hm_ctl_usage(ctl, "does not take %s",
			    ctl_option_names[i].name);
	}
	if (!command->operands && ctl->n_operands != 0)
		return hm_ctl_usage(ctl, "takes no operand, not '%s'",
		    ctl->operands[0]);
	return command->exec(ctl);
}

static int
ctl_dispatch(struct hm_ctl *ctl)
{
	const struct ctl_command *command;
	const char *name = ctl->command;

	if (ctl->version) {
		(void)puts("hummingctl " HM_VERSION);
		return HM_CTL_OK;
	}
	if (name == NULL && ctl->help) {
		ctl_print_help();
		return HM_CTL_OK;
	}
	if (name == NULL)
		return hm_ctl_usage(ctl, "no command given");
	command = ctl_find(name);
	if (command != NULL)
		return ctl_run(ctl, command);
	ctl->command = NULL;
	return hm_ctl_usage(ctl, "unknown command '%s'", name);
}

int
main(int argc, char **argv)
{
	struct hm_ctl ctl;
	int code;

	if (hm_fd_reserve_stdio() != HM_OK) {
		(void)fprintf(stderr, "hummingctl: cannot open /dev/null: %s\n",
		    strerror(errno));
		return HM_CTL_FAILED;
	}
	code = hm_ctl_parse(argc, argv, &ctl);
	if (code != HM_CTL_OK)
		return code;
	code = ctl_dispatch(&ctl);
	/* Output that did not arrive is a failure, unless one was told. */
	if ((fflush(stdout) != 0 || ferror(stdout) != 0) && code == HM_CTL_OK)
		code = hm_ctl_fail(&ctl, "cannot write to stdout");
	return code;
}
