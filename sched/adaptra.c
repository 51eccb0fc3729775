/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ADAPTRA / PipeMorph, section 4. Initial planning (Algorithm 1) assumes unknown delays: equal slack on
 * every link, kept for the whole iteration by strict alternation. Dynamic adaptation (Algorithms 2, 3, 4)
 * uses known delays: it gives each link the slack that it needs and fills idle time with any operation that
 * is ready. docs/schedules.md lists where the papers' pseudo-code is interpreted differently.
 */
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "sched/dispatch.h"
#include "sched/generator.h"
#include "sched/warmup.h"

static enum detour_status choose_warmup(struct dt_call *call, const struct dt_problem *p, int32_t **limits,
                                        const int32_t **given)
{
    if (!dt_arena_new(call->arena, *limits, p->stage_count))
        return dt_fail_memory(call->error);
    dt_warmup_limits(p, *limits);
    *given = call->options->warmup;
    return *given ? dt_warmup_check(call, p, *limits, *given) : DETOUR_OK;
}

/*
 * One stage of the initial plan: F^x (B F)* (B W)* W*. The alternation keeps the slack; W comes earlier
 * only where memory requires it.
 */
static enum detour_status plan_stage(struct dt_call *call, struct dt_builder *builder,
                                     struct dt_memory *memory, int32_t stage, int32_t warmup)
{
    int32_t count = builder->problem->microbatch_count;
    int32_t done[3] = {0};
    int last = DETOUR_OP_F;

    while (done[DETOUR_OP_W] < count) {
        int32_t f = done[DETOUR_OP_F], b = done[DETOUR_OP_B];
        int kind = DETOUR_OP_W;
        if (f < count && f < b + warmup)
            kind = DETOUR_OP_F;
        else if (b < count && (f < count || last != DETOUR_OP_B))
            kind = DETOUR_OP_B;
        if (!dt_memory_fits(memory, kind, stage) && done[DETOUR_OP_W] < b)
            kind = DETOUR_OP_W;
        if (!dt_memory_fits(memory, kind, stage))
            return dt_fail(call, DETOUR_MEMORY_TOO_SMALL,
                           "stage %" PRId32 ": memory has no room for a warm-up of %" PRId32 " forwards",
                           stage, warmup);
        dt_memory_apply(memory, kind, stage);
        dt_builder_push(builder, (enum detour_op_kind)kind, stage, done[kind]++);
        last = kind;
    }
    return DETOUR_OK;
}

enum detour_status dt_generate_adaptra_initial(struct dt_call *call, const struct dt_problem *p,
                                               struct dt_result *result)
{
    struct dt_builder builder;
    struct dt_memory memory;
    const int32_t *given;
    int32_t *limits, *warmup;

    if (!p->one_stage_per_device)
        return dt_fail(call, DETOUR_UNSUPPORTED,
                       "adaptra-initial needs one stage per device; %" PRId32 " stages are on %" PRId32
                       " devices",
                       p->stage_count, p->device_count);
    enum detour_status status = choose_warmup(call, p, &limits, &given);
    if (!status && !dt_arena_new(call->arena, warmup, p->stage_count))
        status = dt_fail_memory(call->error);
    if (!status)
        status = dt_builder_init(call, p, &builder);
    if (!status)
        status = dt_memory_init(call, p, &memory);
    if (status)
        return status;
    dt_warmup_even(p, limits, warmup);
    for (int32_t i = 0; !status && i < p->stage_count; i++)
        status = plan_stage(call, &builder, &memory, i, given ? given[i] : warmup[i]);
    return status ? status : dt_builder_finish(call, &builder, &result->schedule);
}

/*
 * Interpretations of Algorithms 2 and 3: none is best on all profiles, and each costs microseconds. `extra`
 * is the slack per link beyond the slack that the delay needs (the authors' code adds one).
 */
static const struct variant {
    enum dt_warmup_need need;
    int32_t extra;
    bool hold;
} variants[] = {
    {DT_WARMUP_OWN, 0, false}, {DT_WARMUP_OWN, 0, true},         {DT_WARMUP_OWN, 1, false},
    {DT_WARMUP_OWN, 1, true},  {DT_WARMUP_EQUATION_1, 0, false}, {DT_WARMUP_EQUATION_1, 0, true},
};

/* One variant from an empty timeline to a timed schedule. */
static enum detour_status try_variant(struct dt_call *call, const struct dt_problem *p,
                                      const struct variant *variant, struct detour_schedule **schedule,
                                      struct dt_times *times)
{
    struct dt_timeline tl;
    const int32_t *given;
    int32_t *limits, *warmup;
    enum detour_status status = choose_warmup(call, p, &limits, &given);

    if (!status && !dt_arena_new(call->arena, warmup, p->stage_count))
        status = dt_fail_memory(call->error);
    if (!status)
        status = dt_timeline_init(call, p, &tl);
    if (status)
        return status;
    dt_warmup_for_delays(p, limits, variant->need, variant->extra, warmup);
    struct dt_dispatch_rule rule = {.warmup = given ? given : warmup, .hold = variant->hold};
    status = dt_dispatch(call, &tl, &rule);
    if (!status)
        status = dt_timeline_finish(call, &tl, schedule);
    return status ? status : dt_simulate(call, p, *schedule, NULL, NULL, times);
}

/* A variant of Algorithm 2 that gives the same warm-up as one before it: nothing new to try. */
static enum detour_status is_repeated(struct dt_call *call, const struct dt_problem *p, size_t v,
                                      bool *repeated)
{
    int32_t *limits, *mine, *other;
    size_t bytes = (size_t)p->stage_count * sizeof *mine;

    *repeated = false;
    if (!dt_arena_new(call->arena, limits, p->stage_count) ||
        !dt_arena_new(call->arena, mine, p->stage_count) || !dt_arena_new(call->arena, other, p->stage_count))
        return dt_fail_memory(call->error);
    dt_warmup_limits(p, limits);
    dt_warmup_for_delays(p, limits, variants[v].need, variants[v].extra, mine);
    for (size_t k = 0; k < v && !*repeated; k++) {
        dt_warmup_for_delays(p, limits, variants[k].need, variants[k].extra, other);
        *repeated =
            variants[k].hold == variants[v].hold && (call->options->warmup || !memcmp(mine, other, bytes));
    }
    return DETOUR_OK;
}

enum detour_status dt_generate_adaptra(struct dt_call *call, const struct dt_problem *p,
                                       struct dt_result *result)
{
    struct dt_times best = {.makespan_ns = INT64_MAX}, times;
    const struct variant *winner = NULL;

    for (size_t v = 0; v < DT_COUNT_OF(variants); v++) {
        struct dt_arena_mark mark = dt_arena_save(call->arena);
        bool repeated;
        enum detour_status status = is_repeated(call, p, v, &repeated);
        if (!status && !repeated)
            status = try_variant(call, p, &variants[v], &result->schedule, &times);
        dt_arena_rewind(call->arena, mark);
        if (status)
            return status;
        if (!repeated && dt_times_compare(&times, &best) < 0) {
            best = times;
            winner = &variants[v];
        }
    }
    return try_variant(call, p, winner, &result->schedule, &times);
}
