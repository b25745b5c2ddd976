/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timing.c - replays and medians.
 */
#include "timing.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device_ops.h"

#define TIMING_SLOW_MS 4.0f
#define TIMING_N_HOT   5u

static const struct {
	double graph_us;
	uint32_t least, most; /* launches */
	uint32_t many, few;   /* replays */
} timing_efforts[] = {
    [TIMING_FULL] = {1000, 10, 64, TIMING_MAX_REPLAYS, 5},
    [TIMING_QUICK] = {500, 3, 40, 5, 3},
};

uint32_t
timing_launches(double floor_us, enum timing_effort effort)
{
	double n = timing_efforts[effort].graph_us / floor_us;
	uint32_t most = timing_efforts[effort].most;
	uint32_t least = timing_efforts[effort].least;

	return n > most ? most : n < least ? least : (uint32_t)n;
}

static int
compare_floats(const void *a, const void *b)
{
	float x = 0, y = 0;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

/* One after the other; keep: as replay `at`. Returns the sum in ms. */
static float
timing_turn(struct timed_graph *graphs, size_t n, bool keep, uint32_t at,
    void *stream)
{
	float sum = 0;

	for (size_t i = 0; i < n; i++) {
		float ms = 0;

		if (graphs[i].graph == NULL)
			continue;
		ms = ops_graph_time(graphs[i].graph, stream, "benchmark");
		sum += ms;
		if (keep)
			graphs[i].us[at] =
			    1e3f * ms / (float)graphs[i].n_launches;
	}
	return sum;
}

void
timing_replay(struct timed_graph *graphs, size_t n, enum timing_effort effort,
    void *stream)
{
	bool slow = timing_turn(graphs, n, false, 0, stream) >
		    TIMING_SLOW_MS * (float)n;
	uint32_t n_replays =
	    slow ? timing_efforts[effort].few : timing_efforts[effort].many;

	if (!slow && effort == TIMING_FULL)
		(void)timing_turn(graphs, n, false, 0, stream);
	for (uint32_t i = 0; i < n_replays; i++)
		(void)timing_turn(graphs, n, true, i, stream);
	for (size_t i = 0; i < n; i++) {
		graphs[i].n_replays = graphs[i].graph != NULL ? n_replays : 0;
		qsort(graphs[i].us, graphs[i].n_replays, sizeof(float),
		    compare_floats);
	}
}

void
timing_replay_paused(struct timed_graph *graphs, size_t n, uint32_t pause_ms,
    void *stream)
{
	for (size_t i = 0; i < n; i++) {
		if (graphs[i].graph == NULL)
			continue;
		timing_pause(pause_ms);
		timing_replay(&graphs[i], 1, TIMING_FULL, stream);
	}
}

float
timing_median(const struct timed_graph *graph)
{
	return graph->n_replays != 0 ? graph->us[graph->n_replays / 2] : 0;
}

float
timing_hot(const struct timed_graph *graph, double ms, void *stream)
{
	float last[TIMING_N_HOT] = {0};
	double sum = 0;

	if (graph->graph == NULL)
		return 0;
	for (uint32_t i = 0; i < TIMING_N_HOT || sum < ms; i++) {
		last[i % TIMING_N_HOT] =
		    ops_graph_time(graph->graph, stream, "benchmark");
		sum += (double)last[i % TIMING_N_HOT];
	}
	qsort(last, TIMING_N_HOT, sizeof(float), compare_floats);
	return 1e3f * last[TIMING_N_HOT / 2] / (float)graph->n_launches;
}

void
timing_free(struct timed_graph *graphs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (graphs[i].graph != NULL)
			ops_graph_free(graphs[i].graph);
		graphs[i].graph = NULL;
	}
}

void
timing_pause(uint32_t ms)
{
	struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

	if (ms != 0)
		nanosleep(&time, NULL);
}
