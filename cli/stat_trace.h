/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detour stat --trace`: traffic, verdicts and failovers of the running processes over a time, in Chrome's
 * trace event format, which Perfetto (ui.perfetto.dev) reads. A process per process; for each connection
 * counters of bytes per second and of the mean service time between two snapshots; a slow or waiting verdict
 * as a slice from its event to the next verdict, a switchover as a slice from the failure to its end, other
 * events as instants. Times count from the first snapshot.
 *
 * Each event is one line and is written when it is known: a file that was cut off by a signal can be read,
 * too.
 */
#ifndef DETOUR_CLI_STAT_TRACE_H
#define DETOUR_CLI_STAT_TRACE_H

#include <stdbool.h>
#include <stdio.h>

#include "detour/stat.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_stat_trace;

/* Writes to `out`, which stays the caller's, and whose error state tells whether that worked. NULL when out
 * of memory. */
struct dt_stat_trace *dt_stat_trace_begin(FILE *out);

/* Adds a snapshot, not older than the one before, and takes it over. False: out of memory. */
bool dt_stat_trace_add(struct dt_stat_trace *trace, struct detour_stat_snapshot *snapshot);

/* Ends the open slices and the document, and frees the trace. */
void dt_stat_trace_end(struct dt_stat_trace *trace);

#ifdef __cplusplus
}
#endif

#endif
