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

#define DT_PIPELINE_POLL_US 150

enum dt_pipeline_frame_kind {
    DT_PIPELINE_FRAME_ITERATION = DT_JOB_FRAME_COMMAND, /* rank 0 -> launcher: struct dt_pipeline_iteration */
};

/* An iteration of all devices. */
struct dt_pipeline_iteration {
    uint32_t number;
    uint32_t schedule;    /* number; 0: the first one */
    int64_t time_ns;      /* of the device that took longest */
    int64_t predicted_ns; /* by the model of the schedule library */
    int64_t held_ns;      /* sum over the devices: by sends without a slot */
    int64_t wait_ns;      /* sum over the devices: for messages */
    double bubble;        /* share of the devices' time without computing */
    double cpu;           /* share of this machine's cores that the ranks used */
};

/* Runs the rank in this process. False with the reason in *error. */
bool dt_pipeline_rank_run(const struct dt_pipeline_options *options, struct dt_job_link *link,
                          struct dt_job_error *error);

#ifdef __cplusplus
}
#endif

#endif
