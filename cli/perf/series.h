/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bandwidth over time, for `detour perf --series` and `--plot`: every rank periodically sends the number of
 * bytes that it has received; the launcher records and draws them. One thread.
 */
#ifndef DETOUR_CLI_PERF_SERIES_H
#define DETOUR_CLI_PERF_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "job/error.h"
#include "cli/perf/options.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PERF_SERIES_PERIOD_MS 100

/* The bytes that a rank has received since all ranks began to measure. */
struct dt_perf_sample {
    uint64_t time_ns;
    uint64_t bytes; /* in receives that were reported done; warm-up and checked iterations count, too */
    uint64_t size;  /* being measured */
};

struct dt_perf_series {
    FILE *lines; /* --series, or NULL */
    FILE *plot;  /* --plot, or NULL */
    struct dt_perf_sample last[DT_JOB_RANKS_MAX];
    double *bin; /* bytes of all ranks in each period */
    size_t bins;
    size_t bins_allocated;
    int error_number; /* of the first failure, or 0 */
};

/* Opens the files that the options name, so that a bad path is known at once (bad input). */
bool dt_perf_series_init(struct dt_perf_series *series, const struct dt_perf_options *options,
                         struct dt_job_error *error);

/* Samples of a rank come in the order of their times. */
void dt_perf_series_add(struct dt_perf_series *series, unsigned rank, const struct dt_perf_sample *sample);

/*
 * Draws: as text to `text`, if --plot is given, and the picture. Closes the files. False, after a line on
 * standard error, when a file could not be written.
 */
bool dt_perf_series_finish(struct dt_perf_series *series, const struct dt_perf_options *options, FILE *text);

/* ---- The drawings, of `count` values in bytes per second, DT_PERF_SERIES_PERIOD_MS each. */
void dt_perf_series_text(const double *value, size_t count, FILE *out);
void dt_perf_series_svg(const double *value, size_t count, FILE *out);

#ifdef __cplusplus
}
#endif

#endif
