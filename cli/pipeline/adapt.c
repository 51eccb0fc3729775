/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/adapt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/digest.h"
#include "base/exit.h"
#include "base/param.h"
#include "base/util.h"
#include "detour/stat.h"
#include "obs/runtime_dir.h"

#define CONFIRM_COUNT 2
#define SEARCH_US     20000 /* on every rank */

static void count_staged(const struct detour_stat_snapshot *snapshot, struct dt_pipeline_verdicts *verdicts)
{
    const struct detour_stat_process *process =
        detour_stat_process_count(snapshot) > 0 ? detour_stat_get_process(snapshot, 0) : NULL;

    for (size_t i = 0; process && i < process->connection_count; i++) {
        verdicts->staged_messages += detour_stat_get_connection(process, i)->staged_messages;
        verdicts->pool_full += detour_stat_get_connection(process, i)->pool_full;
    }
}

void dt_pipeline_verdicts_read(struct dt_pipeline_verdicts *verdicts)
{
    struct detour_stat_snapshot *snapshot;
    struct detour_stat_link *links;
    size_t count, used = 0;

    *verdicts = (struct dt_pipeline_verdicts){0};
    for (size_t i = 0; i < DT_PIPELINE_VERDICTS_MAX; i++)
        verdicts->slow[i].to_rank = -1;
    if (detour_stat_read(dt_getenv_process(NULL, "DETOUR_RUNTIME_DIR"), dt_runtime_own_number(), &snapshot,
                         NULL))
        return;
    links = detour_stat_links(snapshot, &count);
    for (size_t i = 0; links && i < count && used < DT_PIPELINE_VERDICTS_MAX; i++) {
        if (!links[i].is_slow)
            continue;
        verdicts->slow[used].to_rank = links[i].to_rank;
        verdicts->slow[used++].delay_ns = (int64_t)links[i].delay_ns;
    }
    free(links);
    count_staged(snapshot, verdicts);
    detour_stat_free(snapshot);
}

static int64_t delay_between(const struct dt_pipeline_verdicts *from, int32_t to_rank)
{
    for (size_t i = 0; i < DT_PIPELINE_VERDICTS_MAX; i++) {
        if (from->slow[i].to_rank == to_rank && from->slow[i].delay_ns > 0)
            return from->slow[i].delay_ns < DETOUR_TIME_MAX_NS ? from->slow[i].delay_ns : DETOUR_TIME_MAX_NS;
    }
    return 0;
}

static int64_t beyond(int64_t delay_ns, int64_t planned_ns)
{
    return delay_ns > planned_ns ? delay_ns - planned_ns : 0;
}

void dt_pipeline_delays_from_verdicts(const struct detour_profile *profile,
                                      const struct dt_pipeline_verdicts *verdicts,
                                      struct dt_pipeline_delays *delays)
{
    memset(delays, 0, sizeof *delays);
    delays->link_count = profile->stage_count - 1;
    for (int32_t i = 0; i < delays->link_count; i++) {
        int32_t low = profile->stages[i].device, high = profile->stages[i + 1].device;

        if (low == high)
            continue;
        const struct detour_link *link = &profile->links[i];
        delays->forward_ns[i] =
            beyond(delay_between(&verdicts[low], high), link->forward_ns + link->forward_serial_ns);
        delays->backward_ns[i] =
            beyond(delay_between(&verdicts[high], low), link->backward_ns + link->backward_serial_ns);
    }
}

static int64_t later(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

void dt_pipeline_delays_of_replicas(const struct detour_profile *profile, int32_t replicas,
                                    const struct dt_pipeline_verdicts *verdicts,
                                    struct dt_pipeline_delays *delays)
{
    const int32_t devices = profile->device_count;

    *delays = (struct dt_pipeline_delays){.link_count = profile->stage_count - 1};
    for (int32_t replica = 0; replica < replicas; replica++) {
        struct dt_pipeline_verdicts own[DT_PIPELINE_RANKS_MAX];
        struct dt_pipeline_delays measured;

        memcpy(own, &verdicts[replica * devices], (size_t)devices * sizeof *own);
        for (int32_t i = 0; i < devices; i++) /* a rank of another replica becomes no device */
            for (size_t k = 0; k < DT_PIPELINE_VERDICTS_MAX; k++)
                own[i].slow[k].to_rank -= replica * devices;
        dt_pipeline_delays_from_verdicts(profile, own, &measured);
        for (int32_t i = 0; i < delays->link_count; i++) {
            delays->forward_ns[i] = later(delays->forward_ns[i], measured.forward_ns[i]);
            delays->backward_ns[i] = later(delays->backward_ns[i], measured.backward_ns[i]);
        }
    }
}

int64_t dt_pipeline_least_delay_ns(const struct detour_profile *profile)
{
    int64_t least_ns = INT64_MAX;

    for (int32_t i = 0; i < profile->stage_count; i++) {
        int64_t longest_ns = later(profile->stages[i].f_ns, profile->stages[i].b_ns);

        least_ns = longest_ns < least_ns ? longest_ns : least_ns;
    }
    return least_ns / 1000 * DT_PIPELINE_CHANGE_PERMILLE;
}

/* The planned profile with delays; the links lie in `links`. */
static struct detour_profile with_delays(const struct detour_profile *planned,
                                         const struct dt_pipeline_delays *delays,
                                         struct detour_link links[DT_PIPELINE_STAGES_MAX])
{
    struct detour_profile profile = *planned;

    for (int32_t i = 0; i + 1 < profile.stage_count; i++) {
        links[i] = profile.links[i];
        links[i].forward_ns += delays->forward_ns[i];
        links[i].backward_ns += delays->backward_ns[i];
    }
    profile.links = links;
    return profile;
}

/* *adaptation is valid unless the verdict is NO_GAIN. */
static enum detour_adapt_verdict
adapt(struct detour_arena *arena, const struct detour_profile *profile, const struct detour_schedule *present,
      const struct dt_pipeline_delays *planned, const struct dt_pipeline_delays *measured,
      int32_t confirm_count, struct detour_adapt_state *state, struct detour_adaptation **adaptation)
{
    struct detour_link planned_links[DT_PIPELINE_STAGES_MAX], measured_links[DT_PIPELINE_STAGES_MAX];
    struct detour_profile before = with_delays(profile, planned, planned_links);
    struct detour_profile now = with_delays(profile, measured, measured_links);
    const struct detour_adapt_options options = {
        .generate = {.node_budget = detour_node_budget(profile, SEARCH_US)},
        .change_permille_min = DT_PIPELINE_CHANGE_PERMILLE,
        .confirm_count = confirm_count,
    };

    return detour_adapt(arena, &before, &now, present, &options, state, adaptation, NULL) == DETOUR_OK
               ? (*adaptation)->verdict
               : DETOUR_ADAPT_KEEP_NO_GAIN;
}

bool dt_pipeline_adapt_decide(const struct dt_pipeline_plan *plan, const struct detour_schedule *present,
                              const struct dt_pipeline_delays *planned,
                              const struct dt_pipeline_delays *measured, struct detour_adapt_state *state)
{
    struct detour_arena *arena = detour_arena_create();
    struct detour_adaptation *adaptation;
    bool changes = arena && adapt(arena, &plan->profile, present, planned, measured, CONFIRM_COUNT, state,
                                  &adaptation) == DETOUR_ADAPT_CHANGE;

    detour_arena_destroy(arena);
    return changes;
}

uint64_t dt_pipeline_schedule_digest(const struct detour_schedule *schedule)
{
    uint64_t digest = DT_DIGEST_EMPTY;

    for (size_t i = 0; i < schedule->op_count; i++) {
        const struct detour_op *op = &schedule->ops[i];
        const int32_t fields[] = {op->microbatch, op->stage, op->kind, op->flags};
        digest = dt_digest_add(digest, fields, sizeof fields);
    }
    return digest ? digest : 1;
}

static const struct dt_pipeline_order *find_order(const struct dt_pipeline_candidate *candidate,
                                                  int32_t microbatches)
{
    for (size_t i = 0; i < candidate->count; i++) {
        if (candidate->orders[i].variant.profile.microbatch_count == microbatches)
            return &candidate->orders[i];
    }
    return NULL;
}

struct dt_pipeline_variant dt_pipeline_variant_of(const struct dt_pipeline_plan *plan,
                                                  const struct dt_pipeline_candidate *present,
                                                  int32_t replica, uint32_t iteration)
{
    const struct dt_pipeline_variant planned = dt_pipeline_plan_of(plan, replica, iteration);
    const struct dt_pipeline_order *order = find_order(present, planned.profile.microbatch_count);

    return order ? order->variant : planned;
}

/* From `present`, of a number of microbatches. */
static enum detour_adapt_verdict make_order(const struct dt_pipeline_variant *present,
                                            const struct dt_pipeline_delays *planned,
                                            const struct dt_pipeline_delays *measured,
                                            struct dt_pipeline_order *order)
{
    struct detour_adapt_state state = {0};
    struct detour_adaptation *adaptation;
    enum detour_adapt_verdict verdict = DETOUR_ADAPT_KEEP_NO_GAIN;

    *order = (struct dt_pipeline_order){detour_arena_create(), *present};
    if (order->arena)
        verdict = adapt(order->arena, &present->profile, present->schedule, planned, measured, 1, &state,
                        &adaptation);
    if (verdict == DETOUR_ADAPT_CHANGE) {
        order->variant.schedule = adaptation->plan->schedule;
        if (!detour_program_create(order->arena, &present->profile, order->variant.schedule,
                                   &order->variant.program, NULL) &&
            !detour_program_check(order->arena, &present->profile, order->variant.program, NULL))
            return verdict;
        verdict = DETOUR_ADAPT_KEEP_NO_GAIN;
    }
    detour_arena_destroy(order->arena);
    return verdict;
}

/* No replica before it has as many microbatches. */
static bool is_first(const struct dt_pipeline_plan *plan, int32_t replica, uint32_t iteration)
{
    const int32_t count = dt_pipeline_options_share(plan->options, replica, iteration).count;

    for (int32_t i = 0; i < replica; i++) {
        if (dt_pipeline_options_share(plan->options, i, iteration).count == count)
            return false;
    }
    return true;
}

enum detour_adapt_verdict
dt_pipeline_adapt_prepare(const struct dt_pipeline_plan *plan, const struct dt_pipeline_candidate *present,
                          uint32_t iteration, const struct dt_pipeline_delays *planned,
                          const struct dt_pipeline_delays *measured, struct dt_pipeline_candidate *candidate)
{
    enum detour_adapt_verdict best = DETOUR_ADAPT_KEEP_UNCHANGED;

    candidate->count = 0;
    for (int32_t replica = 0; replica < plan->options->replicas; replica++) {
        const struct dt_pipeline_variant from = dt_pipeline_variant_of(plan, present, replica, iteration);
        enum detour_adapt_verdict verdict;

        if (!is_first(plan, replica, iteration))
            continue;
        verdict = make_order(&from, planned, measured, &candidate->orders[candidate->count]);
        candidate->count += verdict == DETOUR_ADAPT_CHANGE;
        best = verdict > best ? verdict : best;
    }
    return best;
}

uint64_t dt_pipeline_candidate_digest(const struct dt_pipeline_plan *plan,
                                      const struct dt_pipeline_candidate *present,
                                      const struct dt_pipeline_candidate *candidate, uint32_t iteration)
{
    uint64_t digest = DT_DIGEST_EMPTY;

    for (int32_t replica = 0; replica < plan->options->replicas; replica++) {
        struct dt_pipeline_variant used = dt_pipeline_variant_of(plan, present, replica, iteration);
        const struct dt_pipeline_order *order = find_order(candidate, used.profile.microbatch_count);
        uint64_t one = dt_pipeline_schedule_digest(order ? order->variant.schedule : used.schedule);

        digest = dt_digest_add(digest, &one, sizeof one);
    }
    return digest ? digest : 1;
}

void dt_pipeline_candidate_take(struct dt_pipeline_candidate *present,
                                struct dt_pipeline_candidate *candidate)
{
    for (size_t i = 0; i < candidate->count; i++) {
        struct dt_pipeline_order *order = (struct dt_pipeline_order *)find_order(
            present, candidate->orders[i].variant.profile.microbatch_count);

        DT_CHECK(order || present->count < DT_PIPELINE_RANKS_MAX);
        if (order)
            detour_arena_destroy(order->arena);
        else
            order = &present->orders[present->count++];
        *order = candidate->orders[i];
    }
    candidate->count = 0;
}

void dt_pipeline_candidate_free(struct dt_pipeline_candidate *candidate)
{
    for (size_t i = 0; i < candidate->count; i++)
        detour_arena_destroy(candidate->orders[i].arena);
    candidate->count = 0;
}

bool dt_pipeline_adapt_check(const struct dt_pipeline_used *used, unsigned ranks, uint32_t iteration,
                             struct dt_job_error *error)
{
    for (unsigned i = 1; i < ranks; i++) {
        unsigned first = 0; /* of the replica */

        while (used[first].replica != used[i].replica)
            first++;
        if (used[i].number != used[0].number || used[i].digest != used[first].digest)
            return dt_job_fail(error, DT_EXIT_FAILED,
                               "iteration %" PRIu32 ": rank %u has executed schedule %" PRIu32 " (%016" PRIx64
                               "), rank %u schedule %" PRIu32 " (%016" PRIx64 ")",
                               iteration, i, used[i].number, used[i].digest, first, used[first].number,
                               used[first].digest);
    }
    return true;
}
