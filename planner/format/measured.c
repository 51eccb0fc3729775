/* SPDX-License-Identifier: Apache-2.0 */
/* A model from measured times: turned into a model file, which the strict reader then reads. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "detour/model.h"
#include "sched/call.h"
#include "sched/format/format.h"

enum { SAMPLES_MAX = 65536 };

/* Bytes for each parameter: bfloat16, a gradient in float32, Adam's moments and a master copy in float32. */
enum { PARAMETER_BYTES = 2, GRADIENT_BYTES = 4, OPTIMIZER_BYTES = 12 };

static const char *const times[] = {"f_ms", "b_ms", "w_ms", "bw_ms"};

static bool out_of_memory(const struct dt_json_at *at)
{
    at->reader->status = dt_fail_memory(at->reader->error);
    return false;
}

/* Replaces a member of a layer and drops what was there. */
static bool set(const struct dt_json_at *layer, const char *key, json_t *value)
{
    return json_object_set_new((json_t *)layer->value, key, value) == 0 || out_of_memory(layer);
}

static int compare_samples(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return a < b ? -1 : a > b;
}

/* Replaces an array of samples by its median. */
static bool take_median(struct detour_arena *arena, const struct dt_json_at *layer, const char *key)
{
    struct dt_json_at at = dt_json_optional(layer, key);
    double *samples;
    size_t count;

    if (!json_is_array(at.value))
        return true;
    if (!dt_json_array(&at, SAMPLES_MAX, &count))
        return false;
    if (count == 0)
        return dt_json_fail(&at, DETOUR_INVALID, "is empty; there must be at least one sample");
    if (!dt_arena_new(arena, samples, count))
        return out_of_memory(layer);
    for (size_t i = 0; i < count; i++) {
        struct dt_json_at sample = dt_json_element(&at, i);
        int64_t time_ns;
        if (!dt_json_time(&sample, DETOUR_TIME_MAX_NS, &time_ns))
            return false;
        samples[i] = json_number_value(sample.value);
    }
    qsort(samples, count, sizeof(*samples), compare_samples);
    return set(layer, key, json_real((samples[(count - 1) / 2] + samples[count / 2]) / 2));
}

/* B and W where only both together were measured: PyTorch does not split them by default. */
static bool split_backward(const struct dt_json_at *layer)
{
    double f_ms = json_number_value(dt_json_optional(layer, "f_ms").value);
    struct dt_json_at both = dt_json_optional(layer, "bw_ms");
    int64_t both_ns;

    if (!both.value || dt_json_optional(layer, "b_ms").value || dt_json_optional(layer, "w_ms").value)
        return true;
    if (!dt_json_time(&both, DETOUR_TIME_MAX_NS, &both_ns))
        return false;
    double both_ms = json_number_value(both.value), w_ms = f_ms < both_ms / 2 ? f_ms : both_ms / 2;

    return set(layer, "b_ms", json_real(both_ms - w_ms)) && set(layer, "w_ms", json_real(w_ms));
}

static bool count_parameters(const struct dt_json_at *layer)
{
    const struct {
        const char *key;
        int bytes;
    } sizes[] = {{"parameter_bytes", PARAMETER_BYTES},
                 {"gradient_bytes", GRADIENT_BYTES},
                 {"optimizer_bytes", OPTIMIZER_BYTES}};
    struct dt_json_at at = dt_json_optional(layer, "parameters");
    int64_t count;

    if (!at.value)
        return true;
    if (!dt_json_int(&at, "a number of parameters", 0, DETOUR_BYTES_MAX / OPTIMIZER_BYTES, &count))
        return false;
    for (size_t i = 0; i < DT_COUNT_OF(sizes); i++)
        if (!dt_json_optional(layer, sizes[i].key).value &&
            !set(layer, sizes[i].key, json_integer(count * sizes[i].bytes)))
            return false;
    return json_object_del((json_t *)layer->value, "parameters") == 0;
}

static bool convert_layers(struct detour_arena *arena, const struct dt_json_at *root)
{
    struct dt_json_at layers = dt_json_optional(root, "layers");

    for (size_t i = 0; i < json_array_size(layers.value); i++) {
        struct dt_json_at layer = dt_json_element(&layers, i);
        if (!json_is_object(layer.value))
            continue; /* the strict reader refuses it */
        for (size_t k = 0; k < DT_COUNT_OF(times); k++)
            if (!take_median(arena, &layer, times[k]))
                return false;
        if (!split_backward(&layer) || !count_parameters(&layer))
            return false;
    }
    return true;
}

static json_t *make_devices(const struct detour_measured_options *options)
{
    json_t *array = json_array(), *device = json_object();

    dt_json_put(&device, "count", json_integer(options->device_count));
    if (options->capacity_bytes)
        dt_json_put(&device, "capacity_bytes", json_integer(options->capacity_bytes));
    dt_json_append(&array, device);
    return array;
}

static json_t *make_links(const struct detour_measured_options *options)
{
    json_t *links = json_object();

    dt_json_put(&links, "latency_ms", dt_json_ms(options->latency_ns));
    if (options->bytes_per_s)
        dt_json_put(&links, "bytes_per_s", json_integer(options->bytes_per_s));
    return links;
}

static bool complete(const struct dt_json_at *root, const struct detour_measured_options *options)
{
    if (options->microbatch_count && !dt_json_optional(root, "microbatches").value &&
        !set(root, "microbatches", json_integer(options->microbatch_count)))
        return false;
    if (options->device_count && !dt_json_optional(root, "devices").value &&
        !set(root, "devices", make_devices(options)))
        return false;
    return dt_json_optional(root, "links").value || set(root, "links", make_links(options));
}

/* Reads the converted document; its paths are those of the input. */
static enum detour_status read_converted(struct detour_arena *arena, const char *name, json_t *root,
                                         struct detour_model **model, struct detour_error *error)
{
    enum detour_status status = DETOUR_NO_MEMORY;
    struct dt_text text;

    dt_text_init(&text);
    dt_text_add_json(&text, json_incref(root), 0, 0);
    if (text.failed)
        dt_fail_memory(error);
    else
        status = detour_model_from_json(arena, name, text.data, text.bytes, model, error);
    dt_text_destroy(&text);
    return status;
}

enum detour_status detour_model_from_measured(struct detour_arena *arena,
                                              const struct detour_measured_options *options, const char *name,
                                              const char *text, size_t bytes, struct detour_model **model,
                                              struct detour_error *error)
{
    struct dt_json_reader reader = {.name = name, .error = error};
    struct dt_json_at root;

    if (!dt_json_parse(&reader, text, bytes, &root))
        return reader.status;
    if (!json_is_object(root.value))
        dt_json_fail(&root, DETOUR_SYNTAX, "is not an object");
    else if (convert_layers(arena, &root) && complete(&root, options))
        reader.status = read_converted(arena, name, (json_t *)root.value, model, error);
    json_decref((json_t *)root.value);
    return reader.status;
}
