/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher of a parallel job: starts the ranks, serves their exchanges, hands the command its frames, and
 * makes sure that the job ends: a rank that dies or fails ends it for all, a signal to the launcher too, and
 * no rank outlives the launcher.
 */
#ifndef DETOUR_JOB_LAUNCH_H
#define DETOUR_JOB_LAUNCH_H

#include <stdbool.h>

#include "job/error.h"
#include "job/job.h"
#include "job/link.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_job_launcher;

/* The operations that a command adds to a job. */
struct dt_job_funcs {
    /*
     * A rank's process: does all the work of link->rank. False with the reason in *error, which the launcher
     * then reports. Threads may still be inside the plugin then: the process ends without releasing anything.
     */
    bool (*run_rank)(void *context, struct dt_job_link *link, struct dt_job_error *error);
    /*
     * Launcher: a frame of one of the command's own kinds, whose payload has a NUL behind it. False: unknown,
     * or of a wrong size, which ends the job. May call dt_job_launcher_send(). NULL: the command has no
     * frames.
     */
    bool (*take_frame)(void *context, struct dt_job_launcher *launcher, unsigned rank,
                       const struct dt_job_frame *frame, const void *payload);
    /* Launcher: a rank has finished its work, or (`completed` false) is lost. NULL: not of interest. */
    void (*rank_ended)(void *context, unsigned rank, bool completed);
    /*
     * Launcher, once, when all local ranks' processes have ended: reports the outcome; error->exit_code is 0
     * after success. Returns the exit code of a job without an error.
     */
    int (*finish)(void *context, const struct dt_job_error *error);
};

/*
 * Runs the job as its launcher: forks all ranks, or only rank 0 when the others connect (options->rank == 0).
 * Returns the exit code; after SIGINT or SIGTERM it cleans up and dies of the same signal.
 */
int dt_job_launch(const struct dt_job_options *options, const struct dt_job_funcs *funcs, void *context);

/*
 * Runs options->rank > 0 in this process, with the launcher at options->rendezvous. Returns DT_EXIT_OK, or
 * prints the error and ends the process.
 */
int dt_job_join(const struct dt_job_options *options, const struct dt_job_funcs *funcs, void *context);

/*
 * From take_frame: sends a frame of one of the command's own kinds to a rank. When that fails, the rank is
 * lost and its end follows.
 */
void dt_job_launcher_send(struct dt_job_launcher *launcher, unsigned rank, unsigned kind, const void *payload,
                          size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
