/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl_compile.c - compile: any CUDA C source, through the public API.
 */
#include "client/ctl.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <humming/client.h>

#include "client/ctl_row.h"
#include "client/deadline.h"
#include "proto/codec.h"

/* -D definitions in the compiler's spelling. */
struct compile_options {
	size_t n;
	char *texts[HM_CTL_MAX_DEFINES]; /* owned */
};

static int
compile_options_init(const struct hm_ctl *ctl, struct compile_options *options)
{
	options->n = 0;
	for (size_t i = 0; i < ctl->n_defines; i++) {
		if (asprintf(&options->texts[i], "-D%s", ctl->defines[i]) == -1)
			return HM_E_NOMEM;
		options->n++;
	}
	return HM_OK;
}

static void
compile_options_done(struct compile_options *options)
{
	for (size_t i = 0; i < options->n; i++)
		free(options->texts[i]);
}

static int
compile_open(const struct hm_ctl *ctl, struct humming_client **client_out)
{
	struct humming_client_options options = {
	    .struct_size = sizeof options,
	    .timeout_ms = ctl->timeout_ms,
	    .socket_path = ctl->socket_path,
	    .autostart = 1,
	};
	int error;

	error = humming_client_open(&options, client_out);
	if (error == HUMMING_OK)
		return HM_CTL_OK;
	return hm_ctl_fail(ctl, "%s",
	    humming_client_last_error(NULL)[0] != '\0'
		? humming_client_last_error(NULL)
		: humming_strerror(error));
}

/* The whole log on stdout, the first error on stderr. */
static int
compile_failed(const struct hm_ctl *ctl, const struct humming_client *client)
{
	const char *log = humming_client_compile_log(client);
	const char *why = humming_client_last_error(client);

	if (ctl->json)
		(void)hm_ctl_json_print(
		    json_pack("{s:s, s:s}", "error", why, "log", log));
	else
		(void)fputs(log, stdout);
	return hm_ctl_fail(ctl, "%s", why);
}

static int
compile_show(const struct hm_ctl *ctl, const struct humming_kernel *kernel)
{
	struct humming_kernel_info info = {.struct_size = sizeof info};
	struct hm_errbuf why = {.text = ""};
	const void *image;
	size_t n_image;
	json_t *row;
	int error;

	error = humming_kernel_image(kernel, &image, &n_image);
	if (error == HM_OK && ctl->output != NULL)
		error = hm_ctl_write_file(ctl->output, image, n_image, &why);
	if (error != HM_OK)
		return hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
	(void)humming_kernel_get_info(kernel, &info);
	if (!ctl->json) {
		(void)fputs(info.log, stdout);
		hm_ctl_row_print(kernel);
		return HM_CTL_OK;
	}
	row = hm_ctl_row_json(kernel);
	(void)json_object_set_new(row, "log", json_string(info.log));
	return hm_ctl_json_print(row) == HM_OK
		   ? HM_CTL_OK
		   : hm_ctl_fail(ctl, "out of memory");
}

static int
compile_run(const struct hm_ctl *ctl, const struct humming_source *source)
{
	struct humming_client *client = NULL;
	struct humming_kernel *kernel = NULL;
	int code;

	code = compile_open(ctl, &client);
	if (code != HM_CTL_OK)
		return code;
	if (humming_client_compile(client, source, &kernel) != HUMMING_OK)
		code = compile_failed(ctl, client);
	else
		code = compile_show(ctl, kernel);
	humming_kernel_unref(kernel);
	humming_client_close(client);
	return code;
}

/* The file's own name: in messages the folder is noise. */
static const char *
compile_label(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

int
hm_ctl_compile(const struct hm_ctl *ctl)
{
	struct hm_target targets[HM_CTL_MAX_TARGETS];
	struct hm_errbuf why = {.text = ""};
	struct compile_options options = {.n = 0};
	struct humming_source source = {.struct_size = sizeof source};
	size_t n_targets;
	char *text = NULL;
	int code, error;

	if (ctl->n_operands != 1)
		return hm_ctl_usage(ctl, ctl->n_operands == 0
					     ? "needs a source file"
					     : "takes one source file");
	code = hm_ctl_targets(ctl, targets, &n_targets);
	if (code != HM_CTL_OK)
		return code;
	if (n_targets != 1)
		return hm_ctl_usage(ctl, "takes one architecture");
	error = hm_ctl_read_file(ctl->operands[0], HM_MAX_SOURCE_BYTES, &text,
	    &source.text_bytes, &why);
	if (error == HM_OK)
		error = compile_options_init(ctl, &options);
	if (error != HM_OK) {
		code = hm_ctl_fail(ctl, "%s", hm_ctl_why(error, &why));
		goto out;
	}
	source.target_cc = targets[0].cc;
	source.target_suffix = targets[0].suffix;
	source.n_options = (uint32_t)options.n;
	source.options = (const char *const *)options.texts;
	source.name = compile_label(ctl->operands[0]);
	source.text = text;
	code = compile_run(ctl, &source);
out:
	compile_options_done(&options);
	free(text);
	return code;
}
