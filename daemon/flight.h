/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight.h - at most one build per key, whatever the number of those who wait.
 *
 *   join --> QUEUED (interactive lane before prewarm) --> RUNNING --> landed
 *
 * In a lane the users take turns: whose builds run least goes first, then who
 * was served the longest ago, then who came first. A user who queues hundreds
 * delays nobody but himself.
 *
 * A waiter who leaves (deadline, cancel, disconnect) takes nothing from the
 * others. A queued build that nobody waits for any more is dropped when the
 * last one went away on purpose, and goes on behind all others when he only
 * ran out of time: he will ask again. A running build finishes, but for a
 * client's source that the last one left on purpose: that is cut short.
 *
 * Failures are remembered for a while by class, so that n ranks do not repeat
 * them: a compile error with its log 10 minutes; crash, time and memory 60 s.
 */
#ifndef HM_DAEMON_FLIGHT_H
#define HM_DAEMON_FLIGHT_H

#include <sys/queue.h>
#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"
#include "daemon/core.h"
#include "daemon/pool.h"
#include "daemon/recipe.h"

struct hm_flight;
struct hm_flights;

/* How a build ended, or why none starts. All pointers are borrowed. */
struct hm_outcome {
	int error;       /* enum hm_error; HM_OK: entry is set */
	uint32_t status; /* enum hm_reply_status */
	struct hm_entry *entry;
	const char *message; /* one line; "" when there is none */
	const char *log;     /* of the compiler; NULL = none */
	bool is_of_user;     /* refused at a limit of this user alone */
};

/* One who waits; storage is the caller's, zeroed, until landed or left. */
struct hm_waiter {
	TAILQ_ENTRY(hm_waiter) link;
	struct hm_flight *flight; /* NULL when not waiting */
	uint64_t joined_us;
	/* The caller's to set before join. */
	uid_t uid;            /* whose the build is, if it is the first */
	uint64_t patience_us; /* until its deadline; 0 = has none */
	/* Called once, from the loop; the waiter has left already. */
	void (*on_landed)(struct hm_waiter *waiter,
	    const struct hm_outcome *outcome);
	/* About once a second; position 0 = being built. */
	void (*on_progress)(struct hm_waiter *waiter, uint32_t position);
};

enum hm_leave {
	HM_LEAVE_GONE = 0, /* cancelled or disconnected */
	HM_LEAVE_TIMED_OUT = 1
};

/* core is borrowed. HM_OK or HM_E_NOMEM. close: NULL allowed; nobody waits. */
int hm_flights_open(struct hm_core *core, struct hm_flights **flights_out);
void hm_flights_close(struct hm_flights *flights);

/**
 * Wait for the build of a recipe, starting it if nobody has.
 *
 * lane         enum hm_lane
 * outcome_out  set when the answer is not HM_OK; valid until the loop turns
 *
 * An interactive waiter whose deadline will come before its turn, as long as
 * the queue is and builds take, is told at once to build it itself.
 *
 * Returns HM_OK (the waiter's on_landed follows) or outcome_out->error: a
 * failure remembered, the queue or its user's part of it full (HM_E_BUSY),
 * overload (HM_E_UNAVAILABLE), or no memory.
 */
int hm_flights_join(struct hm_flights *flights, struct hm_recipe *recipe,
    uint32_t lane, struct hm_waiter *waiter, struct hm_outcome *outcome_out);

/* Stop waiting. No-op for one who does not wait. */
void hm_flights_leave(struct hm_flights *flights, struct hm_waiter *waiter,
    enum hm_leave why);

/* The pool's host: see pool.h. arg is the flights. */
void hm_flights_on_result(void *arg, void *ticket,
    const struct hm_pool_result *result);
void hm_flights_on_change(void *arg);

/* The place in the queue of one who waits: 0 = it is being built, or there is
 * nothing to wait for. */
uint32_t hm_flights_place(const struct hm_flights *flights,
    const struct hm_waiter *waiter);

/* Refuse all that is queued: the daemon leaves. */
void hm_flights_drain(struct hm_flights *flights);

/* Refuse what is being built as well: it leaves now. The pool's jobs are lost;
 * nothing but close may follow. */
void hm_flights_abandon(struct hm_flights *flights);

uint32_t hm_flights_queued(const struct hm_flights *flights);
uint32_t hm_flights_running(const struct hm_flights *flights);

#endif
