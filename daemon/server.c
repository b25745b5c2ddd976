/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c - owner of the loop, of every part, and of the order they come and
 * go in.
 *
 * Ready means listening, whatever the size of the store: its folder is locked
 * before, its file is read after we have said so. Until then connections wait
 * in the socket's backlog, so that no request sees a cache that is half open.
 *
 * Draining: no new connections, queued builds are refused, running ones finish
 * and are answered; then, or after limits.drain_ms, the loop ends. A second
 * signal ends it at once.
 */
#include "daemon/server.h"

#include <sys/queue.h>
#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "cache/cache.h"
#include "daemon/admin.h"
#include "daemon/announce.h"
#include "daemon/audit.h"
#include "daemon/call.h"
#include "daemon/choice.h"
#include "daemon/clock.h"
#include "daemon/compile.h"
#include "daemon/config.h"
#include "daemon/core.h"
#include "daemon/dispatch.h"
#include "daemon/flight.h"
#include "daemon/limits.h"
#include "daemon/listener.h"
#include "daemon/log.h"
#include "daemon/paths.h"
#include "daemon/pool.h"
#include "daemon/reload.h"
#include "daemon/session.h"
#include "daemon/source_memo.h"
#include "proto/fd.h"

#define SERVER_ACCEPTS_A_TURN 64
#define SERVER_PAUSE_MS       100
#define SERVER_DRAIN_STEP_MS  10
#define SERVER_TICK_MS        3000

static const int server_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2};
#define N_SERVER_SIGNALS (sizeof(server_signals) / sizeof(server_signals[0]))

struct hm_server {
	struct hm_core core;          /* the pointers in it are owned here */
	struct hm_settings *settings; /* borrowed; the same as core's */
	const struct hm_options *options; /* borrowed */
	struct hm_announce *announce;     /* owned */
	struct hm_session_host host;
	struct hm_listener listener;
	TAILQ_HEAD(, hm_session) sessions;
	uint32_t n_sessions;
	struct event *accept; /* events: all owned */
	struct event *resume; /* accepting, after a pause */
	struct event *idle;
	struct event *drain;
	struct event *tick;
	struct event *signals[N_SERVER_SIGNALS];
	uint64_t drain_until_us;
	bool is_paused;     /* accepting, for want of descriptors or worse */
	bool is_durable;    /* as last told of the store */
	bool is_pause_told; /* since accepting last went well */
};

/* Whether it is set; if not, that is said. */
static bool
server_set_timer(struct event *event, uint64_t ms)
{
	struct timeval wait = {(time_t)(ms / 1000),
	    (suseconds_t)(ms % 1000 * 1000)};

	if (event_add(event, &wait) == 0)
		return true;
	hm_log(HM_LOG_SERVER, HM_LOG_ERR, "cannot set a timer");
	return false;
}

static void
server_watch_idle(struct hm_server *server)
{
	const struct hm_settings *settings = server->core.settings;

	if (settings->is_private && server->n_sessions == 0 &&
	    !server->core.is_draining)
		(void)server_set_timer(server->idle, settings->idle_ms);
}

/* Stop accepting for a while; said once until it goes well again. There is no
 * pause without a timer to end it. */
static void
server_pause_accept(struct hm_server *server, const char *why)
{
	if (!server->is_pause_told)
		hm_log(HM_LOG_SERVER, HM_LOG_WARNING,
		    "no new connections for now why=\"%s\" connections=%u", why,
		    server->n_sessions);
	server->is_pause_told = true;
	if (!server_set_timer(server->resume, SERVER_PAUSE_MS))
		return;
	server->is_paused = true;
	(void)event_del(server->accept);
}

/* Whether the next descriptor would lie in the reserve. */
static bool
server_is_short_of_files(const struct hm_server *server)
{
	int fd = fcntl(server->listener.fd, F_DUPFD_CLOEXEC, 0);
	bool is_short =
	    fd == -1 || hm_limits_is_scarce(server->core.limits, fd);

	hm_fd_close(&fd);
	return is_short;
}

static void
server_on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct hm_server *server = arg;

	(void)fd;
	(void)what;
	if (server->core.is_draining)
		return;
	/* The timer has just fired, so that its room is there. */
	if (server_is_short_of_files(server) ||
	    event_add(server->accept, NULL) != 0)
		(void)server_set_timer(server->resume, SERVER_PAUSE_MS);
	else
		server->is_paused = false;
}

static void
server_on_closed(struct hm_session *session, void *arg)
{
	struct hm_server *server = arg;

	hm_call_drop_all(session);
	hm_admin_forget(server->core.admin, session);
	TAILQ_REMOVE(&server->sessions, session, link);
	server->n_sessions--;
	hm_limits_give(server->core.limits, session->peer.uid,
	    HM_LIMITS_CONNECTIONS);
	/* Its descriptor is closed after this: look in the next turn. */
	if (server->is_paused)
		event_active(server->resume, EV_TIMEOUT, 0);
	server_watch_idle(server);
}

static int
server_on_frame(struct hm_session *session, const struct hm_frame *frame,
    void *arg)
{
	struct hm_server *server = arg;

	return hm_dispatch(&server->core, session, frame);
}

static const char server_full[] = "too many connections of this user "
				  "(limits.uid_connections)";

/* One line to a peer that gets no session, as good as it goes. */
static void
server_turn_away(int fd, int error)
{
	struct hm_refusal refusal = {.error = error};
	uint8_t body[600];
	uint8_t unread[256];
	struct hm_frame frame = {.type = HM_FRAME_ERROR,
	    .body = body,
	    .fd = -1};
	ssize_t n_unread;

	memcpy(refusal.message, server_full, sizeof(server_full));
	if (hm_codec_pack_refusal(&refusal, body, sizeof(body),
		&frame.n_body) == HM_OK)
		(void)hm_frame_send(fd, &frame);
	/* To close over unread bytes would make the peer lose our line. */
	n_unread = recv(fd, unread, sizeof(unread), MSG_DONTWAIT);
	(void)n_unread;
}

/* Make a session of a new socket, which is taken in any case. */
static void
server_admit(struct hm_server *server, int fd)
{
	struct hm_session *session = NULL;
	struct hm_peer peer;
	int error;

	error = hm_limits_identify(server->core.limits, fd, &peer);
	if (error == HM_OK) {
		error = hm_limits_take(server->core.limits, peer.uid,
		    HM_LIMITS_CONNECTIONS);
		if (error == HM_E_BUSY) {
			hm_audit_limit(&server->core, &peer, "connect",
			    server_full);
			server_turn_away(fd, error);
		}
	}
	if (error != HM_OK) {
		hm_fd_close(&fd);
		return;
	}
	error = hm_session_new(&server->host, fd, &peer, &session);
	if (error != HM_OK) {
		hm_limits_give(server->core.limits, peer.uid,
		    HM_LIMITS_CONNECTIONS);
		hm_fd_close(&fd);
		return;
	}
	TAILQ_INSERT_TAIL(&server->sessions, session, link);
	server->n_sessions++;
	(void)event_del(server->idle);
}

static void
server_on_accept(evutil_socket_t listener_fd, short what, void *arg)
{
	struct hm_server *server = arg;

	(void)what;
	for (int i = 0; i < SERVER_ACCEPTS_A_TURN; i++) {
		int fd = accept4(listener_fd, NULL, NULL,
		    SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd != -1) {
			bool is_scarce =
			    hm_limits_is_scarce(server->core.limits, fd);

			server_admit(server, fd);
			if (is_scarce) {
				server_pause_accept(server,
				    "limits.fd_reserve");
				return;
			}
			server->is_pause_told = false;
			continue;
		}
		if (errno == EAGAIN)
			return; /* nobody there */
		/* Tried at once, anything else would be the same again. */
		if (errno != ECONNABORTED && errno != EINTR) {
			server_pause_accept(server, strerror(errno));
			return;
		}
	}
}

/* Whether everything owed has been said. */
static bool
server_is_drained(const struct hm_server *server)
{
	const struct hm_session *session;

	if (hm_flights_running(server->core.flights) > 0)
		return false;
	TAILQ_FOREACH (session, &server->sessions, link) {
		if (!STAILQ_EMPTY(&session->queue))
			return false;
	}
	return true;
}

/* Whoever still waits hears that, not just the end of his connection. */
static void
server_end(struct hm_server *server)
{
	hm_flights_abandon(server->core.flights);
	(void)event_base_loopbreak(server->core.base);
}

static void
server_on_drain(evutil_socket_t fd, short what, void *arg)
{
	struct hm_server *server = arg;

	(void)fd;
	(void)what;
	if (server_is_drained(server) ||
	    hm_clock_us() >= server->drain_until_us ||
	    !server_set_timer(server->drain, SERVER_DRAIN_STEP_MS))
		server_end(server);
}

static void
server_drain(struct hm_server *server, const char *why)
{
	if (server->core.is_draining) {
		server_end(server);
		return;
	}
	hm_log(HM_LOG_SERVER, HM_LOG_NOTICE,
	    "stopping why=\"%s\" connections=%u building=%u queued=%u", why,
	    server->n_sessions, hm_flights_running(server->core.flights),
	    hm_flights_queued(server->core.flights));
	server->core.is_draining = true;
	server->drain_until_us =
	    hm_clock_us() + server->core.settings->drain_ms * UINT64_C(1000);
	(void)event_del(server->accept);
	(void)event_del(server->resume);
	(void)event_del(server->idle);
	hm_listener_stop(&server->listener);
	hm_announce_stopping(server->announce);
	hm_flights_drain(server->core.flights);
	if (!server_set_timer(server->drain, 0))
		server_end(server);
}

static void
server_on_idle(evutil_socket_t fd, short what, void *arg)
{
	struct hm_server *server = arg;

	(void)fd;
	(void)what;
	if (hm_flights_running(server->core.flights) +
		hm_flights_queued(server->core.flights) >
	    0)
		server_watch_idle(server);
	else
		server_drain(server, "idle");
}

static void
server_on_stop(void *arg, const char *why)
{
	server_drain(arg, why);
}

static int
server_reload(void *arg, struct hm_errbuf *errbuf)
{
	struct hm_server *server = arg;
	int error;

	if (server->core.is_draining) {
		hm_errbuf_set(errbuf, "the daemon is stopping");
		return HM_E_UNAVAILABLE;
	}
	hm_announce_reloading(server->announce);
	error =
	    hm_reload(&server->core, server->options, server->settings, errbuf);
	hm_announce_ready(server->announce);
	server_watch_idle(server);
	return error;
}

/* Whether the store works has changed: said once, to the log and to the service
 * manager. */
static void
server_tell_store(struct hm_server *server)
{
	struct hm_cache_stats stats;

	hm_cache_get_stats(server->core.cache, &stats);
	if (stats.durable == server->is_durable)
		return;
	server->is_durable = stats.durable;
	if (stats.durable)
		hm_log(HM_LOG_CACHE, HM_LOG_NOTICE, "kernels are kept again");
	else
		hm_log(HM_LOG_CACHE, HM_LOG_WARNING,
		    "kernels are not kept why=\"%s\"", stats.degraded);
	hm_announce_change(server->announce);
}

static void
server_on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct hm_server *server = arg;

	(void)fd;
	(void)what;
	hm_cache_tick(server->core.cache);
	server_tell_store(server);
}

static void
server_on_signal(evutil_socket_t number, short what, void *arg)
{
	struct hm_server *server = arg;

	(void)what;
	if (number == SIGUSR2)
		hm_log_toggle_debug();
	else if (number == SIGHUP)
		(void)server_reload(server, NULL);
	else
		server_drain(server, strsignal(number));
}

static void
server_on_pool_change(void *arg)
{
	struct hm_server *server = arg;

	hm_announce_change(server->announce);
	hm_flights_on_change(server->core.flights);
	hm_compile_resume_parked(&server->core);
}

static void
server_on_pool_result(void *arg, void *ticket,
    const struct hm_pool_result *result)
{
	struct hm_server *server = arg;

	hm_flights_on_result(server->core.flights, ticket, result);
}

/* Why the loop or an event of it failed; libevent's debug is not asked for. */
static void
server_on_event_log(int severity, const char *text)
{
	struct hm_log_text quoted;

	if (severity >= EVENT_LOG_WARN)
		hm_log(HM_LOG_SERVER, HM_LOG_WARNING, "libevent says=\"%s\"",
		    hm_log_quote(&quoted, text));
}

static int
server_open_base(struct hm_server *server)
{
	struct event_config *config = event_config_new();

	if (config == NULL)
		return HM_E_NOMEM;
	event_set_log_callback(server_on_event_log);
	/* One thread, one kind of loop, whatever the environment says. */
	(void)event_config_set_flag(config,
	    EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
	server->core.base = event_base_new_with_config(config);
	event_config_free(config);
	return server->core.base == NULL ? HM_E_NOMEM : HM_OK;
}

static int
server_open_events(struct hm_server *server)
{
	struct event_base *base = server->core.base;

	server->accept = event_new(base, server->listener.fd,
	    EV_READ | EV_PERSIST, server_on_accept, server);
	server->resume = event_new(base, -1, 0, server_on_resume, server);
	server->idle = event_new(base, -1, 0, server_on_idle, server);
	server->drain = event_new(base, -1, 0, server_on_drain, server);
	server->tick = event_new(base, -1, EV_PERSIST, server_on_tick, server);
	if (server->accept == NULL || server->resume == NULL ||
	    server->idle == NULL || server->drain == NULL ||
	    server->tick == NULL ||
	    !server_set_timer(server->tick, SERVER_TICK_MS))
		return HM_E_NOMEM;
	for (size_t i = 0; i < N_SERVER_SIGNALS; i++) {
		server->signals[i] = evsignal_new(base, server_signals[i],
		    server_on_signal, server);
		if (server->signals[i] == NULL ||
		    event_add(server->signals[i], NULL) != 0)
			return HM_E_NOMEM;
	}
	return event_add(server->accept, NULL) == 0 ? HM_OK : HM_E_SYSTEM;
}

/* The cheap part, which tells whether the store is ours to open. */
static int
server_prepare_cache(struct hm_server *server, struct hm_errbuf *errbuf)
{
	const struct hm_settings *settings = server->settings;
	const struct hm_cache_options options = {
	    .directory = settings->store,
	    .cap_bytes = settings->store_cap_bytes,
	    .hot_bytes = settings->hot_bytes,
	    /* The other half is for connections. */
	    .hot_files = hm_limits_files(server->core.limits) / 2,
	    .quota_bytes = hm_config_quota_bytes(settings),
	    .ttl_s = settings->store_ttl_s,
	};

	return hm_cache_prepare(&options, &server->core.cache, errbuf);
}

/* The part that takes its time. A store that cannot be opened is one that is
 * not there. */
static void
server_load_cache(struct hm_server *server)
{
	struct hm_errbuf why = {""};
	struct hm_cache_stats stats;
	int error = hm_cache_load(server->core.cache, &why);

	hm_cache_get_stats(server->core.cache, &stats);
	if (stats.notice[0] != '\0')
		hm_log(HM_LOG_CACHE, HM_LOG_WARNING, "store notice=\"%s\"",
		    stats.notice);
	server->core.is_loaded = true;
	server->is_durable = error == HM_OK && stats.durable;
	if (!server->is_durable)
		hm_log(HM_LOG_CACHE, HM_LOG_WARNING,
		    "kernels are not kept why=\"%s\"",
		    error != HM_OK ? why.text : stats.degraded);
}

/* What stands behind the socket; nothing here talks to the outside. */
static int
server_open_parts(struct hm_server *server)
{
	const struct hm_pool_host pool_host = {
	    .on_result = server_on_pool_result,
	    .on_change = server_on_pool_change,
	    .arg = server,
	};
	struct hm_core *core = &server->core;
	int error;

	error = server_open_base(server);
	if (error == HM_OK)
		error = hm_choices_open(&core->choices);
	if (error == HM_OK)
		error = hm_source_memo_open(&core->sources);
	if (error == HM_OK)
		error = hm_flights_open(core, &core->flights);
	if (error == HM_OK)
		error = hm_pool_open(core->settings, core->base, &pool_host,
		    &core->pool);
	if (error == HM_OK)
		error = hm_admin_open(core, &core->admin);
	if (error == HM_OK)
		error = hm_announce_open(core, &server->announce);
	return error;
}

/* The socket's name is known after this: ours, or the service manager's. */
static int
server_claim_socket(struct hm_server *server, struct hm_errbuf *errbuf)
{
	struct hm_settings *settings = server->settings;
	int error;

	error = hm_listener_adopt(&server->listener, settings->socket,
	    sizeof(settings->socket), errbuf);
	settings->is_activated = server->listener.is_adopted;
	if (error == HM_OK)
		error = hm_paths_prepare(settings, errbuf);
	if (error == HM_OK && !settings->is_activated)
		error = hm_listener_lock(&server->listener, settings->socket,
		    errbuf);
	return error;
}

static int
server_open_all(struct hm_server *server, struct hm_errbuf *errbuf)
{
	const struct hm_settings *settings = server->settings;
	int error;

	error = server_claim_socket(server, errbuf);
	if (error == HM_OK)
		error = hm_limits_open(settings, &server->core.limits);
	if (error == HM_OK)
		error = server_prepare_cache(server, errbuf);
	if (error == HM_OK)
		error = server_open_parts(server);
	if (error == HM_OK && !settings->is_activated)
		error = hm_listener_open(&server->listener,
		    settings->is_private ? 0600 : 0666, errbuf);
	if (error == HM_OK)
		error = server_open_events(server);
	return error;
}

static void
server_say_listening(struct hm_server *server)
{
	const struct hm_settings *settings = server->settings;

	hm_log(HM_LOG_SERVER, HM_LOG_NOTICE,
	    "listening version=" HM_VERSION " socket=%s store=%s%s%s",
	    settings->socket, settings->store,
	    settings->is_activated ? " activated=1" : "",
	    settings->is_private ? " private=1" : "");
	if (geteuid() == 0 && !settings->is_private)
		hm_log(HM_LOG_SERVER, HM_LOG_NOTICE,
		    "running as root; a user of its own is enough");
	hm_announce_ready(server->announce);
}

int
hm_server_open(const struct hm_options *options, struct hm_settings *settings,
    struct hm_server **server_out, struct hm_errbuf *errbuf)
{
	struct hm_server *server = calloc(1, sizeof(*server));
	int error;

	if (server == NULL)
		return HM_E_NOMEM;
	TAILQ_INIT(&server->sessions);
	LIST_INIT(&server->core.parked);
	hm_listener_init(&server->listener);
	server->options = options;
	server->settings = settings;
	server->core.settings = settings;
	server->core.started_us = hm_clock_us();
	server->core.on_stop = server_on_stop;
	server->core.on_reload = server_reload;
	server->core.host_arg = server;
	error = server_open_all(server, errbuf);
	if (error != HM_OK) {
		hm_server_close(server);
		return error;
	}
	hm_session_host_init(&server->host);
	server->host.base = server->core.base;
	server->host.settings = settings;
	server->host.limits = server->core.limits;
	server->host.on_frame = server_on_frame;
	server->host.on_closed = server_on_closed;
	server->host.arg = server;
	server_watch_idle(server);
	server_say_listening(server);
	server_load_cache(server);
	*server_out = server;
	return HM_OK;
}

int
hm_server_run(struct hm_server *server, struct hm_errbuf *errbuf)
{
	if (event_base_dispatch(server->core.base) != -1)
		return HM_OK;
	hm_errbuf_set(errbuf, "the event loop cannot go on: %s",
	    strerror(errno));
	return HM_E_SYSTEM;
}

static void
server_free_event(struct event *event)
{
	if (event != NULL)
		event_free(event);
}

/* End the sessions, but not yet their connections, which are returned; without
 * memory for them, NULL, they end too. */
static int *
server_end_sessions(struct hm_server *server, uint32_t *n_fds_out)
{
	int *fds = calloc(server->n_sessions, sizeof(*fds));
	struct hm_session *session;
	uint32_t n = 0;

	while ((session = TAILQ_FIRST(&server->sessions)) != NULL) {
		if (fds != NULL) {
			fds[n++] = session->fd;
			session->fd = -1;
		}
		hm_session_free(session);
	}
	*n_fds_out = n;
	return fds;
}

void
hm_server_close(struct hm_server *server)
{
	uint32_t n_fds = 0;
	int *fds;

	if (server == NULL)
		return;
	hm_listener_stop(&server->listener);
	fds = server_end_sessions(server, &n_fds);
	server_free_event(server->accept);
	server_free_event(server->resume);
	server_free_event(server->idle);
	server_free_event(server->drain);
	server_free_event(server->tick);
	for (size_t i = 0; i < N_SERVER_SIGNALS; i++)
		server_free_event(server->signals[i]);
	hm_announce_close(server->announce);
	hm_admin_close(server->core.admin);
	/* Jobs borrow recipes of flights: first who works, then what on. */
	hm_pool_close(server->core.pool);
	hm_flights_close(server->core.flights);
	hm_choices_close(server->core.choices);
	hm_source_memo_close(server->core.sources);
	hm_cache_close(server->core.cache);
	hm_limits_close(server->core.limits);
	if (server->core.base != NULL)
		event_base_free(server->core.base);
	/* The lock goes last: the next daemon finds everything put away. */
	hm_listener_close(&server->listener);
	/* Whoever waits for that sees his connection end, and may start it. */
	for (uint32_t i = 0; i < n_fds; i++)
		hm_fd_close(&fds[i]);
	free(fds);
	free(server);
}
