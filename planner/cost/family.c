/* SPDX-License-Identifier: Apache-2.0 */
/* A model of a known family: detour_model_of_family(). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "planner/cost/architecture.h"
#include "sched/arena.h"
#include "sched/call.h"

enum { NOMINAL_PERMILLE = 1000, NS_PER_S = 1000000000 };

static const char *const family_names[DETOUR_FAMILY_COUNT] = {"gemma", "deepseek", "nemotron-h", "gpt"};
static const char *const size_names[DETOUR_MODEL_SIZE_COUNT] = {"small", "medium", "large"};
static const struct dt_gpu gpus[] = {DT_GPU_H800, DT_GPU_H100, DT_GPU_A100};

const char *detour_family_name(enum detour_family family)
{
    return (unsigned)family < DT_COUNT_OF(family_names) ? family_names[family] : NULL;
}

const char *detour_model_size_name(enum detour_model_size size)
{
    return (unsigned)size < DT_COUNT_OF(size_names) ? size_names[size] : NULL;
}

/* The position of a name; -1 if it is none of them. */
static int find_name(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i], name))
            return (int)i;
    return -1;
}

bool detour_family_find(const char *name, enum detour_family *family)
{
    int found = find_name(family_names, DT_COUNT_OF(family_names), name);

    if (found >= 0)
        *family = (enum detour_family)found;
    return found >= 0;
}

bool detour_model_size_find(const char *name, enum detour_model_size *size)
{
    int found = find_name(size_names, DT_COUNT_OF(size_names), name);

    if (found >= 0)
        *size = (enum detour_model_size)found;
    return found >= 0;
}

/* Replaces every default by its value, and refuses what is out of range. */
static enum detour_status complete(struct detour_family_options *o, struct detour_error *error)
{
    const struct {
        const char *name;
        int32_t *value;
        int32_t usual;
        int32_t max;
    } numbers[] = {
        {"sequence_tokens", &o->sequence_tokens, 2048, 1 << 20},
        {"batch_sequences", &o->batch_sequences, 1, 1024},
        {"microbatch_count", &o->microbatch_count, 16, DETOUR_MICROBATCHES_MAX},
        {"device_count", &o->device_count, 4, DETOUR_MODEL_DEVICES_MAX},
        {"tensor_parallel", &o->tensor_parallel, 1, 64},
        {"expert_parallel", &o->expert_parallel, 1, 64},
        {"data_parallel", &o->data_parallel, 1, 65536},
    };

    for (size_t i = 0; i < DT_COUNT_OF(numbers); i++) {
        *numbers[i].value = *numbers[i].value ? *numbers[i].value : numbers[i].usual;
        if (*numbers[i].value < 1 || *numbers[i].value > numbers[i].max)
            return dt_error_set(error, DETOUR_INVALID, "%s is %" PRId32 "; it must be from 1 to %" PRId32,
                                numbers[i].name, *numbers[i].value, numbers[i].max);
    }
    if (!detour_family_name(o->family) || !detour_model_size_name(o->size))
        return dt_error_set(error, DETOUR_INVALID, "no such family or size");
    o->gpu = o->gpu ? o->gpu : gpus[0].name;
    return DETOUR_OK;
}

static const struct dt_gpu *find_gpu(const char *name)
{
    for (size_t i = 0; i < DT_COUNT_OF(gpus); i++)
        if (!strcmp(gpus[i].name, name))
            return &gpus[i];
    return NULL;
}

/* Rounds what is not negative. */
static int64_t whole(double value)
{
    return (int64_t)(value + 0.5);
}

static struct detour_layer make_layer(const char *type, const struct dt_cost *cost, double message_bytes,
                                      int32_t data_parallel)
{
    return (struct detour_layer){
        .type = type,
        .f_ns = whole(cost->f_s * NS_PER_S),
        .b_ns = whole(cost->b_s * NS_PER_S),
        .w_ns = whole(cost->w_s * NS_PER_S),
        .parameter_bytes = whole(cost->parameters * DT_BYTES_PARAMETER),
        .gradient_bytes = whole(cost->parameters * DT_BYTES_GRADIENT),
        .optimizer_bytes = whole(cost->parameters * DT_BYTES_OPTIMIZER / data_parallel),
        .activation_bytes = whole(cost->activation_bytes),
        .activation_w_bytes = whole(cost->activation_w_bytes),
        .message_bytes = whole(message_bytes),
    };
}

static void fill_layers(struct detour_layer *layers, const struct dt_architecture *a,
                        const struct dt_workload *load, int32_t data_parallel)
{
    double message_bytes = DT_BYTES_VALUE * load->tokens * a->hidden / load->tensor;
    struct dt_cost cost = dt_embedding_cost(a, load);
    const char *type;

    layers[0] = make_layer("embedding", &cost, message_bytes, data_parallel);
    for (int i = 0; i < a->layers; i++) {
        cost = dt_layer_cost(a, load, i, &type);
        layers[1 + i] = make_layer(type, &cost, message_bytes, data_parallel);
    }
    cost = dt_head_cost(a, load);
    layers[1 + a->layers] = make_layer("head", &cost, 0, data_parallel);
}

static void fill_devices(struct detour_model_device *devices, struct detour_model_link *links, int32_t count,
                         const struct dt_gpu *gpu)
{
    for (int32_t d = 0; d < count; d++)
        devices[d] = (struct detour_model_device){whole(gpu->capacity_bytes), NOMINAL_PERMILLE};
    for (int32_t i = 0; i < count * count; i++)
        if (i / count != i % count)
            links[i] =
                (struct detour_model_link){.latency_ns = whole(DT_LINK_LATENCY_S * NS_PER_S),
                                           .bytes_per_s = whole(DT_SHARE_NETWORK * gpu->network_bytes_s)};
}

/* A name that holds what the times depend on. */
static char *make_name(struct detour_arena *arena, const struct detour_family_options *o)
{
    char *name = dt_arena_alloc(arena, DETOUR_MODEL_NAME_BYTES, 1);

    if (name)
        snprintf(name, DETOUR_MODEL_NAME_BYTES,
                 "%s-%s s%" PRId32 " b%" PRId32 " t%" PRId32 " e%" PRId32 " d%" PRId32 " %s",
                 family_names[o->family], size_names[o->size], o->sequence_tokens, o->batch_sequences,
                 o->tensor_parallel, o->expert_parallel, o->data_parallel, o->gpu);
    return name;
}

static enum detour_status build(struct detour_arena *arena, const struct detour_family_options *o,
                                const struct dt_gpu *gpu, struct detour_model **model,
                                struct detour_error *error)
{
    struct dt_architecture a = dt_architecture_of(o->family, o->size);
    struct dt_workload load = {.gpu = gpu,
                               .sequence = o->sequence_tokens,
                               .tokens = (double)o->sequence_tokens * o->batch_sequences,
                               .tensor = o->tensor_parallel,
                               .expert = o->expert_parallel};
    struct detour_layer *layers;
    struct detour_model_device *devices;
    struct detour_model_link *links;
    struct detour_model *made;
    char *name = make_name(arena, o);

    if (!name || !dt_arena_new(arena, made, 1) || !dt_arena_new(arena, layers, a.layers + 2) ||
        !dt_arena_new(arena, devices, o->device_count) ||
        !dt_arena_new(arena, links, o->device_count * o->device_count))
        return dt_fail_memory(error);
    fill_layers(layers, &a, &load, o->data_parallel);
    fill_devices(devices, links, o->device_count, gpu);
    *made = (struct detour_model){.name = name,
                                  .layer_count = a.layers + 2,
                                  .device_count = o->device_count,
                                  .microbatch_count = o->microbatch_count,
                                  .layers = layers,
                                  .devices = devices,
                                  .links = links};
    if (o->data_parallel > 1)
        made->replicas =
            (struct detour_model_replicas){.count = o->data_parallel,
                                           .latency_ns = whole(DT_LINK_LATENCY_S * NS_PER_S),
                                           .bytes_per_s = whole(DT_SHARE_NETWORK * gpu->network_bytes_s)};
    enum detour_status status = detour_model_check(made, error);
    if (!status)
        *model = made;
    return status;
}

enum detour_status detour_model_of_family(struct detour_arena *arena,
                                          const struct detour_family_options *options,
                                          struct detour_model **model, struct detour_error *error)
{
    struct detour_family_options o = *options;
    enum detour_status status = complete(&o, error);
    const struct dt_gpu *gpu = status ? NULL : find_gpu(o.gpu);

    if (status)
        return status;
    if (!gpu)
        return dt_error_set(error, DETOUR_INVALID, "no GPU '%s'; there are h800, h100 and a100", o.gpu);
    return build(arena, &o, gpu, model, error);
}
