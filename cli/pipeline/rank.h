/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device of `detour pipeline`: opens the connections that its program needs, executes iteration after
 * iteration, and exchanges the results with the other ranks; rank 0 sends them to the launcher. Computing is
 * a timed wait; while messages are awaited the device polls every DT_PIPELINE_POLL_US, so that cores stay
 * free.
 */
#ifndef DETOUR_CLI_PIPELINE_RANK_H
#define DETOUR_CLI_PIPELINE_RANK_H

#include "cli/pipeline/options.h"
#include "job/link.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_pipeline_frame_kind {
    DT_PIPELINE_FRAME_ITERATION = DT_JOB_FRAME_COMMAND, /* rank 0 -> launcher: struct dt_pipeline_iteration */
    DT_PIPELINE_FRAME_RECORDS,                          /* rank -> launcher: timeline.h */
};

#define DT_PIPELINE_FLOWS_SHOWN 16

/* Messages from one rank to another. */
struct dt_pipeline_flow {
    int32_t from;
    int32_t to;
    int64_t delay_ns; /* that the plugin has measured; 0: not slow */
};

/* The checkpoint after an iteration. */
struct dt_pipeline_checkpoint_result {
    enum dt_pipeline_checkpoint_kind kind;
    int64_t took_ns;                         /* on all ranks, rank 0's clock */
    char reason[DT_CHECKPOINT_REASON_BYTES]; /* FAILED */
};

/* An iteration of all devices. */
struct dt_pipeline_iteration {
    uint32_t number;
    uint32_t schedule;    /* number; 0: the first one */
    int64_t begin_ns;     /* of the first rank's device, on the clock of its host (base/clock.h) */
    int64_t time_ns;      /* of the device that took longest, with its gradients */
    int64_t dp_ns;        /* of these: behind the last action of all devices, for gradients alone */
    int64_t predicted_ns; /* by the model of the schedule library */
    int64_t held_ns;      /* sum over the devices: by sends without a slot */
    int64_t wait_ns;      /* sum over the devices: for messages */
    double bubble;        /* share of the devices' time without computing */
    double cpu;           /* share of this machine's cores that the ranks used */
    uint64_t staged;      /* messages that went over the host path */
    uint64_t pool_full;   /* sends that found the staging memory full */
    int64_t pause_ns;     /* before the iteration: an exchange of ranks or a remedy; 0: none */
    int32_t remedy;       /* of a controller, in force: enum detour_step; S4: the run ends */
    struct dt_pipeline_checkpoint_result checkpoint;
    uint32_t slow_count;
    uint32_t hostpath_count;
    struct dt_pipeline_flow slow[DT_PIPELINE_FLOWS_SHOWN];     /* by the verdicts after the iteration */
    struct dt_pipeline_flow hostpath[DT_PIPELINE_FLOWS_SHOWN]; /* over the host path by command */
};

/* Runs the rank in this process. False with the reason in *error. */
bool dt_pipeline_rank_run(const struct dt_pipeline_options *options, struct dt_job_link *link,
                          struct dt_job_error *error);

#ifdef __cplusplus
}
#endif

#endif
