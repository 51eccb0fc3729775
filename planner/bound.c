/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/bound.h"

#include <stdlib.h>
#include <string.h>

#include "planner/model.h"
#include "planner/packing.h"
#include "sched/arena.h"
#include "sched/call.h"
#include "sched/problem.h"

/* What every part of the bound needs. */
struct bounds {
    const struct dt_space *space;
    const struct detour_model *model;
    int32_t layer_count;
    int64_t count;                   /* microbatches */
    int32_t *speed;                  /* [device], permille, the fastest first */
    int64_t crossing_ns;             /* what any message takes at least */
    struct dt_packing_sizes *sorted; /* [layer], the heaviest first; `later` is B and W */
    int64_t capacity_bytes;          /* of the device with the most memory */
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Of nominal speed to the fastest device's, rounded down: a bound must not be above. */
static int64_t fast(const struct bounds *b, __int128 time_ns)
{
    __int128 scaled = time_ns * 1000 / b->speed[0];

    return scaled < DT_FOREVER ? (int64_t)scaled : DT_FOREVER;
}

static int compare_speeds(const void *left, const void *right)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;

    return a > b ? -1 : a < b;
}

static int compare_layers(const void *left, const void *right)
{
    const struct dt_packing_sizes *a = left, *b = right;

    return a->of[DT_PACKING_WORK] > b->of[DT_PACKING_WORK] ? -1
                                                           : a->of[DT_PACKING_WORK] < b->of[DT_PACKING_WORK];
}

/* The least time that any message takes from one device to another. */
static int64_t crossing_ns(const struct detour_model *model)
{
    int64_t least_ns = DT_FOREVER, bytes = INT64_MAX;

    for (int32_t l = 0; l + 1 < model->layer_count; l++)
        bytes = model->layers[l].message_bytes < bytes ? model->layers[l].message_bytes : bytes;
    for (int32_t a = 0; model->links && a < model->device_count; a++) {
        for (int32_t b = 0; b < model->device_count; b++) {
            struct detour_model_link link = dt_model_link(model, a, b);
            int64_t time_ns = link.latency_ns + dt_link_serial_ns(&link, bytes);
            least_ns = a != b && time_ns < least_ns ? time_ns : least_ns;
        }
    }
    return least_ns == DT_FOREVER ? 0 : least_ns;
}

/* The memory of the device that has the most. */
static int64_t most_bytes(const struct detour_model *model)
{
    int64_t most = 0;

    for (int32_t d = 0; d < model->device_count; d++) {
        if (!model->devices[d].capacity_bytes)
            return INT64_MAX;
        most = larger(most, model->devices[d].capacity_bytes);
    }
    return most;
}

static int64_t work_of(const struct bounds *b, int32_t layer)
{
    return b->space->work_ns[layer + 1] - b->space->work_ns[layer];
}

static int64_t last_w_ns(const struct bounds *b)
{
    const struct dt_space *s = b->space;

    return larger(0, s->work_ns[1] - s->f_ns[1] - s->b_ns[1]);
}

static int64_t chain_bound(const struct bounds *b)
{
    const struct dt_space *s = b->space;
    int32_t end = b->layer_count;

    return fast(b, (__int128)s->f_ns[end] + s->b_ns[end] + last_w_ns(b)) +
           2 * (b->model->device_count - 1) * b->crossing_ns;
}

static int64_t layer_bound(const struct bounds *b, int32_t *heaviest)
{
    const struct dt_space *s = b->space;
    int64_t most_ns = 0;

    for (int32_t l = 0; l < b->layer_count; l++) {
        int64_t f_ns = s->f_ns[l + 1] - s->f_ns[l], b_ns = s->b_ns[l + 1] - s->b_ns[l];
        /* Before the last layer every other device has been passed. */
        int64_t away_ns = l + 1 == b->layer_count ? (b->model->device_count - 1) * b->crossing_ns : 0;
        int64_t all_ns = away_ns + fast(b, s->f_ns[l] + (__int128)b->count * work_of(b, l));
        int64_t chain_ns = 2 * away_ns + fast(b, (__int128)s->f_ns[l] + s->b_ns[l] + last_w_ns(b) +
                                                     (__int128)b->count * (f_ns + b_ns));
        int64_t bound_ns = larger(all_ns, chain_ns);
        if (bound_ns > most_ns) {
            most_ns = bound_ns;
            *heaviest = l;
        }
    }
    return most_ns;
}

/* What the devices get done until T, in nanoseconds of nominal speed; device k begins and ends later by
 * these. */
static __int128 done_until(const struct bounds *b, int64_t end_ns, bool backwards_too)
{
    const struct dt_space *s = b->space;
    __int128 sum = 0;

    for (int32_t k = 0; k < b->model->device_count; k++) {
        int64_t away_ns = fast(b, s->f_ns[k]) + k * b->crossing_ns;
        if (backwards_too)
            away_ns += fast(b, s->b_ns[k] + last_w_ns(b)) + k * b->crossing_ns;
        if (end_ns > away_ns)
            sum += (__int128)(end_ns - away_ns) * b->speed[k] / 1000 + 1;
    }
    return sum;
}

/* The least T by which the devices can have done `work_ns`. */
static int64_t time_for(const struct bounds *b, __int128 work_ns, bool backwards_too)
{
    int64_t low_ns = 0, high_ns = DT_FOREVER;

    while (low_ns < high_ns) {
        int64_t middle_ns = low_ns + (high_ns - low_ns) / 2;
        if (done_until(b, middle_ns, backwards_too) >= work_ns)
            high_ns = middle_ns;
        else
            low_ns = middle_ns + 1;
    }
    return low_ns;
}

/* With the exchange between replicas: of the heaviest layer's device, and of all. */
static int64_t exchange_bound(const struct bounds *b, const struct detour_model_bound *bound)
{
    const struct detour_model_replicas *replicas = &b->model->replicas;
    const struct dt_space *s = b->space;
    int32_t end = b->layer_count, l = bound->heaviest_layer, slowest = b->speed[b->model->device_count - 1];
    __int128 all_ns = (__int128)dt_exchange_ns(replicas, s->exchange_bytes[end]) * slowest / 1000;
    int64_t layer_ns = fast(b, s->f_ns[l] + (__int128)b->count * work_of(b, l));

    layer_ns += dt_exchange_ns(replicas, s->exchange_bytes[l + 1] - s->exchange_bytes[l]);
    return larger(layer_ns, time_for(b, all_ns + (__int128)b->count * s->work_ns[end], false));
}

static int64_t work_bound(const struct bounds *b)
{
    const struct dt_space *s = b->space;
    int32_t end = b->layer_count;
    __int128 all = (__int128)b->count * s->work_ns[end];
    __int128 chain = (__int128)b->count * (s->f_ns[end] + s->b_ns[end]);

    return larger(time_for(b, all, false), time_for(b, chain, true));
}

static struct dt_packing_sizes sizes_of(const struct bounds *b, int32_t layer)
{
    const struct dt_space *s = b->space;
    int64_t bytes = s->static_bytes[layer + 1] - s->static_bytes[layer] + s->activation_bytes[layer + 1] -
                    s->activation_bytes[layer]; /* with one microbatch, which the device's last stage needs */

    return (struct dt_packing_sizes){
        {work_of(b, layer), work_of(b, layer) - (s->f_ns[layer + 1] - s->f_ns[layer]), bytes}};
}

/* Of the m P + 1 heaviest layers, m + 1 are on one device. */
static int64_t pigeonhole_bound(const struct bounds *b)
{
    int32_t devices = b->model->device_count;
    __int128 most_ns = 0;

    for (int32_t m = 1; m * devices < b->layer_count; m++) {
        __int128 sum_ns = 0; /* the m + 1 lightest of the m P + 1 heaviest */
        for (int32_t k = m * devices - m; k <= m * devices; k++)
            sum_ns += b->sorted[k].of[DT_PACKING_WORK];
        most_ns = sum_ns > most_ns ? sum_ns : most_ns;
    }
    return fast(b, b->count * most_ns);
}

/* The nominal time that `time_ns` has for each microbatch at the speed of the fastest. */
static int64_t nominal(const struct bounds *b, int64_t time_ns)
{
    __int128 nominal_ns = ((__int128)time_ns + 1) * b->speed[0] / 1000 / b->count;

    if (time_ns < 0)
        return -1;
    return nominal_ns < DT_FOREVER ? (int64_t)nominal_ns : DT_FOREVER;
}

/* What the k-th device can do by `end_ns`, from when it can begin. */
static struct dt_packing_sizes bin_of(const struct bounds *b, int32_t k, int64_t end_ns)
{
    int64_t left_ns = nominal(b, end_ns - fast(b, b->space->f_ns[k]) - k * b->crossing_ns);

    return (struct dt_packing_sizes){{left_ns, left_ns, b->capacity_bytes}};
}

/* Whether the layers can be packed so that every device, from when it can begin, is done by `end_ns`. */
static bool packs_until(const struct bounds *b, struct dt_packing *packing, int64_t end_ns)
{
    struct dt_packing_sizes bins[DETOUR_MODEL_DEVICES_MAX];

    for (int32_t k = 0; k < b->model->device_count; k++)
        bins[k] = bin_of(b, k, end_ns);
    return dt_packing_fits(packing, bins, b->model->device_count);
}

/*
 * The same for all layers but the heaviest, which has a device to begin with. Before its first F, that device
 * can do nothing but the F of other layers: a B or W needs the F of all layers, and later layers need it,
 * too.
 */
static bool packs_beside(const struct bounds *b, struct dt_packing *packing, int32_t heaviest, int64_t end_ns)
{
    struct dt_packing_sizes bins[DETOUR_MODEL_DEVICES_MAX];
    int32_t devices = b->model->device_count;
    int64_t away_ns = heaviest + 1 == b->layer_count ? (devices - 1) * b->crossing_ns : 0;
    int64_t begin_ns = fast(b, b->space->f_ns[heaviest]) + away_ns;
    struct dt_packing_sizes layer = sizes_of(b, heaviest);

    for (int32_t k = 0; k + 1 < devices; k++)
        bins[k] = bin_of(b, k, end_ns);
    bins[devices - 1] =
        (struct dt_packing_sizes){{nominal(b, end_ns), nominal(b, end_ns - begin_ns), b->capacity_bytes}};
    layer.of[DT_PACKING_LATER] = layer.of[DT_PACKING_WORK]; /* its own F has to wait, too */
    for (int i = 0; i < DT_PACKING_LIMITS; i++) {
        bins[devices - 1].of[i] -= layer.of[i];
        if (bins[devices - 1].of[i] < 0)
            return false;
    }
    return dt_packing_fits(packing, bins, devices);
}

/* All layers but the heaviest, or one with the same times. */
static enum detour_status pack_others(struct detour_arena *arena, const struct bounds *b, int32_t heaviest,
                                      struct dt_packing *packing, struct detour_error *error)
{
    struct dt_packing_sizes *others, without = sizes_of(b, heaviest);
    int32_t kept = 0;
    bool skipped = false;

    if (!dt_arena_new(arena, others, b->layer_count))
        return dt_fail_memory(error);
    for (int32_t k = 0; k < b->layer_count; k++) {
        if (skipped || memcmp(&b->sorted[k], &without, sizeof without) != 0)
            others[kept++] = b->sorted[k];
        else
            skipped = true;
    }
    return dt_packing_create(arena, others, kept, packing, error);
}

/* By bisection up to twice what is known, to one part in 2000. */
static enum detour_status packing_bound(struct detour_arena *arena, const struct bounds *b, int64_t known_ns,
                                        int32_t heaviest, int64_t *bound_ns, struct detour_error *error)
{
    struct dt_packing all, others;
    int64_t low_ns = larger(known_ns, pigeonhole_bound(b)), high_ns = 2 * low_ns;
    enum detour_status status = dt_packing_create(arena, b->sorted, b->layer_count, &all, error);

    if (!status)
        status = pack_others(arena, b, heaviest, &others, error);
    *bound_ns = pigeonhole_bound(b);
    while (!status && high_ns - low_ns > low_ns / 2000 + 1) {
        int64_t middle_ns = low_ns + (high_ns - low_ns) / 2;
        if (packs_until(b, &all, middle_ns) && packs_beside(b, &others, heaviest, middle_ns)) {
            high_ns = middle_ns;
        } else {
            low_ns = middle_ns + 1;
            *bound_ns = low_ns;
        }
    }
    return status;
}

/* 0 unless every device has a limit. *over_bytes: what the model needs beyond all devices together. */
static int64_t memory_bound(const struct bounds *b, int64_t *over_bytes)
{
    const struct dt_space *s = b->space;
    int32_t end = b->layer_count;
    __int128 free_bytes = -(__int128)s->static_bytes[end];
    double held = 0;

    *over_bytes = 0;
    for (int32_t d = 0; d < b->model->device_count; d++) {
        if (!b->model->devices[d].capacity_bytes)
            return 0;
        free_bytes += b->model->devices[d].capacity_bytes;
    }
    __int128 missing = s->activation_bytes[end] - free_bytes;
    if (missing > 0) {
        *over_bytes = missing < INT64_MAX ? (int64_t)missing : INT64_MAX;
        return 0;
    }
    for (int32_t l = 0; l < end; l++) {
        int64_t held_ns = fast(b, (__int128)s->f_ns[end] - s->f_ns[l] + s->b_ns[end] - s->b_ns[l]);
        held += (double)(s->activation_bytes[l + 1] - s->activation_bytes[l]) * (double)held_ns;
    }
    /* Less a part in a million for the rounding of doubles. */
    double bound = held > 0 ? held / (double)free_bytes * (double)b->count * (1 - 1e-6) : 0;
    return bound < (double)DT_FOREVER ? (int64_t)bound : DT_FOREVER;
}

static bool prepare(struct detour_arena *arena, struct bounds *b)
{
    if (!dt_arena_new(arena, b->speed, b->model->device_count) ||
        !dt_arena_new(arena, b->sorted, b->layer_count))
        return false;
    for (int32_t d = 0; d < b->model->device_count; d++)
        b->speed[d] = b->model->devices[d].speed_permille;
    for (int32_t l = 0; l < b->layer_count; l++)
        b->sorted[l] = sizes_of(b, l);
    qsort(b->speed, (size_t)b->model->device_count, sizeof(*b->speed), compare_speeds);
    qsort(b->sorted, (size_t)b->layer_count, sizeof(*b->sorted), compare_layers);
    b->capacity_bytes = most_bytes(b->model);
    b->crossing_ns = crossing_ns(b->model);
    return true;
}

enum detour_status dt_model_bound(struct detour_arena *arena, const struct dt_space *space,
                                  struct detour_model_bound *bound, struct detour_error *error)
{
    struct dt_arena_mark mark = dt_arena_save(arena);
    struct bounds b = {.space = space,
                       .model = space->model,
                       .layer_count = space->model->layer_count,
                       .count = space->model->microbatch_count};

    if (!prepare(arena, &b))
        return dt_fail_memory(error);
    *bound = (struct detour_model_bound){.chain_ns = chain_bound(&b), .work_ns = work_bound(&b)};
    bound->layer_ns = layer_bound(&b, &bound->heaviest_layer);
    bound->memory_ns = memory_bound(&b, &bound->over_bytes);
    bound->makespan_ns =
        larger(larger(bound->chain_ns, bound->work_ns), larger(bound->layer_ns, bound->memory_ns));
    enum detour_status status =
        packing_bound(arena, &b, bound->makespan_ns, bound->heaviest_layer, &bound->packing_ns, error);
    bound->makespan_ns = larger(bound->makespan_ns, bound->packing_ns);
    bound->iteration_ns = larger(bound->makespan_ns, exchange_bound(&b, bound));
    dt_arena_rewind(arena, mark);
    return status;
}
