/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The remedies of a controller (`detour control --cluster`), as all ranks carry them out with --adapt
 * control: rank 0 reads remedy.json, and its result of an iteration brings the remedy to all ranks, which
 * change their options before the next one. A file that is not there, or is no remedy for this run, changes
 * nothing but a line on standard error.
 */
#ifndef DETOUR_CLI_PIPELINE_REMEDY_H
#define DETOUR_CLI_PIPELINE_REMEDY_H

#include "cli/pipeline/plan.h"
#include "cli/pipeline/ranks.h"
#include "job/error.h"
#include "job/rank.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_pipeline_remedy {
    int64_t number; /* of the decision */
    int64_t fence;
    int64_t time_ns;        /* of the decision */
    int64_t refused_number; /* the last one that does not fit, as the next; 0: none */
    int64_t refused_fence;
    uint64_t refused;                      /* see dt_pipeline_follow_decision() */
    int32_t step;                          /* enum detour_step */
    int32_t counts[DT_PIPELINE_RANKS_MAX]; /* [replica]: microbatches; [0] is 0: there is no remedy */
    int32_t ranks[DT_PIPELINE_RANKS_MAX];  /* [position] */
};

/*
 * Rank 0, before the run's first iteration, `iteration`. A remedy that is there already is one for an earlier
 * job. A run that continues from a checkpoint takes the microbatches and positions of its own job again; but
 * not a restart, which this run is. Those of another job (claim.h) are one line on standard error. A
 * controller that is at work decides for S1 when it finds that the job was started again.
 */
void dt_pipeline_remedy_start(const struct dt_pipeline_options *options, uint32_t iteration,
                              struct dt_pipeline_remedy *remedy);

/* The start of a run, on every rank: dt_pipeline_remedy_start() on rank 0, then the claim (claim.h). False
 * with *error: the job has ended. */
bool dt_pipeline_remedy_begin(const struct dt_pipeline_options *options, struct dt_job_rank *job,
                              uint32_t iteration, struct dt_pipeline_remedy *remedy);

/* `read` was read after `present` had come into force. */
bool dt_pipeline_remedy_is_new(const struct dt_pipeline_remedy *present,
                               const struct dt_pipeline_remedy *read);

/* It is new, and ends the run: step S4. */
bool dt_pipeline_remedy_ends_run(const struct dt_pipeline_remedy *present,
                                 const struct dt_pipeline_remedy *read);

/* Rank 0. *remedy, the last one that was read, becomes a newer one if that fits the run; otherwise
 * one line has the reason. */
void dt_pipeline_remedy_read(const struct dt_pipeline_options *options, struct dt_pipeline_remedy *remedy);

/* The microbatches and exchanges of the options from that iteration on, and the plan's schedules for them.
 * False with the reason in *error. */
bool dt_pipeline_remedy_set(const struct dt_pipeline_remedy *remedy, uint32_t iteration,
                            struct dt_pipeline_options *options, struct dt_pipeline_plan *plan,
                            struct dt_job_error *error);

#ifdef __cplusplus
}
#endif

#endif
