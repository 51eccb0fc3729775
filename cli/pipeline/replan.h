/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schedules that the ranks of a run use together (--adapt): those of the plan, or others for the delays
 * of links as they are now, one for each number of microbatches that a replica has. Rank 0 proposes delays;
 * every rank makes the schedules, and all change to them before one iteration (pipeline/agreement.h). A
 * remedy of a controller changes numbers of microbatches and positions: rank 0 gives the delays of the newest
 * decision at the new positions together with it, and every rank makes the schedules for these anew, so that
 * a re-plan stays in force. The ranks compare what they have executed after each iteration (adapt.h).
 */
#ifndef DETOUR_CLI_PIPELINE_REPLAN_H
#define DETOUR_CLI_PIPELINE_REPLAN_H

#include "cli/pipeline/follow.h"
#include "cli/pipeline/result.h"
#include "cli/pipeline/rules.h"
#include "cli/pipeline/staging.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One rank's view. Starts zeroed, but for what its owner sets. */
struct dt_pipeline_replan {
    /* Set by the owner; they outlive it. */
    const struct dt_pipeline_options *options; /* with the remedies of the controller */
    const struct dt_pipeline_plan *plan;
    const unsigned *ranks;                       /* [position]: who is there */
    const struct dt_pipeline_process *processes; /* [rank] */
    uint32_t rank_count;
    unsigned rank;
    /* Its own. */
    struct dt_agreement agreement;
    struct detour_adapt_state adapt_state; /* rank 0; as the next three */
    struct dt_pipeline_follow follow;
    const char *obstacle;                 /* why the pending proposal brings nothing; NULL: it does */
    struct dt_pipeline_candidate present; /* the schedules in use that are not the plan's */
    struct dt_pipeline_candidate next;    /* prepared */
    struct dt_pipeline_delays planned;    /* that the schedules in use were made for */
    struct dt_pipeline_delays proposed;   /* that the next ones are made for */
    struct dt_pipeline_delays staged;     /* whose flows have the host path */
    uint32_t schedule;                    /* number of the schedules in use; 0: the plan's */
    struct dt_pipeline_staging staging;
};

/* What a replica executes in an iteration. */
struct dt_pipeline_variant dt_pipeline_replan_of(const struct dt_pipeline_replan *replan, int32_t replica,
                                                 uint32_t iteration);

/* The time that the model gives an iteration, as dt_pipeline_plan_predict_ns(). */
int64_t dt_pipeline_replan_predict_ns(const struct dt_pipeline_replan *replan, uint32_t iteration);

/* Rank 0 has a new remedy with ranks at these positions: the delays that go to all ranks with it. */
void dt_pipeline_replan_offer(struct dt_pipeline_replan *replan, const struct dt_pipeline_remedy *remedy);

/* Every rank, when plan and options have a remedy that holds from that iteration on: the schedules for it. */
void dt_pipeline_replan_remedied(struct dt_pipeline_replan *replan, const struct dt_pipeline_delays *delays,
                                 uint32_t iteration);

/* Before an iteration all ranks have made their connections anew, this one for that position. False with the
 * reason in *error. Blocks. */
bool dt_pipeline_replan_connected(struct dt_pipeline_replan *replan, uint32_t position,
                                  struct dt_job_error *error);

/*
 * The round between two iterations, of which `next` is the later one. position: of this rank; results: of all
 * ranks. False with the reason in *error. Blocks.
 */
bool dt_pipeline_replan_round(struct dt_pipeline_replan *replan, uint32_t position,
                              const struct dt_pipeline_result *results, uint32_t next,
                              struct dt_job_error *error);

void dt_pipeline_replan_free(struct dt_pipeline_replan *replan);

#ifdef __cplusplus
}
#endif

#endif
