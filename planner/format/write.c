/* SPDX-License-Identifier: Apache-2.0 */
/* The model as JSON: writer. Equal neighbors become one entry with a count. */
#include <string.h>

#include "base/util.h"
#include "planner/format/layout.h"
#include "sched/format/format.h"

enum { NOMINAL_PERMILLE = 1000 };

static const struct dt_layer_field layer_fields[] = DT_LAYER_FIELDS;

static int64_t field_value(const struct detour_layer *layer, const struct dt_layer_field *field)
{
    return *(const int64_t *)((const char *)layer + field->offset);
}

static bool same_layer(const struct detour_layer *a, const struct detour_layer *b)
{
    bool same = !strcmp(a->type, b->type);

    for (size_t i = 0; same && i < DT_COUNT_OF(layer_fields); i++)
        same = field_value(a, &layer_fields[i]) == field_value(b, &layer_fields[i]);
    return same;
}

static void put_count(json_t **object, int32_t count)
{
    if (count > 1)
        dt_json_put(object, "count", json_integer(count));
}

/* Fields that are 0 by default are left out; the default of activation_w_bytes is activation_bytes. */
static json_t *make_layer(const struct detour_layer *layer, int32_t count)
{
    json_t *object = json_object();

    dt_json_put(&object, "type", json_string(layer->type));
    put_count(&object, count);
    for (size_t i = 0; i < DT_COUNT_OF(layer_fields); i++) {
        const struct dt_layer_field *field = &layer_fields[i];
        int64_t value = field_value(layer, field);
        bool is_held = field->offset == offsetof(struct detour_layer, activation_w_bytes);
        int64_t usual = is_held ? layer->activation_bytes : 0;
        if (field->required || value != usual)
            dt_json_put(&object, field->key, field->is_time ? dt_json_ms(value) : json_integer(value));
    }
    return object;
}

static json_t *make_layers(const struct detour_model *model)
{
    json_t *array = json_array();
    int32_t next;

    for (int32_t i = 0; i < model->layer_count; i = next) {
        next = i + 1;
        while (next < model->layer_count && same_layer(&model->layers[i], &model->layers[next]))
            next++;
        dt_json_append(&array, make_layer(&model->layers[i], next - i));
    }
    return array;
}

static json_t *make_device(const struct detour_model_device *device, int32_t count)
{
    json_t *object = json_object();

    put_count(&object, count);
    dt_json_put(&object, "capacity_bytes",
                device->capacity_bytes ? json_integer(device->capacity_bytes) : json_null());
    if (device->speed_permille != NOMINAL_PERMILLE)
        dt_json_put(&object, "speed", json_real((double)device->speed_permille / NOMINAL_PERMILLE));
    return object;
}

static json_t *make_devices(const struct detour_model *model)
{
    json_t *array = json_array();
    int32_t next;

    for (int32_t d = 0; d < model->device_count; d = next) {
        const struct detour_model_device *device = &model->devices[d];
        next = d + 1;
        while (next < model->device_count && device->capacity_bytes == model->devices[next].capacity_bytes &&
               device->speed_permille == model->devices[next].speed_permille)
            next++;
        dt_json_append(&array, make_device(device, next - d));
    }
    return array;
}

static void put_link(json_t **object, const struct detour_model_link *link)
{
    dt_json_put(object, "latency_ms", dt_json_ms(link->latency_ns));
    dt_json_put(object, "bytes_per_s", link->bytes_per_s ? json_integer(link->bytes_per_s) : json_null());
    dt_json_put(object, "overlap", json_boolean(!link->blocks_sender));
}

static bool same_link(const struct detour_model_link *a, const struct detour_model_link *b)
{
    return a->latency_ns == b->latency_ns && a->bytes_per_s == b->bytes_per_s &&
           a->blocks_sender == b->blocks_sender;
}

/* The link from device 0 to device 1 is the default, links that differ from it are exceptions. */
static json_t *make_links(const struct detour_model *model)
{
    const struct detour_model_link *usual = &model->links[1];
    json_t *object = json_object(), *except = json_array();
    int32_t count = model->device_count;

    put_link(&object, usual);
    for (int32_t i = 0; i < count * count; i++) {
        if (i / count == i % count || same_link(&model->links[i], usual))
            continue;
        json_t *entry = json_object();
        dt_json_put(&entry, "from", json_integer(i / count));
        dt_json_put(&entry, "to", json_integer(i % count));
        put_link(&entry, &model->links[i]);
        dt_json_append(&except, entry);
    }
    if (!except || json_array_size(except))
        dt_json_put(&object, "except", except);
    else
        json_decref(except);
    return object;
}

static json_t *make_fixed(const struct detour_partition *fixed)
{
    json_t *object = json_object(), *layers = json_array(), *placement = json_array();

    dt_json_put(&object, "stages", json_integer(fixed->stage_count));
    for (int32_t i = 0; fixed->first_layer && i < fixed->stage_count; i++)
        dt_json_append(&layers, json_integer(fixed->first_layer[i + 1] - fixed->first_layer[i]));
    for (int32_t i = 0; fixed->device && i < fixed->stage_count; i++)
        dt_json_append(&placement, json_integer(fixed->device[i]));
    if (fixed->first_layer)
        dt_json_put(&object, "layers", json_incref(layers));
    if (fixed->device)
        dt_json_put(&object, "placement", json_incref(placement));
    json_decref(layers);
    json_decref(placement);
    return object;
}

static json_t *make_replicas(const struct detour_model_replicas *replicas)
{
    json_t *object = json_object();

    dt_json_put(&object, "count", json_integer(replicas->count));
    dt_json_put(&object, "latency_ms", dt_json_ms(replicas->latency_ns));
    dt_json_put(&object, "bytes_per_s",
                replicas->bytes_per_s ? json_integer(replicas->bytes_per_s) : json_null());
    return object;
}

static json_t *model_json(const struct detour_model *model)
{
    json_t *object = json_object();

    dt_json_put(&object, "version", json_integer(1));
    dt_json_put(&object, "name", json_string(model->name));
    dt_json_put(&object, "microbatches", json_integer(model->microbatch_count));
    dt_json_put(&object, "layers", make_layers(model));
    dt_json_put(&object, "devices", make_devices(model));
    if (model->links && model->device_count > 1)
        dt_json_put(&object, "links", make_links(model));
    if (model->replicas.count > 1)
        dt_json_put(&object, "replicas", make_replicas(&model->replicas));
    if (model->fixed.stage_count)
        dt_json_put(&object, "fixed", make_fixed(&model->fixed));
    return object;
}

enum detour_status detour_model_to_json(struct detour_arena *arena, const struct detour_model *model,
                                        struct detour_text *text, struct detour_error *error)
{
    enum detour_status status = detour_model_check(model, error);
    struct dt_text made;

    if (status)
        return status;
    dt_text_init(&made);
    dt_text_add_json(&made, model_json(model), 2, 0);
    dt_text_add(&made, "\n");
    return dt_text_finish(arena, &made, text, error);
}
