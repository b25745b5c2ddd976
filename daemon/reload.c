/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reload.c - the parts read most settings where they need them; those that
 * keep something made of them are told here.
 */
#include "daemon/reload.h"

#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "daemon/config.h"
#include "daemon/limits.h"
#include "daemon/log.h"
#include "daemon/pool.h"

static void
reload_say(const struct hm_errbuf *changed, const struct hm_errbuf *kept)
{
	hm_log(HM_LOG_SERVER, HM_LOG_NOTICE,
	    "configuration read again changed=\"%s\"", changed->text);
	if (kept->text[0] != '\0')
		hm_log(HM_LOG_SERVER, HM_LOG_WARNING,
		    "these need a restart and stay as they are keys=\"%s\"",
		    kept->text);
}

/* next is complete and has its paths. */
static int
reload_adopt(struct hm_core *core, struct hm_settings *settings,
    struct hm_settings *next, struct hm_errbuf *errbuf)
{
	struct hm_errbuf changed = {""};
	struct hm_errbuf kept = {""};
	int error = hm_log_reopen(next->log_level, next->log_groups, errbuf);

	if (error != HM_OK)
		return error;
	if (settings->is_activated) /* the file does not name that socket */
		memcpy(next->socket, settings->socket, sizeof(next->socket));
	hm_config_adopt(settings, next, &changed, &kept);
	hm_limits_update(core->limits, settings);
	hm_cache_set_limits(core->cache, hm_config_quota_bytes(settings),
	    settings->store_ttl_s);
	hm_pool_reload(core->pool);
	reload_say(&changed, &kept);
	*errbuf = kept;
	return HM_OK;
}

int
hm_reload(struct hm_core *core, const struct hm_options *options,
    struct hm_settings *settings, struct hm_errbuf *errbuf)
{
	struct hm_settings *next = malloc(sizeof(*next));
	struct hm_errbuf why = {""};
	int error = HM_E_NOMEM;

	if (next != NULL)
		error = hm_options_apply(options, next, &why);
	if (error == HM_OK)
		error = reload_adopt(core, settings, next, &why);
	if (error != HM_OK)
		hm_log(HM_LOG_SERVER, HM_LOG_WARNING,
		    "configuration not read again, the old one stays "
		    "why=\"%s\"",
		    why.text[0] == '\0' ? hm_strerror(error) : why.text);
	if (errbuf != NULL)
		*errbuf = why;
	free(next);
	return error;
}
