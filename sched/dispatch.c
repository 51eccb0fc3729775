/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/dispatch.h"

#include "sched/heap.h"

struct dispatcher {
    struct dt_timeline *tl;
    const struct dt_dispatch_rule *rule;
    struct dt_heap heap; /* devices by the time at which they can start something */
};

/* A candidate for a device's next operation. */
struct choice {
    int kind;
    int32_t stage;
    int32_t microbatch;
    int rank;
    int64_t start_ns;
};

static int rank_of(const struct dispatcher *d, int kind, int32_t stage)
{
    bool warm = d->tl->done[DETOUR_OP_F][stage] >= d->rule->warmup[stage];

    if (kind == DETOUR_OP_W)
        return 2;
    return (kind == DETOUR_OP_F) == warm;
}

static bool is_held(const struct dispatcher *d, int kind, int32_t stage)
{
    int32_t open = d->tl->done[DETOUR_OP_F][stage] - d->tl->done[DETOUR_OP_B][stage];

    if (kind == DETOUR_OP_F && stage == 0 && d->rule->open_max && open >= d->rule->open_max)
        return true;
    return d->rule->hold && kind == DETOUR_OP_F && !d->tl->done[DETOUR_OP_B][stage] &&
           d->tl->done[DETOUR_OP_F][stage] >= d->rule->warmup[stage];
}

/* The next operation of a kind and when it could start; start_ns is DT_FOREVER if it cannot. */
static struct choice look_at(const struct dispatcher *d, int kind, int32_t stage)
{
    struct dt_timeline *tl = d->tl;
    struct choice choice = {kind, stage, dt_timeline_next(tl, kind, stage), rank_of(d, kind, stage),
                            DT_FOREVER};
    int64_t input_ns = dt_timeline_input_ns(tl, kind, stage);

    if (input_ns < DT_FOREVER && !is_held(d, kind, stage) && dt_timeline_fits(tl, kind, stage)) {
        int64_t free_ns = tl->free_ns[tl->p->device[stage]];
        free_ns = free_ns > tl->now_ns ? free_ns : tl->now_ns;
        choice.start_ns = input_ns > free_ns ? input_ns : free_ns;
    }
    return choice;
}

static bool is_better(const struct choice *a, const struct choice *b)
{
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns;
    if (a->rank != b->rank)
        return a->rank < b->rank;
    if (a->microbatch != b->microbatch)
        return a->microbatch < b->microbatch;
    return a->stage > b->stage;
}

static struct choice choose(const struct dispatcher *d, int32_t device)
{
    const struct dt_problem *p = d->tl->p;
    struct choice best = {.start_ns = DT_FOREVER};

    for (int32_t k = p->device_first[device]; k < p->device_first[device + 1]; k++) {
        for (int kind = DETOUR_OP_F; kind <= DETOUR_OP_W; kind++) {
            struct choice choice = look_at(d, kind, p->device_stages[k]);
            if (choice.start_ns < DT_FOREVER && (best.start_ns == DT_FOREVER || is_better(&choice, &best)))
                best = choice;
        }
    }
    return best;
}

static void reconsider(struct dispatcher *d, int32_t device)
{
    struct choice choice = choose(d, device);

    if (choice.start_ns < DT_FOREVER)
        dt_heap_set(&d->heap, device, choice.start_ns);
    else
        dt_heap_remove(&d->heap, device);
}

enum detour_status dt_dispatch(struct dt_call *call, struct dt_timeline *tl,
                               const struct dt_dispatch_rule *rule)
{
    const struct dt_problem *p = tl->p;
    struct dispatcher d = {.tl = tl, .rule = rule};
    struct dt_arena_mark mark = dt_arena_save(call->arena);

    if (!dt_heap_init(call->arena, p->device_count, &d.heap))
        return dt_fail_memory(call->error);
    for (int32_t device = 0; device < p->device_count; device++)
        reconsider(&d, device);
    for (int32_t device; (device = dt_heap_pop(&d.heap)) >= 0;) {
        struct choice choice = choose(&d, device);
        bool fused = rule->fuse && choice.kind == DETOUR_OP_B;
        dt_timeline_put(tl, fused ? DETOUR_OP_BW : (enum detour_op_kind)choice.kind, choice.stage);
        reconsider(&d, device);
        if (choice.kind == DETOUR_OP_F && choice.stage + 1 < p->stage_count)
            reconsider(&d, p->device[choice.stage + 1]);
        if (choice.kind == DETOUR_OP_B && choice.stage > 0)
            reconsider(&d, p->device[choice.stage - 1]);
    }
    dt_arena_rewind(call->arena, mark);
    return DETOUR_OK;
}
