/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/remedy.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/exit.h"
#include "cli/arg.h"
#include "cli/pipeline/claim.h"
#include "cli/pipeline/follow.h"
#include "controller/record.h"
#include "detour/mitigate.h"

/* The numbers of a controller with another store begin anew. */
static bool is_newer(const struct dt_pipeline_remedy *remedy, const struct dt_decision *decision)
{
    return decision->time_ns > remedy->time_ns || decision->fence > remedy->fence ||
           (decision->fence == remedy->fence && decision->number > remedy->number);
}

bool dt_pipeline_remedy_is_new(const struct dt_pipeline_remedy *present,
                               const struct dt_pipeline_remedy *read)
{
    return read->counts[0] && (read->fence != present->fence || read->number != present->number ||
                               read->time_ns != present->time_ns);
}

bool dt_pipeline_remedy_ends_run(const struct dt_pipeline_remedy *present,
                                 const struct dt_pipeline_remedy *read)
{
    return dt_pipeline_remedy_is_new(present, read) && read->step == DETOUR_STEP_S4;
}

static bool has_place_changes(const struct dt_decision *decision)
{
    for (size_t i = 0; i < decision->node_count; i++) {
        if (decision->nodes[i] != (int32_t)i)
            return true;
    }
    return false;
}

/* The run began otherwise: also after S1, which leaves the ranks where S3 has put them. A restart is over. */
static bool is_in_force(const struct dt_decision *decision)
{
    return decision->step == DETOUR_STEP_S2 || decision->step == DETOUR_STEP_S3 ||
           (decision->step == DETOUR_STEP_S1 && has_place_changes(decision));
}

static const char *misfit_of_counts(const struct dt_pipeline_options *options,
                                    const struct dt_decision *decision)
{
    int64_t sum = 0;

    for (size_t i = 0; i < decision->replica_count; i++) {
        sum += decision->counts[i];
        if (decision->counts[i] > DT_PIPELINE_SHARE_MICROBATCHES_MAX)
            return "a replica has too many microbatches";
    }
    return sum != (int64_t)options->replicas * options->microbatches
               ? "the run has another sum of microbatches"
               : NULL;
}

/* As the options of the same names demand. NULL: it fits. */
static const char *misfit(const struct dt_pipeline_options *options, const struct dt_decision *decision)
{
    if (options->replicas < 2)
        return "the run has one replica";
    if (decision->replica_count != (size_t)options->replicas)
        return "the run has another number of replicas";
    if (decision->node_count != options->job.ranks)
        return "the run has another number of ranks";
    if ((options->input && options->input->schedule) || dt_pipeline_options_has_timeline(options))
        return "the run has --plan or a picture";
    if (has_place_changes(decision) && (options->input || options->slow.kill.nic[0]))
        return "it exchanges ranks, and the run has --profile or --kill";
    return misfit_of_counts(options, decision);
}

static void refuse(struct dt_pipeline_remedy *remedy, const struct dt_decision *decision, const char *reason)
{
    if (remedy->refused_number == decision->number && remedy->refused_fence == decision->fence)
        return;
    remedy->refused_number = decision->number;
    remedy->refused_fence = decision->fence;
    dt_arg_refuse("detour pipeline", "remedy %" PRId64 " of the controller (%s) is not taken: %s",
                  decision->number, detour_step_name((enum detour_step)decision->step), reason);
}

void dt_pipeline_remedy_start(const struct dt_pipeline_options *options, uint32_t iteration,
                              struct dt_pipeline_remedy *remedy)
{
    struct dt_decision decision;
    const char *reason = NULL;

    *remedy = (struct dt_pipeline_remedy){0};
    if (!dt_pipeline_follow_decision(DT_DECISION_REMEDY, &decision, &remedy->refused))
        return;
    if (options->checkpoints.resumes && is_in_force(&decision)) {
        if (iteration == 0)
            reason = "it is older than this job, which has no checkpoint";
        else if (!dt_pipeline_claim_is(options->checkpoints.directory))
            reason = "another job has used this runtime directory";
        if (!reason)
            return;
        refuse(remedy, &decision, reason);
    }
    remedy->number = decision.number;
    remedy->fence = decision.fence;
    remedy->time_ns = decision.time_ns;
}

bool dt_pipeline_remedy_begin(const struct dt_pipeline_options *options, struct dt_job_rank *job,
                              uint32_t iteration, struct dt_pipeline_remedy *remedy)
{
    if (options->adapt != DT_PIPELINE_ADAPT_CONTROL)
        return true;
    if (job->link->rank == 0)
        dt_pipeline_remedy_start(options, iteration, remedy);
    if (!dt_job_exchange(job->link, NULL, 0, NULL,
                         job->error)) /* before any rank overwrites the claim of before */
        return false;
    dt_pipeline_claim_set(options->checkpoints.directory);
    return true;
}

void dt_pipeline_remedy_read(const struct dt_pipeline_options *options, struct dt_pipeline_remedy *remedy)
{
    struct dt_decision decision;
    const char *reason;

    if (!dt_pipeline_follow_decision(DT_DECISION_REMEDY, &decision, &remedy->refused) ||
        !is_newer(remedy, &decision))
        return;
    reason = misfit(options, &decision);
    if (reason) {
        refuse(remedy, &decision, reason);
        return;
    }
    *remedy = (struct dt_pipeline_remedy){.number = decision.number,
                                          .fence = decision.fence,
                                          .time_ns = decision.time_ns,
                                          .refused = remedy->refused,
                                          .step = decision.step};
    for (size_t i = 0; i < decision.replica_count; i++)
        remedy->counts[i] = decision.counts[i];
    for (size_t i = 0; i < decision.node_count; i++)
        remedy->ranks[i] = decision.nodes[i];
}

/* From each rank at the position of its number to the remedy's positions. */
static void set_exchanges(const struct dt_pipeline_remedy *remedy, unsigned count, uint32_t iteration,
                          struct dt_pipeline_exchanges *exchanges)
{
    int32_t ranks[DT_PIPELINE_RANKS_MAX]; /* [position] */

    exchanges->count = 0;
    for (unsigned i = 0; i < count; i++)
        ranks[i] = (int32_t)i;
    for (unsigned position = 0; position < count; position++) {
        unsigned from = position;

        while (ranks[from] != remedy->ranks[position])
            from++;
        if (from == position)
            continue;
        DT_CHECK(exchanges->count < DT_PIPELINE_EXCHANGES_MAX);
        exchanges->list[exchanges->count++] = (struct dt_pipeline_exchange){
            .a = (unsigned)ranks[position], .b = (unsigned)ranks[from], .before = iteration};
        ranks[from] = ranks[position];
        ranks[position] = remedy->ranks[position];
    }
}

bool dt_pipeline_remedy_set(const struct dt_pipeline_remedy *remedy, uint32_t iteration,
                            struct dt_pipeline_options *options, struct dt_pipeline_plan *plan,
                            struct dt_job_error *error)
{
    struct detour_error reason;
    struct dt_pipeline_share_set *set = &options->shares.sets[0];

    *set = (struct dt_pipeline_share_set){.from = iteration, .replicas = options->replicas};
    for (int32_t i = 0; i < options->replicas; i++)
        set->counts[i] = remedy->counts[i];
    options->shares.set_count = 1; /* earlier iterations are over */
    set_exchanges(remedy, options->job.ranks, iteration, &options->exchanges);
    plan->options = options;
    return dt_pipeline_plan_vary(plan, &reason) ||
           dt_job_fail(error, DT_EXIT_FAILED, "%s of the controller: %s",
                       detour_step_name((enum detour_step)remedy->step), reason.text);
}
