/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of `detour perf`: the table of nccl-tests on standard output, its JSON file with -J, and
 * progress on standard error. Runs in the launcher, one thread.
 */
#ifndef DETOUR_CLI_PERF_REPORT_H
#define DETOUR_CLI_PERF_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "job/error.h"
#include "cli/perf/options.h"
#include "cli/perf/series.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A rank of the run: sent once by each to rank 0. */
struct dt_perf_rank_info {
    int32_t pid;
    int32_t device_count;
    char host[64];
    char devices[160]; /* names with spaces between */
};

/* Known before the first row, with the info of each rank. */
struct dt_perf_start {
    char plugin[64]; /* its name */
    uint32_t channels;
};

struct dt_perf_column {
    bool ran; /* false: the operation has no such variant */
    double time_us;
    double alg_bw; /* GB/s, GB = 10^9 bytes */
    double bus_bw;
    int64_t wrong; /* -1: not checked */
};

enum { DT_PERF_OUT_OF_PLACE, DT_PERF_IN_PLACE, DT_PERF_COLUMNS };

/* One size. */
struct dt_perf_row {
    uint64_t bytes;
    uint64_t count;
    struct dt_perf_column columns[DT_PERF_COLUMNS];
    char first_wrong[200]; /* place of the first wrong data; empty while all data is right */
};

struct json_t;

struct dt_perf_report {
    const struct dt_perf_options *options;
    const char *note; /* a line for the header when the plugin is Detour's, or NULL */
    FILE *json_file;  /* or NULL */
    struct json_t *json;
    struct dt_perf_series series;
    uint64_t wrong;
    double bus_bw_sum;
    unsigned bus_bw_count;
    bool status_shown;      /* a progress line is on the terminal */
    uint64_t status_due_ns; /* not before */
};

/* Opens the files, so that a bad path is known at once (bad input). */
bool dt_perf_report_init(struct dt_perf_report *report, const struct dt_perf_options *options, int argc,
                         char **argv, struct dt_job_error *error);

/* `ranks`: options->job.ranks of them. */
void dt_perf_report_start(struct dt_perf_report *report, const struct dt_perf_start *start,
                          const struct dt_perf_rank_info *ranks);
void dt_perf_report_row(struct dt_perf_report *report, const struct dt_perf_row *row);

/* The progress line: replaced in place on a terminal, printed every 10 s elsewhere. */
void dt_perf_report_status(struct dt_perf_report *report, const char *text, uint64_t now_ns);

/*
 * The footer, the files, and the drawing. An error is printed on one line and is part of the JSON. False,
 * after a line on standard error, when a file could not be written.
 */
bool dt_perf_report_finish(struct dt_perf_report *report, const struct dt_job_error *error);

/* ---- The JSON document (json.c), in the format of nccl-tests; no effect when it is NULL. ---- */
struct json_t *dt_perf_json_create(const struct dt_perf_options *options, int argc, char **argv);
void dt_perf_json_start(struct json_t *json, const struct dt_perf_start *start,
                        const struct dt_perf_rank_info *ranks, const struct dt_perf_options *options);
void dt_perf_json_row(struct json_t *json, const struct dt_perf_row *row,
                      const struct dt_perf_options *options);
/* Writes the document and frees it; false when the file could not take all of it. */
bool dt_perf_json_finish(struct json_t *json, FILE *file, uint64_t wrong, double average_bus_bw,
                         const struct dt_job_error *error);

#ifdef __cplusplus
}
#endif

#endif
