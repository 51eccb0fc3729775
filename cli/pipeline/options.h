/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `detour pipeline`. */
#ifndef DETOUR_CLI_PIPELINE_OPTIONS_H
#define DETOUR_CLI_PIPELINE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/pipeline/checkpoint.h"
#include "cli/pipeline/exchange.h"
#include "cli/pipeline/input.h"
#include "cli/pipeline/slow.h"
#include "detour/sched.h"
#include "job/job.h"
#include "pipeline/mode.h"
#include "pipeline/shares.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who changes the schedule when links are slow. */
enum dt_pipeline_adapt {
    DT_PIPELINE_ADAPT_OFF,
    DT_PIPELINE_ADAPT_ITERATION, /* rank 0, by the verdicts of all ranks' plugins */
    DT_PIPELINE_ADAPT_CONTROL    /* rank 0, by the decisions of `detour control` */
};

/* Must be the same on all ranks, except job.rank, job.rendezvous and the names of output files. */
struct dt_pipeline_options {
    int32_t devices;                  /* of the pipeline */
    int32_t replicas;                 /* of the pipeline; job.ranks = devices * replicas */
    int32_t microbatches;             /* of a replica, unless the next has others */
    struct dt_pipeline_shares shares; /* replicas > 1 */
    enum detour_algorithm algorithm;
    enum dt_pipeline_mode mode;
    const struct dt_pipeline_launch *launch; /* nccl */
    uint32_t iterations;
    uint64_t payload_bytes;  /* of a message */
    uint64_t slice_bytes;    /* nccl; 0: the executor's default */
    uint64_t gradient_bytes; /* of a stage; replicas > 1 */
    /* What --profile and --plan name; else NULL, and the schedule is for stages of f_ns, b_ns and w_ns. */
    const struct dt_pipeline_input *input;
    int64_t f_ns; /* of every stage */
    int64_t b_ns;
    int64_t w_ns;
    struct dt_pipeline_slow slow;
    struct dt_pipeline_exchanges exchanges;     /* replicas > 1 */
    struct dt_pipeline_checkpoints checkpoints; /* replicas > 1; the folder may differ between ranks */
    enum dt_pipeline_adapt adapt;
    bool draw;             /* a bar behind each iteration */
    const char *json_path; /* NULL: none, as the next */
    const char *svg_path;
    const char *perfetto_path;
    bool has_timeline_option;    /* --timeline: the JSON has its times, too */
    uint32_t timeline_iteration; /* whose times are collected; the last one, if no option names it */
    struct dt_job_options job;
};

/*
 * Parses the command line; job.plugin_path is NULL unless --plugin names one, job.digest is set. Returns
 * DT_EXIT_OK, or DT_EXIT_USAGE after writing one line to standard error; --help ends the process. Texts point
 * into argv. Files are read into *input, which options->input points to.
 */
int dt_pipeline_options_parse(int argc, char **argv, struct dt_pipeline_options *options,
                              struct dt_pipeline_input *input);

/* The times of timeline_iteration are collected for one of the output files. */
bool dt_pipeline_options_has_timeline(const struct dt_pipeline_options *options);

/* The microbatches of a replica in an iteration. */
struct dt_pipeline_share dt_pipeline_options_share(const struct dt_pipeline_options *options, int32_t replica,
                                                   uint32_t iteration);

/* The largest number of microbatches of a replica in any iteration. */
int32_t dt_pipeline_options_microbatches_max(const struct dt_pipeline_options *options);

/* For people: the algorithm of --schedule, or "of --plan". */
const char *dt_pipeline_schedule_name(const struct dt_pipeline_options *options);

#ifdef __cplusplus
}
#endif

#endif
