/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of `detour perf`: sets up the ring, measures every size with an engine and sends rank 0's results
 * to the launcher.
 */
#ifndef DETOUR_CLI_PERF_RANK_H
#define DETOUR_CLI_PERF_RANK_H

#include <stdbool.h>

#include "cli/perf/options.h"
#include "job/link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Frames from a rank to the launcher. */
enum dt_perf_frame_kind {
    DT_PERF_FRAME_START = DT_JOB_FRAME_COMMAND, /* rank 0: struct dt_perf_start */
    DT_PERF_FRAME_ROW,                          /* rank 0: struct dt_perf_row */
    DT_PERF_FRAME_STATUS,                       /* rank 0: the work in progress, as text */
    DT_PERF_FRAME_SAMPLE,                       /* any rank: struct dt_perf_sample */
};

/* Does the work of link->rank (struct dt_job_funcs, run_rank). */
bool dt_perf_rank_run(const struct dt_perf_options *options, struct dt_job_link *link,
                      struct dt_job_error *error);

#ifdef __cplusplus
}
#endif

#endif
