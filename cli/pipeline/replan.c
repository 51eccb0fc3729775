/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/replan.h"

/* Decided after iteration k, sent after k + 1, confirmed after k + 2, used from k + 3 on. */
#define ROUNDS_OF_A_PROPOSAL 2

struct dt_pipeline_variant dt_pipeline_replan_of(const struct dt_pipeline_replan *replan, int32_t replica,
                                                 uint32_t iteration)
{
    return dt_pipeline_variant_of(replan->plan, &replan->present, replica, iteration);
}

int64_t dt_pipeline_replan_predict_ns(const struct dt_pipeline_replan *replan, uint32_t iteration)
{
    const struct detour_schedule *schedules[DT_PIPELINE_RANKS_MAX];

    for (int32_t i = 0; i < replan->options->replicas; i++)
        schedules[i] = dt_pipeline_replan_of(replan, i, iteration).schedule;
    return dt_pipeline_plan_predict_ns(replan->plan, schedules, iteration);
}

/* ---- A remedy. ---- */

void dt_pipeline_replan_offer(struct dt_pipeline_replan *replan, const struct dt_pipeline_remedy *remedy)
{
    unsigned ranks[DT_PIPELINE_RANKS_MAX];

    for (uint32_t i = 0; i < replan->rank_count; i++)
        ranks[i] = (unsigned)remedy->ranks[i];
    dt_pipeline_follow_delays(&replan->follow, &replan->plan->profile, replan->options->replicas, ranks,
                              &replan->proposed);
}

void dt_pipeline_replan_remedied(struct dt_pipeline_replan *replan, const struct dt_pipeline_delays *delays,
                                 uint32_t iteration)
{
    const struct dt_pipeline_delays none = {0};

    dt_pipeline_candidate_free(&replan->present);
    dt_pipeline_candidate_free(&replan->next);
    replan->schedule = 0;
    replan->planned = none;
    replan->staged = *delays;
    if (dt_pipeline_adapt_prepare(replan->plan, &replan->present, iteration, &none, delays, &replan->next) !=
        DETOUR_ADAPT_CHANGE)
        return;
    dt_pipeline_candidate_take(&replan->present, &replan->next);
    replan->planned = *delays;
    replan->schedule = dt_agreement_count_change(&replan->agreement);
}

static bool set_staging(struct dt_pipeline_replan *replan, uint32_t position, struct dt_job_error *error)
{
    return dt_pipeline_staging_set(&replan->staging, &replan->plan->profile, &replan->staged, position,
                                   replan->ranks, replan->processes, error);
}

bool dt_pipeline_replan_connected(struct dt_pipeline_replan *replan, uint32_t position,
                                  struct dt_job_error *error)
{
    dt_pipeline_staging_reset(&replan->staging);
    return set_staging(replan, position, error);
}

/* ---- A proposal. ---- */

/* The verdicts of all ranks call for another schedule, or the host path for other flows. */
static bool verdicts_call(struct dt_pipeline_replan *replan, const struct dt_pipeline_result *results,
                          uint32_t next, struct dt_pipeline_delays *measured)
{
    const struct dt_pipeline_plan *plan = replan->plan;
    struct dt_pipeline_verdicts verdicts[DT_PIPELINE_RANKS_MAX];

    for (uint32_t i = 0; i < replan->rank_count; i++)
        verdicts[i] = results[i].verdicts;
    dt_pipeline_delays_of_replicas(&plan->profile, replan->options->replicas, verdicts, measured);
    bool is_other = dt_pipeline_adapt_decide(plan, dt_pipeline_replan_of(replan, 0, next).schedule,
                                             &replan->planned, measured, &replan->adapt_state);
    return dt_pipeline_staging_changes(&replan->staging, &plan->profile, &replan->staged, measured) ||
           is_other;
}

/* Rank 0: a new proposal, if there is a reason for one. */
static void propose(struct dt_pipeline_replan *replan, const struct dt_pipeline_result *results,
                    uint32_t next)
{
    struct dt_pipeline_delays measured;

    if (replan->agreement.own.number)
        return;
    if (replan->options->adapt == DT_PIPELINE_ADAPT_CONTROL
            ? !dt_pipeline_follow_next(&replan->follow, &replan->plan->profile, replan->options->replicas,
                                       &measured)
            : !verdicts_call(replan, results, next, &measured))
        return;
    replan->proposed = measured;
    dt_agreement_propose(&replan->agreement, next + ROUNDS_OF_A_PROPOSAL);
}

/*
 * The round that brought the proposal: every rank makes the schedules and confirms them in the next round.
 * When no other schedule pays, only the host path changes.
 */
static void prepare(struct dt_pipeline_replan *replan, const struct dt_pipeline_result *results,
                    uint32_t next)
{
    const struct dt_pipeline_plan *plan = replan->plan;
    enum detour_adapt_verdict verdict;

    replan->proposed = results[0].proposed;
    dt_pipeline_candidate_free(&replan->next);
    verdict = dt_pipeline_adapt_prepare(plan, &replan->present, next, &replan->planned, &replan->proposed,
                                        &replan->next);
    replan->obstacle = verdict == DETOUR_ADAPT_CHANGE ? NULL
                       : verdict == DETOUR_ADAPT_KEEP_UNCHANGED
                           ? "the schedules in use are for these delays"
                           : "no other schedule makes an iteration shorter with these delays";
    if (!replan->obstacle || (replan->staging.is_switched &&
                              dt_pipeline_staging_differ(&plan->profile, &replan->staged, &replan->proposed)))
        dt_agreement_prepared(&replan->agreement,
                              dt_pipeline_candidate_digest(plan, &replan->present, &replan->next, next));
    else
        replan->follow.tries = 0; /* another attempt ends like this one */
}

static bool adopt(struct dt_pipeline_replan *replan, uint32_t position, struct dt_job_error *error)
{
    if (replan->next.count) {
        dt_pipeline_candidate_take(&replan->present, &replan->next);
        replan->schedule = replan->agreement.adopted;
        replan->planned = replan->proposed;
    }
    replan->staged = replan->proposed;
    replan->adapt_state = (struct detour_adapt_state){0};
    replan->follow.tries = 0;
    return set_staging(replan, position, error);
}

/* Of a decision that is not proposed again. */
static void discard(struct dt_pipeline_replan *replan)
{
    dt_pipeline_candidate_free(&replan->next);
    if (replan->rank == 0 && replan->options->adapt == DT_PIPELINE_ADAPT_CONTROL && replan->follow.tries == 0)
        dt_pipeline_follow_refuse(&replan->follow,
                                  replan->obstacle
                                      ? replan->obstacle
                                      : "the ranks have not confirmed one schedule before its iteration");
}

bool dt_pipeline_replan_round(struct dt_pipeline_replan *replan, uint32_t position,
                              const struct dt_pipeline_result *results, uint32_t next,
                              struct dt_job_error *error)
{
    struct dt_agreement_part parts[DT_PIPELINE_RANKS_MAX];

    for (uint32_t i = 0; i < replan->rank_count; i++)
        parts[i] = results[i].part;
    switch (dt_agreement_round(&replan->agreement, parts, replan->rank_count, next)) {
    case DT_AGREEMENT_PREPARE:
        prepare(replan, results, next);
        break;
    case DT_AGREEMENT_ADOPT:
        if (!adopt(replan, position, error))
            return false;
        break;
    case DT_AGREEMENT_DISCARD:
        discard(replan);
        break;
    case DT_AGREEMENT_KEEP:
        break;
    }
    if (replan->rank == 0)
        propose(replan, results, next);
    return true;
}

void dt_pipeline_replan_free(struct dt_pipeline_replan *replan)
{
    dt_pipeline_candidate_free(&replan->present);
    dt_pipeline_candidate_free(&replan->next);
}
