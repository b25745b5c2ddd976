/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight.c - single flight, lanes, retries, and what is remembered of failures.
 *
 * Builds are started only from schedule_event, a turn of the loop's own, so
 * that join never calls back into its caller. Loop thread only.
 */
#include "daemon/flight.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "daemon/clock.h"
#include "daemon/compile.h"
#include "daemon/config.h"
#include "daemon/failure.h"
#include "daemon/flight_entry.h"
#include "daemon/limits.h"
#include "daemon/log.h"
#include "daemon/overload.h"
#include "jit/emit.h"
#include "jit/job.h"

#define FLIGHT_N_BUCKETS 256u
#define FLIGHT_N_LANES   2u
#define FLIGHT_MAX_TRIES 2u
/* Of the queue in one turn of the loop. */
#define FLIGHT_MAX_LOOKS 128u
/* Of client sources in all flights together: what they may hold of memory. */
#define FLIGHT_MAX_SOURCE_BYTES ((uint64_t)HM_LIMITS_ALL_KIB << 10)

TAILQ_HEAD(flight_queue, hm_flight);
LIST_HEAD(flight_bucket, hm_flight);

struct hm_flight {
	LIST_ENTRY(hm_flight) bucket_link;
	TAILQ_ENTRY(hm_flight) queue_link; /* in its lane, or in running */
	TAILQ_HEAD(, hm_waiter) waiters;
	struct hm_recipe *recipe; /* one reference */
	uint32_t lane;
	bool is_running;
	bool needs_fresh; /* after a crash: an unused worker */
	uint32_t n_tries;
	uid_t uid;           /* of the first who asked */
	uint64_t started_us; /* when it began to run */
	uint64_t turn;       /* of the last look at it, see schedule */
};

struct hm_flights {
	struct hm_core *core;   /* borrowed */
	struct event *schedule; /* owned */
	struct event *progress; /* owned */
	struct flight_bucket buckets[FLIGHT_N_BUCKETS];
	struct flight_queue lanes[FLIGHT_N_LANES];
	struct flight_queue running;
	uint32_t n_queued;
	uint32_t n_running;
	uint64_t source_bytes; /* of all flights' recipes */
	uint64_t build_us;     /* what builds take lately; 0 = none was yet */
	uint64_t turn;
	struct hm_failures failures;
	bool is_silent; /* progress could not be timed, and that is said */
	struct hm_errbuf text; /* of the last refusal of join */
};

static void flights_on_schedule(evutil_socket_t fd, short what, void *arg);
static void flights_on_progress(evutil_socket_t fd, short what, void *arg);

int
hm_flights_open(struct hm_core *core, struct hm_flights **flights_out)
{
	struct hm_flights *flights = calloc(1, sizeof(*flights));

	if (flights == NULL)
		return HM_E_NOMEM;
	flights->core = core;
	for (size_t i = 0; i < FLIGHT_N_BUCKETS; i++)
		LIST_INIT(&flights->buckets[i]);
	for (size_t i = 0; i < FLIGHT_N_LANES; i++)
		TAILQ_INIT(&flights->lanes[i]);
	TAILQ_INIT(&flights->running);
	flights->schedule =
	    event_new(core->base, -1, 0, flights_on_schedule, flights);
	flights->progress =
	    event_new(core->base, -1, EV_PERSIST, flights_on_progress, flights);
	if (flights->schedule == NULL || flights->progress == NULL) {
		hm_flights_close(flights);
		return HM_E_NOMEM;
	}
	*flights_out = flights;
	return HM_OK;
}

static void
flight_stop_running(struct hm_flights *flights, struct hm_flight *flight)
{
	TAILQ_REMOVE(&flights->running, flight, queue_link);
	flights->n_running--;
	hm_limits_give(flights->core->limits, flight->uid, HM_LIMITS_RUNNING);
}

/* Take a flight out of every list and forget it; its waiters are gone. */
static void
flight_free(struct hm_flights *flights, struct hm_flight *flight)
{
	LIST_REMOVE(flight, bucket_link);
	hm_limits_give_build(flights->core->limits, flight->uid,
	    flight->recipe->n_source);
	if (flight->is_running) {
		flight_stop_running(flights, flight);
	} else {
		TAILQ_REMOVE(&flights->lanes[flight->lane], flight, queue_link);
		flights->n_queued--;
	}
	if (flights->n_queued + flights->n_running == 0 &&
	    flights->progress != NULL)
		(void)event_del(flights->progress);
	flights->source_bytes -= flight->recipe->n_source;
	hm_recipe_unref(flight->recipe);
	free(flight);
}

void
hm_flights_close(struct hm_flights *flights)
{
	struct hm_flight *flight;

	if (flights == NULL)
		return;
	/* NOLINTBEGIN(clang-analyzer-unix.Malloc): it cannot see that a freed
	 * flight has left the list. */
	while ((flight = TAILQ_FIRST(&flights->running)) != NULL)
		flight_free(flights, flight);
	for (size_t i = 0; i < FLIGHT_N_LANES; i++) {
		while ((flight = TAILQ_FIRST(&flights->lanes[i])) != NULL)
			flight_free(flights, flight);
	}
	/* NOLINTEND(clang-analyzer-unix.Malloc) */
	if (flights->schedule != NULL)
		event_free(flights->schedule);
	if (flights->progress != NULL)
		event_free(flights->progress);
	hm_failures_done(&flights->failures);
	free(flights);
}

uint32_t
hm_flights_queued(const struct hm_flights *flights)
{
	return flights->n_queued;
}

uint32_t
hm_flights_running(const struct hm_flights *flights)
{
	return flights->n_running;
}

static struct flight_bucket *
flights_bucket(struct hm_flights *flights, const struct hm_digest *key)
{
	return &flights->buckets[key->bytes[0] % FLIGHT_N_BUCKETS];
}

static struct hm_flight *
flights_find(struct hm_flights *flights, const struct hm_digest *key)
{
	struct hm_flight *flight;

	LIST_FOREACH (flight, flights_bucket(flights, key), bucket_link) {
		if (hm_digest_equal(&flight->recipe->key, key))
			return flight;
	}
	return NULL;
}

/* Put a flight that is in no queue at the end (or the head) of a lane. */
static void
flight_enqueue(struct hm_flights *flights, struct hm_flight *flight,
    uint32_t lane, bool at_head)
{
	flight->lane = lane;
	flight->is_running = false;
	if (at_head)
		TAILQ_INSERT_HEAD(&flights->lanes[lane], flight, queue_link);
	else
		TAILQ_INSERT_TAIL(&flights->lanes[lane], flight, queue_link);
	flights->n_queued++;
}

static void
flight_change_lane(struct hm_flights *flights, struct hm_flight *flight,
    uint32_t lane)
{
	TAILQ_REMOVE(&flights->lanes[flight->lane], flight, queue_link);
	flights->n_queued--;
	flight_enqueue(flights, flight, lane, false);
}

/* Without it waiters hear no progress, but get their answers; the next flight
 * tries again. */
static void
flights_start_progress(struct hm_flights *flights)
{
	const struct timeval second = {1, 0};

	if (event_pending(flights->progress, EV_TIMEOUT, NULL) ||
	    event_add(flights->progress, &second) == 0)
		return;
	if (!flights->is_silent)
		hm_log(HM_LOG_BUILD, HM_LOG_WARNING,
		    "cannot set a timer, no progress is told");
	flights->is_silent = true;
}

/* A flight whose place among its user's builds has been taken. */
static struct hm_flight *
flight_new(struct hm_flights *flights, struct hm_recipe *recipe, uint32_t lane,
    uid_t uid)
{
	struct hm_flight *flight = calloc(1, sizeof(*flight));

	if (flight == NULL)
		return NULL;
	flight->uid = uid;
	TAILQ_INIT(&flight->waiters);
	flight->recipe = hm_recipe_ref(recipe);
	flights->source_bytes += recipe->n_source;
	LIST_INSERT_HEAD(flights_bucket(flights, &recipe->key), flight,
	    bucket_link);
	flight_enqueue(flights, flight, lane, false);
	flights_start_progress(flights);
	event_active(flights->schedule, EV_TIMEOUT, 0);
	return flight;
}

/* Refuse in join: the text lives in the flights until the next refusal. */
static int
flights_refuse(struct hm_flights *flights, int error, const char *message,
    struct hm_outcome *outcome_out)
{
	hm_errbuf_set(&flights->text, "%s", message);
	memset(outcome_out, 0, sizeof(*outcome_out));
	outcome_out->error = error;
	outcome_out->status = error == HM_E_BUSY || error == HM_E_UNAVAILABLE
				  ? HM_REPLY_BUSY
				  : HM_REPLY_FAILED;
	outcome_out->message = flights->text.text;
	return error;
}

/* Whether one who cannot wait that long had better build it himself. */
static bool
flights_are_overloaded(struct hm_flights *flights, uint32_t lane,
    const struct hm_waiter *waiter, struct hm_outcome *outcome_out)
{
	uint64_t wait_us;
	char text[160];

	/* What waits for nobody else is no overload. */
	if (lane != HM_LANE_INTERACTIVE || waiter->patience_us == 0 ||
	    flights->n_queued == 0)
		return false;
	wait_us = hm_overload_wait_us(flights->core, waiter->uid,
	    flights->n_queued + flights->n_running, flights->build_us);
	if (wait_us <= waiter->patience_us)
		return false;
	(void)snprintf(text, sizeof(text),
	    "overloaded: %u builds wait, this one for about %llu ms; build it "
	    "locally",
	    flights->n_queued, (unsigned long long)wait_us / 1000);
	(void)flights_refuse(flights, HM_E_UNAVAILABLE, text, outcome_out);
	outcome_out->status = HM_REPLY_TRY_LOCAL;
	return true;
}

/* Whether nothing may be built for this key now; then outcome_out says why. */
static int
flights_check(struct hm_flights *flights, const struct hm_recipe *recipe,
    struct hm_outcome *outcome_out)
{
	const struct hm_failure *failure;

	failure =
	    hm_failures_find(&flights->failures, &recipe->key, hm_clock_us());
	if (failure != NULL) {
		memset(outcome_out, 0, sizeof(*outcome_out));
		outcome_out->error = failure->error;
		outcome_out->status = HM_REPLY_FAILED;
		outcome_out->message = failure->message;
		outcome_out->log = failure->log;
		return failure->error;
	}
	if (flights->core->is_draining)
		return flights_refuse(flights, HM_E_UNAVAILABLE,
		    "the daemon is stopping", outcome_out);
	if (flights->source_bytes + recipe->n_source > FLIGHT_MAX_SOURCE_BYTES)
		return flights_refuse(flights, HM_E_BUSY,
		    "too many bytes of sources are queued", outcome_out);
	if (flights->n_queued >= flights->core->settings->queue)
		return flights_refuse(flights, HM_E_BUSY,
		    "too many builds are queued (limits.queue)", outcome_out);
	return HM_OK;
}

/* A flight of its own for a waiter, in waiter->flight. */
static int
flights_begin(struct hm_flights *flights, struct hm_recipe *recipe,
    uint32_t lane, struct hm_waiter *waiter, struct hm_outcome *outcome_out)
{
	struct hm_limits *limits = flights->core->limits;
	const char *why = NULL;
	int error;

	error = flights_check(flights, recipe, outcome_out);
	if (error != HM_OK)
		return error;
	if (flights_are_overloaded(flights, lane, waiter, outcome_out))
		return outcome_out->error;
	error =
	    hm_limits_take_build(limits, waiter->uid, recipe->n_source, &why);
	if (error == HM_E_BUSY) {
		(void)flights_refuse(flights, error, why, outcome_out);
		outcome_out->is_of_user = true;
		return error;
	}
	if (error == HM_OK)
		waiter->flight = flight_new(flights, recipe, lane, waiter->uid);
	if (error == HM_OK && waiter->flight == NULL)
		hm_limits_give_build(limits, waiter->uid, recipe->n_source);
	if (waiter->flight == NULL)
		return flights_refuse(flights, HM_E_NOMEM,
		    hm_strerror(HM_E_NOMEM), outcome_out);
	return HM_OK;
}

int
hm_flights_join(struct hm_flights *flights, struct hm_recipe *recipe,
    uint32_t lane, struct hm_waiter *waiter, struct hm_outcome *outcome_out)
{
	struct hm_flight *flight = flights_find(flights, &recipe->key);
	int error;

	if (lane >= FLIGHT_N_LANES)
		lane = HM_LANE_PREWARM;
	if (flights->core->n_waiting > flights->core->settings->waiters)
		return flights_refuse(flights, HM_E_BUSY,
		    "too many requests wait (limits.waiters)", outcome_out);
	if (flight != NULL) {
		flights->core->metrics.joined++;
		if (!flight->is_running && lane < flight->lane)
			flight_change_lane(flights, flight, lane);
	} else {
		error =
		    flights_begin(flights, recipe, lane, waiter, outcome_out);
		if (error != HM_OK)
			return error;
		flight = waiter->flight;
	}
	waiter->flight = flight;
	waiter->joined_us = hm_clock_us();
	TAILQ_INSERT_TAIL(&flight->waiters, waiter, link);
	return HM_OK;
}

/* Who sent a source and went away shall not hold a compiler. */
static void
flight_cut(struct hm_flights *flights, struct hm_flight *flight)
{
	struct hm_log_text name;

	hm_log(HM_LOG_BUILD, HM_LOG_INFO,
	    "build given up name=\"%s\" arch=%s why=\"nobody waits for it\"",
	    hm_log_quote(&name, hm_recipe_label(flight->recipe)),
	    flight->recipe->arch);
	hm_pool_cancel(flights->core->pool, flight);
	flight_free(flights, flight);
}

void
hm_flights_leave(struct hm_flights *flights, struct hm_waiter *waiter,
    enum hm_leave why)
{
	struct hm_flight *flight = waiter->flight;

	if (flight == NULL)
		return;
	TAILQ_REMOVE(&flight->waiters, waiter, link);
	waiter->flight = NULL;
	if (!TAILQ_EMPTY(&flight->waiters))
		return;
	if (flight->is_running) {
		if (why == HM_LEAVE_GONE && !flight->recipe->is_own)
			flight_cut(flights, flight);
		return;
	}
	if (why == HM_LEAVE_TIMED_OUT)
		flight_change_lane(flights, flight, HM_LANE_PREWARM);
	else
		flight_free(flights, flight);
}

/* Tell everybody, then forget the flight. */
static void
flight_land(struct hm_flights *flights, struct hm_flight *flight,
    const struct hm_outcome *outcome)
{
	struct hm_waiter *waiter;

	while ((waiter = TAILQ_FIRST(&flight->waiters)) != NULL) {
		TAILQ_REMOVE(&flight->waiters, waiter, link);
		waiter->flight = NULL;
		waiter->on_landed(waiter, outcome);
	}
	flight_free(flights, flight);
}

/* A build that was tried and failed: count, remember, tell. */
static void
flight_fail(struct hm_flights *flights, struct hm_flight *flight, int error,
    const char *message, char *log)
{
	const struct hm_recipe *recipe = flight->recipe;
	struct hm_failure failure = {.key = recipe->key, .error = error};
	struct hm_outcome outcome = {.error = error,
	    .status = HM_REPLY_FAILED,
	    .message = failure.message,
	    .log = log};
	struct hm_log_text name;
	struct hm_log_text text;

	failure.log = log;
	(void)snprintf(failure.message, sizeof(failure.message), "%s",
	    message[0] == '\0' ? hm_strerror(error) : message);
	flights->core->metrics.build_failures++;
	if (recipe->is_cacheable)
		hm_failures_put(&flights->failures, &failure, hm_clock_us());
	hm_log(HM_LOG_BUILD, recipe->is_own ? HM_LOG_ERR : HM_LOG_INFO,
	    "build failed name=\"%s\" arch=%s error=\"%s\" message=\"%s\"",
	    hm_log_quote(&name, hm_recipe_label(recipe)), recipe->arch,
	    hm_strerror(error), hm_log_quote(&text, failure.message));
	flight_land(flights, flight, &outcome);
}

/* Whether this build may start on the compilers we have; if not, it lands. */
static bool
flight_may_start(struct hm_flights *flights, struct hm_flight *flight)
{
	const struct hm_core *core = flights->core;
	const struct hm_recipe *recipe = flight->recipe;
	const char *compiler = hm_pool_compiler(core->pool);
	struct hm_errbuf text = {""};
	struct hm_outcome outcome = {.error = HM_OK, .message = text.text};

	if (hm_pool_state(core->pool) == HM_POOL_UNAVAILABLE) {
		hm_errbuf_set(&text, "no compiler: %s",
		    hm_pool_message(core->pool));
		/* One that was here may come back. */
		outcome.error =
		    compiler[0] != '\0' ? HM_E_UNAVAILABLE : HM_E_UNSUPPORTED;
		outcome.status = compiler[0] != '\0' ? HM_REPLY_TRY_LOCAL
						     : HM_REPLY_UNSUPPORTED;
	} else if (!hm_pool_knows(core->pool, &recipe->target)) {
		hm_errbuf_set(&text,
		    "%s is not a target of the compiler here (which knows "
		    "sm_%s)",
		    recipe->arch, hm_pool_targets(core->pool));
		outcome.error = HM_E_UNSUPPORTED;
		outcome.status = HM_REPLY_UNSUPPORTED;
	} else if (!recipe->is_own && strcmp(recipe->compiler, compiler) != 0) {
		/* Its key names a compiler that is not here any more. */
		hm_errbuf_set(&text, "the compiler has changed; ask again");
		outcome.error = HM_E_BUSY;
		outcome.status = HM_REPLY_BUSY;
	} else if (!recipe->is_own && hm_compile_is_forbidden(core, &text)) {
		outcome.error = HM_E_DENIED;
		outcome.status = HM_REPLY_DENIED;
	}
	if (outcome.error == HM_OK)
		return true;
	flight_land(flights, flight, &outcome);
	return false;
}

/* What it makes sense to try after a flight has found no worker. */
enum flight_next { FLIGHT_NEXT_ANY, FLIGHT_NEXT_OWN, FLIGHT_NEXT_NONE };

/* Start a queued flight. */
static enum flight_next
flight_start(struct hm_flights *flights, struct hm_flight *flight)
{
	struct hm_pool *pool = flights->core->pool;
	struct hm_pool_counts counts;
	struct hm_errbuf text = {""};
	int error;

	if (!flight_may_start(flights, flight))
		return FLIGHT_NEXT_ANY;
	error =
	    hm_pool_start(pool, flight->recipe, flight->needs_fresh, flight);
	if (error == HM_E_BUSY) {
		hm_pool_get_counts(pool, &counts);
		if (counts.n_idle > 0)
			return FLIGHT_NEXT_ANY;
		/* For our own kernels the pool may have one more. */
		return flight->recipe->is_own ? FLIGHT_NEXT_NONE
					      : FLIGHT_NEXT_OWN;
	}
	if (error != HM_OK) {
		if (error == HM_E_SYSTEM)
			hm_errbuf_set(&text, "cannot hand it to a compiler: %s",
			    strerror(errno));
		flight_fail(flights, flight, error, text.text, NULL);
		return FLIGHT_NEXT_ANY;
	}
	TAILQ_REMOVE(&flights->lanes[flight->lane], flight, queue_link);
	flights->n_queued--;
	flight->is_running = true;
	flight->n_tries++;
	flight->started_us = hm_clock_us();
	/* Its user has a row already: the build's. */
	(void)hm_limits_take(flights->core->limits, flight->uid,
	    HM_LIMITS_RUNNING);
	TAILQ_INSERT_TAIL(&flights->running, flight, queue_link);
	flights->n_running++;
	return FLIGHT_NEXT_ANY;
}

/* Whose turn it is in a lane: not looked at in this turn yet; of a user of whom
 * the fewest builds run; who was served the longest ago; the first of those.
 * NULL = nobody. */
static struct hm_flight *
flights_choose(struct hm_flights *flights, size_t lane,
    enum flight_next allowed)
{
	const struct hm_limits *limits = flights->core->limits;
	struct hm_flight *best = NULL;
	struct hm_flight *before = NULL;
	struct hm_flight *flight;
	uint64_t best_turn = 0, turn;
	uint32_t best_running = 0, n_running;

	TAILQ_FOREACH (flight, &flights->lanes[lane], queue_link) {
		if (flight->turn == flights->turn ||
		    (allowed == FLIGHT_NEXT_OWN && !flight->recipe->is_own))
			continue;
		/* What one user asked for in a row is in its order. */
		if (before != NULL && before->uid == flight->uid)
			continue;
		before = flight;
		n_running =
		    hm_limits_count(limits, flight->uid, HM_LIMITS_RUNNING);
		turn = hm_limits_last_turn(limits, flight->uid);
		if (best != NULL &&
		    (n_running > best_running ||
			(n_running == best_running && turn >= best_turn)))
			continue;
		best = flight;
		best_running = n_running;
		best_turn = turn;
	}
	return best;
}

static void
flights_on_schedule(evutil_socket_t fd, short what, void *arg)
{
	struct hm_flights *flights = arg;
	enum flight_next allowed = FLIGHT_NEXT_ANY;
	const uint32_t n_queued = flights->n_queued;
	struct hm_flight *flight;
	uint32_t n_looks = 0;

	(void)fd;
	(void)what;
	if (hm_pool_state(flights->core->pool) == HM_POOL_STARTING)
		return;
	flights->turn++;
	for (size_t lane = 0; lane < FLIGHT_N_LANES; lane++) {
		while (
		    (flight = flights_choose(flights, lane, allowed)) != NULL) {
			flight->turn = flights->turn;
			allowed = flight_start(flights, flight);
			if (allowed == FLIGHT_NEXT_NONE)
				return;
			if (++n_looks < FLIGHT_MAX_LOOKS)
				continue;
			/* If none of these could start, none will before the
			 * pool changes. */
			if (flights->n_queued != n_queued)
				hm_flights_on_change(flights);
			return;
		}
	}
}

void
hm_flights_on_change(void *arg)
{
	struct hm_flights *flights = arg;

	event_active(flights->schedule, EV_TIMEOUT, 0);
}

static void
flight_tell(struct hm_flight *flight, uint32_t position)
{
	struct hm_waiter *waiter;

	TAILQ_FOREACH (waiter, &flight->waiters, link)
		waiter->on_progress(waiter, position);
}

static void
flights_on_progress(evutil_socket_t fd, short what, void *arg)
{
	struct hm_flights *flights = arg;
	struct hm_flight *flight;
	uint32_t position = 0;

	(void)fd;
	(void)what;
	TAILQ_FOREACH (flight, &flights->running, queue_link)
		flight_tell(flight, 0);
	for (size_t lane = 0; lane < FLIGHT_N_LANES; lane++) {
		TAILQ_FOREACH (flight, &flights->lanes[lane], queue_link)
			flight_tell(flight, ++position);
	}
}

static void
flight_succeed(struct hm_flights *flights, struct hm_flight *flight,
    const struct hm_pool_result *from)
{
	struct hm_recipe *recipe = flight->recipe;
	struct hm_outcome outcome = {.status = HM_REPLY_BUILT,
	    .message = "",
	    .log = from->result->log};
	struct hm_log_text name;
	int error;

	error = hm_flight_entry_new(recipe, from, &outcome.entry);
	if (error != HM_OK) {
		flight_fail(flights, flight, error, "", NULL);
		return;
	}
	flights->core->metrics.builds++;
	if (recipe->is_cacheable)
		hm_cache_put(flights->core->cache, outcome.entry);
	hm_log(HM_LOG_BUILD, HM_LOG_INFO,
	    "built name=\"%s\" arch=%s bytes=%zu registers=%u spill=%u ms=%u",
	    hm_log_quote(&name, hm_recipe_label(recipe)), recipe->arch,
	    from->n_image, from->result->registers, from->result->spill_bytes,
	    from->result->compile_us / 1000);
	if (recipe->is_own && from->result->spill_bytes != 0)
		hm_log(HM_LOG_BUILD, HM_LOG_WARNING,
		    "kernel spills name=\"%s\" arch=%s bytes=%u", recipe->spec,
		    recipe->arch, from->result->spill_bytes);
	flight_land(flights, flight, &outcome);
	hm_entry_unref(outcome.entry);
}

/*
 * Whether a build whose worker died or lied is worth another one. A source that
 * takes too long takes as long again, and one that nobody waits for is not
 * wanted; what went wrong with a kernel of ours was the machine.
 */
static bool
flight_deserves_retry(const struct hm_flights *flights,
    const struct hm_flight *flight, const struct hm_pool_result *from)
{
	if (flight->n_tries >= FLIGHT_MAX_TRIES || flights->core->is_draining)
		return false;
	if (flight->recipe->is_own)
		return true;
	return from->end != HM_POOL_TIMED_OUT && !TAILQ_EMPTY(&flight->waiters);
}

/* A worker died or lied. Once more on a fresh one, then give up. */
static void
flight_retry(struct hm_flights *flights, struct hm_flight *flight,
    const struct hm_pool_result *from, const char *message)
{
	int error =
	    from->end == HM_POOL_TIMED_OUT ? HM_E_TIMEOUT : HM_E_INTERNAL;
	struct hm_errbuf text = {""};
	struct hm_log_text name;
	struct hm_log_text why;

	if (flight_deserves_retry(flights, flight, from)) {
		hm_log(HM_LOG_BUILD, HM_LOG_WARNING,
		    "build is tried again name=\"%s\" arch=%s why=\"%s\"",
		    hm_log_quote(&name, hm_recipe_label(flight->recipe)),
		    flight->recipe->arch, hm_log_quote(&why, message));
		flight_stop_running(flights, flight);
		flight->needs_fresh = true;
		flight_enqueue(flights, flight, flight->lane, true);
		return;
	}
	hm_errbuf_set(&text, flight->n_tries > 1 ? "%s (tried %u times)" : "%s",
	    message, flight->n_tries);
	flight_fail(flights, flight, error, text.text, NULL);
}

/* What a build takes: the last dozen or so count. */
static void
flights_learn(struct hm_flights *flights, uint64_t took_us)
{
	if (flights->build_us == 0)
		flights->build_us = took_us;
	else
		flights->build_us = (flights->build_us * 7 + took_us) / 8;
}

void
hm_flights_on_result(void *arg, void *ticket,
    const struct hm_pool_result *result)
{
	struct hm_flights *flights = arg;
	struct hm_flight *flight = ticket;
	const struct hm_recipe *recipe = flight->recipe;
	struct hm_errbuf text = {""};

	event_active(flights->schedule, EV_TIMEOUT, 0);
	flights_learn(flights, hm_clock_us() - flight->started_us);
	if (result->end != HM_POOL_DONE) {
		flight_retry(flights, flight, result, result->message.text);
		return;
	}
	if (result->image == NULL) {
		flight_fail(flights, flight,
		    result->result->error == HM_OK ? HM_E_INTERNAL
						   : result->result->error,
		    result->result->message, result->result->log);
		return;
	}
	if (hm_elf_check(result->image, result->n_image, &recipe->target,
		recipe->is_own ? hm_emit_entry(&recipe->config) : NULL,
		&text) != HM_OK) {
		flight_retry(flights, flight, result, text.text);
		return;
	}
	flight_succeed(flights, flight, result);
}

uint32_t
hm_flights_place(const struct hm_flights *flights,
    const struct hm_waiter *waiter)
{
	const struct hm_flight *flight;
	uint32_t place = 0;

	if (waiter->flight == NULL || waiter->flight->is_running)
		return 0;
	for (size_t lane = 0; lane < FLIGHT_N_LANES; lane++) {
		TAILQ_FOREACH (flight, &flights->lanes[lane], queue_link) {
			place++;
			if (flight == waiter->flight)
				return place;
		}
	}
	return place;
}

static const struct hm_outcome flights_stopping = {.error = HM_E_UNAVAILABLE,
    .status = HM_REPLY_BUSY,
    .message = "the daemon is stopping"};

void
hm_flights_abandon(struct hm_flights *flights)
{
	struct hm_flight *flight;

	hm_flights_drain(flights);
	while ((flight = TAILQ_FIRST(&flights->running)) != NULL)
		/* As in hm_flights_close.
		 * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		flight_land(flights, flight, &flights_stopping);
}

void
hm_flights_drain(struct hm_flights *flights)
{
	struct hm_flight *flight;

	for (size_t i = 0; i < FLIGHT_N_LANES; i++) {
		while ((flight = TAILQ_FIRST(&flights->lanes[i])) != NULL)
			/* As in hm_flights_close.
			 * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
			flight_land(flights, flight, &flights_stopping);
	}
}
