/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of `detour perf --pairs`: connects its pairs, exchanges messages in the passes of the plan,
 * computes, and sends rank 0's collected times to the launcher.
 *
 * A pair's time is the median of the round trips that its first rank measures, a rank's computing time the
 * median of some products on its GPU (gemm.h) or, if a rank has none, the least of a few runs of a fixed loop
 * on the processor. Where all pairs of a rank are slow, a further validation with healthy ranks follows, over
 * connections made for it.
 */
#ifndef DETOUR_CLI_PERF_PAIRS_RANK_H
#define DETOUR_CLI_PERF_PAIRS_RANK_H

#include <stdbool.h>

#include "cli/perf/options.h"
#include "job/link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A frame from rank 0 to the launcher, once: struct dt_perf_pairs_times. */
#define DT_PERF_FRAME_PAIRS DT_JOB_FRAME_COMMAND

/* Does the work of link->rank (struct dt_job_funcs, run_rank). */
bool dt_perf_pairs_rank_run(const struct dt_perf_options *options, struct dt_job_link *link,
                            struct dt_job_error *error);

#ifdef __cplusplus
}
#endif

#endif
