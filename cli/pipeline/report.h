/* SPDX-License-Identifier: Apache-2.0 */
/* What `detour pipeline` prints and writes: a line per iteration, a summary, JSON, pictures. Owned by the
 * launcher's thread. */
#ifndef DETOUR_CLI_PIPELINE_REPORT_H
#define DETOUR_CLI_PIPELINE_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "cli/pipeline/options.h"
#include "cli/pipeline/rank.h"
#include "cli/pipeline/timeline.h"
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
    FILE *svg_file;
    FILE *perfetto_file;
    json_t *iterations;
    struct dt_pipeline_timeline timeline; /* of options->timeline_iteration */
    uint32_t count;
    int64_t time_sum_ns;
    int64_t predicted_sum_ns;
    int64_t dp_sum_ns;
    int64_t pause_sum_ns;                                    /* of exchanges of ranks */
    uint32_t checkpoints[DT_PIPELINE_CHECKPOINT_FAILED + 1]; /* [kind] */
    double error_sum;                                        /* of |measured / predicted - 1| */
    double cpu_max;
    bool is_restart;         /* S4 of a controller has ended the run before its last iteration */
    int64_t scale_ns;        /* of the bars: the model's time of the first iteration */
    uint32_t busy_count;     /* iterations above DT_PIPELINE_CPU_MAX */
    uint64_t staged;         /* messages over the host path */
    uint64_t pool_full;      /* sends that found the staging memory full */
    uint32_t hostpath_count; /* iterations with flows that have it by command */
    uint32_t slow_count;
    struct {
        struct dt_pipeline_flow flow; /* with the largest delay */
        uint32_t iterations;
    } slow[DT_PIPELINE_FLOWS_SHOWN]; /* the first ones that were slow */
};

/* Opens the files. False with the reason in *error. */
bool dt_pipeline_report_init(struct dt_pipeline_report *report, const struct dt_pipeline_options *options,
                             struct dt_job_error *error);

void dt_pipeline_report_start(const struct dt_pipeline_report *report);
void dt_pipeline_report_iteration(struct dt_pipeline_report *report,
                                  const struct dt_pipeline_iteration *iteration);

/* The summary, or the error on standard error, and the files. False when a file could not be written. */
bool dt_pipeline_report_finish(struct dt_pipeline_report *report, const struct dt_job_error *error);

#ifdef __cplusplus
}
#endif

#endif
