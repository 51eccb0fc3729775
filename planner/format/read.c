/* SPDX-License-Identifier: Apache-2.0 */
/* The model as JSON: reader. */
#include <string.h>

#include "base/util.h"
#include "planner/format/layout.h"
#include "sched/arena.h"
#include "sched/call.h"
#include "sched/format/json_read.h"

static const char *const top_keys[] = {"version", "name",  "microbatches", "layers", "devices",
                                       "links",   "fixed", "replicas",     NULL};
static const char *const layer_keys[] = {"type",
                                         "count",
                                         "f_ms",
                                         "b_ms",
                                         "w_ms",
                                         "bw_ms",
                                         "parameter_bytes",
                                         "gradient_bytes",
                                         "optimizer_bytes",
                                         "activation_bytes",
                                         "activation_w_bytes",
                                         "message_bytes",
                                         NULL};
static const char *const device_keys[] = {"count", "capacity_bytes", "speed", NULL};
static const char *const links_keys[] = {"latency_ms", "bytes_per_s", "overlap", "except", NULL};
static const char *const except_keys[] = {"from", "to", "latency_ms", "bytes_per_s", "overlap", NULL};
static const char *const replicas_keys[] = {"count", "latency_ms", "bytes_per_s", NULL};
static const char *const fixed_keys[] = {"stages", "layers", "placement", NULL};
static const struct dt_layer_field layer_fields[] = DT_LAYER_FIELDS;

enum { NOMINAL_PERMILLE = 1000 };

/* The model under construction; the public struct has const pointers. */
struct draft {
    struct detour_arena *arena;
    struct detour_model *model;
    struct detour_layer *layers;
    struct detour_model_device *devices;
    struct detour_model_link *links;
};

static bool out_of_memory(const struct dt_json_at *at)
{
    at->reader->status = dt_fail_memory(at->reader->error);
    return false;
}

/* A name: a copy in the arena. */
static bool read_name(struct detour_arena *arena, const struct dt_json_at *at, const char **name)
{
    const char *text = json_string_value(at->value);
    size_t bytes = text ? json_string_length(at->value) : 0;
    char *copy;

    for (size_t i = 0; i < bytes; i++)
        if (text[i] < ' ' || text[i] > '~')
            bytes = 0;
    if (bytes < 1 || bytes >= DETOUR_MODEL_NAME_BYTES)
        return dt_json_fail(at, DETOUR_INVALID, "must be a string of 1 to %d printable ASCII characters",
                            DETOUR_MODEL_NAME_BYTES - 1);
    if (!dt_arena_new(arena, copy, bytes + 1))
        return out_of_memory(at);
    memcpy(copy, text, bytes);
    *name = copy;
    return true;
}

/* The member "count" of an entry for equal neighbors. */
static bool read_count(const struct dt_json_at *entry, int64_t max, int64_t *count)
{
    struct dt_json_at at = dt_json_optional(entry, "count");

    *count = 1;
    return !at.value || dt_json_int(&at, "a count", 1, max, count);
}

/* Adds up "count" of all entries, at least one, at most `max`. */
static bool add_counts(const struct dt_json_at *entries, const char *what, int64_t max, int32_t *total)
{
    size_t entry_count;
    int64_t count, sum = 0;

    if (!dt_json_array(entries, (size_t)max, &entry_count))
        return false;
    for (size_t i = 0; i < entry_count; i++) {
        struct dt_json_at entry = dt_json_element(entries, i);
        if (json_is_object(entry.value) && !read_count(&entry, max, &count))
            return false;
        sum += json_is_object(entry.value) ? count : 1;
    }
    if (sum < 1)
        return dt_json_fail(entries, DETOUR_INVALID, "is empty; there must be at least one %s", what);
    if (sum > max)
        return dt_json_fail(entries, DETOUR_LIMIT, "has %lld %ss; at most %lld are possible", (long long)sum,
                            what, (long long)max);
    *total = (int32_t)sum;
    return true;
}

static bool read_layer_field(const struct dt_json_at *at, const struct dt_layer_field *field,
                             struct detour_layer *layer)
{
    int64_t *value = (int64_t *)((char *)layer + field->offset);
    struct dt_json_at member = dt_json_optional(at, field->key);

    if (!member.value && !field->required)
        return true;
    if (!dt_json_member(at, field->key, &member))
        return false;
    return field->is_time ? dt_json_time(&member, DETOUR_TIME_MAX_NS, value)
                          : dt_json_int(&member, "a size in bytes", 0, DETOUR_BYTES_MAX, value);
}

/* `activation_w_bytes` defaults to `activation_bytes`: B is taken to release nothing. */
static bool read_layer(struct detour_arena *arena, const struct dt_json_at *at, struct detour_layer *layer)
{
    struct dt_json_at type;

    if (!dt_json_object(at, layer_keys) || !dt_json_member(at, "type", &type) ||
        !read_name(arena, &type, &layer->type))
        return false;
    for (size_t i = 0; i < DT_COUNT_OF(layer_fields); i++)
        if (!read_layer_field(at, &layer_fields[i], layer))
            return false;
    if (!dt_json_optional(at, "activation_w_bytes").value)
        layer->activation_w_bytes = layer->activation_bytes;
    return true;
}

static bool read_layers(const struct dt_json_at *root, struct draft *draft)
{
    struct dt_json_at entries;
    int32_t next = 0;
    int64_t count;

    if (!dt_json_member(root, "layers", &entries) ||
        !add_counts(&entries, "layer", DETOUR_LAYERS_MAX, &draft->model->layer_count))
        return false;
    if (!dt_arena_new(draft->arena, draft->layers, draft->model->layer_count))
        return out_of_memory(root);
    for (size_t i = 0; next < draft->model->layer_count; i++) {
        struct dt_json_at entry = dt_json_element(&entries, i);
        struct detour_layer layer = {0};
        if (!read_layer(draft->arena, &entry, &layer) || !read_count(&entry, DETOUR_LAYERS_MAX, &count))
            return false;
        while (count-- > 0)
            draft->layers[next++] = layer;
    }
    draft->model->layers = draft->layers;
    return true;
}

/* Of nominal: 0.001 to 1000. */
static bool read_speed(const struct dt_json_at *entry, int32_t *speed_permille)
{
    struct dt_json_at at = dt_json_optional(entry, "speed");
    double speed = at.value ? json_number_value(at.value) : 1;

    if ((at.value && !json_is_number(at.value)) || !(speed >= 0.001 && speed <= 1000))
        return dt_json_fail(&at, DETOUR_INVALID,
                            "must be a number from 0.001 to 1000: 0.5 takes twice the layers' times");
    *speed_permille = (int32_t)(speed * NOMINAL_PERMILLE + 0.5);
    return true;
}

static bool read_device(const struct dt_json_at *at, struct detour_model_device *device)
{
    struct dt_json_at capacity;

    if (!dt_json_object(at, device_keys))
        return false;
    capacity = dt_json_optional(at, "capacity_bytes");
    if (capacity.value && !json_is_null(capacity.value) &&
        !dt_json_int(&capacity, "a size in bytes (or null: no limit)", 1, INT64_MAX, &device->capacity_bytes))
        return false;
    return read_speed(at, &device->speed_permille);
}

static bool read_devices(const struct dt_json_at *root, struct draft *draft)
{
    struct dt_json_at entries;
    int32_t next = 0;
    int64_t count;

    if (!dt_json_member(root, "devices", &entries) ||
        !add_counts(&entries, "device", DETOUR_MODEL_DEVICES_MAX, &draft->model->device_count))
        return false;
    if (!dt_arena_new(draft->arena, draft->devices, draft->model->device_count))
        return out_of_memory(root);
    for (size_t i = 0; next < draft->model->device_count; i++) {
        struct dt_json_at entry = dt_json_element(&entries, i);
        struct detour_model_device device = {0};
        if (!read_device(&entry, &device) || !read_count(&entry, DETOUR_MODEL_DEVICES_MAX, &count))
            return false;
        while (count-- > 0)
            draft->devices[next++] = device;
    }
    draft->model->devices = draft->devices;
    return true;
}

/* What the entry names of a link; the rest of *link stays. */
static bool read_link(const struct dt_json_at *at, struct detour_model_link *link)
{
    struct dt_json_at bandwidth = dt_json_optional(at, "bytes_per_s");
    struct dt_json_at overlap = dt_json_optional(at, "overlap");
    bool overlaps = !link->blocks_sender;

    if (!dt_json_time_optional(at, "latency_ms", DETOUR_TIME_MAX_NS, &link->latency_ns))
        return false;
    if (json_is_null(bandwidth.value))
        link->bytes_per_s = 0;
    else if (bandwidth.value && !dt_json_int(&bandwidth, "a bandwidth in bytes/s (or null: no limit)", 1,
                                             DETOUR_BANDWIDTH_MAX, &link->bytes_per_s))
        return false;
    if (overlap.value && !dt_json_bool(&overlap, &overlaps))
        return false;
    link->blocks_sender = !overlaps;
    return true;
}

static bool read_replicas(const struct dt_json_at *root, struct draft *draft)
{
    struct dt_json_at replicas = dt_json_optional(root, "replicas"), at;
    struct detour_model_link link = {0};
    int64_t count;

    if (!replicas.value)
        return true;
    if (!dt_json_object(&replicas, replicas_keys) || !dt_json_member(&replicas, "count", &at) ||
        !dt_json_int(&at, "a count of replicas", 1, DETOUR_MODEL_REPLICAS_MAX, &count) ||
        !read_link(&replicas, &link))
        return false;
    if (count > 1)
        draft->model->replicas =
            (struct detour_model_replicas){(int32_t)count, link.latency_ns, link.bytes_per_s};
    return true;
}

static bool read_exception(const struct dt_json_at *at, struct draft *draft)
{
    int64_t count = draft->model->device_count, from, to;
    struct dt_json_at from_at, to_at;

    if (!dt_json_object(at, except_keys) || !dt_json_member(at, "from", &from_at) ||
        !dt_json_int(&from_at, "a device", 0, count - 1, &from) || !dt_json_member(at, "to", &to_at) ||
        !dt_json_int(&to_at, "a device", 0, count - 1, &to))
        return false;
    if (from == to)
        return dt_json_fail(&to_at, DETOUR_INVALID, "is the sending device; a link joins two devices");
    return read_link(at, &draft->links[from * count + to]);
}

static void fill_links(struct draft *draft, const struct detour_model_link *link)
{
    int32_t count = draft->model->device_count;

    for (int32_t from = 0; from < count; from++)
        for (int32_t to = 0; to < count; to++)
            if (from != to)
                draft->links[from * count + to] = *link;
}

static bool read_links(const struct dt_json_at *root, struct draft *draft)
{
    struct dt_json_at links = dt_json_optional(root, "links");
    size_t device_count = (size_t)draft->model->device_count, count;
    struct detour_model_link link = {0};
    struct dt_json_at except;

    if (!links.value)
        return true;
    if (!dt_json_object(&links, links_keys) || !read_link(&links, &link))
        return false;
    if (!dt_arena_new(draft->arena, draft->links, device_count * device_count))
        return out_of_memory(root);
    fill_links(draft, &link);
    draft->model->links = draft->links;
    except = dt_json_optional(&links, "except");
    if (!except.value)
        return true;
    if (!dt_json_array(&except, device_count * device_count, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct dt_json_at entry = dt_json_element(&except, i);
        if (!read_exception(&entry, draft))
            return false;
    }
    return true;
}

/* Layers of each stage: the file has their count, the model where each stage begins. */
static bool read_fixed_layers(const struct dt_json_at *layers, struct draft *draft, int32_t stage_count)
{
    int32_t *first_layer;
    int64_t count, sum = 0;

    if (!dt_json_array_of(layers, (size_t)stage_count, "one for each stage"))
        return false;
    if (!dt_arena_new(draft->arena, first_layer, stage_count + 1))
        return out_of_memory(layers);
    for (int32_t i = 0; i < stage_count; i++) {
        struct dt_json_at entry = dt_json_element(layers, (size_t)i);
        if (!dt_json_int(&entry, "a count of layers", 1, draft->model->layer_count, &count))
            return false;
        sum += count;
        first_layer[i + 1] = (int32_t)sum;
    }
    if (sum != draft->model->layer_count)
        return dt_json_fail(layers, DETOUR_INVALID, "adds up to %lld layers; the model has %d",
                            (long long)sum, (int)draft->model->layer_count);
    draft->model->fixed.first_layer = first_layer;
    return true;
}

static bool read_fixed_placement(const struct dt_json_at *placement, struct draft *draft, int32_t stage_count)
{
    int32_t *device;
    int64_t value;

    if (!dt_json_array_of(placement, (size_t)stage_count, "one device for each stage"))
        return false;
    if (!dt_arena_new(draft->arena, device, stage_count))
        return out_of_memory(placement);
    for (int32_t i = 0; i < stage_count; i++) {
        struct dt_json_at entry = dt_json_element(placement, (size_t)i);
        if (!dt_json_int(&entry, "a device", 0, draft->model->device_count - 1, &value))
            return false;
        device[i] = (int32_t)value;
    }
    draft->model->fixed.device = device;
    return true;
}

static bool read_fixed(const struct dt_json_at *root, struct draft *draft)
{
    struct dt_json_at fixed = dt_json_optional(root, "fixed");
    struct dt_json_at stages, layers, placement;
    int64_t stage_count;

    if (!fixed.value)
        return true;
    if (!dt_json_object(&fixed, fixed_keys) || !dt_json_member(&fixed, "stages", &stages) ||
        !dt_json_int(&stages, "a count of stages", draft->model->device_count, draft->model->layer_count,
                     &stage_count))
        return false;
    draft->model->fixed.stage_count = (int32_t)stage_count;
    layers = dt_json_optional(&fixed, "layers");
    placement = dt_json_optional(&fixed, "placement");
    return (!layers.value || read_fixed_layers(&layers, draft, (int32_t)stage_count)) &&
           (!placement.value || read_fixed_placement(&placement, draft, (int32_t)stage_count));
}

static bool read_model(const struct dt_json_at *root, struct draft *draft)
{
    struct dt_json_at at;
    int64_t microbatches;

    if (!dt_json_object(root, top_keys) || !dt_json_version(root) || !dt_json_member(root, "name", &at) ||
        !read_name(draft->arena, &at, &draft->model->name) || !dt_json_member(root, "microbatches", &at) ||
        !dt_json_int(&at, "a count of microbatches", 1, DETOUR_MICROBATCHES_MAX, &microbatches))
        return false;
    draft->model->microbatch_count = (int32_t)microbatches;
    if (!read_layers(root, draft) || !read_devices(root, draft))
        return false;
    if (draft->model->device_count > draft->model->layer_count) {
        at = dt_json_optional(root, "devices");
        return dt_json_fail(&at, DETOUR_INVALID, "has %d devices for %d layers; every device needs a layer",
                            (int)draft->model->device_count, (int)draft->model->layer_count);
    }
    return read_links(root, draft) && read_replicas(root, draft) && read_fixed(root, draft);
}

/* Conditions on several fields. */
static enum detour_status check_model(const struct dt_json_reader *reader, const struct detour_model *model)
{
    struct detour_error found = {0};
    enum detour_status status = detour_model_check(model, &found);

    if (status)
        dt_error_set(reader->error, status, "%s: %s", reader->name, found.text);
    return status;
}

enum detour_status detour_model_from_json(struct detour_arena *arena, const char *name, const char *text,
                                          size_t bytes, struct detour_model **model,
                                          struct detour_error *error)
{
    struct dt_json_reader reader = {.name = name, .error = error};
    struct draft draft = {.arena = arena};
    struct dt_json_at root;

    if (!dt_arena_new(arena, draft.model, 1))
        return dt_fail_memory(error);
    if (!dt_json_parse(&reader, text, bytes, &root))
        return reader.status;
    if (read_model(&root, &draft))
        reader.status = check_model(&reader, draft.model);
    json_decref((json_t *)root.value);
    if (reader.status == DETOUR_OK)
        *model = draft.model;
    return reader.status;
}
