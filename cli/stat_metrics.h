/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot in Prometheus' text format 0.0.4: counters and gauges of every connection, and of the host.
 * Label values are ASCII, whatever a peer calls itself, so that one hostile name cannot spoil a whole scrape.
 * docs/stat.md has the table of metrics.
 */
#ifndef DETOUR_CLI_STAT_METRICS_H
#define DETOUR_CLI_STAT_METRICS_H

#include <stdbool.h>
#include <stdio.h>

#include "detour/stat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes to `out`, whose error state tells whether that worked. `job`: the label of that name; NULL: none. */
void dt_metrics_write(FILE *out, const struct detour_stat_snapshot *snapshot, const char *job);

/*
 * Replaces the file `path` by the metrics, in one step: a reader has the old or the new content, in full. A
 * folder that takes it, such as node_exporter's textfile directory, sees the name `path` only. False: errno
 * has the reason, and `path` is as before.
 */
bool dt_metrics_save(const char *path, const struct detour_stat_snapshot *snapshot, const char *job);

#ifdef __cplusplus
}
#endif

#endif
