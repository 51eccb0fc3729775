/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detour stat`: the counters of running processes, as a table, JSON, Prometheus text (cli/stat_metrics.h),
 * events (cli/stat_events.h) or a trace (cli/stat_trace.h). Reads their shared pages (detour/stat.h) without
 * any effect on them.
 */
#ifndef DETOUR_CLI_STAT_H
#define DETOUR_CLI_STAT_H

#include "detour/stat.h"

#ifdef __cplusplus
extern "C" {
#endif

int dt_stat_command(int argc, char **argv);

/* One snapshot on standard output. `before`, or NULL, is an earlier one, for rates. */
void dt_stat_print_table(const struct detour_stat_snapshot *snapshot,
                         const struct detour_stat_snapshot *before);
/* False: out of memory. */
bool dt_stat_print_json(const struct detour_stat_snapshot *snapshot);

#ifdef __cplusplus
}
#endif

#endif
