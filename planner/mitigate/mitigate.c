/* SPDX-License-Identifier: Apache-2.0 */
/* All steps for an event, and when the ladder takes each. */
#include <inttypes.h>

#include "planner/mitigate/layout.h"
#include "sched/arena.h"
#include "sched/call.h"

enum { PERMILLE = 1000, DEFAULT_NOISE_PERMILLE = 100 };
#define SLOW_ITERATIONS_MAX 1000000000000

/* The ladder's sums as a formula: they grow by the same gain each iteration until a step is taken. */
struct forecast {
    struct detour_mitigation_step *steps;
    int64_t lost_ns[DETOUR_STEP_COUNT];
    int64_t now; /* boundaries so far */
    int current;
};

static int64_t gain_ns(const struct forecast *f, int step)
{
    int64_t now_ns = f->steps[f->current].iteration.iteration_ns, ns = f->steps[step].iteration.iteration_ns;

    __int128 size = now_ns < ns ? ns - now_ns : now_ns - ns;

    return size * PERMILLE > (__int128)ns * DETOUR_SAVING_NOISE_PERMILLE ? now_ns - ns : 0;
}

/* Iterations until one more makes the sum reach the cost. */
static int64_t wait_for(const struct forecast *f, int step)
{
    int64_t gain = gain_ns(f, step), missing_ns = f->steps[step].cost_ns - f->lost_ns[step];
    int64_t least = f->now ? 1 : 0;
    int64_t wait = missing_ns > 0 ? (missing_ns + gain - 1) / gain - 1 : 0;

    return wait > least ? wait : least;
}

/* After `count` further iterations. A step that is worse than the present one has its sum made smaller. */
static int64_t lost_ns(const struct forecast *f, int step, int64_t count)
{
    __int128 lost_ns = f->lost_ns[step] + (__int128)count * gain_ns(f, step);

    return lost_ns < 0 ? 0 : (int64_t)lost_ns;
}

/* The first iteration counts for nothing: boundary 1 is where the first step may be taken, with no loss. */
static void find_due(struct forecast *f)
{
    for (;;) {
        int64_t first = INT64_MAX;
        int next = 0;
        for (int step = 0; step < DETOUR_STEP_COUNT; step++) {
            int64_t gain = gain_ns(f, step);
            if (gain <= 0)
                continue;
            int64_t wait = wait_for(f, step);
            if (wait < first || (wait == first && gain > gain_ns(f, next))) {
                first = wait;
                next = step;
            }
        }
        if (first == INT64_MAX)
            return;
        for (int step = 0; step < DETOUR_STEP_COUNT; step++)
            f->lost_ns[step] = step <= next ? 0 : lost_ns(f, step, first);
        f->now += f->now ? first : first + 1;
        f->current = next;
        f->steps[next].due_iterations = f->now;
    }
}

static enum detour_status estimate(struct detour_arena *arena, const struct detour_cluster *cluster,
                                   const struct detour_slowness *slowness, struct detour_iteration *iteration,
                                   struct detour_error *error)
{
    return detour_iteration_estimate(arena, cluster, slowness, NULL, NULL, iteration, error);
}

static enum detour_status plan_microbatches(struct detour_arena *arena, const struct detour_cluster *cluster,
                                            const struct detour_slowness *slowness,
                                            struct detour_mitigation *mitigation, struct detour_error *error)
{
    struct dt_layout layout;
    enum detour_status status = dt_layout_create(arena, cluster, slowness, NULL, &layout, error);

    if (!status)
        status = detour_microbatches_assign(arena, layout.replicas, cluster->replica_count,
                                            cluster->microbatch_count, &mitigation->microbatches, error);
    if (status)
        return status;
    struct detour_iteration *iteration = &mitigation->steps[DETOUR_STEP_S2].iteration;

    iteration->pipeline_ns = mitigation->microbatches.time_ns;
    iteration->gradients_ns = dt_layout_gradients_ns(&layout);
    iteration->iteration_ns = iteration->pipeline_ns + iteration->gradients_ns;
    return DETOUR_OK;
}

static enum detour_status plan_topology(struct detour_arena *arena, const struct detour_cluster *cluster,
                                        const struct detour_slowness *slowness, uint64_t budget,
                                        struct detour_mitigation *mitigation, struct detour_error *error)
{
    struct detour_topology shared;
    struct detour_topology_options options = {.even = true, .budget = budget};
    enum detour_status status =
        detour_topology_adjust(arena, cluster, slowness, &options, &mitigation->topology, error);

    options.even = false;
    if (!status)
        status = detour_topology_adjust(arena, cluster, slowness, &options, &shared, error);
    if (!status && shared.iteration.iteration_ns < mitigation->topology.iteration.iteration_ns)
        mitigation->topology = shared;
    if (status)
        return status;
    mitigation->steps[DETOUR_STEP_S3].iteration = mitigation->topology.iteration;
    return detour_exchange_pause(arena, cluster, slowness, mitigation->topology.nodes,
                                 &mitigation->steps[DETOUR_STEP_S3].cost_ns, error);
}

static void forecast(struct detour_mitigation *mitigation, const struct detour_cluster *cluster,
                     int64_t slow_iterations, int32_t noise_permille)
{
    struct forecast f = {.steps = mitigation->steps};
    int64_t slow_ns = mitigation->steps[DETOUR_STEP_S1].iteration.iteration_ns;

    for (int step = 0; step < DETOUR_STEP_COUNT; step++) {
        if (step != DETOUR_STEP_S3) /* which has its pause */
            mitigation->steps[step].cost_ns = cluster->cost_ns[step];
        mitigation->steps[step].due_iterations = step == DETOUR_STEP_S1 ? 0 : -1;
    }
    if ((__int128)slow_ns * PERMILLE >
        (__int128)mitigation->healthy.iteration_ns * (PERMILLE + noise_permille))
        find_due(&f);
    mitigation->due = DETOUR_STEP_S1;
    for (int step = 0; step < DETOUR_STEP_COUNT; step++)
        if (mitigation->steps[step].due_iterations > mitigation->steps[mitigation->due].due_iterations &&
            mitigation->steps[step].due_iterations <= slow_iterations)
            mitigation->due = (enum detour_step)step;
}

enum detour_status detour_mitigate(struct detour_arena *arena, const struct detour_cluster *cluster,
                                   const struct detour_event *event,
                                   const struct detour_mitigate_options *options,
                                   struct detour_mitigation *mitigation, struct detour_error *error)
{
    static const struct detour_mitigate_options defaults;
    static const struct detour_slowness none;
    const struct detour_slowness *slowness = &event->slowness;
    struct detour_mitigation made = {0};
    enum detour_status status = estimate(arena, cluster, &none, &made.healthy, error);

    options = options ? options : &defaults;
    if (!status && (event->slow_iterations < 0 || event->slow_iterations > SLOW_ITERATIONS_MAX))
        status = dt_error_set(error, DETOUR_INVALID,
                              "slow_iterations is %" PRId64 "; it must be from 0 to %" PRId64,
                              event->slow_iterations, (int64_t)SLOW_ITERATIONS_MAX);
    if (!status)
        status = estimate(arena, cluster, slowness, &made.steps[DETOUR_STEP_S1].iteration, error);
    if (!status)
        status = plan_microbatches(arena, cluster, slowness, &made, error);
    if (!status)
        status = plan_topology(arena, cluster, slowness, options->budget, &made, error);
    if (status)
        return status;
    made.steps[DETOUR_STEP_S4].iteration = made.healthy;
    forecast(&made, cluster, event->slow_iterations,
             options->noise_permille > 0 ? options->noise_permille : DEFAULT_NOISE_PERMILLE);
    *mitigation = made;
    return DETOUR_OK;
}
