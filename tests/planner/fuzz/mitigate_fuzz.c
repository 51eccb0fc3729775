/* SPDX-License-Identifier: Apache-2.0 */
/* Files of jobs and events, and what a plan promises for those that are accepted. */
#include <string.h>

#include "detour/mitigate.h"
#include "tests/planner/fuzz/model_fuzz.h"

#define NAME "input"

enum { PLANNED_NODES = 32, BUDGET = 300 };

static bool is_one_line(const struct detour_error *error, enum detour_status status)
{
    return error->status == status && strncmp(error->text, NAME ": ", sizeof(NAME) + 1) == 0 &&
           !strpbrk(error->text, "\n\r\t") && strlen(error->text) > sizeof(NAME) + 1;
}

static const char *check_refusal(const struct detour_error *error, enum detour_status status,
                                 const void *made)
{
    if (made)
        return "an output was written on failure";
    if (status != DETOUR_NO_MEMORY && (status < DETOUR_INVALID || status > DETOUR_TIMES))
        return "a status that bad input does not explain";
    return is_one_line(error, status) ? NULL : "the refusal is not one line with the input's name";
}

static const char *check_plan(struct detour_arena *arena, const struct detour_cluster *cluster,
                              const struct detour_event *event)
{
    const struct detour_mitigate_options options = {.budget = BUDGET};
    struct detour_mitigation plan;
    struct detour_error error;
    int64_t sum = 0;

    if (cluster->replica_count * cluster->stage_count > PLANNED_NODES)
        return NULL;
    if (detour_mitigate(arena, cluster, event, &options, &plan, &error))
        return "an accepted job and event have no plan";
    for (int step = DETOUR_STEP_S2; step < DETOUR_STEP_COUNT; step++)
        if (plan.steps[step].iteration.iteration_ns > plan.steps[DETOUR_STEP_S1].iteration.iteration_ns)
            return "a step is worse than none";
    if (plan.topology.bound_ns > plan.topology.iteration.iteration_ns)
        return "an assignment is below the bound";
    for (int32_t r = 0; r < cluster->replica_count; r++) {
        sum += plan.microbatches.counts[r];
        if (plan.microbatches.counts[r] < 1 || plan.topology.counts[r] < 1)
            return "a replica has no microbatch";
    }
    return sum == cluster->microbatch_count ? NULL : "microbatches are lost";
}

static const char *check_event(struct detour_arena *arena, const struct detour_cluster *cluster,
                               const char *data, size_t bytes)
{
    struct detour_event *event = NULL;
    struct detour_error error = {.status = DETOUR_OK};
    enum detour_status status = detour_event_from_json(arena, cluster, NAME, data, bytes, &event, &error);

    return status ? check_refusal(&error, status, event) : check_plan(arena, cluster, event);
}

/* The job of an event that is alone. */
static const struct detour_cluster *usual_cluster(void)
{
    static const int64_t stage_ns[] = {10, 20};
    static const struct detour_cluster cluster = {.name = "usual",
                                                  .replica_count = 2,
                                                  .stage_count = 2,
                                                  .microbatch_count = 9,
                                                  .stage_ns = stage_ns,
                                                  .message_bytes = 3,
                                                  .gradient_bytes = 50,
                                                  .bytes_per_s = 1000000000,
                                                  .latency_ns = 1};

    return &cluster;
}

const char *dt_fuzz_mitigate(const char *data, size_t bytes)
{
    struct detour_arena *arena = detour_arena_create();
    const char *second = memmem(data, bytes, "\n\n", 2), *problem;
    size_t first_bytes = second ? (size_t)(second - data) : bytes;
    struct detour_cluster *cluster = NULL;
    struct detour_error error = {.status = DETOUR_OK};

    if (!arena)
        return NULL;
    enum detour_status status = detour_cluster_from_json(arena, NAME, data, first_bytes, &cluster, &error);

    problem = status ? check_refusal(&error, status, cluster) : NULL;
    if (!problem && second)
        problem = check_event(arena, cluster ? cluster : usual_cluster(), second, bytes - first_bytes);
    else if (!problem)
        problem = check_event(arena, usual_cluster(), data, bytes);
    detour_arena_destroy(arena);
    return problem;
}
