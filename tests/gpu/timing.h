/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timing.h - how every GPU figure is taken: replays of captured graphs, several
 * graphs in turn, the median.
 *
 * A graph holds many launches of one kernel: enough of them that its start and
 * the events around it do not count, few enough that one replay takes
 * milliseconds. Graphs that are compared are replayed in turn, because a card
 * that has worked longer is slower.
 */
#ifndef HM_TESTS_GPU_TIMING_H
#define HM_TESTS_GPU_TIMING_H

#include <stddef.h>
#include <stdint.h>

#define TIMING_MAX_REPLAYS 11u

struct timed_graph {
	void *graph;         /* NULL: nothing to time, its times are 0 */
	uint32_t n_launches; /* times are of one launch */
	uint32_t n_replays;
	float us[TIMING_MAX_REPLAYS]; /* ascending */
};

/* Figures to state, or to choose among many candidates. */
enum timing_effort { TIMING_FULL, TIMING_QUICK };

/* Launches of a graph of a kernel that takes at least so long: 10 to 64, 1 ms of
 * them; quick: 3 to 40, half a millisecond. */
uint32_t timing_launches(double floor_us, enum timing_effort effort);

/* Replay n graphs in turn after one or two that are not counted: 11 times, 5
 * where a replay takes over 4 ms; quick: 5 or 3 times. */
void timing_replay(struct timed_graph *graphs, size_t n,
    enum timing_effort effort, void *stream);

/* One graph after the other, each after a pause of so long: for kernels that the
 * card's power limit slows down, so that none is measured on a card that the
 * others have heated. */
void timing_replay_paused(struct timed_graph *graphs, size_t n,
    uint32_t pause_ms, void *stream);

/* 0 without a graph. */
float timing_median(const struct timed_graph *graph);

/* Replay one graph without a pause for so long; the median of the last five,
 * in us of one launch: a card that is hot. */
float timing_hot(const struct timed_graph *graph, double ms, void *stream);

void timing_free(struct timed_graph *graphs, size_t n);
void timing_pause(uint32_t ms);

#endif
