/* SPDX-License-Identifier: Apache-2.0 */
#include "detour/optimize.h"

#include <inttypes.h>
#include <string.h>

#include "planner/baseline.h"
#include "planner/bound.h"
#include "planner/search.h"
#include "sched/arena.h"
#include "sched/call.h"

enum { DEFAULT_BUDGET = 12000000, POLISHED = 3 };

enum detour_status detour_model_lower_bound(struct detour_arena *arena, const struct detour_model *model,
                                            struct detour_model_bound *bound, struct detour_error *error)
{
    enum detour_status status = detour_model_check(model, error);
    struct dt_arena_mark mark = dt_arena_save(arena);
    struct dt_space *space;

    if (!status)
        status = dt_space_create(arena, model, &space, error);
    if (!status)
        status = dt_model_bound(arena, space, bound, error);
    dt_arena_rewind(arena, mark);
    return status;
}

static void offer(struct dt_optimizer *o, const struct detour_pipeline *made)
{
    if (dt_plan_compare(made, &o->result->best) < 0)
        o->result->best = *made;
}

/* The paper's search, from the best of S-1F1B's and Mist's partitions. */
static enum detour_status tune(struct dt_optimizer *o, struct dt_pool *pool)
{
    struct dt_pipeline *now = dt_pipeline_create(o->arena, o->space);
    const struct detour_pipeline *start = NULL;
    int64_t makespan_ns = INT64_MAX;
    bool usable = false;

    if (!now)
        return dt_fail_memory(o->error);
    o->phase = "tuning";
    for (int b = 0; b < DETOUR_BASELINE_COUNT; b++)
        if (!start || dt_plan_compare(&o->result->baselines[b], start) < 0)
            start = &o->result->baselines[b];
    if (start->plan && o->parts == DETOUR_TUNE_ALL) {
        now->stage_count = start->partition.stage_count;
        memcpy(now->first_layer, start->partition.first_layer,
               ((size_t)now->stage_count + 1) * sizeof(*now->first_layer));
        memcpy(now->device, start->partition.device, (size_t)now->stage_count * sizeof(*now->device));
        usable = true;
    }
    enum detour_status status = DETOUR_OK;
    for (int v = 0; !usable && dt_pattern(o, v, now, &usable, &status); v++)
        ;
    if (!usable)
        return status;
    status = dt_tune(o, now, &makespan_ns);
    dt_pool_offer(pool, now, makespan_ns);
    if (!status)
        status = dt_best_plan(o, now, false, &o->result->tuned);
    offer(o, &o->result->tuned);
    return status;
}

/* A full plan for the best of the pool: first by heuristics, then by a search for a better order. */
static enum detour_status polish(struct dt_optimizer *o, const struct dt_pool *pool)
{
    enum detour_status status = DETOUR_OK;
    struct detour_pipeline made;

    o->phase = "schedules";
    for (int32_t k = 0; !status && k < pool->count && k < POLISHED; k++) {
        if (o->best_ns <= o->result->bound.iteration_ns && o->result->best.plan &&
            o->result->best.performance->iteration_ns <= o->best_ns)
            break;
        status = dt_best_plan(o, pool->entries[k].pipeline, true, &made);
        if (!status)
            offer(o, &made);
    }
    return status;
}

/* Nothing fits: which device is over by how much in the partition that came closest. */
static enum detour_status refuse(const struct dt_optimizer *o)
{
    const struct dt_estimate *closest = &o->closest;

    if (o->result->bound.over_bytes > 0)
        return dt_error_set(o->error, DETOUR_MEMORY_TOO_SMALL,
                            "one microbatch needs %" PRId64 " bytes more than all %" PRId32 " devices have",
                            o->result->bound.over_bytes, o->model->device_count);
    if (closest->over_device < 0)
        return dt_error_set(o->error, DETOUR_MEMORY_TOO_SMALL, "no pipeline was found that fits");
    return dt_error_set(o->error, DETOUR_MEMORY_TOO_SMALL,
                        "no partition was found that fits; in the closest, device %" PRId32 " needs %" PRId64
                        " bytes more than its %" PRId64,
                        closest->over_device, closest->over_bytes,
                        o->model->devices[closest->over_device].capacity_bytes);
}

static enum detour_status run(struct dt_optimizer *o)
{
    struct dt_pool pool;
    enum detour_status status = dt_model_bound(o->arena, o->space, &o->result->bound, o->error);

    if (!status)
        status = dt_pool_init(o, &pool);
    if (!status)
        status = dt_baselines_make(o);
    for (int b = 0; b < DETOUR_BASELINE_COUNT && o->parts == DETOUR_TUNE_ALL; b++)
        offer(o, &o->result->baselines[b]);
    if (!status)
        status = tune(o, &pool);
    o->phase = "search";
    if (!status)
        status = dt_explore(o, &pool);
    if (!status)
        status = polish(o, &pool);
    if (status)
        return status;
    return o->result->best.plan ? DETOUR_OK : refuse(o);
}

enum detour_status detour_optimize(struct detour_arena *arena, const struct detour_model *model,
                                   const struct detour_optimize_options *options,
                                   struct detour_optimization **optimization, struct detour_error *error)
{
    static const struct detour_optimize_options defaults;
    struct dt_optimizer o = {.arena = arena,
                             .model = model,
                             .options = options ? options : &defaults,
                             .error = error,
                             .best_ns = INT64_MAX,
                             .closest = {.over_bytes = INT64_MAX, .over_device = -1}};
    enum detour_status status = detour_model_check(model, error);

    o.parts = o.options->parts ? o.options->parts : DETOUR_TUNE_ALL;
    o.budget = o.options->budget ? o.options->budget : DEFAULT_BUDGET;
    if (!status && o.parts & ~DETOUR_TUNE_ALL)
        return dt_error_set(error, DETOUR_INVALID, "parts is %d; it must be from 0 to %d", o.parts,
                            DETOUR_TUNE_ALL);
    if (!status)
        status = dt_space_create(arena, model, &o.space, error);
    if (status)
        return status;
    if (!dt_arena_new(arena, o.result, 1))
        return dt_fail_memory(error);
    status = run(&o);
    o.result->effort = o.effort;
    if (!status)
        *optimization = o.result;
    return status;
}
