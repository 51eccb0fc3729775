/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/planner/fuzz/model_fuzz.h"

#include <string.h>

#include "detour/model.h"

#define NAME "input"

static bool is_one_line(const struct detour_error *error, enum detour_status status)
{
    return error->status == status && strncmp(error->text, NAME ": ", sizeof(NAME) + 1) == 0 &&
           !strpbrk(error->text, "\n\r\t") && strlen(error->text) > sizeof(NAME) + 1;
}

static const char *round_trip(struct detour_arena *arena, const struct detour_model *model)
{
    struct detour_text once, twice;
    struct detour_model *again;
    struct detour_error error;

    if (detour_model_to_json(arena, model, &once, &error))
        return "an accepted model cannot be written";
    if (detour_model_from_json(arena, NAME, once.data, once.bytes, &again, &error))
        return "a written model is refused";
    if (detour_model_to_json(arena, again, &twice, &error) || once.bytes != twice.bytes ||
        memcmp(once.data, twice.data, once.bytes) != 0)
        return "a model changes on its way through JSON";
    return NULL;
}

/* One layer for each device and the rest for the last, or what the model fixes. */
static const char *make_profile(struct detour_arena *arena, const struct detour_model *model)
{
    int32_t first_layer[DETOUR_MODEL_DEVICES_MAX + 1], device[DETOUR_MODEL_DEVICES_MAX];
    struct detour_partition partition = {model->device_count, first_layer, device};
    struct detour_profile *profile;
    struct detour_error error;

    for (int32_t i = 0; i < model->device_count; i++)
        first_layer[i] = device[i] = i;
    first_layer[model->device_count] = model->layer_count;
    if (model->fixed.first_layer && model->fixed.device)
        partition = model->fixed;
    enum detour_status status = detour_partition_check(model, &partition, &error);

    if (status)
        return model->fixed.stage_count && status == DETOUR_INVALID
                   ? NULL
                   : "the plainest partition is refused without a fixed part";
    status = detour_model_profile(arena, model, &partition, &profile, &error);
    if (status && status != DETOUR_LIMIT && status != DETOUR_MEMORY_TOO_SMALL)
        return "a partition has no profile for a reason that is not its size";
    return !status && detour_profile_check(profile, &error) ? "a profile is refused" : NULL;
}

/* `measured`: read as a file with measured times. */
static const char *check_model(struct detour_arena *arena, const char *data, size_t bytes, bool measured)
{
    const struct detour_measured_options options = {2, 4, 1000000, 1000000, 1000};
    struct detour_model *model = NULL;
    struct detour_error error = {0};
    enum detour_status status =
        measured ? detour_model_from_measured(arena, &options, NAME, data, bytes, &model, &error)
                 : detour_model_from_json(arena, NAME, data, bytes, &model, &error);

    if (!status) {
        const char *problem = round_trip(arena, model);
        return problem ? problem : make_profile(arena, model);
    }
    if (model)
        return "an output was written on failure";
    if (status != DETOUR_NO_MEMORY && (status < DETOUR_INVALID || status > DETOUR_TIMES))
        return "a status that bad input does not explain";
    return is_one_line(&error, status) ? NULL : "the refusal is not one line with the input's name";
}

const char *dt_fuzz_model(const char *data, size_t bytes)
{
    struct detour_arena *arena = detour_arena_create();
    const char *problem = arena ? check_model(arena, data, bytes, false) : NULL;

    if (arena && !problem)
        problem = check_model(arena, data, bytes, true);

    detour_arena_destroy(arena);
    return problem;
}
