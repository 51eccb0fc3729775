/* SPDX-License-Identifier: Apache-2.0 */
/* The search: random models, with the extremes that a checked model may have, and what its results promise.
 */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "detour/optimize.h"
#include "tests/planner/fuzz/model_fuzz.h"
#include "tests/sched/fuzz/choices.h"

enum { LAYERS_MAX = 9, DEVICES_MAX = 4, MICROBATCHES_MAX = 6, BUDGET = 3000 };

struct random_model {
    struct detour_model model;
    struct detour_layer layers[LAYERS_MAX];
    struct detour_model_device devices[DEVICES_MAX];
    struct detour_model_link links[DEVICES_MAX * DEVICES_MAX];
    int32_t first_layer[LAYERS_MAX + 1];
    int32_t device[LAYERS_MAX];
};

/* Sizes: mostly small, sometimes the most there may be. */
static int64_t a_size(struct dt_choices *choices)
{
    int value = dt_next(choices);

    return value == 255 ? DETOUR_BYTES_MAX : value % 17;
}

static void choose_layers(struct dt_choices *choices, struct random_model *random)
{
    static const char *const types[] = {"embedding", "decoder", "head"};
    bool has_fused = dt_below(choices, 4) == 3, has_memory = dt_below(choices, 2);

    random->model.layer_count = 1 + dt_below(choices, LAYERS_MAX);
    for (int32_t l = 0; l < random->model.layer_count; l++) {
        random->layers[l] = (struct detour_layer){.type = types[dt_below(choices, 3)],
                                                  .f_ns = dt_a_time(choices),
                                                  .b_ns = dt_a_time(choices),
                                                  .w_ns = dt_a_time(choices),
                                                  .bw_ns = has_fused ? dt_a_time(choices) : 0,
                                                  .message_bytes = a_size(choices)};
        if (!has_memory)
            continue;
        random->layers[l].parameter_bytes = a_size(choices);
        random->layers[l].gradient_bytes = a_size(choices);
        random->layers[l].activation_bytes = a_size(choices);
        random->layers[l].activation_w_bytes = a_size(choices);
    }
}

static void choose_devices(struct dt_choices *choices, struct random_model *random)
{
    static const int32_t speeds[] = {1000, 1000, 500, 1500, 1, DETOUR_SPEED_PERMILLE_MAX};
    static const int64_t bandwidths[] = {0, 1000000000, 1, DETOUR_BANDWIDTH_MAX};
    int32_t count = 1 + dt_below(choices, DEVICES_MAX);
    bool has_limits = dt_below(choices, 2), has_links = dt_below(choices, 2);

    random->model.device_count = count;
    for (int32_t d = 0; d < count; d++) {
        random->devices[d].speed_permille = speeds[dt_below(choices, (int)DT_COUNT_OF(speeds))];
        random->devices[d].capacity_bytes = has_limits ? 1 + 2 * a_size(choices) : 0;
    }
    for (int32_t k = 0; has_links && k < count * count; k++)
        random->links[k] = (struct detour_model_link){
            dt_a_time(choices), bandwidths[dt_below(choices, (int)DT_COUNT_OF(bandwidths))],
            dt_below(choices, 4) == 3};
    random->model.links = has_links ? random->links : NULL;
}

/* Parts that the search has to leave alone, which need not be possible. */
static void choose_fixed(struct dt_choices *choices, struct random_model *random)
{
    int kind = dt_below(choices, 8); /* mostly none */
    int32_t stages = 1 + dt_below(choices, LAYERS_MAX);

    if (kind < 5)
        return;
    random->model.fixed.stage_count = stages;
    if (kind == 6)
        random->model.fixed.first_layer = random->first_layer;
    if (kind == 7)
        random->model.fixed.device = random->device;
    for (int32_t i = 0; i < stages; i++) {
        random->first_layer[i] = i;
        random->device[i] = dt_below(choices, DEVICES_MAX);
    }
    random->first_layer[stages] = random->model.layer_count;
}

/* Too many at times. */
static void choose_replicas(struct dt_choices *choices, struct random_model *random)
{
    static const int32_t counts[] = {
        0, 0, 1, 2, 3, 64, DETOUR_MODEL_REPLICAS_MAX, DETOUR_MODEL_REPLICAS_MAX + 1};

    random->model.replicas.count = counts[dt_below(choices, (int)DT_COUNT_OF(counts))];
    if (random->model.replicas.count < 2)
        return;
    random->model.replicas.latency_ns = dt_a_time(choices);
    random->model.replicas.bytes_per_s = dt_below(choices, 2) ? a_size(choices) : 0;
}

static bool is_told(const struct detour_error *error, enum detour_status status)
{
    return error->status == status && error->text[0] && !strchr(error->text, '\n');
}

static const char *check_best(struct detour_arena *arena, const struct detour_model *model,
                              const struct detour_optimization *result, struct detour_error *error)
{
    const struct detour_pipeline *best = &result->best;

    if (!best->plan || detour_partition_check(model, &best->partition, error))
        return "the result is no partition of the model";
    if (detour_validate(arena, best->profile, best->plan->schedule, error))
        return "the result cannot be executed";
    if (!best->performance->fits)
        return "the result does not fit";
    if (best->plan->makespan_ns < result->bound.makespan_ns ||
        best->performance->iteration_ns < result->bound.iteration_ns)
        return "the result is below the bound";
    for (int b = 0; b < DETOUR_BASELINE_COUNT; b++)
        if (result->baselines[b].plan &&
            result->baselines[b].performance->iteration_ns < best->performance->iteration_ns)
            return "a baseline is better than the result";
    return NULL;
}

static const char *check_optimize(struct detour_arena *arena, struct dt_choices *choices,
                                  const struct detour_model *model, struct detour_error *error)
{
    struct detour_optimize_options options = {.budget = BUDGET,
                                              .parts = dt_below(choices, DETOUR_TUNE_ALL + 1)};
    struct detour_optimization *result = NULL;
    struct detour_model_bound bound;
    bool is_whole = options.parts == 0 || options.parts == DETOUR_TUNE_ALL;

    enum detour_status checked = detour_model_check(model, error);
    enum detour_status bounded = detour_model_lower_bound(arena, model, &bound, error);
    enum detour_status status = detour_optimize(arena, model, &options, &result, error);
    if (status && !is_told(error, status))
        return "a refusal without one line";
    if (checked)
        return bounded == checked && status == checked ? NULL : "a bad model is not refused everywhere";
    if (bounded)
        return "a good model has no bound";
    if (status) /* what is fixed or is not tuned need not be possible; a search that may do all finds a
                   pipeline */
        return status == DETOUR_MEMORY_TOO_SMALL || status == DETOUR_LIMIT || status == DETOUR_UNSUPPORTED
                   ? NULL
                   : "a good model is refused";
    if (result->bound.makespan_ns != bound.makespan_ns)
        return "two bounds of one model";
    const char *problem = check_best(arena, model, result, error);
    return problem && !is_whole && strstr(problem, "baseline") ? NULL : problem;
}

const char *dt_fuzz_optimize(const char *data, size_t bytes)
{
    struct detour_arena *arena = detour_arena_create();
    struct dt_choices choices = {(const unsigned char *)data, bytes};
    struct random_model random = {.model = {.name = "fuzz"}};
    struct detour_error error = {.status = DETOUR_OK};

    if (!arena)
        return NULL;
    random.model.layers = random.layers;
    random.model.devices = random.devices;
    random.model.microbatch_count = 1 + dt_below(&choices, MICROBATCHES_MAX);
    choose_layers(&choices, &random);
    choose_devices(&choices, &random);
    choose_fixed(&choices, &random);
    choose_replicas(&choices, &random);
    const char *problem = check_optimize(arena, &choices, &random.model, &error);
    if (problem)
        fprintf(stderr, "last error: %s\n", error.text);
    detour_arena_destroy(arena);
    return problem;
}
