/* SPDX-License-Identifier: Apache-2.0 */
/* What `detour pipeline` prints: a line per iteration, a summary, JSON. Owned by the launcher's thread. */
#ifndef DETOUR_CLI_PIPELINE_REPORT_H
#define DETOUR_CLI_PIPELINE_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "cli/pipeline/options.h"
#include "cli/pipeline/rank.h"
#include "job/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Above this share of the cores the machine, not the pipeline, decides the times. */
#define DT_PIPELINE_CPU_MAX 0.7

struct dt_pipeline_report {
    const struct dt_pipeline_options *options;
    const char *note; /* a line for the user; NULL: none */
    FILE *json_file;  /* NULL: no JSON */
    json_t *iterations;
    uint32_t count;
    int64_t time_sum_ns;
    int64_t predicted_sum_ns;
    double error_sum; /* of |measured / predicted - 1| */
    double cpu_max;
    int64_t scale_ns;    /* of the bars: the model's time of the first iteration */
    uint32_t busy_count; /* iterations above DT_PIPELINE_CPU_MAX */
};

/* Opens the JSON file. False with the reason in *error. */
bool dt_pipeline_report_init(struct dt_pipeline_report *report, const struct dt_pipeline_options *options,
                             struct dt_job_error *error);

void dt_pipeline_report_start(const struct dt_pipeline_report *report);
void dt_pipeline_report_iteration(struct dt_pipeline_report *report,
                                  const struct dt_pipeline_iteration *iteration);

/* The summary, or the error on standard error. False when the JSON file could not be written. */
bool dt_pipeline_report_finish(struct dt_pipeline_report *report, const struct dt_job_error *error);

#ifdef __cplusplus
}
#endif

#endif
