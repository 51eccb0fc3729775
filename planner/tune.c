/* SPDX-License-Identifier: Apache-2.0 */
/* AdaPtis, section 4.3: phase by phase, with rollback. */
#include <string.h>

#include "planner/model.h"
#include "planner/move.h"
#include "planner/search.h"
#include "sched/arena.h"
#include "sched/call.h"

/* What a step of the tuning works on. */
struct tuning {
    struct dt_optimizer *o;
    struct dt_pipeline *now;
    struct dt_pipeline *trial;
    int64_t now_ns;
    unsigned allowed;
    enum detour_status status;
};

/* Keeps the trial if it pays; else it is forgotten, which is the paper's rollback. */
static bool keep_if_better(struct tuning *t)
{
    int64_t trial_ns = dt_quick_iteration(t->o, t->trial, &t->status);

    if (t->status || trial_ns >= t->now_ns)
        return false;
    dt_pipeline_copy(t->now, t->trial);
    t->now_ns = trial_ns;
    t->o->best_ns = trial_ns < t->o->best_ns ? trial_ns : t->o->best_ns;
    return true;
}

/* The performance report's idle time of each device; they differ by the work, as all end with the iteration.
 */
static void find_bubbles(const struct tuning *t, int64_t *bubble_ns, int64_t *largest_stage_ns)
{
    const struct dt_space *space = t->o->space;

    *largest_stage_ns = 0;
    for (int32_t d = 0; d < t->o->model->device_count; d++)
        bubble_ns[d] = t->now_ns;
    for (int32_t i = 0; i < t->now->stage_count; i++) {
        int32_t device = t->now->device[i];
        int64_t work_ns =
            dt_device_time_ns(&t->o->model->devices[device], space->work_ns[t->now->first_layer[i + 1]] -
                                                                 space->work_ns[t->now->first_layer[i]]);
        bubble_ns[device] -= work_ns * t->o->model->microbatch_count;
        *largest_stage_ns = work_ns > *largest_stage_ns ? work_ns : *largest_stage_ns;
    }
}

/* Devices by bubble, the least first. */
static void sort_devices(int32_t count, const int64_t *bubble_ns, int32_t *order)
{
    for (int32_t d = 0; d < count; d++) {
        int32_t at = d;
        for (; at > 0 && bubble_ns[order[at - 1]] > bubble_ns[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
}

/* One layer from a stage of device `from` to one of device `to`: the pair of stages that are nearest. */
static bool transfer(struct tuning *t, int32_t from, int32_t to)
{
    struct dt_move best = {.kind = DT_MOVE_SHIFT, .a = -1};
    const struct dt_pipeline *p = t->now;
    int32_t nearest = p->stage_count;

    for (int32_t i = 0; i < p->stage_count; i++) {
        for (int32_t j = 0; p->device[i] == from && j < p->stage_count; j++) {
            int32_t distance = i > j ? i - j : j - i;
            if (p->device[j] != to || p->first_layer[i + 1] - p->first_layer[i] < 2 || distance >= nearest)
                continue;
            nearest = distance;
            best.a = i;
            best.b = j;
        }
    }
    dt_pipeline_copy(t->trial, t->now);
    return best.a >= 0 && dt_move_apply(t->o->space, t->trial, &best) && keep_if_better(t);
}

/* Figure 6 (a): from the least bubble to the most; if that does not pay, the next pairs. */
static bool tune_partition(struct tuning *t)
{
    int32_t order[DETOUR_MODEL_DEVICES_MAX], count = t->o->model->device_count;
    int64_t bubble_ns[DETOUR_MODEL_DEVICES_MAX], largest_stage_ns;
    enum { ALTERNATIVES = 4 };

    if (!(t->allowed & 1u << DT_MOVE_SHIFT))
        return false;
    find_bubbles(t, bubble_ns, &largest_stage_ns);
    sort_devices(count, bubble_ns, order);
    if (bubble_ns[order[count - 1]] - bubble_ns[order[0]] < largest_stage_ns)
        return false;
    for (int32_t from = 0; from < count && from < ALTERNATIVES; from++)
        for (int32_t to = count - 1; to > from && to >= count - ALTERNATIVES; to--)
            if (dt_goes_on(t->o) && !t->status && transfer(t, order[from], order[to]))
                return true;
    return false;
}

/* Figure 6 (b): grouped permutations, which split every stage and place the parts in a pattern. */
static bool tune_placement(struct tuning *t)
{
    bool usable;

    if (!(t->allowed & 1u << DT_MOVE_PLACE))
        return false;
    for (int v = 0; dt_goes_on(t->o) && !t->status && dt_pattern(t->o, v, t->trial, &usable, &t->status); v++)
        if (usable && keep_if_better(t))
            return true;
    return false;
}

enum detour_status dt_tune(struct dt_optimizer *o, struct dt_pipeline *pipeline, int64_t *makespan_ns)
{
    struct dt_arena_mark mark = dt_arena_save(o->arena);
    struct tuning t = {.o = o,
                       .now = pipeline,
                       .trial = dt_pipeline_create(o->arena, o->space),
                       .allowed = dt_moves_allowed(o->space, o->parts)};

    if (!t.trial)
        return dt_fail_memory(o->error);
    t.now_ns = dt_quick_iteration(o, pipeline, &t.status);
    while (!t.status && (tune_partition(&t) || tune_placement(&t)))
        ;
    *makespan_ns = t.now_ns;
    dt_arena_rewind(o->arena, mark);
    return t.status;
}
