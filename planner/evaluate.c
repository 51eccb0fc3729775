/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/evaluate.h"

#include <string.h>

#include "planner/model.h"
#include "sched/arena.h"
#include "sched/call.h"
#include "sched/dispatch.h"
#include "sched/warmup.h"

/* The order that goes with a placement where schedules are not tuned. */
static enum detour_algorithm fixed_order(const struct dt_optimizer *o, const struct dt_pipeline *pipeline)
{
    static const struct {
        enum detour_placement placement;
        enum detour_algorithm algorithm;
    } orders[] = {{DETOUR_PLACEMENT_INTERLEAVED, DETOUR_ALGORITHM_INTERLEAVED},
                  {DETOUR_PLACEMENT_WAVE, DETOUR_ALGORITHM_HANAYO}};
    struct dt_arena_mark mark = dt_arena_save(o->arena);
    enum detour_algorithm found = DETOUR_ALGORITHM_GPIPE;
    size_t bytes = (size_t)pipeline->stage_count * sizeof(int32_t);
    int32_t *device;

    if (pipeline->stage_count == o->model->device_count)
        return DETOUR_ALGORITHM_1F1B;
    if (!dt_arena_new(o->arena, device, pipeline->stage_count))
        return found;
    for (int i = 0; i < 2; i++)
        if (!detour_placement_fill(orders[i].placement, pipeline->stage_count, o->model->device_count, device,
                                   NULL) &&
            !memcmp(device, pipeline->device, bytes))
            found = orders[i].algorithm;
    dt_arena_rewind(o->arena, mark);
    return found;
}

/* A schedule, or several of them. What does not depend on the size of the model costs as much as 500
 * operations. */
static void count_operations(struct dt_optimizer *o, const struct dt_pipeline *pipeline, uint64_t schedules)
{
    o->effort +=
        schedules * (500 + 3 * (uint64_t)pipeline->stage_count * (uint64_t)o->model->microbatch_count);
    o->result->scheduled++;
}

struct dt_estimate dt_look(struct dt_optimizer *o, const struct dt_pipeline *pipeline)
{
    o->effort += 1 + (uint64_t)pipeline->stage_count / 4;
    o->result->estimated++;
    struct dt_estimate estimate = dt_pipeline_estimate(o->space, pipeline);

    if (estimate.over_bytes < o->closest.over_bytes)
        o->closest = estimate;
    return estimate;
}

static int64_t later(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* One dispatch with the warm-up that the links need, and what each device exchanges after it; INT64_MAX if
 * memory leaves it incomplete. */
static enum detour_status dispatch_once(struct dt_call *call, const struct dt_problem *p,
                                        const int64_t *exchange_ns, int64_t *iteration_ns)
{
    int32_t *limits, *warmup;
    struct dt_timeline tl;
    enum detour_status status = dt_timeline_init(call, p, &tl);

    if (status)
        return status;
    if (!dt_arena_new(call->arena, limits, p->stage_count) ||
        !dt_arena_new(call->arena, warmup, p->stage_count))
        return dt_fail_memory(call->error);
    dt_warmup_limits(p, limits);
    dt_warmup_for_delays(p, limits, DT_WARMUP_OWN, 0, warmup);
    struct dt_dispatch_rule rule = {.warmup = warmup};
    status = dt_dispatch(call, &tl, &rule);
    *iteration_ns = 0;
    for (int32_t d = 0; d < p->device_count; d++)
        *iteration_ns = later(*iteration_ns, tl.free_ns[d] + exchange_ns[d]);
    for (int32_t i = 0; i < p->stage_count; i++)
        if (dt_timeline_next(&tl, DETOUR_OP_W, i) < p->microbatch_count)
            *iteration_ns = INT64_MAX;
    return status;
}

/* Of a schedule with times. */
static int64_t end_of(const struct detour_schedule *schedule, const int64_t *exchange_ns)
{
    int64_t end_ns = 0;

    for (int32_t d = 0; d < schedule->device_count; d++)
        for (size_t i = schedule->first[d]; i < schedule->first[d + 1]; i++)
            end_ns = later(end_ns, schedule->ops[i].finish_ns + exchange_ns[d]);
    return end_ns;
}

static enum detour_status quick(struct dt_optimizer *o, const struct dt_pipeline *pipeline,
                                int64_t *iteration_ns)
{
    struct detour_partition partition = dt_pipeline_partition(pipeline);
    struct detour_options options = {.algorithm = fixed_order(o, pipeline)};
    struct detour_profile *profile;
    struct detour_plan *plan;
    struct dt_problem *p;
    struct dt_call call;
    int64_t exchange_ns[DETOUR_MODEL_DEVICES_MAX];
    enum detour_status status = dt_model_profile(o->arena, o->model, &partition, true, &profile, NULL);

    dt_pipeline_exchanges(o->space, pipeline, exchange_ns);
    dt_call_init(&call, o->arena, NULL, NULL);
    if (status)
        return status;
    if (!(o->parts & DETOUR_TUNE_SCHEDULE)) {
        status = detour_generate(o->arena, profile, &options, &plan, NULL);
        *iteration_ns = status ? INT64_MAX : end_of(plan->schedule, exchange_ns);
        return status;
    }
    status = dt_problem_create(&call, profile, &p);
    return status ? status : dispatch_once(&call, p, exchange_ns, iteration_ns);
}

int64_t dt_quick_iteration(struct dt_optimizer *o, const struct dt_pipeline *pipeline,
                           enum detour_status *status)
{
    struct dt_arena_mark mark = dt_arena_save(o->arena);
    int64_t iteration_ns = INT64_MAX;
    enum detour_status made = quick(o, pipeline, &iteration_ns);

    dt_arena_rewind(o->arena, mark);
    count_operations(o, pipeline, 1);
    if (made == DETOUR_NO_MEMORY)
        *status = dt_fail_memory(o->error);
    return made ? INT64_MAX : iteration_ns;
}

static enum detour_status make_plan(struct dt_optimizer *o, const struct detour_options *options,
                                    struct detour_pipeline *out, struct detour_error *error)
{
    struct detour_performance *performance;
    struct detour_profile *profile;

    enum detour_status status = dt_model_profile(o->arena, o->model, &out->partition, true, &profile, error);
    if (!status)
        status = detour_generate(o->arena, profile, options, &out->plan, error);
    if (!status)
        status = detour_model_evaluate(o->arena, o->model, &out->partition, out->plan->schedule, &performance,
                                       error);
    if (status)
        return status;
    out->profile = profile;
    out->performance = performance;
    out->plan->lower_bound_ns = o->result->bound.makespan_ns;
    out->plan->proven_optimal = out->plan->makespan_ns == out->plan->lower_bound_ns;
    return DETOUR_OK;
}

enum detour_status dt_full_plan(struct dt_optimizer *o, const struct dt_pipeline *pipeline,
                                const struct detour_options *options, struct detour_pipeline *out)
{
    struct dt_pipeline *kept = dt_pipeline_create(o->arena, o->space);
    struct detour_error error = {.status = DETOUR_OK};

    if (!kept)
        return dt_fail_memory(o->error);
    dt_pipeline_copy(kept, pipeline);
    *out = (struct detour_pipeline){.partition = dt_pipeline_partition(kept)};
    struct dt_arena_mark mark = dt_arena_save(o->arena);
    enum detour_status status = make_plan(o, options, out, &error);

    count_operations(o, pipeline, options->algorithm == DETOUR_ALGORITHM_AUTO ? 16 : 5);
    if (status == DETOUR_NO_MEMORY)
        return dt_fail_memory(o->error);
    if (status) {
        dt_arena_rewind(o->arena, mark);
        out->plan = NULL;
        memcpy(out->problem, error.text, sizeof(out->problem));
    } else if (out->performance->iteration_ns < o->best_ns) {
        o->best_ns = out->performance->iteration_ns;
    }
    return DETOUR_OK;
}

/* Nodes of `auto`: its heuristics alone, or a search that takes about as long as 16 of them. */
enum { NODES_NONE = 1, OPERATIONS_PER_SEARCH = 400000 };

static uint64_t search_nodes(const struct dt_optimizer *o, const struct dt_pipeline *pipeline)
{
    uint64_t per_node = 120 + 3 * (uint64_t)pipeline->stage_count * (uint64_t)o->model->microbatch_count;

    return 1 + 350 * OPERATIONS_PER_SEARCH / per_node / 4;
}

enum detour_status dt_best_plan(struct dt_optimizer *o, const struct dt_pipeline *pipeline, bool search,
                                struct detour_pipeline *out)
{
    struct detour_options options = {.algorithm = fixed_order(o, pipeline)};

    if (o->parts & DETOUR_TUNE_SCHEDULE) {
        options.algorithm = search ? DETOUR_ALGORITHM_AUTO : DETOUR_ALGORITHM_ADAPTRA;
        options.node_budget = search ? search_nodes(o, pipeline) : NODES_NONE;
    }
    return dt_full_plan(o, pipeline, &options, out);
}

int dt_plan_compare(const struct detour_pipeline *a, const struct detour_pipeline *b)
{
    if (!a->plan || !b->plan)
        return a->plan ? -1 : b->plan != NULL;
    if (a->performance->iteration_ns != b->performance->iteration_ns)
        return a->performance->iteration_ns < b->performance->iteration_ns ? -1 : 1;
    return 0;
}

bool dt_goes_on(struct dt_optimizer *o)
{
    const struct detour_optimization *result = o->result;

    if (o->stopped || o->best_ns <= result->bound.iteration_ns || o->effort >= o->budget)
        return false;
    if (o->options->progress) {
        struct detour_optimize_progress progress = {.phase = o->phase,
                                                    .best_ns = o->best_ns == INT64_MAX ? 0 : o->best_ns,
                                                    .lower_bound_ns = result->bound.iteration_ns,
                                                    .effort = o->effort,
                                                    .budget = o->budget};
        o->stopped = o->options->progress(o->options->progress_arg, &progress);
    }
    return !o->stopped;
}
