/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts ranks, serves their exchanges, prints what rank 0 reports, and makes sure that a run ends: a rank
 * that dies or fails ends it for all, a signal to the launcher too, and ranks do not outlive the launcher.
 */
#ifndef DETOUR_CLI_PERF_LAUNCH_H
#define DETOUR_CLI_PERF_LAUNCH_H

#include "cli/perf_options.h"
#include "cli/perf_report.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Runs the job as the launcher: forks all ranks, or only rank 0 when the others dial in (options->rank == 0).
 * Returns the exit code; after SIGINT or SIGTERM it cleans up and dies of the same signal.
 */
int dt_perf_launch(const struct dt_perf_options *options, const char *plugin_path,
                   struct dt_perf_report *report);

/* Runs options->rank > 0 in this process, with the launcher at options->root. Returns the exit code. */
int dt_perf_join(const struct dt_perf_options *options, const char *plugin_path);

#ifdef __cplusplus
}
#endif

#endif
