/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detour perf --pairs PLAN`: a validation (FALCON, section 4.3). Ranks in disjoint pairs exchange messages
 * in the passes of a plan (detour/mitigate.h), beside it every rank computes, and the times show which link
 * or rank is slow. Each pair has connections of its own, in a process of its own: a hold of the job's
 * processes does not reach them.
 */
#ifndef DETOUR_CLI_PERF_PAIRS_H
#define DETOUR_CLI_PERF_PAIRS_H

#include "cli/perf/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The command with --pairs, after its options are read; the exit code. */
int dt_perf_pairs_command(const struct dt_perf_options *options);

#ifdef __cplusplus
}
#endif

#endif
