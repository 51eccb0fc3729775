/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves the parameters of a device to the rank that has its position from now on, between two iterations and
 * while the pipeline's connections are closed: over connections of their own, or through files. Every rank of
 * the job calls this, also those that keep their positions. detour_exchange_pause() has the model of the
 * time.
 */
#ifndef DETOUR_CLI_PIPELINE_MOVE_H
#define DETOUR_CLI_PIPELINE_MOVE_H

#include "job/rank.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_pipeline_move {
    struct dt_job_rank *job;
    unsigned to;   /* the rank that gets them */
    unsigned from; /* the rank that has what this one gets; both this rank: nothing moves here */
    void *data;    /* is replaced */
    uint64_t bytes;
    const char *directory; /* of the files, each written to the disk and removed at the end; "": none */
};

/* Creates the rank's file in the folder and removes it: a folder that is missing or refuses files is found
 * before the first iteration. False with the reason in *error, as wrong usage. */
bool dt_pipeline_move_check_folder(const char *directory, unsigned rank, struct dt_job_error *error);

/* Main thread. False with the reason in job->error. */
bool dt_pipeline_move(const struct dt_pipeline_move *move);

#ifdef __cplusplus
}
#endif

#endif
