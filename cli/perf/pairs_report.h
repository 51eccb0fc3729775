/* SPDX-License-Identifier: Apache-2.0 */
/* The result of `detour perf --pairs`, as text and as JSON. */
#ifndef DETOUR_CLI_PERF_PAIRS_REPORT_H
#define DETOUR_CLI_PERF_PAIRS_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/perf/options.h"
#include "cli/perf/pairs_judge.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PERF_PAIRS_ROWS_RANKS 64

/*
 * For up to DT_PERF_PAIRS_ROWS_RANKS ranks each time has a row. For more, those of a table have one that are
 * above the threshold, and one line has the number of the others and their median.
 */
void dt_perf_pairs_print(FILE *out, const struct dt_perf_options *options,
                         const struct dt_perf_pairs_times *times, const struct dt_perf_pairs_result *result);

/* -J; false: the file could not take all of it. */
bool dt_perf_pairs_print_json(FILE *out, const struct dt_perf_options *options,
                              const struct dt_perf_pairs_times *times,
                              const struct dt_perf_pairs_result *result);

#ifdef __cplusplus
}
#endif

#endif
