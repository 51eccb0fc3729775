/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a model and a partition are what include/detour/model.h describes. */
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "detour/model.h"
#include "sched/call.h"

/* A number of the model with its limits; `where` and `index` name it in the error text. */
static enum detour_status check_number(struct detour_error *error, const char *where, int32_t index,
                                       const char *field, int64_t value, int64_t min, int64_t max)
{
    if (value >= min && value <= max)
        return DETOUR_OK;
    return dt_error_set(error, value < min ? DETOUR_INVALID : DETOUR_LIMIT,
                        "%s[%" PRId32 "].%s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64, where,
                        index, field, value, min, max);
}

static bool is_name(const char *text)
{
    size_t bytes = text ? strnlen(text, DETOUR_MODEL_NAME_BYTES) : 0;

    for (size_t i = 0; i < bytes; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return bytes > 0 && bytes < DETOUR_MODEL_NAME_BYTES;
}

static enum detour_status check_counts(const struct detour_model *model, struct detour_error *error)
{
    const struct {
        const char *name;
        int64_t value;
        int64_t max;
    } counts[] = {
        {"layer_count", model->layer_count, DETOUR_LAYERS_MAX},
        {"device_count", model->device_count, DETOUR_MODEL_DEVICES_MAX},
        {"microbatch_count", model->microbatch_count, DETOUR_MICROBATCHES_MAX},
    };

    for (size_t i = 0; i < DT_COUNT_OF(counts); i++)
        if (counts[i].value < 1 || counts[i].value > counts[i].max)
            return dt_error_set(error, counts[i].value < 1 ? DETOUR_INVALID : DETOUR_LIMIT,
                                "%s is %" PRId64 "; it must be from 1 to %" PRId64, counts[i].name,
                                counts[i].value, counts[i].max);
    if (model->device_count > model->layer_count)
        return dt_error_set(error, DETOUR_INVALID,
                            "%" PRId32 " devices for %" PRId32 " layers; every device needs a layer",
                            model->device_count, model->layer_count);
    if (!model->layers || !model->devices)
        return dt_error_set(error, DETOUR_INVALID, "model without %s", model->layers ? "devices" : "layers");
    if (!is_name(model->name))
        return dt_error_set(error, DETOUR_INVALID,
                            "the model's name must have 1 to %d printable ASCII characters",
                            DETOUR_MODEL_NAME_BYTES - 1);
    return DETOUR_OK;
}

static enum detour_status check_layer(const struct detour_layer *layer, int32_t index,
                                      struct detour_error *error)
{
    const struct {
        const char *field;
        int64_t value;
        int64_t max;
    } numbers[] = {
        {"f_ns", layer->f_ns, DETOUR_TIME_MAX_NS},
        {"b_ns", layer->b_ns, DETOUR_TIME_MAX_NS},
        {"w_ns", layer->w_ns, DETOUR_TIME_MAX_NS},
        {"bw_ns", layer->bw_ns, DETOUR_TIME_MAX_NS},
        {"parameter_bytes", layer->parameter_bytes, DETOUR_BYTES_MAX},
        {"gradient_bytes", layer->gradient_bytes, DETOUR_BYTES_MAX},
        {"optimizer_bytes", layer->optimizer_bytes, DETOUR_BYTES_MAX},
        {"activation_bytes", layer->activation_bytes, DETOUR_BYTES_MAX},
        {"activation_w_bytes", layer->activation_w_bytes, DETOUR_BYTES_MAX},
        {"message_bytes", layer->message_bytes, DETOUR_BYTES_MAX},
    };
    enum detour_status status = DETOUR_OK;

    for (size_t i = 0; !status && i < DT_COUNT_OF(numbers); i++)
        status = check_number(error, "layers", index, numbers[i].field, numbers[i].value, 0, numbers[i].max);
    if (!status && !is_name(layer->type))
        status = dt_error_set(error, DETOUR_INVALID,
                              "layers[%" PRId32 "].type must have 1 to %d printable ASCII characters", index,
                              DETOUR_MODEL_NAME_BYTES - 1);
    return status;
}

static enum detour_status check_devices(const struct detour_model *model, struct detour_error *error)
{
    enum detour_status status = DETOUR_OK;
    int32_t count = model->device_count;

    for (int32_t d = 0; !status && d < count; d++) {
        status = check_number(error, "devices", d, "capacity_bytes", model->devices[d].capacity_bytes, 0,
                              INT64_MAX);
        if (!status)
            status = check_number(error, "devices", d, "speed_permille", model->devices[d].speed_permille, 1,
                                  DETOUR_SPEED_PERMILLE_MAX);
    }
    for (int32_t i = 0; !status && model->links && i < count * count; i++) {
        status =
            check_number(error, "links", i, "latency_ns", model->links[i].latency_ns, 0, DETOUR_TIME_MAX_NS);
        if (!status)
            status = check_number(error, "links", i, "bytes_per_s", model->links[i].bytes_per_s, 0,
                                  DETOUR_BANDWIDTH_MAX);
    }
    return status;
}

static enum detour_status check_replicas(const struct detour_model_replicas *replicas,
                                         struct detour_error *error)
{
    const struct {
        const char *field;
        int64_t value;
        int64_t max;
    } numbers[] = {
        {"count", replicas->count, DETOUR_MODEL_REPLICAS_MAX},
        {"latency_ns", replicas->latency_ns, DETOUR_TIME_MAX_NS},
        {"bytes_per_s", replicas->bytes_per_s, DETOUR_BANDWIDTH_MAX},
    };

    for (size_t i = 0; i < DT_COUNT_OF(numbers); i++)
        if (numbers[i].value < 0 || numbers[i].value > numbers[i].max)
            return dt_error_set(error, numbers[i].value < 0 ? DETOUR_INVALID : DETOUR_LIMIT,
                                "replicas.%s is %" PRId64 "; it must be from 0 to %" PRId64, numbers[i].field,
                                numbers[i].value, numbers[i].max);
    return DETOUR_OK;
}

static enum detour_status check_first_layers(const struct detour_model *model, int32_t stage_count,
                                             const int32_t *first_layer, struct detour_error *error)
{
    for (int32_t i = 0; i < stage_count; i++)
        if (first_layer[i] >= first_layer[i + 1])
            return dt_error_set(error, DETOUR_INVALID,
                                "stage %" PRId32 " begins with layer %" PRId32
                                " and the next one with %" PRId32 "; every stage needs a layer",
                                i, first_layer[i], first_layer[i + 1]);
    if (first_layer[0] != 0 || first_layer[stage_count] != model->layer_count)
        return dt_error_set(error, DETOUR_INVALID,
                            "the stages have the layers %" PRId32 " to %" PRId32
                            "; the model has 0 to %" PRId32,
                            first_layer[0], first_layer[stage_count] - 1, model->layer_count - 1);
    return DETOUR_OK;
}

static enum detour_status check_placed(const struct detour_model *model, int32_t stage_count,
                                       const int32_t *device, struct detour_error *error)
{
    bool used[DETOUR_MODEL_DEVICES_MAX] = {false};

    for (int32_t i = 0; i < stage_count; i++) {
        if (device[i] < 0 || device[i] >= model->device_count)
            return dt_error_set(error, DETOUR_INVALID,
                                "stage %" PRId32 " is on device %" PRId32 "; devices are 0 to %" PRId32, i,
                                device[i], model->device_count - 1);
        used[device[i]] = true;
    }
    for (int32_t d = 0; d < model->device_count; d++)
        if (!used[d])
            return dt_error_set(error, DETOUR_INVALID, "device %" PRId32 " has no stage", d);
    return DETOUR_OK;
}

static enum detour_status check_stage_count(const struct detour_model *model, int32_t count,
                                            struct detour_error *error)
{
    if (count >= model->device_count && count <= model->layer_count)
        return DETOUR_OK;
    return dt_error_set(
        error, DETOUR_INVALID,
        "%" PRId32 " stages; %" PRId32 " layers on %" PRId32 " devices can have %" PRId32 " to %" PRId32,
        count, model->layer_count, model->device_count, model->device_count, model->layer_count);
}

static enum detour_status check_fixed(const struct detour_model *model, struct detour_error *error)
{
    const struct detour_partition *fixed = &model->fixed;
    enum detour_status status = DETOUR_OK;

    if (!fixed->stage_count && !fixed->first_layer && !fixed->device)
        return DETOUR_OK;
    status = check_stage_count(model, fixed->stage_count, error);
    if (!status && fixed->first_layer)
        status = check_first_layers(model, fixed->stage_count, fixed->first_layer, error);
    if (!status && fixed->device)
        status = check_placed(model, fixed->stage_count, fixed->device, error);
    return status;
}

enum detour_status detour_model_check(const struct detour_model *model, struct detour_error *error)
{
    enum detour_status status = check_counts(model, error);

    for (int32_t i = 0; !status && i < model->layer_count; i++)
        status = check_layer(&model->layers[i], i, error);
    if (!status)
        status = check_devices(model, error);
    if (!status)
        status = check_replicas(&model->replicas, error);
    return status ? status : check_fixed(model, error);
}

/* The first entry in which both differ is an error; `fixed` NULL is free. */
static enum detour_status compare_fixed(const char *what, int32_t count, const int32_t *fixed,
                                        const int32_t *found, struct detour_error *error)
{
    for (int32_t i = 0; fixed && i < count; i++)
        if (fixed[i] != found[i])
            return dt_error_set(error, DETOUR_INVALID,
                                "stage %" PRId32 ": the %s is %" PRId32 "; the model fixes %" PRId32, i, what,
                                found[i], fixed[i]);
    return DETOUR_OK;
}

enum detour_status detour_partition_check(const struct detour_model *model,
                                          const struct detour_partition *partition,
                                          struct detour_error *error)
{
    int32_t count = partition->stage_count;
    enum detour_status status = check_stage_count(model, count, error);

    if (!status && (!partition->first_layer || !partition->device))
        status = dt_error_set(error, DETOUR_INVALID, "partition without %s",
                              partition->first_layer ? "devices" : "layers");
    if (!status && model->fixed.stage_count && model->fixed.stage_count != count)
        status = dt_error_set(error, DETOUR_INVALID, "%" PRId32 " stages; the model fixes %" PRId32, count,
                              model->fixed.stage_count);
    if (!status)
        status = check_first_layers(model, count, partition->first_layer, error);
    if (!status)
        status = check_placed(model, count, partition->device, error);
    if (!status)
        status = compare_fixed("first layer", count, model->fixed.first_layer, partition->first_layer, error);
    return status ? status : compare_fixed("device", count, model->fixed.device, partition->device, error);
}
