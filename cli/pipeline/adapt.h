/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of --adapt iteration: a rank's own verdicts (detour/stat.h), what they mean for the profile, and
 * the schedule that follows from them. Verdicts travel as structs; every rank makes the same schedule from
 * the same delays by itself, and its digest shows that it is the same (pipeline/agreement.h).
 */
#ifndef DETOUR_CLI_PIPELINE_ADAPT_H
#define DETOUR_CLI_PIPELINE_ADAPT_H

#include "cli/pipeline/plan.h"
#include "cli/pipeline/ranks.h"
#include "job/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A delay matters from this share of the longest forward or backward next to it. */
#define DT_PIPELINE_CHANGE_PERMILLE 200

/* A rank sends to at most this many others: the neighbors of its stages, and the next replica. */
#define DT_PIPELINE_VERDICTS_MAX 5

/* The slow links of one rank's messages. Unused entries have to_rank -1. */
struct dt_pipeline_verdicts {
    uint64_t staged_messages; /* that this process has sent over the host path so far */
    uint64_t pool_full;       /* its sends that found the staging memory full */
    struct {
        int32_t to_rank;
        int32_t reserved;
        int64_t delay_ns;
    } slow[DT_PIPELINE_VERDICTS_MAX];
};

/* This process's verdicts as of now; empty when its page cannot be read. */
void dt_pipeline_verdicts_read(struct dt_pipeline_verdicts *verdicts);

/* Delays that are added to the links of the planned profile: what is measured, or what a schedule is made
 * for. */
struct dt_pipeline_delays {
    int32_t link_count;
    int64_t forward_ns[DT_PIPELINE_STAGES_MAX];
    int64_t backward_ns[DT_PIPELINE_STAGES_MAX];
};

/* The delays that the verdicts of all ranks add to those that the profile gives its links. */
void dt_pipeline_delays_from_verdicts(const struct detour_profile *profile,
                                      const struct dt_pipeline_verdicts *verdicts,
                                      struct dt_pipeline_delays *delays);

/* The same of several replicas, whose verdicts follow each other: the largest delay of each link. */
void dt_pipeline_delays_of_replicas(const struct detour_profile *profile, int32_t replicas,
                                    const struct dt_pipeline_verdicts *verdicts,
                                    struct dt_pipeline_delays *delays);

/* Smaller delays change neither the schedule nor the host path; the links of a busy machine have them. */
int64_t dt_pipeline_least_delay_ns(const struct detour_profile *profile);

/* Identifies the order of operations; not 0. */
uint64_t dt_pipeline_schedule_digest(const struct detour_schedule *schedule);

/* The schedule that a rank has executed in an iteration. */
struct dt_pipeline_used {
    uint32_t number; /* 0: the plan's */
    int32_t replica; /* replicas may have microbatches of their own, and so other orders */
    uint64_t digest;
};

/* All ranks have executed the same number, and those of a replica the same schedule. False with the reason.
 */
bool dt_pipeline_adapt_check(const struct dt_pipeline_used *used, unsigned ranks, uint32_t iteration,
                             struct dt_job_error *error);

/* Schedules for some delays, one for each number of microbatches that a replica has. Starts zeroed. */
struct dt_pipeline_candidate {
    size_t count; /* 0: there is no candidate */
    struct dt_pipeline_order {
        struct detour_arena *arena; /* has the schedule and the program */
        struct dt_pipeline_variant variant;
    } orders[DT_PIPELINE_RANKS_MAX];
};

/* What a replica executes in an iteration: the schedule of `present` for its number of microbatches, or, if
 * there is none, the plan's. */
struct dt_pipeline_variant dt_pipeline_variant_of(const struct dt_pipeline_plan *plan,
                                                  const struct dt_pipeline_candidate *present,
                                                  int32_t replica, uint32_t iteration);

/* Rank 0: whether to change from `present`, made for `planned`, under the `measured` delays. */
bool dt_pipeline_adapt_decide(const struct dt_pipeline_plan *plan, const struct detour_schedule *present,
                              const struct dt_pipeline_delays *planned,
                              const struct dt_pipeline_delays *measured, struct detour_adapt_state *state);

/*
 * Every rank: the schedules for `measured` with the numbers of microbatches of that iteration, the same for
 * the same arguments. A number for which no other schedule pays is not in *candidate. CHANGE: there is one at
 * least. NO_GAIN also when out of memory.
 */
enum detour_adapt_verdict
dt_pipeline_adapt_prepare(const struct dt_pipeline_plan *plan, const struct dt_pipeline_candidate *present,
                          uint32_t iteration, const struct dt_pipeline_delays *planned,
                          const struct dt_pipeline_delays *measured, struct dt_pipeline_candidate *candidate);

/* Of the schedules of all replicas in that iteration if `present` takes `candidate`; not 0. */
uint64_t dt_pipeline_candidate_digest(const struct dt_pipeline_plan *plan,
                                      const struct dt_pipeline_candidate *present,
                                      const struct dt_pipeline_candidate *candidate, uint32_t iteration);

/* The schedules of *candidate take the place of those of *present with the same numbers of microbatches.
 * *candidate is empty then. */
void dt_pipeline_candidate_take(struct dt_pipeline_candidate *present,
                                struct dt_pipeline_candidate *candidate);

void dt_pipeline_candidate_free(struct dt_pipeline_candidate *candidate);

#ifdef __cplusplus
}
#endif

#endif
